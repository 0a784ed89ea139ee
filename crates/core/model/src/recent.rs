//! Range queries over rows in memory: a khz without a store answers them from the rows of the last hours. It reads node after
//! node, an hour at a time, so that it holds the rows of one node and hour.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::labels::Labels;
use crate::name::NodeName;
use crate::pattern::Pattern;
use crate::quantity::{Nanos, Stamp};
use crate::query::{Delivery, QueryError, Row};
use crate::range::{RangeAnswer, RangeContent, RangePart, RangePoint, RangeRequest, RangeShape, RangeTotal};
use crate::reading::{Absence, Reading};
use crate::schema::Series;
use crate::value_type::{ValueFormat, ValueType};

/// A step of an answer that goes through time.
const HOUR: u64 = 3_600_000_000_000;
/// Readings in one answer with every reading, as a store has it: two days of a node with 300 series at 1 Hz.
pub const RECENT_READINGS_MAX: u64 = 1 << 26;
/// A shorter time is not halved again when it has too many readings.
const CHUNK_MIN: u64 = 1_000_000_000;

/// Rows that are still in memory.
pub trait Recent: Send + Sync {
    /// The nodes that have some.
    fn nodes(&self) -> Vec<NodeName>;

    /// A time span that contains all rows; it may be longer. `None`: there are no rows.
    fn span(&self) -> Option<(Nanos, Nanos)>;

    /// The rows of a node from `from` on and before `to`, with the columns that the patterns select, in any order.
    ///
    /// # Errors
    /// [`QueryError::TooMuch`] if they are more than fit; they are then asked for in shorter times.
    fn rows(
        &self,
        node: &NodeName,
        patterns: &[Pattern],
        from: Nanos,
        to: Nanos,
    ) -> Result<Option<Delivery>, QueryError>;
}

/// An answer out of memory.
pub struct RecentAnswer {
    recent: Arc<dyn Recent>,
    patterns: Vec<Pattern>,
    from: Nanos,
    shape: RangeShape,
    /// Where buckets begin, and how long they are.
    grid: (u64, u64),
    /// What is still to be read, the next one last.
    left: Vec<Chunk>,
    /// What is read, and not given yet.
    ready: VecDeque<RangePart>,
    /// What was found of the present node, where an answer has each series once.
    found: Option<(NodeName, Found)>,
    given: u64,
}

/// A time of a node.
struct Chunk {
    node: NodeName,
    from: u64,
    to: u64,
}

/// The series of a node, each by its name, with the known data.
type Found = BTreeMap<String, (Series, Known)>;

enum Known {
    Newest(Stamp, Reading),
    Points(Vec<RangePoint>),
}

impl RecentAnswer {
    /// Begins an answer.
    ///
    /// # Errors
    /// [`QueryError::RangeBackwards`]; [`QueryError::OnlySince`] if all of it was before the first row.
    pub fn new(recent: Arc<dyn Recent>, request: RangeRequest) -> Result<Self, QueryError> {
        let RangeRequest { patterns, from, to, shape } = request;
        if from >= to {
            return Err(QueryError::RangeBackwards);
        }
        let span = recent.span();
        let first = span.map(|(first, _)| first);
        if first.is_none_or(|first| first >= to) {
            return Err(QueryError::OnlySince { first });
        }
        let grid = match shape {
            RangeShape::Points(points) => grid(from, to, points),
            RangeShape::Buckets(length) => (from.0 - from.0 % length.0.max(1), length.0.max(1)),
            _ => (0, 1),
        };
        let mut nodes = recent.nodes();
        nodes.retain(|node| patterns.iter().any(|pattern| pattern.matches_node(node.as_str())));
        nodes.sort();
        let hours = span.map_or_else(Vec::new, |(first, last)| {
            hours(first.max(from).0, last.0.saturating_add(1).min(to.0))
        });
        let chunk = |node: &NodeName, (from, to): (u64, u64)| Chunk { node: node.clone(), from, to };
        let mut left: Vec<Chunk> = match shape {
            RangeShape::Rows | RangeShape::Steps(_) | RangeShape::Columns(_) => {
                hours.iter().flat_map(|hour| nodes.iter().map(move |node| chunk(node, *hour))).collect()
            }
            RangeShape::Points(_) | RangeShape::Buckets(_) | RangeShape::Newest => {
                nodes.iter().flat_map(|node| hours.iter().map(move |hour| chunk(node, *hour))).collect()
            }
        };
        left.reverse();
        let (ready, found) = (VecDeque::new(), None);
        Ok(RecentAnswer { recent, patterns, from, shape, grid, left, ready, found, given: 0 })
    }

