//! Rows on demand: what a node is asked for right now, for all who ask at once. At most one request of a node is under
//! way; who comes while it is joins it if it is young enough, and else the one that follows. It sends nothing itself.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use khz_model::{Nanos, Pattern};

use crate::interest::Wish;

/// A node whose rows nobody has wanted for so long is not kept ready for it...
const KEPT_MIN: Nanos = Nanos::from_secs(5);
/// ...nor one whose rows somebody wants now and then: longer than two scrapes of the usual minute.
const KEPT_MAX: Nanos = Nanos::from_secs(150);
/// Askings that are closer together than this say nothing about when the next one comes.
const TOGETHER: Nanos = Nanos::SECOND;

/// How long a node is kept ready for the next one who wants its rows: getting it ready takes longer than a row, and that
/// shows in the rates of whoever comes at regular times.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keeping {
    asked_at: Option<Nanos>,
    kept: Nanos,
}

impl Default for Keeping {
    fn default() -> Self {
        Keeping { asked_at: None, kept: KEPT_MIN }
    }
}

impl Keeping {
    /// Somebody wants rows: if he comes again after as long, he finds the node ready.
    pub fn note(&mut self, now: Nanos) {
        let apart = self.asked_at.replace(now).map_or(Nanos(0), |before| now.since(before));
        if apart > TOGETHER {
            self.kept = Nanos((apart.0 / 2).saturating_mul(5).clamp(KEPT_MIN.0, KEPT_MAX.0));
        }
    }
}

/// One who waits for several nodes.
#[derive(Debug, Default)]
pub(crate) struct Round {
    left: AtomicUsize,
    waker: Mutex<Option<Waker>>,
}

impl Round {
    /// One more node is waited for.
    pub fn expect(&self) {
        self.left.fetch_add(1, Ordering::AcqRel);
    }

    /// One of them has answered, or will not.
    pub fn done(&self) {
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1
            && let Some(waker) = self.waker().take()
        {
            waker.wake();
        }
    }

    /// Ready when nobody is waited for.
    pub fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        *self.waker() = Some(cx.waker().clone());
        if self.left.load(Ordering::Acquire) == 0 { Poll::Ready(()) } else { Poll::Pending }
    }

    fn waker(&self) -> std::sync::MutexGuard<'_, Option<Waker>> {
        self.waker.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// The kernel files that are wanted, each with a metric that comes from it; a node gathers files whole.
pub(crate) type Files = BTreeMap<String, String>;

/// Everything, in the place of files.
pub(crate) const EVERYTHING: &str = "*";

/// The wish that stands for these files.
pub(crate) fn wish(files: &Files) -> Wish {
    let patterns = if files.contains_key(EVERYTHING) {
        vec![Pattern::everything()]
    } else {
        files.values().filter_map(|metric| Pattern::new(metric).ok()).collect()
    };
    Wish { patterns, rate: None, exact: true, prompt: true }
}

/// What is to be done for one who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// What is there is young enough, or the best that there will be.
    Enough,
    /// The answer to this request is waited for.
    Wait(u32),
    /// The same, and it is to be sent now.
    Send(u32),
}

/// What a node is asked for.
#[derive(Debug)]
pub(crate) struct Demand {
    pub files: Files,
    /// Number of the interest.
    pub number: u32,
    /// The node does not know this, or does not want to.
    pub refused: bool,
    /// The last request: its number, and when it was sent.
    sent: u32,
    sent_at: Nanos,
    /// The last one that was answered, and when that was sent.
    answered: u32,
    answered_sent_at: Nanos,
    /// Some wait for one more.
    again: bool,
    waiting: Vec<(u32, Arc<Round>)>,
    wanted_at: Nanos,
    /// Requests that may still be sent, in thousandths; see [`Demand::may_send`].
    allowance: u64,
    allowed_at: Nanos,
}

impl Demand {
    pub fn new(files: Files, number: u32, now: Nanos) -> Self {
        Demand {
            files,
            number,
            refused: false,
            sent: 0,
            sent_at: Nanos(0),
            answered: 0,
            answered_sent_at: Nanos(0),
            again: false,
            waiting: Vec::new(),
            wanted_at: now,
            allowance: 0,
            allowed_at: Nanos(0),
        }
    }

    /// True when all of these are gathered for it.
    pub fn covers(&self, files: &Files) -> bool {
        self.files.contains_key(EVERYTHING) || files.keys().all(|file| self.files.contains_key(file))
    }

