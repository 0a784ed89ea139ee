//! A track: one series in all rows of a section: its state in each row, and its values. In rows the values are bits, in roll-ups
//! summaries. It knows no times.

use std::ops::Range;
use std::sync::OnceLock;

use khz_block::varint;
use khz_model::reading::LABELS_STATE;
use khz_model::{Labels, RangeRun, Reading, Stamp};

use crate::bytes::{Bytes, Read};

/// The state of a row that does not have the series at all. Other states are those of [`Reading::state`].
pub(crate) const NO_READING: u16 = 256;
const PRESENT: u16 = 0;
const LABELS: u16 = LABELS_STATE as u16;

/// True for states with a value.
pub(crate) const fn has_value(state: u16) -> bool {
    matches!(state, PRESENT | LABELS)
}

/// Rows that follow each other and have one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub state: u16,
    pub rows: usize,
}

/// One series in all rows of a section.
#[derive(Clone, Debug)]
pub(crate) struct Track<T> {
    pub runs: Vec<Run>,
    /// One for each row with a value.
    pub values: Vec<T>,
    /// Holds the labels whose numbers are among the values, so that this process does not forget them.
    pub labels: Vec<Labels>,
    /// Whether no value is lower than the previous one; computed at the first request.
    pub rises: OnceLock<bool>,
}

impl<T> Default for Track<T> {
    fn default() -> Self {
        Track { runs: Vec::new(), values: Vec::new(), labels: Vec::new(), rises: OnceLock::new() }
    }
}

impl<T: Copy> Track<T> {
    /// The track with these states, and these values where a state has one.
    pub fn of(states: &[u16], values: &[T]) -> Self {
        let mut track = Track::default();
        for same in states.chunk_by(|one, two| one == two) {
            track.runs.push(Run { state: same[0], rows: same.len() });
        }
        match &track.runs[..] {
            [Run { state, .. }] if has_value(*state) => track.values = values.to_vec(),
            _ => {
                let valued = states.iter().zip(values).filter(|(state, _)| has_value(**state));
                track.values = valued.map(|(_, value)| *value).collect();
            }
        }
        track
    }

    /// The track of these, each from its row on, in the order of rows. Rows that none of them has are without a reading.
    pub fn chained<'a>(tracks: impl Iterator<Item = (&'a Track<T>, usize)>, rows: usize) -> Self
    where
        T: 'a,
    {
        let (mut all, mut end) = (Track::default(), 0);
        for (track, begin) in tracks {
            all.run(NO_READING, begin - end);
            end = begin;
            for run in &track.runs {
                all.run(run.state, run.rows);
                end += run.rows;
            }
            all.values.extend_from_slice(&track.values);
            all.labels.extend(track.labels.iter().cloned());
        }
        all.run(NO_READING, rows - end);
        all
    }

    /// Adds rows with this state.
    fn run(&mut self, state: u16, rows: usize) {
        match self.runs.last_mut() {
            _ if rows == 0 => {}
            Some(last) if last.state == state => last.rows += rows,
            _ => self.runs.push(Run { state, rows }),
        }
    }

    /// Roughly how many bytes it takes beside itself.
    pub fn held(&self) -> usize {
        self.runs.capacity() * size_of::<Run>()
            + self.values.capacity() * size_of::<T>()
            + self.labels.capacity() * size_of::<Labels>()
    }

    /// How many rows it has.
    pub fn row_count(&self) -> usize {
        self.runs.iter().map(|run| run.rows).sum()
    }

    /// Every row with its number, its state, and its value if the state has one.
    pub fn rows(&self) -> impl Iterator<Item = (usize, u16, Option<T>)> {
        let states = self.runs.iter().flat_map(|run| std::iter::repeat_n(run.state, run.rows));
        let mut values = self.values.iter();
        let with_value =
            move |(row, state)| (row, state, has_value(state).then(|| values.next().copied()).flatten());
        states.enumerate().map(with_value)
    }

    /// Every run of rows with values: its first row, and the values.
    pub fn each_run(&self, mut each: impl FnMut(usize, &[T])) {
        let (mut row, mut values) = (0, &self.values[..]);
        for run in &self.runs {
            if has_value(run.state) {
                let (these, rest) = values.split_at(run.rows.min(values.len()));
                each(row, these);
                values = rest;
            }
            row += run.rows;
        }
    }

    /// Every row with a value.
    pub fn each_value(&self, mut each: impl FnMut(usize, T)) {
        self.each_run(|row, values| values.iter().zip(row..).for_each(|(value, row)| each(row, *value)));
    }

    /// The same without copies.
    pub fn each_value_ref(&self, mut each: impl FnMut(usize, &T)) {
        self.each_run(|row, values| values.iter().zip(row..).for_each(|(value, row)| each(row, value)));
    }

    /// True when every row has a number.
    pub fn is_full(&self) -> bool {
        matches!(self.runs[..], [Run { state: PRESENT, .. }])
    }

    /// True when some row has labels.
    pub fn has_labels(&self) -> bool {
        self.runs.iter().any(|run| run.state == LABELS)
    }
}