    /// Reads the next chunk.
    fn read(&mut self, chunk: Chunk) -> Result<(), QueryError> {
        let Chunk { node, from, to } = chunk;
        let of_node = |pattern: &&Pattern| pattern.matches_node(node.as_str());
        let patterns: Vec<Pattern> = self.patterns.iter().filter(of_node).cloned().collect();
        let delivery = match self.recent.rows(&node, &patterns, Nanos(from), Nanos(to)) {
            Err(QueryError::TooMuch { .. }) if to - from > CHUNK_MIN => {
                let middle = from + (to - from) / 2;
                self.left.push(Chunk { node: node.clone(), from: middle, to });
                self.left.push(Chunk { node, from, to: middle });
                return Ok(());
            }
            // The metrics may be those of another node.
            Err(QueryError::NothingMatches { .. }) => None,
            answer => answer?,
        };
        let Some(Delivery { columns, mut rows, .. }) = delivery else { return Ok(()) };
        rows.sort_by_key(|row| row.stamp.real());
        match self.shape {
            RangeShape::Rows => self.parts(&node, &columns, &rows, Nanos(from)),
            RangeShape::Steps(readings) | RangeShape::Columns(readings) => {
                let rows_max = (readings / columns.len().max(1)).max(1);
                for rows in rows.chunks(rows_max) {
                    self.parts(&node, &columns, rows, rows[0].stamp.real());
                }
            }
            RangeShape::Newest | RangeShape::Points(_) | RangeShape::Buckets(_) => {
                if self.found.as_ref().is_none_or(|(known, _)| *known != node) {
                    self.flush();
                    self.found = Some((node, Found::new()));
                }
                let Some((_, found)) = &mut self.found else { return Ok(()) };
                for (column, series) in columns.iter().enumerate() {
                    let readings = readings(&rows, column);
                    match self.shape {
                        RangeShape::Points(_) | RangeShape::Buckets(_) => {
                            points(found, series, readings, self.grid)
                        }
                        _ => newest(found, series, readings),
                    }
                }
            }
        }
        Ok(())
    }

    fn parts(&mut self, node: &NodeName, columns: &[Series], rows: &[Row], step: Nanos) {
        let mut order: Vec<usize> = (0..columns.len()).collect();
        order.sort_by_cached_key(|column| columns[*column].to_string());
        for column in order {
            let all: Vec<(Stamp, Reading)> = readings(rows, column).collect();
            if all.iter().any(|(_, reading)| *reading != Reading::Absent(Absence::NotYet)) {
                let content = RangeContent::Readings(all);
                self.ready.push_back(part(node, &columns[column], step, content));
            }
        }
    }

    /// Gives what was found of a node.
    fn flush(&mut self) {
        let Some((node, found)) = self.found.take() else { return };
        for (series, known) in found.into_values() {
            let content = match known {
                Known::Newest(stamp, reading) => RangeContent::Readings(vec![(stamp, reading)]),
                Known::Points(points) if points.is_empty() => continue,
                Known::Points(points) => RangeContent::Points(points),
            };
            self.ready.push_back(part(&node, &series, self.from, content));
        }
    }
}

