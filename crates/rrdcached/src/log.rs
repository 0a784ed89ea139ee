//! The daemon's durable log: records in numbered segments; knows no `.rrd` file.
//!
//! Whoever holds the daemon's state stages records, which fixes their order; after letting go of it he commits, and
//! only then answers. The first to commit writes what all have staged, so that a hundred connections share a system
//! call, and with a window of zero a sync. A thread of its own syncs within the window. There is no record of files
//! written: replay offers everything that is left, and an `.rrd` file passes over what it has. A segment goes when
//! all its updates are in files **and** those files are synced.

use std::collections::VecDeque;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;

use crate::commit::{Shared, Synced, Tail, lock, path};
use crate::left::Left;
use crate::record::{self, Entry};
use crate::storage::Storage;
use khz_rrd::error::{Error, Result, refused};

/// What a segment's name begins with.
pub(super) const PREFIX: &str = "khz.log.";

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
    pub(super) shared: Arc<Shared>,
    syncer: Option<std::thread::JoinHandle<()>>,
    /// The directory, locked for as long as this lives.
    pub(super) directory: Mutex<File>,
}

/// A place in the log: everything staged up to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub(super) u64);

impl Log {
    /// Opens the log with a new segment; what is left of older ones is to be replayed.
    ///
    /// # Errors
    /// What the system says, or another daemon has the directory.
    pub fn open(settings: Settings) -> Result<(Self, Left)> {
        let directory = settings.directory.clone();
        let failed = |action| move |error| Error::io(action, directory.clone(), error);
        std::fs::create_dir_all(&settings.directory).map_err(failed.clone()("creating"))?;
        let locked = lock_directory(&settings.directory)?;
        let (left, mut sizes) = Left::find(&settings.directory)?;
        // Never appended to an old segment: behind a torn record nothing would be found again.
        let current: u32 = sizes.keys().next_back().map_or(1, |number| number + 1);
        let segment = settings.storage.create(&path(&settings.directory, current));
        let segment = segment.map_err(failed.clone()("creating a file in"))?;
        sizes.insert(current, 0);
        let tail = Tail {
            segment,
            length: 0,
            written: 0,
            lost: VecDeque::new(),
            spare: vec![],
            sizes,
            appended: 0,
            rotations: 0,
        };
        let shared = Arc::new(Shared {
            settings,
            outbox: Mutex::default(),
            tail: Mutex::new(tail),
            synced: Mutex::new(Synced { upto: 0, dirty: None, stopping: false }),
            syncing: Mutex::new(()),
            changed: Condvar::new(),
            current: AtomicU32::new(current),
            refusing: Mutex::new(None),
            kept: Mutex::new(None),
            gone: Mutex::new(None),
        });
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
        if let Some((until, why)) = &*lock(&self.shared.refusing)
            && until.is_none_or(|until| Instant::now() < until)
        {
            return refused(why.clone());
        }
        if let Some(gone) = self.gone().filter(|gone| gone.is_lost) {
            return refused(gone.why);
        }
        let (held, most) = (self.bytes(), self.shared.settings.bytes_max);
        if held + bytes > most {
            let why = self.kept().map_or(String::new(), |why| format!("; {why}"));
            return refused(format!(
                "the log holds {held} bytes not yet in their files; at most {most}{why}"
            ));
        }
        Ok(())
    }

