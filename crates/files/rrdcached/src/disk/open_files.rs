//! Files kept open between writes, within a limit, and rrdtool's lock on them; writes nothing.
//!
//! The lock belongs to the open file (`F_OFD_SETLK`), not to the process. A process loses its ordinary locks on a file
//! as soon as it closes *any* descriptor of it, and the daemon reads files while it writes them. Each kind excludes the
//! other.

#![allow(unsafe_code, reason = "rustix has no locks that belong to an open file")]

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::base::Base;
use crate::cache::FileId;
use khz_rrd::error::{Error, Result, refused};
use khz_rrd::file::Rrd;
use khz_rrd::text;

/// Files kept open.
pub struct OpenFiles {
    kept: Mutex<HashMap<FileId, File>>,
    most: usize,
}

impl OpenFiles {
    /// At most `most` files.
    pub fn new(most: usize) -> Self {
        Self { kept: Mutex::default(), most }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<FileId, File>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file called `name`, locked, its header just read.
    ///
    /// # Errors
    /// The system's error, or a damaged file.
    pub fn take(&self, id: FileId, name: &str, base: &Base) -> Result<Rrd> {
        let kept = self.lock().remove(&id).filter(|file| same(file, name));
        let file = match kept {
            Some(file) => lock(&file, name).map(|()| file),
            None => open_locked(base, name),
        };
        Rrd::over(file?, &text::path(name))
    }

    /// Unlocks a file and keeps it open. Past the limit, this file is closed, and not an older one: files are written in turns, so
    /// the oldest one is needed next.
    pub fn give(&self, id: FileId, rrd: Rrd) {
        let mut kept = self.lock();
        if kept.len() < self.most && set_lock(rrd.file(), libc::F_UNLCK).is_ok() {
            kept.insert(id, rrd.into_file());
        }
    }

    /// Closes a file.
    pub fn close(&self, id: FileId) {
        self.lock().remove(&id);
    }
}

/// Opens the file called `name` to change it, and locks it.
///
/// # Errors
/// The system's error; the file lies outside the base, or another process has locked it.
pub fn open_locked(base: &Base, name: &str) -> Result<File> {
    let file = base.open(name, true)?;
    lock(&file, name)?;
    Ok(file)
}

/// Whether `file` is still the one called `name`.
fn same(file: &File, name: &str) -> bool {
    let of = |metadata: io::Result<std::fs::Metadata>| metadata.map(|it| (it.dev(), it.ino())).ok();
    of(std::fs::metadata(text::path(name))).is_some_and(|there| of(file.metadata()) == Some(there))
}

fn lock(file: &File, name: &str) -> Result<()> {
    match set_lock(file, libc::F_WRLCK) {
        Ok(()) => Ok(()),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => {
            refused(format!("could not lock RRD '{name}'"))
        }
        Err(error) => Err(Error::io("locking", name, error)),
    }
}

fn set_lock(file: &File, kind: libc::c_int) -> io::Result<()> {
    // SAFETY: a `flock` of zeros is valid: it covers the file from start to end.
    let mut wanted: libc::flock = unsafe { std::mem::zeroed() };
    wanted.l_type = kind as _;
    wanted.l_whence = libc::SEEK_SET as _;
    // SAFETY: `wanted` lives through the call; rustix has no locks of open files.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const wanted) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
