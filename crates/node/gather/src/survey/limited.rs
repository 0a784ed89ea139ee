//! Which instances of a survey are shown if a limit cuts their list: instances that were shown before keep their places while they
//! exist, and newer instances are left out and counted. It knows names only; it reads nothing.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

/// The names that the latest survey has shown.
#[derive(Default)]
pub(super) struct Shown {
    hashes: RandomState,
    names: Arc<HashSet<u64>>,
}

/// The places of one survey.
pub(super) struct Seats {
    hashes: RandomState,
    before: Arc<HashSet<u64>>,
    now: HashSet<u64>,
    /// For names that were not shown before.
    free: usize,
    left_out: u64,
}

impl Shown {
    /// These names.
    pub fn of<'a>(names: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let hashes = RandomState::new();
        let names = names.into_iter().map(|name| hashes.hash_one(name)).collect();
        Shown { hashes, names: Arc::new(names) }
    }

    /// The places of a survey that does not yet know which of the names still exist: the places of names that have gone become free
    /// in the next survey.
    pub fn seats(&self, most: usize) -> Seats {
        self.seats_beside(self.names.len(), most)
    }

    /// The places of a survey that finds these names.
    pub fn seats_among<'a>(&self, found: impl IntoIterator<Item = &'a [u8]>, most: usize) -> Seats {
        let found: HashSet<u64> = found.into_iter().map(|name| self.hashes.hash_one(name)).collect();
        self.seats_beside(found.intersection(&self.names).count(), most)
    }

    fn seats_beside(&self, old: usize, most: usize) -> Seats {
        Seats {
            hashes: self.hashes.clone(),
            before: self.names.clone(),
            now: HashSet::new(),
            free: most.saturating_sub(old),
            left_out: 0,
        }
    }

    /// A survey is made: the next one begins with its names.
    pub fn note(&mut self, seats: Seats) {
        (self.hashes, self.names) = (seats.hashes, Arc::new(seats.now));
    }
}

impl Seats {
    /// True if this name has a place. If the name comes a second time, it needs another place.
    pub fn takes(&mut self, name: &[u8]) -> bool {
        let name = self.hashes.hash_one(name);
        if self.now.contains(&name) || !self.before.contains(&name) {
            if self.free == 0 {
                self.left_out += 1;
                return false;
            }
            self.free -= 1;
        }
        self.now.insert(name);
        true
    }

    /// The names that had no place.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MOST: usize = 4;

    /// The names that a survey shows of those that it finds, and how many it leaves out.
    fn survey(shown: &mut Shown, found: &[u8], knows_all: bool) -> (Vec<u8>, u64) {
        let names = || found.iter().map(std::slice::from_ref);
        let mut seats = if knows_all { shown.seats_among(names(), MOST) } else { shown.seats(MOST) };
        let taken = names().filter(|name| seats.takes(name)).map(|name| name[0]).collect();
        let left_out = seats.left_out();
        shown.note(seats);
        (taken, left_out)
    }

    #[test]
    fn one_that_was_shown_keeps_its_place_and_a_free_place_is_taken() {
        let mut shown = Shown::default();
        assert_eq!(survey(&mut shown, b"yz", true), (b"yz".to_vec(), 0));
        assert_eq!(survey(&mut shown, b"abcdyz", true), (b"abyz".to_vec(), 2));
        assert_eq!(survey(&mut shown, b"abcdz", true), (b"abcz".to_vec(), 1));
        assert_eq!(survey(&mut shown, b"aabcz", true), (b"abcz".to_vec(), 1), "twice");
        // Which ones have gone is known after the survey only.
        assert_eq!(survey(&mut shown, b"acdz", false), (b"acz".to_vec(), 1));
        assert_eq!(survey(&mut shown, b"acdz", false), (b"acdz".to_vec(), 0));
    }

    proptest! {
        #[test]
        fn whatever_comes_and_goes_none_is_pushed_out(
            rounds in prop::collection::vec((prop::collection::btree_set(0u8..12, 0..10), any::<bool>()), 1..30),
        ) {
            let (mut shown, mut before) = (Shown::default(), Vec::new());
            for (found, knows_all) in rounds {
                let found: Vec<u8> = found.into_iter().collect();
                let (taken, left_out) = survey(&mut shown, &found, knows_all);
                prop_assert!(taken.len() <= MOST);
                prop_assert_eq!(taken.len() as u64 + left_out, found.len() as u64);
                for name in before.iter().filter(|name| found.contains(name)) {
                    prop_assert!(taken.contains(name), "{} of {:?}, shown {:?}", name, found, taken);
                }
                if knows_all {
                    prop_assert_eq!(taken.len(), found.len().min(MOST), "a place is not left free");
                }
                before = taken;
            }
        }
    }
}
