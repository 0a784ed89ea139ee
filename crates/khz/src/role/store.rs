//! The store of a daemon: where it is, and its two threads. One puts the log onto the disk once a second while rows come,
//! the other makes columns of it ([`compaction`]). Without rows neither wakes up. If the disk is full or fails, the daemon
//! goes on; what that costs is counted and logged.

mod compaction;
mod numbers;

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use khz_hub::Cluster;
use khz_model::{Budget, Metric, Nanos, Ranges, Repeats};
use khz_store::limits::{RANGE_BYTES, RANGE_READINGS_MAX};
use khz_store::log::Intake;
use khz_store::range::{OpenRows, RangeReader};
use khz_store::{Keep, Store, StoreError};

use self::compaction::Compaction;
use self::numbers::Numbers;
use crate::config::plan::{StateDir, StorePlan};
use crate::config::{Plan, places};
use crate::show::outcome::{Failure, sentence};

/// Rows are on the disk this long after they came, or a little later.
const COMMIT_PERIOD: Duration = Duration::from_secs(1);

/// How long a start waits for a store that another khz has open: one that ends puts its last rows onto the disk first.
const FREE_WITHIN: Duration = Duration::from_secs(5);
const FREE_ASKED_EVERY: Duration = Duration::from_millis(100);

/// A store and its threads. Without [`RunningStore::end`], what came in the last second is lost to the store.
pub struct RunningStore {
    intake: Intake,
    shared: Arc<Shared>,
    commits: Option<JoinHandle<()>>,
    compaction: Thread,
    numbers: Arc<Numbers>,
}

/// What both threads use.
struct Shared {
    store: Store,
    is_over: AtomicBool,
    /// The cluster whose rows come, once it is known.
    cluster: OnceLock<Weak<Cluster>>,
}

/// What a store counts beside its log, for the page of metrics.
#[cfg(test)]
pub fn metrics() -> Vec<(Metric, Arc<AtomicU64>)> {
    Numbers::default().metrics()
}

/// What a hub tells that has no store: that it should have one, if so.
pub fn metrics_of_none(plan: &Plan) -> Vec<(Metric, Arc<AtomicU64>)> {
    match places::store_dir(plan) {
        Ok(None) => Vec::new(),
        Ok(Some(_)) | Err(places::NoStateDir) => numbers::of_none(),
    }
}

impl RunningStore {
    /// The store of a hub: where the setting says, else below the directory of its state. `None`: there is none. A
    /// directory that a setting names must be usable; without the usual one the hub goes on, and on a full disk too.
    pub fn of_hub(plan: &Plan) -> Result<Option<Self>, Failure> {
        let directory = match places::store_dir(plan) {
            Ok(Some(directory)) => directory,
            Ok(None) => return without_receivers(plan),
            Err(places::NoStateDir) => {
                tracing::warn!(
                    "rows will not be stored: neither HOME nor XDG_STATE_HOME says where; use --store"
                );
                return Ok(None);
            }
        };
        // Nodes do not wait for a hub that can go on without a store.
        let is_needed = matches!(plan.store.dir, StateDir::Here(_)) || !plan.remote_write.is_empty();
        let start = if is_needed { RunningStore::start_when_free } else { RunningStore::start };
        match start(&directory, &plan.store) {
            Ok(store) => Ok(Some(store)),
            Err(error) if matches!(plan.store.dir, StateDir::Here(_)) && !is_full(&error) => {
                Err(unusable(&error))
            }
            // It would send nothing, and look healthy: whoever started it should hear of it.
            Err(error @ StoreError::InUse { .. }) if !plan.remote_write.is_empty() => {
                Err(Failure::work(format!("remote_write sends what the store has, but {}", sentence(&error))))
            }
            Err(error) => {
                tracing::warn!("rows will not be stored: {}; the next start tries again", sentence(&error));
                Ok(None)
            }
        }
    }

    /// The store of `khz` alone, which has one only if a setting names it.
    pub fn of_node(plan: &Plan) -> Result<Option<Self>, Failure> {
        match &plan.store.dir {
            StateDir::Here(directory) => RunningStore::start_when_free(directory, &plan.store)
                .map(Some)
                .map_err(|error| unusable(&error)),
            StateDir::Usual | StateDir::Nowhere => without_receivers(plan),
        }
    }

    /// The same. The khz before this one may need a moment to end.
    fn start_when_free(directory: &Path, plan: &StorePlan) -> Result<Self, StoreError> {
        let begin = Instant::now();
        loop {
            match RunningStore::start(directory, plan) {
                Err(StoreError::InUse { .. }) if begin.elapsed() < FREE_WITHIN => {
                    std::thread::sleep(FREE_ASKED_EVERY);
                }
                started => return started,
            }
        }
    }

