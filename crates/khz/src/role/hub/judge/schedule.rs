//! When each group of rules is due: a set in the order of times, so that ten thousand groups cost no more than the few that are due. It
//! knows groups by their numbers, and no clock.

use std::collections::BTreeSet;

/// When the groups that wait are due (ms since 1970).
pub(super) struct Schedule {
    due: BTreeSet<(i64, usize)>,
    /// The wall clock at the last look.
    looked: i64,
}

impl Schedule {
    /// Groups and when they are due.
    pub fn new(due: impl IntoIterator<Item = (i64, usize)>, now: i64) -> Self {
        Schedule { due: due.into_iter().collect(), looked: now }
    }

    /// Adds a waiting group.
    pub fn put(&mut self, number: usize, due: i64) {
        self.due.insert((due, number));
    }

    /// Changes the due time of a waiting group.
    pub fn change(&mut self, number: usize, before: i64, due: i64) {
        if self.due.remove(&(before, number)) {
            self.due.insert((due, number));
        }
    }

    /// Takes out the group that has been due longest; `None`: no group is due.
    pub fn next(&mut self, now: i64) -> Option<usize> {
        let (due, number) = self.due.first().copied().filter(|(due, _)| *due <= now)?;
        self.due.remove(&(due, number));
        Some(number)
    }

    /// When the first group is due; `None`: there is none.
    pub fn first(&self) -> Option<i64> {
        self.due.first().map(|(due, _)| *due)
    }

    /// Checks the clock. If the clock was set back, `due` gives the new due time of each group, from its number and its old time.
    pub fn look(&mut self, now: i64, mut due: impl FnMut(usize, i64) -> i64) {
        if now < self.looked {
            let all = std::mem::take(&mut self.due);
            self.due = all.into_iter().map(|(at, number)| (due(number, at), number)).collect();
        }
        self.looked = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_come_in_the_order_of_their_times_and_none_before_it_is_due() {
        let mut schedule = Schedule::new([(30, 0), (10, 1), (20, 2)], 0);
        assert_eq!((schedule.next(9), schedule.first()), (None, Some(10)));
        assert_eq!([schedule.next(25), schedule.next(25), schedule.next(25)], [Some(1), Some(2), None]);
        schedule.put(1, 26);
        assert_eq!([schedule.next(30), schedule.next(30), schedule.next(30)], [Some(1), Some(0), None]);
        assert_eq!(schedule.first(), None);
        // One that waits may be wanted earlier, and one that is evaluated does not wait twice.
        schedule.put(1, 50);
        schedule.change(1, 50, 40);
        schedule.change(2, 60, 35);
        assert_eq!([schedule.next(45), schedule.next(60)], [Some(1), None]);
    }

    #[test]
    fn a_clock_that_jumps_makes_nothing_wait_for_a_time_that_is_far_away_nor_comes_all_at_once_twice() {
        let mut schedule = Schedule::new([(1_000, 0), (2_000, 1)], 500);
        // An hour forward: both are due, once.
        schedule.look(3_600_000, |_, _| panic!("it was not set back"));
        assert_eq!([schedule.next(3_600_000), schedule.next(3_600_000)], [Some(0), Some(1)]);
        schedule.put(0, 3_601_000);
        schedule.put(1, 3_602_000);
        assert_eq!(schedule.next(3_600_000), None);
        // And back.
        schedule.look(600, |number, due| {
            assert!(due > 3_600_000);
            1_000 + number as i64
        });
        assert_eq!((schedule.next(600), schedule.first()), (None, Some(1_000)));
        assert_eq!([schedule.next(1_001), schedule.next(1_001)], [Some(0), Some(1)]);
    }
}
