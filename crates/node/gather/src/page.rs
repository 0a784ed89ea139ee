//! The snapshot in shared memory: after every gather of a source, the gather thread writes the changed
//! values. Without new slots it allocates nothing, takes no lock and makes no system call.

use khz_ring::{GROUPS_MAX, SlotName, SnapshotFull, SnapshotWriter};

use crate::rings::Rings;
use crate::source::Source;

/// The snapshot, and which source each of its slots belongs to.
pub(crate) struct Page {
    writer: SnapshotWriter,
    /// For each source, the snapshot's slot of each of its slots.
    slots: Vec<Vec<u32>>,
    /// True when new slots no longer fit; the known slots continue.
    is_full: bool,
}

impl Page {
    /// Makes the snapshot beside the rings, if these are files, with the readings gathered until now. `None`
    /// if there is no room for it; the log says why.
    pub fn open(rings: &Rings, sources: &mut [Source]) -> Option<Self> {
        match rings.snapshot()? {
            Ok(writer) => {
                let mut page = Page { writer, slots: vec![Vec::new(); sources.len()], is_full: false };
                sources.iter_mut().enumerate().for_each(|(index, source)| page.note(index, source));
                Some(page)
            }
            Err(error) => {
                tracing::warn!("there is no snapshot in shared memory: {error}");
                None
            }
        }
    }

    /// The reason why readers no longer find it at its path.
    pub fn problem(&self) -> Option<&'static str> {
        self.writer.problem()
    }

    /// Writes the readings that the source's last gather changed.
    #[inline]
    pub fn note(&mut self, index: usize, source: &mut Source) {
        if source.slots() > self.slots[index].len() && !self.is_full {
            self.grow(index, source);
            return;
        }
        let Some(stamp) = source.gathered else { return };
        let slots = &self.slots[index];
        let (states, values) = (source.states(), source.values());
        let changed = source.changed().iter().filter_map(|&slot| {
            let slot = slot as usize;
            Some((*slots.get(slot)?, states[slot], values[slot]))
        });
        self.writer.write(index as u8, stamp, changed);
    }

    /// Adds new slots, and then writes all readings of the source.
    #[cold]
    fn grow(&mut self, index: usize, source: &mut Source) {
        if let Err(error) = self.append(index, source) {
            tracing::warn!("{}: {error}", source.name());
            self.is_full = true;
        }
        let Some(stamp) = source.gathered else { return };
        let readings = source.states().iter().zip(source.values());
        let all =
            self.slots[index].iter().zip(readings).map(|(&slot, (&state, &value))| (slot, state, value));
        self.writer.write(index as u8, stamp, all);
    }

    fn append(&mut self, index: usize, source: &mut Source) -> Result<(), SnapshotFull> {
        if index >= GROUPS_MAX {
            return Err(SnapshotFull);
        }
        let schema = source.schema();
        let new = (self.slots[index].len()..schema.len()).filter_map(|slot| schema.get(slot));
        let names: Vec<SlotName> = new.map(|series| SlotName::of(series, index as u8)).collect();
        let first = self.writer.append(&names)?;
        self.slots[index].extend(first..first + names.len() as u32);
        Ok(())
    }
}
