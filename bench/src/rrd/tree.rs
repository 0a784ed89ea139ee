//! A tree of MRTG files: 2 counters, AVERAGE and MAX at 1, 6, 24 and 288 points a row. Creates missing files,
//! keeps existing ones, and does not know which program updates them. Disk space is asked for before the first
//! file is made, and can be given back.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use khz_rrd::create::{self, Plan};
use khz_rrd::header::Header;

use crate::error::BenchError;
use crate::program::build_directory;
use crate::record::Record;

/// Seconds of a primary point.
pub const STEP: i64 = 300;

/// The time at which the files begin: 22:30 UTC, so that two hours later midnight has passed.
pub const START: i64 = 1_700_001_000;

/// Points of a row in each archive of a function.
const POINTS: [u64; 4] = [1, 6, 24, 288];

/// The size of a file: rows of each archive, those of AVERAGE first. All have more than the 256 rows that fill a
/// page, so that the pages that are touched again and again are as many as in the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The name of its directory.
    name: &'static str,
    /// In words.
    pub about: &'static str,
    rows: [u64; 8],
}

impl Shape {
    /// As MRTG makes them, 95 kB.
    pub const MRTG: Shape =
        Shape { name: "bench-rrd", about: "95 kB", rows: [600, 700, 775, 797, 600, 700, 775, 797] };

    /// The smallest whose archives are all longer than a page: 36 kB.
    pub const SMALL: Shape = Shape { name: "bench-rrd-small", about: "36 kB", rows: [257; 8] };

    /// With all five-minute averages of a year: 1.8 MB.
    pub const YEAR: Shape =
        Shape { name: "bench-rrd-year", about: "1.8 MB", rows: [105_120, 700, 775, 797, 600, 700, 775, 797] };

    /// With those of five years: 8.5 MB.
    pub const YEARS: Shape = Shape {
        name: "bench-rrd-years",
        about: "8.5 MB",
        rows: [525_600, 700, 775, 797, 600, 700, 775, 797],
    };
}

/// Free bytes that a tree leaves on its disk, for the logs of daemons and for other programs.
const LEFT_FREE: u64 = 3 << 30;

/// What the file system needs beside the content: an inode of 256 bytes, an entry of a directory.
const BESIDE: u64 = 512;

/// Files between two progress messages.
const TOLD: usize = 20_000;

/// Files in a directory.
const DIRECTORY: usize = 1000;

/// The environment variable that names another directory for the files than the build folder.
pub const DIRECTORY_VARIABLE: &str = "KHZ_BENCH_RRD";

/// The files 0 to `files` - 1, all at the same time.
pub struct Tree {
    /// The directory that holds them.
    pub directory: PathBuf,
    /// How many files.
    pub files: usize,
    shape: Shape,
}

impl Tree {
    /// Creates missing files, and resets all to [`START`]. They stay for the next run.
    pub fn fresh(record: &Record, files: usize) -> Result<Self, BenchError> {
        Self::of(record, files, Shape::MRTG)
    }

    /// The same, with files of this shape.
    pub fn of(record: &Record, files: usize, shape: Shape) -> Result<Self, BenchError> {
        let mut tree = Tree { directory: directory()?.join(shape.name), files: 0, shape };
        tree.ask_for_space(files)?;
        tree.grow(record, files, START)?;
        record.progress("all files are being synced");
        rustix::fs::sync();
        Ok(tree)
    }

