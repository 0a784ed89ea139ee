//! Which hub comes next: a list in order of preference, and for each that failed a pause. It opens nothing; the
//! caller says how an attempt went, and lends randomness.

use khz_model::Nanos;

/// The first pause after a failure.
pub const PAUSE_FIRST: Nanos = Nanos::from_millis(100);

/// The longest pause: all agents are back within so long once a hub is, and thousands of them ask a dead machine
/// no more than a thousand times a second.
pub const PAUSE_MAX: Nanos = Nanos::from_secs(4);

/// The longest pause after a hub has refused us: that needs somebody who changes something.
pub const REFUSED_MAX: Nanos = Nanos::from_secs(30);

/// A connection that has lasted so long was good: the pauses begin anew.
pub const GOOD_AFTER: Nanos = Nanos::from_secs(10);

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// No connection, or one that broke after so long.
    Broke {
        /// How long it was welcome.
        lasted: Nanos,
    },
    /// The hub sent us away.
    Refused,
}

#[derive(Clone, Debug, Default)]
struct Hub {
    not_before: Nanos,
    /// The pause that the next failure brings, before jitter.
    pause: Nanos,
}

/// The hubs of one agent.
#[derive(Clone, Debug)]
pub struct Roster {
    hubs: Vec<Hub>,
    present: usize,
}

impl Roster {
    /// So many hubs; the first is tried first.
    pub fn new(hubs: usize) -> Self {
        let hub = Hub { not_before: Nanos(0), pause: PAUSE_FIRST };
        Roster { hubs: vec![hub; hubs.max(1)], present: 0 }
    }

    /// Which hub to try, and when: the present one or the first one behind it that may be tried at `now`, or else
    /// the one that may be soonest.
    pub fn next(&self, now: Nanos) -> (usize, Nanos) {
        let order = (0..self.hubs.len()).map(|step| (self.present + step) % self.hubs.len());
        let wait = |&index: &usize| self.hubs[index].not_before.max(now);
        let index = order.min_by_key(wait).unwrap_or_default();
        (index, self.hubs[index].not_before.max(now))
    }

    /// An attempt with a hub has ended; the one behind it is now the first to be tried. `random` is any number.
    pub fn ended(&mut self, index: usize, outcome: Outcome, now: Nanos, random: u64) {
        let count = self.hubs.len();
        let Some(hub) = self.hubs.get_mut(index) else { return };
        let longest = match outcome {
            Outcome::Broke { lasted } if lasted >= GOOD_AFTER => {
                hub.pause = PAUSE_FIRST;
                PAUSE_MAX
            }
            Outcome::Broke { .. } => PAUSE_MAX,
            Outcome::Refused => REFUSED_MAX,
        };
        let pause = hub.pause.min(longest);
        hub.not_before = Nanos(now.0 + random % (pause.0 + 1));
        hub.pause = Nanos(pause.0 * 2).min(longest);
        self.present = (index + 1) % count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Outcome = Outcome::Broke { lasted: Nanos(0) };

    #[test]
    fn the_next_hub_is_tried_at_once_and_the_failed_one_after_its_pause() {
        let mut roster = Roster::new(2);
        assert_eq!(roster.next(Nanos(5)), (0, Nanos(5)));
        roster.ended(0, SHORT, Nanos(5), PAUSE_FIRST.0);
        assert_eq!(roster.next(Nanos(6)), (1, Nanos(6)));
        roster.ended(1, SHORT, Nanos(6), PAUSE_FIRST.0);
        assert_eq!(roster.next(Nanos(7)), (0, Nanos(5 + PAUSE_FIRST.0)));
    }

    #[test]
    fn pauses_double_up_to_the_longest_and_begin_anew_after_a_good_connection() {
        let mut roster = Roster::new(1);
        let mut now = Nanos(0);
        let mut pauses = Vec::new();
        for _ in 0..8 {
            roster.ended(0, SHORT, now, u64::MAX - 1);
            let (_, at) = roster.next(now);
            pauses.push(roster.hubs[0].pause.0 / 1_000_000);
            assert!(at.since(now) <= PAUSE_MAX);
            now = at;
        }
        assert_eq!(pauses, [200, 400, 800, 1_600, 3_200, 4_000, 4_000, 4_000]);
        roster.ended(0, Outcome::Broke { lasted: GOOD_AFTER }, now, 99_000_000);
        assert_eq!(roster.next(now).1, Nanos(now.0 + 99_000_000));
        for _ in 0..20 {
            roster.ended(0, Outcome::Refused, now, 7);
        }
        assert_eq!(roster.hubs[0].pause, REFUSED_MAX);
    }

    #[test]
    fn agents_that_fail_together_do_not_come_back_together() {
        let mut tenths = [0u32; 10];
        for agent in 0..1_000u64 {
            let mut roster = Roster::new(1);
            roster.ended(0, SHORT, Nanos(0), agent.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            tenths[(roster.next(Nanos(0)).1.0 * 10 / (PAUSE_FIRST.0 + 1)) as usize] += 1;
        }
        assert!(tenths.iter().all(|&count| count > 50), "{tenths:?}");
    }
}
