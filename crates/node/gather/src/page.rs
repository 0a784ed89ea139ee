//! The snapshot in shared memory: after every gather of a source, the gather thread writes the changed
//! values. Without new slots it allocates nothing, takes no lock and makes no system call.

use khz_ring::{GROUPS_MAX, SlotName, SnapshotFull, SnapshotWriter};

use crate::rings::Rings;
use crate::source::Source;

/// The snapshot, and which source each of its slots belongs to.
pub(crate) struct Page {
    writer: SnapshotWriter,
    /// For each source with slots, its group. A machine has far fewer sources than the program knows.
    groups: Vec<Option<u8>>,
    /// For each source, the snapshot's slot of each of its slots.
    slots: Vec<Vec<u32>>,
    /// True when new slots no longer fit; the known slots continue.
    is_full: bool,
}

impl Page {
    /// Makes the snapshot beside the rings, if these are files, with the readings gathered until now. `None`
    /// if there is no room for it; the log says why.
    pub fn open(rings: &Rings, sources: &[Source]) -> Option<Self> {
        match rings.snapshot()? {
            Ok(writer) => {
                let (groups, slots) = (vec![None; sources.len()], vec![Vec::new(); sources.len()]);
                let mut page = Page { writer, groups, slots, is_full: false };
                sources.iter().enumerate().for_each(|(index, source)| page.note(index, source));
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
    pub fn note(&mut self, index: usize, source: &Source) {
        if source.slots() > self.slots[index].len() && !self.is_full {
            self.grow(index, source);
            return;
        }
        let (Some(stamp), Some(group)) = (source.gathered, self.groups[index]) else { return };
        let slots = &self.slots[index];
        let (states, values) = (source.states(), source.values());
        let changed = source.changed().iter().filter_map(|&slot| {
            let slot = slot as usize;
            Some((*slots.get(slot)?, states[slot], values[slot]))
        });
        self.writer.write(group, stamp, changed);
    }

    /// Adds new slots, and then writes all readings of the source.
    #[cold]
    fn grow(&mut self, index: usize, source: &Source) {
        if let Err(error) = self.append(index, source) {
            tracing::warn!("{}: {error}", source.name());
            self.is_full = true;
        }
        let (Some(stamp), Some(group)) = (source.gathered, self.groups[index]) else { return };
        let readings = source.states().iter().zip(source.values());
        let all =
            self.slots[index].iter().zip(readings).map(|(&slot, (&state, &value))| (slot, state, value));
        self.writer.write(group, stamp, all);
    }

    fn append(&mut self, index: usize, source: &Source) -> Result<(), SnapshotFull> {
        let group = match self.groups[index] {
            Some(group) => group,
            None => self.new_group().ok_or(SnapshotFull)?,
        };
        self.groups[index] = Some(group);
        let new = &source.series()[self.slots[index].len()..];
        let names: Vec<SlotName> = new.iter().map(|series| SlotName::of(series, group)).collect();
        let first = self.writer.append(&names)?;
        self.slots[index].extend(first..first + names.len() as u32);
        Ok(())
    }

    fn new_group(&self) -> Option<u8> {
        let group = self.groups.iter().flatten().count();
        u8::try_from(group).ok().filter(|_| group < GROUPS_MAX)
    }
}
