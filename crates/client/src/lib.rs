//! The library for programs that read a cluster watched by Kilohertz.
//!
//! [`Client`] asks a khz, on this machine or a hub: values now, or as they come, at a rate and under a condition. What it
//! wants to know of this machine's own node now it reads out of shared memory.
//! [`Page`] reads the latest values of this machine out of shared memory, in tens of nanoseconds, without asking
//! anybody; [`Mirror`] keeps the same of other nodes. Values are exact: integers with decimal places.

#![deny(unsafe_code)]

pub mod access;
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
pub use client::{Client, ClientError, Subscription, Want};
pub use condition::{Amount, Condition, Gate};
pub use event::{Event, Value};
pub use khz_ring::survive_truncation;
pub use mirror::{MIRRORED_NODES_MAX, Mirror, MirrorWant};
pub use page::Page;
pub use queue::EVENTS_MAX;
