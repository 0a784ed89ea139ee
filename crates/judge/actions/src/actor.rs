//! The actions, started as the settings say, and one call that takes the alerts of a pass. It never waits for a disk or a program.

use std::collections::{BTreeSet, VecDeque};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};

use khz_notify::Alert;
use khz_state::tend;

use crate::counts::Counts;
use crate::desk::Turn;
use crate::error::ActionError;
use crate::lane::{Due, Lane};
use crate::limits::ACTIONS_MAX;
use crate::log::AuditLog;
use crate::named::{ANNOTATION, names};
use crate::outputs::Outputs;
use crate::past::Past;
use crate::record::{Event, Key, Line, Outcome, Run};
use crate::settings::{Action, Boost, Freeze, Settings};
use crate::worker::{Book, Shared, held};

/// The most alerts that one line of the log names.
const NAMED_MAX: usize = 5;

/// Makes nodes do something: what the actor needs of a hub.
pub trait Nodes: Send + Sync {
    /// Begins to make a node sample faster, and returns a sentence about it. Does not wait for the end.
    ///
    /// # Errors
    /// Returns the reason for a failure, as a sentence.
    fn boost(&self, node: &str, boost: &Boost) -> Result<String, String>;

    /// Makes nodes keep the rows around now, because of `cause`, and returns a sentence about it. Does not wait until the rows are
    /// fetched.
    ///
    /// # Errors
    /// Returns the reason for a failure, as a sentence.
    fn freeze(&self, nodes: &str, freeze: &Freeze, cause: &str) -> Result<String, String>;
}

/// Acts on alerts. Its threads, and the programs that they run, end with it.
pub struct Actor {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    unknown: Arc<AtomicU64>,
}

/// An action as others see it.
#[derive(Clone, Debug)]
pub struct ActionStanding {
    /// What it is.
    pub action: Action,
    /// Its counters since khz began.
    pub counts: Counts,
    /// Its last run.
    pub last: Option<Run>,
}

impl Actor {
    /// Starts the actions. The audit log and the programs' outputs are kept in `state`, a directory.
    ///
    /// # Errors
    /// Returns why nothing can be done, for example that the log cannot be used.
    pub fn new(settings: Settings, state: &Path, nodes: Option<Arc<dyn Nodes>>) -> Result<Self, ActionError> {
        if settings.actions.len() > ACTIONS_MAX {
            return Err(ActionError::TooMany(settings.actions.len()));
        }
        let (mut past, begin) = (Past::default(), now());
        let log = AuditLog::open(state, |line| past.take(&line, begin))?;
        let outputs = Outputs::open(state)?;
        let Past { mut ledger, desk, .. } = past;
        ledger.goes_on_after(outputs.last());
        let mut book = Book { ledger, log };
        for run in book.ledger.unended() {
            let text = "khz ended while it ran, and nobody knows what came of it".to_owned();
            let (outcome, end) = (Outcome::Interrupted, None);
            let event = Event::End { outcome, text, end, output: false, again: None };
            let line = Line { at: begin, run, event };
            let written = book.log.append(&line, || desk.kept(begin));
            written.unwrap_or_else(|error| tracing::warn!("the log of actions cannot be written: {error}"));
            book.ledger.take(&line);
        }
        let lanes = settings.actions.iter().map(|_| Lane::default()).collect();
        let shared = Arc::new(Shared {
            settings,
            lanes,
            desk: Mutex::new(desk),
            book: Mutex::new(book),
            outputs,
            nodes,
            is_over: AtomicBool::new(false),
        });
        tend(&shared);
        let mut actor = Actor { shared, threads: Vec::new(), unknown: Arc::default() };
        for (at, action) in actor.shared.settings.actions.iter().enumerate() {
            let shared = actor.shared.clone();
            let thread = std::thread::Builder::new().name("action".into()).spawn(move || shared.work(at));
            let failed = |source| ActionError::Thread { name: action.name.clone(), source };
            actor.threads.push(thread.map_err(failed)?);
        }
        Ok(actor)
    }

