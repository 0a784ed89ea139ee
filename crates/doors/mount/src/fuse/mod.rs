//! The kernel's side: its requests, those that wait, and the thread that pushes.

mod attributes;
pub(crate) mod filesystem;
mod interrupted;
pub(crate) mod pusher;
mod requests;
pub(crate) mod shared;
