//! Rows that are no columns yet: those of the log's blocks and of open ones, decoded for the series that are asked for.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, PoisonError};

use khz_block::{Picker, Step};
use khz_model::{Columns, Nanos, NodeName, Pattern, Series, Stamp};

use crate::StoreError;
use crate::joined::Rows;
use crate::layout::Key;
use crate::log::{LogView, LoggedBlock};
use crate::range::HOUR;
use crate::rows::NodeRows;
use crate::times::Times;
use crate::writer::Content;

/// Some rows of one node, of the chosen series only.
#[derive(Debug)]
pub(crate) struct LiveRows {
    rows: NodeRows,
    times: Times,
    places: Vec<usize>,
    series: Vec<Series>,
    numbers: HashMap<Key, usize>,
}

impl LiveRows {
    fn of(rows: NodeRows) -> Self {
        let (times, places) = rows.times();
        let series: Vec<Series> = rows.series().cloned().collect();
        let numbers = series.iter().enumerate().map(|(number, series)| (Key::of(series), number)).collect();
        LiveRows { rows, times, places, series, numbers }
    }

    /// When each row was gathered, in order.
    pub fn instants(&self) -> &[u64] {
        &self.times.at
    }

    /// Roughly how many bytes it takes.
    pub fn held(&self) -> usize {
        self.rows.held() + self.times.rows() * 24 + self.series.len() * size_of::<(Series, Key)>()
    }
}

impl Rows for LiveRows {
    fn span(&self) -> (u64, u64) {
        self.times.span()
    }

    fn times(&self) -> Result<Times, StoreError> {
        Ok(self.times.clone())
    }

    fn series(&self) -> &[Series] {
        &self.series
    }

    fn content(&self, key: &Key, _: &Times) -> Option<Result<Content, StoreError>> {
        let number = *self.numbers.get(key)?;
        Some(Ok(Content::Readings(self.rows.track(number, &self.times, &self.places)?)))
    }
}

/// Turns blocks of one node into rows. Of two rows with one time the later one counts.
pub(crate) struct Reading<'a> {
    patterns: &'a [Pattern],
    from: Nanos,
    to: Nanos,
    done: Vec<Arc<LiveRows>>,
    rows: NodeRows,
    /// What the slots of the present blocks mean, and which of them are chosen.
    schema: Option<Arc<dyn Columns>>,
    columns: Arc<Vec<Series>>,
    slots: Vec<u32>,
}

impl<'a> Reading<'a> {
    /// Takes rows from `from` on and before `to`.
    pub fn new(patterns: &'a [Pattern], from: Nanos, to: Nanos) -> Self {
        Reading {
            patterns,
            from,
            to,
            done: Vec::new(),
            rows: NodeRows::new(),
            schema: None,
            columns: Arc::default(),
            slots: Vec::new(),
        }
    }

    /// Takes the rows of a block. A damaged one gives those before the damage.
    pub fn block(&mut self, block: &LoggedBlock) -> Result<(), StoreError> {
        self.choose(&block.schema);
        if self.slots.is_empty() {
            return Ok(());
        }
        let (mut picker, mut bytes) = (Picker::new(self.slots.clone()), &block.bytes[..]);
        // A block that was cut off ends in a row that is not whole.
        while let Ok(step @ (Step::Header(length) | Step::Row(length))) = picker.step(bytes) {
            bytes = &bytes[length..];
            if matches!(step, Step::Header(_)) {
                continue;
            }
            let stamp = picker.stamp();
            let stamp = Stamp { real_offset: stamp.real_offset.saturating_add(block.shift), ..stamp };
            let real = stamp.real();
            if real >= self.to {
                break;
            }
            if real >= self.from {
                self.row(&picker, stamp)?;
            }
        }
        Ok(())
    }

    fn choose(&mut self, schema: &Arc<dyn Columns>) {
        if self
            .schema
            .as_ref()
            .is_some_and(|known| std::ptr::addr_eq(Arc::as_ptr(known), Arc::as_ptr(schema)))
        {
            return;
        }
        let chosen =
            schema.series().iter().enumerate().filter(|(_, series)| series.is_selected(self.patterns));
        let (slots, series): (Vec<u32>, Vec<Series>) =
            chosen.map(|(slot, series)| (slot as u32, series.clone())).unzip();
        (self.slots, self.columns, self.schema) = (slots, Arc::new(series), Some(schema.clone()));
    }

    fn row(&mut self, picker: &Picker, stamp: Stamp) -> Result<(), StoreError> {
        if self.rows.columns(&self.columns).is_err() || self.rows.len() == crate::limits::ROWS_MAX {
            self.end();
            self.rows.columns(&self.columns)?;
        }
        self.rows.row(stamp, picker.states(), picker.values())
    }

    fn end(&mut self) {
        let rows = std::mem::take(&mut self.rows);
        if !rows.is_empty() {
            self.done.push(Arc::new(LiveRows::of(rows)));
        }
    }

    /// The rows. They are several lists if a metric changed its type; later ones win.
    pub fn finish(mut self) -> Vec<Arc<LiveRows>> {
        self.end();
        self.done
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

/// The rows of a node in the log, and those that have not come there yet.
pub(crate) fn blocks(
    log: Option<&LogView>,
    open: Option<LoggedBlock>,
    node: &NodeName,
    (from, to): (Nanos, Nanos),
    damage: &mut Vec<StoreError>,
) -> Vec<LoggedBlock> {
    let mut blocks = log.map_or_else(Vec::new, |log| log.blocks(node, None, from, to, damage));
    blocks.extend(open.filter(|block| {
        let (first, last) = block.span();
        first < to && last >= from
    }));
    blocks
}
