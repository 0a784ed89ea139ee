//! The list of jobs that survives: a change is on the disk before it is acknowledged, and changes that come together are written
//! together, so that a thousand jobs a second wait for some writes and not for a thousand.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use khz_state::{Tended, tend};

use crate::change::{End, Start};
use crate::error::JobError;
use crate::job::{Job, Source, Viewer};
use crate::list::{Changed, JobList};
use crate::log::JobLog;

/// Which jobs somebody wants.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Those of this user, by name.
    pub user: Option<String>,
    /// Those on this node.
    pub node: Option<String>,
    /// Those that run (`true`), or have ended.
    pub running: Option<bool>,
    /// Those that ran at this time (ms).
    pub at: Option<i64>,
    /// The last ones, as many as this; `None`: all.
    pub last: Option<usize>,
}

impl Wanted {
    fn means(&self, job: &Job, viewer: &Viewer) -> bool {
        viewer.sees(job)
            && self.user.as_ref().is_none_or(|user| *user == job.user)
            && self.running.is_none_or(|running| running == job.is_running())
            && self.at.is_none_or(|at| job.ran_within(at.saturating_sub(1), at))
            && self.node.as_ref().is_none_or(|node| job.has_node(node))
    }
}

/// The list.
#[derive(Debug, Default)]
pub struct Jobs {
    list: RwLock<JobList>,
    /// Changes that wait for the disk.
    waiting: Mutex<Vec<Arc<Waiting>>>,
    /// The thread that holds it writes; `None` in it: jobs end with this process.
    log: Mutex<Option<JobLog>>,
    is_kept: bool,
    dropped: Arc<AtomicU64>,
    changed: Arc<AtomicU64>,
}

/// A change that waits.
#[derive(Debug)]
struct Waiting {
    change: Change,
    now: i64,
    done: Mutex<Option<Result<Option<Job>, JobError>>>,
}

#[derive(Debug)]
enum Change {
    Start(Start),
    End(End),
    See(String, Vec<String>),
    Gone(u64, i64),
}

impl Jobs {
    /// The list that is kept in this directory.
    ///
    /// # Errors
    /// Returns why its log cannot be used.
    pub fn open(directory: &Path) -> Result<Arc<Self>, JobError> {
        let mut list = JobList::default();
        let log = JobLog::open(directory, &mut list)?;
        let jobs =
            Jobs { list: RwLock::new(list), log: Mutex::new(Some(log)), is_kept: true, ..Jobs::default() };
        let jobs = Arc::new(jobs);
        tend(&jobs);
        Ok(jobs)
    }

    /// A list that ends with this process.
    pub fn in_memory() -> Self {
        Jobs::default()
    }

    /// True if the list survives the end of this process.
    pub fn is_kept(&self) -> bool {
        self.is_kept
    }

    /// Takes a start. The answer is the run; it is on the disk then.
    ///
    /// # Errors
    /// Says what is wrong with it, or why it cannot be kept. Then nothing has changed.
    pub fn start(&self, start: Start, now: i64) -> Result<Job, JobError> {
        let start = start.checked()?;
        self.change(Change::Start(start), now).map(|job| job.expect("BUG: a start that made no run"))
    }

    /// Takes an end, of the newest run of its id.
    ///
    /// # Errors
    /// The same as of a start; also, that there is no such job.
    pub fn end(&self, end: End, now: i64) -> Result<Job, JobError> {
        let end = end.checked()?;
        self.change(Change::End(end), now).map(|job| job.expect("BUG: an end of no run"))
    }

    /// Control groups have the id on these nodes. Returns the run, if it is one that only they show.
    pub(crate) fn see(&self, id: &str, nodes: &[String], now: i64) -> Result<Option<u64>, JobError> {
        // As a rule nothing is new; then nothing waits for the log.
        {
            let list = self.list();
            let last = list.last(id).filter(|last| last.is_running());
            match last {
                Some(last) if last.source == Source::Told => return Ok(None),
                Some(last) if nodes.iter().all(|node| last.has_node(node)) => return Ok(Some(last.run)),
                _ => {}
            }
        }
        Ok(self.change(Change::See(id.to_owned(), nodes.to_vec()), now)?.map(|job| job.run))
    }

    /// The runs that only control groups show, and that have not ended.
    pub(crate) fn seen_running(&self) -> Vec<u64> {
        let list = self.list();
        list.all().filter(|job| job.is_running() && job.source == Source::Seen).map(|job| job.run).collect()
    }

    /// When an earlier start worked last (ms); `None`: nothing is kept.
    pub(crate) fn worked_until(&self) -> Option<i64> {
        self.log().as_ref().map(JobLog::worked_until)
    }

    /// Notes that this start works.
    pub(crate) fn note_works(&self) {
        if let Some(log) = &*self.log() {
            log.note_works();
        }
    }

    /// The control groups of a run were there until this time.
    pub(crate) fn is_gone(&self, run: u64, end: i64) -> Result<(), JobError> {
        self.change(Change::Gone(run, end), end).map(|_| ())
    }

