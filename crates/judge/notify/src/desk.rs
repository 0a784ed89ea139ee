//! What the thread of a way shares with its callers: the state of the way, and the next step. It does no I/O and reads no clock, so
//! a test can set the time.

use crate::alert::Told;
use crate::core::{Core, Kept};
use crate::now::Now;
use crate::standstill::Standstill;

/// What the thread and its callers share.
#[derive(Debug)]
pub(crate) struct Desk<C> {
    pub core: C,
    /// There is a thread.
    pub is_attended: bool,
    pub standstill: Standstill,
}

/// What the thread does next.
#[derive(Debug)]
pub(crate) enum Turn<J> {
    /// Send this job. If there is a record, write it first.
    Send(J, Option<Kept>),
    /// Sleep for this many ms, or until the bell rings.
    Sleep(u64),
    /// End the thread: there is nothing to do, now or later.
    End,
}

impl<C: Core> Desk<C> {
    /// A way without a thread.
    pub fn new(core: C) -> Self {
        Desk { core, is_attended: false, standstill: Standstill::default() }
    }

    /// When something is due, on the steady clock.
    pub fn due(&self) -> Option<u64> {
        Some(self.core.due()?.max(self.standstill.silent_until()))
    }

    /// Takes what the judge has found, after it has asked the other hubs.
    pub fn tell(&mut self, alerts: &mut [Told<'_>], now: Now) {
        for alert in alerts {
            self.core.take(alert, now);
        }
        self.core.end_of_pass(now);
        self.standstill.judged();
    }

    /// The next step of the thread. `is_over`: the notifier ends, and nothing more is sent.
    pub fn turn(&mut self, now: Now, is_over: bool) -> Turn<C::Job> {
        self.standstill.looked(now);
        let Some(due) = self.due().filter(|_| !is_over) else {
            self.is_attended = false;
            self.standstill.leaves();
            return Turn::End;
        };
        if due <= now.steady
            && let Some(job) = self.core.next(now)
        {
            self.standstill.leaves();
            return Turn::Send(job, self.core.record(now));
        }
        Turn::Sleep(self.standstill.sleep(now, due))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alert::{Alert, Labels};
    use crate::answer::Answer;
    use crate::digest::{Digest, Pace};
    use crate::queue::Queue;

    fn at(steady: u64) -> Now {
        Now { steady, wall: 1_700_000_000_000 + steady as i64 }
    }

    fn alert(name: &str) -> Alert {
        let labels: Labels = [("alertname".to_owned(), name.to_owned())].into();
        Alert { labels, starts_at: 1, ..Alert::default() }
    }

    /// A way whose alerts A and B are about to be sent when its thread stands still for 15 s.
    fn halted<C: Core>(core: C) -> (Desk<C>, u64) {
        let mut desk = Desk::new(core);
        let (a, b) = (alert("A"), alert("B"));
        desk.tell(&mut [Told::new(&a), Told::new(&b)], at(0));
        let mut now = 0;
        while desk.due().unwrap() > now + 3_000 {
            now = match desk.turn(at(now), false) {
                Turn::Sleep(sleep) => now + sleep,
                Turn::Send(job, _) => {
                    desk.core.done(job, &Answer::Taken(String::new()), at(now));
                    now
                }
                Turn::End => panic!("there is something to do"),
            };
        }
        assert!(matches!(desk.turn(at(now), false), Turn::Sleep(_)));
        let now = now + 15_000;
        assert!(matches!(desk.turn(at(now), false), Turn::Sleep(_)), "it sends from an old picture");
        assert!(desk.standstill.take_noticed().is_some_and(|late| late > 10_000));
        (desk, now)
    }

    /// How many jobs there are within a time, in which the thread takes a turn each second.
    fn jobs<C: Core>(desk: &mut Desk<C>, from: u64, to: u64) -> u64 {
        let mut alerts = 0;
        for now in (from..to).step_by(1_000) {
            while let Turn::Send(job, _) = desk.turn(at(now), false) {
                alerts += C::alerts(&job);
                desk.core.done(job, &Answer::Taken(String::new()), at(now));
            }
        }
        alerts
    }

    fn check<C: Core>(core: impl Fn() -> C) {
        // The judge asks the other hubs, forgets what they have told, and speaks.
        let (mut desk, now) = halted(core());
        desk.core.release(&|labels| labels["alertname"] == "A");
        assert_eq!(jobs(&mut desk, now, now + 20_000), 0, "it has not spoken");
        let b = alert("B");
        desk.tell(&mut [Told::new(&b)], at(now + 20_000));
        assert_eq!(jobs(&mut desk, now + 20_000, now + 21_000), 1);
        // What it says at once may be from before the halt; then it hears that another hub has told people of both.
        let (mut desk, now) = halted(core());
        let (a, b) = (alert("A"), alert("B"));
        desk.tell(&mut [Told::new(&a), Told::new(&b)], at(now));
        assert_eq!(jobs(&mut desk, now, now + 3_000), 0);
        desk.core.release(&|_| true);
        assert_eq!(jobs(&mut desk, now + 3_000, now + 100_000), 0);
        // It has nothing to say.
        let (mut desk, now) = halted(core());
        assert_eq!(jobs(&mut desk, now, now + 60_000), 0);
        assert_eq!(jobs(&mut desk, now + 60_000, now + 61_000), 2);
    }

    #[test]
    fn a_way_to_people_that_stood_still_sends_nothing_before_the_judge_has_spoken() {
        check(|| Digest::new(Pace::default(), Vec::new(), at(0)));
    }

    #[test]
    fn a_way_to_an_alertmanager_that_stood_still_sends_nothing_before_the_judge_has_spoken() {
        check(|| {
            let mut queue = Queue::new(60_000, at(0));
            // The first sending is at once; it is the next one that the thread sleeps for.
            for name in ["A", "B"] {
                queue.take(&mut Told::new(&alert(name)), at(0));
            }
            let job = queue.next(at(0)).unwrap();
            queue.done(job, &Answer::Taken(String::new()), at(0));
            queue
        });
    }

    #[test]
    fn bells_that_ring_meanwhile_end_no_silence() {
        let (mut desk, now) = halted(Digest::new(Pace::default(), Vec::new(), at(0)));
        let mut other = Digest::new(Pace::default(), Vec::new(), at(0));
        other.take(&mut Told::new(&alert("C")), at(0));
        assert!(other.next(at(10_000)).is_some());
        other.records().into_iter().for_each(|record| desk.core.adopt(record, at(now)));
        assert!(matches!(desk.turn(at(now), false), Turn::Sleep(_)));
        desk.core.release(&|_| false);
        assert!(matches!(desk.turn(at(now + 1), false), Turn::Sleep(_)));
    }
}
