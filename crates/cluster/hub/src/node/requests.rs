//! Requests: rows of one node right now (`khz get --age`, scrapes), for all readers that ask at the same time. At most
//! one request is under way. A reader that asks meanwhile shares the answer if that will be young enough, and otherwise
//! waits for the next request. It sends nothing: it returns commands, which the caller sends to the node.

use std::collections::BTreeMap;
use std::sync::Arc;

use khz_model::{Nanos, Pattern};

use super::subscriptions::Terms;
use crate::counts::Counts;
use crate::mailbox::Command;
use crate::round::Round;

/// A node is kept ready for the next request for at least this long...
const READY_MIN: Nanos = Nanos::from_secs(5);
/// ...and at most this long: two and a half times the minute between two scrapes.
const READY_MAX: Nanos = Nanos::from_secs(150);
/// Requests that are closer together than this say nothing about when the next one comes.
const TOGETHER: Nanos = Nanos::SECOND;

/// From this number of rounds on that wait for one node, those whose readers have gone are removed.
const WAITING_UNTIDY: usize = 64;

/// How long a node is kept ready for the next request. Getting it ready takes longer than a row, and a reader that comes
/// at regular times would see that in its rates.
#[derive(Clone, Copy, Debug)]
struct Readiness {
    requested_at: Option<Nanos>,
    kept: Nanos,
}

impl Default for Readiness {
    fn default() -> Self {
        Readiness { requested_at: None, kept: READY_MIN }
    }
}

impl Readiness {
    /// A reader requests rows: if it comes again after the same time, it finds the node ready.
    fn note(&mut self, now: Nanos) {
        let apart = self.requested_at.replace(now).map_or(Nanos(0), |before| now.since(before));
        if apart > TOGETHER {
            self.kept = Nanos((apart.0 / 2).saturating_mul(5).clamp(READY_MIN.0, READY_MAX.0));
        }
    }
}

/// The kernel files that are wanted, each with a metric that comes from it; a node gathers files whole.
pub(crate) type Files = BTreeMap<String, String>;

/// Stands for all files.
pub(crate) const EVERYTHING: &str = "*";

/// The terms of a subscription to these files.
pub(crate) fn terms(files: &Files) -> Terms {
    let patterns = if files.contains_key(EVERYTHING) {
        vec![Pattern::everything()]
    } else {
        files.values().filter_map(|metric| Pattern::new(metric).ok()).collect()
    };
    Terms { patterns, rate: None, exact: true, prompt: true, channel: None }
}

/// What a reader requests.
#[derive(Clone, Copy)]
pub(crate) struct RowRequest<'a> {
    pub files: &'a Files,
    pub now: Nanos,
    /// How old the rows may be.
    pub age_max: Nanos,
    /// Time between two requests, over a longer time.
    pub ceiling: Nanos,
    pub counts: &'a Counts,
}

/// The result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The rows that are here are young enough, or no better rows will come.
    Enough,
    /// The reader waits for the answer to this request, which is under way or will be sent later.
    Wait(u32),
    /// The same, and the request is to be sent now.
    Send(u32),
}

/// The requests to one node.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    /// `None` while no reader requests rows.
    current: Option<Current>,
    readiness: Readiness,
}

impl Requests {
    /// A reader is about to request rows.
    pub fn note(&mut self, now: Nanos) {
        self.readiness.note(now);
    }

    /// True if the present subscription has all of these files.
    pub fn covers(&self, files: &Files) -> bool {
        self.current.as_ref().is_some_and(|current| current.covers(files))
    }

    /// These files, and the files that are requested already.
    pub fn widened(&self, files: &Files) -> Files {
        let present = self.current.iter().flat_map(|current| current.files.clone());
        files.clone().into_iter().chain(present).collect()
    }

