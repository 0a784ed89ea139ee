//! A lane as one reader gets it: thinned to the reader's rate (every k-th row), under the reader's row numbers.

use khz_model::Nanos;
use ring::digest::{Context, SHA256};

use crate::lane::Lane;

/// A lane as one reader gets it: of `every` rows, one is handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ServedLane {
    pub id: u64,
    epoch: u64,
    pub every: u64,
    /// Time between two rows of the node.
    lane_period: Nanos,
    /// See [`khz_link::LaneOffer::stands_in`].
    pub stands_in: bool,
}

impl ServedLane {
    /// The lane, for a reader that wants rows this far apart.
    pub fn of(lane: &Lane, period: Nanos) -> Self {
        let Lane { id, epoch, period: lane_period, .. } = *lane;
        ServedLane { id, epoch, every: every(period, lane_period), lane_period, stands_in: false }
    }

    /// True if both hand out the same rows of the same lane.
    pub fn is(&self, other: &ServedLane) -> bool {
        (self.id, self.every) == (other.id, other.every)
    }

    /// The epoch that the reader gets: thinned rows have other numbers.
    pub fn epoch(&self) -> u64 {
        if self.every == 1 { self.epoch } else { thinned(self.epoch, self.every) }
    }

    /// Time between two rows that are handed out.
    pub fn period(&self) -> Nanos {
        Nanos(self.lane_period.0.saturating_mul(self.every))
    }

    /// The reader's number of a row.
    pub fn number(&self, row: u64) -> u64 {
        row / self.every
    }

    /// The first row that has the reader's number.
    pub fn first_row(&self, number: u64) -> u64 {
        number.saturating_mul(self.every)
    }

    /// The reader's number of the newest row; before the first row has come, as the node announced it.
    pub fn newest(&self, lane: &Lane) -> Option<u64> {
        let next = if lane.has_rows() { lane.next_row() } else { lane.next_offered };
        next.checked_sub(1).map(|row| self.number(row))
    }
}

/// The epoch of a thinned lane. Every hub computes the same.
pub(crate) fn thinned(epoch: u64, every: u64) -> u64 {
    let mut context = Context::new(&SHA256);
    context.update(b"khz every");
    context.update(&epoch.to_le_bytes());
    context.update(&every.to_le_bytes());
    let digest = context.finish();
    digest.as_ref().first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// One row of this many makes this period out of the lane's; a half is rounded down.
pub(crate) fn every(period: Nanos, lane: Nanos) -> u64 {
    if lane == Nanos(0) || period <= lane {
        return 1;
    }
    let twice = u128::from(period.0) * 2 - u128::from(lane.0);
    u64::try_from(twice.div_ceil(u128::from(lane.0) * 2)).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slower_reader_gets_one_row_of_several() {
        let every = |period: u64, lane: u64| every(Nanos(period), Nanos(lane));
        assert_eq!([every(1, 1), every(1, 10), every(0, 5), every(3, 1), every(7, 0)], [1, 1, 1, 3, 1]);
        // A half is rounded down: rather a row too many than one too few.
        assert_eq!([every(15, 10), every(16, 10), every(25, 10), every(26, 10)], [1, 2, 2, 3]);
        assert_eq!(every(u64::MAX, 1), u64::MAX);
        // It never changes: another hub must compute the same.
        assert_eq!(thinned(0x0123_4567_89ab_cdef, 10), 0x6b13_d64c_b248_bb01);
    }
}
