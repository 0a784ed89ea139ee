//! Which hub an agent tries next: a list in order of preference, and a pause for each hub that failed. This file opens no
//! socket: the caller reports the results of attempts, and provides random numbers.

use khz_model::Nanos;

/// The first pause after a failure.
pub const PAUSE_FIRST: Nanos = Nanos::from_millis(100);

/// The longest pause: all agents are back within this time after their hub has returned. Thousands of agents try a dead
/// machine at most a thousand times a second.
pub const PAUSE_MAX: Nanos = Nanos::from_secs(4);

/// The longest pause after a hub has refused the agent: a person must change something first.
pub const REFUSED_MAX: Nanos = Nanos::from_secs(30);

/// A connection that has lasted this long was good: the pauses begin at the shortest again.
pub const GOOD_AFTER: Nanos = Nanos::from_secs(10);

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// No connection came about, or it broke.
    Broke {
        /// How long the connection lasted after the hub accepted us.
        lasted: Nanos,
    },
    /// The other side, or the kernel, has closed a connection.
    Closed {
        /// How long the connection lasted after the hub accepted us.
        lasted: Nanos,
    },
    /// The hub refused the agent.
    Refused,
    /// The agent left the hub for this one, which it prefers; or a reader left it for the hub where its
    /// nodes are.
    Moved {
        /// Its place in the list.
        to: usize,
    },
}

#[derive(Clone, Debug, Default)]
struct Hub {
    not_before: Nanos,
    /// How many times it was tried since the last good connection.
    tried: u32,
    /// The longest pause after the next failure: the pause is a random part of it.
    pause: Nanos,
}

/// The hubs of one agent.
#[derive(Clone, Debug)]
pub struct HubList {
    hubs: Vec<Hub>,
    /// The hub to which the caller has just moved from another hub. It is tried next, wherever it is in
    /// the list.
    goes_to: Option<usize>,
}

impl HubList {
    /// This many hubs; the first is tried first.
    pub fn new(hubs: usize) -> Self {
        let hub = Hub { not_before: Nanos(0), tried: 0, pause: PAUSE_FIRST };
        HubList { hubs: vec![hub; hubs.max(1)], goes_to: None }
    }

    /// Which hub to try next, and when. Of the hubs whose pause is over at `now`, it is the one that was tried least often; if
    /// several hubs qualify, it is the first of them in the list. If every hub has a pause, it is the hub whose pause ends
    /// first.
    pub fn next(&self, now: Nanos) -> (usize, Nanos) {
        if let Some(index) = self.goes_to {
            return (index, now);
        }
        let rank = |&index: &usize| (self.hubs[index].not_before.max(now), self.hubs[index].tried);
        let index = (0..self.hubs.len()).min_by_key(rank).unwrap_or_default();
        (index, self.hubs[index].not_before.max(now))
    }

