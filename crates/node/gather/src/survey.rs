//! Surveys: sources that are not one kernel file but several files or system calls. Some of these may block: file systems whose
//! server is gone, interfaces whose driver hangs. One thread makes a text of each survey, when the gather thread requests it; the
//! gather thread takes the finished texts, and never waits. If a step takes long, another thread takes the other subjects and the
//! other steps. If a step is stuck, its numbers are Failed. The contents of a text are not decided here.
//!
//! Each thread that is stuck costs memory, so their number has limits: one for each subject, and one for all. A subject at its limit
//! takes only steps that have answered since.

mod churn;
mod control_groups;
mod course;
mod disks;
mod due;
#[cfg(test)]
mod faults;
mod file_systems;
mod folder;
mod interfaces;
mod limited;
mod line;
mod logins;
#[cfg(test)]
mod looks;
mod processes;
mod processors;
mod sensors;
mod settings;
mod text;
mod text_files;
mod threads;
mod time_service;
mod trees;
mod worker;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use khz_model::{Metric, Nanos, Unit};
use khz_parse::entry::{counter, gauge};
use khz_parse::{Entry, KernelFile, Pieces, Subject};
use rustix::io::Errno;

use crate::clock;
use crate::own::Tally;
pub use churn::{NEW_SERIES_TIME, OWN_SOURCE_NAMES_MAX, TEXT_FILE_NAMES_MAX};
use control_groups::ControlGroups;
pub use control_groups::{
    CONTROL_GROUP_FILE_BYTES_MAX, CONTROL_GROUPS_DEPTH_MAX, CONTROL_GROUPS_MAX, control_groups_folder,
};
use course::{Abandoned, Course};
pub(crate) use due::{SubjectPlan, Surveys, limits_of};
use file_systems::FileSystems;
pub use file_systems::MOUNTS_MAX;
pub use interfaces::INTERFACES_MAX;
use interfaces::Interfaces;
pub use logins::{SESSIONS_MAX, UTMP_BYTES_MAX};
use processes::Processes;
pub use processes::{PROCESS_FILES_MAX, PROCESS_PLACES, PROCESS_PLACES_MAX, PROCESSES_BUDGET, PROCESSES_MAX};
use sensors::Chips;
pub use settings::{SURVEYS_PATIENCE, SurveySettings};
pub(crate) use text::SurveyText;
use text_files::TextFiles;
pub use text_files::{
    TEXT_FILE_BYTES_MAX, TEXT_FILE_KINDS_MAX, TEXT_FILE_SERIES_MAX, TEXT_FILES_BYTES_MAX, TEXT_FILES_MAX,
};
use threads::Threads;
use trees::Trees;
pub use trees::{TREE_INSTANCES_MAX, TREE_SLOW_READ, TREE_SLOW_READS_MAX};

/// A step of a survey that takes longer than this is given up: node_exporter waits as long for a file system.
pub const SURVEY_STUCK_AFTER: Nanos = Nanos::from_secs(5);

/// A step that takes longer than this part of the limit delays nothing else: another thread continues with all other work. That is
/// after 0.2 s: nearly all surveys end before, and a number that is due each second is not a row late.
const SLOW_PART: u64 = 25;

/// With this number of threads stuck at one subject (a file server that is gone may hold many file systems), only steps are taken
/// that have answered since the first thread was stuck.
pub const SURVEYS_STUCK_OF_SUBJECT_MAX: usize = 8;

/// With this number, because some of those steps hang, too, the subject is not surveyed until one thread comes back. All other
/// subjects are.
pub const SURVEYS_STUCK_OF_SUBJECT_END: usize = 12;

/// At most this many threads are slow or stuck at a time: each holds a stack, of which it uses some 30 KiB with the kernel's part. If
/// this many are stuck, there is no survey until one thread comes back.
pub const SURVEYS_STUCK_MAX: usize = 2 * SURVEYS_STUCK_OF_SUBJECT_END;

/// The share of one core that surveying a subject may cost, unless its source has its own budget. Subjects that cost more are
/// surveyed less often.
pub const SURVEY_BUDGET: f64 = 0.01;

/// No subject is surveyed more often, whatever rate its source has.
pub const SURVEY_PERIOD_MIN: Nanos = Nanos::SECOND;

