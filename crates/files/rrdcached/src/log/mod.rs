//! The daemon's durable log: records in numbered segments; knows no `.rrd` file.
//!
//! - A thread that holds the lock on the daemon's state **stages** records, which fixes their order. After it has
//!   released the lock it **commits**, and only then answers.
//! - The first to commit writes what all have staged. So a hundred connections share a system call, and with a window of
//!   zero a sync.
//! - A thread of its own syncs within the window.
//! - No record says that a file was written. Replay offers everything that is left, and an `.rrd` file skips what it has.
//! - A segment goes when all its updates are in files **and** those files are synced.

mod commit;
mod left;
mod presence;
mod record;
mod segment;
mod storage;

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;

use khz_rrd::error::{Error, Result, refused};

pub use left::Left;
use presence::Gone;
pub use record::{Image, Record, Records, WITHOUT_END, encode, records};
pub use segment::Segment;
pub use storage::{Appended, Disk, Storage};

/// How to keep a log.
#[derive(Clone)]
pub struct Settings {
    /// Where the segments lie.
    pub directory: PathBuf,
    /// How long a record may be unsynced; zero syncs before each answer.
    pub window: Duration,
    /// Bytes of all segments; beyond it nothing is taken.
    pub bytes_max: u64,
    /// The machine's boot, as the kernel names it.
    pub boot: String,
    /// What makes files.
    pub storage: Arc<dyn Storage>,
}

/// The log.
pub struct Log {
    shared: Arc<Shared>,
    syncer: Option<std::thread::JoinHandle<()>>,
    /// The directory, locked for as long as this lives.
    directory: Mutex<File>,
}

/// A place in the log: everything staged up to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(u64);

/// The shared state of the log's threads; each part has its lock.
struct Shared {
    settings: Settings,
    outbox: Mutex<Outbox>,
    tail: Mutex<Tail>,
    synced: Mutex<Synced>,
    /// Held during a sync. Threads that wait for it share the next sync.
    syncing: Mutex<()>,
    /// Something is to be synced, or the log ends.
    changed: Condvar,
    /// The number of the segment that grows.
    current: AtomicU32,
    refusal: Mutex<Option<Refusal>>,
    /// Why no segment goes any more, whatever is in files.
    kept: Mutex<Option<String>>,
    /// Why no further segment could begin at the last attempt, if so: the open one grows on.
    stuck: Mutex<Option<String>>,
    /// Why a restart would not find all of the log, if so.
    gone: Mutex<Option<Gone>>,
}

/// Records staged and not yet written.
#[derive(Default)]
struct Outbox {
    bytes: Vec<u8>,
    /// Bytes ever staged.
    staged: u64,
}

/// The segment that grows.
struct Tail {
    segment: Arc<dyn Appended>,
    length: u64,
    /// How many of the bytes ever staged were written or given up.
    written: u64,
    lost: VecDeque<Lost>,
    /// An empty buffer, to be used again.
    spare: Vec<u8>,
    /// Bytes of each segment.
    sizes: BTreeMap<Segment, u64>,
    /// Bytes written since the start.
    appended: u64,
    /// Segments begun since the start.
    rotations: u64,
}

/// Staged bytes that were given up.
struct Lost {
    from: u64,
    upto: u64,
    why: String,
}

/// How far the log is synced.
#[derive(Default)]
struct Synced {
    upto: u64,
    /// When the oldest unsynced byte was written.
    unsynced_since: Option<Instant>,
    stopping: bool,
}

/// Why nothing is taken.
struct Refusal {
    /// When it is tried again; never, where a sync failed.
    until: Option<Instant>,
    why: String,
}