impl Track<u64> {
    /// Adds the readings of some rows, each with the stamp that `stamp` has for its row. Rows without the series are left out.
    pub fn readings_of(
        &self,
        rows: Range<usize>,
        stamp: impl Fn(usize) -> Stamp,
        readings: &mut Vec<(Stamp, Reading)>,
    ) {
        for RangeRun { rows, state, values } in self.runs_of(rows) {
            match values {
                Some(begin) => {
                    let values = &self.values[begin..begin + rows.len()];
                    let reading: fn(u64) -> Reading =
                        if u16::from(state) == LABELS { Reading::Labels } else { Reading::Present };
                    readings.extend(values.iter().zip(rows).map(|(bits, row)| (stamp(row), reading(*bits))));
                }
                None => {
                    let reading = Reading::from_parts(state, 0);
                    readings.extend(rows.map(|row| (stamp(row), reading)));
                }
            }
        }
    }

    /// The runs of some rows that have the series.
    pub fn runs_of(&self, rows: Range<usize>) -> impl Iterator<Item = RangeRun> {
        let (mut row, mut value) = (0, 0);
        self.runs.iter().filter_map(move |run| {
            let (begin, end) = (row.max(rows.start), (row + run.rows).min(rows.end));
            let has_values = has_value(run.state);
            let values = has_values.then_some(value + begin.saturating_sub(row));
            value += if has_values { run.rows } else { 0 };
            row += run.rows;
            let state = u8::try_from(run.state).ok()?;
            (begin < end).then_some(RangeRun { rows: begin..end, state, values })
        })
    }

    /// True if no value is lower than the one before.
    pub fn rises(&self) -> bool {
        *self.rises.get_or_init(|| self.values.is_sorted())
    }

    /// Every row that has the series, with its number.
    pub fn readings(&self) -> impl Iterator<Item = (usize, Reading)> {
        let reading = |(row, state, bits): (usize, u16, Option<u64>)| {
            Some((row, Reading::from_parts(u8::try_from(state).ok()?, bits.unwrap_or(0))))
        };
        self.rows().filter_map(reading)
    }
}

/// Appends the states of all rows.
pub(crate) fn put_runs(runs: &[Run], out: &mut Vec<u8>) {
    varint::put(out, runs.len() as u64);
    for run in runs {
        varint::put(out, u64::from(run.state));
        varint::put(out, run.rows as u64);
    }
}

/// Takes the states of `rows` rows; returns them and how many rows have a value.
pub(crate) fn take_runs(bytes: &mut Bytes<'_>, rows: usize) -> Read<(Vec<Run>, usize)> {
    let count = bytes.count(rows)?;
    let (mut runs, mut left, mut values) = (Vec::with_capacity(count), rows, 0);
    for _ in 0..count {
        let run = Run { state: bytes.count(usize::from(NO_READING))? as u16, rows: bytes.count(left)? };
        left -= run.rows;
        values += if has_value(run.state) { run.rows } else { 0 };
        runs.push(run);
    }
    if left > 0 { Err("states end before the last row") } else { Ok((runs, values)) }
}
