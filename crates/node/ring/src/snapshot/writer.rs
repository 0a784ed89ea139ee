//! The one writer of a snapshot: it appends slots and writes rows of changed values. After the slots exist,
//! it makes no system call and allocates nothing.

use std::path::Path;
use std::sync::atomic::Ordering;

use khz_model::reading::LABELS_STATE;
use khz_model::{Stamp, ValueFormat};
use rustix::fd::OwnedFd;

use crate::directory::Directory;
use crate::error::RingError;
use crate::memory::{Memory, allocate};
use crate::snapshot::layout::{
    FILE_BYTES, GROUPS_MAX, NAMES_AT, NAMES_BYTES, SLOT_BYTES, SLOTS_AT, SNAPSHOT_SLOTS_MAX, SnapshotLabel,
    group, group_at, meta, slot_at, state_of, word,
};
use crate::snapshot::names::SlotName;
use crate::snapshot::{file, sequence};

/// Pages are allocated in steps of this many bytes.
const STEP: u64 = 64 << 10;

/// The snapshot has no room for more slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no room in the snapshot for further slots")]
pub struct SnapshotFull;

/// The writer. Dropping it removes the file; processes that have it mapped see that it ended.
#[derive(Debug)]
pub struct SnapshotWriter {
    memory: Memory,
    file: OwnedFd,
    directory: Directory,
    name: String,
    /// The group, the type and the decimal places of each slot.
    slots: Vec<(u8, ValueFormat)>,
    names: u64,
    /// The allocated bytes of slots and of names.
    slot_room: u64,
    name_room: u64,
}

impl SnapshotWriter {
    /// Creates a file at this path and replaces an existing one. Creates its directory if that is missing.
    ///
    /// # Errors
    /// There is no room for it, the path cannot be used, or others could put files into its directory.
    pub fn create(path: &Path, label: &SnapshotLabel) -> Result<Self, RingError> {
        let no_name =
            || RingError::NotARing { path: path.into(), problem: "the path has no file name".into() };
        let name = path.file_name().and_then(|name| name.to_str()).ok_or_else(no_name)?.to_owned();
        let above = path.parent().filter(|above| !above.as_os_str().is_empty());
        let directory = Directory::make(above.unwrap_or(Path::new(".")))?;
        let (file, memory) = file::create(&directory, &name, label)?;
        memory.store(word::PID, u64::from(std::process::id()), Ordering::Relaxed);
        let started = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let started = started.tv_sec as u64 * 1_000_000_000 + started.tv_nsec as u64;
        memory.store(word::STARTED, started, Ordering::Relaxed);
        let (slots, names) = (Vec::new(), 0);
        Ok(SnapshotWriter { memory, file, directory, name, slots, names, slot_room: 0, name_room: 0 })
    }

    /// The reason why its rows do not reach a process that opens the file: somebody cut it short, removed it
    /// or wrote to it. The check needs a system call; once a second is often enough.
    pub fn problem(&self) -> Option<&'static str> {
        let is_ours = self.memory.load(word::SLOTS, Ordering::Relaxed) == self.slots.len() as u64;
        let problem = self.memory.problem(&self.file, FILE_BYTES);
        problem.or((!is_ours).then_some("somebody else has written to it"))
    }

    /// The current number of slots.
    pub fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Appends slots, without values yet; returns the number of the first.
    ///
    /// # Errors
    /// There is no room for all of them; then none is added.
    pub fn append(&mut self, entries: &[SlotName]) -> Result<u32, SnapshotFull> {
        let mut names = Vec::new();
        for entry in entries {
            if usize::from(entry.group) >= GROUPS_MAX {
                return Err(SnapshotFull);
            }
            entry.put(&mut names);
        }
        let first = self.slots.len() as u64;
        let (slots, bytes) = (first + entries.len() as u64, self.names + names.len() as u64);
        if slots > SNAPSHOT_SLOTS_MAX || bytes > NAMES_BYTES {
            return Err(SnapshotFull);
        }
        self.slot_room = self.take_room(SLOTS_AT, self.slot_room, slots * SLOT_BYTES)?;
        self.name_room = self.take_room(NAMES_AT, self.name_room, bytes)?;
        for (number, entry) in (first..).zip(entries) {
            let absent = meta(khz_model::Absence::NotYet as u8, entry.group, entry.format.places);
            self.memory.store(slot_at(number as u32) + 8, absent, Ordering::Relaxed);
            self.slots.push((entry.group, entry.format));
        }
        self.memory.copy_in(NAMES_AT + self.names, &names);
        self.names = bytes;
        self.memory.store(word::NAMES, bytes, Ordering::Release);
        self.memory.store(word::SLOTS, slots, Ordering::Release);
        Ok(first as u32)
    }

    /// Allocates pages, so that no store into them can fail; returns how many bytes there are now.
    fn take_room(&self, at: u64, has: u64, wanted: u64) -> Result<u64, SnapshotFull> {
        if wanted <= has {
            return Ok(has);
        }
        let wanted = wanted.next_multiple_of(STEP);
        allocate(&self.file, at + has, wanted - has).map_err(|_| SnapshotFull)?;
        Ok(wanted)
    }

    /// Writes a row: the slots of a group whose values changed. It ignores slots of other groups and slots
    /// that do not exist.
    #[inline]
    pub fn write(&self, group: u8, stamp: Stamp, values: impl Iterator<Item = (u32, u8, u64)>) {
        let at = group_at(group);
        if usize::from(group) >= GROUPS_MAX {
            return;
        }
        sequence::write(&self.memory, at + group::SEQUENCE, |memory| {
            let store = |at, value| memory.store(at, value, Ordering::Relaxed);
            store(at + group::BOOT, stamp.boot.0);
            store(at + group::REAL_OFFSET, stamp.real_offset as u64);
            store(at + group::ROWS, memory.load(at + group::ROWS, Ordering::Relaxed) + 1);
            for (slot, state, value) in values {
                let Some(&(its, format)) = self.slots.get(slot as usize) else { continue };
                if its == group {
                    let state = state_of(state, format.value_type);
                    // The number of labels means nothing to another process.
                    store(slot_at(slot), if state == LABELS_STATE { 0 } else { value });
                    store(slot_at(slot) + 8, meta(state, group, format.places));
                }
            }
        });
    }
}

impl Drop for SnapshotWriter {
    fn drop(&mut self) {
        self.memory.store(word::ENDED, 1, Ordering::Release);
        // Another writer may have its file there by now.
        if self.directory.has(&self.name, &self.file) {
            let _ = self.directory.remove(&self.name);
        }
    }
}
