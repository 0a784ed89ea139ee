//! One read, in each way that a program has: a mounted value, kept open and opened each time; the same with
//! an empty FUSE file system; a local file; a daemon at a socket. Back to back, then with pauses in which the
//! machine does other work; and the first read of each new value.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::answer::Daemon;
use super::empty::EmptyMount;
use super::site::{Class, Site};
use super::timed::Times;
use crate::error::BenchError;
use crate::program::failed;
use crate::record::{Bound, Record};
use crate::spread::{Spread, ratios};
use crate::table::{Table, figure};

/// The most microseconds of a read with the file kept open.
const KEPT_MICROS_MAX: f64 = 1.0;
/// The most for opening it each time, as a multiple of an empty FUSE file.
const OPENED_TIMES_MAX: f64 = 1.5;
/// The value: it changes with every row, ten times a second.
const VALUE: &str = "n1/metrics/kernel/context_switches";
/// Its rate while a reader waits for new values.
const FRESH_HZ: u64 = 100;
/// Pause between two reads that are not back to back.
const PAUSE: Duration = Duration::from_millis(1);
/// The buffer size that programs use.
const ROOM: usize = 4_096;
/// The length of a value.
const ASKED: usize = 12;

/// A kernel file of the node, with the node's own text.
const TEXT: &str = "n1/proc/meminfo";

/// The cases: the pause between two reads, and the number of reads in a full run and in a quick one.
const CASES: [(&str, Option<Duration>, (usize, usize)); 2] =
    [("back to back", None, (20_000, 2_000)), ("1,000 a second", Some(PAUSE), (300, 100))];

const WHO: [&str; 11] = [
    "value, kept open",
    "value, opened",
    "empty FUSE, opened",
    "empty FUSE, kept open",
    "/proc/meminfo, kept open",
    "/proc/meminfo, opened",
    "daemon at a socket",
    "n1/proc/meminfo, kept",
    "n1/proc/meminfo, opened",
    "the same, cached, kept",
    "the same, cached, opened",
];
const KEPT: usize = 0;
const OPENED: usize = 1;
const EMPTY_OPENED: usize = 2;
const EMPTY_KEPT: usize = 3;
const TEXT_KEPT: usize = 7;
const TEXT_OPENED: usize = 8;
const CACHED_KEPT: usize = 9;
const CACHED_OPENED: usize = 10;

/// Runs the section.
pub fn run(record: &mut Record) -> Result<(), BenchError> {
    let mut site = Site::start(Class::Normal)?;
    site.agent("n1", &["--base-rate", "10Hz"])?;
    let tree = site.mount()?;
    let (value, text) = (tree.join(VALUE), tree.join(TEXT));
    let cached = site.mount_with(&["-o", "cache_texts"])?.join(TEXT);
    [&value, &text, &cached].into_iter().try_for_each(|file| site.wait_for(file))?;
    let empty = EmptyMount::start(site.folder())?;
    let mut readers =
        Readers::new([&value, &empty.file(), Path::new("/proc/meminfo"), &text, &cached], site.folder())?;
    for (case, pause, calls) in CASES {
        let calls = record.effort.of(calls.0, calls.1);
        let mut found: [Vec<Times>; WHO.len()] = Default::default();
        for pair in 0..record.effort.pairs() {
            for who in (0..WHO.len()).chain((0..WHO.len()).rev()) {
                record.progress(&format!("{case}, pair {pair}: {}", WHO[who]));
                // A daemon at a socket costs a hundred times as much, so it gets fewer calls.
                let calls =
                    if pause.is_none() && ![KEPT, CACHED_KEPT].contains(&who) { calls / 10 } else { calls };
                let times = Times::of(calls, pause, || readers.read(who))?;
                for (what, q) in [("p50_us", 0.5), ("p99_us", 0.99)] {
                    record.sample(["read", &case.replace(',', ""), WHO[who]], pair, what, times.at(q));
                }
                found[who].push(times);
            }
        }
        show(record, case, &found);
    }
    fresh(record, &value, &empty.file())
}

/// Everything that reads.
struct Readers {
    kept: [File; 5],
    opened: [PathBuf; 5],
    daemon: Daemon,
    room: Vec<u8>,
}

impl Readers {
    fn new(paths: [&Path; 5], folder: &Path) -> Result<Self, BenchError> {
        let open = |path: &Path| File::open(path).map_err(BenchError::file(path));
        let kept = [open(paths[0])?, open(paths[1])?, open(paths[2])?, open(paths[3])?, open(paths[4])?];
        let opened = paths.map(Path::to_path_buf);
        Ok(Readers { kept, opened, daemon: Daemon::start(folder)?, room: vec![0; ROOM] })
    }

    fn read(&mut self, who: usize) -> Result<(), BenchError> {
        match who {
            KEPT => self.kept(0),
            OPENED => self.opened(0),
            EMPTY_OPENED => self.opened(1),
            EMPTY_KEPT => self.kept(1),
            4 => self.kept(2),
            5 => self.opened(2),
            TEXT_KEPT => self.kept(3),
            TEXT_OPENED => self.opened(3),
            CACHED_KEPT => self.kept(4),
            CACHED_OPENED => self.opened(4),
            _ => self.daemon.ask(ASKED),
        }
    }

