//! Made-up nodes, as many as a cluster has: each plays a recorded workload over a connection of its own, with the
//! state machine of a real agent. The same seed plays the same rows. It gathers nothing and keeps no rows: rings are
//! made of the recording when somebody asks for them.

#![forbid(unsafe_code)]

mod alone;
mod chance;
mod clock;
mod crowd;
mod error;
mod files;
mod lanes;
mod library;
mod node;
mod packed;
mod recording;
mod reel;
mod report;
mod ring;
mod variation;
mod wire;

pub use alone::{Said, said};
pub use crowd::{Crowd, NODES_MAX, Settings};
pub use error::SimulateError;
pub use library::Library;
pub use recording::Recording;
pub use reel::Reel;
pub use report::{LATE, Report};
pub use wire::Tls;
