//! A machine that can lose its power. Then only synced bytes are left of the log, and each page of a file is in any state
//! since the last sync. The cache runs in the test's process.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use khz_rrdcached::log::{self, Appended, Disk, Left, Log, Storage};
use khz_rrdcached::{Base, Cache, Limits, Messages, Update};

use crate::oracle::{self, Oracle, Random};

/// How long a thread of the last daemon may take to end.
const PATIENCE: Duration = Duration::from_secs(30);

/// Bytes of a page.
pub const PAGE: usize = 4096;
/// The last second before the first update.
pub const START: i64 = 1_000_000_000;

/// What happens when a disk of files is synced.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
pub enum Sync {
    #[default]
    Done,
    /// The sync waits.
    Held,
    /// The next sync fails: some pages written since the last one are as they were before.
    Fails(u64),
}

/// The content of the disks.
#[derive(Default)]
pub struct Content {
    /// Appended and synced bytes of the log's segments.
    pub log: BTreeMap<PathBuf, (u64, u64)>,
    /// States of each file, the first of them synced.
    files: BTreeMap<PathBuf, Vec<Vec<u8>>>,
    pub sync: Sync,
    /// The log's disk is full.
    pub full: bool,
    /// A sync is held.
    holding: bool,
    /// Syncs of the disk that were begun.
    pub syncs: u64,
}

/// A disk that knows how much of it was synced.
#[derive(Default)]
pub struct Watched {
    content: Mutex<Content>,
    pub changed: Condvar,
}

struct WatchedFile {
    disk: Arc<Watched>,
    path: PathBuf,
    file: Arc<dyn Appended>,
}

struct OnWatched(Arc<Watched>);

impl Watched {
    pub fn lock(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap()
    }

    /// Notes the files as they are now.
    pub fn note(&self) {
        self.lock().note();
    }

    /// Ends the hold.
    pub fn let_go(&self) {
        self.lock().sync = Sync::Done;
        self.changed.notify_all();
    }

    /// Begins a checkpoint, holds it in the sync of the disk, and runs `meanwhile` with whether it got there. Then the
    /// sync does `then`.
    pub fn beside_checkpoint<T>(&self, cache: &Cache, then: Sync, meanwhile: impl FnOnce(bool) -> T) -> T {
        self.lock().sync = Sync::Held;
        std::thread::scope(|scope| {
            let checkpoint = scope.spawn(|| {
                cache.checkpoint();
                // There may have been nothing to sync.
                self.changed.notify_all();
            });
            let mut content = self.lock();
            while !content.holding && !checkpoint.is_finished() {
                content = self.changed.wait_timeout(content, Duration::from_millis(1)).unwrap().0;
            }
            let held = content.holding;
            drop(content);
            let done = meanwhile(held);
            self.lock().sync = if held { then } else { Sync::Done };
            self.changed.notify_all();
            checkpoint.join().unwrap();
            done
        })
    }
}

impl Content {
    fn room(&self) -> io::Result<()> {
        match self.full {
            true => Err(io::Error::from_raw_os_error(libc::ENOSPC)),
            false => Ok(()),
        }
    }

    /// Notes the files as they are now.
    fn note(&mut self) {
        for (path, states) in &mut self.files {
            // Tests move some away for a while.
            let Ok(now) = std::fs::read(path) else { continue };
            if states.last() != Some(&now) {
                states.push(now);
            }
        }
    }
}

impl Storage for OnWatched {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn Appended>> {
        self.0.lock().room()?;
        let file = Disk.create(path)?;
        self.0.lock().log.insert(path.into(), (0, 0));
        Ok(Arc::new(WatchedFile { disk: self.0.clone(), path: path.into(), file }))
    }

    fn sync_disk(&self, _file: &File) -> io::Result<()> {
        let mut content = self.0.lock();
        content.note();
        content.syncs += 1;
        // Pages written during the sync may or may not be on disk.
        let marks: Vec<usize> = content.files.values().map(|states| states.len() - 1).collect();
        while content.sync == Sync::Held {
            content.holding = true;
            self.0.changed.notify_all();
            content = self.0.changed.wait(content).unwrap();
        }
        content.holding = false;
        if let Sync::Fails(seed) = std::mem::take(&mut content.sync) {
            content.note();
            let mut random = Random::new(seed);
            for (path, states) in &mut content.files {
                std::fs::write(path, mixed(states, &mut random, 50)).unwrap();
            }
            content.note();
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        for (states, mark) in content.files.values_mut().zip(marks) {
            states.drain(..mark);
        }
        Ok(())
    }
}

impl Appended for WatchedFile {
    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        self.disk.lock().room()?;
        self.file.append(bytes)?;
        self.disk.lock().log.get_mut(&self.path).unwrap().0 += bytes.len() as u64;
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut content = self.disk.lock();
        let (appended, synced) = content.log.get_mut(&self.path).unwrap();
        *synced = *appended;
        self.disk.changed.notify_all();
        Ok(())
    }

