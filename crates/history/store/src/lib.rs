//! History as columns: a file an hour for all nodes, a column per series, and roll-ups over longer times in the same
//! form. docs/store.md describes every byte. It gathers nothing and knows no clock.
//!
//! Begin with [`Store`], which has all of it in one folder: [`log`] takes rows, [`compact`] makes column files of them,
//! [`shelf`] reads these.
//!
//! One file: begin with [`NodeRows`], which takes rows, and [`History`], which answers. [`write_rows`], [`merge`] and [`roll_up`]
//! write files, [`ColumnFile`] reads one.

#![forbid(unsafe_code)]

mod bits;
mod bytes;
mod classes;
mod column;
pub mod compact;
mod directory;
pub mod disk;
mod file;
#[cfg(test)]
mod foreign;
mod group;
mod history;
mod joined;
mod keep;
mod lane_of;
mod layout;
pub mod limits;
pub mod log;
mod merge;
mod part;
mod part_file;
pub mod range;
mod rollup;
mod room;
mod rows;
mod section;
pub mod shelf;
mod store;
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
pub use keep::Keep;
pub use lane_of::lane_of_metric;
pub use layout::{Key, Layouts};
pub use merge::{Merged, merge, roll_up};
pub use rows::{NodeRows, write_rows};
pub use section::Section;
pub use store::{Process, Store, StoreReader};
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
    /// A segment of the log ends with a commit that is not whole. It is no damage: the process has ended, or writes it now.
    #[error(
        "{path}, byte {offset}: the last {bytes} bytes are left out: a commit that was not finished, or is being written now"
    )]
    Unfinished {
        /// The file.
        path: PathBuf,
        /// Where the last whole commit ends.
        offset: u64,
        /// How many bytes follow.
        bytes: u64,
    },
    /// Written by a newer format.
    #[error("{path}: version {version} of the store's files; this program reads up to version {reads}")]
    Version {
        /// The file.
        path: PathBuf,
        /// The version found.
        version: u8,
        /// The newest one that is read.
        reads: u8,
    },
    /// More of something than a named limit allows.
    #[error("more than {limit} {what}")]
    TooMuch {
        /// The thing of which there is too much.
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
    /// A block in the log has a row that cannot be read. The rows before it are used.
    #[error("a block of {node}, from row {row} on, has a row that cannot be read: {problem}")]
    Block {
        /// The node.
        node: khz_model::NodeName,
        /// The block's first row.
        row: u64,
        /// What is wrong.
        problem: khz_block::BlockError,
    },
    /// A file in the store's folders that is not the store's.
    #[error("{path} is not a file of the store; it is left alone, and does not count")]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// A damaged file that compaction has set aside.
    #[error(
        "{path} was damaged: what was whole in it is in another file; remove it when nobody needs it any more"
    )]
    SetAside {
        /// The file.
        path: PathBuf,
    },
    /// A folder without a log.
    #[error("{path} is no store: it has no folder `log`. Name the folder that a hub has as `--store`")]
    NoStore {
        /// The folder.
        path: PathBuf,
    },
    /// Another process writes to the store.
    #[error("{path} is in use by {process}: only one process can write to a store")]
    InUse {
        /// The store.
        path: PathBuf,
        /// The process.
        process: Process,
    },
    /// The files change faster than they can be listed.
    #[error("the files in {path} change all the time: try again")]
    Restless {
        /// The folder.
        path: PathBuf,
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

impl StoreError {
    /// True if a file is not there.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, StoreError::File { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// True if a file could not be read or written; what it holds may be whole.
    pub(crate) fn is_of_disk(&self) -> bool {
        matches!(self, StoreError::File { .. } | StoreError::Write(_))
    }

    /// True if a file is there and could not be read.
    pub(crate) fn is_of_reading(&self) -> bool {
        let is_reading = |what| ["open", "read", "read the length of"].contains(&what);
        matches!(self, StoreError::File { what, .. } if is_reading(*what)) && !self.is_missing()
    }

    /// Takes the first disk error out of the list: if a source could not be read, it must stay.
    pub(crate) fn refuse_failures(found: &mut Vec<StoreError>) -> Result<(), StoreError> {
        match found.iter().position(StoreError::is_of_disk) {
            Some(at) => Err(found.swap_remove(at)),
            None => Ok(()),
        }
    }
}
