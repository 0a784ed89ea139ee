//! History as columns: a file an hour for all nodes, a column per series, and roll-ups over longer times in the same
//! form. docs/store.md describes every byte. It gathers nothing, deletes nothing and knows no clock.
//!
//! Begin with [`NodeRows`], which takes rows, and [`History`], which answers. [`write_rows`], [`merge`] and [`roll_up`]
//! write files, [`ColumnFile`] reads one.

#![forbid(unsafe_code)]

mod bits;
mod bytes;
mod classes;
mod column;
mod directory;
mod file;
#[cfg(test)]
mod foreign;
mod history;
mod joined;
mod layout;
pub mod limits;
pub mod log;
mod merge;
mod part;
pub mod range;
mod rollup;
mod rows;
mod section;
mod stream;
mod summary;
mod sums;
mod times;
mod track;
mod writer;

use std::io;
use std::path::PathBuf;

pub use file::ColumnFile;
pub use history::{Answer, History};
pub use layout::{Key, Layouts};
pub use merge::{Merged, merge, roll_up};
pub use rows::{NodeRows, write_rows};
pub use section::Section;
pub use summary::{Point, Summary, Total};
pub use writer::Written;

/// What went wrong with history.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A file cannot be opened, read or written.
    #[error("cannot {what} {path}: {source}")]
    File {
        /// What was tried.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file cannot be written any further.
    #[error("cannot write: {0}")]
    Write(#[from] io::Error),
    /// Bytes of a file are not what was written. The rest of the file can be read.
    #[error("{path}, byte {offset}: {bytes} bytes are damaged: {problem}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where the damaged part begins.
        offset: u64,
        /// How long it is.
        bytes: u64,
        /// What is wrong there.
        problem: &'static str,
    },
    /// Written by a newer format.
    #[error("{path}: column file version {version}; this program reads version 1")]
    Version {
        /// The file.
        path: PathBuf,
        /// The version found.
        version: u8,
    },
    /// More of something than a named limit allows.
    #[error("more than {limit} {what}")]
    TooMuch {
        /// What there is too much of.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// Two definitions of one series cannot be in one section.
    #[error("{series} changed its type or its decimal places: its rows belong into another section")]
    FormatChanged {
        /// The series.
        series: String,
    },
    /// Roll-ups of different lengths.
    #[error("{path} has buckets of {found}, not of {expected}")]
    OtherResolution {
        /// The file.
        path: PathBuf,
        /// The length of its buckets.
        found: khz_model::Nanos,
        /// The length of the others'.
        expected: khz_model::Nanos,
    },
}
