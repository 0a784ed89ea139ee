//! Which rows of a lane were received or are lost: a few ranges of their numbers. Rows between two ranges are missing; they
//! may still come, or be lost.

use crate::limits::{HAVE_MAX, RANGES_MAX};

/// Half-open ranges of row numbers, in order. No range touches the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges {
    ranges: Vec<(u64, u64)>,
    given_up: u64,
    /// The hole that was given up last, until [`Ranges::take_forgotten`] returns it.
    forgotten: Option<(u64, u64)>,
}

impl Ranges {
    /// The number after the newest row.
    pub fn end(&self) -> u64 {
        self.ranges.last().map_or(0, |&(_, end)| end)
    }

    /// All ranges.
    pub fn as_slice(&self) -> &[(u64, u64)] {
        &self.ranges
    }

    /// The oldest row.
    pub fn start(&self) -> Option<u64> {
        self.ranges.first().map(|&(start, _)| start)
    }

    /// Adds `from..to`. Returns how many of these rows are new.
    #[inline]
    pub fn add(&mut self, from: u64, to: u64) -> u64 {
        if let Some(last) = self.ranges.last_mut()
            && last.1 == from
        {
            // Almost always these are the next rows.
            last.1 = last.1.max(to);
            return to.saturating_sub(from);
        }
        self.insert(from, to)
    }

    #[cold]
    fn insert(&mut self, mut from: u64, mut to: u64) -> u64 {
        if from >= to {
            return 0;
        }
        let before = self.rows();
        let first = self.ranges.partition_point(|&(_, end)| end < from);
        let last = self.ranges.partition_point(|&(start, _)| start <= to);
        if first < last {
            from = from.min(self.ranges[first].0);
            to = to.max(self.ranges[last - 1].1);
        }
        self.ranges.splice(first..last, [(from, to)]);
        let added = self.rows() - before;
        if self.ranges.len() > RANGES_MAX {
            let hole = (self.ranges[0].1, self.ranges[1].0);
            self.given_up += hole.1 - hole.0;
            self.forgotten = Some(hole);
            self.ranges[1].0 = self.ranges[0].0;
            self.ranges.remove(0);
        }
        added
    }

    /// Removes rows that turned out to be wrong.
    pub fn remove(&mut self, from: u64, to: u64) {
        if from >= to {
            return;
        }
        let kept = |&(start, end): &(u64, u64)| [(start, end.min(from)), (start.max(to), end)];
        let parts = self.ranges.iter().flat_map(kept).filter(|(start, end)| start < end);
        self.ranges = parts.collect();
    }

    /// Returns the hole for which the last [`Ranges::add`] had no room, and forgets it. From then on its rows count as received,
    /// so the caller must report them as lost.
    #[inline]
    pub fn take_forgotten(&mut self) -> Option<(u64, u64)> {
        self.forgotten.take()
    }

    /// True when the ranges contain this row.
    pub fn contains(&self, row: u64) -> bool {
        let at = self.ranges.partition_point(|&(_, end)| end <= row);
        self.ranges.get(at).is_some_and(|&(start, _)| start <= row)
    }

    /// The parts of `from..to` that are in no range.
    pub fn holes(&self, from: u64, to: u64) -> Vec<(u64, u64)> {
        let (mut holes, mut at) = (Vec::new(), from);
        let first = self.ranges.partition_point(|&(_, end)| end <= from);
        for &(start, end) in self.ranges[first..].iter().take_while(|&&(start, _)| start < to) {
            if at < start {
                holes.push((at, start));
            }
            at = end;
        }
        if at < to {
            holes.push((at, to));
        }
        holes
    }

    /// The parts of `from..to` that are in a range.
    pub fn parts(&self, from: u64, to: u64) -> Vec<(u64, u64)> {
        let first = self.ranges.partition_point(|&(_, end)| end <= from);
        let within = self.ranges[first..].iter().take_while(|&&(start, _)| start < to);
        within.map(|&(start, end)| (start.max(from), end.min(to))).collect()
    }

    /// Rows of holes that had no room; they count as received.
    pub fn given_up(&self) -> u64 {
        self.given_up
    }

    /// Rows that were received or given up.
    pub fn rows(&self) -> u64 {
        self.ranges.iter().map(|&(start, end)| end - start).sum()
    }

    /// Rows missing between the oldest and the newest received.
    pub fn missing(&self) -> u64 {
        self.ranges.windows(2).map(|pair| pair[1].0 - pair[0].1).sum()
    }

