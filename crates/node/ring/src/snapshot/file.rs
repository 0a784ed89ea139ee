//! The file of a snapshot. It is made under another name and renamed when it is complete. So a process that
//! opens the path always finds a complete file.

use std::path::Path;

use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, ftruncate};
use rustix::io::Errno;

use crate::directory::Directory;
use crate::error::RingError;
use crate::memory::{Memory, allocate};
use crate::snapshot::layout::{FILE_BYTES, SLOTS_AT, SnapshotLabel};

/// Makes the file and puts it at its path; it has no slots yet.
pub(crate) fn create(
    directory: &Directory,
    name: &str,
    label: &SnapshotLabel,
) -> Result<(OwnedFd, Memory), RingError> {
    let new = format!("{name}.new");
    // An earlier attempt may have left an unfinished file.
    directory.remove(&new)?;
    let file = directory.create(&new)?;
    let memory = fill(&file, label).map_err(|source| {
        let _ = directory.remove(&new);
        RingError::NoRoom { path: directory.path().join(name), bytes: SLOTS_AT, source }
    })?;
    directory.rename(&new, name)?;
    Ok((file, memory))
}

fn fill(file: &OwnedFd, label: &SnapshotLabel) -> Result<Memory, Errno> {
    ftruncate(file, FILE_BYTES)?;
    allocate(file, 0, SLOTS_AT)?;
    let memory = Memory::of(file, FILE_BYTES)?;
    memory.copy_in(0, &label.to_page());
    Ok(memory)
}

/// Opens a snapshot for reading.
pub(crate) fn open(path: &Path) -> Result<(OwnedFd, Memory, SnapshotLabel), RingError> {
    let failed = |what| move |source| RingError::File { what, path: path.into(), source };
    let wrong = |problem: String| RingError::NotARing { path: path.into(), problem };
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = rustix::fs::open(path, flags, Mode::empty()).map_err(failed("open"))?;
    let length = rustix::fs::fstat(&file).map_err(failed("examine"))?.st_size;
    if u64::try_from(length) != Ok(FILE_BYTES) {
        return Err(wrong(format!("it has {length} bytes; a snapshot has {FILE_BYTES}")));
    }
    let memory = Memory::to_read(&file, FILE_BYTES).map_err(failed("map"))?;
    let mut page = Vec::new();
    memory.copy_out(0, crate::layout::PAGE_BYTES, &mut page);
    let label = SnapshotLabel::from_page(&page).map_err(wrong)?;
    Ok((file, memory, label))
}
