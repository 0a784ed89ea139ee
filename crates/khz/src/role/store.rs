//! The store of a daemon: where it is, and the thread that puts the log onto the disk once a second while rows come. Without
//! rows no thread wakes up. If the disk is full or fails, the daemon goes on; what that costs is counted and logged.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use khz_hub::Cluster;
use khz_model::{Nanos, Ranges, Repeats};
use khz_store::StoreError;
use khz_store::log::{Intake, Log, LogView};
use khz_store::range::{OpenRows, RangeReader};

use crate::config::plan::StateDir;
use crate::config::{Plan, places};
use crate::show::outcome::{Failure, sentence};

/// Rows are on the disk this long after they came, or a little later.
const COMMIT_PERIOD: Duration = Duration::from_secs(1);

/// A store and its threads. Without [`RunningStore::end`], what came in the last second is lost to the store.
pub struct RunningStore {
    intake: Intake,
    log: LogView,
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl RunningStore {
    /// The store of a hub: where the setting says, else below the directory of its state. `None`: there is none. A
    /// directory that a setting names must be usable; without the usual one the hub goes on.
    pub fn of_hub(plan: &Plan) -> Result<Option<Self>, Failure> {
        let directory = match places::store_dir(plan) {
            Ok(Some(directory)) => directory,
            Ok(None) => return Ok(None),
            Err(places::NoStateDir) => {
                tracing::warn!(
                    "rows will not be stored: neither HOME nor XDG_STATE_HOME says where; use --store"
                );
                return Ok(None);
            }
        };
        match RunningStore::start(&directory, plan) {
            Ok(store) => Ok(Some(store)),
            Err(error) if matches!(plan.store.dir, StateDir::Here(_)) => Err(unusable(&error)),
            Err(error) => {
                tracing::warn!("rows will not be stored: {}", sentence(&error));
                Ok(None)
            }
        }
    }

    /// The store of `khz` alone, which has one only if a setting names it.
    pub fn of_node(plan: &Plan) -> Result<Option<Self>, Failure> {
        match &plan.store.dir {
            StateDir::Here(directory) => {
                RunningStore::start(directory, plan).map(Some).map_err(|error| unusable(&error))
            }
            StateDir::Usual | StateDir::Nowhere => Ok(None),
        }
    }

    fn start(directory: &Path, _plan: &Plan) -> Result<Self, StoreError> {
        let (log, intake, damage) = Log::open(&directory.join("log"))?;
        for damage in damage {
            tracing::error!("{damage}; `khz store check` shows all damage");
        }
        let view = log.view();
        let (log, is_over) = (Arc::new(Mutex::new(log)), Arc::<AtomicBool>::default());
        let commits =
            Commits { log, intake: intake.clone(), is_over: is_over.clone(), failures: Repeats::default() };
        let thread = std::thread::Builder::new().name("store".into()).spawn(move || commits.run());
        let failed =
            |source| StoreError::File { what: "start a thread for", path: directory.to_owned(), source };
        Ok(RunningStore { intake, log: view, is_over, threads: vec![thread.map_err(failed)?] })
    }

    /// Takes the rows of base lanes.
    pub fn intake(&self) -> Intake {
        self.intake.clone()
    }

    /// Answers questions about the past, out of the store and the newest rows of this cluster.
    pub fn past(&self, cluster: &Arc<Cluster>) -> Arc<dyn Ranges> {
        let open: Arc<dyn OpenRows> = cluster.clone();
        Arc::new(RangeReader::new(Arc::new(()), Some(self.log.clone()), open))
    }

    /// The daemon ends, and nothing comes any more: everything that came goes onto the disk.
    pub fn end(mut self, cluster: &Cluster) {
        cluster.hand_over(Nanos(0));
        self.stop();
    }

    fn stop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        self.intake.wake();
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            // If it panicked, the message was printed then.
            let _ = thread.join();
        }
    }
}

impl Drop for RunningStore {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A setting names a directory in which nothing can be stored.
fn unusable(error: &StoreError) -> Failure {
    Failure::usage(format!("--store: {}", sentence(error)))
}

/// The thread that commits.
struct Commits {
    log: Arc<Mutex<Log>>,
    intake: Intake,
    is_over: Arc<AtomicBool>,
    failures: Repeats,
}

impl Commits {
    fn run(mut self) {
        let begun = Instant::now();
        loop {
            self.intake.wait(&self.is_over);
            // In this order: what was handed over before the end is committed.
            let is_last = self.is_over.load(Ordering::Acquire);
            let committed = locked(&self.log).commit();
            if let Err(error) = committed {
                self.failed(&error, Nanos(begun.elapsed().as_nanos() as u64));
            }
            if is_last {
                return;
            }
            pause(COMMIT_PERIOD, &self.is_over);
        }
    }

    fn failed(&mut self, error: &StoreError, now: Nanos) {
        if let Some(times) = self.failures.happened(now) {
            tracing::warn!(
                "rows are not stored: {}{times}; they wait in memory, as long as there is room",
                sentence(error)
            );
        }
    }
}

fn locked(log: &Mutex<Log>) -> MutexGuard<'_, Log> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for this long, or until the end.
fn pause(time: Duration, is_over: &AtomicBool) {
    let end = Instant::now() + time;
    while let Some(left) = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
        && !is_over.load(Ordering::Acquire)
    {
        std::thread::park_timeout(left);
    }
}
