//! The library for programs that read a cluster watched by Kilohertz.
//!
//! [`Client`] sends requests and subscriptions to a khz, on this machine or at a hub: the latest values, or
//! values as they come, at a rate and under a condition: by an iterator, a stream, or calls of a function
//! ([`Callback`]). The latest values of this machine's own node it reads from shared memory. [`Page`] reads
//! them from shared memory directly, in tens of nanoseconds and without a request. [`Mirror`] keeps the same
//! for other nodes. Values are exact: integers with decimal places.

#![forbid(unsafe_code)]

pub mod access;
mod callback;
mod client;
pub mod condition;
mod event;
mod mirror;
pub mod near;
mod own;
mod page;
pub mod place;
mod queue;
mod router;

pub use access::{Access, AccessError};
pub use callback::Callback;
pub use client::{Client, ClientError, Selection, Subscription};
pub use condition::{Amount, Condition, Gate};
pub use event::{Event, Value};
pub use khz_ring::survive_truncation;
pub use mirror::{MIRRORED_NODES_MAX, Mirror, MirrorSettings};
pub use page::Page;
pub use queue::EVENTS_MAX;
