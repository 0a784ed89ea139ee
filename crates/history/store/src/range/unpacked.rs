//! The data that questions have unpacked last: times, columns and their places in files, and the chosen series of the log's blocks.
//! A dashboard repeats its questions every few seconds, and old data does not change. So only new rows are read and unpacked.

use std::sync::Arc;

use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

use crate::StoreError;
use crate::limits::{UNPACKED_BYTES, UNPACKED_BYTES_MAX, UNPACKED_LEAST, UNPACKED_SHARDS, UNPACKED_SHARE};
use crate::log::Sheet;
use crate::range::live::LiveRows;
use crate::section::Section;
use crate::times::Times;
use crate::writer::Content;

/// A part of a file that never changes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    /// The index of a section, a column, or a sheet of a bundle: the number of the open file, and where in it.
    Part(u64, u64),
    /// Slots of a block: the number of the open segment, and where in it.
    Block(u64, u64, Arc<[u32]>),
}

/// The unpacked data, or why it could not be unpacked.
type Unpack<T> = Result<T, StoreError>;

/// The remembered data, up to a number of bytes. It keeps data that is asked for repeatedly, even if a large amount is asked for
/// once.
#[derive(Debug)]
pub(crate) struct Unpacked(Cache<Place, Kept, Bytes>);

#[derive(Clone, Debug)]
enum Kept {
    Section(Arc<Section>),
    Column(Arc<Content>),
    Rows(Arc<LiveRows>),
    Sheet(Arc<Sheet>),
}

/// The weight of a remembered entry.
#[derive(Clone, Debug)]
struct Bytes;

impl Weighter<Place, Kept> for Bytes {
    fn weight(&self, place: &Place, kept: &Kept) -> u64 {
        let slots = if let Place::Block(_, _, slots) = place { size_of_val(&**slots) } else { 0 };
        let held = match kept {
            Kept::Section(section) => section.held(),
            Kept::Column(content) => content.held(),
            Kept::Rows(rows) => rows.held(),
            Kept::Sheet(sheet) => sheet.held(),
        };
        (UNPACKED_LEAST + slots + held) as u64
    }
}

/// How many bytes may stay unpacked on a machine with this much memory.
fn room(memory: usize) -> usize {
    (memory / UNPACKED_SHARE).clamp(UNPACKED_BYTES, UNPACKED_BYTES_MAX)
}

/// Bytes of memory of this machine.
fn memory_of_machine() -> usize {
    let info = rustix::system::sysinfo();
    usize::try_from(info.totalram).unwrap_or(usize::MAX).saturating_mul(info.mem_unit.max(1) as usize)
}

impl Default for Unpacked {
    fn default() -> Self {
        let room = room(memory_of_machine());
        let options = OptionsBuilder::new()
            .estimated_items_capacity(room / (16 * UNPACKED_LEAST))
            .weight_capacity(room as u64)
            .shards(UNPACKED_SHARDS)
            .build()
            .expect("BUG: all options are set");
        let (hasher, lifecycle) = (DefaultHashBuilder::default(), DefaultLifecycle::default());
        Unpacked(Cache::with_options(options, Bytes, hasher, lifecycle))
    }
}

impl Unpacked {
    /// True if what is at a place is known.
    pub fn knows(&self, place: &Place) -> bool {
        self.0.peek(place).is_some()
    }

    /// The section whose index is at a place; `read` is asked if it is not known.
    pub fn section(&self, place: Place, read: impl FnOnce() -> Unpack<Section>) -> Unpack<Arc<Section>> {
        let known = |kept| if let Kept::Section(section) = kept { Some(section) } else { None };
        self.kept(place, known, Kept::Section, read)
    }

    /// The times of the section whose index is at this place. They are kept with the section: most questions about a node need
    /// both, and separate entries would cost more than reading them.
    pub fn times(
        &self,
        place: Place,
        section: &Arc<Section>,
        read: impl FnOnce() -> Unpack<Times>,
    ) -> Unpack<Arc<Times>> {
        if let Some(times) = &section.times {
            return Ok(times.clone());
        }
        let times = Arc::new(read()?);
        // The weight of an entry must not change, so a new entry replaces it.
        let whole = Section { times: Some(times.clone()), ..Section::clone(section) };
        self.0.insert(place, Kept::Section(Arc::new(whole)));
        Ok(times)
    }

    /// The column at a place.
    pub fn column(&self, place: Place, read: impl FnOnce() -> Unpack<Content>) -> Unpack<Arc<Content>> {
        let known = |kept| if let Kept::Column(column) = kept { Some(column) } else { None };
        self.kept(place, known, Kept::Column, read)
    }

    /// The rows of a block.
    pub fn rows(&self, place: Place, read: impl FnOnce() -> Unpack<LiveRows>) -> Unpack<Arc<LiveRows>> {
        let known = |kept| if let Kept::Rows(rows) = kept { Some(rows) } else { None };
        self.kept(place, known, Kept::Rows, read)
    }

    /// The sheet at a place of a file of bundles.
    pub fn sheet(&self, place: Place, read: impl FnOnce() -> Unpack<Sheet>) -> Unpack<Arc<Sheet>> {
        let known = |kept| if let Kept::Sheet(sheet) = kept { Some(sheet) } else { None };
        self.kept(place, known, Kept::Sheet, read)
    }

    fn kept<T>(
        &self,
        place: Place,
        known: impl FnOnce(Kept) -> Option<Arc<T>>,
        keep: fn(Arc<T>) -> Kept,
        read: impl FnOnce() -> Unpack<T>,
    ) -> Unpack<Arc<T>> {
        if let Some(known) = self.0.get(&place).and_then(known) {
            return Ok(known);
        }
        let new = Arc::new(read()?);
        self.0.insert(place, keep(new.clone()));
        Ok(new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_machine_keeps_more_unpacked() {
        let gib = 1 << 30;
        assert_eq!([1, 8, 24, 1_024].map(|memory| room(memory * gib) >> 20), [64, 128, 384, 512]);
        assert!(memory_of_machine() > 64 << 20);
    }
}
