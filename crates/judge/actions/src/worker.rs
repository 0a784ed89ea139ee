//! The thread of one action: takes alerts from its queue, one at a time, and writes each step to the log before it is done.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use khz_state::Tended;

use crate::actor::{Nodes, now};
use crate::command::{Attempt, Result};
use crate::desk::{Desk, Turn};
use crate::host::is_host_name;
use crate::lane::{Due, Lane, Unfit};
use crate::ledger::Ledger;
use crate::log::AuditLog;
use crate::outputs::Outputs;
use crate::record::{About, Again, Event, Line, Outcome};
use crate::settings::{Action, Kind, Settings};
use crate::slurm::{Asker, reason_of};

/// What the threads share.
pub(crate) struct Shared {
    pub settings: Settings,
    pub lanes: Vec<Lane>,
    pub desk: Mutex<Desk>,
    pub book: Mutex<Book>,
    pub outputs: Outputs,
    pub nodes: Option<Arc<dyn Nodes>>,
    pub is_over: AtomicBool,
}

/// The past runs, in memory and on the disk.
pub(crate) struct Book {
    pub ledger: Ledger,
    pub log: AuditLog,
}

/// How long a step that the log could not take waits for a retry, as long as its alert fires.
const LOGGED_AGAIN: Duration = Duration::from_secs(5);

impl Shared {
    /// The work of the thread of one action.
    pub fn work(&self, at: usize) {
        let lane = &self.lanes[at];
        while let Some(due) = lane.next(&self.is_over) {
            let again = self.step(at, due);
            lane.counts.waiting.fetch_sub(1, Ordering::Relaxed);
            match again {
                Next::Again(due) => lane.put_back(due),
                Next::Pass(mut due) => {
                    if let Some(next) = due.rest.pop_front() {
                        self.pass(next, due);
                    }
                }
            }
        }
    }

