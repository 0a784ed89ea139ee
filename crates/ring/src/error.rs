//! Why there is no ring.

use std::path::{Path, PathBuf};

use rustix::io::Errno;

/// Why there is no ring.
#[derive(Debug, thiserror::Error)]
pub enum RingError {
    /// The kernel refused memory without a name.
    #[error("cannot get {bytes} bytes of shared memory for a ring: {source}")]
    NoMemory {
        /// What was asked for.
        bytes: u64,
        /// The kernel's reason.
        source: Errno,
    },
    /// The file system of the rings is full.
    #[error("no room for a ring of {bytes} bytes in {path}: {source}")]
    NoRoom {
        /// The file.
        path: PathBuf,
        /// What was asked for.
        bytes: u64,
        /// The kernel's reason.
        source: Errno,
    },
    /// Another agent writes the rings of this directory.
    #[error("{path} belongs to a running khz{}: two agents cannot record under one name; stop it, or use another --node or --ring-dir", by(*pid))]
    Locked {
        /// The directory.
        path: PathBuf,
        /// The process that its rings name.
        pid: Option<u64>,
    },
    /// A directory that others could put files into.
    #[error("{path} is not safe for rings: {problem}")]
    Unsafe {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A file or directory could not be used.
    #[error("cannot {what} {path}: {source}")]
    File {
        /// What was tried.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// The kernel's reason.
        source: Errno,
    },
    /// SIGBUS cannot be taken.
    #[error("cannot take SIGBUS, so that files that are cut short end this process: {source}")]
    NoSignal {
        /// The kernel's reason.
        source: Errno,
    },
    /// The file is no ring, or a damaged one.
    #[error("{path}: {problem}")]
    NotARing {
        /// The file.
        path: PathBuf,
        /// What does not fit.
        problem: String,
    },
}

impl RingError {
    /// What becomes of an error of the standard library while `what` was tried on this path.
    pub(crate) fn file(what: &'static str, path: &Path) -> impl Fn(std::io::Error) -> RingError {
        let path = path.to_path_buf();
        move |error| RingError::File {
            what,
            path: path.clone(),
            source: error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error),
        }
    }
}

fn by(pid: Option<u64>) -> String {
    pid.map_or(String::new(), |pid| format!(" (process {pid})"))
}
