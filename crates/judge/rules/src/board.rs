//! The last results of rules, for readers. The evaluating thread publishes whole states. Readers take them, and wait for nobody.
//! The board also passes requests to reload the files to that thread. It evaluates nothing and reads no files.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant, SystemTime};

use crate::alert::{Alert, AlertState};
use crate::group::{Evaluator, Pass, RuleReport, Share};
use crate::limits::{RELOAD_MAX, RELOADS_WAITING_MAX};
use crate::rule::{Group, RuleSet};
use crate::scores::ScoreSheet;

/// How long a hub's word counts after its judge has confirmed it. The judge confirms it once a second.
const WORD_STANDS: Duration = Duration::from_secs(8);

/// What rules said last.
#[derive(Debug, Default)]
pub struct Board {
    standing: Mutex<Arc<Standing>>,
    scores: Mutex<Arc<ScoreSheet>>,
    waiting: Mutex<Waiting>,
    interrupted: Arc<AtomicBool>,
    /// The group that is evaluated now, and since when.
    busy: Mutex<Option<(Arc<str>, Instant)>>,
    /// The word for other hubs.
    word: Mutex<Standpoint>,
}

/// A word, and when it was last confirmed, by two clocks: one of them may stand still with the machine.
#[derive(Debug, Default)]
struct Standpoint {
    word: Arc<Word>,
    confirmed: Option<(Instant, SystemTime)>,
}

impl Standpoint {
    /// Whether the word was confirmed lately.
    fn stands(&self) -> bool {
        self.confirmed.is_some_and(|(at, wall)| {
            at.elapsed() < WORD_STANDS && wall.elapsed().is_ok_and(|age| age < WORD_STANDS)
        })
    }
}

/// What a hub tells another one, so that its alerts can go on there when it is gone.
#[derive(Clone, Debug, Default)]
pub struct Word {
    /// The name of the hub; empty: it judges no rules for others.
    pub hub: String,
    /// The tag changes with each new word; empty: the hub has only begun.
    pub tag: String,
    /// The tags of the words that the hub has heard from others.
    pub heard: Vec<String>,
    /// The state of all alerts, as JSON ([`crate::Saved`]); empty: there is none.
    pub state: Arc<str>,
    /// The messages that people got, as a JSON list.
    pub told: Arc<str>,
    /// The labels of the alerts of no node that the hub owns (it sends messages and acts), as a JSON list.
    pub own: Arc<str>,
    /// The time of its clock at a moment (ms since 1970). All its times use this clock, which may differ from the reader's.
    pub clock: Option<(Instant, i64)>,
}

impl Word {
    /// The current time of its clock (ms since 1970).
    pub fn now(&self) -> Option<i64> {
        let (at, said) = self.clock?;
        Some(said.saturating_add(i64::try_from(at.elapsed().as_millis()).unwrap_or(i64::MAX)))
    }
}

/// All groups.
#[derive(Clone, Debug, Default)]
pub struct Standing {
    /// In the order of their files.
    pub groups: Vec<Arc<GroupStanding>>,
    /// Why the newest files are not in use, one line for each error. The previous ones stay in use. Empty: the newest files are in
    /// use.
    pub refused: String,
}

impl Standing {
    /// Roughly how many bytes the standing takes. The rules themselves, which change only with their files, do not count.
    pub fn bytes(&self) -> u64 {
        let rules = self.groups.iter().flat_map(|group| &group.rules);
        let of_rules: usize = rules.map(RuleStanding::bytes).sum();
        let groups = self.groups.capacity() * size_of::<Arc<GroupStanding>>()
            + self.groups.len() * size_of::<GroupStanding>();
        (of_rules + groups + self.refused.capacity()) as u64
    }
}

/// A group after its last evaluation.
#[derive(Clone, Debug)]
pub struct GroupStanding {
    /// The group.
    pub group: Arc<Group>,
    /// How often it is evaluated (ms).
    pub interval: i64,
    /// When it was evaluated last (ms since 1970).
    pub last: Option<i64>,
    /// The same time on the steady clock.
    pub at: Option<Instant>,
    /// How long that took.
    pub duration: Duration,
    /// Its rules, in their order.
    pub rules: Vec<RuleStanding>,
}

/// A rule after its last evaluation.
#[derive(Clone, Debug, Default)]
pub struct RuleStanding {
    /// How it went; `None`: it was never evaluated.
    pub report: Option<RuleReport>,
    /// Its active alerts.
    pub alerts: Vec<Arc<Alert>>,
    /// Which nodes judge it by themselves, and which ones the hub judges; `None`: the hub judges it for all.
    pub share: Option<Arc<Share>>,
}