    /// Makes, or resets, files until the tree has `files` of them. The new ones begin at `time`, each archive of each with
    /// another row, as rrdtool does since its version 1.4.
    pub fn grow(&mut self, record: &Record, files: usize, time: i64) -> Result<(), BenchError> {
        let mut seed = 1u64 + self.files as u64;
        let mut row = move |_: usize, rows: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % rows
        };
        let unknown = khz_rrd::number::UNKNOWN.to_bits().to_le_bytes();
        let body = unknown.repeat(2 * self.shape.rows.iter().sum::<u64>() as usize);
        for index in self.files..files {
            if index % TOLD == 0 {
                record.progress(&format!("file {index} of {files} is made, or set back to the start"));
            }
            let header = header(self.shape, time, &mut row)?;
            self.put(&self.path(index), &header, &body)?;
        }
        self.files = files;
        Ok(())
    }

    /// Removes all files of this shape, and gives their space back.
    pub fn give_back(record: &Record, shape: Shape) -> Result<(), BenchError> {
        let directory = directory()?.join(shape.name);
        record.progress(&format!("{} is being removed", directory.display()));
        fs::remove_dir_all(&directory).map_err(BenchError::file(&directory))
    }

    /// Whether the disk has the space for `files` files, apart from those that are there.
    pub fn ask_for_space(&self, files: usize) -> Result<(), BenchError> {
        fs::create_dir_all(&self.directory).map_err(BenchError::file(&self.directory))?;
        let disk = rustix::fs::statvfs(&self.directory).map_err(BenchError::call("statvfs"))?;
        let free = disk.f_bavail * disk.f_frsize;
        let each =
            header(self.shape, START, &mut |_, _| 0)?.file_len().next_multiple_of(disk.f_frsize) + BESIDE;
        let there = self.present();
        let needed = files.saturating_sub(there) as u64 * each;
        if needed + LEFT_FREE <= free {
            return Ok(());
        }
        let gb = |bytes: u64| bytes as f64 / 1e9;
        Err(BenchError::Reply(format!(
            "{} more files of {} need {:.1} GB in {}, where {:.1} GB are free ({:.1} GB stay free for logs): free some, \
             or name a directory on a larger disk in {DIRECTORY_VARIABLE}",
            files - there,
            self.shape.about,
            gb(needed),
            self.directory.display(),
            gb(free),
            gb(LEFT_FREE),
        )))
    }

    /// How many files lie there already, counted by whole directories.
    fn present(&self) -> usize {
        let is_whole = |number: usize| {
            self.path(number * DIRECTORY + DIRECTORY - 1).exists() && self.path(number * DIRECTORY).exists()
        };
        (0..).take_while(|number| is_whole(*number)).count() * DIRECTORY
    }

    /// The path of file `index`.
    pub fn path(&self, index: usize) -> PathBuf {
        self.directory.join(format!("{:03}", index / DIRECTORY)).join(format!("{index}.rrd"))
    }

    /// All paths.
    pub fn paths(&self) -> Vec<PathBuf> {
        (0..self.files).map(|index| self.path(index)).collect()
    }

    /// A file with all paths, one in a line.
    pub fn list(&self) -> Result<PathBuf, BenchError> {
        let list = self.directory.join("list");
        write_list(&list, &self.paths())?;
        Ok(list)
    }

    /// Writes the header again, and after it `body` if the file is new.
    fn put(&self, path: &Path, header: &Header, body: &[u8]) -> Result<(), BenchError> {
        let failed = |error| BenchError::File { path: path.into(), source: error };
        if let Ok(file) = OpenOptions::new().write(true).open(path)
            && file.metadata().is_ok_and(|data| data.len() == header.file_len())
        {
            return file.write_all_at(header.bytes(), 0).map_err(failed);
        }
        fs::create_dir_all(path.parent().unwrap_or(&self.directory)).map_err(failed)?;
        let mut file = fs::File::create(path).map_err(failed)?;
        file.write_all(header.bytes()).and_then(|()| file.write_all(body)).map_err(failed)
    }
}

/// Where trees are: in the build folder, or where the environment says.
fn directory() -> Result<PathBuf, BenchError> {
    std::env::var_os(DIRECTORY_VARIABLE).map_or_else(build_directory, |named| Ok(PathBuf::from(named)))
}

fn header(shape: Shape, time: i64, row: &mut impl FnMut(usize, u64) -> u64) -> Result<Header, BenchError> {
    let made = || {
        let mut plan = Plan::default();
        plan.source("in:COUNTER:600:0:U")?;
        plan.source("out:COUNTER:600:0:U")?;
        let of = ["AVERAGE", "MAX"].into_iter().flat_map(|function| POINTS.map(|points| (function, points)));
        for ((function, points), rows) in of.zip(shape.rows) {
            plan.archive(&format!("{function}:0.5:{points}:{rows}"), STEP as u64, 0)?;
        }
        create::header(plan.definition(STEP as u64)?, time, row)
    };
    made().map_err(|error: khz_rrd::Error| BenchError::Reply(error.to_string()))
}

/// How much the two counters grow in a second. The C program that uses librrd has the same.
pub const RATES: [f64; 2] = [1000.0, 77.0];

/// The sample of `time`: two counters that grow.
pub fn sample(time: i64) -> String {
    let seconds = time % 100_000_000;
    format!("{time}:{}:{}", seconds * RATES[0] as i64, seconds * RATES[1] as i64)
}

/// Writes a file with these paths, one in a line.
pub fn write_list(list: &Path, paths: &[PathBuf]) -> Result<(), BenchError> {
    let lines: String = paths.iter().map(|path| format!("{}\n", path.display())).collect();
    fs::write(list, lines).map_err(BenchError::file(list))
}

/// The same paths in an order unrelated to their positions on disk.
pub fn shuffled(paths: &[PathBuf]) -> Vec<PathBuf> {
    let (mut order, mut seed) = (paths.to_vec(), 7u64);
    for last in (1..order.len()).rev() {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        order.swap(last, (seed >> 33) as usize % (last + 1));
    }
    order
}

/// Converts the result of an rrd call; adds the benchmark's context to an error.
pub fn rrd<T>(outcome: khz_rrd::Result<T>) -> Result<T, BenchError> {
    outcome.map_err(|error| BenchError::Reply(error.to_string()))
}
