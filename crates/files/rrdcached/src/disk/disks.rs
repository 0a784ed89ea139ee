//! The disks that files were written to, to be synced by a checkpoint.

use std::collections::HashMap;
use std::fs::File;
use std::sync::{Arc, Mutex, PoisonError};

use khz_rrd::error::Result;

/// A disk, by one of its files. The file is opened before the first write and kept open: the kernel reports a failed
/// write-back once to each open file, and only if it was open before.
#[derive(Clone)]
pub struct Disk {
    /// The open file.
    pub file: Arc<File>,
    /// The file's name.
    pub name: String,
    /// Whether the disk was written to since the last checkpoint began.
    is_written: bool,
}

/// All of them, by device number.
#[derive(Default)]
pub struct Disks(Mutex<HashMap<u64, Disk>>);

impl Disks {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Disk>> {
        // Each change is one assignment or insertion.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the next checkpoint sync the disk `device`, on which the file called `name` lies. `open` opens that file, if
    /// the disk is new.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn note(&self, device: u64, name: &str, open: impl FnOnce() -> Result<File>) -> Result<()> {
        if let Some(disk) = self.lock().get_mut(&device) {
            disk.is_written = true;
            return Ok(());
        }
        // Not under the lock: opening may take long.
        let disk = Disk { file: Arc::new(open()?), name: name.into(), is_written: true };
        self.lock().entry(device).or_insert(disk).is_written = true;
        Ok(())
    }

    /// The disks written to since the last checkpoint began.
    pub fn written(&self) -> Vec<Disk> {
        self.lock().values().filter(|disk| disk.is_written).cloned().collect()
    }

    /// The same, and a checkpoint begins.
    pub fn take_written(&self) -> Vec<Disk> {
        let written = self.written();
        self.lock().values_mut().for_each(|disk| disk.is_written = false);
        written
    }
}
