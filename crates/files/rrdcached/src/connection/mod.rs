//! Clients: sockets ([`listen`]) and their threads ([`serve`]), the text protocol ([`session`]), its commands and their
//! answers.

mod answers;
mod batch;
mod commands;
mod create;
mod execute;
mod fetch;
pub mod listen;
pub mod serve;
mod session;

pub use commands::Permissions;
pub use session::{Next, Rules, Session};