/// The log's counters since the start.
#[derive(Debug, Default, Clone, Copy)]
pub struct Counts {
    /// Bytes written.
    pub bytes: u64,
    /// Segments begun.
    pub rotations: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A thread that died holding one left whole values: every change is made of assignments that stand alone.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Tail {
    fn new(segment: Arc<dyn Appended>, sizes: BTreeMap<Segment, u64>) -> Self {
        let (lost, spare) = (VecDeque::new(), vec![]);
        Self { segment, length: 0, written: 0, lost, spare, sizes, appended: 0, rotations: 0 }
    }
}

impl Shared {
    fn new(settings: Settings, current: Segment, tail: Tail) -> Self {
        Self {
            settings,
            outbox: Mutex::default(),
            tail: Mutex::new(tail),
            synced: Mutex::default(),
            syncing: Mutex::new(()),
            changed: Condvar::new(),
            current: AtomicU32::new(current.number()),
            refusal: Mutex::default(),
            kept: Mutex::default(),
            stuck: Mutex::default(),
            gone: Mutex::default(),
        }
    }
}

impl Log {
    /// Opens the log with a new segment; what is left of older ones is to be replayed.
    ///
    /// # Errors
    /// The system's error, or another daemon has the directory.
    pub fn open(settings: Settings) -> Result<(Self, Left)> {
        let directory = settings.directory.clone();
        let failed = |action| move |error| Error::io(action, directory.clone(), error);
        std::fs::create_dir_all(&settings.directory).map_err(failed.clone()("creating"))?;
        let locked = lock_directory(&settings.directory)?;
        let (left, mut sizes) = Left::find(&settings.directory)?;
        // Never appended to an old segment: records after a torn one would be found only by searching.
        let current = sizes.keys().next_back().map_or(Segment::FIRST, |last| last.next());
        let segment = settings.storage.create(&current.path(&settings.directory));
        let segment = segment.map_err(failed.clone()("creating a file in"))?;
        sizes.insert(current, 0);
        let shared = Arc::new(Shared::new(settings, current, Tail::new(segment, sizes)));
        let syncing = shared.clone();
        let syncer =
            std::thread::Builder::new().name("khz-rrd-sync".into()).spawn(move || syncing.sync_loop());
        let syncer = Some(syncer.map_err(failed("starting a thread for"))?);
        Ok((Self { shared, syncer, directory: Mutex::new(locked) }, left))
    }

    /// Whether updates of `bytes` can be taken now.
    ///
    /// # Errors
    /// Why not: the log is full, or its disk failed.
    pub fn admit(&self, bytes: u64) -> Result<()> {
        if let Some(refusal) = &*lock(&self.shared.refusal)
            && refusal.until.is_none_or(|until| Instant::now() < until)
        {
            return refused(refusal.why.clone());
        }
        if let Some(gone) = self.gone().filter(|gone| gone.is_lost) {
            return refused(gone.why);
        }
        let (held, most) = (self.bytes(), self.shared.settings.bytes_max);
        if held + bytes > most {
            let why = self.stays().map_or(String::new(), |why| format!("; {why}"));
            return refused(format!(
                "the log holds {held} bytes not yet in their files; at most {most}{why}"
            ));
        }
        Ok(())
    }

    /// Stages `record`; its order among all is fixed when this returns.
    ///
    /// # Errors
    /// It is too large for a record.
    pub fn stage(&self, record: &Record<'_>) -> Result<Ticket> {
        let mut outbox = lock(&self.shared.outbox);
        let before = outbox.bytes.len();
        record::encode(record, &mut outbox.bytes)?;
        outbox.staged += (outbox.bytes.len() - before) as u64;
        Ok(Ticket(outbox.staged))
    }

    /// Stages records encoded before, as [`Log::stage`] does one. They are taken out of `records`.
    pub fn stage_all(&self, records: &mut Vec<u8>) -> Ticket {
        let mut outbox = lock(&self.shared.outbox);
        outbox.staged += records.len() as u64;
        match outbox.bytes.is_empty() {
            true => std::mem::swap(&mut outbox.bytes, records),
            false => outbox.bytes.extend_from_slice(records),
        }
        records.clear();
        Ticket(outbox.staged)
    }

    /// Returns when everything up to `ticket` survives the process, and with a window of zero the machine.
    ///
    /// # Errors
    /// The disk failed; what was staged is not in the log.
    pub fn commit(&self, ticket: Ticket) -> Result<()> {
        self.shared.write_up_to(ticket)?;
        match self.shared.settings.window.is_zero() {
            true => self.shared.sync_up_to(ticket),
            false => Ok(()),
        }
    }

    /// Returns when everything up to `ticket` survives the machine.
    ///
    /// # Errors
    /// As [`Log::commit`].
    pub fn sync_up_to(&self, ticket: Ticket) -> Result<()> {
        self.shared.write_up_to(ticket)?;
        self.shared.sync_up_to(ticket)
    }

    /// Returns when everything staged survives the machine.
    ///
    /// # Errors
    /// As [`Log::commit`].
    pub fn sync_all(&self) -> Result<()> {
        let ticket = Ticket(lock(&self.shared.outbox).staged);
        self.sync_up_to(ticket)
    }