impl GroupStanding {
    /// The group as it is now. `pass` is its last evaluation, if there was one. `share`: what nodes judge of each rule.
    pub fn of(
        evaluator: &Evaluator,
        pass: Option<&Pass>,
        share: &dyn Fn(usize) -> Option<Arc<Share>>,
    ) -> Self {
        let group = evaluator.group().clone();
        let is_active = |alert: &&Arc<Alert>| alert.state != AlertState::Inactive;
        let rules = (0..group.rules.len()).map(|rule| RuleStanding {
            report: pass.and_then(|pass| pass.rules.get(rule).cloned()),
            alerts: evaluator.alerts(rule).filter(is_active).cloned().collect(),
            share: share(rule),
        });
        let (interval, last) = (evaluator.interval(), evaluator.last());
        let duration = pass.into_iter().flat_map(|pass| &pass.rules).map(|report| report.duration).sum();
        GroupStanding {
            interval,
            last,
            at: last.map(|_| Instant::now()),
            duration,
            rules: rules.collect(),
            group,
        }
    }

    /// The same with the current alerts, between two evaluations.
    #[must_use]
    pub fn renewed(&self, evaluator: &Evaluator) -> Self {
        let mut renewed = self.clone();
        let is_active = |alert: &&Arc<Alert>| alert.state != AlertState::Inactive;
        for (number, rule) in renewed.rules.iter_mut().enumerate() {
            rule.alerts = evaluator.alerts(number).filter(is_active).cloned().collect();
        }
        renewed
    }
}

impl RuleStanding {
    fn bytes(&self) -> usize {
        let alerts = self.alerts.iter().map(|alert| size_of::<Arc<Alert>>() + alert.bytes());
        let error = self.report.as_ref().and_then(|report| report.error.as_ref());
        size_of::<RuleStanding>() + alerts.sum::<usize>() + error.map_or(0, String::len)
    }

    /// The state of the rule: that of its most active alert.
    pub fn state(&self) -> AlertState {
        self.alerts.iter().map(|alert| alert.state).max().unwrap_or(AlertState::Inactive)
    }
}

/// The result of a reload: the numbers of groups and rules in use, or why the new files are not in use.
pub type Reloaded = Result<(usize, usize), String>;

#[derive(Debug, Default)]
struct Waiting {
    /// The thread that evaluates; `None`: no thread does.
    thread: Option<Thread>,
    senders: Vec<SyncSender<Reloaded>>,
    is_over: bool,
}

impl Board {
    /// What there is now.
    pub fn standing(&self) -> Arc<Standing> {
        locked(&self.standing).clone()
    }

    /// Publishes a new standing.
    pub fn put(&self, standing: Standing) {
        *locked(&self.standing) = Arc::new(standing);
    }

    /// Publishes the standing of one group, by its number.
    pub fn put_group(&self, number: usize, group: Arc<GroupStanding>) {
        if let Some(known) = Arc::make_mut(&mut locked(&self.standing)).groups.get_mut(number) {
            *known = group;
        }
    }

    /// The scores of the rules.
    pub fn scores(&self) -> Arc<ScoreSheet> {
        locked(&self.scores).clone()
    }

    /// Publishes the scores.
    pub fn put_scores(&self, scores: ScoreSheet) {
        *locked(&self.scores) = Arc::new(scores);
    }

    /// The word for another hub. If the word was not confirmed for some seconds, the hub stood still and does not know the state of
    /// its alerts. Others then see it as a hub that has only begun.
    pub fn word(&self) -> Arc<Word> {
        let said = locked(&self.word);
        match said.stands() {
            true => said.word.clone(),
            false => Arc::new(Word { hub: said.word.hub.clone(), ..Word::default() }),
        }
    }

    /// The last word for other hubs, whether it still counts or not.
    pub fn last_word(&self) -> Arc<Word> {
        locked(&self.word).word.clone()
    }

    /// Sets the word for other hubs. It counts as long as it is confirmed.
    pub fn say(&self, word: Word) {
        *locked(&self.word) = Standpoint { word: Arc::new(word), confirmed: Some(confirmed_now()) };
    }

    /// What was said stands.
    pub fn confirm(&self) {
        locked(&self.word).confirmed = Some(confirmed_now());
    }

    /// True while the running evaluation must stop, since somebody waits for the thread.
    pub fn interrupted(&self) -> Arc<AtomicBool> {
        self.interrupted.clone()
    }

