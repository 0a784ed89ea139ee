//! The only range query: the readings of series at past times, as they were sampled, in buckets, or only the newest.
//! Doors ask it through [`crate::Query::range`]; a store answers it through [`Ranges`]. An answer comes in parts, each
//! with one series of one node, so that nobody holds it whole.

mod column;

use std::fmt;
use std::sync::Arc;

pub use column::{RangeBits, RangeColumn, RangePiece, RangeRun, RangeTimes};

use crate::labels::Labels;
use crate::metric::Metric;
use crate::name::NodeName;
use crate::pattern::Pattern;
use crate::quantity::{Nanos, Stamp};
use crate::query::QueryError;
use crate::reading::Reading;
use crate::schema::Series;
use crate::value_type::{Number, ValueFormat};

/// Points of one series in one answer: more than the pixels of any screen.
pub const RANGE_POINTS_MAX: u32 = 10_000;

/// Readings of one node that are put together to rows: with their times they take eight megabytes. A node with 300 series at
/// 1 Hz has steps of a quarter of an hour.
pub const RANGE_STEP_READINGS: usize = 1 << 18;

/// A question about the past.
#[derive(Clone, Debug)]
pub struct RangeRequest {
    /// Which series.
    pub patterns: Vec<Pattern>,
    /// Readings from this time on (since 1970, by the nodes' wall clocks, corrected where a node's clock was wrong).
    pub from: Nanos,
    /// And before this one.
    pub to: Nanos,
    /// Which data of the series.
    pub shape: RangeShape,
}

/// What an answer has of each series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeShape {
    /// Every reading. The answer goes through time in steps; of each step it has node after node in the order of their
    /// names, and of each node series after series.
    Rows,
    /// The same for a caller that puts rows together: a step has at most this many readings of a node, or one row. If there
    /// are more readings, the step is shorter. All steps of a node within one hour come one after the other. The number of
    /// readings in all steps has no limit.
    Steps(usize),
    /// The same steps for a caller that computes with many readings: as columns, where the answer has
    /// columns.
    Columns(usize),
    /// A summary of each bucket; there are about this many buckets. Node after node, series after series.
    Points(u32),
    /// The same for a caller that computes with many buckets: each bucket has this length, and begins at a multiple of it.
    /// Their number has no limit.
    Buckets(Nanos),
    /// The newest reading. Node after node, series after series.
    Newest,
}

/// A part of an answer.
#[derive(Clone, Debug)]
pub struct RangePart {
    /// The node.
    pub node: NodeName,
    /// The series. A metric that changed its type or its decimal places comes as several.
    pub series: Series,
    /// The beginning of the step to which this part belongs; for buckets and newest readings always the same. Parts of
    /// one step and node have the same rows, and come one after the other.
    pub step: Nanos,
    /// What was added to the times of its rows (ns), because the node's clock was wrong. If rows have different shifts, it is
    /// the largest. Usually 0, and always 0 for buckets.
    pub shift: i64,
    /// The data.
    pub content: RangeContent,
    /// Holds the labels whose numbers are in the content, so that this process does not forget them.
    pub labels: Vec<Labels>,
}

/// The data of a series.
#[derive(Clone, Debug, PartialEq)]
pub enum RangeContent {
    /// Readings in the order of their times.
    Readings(Vec<(Stamp, Reading)>),
    /// The same, as it lies in a store: only for [`RangeShape::Columns`].
    Column(RangeColumn),
    /// The buckets with a value, in the order of their times.
    Points(Vec<RangePoint>),
}

impl RangeContent {
    /// How many readings or points it has.
    pub fn count(&self) -> usize {
        match self {
            RangeContent::Readings(readings) => readings.len(),
            RangeContent::Column(column) => column.count(),
            RangeContent::Points(points) => points.len(),
        }
    }

    /// Roughly how many bytes it takes, beside what it shares with others.
    pub fn held(&self) -> usize {
        match self {
            RangeContent::Readings(readings) => readings.capacity() * size_of::<(Stamp, Reading)>(),
            RangeContent::Column(column) => {
                let runs: usize = column.pieces.iter().map(|piece| piece.runs.capacity()).sum();
                column.pieces.capacity() * size_of::<RangePiece>() + runs * size_of::<RangeRun>()
            }
            RangeContent::Points(points) => points.capacity() * size_of::<RangePoint>(),
        }
    }
}

