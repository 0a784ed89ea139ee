//! The parts of one node and step, as series with rows: a metric that changed its type is one series here, and a series that
//! another one describes has the labels of each row.

use std::collections::{HashMap, HashSet};

use khz_model::{Instance, Labels, Nanos, NodeName, RangeColumn, RangeContent, RangePart, Reading, Series};

/// For the name and instance of each series that describes others, its labels in the order of time.
#[derive(Debug)]
pub(crate) struct Descriptions<'a>(HashMap<Described<'a>, Vec<(Nanos, Reading)>>);

/// A name and an instance.
type Described<'a> = (&'a str, Option<&'a Instance>);

impl Descriptions<'_> {
    /// What describes a series, if another one does.
    pub fn of<'s>(&'s self, series: &'s Series) -> Option<&'s [(Nanos, Reading)]> {
        let from = series.metric.labels_from.as_deref()?;
        self.0.get(&(from, series.instance.as_ref())).map(Vec::as_slice)
    }
}

/// What a range has of one node in one step.
#[derive(Debug, Default)]
pub(crate) struct Group(Vec<RangePart>);

impl Group {
    /// True if a part belongs to the same node and step.
    pub fn takes(&self, part: &RangePart) -> bool {
        self.0.first().is_none_or(|first| first.node == part.node && first.step == part.step)
    }

    /// Adds a part.
    pub fn add(&mut self, part: RangePart) {
        self.0.push(part);
    }

    /// The node.
    pub fn node(&self) -> Option<&NodeName> {
        self.0.first().map(|part| &part.node)
    }

    /// The series, each once.
    pub fn series(&self) -> impl Iterator<Item = Rows<'_>> {
        // Those of one name come one after the other.
        self.0.chunk_by(|one, two| one.series == two.series).map(|parts| Rows { parts })
    }

    /// What describes series.
    pub fn descriptions(&self) -> Descriptions<'_> {
        let names = self.0.iter().filter_map(|part| part.series.metric.labels_from.as_deref());
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
        for part in &self.0 {
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

/// When the readings of a part were.
fn times(part: &RangePart) -> Vec<u64> {
    match &part.content {
        RangeContent::Readings(readings) => readings.iter().map(|(stamp, _)| stamp.real().0).collect(),
        RangeContent::Column(column) => {
            column.runs.iter().flat_map(|run| column.of_run(run).0).copied().collect()
        }
        RangeContent::Points(_) => Vec::new(),
    }
}

/// The readings of a part.
fn readings(part: &RangePart) -> Vec<(Nanos, Reading)> {
    match &part.content {
        RangeContent::Readings(readings) => {
            readings.iter().map(|(stamp, reading)| (stamp.real(), *reading)).collect()
        }
        RangeContent::Column(column) => column.readings().collect(),
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

    /// The column of the only part, if there is one.
    pub fn column(self) -> Option<&'a RangeColumn> {
        match self.parts {
            [RangePart { content: RangeContent::Column(column), .. }] => Some(column),
            _ => None,
        }
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