    fn cut(&self, length: u64) -> io::Result<()> {
        self.file.cut(length)
    }
}

pub struct Machine {
    pub dir: PathBuf,
    pub disk: Arc<Watched>,
    pub window: Duration,
    pub limits: Limits,
    pub log_max: u64,
    /// The kernel's name for its boot.
    pub boot: String,
    boots: u32,
}

/// What is left after a loss of power.
pub struct Lost {
    log: Vec<(PathBuf, Vec<u8>)>,
    files: BTreeMap<PathBuf, Vec<Vec<u8>>>,
}

impl Machine {
    pub fn new(name: &str, window: Duration) -> Self {
        let dir = oracle::directory(name).canonicalize().unwrap();
        let limits = Limits { timeout: 1_000_000, open_max: 3, ..Limits::default() };
        Self { dir, disk: Arc::default(), window, limits, log_max: 1 << 30, boot: "boot 0".into(), boots: 0 }
    }

    pub fn file(&self, index: usize) -> PathBuf {
        self.dir.join(format!("{index}.rrd"))
    }

    pub fn name(&self, index: usize) -> String {
        self.file(index).to_str().unwrap().into()
    }

    /// Makes files whose header has several pages, rows of many, and a coarse archive whose state cannot be made up.
    pub fn make(&self, files: usize) {
        static MADE: OnceLock<Vec<u8>> = OnceLock::new();
        let made = MADE.get_or_init(|| {
            let more: Vec<String> = (2..60).map(|points| format!(" RRA:MAX:0.5:{points}:4")).collect();
            let line = format!(
                "create made.rrd -s 1 -b {START} DS:x:GAUGE:100000:U:U RRA:LAST:0.5:1:3000 RRA:AVERAGE:0:7:600{}",
                more.concat()
            );
            assert_eq!(Oracle::start(&self.dir).run(&line).error, None);
            let made = std::fs::read(self.dir.join("made.rrd")).unwrap();
            std::fs::remove_file(self.dir.join("made.rrd")).unwrap();
            made
        });
        for index in 0..files {
            std::fs::write(self.file(index), made).unwrap();
            self.synced(index);
        }
    }

    /// All of a file is on disk as it is.
    pub fn synced(&self, index: usize) {
        let now = std::fs::read(self.file(index)).unwrap();
        self.disk.lock().files.insert(self.file(index), vec![now]);
    }

    /// Starts, with the log still to be replayed.
    pub fn start(&self) -> (Cache, Left) {
        let settings = || log::Settings {
            directory: self.dir.join("log"),
            window: self.window,
            bytes_max: self.log_max,
            boot: self.boot.clone(),
            storage: Arc::new(OnWatched(self.disk.clone())),
        };
        let deadline = Instant::now() + PATIENCE;
        let (log, left) = loop {
            match Log::open(settings()) {
                // On a busy machine the last daemon's thread may not have ended yet.
                Err(why) if why.to_string().contains("another daemon") && Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                opened => break opened.unwrap(),
            }
        };
        let base = Base::new(&self.dir, false).unwrap();
        (Cache::new(base, self.limits, Some(log), true, Messages::none()), left)
    }

    pub fn started(&self) -> Cache {
        let (cache, left) = self.start();
        cache.replay(&left).unwrap();
        cache
    }

    pub fn update(&self, cache: &Cache, index: usize, time: i64) {
        let (file, samples) = (self.name(index), format!("{time}:{}", time % 1000));
        let update = Update { file: &file, samples: &samples };
        assert_eq!(cache.update(&[update]).remove(0).unwrap(), 1);
    }

    /// Writes what waits for a file; the disk may write it back at any time.
    pub fn flush(&self, cache: &Cache, index: usize) -> khz_rrd::error::Result<Option<()>> {
        let flushed = cache.flush(&self.name(index));
        self.disk.note();
        flushed
    }

