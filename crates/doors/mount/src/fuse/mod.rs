//! The kernel's side: its requests, those that wait, and the threads that do errands and push.

mod attributes;
pub(crate) mod errands;
pub(crate) mod filesystem;
mod interrupted;
pub(crate) mod pusher;
mod requests;
pub(crate) mod shared;
