//! A track: one series in all rows of a section: in which state it is in each row, and its values where it has some.
//! The values of rows are bits, those of roll-ups are summaries. It knows no times.

use std::ops::Range;
use std::sync::Arc;

use khz_block::varint;
use khz_model::reading::LABELS_STATE;
use khz_model::{Labels, RangeColumn, RangeRun, Reading, Stamp};

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
#[derive(Clone, Debug, Default)]
pub(crate) struct Track<T> {
    pub runs: Vec<Run>,
    /// One for each row with a value.
    pub values: Vec<T>,
    /// Holds the labels whose numbers are among the values, so that this process does not forget them.
    pub labels: Vec<Labels>,
}

impl<T: Copy> Track<T> {
    /// The track with these states, and these values where a state has one.
    pub fn of(states: &[u16], values: &[T]) -> Self {
        let mut track = Track { runs: Vec::new(), values: Vec::new(), labels: Vec::new() };
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
        let (mut all, mut end) = (Track { runs: Vec::new(), values: Vec::new(), labels: Vec::new() }, 0);
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
    /// The readings of some rows, each with the stamp that `stamp` has for its row. Rows without the series are left out.
    pub fn readings_of(&self, rows: Range<usize>, stamp: impl Fn(usize) -> Stamp) -> Vec<(Stamp, Reading)> {
        let (mut row, mut values, mut readings) = (0, &self.values[..], Vec::with_capacity(rows.len()));
        for run in &self.runs {
            let (begin, end) = (row.max(rows.start), (row + run.rows).min(rows.end));
            if has_value(run.state) {
                let (these, rest) = values.split_at(run.rows.min(values.len()));
                if let Some(these) = these.get(begin - row..end.max(begin) - row) {
                    let reading: fn(u64) -> Reading =
                        if run.state == LABELS { Reading::Labels } else { Reading::Present };
                    let with_stamp = |(bits, row): (&u64, usize)| (stamp(row), reading(*bits));
                    readings.extend(these.iter().zip(begin..end).map(with_stamp));
                }
                values = rest;
            } else if let Ok(state) = u8::try_from(run.state) {
                let reading = Reading::from_parts(state, 0);
                readings.extend((begin..end).map(|row| (stamp(row), reading)));
            }
            row += run.rows;
        }
        readings
    }

    /// The readings of some rows, as a column of these rows, which were gathered at these times.
    pub fn column_of(&self, rows: Range<usize>, times: Arc<[u64]>) -> RangeColumn {
        let (mut row, mut from, mut runs, mut values) = (0, 0, Vec::new(), Vec::new());
        for run in &self.runs {
            let (begin, end) = (row.max(rows.start), (row + run.rows).min(rows.end));
            let has_values = has_value(run.state);
            if begin < end
                && let Ok(state) = u8::try_from(run.state)
            {
                let place = has_values.then_some(values.len());
                if has_values {
                    let skipped = from + (begin - row);
                    values.extend_from_slice(&self.values[skipped..skipped + (end - begin)]);
                }
                runs.push(RangeRun { rows: begin - rows.start..end - rows.start, state, values: place });
            }
            from += if has_values { run.rows } else { 0 };
            row += run.rows;
        }
        RangeColumn { times, runs, values }
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