/// What a series did in one bucket. Absent and failed readings do not count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RangePoint {
    /// When the bucket begins.
    pub begin: Nanos,
    /// Readings with a value.
    pub count: u64,
    /// The first value: its time and its bits ([`ValueFormat`] says what they mean; for labels they are the number
    /// of the labels).
    pub first: (Nanos, u64),
    /// The last value.
    pub last: (Nanos, u64),
    /// The bits of the lowest value; 0 for labels.
    pub lowest: u64,
    /// The bits of the highest value; 0 for labels.
    pub highest: u64,
    /// The sum of all values.
    pub sum: RangeTotal,
    /// How many times the value fell.
    pub resets: u64,
    /// How many times the value was another one than before.
    pub changes: u64,
    /// The sum of the values before each reset. Added to the last value, it gives what a counter has counted.
    pub correction: RangeTotal,
}

/// A sum of values: exact for whole numbers, in steps of the metric's decimal places.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RangeTotal {
    /// Whole steps.
    Exact(i128),
    /// A sum of doubles.
    Double(f64),
}

impl RangeTotal {
    /// The sum as a decimal, digit for digit.
    pub fn with_places(self, format: ValueFormat) -> impl fmt::Display {
        TotalText { total: self, places: format.places.min(crate::decimal::PLACES_MAX) }
    }

    /// The nearest double: for plots and ratios.
    pub fn to_f64(self, format: ValueFormat) -> f64 {
        match self {
            RangeTotal::Exact(steps) => steps as f64 / 10f64.powi(i32::from(format.places)),
            RangeTotal::Double(sum) => sum,
        }
    }
}

struct TotalText {
    total: RangeTotal,
    places: u8,
}

impl fmt::Display for TotalText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (steps, places) = match self.total {
            RangeTotal::Double(sum) => return Number::Double(sum).fmt(f),
            RangeTotal::Exact(steps) => (steps, usize::from(self.places)),
        };
        let sign = if steps < 0 { "-" } else { "" };
        let (size, step) = (steps.unsigned_abs(), 10u128.pow(places as u32));
        match places {
            0 => write!(f, "{sign}{size}"),
            _ => write!(f, "{sign}{}.{:0places$}", size / step, size % step),
        }
    }
}

/// An answer, part by part.
pub trait RangeAnswer: Send {
    /// The next part; `None` after the last. It reads files, so it may take a while.
    fn next(&mut self) -> Result<Option<RangePart>, QueryError>;

    /// How long each bucket is; `None`: the answer has none.
    fn width(&self) -> Option<Nanos> {
        None
    }

    /// What could not be read since the last call, and so is missing, one sentence each.
    fn damage(&mut self) -> Vec<String> {
        Vec::new()
    }
}

/// The times for which there is data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// Rows are there from this time on (since 1970).
    pub rows: Nanos,
    /// For earlier times only buckets are left ([`RangeShape::Buckets`]): the length of the buckets, and since when there are
    /// some; the shortest first.
    pub buckets: Vec<(Nanos, Nanos)>,
    /// The lengths of the buckets that are made of all rows some time after these have come.
    pub rolled: Vec<Nanos>,
}

/// Something that remembers what series were.
pub trait Ranges: Send + Sync {
    /// The times for which it has data: by default, rows for all times.
    fn reach(&self) -> Reach {
        Reach::default()
    }

    /// Metrics that it has had; the newest ones may be missing.
    fn metrics(&self) -> Vec<Arc<Metric>> {
        Vec::new()
    }

    /// The owners of recorded series ([`crate::recorded`]) that it has had; the newest ones may be missing.
    fn owners(&self) -> Vec<NodeName> {
        Vec::new()
    }

    /// Begins an answer.
    fn range(&self, request: RangeRequest) -> Result<Box<dyn RangeAnswer>, QueryError>;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value_type::ValueType;

    #[test]
    fn a_sum_is_printed_digit_for_digit() {
        for (total, places, expected) in [
            (RangeTotal::Exact(0), 0, "0"),
            (RangeTotal::Exact(-5), 2, "-0.05"),
            (RangeTotal::Exact(36_893_488_147_419_103_230), 1, "3689348814741910323.0"),
            (RangeTotal::Exact(i128::MIN), 0, "-170141183460469231731687303715884105728"),
            (RangeTotal::Double(0.1), 0, "0.1"),
        ] {
            let format = ValueFormat { value_type: ValueType::Signed, places };
            assert_eq!(total.with_places(format).to_string(), expected);
        }
    }
}
