//! The reasons why an agent cannot start.

use std::path::PathBuf;

use khz_model::Rate;

/// The reason why an agent cannot start.
#[derive(Debug, thiserror::Error)]
pub enum GatherError {
    /// No source of the plan can be read below the root.
    #[error("nothing can be read below {root}: {problem}; is /proc mounted there?")]
    NothingToRead {
        /// The root.
        root: PathBuf,
        /// The problem of the first source that has one.
        problem: String,
    },
    /// The plan has no sources.
    #[error("no source is switched on: name at least one, for example stat")]
    NoSources,
    /// The plan has more sources than fit.
    #[error(
        "{count} sources are switched on, and at most {max} fit: describe fewer of your own ([sources.NAME] with path)"
    )]
    TooManySources {
        /// The number of sources.
        count: usize,
        /// The most of the plan.
        max: usize,
    },
    /// A rate of the plan is above its ceiling.
    #[error("{what} is {rate}, above the ceiling of {ceiling}; lower it or raise rate_max")]
    AboveCeiling {
        /// The name of the rate.
        what: String,
        /// The rate.
        rate: Rate,
        /// The ceiling.
        ceiling: Rate,
    },
    /// This kernel counts CPU time in another unit.
    #[error("this kernel counts CPU time {hz} times a second (USER_HZ); only 100 is supported")]
    UserHz {
        /// The value of sysconf(_SC_CLK_TCK).
        hz: u64,
    },
    /// The rings cannot be made.
    #[error(transparent)]
    Ring(#[from] khz_ring::RingError),
    /// The kernel refuses the requested placement of the gather thread.
    #[error(transparent)]
    Placement(#[from] crate::placement::PlacementError),
    /// The thread or its bell cannot be created.
    #[error("cannot start the gather thread: {0}")]
    Thread(#[source] std::io::Error),
}
