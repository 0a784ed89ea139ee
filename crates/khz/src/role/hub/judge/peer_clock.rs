//! How far the clock of another hub is ahead of this hub's, according to its answers. All times in its words are converted by this
//! difference. It asks nobody, and gets the time as an argument.

use super::clock::Now;

/// Clocks that differ by less count as equal (ms). Hubs compare the times of two evaluations, and two clocks are never quite equal.
/// If a hub's own clock is set by less, the hub does not notice either.
const AGREE: i64 = 3_000;

/// What is known of another hub's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PeerClock {
    /// How far the other clock is ahead of this hub's (ms), in whole seconds. Two hubs that evaluate at the same moment must get
    /// the same time, however long an answer takes.
    ahead: i64,
    /// How far this hub's clock was ahead of its steady clock at the time of the measurement (ms).
    own: i64,
}

impl PeerClock {
    /// The other clock said this when this hub's clock said `known_at` (ms since 1970), before this process began.
    pub fn before(theirs: Option<i64>, known_at: i64, now: Now) -> Self {
        let ago = now.judged.saturating_sub(known_at);
        let mut clock = PeerClock::default();
        clock.hear(theirs, Now { steady: now.steady.saturating_sub(ago), judged: known_at }, 0);
        clock
    }

    /// Notes the other clock's time `theirs` (ms since 1970) from an answer that came `now` and took this many ms. `None`: an older
    /// khz does not say. Returns true if the difference has changed: then the other hub must send its times again.
    pub fn hear(&mut self, theirs: Option<i64>, now: Now, took: i64) -> bool {
        self.own = own(now);
        let ahead = theirs.map_or(0, |theirs| theirs.saturating_sub(now.judged.saturating_sub(took / 2)));
        let agree = AGREE.saturating_add(took / 2);
        if theirs.is_some() && ahead.saturating_sub(self.ahead).abs() <= agree {
            return false;
        }
        let ahead =
            if ahead.abs() <= agree { 0 } else { ahead.saturating_add(500).div_euclid(1_000) * 1_000 };
        std::mem::replace(&mut self.ahead, ahead) != ahead
    }

    /// How much to add to times in the other hub's words (ms).
    pub fn shift(&self) -> i64 {
        self.ahead.saturating_neg()
    }

    /// By how much this hub's own clock was set since the last measurement (ms). Known times of the other hub move by the same
    /// amount.
    pub fn own_set(&mut self, now: Now) -> i64 {
        let by = own(now).saturating_sub(self.own);
        if by.abs() < AGREE {
            return 0;
        }
        (self.own, self.ahead) = (own(now), self.ahead.saturating_sub(by));
        by
    }
}

fn own(now: Now) -> i64 {
    now.judged.saturating_sub(now.steady)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000;

    fn at(judged: i64) -> Now {
        Now { steady: 1_000, judged }
    }

    #[test]
    fn clocks_that_agree_roughly_are_the_same_and_others_differ_by_whole_seconds() {
        for (said, shift) in [
            (1_000, 0),
            (-2_900, 0),
            (HOUR, -HOUR),
            (HOUR + 499, -HOUR),
            (HOUR + 500, -HOUR - 1_000),
            (-HOUR, HOUR),
            (4_000, -4_000),
        ] {
            let mut clock = PeerClock::default();
            assert_eq!(clock.hear(Some(2 * HOUR + said), at(2 * HOUR), 0), shift != 0, "{said}");
            assert_eq!(clock.shift(), shift, "{said}");
        }
    }

    #[test]
    fn an_answer_that_took_long_says_less_of_the_clock_and_a_clock_that_goes_on_is_not_another_one() {
        let mut clock = PeerClock::default();
        assert!(!clock.hear(Some(2 * HOUR - 5_000), at(2 * HOUR), 10_000), "it may have said that 5 s ago");
        assert!(clock.hear(Some(HOUR), at(2 * HOUR), 20));
        for off in [-2_500, -400, 300, 2_500] {
            assert!(!clock.hear(Some(HOUR + 1_000 + off), at(2 * HOUR + 1_000), 20), "{off}");
            assert_eq!(clock.shift(), HOUR);
        }
        // It is set right.
        assert!(clock.hear(Some(2 * HOUR + 2_000), at(2 * HOUR + 2_000), 20));
        assert_eq!(clock.shift(), 0);
        // An older khz is there now, with whatever clock.
        assert!(clock.hear(Some(HOUR), at(2 * HOUR), 20));
        assert!(clock.hear(None, at(2 * HOUR), 20));
        assert_eq!(clock.shift(), 0);
    }

    #[test]
    fn what_it_said_before_this_process_began_is_as_old_as_it_is() {
        for (said, shift) in [(0, 0), (HOUR, -HOUR), (-HOUR, HOUR)] {
            let known_at = 2 * HOUR;
            let mut clock = PeerClock::before(Some(known_at + said), known_at, at(known_at + 600_000));
            assert_eq!((clock.own_set(at(known_at + 600_000)), clock.shift()), (0, shift), "{said}");
        }
        assert_eq!(PeerClock::before(None, HOUR, at(2 * HOUR)).shift(), 0);
    }

    #[test]
    fn what_is_known_of_the_other_clock_moves_when_this_hubs_is_set() {
        let mut clock = PeerClock::default();
        clock.hear(Some(2 * HOUR), at(2 * HOUR), 0);
        assert_eq!(clock.own_set(at(2 * HOUR + 900)), 0, "it is adjusted");
        assert_eq!(clock.own_set(at(HOUR)), -HOUR);
        assert_eq!((clock.own_set(at(HOUR)), clock.shift()), (0, -HOUR));
        assert!(!clock.hear(Some(2 * HOUR), at(HOUR), 0), "as it says then");
    }
}
