//! What the log needs of files and disks; tests put disks in its place that fill up, fail, stop, or lose what was not
//! synced.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use crate::reach;

/// Makes files that only grow.
pub trait Storage: Send + Sync {
    /// Makes the file `path`, so that its name survives a loss of power.
    ///
    /// # Errors
    /// What the system says.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn Appended>>;

    /// Returns when all that anybody has written to the disk of `file` would survive a loss of power.
    ///
    /// # Errors
    /// What the system says, once: asked again it knows nothing of what was lost.
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
    /// What the system says; what was not synced before may be lost then.
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
        // Nothing to be done where nothing was written: a disk that is read-only now refuses even that.
        match self.metadata() {
            Ok(told) if told.len() == length => Ok(()),
            _ => self.set_len(length),
        }
    }

    fn is_at(&self, path: &Path, length: u64) -> io::Result<()> {
        reach::is_at(self, path, length)
    }
}
