//! A strand: the data of a node at one resolution, in the order of time. Pieces that overlap are joined, the later ones on top.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use khz_model::{NodeName, Series};

use crate::StoreError;
use crate::file::ColumnFile;
use crate::joined::{Joined, Overlap, Rows, overlaps};
use crate::layout::Key;
use crate::part::Part;
use crate::range::chosen::{List, Selected, sort};
use crate::range::live::LiveRows;
use crate::range::unpacked::{Place, Unpacked};
use crate::section::Section;
use crate::times::Times;
use crate::writer::Content;

/// Rows of one node, wherever they are.
pub(crate) enum Strip {
    Section(FileSection),
    Live(Arc<LiveRows>),
}

/// A section of a file. Questions reuse its unpacked parts as long as they are remembered.
pub(crate) struct FileSection {
    file: Arc<ColumnFile>,
    section: Arc<Section>,
    unpacked: Arc<Unpacked>,
}

impl Strip {
    /// The sections of a node in these files.
    pub fn sections(
        files: &[Arc<ColumnFile>],
        node: &NodeName,
        unpacked: &Arc<Unpacked>,
        damage: &mut Vec<StoreError>,
    ) -> Vec<Strip> {
        let mut strips = Vec::new();
        for file in files {
            let entries = file.entries_of(node).map_err(|error| damage.push(error)).unwrap_or_default();
            for entry in entries {
                let place = Place::Part(file.identity(), entry.index.offset);
                match unpacked.section(place, || file.section(&entry)) {
                    Ok(section) => {
                        let (file, unpacked) = (file.clone(), unpacked.clone());
                        strips.push(Strip::Section(FileSection { file, section, unpacked }));
                    }
                    Err(error) => damage.push(error),
                }
            }
        }
        strips
    }
}

impl Strip {
    /// Its selected series; `select` selects them from a list, where that has not been done.
    pub fn selected(&self, select: impl FnOnce(&List) -> Arc<Selected>) -> Arc<Selected> {
        match self {
            Strip::Section(section) => select(&List::Columns(section.section.layout.clone())),
            Strip::Live(rows) => rows.selected().clone(),
        }
    }

    /// All its columns will be read soon.
    pub fn expect(&self) {
        // Where no read has waited, all of the file is in memory.
        if let Strip::Section(FileSection { file, section, .. }) = self
            && file.waits() > 0
        {
            file.expect(section.extent());
        }
    }
}

impl FileSection {
    fn place(&self, part: Part) -> Place {
        Place::Part(self.file.identity(), part.offset)
    }
}

impl Rows for FileSection {
    fn span(&self) -> (u64, u64) {
        (self.section.index.span.first, self.section.index.span.last)
    }

    fn times(&self) -> Result<Arc<Times>, StoreError> {
        self.unpacked.times(self.place(self.section.at), &self.section, || self.file.times(&self.section))
    }

    fn series(&self) -> &[Series] {
        self.section.series()
    }

    fn content(&self, key: &Key, times: &Times) -> Option<Result<Arc<Content>, StoreError>> {
        let place = self.section.place(key)?;
        let part = self.section.index.columns.get(place)?;
        Some(self.unpacked.column(self.place(part), || self.file.content(&self.section, place, times)))
    }
}

impl Rows for Strip {
    fn span(&self) -> (u64, u64) {
        match self {
            Strip::Section(section) => section.span(),
            Strip::Live(rows) => rows.span(),
        }
    }

    fn times(&self) -> Result<Arc<Times>, StoreError> {
        match self {
            Strip::Section(section) => section.times(),
            Strip::Live(rows) => rows.times(),
        }
    }

    fn series(&self) -> &[Series] {
        match self {
            Strip::Section(section) => section.series(),
            Strip::Live(rows) => rows.series(),
        }
    }

    fn content(&self, key: &Key, times: &Times) -> Option<Result<Arc<Content>, StoreError>> {
        match self {
            Strip::Section(section) => section.content(key, times),
            Strip::Live(rows) => rows.content(key, times),
        }
    }
}

/// Pieces that overlap, joined.
pub(crate) struct Stretch {
    pub first: u64,
    pub last: u64,
    pub joined: Joined<Strip>,
}

impl Stretch {
    /// The rows from one time on and before another.
    pub fn rows(&self, from: u64, to: u64) -> Range<usize> {
        let times = &self.joined.times.at;
        let is_whole =
            times.first().is_some_and(|first| *first >= from) && times.last().is_some_and(|last| *last < to);
        match is_whole {
            true => 0..times.len(),
            false => times.partition_point(|at| *at < from)..times.partition_point(|at| *at < to),
        }
    }
}

/// The data of a node at one resolution.
#[derive(Default)]
pub(crate) struct Strand {
    /// In the order of time.
    pub stretches: Vec<Stretch>,
}

impl Strand {
    /// The strand of these strips; of those that overlap, later ones win.
    pub fn of(strips: Vec<Strip>, damage: &mut Vec<StoreError>) -> Self {
        let mut strand = Strand::default();
        for Overlap { pieces, first, last } in overlaps(strips) {
            match Joined::of(pieces, damage) {
                Ok(joined) => strand.stretches.push(Stretch { first, last, joined }),
                Err(error) => damage.push(error),
            }
        }
        strand
    }

    /// All pieces.
    pub fn strips(&self) -> impl Iterator<Item = &Strip> {
        self.stretches.iter().flat_map(|stretch| stretch.joined.pieces())
    }

    /// How many rows it has.
    pub fn rows(&self) -> usize {
        self.stretches.iter().map(|stretch| stretch.joined.times.rows()).sum()
    }

    /// Roughly how many bytes it holds.
    pub fn held(&self) -> usize {
        self.rows() * 32
    }
}

/// The selected series of a node, each once.
#[derive(Default)]
pub(crate) struct SeriesList {
    /// All that there are, if one list has them: so it is of most nodes.
    only: Option<Arc<[(Key, Series)]>>,
    /// Otherwise those of all lists.
    known: HashMap<Key, Series>,
}

impl SeriesList {
    /// Adds selected series.
    pub fn add(&mut self, selected: &Selected) {
        match &self.only {
            Some(only) if Arc::ptr_eq(only, selected.sorted()) => {}
            None if self.known.is_empty() => self.only = Some(selected.sorted().clone()),
            _ => selected.sorted().iter().for_each(|(key, series)| self.insert(key, series)),
        }
    }

    /// Adds one.
    pub fn insert(&mut self, key: &Key, series: &Series) {
        if let Some(only) = self.only.take() {
            self.known.extend(only.iter().cloned());
        }
        if !self.known.contains_key(key) {
            self.known.insert(key.clone(), series.clone());
        }
    }

    /// True if this holds for one of them.
    pub fn has(&self, is_such: impl Fn(&Series) -> bool) -> bool {
        let mut only = self.only.iter().flat_map(|only| only.iter()).map(|(_, series)| series);
        only.any(&is_such) || self.known.values().any(is_such)
    }

    /// All of them in the order of their names; those with the same name in the order of their formats.
    pub fn sorted(self) -> Vec<(Key, Series)> {
        if let Some(only) = self.only {
            return only.to_vec();
        }
        let mut all: Vec<(Key, Series)> = self.known.into_iter().collect();
        sort(&mut all);
        all
    }
}
