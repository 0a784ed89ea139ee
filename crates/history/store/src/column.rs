//! A column: the bytes of one series in one section. Its summary comes first, so that a coarse question decodes nothing.

use std::collections::HashMap;

use khz_block::varint;
use khz_model::{Fault, Labels, Nanos, ValueType};

use crate::bytes::{Bytes, Read, put_wide, wide};
use crate::limits::{COLUMN_LABELS_MAX, ROWS_MAX};
use crate::stream;
use crate::summary::{Point, Summary, Total};
use crate::times::Times;
use crate::track::{Run, Track, has_value, put_runs, take_runs};

/// Flags: the first byte of a column. Other bits are 0.
const FULL: u8 = 1;
const LABELS: u8 = 2;
const SUMMARY: u8 = 4;
/// The column holds summaries (`rollup.rs`), not readings.
pub(crate) const ROLLUP: u8 = 8;

/// When the rows of a section were gathered. The times of a summary are relative to this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub rows: usize,
    pub first: u64,
    pub last: u64,
}

/// Appends the column of a track.
pub(crate) fn put(track: &Track<u64>, value_type: ValueType, times: &Times, out: &mut Vec<u8>) {
    if track.has_labels() {
        return put_labels(track, out);
    }
    let summary = summary_of(track, value_type, times).filter(|_| is_summed(value_type));
    // A column with one constant number needs no summary.
    let summary = summary.filter(|summary| !(track.is_full() && summary.changes == 0));
    let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
    out.push(flag(track.is_full(), FULL) | flag(summary.is_some(), SUMMARY));
    if !track.is_full() {
        put_runs(&track.runs, out);
    }
    if let Some(summary) = summary {
        put_summary(&summary, times.span(), out);
    }
    stream::put(&track.values, out);
}

/// Sums of doubles depend on the order of adding, so they are always added up value by value.
fn is_summed(value_type: ValueType) -> bool {
    matches!(value_type, ValueType::Unsigned | ValueType::Signed)
}

/// Takes a column of readings.
pub(crate) fn take(mut bytes: Bytes<'_>, rows: usize) -> Read<Track<u64>> {
    let flags = bytes.byte()?;
    let (runs, count) = runs(&mut bytes, flags, rows)?;
    let dictionary = if flags & LABELS != 0 { take_labels(&mut bytes)? } else { Vec::new() };
    if flags & SUMMARY != 0 {
        stored(&mut bytes, Span { rows, first: 0, last: u64::MAX })?;
    }
    let mut values = stream::take(&mut bytes, count)?;
    bytes.end()?;
    if flags & LABELS != 0 {
        number_labels(&runs, &mut values, &dictionary)?;
    }
    Ok(Track { runs, values, labels: dictionary, ..Track::default() })
}

/// The summary of a column, without decoding it; `None` where only decoding can tell.
pub(crate) fn summary(
    mut bytes: Bytes<'_>,
    value_type: ValueType,
    span: Span,
) -> Read<Option<Option<Summary>>> {
    let flags = bytes.byte()?;
    if flags & (LABELS | ROLLUP) != 0 || !is_summed(value_type) {
        return Ok(None);
    }
    let (_, count) = runs(&mut bytes, flags, span.rows)?;
    if count == 0 {
        return Ok(Some(None));
    }
    if flags & SUMMARY != 0 {
        return stored(&mut bytes, span)
            .map(|summary| Some(Some(Summary { count: count as u64, ..summary })));
    }
    let constant = stream::constant(bytes).filter(|_| flags & FULL != 0);
    Ok(constant.map(|bits| Some(of_constant(bits, value_type, span))))
}

/// The summary of a number that every row repeats.
fn of_constant(bits: u64, value_type: ValueType, span: Span) -> Summary {
    let one = Summary::of(value_type, Point { time: Nanos(span.first), bits });
    let sum = match Total::of(value_type, bits) {
        Total::Exact(value) => Total::Exact(value.saturating_mul(span.rows as i128)),
        double => double,
    };
    Summary { count: span.rows as u64, last: Point { time: Nanos(span.last), bits }, sum, ..one }
}