    /// Hands an alert to its next action.
    pub fn pass(&self, turn: Turn, due: Due) {
        let retry_after = self.settings.actions[turn.action].retry_after;
        // If the alert is over, the action only learns of that.
        let waits = turn.again.filter(|_| due.alert.is_firing());
        let not_before = waits.map(|again| Instant::now() + until(again.at, retry_after));
        let due = Due { again: turn.again, not_before, is_unlogged: false, ..due };
        if let Err(due) = self.lanes[turn.action].put(due) {
            // The next pass of the rule asks for these actions again.
            let mut desk = held(&self.desk);
            for left in std::iter::once(turn.action).chain(due.rest.iter().map(|turn| turn.action)) {
                desk.give_back(&due.about(&self.settings.actions[left]).key());
                self.lanes[left].counts.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// One attempt.
    fn step(&self, at: usize, mut due: Due) -> Next {
        let (action, counts) = (&self.settings.actions[at], &self.lanes[at].counts);
        let about = due.about(action);
        let is_firing = held(&self.desk).is_firing(&about.key());
        let begun = match due.again {
            Some(again) if !is_firing => {
                self.give_up(action, again.run, "the alert is over");
                return Next::Pass(due);
            }
            // The configuration was changed since the last attempt.
            Some(again) if again.attempts > action.retries => {
                self.give_up(action, again.run, &format!("retries is {} now", action.retries));
                held(&self.desk).note(&about.key(), None);
                return Next::Pass(due);
            }
            Some(Again { run, attempts, .. }) => {
                self.begin(run, attempts + 1, &about).map(|()| (run, attempts + 1))
            }
            None => match self.admit(at, &about, is_firing, due.unfit.as_deref()) {
                Ok(run) => Ok((run, 1)),
                Err(Refused::Held) => return Next::Pass(due),
                Err(Refused::Log(error)) => Err(error),
            },
        };
        let (run, number) = match begun {
            Ok(begun) => begun,
            Err(error) => {
                // If a full log causes many retries, the hub's log has one line about it.
                if !std::mem::replace(&mut due.is_unlogged, true) {
                    let shown = shown(&about);
                    tracing::warn!(
                        "action {} is not done for {shown}: it cannot be logged: {error}",
                        action.name
                    );
                    counts.ended(Outcome::Failed);
                }
                return Next::Again(Due { not_before: Some(Instant::now() + LOGGED_AGAIN), ..due });
            }
        };
        let result = self.act(Attempt { action, alert: &due.alert, run, number });
        counts.ended(result.outcome);
        let is_due_again = result.outcome == Outcome::Failed && number <= action.retries;
        let again = is_due_again.then(|| Again { run, attempts: number, at: after(action.retry_after) });
        self.end(action, &about, run, &result, again);
        match again {
            Some(_) => {
                let not_before = Some(Instant::now() + action.retry_after);
                Next::Again(Due { again, not_before, is_unlogged: false, ..due })
            }
            None => Next::Pass(due),
        }
    }

    /// Decides whether an action may begin, and logs the decision.
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
        // The lock is held, so a reader of the log finds it counted.
        self.lanes[at].counts.ended(Outcome::Held);
        Err(Refused::Held)
    }

    fn begin(&self, run: u64, attempt: u32, about: &About) -> std::io::Result<()> {
        let event = Event::Begin { attempt, about: about.clone() };
        self.write(&mut held(&self.book), run, event)?;
        held(&self.desk).note(&about.key(), None);
        Ok(())
    }

    /// Logs that a failed run is not retried.
    fn give_up(&self, action: &Action, run: u64, why: &str) {
        let mut book = held(&self.book);
        let (text, end) = book.ledger.texts(run);
        let with_why = |text: &str| format!("{text}; not tried again: {why}");
        let (text, end) = (with_why(text), end.map(with_why));
        tracing::info!("action {} (run {run}) is not tried again: {why}", action.name);
        let event = Event::End { outcome: Outcome::Failed, text, end, output: false, again: None };
        if let Err(error) = self.write(&mut book, run, event) {
            tracing::warn!("that action {} is not tried again cannot be logged: {error}", action.name);
        }
    }

    /// Logs the result of an attempt.
    fn end(&self, action: &Action, about: &About, run: u64, result: &Result, again: Option<Again>) {
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
        let (outcome, at) = (result.outcome, again.map(|again| again.at));
        let end = result.end.clone();
        let event = Event::End { outcome, text, end, output: has_output, again: at };
        let mut book = held(&self.book);
        held(&self.desk).note(&about.key(), again);
        if let Err(error) = self.write(&mut book, run, event) {
            tracing::warn!("what came of action {name} cannot be logged: {error}");
        }
    }

    fn write(&self, book: &mut Book, run: u64, event: Event) -> std::io::Result<()> {
        let at = now();
        let line = Line { at, run, event };
        let kept = || held(&self.desk).kept(at);
        let written = book.log.append(&line, kept);
        // The result is kept in memory even if the disk is full.
        if written.is_ok() || matches!(line.event, Event::End { .. }) {
            book.ledger.take(&line);
        }
        written
    }

    /// Writes lines that are not about a run.
    pub fn keep(&self, lines: &[Line]) -> std::io::Result<()> {
        let mut book = held(&self.book);
        let kept = || held(&self.desk).kept(now());
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
            Kind::Boost(boost) => match (&self.nodes, attempt.node()) {
                (_, "") => Result::new(Outcome::Failed, "the alert names no node"),
                (None, _) => Result::new(Outcome::Failed, "nothing can be sampled faster here"),
                (Some(_), node) if action.dry_run => {
                    Result::new(Outcome::DryRun, format!("would sample {node} at {}", boost.rate))
                }
                (Some(nodes), node) => told(nodes.boost(node, boost)),
            },
            Kind::Freeze(freeze) => {
                let meant = freeze.nodes.as_deref().unwrap_or_else(|| attempt.node());
                match (&self.nodes, meant) {
                    (_, "") => {
                        Result::new(Outcome::Failed, "the alert names no node, and the action neither")
                    }
                    // A label's publisher must not select more than one node.
                    (_, node) if freeze.nodes.is_none() && !is_host_name(node) => {
                        Result::new(Outcome::Failed, format!("{node:?} is not the plain name of a host"))
                    }
                    (None, _) => Result::new(Outcome::Failed, "nothing can be frozen here"),
                    (Some(_), meant) if action.dry_run => {
                        Result::new(Outcome::DryRun, format!("would freeze {meant}"))
                    }
                    (Some(nodes), meant) => {
                        let cause = format!("alert {}", shown(&About::new(action, alert)));
                        told(nodes.freeze(meant, freeze, &cause))
                    }
                }
            }
        }
    }
}

/// The result of something that a hub has done.
fn told(done: std::result::Result<String, String>) -> Result {
    match done {
        Ok(text) => Result::new(Outcome::Done, text),
        Err(problem) => Result::new(Outcome::Failed, problem),
    }
}

impl Tended for Shared {
    fn tend(&self) {
        if !self.is_over.load(Ordering::Acquire) {
            held(&self.book).log.tend();
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
    /// The action is held back, and this was logged.
    Held,
    /// This could not be logged.
    Log(std::io::Error),
}

/// The time until this moment (ms since 1970). Somebody may have set the clock back.
fn until(at: i64, most: Duration) -> Duration {
    Duration::from_millis(u64::try_from(at.saturating_sub(now())).unwrap_or(0)).min(most)
}

/// The moment at which this span will have passed (ms since 1970).
fn after(span: Duration) -> i64 {
    now().saturating_add(i64::try_from(span.as_millis()).unwrap_or(i64::MAX))
}

fn shown(about: &About) -> String {
    let name = about.alert.get(khz_notify::ALERT_NAME).map_or("", String::as_str);
    let shown = match about.node.is_empty() {
        true => name.to_owned(),
        false => format!("{name} on {}", about.node),
    };
    khz_model::printable::printable(&shown).into_owned()
}

/// Ignores a panic of another thread.
pub(crate) fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