    fn start(directory: &Path, plan: &StorePlan) -> Result<Self, StoreError> {
        let (store, intake, damage) = Store::open(directory, keep(plan), now())?;
        for damage in damage {
            tracing::error!("{damage}; `khz store check` shows all damage");
        }
        let left_out = intake.counts().left_out.load(Ordering::Relaxed);
        if left_out > 0 {
            tracing::info!(
                "{left_out} bytes at the ends of the store's log are left out: a commit that was not finished, or damage"
            );
        }
        let shared = Arc::new(Shared { store, is_over: AtomicBool::new(false), cluster: OnceLock::new() });
        let numbers = Arc::<Numbers>::default();
        numbers.is_open.store(1, Ordering::Relaxed);
        numbers.count(&shared.store);
        let failed =
            |source| StoreError::File { what: "start a thread for", path: directory.to_owned(), source };
        let compaction = Compaction::new(shared.clone(), numbers.clone());
        let begun = compaction.begun();
        let thread = std::thread::Builder::new().name("compact".into()).spawn(move || compaction.run());
        // Its steps may take long, and it may end after any of them: nobody waits for it.
        let compaction = thread.map_err(failed)?.thread().clone();
        let commits = Commits {
            shared: shared.clone(),
            intake: intake.clone(),
            failures: Repeats::default(),
            lost: 0,
            losses: Repeats::default(),
            restored: 0,
            numbers: numbers.clone(),
            compaction: compaction.clone(),
            begun,
        };
        let commits = std::thread::Builder::new().name("store".into()).spawn(move || commits.run());
        let commits = Some(commits.map_err(failed)?);
        Ok(RunningStore { intake, shared, commits, compaction, numbers })
    }

    /// From now on the rows of this cluster are stored.
    pub fn serve(&self, cluster: &Arc<Cluster>) {
        cluster.log_to(self.intake.clone());
        // There is one cluster.
        let _ = self.shared.cluster.set(Arc::downgrade(cluster));
    }

    /// What it counts beside the log, which the hub's own numbers have.
    pub fn metrics(&self) -> Vec<(Metric, Arc<AtomicU64>)> {
        self.numbers.metrics()
    }

    /// Answers questions about the past, out of the store and the newest rows of this cluster.
    pub fn past(&self, cluster: &Arc<Cluster>) -> Arc<dyn Ranges> {
        let open: Arc<dyn OpenRows> = cluster.clone();
        let store = &self.shared.store;
        let reader = RangeReader::new(store.shelf().clone(), Some(store.log()), open);
        let budget = Budget::new(RANGE_BYTES, self.numbers.range_bytes.clone());
        Arc::new(reader.with_limits(budget, RANGE_READINGS_MAX))
    }

    /// Reads the same for those who follow it. They have memory of their own, so that neither they nor queries are refused
    /// because of the others.
    pub fn followed(&self, cluster: &Arc<Cluster>) -> RangeReader {
        let open: Arc<dyn OpenRows> = cluster.clone();
        let store = &self.shared.store;
        let reader = RangeReader::new(store.shelf().clone(), Some(store.log()), open);
        reader.with_limits(Budget::new(RANGE_BYTES, Arc::default()), u64::MAX)
    }

    /// The folder of the store.
    pub fn folder(&self) -> &Path {
        self.shared.store.folder()
    }

    /// The daemon ends, and nothing comes any more: everything that came goes onto the disk.
    pub fn end(mut self) {
        if let Some(cluster) = self.shared.cluster.get().and_then(Weak::upgrade) {
            cluster.hand_over(Nanos(0));
        }
        self.stop();
    }

    fn stop(&mut self) {
        self.shared.is_over.store(true, Ordering::Release);
        self.compaction.unpark();
        self.intake.wake();
        if let Some(commits) = self.commits.take() {
            commits.thread().unpark();
            // If it panicked, the message was printed then.
            let _ = commits.join();
        }
    }
}

impl Drop for RunningStore {
    fn drop(&mut self) {
        self.stop();
    }
}

/// No store, unless something needs one.
fn without_receivers(plan: &Plan) -> Result<Option<RunningStore>, Failure> {
    match plan.remote_write.is_empty() {
        true => Ok(None),
        false => {
            Err(Failure::usage("remote_write sends what the store has: give it one with --store DIRECTORY"))
        }
    }
}