    /// Sets the thread that evaluates. Requests wake it.
    pub fn evaluated_by(&self, thread: Thread) {
        locked(&self.waiting).thread = Some(thread);
    }

    /// The evaluating thread has ended: requests fail.
    pub fn ended(&self) {
        *locked(&self.waiting) = Waiting::default();
    }

    /// Asks for a reload of the files, and waits for the result.
    ///
    /// # Errors
    ///
    /// Returns why the new files are not in use. The previous ones stay in use.
    pub fn reload(&self) -> Reloaded {
        let (sender, answer) = sync_channel(1);
        {
            let mut waiting = locked(&self.waiting);
            let Some(thread) = waiting.thread.clone() else {
                return Err(String::from("this khz has no rules: start its hub with --rules DIR"));
            };
            if waiting.senders.len() >= RELOADS_WAITING_MAX {
                return Err(format!("{RELOADS_WAITING_MAX} requests to load the rules wait already"));
            }
            waiting.senders.push(sender);
            self.interrupted.store(true, Ordering::Relaxed);
            thread.unpark();
        }
        match answer.recv_timeout(RELOAD_MAX) {
            Ok(told) => told,
            Err(RecvTimeoutError::Disconnected) => Err(String::from("the hub ends")),
            Err(RecvTimeoutError::Timeout) => {
                let busy = locked(&self.busy).clone();
                let of = |(group, since): (Arc<str>, Instant)| {
                    format!(" (group {group} since {} s)", since.elapsed().as_secs())
                };
                let of = busy.map(of).unwrap_or_default();
                Err(format!(
                    "rules are being evaluated{of}: the files are loaded as soon as the query that runs ends; the hub's \
                     log says what came of it"
                ))
            }
        }
    }

    /// True if somebody has asked for a reload.
    pub fn is_asked_to_reload(&self) -> bool {
        !locked(&self.waiting).senders.is_empty()
    }

    /// Tells the result to everybody who has asked until now.
    pub fn reloaded(&self, told: &Reloaded) {
        let mut waiting = locked(&self.waiting);
        for sender in waiting.senders.drain(..) {
            // Who asked may be gone.
            let _ = sender.try_send(told.clone());
        }
        self.interrupted.store(waiting.is_over, Ordering::Relaxed);
    }

    /// Ends the evaluating thread, without waiting for the running evaluation.
    pub fn end(&self) {
        let mut waiting = locked(&self.waiting);
        waiting.is_over = true;
        self.interrupted.store(true, Ordering::Relaxed);
        waiting.thread.iter().for_each(Thread::unpark);
    }

    /// Sets the group that is evaluated now; `None`: no group is.
    pub fn evaluates(&self, group: Option<Arc<str>>) {
        *locked(&self.busy) = group.map(|group| (group, Instant::now()));
    }
}

fn confirmed_now() -> (Instant, SystemTime) {
    (Instant::now(), SystemTime::now())
}

/// How many groups and rules there are.
pub fn counted(set: &RuleSet) -> (usize, usize) {
    (set.groups().count(), set.groups().map(|group| group.rules.len()).sum())
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_nobody_confirms_does_not_count() {
        let board = Board::default();
        board.say(Word { hub: "h".into(), tag: "t-1".into(), ..Word::default() });
        assert_eq!(&*board.word().tag, "t-1");
        let long_ago = Duration::from_secs(9);
        let (at, wall) = confirmed_now();
        for confirmed in [(at - long_ago, wall), (at, wall - long_ago), (at, wall + long_ago)] {
            locked(&board.word).confirmed = Some(confirmed);
            assert_eq!((&*board.word().hub, &*board.word().tag), ("h", ""), "{confirmed:?}");
        }
        board.confirm();
        assert_eq!(&*board.word().tag, "t-1");
    }

    #[test]
    fn a_request_to_load_is_answered_by_the_thread_that_evaluates_or_fails() {
        let board = Arc::new(Board::default());
        assert!(board.reload().unwrap_err().contains("--rules DIR"));
        let (ready, begun) = sync_channel(1);
        let worker = std::thread::spawn({
            let board = board.clone();
            move || {
                board.evaluated_by(std::thread::current());
                ready.send(()).unwrap();
                while !board.is_asked_to_reload() {
                    std::thread::park();
                }
                board.reloaded(&Ok((2, 5)));
                board.ended();
            }
        });
        begun.recv().unwrap();
        assert_eq!(board.reload(), Ok((2, 5)));
        worker.join().unwrap();
        assert!(board.reload().is_err(), "nobody evaluates any more");
    }
}
