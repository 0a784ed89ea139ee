//! Logs on disks that fill up, fail to sync, or are as they should be.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;

fn settings(name: &str, storage: Arc<dyn Storage>) -> Settings {
    let directory = std::env::temp_dir().join(format!("khz-rrd-log-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&directory);
    Settings { directory, window: Duration::ZERO, bytes_max: 1 << 30, boot: "b".into(), storage }
}

fn put(log: &Log, file: &str) -> Result<()> {
    log.commit(log.stage(&Record::Update { file, samples: "1:2" })?)
}

fn found(settings: &Settings) -> Vec<String> {
    let (_, left) = Log::open(settings.clone()).unwrap();
    let mut files = vec![];
    let damage = left.replay(|_, records| {
        files.extend(records.filter_map(|record| match record {
            Record::Update { file, .. } => Some(file.to_string()),
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
    assert_eq!(log.oldest(), Segment::FIRST);
    log.remove_before(Segment::FIRST.next());
    put(&log, "c").unwrap();
    drop(log);
    assert_eq!(found(&settings), ["b", "c"]);
    std::fs::remove_dir_all(&settings.directory).unwrap();
}

/// A disk with room for some bytes.
pub struct Small(pub Arc<AtomicU64>);

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
    let large = |log: &Log| log.commit(log.stage(&Record::Update { file: "a", samples: &samples })?);
    (0..17).for_each(|_| large(&log).unwrap());
    let error = put(&log, "b").unwrap_err().to_string();
    assert!(error.ends_with("could not be synced: Input/output error"), "{error}");
    assert_eq!(syncs.load(Ordering::Relaxed), 1);
    // The kernel says that all is well now, and it is not.
    for _ in 0..3 {
        assert_eq!(put(&log, "c").unwrap_err().to_string(), error);
        assert_eq!(log.sync_all().unwrap_err().to_string(), error);
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
    let ticket = log.stage(&Record::Update { file: "b", samples: "1:2" }).unwrap();
    log.rotate().unwrap();
    log.commit(ticket).unwrap();
    drop(log);
    let (_, left) = Log::open(settings.clone()).unwrap();
    let mut firsts = vec![];
    let take = |_: Segment, records: &mut Records<'_>| {
        firsts.push(matches!(records.next(), Some(Record::Boot { id: "b" })));
        records.for_each(drop);
    };
    left.replay(take).unwrap();
    assert_eq!(firsts, [true, true]);
    std::fs::remove_dir_all(&settings.directory).unwrap();
}

#[test]
fn a_log_that_takes_nothing_can_still_be_cleared() {
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

#[test]
fn a_failed_write_is_told_to_those_who_staged_for_it_and_to_nobody_else() {
    let room = Arc::new(AtomicU64::new(1 << 20));
    let settings = settings("told", Arc::new(Small(room.clone())));
    let (log, _) = Log::open(settings.clone()).unwrap();
    let staged = |file| log.stage(&Record::Update { file, samples: "1:2" }).unwrap();
    let before = staged("a");
    log.commit(before).unwrap();
    let lost = [staged("b"), staged("c")];
    room.store(0, Ordering::Relaxed);
    assert!(log.commit(lost[1]).is_err() && log.commit(lost[0]).is_err());
    room.store(1 << 20, Ordering::Relaxed);
    let between = staged("d");
    log.commit(between).unwrap();
    room.store(0, Ordering::Relaxed);
    let lost_later = staged("e");
    assert!(log.commit(lost_later).is_err());
    for ticket in [before, between] {
        log.commit(ticket).unwrap();
    }
    for ticket in [lost[0], lost[1], lost_later] {
        assert!(log.commit(ticket).is_err());
    }
    // Old failures are forgotten: those who staged for them have asked.
    for turn in 0..600 {
        room.store(if turn % 2 == 0 { 1 << 20 } else { 0 }, Ordering::Relaxed);
        assert_eq!(log.commit(staged("f")).is_ok(), turn % 2 == 0);
    }
    assert_eq!(lock(&log.shared.tail).lost.len(), 256);
    room.store(1 << 20, Ordering::Relaxed);
    drop(log);
    let found = found(&settings);
    assert_eq!((found[0].as_str(), found[1].as_str(), found.len()), ("a", "d", 302));
    std::fs::remove_dir_all(&settings.directory).unwrap();
}

#[test]
fn a_segment_ends_at_an_eighth_of_the_log() {
    let mut settings = settings("eighth", Arc::new(Disk));
    settings.bytes_max = 8000;
    let (log, _) = Log::open(settings.clone()).unwrap();
    while log.counts().rotations < 3 {
        assert!(log.bytes() < settings.bytes_max, "no segment has ended");
        put(&log, "a").unwrap();
    }
    let length = |number| {
        let segment = Segment::new(number).unwrap();
        std::fs::metadata(segment.path(&settings.directory)).unwrap().len()
    };
    for number in 1..=3 {
        assert!((1000..1100).contains(&length(number)), "{number}: {}", length(number));
    }
    drop(log);
    std::fs::remove_dir_all(&settings.directory).unwrap();
}

#[test]
fn a_log_takes_what_fills_it_to_its_limit_and_not_a_byte_more() {
    let mut settings = settings("brim", Arc::new(Disk));
    settings.bytes_max = 1000;
    let (log, _) = Log::open(settings.clone()).unwrap();
    put(&log, "a").unwrap();
    let left = settings.bytes_max - log.bytes();
    assert!(log.admit(left).is_ok() && log.admit(left + 1).is_err());
    drop(log);
    std::fs::remove_dir_all(&settings.directory).unwrap();
}