    /// From now on, requests use the subscription with this number. Returns the number of the previous subscription,
    /// which is no longer needed.
    pub fn begin(&mut self, files: Files, subscription: u32, now: Nanos) -> Option<u32> {
        let before = self.end();
        self.current = Some(Current::new(files, subscription, now));
        before
    }

    /// Ends all requests. Returns the number of the subscription, which is not needed any more.
    fn end(&mut self) -> Option<u32> {
        let mut current = self.current.take()?;
        current.give_up();
        Some(current.subscription)
    }

    /// The same if no reader has requested rows for a while.
    pub fn end_if_unused(&mut self, now: Nanos) -> Option<u32> {
        let is_unused = self.current.as_ref().is_some_and(|current| current.is_unused(now, self.readiness));
        if is_unused { self.end() } else { None }
    }

    /// The number of the subscription, if there is one.
    pub fn subscription(&self) -> Option<u32> {
        self.current.as_ref().map(|current| current.subscription)
    }

    /// A reader requests rows of the present subscription, and waits in this round.
    pub fn request(&mut self, request: &RowRequest<'_>, round: &Arc<Round>) -> Outcome {
        let RowRequest { now, age_max, ceiling, counts, .. } = *request;
        let Some(current) = &mut self.current else { return Outcome::Enough };
        let is_crowded = current.is_crowded(now, age_max);
        let outcome = current.request(now, age_max, ceiling, round);
        if let Outcome::Send(_) = outcome {
            Counts::add(&counts.now_crowded, is_crowded.into());
        }
        outcome
    }

    /// A subscription has its lane: returns the request that waits for it.
    pub fn lane_is_ready(&self, subscription: u32) -> Option<Command> {
        let current = self.current.as_ref().filter(|current| current.subscription == subscription)?;
        (!current.has_answered(current.sent)).then(|| current.command())
    }

    /// The node has answered this request. Returns the next one, if some reader waits for it.
    pub fn answered(&mut self, request: u32, now: Nanos) -> Option<Command> {
        let current = self.current.as_mut()?;
        current.answer(request, now)?;
        Some(current.command())
    }

    /// The node refuses a subscription.
    pub fn refused(&mut self, subscription: u32) {
        if let Some(current) = self.current.as_mut().filter(|current| current.subscription == subscription) {
            current.is_refused = true;
            current.give_up();
        }
    }

    /// The connection has ended: no request will be answered, and nothing is refused any more.
    pub fn hang_up(&mut self) {
        if let Some(current) = &mut self.current {
            current.is_refused = false;
            current.give_up();
        }
    }

    /// True if the node has answered this request, or a later one.
    pub fn has_answered(&self, request: u32) -> bool {
        self.current.as_ref().is_some_and(|current| current.has_answered(request))
    }
}

/// The requests of one subscription.
#[derive(Debug)]
struct Current {
    files: Files,
    /// The number of the subscription that has them.
    subscription: u32,
    /// The node does not understand such a subscription, or does not serve it.
    is_refused: bool,
    /// The last request: its number, and when it was sent.
    sent: u32,
    sent_at: Nanos,
    /// The last request that was answered, and when it was sent.
    answered: u32,
    answered_sent_at: Nanos,
    /// Some readers wait for the request after the one that is under way.
    has_next: bool,
    waiting: Vec<(u32, Arc<Round>)>,
    requested_at: Nanos,
    /// Time that requests may still use up; see [`Current::may_send`].
    allowance: u64,
    allowed_at: Nanos,
}

impl Current {
    fn new(files: Files, subscription: u32, now: Nanos) -> Self {
        Current {
            files,
            subscription,
            is_refused: false,
            sent: 0,
            sent_at: Nanos(0),
            answered: 0,
            answered_sent_at: Nanos(0),
            has_next: false,
            waiting: Vec::new(),
            requested_at: now,
            allowance: 0,
            allowed_at: Nanos(0),
        }
    }

    fn covers(&self, files: &Files) -> bool {
        self.files.contains_key(EVERYTHING) || files.keys().all(|file| self.files.contains_key(file))
    }

