//! The readings of one series as they lie in a store: pieces of times and bits that several answers share, so that nobody copies
//! them. It knows neither the meaning of the bits nor their origin.

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::{Arc, OnceLock};

use crate::quantity::Nanos;
use crate::reading::Reading;

/// The readings of a series, piece by piece, in the order of time.
#[derive(Clone, Debug, Default)]
pub struct RangeColumn {
    /// Each is after the one before.
    pub pieces: Vec<RangePiece>,
}

/// Readings in rows that lie together, run by run.
#[derive(Clone, Debug)]
pub struct RangePiece {
    /// When the rows were gathered. All series of a node that lie in the same place share them.
    pub times: Arc<RangeTimes>,
    /// Rows of one state, in order. Rows outside all runs do not have the series, or nobody asked for
    /// them.
    pub runs: Vec<RangeRun>,
    /// The bits of each row with a value.
    pub values: Arc<dyn RangeBits>,
}

/// Rows that follow each other and have readings of one state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeRun {
    /// Their numbers among the times.
    pub rows: Range<usize>,
    /// [`Reading::state`].
    pub state: u8,
    /// Where their values begin; `None`: they have none.
    pub values: Option<usize>,
}

/// Bits of readings that somebody holds.
pub trait RangeBits: fmt::Debug + Send + Sync {
    /// All of them.
    fn bits(&self) -> &[u64];

    /// True if none of them is lower than the one before, as whole numbers.
    fn rises(&self) -> bool;
}

impl RangeBits for Vec<u64> {
    fn bits(&self) -> &[u64] {
        self
    }

    fn rises(&self) -> bool {
        self.is_sorted()
    }
}

/// When rows were gathered (ns since 1970, corrected), in order.
#[derive(Clone, Debug, Default)]
pub struct RangeTimes {
    at: Vec<u64>,
    /// Found when somebody asks for them first.
    distances: OnceLock<Option<(i64, i64)>>,
}

impl RangeTimes {
    /// The shortest and the longest distance between the milliseconds of two times that follow each other; `None`: there are no
    /// two.
    pub fn distances_ms(&self) -> Option<(i64, i64)> {
        let ms = |time: u64| (time / 1_000_000).cast_signed();
        *self.distances.get_or_init(|| {
            let distances = self.at.windows(2).map(|two| ms(two[1]) - ms(two[0]));
            let (shortest, longest) = distances
                .fold((i64::MAX, i64::MIN), |(shortest, longest), distance| {
                    (distance.min(shortest), distance.max(longest))
                });
            (shortest <= longest).then_some((shortest, longest))
        })
    }

    /// Roughly how many bytes they take.
    pub fn held(&self) -> usize {
        size_of::<Self>() + self.at.capacity() * size_of::<u64>()
    }
}

impl From<Vec<u64>> for RangeTimes {
    fn from(at: Vec<u64>) -> Self {
        RangeTimes { at, distances: OnceLock::new() }
    }
}

impl Deref for RangeTimes {
    type Target = [u64];

    fn deref(&self) -> &[u64] {
        &self.at
    }
}

impl PartialEq for RangeTimes {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl Eq for RangeTimes {}

impl RangeColumn {
    /// How many readings there are.
    pub fn count(&self) -> usize {
        self.pieces.iter().flat_map(|piece| &piece.runs).map(|run| run.rows.len()).sum()
    }

    /// Every reading with its time.
    pub fn readings(&self) -> impl Iterator<Item = (Nanos, Reading)> {
        self.pieces.iter().flat_map(RangePiece::readings)
    }

    /// The time of each reading.
    pub fn times(&self) -> impl Iterator<Item = u64> {
        let of_piece = |piece| move |run: &RangeRun| RangePiece::of_run(piece, run).0;
        self.pieces.iter().flat_map(move |piece| piece.runs.iter().flat_map(of_piece(piece))).copied()
    }
}

impl RangePiece {
    /// The times of a run, and its values if it has some.
    pub fn of_run(&self, run: &RangeRun) -> (&[u64], Option<&[u64]>) {
        let values = |begin| &self.values.bits()[begin..begin + run.rows.len()];
        (&self.times[run.rows.clone()], run.values.map(values))
    }

    fn readings(&self) -> impl Iterator<Item = (Nanos, Reading)> {
        self.runs.iter().flat_map(|run| {
            let (times, values) = self.of_run(run);
            let bits = move |row: usize| values.map_or(0, |values| values[row]);
            let reading =
                move |(row, time): (usize, &u64)| (Nanos(*time), Reading::from_parts(run.state, bits(row)));
            times.iter().enumerate().map(reading)
        })
    }
}

/// Columns are the same if they have the same readings.
impl PartialEq for RangeColumn {
    fn eq(&self, other: &Self) -> bool {
        self.readings().eq(other.readings())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_those_of_milliseconds() {
        let of = |times: &[u64]| RangeTimes::from(times.to_vec()).distances_ms();
        assert_eq!((of(&[]), of(&[5])), (None, None));
        assert_eq!(of(&[1_999_999, 2_000_000, 5_500_000]), Some((1, 3)));
        assert_eq!(of(&[1_000_000, 1_999_999]), Some((0, 0)));
    }

    #[test]
    fn a_column_has_the_readings_of_its_pieces_in_order() {
        let piece = |times: &[u64], runs: Vec<RangeRun>, values: &[u64]| RangePiece {
            times: Arc::new(times.to_vec().into()),
            runs,
            values: Arc::new(values.to_vec()),
        };
        let absent = Reading::Absent(crate::reading::Absence::NotYet).state();
        let column = RangeColumn {
            pieces: vec![
                piece(&[1, 2, 3], vec![RangeRun { rows: 1..3, state: 0, values: Some(1) }], &[7, 8, 9]),
                piece(&[4, 5], vec![RangeRun { rows: 1..2, state: absent, values: None }], &[]),
            ],
        };
        let readings: Vec<(u64, Reading)> = column.readings().map(|(time, it)| (time.0, it)).collect();
        assert_eq!(readings[..2], [(2, Reading::Present(8)), (3, Reading::Present(9))]);
        assert_eq!((readings[2].0, readings[2].1.state()), (5, absent));
        assert_eq!((column.count(), column.times().collect::<Vec<_>>()), (3, vec![2, 3, 5]));
    }
}