impl RangeAnswer for RecentAnswer {
    fn next(&mut self) -> Result<Option<RangePart>, QueryError> {
        loop {
            if let Some(part) = self.ready.pop_front() {
                self.given += part.content.count() as u64;
                let is_limited = !matches!(self.shape, RangeShape::Steps(_) | RangeShape::Columns(_));
                return match is_limited && self.given > RECENT_READINGS_MAX {
                    true => Err(QueryError::RangeTooLarge { limit: RECENT_READINGS_MAX }),
                    false => Ok(Some(part)),
                };
            }
            match self.left.pop() {
                Some(chunk) => self.read(chunk)?,
                None if self.found.is_some() => self.flush(),
                None => return Ok(None),
            }
        }
    }

    fn width(&self) -> Option<Nanos> {
        matches!(self.shape, RangeShape::Points(_) | RangeShape::Buckets(_)).then_some(Nanos(self.grid.1))
    }
}

fn part(node: &NodeName, series: &Series, step: Nanos, content: RangeContent) -> RangePart {
    let mut labels: Vec<Labels> = match &content {
        RangeContent::Readings(readings) => {
            readings.iter().filter_map(|(_, reading)| reading.labels()).collect()
        }
        RangeContent::Points(points) if series.metric.value_type == ValueType::Labels => {
            let numbers = points.iter().flat_map(|point| [point.first.1, point.last.1]);
            numbers.filter_map(Labels::numbered).collect()
        }
        RangeContent::Points(_) | RangeContent::Column(_) => Vec::new(),
    };
    labels.dedup();
    RangePart { node: node.clone(), series: series.clone(), step, shift: 0, content, labels }
}

/// The readings of a column, in the order of the rows.
fn readings(rows: &[Row], column: usize) -> impl Iterator<Item = (Stamp, Reading)> + '_ {
    rows.iter().filter_map(move |row| Some((row.stamp, *row.readings.get(column)?)))
}

/// The hours of UTC from one time to another, the first and the last cut there.
fn hours(from: u64, to: u64) -> Vec<(u64, u64)> {
    let mut hours = Vec::new();
    let mut begin = from;
    while begin < to {
        let end = (begin - begin % HOUR).saturating_add(HOUR).min(to);
        hours.push((begin, end));
        begin = end;
    }
    hours
}

/// At most `points` buckets from `from` to `to`; their begin and width are whole seconds if they are that long.
fn grid(from: Nanos, to: Nanos, points: u32) -> (u64, u64) {
    let points = u64::from(points.max(1));
    let least = |origin: u64| to.0.saturating_sub(origin).div_ceil(points).max(1);
    let unit = if least(from.0) >= Nanos::SECOND.0 { Nanos::SECOND.0 } else { 1 };
    let origin = from.0 - from.0 % unit;
    let width = least(origin);
    (origin, width.checked_next_multiple_of(unit).unwrap_or(width))
}

fn newest(found: &mut Found, series: &Series, readings: impl Iterator<Item = (Stamp, Reading)>) {
    let not_yet = Reading::Absent(Absence::NotYet);
    let Some((stamp, reading)) = readings.filter(|(_, reading)| *reading != not_yet).last() else { return };
    found.insert(series.to_string(), (series.clone(), Known::Newest(stamp, reading)));
}

fn points(
    found: &mut Found,
    series: &Series,
    readings: impl Iterator<Item = (Stamp, Reading)>,
    (origin, width): (u64, u64),
) {
    let format = series.metric.format();
    let (_, known) =
        found.entry(series.to_string()).or_insert_with(|| (series.clone(), Known::Points(Vec::new())));
    let Known::Points(points) = known else { return };
    for (stamp, reading) in readings {
        let (Reading::Present(bits) | Reading::Labels(bits)) = reading else { continue };
        let time = stamp.real();
        let begin = Nanos(origin + time.0.saturating_sub(origin) / width * width);
        match points.last_mut().filter(|point| point.begin == begin) {
            Some(point) => grow(point, time, bits, format),
            None => points.push(first(begin, time, bits, format)),
        }
    }
}