/// The log says again that a limit cuts a list, if it did not for this long.
const CUT_TOLD_AGAIN: Nanos = Nanos::from_secs(300);

/// How often a caller without a gather thread asks whether a step is stuck.
const STUCK_LOOK_EVERY: Duration = Duration::from_millis(50);

/// The most subjects: a wanted subject is a bit of a number.
const SUBJECTS_MAX: usize = u64::BITS as usize;

/// A subject's text, or why there is none.
type Answer = Result<Vec<u8>, Errno>;

/// Makes the text of a course's subject.
type Surveyor = dyn Fn(&mut Course<'_>) -> Result<Answer, Abandoned> + Send + Sync;

/// Starts the thread with this number.
type Starter = dyn Fn(Arc<Survey>, u64) -> std::io::Result<()> + Send + Sync;

/// What the threads share.
pub(crate) struct Survey {
    /// The subjects; the place of a subject here is its number.
    subjects: Vec<Subject>,
    surveyor: Box<Surveyor>,
    /// Starts a thread.
    starter: Box<Starter>,
    state: Mutex<State>,
    /// Rung when something is wanted or all is over.
    bell: Condvar,
    /// Rung when a text is finished.
    made: Condvar,
    /// When the oldest step began that is not known to be stuck, in nanoseconds since boot; 0: there is none.
    step_since: AtomicU64,
    /// The number of answers of each subject.
    versions: Vec<AtomicU64>,
    /// The CPU time of the latest survey of each, in nanoseconds.
    costs: Vec<AtomicU64>,
    counts: Counts,
}

struct State {
    /// The wanted subjects, and the work of each thread.
    threads: Threads,
    answers: Vec<Option<Answer>>,
    /// Why a file of each that should have a number has none, and which instances are left out.
    problems: Vec<Option<String>>,
    /// The same without the instances that are left out, whose number may change all the time.
    told: Vec<Option<String>>,
    /// How long the latest survey of each took.
    took: Vec<Nanos>,
    /// The instances of each that were left out.
    left_out: Vec<u64>,
    /// When the list of instances of each was cut by a limit last.
    cut: Vec<Option<Nanos>>,
    is_over: bool,
}

#[derive(Debug, Default)]
struct Counts {
    surveys: Arc<AtomicU64>,
    cpu: Arc<AtomicU64>,
    stuck: Arc<AtomicU64>,
    left_out: Arc<AtomicU64>,
}

static ENTRIES: [Entry; 4] = [
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
    gauge(
        "khz.survey.left_out",
        "left_out",
        Unit::Count,
        "Devices beyond the most whose files are read, such as sensors or ports.",
    )
    .exposed("khz_survey_left_out", &[]),
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

impl Survey {
    /// Starts a thread that surveys these subjects below `root`, and waits a moment for the first texts.
    pub fn start(
        root: &Path,
        settings: &SurveySettings,
        subjects: impl IntoIterator<Item = Subject>,
    ) -> Arc<Survey> {
        let root = root.to_owned();
        let (trees, control_groups) = (Trees::of(settings.known.clone()), ControlGroups::new(&root));
        let (chips, file_systems, interfaces) =
            (Chips::default(), FileSystems::default(), Interfaces::default());
        let processes = Processes::new(&root, settings.places);
        let text_files = TextFiles::new(&root, settings);
        let surveyor = move |course: &mut Course<'_>| match course.subject() {
            Subject::FileSystems => file_systems.survey(course, &root),
            Subject::Interfaces => interfaces.survey(course, &root),
            Subject::Throttling => processors::survey(course, &root),
            Subject::Clock => time_service::survey(course, &root),
            Subject::Disks => disks::survey(course, &root, &trees),
            Subject::Sensors => chips.survey(course, &root, &trees),
            Subject::ControlGroups => control_groups.survey(course, &root),
            Subject::Logins => logins::survey(course, &root),
            Subject::Processes => processes.survey(course),
            Subject::TextFiles => text_files.survey(course),
            Subject::Tree(name) => trees.survey(course, &root, name),
        };
        let survey = Survey::with(subjects, Box::new(surveyor));
        survey.want(u64::MAX);
        survey.wait_and_give_up(SURVEY_STUCK_AFTER, settings.first_wait);
        survey
    }

    fn with(subjects: impl IntoIterator<Item = Subject>, surveyor: Box<Surveyor>) -> Arc<Survey> {
        Survey::with_threads_of(Box::new(worker::start), subjects, surveyor)
    }

    fn with_threads_of(
        starter: Box<Starter>,
        subjects: impl IntoIterator<Item = Subject>,
        surveyor: Box<Surveyor>,
    ) -> Arc<Survey> {
        let subjects: Vec<Subject> = subjects.into_iter().take(SUBJECTS_MAX).collect();
        let state = State {
            threads: Threads::of(subjects.len()),
            answers: subjects.iter().map(|_| None).collect(),
            problems: vec![None; subjects.len()],
            told: vec![None; subjects.len()],
            took: vec![Nanos(0); subjects.len()],
            left_out: vec![0; subjects.len()],
            cut: vec![None; subjects.len()],
            is_over: false,
        };
        Arc::new(Survey {
            versions: subjects.iter().map(|_| AtomicU64::new(0)).collect(),
            costs: subjects.iter().map(|_| AtomicU64::new(0)).collect(),
            subjects,
            surveyor,
            starter,
            state: Mutex::new(state),
            bell: Condvar::new(),
            made: Condvar::new(),
            step_since: AtomicU64::new(0),
            counts: Counts::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A poisoned lock is harmless: each field is whole at any time.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if this is one of its subjects.
    pub fn has(&self, subject: Subject) -> bool {
        self.subjects.contains(&subject)
    }

    /// The number of a subject; `None`: it is not surveyed.
    fn number_of(&self, subject: Subject) -> Option<usize> {
        self.subjects.iter().position(|known| *known == subject)
    }

    /// The bit of a subject; none if it is not surveyed.
    fn bit(&self, subject: Subject) -> u64 {
        self.number_of(subject).map_or(0, |number| 1 << number)
    }

    /// The bits of all subjects.
    fn all(&self) -> u64 {
        (0..self.subjects.len()).fold(0, |all, number| all | 1 << number)
    }

    /// Its counts, for the agent's own numbers; none if it surveys nothing.
    pub fn tallies(&self) -> Vec<Tally> {
        if self.subjects.is_empty() {
            return Vec::new();
        }
        let counts = [&self.counts.surveys, &self.counts.cpu, &self.counts.stuck, &self.counts.left_out];
        let tally =
            |(metric, count): (_, &Arc<AtomicU64>)| Tally { metric, instance: None, count: count.clone() };
        metrics().zip(counts).map(tally).collect()
    }

    /// Asks for a survey of one subject, unless somebody holds the lock.
    pub fn ask(self: &Arc<Self>, subject: Subject) {
        self.want(self.bit(subject));
    }

    /// Asks for surveys of these subjects. `false`: the lock is taken, and the caller must ask again.
    fn want(self: &Arc<Self>, subjects: u64) -> bool {
        let Ok(mut state) = self.state.try_lock() else { return false };
        state.threads.want(subjects & self.all());
        if !state.is_over && state.threads.has_work() {
            self.start_worker(&mut state, clock::boot());
            self.step_since.store(state.threads.oldest_step(), Ordering::Relaxed);
            drop(state);
            self.bell.notify_one();
        }
        true
    }

    /// Starts a thread for the wanted subjects, unless there is a thread that takes them.
    fn start_worker(self: &Arc<Self>, state: &mut State, now: Nanos) {
        let Some(number) = state.threads.next_thread(now) else { return };
        match (self.starter)(self.clone(), number) {
            Ok(()) if state.threads.has_begun() => tracing::warn!("there are threads for surveys again"),
            Ok(()) => {}
            Err(error) => {
                if state.threads.has_failed(number, now) {
                    tracing::warn!(
                        "no thread can be made for surveys: {error}; if this lasts, what is surveyed becomes Failed. Allow khz more tasks (TasksMax= in its unit, pids.max, ulimit -u)"
                    );
                }
            }
        }
    }

    /// Waits until every subject that is wanted has an answer, but at most this long. `false`: some have none.
    pub fn wait(&self, longest: Duration) -> bool {
        let waited =
            self.made.wait_timeout_while(self.lock(), longest, |state: &mut State| state.threads.is_busy());
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// Lets another thread go on if a step takes long, and gives a thread up if its step has taken too long.
    fn look_for_stuck(self: &Arc<Self>, now: Nanos, stuck_after: Nanos) {
        let since = self.step_since.load(Ordering::Relaxed);
        let slow_after = Nanos(stuck_after.0 / SLOW_PART);
        if since != 0 && now.since(Nanos(since)) >= slow_after {
            self.go_on(now, slow_after, stuck_after);
        }
    }

    #[cold]
    fn go_on(self: &Arc<Self>, now: Nanos, slow_after: Nanos, stuck_after: Nanos) {
        let Ok(mut state) = self.state.try_lock() else { return };
        let state = &mut *state;
        if let Some(slow) = state.threads.slow(now, slow_after) {
            state.threads.overtake(slow);
        }
        while let Some(stuck) = state.threads.overdue(now, stuck_after) {
            self.give_up(state, stuck);
        }
        if state.threads.has_work() {
            self.start_worker(state, now);
            self.bell.notify_one();
        }
        self.leave_unanswered(state, state.threads.waiting_in_vain(now, stuck_after));
        self.step_since.store(state.threads.oldest_step(), Ordering::Relaxed);
        if !state.threads.is_busy() {
            self.made.notify_all();
        }
    }

    /// Another thread makes the survey without the step at which this one is stuck.
    fn give_up(&self, state: &mut State, number: u64) {
        let Some(index) = state.threads.give_up(number) else { return };
        if let Some(stuck) = state.threads.thread(number) {
            let called = worker::called(self.subjects[index], stuck);
            tracing::warn!("{called} does not answer; its numbers are left out");
        }
        let stuck = state.threads.stuck();
        self.counts.stuck.store(stuck as u64, Ordering::Relaxed);
        let unanswered = if stuck >= SURVEYS_STUCK_MAX {
            tracing::warn!(
                "{SURVEYS_STUCK_MAX} threads are stuck; nothing is surveyed until one of them comes back"
            );
            self.all()
        } else if state.threads.is_at_end(index) {
            tracing::warn!(
                "{SURVEYS_STUCK_OF_SUBJECT_END} threads are stuck: there are no surveys of {} until one of them comes back",
                worker::named(self.subjects[index])
            );
            1 << index
        } else {
            if state.threads.has_become_crowded(index) {
                tracing::warn!(
                    "{SURVEYS_STUCK_OF_SUBJECT_MAX} threads are stuck in surveys of {}: what has not answered since the first of them was stuck, or is new, is not asked until one comes back, and counts as stuck",
                    worker::named(self.subjects[index])
                );
            }
            0
        };
        self.leave_unanswered(state, unanswered);
    }

    /// These subjects have no answer: their last answers are too old.
    fn leave_unanswered(&self, state: &mut State, subjects: u64) {
        for number in (0..self.subjects.len()).filter(|number| subjects & 1 << number != 0) {
            state.threads.want_no_more(number);
            state.answers[number] = Some(Err(Errno::TIMEDOUT));
            (state.problems[number], state.told[number]) = (None, None);
            self.versions[number].fetch_add(1, Ordering::Release);
        }
    }

    /// True while an answer is waited for.
    pub fn is_busy(&self) -> bool {
        self.lock().threads.is_busy()
    }

    /// The same for a caller without a gather thread: gives up stuck steps until every wanted subject has an answer, for at most this
    /// long.
    pub fn wait_and_give_up(self: &Arc<Self>, stuck_after: Nanos, longest: Nanos) {
        let begun = clock::boot();
        while !self.wait(STUCK_LOOK_EVERY) && clock::boot().since(begun) < longest {
            self.look_for_stuck(clock::boot(), stuck_after);
        }
    }

    /// How long the latest survey took; 0 before the first.
    pub fn took(&self, subject: Subject) -> Nanos {
        self.number_of(subject).map_or(Nanos(0), |number| self.lock().took[number])
    }

    /// The CPU time of the latest survey; 0 before the first. The gather thread asks, so it takes no lock.
    fn cost(&self, subject: Subject) -> Nanos {
        self.number_of(subject).map_or(Nanos(0), |number| Nanos(self.costs[number].load(Ordering::Relaxed)))
    }

    /// Ends the thread, as soon as the kernel lets it go.
    pub fn end(&self) {
        self.lock().is_over = true;
        self.bell.notify_all();
    }
}

#[cfg(test)]
mod tests;
