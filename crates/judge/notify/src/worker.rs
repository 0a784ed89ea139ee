//! The thread of a way. It sleeps until a message is due or its bell rings, and then sends. It exists only while there is something
//! to send now or later. A caller that passes an alert takes a lock for a moment, and never waits for a server.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use khz_model::Nanos;
use khz_model::printable::printable;

use crate::alert::{Labels, Told};
use crate::answer::Answer;
use crate::confidential::Confidential;
use crate::core::{Core, Kept, Record};
use crate::counts::Counts;
use crate::desk::{Desk, Turn};
use crate::door::Door;
use crate::lines::Lines;
use crate::now::Now;

/// What is known of a way, for people.
#[derive(Clone, Debug, Default)]
pub struct Standing {
    /// What the other side said last, good or bad.
    pub said: Option<String>,
    /// The problem that lasts; `None`: no problem is known.
    pub problem: Option<String>,
    /// What the last program has printed.
    pub output: Option<String>,
}

/// Stores what people were told. The error says why this failed.
pub(crate) type Keep = Box<dyn Fn(Kept) -> Result<(), String> + Send + Sync>;

/// A way: its state, its thread, and its door.
pub(crate) struct Worker<C: Core, D: Door<C::Job>> {
    name: String,
    desk: Mutex<Desk<C>>,
    bell: Condvar,
    door: Mutex<D>,
    keep: Option<Keep>,
    counts: Counts,
    standing: Mutex<Standing>,
    lines: Mutex<Lines>,
    common: Common,
}

/// Bytes of the labels of an alert in a line of the log.
const LABELS_SHOWN_MAX: usize = 512;

/// What all ways share.
#[derive(Clone, Default)]
pub(crate) struct Common {
    /// The notifier ends: nothing more is sent.
    pub is_over: Arc<AtomicBool>,
    /// What nobody is shown.
    pub confidential: Arc<Confidential>,
    /// This number changes when people were told something.
    pub revision: Arc<AtomicU64>,
}

