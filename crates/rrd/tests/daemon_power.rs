//! Losing power: only what was synced is left, of the log and of the files, and the kernel may have written any page of
//! a file before any other. Every update acknowledged within the promise is found nevertheless.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod oracle;
mod served;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use khz_rrd::daemon::base::Base;
use khz_rrd::daemon::left;
use khz_rrd::daemon::log::{self, Log};
use khz_rrd::daemon::messages::Messages;
use khz_rrd::daemon::pending::{Limits, Pending, Update};
use khz_rrd::daemon::storage::{Appended, Disk, Storage};
use oracle::Random;
use served::check;

/// Bytes of a page.
const PAGE: usize = 4096;

/// A disk that knows how much of each file was synced.
#[derive(Default)]
struct Watched {
    /// Appended and synced bytes by path.
    files: Mutex<BTreeMap<PathBuf, (u64, u64)>>,
    changed: Condvar,
}

struct WatchedFile {
    disk: Arc<Watched>,
    path: PathBuf,
    file: Arc<dyn Appended>,
}

struct OnWatched(Arc<Watched>);

impl Storage for OnWatched {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn Appended>> {
        let file = Disk.create(path)?;
        self.0.files.lock().unwrap().insert(path.into(), (0, 0));
        Ok(Arc::new(WatchedFile { disk: self.0.clone(), path: path.into(), file }))
    }
}

impl Appended for WatchedFile {
    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        self.file.append(bytes)?;
        self.disk.files.lock().unwrap().get_mut(&self.path).unwrap().0 += bytes.len() as u64;
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        // What is appended while the disk syncs may or may not get there: it does not.
        let appended = self.disk.files.lock().unwrap()[&self.path].0;
        self.file.sync()?;
        let mut files = self.disk.files.lock().unwrap();
        let synced = &mut files.get_mut(&self.path).unwrap().1;
        *synced = appended.max(*synced);
        self.disk.changed.notify_all();
        Ok(())
    }

    fn cut(&self, length: u64) -> io::Result<()> {
        self.file.cut(length)
    }
}

struct Machine {
    dir: PathBuf,
    disk: Arc<Watched>,
    window: Duration,
    boot: u32,
}

impl Machine {
    fn new(name: &str, window: Duration) -> Self {
        Self { dir: oracle::directory(name).canonicalize().unwrap(), disk: Arc::default(), window, boot: 0 }
    }

    fn file(&self, index: usize) -> PathBuf {
        self.dir.join(format!("{index}.rrd"))
    }

    /// Starts, with the log still to be replayed.
    fn start(&self) -> (Pending, left::Left) {
        let settings = log::Settings {
            directory: self.dir.join("log"),
            window: self.window,
            bytes_max: 1 << 30,
            boot: format!("boot {}", self.boot),
            storage: Arc::new(OnWatched(self.disk.clone())),
        };
        let (log, left) = Log::open(settings).unwrap();
        let limits = Limits { timeout: 1_000_000, open_max: 3, ..Limits::default() };
        let base = Base::new(&self.dir, false).unwrap();
        (Pending::new(base, limits, Some(log), true, Messages::none()), left)
    }

    fn started(&self) -> Pending {
        let (pending, left) = self.start();
        pending.replay(&left).unwrap();
        pending
    }