    /// The newest run of an id that somebody may see.
    pub fn last(&self, id: &str) -> Option<Job> {
        self.last_of(id, &Viewer::All)
    }

    /// The same, if this one may see it.
    pub fn last_of(&self, id: &str, viewer: &Viewer) -> Option<Job> {
        self.list().of(id).rfind(|job| viewer.sees(job)).cloned()
    }

    /// All runs of an id that somebody may see, oldest first.
    pub fn runs_of(&self, id: &str, viewer: &Viewer) -> Vec<Job> {
        self.list().of(id).filter(|job| viewer.sees(job)).cloned().collect()
    }

    /// The jobs that somebody wants and may see, the one that came last first.
    pub fn find(&self, wanted: &Wanted, viewer: &Viewer) -> Vec<Job> {
        let most = wanted.last.unwrap_or(usize::MAX);
        self.list().all().rev().filter(|job| wanted.means(job, viewer)).take(most).cloned().collect()
    }

    /// How many bytes [`Jobs::find`] would take.
    pub fn bytes_of(&self, wanted: &Wanted, viewer: &Viewer) -> u64 {
        let most = wanted.last.unwrap_or(usize::MAX);
        let list = self.list();
        let found = list.all().rev().filter(|job| wanted.means(job, viewer)).take(most);
        found.map(Job::bytes).sum()
    }

    /// The runs of all ids that are meant, that ran at some time after the one and up to the other (ms), and that somebody may see; at
    /// most `limit` of them, and whether there are more.
    pub fn runs(
        &self,
        is_meant: impl Fn(&str) -> bool,
        (after, to): (i64, i64),
        viewer: &Viewer,
        limit: usize,
    ) -> (Vec<Job>, bool) {
        let list = self.list();
        let mut meant =
            list.all().filter(|job| job.ran_within(after, to) && is_meant(&job.id) && viewer.sees(job));
        let all: Vec<Job> = meant.by_ref().take(limit).cloned().collect();
        let is_more = meant.next().is_some();
        (all, is_more)
    }

    /// Runs that went because there were too many.
    pub fn dropped(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.dropped)
    }

    /// Changes since this process began.
    pub fn changes(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.changed)
    }

    fn list(&self) -> std::sync::RwLockReadGuard<'_, JobList> {
        self.list.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn log(&self) -> MutexGuard<'_, Option<JobLog>> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a change, or waits until somebody else has made it who writes now.
    fn change(&self, change: Change, now: i64) -> Result<Option<Job>, JobError> {
        let waiting = Arc::new(Waiting { change, now, done: Mutex::new(None) });
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&waiting));
        let mut log = self.log();
        let done = || waiting.done.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(done) = done() {
            return done;
        }
        let all = std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        self.commit(&mut log, &all);
        done().expect("BUG: a change that waited was not made")
    }

    /// Makes changes, and writes them together.
    fn commit(&self, log: &mut Option<JobLog>, all: &[Arc<Waiting>]) {
        let mut made = Changed::new();
        let mut answers = Vec::with_capacity(all.len());
        {
            let mut list = self.list.write().unwrap_or_else(PoisonError::into_inner);
            for waiting in all {
                let done = waiting.apply(&mut list);
                answers.push(done.map(|(run, changed)| {
                    made.extend(changed);
                    run.and_then(|run| list.get(run).cloned())
                }));
            }
        }
        let list = self.list();
        let written = match log {
            Some(log) => log.append(made.iter().filter_map(|(run, _)| list.get(*run))),
            None => Ok(()),
        };
        drop(list);
        let mut list = self.list.write().unwrap_or_else(PoisonError::into_inner);
        match written {
            Ok(()) => {
                self.changed.fetch_add(made.len() as u64, Ordering::Relaxed);
                self.dropped.fetch_add(list.trim(), Ordering::Relaxed);
            }
            Err(ref error) => {
                // An answer may rest on another change of these, so none of them holds.
                list.undo(made);
                let failed = JobError::NotLogged(error.to_string());
                answers
                    .iter_mut()
                    .filter(|answer| answer.is_ok())
                    .for_each(|answer| *answer = Err(failed.clone()));
            }
        }
        if let Some(log) = log {
            log.shorten(list.all());
        }
        drop(list);
        for (waiting, answer) in all.iter().zip(answers) {
            *waiting.done.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
        }
    }
}

impl Waiting {
    fn apply(&self, list: &mut JobList) -> Result<(Option<u64>, Changed), JobError> {
        match &self.change {
            Change::Start(start) => list.start(start, self.now).map(|(run, changed)| (Some(run), changed)),
            Change::End(end) => list.end(end, self.now).map(|(run, changed)| (Some(run), changed)),
            Change::See(id, nodes) => list.see(id, nodes, self.now),
            Change::Gone(run, end) => Ok((None, list.is_gone(*run, *end))),
        }
    }
}

impl Tended for Jobs {
    fn tend(&self) {
        if let Some(log) = &mut *self.log() {
            log.tend();
        }
    }
}
