//! The store: log, column files and roll-ups, in one folder. It starts no thread and reads no clock. One thread calls
//! [`Store::commit`] each second, and another one [`Store::tick_compaction`].

mod lock;

pub use lock::Process;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use khz_model::Nanos;

use crate::StoreError;
use crate::compact::{Compactor, SharedLog, StoreCounts, Tick};
use crate::disk::Disk;
use crate::keep::{self, Keep};
use crate::limits::{LISTING_TRIES, SEGMENT_BYTES, SEGMENT_DELAY, SEGMENT_SHARE, SEGMENT_TIME};
use crate::log::{Commit, Intake, Log, LogView};
use crate::shelf::{Shelf, Tier};
use crate::store::lock::Lock;

/// The folder of the log.
const LOG_FOLDER: &str = "log";

/// A store, and the right to write to it. Any thread may use it.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    log: SharedLog,
    shelf: Arc<Shelf>,
    counts: Arc<StoreCounts>,
    compactor: Mutex<Compactor>,
    /// The ten minutes for which the present segment is.
    segment_time: Mutex<u64>,
    /// Bytes with which a segment is full.
    segment_bytes: u64,
    /// Held until the store is dropped.
    lock: Mutex<Lock>,
    disk: Disk,
}

impl Store {
    /// Opens the store in a folder, which is made if it is missing. Returns also where rows go, and what is damaged.
    pub fn open(
        folder: &Path,
        keep: Keep,
        now: Nanos,
    ) -> Result<(Self, Intake, Vec<StoreError>), StoreError> {
        Self::open_on(Disk::default(), folder, keep, now)
    }

    /// The same; `disk` does what is done to column files.
    pub fn open_on(
        disk: Disk,
        folder: &Path,
        keep: Keep,
        now: Nanos,
    ) -> Result<(Self, Intake, Vec<StoreError>), StoreError> {
        disk.create_folder(folder)?;
        let lock = Lock::take(folder)?;
        let (log, intake, damage) = Log::open(&folder.join(LOG_FOLDER))?;
        let shelf = Arc::new(Shelf::open(folder, false)?);
        for part in &shelf.listing().parts {
            disk.remove(part)?;
        }
        let counts = Arc::<StoreCounts>::default();
        let has_rows = shelf.listing().units(Tier::Raw).next().is_some();
        if !has_rows && keep::begin(&shelf.tier_folder(Tier::Raw))? == Nanos(0) {
            log.forget_columns();
        }
        let compactor = Compactor::new(shelf.clone(), disk.clone(), keep, counts.clone(), log.bundler())?;
        let view = log.view();
        let store = Store {
            folder: folder.to_owned(),
            log: SharedLog { log: Mutex::new(log), view },
            shelf,
            counts,
            compactor: Mutex::new(compactor),
            segment_time: Mutex::new(segment_time(now)),
            segment_bytes: SEGMENT_BYTES.min(keep.size.0 / SEGMENT_SHARE),
            lock: Mutex::new(lock),
            disk,
        };
        Ok((store, intake, damage))
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes the rows that came since the last commit, and waits until they are on the disk. Every ten minutes it begins
    /// another segment, so that the present one can be made columns of.
    pub fn commit(&self, now: Nanos) -> Result<Commit, StoreError> {
        self.keep_lock()?;
        let mut log = self.log.lock();
        let done = log.commit()?;
        let mut time = self.segment_time.lock().unwrap_or_else(PoisonError::into_inner);
        if log.is_full(self.segment_bytes) || *time != segment_time(now) {
            *time = segment_time(now);
            log.seal();
        }
        Ok(done)
    }

    /// Begins another segment.
    pub fn seal(&self) {
        self.log.lock().seal();
    }

    /// Does at most one step of compaction: a segment, a roll-up, a merge, or the removal of data beyond the limits. It returns
    /// what it did, so that its thread can stop between two steps. After an error it rests for a minute.
    pub fn tick_compaction(&self, now: Nanos) -> Result<Tick, StoreError> {
        self.keep_lock()?;
        self.compactor.lock().unwrap_or_else(PoisonError::into_inner).tick(&self.log, now)
    }

    /// From now on so few blocks make a bundle. For tests.
    pub fn bundle_from(&self, least: usize) {
        self.compactor.lock().unwrap_or_else(PoisonError::into_inner).bundle_from(least);
    }

    /// If somebody has removed the folder or its lock, the store takes the lock again. If another process has it by then, this one
    /// stops writing.
    fn keep_lock(&self) -> Result<(), StoreError> {
        let mut lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        if !lock.is_in_place() {
            self.disk.create_folder(&self.folder)?;
            *lock = Lock::take(&self.folder)?;
        }
        Ok(())
    }

    /// Reads the column files.
    pub fn shelf(&self) -> &Arc<Shelf> {
        &self.shelf
    }

    /// Reads the log.
    pub fn log(&self) -> LogView {
        self.log.view.clone()
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.shelf.bytes() + self.log.lock().bytes()
    }

    /// The counters of compaction.
    pub fn counts(&self) -> &Arc<StoreCounts> {
        &self.counts
    }
}

/// Numbers the segments by the time for which they are.
fn segment_time(now: Nanos) -> u64 {
    now.0.saturating_sub(SEGMENT_DELAY.0) / SEGMENT_TIME.0
}

/// A store that another process may be writing: it is only read, without a lock.
#[derive(Debug)]
pub struct StoreReader {
    folder: PathBuf,
    shelf: Arc<Shelf>,
    log: LogView,
    damage: Vec<StoreError>,
}

impl StoreReader {
    /// Opens the store in a folder. It has the log as it is now, and for each question the newest column files.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        if folder.is_dir() && !folder.join(LOG_FOLDER).exists() {
            return Err(StoreError::NoStore { path: folder.to_owned() });
        }
        // The log first: rows that leave it from now on are found in column files too.
        let mut tries = 0;
        let (log, damage) = loop {
            match LogView::of(&folder.join(LOG_FOLDER)) {
                // A segment was removed after it was listed.
                Err(error) if error.is_missing() && tries < LISTING_TRIES => tries += 1,
                read => break read?,
            }
        };
        let shelf = Arc::new(Shelf::open(folder, true)?);
        Ok(StoreReader { folder: folder.to_owned(), shelf, log, damage })
    }

    /// Reads the column files.
    pub fn shelf(&self) -> &Arc<Shelf> {
        &self.shelf
    }

    /// Reads the log as it was when this was opened.
    pub fn log(&self) -> LogView {
        self.log.clone()
    }

    /// Reads every byte of every file, and says what is damaged, and what does not belong here.
    pub fn check(self) -> Result<Vec<StoreError>, StoreError> {
        let mut damage = LogView::check(&self.folder.join(LOG_FOLDER))?;
        damage.extend(self.shelf.check());
        Ok(damage)
    }

    /// The damage in the log.
    pub fn damage(&self) -> &[StoreError] {
        &self.damage
    }
}
