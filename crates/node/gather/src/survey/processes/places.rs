//! Places for the processes that take most of something. A process keeps its place while it is one of these. If places were in the
//! order of use, each row would name other processes, and each name takes room wherever rows are kept.

use std::collections::HashSet;

/// A process, also after another one has its number: its number and when it began.
pub(super) type Key = (u32, u64);

/// Who has which place.
#[derive(Debug)]
pub(super) struct Places {
    holders: Vec<Option<Key>>,
}

impl Places {
    pub fn new(count: usize) -> Self {
        Places { holders: vec![None; count] }
    }

    /// Gives the largest of these uses their places. A process that is no longer among the largest keeps its place until another one
    /// needs it, or until it ends: `use_of` is `None` for a process that has ended.
    pub fn assign(&mut self, mut uses: Vec<(u64, Key)>, use_of: impl Fn(Key) -> Option<u64>) {
        let count = self.holders.len();
        uses.retain(|(amount, _)| *amount > 0);
        // Of equal uses the older process goes first, so that two looks agree.
        uses.sort_unstable_by_key(|(amount, (pid, began))| (u64::MAX - amount, *began, *pid));
        uses.truncate(count);
        let largest: HashSet<Key> = uses.iter().map(|(_, key)| *key).collect();
        for holder in &mut self.holders {
            *holder = holder.filter(|key| use_of(*key).is_some());
        }
        let held: HashSet<Key> = self.holders.iter().flatten().copied().collect();
        for (_, key) in uses.into_iter().filter(|(_, key)| !held.contains(key)) {
            let is_free =
                |(_, holder): &(usize, &Option<Key>)| holder.is_none_or(|key| !largest.contains(&key));
            let smallest =
                |(_, holder): &(usize, &Option<Key>)| holder.and_then(&use_of).map_or(0, |amount| amount + 1);
            let place =
                self.holders.iter().enumerate().filter(is_free).min_by_key(smallest).map(|(place, _)| place);
            if let Some(place) = place {
                self.holders[place] = Some(key);
            }
        }
    }

    /// The places that somebody has, from 1.
    pub fn held(&self) -> impl Iterator<Item = (usize, Key)> + '_ {
        self.holders.iter().enumerate().filter_map(|(place, holder)| Some((place + 1, (*holder)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn held(places: &Places) -> Vec<(usize, u32)> {
        places.held().map(|(place, (pid, _))| (place, pid)).collect()
    }

    /// One look: processes and their uses.
    fn look(places: &mut Places, uses: &[(u32, u64)]) -> Vec<(usize, u32)> {
        let known: HashMap<Key, u64> = uses.iter().map(|&(pid, amount)| ((pid, 1), amount)).collect();
        places.assign(known.iter().map(|(key, amount)| (*amount, *key)).collect(), |key| {
            known.get(&key).copied()
        });
        held(places)
    }

    #[test]
    fn a_process_keeps_its_place_while_it_is_one_of_the_largest() {
        let mut places = Places::new(2);
        assert_eq!(look(&mut places, &[(7, 10), (8, 20), (9, 5)]), [(1, 8), (2, 7)]);
        assert_eq!(look(&mut places, &[(7, 30), (8, 20), (9, 5)]), [(1, 8), (2, 7)], "the order is another");
        assert_eq!(look(&mut places, &[(7, 30), (8, 0), (9, 0)]), [(1, 8), (2, 7)], "nobody needs the place");
        assert_eq!(look(&mut places, &[(7, 30), (8, 0), (9, 1)]), [(1, 9), (2, 7)]);
        assert_eq!(look(&mut places, &[(9, 1)]), [(1, 9)], "7 has ended");
        assert_eq!(look(&mut places, &[]), []);
    }

    proptest! {
        #[test]
        fn the_largest_always_have_places(looks in prop::collection::vec(prop::collection::btree_map(0u32..30, 0u64..50, 0..30), 1..12)) {
            let mut places = Places::new(5);
            for uses in looks {
                let uses: Vec<(u32, u64)> = uses.into_iter().collect();
                let held = look(&mut places, &uses);
                let pids: HashSet<u32> = held.iter().map(|(_, pid)| *pid).collect();
                prop_assert_eq!(pids.len(), held.len(), "nobody has two places");
                prop_assert!(pids.iter().all(|pid| uses.iter().any(|(known, _)| known == pid)));
                let least = uses.iter().filter(|(pid, _)| pids.contains(pid)).map(|(_, amount)| *amount).min();
                let without = uses.iter().filter(|(pid, _)| !pids.contains(pid)).map(|(_, amount)| *amount).max();
                if let Some(without) = without.filter(|amount| *amount > 0) {
                    prop_assert_eq!(held.len(), 5);
                    prop_assert!(least.unwrap() >= without);
                }
            }
        }
    }
}
