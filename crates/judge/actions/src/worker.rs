//! The thread of one action: takes alerts from its queue, one at a time, and writes each step to the log before it is done.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use khz_notify::{ALERT_NAME, Alert, Labels};

use crate::actor::{Booster, now};
use crate::command::{Attempt, Result};
use crate::counts::Counts;
use crate::desk::Desk;
use crate::ledger::Ledger;
use crate::limits::{LABELS_BYTES_MAX, WAITING_MAX};
use crate::log::AuditLog;
use crate::outputs::Outputs;
use crate::record::{About, Event, Line, Outcome};
use crate::said::Said;
use crate::settings::{Action, Kind, Settings};
use crate::slurm::{Asker, reason_of};

/// What the threads share.
pub(crate) struct Shared {
    pub settings: Settings,
    pub lanes: Vec<Lane>,
    pub desk: Mutex<Desk>,
    pub book: Mutex<Book>,
    pub outputs: Outputs,
    pub booster: Option<Arc<dyn Booster>>,
    pub is_over: AtomicBool,
}

/// What was done, in memory and on the disk.
pub(crate) struct Book {
    pub ledger: Ledger,
    pub log: AuditLog,
}

/// What found no room in the log is tried again so much later, as long as its alert fires.
const LOGGED_AGAIN: Duration = Duration::from_secs(5);

/// The queue of one action.
#[derive(Default)]
pub(crate) struct Lane {
    queue: Mutex<VecDeque<Due>>,
    bell: Condvar,
    said: Mutex<Said>,
    pub counts: Counts,
}

/// An alert that waits for an action.
pub(crate) struct Due {
    pub alert: Arc<Alert>,
    /// No action may have the alert, of which only some labels are here.
    unfit: Option<Arc<Unfit>>,
    /// Those that act after this one.
    pub rest: VecDeque<usize>,
    /// A run that is to be tried again, its attempts so far, and when. Without attempts it has not begun: there was no room for it in the
    /// log.
    again: Option<(u64, u32, Instant)>,
}

/// An alert whose labels are too much.
struct Unfit {
    why: String,
    /// The number of all its labels.
    fingerprint: u64,
}

impl Due {
    /// An alert for an action, within the size that alerts may have. Of one whose labels are too much, its name and these labels are left.
    pub fn new<'a>(alert: &Alert, rest: VecDeque<usize>, left: impl Iterator<Item = &'a str>) -> Self {
        let why = match alert.fitted() {
            Ok(fitted) => {
                let alert = Arc::new(fitted.into_owned());
                return Due { alert, unfit: None, rest, again: None };
            }
            Err(why) => format!("the alert is too large: {why}"),
        };
        let unfit = Unfit { why, fingerprint: alert.fingerprint(&Labels::new()) };
        let is_short = |value: &str| value.len() <= LABELS_BYTES_MAX / 4;
        let names = left.chain([ALERT_NAME]);
        let labels = names.filter_map(|name| alert.labels.get_key_value(name));
        let labels = labels.filter(|(_, value)| is_short(value));
        let labels = labels.map(|(name, value)| (name.clone(), value.clone())).collect();
        let alert = Alert { labels, starts_at: alert.starts_at, ends_at: alert.ends_at, ..Alert::default() };
        Due { alert: Arc::new(alert), unfit: Some(Arc::new(unfit)), rest, again: None }
    }

    fn about(&self, action: &Action) -> About {
        let mut about = About::new(action, &self.alert);
        about.fingerprint = self.unfit.as_ref().map_or(about.fingerprint, |unfit| unfit.fingerprint);
        about
    }
}

impl Lane {
    /// Puts an alert into the queue, if there is room.
    pub fn put(&self, due: Due) -> std::result::Result<(), Due> {
        let mut queue = held(&self.queue);
        if queue.len() >= WAITING_MAX {
            return Err(due);
        }
        queue.push_back(due);
        self.counts.waiting.fetch_add(1, Ordering::Relaxed);
        self.bell.notify_one();
        Ok(())
    }

    pub fn ring(&self) {
        let _queue = held(&self.queue);
        self.bell.notify_one();
    }