    fn is_unused(&self, now: Nanos, readiness: Readiness) -> bool {
        self.waiting.is_empty() && now.since(self.requested_at) > readiness.kept
    }

    /// The frame that says the last request.
    fn command(&self) -> Command {
        Command::Now { number: self.subscription, ask: self.sent }
    }

    /// A reader wants rows no older than `age_max`; `ceiling` is the time between two requests over a longer time.
    fn request(&mut self, now: Nanos, age_max: Nanos, ceiling: Nanos, round: &Arc<Round>) -> Outcome {
        self.requested_at = now;
        let is_young = |at: Nanos| now.since(at).0 <= age_max.0;
        if self.is_refused || (self.answered > 0 && is_young(self.answered_sent_at)) {
            return Outcome::Enough;
        }
        let is_under_way = self.sent != self.answered;
        if is_under_way {
            let shares = is_young(self.sent_at);
            self.has_next |= !shares;
            let request = if shares { self.sent } else { self.sent.wrapping_add(1) };
            self.wait(request, round);
            return Outcome::Wait(request);
        }
        if !self.may_send(now, ceiling) {
            return Outcome::Enough;
        }
        self.send(now);
        self.wait(self.sent, round);
        Outcome::Send(self.sent)
    }

    fn wait(&mut self, request: u32, round: &Arc<Round>) {
        // Readers that gave up waiting have dropped their rounds.
        if self.waiting.len() >= WAITING_UNTIDY && self.waiting.len().is_power_of_two() {
            self.waiting.retain(|(_, round)| Arc::strong_count(round) > 1);
        }
        round.expect();
        self.waiting.push((request, round.clone()));
    }

    fn send(&mut self, now: Nanos) {
        self.sent = self.sent.wrapping_add(1);
        self.sent_at = now;
        self.has_next = false;
    }

    /// Whether another request may be sent. The requests of a tenth of a second may be sent at once.
    fn may_send(&mut self, now: Nanos, ceiling: Nanos) -> bool {
        let each = ceiling.0.max(1);
        let most = (Nanos::SECOND.0 / 10).max(each);
        self.allowance = (self.allowance + now.since(self.allowed_at).0).min(most);
        self.allowed_at = now;
        let may = self.allowance >= each;
        self.allowance -= if may { each } else { 0 };
        may
    }

    /// True if a request sent now would follow another within the window.
    fn is_crowded(&self, now: Nanos, window: Nanos) -> bool {
        self.sent > 1 && now.since(self.answered_sent_at) < window
    }

    /// The node has answered this request. Returns the number of the next one, which is to be sent now.
    fn answer(&mut self, request: u32, now: Nanos) -> Option<u32> {
        // It may never have been sent, or on an earlier connection.
        if request != self.sent || self.sent == self.answered {
            return None;
        }
        (self.answered, self.answered_sent_at) = (request, self.sent_at);
        self.finish(|waited| waited == request);
        if !self.has_next {
            return None;
        }
        self.send(now);
        Some(self.sent)
    }

    /// The node will not answer: it has refused, or its connection is over.
    fn give_up(&mut self) {
        self.finish(|_| true);
        (self.answered, self.answered_sent_at) = (self.sent, Nanos(0));
        self.has_next = false;
    }

    fn finish(&mut self, is_done: impl Fn(u32) -> bool) {
        self.waiting.retain(|(request, round)| {
            let done = is_done(*request);
            if done {
                round.done();
            }
            !done
        });
    }