    /// The number before which no row is missing, counted from the oldest row: a peer that requests no older rows needs none of
    /// them.
    pub fn complete_until(&self) -> u64 {
        self.ranges.first().map_or(0, |&(_, end)| end)
    }

    /// All rows from 0 up to here were received or are lost.
    pub fn complete_from_zero(&self) -> u64 {
        self.ranges.first().filter(|&&(from, _)| from == 0).map_or(0, |&(_, to)| to)
    }

    /// The newest ranges above [`Ranges::complete_from_zero`], as many as a Want may have.
    pub fn above(&self) -> Vec<(u64, u64)> {
        let above = self.ranges.iter().filter(|&&(from, _)| from > 0);
        let mut newest: Vec<_> = above.rev().take(HAVE_MAX).copied().collect();
        newest.reverse();
        newest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_hole_is_missing_until_it_is_filled() {
        let mut ranges = Ranges::default();
        assert_eq!(ranges.add(5, 10), 5);
        assert_eq!(ranges.add(20, 30), 10);
        assert_eq!((ranges.missing(), ranges.complete_until(), ranges.end()), (10, 10, 30));
        assert_eq!(ranges.add(8, 22), 10);
        assert_eq!((ranges.missing(), ranges.complete_until(), ranges.end()), (0, 30, 30));
    }

    proptest! {
        #[test]
        fn rows_that_are_taken_back_are_missing_again(adds in prop::collection::vec((0u64..200, 1u64..20), 1..20), gone in (0u64..200, 0u64..50)) {
            let (mut ranges, mut set) = (Ranges::default(), BTreeSet::new());
            for (from, length) in adds {
                ranges.add(from, from + length);
                set.extend(from..from + length);
            }
            let (from, to) = (gone.0, gone.0 + gone.1);
            ranges.remove(from, to);
            set.retain(|row| !(from..to).contains(row));
            prop_assert_eq!(ranges.as_slice().iter().flat_map(|&(from, to)| from..to).collect::<BTreeSet<_>>(), set);
            prop_assert!(ranges.as_slice().windows(2).all(|pair| pair[0].1 < pair[1].0));
        }

        #[test]
        fn ranges_count_like_a_set(adds in prop::collection::vec((0u64..200, 0u64..20), 1..60)) {
            let (mut ranges, mut set) = (Ranges::default(), BTreeSet::new());
            for (from, length) in adds {
                let new = (from..from + length).filter(|&row| set.insert(row)).count() as u64;
                prop_assert_eq!(ranges.add(from, from + length), new);
                let (first, last) = (set.first().copied(), set.last().copied());
                prop_assert_eq!(ranges.start(), first);
                let hole = (0..).find(|row| !set.contains(row));
                prop_assert_eq!(Some(ranges.complete_from_zero()), hole);
                let holes = ranges.holes(30, 150);
                let rows: Vec<u64> = holes.iter().flat_map(|&(from, to)| from..to).collect();
                prop_assert_eq!(rows, (30..150).filter(|row| !set.contains(row)).collect::<Vec<_>>());
                let parts: Vec<u64> = ranges.parts(30, 150).iter().flat_map(|&(from, to)| from..to).collect();
                prop_assert_eq!(parts, (30..150).filter(|row| set.contains(row)).collect::<Vec<_>>());
                prop_assert!((0..220).all(|row| ranges.contains(row) == set.contains(&row)));
                if let (Some(first), Some(last)) = (first, last) {
                    prop_assert_eq!(ranges.end(), last + 1);
                    prop_assert_eq!(ranges.missing(), last + 1 - first - set.len() as u64);
                }
            }
        }
    }

    #[test]
    fn with_too_many_holes_the_oldest_is_given_up() {
        let mut ranges = Ranges::default();
        for row in 0..200 {
            ranges.add(row * 3, row * 3 + 1);
        }
        assert_eq!(ranges.ranges.len(), RANGES_MAX);
        let last = ranges.given_up() / 2 - 1;
        assert_eq!(
            (ranges.take_forgotten(), ranges.take_forgotten()),
            (Some((last * 3 + 1, last * 3 + 3)), None)
        );
        assert!(ranges.complete_from_zero() > 300 && ranges.above().len() == HAVE_MAX);
        assert_eq!(ranges.above().last(), Some(&(597, 598)));
    }
}
