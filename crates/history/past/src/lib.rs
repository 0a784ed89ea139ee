//! The past of nodes as samples for PromQL: the remembered series of a store or a running khz, with the names, labels and values of
//! `/metrics`. [`PastSource`] answers; staleness is computed here, while reading, so a gap that is filled later heals. [`events()`]
//! lists the events of a node. It evaluates nothing, and reads no clock.

#![forbid(unsafe_code)]

mod chosen;
mod clock;
mod earlier;
mod events;
mod feed;
mod history;
mod interval;
mod joined;
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
pub use joined::{JOB_ID, JOB_INFO, JobJoin};
pub use nodes::{Known, Roster};
pub use source::{AnyQuery, PastSource};