    /// Takes the alerts of an evaluation pass, as [`khz_notify::Notifier::tell`] does: all firing and resolved ones. Each of its
    /// actions gets each firing once, also over restarts. A failed action from before a restart is retried. The longest annotations
    /// of a too large alert are cut. This call never waits.
    pub fn tell(&self, alerts: &[Alert]) {
        let (now, settings) = (now(), &self.shared.settings);
        for alert in alerts {
            let asked = held(&self.shared.desk).take(alert, |name| settings.position(name), now);
            for name in &asked.unknown {
                self.unknown.fetch_add(1, Ordering::Relaxed);
                let (name, known) = (khz_model::printable::printable(name), settings.known());
                tracing::warn!(
                    "alert {} asks for the action '{name}', which the configuration does not define: it has {known}",
                    khz_model::printable::printable(alert.name()),
                );
            }
            for at in asked.dropped {
                self.shared.lanes[at].counts.dropped.fetch_add(1, Ordering::Relaxed);
            }
            for at in asked.over {
                self.shared.lanes[at].is_over(alert);
            }
            let mut rest: VecDeque<Turn> = asked.turns.into();
            if let Some(first) = rest.pop_front() {
                let node_labels = settings.actions.iter().map(|action| &*action.node_label);
                self.shared.pass(first, Due::new(alert, rest, node_labels));
            }
        }
    }

    /// Notes alerts that began to fire at another hub. That hub acts on them, so this hub does not.
    pub fn adopt(&self, alerts: &[Alert]) {
        let (now, settings) = (now(), &self.shared.settings);
        let mut keys = Vec::new();
        for alert in alerts.iter().filter(|alert| alert.is_firing()) {
            let text = alert.annotations.get(ANNOTATION).map_or("", String::as_str);
            let known = names(text).into_iter().filter(|name| settings.position(name).is_some());
            keys.extend(known.map(|name| (Key::new(name, alert), alert.name())));
        }
        let mut desk = held(&self.shared.desk);
        keys.retain(|(key, _)| desk.restore(key.clone(), now));
        drop(desk);
        if keys.is_empty() {
            return;
        }
        let names: BTreeSet<String> =
            keys.iter().map(|(_, name)| khz_model::printable::printable(name).to_string()).collect();
        let named: Vec<&str> = names.iter().take(NAMED_MAX).map(String::as_str).collect();
        let more = if names.len() > NAMED_MAX { ", ..." } else { "" };
        tracing::info!(
            "{} actions are left to another hub, where their alerts began to fire: {}{more}",
            keys.len(),
            named.join(", ")
        );
        let lines = keys.into_iter().map(|(key, _)| Line {
            at: now,
            run: 0,
            event: Event::Kept { key, again: None },
        });
        if let Err(error) = self.shared.keep(&lines.collect::<Vec<_>>()) {
            tracing::warn!("the log of actions cannot be written: {error}");
        }
    }

    /// The actions, in the order of the settings.
    pub fn actions(&self) -> Vec<ActionStanding> {
        let book = held(&self.shared.book);
        let settings = &self.shared.settings.actions;
        let all = settings.iter().zip(&self.shared.lanes).map(|(action, lane)| ActionStanding {
            action: action.clone(),
            counts: lane.counts.clone(),
            last: book.ledger.runs().rev().find(|run| run.action == action.name).cloned(),
        });
        all.collect()
    }

    /// The last runs with higher numbers than this one, in the order of their numbers, at most `most`.
    pub fn runs_after(&self, after: u64, most: usize) -> Vec<Run> {
        let book = held(&self.shared.book);
        let mut runs: Vec<&Run> = book.ledger.runs().filter(|run| run.id > after).collect();
        runs.sort_by_key(|run| run.id);
        runs.into_iter().take(most).cloned().collect()
    }

    /// The last runs that have drained a node and ended after this time (ms since 1970), in the order of their ends.
    pub fn drains_after(&self, ended: i64) -> Vec<Run> {
        let book = held(&self.shared.book);
        let is_drain = |run: &&Run| {
            let is_done = run.outcome == Some(Outcome::Done) && run.kind == "drain";
            is_done && run.ended.is_some_and(|at| at > ended)
        };
        let mut runs: Vec<Run> = book.ledger.runs().filter(is_drain).cloned().collect();
        runs.sort_by_key(|run| run.ended);
        runs
    }

    /// The output of a run, if it was kept.
    pub fn output(&self, run: u64) -> Option<String> {
        self.shared.outputs.read(run)
    }

    /// The counters of each action, by its name.
    pub fn counts(&self) -> Vec<(String, Counts)> {
        let names = self.shared.settings.actions.iter().map(|action| action.name.clone());
        names.zip(self.shared.lanes.iter().map(|lane| lane.counts.clone())).collect()
    }

    /// The number of action names that alerts have asked for, and that do not exist.
    pub fn unknown(&self) -> Arc<AtomicU64> {
        self.unknown.clone()
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Release);
        self.shared.lanes.iter().for_each(Lane::ring);
        // A running program is asked to end, and killed two seconds later.
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Milliseconds since 1970.
pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