fn runs(bytes: &mut Bytes<'_>, flags: u8, rows: usize) -> Read<(Vec<Run>, usize)> {
    if flags & !(FULL | LABELS | SUMMARY) != 0 {
        return Err("a column of an unknown kind");
    }
    if rows > ROWS_MAX {
        return Err("a count is beyond its limit");
    }
    if flags & FULL != 0 { Ok((vec![Run { state: 0, rows }], rows)) } else { take_runs(bytes, rows) }
}

/// Adds a track up, value by value.
pub(crate) fn summary_of(track: &Track<u64>, value_type: ValueType, times: &Times) -> Option<Summary> {
    let mut summary = None;
    track.each_run(|row, values| {
        let of_run = &times.at[row..row + values.len()];
        summary = Summary::add_all(summary.take(), value_type, of_run, values);
    });
    summary
}

/// Everything but the count, which the states tell. Values are relative to the lowest, times to the section's.
fn put_summary(summary: &Summary, (first, last): (u64, u64), out: &mut Vec<u8>) {
    let above = |bits: u64| bits.wrapping_sub(summary.lowest);
    varint::put(out, summary.lowest);
    for bits in [summary.highest, summary.first.bits, summary.last.bits] {
        varint::put(out, above(bits));
    }
    varint::put(out, summary.first.time.0 - first);
    varint::put(out, last - summary.last.time.0);
    put_wide(out, exact(summary.sum));
    varint::put(out, summary.changes);
    varint::put(out, summary.resets);
    if summary.resets > 0 {
        put_wide(out, exact(summary.correction));
    }
}

pub(crate) fn exact(total: Total) -> i128 {
    match total {
        Total::Exact(sum) => sum,
        Total::Double(sum) => i128::from(sum.to_bits()),
    }
}

fn stored(bytes: &mut Bytes<'_>, span: Span) -> Read<Summary> {
    let lowest = bytes.number()?;
    let mut above = || bytes.number().map(|above| above.wrapping_add(lowest));
    let (highest, first, last) = (above()?, above()?, above()?);
    let first_time = span.first.saturating_add(bytes.number()?);
    let last_time = span.last.saturating_sub(bytes.number()?);
    let (sum, changes, resets) = (wide(bytes)?, bytes.number()?, bytes.number()?);
    let correction = if resets > 0 { wide(bytes)? } else { 0 };
    Ok(Summary {
        count: 0,
        first: Point { time: Nanos(first_time), bits: first },
        last: Point { time: Nanos(last_time), bits: last },
        lowest,
        highest,
        sum: Total::Exact(sum),
        correction: Total::Exact(correction),
        resets,
        changes,
    })
}

/// A column with labels: each different text once, and the values are their places.
fn put_labels(track: &Track<u64>, out: &mut Vec<u8>) {
    let mut texts: Vec<Labels> = Vec::new();
    let mut places: HashMap<u64, u64> = HashMap::new();
    let (mut states, mut values, mut bytes) = (Vec::new(), Vec::new(), 0);
    for (_, state, value) in track.rows() {
        let (mut state, mut value) = (state, value.unwrap_or(0));
        if state == u16::from(khz_model::reading::LABELS_STATE) {
            let known = places.get(&value).copied().or_else(|| {
                let labels =
                    Labels::numbered(value).filter(|text| bytes + text.bytes() <= COLUMN_LABELS_MAX)?;
                bytes += labels.bytes();
                texts.push(labels);
                places.insert(value, texts.len() as u64 - 1);
                Some(texts.len() as u64 - 1)
            });
            (state, value) = known.map_or((Fault::OutOfRange as u16, 0), |place| (state, place));
        }
        states.push(state);
        values.push(value);
    }
    let track = Track::of(&states, &values);
    out.push(LABELS);
    put_runs(&track.runs, out);
    varint::put(out, texts.len() as u64);
    for text in &texts {
        crate::bytes::put_text(out, text.as_marked());
    }
    stream::put(&track.values, out);
}