fn first(begin: Nanos, time: Nanos, bits: u64, format: ValueFormat) -> RangePoint {
    let is_number = format.number(bits).is_some();
    let extreme = if is_number { bits } else { 0 };
    RangePoint {
        begin,
        count: 1,
        first: (time, bits),
        last: (time, bits),
        lowest: extreme,
        highest: extreme,
        sum: total(bits, format),
        resets: 0,
        changes: 0,
        correction: none(format),
    }
}

fn grow(point: &mut RangePoint, time: Nanos, bits: u64, format: ValueFormat) {
    let is_less = |one: u64, two: u64| match (format.number(one), format.number(two)) {
        (Some(one), Some(two)) => one.by_size(&two).is_lt(),
        _ => false,
    };
    point.changes += u64::from(bits != point.last.1);
    if is_less(bits, point.last.1) {
        point.resets += 1;
        point.correction = sum(point.correction, total(point.last.1, format));
    }
    if is_less(bits, point.lowest) {
        point.lowest = bits;
    }
    if is_less(point.highest, bits) {
        point.highest = bits;
    }
    point.count += 1;
    point.last = (time, bits);
    point.sum = sum(point.sum, total(bits, format));
}

fn none(format: ValueFormat) -> RangeTotal {
    match format.value_type {
        ValueType::Float => RangeTotal::Double(0.0),
        _ => RangeTotal::Exact(0),
    }
}

fn total(bits: u64, format: ValueFormat) -> RangeTotal {
    match format.value_type {
        ValueType::Float => RangeTotal::Double(f64::from_bits(bits)),
        _ => RangeTotal::Exact(format.steps(bits).map_or(0, |(steps, _)| steps)),
    }
}

