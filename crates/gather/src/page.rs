//! The snapshot in shared memory, as the gather thread keeps it: after every gather the changed values of a source.
//! Without new slots it allocates nothing, locks nothing and asks nothing of the system.

use khz_ring::{GROUPS_MAX, SlotName, SnapshotFull, SnapshotWriter};

use crate::rings::Rings;
use crate::source::Source;

/// The snapshot and which slot of it is whose.
pub(crate) struct Page {
    writer: SnapshotWriter,
    /// For each source the snapshot's slot of each of its slots.
    slots: Vec<Vec<u32>>,
    /// There was no room for new slots: what is there goes on.
    is_full: bool,
}

impl Page {
    /// Beside the rings, where these are files, with what has been gathered so far. Without room for it there is none, and
    /// the log says why.
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

    /// Why nobody finds it any more, where that is so.
    pub fn problem(&self) -> Option<&'static str> {
        self.writer.problem()
    }

    /// A source was gathered.
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

    /// New slots, and then everything that the source has.
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
