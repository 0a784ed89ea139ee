//! When the link door's thread must wake up even if nothing comes: for silent peers, for housekeeping, and for
//! readers' flushes. It knows no peers; times come in as arguments.

use khz_model::Nanos;

/// If the thread slept this much longer than it asked for, the hub itself was frozen: peers get time to be heard before
/// they count as silent.
const FROZEN: Nanos = Nanos::from_millis(300);
const GRACE: Nanos = Nanos::from_secs(1);
/// A pause of twice this length may hide that the hub was frozen within it: peers get this much more time.
const DOUBT: Nanos = Nanos::from_millis(100);
/// A thread that is awake anyway finds out this often which peer may be silent next. So peers that send never make it a
/// reason to wake up.
const CHECK: Nanos = Nanos::from_millis(500);

/// Time between two rounds of housekeeping while anything comes. It is a little less than the second at which slow
/// nodes send, so that housekeeping falls together with their rows.
const HOUSE: Nanos = Nanos::from_millis(900);
/// Housekeeping follows at the latest this long after something came.
const HOUSE_AT_LATEST: Nanos = Nanos::from_secs(3);

/// Time between two flushes of a reader. Each reader has its own phase.
const FLUSH: Nanos = Nanos::from_millis(100);
const FLUSH_PHASES: u64 = 10;

/// A reader's next flush, after one at `now`.
pub(crate) fn flush_after(now: Nanos, place: usize) -> Nanos {
    let phase = place as u64 % FLUSH_PHASES * (FLUSH.0 / FLUSH_PHASES);
    let least = now.0 + FLUSH.0 / 2;
    let into = (least + FLUSH.0 - phase) % FLUSH.0;
    Nanos(least + (FLUSH.0 - into) % FLUSH.0)
}

/// When a peer may be silent.
#[derive(Debug)]
pub(crate) struct Silence {
    /// No peer is silent before this.
    earliest: Nanos,
    checked: Nanos,
    grace_until: Nanos,
}

impl Silence {
    pub fn new(now: Nanos) -> Self {
        Silence { earliest: Nanos(u64::MAX), checked: now, grace_until: now }
    }

    /// A peer will be silent after this.
    pub fn at_latest(&mut self, deadline: Nanos) {
        self.earliest = self.earliest.min(deadline);
    }

    /// The thread slept from `before` to `now`. It had asked for `asked`, or until something comes.
    pub fn slept(&mut self, before: Nanos, asked: Option<Nanos>, now: Nanos) {
        let slept = now.since(before);
        if asked.is_some_and(|asked| slept.0 > asked.0.saturating_add(FROZEN.0)) {
            self.grace_until = Nanos(now.0 + GRACE.0);
        } else if slept.0 > 2 * DOUBT.0 {
            self.grace_until = self.grace_until.max(Nanos(now.0 + DOUBT.0));
        }
    }

    /// When checking is a reason to wake up.
    pub fn next(&self) -> Nanos {
        Nanos(self.earliest.max(self.grace_until).0.saturating_add(1))
    }

    /// True if a thread that is awake is to check the peers.
    pub fn is_due(&self, now: Nanos) -> bool {
        now >= self.next() || now.since(self.checked) >= CHECK
    }

    /// True if silent peers may be cut: the hub itself was not frozen.
    pub fn may_cut(&self, now: Nanos) -> bool {
        now > self.grace_until
    }

    /// The peers were checked. The first of them is silent after `earliest`.
    pub fn checked(&mut self, now: Nanos, earliest: Option<Nanos>) {
        self.checked = now;
        self.earliest = earliest.unwrap_or(Nanos(u64::MAX));
    }
}

/// When housekeeping is due: never if nothing has come since the last time.
#[derive(Debug)]
pub(crate) struct House {
    kept: Nanos,
    /// The count of news then.
    news: u64,
    is_waiting: bool,
    /// When there is something to do even if nothing comes.
    due: Option<Nanos>,
}

impl House {
    pub fn new(now: Nanos) -> Self {
        House { kept: now, news: 0, is_waiting: false, due: None }
    }

    /// When housekeeping is a reason to wake up.
    pub fn next(&self) -> Option<Nanos> {
        let waiting = self.is_waiting.then_some(Nanos(self.kept.0 + HOUSE_AT_LATEST.0));
        waiting.into_iter().chain(self.due).min()
    }

