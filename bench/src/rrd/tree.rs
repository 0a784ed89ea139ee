//! A tree of MRTG files: 2 counters, AVERAGE and MAX at 1, 6, 24 and 288 points a row. Creates missing files,
//! keeps existing ones, and does not know which program updates them.

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

/// Rows of the archives: each has more than the 256 rows that fill a page, as in the paper.
const ARCHIVES: [(u64, u64); 4] = [(1, 600), (6, 700), (24, 775), (288, 797)];

/// Files between two progress messages.
const TOLD: usize = 20_000;

/// Files in a directory.
const DIRECTORY: usize = 1000;

/// The files 0 to `files` - 1, all at the same time.
pub struct Tree {
    /// The directory that holds them.
    pub directory: PathBuf,
    /// How many files.
    pub files: usize,
}

impl Tree {
    /// Creates missing files, and resets all to [`START`]. They stay for the next run.
    pub fn fresh(record: &Record, files: usize) -> Result<Self, BenchError> {
        let tree = Tree { directory: build_directory()?.join("bench-rrd"), files };
        let mut seed = 1u64;
        let mut row = move |_: usize, rows: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % rows
        };
        let unknown = khz_rrd::number::UNKNOWN.to_bits().to_le_bytes();
        let body = unknown.repeat(2 * 2 * ARCHIVES.iter().map(|(_, rows)| *rows as usize).sum::<usize>());
        for index in 0..files {
            if index % TOLD == 0 {
                record.progress(&format!("file {index} of {files} is made, or set back to the start"));
            }
            let header = header(&mut row)?;
            tree.put(&tree.path(index), &header, &body)?;
        }
        record.progress("all files are being synced");
        rustix::fs::sync();
        Ok(tree)
    }

    /// The path of file `index`.
    pub fn path(&self, index: usize) -> PathBuf {
        self.directory.join(format!("{:03}", index / DIRECTORY)).join(format!("{index}.rrd"))
    }

    /// All paths.
    pub fn paths(&self) -> Vec<PathBuf> {
        (0..self.files).map(|index| self.path(index)).collect()
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

fn header(row: &mut impl FnMut(usize, u64) -> u64) -> Result<Header, BenchError> {
    let made = || {
        let mut plan = Plan::default();
        plan.source("in:COUNTER:600:0:U")?;
        plan.source("out:COUNTER:600:0:U")?;
        for function in ["AVERAGE", "MAX"] {
            for (points, rows) in ARCHIVES {
                plan.archive(&format!("{function}:0.5:{points}:{rows}"), STEP as u64, 0)?;
            }
        }
        create::header(plan.definition(STEP as u64)?, START, row)
    };
    made().map_err(|error: khz_rrd::Error| BenchError::Reply(error.to_string()))
}

/// The sample of `time`: two counters that grow.
pub fn sample(time: i64) -> String {
    let seconds = time % 100_000_000;
    format!("{time}:{}:{}", seconds * 1000, seconds * 77)
}

/// Converts the result of an rrd call; adds the benchmark's context to an error.
pub fn rrd<T>(outcome: khz_rrd::Result<T>) -> Result<T, BenchError> {
    outcome.map_err(|error| BenchError::Reply(error.to_string()))
}
