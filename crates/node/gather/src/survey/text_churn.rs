//! How many new series files of numbers may bring: each new one takes bytes of the ring's schema and a slot, so labels that change all
//! the time would push the rows of every other source out.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

use khz_model::{Instance, Nanos};

use super::text_files::TEXT_FILE_SERIES_MAX;

/// In this time files of numbers may bring [`TEXT_FILE_SERIES_MAX`] new series.
pub(super) const TEXT_FILE_NEW_SERIES_TIME: Nanos = Nanos::from_secs(300);
/// At a start there is room for all files, and for all of them again with other labels.
const ROOM_MAX: usize = 2 * TEXT_FILE_SERIES_MAX;

/// The series that files have now, and room for new ones.
pub(super) struct TextChurn {
    hasher: RandomState,
    known: HashSet<u64>,
    /// The new series of the text that is being made.
    next: HashSet<u64>,
    room: usize,
    /// A file of the text that is being made had no room.
    is_crowded: bool,
    /// When room was added last.
    filled: Nanos,
}

impl TextChurn {
    pub fn new(now: Nanos) -> Self {
        TextChurn {
            hasher: RandomState::new(),
            known: HashSet::new(),
            next: HashSet::new(),
            room: ROOM_MAX,
            is_crowded: false,
            filled: now,
        }
    }

    /// Begins another text.
    pub fn begin(&mut self, now: Nanos) {
        let each = TEXT_FILE_NEW_SERIES_TIME.0 / TEXT_FILE_SERIES_MAX as u64;
        let more = now.since(self.filled).0 / each;
        self.room = ROOM_MAX.min(self.room.saturating_add(more as usize));
        self.filled.0 += more * each;
        self.next.clear();
        self.is_crowded = false;
    }

    /// Takes the series of one file. `false`: too many of them are new, and the file has to be left out.
    pub fn take<'a>(&mut self, series: impl Iterator<Item = (&'a str, Option<&'a Instance>)>) -> bool {
        let series: Vec<u64> = series.map(|one| self.hasher.hash_one(one)).collect();
        let new = series.iter().filter(|one| !self.known.contains(one)).count();
        let Some(room) = self.room.checked_sub(new) else {
            self.is_crowded = true;
            return false;
        };
        self.room = room;
        self.next.extend(series);
        true
    }

    /// The text is made: its series are those that are known. Returns whether a file had no room.
    pub fn end(&mut self) -> bool {
        std::mem::swap(&mut self.known, &mut self.next);
        self.is_crowded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_that_change_all_the_time_are_left_out_until_there_is_room() {
        let mut churn = TextChurn::new(Nanos(0));
        let names = |generation: usize, count: usize| -> Vec<String> {
            (0..count).map(|number| format!("{generation}:{number}")).collect()
        };
        let mut at = |second: u64, names: &[String]| {
            churn.begin(Nanos::from_secs(second));
            let is_taken = churn.take(names.iter().map(|name| (&**name, None)));
            assert_eq!(churn.end(), !is_taken);
            is_taken
        };
        let many = TEXT_FILE_SERIES_MAX;
        assert!(at(0, &names(0, many)) && at(10, &names(1, many)));
        assert!(at(20, &names(1, many)), "the same ones cost nothing");
        assert!(!at(30, &names(2, many)), "a third generation within 30 s");
        assert!(!at(40, &names(3, many)));
        assert!(at(40, &names(3, many / 10)), "few of them have room");
        assert!(at(400, &names(4, many)));
        assert!(at(10_000, &names(5, many)) && at(10_000, &names(6, many)) && !at(10_000, &names(7, 1)));
    }
}