    /// The power is gone: of the log only what was synced is left, and of each file's pages since `before` some.
    fn lose_power(&mut self, pending: Pending, before: &[Vec<u8>], random: &mut Random) {
        let files: BTreeMap<PathBuf, (u64, u64)> = self.disk.files.lock().unwrap().clone();
        let now: Vec<Vec<u8>> =
            (0..before.len()).map(|index| std::fs::read(self.file(index)).unwrap()).collect();
        let log: Vec<PathBuf> =
            std::fs::read_dir(self.dir.join("log")).unwrap().map(|entry| entry.unwrap().path()).collect();
        let left: Vec<(PathBuf, Vec<u8>)> = log
            .into_iter()
            .map(|path| {
                let mut bytes = std::fs::read(&path).unwrap();
                // Segments of earlier lives are as they were found.
                bytes.truncate(files.get(&path).map_or(usize::MAX, |(_, synced)| *synced as usize));
                (path, bytes)
            })
            .collect();
        // What the daemon does from here on is undone.
        drop(pending);
        for entry in std::fs::read_dir(self.dir.join("log")).unwrap() {
            std::fs::remove_file(entry.unwrap().path()).unwrap();
        }
        for (path, bytes) in left {
            std::fs::write(path, bytes).unwrap();
        }
        for (index, (old, new)) in before.iter().zip(&now).enumerate() {
            let mut torn = old.clone();
            for (old, new) in torn.chunks_mut(PAGE).zip(new.chunks(PAGE)) {
                if random.chance(50) {
                    old.copy_from_slice(new);
                }
            }
            std::fs::write(self.file(index), torn).unwrap();
        }
        self.disk = Arc::default();
        self.boot += 1;
    }
}

fn make(machine: &Machine, files: usize) -> Vec<Vec<u8>> {
    let mut rrdtool = oracle::Oracle::start(&machine.dir);
    (0..files)
        .map(|index| {
            // Rows of many pages, and a coarse archive whose state cannot be made up.
            let line = format!(
                "create {index}.rrd -s 1 -b 1000000000 DS:x:GAUGE:100000:U:U RRA:LAST:0.5:1:3000 RRA:AVERAGE:0:7:600"
            );
            assert_eq!(rrdtool.run(&line).error, None);
            std::fs::read(machine.file(index)).unwrap()
        })
        .collect()
}

fn update(pending: &Pending, machine: &Machine, index: usize, time: i64) {
    let (file, samples) = (machine.file(index), format!("{time}:{}", time % 1000));
    let update = Update { file: file.to_str().unwrap(), samples: &samples };
    assert_eq!(pending.update(&[update]).remove(0).unwrap(), 1);
}

/// The coarse rows must be those of a file that saw every second.
fn check_coarse(path: &Path, last: i64) {
    let rrd = khz_rrd::file::Rrd::open(path, khz_rrd::file::Access::Read).unwrap();
    let fetched =
        khz_rrd::fetch::fetch(&rrd, khz_rrd::rra::Function::Average, 1_000_000_010, last - 8, 7).unwrap();
    for (row, value) in fetched.values.iter().enumerate().filter(|(_, value)| !value.is_nan()) {
        let end = fetched.start + (row as i64 + 1) * 7;
        let wanted = (end - 6..=end).map(|time| (time % 1000) as f64).sum::<f64>() / 7.0;
        assert!((value - wanted).abs() < 1e-6, "{}: {value} instead of {wanted} at {end}", path.display());
    }
}

#[test]
fn power_may_go_at_any_time_and_what_was_acknowledged_is_found() {
    const FILES: usize = 4;
    for seed in 0..oracle::cases(6).min(100) {
        let mut random = Random::new(oracle::first_seed() + seed);
        let mut machine = Machine::new("power", Duration::ZERO);
        let mut synced = make(&machine, FILES);
        let mut times = [1_000_000_000i64; FILES];
        for _ in 0..3 {
            let pending = machine.started();
            for _ in 0..random.below(300) {
                let index = random.below(FILES as u64) as usize;
                times[index] += 1;
                update(&pending, &machine, index, times[index]);
                if random.chance(15) {
                    pending.flush(machine.file(index).to_str().unwrap()).unwrap();
                }
                if random.chance(3) {
                    // What is synced here cannot be torn any more; what is written later can.
                    pending.checkpoint();
                    synced = (0..FILES).map(|index| std::fs::read(machine.file(index)).unwrap()).collect();
                }
            }
            machine.lose_power(pending, &synced, &mut random);
        }
        let pending = machine.started();
        for (index, last) in times.iter().enumerate() {
            pending.flush(machine.file(index).to_str().unwrap()).unwrap();
            check(&machine.file(index), &(1_000_000_001..=*last).collect::<Vec<_>>());
            check_coarse(&machine.file(index), *last);
        }
        drop(pending);
        std::fs::remove_dir_all(&machine.dir).unwrap();
    }
}

