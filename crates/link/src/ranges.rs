//! Which rows of a lane are settled: a few half-open ranges of their numbers.

use crate::limits::{HAVE_MAX, RANGES_MAX};

/// Ranges in order, none touching the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ranges {
    ranges: Vec<(u64, u64)>,
}

impl Ranges {
    /// Adds `from..to`; tells how many of them are new.
    pub fn add(&mut self, from: u64, to: u64) -> u64 {
        if from >= to {
            return 0;
        }
        let before = self.len();
        let first = self.ranges.partition_point(|&(_, end)| end < from);
        let last = self.ranges.partition_point(|&(start, _)| start <= to);
        let joined = &self.ranges[first..last];
        let from = joined.first().map_or(from, |&(start, _)| start.min(from));
        let to = joined.last().map_or(to, |&(_, end)| end.max(to));
        self.ranges.splice(first..last, [(from, to)]);
        let added = self.len() - before;
        if self.ranges.len() > RANGES_MAX {
            // The oldest hole is taken as never to be filled.
            let (_, end) = self.ranges.remove(1);
            self.ranges[0].1 = end;
        }
        added
    }

    /// Rows in all.
    pub fn len(&self) -> u64 {
        self.ranges.iter().map(|(from, to)| to - from).sum()
    }

    /// All rows from 0 up to here are settled.
    pub fn complete_until(&self) -> u64 {
        self.ranges.first().filter(|&&(from, _)| from == 0).map_or(0, |&(_, to)| to)
    }

    /// The newest ranges above [`Ranges::complete_until`], as many as a Want may have.
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

    proptest! {
        #[test]
        fn ranges_are_the_set_of_what_was_added(adds in prop::collection::vec((0u64..60, 0u64..12), 0..40)) {
            let (mut ranges, mut set) = (Ranges::default(), std::collections::BTreeSet::new());
            for (from, length) in adds {
                let before = set.len();
                set.extend(from..from + length);
                prop_assert_eq!(ranges.add(from, from + length), (set.len() - before) as u64);
            }
            let rows: Vec<u64> = ranges.ranges.iter().flat_map(|&(from, to)| from..to).collect();
            prop_assert_eq!(rows, set.iter().copied().collect::<Vec<_>>());
            prop_assert!(ranges.ranges.windows(2).all(|pair| pair[0].1 < pair[1].0));
            prop_assert_eq!(ranges.complete_until(), (0..).find(|row| !set.contains(row)).unwrap());
        }
    }

    #[test]
    fn with_too_many_holes_the_oldest_is_given_up() {
        let mut ranges = Ranges::default();
        for row in 0..200 {
            ranges.add(row * 3, row * 3 + 1);
        }
        assert_eq!(ranges.ranges.len(), RANGES_MAX);
        assert!(ranges.complete_until() > 300 && ranges.above().len() == HAVE_MAX);
        assert_eq!(ranges.above().last(), Some(&(597, 598)));
    }
}
