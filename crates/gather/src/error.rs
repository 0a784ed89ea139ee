//! Why an agent could not be started.

use std::path::PathBuf;

use khz_model::Rate;

/// Why an agent could not be started.
#[derive(Debug, thiserror::Error)]
pub enum GatherError {
    /// No source of the plan can be read below the root.
    #[error("nothing can be read below {root}: {problem}; is /proc mounted there?")]
    NothingToRead {
        /// The root.
        root: PathBuf,
        /// What the first source said.
        problem: String,
    },
    /// The plan has no sources.
    #[error("no source is switched on; name at least one, as stat")]
    NoSources,
    /// A rate of the plan is above its ceiling.
    #[error("{what} is {rate}, above the ceiling of {ceiling}; lower it or raise rate_max")]
    AboveCeiling {
        /// Which rate.
        what: String,
        /// The rate.
        rate: Rate,
        /// The ceiling.
        ceiling: Rate,
    },
    /// This machine counts CPU time in other ticks.
    #[error("this kernel counts CPU time {hz} times a second (USER_HZ); only 100 is supported")]
    UserHz {
        /// What sysconf(_SC_CLK_TCK) says.
        hz: u64,
    },
    /// The rings cannot be had.
    #[error(transparent)]
    Ring(#[from] khz_ring::RingError),
    /// The gather thread may not run as asked.
    #[error(transparent)]
    Placement(#[from] crate::placement::PlacementError),
    /// The thread or its bell could not be made.
    #[error("cannot start the gather thread: {0}")]
    Thread(#[source] std::io::Error),
}
