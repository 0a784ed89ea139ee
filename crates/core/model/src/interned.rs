//! Labels by number: a reading is two machine words that are copied everywhere, so labels stand in it by a
//! number of this process.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{LazyLock, Mutex, PoisonError};

use crate::labels::Labels;

/// The table forgets labels that only it still holds when it has grown by this many times the bytes that were left after the
/// previous sweep. Until then, rows that wait in a queue can be printed after their node has other labels: the more nodes, the more
/// labels change in the time that a queue may take.
const GROWTH_BEFORE_SWEEP: usize = 4;
/// It grows by at least this many bytes before a sweep: the labels of an agent whose busiest processes change, for a minute or more.
const GROWTH_MIN: usize = 1 << 20;
/// It grows by at most this many bytes before a sweep.
const GROWTH_MAX: usize = 16 << 20;
/// What an entry takes beside its text.
const ENTRY_BYTES: usize = 96;

/// The table of this process.
static TABLE: LazyLock<Mutex<Table>> = LazyLock::new(Mutex::default);

impl Labels {
    /// The number of these labels in this process, for [`crate::Reading::Labels`]. The number stays valid as
    /// long as anybody holds the labels, and for some time after. No other labels get it during that time.
    pub fn number(&self) -> u64 {
        TABLE.lock().unwrap_or_else(PoisonError::into_inner).number(self)
    }

    /// The labels with this number, unless they are forgotten.
    pub fn numbered(number: u64) -> Option<Labels> {
        TABLE.lock().unwrap_or_else(PoisonError::into_inner).labels.get(&number).cloned()
    }
}

#[derive(Default)]
struct Table {
    labels: HashMap<u64, Labels>,
    /// Keys of this process's own, so that no peer can make up labels with another peer's number.
    hasher: RandomState,
    bytes: usize,
    /// When the table has this many bytes, it forgets labels that nobody else holds.
    sweep_at: usize,
}

impl Table {
    fn number(&mut self, labels: &Labels) -> u64 {
        let mut number = self.hasher.hash_one(labels);
        // Two sets with one hash are as good as impossible; the second gets the next number that is free.
        while let Some(known) = self.labels.get(&number) {
            if known == labels {
                return number;
            }
            number = number.wrapping_add(1);
        }
        self.bytes += labels.bytes() + ENTRY_BYTES;
        self.labels.insert(number, labels.clone());
        if self.bytes > self.sweep_at.max(GROWTH_MIN) {
            self.sweep(number);
        }
        number
    }

    /// Forgets all labels but the newest and those that somebody holds.
    #[cold]
    fn sweep(&mut self, newest: u64) {
        self.labels.retain(|&number, labels| number == newest || labels.is_shared());
        self.labels.shrink_to_fit();
        self.bytes = self.labels.values().map(|labels| labels.bytes() + ENTRY_BYTES).sum();
        self.sweep_at = self.bytes + (GROWTH_BEFORE_SWEEP * self.bytes).clamp(GROWTH_MIN, GROWTH_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(number: usize) -> Labels {
        let number = number.to_string();
        Labels::new([("number", &*number), ("filler", &"x".repeat(1_000))]).unwrap()
    }

    #[test]
    fn equal_labels_have_one_number_and_others_another() {
        let [one, two] = [1, 2].map(labels);
        assert_eq!(one.number(), labels(1).number());
        assert_ne!(one.number(), two.number());
        assert_eq!(Labels::numbered(one.number()), Some(one));
        assert_eq!(Labels::default().number(), Labels::default().number());
    }

    #[test]
    fn labels_that_nobody_holds_are_forgotten_and_the_others_stay() {
        let mut table = Table::default();
        let held: Vec<(u64, Labels)> =
            (0..100).map(labels).map(|labels| (table.number(&labels), labels)).collect();
        let turns = 6 * GROWTH_MIN / 1_000;
        for number in 100..turns {
            let labels = labels(number);
            let number = table.number(&labels);
            assert_eq!(table.labels.get(&number), Some(&labels), "the newest is there");
        }
        assert!(table.bytes <= 2 * GROWTH_MIN && table.labels.len() < turns, "{}", table.bytes);
        for (number, labels) in held {
            assert_eq!(table.labels.get(&number), Some(&labels));
            assert_eq!(table.number(&labels), number);
        }
    }

    #[test]
    fn what_is_held_may_grow_beyond_the_first_sweep() {
        let mut table = Table::default();
        let held: Vec<Labels> = (0..2 * GROWTH_MAX / 1_000).map(labels).collect();
        held.iter().for_each(|labels| assert!(table.number(labels) > 0 || !labels.is_empty()));
        assert_eq!(table.labels.len(), held.len());
        assert!(table.sweep_at <= table.bytes + GROWTH_MAX, "{} of {}", table.sweep_at, table.bytes);
    }
}
