//! The parts of one node and step, as series with rows: a metric that changed its type is one series here, and a series that
//! another one describes has the labels of each row.

use std::collections::{BTreeMap, HashMap, HashSet};

use khz_model::reading::LABELS_STATE;
use khz_model::{
    Instance, Labels, Nanos, NodeName, RangeColumn, RangeContent, RangePart, RangePoint, Reading, Series,
    ValueType,
};

/// For the name and instance of each series that describes others, its labels in the order of time.
#[derive(Debug)]
pub(crate) struct Descriptions<'a>(HashMap<Described<'a>, Vec<(Nanos, Reading)>>);

/// A name and an instance.
type Described<'a> = (&'a str, Option<&'a Instance>);

impl Descriptions<'_> {
    /// The readings that describe a series, if another series holds them.
    pub fn of<'s>(&'s self, series: &'s Series) -> Option<&'s [(Nanos, Reading)]> {
        let from = series.metric.labels_from.as_deref()?;
        self.0.get(&(from, series.instance.as_ref())).map(Vec::as_slice)
    }
}

/// The data of one node in one step of a range.
#[derive(Debug, Default)]
pub(crate) struct Group {
    parts: Vec<RangePart>,
    /// How long its buckets are, if it has some.
    width: Nanos,
}

impl Group {
    /// True if a part belongs to the same node and step.
    pub fn takes(&self, part: &RangePart) -> bool {
        self.parts.first().is_none_or(|first| first.node == part.node && first.step == part.step)
    }

    /// Adds a part, and how long its buckets are.
    pub fn add(&mut self, part: RangePart, width: Option<Nanos>) {
        self.parts.push(part);
        self.width = width.unwrap_or(self.width);
    }

    /// How long its buckets are.
    pub fn width(&self) -> Nanos {
        self.width
    }

    /// The node.
    pub fn node(&self) -> Option<&NodeName> {
        self.parts.first().map(|part| &part.node)
    }

    /// The step.
    pub fn step(&self) -> Option<Nanos> {
        self.parts.first().map(|part| part.step)
    }

    /// How many readings there are.
    pub fn count(&self) -> usize {
        self.parts.iter().map(|part| part.content.count()).sum()
    }

    /// The series, each once.
    pub fn series(&self) -> impl Iterator<Item = Rows<'_>> {
        // Those of one name come one after the other.
        self.parts.chunk_by(|one, two| one.series == two.series).map(|parts| Rows { parts })
    }

    /// What describes series.
    pub fn descriptions(&self) -> Descriptions<'_> {
        let names = self.parts.iter().filter_map(|part| part.series.metric.labels_from.as_deref());
        let names: HashSet<&str> = names.collect();
        let described = self.series().filter(|rows| names.contains(&*rows.series().metric.name));
        let labels = described.map(|rows| {
            let series = rows.series();
            let key = (&*series.metric.name, series.instance.as_ref());
            (key, rows.merged().into_iter().map(|(time, reading, _)| (time, reading)).collect())
        });
        Descriptions(labels.collect())
    }

    /// The times of all rows, in order (ns since 1970).
    pub fn times(&self) -> Vec<u64> {
        let mut all: Vec<u64> = Vec::new();
        for part in &self.parts {
            let times = times(part);
            // Most series have all rows of their node.
            if times[..] != all[..] {
                all.extend(times);
                all.sort_unstable();
                all.dedup();
            }
        }
        all
    }
}

/// The pause between times that stand for the rows of a bucket (ns).
const BUCKET_TIME_EVERY: u64 = 60_000_000_000;

impl Group {
    /// Stand-ins for the times of all rows, where only buckets are left: one for each minute with rows.
    pub fn bucket_times(&self) -> Vec<u64> {
        let mut spans: BTreeMap<Nanos, (u64, u64)> = BTreeMap::new();
        let points = self.parts.iter().filter_map(|part| match &part.content {
            RangeContent::Points(points) => Some(points),
            _ => None,
        });
        for point in points.flatten() {
            let (first, last) = (point.first.0.0, point.last.0.0);
            let span = spans.entry(point.begin).or_insert((first, last));
            *span = (span.0.min(first), span.1.max(last));
        }
        // Whole minutes: the pause between two of them says how long the node was away.
        let of = |(first, last): (u64, u64)| {
            (first - first % BUCKET_TIME_EVERY..=last).step_by(BUCKET_TIME_EVERY as usize)
        };
        spans.into_values().flat_map(of).collect()
    }
}