/// A way, of whatever kind.
pub(crate) trait Way: Send + Sync {
    fn name(&self) -> &str;
    fn tell(self: Arc<Self>, alerts: &mut [Told<'_>], dropped: u64);
    fn counts(&self) -> Counts;
    fn standing(&self) -> Standing;
    fn ring(&self);
    fn records(&self) -> Vec<Record>;
    fn adopt(self: Arc<Self>, records: Vec<Record>);
    fn release(&self, is_meant: &dyn Fn(&Labels) -> bool);
}

impl<C: Core, D: Door<C::Job>> Worker<C, D> {
    pub fn new(name: &str, core: C, door: D, keep: Option<Keep>, common: &Common) -> Arc<Self> {
        let worker = Arc::new(Worker {
            name: name.to_owned(),
            desk: Mutex::new(Desk::new(core)),
            bell: Condvar::new(),
            door: Mutex::new(door),
            keep,
            counts: Counts::default(),
            standing: Mutex::default(),
            lines: Mutex::default(),
            common: common.clone(),
        });
        // Reminders of alerts from before a restart are sent even if no new alert comes.
        let mut desk = held(&worker.desk);
        worker.attend(&mut desk, None);
        drop(desk);
        worker
    }

    /// Wakes the thread if something is due earlier than `before`; starts it if there is none.
    fn attend(self: &Arc<Self>, desk: &mut Desk<C>, before: Option<u64>) {
        let Some(due) = desk.due() else { return };
        if desk.is_attended {
            if before.is_none_or(|before| due < before) {
                self.bell.notify_one();
            }
            return;
        }
        let worker = self.clone();
        let started = std::thread::Builder::new().name("notify".into()).spawn(move || worker.run());
        match started {
            Ok(_) => desk.is_attended = true,
            // The next pass tries again.
            Err(error) => self.warn("thread", &format!("cannot start a thread: {error}")),
        }
    }

    fn run(&self) {
        let mut door = held(&self.door);
        while let Some((job, kept)) = self.wait() {
            // Write the record before sending. If this process is killed now, the next one knows who may have got the message.
            self.keep(kept);
            let began = Instant::now();
            let (answer, output) = discreet(&self.common.confidential, &mut *door, &job);
            let (alerts, is_parted) = (C::alerts(&job), C::is_parted(&job, &answer));
            let only = C::only_alert(&job).map(shown);
            let mut desk = held(&self.desk);
            let now = Now::read();
            desk.core.done(job, &answer, now);
            self.count(&mut desk.core);
            let kept = desk.core.record(now);
            let has_refused = desk.core.has_refused();
            drop(desk);
            self.note_time(began.elapsed(), output);
            if !is_parted {
                self.note(&answer, (alerts, only), has_refused);
            }
            self.keep(kept);
        }
    }

    fn keep(&self, kept: Option<Kept>) {
        let Some(kept) = kept else { return };
        self.common.revision.fetch_add(1, Ordering::Relaxed);
        if let Some(Err(problem)) = self.keep.as_ref().map(|keep| keep(kept)) {
            // The record is written twice for each message. A full disk causes one log line a minute.
            self.warn(&problem, &format!("what people were told is not kept: {problem}"));
        }
    }

    /// The next job, with the record to write before it is sent. `None`: there is no job now or later, and the thread ends.
    fn wait(&self) -> Option<(C::Job, Option<Kept>)> {
        let mut desk = held(&self.desk);
        loop {
            let turn = desk.turn(Now::read(), self.common.is_over.load(Ordering::Acquire));
            if let Some(late) = desk.standstill.take_noticed() {
                let seconds = late / 1_000;
                self.warn(
                    "halt",
                    &format!("khz stood still for {seconds} s, or its clock was set: alerts are evaluated again first"),
                );
            }
            match turn {
                Turn::Send(job, kept) => return Some((job, kept)),
                Turn::Sleep(sleep) => {
                    let woken = self.bell.wait_timeout(desk, Duration::from_millis(sleep));
                    desk = woken.unwrap_or_else(PoisonError::into_inner).0;
                }
                Turn::End => return None,
            }
        }
    }

    fn note_time(&self, took: Duration, output: Option<String>) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        Counts::set(&self.counts.latency, nanos);
        Counts::add(&self.counts.busy, nanos);
        let mut standing = held(&self.standing);
        standing.output = output.or(standing.output.take());
    }

    /// Notes the result of a job: the number of its alerts, and the text if it has only one. `has_refused`: the other side refuses
    /// other alerts too, so the problem lasts.
    fn note(&self, answer: &Answer, (alerts, only): (u64, Option<String>), has_refused: bool) {
        let mut standing = held(&self.standing);
        standing.said = Some(answer.text().to_owned());
        match answer {
            Answer::Taken(_) => {
                Counts::add(&self.counts.sent, alerts);
                Counts::add(&self.counts.requests, 1);
                if !has_refused && standing.problem.take().is_some() {
                    tracing::info!("notify '{}': it takes alerts again", self.name);
                }
            }
            Answer::Partly { refused, problem, .. } => {
                Counts::add(&self.counts.sent, alerts);
                Counts::add(&self.counts.requests, 1);
                Counts::add(&self.counts.refused, *refused);
                if standing.problem.as_ref() != Some(problem) {
                    self.warn(problem, &format!("{alerts} alerts do not reach all: {problem}"));
                }
                standing.problem = Some(problem.clone());
            }
            Answer::Refused(problem) | Answer::Unfit(problem) => {
                Counts::add(&self.counts.refused, 1);
                if standing.problem.as_ref() != Some(problem) {
                    let some = match only {
                        Some(labels) => format!("the alert {labels}"),
                        None if alerts == 1 => "an alert".to_owned(),
                        None => format!("{alerts} alerts"),
                    };
                    self.warn(problem, &format!("it refuses {some}: {problem}"));
                }
                standing.problem = Some(problem.clone());
            }
            Answer::Later(problem, _) => {
                Counts::add(&self.counts.failed, 1);
                if standing.problem.as_ref() != Some(problem) {
                    self.warn(problem, &format!("{alerts} alerts wait: {problem}"));
                }
                standing.problem = Some(problem.clone());
            }
            Answer::Unknown(problem, _) => {
                Counts::add(&self.counts.failed, 1);
                if standing.problem.as_ref() != Some(problem) {
                    self.warn(
                        problem,
                        &format!("{alerts} alerts were perhaps taken, and are sent again: {problem}"),
                    );
                }
                standing.problem = Some(problem.clone());
            }
        }
    }

    /// Logs a line: at once for a new problem, at most once a minute for the same one.
    fn warn(&self, problem: &str, line: &str) {
        let now = Nanos(Now::read().steady.saturating_mul(1_000_000));
        if let Some(times) = held(&self.lines).happened(problem, now) {
            tracing::warn!("notify '{}': {line}{times}", self.name);
        }
    }

    fn count(&self, core: &mut C) {
        let (waiting, dropped) = core.numbers();
        Counts::set(&self.counts.waiting, waiting);
        if dropped > 0 {
            Counts::add(&self.counts.dropped, dropped);
            self.warn("full", &format!("{dropped} alerts were dropped: there are too many"));
        }
    }
}

/// Sends a job. Returns the answer and the program's output, with all secrets removed.
pub(crate) fn discreet<J>(
    confidential: &Confidential,
    door: &mut impl Door<J>,
    job: &J,
) -> (Answer, Option<String>) {
    let mut secrets = confidential.read();
    let answer = door.send(job);
    // A secret may have changed meanwhile.
    secrets.add_all(&confidential.read());
    (answer.map(|text| secrets.hide(text)), door.output().map(|text| secrets.hide(&text)))
}

impl<C: Core, D: Door<C::Job>> Way for Worker<C, D> {
    fn name(&self) -> &str {
        &self.name
    }