    /// Stages `entry`; its order among all is fixed when this returns.
    ///
    /// # Errors
    /// It is too large for a record.
    pub fn stage(&self, entry: &Entry<'_>) -> Result<Ticket> {
        let mut outbox = lock(&self.shared.outbox);
        let before = outbox.bytes.len();
        record::encode(entry, &mut outbox.bytes)?;
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
    pub fn harden(&self, ticket: Ticket) -> Result<()> {
        self.shared.write_up_to(ticket)?;
        self.shared.sync_up_to(ticket)
    }

    /// Returns when everything staged survives the machine.
    ///
    /// # Errors
    /// As [`Log::commit`].
    pub fn harden_all(&self) -> Result<()> {
        let ticket = Ticket(lock(&self.shared.outbox).staged);
        self.harden(ticket)
    }

    /// The segment that grows. Records staged from now on lie in it or in a later one.
    pub fn current(&self) -> u32 {
        self.shared.current.load(Ordering::Acquire)
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

    /// Removes the segments before `first`, the oldest first: what was forgotten must not come back because its end
    /// went before its beginning.
    pub fn remove_before(&self, first: u32) {
        let mut tail = lock(&self.shared.tail);
        let kept = tail.sizes.split_off(&first.min(self.current()));
        std::mem::replace(&mut tail.sizes, kept).into_keys().for_each(|number| self.remove(number));
    }

    /// Removes everything, where all of it is in files and no checkpoint could be logged; whether that is done. The newest
    /// goes first: a header must not outlive the samples that were written after it.
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
        gone.into_keys().rev().for_each(|number| self.remove(number));
        true
    }

    fn remove(&self, number: u32) {
        // A segment that stays is replayed once more, to no effect.
        let _ = std::fs::remove_file(path(&self.shared.settings.directory, number));
    }

    /// From now on no segment goes: what was written to files may be lost. A restart puts it back.
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
    pub fn oldest(&self) -> u32 {
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

    /// Bytes written since the start, and segments begun.
    pub fn counts(&self) -> (u64, u64) {
        let tail = lock(&self.shared.tail);
        (tail.appended, tail.rotations)
    }

    /// Why the log takes nothing at present, or lets nothing go.
    pub fn trouble(&self) -> Option<String> {
        let refusing = lock(&self.shared.refusing).as_ref().map(|(_, why)| why.clone());
        refusing.or_else(|| self.gone().map(|gone| gone.why)).or_else(|| self.kept())
    }

    /// The machine's boot.
    pub fn boot(&self) -> &str {
        &self.shared.settings.boot
    }
}

/// Has the log's directory for this daemon alone: another one would take the segments that grow here for what an earlier
/// run left, and remove them. The kernel lets go of the lock when the process ends, however it does.
pub(super) fn lock_directory(directory: &Path) -> Result<File> {
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
        let _ = self.harden_all();
        lock(&self.shared.synced).stopping = true;
        self.shared.changed.notify_all();
        if let Some(syncer) = self.syncer.take() {
            let _ = syncer.join();
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::io;
    use std::sync::atomic::AtomicU64;

    use super::*;
    use crate::storage::{Appended, Disk};

    fn settings(name: &str, storage: Arc<dyn Storage>) -> Settings {
        let directory = std::env::temp_dir().join(format!("khz-rrd-log-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&directory);
        Settings { directory, window: Duration::ZERO, bytes_max: 1 << 30, boot: "b".into(), storage }
    }

    fn put(log: &Log, file: &str) -> Result<()> {
        log.commit(log.stage(&Entry::Update { file, samples: "1:2" })?)
    }

    fn found(settings: &Settings) -> Vec<String> {
        let (_, left) = Log::open(settings.clone()).unwrap();
        let mut files = vec![];
        let damage = left.replay(|_, records| {
            files.extend(records.filter_map(|entry| match entry {
                Entry::Update { file, .. } => Some(file.to_string()),
                _ => None,
            }));
        });
        assert_eq!(damage.unwrap(), Vec::<String>::new());
        files
    }

    #[test]
    fn what_was_committed_is_found_again_until_its_segment_goes() {
        let settings = settings("found", Arc::new(Disk));
        let (log, left) = Log::open(settings.clone()).unwrap();
        assert!(left.is_empty());
        put(&log, "a").unwrap();
        log.rotate().unwrap();
        put(&log, "b").unwrap();
        drop(log);
        assert_eq!(found(&settings), ["a", "b"]);
        let (log, _) = Log::open(settings.clone()).unwrap();
        assert_eq!(log.oldest(), 1);
        log.remove_before(2);
        put(&log, "c").unwrap();
        drop(log);
        assert_eq!(found(&settings), ["b", "c"]);
        std::fs::remove_dir_all(&settings.directory).unwrap();
    }

    /// A disk with room for some bytes.
    pub(crate) struct Small(pub(crate) Arc<AtomicU64>);

    struct SmallFile(Arc<dyn Appended>, Arc<AtomicU64>);

    impl Storage for Small {
        fn create(&self, path: &Path) -> io::Result<Arc<dyn Appended>> {
            Ok(Arc::new(SmallFile(Disk.create(path)?, self.0.clone())))
        }
    }

    impl Appended for SmallFile {
        fn append(&self, bytes: &[u8]) -> io::Result<()> {
            let room = self.1.load(Ordering::Relaxed);
            let fits = bytes.len().min(room as usize);
            self.0.append(&bytes[..fits])?;
            self.1.store(room - fits as u64, Ordering::Relaxed);
            if fits < bytes.len() { Err(io::Error::from_raw_os_error(libc::ENOSPC)) } else { Ok(()) }
        }
        fn sync(&self) -> io::Result<()> {
            self.0.sync()
        }
        fn cut(&self, length: u64) -> io::Result<()> {
            self.0.cut(length)
        }
    }

    #[test]
    fn a_full_disk_refuses_what_it_cannot_hold_and_takes_again_when_there_is_room() {
        let room = Arc::new(AtomicU64::new(40));
        let settings = settings("full", Arc::new(Small(room.clone())));
        let (log, _) = Log::open(settings.clone()).unwrap();
        put(&log, "a").unwrap();
        let error = put(&log, "b").unwrap_err().to_string();
        assert!(error.ends_with("cannot be written: No space left on device"), "{error}");
        assert!(log.admit(1).is_err() && log.trouble().is_some());
        room.store(1000, Ordering::Relaxed);
        put(&log, "c").unwrap();
        assert!(log.admit(1).is_ok() && log.trouble().is_none());
        drop(log);
        assert_eq!(found(&settings), ["a", "c"]);
        std::fs::remove_dir_all(&settings.directory).unwrap();
    }

    struct NoSync;

    struct NoSyncFile(Arc<dyn Appended>);

    impl Storage for NoSync {
        fn create(&self, path: &Path) -> io::Result<Arc<dyn Appended>> {
            Ok(Arc::new(NoSyncFile(Disk.create(path)?)))
        }
    }

    impl Appended for NoSyncFile {
        fn append(&self, bytes: &[u8]) -> io::Result<()> {
            self.0.append(bytes)
        }
        fn sync(&self) -> io::Result<()> {
            Err(io::Error::from_raw_os_error(libc::EIO))
        }
        fn cut(&self, length: u64) -> io::Result<()> {
            self.0.cut(length)
        }
    }

    #[test]
    fn after_a_failed_sync_nothing_is_promised_any_more() {
        let settings = settings("nosync", Arc::new(NoSync));
        let (log, _) = Log::open(settings.clone()).unwrap();
        let error = put(&log, "a").unwrap_err().to_string();
        assert!(error.ends_with("could not be synced: Input/output error"), "{error}");
        assert_eq!(log.admit(1).unwrap_err().to_string(), error);
        drop(log);
        std::fs::remove_dir_all(&settings.directory).unwrap();
    }

    /// A disk whose first sync fails.
    struct OneFails(Arc<AtomicU64>);

    struct OneFailsFile(Arc<dyn Appended>, Arc<AtomicU64>);

    impl Storage for OneFails {
        fn create(&self, path: &Path) -> io::Result<Arc<dyn Appended>> {
            Ok(Arc::new(OneFailsFile(Disk.create(path)?, self.0.clone())))
        }
    }

    impl Appended for OneFailsFile {
        fn append(&self, bytes: &[u8]) -> io::Result<()> {
            self.0.append(bytes)
        }
        fn sync(&self) -> io::Result<()> {
            match self.1.fetch_add(1, Ordering::Relaxed) {
                0 => Err(io::Error::from_raw_os_error(libc::EIO)),
                _ => self.0.sync(),
            }
        }
        fn cut(&self, length: u64) -> io::Result<()> {
            self.0.cut(length)
        }
    }

    #[test]
    fn a_sync_that_failed_when_a_segment_was_full_is_not_forgotten() {
        let syncs = Arc::new(AtomicU64::new(0));
        let mut settings = settings("rotation", Arc::new(OneFails(syncs.clone())));
        settings.window = Duration::from_secs(3600);
        let (log, _) = Log::open(settings.clone()).unwrap();
        // More than a segment, in records as large as they may be.
        let samples = "1".repeat((4 << 20) - 100);
        let large = |log: &Log| log.commit(log.stage(&Entry::Update { file: "a", samples: &samples })?);
        (0..17).for_each(|_| large(&log).unwrap());
        let error = put(&log, "b").unwrap_err().to_string();
        assert!(error.ends_with("could not be synced: Input/output error"), "{error}");
        assert_eq!(syncs.load(Ordering::Relaxed), 1);
        // The kernel says that all is well now, and it is not.
        for _ in 0..3 {
            assert_eq!(put(&log, "c").unwrap_err().to_string(), error);
            assert_eq!(log.harden_all().unwrap_err().to_string(), error);
            assert_eq!(log.admit(1).unwrap_err().to_string(), error);
        }
        drop(log);
        std::fs::remove_dir_all(&settings.directory).unwrap();
    }

    #[test]
    fn a_segment_begins_with_its_boot_whatever_was_staged_before() {
        let mut settings = settings("boots", Arc::new(Disk));
        settings.window = Duration::from_secs(3600);
        let (log, _) = Log::open(settings.clone()).unwrap();
        put(&log, "a").unwrap();
        let ticket = log.stage(&Entry::Update { file: "b", samples: "1:2" }).unwrap();
        log.rotate().unwrap();
        log.commit(ticket).unwrap();
        drop(log);
        let (_, left) = Log::open(settings.clone()).unwrap();
        let mut firsts = vec![];
        let take = |_: u32, records: &mut record::Records<'_>| {
            firsts.push(matches!(records.next(), Some(Entry::Boot { id: "b" })));
            records.for_each(drop);
        };
        left.replay(take).unwrap();
        assert_eq!(firsts, [true, true]);
        std::fs::remove_dir_all(&settings.directory).unwrap();
    }

    #[test]
    fn a_log_is_cleared_also_where_it_takes_nothing_any_more() {
        for stopped in [false, true] {
            let syncs = Arc::new(AtomicU64::new(u64::from(!stopped)));
            let settings = settings("cleared", Arc::new(OneFails(syncs)));
            let (log, _) = Log::open(settings.clone()).unwrap();
            assert_eq!(put(&log, "a").is_err(), stopped);
            assert!(log.clear());
            drop(log);
            assert_eq!(found(&settings), Vec::<String>::new());
            std::fs::remove_dir_all(&settings.directory).unwrap();
        }
    }

    #[test]
    fn a_directory_is_one_logs_alone_while_it_lives() {
        let settings = settings("alone", Arc::new(Disk));
        let (log, _) = Log::open(settings.clone()).unwrap();
        let Err(error) = Log::open(settings.clone()) else { panic!("two logs in one directory") };
        let told = format!("another daemon has its log in '{}'", settings.directory.display());
        assert!(error.to_string().starts_with(&told), "{error}");
        drop(log);
        drop(Log::open(settings.clone()).unwrap());
        std::fs::remove_dir_all(&settings.directory).unwrap();
    }

    #[test]
    fn a_log_at_its_limit_says_how_full_it_is() {
        let mut settings = settings("limit", Arc::new(Disk));
        settings.bytes_max = 100;
        let (log, _) = Log::open(settings.clone()).unwrap();
        put(&log, "a").unwrap();
        let error = log.admit(90).unwrap_err().to_string();
        assert!(error.contains("not yet in their files; at most 100"), "{error}");
        drop(log);
        std::fs::remove_dir_all(&settings.directory).unwrap();
    }
}
