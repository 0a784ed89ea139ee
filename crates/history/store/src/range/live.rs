//! Rows that are no columns yet: those of the log's blocks and of open ones, decoded for the series that are asked for.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};

use khz_block::{Picker, Step};
use khz_model::reading::LABELS_STATE;
use khz_model::{Labels, Nanos, NodeName, Series, Stamp};

use crate::StoreError;
use crate::joined::Rows;
use crate::lane_of::are_of_channel;
use crate::layout::Key;
use crate::log::{BlockSource, Entry, InBundle, Line, LogView, LoggedBlock, RowTimes};
use crate::range::HOUR;
use crate::range::chosen::{Chosen, List, Selected};
use crate::range::unpacked::{Place, Unpacked};
use crate::times::{Beside, Kind, Times};
use crate::track::{NO_READING, Run, Track};
use crate::writer::Content;

/// The rows of a block, of the chosen series only.
#[derive(Debug)]
pub(crate) struct LiveRows {
    times: Arc<Times>,
    selected: Arc<Selected>,
    /// One for each selected series.
    columns: Vec<Arc<Content>>,
}

impl LiveRows {
    /// The rows of a block; of two rows with one time the later one counts. A block that is cut off or damaged gives the rows
    /// before that.
    pub fn of(block: &LoggedBlock, selected: &Arc<Selected>) -> Self {
        let mut rows = Picked::new(selected.slots().len());
        let (mut picker, mut bytes) = (Picker::new(selected.slots().to_vec()), &block.bytes[..]);
        while let Ok(step @ (Step::Header(length) | Step::Row(length))) = picker.step(bytes) {
            bytes = &bytes[length..];
            if matches!(step, Step::Row(_)) {
                let stamp = picker.stamp();
                let stamp = Stamp { real_offset: stamp.real_offset.saturating_add(block.shift), ..stamp };
                rows.push(stamp, picker.states(), picker.values());
            }
        }
        rows.put_in_order();
        let columns = (0..rows.width).map(|column| Arc::new(Content::Readings(rows.track(column)))).collect();
        LiveRows { times: Arc::new(rows.times(block.shift)), selected: selected.clone(), columns }
    }

    /// The same rows of a block, taken out of its bundle; `None`: the block must be read.
    fn bundled(entry: &Entry, selected: &Arc<Selected>, unpacked: &Unpacked) -> Option<Self> {
        let InBundle::At(bundle, place) = &entry.bundle else { return None };
        let rows = entry.rows as usize;
        let sheet = |number: usize| {
            let part = bundle.sheet(number)?;
            let place = Place::Part(bundle.identity(), part.offset);
            unpacked.sheet(place, || bundle.read(part)).map_err(|_| bundle.leave()).ok()
        };
        let times = sheet(0)?.times(*place as usize, rows).map_err(|_| bundle.leave()).ok()?;
        let RowTimes { at, real_offset, shift } = times;
        let beside = [real_offset, shift].map(|number| Beside::Same(number.cast_unsigned()));
        let mut columns = Vec::with_capacity(selected.slots().len());
        for &slot in selected.slots() {
            let line = sheet(slot as usize + 1)?.line(*place as usize, rows);
            let (state, values) = match line.map_err(|_| bundle.leave()).ok()? {
                Line::Numbers(numbers) => (0, numbers),
                Line::State(state) => (u16::from(state), Vec::new()),
                Line::InBlock => return None,
            };
            let track = Track { runs: vec![Run { state, rows }], values, ..Track::default() };
            columns.push(Arc::new(Content::Readings(track)));
        }
        let times = Arc::new(Times::of(Kind::Rows, at, beside));
        Some(LiveRows { times, selected: selected.clone(), columns })
    }

    /// Its series.
    pub fn selected(&self) -> &Arc<Selected> {
        &self.selected
    }

    /// When each row was gathered, in order.
    pub fn instants(&self) -> &[u64] {
        &self.times.at
    }

