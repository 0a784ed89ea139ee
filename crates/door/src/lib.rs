//! What every door for readers shares: bound sockets, TLS, who is at the other end and what he may do, a place for
//! each connection, patience with slow ones, and counts. It refuses to know what is spoken.

#![deny(unsafe_code)]

pub mod access;
pub mod connections;
pub mod counts;
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
