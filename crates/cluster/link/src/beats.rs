//! Beats and their answers, at the side that connects (an agent or a reader): which are outstanding, whether the hub is late, and
//! by how much the hub's clock is ahead of ours (RFC 5905, section 8). The next Beat carries the measurement to the hub, which
//! measures nothing itself. Round trips are measured with the clock that never jumps.

use khz_model::Nanos;

use crate::limits::BEATEN_LATE;
use crate::message::{Beat, Beaten};

/// The measurement counts that has the shortest round trip among this many.
const PAIRS: usize = 8;

/// How many Beats may be outstanding: one is sent each second, and an answer is late after 1.5 s.
const OUTSTANDING: usize = 2;

/// How many Beats are timed when a connection begins. Later every thirtieth Beat is timed: an answer that is not timed need
/// not wake a thread.
const MEASURED_FIRST: u64 = 4;
const MEASURED_EACH: u64 = 30;

/// If the wall clock moved by more than this against the monotonic clock, somebody set it.
const CLOCK_STEP: u64 = 1_000_000;

/// The measurement of a Beat and its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The round trip, without the hub's own time.
    pub round_trip: Nanos,
    /// The hub's clock minus ours, ns.
    pub offset: i64,
}

impl Pair {
    /// An offset is wrong by at most half its round trip, so two offsets of the same clocks differ by at most the sum
    /// of both halves.
    fn contradicts(&self, other: &Pair) -> bool {
        let halves = self.round_trip.0.saturating_add(other.round_trip.0) / 2;
        self.offset.abs_diff(other.offset) > halves.saturating_add(CLOCK_STEP)
    }
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    stamp: i64,
    at: Nanos,
    /// The answer is read the moment it comes, and measures the offset.
    is_measured: bool,
}

/// The Beats of one connection.
#[derive(Debug, Default)]
pub(crate) struct Beats {
    sent: [Option<Sent>; OUTSTANDING],
    /// Answers that came in time and are not read yet.
    kept: usize,
    pairs: [Option<Pair>; PAIRS],
    next: usize,
    /// Beats sent since the connection began, or since a clock was set.
    said: u64,
    /// Our wall clock minus the monotonic clock, when the last Beat was sent.
    wall_ahead: Option<i64>,
    /// When we sent the newest Beat that was answered.
    answered: Option<Nanos>,
}

impl Beats {
    /// Returns a Beat to be sent now. `may_wait`: its answer may be read later.
    pub fn beat(&mut self, now: Nanos, wall: i64, retransmits: u64, may_wait: bool) -> Beat {
        let wall_ahead = wall.wrapping_sub(now.0 as i64);
        let before = self.wall_ahead.replace(wall_ahead);
        if before.is_some_and(|before| before.abs_diff(wall_ahead) > CLOCK_STEP) {
            self.clock_was_set();
        }
        let is_measured = !may_wait || self.said < MEASURED_FIRST || self.said.is_multiple_of(MEASURED_EACH);
        self.said += 1;
        let sent = Sent { stamp: wall, at: now, is_measured };
        match self.sent {
            [None, _] => self.sent[0] = Some(sent),
            _ => self.sent[1] = Some(sent),
        }
        let best = self.best();
        let (round_trip, offset) = (best.map(|pair| pair.round_trip), best.map_or(0, |pair| pair.offset));
        Beat { stamp: wall, round_trip, offset, retransmits }
    }

    /// How many of the next answers may wait in the socket until the thread has another reason to wake: all, if none of them is
    /// timed.
    pub fn answers_may_wait(&self) -> usize {
        let is_timed = self.sent.iter().flatten().any(|sent| sent.is_measured);
        if is_timed { 0 } else { self.outstanding() }
    }

    /// Answers that were not read: they are kept, or still on their way.
    pub fn unread(&self) -> usize {
        self.kept + self.outstanding()
    }

    /// All answers have come, and are kept unread. None of them is timed.
    pub fn all_came(&mut self) {
        if self.sent.iter().flatten().all(|sent| !sent.is_measured) {
            self.kept += self.outstanding();
            self.sent = [None; OUTSTANDING];
        }
    }

    fn outstanding(&self) -> usize {
        self.sent.iter().flatten().count()
    }