    /// Roughly how many bytes it takes.
    pub fn held(&self) -> usize {
        let columns: usize = self.columns.iter().map(|column| size_of::<Content>() + column.held()).sum();
        size_of::<Self>() + self.times.held() + columns
    }
}

impl Rows for LiveRows {
    fn span(&self) -> (u64, u64) {
        self.times.span()
    }

    fn times(&self) -> Result<Arc<Times>, StoreError> {
        Ok(self.times.clone())
    }

    fn series(&self) -> &[Series] {
        self.selected.series()
    }

    fn content(&self, key: &Key, _: &Times) -> Option<Result<Arc<Content>, StoreError>> {
        Some(Ok(self.columns.get(self.selected.place(key)?)?.clone()))
    }
}

/// Some slots of rows, row by row.
struct Picked {
    width: usize,
    stamps: Vec<Stamp>,
    states: Vec<u16>,
    values: Vec<u64>,
}

impl Picked {
    fn new(width: usize) -> Self {
        Picked { width, stamps: Vec::new(), states: Vec::new(), values: Vec::new() }
    }

    fn push(&mut self, stamp: Stamp, states: &[u8], values: &[u64]) {
        self.stamps.push(stamp);
        self.states.extend(states.iter().map(|state| u16::from(*state)));
        self.values.extend_from_slice(values);
        // Fill the slots that the block does not have.
        self.states.resize(self.stamps.len() * self.width, NO_READING);
        self.values.resize(self.stamps.len() * self.width, 0);
    }

    /// Brings the rows into the order of their times, each time once. They are, unless a clock went back.
    fn put_in_order(&mut self) {
        if self.stamps.is_sorted_by(|one, two| one.real() < two.real()) {
            return;
        }
        let mut order: Vec<usize> = (0..self.stamps.len()).collect();
        // Later ones first, so that they are kept.
        order.sort_by_key(|&row| (self.stamps[row].real(), std::cmp::Reverse(row)));
        order.dedup_by_key(|row| self.stamps[*row].real());
        let cells = |row: &usize| row * self.width..(row + 1) * self.width;
        self.states = order.iter().flat_map(cells).map(|cell| self.states[cell]).collect();
        self.values = order.iter().flat_map(cells).map(|cell| self.values[cell]).collect();
        self.stamps = order.iter().map(|row| self.stamps[*row]).collect();
    }

    fn times(&self, shift: i64) -> Times {
        let at = self.stamps.iter().map(|stamp| stamp.real().0).collect();
        let offsets = self.stamps.iter().map(|stamp| stamp.real_offset.cast_unsigned()).collect();
        Times::of(Kind::Rows, at, [Beside::of(offsets), Beside::Same(shift.cast_unsigned())])
    }

    fn track(&self, column: usize) -> Track<u64> {
        let states: Vec<u16> = self.states.iter().copied().skip(column).step_by(self.width).collect();
        let values: Vec<u64> = self.values.iter().copied().skip(column).step_by(self.width).collect();
        let mut track = Track::of(&states, &values);
        let labels = states.iter().zip(&values).filter(|(state, _)| **state == u16::from(LABELS_STATE));
        let mut labels: Vec<u64> = labels.map(|(_, number)| *number).collect();
        labels.dedup();
        track.labels = labels.into_iter().filter_map(Labels::numbered).collect();
        track
    }
}

/// Reads the rows of one node that are no columns yet.
pub(crate) struct LiveReader<'a> {
    pub log: Option<&'a LogView>,
    pub unpacked: &'a Unpacked,
    pub chosen: &'a mut Chosen,
    pub patterns: &'a [khz_model::Pattern],
    /// How many nodes the question is about.
    pub nodes: usize,
    /// Rows of channels are left out.
    pub is_of_base: bool,
}