#[test]
fn within_the_window_everything_is_synced_without_anybody_asking() {
    let mut machine = Machine::new("window", Duration::from_millis(10));
    let before = make(&machine, 1);
    let pending = machine.started();
    for time in 1_000_000_001..1_000_000_100 {
        update(&pending, &machine, 0, time);
    }
    // Acknowledged means appended; synced it becomes by itself.
    let mut files = machine.disk.files.lock().unwrap();
    while files.values().any(|(appended, synced)| synced < appended) {
        let (waited, timeout) = machine.disk.changed.wait_timeout(files, served::PATIENCE).unwrap();
        assert!(!timeout.timed_out(), "nothing is synced");
        files = waited;
    }
    drop(files);
    machine.lose_power(pending, &before, &mut Random::new(1));
    let pending = machine.started();
    pending.flush(machine.file(0).to_str().unwrap()).unwrap();
    check(&machine.file(0), &(1_000_000_001..1_000_000_100).collect::<Vec<_>>());
}

#[test]
fn updates_are_taken_before_the_log_is_read_and_come_behind_it() {
    let machine = Machine::new("early", Duration::ZERO);
    make(&machine, 2);
    let pending = machine.started();
    (1_000_000_001..1_000_000_050).for_each(|time| update(&pending, &machine, 0, time));
    drop(pending);
    let (pending, left) = machine.start();
    // Nothing is read yet, and yet these are taken; one is older than what the log has for its file.
    (1_000_000_050..1_000_000_060).for_each(|time| update(&pending, &machine, 0, time));
    (1_000_000_001..1_000_000_010).for_each(|time| update(&pending, &machine, 1, time));
    assert_eq!(pending.stats().0.replaying, 1);
    pending.replay(&left).unwrap();
    assert_eq!(pending.stats().0.waiting, 59 + 9);
    for (index, last) in [(0, 1_000_000_060), (1, 1_000_000_010)] {
        let name = machine.file(index);
        assert_eq!(pending.pending(name.to_str().unwrap()).unwrap().len() as i64, last - 1_000_000_001);
        pending.flush(name.to_str().unwrap()).unwrap();
        check(&name, &(1_000_000_001..last).collect::<Vec<_>>());
    }
    // They were logged as well.
    drop(pending);
    let again = machine.started();
    assert_eq!(again.stats().0.waiting, 59 + 9);
}

#[test]
fn what_was_forgotten_stays_so_and_what_was_written_before_stays_too() {
    let mut machine = Machine::new("forget", Duration::ZERO);
    let before = make(&machine, 1);
    let name = machine.file(0);
    let name = name.to_str().unwrap();
    let pending = machine.started();
    (1_000_000_001..1_000_000_020).for_each(|time| update(&pending, &machine, 0, time));
    pending.flush(name).unwrap();
    (1_000_000_020..1_000_000_030).for_each(|time| update(&pending, &machine, 0, time));
    assert!(pending.forget(name).unwrap());
    update(&pending, &machine, 0, 1_000_000_025);
    machine.lose_power(pending, &before, &mut Random::new(3));
    let pending = machine.started();
    pending.flush(name).unwrap();
    check(Path::new(name), &(1_000_000_001..1_000_000_020).collect::<Vec<_>>());
    assert_eq!(served::last_on_disk(Path::new(name)), 1_000_000_025);
}

#[test]
fn a_damaged_log_loses_the_damaged_record_only() {
    let machine = Machine::new("flipped", Duration::ZERO);
    make(&machine, 1);
    let pending = machine.started();
    (1_000_000_001..1_000_000_100).for_each(|time| update(&pending, &machine, 0, time));
    drop(pending);
    let segment = machine.dir.join("log").join(format!("khz.log.{:016}", 1));
    let mut bytes = std::fs::read(&segment).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    std::fs::write(&segment, bytes).unwrap();
    let pending = machine.started();
    assert_eq!(pending.stats().0.waiting, 98);
}
