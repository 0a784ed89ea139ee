//! An updater over many simulated five minutes: each is a round, as long as the pace at least. What each round
//! took, and what the disk did in it.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::cgroup::Group;
use super::disk::Disk;
use super::drawn::Ended;
use super::rounds::set_back;
use super::tree::{START, STEP, Shape};
use super::updater::Updater;
use super::way::Way;
use crate::error::BenchError;
use crate::record::Record;

/// How often to look whether updates are due.
const LOOK: Duration = Duration::from_millis(20);

/// A round.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Round {
    /// The simulated time (seconds since 1970).
    pub time: i64,
    /// How many files.
    pub files: usize,
    /// Seconds until all updates were accepted, and those that were due were written.
    pub seconds: f64,
    /// How long it lasted in all, with its pause.
    pub lasted_s: f64,
    /// CPU seconds of the updater.
    pub cpu_s: f64,
    /// Seconds that processors waited for the disk with nothing else to do.
    pub waited_s: f64,
    /// Requests to the disk, and megabytes.
    pub reads: f64,
    pub writes: f64,
    pub read_mb: f64,
    pub written_mb: f64,
    /// Memory of the updater that is no file's, MB; not a number for loops.
    pub memory_mb: f64,
}

impl Round {
    /// Its figures by name, as they are kept.
    pub fn figures(&self) -> [(&'static str, f64); 11] {
        [
            ("time", self.time as f64),
            ("files", self.files as f64),
            ("seconds", self.seconds),
            ("lasted s", self.lasted_s),
            ("CPU s", self.cpu_s),
            ("waited s", self.waited_s),
            ("reads", self.reads),
            ("writes", self.writes),
            ("read MB", self.read_mb),
            ("written MB", self.written_mb),
            ("memory MB", self.memory_mb),
        ]
    }

    /// The round that has these figures.
    pub fn of(figures: &[f64]) -> Option<Self> {
        let &[time, files, seconds, lasted_s, cpu_s, waited_s, reads, writes, read_mb, written_mb, memory_mb] =
            figures
        else {
            return None;
        };
        let (time, files) = (time as i64, files as usize);
        Some(Round {
            time,
            files,
            seconds,
            lasted_s,
            cpu_s,
            waited_s,
            reads,
            writes,
            read_mb,
            written_mb,
            memory_mb,
        })
    }

    /// The time of the day, as in `23:05`.
    pub fn clock(&self) -> String {
        let minutes = self.time / 60 % 1440;
        format!("{:02}:{:02}", minutes / 60, minutes % 60)
    }
}

/// How rounds follow each other.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// A round lasts so long at least: a simulated five minutes.
    pub round: Duration,
    /// A round that takes longer ends the course: the updater does not keep up.
    pub give_up: Duration,
    /// The course ends with the round in which it has lasted so long.
    pub enough: Duration,
}

/// An updater with its files.
pub struct Course<'a> {
    /// Its name.
    pub name: &'a str,
    /// The program.
    pub updater: Updater,
    /// The files, in the order in which they are updated.
    pub paths: Vec<PathBuf>,
    /// Their disk.
    pub disk: &'a Disk,
    /// How rounds follow each other.
    pub pace: Pace,
}

impl Course<'_> {
    /// Runs the round that ends at `time`.
    pub fn round(&mut self, record: &Record, time: i64) -> Result<Round, BenchError> {
        let (before, cpu, start) = (self.disk.counts()?, self.updater.cpu_s()?, Instant::now());
        let update = self.updater.update(&self.paths, time)?;
        let seconds = update.seconds + self.settle(start, update.seconds)?;
        let done = self.disk.counts()?.since(before);
        let round = Round {
            time,
            files: self.paths.len(),
            seconds,
            lasted_s: start.elapsed().as_secs_f64(),
            cpu_s: self.updater.cpu_s()? - cpu + update.cpu_s,
            waited_s: done.waited_s,
            reads: done.reads,
            writes: done.writes,
            read_mb: done.read_mb,
            written_mb: done.written_mb,
            memory_mb: self.updater.memory()?.map_or(f64::NAN, |bytes| bytes / 1e6),
        };
        let (name, files) = (self.name, self.paths.len());
        record.progress(&format!("{name}, {} ({files} files): {seconds:.1} s", round.clock()));
        Ok(round)
    }

    /// Waits until the round has lasted long enough, and all that is due is written, or it has taken too long.
    /// Returns for how long something was due.
    fn settle(&mut self, start: Instant, taken: f64) -> Result<f64, BenchError> {
        let (mut behind, mut looked) = (0.0, Instant::now());
        loop {
            let is_behind = self.updater.is_behind()?;
            let is_over = start.elapsed() >= self.pace.round;
            if is_over && !is_behind || taken + behind > self.pace.give_up.as_secs_f64() {
                return Ok(behind);
            }
            std::thread::sleep(LOOK);
            if is_behind {
                behind += looked.elapsed().as_secs_f64();
            }
            looked = Instant::now();
        }
    }

    /// Runs `count` rounds after `from`; ends earlier after one that took too long, or when the course has lasted long
    /// enough.
    pub fn rounds(&mut self, record: &Record, from: i64, count: i64) -> Result<Vec<Round>, BenchError> {
        let (mut done, begun) = (Vec::new(), Instant::now());
        for number in 1..=count {
            let one = self.round(record, from + number * STEP)?;
            done.push(one);
            if one.seconds > self.pace.give_up.as_secs_f64() || begun.elapsed() > self.pace.enough {
                break;
            }
        }
        Ok(done)
    }
}

/// How large a tree is updated, in how much memory, how often.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Files.
    pub files: usize,
    /// What each has.
    pub shape: Shape,
    /// Bytes of memory for the updater and the pages of its files.
    pub memory: u64,
    /// How rounds follow each other.
    pub pace: Pace,
}

/// A way to update files, from the start on, as far as it gets within `count` rounds.
pub fn whole(record: &Record, way: Way, size: Size, count: i64) -> Result<Ended, BenchError> {
    let tree = set_back(record, size.files, size.shape)?;
    let disk = Disk::of(&tree.directory)?;
    let group = Group::limited(size.memory)?;
    let paths = way.order(tree.paths());
    let updater = way.start(&paths, &group.wrapper(), size.pace.round)?;
    let mut course = Course { name: way.name(), updater, paths, disk: &disk, pace: size.pace };
    let rounds = course.rounds(record, START, count)?;
    Ok(Ended { name: way.name().to_owned(), rounds, figures: Vec::new() })
}
