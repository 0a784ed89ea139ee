//! Remote write: turns the wanted rows of a store into requests for a receiver, and sends them.
//!
//! - [`Feed`] reads the store node by node, and makes requests of what is new.
//! - `node.rs` knows how far a node was sent, and which of its series a receiver believes to be alive.
//! - `holes.rs` says which rows are missing so far, and waits for them.
//! - `seconds.rs` chooses rows and rounds their times; `exposed.rs` and [`Rules`] say what a series is called.
//! - `recorded.rs` is the same for a group of rules, whose results travel as they are.
//! - [`Parcel`] is a request as it travels; one that is too large can be halved.
//! - [`Sender`] sends requests through a [`Receiver`], again and again where that helps, while the next one is made.
//! - [`Cursors`] remembers on the disk how far each node was sent.

mod counts;
mod cursors;
mod exposed;
mod feed;
mod holes;
mod node;
mod pace;
mod parcel;
mod recorded;
mod request;
mod rules;
mod seconds;
mod sender;

pub use counts::Counts;
pub use cursors::{CursorError, Cursors};
pub use feed::{Feed, Pass, Settings};
pub use parcel::Parcel;
pub use request::Request;
pub use rules::{Action, Rule, RuleError, Rules};
pub use sender::{Answer, REQUESTS_AT_ONCE, Receiver, Sender, Topic, World};
