//! Recordings in files: written as blocks come, rotated, and read as far as they are whole; their series on one grid
//! of time, and which of them move together. It asks nobody for rows and draws nothing.

#![forbid(unsafe_code)]

mod block;
mod chunks;
mod correlate;
mod file;
mod grid;
mod growth;
mod held;
mod jitter;
mod order;
mod packing;
mod recorder;
mod recording;
mod survey;

use std::path::PathBuf;

pub use block::{close, rows};
pub use chunks::{Damage, Reach};
pub use correlate::{Limits, Match, Skipped, With, correlate};
pub use grid::{Grid, GridLimits, GridSeries};
pub use growth::{Growth, Measure};
pub use held::{Gap, Missing};
pub use jitter::Jitter;
pub use recorder::{Counts, Recorder, Rotation};
pub use recording::{Event, Lane, Recording};
pub use survey::{LaneSurvey, Survey};

/// What went wrong with a file.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// It cannot be created, opened or read.
    #[error("cannot {what} {path}: {source}")]
    File {
        /// What was tried.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// No more can be written; everything before is whole.
    #[error("{path}: {source}; its first {kept} bytes are whole and stay")]
    Full {
        /// The file.
        path: PathBuf,
        /// Bytes that stay.
        kept: u64,
        /// Why no more.
        source: std::io::Error,
    },
    /// It is no trace.
    #[error("{path}: {source}")]
    NoTrace {
        /// The file.
        path: PathBuf,
        /// What it is instead.
        source: khz_block::BlockError,
    },
}