    /// Takes an answer. Returns the whole time from Beat to answer; `None` if no Beat is outstanding, or if the
    /// answer has waited for us.
    pub fn beaten(&mut self, beaten: &Beaten<'_>, now: Nanos, wall: i64) -> Option<Nanos> {
        let is_answered = |sent: &Option<Sent>| sent.is_some_and(|sent| sent.stamp == beaten.stamp);
        let Some(which) = self.sent.iter().position(is_answered) else {
            self.kept = self.kept.saturating_sub(1);
            return None;
        };
        let sent = self.sent[which]?;
        self.answered = Some(sent.at);
        // Answers come in order: Beats before the answered one are answered too.
        self.sent = if which == 0 { [self.sent[1], None] } else { [None, None] };
        let took = now.since(sent.at);
        let by_wall = wall.wrapping_sub(sent.stamp);
        if by_wall.abs_diff(took.0 as i64) > CLOCK_STEP {
            // Our clock, meanwhile.
            self.clock_was_set();
            return sent.is_measured.then_some(took);
        }
        if !sent.is_measured {
            // The time of the way to the hub is unknown; this is an upper bound.
            let bound = Nanos(took.0.saturating_mul(2));
            self.check(&Pair { round_trip: bound, offset: beaten.received.wrapping_sub(sent.stamp) });
            return None;
        }
        let there =
            u64::try_from(beaten.answered.wrapping_sub(beaten.received)).ok().filter(|&ns| ns <= took.0);
        if let Some(there) = there {
            self.keep(Pair { round_trip: Nanos(took.0 - there), offset: offset(sent.stamp, beaten, wall) });
        }
        Some(took)
    }

    fn keep(&mut self, pair: Pair) {
        self.check(&pair);
        self.pairs[self.next] = Some(pair);
        self.next = (self.next + 1) % PAIRS;
    }

    /// If a pair contradicts the best pair so far, a clock was set between two Beats: ours or the
    /// hub's.
    fn check(&mut self, pair: &Pair) {
        if self.best().is_some_and(|best| best.contradicts(pair)) {
            self.clock_was_set();
        }
    }

    /// Earlier offsets mean nothing now; the next Beats are timed.
    fn clock_was_set(&mut self) {
        self.pairs = Default::default();
        self.said = 0;
    }

    /// The best recent pair.
    pub fn best(&self) -> Option<Pair> {
        self.pairs.iter().flatten().min_by_key(|pair| pair.round_trip).copied()
    }

    /// How long ago the hub's clock showed `at`. The hub says that it was at least `least` ago, so it was no later. The hub wrote this
    /// after we sent the newest answered Beat, so it was at most `least` before that Beat: this holds although the hub's clock may have
    /// been set since its measurement. A change of our clock does not matter.
    pub fn ago(&self, at: i64, least: Nanos, now: Nanos) -> Nanos {
        let Some((pair, ahead)) = self.best().zip(self.wall_ahead) else { return least };
        let hubs_now = (now.0.cast_signed()).saturating_add(ahead).saturating_add(pair.offset);
        let measured = Nanos(u64::try_from(hubs_now.saturating_sub(at)).unwrap_or(0));
        let on_its_way = self.answered.map_or(Nanos(0), |answered| now.since(answered));
        measured.clamp(least, Nanos(least.0.saturating_add(on_its_way.0)))
    }

    /// How long the oldest outstanding Beat has waited.
    pub fn waited(&self, now: Nanos) -> Option<Nanos> {
        self.sent[0].map(|sent| now.since(sent.at))
    }

    /// When the oldest outstanding Beat is late.
    pub fn late(&self) -> Option<Nanos> {
        self.sent[0].map(|sent| Nanos(sent.at.0 + BEATEN_LATE.0))
    }
}

