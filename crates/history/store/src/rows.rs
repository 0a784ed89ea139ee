//! Rows of one node, turned into columns. It keeps only the changes of each series, so constant values cost nothing. Rows may come
//! in any order. Of two rows with the same time, the later one counts.

use std::collections::HashMap;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use khz_block::{Decoder, Header};
use khz_model::reading::LABELS_STATE;
use khz_model::{Instance, Labels, Nanos, NodeName, Series, Stamp};

use crate::StoreError;
use crate::disk::Disk;
use crate::limits::ROWS_MAX;
use crate::part_file::write_file;
use crate::times::{Beside, Kind, Times};
use crate::track::{NO_READING, Track};
use crate::writer::{Content, Writer, Written};

/// The rows of one node.
#[derive(Debug, Default)]
pub struct NodeRows {
    /// The times of the rows, corrected.
    stamps: Vec<Stamp>,
    /// The correction that was added to each row.
    shifts: Vec<i64>,
    /// What it adds to the times of incoming rows.
    shift: i64,
    series: Vec<Changes>,
    index: HashMap<(Arc<str>, Option<Instance>), usize>,
    /// The series that the slots of the next row hold.
    columns: Arc<Vec<Series>>,
    slots: Vec<usize>,
    /// The block of the last row that came out of a decoder, and the number after that row.
    decoded: Option<(Header, u64)>,
}

/// A series and how it changed.
#[derive(Debug)]
struct Changes {
    series: Series,
    changes: Vec<Change>,
    /// Holds the labels whose numbers are in the changes.
    labels: Vec<Labels>,
}

/// From this row on the series has this state, and these bits if the state has a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Change {
    row: u32,
    state: u16,
    bits: u64,
}

impl Changes {
    fn set(&mut self, row: usize, state: u16, bits: u64) {
        let before = self.changes.last().map_or((NO_READING, 0), |last| (last.state, last.bits));
        if before == (state, bits) {
            return;
        }
        if state == u16::from(LABELS_STATE) {
            self.labels.extend(Labels::numbered(bits));
        }
        self.changes.push(Change { row: row as u32, state, bits });
    }
}

impl NodeRows {
    /// No rows yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many rows have come.
    pub fn len(&self) -> usize {
        self.stamps.len()
    }

    /// True if no further row fits.
    pub(crate) fn is_full(&self) -> bool {
        self.stamps.len() == ROWS_MAX
    }

    /// True before the first row.
    pub fn is_empty(&self) -> bool {
        self.stamps.is_empty()
    }

    /// The series of the slots from the next row on. After an error the rows that follow belong into another
    /// `NodeRows`.
    pub fn columns(&mut self, columns: &Arc<Vec<Series>>) -> Result<(), StoreError> {
        if Arc::ptr_eq(columns, &self.columns) {
            return Ok(());
        }
        let mut slots = Vec::with_capacity(columns.len());
        for series in columns.iter() {
            slots.push(self.place(series)?);
        }
        // Series that the new columns lack end here.
        let mut is_there = vec![false; self.series.len()];
        slots.iter().for_each(|&place| is_there[place] = true);
        let row = self.stamps.len();
        let gone = self.series.iter_mut().zip(is_there).filter(|(_, is_there)| !is_there);
        gone.for_each(|(changes, _)| changes.set(row, NO_READING, 0));
        (self.columns, self.slots, self.decoded) = (columns.clone(), slots, None);
        Ok(())
    }

    fn place(&mut self, series: &Series) -> Result<usize, StoreError> {
        let key = (Arc::from(&*series.metric.name), series.instance.clone());
        let Some(&place) = self.index.get(&key) else {
            self.index.insert(key, self.series.len());
            self.series.push(Changes { series: series.clone(), changes: Vec::new(), labels: Vec::new() });
            return Ok(self.series.len() - 1);
        };
        match self.series[place].series.metric.format() == series.metric.format() {
            true => Ok(place),
            false => Err(StoreError::FormatChanged { series: series.to_string() }),
        }
    }

    /// Nanoseconds to add to the stamps of the rows that follow, because the node's clock is wrong.
    pub fn shift(&mut self, shift: i64) {
        self.shift = shift;
    }

    /// The next row: states and bits of its slots ([`khz_model::Reading::state`], [`khz_model::Reading::bits`]). Slots
    /// beyond the columns are ignored.
    pub fn row(&mut self, stamp: Stamp, states: &[u8], values: &[u64]) -> Result<(), StoreError> {
        self.decoded = None;
        let row = self.push(stamp)?;
        for slot in 0..self.slots.len() {
            match (states.get(slot), values.get(slot)) {
                (Some(&state), Some(&bits)) => self.set(row, slot, state, bits),
                _ => self.series[self.slots[slot]].set(row, NO_READING, 0),
            }
        }
        Ok(())
    }