    /// What will be left if the power goes now.
    pub fn loses(&self) -> Lost {
        let mut content = self.disk.lock();
        content.note();
        let log = std::fs::read_dir(self.dir.join("log")).unwrap();
        let log = log.map(|entry| {
            let path = entry.unwrap().path();
            let mut bytes = std::fs::read(&path).unwrap();
            // Segments of earlier lives are as they were found.
            bytes.truncate(content.log.get(&path).map_or(usize::MAX, |(_, synced)| *synced as usize));
            (path, bytes)
        });
        Lost { log: log.collect(), files: content.files.clone() }
    }

    /// The power is gone: each page is as it was at some time since the last sync.
    pub fn lose_power(&mut self, cache: Cache, random: &mut Random) {
        let lost = self.loses();
        self.lose(lost, cache, |states| mixed(states, random, 30));
    }

    /// The power is gone. Headers are on disk, and no row since the last sync.
    pub fn lose_rows(&mut self, cache: Cache) {
        let lost = self.loses();
        self.lose(lost, cache, |states| rows_lost(&states[0], &states[states.len() - 1]));
    }

    /// The power went when `lost` was left; of each file's states `pick` makes the one on disk.
    pub fn lose(&mut self, lost: Lost, cache: Cache, mut pick: impl FnMut(&[Vec<u8>]) -> Vec<u8>) {
        // The end of the cache writes, too; that is undone.
        drop(cache);
        for entry in std::fs::read_dir(self.dir.join("log")).unwrap() {
            std::fs::remove_file(entry.unwrap().path()).unwrap();
        }
        for (path, bytes) in lost.log {
            std::fs::write(path, bytes).unwrap();
        }
        let mut content = self.disk.lock();
        *content = Content::default();
        for (path, states) in lost.files {
            let picked = pick(&states);
            std::fs::write(&path, &picked).unwrap();
            content.files.insert(path, vec![picked]);
        }
        self.boots += 1;
        if !self.boot.is_empty() {
            self.boot = format!("boot {}", self.boots);
        }
    }
}

/// A file of which each page is as it was at some time since the last sync, or, by `chance` in a hundred, now.
pub fn mixed(states: &[Vec<u8>], random: &mut Random, chance: u64) -> Vec<u8> {
    let mut mixed = states[states.len() - 1].clone();
    for (index, page) in mixed.chunks_mut(PAGE).enumerate() {
        if !random.chance(chance) {
            let state = &states[random.below(states.len() as u64) as usize];
            page.copy_from_slice(&state[PAGE * index..][..page.len()]);
        }
    }
    mixed
}

/// Bytes of the file's header.
pub fn header_length(bytes: &[u8]) -> usize {
    let count = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
    let (sources, archives) = (count(24), count(32));
    128 + 120 * sources + 120 * archives + 16 + 112 * sources + 80 * sources * archives + 8 * archives
}

/// A file with the header of `new` and the rows of `old`.
pub fn rows_lost(old: &[u8], new: &[u8]) -> Vec<u8> {
    let header = header_length(new);
    [&new[..header], &old[header..]].concat()
}

/// A file whose writer was killed in the middle of the header: the rows are new, and of the header the first `pages`.
pub fn half_written(old: &[u8], new: &[u8], pages: usize) -> Vec<u8> {
    let (cut, header) = (pages * PAGE, header_length(new));
    assert!(cut < header, "the header has {header} bytes");
    [&new[..cut], &old[cut..header], &new[header..]].concat()
}

/// The coarse rows must be those of a file that saw every second.
pub fn check_coarse(path: &Path, last: i64) {
    if last < START + 20 {
        return;
    }
    let rrd = khz_rrd::file::Rrd::open(path, khz_rrd::file::Access::Read).unwrap();
    let fetched =
        khz_rrd::fetch::fetch(&rrd, khz_rrd::rra::Function::Average, START + 10, last - 8, 7).unwrap();
    for (row, value) in fetched.values.iter().enumerate().filter(|(_, value)| !value.is_nan()) {
        let end = fetched.start + (row as i64 + 1) * 7;
        let wanted = (end - 6..=end).map(|time| (time % 1000) as f64).sum::<f64>() / 7.0;
        assert!((value - wanted).abs() < 1e-6, "{}: {value} instead of {wanted} at {end}", path.display());
    }
}
