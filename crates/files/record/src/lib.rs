//! Recordings in files: it writes them as blocks come, rotates them, and reads them as far as they are whole. It also
//! puts their series on one grid of time, and finds series that move together. It fetches no rows and draws nothing.
//!
//! Begin with [`Recorder`], which writes, and [`Recording`], which reads. [`Survey`] says what a recording holds, [`Grid`]
//! puts its series on one grid, [`correlate()`] compares them.

#![forbid(unsafe_code)]

mod block;
mod chunks;
mod clocks;
mod correlate;
mod coverage;
mod file;
mod grid;
mod growth;
mod jitter;
mod numbering;
mod outline;
mod packing;
mod recorder;
mod recording;
mod reorder;
mod survey;

use std::path::PathBuf;

pub use block::{close, rows, with_header};
pub use chunks::{Damage, Reach};
pub use clocks::ClockSet;
pub use correlate::{Limits, Match, Skipped, With, correlate};
pub use coverage::{Gap, Missing};
pub use file::is_being_written;
pub use grid::{Grid, GridLimits, GridSeries};
pub use growth::{Growth, Measure};
pub use jitter::Jitter;
pub use recorder::{Counts, Recorder, Rotation};
pub use recording::{Block, Event, Lane, Recording};
pub use survey::{LaneSurvey, Survey, selects};

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
    /// No more bytes can be written; the bytes before are whole.
    #[error("{path}: {source}; its first {kept} bytes are whole and stay")]
    Full {
        /// The file.
        path: PathBuf,
        /// Bytes that stay in the file.
        kept: u64,
        /// Why not.
        source: std::io::Error,
    },
    /// Another recorder writes it.
    #[error(
        "{path} is being recorded by another khz: give this recording another name with -o, or end that one"
    )]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// It has lost its name while it was written.
    #[error(
        "somebody has removed or replaced {path}, or cut it shorter, while it was recorded: what was recorded is lost; record again"
    )]
    Removed {
        /// The file.
        path: PathBuf,
    },
    /// It is not a trace.
    #[error("{path}: {source}")]
    NoTrace {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: khz_block::BlockError,
    },
}
