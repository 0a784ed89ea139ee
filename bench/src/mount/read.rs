//! One read, in each way that a program has: a mounted value kept open and opened each time, the same of an empty FUSE
//! file system, a local file, a daemon at a socket. Back to back, then with pauses in which the machine does other
//! things; and the first read of each new value.

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

/// What a kept-open value may cost, in microseconds.
const KEPT_MICROS_MAX: f64 = 1.0;
/// What opening it each time may cost, in times of an empty FUSE file.
const OPENED_TIMES_MAX: f64 = 1.5;
/// The value: it changes with every row, ten times a second.
const VALUE: &str = "n1/metrics/kernel/context_switches";
/// Its rate while new values are waited for.
const FRESH_HZ: u64 = 100;
/// Pause between two reads that are not back to back.
const PAUSE: Duration = Duration::from_millis(1);
/// As programs have it.
const ROOM: usize = 4_096;
/// As long as a value.
const ASKED: usize = 12;

const WHO: [&str; 9] = [
    "value, kept open",
    "value, opened",
    "empty FUSE, opened",
    "empty FUSE, kept open",
    "/proc/meminfo, kept open",
    "/proc/meminfo, opened",
    "daemon at a socket",
    "n1's proc/meminfo, kept open",
    "n1's proc/meminfo, opened",
];
const KEPT: usize = 0;
const OPENED: usize = 1;
const EMPTY_OPENED: usize = 2;
const TEXT_KEPT: usize = 7;
const TEXT_OPENED: usize = 8;

/// Runs the section.
pub fn run(record: &mut Record) -> Result<(), BenchError> {
    let mut site = Site::start(Class::Normal)?;
    site.agent("n1", &["--base-rate", "10Hz"])?;
    let value = site.mount()?.join(VALUE);
    site.wait_for(&value)?;
    let empty = EmptyMount::start(site.folder())?;
    let text = value.ancestors().nth(3).map(|node| node.join("proc/meminfo")).unwrap_or_default();
    site.wait_for(&text)?;
    let mut readers = Readers::new([&value, &empty.file(), &text], site.folder())?;
    for (case, pause, calls) in
        [("back to back", None, (20_000, 2_000)), ("1,000 a second", Some(PAUSE), (400, 100))]
    {
        let calls = record.effort.of(calls.0, calls.1);
        let mut found: [Vec<Times>; WHO.len()] = Default::default();
        for pair in 0..record.effort.pairs() {
            for who in (0..WHO.len()).chain((0..WHO.len()).rev()) {
                record.progress(&format!("{case}, pair {pair}: {}", WHO[who]));
                // What goes through a daemon costs a hundred times as much.
                let calls = if pause.is_none() && who != KEPT { calls / 10 } else { calls };
                let times = Times::of(calls, pause, || readers.read(who))?;
                for (what, q) in [("p50_us", 0.5), ("p99_us", 0.99)] {
                    record.sample(["read", &case.replace(',', ""), WHO[who]], pair, what, times.at(q));
                }
                found[who].push(times);
            }
        }
        show(record, case, &found);
    }
    fresh(record, &value)
}

/// Everybody who reads.
struct Readers {
    kept: [File; 4],
    opened: [PathBuf; 4],
    daemon: Daemon,
    room: Vec<u8>,
}

impl Readers {
    fn new([value, empty, text]: [&Path; 3], folder: &Path) -> Result<Self, BenchError> {
        let paths = [value, empty, Path::new("/proc/meminfo"), text].map(Path::to_path_buf);
        let open = |path: &PathBuf| File::open(path).map_err(BenchError::file(path));
        let kept = [open(&paths[0])?, open(&paths[1])?, open(&paths[2])?, open(&paths[3])?];
        Ok(Readers { kept, opened: paths, daemon: Daemon::start(folder)?, room: vec![0; ROOM] })
    }

    fn read(&mut self, who: usize) -> Result<(), BenchError> {
        match who {
            KEPT => self.kept(0),
            OPENED => self.opened(0),
            EMPTY_OPENED => self.opened(1),
            3 => self.kept(1),
            4 => self.kept(2),
            5 => self.opened(2),
            TEXT_KEPT => self.kept(3),
            TEXT_OPENED => self.opened(3),
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
    let kept = Spread::of(p50(KEPT));
    record.verdict(&format!("value kept open, {case}, p50 in us"), kept, Bound::AtMost(KEPT_MICROS_MAX));
    for (what, who) in [("value", OPENED), ("proc/meminfo", TEXT_OPENED)] {
        let opened = Spread::of(ratios(&p50(who), &p50(EMPTY_OPENED)));
        let what = format!("{what} opened each time / empty FUSE, {case}");
        record.verdict(&what, opened, Bound::AtMost(OPENED_TIMES_MAX));
    }
    let kept = Spread::of(p50(TEXT_KEPT));
    let what = format!("proc/meminfo kept open, {case}, p50 in us");
    record.verdict(&what, kept, Bound::AtMost(KEPT_MICROS_MAX));
}

/// The first read of each new value: a reader that sleeps until there is one.
fn fresh(record: &mut Record, value: &Path) -> Result<(), BenchError> {
    let control = site_control(value, "rate");
    std::fs::write(&control, format!("{FRESH_HZ}Hz\n")).map_err(BenchError::file(&control))?;
    let file = File::open(value).map_err(BenchError::file(value))?;
    let (mut times, mut room) = (Vec::new(), vec![0; ROOM]);
    let (start, span) = (Instant::now(), Duration::from_secs(record.effort.of(20, 3)));
    let patience = Timespec { tv_sec: 5, tv_nsec: 0 };
    while start.elapsed() < span {
        let mut fds = [PollFd::new(&file, PollFlags::IN)];
        if poll(&mut fds, Some(&patience)).map_err(BenchError::call("poll"))? == 0 {
            return Err(failed("the mounted value", "it does not change any more"));
        }
        let read = Instant::now();
        read_at(&file, &mut room)?;
        times.push(read.elapsed().as_nanos() as f64 / 1e3);
    }
    let times = Times::from(times);
    for (what, q) in [("p50_us", 0.5), ("p90_us", 0.9), ("p99_us", 0.99)] {
        record.sample(["read", "fresh", "value"], 0, what, times.at(q));
    }
    record.say(&format!(
        "First read of each new value ({} of them, {FRESH_HZ} a second, after poll(2) has told): p50 {} us, p90 {}, p99 {}.\n",
        times.count(),
        figure(times.at(0.5)),
        figure(times.at(0.9)),
        figure(times.at(0.99)),
    ));
    let half = Spread::of([times.at(0.5)]);
    record.verdict("first read of a new value, p50 in us", half, Bound::AtMost(KEPT_MICROS_MAX));
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