    /// Waits for the next alert whose time has come; `None`: khz ends.
    fn next(&self, is_over: &AtomicBool) -> Option<Due> {
        let mut queue = held(&self.queue);
        loop {
            if is_over.load(Ordering::Acquire) {
                return None;
            }
            let now = Instant::now();
            let due_at = |due: &Due| due.again.map_or(now, |(.., at)| at);
            if let Some(at) = queue.iter().position(|due| due_at(due) <= now) {
                return queue.remove(at);
            }
            let wait = queue.iter().map(|due| due_at(due).saturating_duration_since(now)).min();
            queue = match wait {
                Some(wait) => {
                    let wait = wait.max(Duration::from_millis(1));
                    self.bell.wait_timeout(queue, wait).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.bell.wait(queue).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}

impl Shared {
    /// The work of the thread of one action.
    pub fn work(&self, at: usize) {
        let lane = &self.lanes[at];
        while let Some(due) = lane.next(&self.is_over) {
            let again = self.step(at, due);
            lane.counts.waiting.fetch_sub(1, Ordering::Relaxed);
            let passed = match again {
                // Without room for another attempt, it stays failed.
                Next::Again(due) => lane.put(due).err(),
                Next::Pass(due) => Some(due),
            };
            if let Some(mut due) = passed
                && let Some(next) = due.rest.pop_front()
            {
                self.pass(next, Due { again: None, ..due });
            }
        }
    }

    /// Hands an alert to its next action.
    pub fn pass(&self, at: usize, due: Due) {
        if let Err(due) = self.lanes[at].put(due) {
            // The next pass of its rule asks for these again.
            let mut desk = held(&self.desk);
            for left in std::iter::once(at).chain(due.rest.iter().copied()) {
                desk.give_back(&due.about(&self.settings.actions[left]).key());
                self.lanes[left].counts.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// One attempt.
    fn step(&self, at: usize, due: Due) -> Next {
        let (action, counts) = (&self.settings.actions[at], &self.lanes[at].counts);
        let about = due.about(action);
        let is_firing = held(&self.desk).is_firing(&about.key());
        let begun = match due.again {
            // What failed stays so: its alert is over.
            Some(_) if !is_firing => return Next::Pass(due),
            Some((run, attempts, _)) if attempts > 0 => {
                self.begin(run, attempts + 1, &about).map(|()| (run, attempts + 1))
            }
            _ => match self.admit(at, &about, is_firing, due.unfit.as_deref()) {
                Ok(run) => Ok((run, 1)),
                Err(Refused::Held) => return Next::Pass(due),
                Err(Refused::Log(error)) => Err(error),
            },
        };
        let (run, number) = match begun {
            Ok(begun) => begun,
            Err(error) => {
                let attempts = due.again.map(|(_, attempts, _)| attempts);
                // Of what is tried again and again for want of room, the log of the hub has one line.
                if attempts != Some(0) {
                    let shown = shown(&about);
                    tracing::warn!(
                        "action {} is not done for {shown}: it cannot be logged: {error}",
                        action.name
                    );
                    counts.ended(Outcome::Failed);
                }
                return match attempts {
                    Some(1..) => Next::Pass(due),
                    _ => Next::Again(Due { again: Some((0, 0, Instant::now() + LOGGED_AGAIN)), ..due }),
                };
            }
        };
        let result = self.act(Attempt { action, alert: &due.alert, run, number });
        counts.ended(result.outcome);
        self.end(action, &about, run, &result);
        match result.outcome == Outcome::Failed && number <= action.retries {
            true => {
                Next::Again(Due { again: Some((run, number, Instant::now() + action.retry_after)), ..due })
            }
            false => Next::Pass(due),
        }
    }

    /// Decides whether an action may begin, and writes that down.
    fn admit(
        &self,
        at: usize,
        about: &About,
        is_firing: bool,
        unfit: Option<&Unfit>,
    ) -> std::result::Result<u64, Refused> {
        let (action, mut book) = (&self.settings.actions[at], held(&self.book));
        let hold = match (is_firing, unfit) {
            (true, None) => book.ledger.hold(action, about, now()),
            (true, Some(unfit)) => Some(unfit.why.clone()),
            (false, _) => Some("the alert was over before its turn".to_owned()),
        };
        let run = book.ledger.number();
        let Some(text) = hold else {
            drop(book);
            return self.begin(run, 1, about).map(|()| run).map_err(Refused::Log);
        };
        let (name, say) = (&action.name, held(&self.lanes[at].said).held(Instant::now()));
        if say.left_out > 0 {
            tracing::warn!("action {name} was held back for {} more alerts (khz actions log)", say.left_out);
        }
        if say.this {
            tracing::warn!("action {name} is held back for {}: {text}", shown(about));
        }
        let event = Event::Held { text, about: about.clone() };
        self.write(&mut book, run, event).map_err(Refused::Log)?;
        // Who sees it in the log finds it counted.
        self.lanes[at].counts.ended(Outcome::Held);
        Err(Refused::Held)
    }

    fn begin(&self, run: u64, attempt: u32, about: &About) -> std::io::Result<()> {
        let event = Event::Begin { attempt, about: about.clone() };
        self.write(&mut held(&self.book), run, event)
    }

    /// Writes what came of an attempt.
    fn end(&self, action: &Action, about: &About, run: u64, result: &Result) {
        let (name, shown) = (&action.name, shown(about));
        let has_output = result.output.as_ref().is_some_and(|output| {
            let kept = self.outputs.keep(run, output);
            kept.inspect_err(|error| tracing::warn!("action {name}: its output is not kept: {error}")).is_ok()
        });
        let text = khz_model::printable::printable(&result.text).into_owned();
        match result.outcome {
            Outcome::Failed => tracing::warn!("action {name} has failed for {shown}: {text} (run {run})"),
            outcome => {
                tracing::info!("action {name} for {shown}: {}: {text} (run {run})", outcome.word());
            }
        }
        let event = Event::End { outcome: result.outcome, text, output: has_output };
        let mut book = held(&self.book);
        if let Err(error) = self.write(&mut book, run, event) {
            tracing::warn!("what came of action {name} cannot be logged: {error}");
        }
    }

    fn write(&self, book: &mut Book, run: u64, event: Event) -> std::io::Result<()> {
        let at = now();
        let line = Line { at, run, event };
        let kept = || {
            let desk = held(&self.desk);
            desk.keys().map(|key| Line { at, run: 0, event: Event::Kept { key: key.clone() } }).collect()
        };
        let written = book.log.append(&line, kept);
        // What was done is known here, also if the disk is full.
        if written.is_ok() || matches!(line.event, Event::End { .. }) {
            book.ledger.take(&line);
        }
        written
    }

    /// Writes lines that are not about a run.
    pub fn keep(&self, lines: &[Line]) -> std::io::Result<()> {
        let mut book = held(&self.book);
        let kept = || {
            let (desk, at) = (held(&self.desk), now());
            desk.keys().map(|key| Line { at, run: 0, event: Event::Kept { key: key.clone() } }).collect()
        };
        book.log.append_all(lines, kept)
    }

    fn act(&self, attempt: Attempt<'_>) -> Result {
        let Attempt { action, alert, .. } = attempt;
        let asker =
            |slurm| Asker { slurm, timeout: action.timeout, dry_run: action.dry_run, is_over: &self.is_over };
        match &action.kind {
            Kind::Exec(words) | Kind::Checkpoint(words) => attempt.program(words, false, &self.is_over),
            Kind::Diagnose(words) => attempt.program(words, true, &self.is_over),
            Kind::Drain(slurm) => asker(slurm).drain(attempt.node(), &reason_of(slurm, alert)),
            Kind::Requeue(slurm) => asker(slurm).requeue(attempt.node()),
            Kind::Boost(boost) => match (&self.booster, attempt.node()) {
                (_, "") => Result::new(Outcome::Failed, "the alert names no node"),
                (None, _) => Result::new(Outcome::Failed, "nothing can be sampled faster here"),
                (Some(_), node) if action.dry_run => {
                    Result::new(Outcome::DryRun, format!("would sample {node} at {}", boost.rate))
                }
                (Some(booster), node) => match booster.boost(node, boost) {
                    Ok(text) => Result::new(Outcome::Done, text),
                    Err(problem) => Result::new(Outcome::Failed, problem),
                },
            },
        }
    }
}

/// What follows an attempt.
enum Next {
    /// The same action, later.
    Again(Due),
    /// The next action of the alert.
    Pass(Due),
}

/// Why an action does not begin.
enum Refused {
    /// It is held back, which is written down.
    Held,
    /// That cannot be written down.
    Log(std::io::Error),
}

fn shown(about: &About) -> String {
    let name = about.alert.get(khz_notify::ALERT_NAME).map_or("", String::as_str);
    let shown = match about.node.is_empty() {
        true => name.to_owned(),
        false => format!("{name} on {}", about.node),
    };
    khz_model::printable::printable(&shown).into_owned()
}

/// A panic of another thread is that thread's matter.
pub(crate) fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