    /// The segment that grows. Records staged from now on lie in it or in a later one.
    pub fn current(&self) -> Segment {
        self.shared.current()
    }

    /// Begins a new segment if the current one has content, so that old ones can go.
    ///
    /// # Errors
    /// What the system says.
    pub fn rotate(&self) -> Result<()> {
        let mut tail = lock(&self.shared.tail);
        if tail.length == 0 {
            return Ok(());
        }
        self.shared.rotate(&mut tail)
    }

    /// Removes the segments before `first`, the oldest first: a Forget must not go before the samples that it drops.
    pub fn remove_before(&self, first: Segment) {
        let mut tail = lock(&self.shared.tail);
        let kept = tail.sizes.split_off(&first.min(self.current()));
        std::mem::replace(&mut tail.sizes, kept).into_keys().for_each(|segment| self.remove(segment));
    }

    /// Removes everything, where all of it is in files and no checkpoint could be logged; whether that is done. The newest
    /// segment goes first: an image must not outlive the samples that were written after it.
    pub fn clear(&self) -> bool {
        let mut tail = lock(&self.shared.tail);
        let mut gone = std::mem::take(&mut tail.sizes);
        if self.shared.stopped().is_none() {
            if tail.length > 0 && self.shared.rotate(&mut tail).is_err() {
                tail.sizes = gone;
                return false;
            }
            gone.remove(&self.current());
            tail.sizes.insert(self.current(), 0);
        }
        drop(tail);
        gone.into_keys().rev().for_each(|segment| self.remove(segment));
        true
    }

    fn remove(&self, segment: Segment) {
        // A segment that stays is replayed once more, to no effect.
        let _ = std::fs::remove_file(segment.path(&self.shared.settings.directory));
    }

    /// Keeps all segments from now on, since data in files may be lost. A restart puts it back.
    pub fn keep_all(&self, why: String) {
        lock(&self.shared.kept).get_or_insert(why);
    }

    /// Why no segment goes any more.
    pub fn kept(&self) -> Option<String> {
        lock(&self.shared.kept).clone()
    }

    /// What makes files.
    pub fn storage(&self) -> &dyn Storage {
        &*self.shared.settings.storage
    }

    /// The oldest segment.
    pub fn oldest(&self) -> Segment {
        let oldest = lock(&self.shared.tail).sizes.keys().next().copied();
        oldest.unwrap_or_else(|| self.current())
    }

    /// Bytes of all segments, and of what is staged.
    pub fn bytes(&self) -> u64 {
        let staged = lock(&self.shared.outbox).bytes.len() as u64;
        lock(&self.shared.tail).sizes.values().sum::<u64>() + staged
    }

    /// Bytes the segments may have.
    pub fn bytes_max(&self) -> u64 {
        self.shared.settings.bytes_max
    }

    /// The log's counters since the start.
    pub fn counts(&self) -> Counts {
        let tail = lock(&self.shared.tail);
        Counts { bytes: tail.appended, rotations: tail.rotations }
    }

    /// Why the log takes nothing at present, or lets nothing go.
    pub fn trouble(&self) -> Option<String> {
        let refusal = lock(&self.shared.refusal).as_ref().map(|refusal| refusal.why.clone());
        refusal.or_else(|| self.gone().map(|gone| gone.why)).or_else(|| self.stays())
    }

    /// Why segments stay that could go.
    fn stays(&self) -> Option<String> {
        self.kept().or_else(|| lock(&self.shared.stuck).clone())
    }

    /// The machine's boot.
    pub fn boot(&self) -> &str {
        &self.shared.settings.boot
    }
}

/// Locks the log's directory for this daemon: another one would take the growing segment for one that an earlier run left,
/// and remove it. The kernel releases the lock when the process ends, however it ends.
fn lock_directory(directory: &Path) -> Result<File> {
    let file = File::open(directory).map_err(|error| Error::io("opening", directory, error))?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => refused(format!(
            "another daemon has its log in '{}'; each needs a directory of its own",
            directory.display()
        )),
        Err(error) => Err(Error::io("locking", directory, error.into())),
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let _ = self.sync_all();
        lock(&self.shared.synced).stopping = true;
        self.shared.changed.notify_all();
        if let Some(syncer) = self.syncer.take() {
            let _ = syncer.join();
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