    /// The row that a decoder has taken last. If the row before it in its block came just before, only what has changed is
    /// looked at.
    pub fn decoded(&mut self, row: &Decoder) -> Result<(), StoreError> {
        let here = row.header().map(|header| (*header, row.next_row()));
        let before = here.map(|(header, next)| (header, next.wrapping_sub(1)));
        if here.is_none() || self.decoded != before {
            self.row(row.stamp(), row.states(), row.values())?;
        } else {
            let number = self.push(row.stamp())?;
            for &slot in row.changed() {
                let slot = slot as usize;
                if let (Some(&state), Some(&bits)) = (row.states().get(slot), row.values().get(slot)) {
                    self.set(number, slot, state, bits);
                }
            }
        }
        self.decoded = here;
        Ok(())
    }

    /// Adds a row without readings. Returns its number.
    fn push(&mut self, stamp: Stamp) -> Result<usize, StoreError> {
        if self.stamps.len() == ROWS_MAX {
            return Err(StoreError::TooMuch { what: "rows of a node in one file", limit: ROWS_MAX });
        }
        self.stamps.push(Stamp { real_offset: stamp.real_offset.saturating_add(self.shift), ..stamp });
        self.shifts.push(self.shift);
        Ok(self.stamps.len() - 1)
    }

    #[inline]
    fn set(&mut self, row: usize, slot: usize, state: u8, bits: u64) {
        let Some(&place) = self.slots.get(slot) else { return };
        let state = u16::from(state);
        let bits = if crate::track::has_value(state) { bits } else { 0 };
        self.series[place].set(row, state, bits);
    }

    /// Roughly how many bytes this takes.
    pub(crate) fn held(&self) -> usize {
        let changes: usize = self.series.iter().map(|changes| changes.changes.capacity()).sum();
        self.stamps.capacity() * size_of::<Stamp>()
            + changes * size_of::<Change>()
            + self.series.len() * size_of::<Changes>()
    }

    /// The rows in the order of their times, and the place of each row among them.
    pub(crate) fn times(&self) -> (Times, Vec<usize>) {
        let mut order: Vec<usize> = (0..self.stamps.len()).collect();
        order.sort_by_key(|&row| self.stamps[row].real());
        let (mut times, mut places) = (Vec::new(), vec![0; order.len()]);
        let (mut offsets, mut shifts) = (Vec::with_capacity(order.len()), Vec::with_capacity(order.len()));
        for row in order {
            let at = self.stamps[row].real().0;
            if times.last() != Some(&at) {
                times.push(at);
                offsets.push(0);
                shifts.push(0);
            }
            places[row] = times.len() - 1;
            offsets[places[row]] = self.stamps[row].real_offset.cast_unsigned();
            shifts[places[row]] = self.shifts[row].cast_unsigned();
        }
        (Times::of(Kind::Rows, times, [Beside::of(offsets), Beside::of(shifts)]), places)
    }
}

impl Changes {
    /// The series in all rows, each at its place.
    fn track(&self, places: &[usize], rows: usize) -> Track<u64> {
        let (mut states, mut values) = (vec![NO_READING; rows], vec![0; rows]);
        for (number, change) in self.changes.iter().enumerate() {
            let end = self.changes.get(number + 1).map_or(places.len(), |next| next.row as usize);
            if change.state == NO_READING {
                continue;
            }
            for &place in &places[change.row as usize..end] {
                (states[place], values[place]) = (change.state, change.bits);
            }
        }
        Track { labels: self.labels.clone(), ..Track::of(&states, &values) }
    }
}

/// Writes a file of rows as they were gathered. A node whose metric changed its type comes twice.
pub fn write_rows(
    path: &Path,
    nodes: impl IntoIterator<Item = (NodeName, NodeRows)>,
) -> Result<Written, StoreError> {
    write_file(&Disk::default(), path, Nanos(0), |writer| {
        nodes.into_iter().try_for_each(|(node, rows)| write_section(writer, &node, &rows))
    })
}

/// Writes the rows of a node, if there are any.
pub(crate) fn write_section<W: Write>(
    writer: &mut Writer<W>,
    node: &NodeName,
    rows: &NodeRows,
) -> Result<(), StoreError> {
    let (times, places) = rows.times();
    if times.rows() == 0 {
        return Ok(());
    }
    // Nodes with the same series have the same layout, whatever the order of their slots.
    let mut order: Vec<&Changes> = rows.series.iter().filter(|it| !it.changes.is_empty()).collect();
    order.sort_by(|one, two| by_name(&one.series, &two.series));
    let series: Vec<Series> = order.iter().map(|changes| changes.series.clone()).collect();
    writer.section(node, &series, &times, |place| {
        Ok::<_, StoreError>(Content::Readings(order[place].track(&places, times.rows())))
    })
}

/// The order of the columns of a section.
pub(crate) fn by_name(one: &Series, two: &Series) -> std::cmp::Ordering {
    (&one.metric.name, &one.instance).cmp(&(&two.metric.name, &two.instance))
}
