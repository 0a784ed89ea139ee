//! A snapshot as any process reads it: no system call, no lock, nothing that the writer would notice. It believes no
//! number that it finds.

use std::path::Path;
use std::sync::atomic::Ordering;

use khz_model::{Nanos, Reading, Stamp};
use rustix::fd::OwnedFd;

use crate::error::RingError;
use crate::memory::Memory;
use crate::snapshot::layout::{
    FILE_BYTES, GROUPS_MAX, NAMES_AT, NAMES_BYTES, SNAPSHOT_SLOTS_MAX, SnapshotLabel, group, group_at, parts,
    slot_at, word,
};
use crate::snapshot::names::SlotName;
use crate::snapshot::{file, sequence};

/// Tries before the processor is given up each time: a row is written in less.
const SPINS: u32 = 1_000;
/// Tries in all, a second or so: then the writer has died within a row, or never pauses between two.
const TRIES: u32 = 20_000;

/// No row was whole for a second or so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsettled {
    /// The same row was being written all the time.
    #[error("the writer of this snapshot has died within a row: open the file anew")]
    Dead,
    /// Another row came within every try.
    #[error("this snapshot is written without a pause: a row of it cannot be read whole")]
    Busy,
}

/// A value as it stands there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latest {
    /// The value, or why there is none.
    pub reading: Reading,
    /// Decimal places of the value.
    pub places: u8,
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
    /// Maps the file at this path. Its owner never cuts it short; where he does it all the same, a read of what is gone ends this
    /// process with SIGBUS, unless it has called [`crate::survive_truncation`]: then zeros are read, and
    /// [`Snapshot::problem`] says so.
    ///
    /// # Errors
    /// It cannot be read, or is no snapshot.
    pub fn open(path: &Path) -> Result<Self, RingError> {
        let (file, memory, label) = file::open(path)?;
        Ok(Snapshot { memory, file, label })
    }

    /// Whose it is.
    pub fn label(&self) -> &SnapshotLabel {
        &self.label
    }

    /// Slots so far.
    #[inline]
    pub fn slots(&self) -> u32 {
        self.memory.load(word::SLOTS, Ordering::Acquire).min(SNAPSHOT_SLOTS_MAX) as u32
    }

    /// Why this is not what stands at its path any more: it was cut short or removed. Then it is to be opened again. It asks the
    /// kernel.
    pub fn problem(&self) -> Option<&'static str> {
        self.memory.problem(&self.file, FILE_BYTES)
    }

    /// True when its writer has ended in good order.
    pub fn has_ended(&self) -> bool {
        self.memory.load(word::ENDED, Ordering::Acquire) != 0
    }

    /// What the slots are called, in order. Those that appear later come behind.
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

    /// The slot of this name: `net.rx_bytes[eth0]`. To be looked up once.
    pub fn find(&self, name: &str) -> Option<u32> {
        self.names().iter().position(|known| known.name == name).map(|slot| slot as u32)
    }

    /// One value. `Ok(None)`: there is no such slot.
    ///
    /// # Errors
    /// No row was whole: the writer has died, or does not pause.
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
        Ok(Some(Latest { reading: Reading::from_parts(state, value), places, stamp }))
    }

    /// Several values of one group, all of the same row, into `row`; tells when they were gathered. Slots of other
    /// groups may be of other rows.
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
                Reading::from_parts(parts(meta).0, value)
            }));
            stamp(memory, at)
        })
    }

    /// When a group's latest row was gathered, and how many there were.
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
                // It was interrupted within a row: it needs the processor, and not we.
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
