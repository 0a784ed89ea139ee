//! The reasons why a ring or snapshot cannot be used.

use std::path::{Path, PathBuf};

use rustix::io::Errno;

/// The reason why a ring or snapshot cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RingError {
    /// The kernel refused anonymous memory.
    #[error("cannot get {bytes} bytes of shared memory for a ring: {source}")]
    NoMemory {
        /// The requested size.
        bytes: u64,
        /// The kernel's reason.
        source: Errno,
    },
    /// The file system of the rings is full.
    #[error("no room for a ring of {bytes} bytes in {path}: {source}")]
    NoRoom {
        /// The file.
        path: PathBuf,
        /// The requested size.
        bytes: u64,
        /// The kernel's reason.
        source: Errno,
    },
    /// Another agent writes the rings of this directory.
    #[error("{path} belongs to a running khz{}: two agents cannot record under one name; stop it, or use another --node or --ring-dir", by(*pid))]
    Locked {
        /// The directory.
        path: PathBuf,
        /// The process that the rings name as their writer.
        pid: Option<u64>,
    },
    /// Other users could put files into the directory.
    #[error("{path} is not safe for rings: {problem}")]
    Unsafe {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A file or directory cannot be used.
    #[error("cannot {what} {path}: {source}")]
    File {
        /// The attempted operation.
        what: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The kernel's reason.
        source: Errno,
    },
    /// The handler for SIGBUS cannot be installed.
    #[error("cannot handle SIGBUS: {source}; a file that is cut short would end this process")]
    NoSignal {
        /// The kernel's reason.
        source: Errno,
    },
    /// The file is not a ring, or it is damaged.
    #[error("{path}: {problem}")]
    NotARing {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
}

impl RingError {
    /// Makes an error of the standard library into an error of this crate: `what` was attempted on `path`.
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