    /// The numbers wrap: a number up to half the range before the last answer counts as answered.
    fn has_answered(&self, request: u32) -> bool {
        self.is_refused || self.answered.wrapping_sub(request) < 1 << 31
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

    fn ask(current: &mut Current, now: u64, round: &Arc<Round>) -> Outcome {
        current.request(micros(now), WINDOW, CEILING, round)
    }

    fn left(round: &Round) -> usize {
        round.left()
    }

    #[test]
    fn readers_within_a_window_share_a_request_and_later_ones_the_next() {
        let mut current = Current::new(Files::new(), 1, micros(0));
        let rounds: Vec<Arc<Round>> = (0..4).map(|_| Arc::default()).collect();
        assert_eq!(ask(&mut current, 0, &rounds[0]), Outcome::Send(1));
        assert_eq!(ask(&mut current, 90, &rounds[1]), Outcome::Wait(1));
        assert_eq!(ask(&mut current, 500, &rounds[2]), Outcome::Wait(2));
        assert_eq!(ask(&mut current, 900, &rounds[3]), Outcome::Wait(2));
        assert_eq!(current.answer(1, micros(950)), Some(2), "two wait for one more");
        assert_eq!(rounds.iter().map(|round| left(round)).collect::<Vec<_>>(), [0, 0, 1, 1]);
        assert_eq!(current.answer(2, micros(1_000)), None);
        assert_eq!(rounds.iter().map(|round| left(round)).sum::<usize>(), 0);
        assert_eq!(ask(&mut current, 1_040, &rounds[0]), Outcome::Enough, "younger than the window");
        assert!(current.has_answered(2) && !current.has_answered(3));
    }

    #[test]
    fn beyond_its_ceiling_a_node_is_left_alone() {
        let mut current = Current::new(Files::new(), 1, micros(0));
        let round = Arc::default();
        let mut sent = 0;
        for tick in 0..5_000 {
            if let Outcome::Send(number) = ask(&mut current, tick * 200, &round) {
                sent += 1;
                assert_eq!(current.answer(number, micros(tick * 200 + 1)), None);
            }
        }
        assert!((1_000..=1_101).contains(&sent), "{sent} requests in a second");
    }

    #[test]
    fn a_reader_that_comes_at_regular_times_finds_the_node_ready_from_the_third_time_on() {
        for seconds in [2, 15, 60] {
            let (mut readiness, mut ready) = (Readiness::default(), None::<Current>);
            let mut found = Vec::new();
            for turn in 1..=5 {
                let now = Nanos::from_secs(1_000 + turn * seconds);
                ready.take_if(|current| current.is_unused(now, readiness));
                found.push(ready.is_some());
                readiness.note(now);
                ready.get_or_insert_with(|| Current::new(Files::new(), 1, now)).requested_at = now;
            }
            assert_eq!(found, [false, seconds < 5, true, true, true], "every {seconds} s");
            let long_after = Nanos::from_secs(1_000 + 5 * seconds + 151);
            assert!(
                ready.is_some_and(|current| current.is_unused(long_after, readiness)),
                "every {seconds} s"
            );
        }
    }

    #[test]
    fn many_readers_that_come_together_do_not_keep_a_node_ready_for_longer() {
        let mut readiness = Readiness::default();
        (0..1_000).for_each(|n| readiness.note(Nanos::from_millis(n * 10)));
        assert_eq!(readiness.kept, READY_MIN);
    }

    #[test]
    fn no_reader_waits_for_a_node_that_refuses_or_goes() {
        let mut current = Current::new(Files::new(), 1, micros(0));
        let round = Arc::default();
        assert_eq!(ask(&mut current, 0, &round), Outcome::Send(1));
        current.give_up();
        assert_eq!(left(&round), 0);
        assert_eq!(current.answer(1, micros(5)), None, "too late");
        assert_eq!(ask(&mut current, 10, &round), Outcome::Send(2));
        current.is_refused = true;
        current.give_up();
        assert_eq!(ask(&mut current, 9_999, &round), Outcome::Enough);
        assert!(
            current.has_answered(2)
                && !current.is_unused(micros(10_000), Readiness::default())
                && current.is_unused(micros(9_000_000), Readiness::default())
        );
    }
}