    /// Nobody has wanted it for long.
    pub fn is_forgotten(&self, now: Nanos, keeping: Keeping) -> bool {
        self.waiting.is_empty() && now.since(self.wanted_at) > keeping.kept
    }

    /// Somebody wants rows no older than that; `ceiling` is the time between two requests over a longer time.
    pub fn ask(&mut self, now: Nanos, age_max: Nanos, ceiling: Nanos, round: &Arc<Round>) -> Verdict {
        self.wanted_at = now;
        let is_young = |at: Nanos| now.since(at).0 <= age_max.0;
        if self.refused || (self.answered > 0 && is_young(self.answered_sent_at)) {
            return Verdict::Enough;
        }
        let under_way = self.sent != self.answered;
        if under_way {
            let joins = is_young(self.sent_at);
            self.again |= !joins;
            let ask = if joins { self.sent } else { self.sent.wrapping_add(1) };
            self.wait(ask, round);
            return Verdict::Wait(ask);
        }
        if !self.may_send(now, ceiling) {
            return Verdict::Enough;
        }
        self.send(now);
        self.wait(self.sent, round);
        Verdict::Send(self.sent)
    }

    fn wait(&mut self, ask: u32, round: &Arc<Round>) {
        // Those who gave up waiting have dropped theirs.
        if self.waiting.len() >= 64 && self.waiting.len().is_power_of_two() {
            self.waiting.retain(|(_, round)| Arc::strong_count(round) > 1);
        }
        round.expect();
        self.waiting.push((ask, round.clone()));
    }

    fn send(&mut self, now: Nanos) {
        self.sent = self.sent.wrapping_add(1);
        self.sent_at = now;
        self.again = false;
    }

    /// A tenth of a second's requests may be sent in one go.
    fn may_send(&mut self, now: Nanos, ceiling: Nanos) -> bool {
        let each = ceiling.0.max(1);
        let most = (Nanos::SECOND.0 / 10).max(each);
        self.allowance = (self.allowance + now.since(self.allowed_at).0).min(most);
        self.allowed_at = now;
        let may = self.allowance >= each;
        self.allowance -= if may { each } else { 0 };
        may
    }

    /// The number of the last request.
    pub fn sent(&self) -> u32 {
        self.sent
    }

    /// Time between the last request and the one before, as far as is known.
    pub fn is_crowded(&self, now: Nanos, window: Nanos) -> bool {
        self.sent > 1 && now.since(self.answered_sent_at) < window
    }

    /// The node has answered this request; gives the number of the next one, which is to be sent now.
    pub fn given(&mut self, ask: u32, now: Nanos) -> Option<u32> {
        // One that was never sent, or that belongs to an earlier connection.
        if ask != self.sent || self.sent == self.answered {
            return None;
        }
        (self.answered, self.answered_sent_at) = (ask, self.sent_at);
        self.finish(|waited| waited == ask);
        if !self.again {
            return None;
        }
        self.send(now);
        Some(self.sent)
    }

    /// The node will not answer: it has refused, or its connection is over.
    pub fn give_up(&mut self) {
        self.finish(|_| true);
        (self.answered, self.answered_sent_at) = (self.sent, Nanos(0));
        self.again = false;
    }

    fn finish(&mut self, is_done: impl Fn(u32) -> bool) {
        self.waiting.retain(|(ask, round)| {
            let done = is_done(*ask);
            if done {
                round.done();
            }
            !done
        });
    }

