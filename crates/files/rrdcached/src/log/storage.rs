//! The operations on files and disks that the log needs. Tests replace it by disks that fill up, fail, stop, or lose what was not
//! synced.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use super::presence;

/// Makes files that only grow.
pub trait Storage: Send + Sync {
    /// Makes the file `path`, so that its name survives a loss of power.
    ///
    /// # Errors
    /// What the system says.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn Appended>>;

    /// Returns when all that any process has written to the disk of `file` would survive a loss of power.
    ///
    /// # Errors
    /// The system's error. The system reports a loss only once: a later sync succeeds, although the data is lost.
    fn sync_disk(&self, file: &File) -> io::Result<()> {
        Ok(rustix::fs::syncfs(file)?)
    }
}

/// A file that only grows.
pub trait Appended: Send + Sync {
    /// Appends `bytes`; part of them may be there after an error.
    ///
    /// # Errors
    /// What the system says.
    fn append(&self, bytes: &[u8]) -> io::Result<()>;
    /// Returns when all that was appended would survive a loss of power.
    ///
    /// # Errors
    /// The system's error. Data that was not synced before may then be lost.
    fn sync(&self) -> io::Result<()>;
    /// Cuts the file back to `length` bytes.
    ///
    /// # Errors
    /// What the system says.
    fn cut(&self, length: u64) -> io::Result<()>;
    /// Whether the name `path` leads to this file, and to its first `length` bytes.
    ///
    /// # Errors
    /// It does not, and why.
    fn is_at(&self, _path: &Path, _length: u64) -> io::Result<()> {
        Ok(())
    }
}

/// The file system.
pub struct Disk;

impl Storage for Disk {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn Appended>> {
        let file = OpenOptions::new().create_new(true).append(true).open(path)?;
        let directory = path.parent().unwrap_or(Path::new("."));
        File::open(directory)?.sync_all()?;
        Ok(Arc::new(file))
    }
}

impl Appended for File {
    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        let mut file = self;
        file.write_all(bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn cut(&self, length: u64) -> io::Result<()> {
        // A disk that is read-only now refuses to cut even where nothing was written.
        match self.metadata() {
            Ok(facts) if facts.len() == length => Ok(()),
            _ => self.set_len(length),
        }
    }

    fn is_at(&self, path: &Path, length: u64) -> io::Result<()> {
        presence::is_at(self, path, length)
    }
}