    /// Housekeeping was done. The next one is due at this time, even if nothing comes.
    pub fn was_kept(&mut self, due: Option<Nanos>) {
        self.due = due;
    }

    /// True if housekeeping is due now; `news` counts what has come.
    pub fn is_due(&mut self, now: Nanos, news: u64) -> bool {
        self.is_waiting = news != self.news;
        let is_due = self.due.is_some_and(|at| now >= at);
        if !is_due && (!self.is_waiting || now.since(self.kept) < HOUSE) {
            return false;
        }
        (self.kept, self.news, self.is_waiting, self.due) = (now, news, false, None);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn ms(millis: u64) -> Nanos {
        Nanos::from_millis(millis)
    }

    #[test]
    fn a_flush_keeps_its_phase_and_its_distance() {
        for place in 0..25 {
            let mut now = Nanos(987_654_321);
            for _ in 0..5 {
                let next = flush_after(now, place);
                assert_eq!(next.0 % (100 * MS), place as u64 % 10 * 10 * MS);
                assert!((50 * MS..=150 * MS).contains(&next.since(now).0), "{place}");
                now = Nanos(next.0 + 300_000);
                assert_eq!(flush_after(now, place), Nanos(next.0 + 100 * MS));
            }
        }
    }

    #[test]
    fn a_node_that_sends_every_second_is_never_a_reason_to_wake_up() {
        let mut silence = Silence::new(ms(0));
        let mut house = House::new(ms(0));
        let mut now = ms(0);
        for second in 1..100 {
            let next = ms(second * 1_000 + second % 7);
            assert!(silence.next() > next && house.next().is_none_or(|at| at > next), "{second}");
            silence.slept(now, Some(silence.next().since(now)), next);
            now = next;
            let deadline = Nanos(now.0 + 2_500 * MS);
            silence.at_latest(deadline);
            assert!(silence.is_due(now) && house.is_due(now, second));
            silence.checked(now, Some(deadline));
        }
    }

    #[test]
    fn a_silent_peer_is_cut_a_moment_after_its_deadline_and_not_before() {
        let mut silence = Silence::new(ms(0));
        silence.at_latest(ms(2_500));
        let woken = silence.next();
        assert_eq!(woken, Nanos(2_500 * MS + 1));
        silence.slept(ms(0), Some(woken), woken);
        assert!(silence.is_due(woken) && !silence.may_cut(woken), "it may have been us who slept");
        silence.checked(woken, Some(ms(2_500)));
        let again = silence.next();
        assert!(again.since(woken) <= Nanos(DOUBT.0 + 1));
        silence.slept(woken, Some(again.since(woken)), again);
        assert!(silence.is_due(again) && silence.may_cut(again));
    }

    #[test]
    fn who_was_frozen_gives_peers_time_however_long_it_had_meant_to_sleep() {
        for asked in [100, 2_400] {
            let mut silence = Silence::new(ms(0));
            silence.at_latest(ms(2_500));
            let now = ms(asked + 4_000);
            silence.slept(ms(0), Some(ms(asked)), now);
            assert!(!silence.may_cut(now) && silence.next() == Nanos(now.0 + GRACE.0 + 1));
        }
        let mut silence = Silence::new(ms(0));
        silence.slept(ms(0), None, ms(60_000));
        assert!(silence.may_cut(ms(60_101)), "nothing was due: a long sleep is no sign of anything");
    }

    #[test]
    fn house_is_kept_along_with_what_comes_once_after_it_and_then_not_at_all() {
        let mut house = House::new(ms(0));
        assert!(!house.is_due(ms(5_000), 0) && house.next().is_none(), "nothing has come");
        assert!(house.is_due(ms(6_000), 1) && house.next().is_none());
        assert!(!house.is_due(ms(6_100), 2));
        assert_eq!(house.next(), Some(ms(9_000)));
        assert!(house.is_due(ms(9_000), 2) && house.next().is_none());
    }

    #[test]
    fn a_node_that_has_gone_is_a_reason_to_wake_up_once() {
        let mut house = House::new(ms(0));
        house.was_kept(Some(ms(60_000)));
        assert!(!house.is_due(ms(59_999), 0) && house.next() == Some(ms(60_000)));
        assert!(house.is_due(ms(60_000), 0) && house.next().is_none());
    }
}
