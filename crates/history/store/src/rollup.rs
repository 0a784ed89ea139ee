//! Roll-ups: a track whose values are summaries, one for each bucket of a minute or an hour. It is made from rows or a finer
//! roll-up, and written as one stream for each part of the summaries.

use khz_model::{Nanos, ValueType};

use crate::bytes::{Bytes, Read, join};
use crate::column::{ROLLUP, exact};
use crate::stream;
use crate::summary::{Point, Summary, Total};
use crate::times::{Beside, Kind, Times};
use crate::track::{NO_READING, Track, has_value, put_runs, take_runs};

/// The buckets of some rows: their times, and which bucket each row belongs to.
pub(crate) struct Buckets {
    pub times: Times,
    /// The row after the last one of each bucket.
    ends: Vec<usize>,
}

impl Buckets {
    /// Buckets of `resolution`, which begin at multiples of it since 1970. Rows may be buckets of a finer roll-up.
    pub fn of(rows: &Times, resolution: Nanos) -> Self {
        let (mut begins, mut ends) = (Vec::new(), Vec::new());
        let (mut firsts, mut lasts) = (Vec::new(), Vec::new());
        for (row, &at) in rows.at.iter().enumerate() {
            // A row as it was gathered begins and ends at its time.
            let (first, last) = match rows.kind {
                Kind::Buckets => (rows.beside[0].of_row(row), rows.beside[1].of_row(row)),
                Kind::Rows => (at, at),
            };
            let begin = at - at % resolution.0.max(1);
            if begins.last() != Some(&begin) {
                begins.push(begin);
                firsts.push(first);
                lasts.push(last);
                ends.push(row);
            }
            let bucket = begins.len() - 1;
            lasts[bucket] = last;
            ends[bucket] = row + 1;
        }
        let beside = [Beside::of(firsts), Beside::of(lasts)];
        Buckets { times: Times::of(Kind::Buckets, begins, beside), ends }
    }

    /// Rolls up readings.
    pub fn roll(&self, track: &Track<u64>, value_type: ValueType, rows: &Times) -> Track<Summary> {
        self.collect(track, |summary, row, values| {
            *summary = Summary::add_all(*summary, value_type, &rows.at[row..row + values.len()], values);
        })
    }

    /// Rolls up a finer roll-up.
    pub fn roll_again(&self, track: &Track<Summary>, value_type: ValueType) -> Track<Summary> {
        self.collect(track, |summary, _, later| {
            later.iter().for_each(|later| Summary::join_to(summary, value_type, later));
        })
    }

    /// The last reading of each bucket: all that is kept of labels.
    pub fn last(&self, track: &Track<u64>) -> Track<u64> {
        let mut states = vec![NO_READING; self.times.rows()];
        let mut values = vec![0; self.times.rows()];
        self.each_part(track, |bucket, _, state, part| {
            if state != NO_READING {
                (states[bucket], values[bucket]) = (state, part.last().copied().unwrap_or(0));
            }
        });
        Track { labels: track.labels.clone(), ..Track::of(&states, &values) }
    }

    /// A bucket with a value is present; another one has the state of its last reading. `add` gets the first row of some
    /// that follow each other, and their values.
    fn collect<T: Copy>(
        &self,
        track: &Track<T>,
        mut add: impl FnMut(&mut Option<Summary>, usize, &[T]),
    ) -> Track<Summary> {
        let mut states = vec![NO_READING; self.times.rows()];
        let mut summaries = vec![None; self.times.rows()];
        self.each_part(track, |bucket, row, state, values| {
            if !values.is_empty() {
                add(&mut summaries[bucket], row, values);
                states[bucket] = 0;
            } else if state != NO_READING && summaries[bucket].is_none() {
                states[bucket] = state;
            }
        });
        let values: Vec<Summary> = summaries.into_iter().flatten().collect();
        Track { values, ..Track::of(&states, &vec![(); states.len()]).without_values() }
    }

    /// Calls `each` for all rows with one state that follow each other in one bucket: with the bucket, the first row, the state, and
    /// the values if the state has any.
    fn each_part<T: Copy>(&self, track: &Track<T>, mut each: impl FnMut(usize, usize, u16, &[T])) {
        let (mut row, mut bucket, mut values) = (0, 0, &track.values[..]);
        for run in &track.runs {
            let end = row + run.rows;
            while row < end && bucket < self.ends.len() {
                let here = end.min(self.ends[bucket]) - row;
                let (part, rest) =
                    values.split_at(if has_value(run.state) { here.min(values.len()) } else { 0 });
                each(bucket, row, run.state, part);
                (row, values) = (row + here, rest);
                bucket += usize::from(row == self.ends[bucket]);
            }
        }
    }
}

impl Track<()> {
    fn without_values<T>(self) -> Track<T> {
        Track { runs: self.runs, ..Track::default() }
    }
}

/// Times of first and last values that are those of the section's rows: most series have a value in every row.
const AS_ROWS: u8 = 0;
const OWN: u8 = 1;