/// ((t2 - t1) + (t3 - t4)) / 2; clocks may show any time.
fn offset(sent: i64, beaten: &Beaten<'_>, wall: i64) -> i64 {
    let there = i128::from(beaten.received) - i128::from(sent);
    let back = i128::from(beaten.answered) - i128::from(wall);
    ((there + back) / 2).clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(stamp: i64, received: i64, answered: i64) -> Beaten<'static> {
        Beaten { stamp, received, answered, count: 0, acks: &[] }
    }

    #[test]
    fn offset_and_round_trip_are_found_and_the_shortest_trip_counts() {
        let mut beats = Beats::default();
        // The hub's clock is 1,000,000 ahead; 300 there, 50 at the hub, 300 back; then a slow, uneven trip.
        assert_eq!(beats.beat(Nanos(0), 5_000, 0, false).round_trip, None);
        assert_eq!(beats.beaten(&answer(5_000, 1_005_300, 1_005_350), Nanos(650), 5_650), Some(Nanos(650)));
        let pair = Pair { round_trip: Nanos(600), offset: 1_000_000 };
        assert_eq!(beats.best(), Some(pair));
        beats.beat(Nanos(1_000), 6_000, 0, false);
        beats.beaten(&answer(6_000, 1_016_000, 1_016_000), Nanos(11_100), 16_100);
        assert_eq!(beats.best(), Some(pair));
        assert_eq!(beats.beat(Nanos(20_000), 25_000, 0, false).offset, 1_000_000);
    }

    #[test]
    fn a_clock_that_was_set_takes_the_old_offsets_with_it() {
        let mut beats = Beats::default();
        beats.beat(Nanos(0), 0, 0, false);
        beats.beaten(&answer(0, 10, 10), Nanos(20), 20);
        beats.beat(Nanos(1_000), 1_000, 0, false);
        let hour = 3_600_000_000_000;
        assert_eq!(beats.beaten(&answer(1_000, 1_010, 1_010), Nanos(1_020), hour), Some(Nanos(20)));
        assert_eq!(beats.best(), None);
    }

    #[test]
    fn a_clock_that_is_set_between_two_beats_shows_in_the_next_answer_however_slow_it_was() {
        let mut beats = Beats::default();
        beats.beat(Nanos(0), 0, 0, false);
        beats.beaten(&answer(0, 1_000, 1_000), Nanos(2_000), 2_000);
        // A slow and uneven trip contradicts nothing.
        beats.beat(Nanos(10_000), 10_000, 0, false);
        beats.beaten(&answer(10_000, 5_010_000, 5_010_000), Nanos(5_020_000), 5_020_000);
        assert_eq!(beats.best(), Some(Pair { round_trip: Nanos(2_000), offset: 0 }));
        let hour = 3_600_000_000_000;
        beats.beat(Nanos(6_000_000), 6_000_000 + hour, 0, false);
        beats.beaten(&answer(6_000_000 + hour, 6_005_000, 6_005_000), Nanos(6_010_000), 6_010_000 + hour);
        assert_eq!(beats.best(), Some(Pair { round_trip: Nanos(10_000), offset: -hour }));
    }

    #[test]
    fn a_clock_that_is_set_is_measured_again_at_once_also_when_answers_may_wait() {
        let (second, hour) = (1_000_000_000, 3_600_000_000_000);
        let (mut beats, mut ours, mut theirs) = (Beats::default(), 0, 0);
        for number in 0..60 {
            // Ours is set before Beat 33, the hub's before Beat 46.
            ours += if number == 33 { hour } else { 0 };
            theirs += if number == 46 { -hour } else { 0 };
            let now = number * second;
            beats.beat(Nanos(now as u64), now + ours, 0, true);
            let heard = now + theirs + 200_000;
            beats.beaten(
                &answer(now + ours, heard, heard),
                Nanos(now as u64 + 400_000),
                now + ours + 400_000,
            );
            // The measurement of the Beat that shows the change, or of the next Beat.
            let offset = beats.best().map(|pair| pair.offset);
            assert!(
                offset == Some(theirs - ours) || (number == 46 && offset.is_none()),
                "{number}: {offset:?}"
            );
        }
    }

    #[test]
    fn how_long_ago_the_hub_meant_is_right_after_any_clock_was_set() {
        let (second, hour) = (1_000_000_000, 3_600_000_000_000);
        // Ours is set by this much before the last Beat, and the hub's after it, before it says something.
        for (ours, theirs) in [(0, 0), (hour, 0), (-hour, 0), (0, hour), (0, -hour), (hour, -hour)] {
            let mut beats = Beats::default();
            assert_eq!(beats.ago(5, Nanos(77), Nanos(9)), Nanos(77), "nothing is measured");
            let lead = 7 * second;
            for number in 0..10 {
                let now = number * second;
                let wall = now + hour + if number == 9 { ours } else { 0 };
                beats.beat(Nanos(now as u64), wall, 0, false);
                let heard = now + lead + 200_000;
                beats.beaten(&answer(wall, heard, heard), Nanos(now as u64 + 400_000), wall + 400_000);
            }
            // It happened 2 s before it was said, and that was 300 ms on its way.
            let (said, now) = (9 * second + 100_000_000, 9 * second + 400_000_000);
            let at = said + lead + theirs - 2 * second;
            let ago = beats.ago(at, Nanos(2 * second as u64), Nanos(now as u64)).0 as i64;
            // The hub's clock was not measured again, so the time on the way is unknown.
            let most = if theirs == 0 { 2 * second + 300_000_000 } else { 2 * second + 400_000_000 };
            let least = if theirs == 0 { most } else { 2 * second };
            assert!((least..=most).contains(&ago), "{ago} ns, set by {ours} and {theirs}");
        }
    }

    #[test]
    fn a_lying_hub_gives_no_pair_and_an_unknown_answer_is_none() {
        let mut beats = Beats::default();
        beats.beat(Nanos(0), 0, 0, false);
        assert_eq!(beats.beaten(&answer(7, 0, 0), Nanos(5), 5), None);
        for (received, answered) in [(0, 1_000_000), (10, 0), (i64::MIN, i64::MAX)] {
            beats.sent = [Some(Sent { stamp: 0, at: Nanos(0), is_measured: true }), None];
            assert_eq!(beats.beaten(&answer(0, received, answered), Nanos(5), 5), Some(Nanos(5)));
            assert_eq!(beats.best(), None);
        }
    }

    #[test]
    fn at_leisure_every_thirtieth_beat_is_measured_and_a_clock_that_was_set_is_noticed_in_any() {
        let mut beats = Beats::default();
        let mut measured = Vec::new();
        for second in 0..61 {
            let wall = second as i64 * 1_000_000_000;
            beats.beat(Nanos(second * 1_000_000_000), wall, 0, true);
            assert_eq!(beats.late(), Some(Nanos(second * 1_000_000_000 + BEATEN_LATE.0)));
            let may_wait = beats.answers_may_wait() == 1;
            let took =
                beats.beaten(&answer(wall, wall, wall), Nanos(second * 1_000_000_000 + 500), wall + 500);
            assert_eq!(took, (!may_wait).then_some(Nanos(500)));
            if !may_wait {
                measured.push(second);
            }
            assert_eq!(beats.unread(), 0, "nothing is outstanding");
        }
        assert_eq!(measured, (0..4).chain([30, 60]).collect::<Vec<_>>());
        assert!(beats.best().is_some());
        beats.beat(Nanos(61_000_000_000), 61_000_000_000, 0, true);
        assert_eq!(beats.beaten(&answer(61_000_000_000, 0, 0), Nanos(61_000_000_500), 0), None);
        assert_eq!(beats.best(), None, "the clock was set");
    }

    #[test]
    fn answers_are_kept_until_one_is_timed_and_none_of_them_is_late() {
        let mut beats = Beats::default();
        let second = |number: u64| Nanos(number * 1_000_000_000);
        let wall = |number: u64| number as i64 * 1_000_000_000;
        for number in 0..4 {
            beats.beat(second(number), wall(number), 0, true);
            beats.beaten(&answer(wall(number), wall(number), wall(number)), second(number), wall(number));
        }
        for number in 4..30 {
            beats.beat(second(number), wall(number), 0, true);
            assert_eq!(beats.late(), Some(Nanos(second(number).0 + BEATEN_LATE.0)));
            assert_eq!(beats.answers_may_wait(), 1);
            beats.all_came();
            assert_eq!((beats.late(), beats.unread()), (None, number as usize - 3));
        }
        beats.beat(second(30), wall(30), 0, true);
        beats.all_came();
        assert_eq!((beats.answers_may_wait(), beats.unread()), (0, 27), "the thirtieth is timed");
        for number in 4..30 {
            assert_eq!(beats.beaten(&answer(wall(number), 0, 0), second(30), wall(30)), None);
        }
        assert!(beats.best().is_some(), "what was read late says nothing of clocks");
        assert!(beats.beaten(&answer(wall(30), wall(30), wall(30)), second(30), wall(30)).is_some());
        assert_eq!((beats.unread(), beats.late()), (0, None));
    }

    #[test]
    fn the_oldest_unanswered_beat_says_when_the_hub_is_late() {
        let mut beats = Beats::default();
        assert_eq!(beats.late(), None);
        beats.beat(Nanos(100), 1, 0, false);
        beats.beat(Nanos(200), 2, 0, false);
        assert_eq!(beats.late(), Some(Nanos(100 + BEATEN_LATE.0)));
        assert_eq!(beats.waited(Nanos(250)), Some(Nanos(150)));
        beats.beaten(&answer(1, 0, 0), Nanos(300), 3);
        assert_eq!(beats.late(), Some(Nanos(200 + BEATEN_LATE.0)));
        beats.beaten(&answer(2, 0, 0), Nanos(300), 3);
        assert_eq!(beats.late(), None);
    }
}