/// Whether it is less to read these slots of a bundle than all blocks of it that the question wants.
fn is_worth(entry: &Entry, slots: &[u32], nodes: usize) -> bool {
    let InBundle::At(bundle, _) = &entry.bundle else { return false };
    let wanted = entry.length * bundle.wanted(nodes);
    let sheet = |number: usize| bundle.sheet(number).map_or(usize::MAX, |part| part.length);
    let sheets = slots.iter().map(|slot| sheet(*slot as usize + 1)).chain([sheet(0)]);
    !bundle.is_left() && sheets.fold(0, usize::saturating_add) < wanted
}

impl LiveReader<'_> {
    /// The rows of each block that has some from `from` on and before `to`; later ones win. They may have rows outside of
    /// this time, too. `open` is what has not come into the log yet.
    pub fn read(
        self,
        node: &NodeName,
        open: Vec<LoggedBlock>,
        (from, to): (Nanos, Nanos),
        damage: &mut Vec<StoreError>,
    ) -> Vec<Arc<LiveRows>> {
        let LiveReader { log, unpacked, chosen, patterns, nodes, is_of_base } = self;
        let of_node = chosen.patterns_of(patterns, node);
        let mut select = |schema: &Arc<dyn khz_model::Columns>| {
            let selected = chosen.of(patterns, &of_node, &List::Slots(schema.clone()));
            let is_left_out = is_of_base && are_of_channel(schema.series());
            Some(selected).filter(|selected| !selected.slots().is_empty() && !is_left_out)
        };
        let mut all = Vec::new();
        for source in log.map_or_else(Vec::new, |log| log.sources(node, None, from, to)) {
            let Some(selected) = select(source.schema()) else { continue };
            let rows = match source {
                BlockSource::Waiting(block) => Ok(Arc::new(LiveRows::of(&block, &selected))),
                BlockSource::Written(entry) => {
                    let place = Place::Block(entry.segment.identity, entry.at, selected.slots_shared());
                    unpacked.rows(place, || {
                        let is_worth = is_worth(&entry, selected.slots(), nodes);
                        let bundled =
                            if is_worth { LiveRows::bundled(&entry, &selected, unpacked) } else { None };
                        bundled.map_or_else(|| Ok(LiveRows::of(&entry.read()?, &selected)), Ok)
                    })
                }
            };
            match rows {
                Ok(rows) => all.push(rows),
                Err(error) => damage.push(error),
            }
        }
        for block in open.into_iter().filter(|block| block.span().0 < to && block.span().1 >= from) {
            if let Some(selected) = select(&block.schema) {
                all.push(Arc::new(LiveRows::of(&block, &selected)));
            }
        }
        all.retain(|rows| !rows.instants().is_empty());
        all
    }
}

/// The hours, each by its begin, in which the log has rows within this time.
pub(crate) fn hours(log: &LogView, from: Nanos, to: Nanos) -> BTreeSet<u64> {
    let mut hours = BTreeSet::new();
    let mut add = |(first, last): (Nanos, Nanos)| hours.extend(hours_between(first.max(from), last, to));
    log.waiting_spans().into_iter().for_each(&mut add);
    let index = log.index.read().unwrap_or_else(PoisonError::into_inner);
    index.nodes().flat_map(|(_, entries)| entries).for_each(|entry| add(entry.span));
    hours
}

/// The hours, each by its begin, of the time from `first` to `last` that begins before `to`.
pub(crate) fn hours_between(first: Nanos, last: Nanos, to: Nanos) -> impl Iterator<Item = u64> {
    let last = last.0.min(to.0.saturating_sub(1));
    let begin = first.0 - first.0 % HOUR;
    let hours = std::iter::successors(Some(begin), |hour| hour.checked_add(HOUR));
    // No block has the rows of more hours; what claims to is wrong, and is found where it begins.
    hours.take_while(move |hour| *hour <= last && first.0 <= last).take(BLOCK_HOURS_MAX)
}

/// A thousand rows, one each minute, take seventeen hours.
const BLOCK_HOURS_MAX: usize = 1_000;
