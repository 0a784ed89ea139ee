//! What questions have unpacked last: times, columns and their places in files, and the chosen series of the log's blocks. A dashboard asks
//! the same every few seconds, and what it saw before stays as it was. So only new rows are read and unpacked again.

use std::sync::Arc;

use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

use crate::StoreError;
use crate::limits::{UNPACKED_BYTES, UNPACKED_LEAST, UNPACKED_SHARDS};
use crate::range::live::LiveRows;
use crate::section::Section;
use crate::times::Times;
use crate::writer::Content;

/// A part of a file that never changes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    /// The index of a section, its times, or a column: the number of the open file, and where in it.
    Part(u64, u64),
    /// Slots of a block: the number of the open segment, and where in it.
    Block(u64, u64, Arc<[u32]>),
}

/// What is remembered, up to a number of bytes. It keeps what is asked for again and again, even while something large is
/// asked for once.
#[derive(Debug)]
pub(crate) struct Unpacked(Cache<Place, Kept, Bytes>);

#[derive(Clone, Debug)]
enum Kept {
    Section(Arc<Section>),
    Times(Arc<Times>),
    Column(Arc<Content>),
    Rows(Arc<LiveRows>),
}

/// What a thing that is remembered weighs.
#[derive(Clone, Debug)]
struct Bytes;

impl Weighter<Place, Kept> for Bytes {
    fn weight(&self, place: &Place, kept: &Kept) -> u64 {
        let slots = if let Place::Block(_, _, slots) = place { size_of_val(&**slots) } else { 0 };
        let held = match kept {
            Kept::Section(section) => section.held(),
            Kept::Times(times) => times.held(),
            Kept::Column(content) => content.held(),
            Kept::Rows(rows) => rows.held(),
        };
        (UNPACKED_LEAST + slots + held) as u64
    }
}

impl Default for Unpacked {
    fn default() -> Self {
        let options = OptionsBuilder::new()
            .estimated_items_capacity(UNPACKED_BYTES / (16 * UNPACKED_LEAST))
            .weight_capacity(UNPACKED_BYTES as u64)
            .shards(UNPACKED_SHARDS)
            .build()
            .expect("BUG: all options are set");
        let (hasher, lifecycle) = (DefaultHashBuilder::default(), DefaultLifecycle::default());
        Unpacked(Cache::with_options(options, Bytes, hasher, lifecycle))
    }
}

impl Unpacked {
    /// The section whose index is at a place; `read` is asked if it is not known.
    pub fn section(
        &self,
        place: Place,
        read: impl FnOnce() -> Result<Section, StoreError>,
    ) -> Result<Arc<Section>, StoreError> {
        if let Some(Kept::Section(section)) = self.0.get(&place) {
            return Ok(section);
        }
        let section = Arc::new(read()?);
        self.0.insert(place, Kept::Section(section.clone()));
        Ok(section)
    }

    /// The times at a place.
    pub fn times(
        &self,
        place: Place,
        read: impl FnOnce() -> Result<Times, StoreError>,
    ) -> Result<Arc<Times>, StoreError> {
        if let Some(Kept::Times(times)) = self.0.get(&place) {
            return Ok(times);
        }
        let times = Arc::new(read()?);
        self.0.insert(place, Kept::Times(times.clone()));
        Ok(times)
    }

    /// The column at a place.
    pub fn column(
        &self,
        place: Place,
        read: impl FnOnce() -> Result<Content, StoreError>,
    ) -> Result<Arc<Content>, StoreError> {
        if let Some(Kept::Column(column)) = self.0.get(&place) {
            return Ok(column);
        }
        let column = Arc::new(read()?);
        self.0.insert(place, Kept::Column(column.clone()));
        Ok(column)
    }

    /// The rows of a block.
    pub fn rows(
        &self,
        place: Place,
        read: impl FnOnce() -> Result<LiveRows, StoreError>,
    ) -> Result<Arc<LiveRows>, StoreError> {
        if let Some(Kept::Rows(rows)) = self.0.get(&place) {
            return Ok(rows);
        }
        let rows = Arc::new(read()?);
        self.0.insert(place, Kept::Rows(rows.clone()));
        Ok(rows)
    }
}
