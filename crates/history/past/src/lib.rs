//! The past of nodes as samples for PromQL: what a store or a running khz remembers of its series, with the names, labels and
//! values of `/metrics`. [`PastSource`] answers; staleness is computed here, while reading, so a gap that is filled later
//! heals. [`events()`] says what happened to a node. Evaluates nothing, and knows no clock.

#![forbid(unsafe_code)]

mod chosen;
mod clock;
mod earlier;
mod events;
mod feed;
mod history;
mod interval;
mod labelled;
mod limits;
mod listing;
mod nodes;
mod rows;
mod source;
mod strand;
mod unclear;
mod values;

pub use events::{Event, EventKind, Events, events};
pub use nodes::{Known, Roster};
pub use source::{AnyQuery, PastSource};
