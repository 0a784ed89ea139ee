//! The clock of a hub below. That hub reports how far its nodes' clocks are ahead of its own clock; this file keeps how far that
//! clock is ahead of this machine's. It measures nothing itself, and knows no nodes.

use khz_model::Nanos;

use crate::trusted;

/// The clock was set if it moves by more than this against this machine's, or this machine's was (ns).
const SET: u64 = trusted::SET.unsigned_abs() * 1_000_000;
/// After the hub's clock was set, its reports about its nodes' clocks may be older than the change for this long: each
/// thirtieth beat is timed.
const UNMEASURED: Nanos = Nanos::from_millis(trusted::UNMEASURED.unsigned_abs());

/// What is known of the clock.
#[derive(Debug, Default)]
pub(super) struct HubClock {
    /// How far it was ahead when it was measured last; `None`: it never was.
    ahead: Option<i64>,
    /// It is measured now.
    is_known: bool,
    /// When one of the two clocks was set, on our boot clock.
    set: Option<Nanos>,
}

/// How far the clock of a node below is ahead of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ahead {
    /// Ahead of this machine's clock.
    Ours(i64),
    /// Ahead of the clock of the hub below: nobody measures how far that clock is off.
    Theirs(i64),
    /// It is not known, because a clock was set just now. The last known value stays in use.
    Unknown,
}

impl HubClock {
    /// The hub's clock is this much ahead. `None`: one of the two clocks was set, and not measured
    /// again yet.
    pub fn measured(&mut self, ahead: Option<i64>, now: Nanos) {
        self.is_known = ahead.is_some();
        let Some(ahead) = ahead else { return };
        let before = self.ahead.replace(ahead);
        if before.is_some_and(|before| before.abs_diff(ahead) > SET) {
            self.set = Some(now);
        }
    }

    /// The connection to the hub has ended.
    pub fn lose(&mut self) {
        self.is_known = false;
    }

    /// How far the clock of a node is ahead of which the hub says that it is this much ahead of its own.
    pub fn of_node(&self, said: i64, now: Nanos) -> Ahead {
        let Some(ahead) = self.ahead else { return Ahead::Theirs(said) };
        let is_new = self.set.is_some_and(|set| now.since(set) < UNMEASURED);
        if self.is_known && !is_new { Ahead::Ours(said.saturating_add(ahead)) } else { Ahead::Unknown }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000_000_000;

    fn at(seconds: u64) -> Nanos {
        Nanos::from_secs(1_000 + seconds)
    }

    #[test]
    fn a_nodes_clock_is_compared_with_ours_by_way_of_that_of_its_hub() {
        let mut clock = HubClock::default();
        assert_eq!(clock.of_node(7, at(0)), Ahead::Theirs(7), "nobody measures the clocks of such a hub");
        // The hub began with a wrong clock, and its nodes are right.
        clock.measured(Some(HOUR), at(0));
        assert_eq!(clock.of_node(-HOUR, at(0)), Ahead::Ours(0));
        // Their clocks are wrong, too.
        assert_eq!(clock.of_node(5, at(1)), Ahead::Ours(HOUR + 5));
        clock.measured(Some(HOUR + 1_000), at(1));
        assert_eq!(clock.of_node(5, at(1)), Ahead::Ours(HOUR + 1_005), "it is adjusted");
        assert_eq!(clock.of_node(i64::MAX, at(1)), Ahead::Ours(i64::MAX));
    }

    #[test]
    fn what_a_hub_says_of_its_nodes_waits_for_beats_of_after_a_clock_was_set() {
        for set in [-HOUR, HOUR] {
            let mut clock = HubClock::default();
            clock.measured(Some(0), at(0));
            clock.measured(None, at(10));
            assert_eq!(clock.of_node(0, at(10)), Ahead::Unknown, "it was set, and nobody knows by how much");
            clock.measured(Some(set), at(11));
            assert_eq!(clock.of_node(0, at(11)), Ahead::Unknown, "a beat of before is on its way");
            clock.measured(Some(set), at(70));
            assert_eq!(clock.of_node(0, at(70)), Ahead::Unknown);
            assert_eq!(clock.of_node(-set, at(71)), Ahead::Ours(0));
            // The end of a connection does not remove a measurement, but no value is known until the next one.
            clock.lose();
            assert_eq!(clock.of_node(-set, at(80)), Ahead::Unknown);
            clock.measured(Some(set), at(81));
            assert_eq!(clock.of_node(-set, at(81)), Ahead::Ours(0));
        }
    }
}
