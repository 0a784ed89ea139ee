//! Surveys: sources that are not one kernel file but several files or system calls, of which some may block: file systems
//! whose server is gone, interfaces whose driver hangs. One thread makes a text of each, when the gather thread asks for
//! it; the gather thread takes the finished texts. It never waits: where the thread is stuck, another one takes its
//! place and leaves this step out. What a text says is not decided here.

mod controllers;
mod course;
mod file_systems;
mod folder;
mod interfaces;
mod processors;
mod time_service;
mod worker;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use khz_model::{Metric, Nanos, Unit};
use khz_parse::entry::{counter, gauge};
use khz_parse::{Entry, KernelFile, Pieces, Subject};
use rustix::io::Errno;

use crate::own::Tally;
use course::{Abandoned, Course};
pub use file_systems::MOUNTS_MAX;
pub use interfaces::INTERFACES_MAX;

/// A step of a survey that takes longer than this is given up: node_exporter waits as long for a file system.
pub const SURVEY_STUCK_AFTER: Nanos = Nanos::from_secs(5);

/// At most this many threads are stuck at a time. Each holds a stack, and a file server that is gone may hold many file
/// systems; with this many, nothing is surveyed until one of them comes back.
pub const SURVEYS_STUCK_MAX: usize = 4;

/// No subject is surveyed more often, whatever rate its source has.
pub const SURVEY_PERIOD_MIN: Nanos = Nanos::SECOND;

/// A start waits for the first texts, so that the first row has them, but not for longer than this.
const FIRST_WAIT: Duration = Duration::from_millis(500);

/// The number of subjects.
const SUBJECTS: usize = 5;

/// A subject's text, or why there is none.
type Answer = Result<Vec<u8>, Errno>;

