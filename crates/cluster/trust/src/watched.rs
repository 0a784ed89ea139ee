//! A value made from files, and made again when they change. A failed attempt leaves the old value in use and
//! is reported once. It starts no timer: its owner calls `refresh`.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use crate::error::TrustError;

/// Tells one state of a file from another: inode, size, time of change.
type Stamp = Option<(u64, u64, i64, i64)>;

/// A `T` that is cheap to clone.
pub(crate) struct Watched<T> {
    paths: Vec<PathBuf>,
    current: Mutex<Current<T>>,
}

struct Current<T> {
    value: T,
    /// The state of the files at the last attempt.
    stamps: Vec<Stamp>,
}

impl<T: Clone> Watched<T> {
    /// Makes it for the first time.
    pub(crate) fn new(
        paths: Vec<PathBuf>,
        make: impl FnOnce() -> Result<T, TrustError>,
    ) -> Result<Self, TrustError> {
        // Taken before the files are read, so that a change in between is read next time.
        let stamps = stamps(&paths);
        let current = Mutex::new(Current { value: make()?, stamps });
        Ok(Watched { paths, current })
    }

    pub(crate) fn get(&self) -> T {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).value.clone()
    }

    /// Makes it again if a file has changed since the last attempt; true if it did.
    pub(crate) fn refresh(&self, make: impl FnOnce() -> Result<T, TrustError>) -> Result<bool, TrustError> {
        let stamps = stamps(&self.paths);
        {
            let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
            if current.stamps == stamps {
                return Ok(false);
            }
            current.stamps = stamps;
        }
        let value = make()?;
        self.current.lock().unwrap_or_else(PoisonError::into_inner).value = value;
        Ok(true)
    }
}

fn stamps(paths: &[PathBuf]) -> Vec<Stamp> {
    let stamp = |path: &PathBuf| {
        let about = std::fs::metadata(path).ok()?;
        Some((about.ino(), about.size(), about.mtime(), about.mtime_nsec()))
    };
    paths.iter().map(stamp).collect()
}
