//! Times by the clock of one boot of a node: when rows were gathered, and what time that was on our clock. It counts no rows.

use khz_model::{Nanos, Stamp};

/// If the clocks of two times differ by more than this, ns, the times are from different boots of the node, or
/// its clock was set.
const SAME_BOOT_MAX: u64 = 1_000_000_000;

/// True if both times are from the same boot of a node.
pub fn are_of_one_boot(one: Stamp, other: Stamp) -> bool {
    one.real_offset.abs_diff(other.real_offset) < SAME_BOOT_MAX
}

/// From the oldest to the newest row of a lane. All rows of a lane are from one boot of its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// When the oldest row was gathered.
    pub first: Stamp,
    /// When the newest row was gathered.
    pub last: Stamp,
}

impl Span {
    /// The span of one row.
    pub fn of(stamp: Stamp) -> Self {
        Span { first: stamp, last: stamp }
    }

    /// Adds the time of a row.
    pub fn add(&mut self, stamp: Stamp) {
        if stamp.boot < self.first.boot {
            self.first = stamp;
        }
        if stamp.boot >= self.last.boot {
            self.last = stamp;
        }
    }

    /// The span that covers both.
    pub fn with(mut self, other: Span) -> Self {
        self.add(other.first);
        self.add(other.last);
        self
    }

    /// True for a time within it. After a reboot the node's clock begins again.
    pub fn covers(&self, stamp: Stamp) -> bool {
        let is_one_boot = are_of_one_boot(self.first, stamp) || are_of_one_boot(self.last, stamp);
        is_one_boot && self.first.boot <= stamp.boot && stamp.boot <= self.last.boot
    }
}

/// A node's clock of one boot, as seen here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeClock {
    /// When its last row was gathered.
    row: Stamp,
    /// How far the receiver's clock is ahead of the node's clock, as if the fastest row had taken no
    /// time to arrive.
    ahead: u64,
}

impl NodeClock {
    /// A row came in order. `before` is the clock as known before this row.
    pub fn after(before: Option<Self>, row: Stamp, now: Nanos) -> Self {
        let new = NodeClock { row, ahead: now.0.wrapping_sub(row.boot.0) };
        match before.filter(|clock| clock.is_of(row)) {
            // The clocks are of two machines, so either may be ahead.
            Some(clock) if new.ahead.wrapping_sub(clock.ahead) as i64 >= 0 => {
                NodeClock { ahead: clock.ahead, ..new }
            }
            _ => new,
        }
    }

    /// True for a time of the same boot.
    pub fn is_of(&self, stamp: Stamp) -> bool {
        are_of_one_boot(self.row, stamp)
    }

    /// The same time on our clock; `None`: the time is of another boot.
    pub fn here(&self, stamp: Stamp) -> Option<Nanos> {
        self.is_of(stamp).then(|| Nanos(stamp.boot.0.wrapping_add(self.ahead)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(boot: u64, real_offset: i64) -> Stamp {
        Stamp { boot: Nanos(boot), real_offset }
    }

    #[test]
    fn a_span_has_the_times_between_its_rows_and_none_of_another_boot() {
        let mut span = Span::of(stamp(20, 7));
        [30, 10, 25].into_iter().for_each(|boot| span.add(stamp(boot, 7)));
        let covers = |boot| span.covers(stamp(boot, 8));
        assert_eq!([9, 10, 29, 30, 31].map(covers), [false, true, true, true, false]);
        assert!(!span.covers(stamp(20, 3 * SAME_BOOT_MAX as i64)));
    }

    #[test]
    fn the_row_that_was_passed_on_fastest_tells_how_far_the_clocks_are_apart_in_each_boot() {
        // The node's clock is ahead of ours.
        let mut clock = None;
        for (boot, now) in [(1_000, 130), (1_010, 115), (1_020, 190)] {
            clock = Some(NodeClock::after(clock, stamp(boot, 7), Nanos(now)));
        }
        let clock = clock.expect("a row came");
        assert_eq!(clock.here(stamp(1_020, 7)), Some(Nanos(125)));
        let rebooted = stamp(5, 9 * SAME_BOOT_MAX as i64);
        assert_eq!(clock.here(rebooted), None);
        let clock = NodeClock::after(Some(clock), rebooted, Nanos(200));
        assert_eq!(clock.here(rebooted), Some(Nanos(200)), "the clock before does not count");
    }
}
