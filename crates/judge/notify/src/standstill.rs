//! Detects whether the thread of a way stood still, alone or with its process or machine. Another hub may then have taken over its
//! alerts, so nothing is sent before the judge has spoken again. It reads no clock.

use crate::now::Now;

/// A thread that wakes this much later than planned, in ms, stood still. Another hub takes over after 10 s of silence.
const OVERSLEPT: u64 = 5_000;
/// The shortest silence after a standstill, in ms, since the judge's first words may still be from before. The judge asks other
/// hubs once a second, and releases the alerts that they have taken over.
const SILENT_MIN: u64 = 5_000;
/// The longest silence, in ms, if the judge does not speak, since it may have nothing new to say.
const SILENT_MAX: u64 = 60_000;
/// How long before the moment of sending the thread begins to sleep in naps, in ms. Within this time, the judge of a process that
/// stood still can ask the other hubs.
const NEAR: u64 = 10_000;
/// A nap, in ms. With one long sleep, a standstill that ends before the moment of sending would not be noticed.
const NAP: u64 = 2_000;
/// The longest sleep of a thread with a later job, so that far moments are computed again.
const SLEEP_MAX: u64 = 3_600_000;

/// When a thread meant to read the clock again, and until when nothing is sent.
#[derive(Debug, Default)]
pub(crate) struct Standstill {
    /// `None`: unknown, since the thread waits for somebody else.
    expected: Option<Now>,
    silence: Option<Silence>,
    /// How long the last standstill was, until somebody asks.
    noticed: Option<u64>,
}

/// A time in which nothing is sent.
#[derive(Clone, Copy, Debug)]
struct Silence {
    /// On the steady clock.
    since: u64,
    /// The judge has spoken since.
    is_judged: bool,
}

impl Silence {
    fn until(self) -> u64 {
        self.since.saturating_add(if self.is_judged { SILENT_MIN } else { SILENT_MAX })
    }
}

impl Standstill {
    /// Notes that the thread has read the clock. It will read it again at once.
    pub fn looked(&mut self, now: Now) {
        let late = self.expected.map_or(0, |expected| {
            let steady = now.steady.saturating_sub(expected.steady);
            // The steady clock stops while a machine sleeps.
            let wall = u64::try_from(now.wall.saturating_sub(expected.wall)).unwrap_or(0);
            steady.max(wall)
        });
        if late >= OVERSLEPT {
            self.silence = Some(Silence { since: now.steady, is_judged: false });
            self.noticed = Some(late);
        }
        self.silence = self.silence.filter(|silence| silence.until() > now.steady);
        self.expected = Some(now);
    }

    /// How long the thread must sleep now, in ms, if it has to send something at this moment.
    pub fn sleep(&mut self, now: Now, due: u64) -> u64 {
        let left = due.saturating_sub(now.steady);
        let sleep = if left > NEAR { (left - NEAR).min(SLEEP_MAX) } else { left.min(NAP) };
        // Sleep at least a moment: a job that is due but not sent waits for the end of an hour.
        let sleep = sleep.max(1);
        let wall = now.wall.saturating_add(i64::try_from(sleep).unwrap_or(i64::MAX));
        self.expected = Some(Now { steady: now.steady.saturating_add(sleep), wall });
        sleep
    }

    /// The thread waits for somebody else, or ends.
    pub fn leaves(&mut self) {
        self.expected = None;
    }

    /// The judge has spoken.
    pub fn judged(&mut self) {
        if let Some(silence) = &mut self.silence {
            silence.is_judged = true;
        }
    }

    /// The moment of the steady clock before which nothing is sent.
    pub fn silent_until(&self) -> u64 {
        self.silence.map_or(0, Silence::until)
    }

    /// How long it stood still, in ms, if that is new.
    pub fn take_noticed(&mut self) -> Option<u64> {
        self.noticed.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WALL: i64 = 1_700_000_000_000;

    fn at(steady: u64) -> Now {
        Now { steady, wall: WALL + steady as i64 }
    }

    /// A thread that is to send something after 10 s looks at these moments, each time after the sleep that it meant.
    fn is_silent_after(looks: &[Now]) -> bool {
        let mut standstill = Standstill::default();
        for now in looks {
            standstill.looked(*now);
            standstill.sleep(*now, 10_000);
        }
        standstill.silent_until() > 0
    }

    #[test]
    fn a_thread_that_wakes_much_later_than_it_meant_to_stood_still_by_either_clock() {
        assert!(!is_silent_after(&[at(0), at(2_000), at(4_100), at(11_000)]), "a busy machine");
        assert!(!is_silent_after(&[at(0), at(10), at(20)]), "its bell rang");
        assert!(is_silent_after(&[at(0), at(7_000)]));
        assert!(is_silent_after(&[at(0), at(2_000), at(9_000)]), "it went on before the message was due");
        let set = |seconds: i64| Now { wall: at(2_000).wall + seconds * 1_000, ..at(2_000) };
        assert!(is_silent_after(&[at(0), set(60)]), "a machine that slept");
        assert!(!is_silent_after(&[at(0), set(-60)]), "somebody has set the clock back");
    }

    #[test]
    fn a_thread_that_waits_for_somebody_else_did_not_stand_still() {
        let mut standstill = Standstill::default();
        standstill.looked(at(0));
        standstill.leaves();
        standstill.looked(at(40_000));
        assert_eq!((standstill.silent_until(), standstill.take_noticed()), (0, None));
    }

    #[test]
    fn silence_ends_after_some_seconds_if_the_judge_speaks_else_after_a_minute() {
        let mut standstill = Standstill::default();
        standstill.looked(at(0));
        standstill.looked(at(20_000));
        assert_eq!((standstill.take_noticed(), standstill.take_noticed()), (Some(20_000), None));
        assert_eq!(standstill.silent_until(), 80_000);
        // It is from before the halt, perhaps.
        standstill.judged();
        assert_eq!(standstill.silent_until(), 25_000);
        standstill.looked(at(24_000));
        standstill.judged();
        assert_eq!(standstill.silent_until(), 25_000);
        standstill.looked(at(25_000));
        assert_eq!(standstill.silent_until(), 0);
        standstill.looked(at(40_000));
        assert_eq!(standstill.silent_until(), 100_000);
        for moment in (41_000..=100_000).step_by(1_000) {
            standstill.looked(at(moment));
        }
        assert_eq!(standstill.silent_until(), 0);
    }

    #[test]
    fn a_far_moment_is_one_sleep_and_a_near_one_some_naps() {
        let mut standstill = Standstill::default();
        let (mut now, mut sleeps) = (at(0), 0);
        while now.steady < 3_000_000 {
            now = at(now.steady + standstill.sleep(now, 3_000_000));
            sleeps += 1;
        }
        assert_eq!((now.steady, sleeps), (3_000_000, 6));
        assert_eq!(standstill.sleep(now, u64::MAX), SLEEP_MAX);
    }
}
