//! Simulated nodes, as many as a large cluster has. Each plays a recorded workload over its own connection,
//! with the state machine of a real agent. The same seed gives the same rows. This crate gathers nothing and
//! stores no rows: it makes the contents of a ring from the recording when a hub asks for them. Only nodes with faults write theirs.

#![forbid(unsafe_code)]

mod ailing_ring;
mod alone;
mod chance;
mod channels;
mod clock;
mod crowd;
mod error;
mod faults;
mod files;
mod job;
mod lanes;
mod library;
mod made_ring;
mod node;
mod packed;
mod played;
mod recording;
mod reel;
mod report;
mod ring;
mod variation;
mod wire;

pub use alone::{Said, said};
pub use chance::number as chance;
pub use crowd::{Crowd, NODES_MAX, Settings};
pub use error::SimulateError;
pub use faults::{Fault, FaultEnd, FaultKind, Faults, Moment, Symptoms};
pub use job::Job;
pub use library::Library;
pub use recording::Recording;
pub use reel::Reel;
pub use report::{LATE, Report};
pub use variation::Variation;
pub use wire::Tls;