    fn kept(&mut self, which: usize) -> Result<(), BenchError> {
        read_at(&self.kept[which], &mut self.room)
    }

    fn opened(&mut self, which: usize) -> Result<(), BenchError> {
        let path = &self.opened[which];
        let file = File::open(path).map_err(BenchError::file(path))?;
        read_at(&file, &mut self.room)
    }
}

fn read_at(file: &File, room: &mut [u8]) -> Result<(), BenchError> {
    match file.read_at(room, 0).map_err(BenchError::file("a file"))? {
        0 => Err(failed("a file", "it is empty")),
        _ => Ok(()),
    }
}

fn show(record: &mut Record, case: &str, found: &[Vec<Times>]) {
    let mut table = Table::new(&["a read, us", "p50", "quartiles", "p99", "x empty FUSE"]);
    let p50 = |who: usize| found[who].iter().map(|times| times.at(0.5)).collect::<Vec<_>>();
    for (who, name) in WHO.iter().enumerate() {
        let times = Spread::of(ratios(&p50(who), &p50(EMPTY_OPENED)));
        let tail = Spread::of(found[who].iter().map(|times| times.at(0.99)));
        let (Some(half), Some(tail), Some(times)) = (Spread::of(p50(who)), tail, times) else { continue };
        table.row([
            (*name).to_owned(),
            figure(half.median),
            format!("{}..{}", figure(half.lower), figure(half.upper)),
            figure(tail.median),
            figure(times.median),
        ]);
    }
    record.show(&format!("## One read, {case}; the value changes ten times a second"), &table);
    let is_hot = case == CASES[0].0;
    let ratio = |one, other| Spread::of(ratios(&p50(one), &p50(other)));
    for (name, kept, opened) in [
        ("value", KEPT, OPENED),
        ("proc/meminfo", TEXT_KEPT, TEXT_OPENED),
        ("proc/meminfo, -o cache_texts,", CACHED_KEPT, CACHED_OPENED),
    ] {
        if is_hot {
            let promise = format!("{name} kept open, {case}, p50 in us");
            record.verdict(&promise, Spread::of(p50(kept)), Bound::AtMost(KEPT_MICROS_MAX));
        }
        let promise = format!("{name} opened / empty FUSE, {case}");
        record.verdict(&promise, ratio(opened, EMPTY_OPENED), Bound::AtMost(OPENED_TIMES_MAX));
    }
    if let Some(times) = ratio(KEPT, EMPTY_KEPT) {
        record.say(&format!(
            "The value kept open takes {} times as long as the empty file system's, which never changes (quartiles {}..{}).\n",
            figure(times.median),
            figure(times.lower),
            figure(times.upper)
        ));
    }
}

/// The first read of each new value, by a reader that sleeps until there is one. At every other value it
/// reads the empty file system's file instead, which is as cold and never changes.
fn fresh(record: &mut Record, value: &Path, empty: &Path) -> Result<(), BenchError> {
    let control = site_control(value, "rate");
    std::fs::write(&control, format!("{FRESH_HZ}Hz\n")).map_err(BenchError::file(&control))?;
    let open = |path: &Path| File::open(path).map_err(BenchError::file(path));
    let files = [open(value)?, open(empty)?];
    let (mut found, mut room) = ([Vec::new(), Vec::new()], vec![0; ROOM]);
    let (start, span) = (Instant::now(), Duration::from_secs(record.effort.of(20, 3)));
    let patience = Timespec { tv_sec: 5, tv_nsec: 0 };
    while start.elapsed() < span {
        let mut fds = [PollFd::new(&files[0], PollFlags::IN)];
        if poll(&mut fds, Some(&patience)).map_err(BenchError::call("poll"))? == 0 {
            return Err(failed("the mounted value", "it does not change any more"));
        }
        let side = usize::from(found[0].len() > found[1].len());
        let read = Instant::now();
        read_at(&files[side], &mut room)?;
        found[side].push(read.elapsed().as_nanos() as f64 / 1e3);
    }
    let [value, empty] = found.map(Times::from);
    for (who, times) in [("value", &value), ("empty FUSE", &empty)] {
        for (what, q) in [("p50_us", 0.5), ("p90_us", 0.9), ("p99_us", 0.99)] {
            record.sample(["read", "fresh", who], 0, what, times.at(q));
        }
    }
    let three = |times: &Times| [0.5, 0.9, 0.99].map(|q| figure(times.at(q))).join(", ");
    record.say(&format!(
        "First read of each new value ({} of them, {FRESH_HZ} changes a second, after poll(2) has returned): p50, p90, p99 {} us;\n\
         of the empty file system's file in its place, as cold: {} us.\n",
        value.count(),
        three(&value),
        three(&empty),
    ));
    Ok(())
}

/// The control file of a value.
pub fn site_control(value: &Path, name: &str) -> PathBuf {
    let mut below = PathBuf::new();
    let mut node = PathBuf::new();
    let mut is_below = false;
    for part in value.components() {
        is_below |= part.as_os_str() == "metrics";
        if is_below { below.push(part) } else { node.push(part) }
    }
    node.join(".control").join(below).join(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_values_control_file_stands_beside_its_metrics() {
        let found = site_control(Path::new("/m/n1/metrics/mem/free"), "rate");
        assert_eq!(found, Path::new("/m/n1/.control/metrics/mem/free/rate"));
    }
}