    fn tell(self: Arc<Self>, alerts: &mut [Told<'_>], dropped: u64) {
        let now = Now::read();
        let mut desk = held(&self.desk);
        let before = desk.due();
        desk.tell(alerts, now);
        self.count(&mut desk.core);
        self.attend(&mut desk, before);
        drop(desk);
        Counts::add(&self.counts.dropped, dropped);
    }

    fn counts(&self) -> Counts {
        self.counts.clone()
    }

    fn standing(&self) -> Standing {
        held(&self.standing).clone()
    }

    fn ring(&self) {
        // Hold the lock, so that a thread that is about to sleep hears the bell.
        let _desk = held(&self.desk);
        self.bell.notify_one();
    }

    fn records(&self) -> Vec<Record> {
        held(&self.desk).core.records()
    }

    fn adopt(self: Arc<Self>, records: Vec<Record>) {
        let now = Now::read();
        let mut desk = held(&self.desk);
        let before = desk.due();
        records.into_iter().for_each(|record| desk.core.adopt(record, now));
        self.count(&mut desk.core);
        let kept = desk.core.record(now);
        self.attend(&mut desk, before);
        drop(desk);
        self.keep(kept);
    }

    fn release(&self, is_meant: &dyn Fn(&Labels) -> bool) {
        let mut desk = held(&self.desk);
        desk.core.release(is_meant);
        self.count(&mut desk.core);
        let kept = desk.core.record(Now::read());
        drop(desk);
        self.keep(kept);
    }
}

/// Takes a lock. The data is consistent even after a panic: each change is small.
fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Labels for the log, as long as a line may be.
fn shown(labels: &Labels) -> String {
    let each: Vec<String> =
        labels.iter().map(|(name, value)| format!("{name}={:?}", printable(value))).collect();
    let all = each.join(", ");
    let end = all.floor_char_boundary(LABELS_SHOWN_MAX);
    format!("{{{}{}}}", &all[..end], if end < all.len() { "..." } else { "" })
}
