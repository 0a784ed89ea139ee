//! The snapshot in shared memory: after every gather of a source, the gather thread writes the changed
//! values. Without new slots it allocates nothing, takes no lock and makes no system call.

use khz_ring::{GROUPS_MAX, SlotName, SnapshotFull, SnapshotWriter};

use crate::rings::Rings;
use crate::source::Source;

/// The snapshot, and which source each of its slots belongs to.
pub(crate) struct Page {
    writer: SnapshotWriter,
    /// For each source with slots, its group. Most machines have fewer sources than there are groups.
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
            tracing::warn!("{}: {error}; programs that map it do not find them", source.name());
            self.is_full = true;
        }
        let (Some(stamp), Some(group)) = (source.gathered, self.groups[index]) else { return };
        let readings = source.states().iter().zip(source.values());
        let all =
            self.slots[index].iter().zip(readings).map(|(&slot, (&state, &value))| (slot, state, value));
        self.writer.write(group, stamp, all);
    }

    fn append(&mut self, index: usize, source: &Source) -> Result<(), SnapshotFull> {
        let group = self.groups[index].unwrap_or_else(|| self.next_group());
        self.groups[index] = Some(group);
        let new = &source.series()[self.slots[index].len()..];
        let names: Vec<SlotName> = new.iter().map(|series| SlotName::of(series, group)).collect();
        let first = self.writer.append(&names)?;
        self.slots[index].extend(first..first + names.len() as u32);
        Ok(())
    }

    /// The group of a source that has had no slots until now. All further sources share the last free group: its time is that of the
    /// source that was read last.
    fn next_group(&self) -> u8 {
        let used = self.groups.iter().flatten().max().map_or(0, |group| group + 1);
        used.min(GROUPS_MAX as u8 - 1)
    }
}

#[cfg(test)]
mod tests {
    use khz_model::{Nanos, Reading, Stamp};
    use khz_ring::{Snapshot, SnapshotLabel};

    use super::*;
    use crate::budget::Budget;
    use crate::made_up::MadeUp;

    #[test]
    fn more_sources_than_groups_are_all_there() {
        let root = MadeUp::new("page-groups");
        root.write("proc/loadavg", "0.10 0.20 0.30 1/2 3\n");
        let path = root.join("snapshot");
        let label =
            SnapshotLabel { node: "n1".into(), machine: [1; 16], boot: [2; 16], epoch: 3, created: 4 };
        let count = GROUPS_MAX + 23;
        let writer = SnapshotWriter::create(&path, &label).unwrap();
        let (groups, slots) = (vec![None; count], vec![Vec::new(); count]);
        let mut page = Page { writer, groups, slots, is_full: false };
        let source = || Source::file(&root.join(""), &khz_parse::loadavg::FILE, Budget::unlimited());
        let mut sources: Vec<Source> = (0..count).map(|_| source()).collect();
        for (index, source) in sources.iter_mut().enumerate() {
            source.gather(Stamp { boot: Nanos(index as u64 + 1), real_offset: 0 }, &mut Vec::new());
            page.note(index, source);
        }
        assert!(!page.is_full);
        let snapshot = Snapshot::open(&path).unwrap();
        let names = snapshot.names();
        let loads: Vec<usize> = (0..names.len()).filter(|&slot| names[slot].name == "load.1m").collect();
        assert_eq!(loads.len(), count);
        for slot in loads {
            let found = snapshot.read(slot as u32).unwrap().unwrap();
            assert!(matches!(found.reading, Reading::Present(_)), "{slot}");
        }
        // A source has one group, and each but the last has one source.
        let mut used: Vec<u8> = page.groups.iter().flatten().copied().collect();
        assert_eq!((used.len(), used.iter().max()), (count, Some(&(GROUPS_MAX as u8 - 1))));
        used.dedup();
        assert_eq!(used.len(), GROUPS_MAX);
    }
}
