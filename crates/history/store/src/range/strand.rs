//! A strand: what a node has at one resolution, in the order of time. Pieces that overlap are joined, the later ones on top.

use std::collections::HashMap;
use std::sync::Arc;

use khz_model::{NodeName, Pattern, Series};

use crate::StoreError;
use crate::file::ColumnFile;
use crate::joined::{Joined, Overlap, Rows, overlaps};
use crate::layout::Key;
use crate::range::live::LiveRows;
use crate::section::Section;
use crate::times::Times;
use crate::writer::Content;

/// Rows of one node, wherever they are.
pub(crate) enum Strip {
    Section(Arc<ColumnFile>, Section),
    Live(Arc<LiveRows>),
}

impl Strip {
    /// The sections of a node in these files.
    pub fn sections(files: &[Arc<ColumnFile>], node: &NodeName, damage: &mut Vec<StoreError>) -> Vec<Strip> {
        let mut strips = Vec::new();
        for file in files {
            match file.sections(node) {
                Ok(sections) => {
                    strips.extend(sections.into_iter().map(|section| Strip::Section(file.clone(), section)));
                }
                Err(error) => damage.push(error),
            }
        }
        strips
    }
}

impl Rows for Strip {
    fn span(&self) -> (u64, u64) {
        match self {
            Strip::Section(_, section) => (section.index.span.first, section.index.span.last),
            Strip::Live(rows) => rows.span(),
        }
    }

    fn times(&self) -> Result<Times, StoreError> {
        match self {
            Strip::Section(file, section) => file.times(section),
            Strip::Live(rows) => rows.times(),
        }
    }

    fn series(&self) -> &[Series] {
        match self {
            Strip::Section(_, section) => section.series(),
            Strip::Live(rows) => rows.series(),
        }
    }

    fn content(&self, key: &Key, times: &Times) -> Option<Result<Content, StoreError>> {
        match self {
            Strip::Section(file, section) => Some(file.content(section, section.place(key)?, times)),
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

/// What a node has at one resolution.
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

    /// The selected series of all pieces, added to others. The series of some pieces may have another format.
    pub fn add_series(&self, patterns: &[Pattern], all: &mut SeriesList) {
        for stretch in &self.stretches {
            stretch.joined.lists().for_each(|series| all.add(series, patterns));
        }
    }

    /// Roughly how many bytes it holds.
    pub fn held(&self) -> usize {
        self.stretches.iter().map(|stretch| stretch.joined.times.rows() * 32).sum()
    }
}

/// The selected series of a node, each once.
#[derive(Default)]
pub(crate) struct SeriesList {
    known: HashMap<Key, Series>,
    /// Where the list of series is that was added last: most pieces of a node share one layout.
    last: Option<(usize, usize)>,
}

impl SeriesList {
    /// Adds those series that a pattern selects.
    pub fn add(&mut self, all: &[Series], patterns: &[Pattern]) {
        if self.last.replace((all.as_ptr().addr(), all.len())) == Some((all.as_ptr().addr(), all.len())) {
            return;
        }
        for series in all.iter().filter(|series| series.is_selected(patterns)) {
            self.known.entry(Key::of(series)).or_insert_with(|| series.clone());
        }
    }

    /// True if one of them is such a series.
    pub fn has(&self, is_such: impl Fn(&Series) -> bool) -> bool {
        self.known.values().any(is_such)
    }

    /// All of them in the order of their names; those of one name in the order of their formats.
    pub fn sorted(self) -> Vec<(Key, Series)> {
        let mut all: Vec<(Key, Series)> = self.known.into_iter().collect();
        let order = |(key, _): &(Key, Series)| (key.format.value_type as u8, key.format.places);
        all.sort_by(|one, two| {
            (&one.0.metric, &one.0.instance)
                .cmp(&(&two.0.metric, &two.0.instance))
                .then(order(one).cmp(&order(two)))
        });
        all
    }
}