/// Makes the text of a course's subject.
type Surveyor = dyn Fn(&mut Course<'_>) -> Result<Answer, Abandoned> + Send + Sync;

/// What the threads share.
pub(crate) struct Survey {
    subjects: u8,
    surveyor: Box<Surveyor>,
    state: Mutex<State>,
    /// Rung when something is wanted or all is over.
    bell: Condvar,
    /// Rung when a text is finished.
    made: Condvar,
    /// When the present step began, in nanoseconds since boot; 0: there is none.
    step_since: AtomicU64,
    /// The number of answers of each subject.
    versions: [AtomicU64; SUBJECTS],
    counts: Counts,
}

struct State {
    /// The subjects to survey, a bit each.
    wanted: u8,
    /// The number of the present thread; all others have been given up.
    worker: u64,
    has_worker: bool,
    /// What the present thread is doing.
    step: Option<(Subject, Vec<u8>)>,
    /// What the threads that were given up are stuck at, with their numbers.
    stuck: Vec<(u64, Subject, Vec<u8>)>,
    answers: [Option<Answer>; SUBJECTS],
    /// How long the latest survey of each took.
    took: [Nanos; SUBJECTS],
    is_over: bool,
}

#[derive(Debug, Default)]
struct Counts {
    surveys: Arc<AtomicU64>,
    cpu: Arc<AtomicU64>,
    stuck: Arc<AtomicU64>,
}

static ENTRIES: [Entry; 3] = [
    counter(
        "khz.survey.surveys",
        "surveys",
        Unit::Count,
        "Surveys of file systems, interfaces and the like.",
    )
    .exposed("khz_surveys_total", &[]),
    counter("khz.survey.cpu", "CLOCK_THREAD_CPUTIME_ID", Unit::Seconds, "CPU time of these surveys.")
        .steps(9)
        .exposed("khz_survey_cpu_seconds_total", &[]),
    gauge("khz.survey.stuck", "stuck", Unit::Count, "Threads that are stuck in a file system or a driver.")
        .exposed("khz_survey_stuck", &[]),
];

/// The metrics of surveys.
pub(crate) fn metrics() -> impl Iterator<Item = Arc<Metric>> {
    ENTRIES.iter().map(|entry| entry.metric("khz itself", None))
}

/// The subject of a file that is surveyed below this root; `None`: it is a kernel file, or a captured host has its text.
pub(crate) fn subject_of(root: &Path, file: &KernelFile) -> Option<Subject> {
    match file.pieces {
        Pieces::Survey { subject, captured } => (!root.join(captured).is_file()).then_some(subject),
        _ => None,
    }
}

fn bit(subject: Subject) -> u8 {
    1 << subject as u8
}

impl Survey {
    /// Starts a thread that surveys these subjects below `root`, and waits a moment for the first texts.
    pub fn start(root: &Path, subjects: impl IntoIterator<Item = Subject>) -> Arc<Survey> {
        let root = root.to_owned();
        let surveyor = move |course: &mut Course<'_>| match course.subject() {
            Subject::FileSystems => file_systems::survey(course, &root),
            Subject::Interfaces => interfaces::survey(course, &root),
            Subject::Throttling => processors::survey(course, &root),
            Subject::MemoryErrors => controllers::survey(course, &root),
            Subject::Clock => time_service::survey(course, &root),
        };
        let survey = Survey::with(subjects, Box::new(surveyor));
        survey.want(survey.subjects);
        survey.wait(FIRST_WAIT);
        survey
    }

    fn with(subjects: impl IntoIterator<Item = Subject>, surveyor: Box<Surveyor>) -> Arc<Survey> {
        let state = State {
            wanted: 0,
            worker: 0,
            has_worker: false,
            step: None,
            stuck: Vec::new(),
            answers: Default::default(),
            took: Default::default(),
            is_over: false,
        };
        Arc::new(Survey {
            subjects: subjects.into_iter().map(bit).fold(0, |all, bit| all | bit),
            surveyor,
            state: Mutex::new(state),
            bell: Condvar::new(),
            made: Condvar::new(),
            step_since: AtomicU64::new(0),
            versions: Default::default(),
            counts: Counts::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A poisoned lock is harmless: each field is whole at any time.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if this is one of its subjects.
    pub fn has(&self, subject: Subject) -> bool {
        self.subjects & bit(subject) != 0
    }

    /// Its counts, for the agent's own numbers; none if it surveys nothing.
    pub fn tallies(&self) -> Vec<Tally> {
        if self.subjects == 0 {
            return Vec::new();
        }
        let counts = [&self.counts.surveys, &self.counts.cpu, &self.counts.stuck];
        let tally =
            |(metric, count): (_, &Arc<AtomicU64>)| Tally { metric, instance: None, count: count.clone() };
        metrics().zip(counts).map(tally).collect()
    }

    /// Asks for surveys of these subjects. `false`: the lock is taken, and the caller must ask again.
    fn want(self: &Arc<Self>, subjects: u8) -> bool {
        let Ok(mut state) = self.state.try_lock() else { return false };
        state.wanted |= subjects & self.subjects;
        if state.wanted == 0 || state.is_over {
            return true;
        }
        if !state.has_worker {
            self.start_worker(&mut state);
        }
        drop(state);
        self.bell.notify_one();
        true
    }

    #[cold]
    fn start_worker(self: &Arc<Self>, state: &mut State) {
        if state.stuck.len() >= SURVEYS_STUCK_MAX {
            return;
        }
        match worker::start(self.clone(), state.worker) {
            Ok(()) => state.has_worker = true,
            // It is tried again when the next survey is due.
            Err(error) => tracing::warn!("no thread for surveys: {error}"),
        }
    }

    /// Waits until every subject that is wanted has an answer, but at most this long. `false`: some have none.
    pub fn wait(&self, longest: Duration) -> bool {
        let is_busy = |state: &mut State| state.wanted != 0 || state.step.is_some();
        let waited = self.made.wait_timeout_while(self.lock(), longest, is_busy);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// Gives the thread up if its present step has taken too long.
    fn look_for_stuck(self: &Arc<Self>, now: Nanos, stuck_after: Nanos) {
        let since = self.step_since.load(Ordering::Relaxed);
        if since != 0 && now.since(Nanos(since)) >= stuck_after {
            self.give_up(since);
        }
    }

    #[cold]
    fn give_up(self: &Arc<Self>, since: u64) {
        let Ok(mut state) = self.state.try_lock() else { return };
        if self.step_since.load(Ordering::Relaxed) != since {
            return;
        }
        let Some((subject, item)) = state.step.take() else { return };
        tracing::warn!("{} does not answer; its numbers are left out", worker::called(subject, &item));
        let worker = state.worker;
        state.stuck.push((worker, subject, item));
        state.worker += 1;
        state.has_worker = false;
        state.wanted |= bit(subject);
        self.step_since.store(0, Ordering::Relaxed);
        self.counts.stuck.store(state.stuck.len() as u64, Ordering::Relaxed);
        if state.stuck.len() < SURVEYS_STUCK_MAX {
            self.start_worker(&mut state);
            return;
        }
        tracing::warn!(
            "{SURVEYS_STUCK_MAX} threads are stuck; nothing is surveyed until one of them comes back"
        );
        for index in 0..SUBJECTS {
            state.answers[index] = Some(Err(Errno::TIMEDOUT));
            self.versions[index].fetch_add(1, Ordering::Release);
        }
    }

    /// How long the latest survey took; 0 before the first.
    pub fn took(&self, subject: Subject) -> Nanos {
        self.lock().took[subject as usize]
    }

    /// Ends the thread, as soon as the kernel lets it go.
    pub fn end(&self) {
        self.lock().is_over = true;
        self.bell.notify_all();
    }
}

/// The text of one subject, as one source reads it.
#[derive(Clone)]
pub(crate) struct SurveyText {
    survey: Arc<Survey>,
    subject: Subject,
    /// The answer that was read last.
    read: u64,
}

impl std::fmt::Debug for SurveyText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SurveyText").field("subject", &self.subject).finish_non_exhaustive()
    }
}

impl SurveyText {
    pub fn new(survey: &Arc<Survey>, subject: Subject) -> Self {
        SurveyText { survey: survey.clone(), subject, read: 0 }
    }

    /// True when there is an answer that was not read yet.
    #[inline]
    pub fn is_fresh(&self) -> bool {
        self.survey.versions[self.subject as usize].load(Ordering::Acquire) != self.read
    }

    /// Copies the latest text into the buffer; returns its length.
    #[cold]
    pub fn read(&mut self, buffer: &mut Vec<u8>) -> Result<usize, Errno> {
        let state = self.survey.lock();
        self.read = self.survey.versions[self.subject as usize].load(Ordering::Acquire);
        let text = match &state.answers[self.subject as usize] {
            Some(answer) => answer.as_ref().map_err(|errno| *errno)?,
            None => return Err(Errno::AGAIN),
        };
        if buffer.len() < text.len() {
            buffer.resize(text.len(), 0);
        }
        buffer[..text.len()].copy_from_slice(text);
        Ok(text.len())
    }
}

/// When each subject is due: what the gather thread has of the surveys. Dropping it ends them.
pub(crate) struct Surveys {
    survey: Arc<Survey>,
    stuck_after: Nanos,
    due: Vec<Due>,
}

#[derive(Debug)]
struct Due {
    subject: Subject,
    period: Nanos,
    next: Nanos,
}

impl Surveys {
    /// The first surveys were made just now.
    pub fn new(survey: Arc<Survey>, periods: impl IntoIterator<Item = (Subject, Nanos)>, now: Nanos) -> Self {
        let due = |(subject, period): (_, Nanos)| {
            let period = period.max(SURVEY_PERIOD_MIN);
            Due { subject, period, next: Nanos(now.0 + period.0) }
        };
        Surveys { survey, stuck_after: SURVEY_STUCK_AFTER, due: periods.into_iter().map(due).collect() }
    }

    /// Asks for what is due. It takes no lock and makes no system call unless something is.
    #[inline]
    pub fn look(&mut self, now: Nanos) {
        self.survey.look_for_stuck(now, self.stuck_after);
        if self.due.iter().any(|due| due.next <= now) {
            self.ask(now);
        }
    }

    #[cold]
    fn ask(&mut self, now: Nanos) {
        let is_due = |due: &&mut Due| due.next <= now;
        let wanted = self.due.iter_mut().filter(is_due).fold(0, |all, due| all | bit(due.subject));
        if self.survey.want(wanted) {
            for due in self.due.iter_mut().filter(is_due) {
                due.next = Nanos(now.0 + due.period.0);
            }
        }
    }
}

impl Drop for Surveys {
    fn drop(&mut self) {
        self.survey.end();
    }
}

#[cfg(test)]
mod tests;