fn sum(one: RangeTotal, two: RangeTotal) -> RangeTotal {
    match (one, two) {
        (RangeTotal::Exact(one), RangeTotal::Exact(two)) => RangeTotal::Exact(one.saturating_add(two)),
        (RangeTotal::Double(one), RangeTotal::Double(two)) => RangeTotal::Double(one + two),
        (one, _) => one,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::tests::series;

    /// Two nodes with two series, a row each second of two hours, but at most 1,000 readings at a time.
    struct Made;

    const FIRST: u64 = 1_000 * HOUR + HOUR / 2;
    const ROWS: u64 = 7_200;

    fn name(text: &str) -> NodeName {
        NodeName::new(text).unwrap()
    }

    impl Recent for Made {
        fn nodes(&self) -> Vec<NodeName> {
            ["n2", "n1"].map(name).to_vec()
        }
        fn span(&self) -> Option<(Nanos, Nanos)> {
            Some((Nanos(FIRST), Nanos(FIRST + (ROWS - 1) * 1_000_000_000)))
        }
        fn rows(
            &self,
            node: &NodeName,
            patterns: &[Pattern],
            from: Nanos,
            to: Nanos,
        ) -> Result<Option<Delivery>, QueryError> {
            let mut columns = vec![series("load", None, None), series("net", None, Some("eth0"))];
            columns.retain(|series| series.is_selected(patterns));
            let times = (0..ROWS).map(|n| (n, FIRST + n * 1_000_000_000));
            let times: Vec<(u64, u64)> = times.filter(|(_, time)| (from.0..to.0).contains(time)).collect();
            if times.len() * columns.len() > 1_000 {
                return Err(QueryError::TooMuch { node: node.clone() });
            }
            let row = |(n, time): (u64, u64)| Row {
                stamp: Stamp { boot: Nanos(time), real_offset: 0 },
                readings: columns.iter().map(|_| Reading::Present(n % 100)).collect(),
            };
            let rows = times.into_iter().map(row).rev().collect();
            Ok(Some(Delivery {
                node: node.clone(),
                columns: Arc::new(columns.clone()),
                rows,
                lost: 0,
                rate: None,
                last: None,
            }))
        }
    }

    fn parts(pattern: &str, shape: RangeShape, from: u64, to: u64) -> Vec<RangePart> {
        let patterns = vec![Pattern::new(pattern).unwrap()];
        let request = RangeRequest { patterns, from: Nanos(from), to: Nanos(to), shape };
        let mut answer = RecentAnswer::new(Arc::new(Made), request).unwrap();
        std::iter::from_fn(|| answer.next().unwrap()).collect()
    }

    fn count(part: &RangePart) -> usize {
        if let RangeContent::Readings(readings) = &part.content {
            assert!(readings.is_sorted_by_key(|(stamp, _)| stamp.real()));
        }
        part.content.count()
    }

    #[test]
    fn rows_come_hour_by_hour_and_node_by_node_each_once() {
        let all = parts("*", RangeShape::Rows, 0, u64::MAX);
        assert_eq!(all.iter().map(count).sum::<usize>() as u64, 2 * 2 * ROWS);
        let order: Vec<(u64, String)> =
            all.iter().map(|part| (part.step.0 / HOUR, part.node.to_string())).collect();
        assert!(order.is_sorted(), "{order:?}");
        assert_eq!(order.last(), Some(&(1_002, "n2".to_owned())));
        let one = parts("n1:load", RangeShape::Rows, FIRST + 5_000_000_000, FIRST + 8_000_000_000);
        assert_eq!((one.len(), count(&one[0])), (1, 3));
    }

    #[test]
    fn steps_have_no_more_readings_than_is_said_and_all_series_of_their_rows() {
        let all = parts("n1:*", RangeShape::Steps(100), 0, u64::MAX);
        assert_eq!(all.iter().map(count).sum::<usize>() as u64, 2 * ROWS);
        for step in all.chunk_by(|one, two| one.step == two.step) {
            assert_eq!((step.len(), count(&step[0])), (2, count(&step[1])));
            assert!(count(&step[0]) <= 50);
        }
    }

    #[test]
    fn each_series_has_its_newest_reading_and_its_points_once() {
        let newest = parts("*", RangeShape::Newest, 0, FIRST + 10_000_000_000);
        assert_eq!(newest.iter().map(count).collect::<Vec<_>>(), [1; 4]);
        let RangeContent::Readings(readings) = &newest[0].content else { panic!() };
        assert_eq!(readings[0].1, Reading::Present(9));
        let points = parts("n1:load", RangeShape::Points(72), FIRST, FIRST + ROWS * 1_000_000_000);
        let RangeContent::Points(points) = &points[0].content else { panic!() };
        assert_eq!(points.len(), 72);
        assert_eq!((points[0].count, points[0].lowest, points[0].highest), (100, 0, 99));
        assert_eq!((points[1].sum, points[1].resets), (RangeTotal::Exact(4_950), 0));
        let across = parts("n1:load", RangeShape::Points(1), FIRST, FIRST + 150_000_000_000);
        let RangeContent::Points(points) = &across[0].content else { panic!() };
        assert_eq!((points[0].resets, points[0].correction), (1, RangeTotal::Exact(99)));
    }

    #[test]
    fn a_question_about_an_earlier_time_is_told_how_far_back_memory_goes() {
        let patterns = vec![Pattern::everything()];
        let request = |from, to| RangeRequest {
            patterns: patterns.clone(),
            from: Nanos(from),
            to: Nanos(to),
            shape: RangeShape::Rows,
        };
        let error = RecentAnswer::new(Arc::new(Made), request(5, 9)).err().unwrap();
        assert_eq!(error, QueryError::OnlySince { first: Some(Nanos(FIRST)) });
        assert!(error.to_string().contains("since 1970-02-11 16:30:00 UTC"), "{error}");
        let backwards = RecentAnswer::new(Arc::new(Made), request(9, 5)).err().unwrap();
        assert_eq!(backwards, QueryError::RangeBackwards);
    }
}