    /// True when the node has answered this request, or a later one.
    pub fn has_answered(&self, ask: u32) -> bool {
        self.refused || self.answered.wrapping_sub(ask) < 1 << 31
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Nanos = Nanos::from_micros(100);
    const CEILING: Nanos = Nanos::from_millis(1);

    fn micros(n: u64) -> Nanos {
        Nanos::from_micros(1_000_000 + n)
    }

    fn ask(demand: &mut Demand, now: u64, round: &Arc<Round>) -> Verdict {
        demand.ask(micros(now), WINDOW, CEILING, round)
    }

    fn left(round: &Round) -> usize {
        round.left.load(Ordering::Relaxed)
    }

    #[test]
    fn those_who_ask_within_a_window_share_a_request_and_later_ones_the_next() {
        let mut demand = Demand::new(Files::new(), 1, micros(0));
        let rounds: Vec<Arc<Round>> = (0..4).map(|_| Arc::default()).collect();
        assert_eq!(ask(&mut demand, 0, &rounds[0]), Verdict::Send(1));
        assert_eq!(ask(&mut demand, 90, &rounds[1]), Verdict::Wait(1));
        assert_eq!(ask(&mut demand, 500, &rounds[2]), Verdict::Wait(2));
        assert_eq!(ask(&mut demand, 900, &rounds[3]), Verdict::Wait(2));
        assert_eq!(demand.given(1, micros(950)), Some(2), "two wait for one more");
        assert_eq!(rounds.iter().map(|round| left(round)).collect::<Vec<_>>(), [0, 0, 1, 1]);
        assert_eq!(demand.given(2, micros(1_000)), None);
        assert_eq!(rounds.iter().map(|round| left(round)).sum::<usize>(), 0);
        assert_eq!(ask(&mut demand, 1_040, &rounds[0]), Verdict::Enough, "younger than the window");
        assert!(demand.has_answered(2) && !demand.has_answered(3));
    }

    /// Counts how often it was woken.
    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl std::task::Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn who_waits_for_several_nodes_is_woken_once_by_the_last_of_them() {
        let (round, woken) = (Round::default(), Arc::<Woken>::default());
        let waker = Waker::from(woken.clone());
        let poll = || round.poll(&mut Context::from_waker(&waker));
        assert_eq!(poll(), Poll::Ready(()), "nobody is waited for");
        (0..3).for_each(|_| round.expect());
        assert_eq!(poll(), Poll::Pending);
        for (left, expected) in [(2, 0), (1, 0), (0, 1)] {
            round.done();
            assert_eq!((self::left(&round), woken.0.load(Ordering::Relaxed)), (left, expected));
        }
        assert_eq!(poll(), Poll::Ready(()));
    }

    #[test]
    fn beyond_its_ceiling_a_node_is_left_alone() {
        let mut demand = Demand::new(Files::new(), 1, micros(0));
        let round = Arc::default();
        let mut sent = 0;
        for tick in 0..5_000 {
            if let Verdict::Send(number) = ask(&mut demand, tick * 200, &round) {
                sent += 1;
                assert_eq!(demand.given(number, micros(tick * 200 + 1)), None);
            }
        }
        assert!((1_000..=1_101).contains(&sent), "{sent} requests in a second");
    }

    #[test]
    fn who_comes_at_regular_times_finds_the_node_ready_from_the_third_time_on() {
        for seconds in [2, 15, 60] {
            let (mut keeping, mut ready) = (Keeping::default(), None::<Demand>);
            let mut found = Vec::new();
            for turn in 1..=5 {
                let now = Nanos::from_secs(1_000 + turn * seconds);
                ready.take_if(|demand| demand.is_forgotten(now, keeping));
                found.push(ready.is_some());
                keeping.note(now);
                ready.get_or_insert_with(|| Demand::new(Files::new(), 1, now)).wanted_at = now;
            }
            assert_eq!(found, [false, seconds < 5, true, true, true], "every {seconds} s");
            let long_after = Nanos::from_secs(1_000 + 5 * seconds + 151);
            assert!(
                ready.is_some_and(|demand| demand.is_forgotten(long_after, keeping)),
                "every {seconds} s"
            );
        }
    }

    #[test]
    fn many_who_come_together_do_not_make_a_node_wait_for_them() {
        let mut keeping = Keeping::default();
        (0..1_000).for_each(|n| keeping.note(Nanos::from_millis(n * 10)));
        assert_eq!(keeping.kept, KEPT_MIN);
    }

    #[test]
    fn nobody_waits_for_a_node_that_refuses_or_goes() {
        let mut demand = Demand::new(Files::new(), 1, micros(0));
        let round = Arc::default();
        assert_eq!(ask(&mut demand, 0, &round), Verdict::Send(1));
        demand.give_up();
        assert_eq!(left(&round), 0);
        assert_eq!(demand.given(1, micros(5)), None, "too late");
        assert_eq!(ask(&mut demand, 10, &round), Verdict::Send(2));
        demand.refused = true;
        demand.give_up();
        assert_eq!(ask(&mut demand, 9_999, &round), Verdict::Enough);
        assert!(
            demand.has_answered(2)
                && !demand.is_forgotten(micros(10_000), Keeping::default())
                && demand.is_forgotten(micros(9_000_000), Keeping::default())
        );
    }
}
