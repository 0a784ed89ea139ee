//! Rows from a hub as readings, for programs that follow nodes: the mount, the client library, a hub above.
//!
//! [`Subscriber`] connects to a hub and subscribes there. [`Follower`] receives what the link delivers, on the link's
//! thread: it decodes schemas, knows the lanes of the present connection and the subscription that each one serves, and
//! calls a [`Reader`]. A reader gets a [`Row`] of a [`Lane`] and keeps what it likes in [`Lane::data`].
//!
//! It keeps no rows, starts no thread and asks for no row that was missed: a follower takes rows from now on. A recorder,
//! which wants missed rows and whole blocks, implements [`khz_link::LaneSink`] itself.

#![forbid(unsafe_code)]

mod follower;
mod lane;
mod reader;
mod row;
mod subscriber;
mod subscriptions;

pub use follower::Follower;
pub use lane::{Lane, Lanes};
pub use reader::{Defined, Reader};
pub use row::Row;
pub use subscriber::Subscriber;
pub use subscriptions::Subscriptions;
