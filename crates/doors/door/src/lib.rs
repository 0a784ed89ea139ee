//! What all doors for readers share: bound sockets, TLS, the caller's place and role, a limit of connections,
//! time limits for slow callers, and counts. This crate knows no protocol.

#![deny(unsafe_code)]

pub mod access;
pub mod connections;
pub mod counts;
pub mod descriptors;
pub mod entrance;
pub mod heap;
pub mod listeners;
pub mod local;
pub mod reception;
pub mod stall;
pub mod tide;

pub use access::{Access, AccessError, Caller, Origin};
pub use connections::{Admission, Busy, Connection, Connections};
pub use counts::Held;
pub use entrance::{Accepted, Entered, Sealed, Socket, Turned, Way, enter};
pub use listeners::{DoorError, Listeners, listen};
pub use local::{LocalSocket, LocalSocketError};
pub use reception::{Coming, Failures, admit, receive_all};
pub use stall::Stalling;
pub use tide::Tide;
