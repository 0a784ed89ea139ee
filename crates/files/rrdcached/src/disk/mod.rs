//! Work on `.rrd` files: samples are written, headers put back, new files inspected. Keeps files open, and remembers which
//! disks are to be synced; decides nothing about when.
//!
//! The caller has claimed the file.

mod disks;
mod image;
mod inspect;
mod open_files;
mod place;
mod put_back;
mod write;
mod write_back;

use std::sync::Arc;

use khz_rrd::error::{Error, Result, os_text};
use khz_rrd::text;

use crate::base::Base;
use crate::cache::FileId;
use crate::log::Log;
use crate::messages::Messages;
pub use disks::Disk;
use disks::Disks;
pub use image::HeaderImage;
use open_files::OpenFiles;
pub use open_files::open_locked;
pub use put_back::{Restored, overlay};
pub use write::update_options;

/// The files on disk.
pub struct DiskFiles {
    base: Base,
    open: OpenFiles,
    disks: Disks,
    log: Option<Arc<Log>>,
    messages: Arc<Messages>,
}

impl DiskFiles {
    /// Files below `base`, at most `open_max` of them kept open. Images of headers go to `log`.
    pub fn new(base: Base, open_max: usize, log: Option<Arc<Log>>, messages: Arc<Messages>) -> Self {
        Self { base, open: OpenFiles::new(open_max), disks: Disks::default(), log, messages }
    }

    /// What names mean.
    pub fn base(&self) -> &Base {
        &self.base
    }

    /// Closes a file that is kept open, because its name or its meaning changes.
    pub fn close(&self, id: FileId) {
        self.open.close(id);
    }

    /// The disks to be synced by a checkpoint that begins now. No write may be in progress.
    pub fn begin_checkpoint(&self) -> Vec<Disk> {
        self.disks.take_written()
    }

    /// Whether all of `disks` could be synced. If not, the log keeps everything until a restart.
    pub fn sync(&self, disks: &[Disk]) -> bool {
        let Some(log) = &self.log else { return true };
        let mut is_synced = true;
        for disk in disks {
            if let Err(error) = log.storage().sync_disk(&disk.file) {
                self.distrust(log, unsynced(&disk.name, &error));
                is_synced = false;
            }
        }
        is_synced
    }

    /// Syncs the file called `name` and the directory that has its name.
    ///
    /// # Errors
    /// What the system says.
    pub fn sync_file(&self, name: &str) -> Result<()> {
        let failed = |error| Error::io("syncing", name, error);
        self.base.open(name, false)?.sync_all().map_err(failed)?;
        let parent = self.base.parent(name)?;
        let directory = parent.path.parent().unwrap_or(std::path::Path::new("/"));
        std::fs::File::open(directory).and_then(|directory| directory.sync_all()).map_err(failed)
    }

    /// Files may have lost what was written to them, for the reason `why`. The kernel reports that once, so no later sync
    /// proves anything. The log keeps everything until a restart puts headers back and offers all samples again.
    fn distrust(&self, log: &Log, why: String) {
        let text = format!("{why}; the log keeps all updates until a restart puts back what is lost");
        self.messages.error(&text);
        log.keep_all(text);
    }

    fn note_disk(&self, device: u64, name: &str) -> Result<()> {
        // Another open file: a duplicate would keep the lock.
        self.disks.note(device, name, || self.base.open(name, false))
    }
}

/// The error message if the disk of the file called `name` could not be synced.
fn unsynced(name: &str, error: &std::io::Error) -> String {
    format!("the disk of '{name}' could not be synced: {}", os_text(error))
}

/// `error`, with the place of the damage where there is one.
pub fn with_place(error: Error) -> Error {
    match error.place() {
        Some((path, offset)) => Error::Refused(format!("{error} ('{}' at byte {offset})", text::name(path))),
        None => error,
    }
}
