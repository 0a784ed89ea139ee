//! Reads a snapshot from any process: no system call, no lock, no effect on the writer. It trusts no number
//! that it finds.

use std::path::Path;
use std::sync::atomic::Ordering;

use khz_model::{Nanos, Reading, Stamp, ValueFormat};
use rustix::fd::OwnedFd;

use crate::error::RingError;
use crate::memory::Memory;
use crate::snapshot::layout::{
    FILE_BYTES, GROUPS_MAX, NAMES_AT, NAMES_BYTES, SNAPSHOT_SLOTS_MAX, SnapshotLabel, group, group_at, parts,
    reading_of, slot_at, word,
};
use crate::snapshot::names::SlotName;
use crate::snapshot::{file, sequence};

/// After this many tries, the reader sleeps between tries. A row normally takes less time than that to write.
const SPINS: u32 = 1_000;
/// The most tries, which take about a second. If no try succeeds, the writer has died inside a row, or it
/// never pauses between two rows.
const TRIES: u32 = 20_000;

/// No consistent row could be read for about a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsettled {
    /// The same row was being written all the time.
    #[error("the writer of this snapshot died while it wrote a row: open the file again")]
    Dead,
    /// Every try met another row.
    #[error("this snapshot is written without a pause: no consistent row can be read")]
    Busy,
}

/// A slot's latest value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latest {
    /// The value, or the reason why there is none.
    pub reading: Reading,
    /// How the value is read.
    pub format: ValueFormat,
    /// When it was gathered.
    pub stamp: Stamp,
}

/// A mapped snapshot.
#[derive(Debug)]
pub struct Snapshot {
    memory: Memory,
    file: OwnedFd,
    label: SnapshotLabel,
}

impl Snapshot {
    /// Maps the file at this path. Its owner never cuts it short. If somebody does, an access to the lost
    /// part ends this process with SIGBUS, unless the process has called [`crate::survive_truncation`]. Then
    /// the lost part reads as zeros, and [`Snapshot::problem`] reports it.
    ///
    /// # Errors
    /// The file cannot be read, or is not a snapshot.
    pub fn open(path: &Path) -> Result<Self, RingError> {
        let (file, memory, label) = file::open(path)?;
        Ok(Snapshot { memory, file, label })
    }

    /// The identity of the snapshot.
    pub fn label(&self) -> &SnapshotLabel {
        &self.label
    }

    /// The current number of slots.
    #[inline]
    pub fn slots(&self) -> u32 {
        self.memory.load(word::SLOTS, Ordering::Acquire).min(SNAPSHOT_SLOTS_MAX) as u32
    }

    /// The reason why this mapping is no longer the file at its path: the file was cut short or removed. Then
    /// open the path again. The check needs a system call.
    pub fn problem(&self) -> Option<&'static str> {
        self.memory.problem(&self.file, FILE_BYTES)
    }

    /// True when its writer has ended in good order.
    pub fn has_ended(&self) -> bool {
        self.memory.load(word::ENDED, Ordering::Acquire) != 0
    }

    /// The names of the slots, in order. New slots are appended.
    pub fn names(&self) -> Vec<SlotName> {
        let slots = self.slots() as usize;
        let bytes = self.memory.load(word::NAMES, Ordering::Acquire).min(NAMES_BYTES) as usize;
        let mut text = Vec::new();
        self.memory.copy_out(NAMES_AT, bytes, &mut text);
        let (mut names, mut at) = (Vec::new(), 0);
        while names.len() < slots
            && let Some((name, length)) = SlotName::take(&text[at..])
        {
            names.push(name);
            at += length;
        }
        names
    }

    /// The slot of this name: `net.rx_bytes[eth0]`. It searches all names: call it once and keep the number.
    pub fn find(&self, name: &str) -> Option<u32> {
        self.names().iter().position(|known| known.name == name).map(|slot| slot as u32)
    }

    /// One value; `Ok(None)` if the slot does not exist.
    ///
    /// # Errors
    /// No consistent row could be read: the writer has died, or it never pauses.
    #[inline]
    pub fn read(&self, slot: u32) -> Result<Option<Latest>, Unsettled> {
        if slot >= self.slots() {
            return Ok(None);
        }
        let (_, group, _) = parts(self.memory.load(slot_at(slot) + 8, Ordering::Relaxed));
        if usize::from(group) >= GROUPS_MAX {
            return Ok(None);
        }
        let at = group_at(group);
        let load = |memory: &Memory| {
            let (value, meta) = slot_words(memory, slot);
            (value, meta, stamp(memory, at))
        };
        let (value, meta, stamp) = self.settled(at, load)?;
        let (state, _, places) = parts(meta);
        let (reading, value_type) = reading_of(state, value);
        Ok(Some(Latest { reading, format: ValueFormat { value_type, places }, stamp }))
    }

    /// Reads several values of one group, all of the same row, into `row`; returns when they were gathered.
    /// Slots of other groups may come from other rows.
    ///
    /// # Errors
    /// As in [`Snapshot::read`].
    pub fn read_row(&self, group: u8, slots: &[u32], row: &mut Vec<Reading>) -> Result<Stamp, Unsettled> {
        let at = group_at(group.min(GROUPS_MAX as u8 - 1));
        let known = self.slots();
        self.settled(at, |memory| {
            row.clear();
            row.extend(slots.iter().filter(|&&slot| slot < known).map(|&slot| {
                let (value, meta) = slot_words(memory, slot);
                reading_of(parts(meta).0, value).0
            }));
            stamp(memory, at)
        })
    }

    /// When a group's latest row was gathered, and how many rows there were.
    ///
    /// # Errors
    /// As in [`Snapshot::read`].
    pub fn group(&self, group: u8) -> Result<(Stamp, u64), Unsettled> {
        let at = group_at(group.min(GROUPS_MAX as u8 - 1));
        self.settled(at, |memory| (stamp(memory, at), memory.load(at + group::ROWS, Ordering::Relaxed)))
    }

    #[inline]
    fn settled<T>(&self, group: u64, mut load: impl FnMut(&Memory) -> T) -> Result<T, Unsettled> {
        match sequence::try_read(&self.memory, group + group::SEQUENCE, &mut load) {
            Some(found) => Ok(found),
            None => self.settled_later(group, load),
        }
    }

    #[cold]
    fn settled_later<T>(&self, group: u64, mut load: impl FnMut(&Memory) -> T) -> Result<T, Unsettled> {
        let sequence = |memory: &Memory| memory.load(group + group::SEQUENCE, Ordering::Relaxed);
        let before = sequence(&self.memory);
        for tries in 0..TRIES {
            if let Some(found) = sequence::try_read(&self.memory, group + group::SEQUENCE, &mut load) {
                return Ok(found);
            }
            if tries < SPINS {
                std::hint::spin_loop();
            } else {
                // The writer was interrupted inside a row: leave the processor to it.
                std::thread::sleep(std::time::Duration::from_micros(50));
            }
        }
        Err(if sequence(&self.memory) == before { Unsettled::Dead } else { Unsettled::Busy })
    }
}

#[inline]
fn slot_words(memory: &Memory, slot: u32) -> (u64, u64) {
    let at = slot_at(slot);
    (memory.load(at, Ordering::Relaxed), memory.load(at + 8, Ordering::Relaxed))
}

#[inline]
fn stamp(memory: &Memory, group: u64) -> Stamp {
    Stamp {
        boot: Nanos(memory.load(group + group::BOOT, Ordering::Relaxed)),
        real_offset: memory.load(group + group::REAL_OFFSET, Ordering::Relaxed) as i64,
    }
}