fn take_labels(bytes: &mut Bytes<'_>) -> Read<Vec<Labels>> {
    let count = bytes.count(ROWS_MAX)?;
    let mut texts = Vec::new();
    for _ in 0..count {
        let text = bytes.text(khz_model::labels::LABELS_BYTES_MAX)?;
        texts.push(Labels::from_marked(text).ok_or("labels are not sorted, or not labels")?);
    }
    Ok(texts)
}

/// Turns places of labels into their numbers in this process.
fn number_labels(runs: &[Run], values: &mut [u64], texts: &[Labels]) -> Read<()> {
    let numbers: Vec<u64> = texts.iter().map(Labels::number).collect();
    let mut from = 0;
    for run in runs.iter().filter(|run| has_value(run.state)) {
        let piece = &mut values[from..from + run.rows];
        from += run.rows;
        if run.state == 0 {
            continue;
        }
        for value in piece {
            let place = usize::try_from(*value).unwrap_or(usize::MAX);
            *value = *numbers.get(place).ok_or("labels that the column does not have")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_model::{Absence, Reading};

    fn times(rows: usize) -> Times {
        use crate::times::Beside;
        let at = (0..rows as u64).map(|n| 1_000 + n * 10).collect();
        Times::of(crate::times::Kind::Rows, at, [Beside::Same(0), Beside::Same(0)])
    }

    fn track(readings: &[Option<Reading>]) -> Track<u64> {
        let state =
            |reading: &Option<Reading>| reading.map_or(crate::track::NO_READING, |it| it.state().into());
        let states: Vec<u16> = readings.iter().map(state).collect();
        let values: Vec<u64> = readings.iter().map(|reading| reading.map_or(0, Reading::bits)).collect();
        Track::of(&states, &values)
    }

    fn column(track: &Track<u64>, rows: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        put(track, ValueType::Unsigned, &times(rows), &mut bytes);
        bytes
    }

    #[test]
    fn a_constant_takes_three_bytes_and_is_its_own_summary() {
        let track = track(&[Some(Reading::Present(7)); 600]);
        let bytes = column(&track, 600);
        assert_eq!(bytes, [FULL, 1, 7]);
        let span = Span { rows: 600, first: 1_000, last: 6_990 };
        let told = summary(Bytes(&bytes), ValueType::Unsigned, span).unwrap().unwrap();
        assert_eq!(told, summary_of(&track, ValueType::Unsigned, &times(600)));
    }

    #[test]
    fn absent_failed_labels_and_no_reading_stay_apart() {
        let labels = Labels::new([("release", "6.18"), ("machine", "x86_64")]).unwrap();
        let readings = [
            None,
            Some(Reading::Absent(Absence::InstanceGone)),
            Some(Reading::Failed(Fault::Stuck)),
            Some(Reading::Labels(labels.number())),
            Some(Reading::Present(3)),
            Some(Reading::Labels(labels.number())),
        ];
        let bytes = column(&track(&readings), readings.len());
        let found = take(Bytes(&bytes), readings.len()).unwrap();
        let mut rows = vec![None; readings.len()];
        found.readings().for_each(|(row, reading)| rows[row] = Some(reading));
        assert_eq!(rows, readings);
        assert_eq!(summary(Bytes(&bytes), ValueType::Labels, Span { rows: 6, first: 0, last: 9 }), Ok(None));
    }

    #[test]
    fn a_summary_is_told_without_the_values() {
        let readings: Vec<Option<Reading>> =
            (0..50).map(|n| (n % 7 != 0).then_some(Reading::Present(n * n % 40))).collect();
        let track = track(&readings);
        let bytes = column(&track, 50);
        let span = Span { rows: 50, first: 1_000, last: 1_490 };
        let told = summary(Bytes(&bytes), ValueType::Unsigned, span).unwrap().unwrap();
        assert_eq!(told, summary_of(&track, ValueType::Unsigned, &times(50)));
        let nothing = column(&super::tests::track(&[None; 50]), 50);
        assert_eq!(summary(Bytes(&nothing), ValueType::Unsigned, span), Ok(Some(None)));
    }
}