/// Appends the column of a roll-up.
pub(crate) fn put(track: &Track<Summary>, value_type: ValueType, times: &Times, out: &mut Vec<u8>) {
    out.push(ROLLUP);
    put_runs(&track.runs, out);
    let rows = rows_of(track);
    let mut part = |part: &dyn Fn(&Summary) -> u64| {
        let numbers: Vec<u64> = track.values.iter().map(part).collect();
        stream::put(&numbers, out);
    };
    part(&|it| it.count);
    part(&|it| it.first.bits);
    // For a counter, the differences with the lowest and the highest value are mostly 0: these are the first and the last value.
    part(&|it| it.last.bits.wrapping_sub(it.first.bits));
    part(&|it| it.first.bits.wrapping_sub(it.lowest));
    part(&|it| it.highest.wrapping_sub(it.last.bits));
    part(&|it| rest_of_sum(it, value_type) as u64);
    part(&|it| (rest_of_sum(it, value_type) >> 64) as u64);
    part(&|it| exact(it.correction) as u64);
    part(&|it| (exact(it.correction) >> 64) as u64);
    part(&|it| it.resets);
    part(&|it| it.changes);
    let firsts: Vec<u64> = track.values.iter().map(|it| it.first.time.0).collect();
    let lasts: Vec<u64> = track.values.iter().map(|it| it.last.time.0).collect();
    for (own, shared) in [(firsts, &times.beside[0]), (lasts, &times.beside[1])] {
        if rows.iter().zip(&own).all(|(&row, own)| shared.of_row(row) == *own) {
            out.push(AS_ROWS);
            continue;
        }
        out.push(OWN);
        let after: Vec<u64> =
            rows.iter().zip(own).map(|(&row, own)| own.wrapping_sub(times.at[row])).collect();
        stream::put(&after, out);
    }
}

/// A sum of whole numbers, less the first value times their number. It is small for values that hardly change.
fn rest_of_sum(summary: &Summary, value_type: ValueType) -> i128 {
    let sum = exact(summary.sum);
    match value_type {
        ValueType::Float => sum,
        _ => sum.wrapping_sub(firsts(summary.first.bits, summary.count, value_type)),
    }
}

fn firsts(first: u64, count: u64, value_type: ValueType) -> i128 {
    exact(Total::of(value_type, first)).wrapping_mul(i128::from(count))
}

/// Takes the column of a roll-up.
pub(crate) fn take(mut bytes: Bytes<'_>, value_type: ValueType, times: &Times) -> Read<Track<Summary>> {
    if bytes.byte()? != ROLLUP || times.kind != Kind::Buckets {
        return Err("a column of an unknown kind");
    }
    let (runs, count) = take_runs(&mut bytes, times.rows())?;
    let track: Track<()> = Track { runs, values: vec![(); count], ..Track::default() };
    let rows = rows_of(&track);
    let mut part = || stream::take(&mut bytes, count);
    let (counts, first, last, lowest, highest) = (part()?, part()?, part()?, part()?, part()?);
    let (sum_low, sum_high, correction_low, correction_high) = (part()?, part()?, part()?, part()?);
    let (resets, changes) = (part()?, part()?);
    let first_times = take_times(&mut bytes, &rows, times, 0)?;
    let last_times = take_times(&mut bytes, &rows, times, 1)?;
    bytes.end()?;
    let total = |low: u64, high: u64, add: i128| match value_type {
        ValueType::Float => Total::Double(f64::from_bits(low)),
        _ => Total::Exact(join(low, high).wrapping_add(add)),
    };
    let summary = |n: usize| {
        let last = first[n].wrapping_add(last[n]);
        Summary {
            count: counts[n],
            first: Point { time: Nanos(first_times[n]), bits: first[n] },
            last: Point { time: Nanos(last_times[n]), bits: last },
            lowest: first[n].wrapping_sub(lowest[n]),
            highest: last.wrapping_add(highest[n]),
            sum: total(sum_low[n], sum_high[n], firsts(first[n], counts[n], value_type)),
            correction: total(correction_low[n], correction_high[n], 0),
            resets: resets[n],
            changes: changes[n],
        }
    };
    let values = (0..count).map(summary).collect();
    Ok(Track { values, ..track.without_values() })
}

/// The rows with a value.
fn rows_of<T: Copy>(track: &Track<T>) -> Vec<usize> {
    let mut rows = Vec::with_capacity(track.values.len());
    track.each_value(|row, _| rows.push(row));
    rows
}

fn take_times(bytes: &mut Bytes<'_>, rows: &[usize], times: &Times, beside: usize) -> Read<Vec<u64>> {
    match bytes.byte()? {
        AS_ROWS => Ok(rows.iter().map(|&row| times.beside[beside].of_row(row)).collect()),
        OWN => {
            let after = stream::take(bytes, rows.len())?;
            Ok(rows.iter().zip(after).map(|(&row, after)| times.at[row].wrapping_add(after)).collect())
        }
        _ => Err("times of an unknown kind"),
    }
}