/// True if the disk takes nothing more. That may pass, and is no reason for a hub not to start.
fn is_full(error: &StoreError) -> bool {
    use std::io::ErrorKind::{QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    let source = match error {
        StoreError::File { source, .. } | StoreError::Write(source) => source,
        _ => return false,
    };
    matches!(source.kind(), StorageFull | QuotaExceeded | ReadOnlyFilesystem)
}

/// A setting names a directory in which nothing can be stored.
fn unusable(error: &StoreError) -> Failure {
    Failure::usage(format!("--store: {}", sentence(error)))
}

/// How much is kept.
pub fn keep(plan: &StorePlan) -> Keep {
    Keep { size: plan.keep, raw: plan.raw, minute: plan.minute, hour: plan.hour }
}

/// The wall clock, since 1970.
pub fn now() -> Nanos {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Nanos(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

/// Now, for what is done with rows: a clock of this machine that somebody has set makes no row too old or too new.
fn now_of_rows() -> Nanos {
    Nanos(khz_hub::trusted::for_rows().max(0).unsigned_abs().saturating_mul(1_000_000))
}

/// The thread that commits.
struct Commits {
    shared: Arc<Shared>,
    intake: Intake,
    failures: Repeats,
    /// Rows that are lost to the store, as far as that was logged.
    lost: u64,
    losses: Repeats,
    /// Files of the log that were written again, as far as that was logged.
    restored: u64,
    numbers: Arc<Numbers>,
    compaction: Thread,
    /// True while the other thread wakes up by itself.
    begun: Arc<AtomicBool>,
}

impl Commits {
    fn run(mut self) {
        let start = Instant::now();
        loop {
            self.intake.wait(&self.shared.is_over);
            // In this order: what was handed over before the end is committed.
            let is_last = self.shared.is_over.load(Ordering::Acquire);
            let committed = self.shared.store.commit(now());
            let elapsed = Nanos(start.elapsed().as_nanos() as u64);
            if let Err(error) = committed {
                self.failed(&error, elapsed);
            }
            self.numbers.count_bytes(&self.shared.store);
            self.tell_losses(elapsed, is_last);
            if is_last {
                return;
            }
            if !self.begun.swap(true, Ordering::AcqRel) {
                self.compaction.unpark();
            }
            pause(COMMIT_PERIOD, &self.shared.is_over);
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

    /// Logs how many rows the store has lost, at most once a minute, and before the end.
    fn tell_losses(&mut self, now: Nanos, is_last: bool) {
        let counts = self.intake.counts();
        let lost = counts.rows_lost.load(Ordering::Relaxed);
        if lost > self.lost && (self.losses.happened(now).is_some() || is_last) {
            tracing::warn!(
                "the store has lost {} rows more, {lost} since its start (khz_store_rows_lost_total): its disk was too slow \
                 or full, or somebody has removed files of the store",
                lost - self.lost
            );
            self.lost = lost;
        }
        let restored = counts.restored.load(Ordering::Relaxed);
        if restored > self.restored {
            tracing::warn!(
                "somebody has removed files of the store's log: {} of them are written again, with all their rows",
                restored - self.restored
            );
            self.restored = restored;
        }
    }
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

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind};

    use khz_hub::Settings;
    use khz_model::{ByteSize, Pattern, RangeRequest, RangeShape, Rate};
    use khz_store::limits::RANGE_QUERY_BYTES;

    use super::*;

    #[test]
    fn what_range_queries_hold_is_counted_while_they_run() {
        let folder = std::env::temp_dir().join(format!("khz-range-bytes-{}", std::process::id()));
        let hour = Nanos::from_secs(3_600);
        let plan = StorePlan {
            dir: StateDir::Here(folder.clone()),
            keep: ByteSize(64 << 20),
            raw: hour,
            minute: hour,
            hour,
        };
        let store = RunningStore::start(&folder, &plan).unwrap();
        let rate_max = Rate::from_hz(1_000).unwrap();
        let cluster = Cluster::new(Settings { name: "hub".into(), history: ByteSize(0), rate_max }, [0; 16]);
        let past = store.past(&cluster);
        let held = || {
            let metrics = store.metrics();
            let (_, held) =
                metrics.iter().find(|(metric, _)| metric.name == "khz.store.range_bytes").unwrap();
            held.load(Ordering::Relaxed)
        };
        let request = RangeRequest {
            patterns: vec![Pattern::everything()],
            from: Nanos(0),
            to: now(),
            shape: RangeShape::Rows,
        };
        assert_eq!(held(), 0);
        let answer = past.range(request).unwrap();
        assert_eq!(held(), RANGE_QUERY_BYTES);
        drop(answer);
        assert_eq!(held(), 0);
        store.end();
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_disk_that_is_full_is_no_reason_not_to_start_and_a_directory_that_is_none_is_one() {
        let error = |kind| StoreError::File {
            what: "write",
            path: "/srv/khz/lock".into(),
            source: Error::from(kind),
        };
        for kind in [ErrorKind::StorageFull, ErrorKind::QuotaExceeded, ErrorKind::ReadOnlyFilesystem] {
            assert!(is_full(&error(kind)) && is_full(&StoreError::Write(Error::from(kind))), "{kind}");
        }
        for kind in [ErrorKind::PermissionDenied, ErrorKind::NotADirectory, ErrorKind::NotFound] {
            assert!(!is_full(&error(kind)), "{kind}");
        }
        let in_use = StoreError::InUse { path: "/srv/khz".into(), process: khz_store::Process(Some(7)) };
        assert!(!is_full(&in_use));
    }
}
