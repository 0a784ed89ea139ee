//! Jobs of a batch system: which nodes worked for whom, from when to when. Owns the list of them and its log, which survives restarts,
//! `kill -9` and a full disk. Asks no batch system, follows no rows, and changes no stored series: who wants the numbers of a job asks for
//! those of its nodes in its time.
//!
//! Start with two types:
//!
//! - [`Job`] is one run of a job.
//! - [`Jobs`] is the list: [`Jobs::start`] and [`Jobs::end`] change it, and what they have acknowledged is on the disk.
//!   [`Jobs::last`], [`Jobs::find`] and [`Jobs::runs`] read it.
//!
//! [`pattern`] reads `job(4711):cpu.*`. Times are milliseconds since 1970, and are passed in: the crate knows no clock.

#![forbid(unsafe_code)]

mod change;
mod error;
mod id;
mod job;
mod jobs;
pub mod limits;
mod list;
mod log;
pub mod pattern;
mod seen;

pub use change::{End, Start};
pub use error::JobError;
pub use id::check_id;
pub use job::{Job, Source, Viewer};
pub use jobs::{Jobs, Wanted};
pub use log::replayed;
pub use seen::Seen;