impl Group {
    /// True if there is such a bucket, by the times of its first and its last value.
    pub fn has_bucket(&self, is_such: impl Fn(Nanos, Nanos) -> bool) -> bool {
        self.parts.iter().any(|part| match &part.content {
            RangeContent::Points(points) => points.iter().any(|point| is_such(point.first.0, point.last.0)),
            RangeContent::Readings(_) | RangeContent::Column(_) => false,
        })
    }
}

/// When the readings of a part were.
fn times(part: &RangePart) -> Vec<u64> {
    match &part.content {
        RangeContent::Readings(readings) => readings.iter().map(|(stamp, _)| stamp.real().0).collect(),
        RangeContent::Column(column) => column.times().collect(),
        RangeContent::Points(points) => points.iter().flat_map(evenly).collect(),
    }
}

/// Stand-ins for the times of a bucket's rows: the same number, at equal distances.
fn evenly(point: &RangePoint) -> impl Iterator<Item = u64> {
    let ((first, last), count) = ((point.first.0.0, point.last.0.0), point.count.max(1));
    let length = u128::from(last.saturating_sub(first));
    (0..count).map(move |row| first + (length * u128::from(row) / u128::from(count.max(2) - 1)) as u64)
}

/// The readings of a part.
fn readings(part: &RangePart) -> Vec<(Nanos, Reading)> {
    match &part.content {
        RangeContent::Readings(readings) => {
            readings.iter().map(|(stamp, reading)| (stamp.real(), *reading)).collect()
        }
        RangeContent::Column(column) => column.readings().collect(),
        // Labels are there once for each bucket, as of its begin; of numbers there are no readings.
        RangeContent::Points(points) if part.series.metric.value_type == ValueType::Labels => {
            let reading = |point: &RangePoint| (point.begin, Reading::from_parts(LABELS_STATE, point.last.1));
            points.iter().map(reading).collect()
        }
        RangeContent::Points(_) => Vec::new(),
    }
}

/// The rows of one series.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows<'a> {
    /// One for each type that the metric had.
    parts: &'a [RangePart],
}

impl<'a> Rows<'a> {
    /// The series, as it was last.
    pub fn series(self) -> &'a Series {
        &self.parts[self.parts.len() - 1].series
    }

    /// True if there are only buckets, where rows were asked for: the rows are damaged.
    pub fn are_buckets(self) -> bool {
        self.parts.iter().all(|part| matches!(part.content, RangeContent::Points(_)))
    }

    /// The times of all rows, in order (ns since 1970).
    pub fn times(self) -> Vec<u64> {
        let mut all: Vec<u64> = self.parts.iter().flat_map(times).collect();
        if self.parts.len() > 1 {
            all.sort_unstable();
            all.dedup();
        }
        all
    }

    /// The column of the only part, if there is one.
    pub fn column(self) -> Option<&'a RangeColumn> {
        match self.parts {
            [RangePart { content: RangeContent::Column(column), .. }] => Some(column),
            _ => None,
        }
    }

    /// The buckets of all parts in the order of time, each with its series.
    pub fn buckets(self) -> Vec<(&'a RangePoint, &'a Series)> {
        let of_part = |part: &'a RangePart| {
            let points = match &part.content {
                RangeContent::Points(points) => &points[..],
                _ => &[],
            };
            points.iter().map(|point| (point, &part.series))
        };
        let mut all: Vec<_> = self.parts.iter().flat_map(of_part).collect();
        all.sort_by_key(|(point, _)| point.first.0);
        all
    }

    /// The rows of all parts in the order of time; of two at one time the one with a value.
    pub fn merged(self) -> Vec<(Nanos, Reading, &'a Series)> {
        let of_part = |part: &'a RangePart| {
            readings(part).into_iter().map(|(time, reading)| (time, reading, &part.series))
        };
        let mut rows: Vec<(Nanos, Reading, &Series)> = self.parts.iter().flat_map(of_part).collect();
        let has_value = |reading: &Reading| matches!(reading, Reading::Present(_) | Reading::Labels(_));
        rows.sort_by_key(|(time, reading, _)| (*time, !has_value(reading)));
        rows.dedup_by_key(|(time, ..)| *time);
        rows
    }
}

/// The labels in force at a time, out of those in the order of time.
pub(crate) fn labels_at(descriptions: &[(Nanos, Reading)], time: Nanos) -> Option<Labels> {
    let at = descriptions.binary_search_by_key(&time, |(time, _)| *time).ok()?;
    descriptions[at].1.labels()
}