    /// An attempt with a hub has ended. `random` is any number.
    pub fn ended(&mut self, index: usize, outcome: Outcome, now: Nanos, random: u64) {
        if let Outcome::Broke { lasted: Nanos(1..) }
        | Outcome::Closed { lasted: Nanos(1..) }
        | Outcome::Moved { .. } = outcome
        {
            self.hubs.iter_mut().for_each(|hub| hub.tried = 0);
        }
        self.goes_to = match outcome {
            Outcome::Moved { to } if to < self.hubs.len() => Some(to),
            _ => None,
        };
        if let Some(better) = self.goes_to {
            self.hubs[better].not_before = Nanos(0);
        }
        let has_others = self.hubs.len() > 1;
        let Some(hub) = self.hubs.get_mut(index) else { return };
        // If an agent stood still, a hub that is well has closed its connection. If the hub is gone, the next hub is tried.
        if let Outcome::Closed { lasted } = outcome
            && lasted >= GOOD_AFTER
            && has_others
        {
            (hub.pause, hub.not_before) = (PAUSE_FIRST, now);
            return;
        }
        hub.tried = hub.tried.saturating_add(1);
        let longest = match outcome {
            Outcome::Broke { lasted } | Outcome::Closed { lasted } if lasted >= GOOD_AFTER => {
                hub.pause = PAUSE_FIRST;
                PAUSE_MAX
            }
            Outcome::Broke { .. } | Outcome::Closed { .. } => PAUSE_MAX,
            Outcome::Refused => REFUSED_MAX,
            // If the better hub fails, this one is next.
            Outcome::Moved { .. } => {
                hub.pause = PAUSE_FIRST;
                hub.not_before = now;
                return;
            }
        };
        let pause = hub.pause.min(longest);
        hub.not_before = Nanos(now.0 + random % (pause.0 + 1));
        hub.pause = Nanos(pause.0 * 2).min(longest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Outcome = Outcome::Broke { lasted: Nanos(0) };

    #[test]
    fn the_next_hub_is_tried_at_once_and_the_failed_one_after_its_pause() {
        let mut list = HubList::new(2);
        assert_eq!(list.next(Nanos(5)), (0, Nanos(5)));
        list.ended(0, SHORT, Nanos(5), PAUSE_FIRST.0);
        assert_eq!(list.next(Nanos(6)), (1, Nanos(6)));
        list.ended(1, SHORT, Nanos(6), PAUSE_FIRST.0);
        assert_eq!(list.next(Nanos(7)), (0, Nanos(5 + PAUSE_FIRST.0)));
    }

    #[test]
    fn the_list_is_an_order_of_preference_and_no_hub_is_left_out() {
        let mut list = HubList::new(3);
        // A pause of no length: what counts is the order.
        for expected in [0, 1, 2, 0, 1, 2] {
            assert_eq!(list.next(Nanos(5)).0, expected);
            list.ended(expected, SHORT, Nanos(5), 0);
        }
        // A good connection to the second has broken: the first is asked before the third.
        list.ended(1, Outcome::Broke { lasted: GOOD_AFTER }, Nanos(9), 0);
        assert_eq!(list.next(Nanos(9)).0, 0);
    }

    #[test]
    fn after_a_good_connection_was_closed_its_hub_is_tried_once_more_before_the_next_one() {
        let closed = Outcome::Closed { lasted: GOOD_AFTER };
        let mut list = HubList::new(3);
        list.ended(0, closed, Nanos(9), PAUSE_FIRST.0);
        assert_eq!(list.next(Nanos(9)), (0, Nanos(9)), "the agent stood still, and its hub is well");
        list.ended(0, SHORT, Nanos(9), PAUSE_FIRST.0);
        assert_eq!(list.next(Nanos(9)), (1, Nanos(9)), "the hub is gone");
        // A pause for the second hub: the first one is better.
        list.ended(1, closed, Nanos(10), PAUSE_FIRST.0);
        assert_eq!(list.next(Nanos(9 + PAUSE_FIRST.0)).0, 0);
        let short = Outcome::Closed { lasted: Nanos(GOOD_AFTER.0 - 1) };
        let mut list = HubList::new(2);
        list.ended(0, short, Nanos(9), PAUSE_FIRST.0);
        assert_eq!(list.next(Nanos(9)).0, 1, "one that closes again and again is no good one");
        let mut alone = HubList::new(1);
        alone.ended(0, closed, Nanos(9), 7);
        assert_eq!(alone.next(Nanos(9)), (0, Nanos(16)), "not all agents of one hub at once");
    }

    #[test]
    fn an_agent_that_goes_back_tries_the_better_hub_next_and_then_the_one_it_left() {
        let mut list = HubList::new(3);
        list.ended(0, SHORT, Nanos(5), PAUSE_FIRST.0);
        list.ended(1, SHORT, Nanos(5), PAUSE_FIRST.0);
        list.ended(2, Outcome::Moved { to: 0 }, Nanos(6), PAUSE_FIRST.0);
        assert_eq!(list.next(Nanos(6)), (0, Nanos(6)));
        list.ended(0, Outcome::Refused, Nanos(7), PAUSE_FIRST.0);
        assert_eq!(list.next(Nanos(7)), (2, Nanos(7)), "the second waits");
    }

    #[test]
    fn a_reader_goes_to_the_hub_where_its_nodes_are_past_those_that_come_before_it_in_the_list() {
        let mut list = HubList::new(4);
        list.ended(0, Outcome::Moved { to: 2 }, Nanos(6), PAUSE_FIRST.0);
        assert_eq!(list.next(Nanos(6)), (2, Nanos(6)));
        list.ended(2, SHORT, Nanos(7), PAUSE_FIRST.0);
        assert_eq!(list.next(Nanos(7)), (1, Nanos(7)), "it fails: the list counts again");
        list.ended(1, Outcome::Moved { to: 3 }, Nanos(8), PAUSE_FIRST.0);
        assert_eq!(list.next(Nanos(8)), (3, Nanos(8)));
        list.ended(3, Outcome::Moved { to: 9 }, Nanos(9), 0);
        assert!(list.next(Nanos(9)).0 < 4, "no such hub");
    }

    #[test]
    fn pauses_double_up_to_the_longest_and_begin_at_the_shortest_after_a_good_connection() {
        let mut list = HubList::new(1);
        let mut now = Nanos(0);
        let mut pauses = Vec::new();
        for _ in 0..8 {
            list.ended(0, SHORT, now, u64::MAX - 1);
            let (_, at) = list.next(now);
            pauses.push(list.hubs[0].pause.0 / 1_000_000);
            assert!(at.since(now) <= PAUSE_MAX);
            now = at;
        }
        assert_eq!(pauses, [200, 400, 800, 1_600, 3_200, 4_000, 4_000, 4_000]);
        list.ended(0, Outcome::Broke { lasted: GOOD_AFTER }, now, 99_000_000);
        assert_eq!(list.next(now).1, Nanos(now.0 + 99_000_000));
        for _ in 0..20 {
            list.ended(0, Outcome::Refused, now, 7);
        }
        assert_eq!(list.hubs[0].pause, REFUSED_MAX);
    }

    #[test]
    fn agents_that_fail_together_do_not_come_back_together() {
        let mut tenths = [0u32; 10];
        for agent in 0..1_000u64 {
            let mut list = HubList::new(1);
            list.ended(0, SHORT, Nanos(0), agent.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            tenths[(list.next(Nanos(0)).1.0 * 10 / (PAUSE_FIRST.0 + 1)) as usize] += 1;
        }
        assert!(tenths.iter().all(|&count| count > 50), "{tenths:?}");
    }
}
