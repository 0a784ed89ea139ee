//! A program that updates all files of a tree: a caching daemon, or librrd in a loop as MRTG runs it.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::client::batches;
use super::daemons::Daemon;
use super::side_by_side::side_by_side;
use super::tree::write_list;
use crate::error::BenchError;
use crate::program::{Program, build_directory, compile_with};

/// Connections to a daemon, and loops of librrd: MRTG forks as many as there are processors, or twice as many.
const SENDERS: usize = 4;

/// The program.
pub enum Updater {
    /// A daemon, to which the updates are sent.
    Daemon(Box<Daemon>),
    /// Loops over a part of the files each, all at the same time.
    Loops(Vec<Program>),
}

/// The loop over files, compiled. A section that needs it asks for it before it begins with hours of other work.
pub fn looping() -> Result<PathBuf, BenchError> {
    compile_with("librrd", &["-lrrd"])
}

impl Updater {
    /// Loops over these files in this order; `wrapper` are the words before each one's command line.
    pub fn loops(paths: &[PathBuf], wrapper: &[std::ffi::OsString]) -> Result<Self, BenchError> {
        let program = looping()?;
        let folder = build_directory()?.join("bench-rrd-lists");
        std::fs::create_dir_all(&folder).map_err(BenchError::file(&folder))?;
        let mut loops = Vec::new();
        for (number, part) in paths.chunks(paths.len().div_ceil(SENDERS).max(1)).enumerate() {
            let list = folder.join(number.to_string());
            write_list(&list, part)?;
            let mut words = wrapper.to_vec();
            words.extend([program.clone().into_os_string(), list.into_os_string()]);
            loops.push(Program::of("librrd", std::process::Command::new(&words[0]).args(&words[1..]))?);
        }
        Ok(Updater::Loops(loops))
    }

    /// Updates every file with the sample of `time`. For a daemon this ends when all updates are accepted, for
    /// loops when all are applied.
    pub fn update(&mut self, paths: &[PathBuf], time: i64) -> Result<Update, BenchError> {
        match self {
            Updater::Daemon(daemon) => {
                // Making the lines is the client's work.
                let lines = batches(paths.iter(), time);
                let seconds = daemon.send(&lines, SENDERS)?.as_secs_f64();
                Ok(Update { seconds, cpu_s: 0.0 })
            }
            Updater::Loops(loops) => {
                let start = Instant::now();
                let line = format!("{time} 1");
                let one = |program: &mut Program| program.batch(&line, Duration::from_millis(1));
                let batches = side_by_side(loops.iter_mut().map(|program| move || one(program)))?;
                let cpu_ns: u64 = batches.iter().map(|batch| batch.cpu_ns).sum();
                Ok(Update { seconds: start.elapsed().as_secs_f64(), cpu_s: cpu_ns as f64 / 1e9 })
            }
        }
    }

    /// Whether updates are due that it has not written so far.
    pub fn is_behind(&mut self) -> Result<bool, BenchError> {
        match self {
            Updater::Daemon(daemon) => Ok(daemon.stat("QueueLength")? > 0),
            Updater::Loops(_) => Ok(false),
        }
    }

    /// CPU seconds of a daemon until now; of loops each update says its own.
    pub fn cpu_s(&self) -> Result<f64, BenchError> {
        match self {
            Updater::Daemon(daemon) => Ok(daemon.cpu_ns()? as f64 / 1e9),
            Updater::Loops(_) => Ok(0.0),
        }
    }

    /// Memory of a daemon that is no file's, in bytes.
    pub fn memory(&self) -> Result<Option<f64>, BenchError> {
        match self {
            Updater::Daemon(daemon) => Ok(Some(daemon.process.held()?.anonymous_kb as f64 * 1024.0)),
            Updater::Loops(_) => Ok(None),
        }
    }
}

/// What an update of all files took.
#[derive(Clone, Copy, Debug)]
pub struct Update {
    /// Seconds until all were accepted, or applied.
    pub seconds: f64,
    /// CPU seconds of loops.
    pub cpu_s: f64,
}
