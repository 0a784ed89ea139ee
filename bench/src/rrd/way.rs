//! The ways to update very many files, from MRTG's first one on: each has what the one before it has, and one thing
//! more.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use super::daemons::{Daemon, Setup, Side};
use super::tree::shuffled;
use super::updater::Updater;
use crate::error::BenchError;
use crate::program::{build_directory, compile};

/// How many rounds an update waits in a daemon before it is due, and over how many the writes are spread: together an
/// hour.
pub const WAIT_ROUNDS: u64 = 6;

/// A way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// librrd in a loop, whose advice to the page cache does nothing, in the order of polling.
    Nothing,
    /// librrd in a loop, with its advice.
    Advice,
    /// The same, in the order of the files on disk.
    Sorting,
    /// Our daemon, which holds updates back and writes several at once, all files' at the same time.
    Cache,
    /// The same; each file has its own time at which it is written.
    Spreading,
    /// The same, without advice to the page cache.
    CacheWithoutAdvice,
    /// Debian's rrdcached, which spreads its writes, too.
    Rrdcached,
}

impl Way {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Way::Nothing => "rrdtool without advice",
            Way::Advice => "rrdtool",
            Way::Sorting => "rrdtool sorted",
            Way::Cache => "ours all at once",
            Way::Spreading => "ours",
            Way::CacheWithoutAdvice => "ours without advice",
            Way::Rrdcached => "rrdcached",
        }
    }

    /// These paths of files, which were made one after another, in the order in which they are updated.
    pub fn order(self, paths: Vec<PathBuf>) -> Vec<PathBuf> {
        if matches!(self, Way::Nothing | Way::Advice) { shuffled(&paths) } else { paths }
    }

    /// Starts it. `wrapper` are the words before each command line; `pace` is how long five minutes last.
    pub fn start(
        self,
        paths: &[PathBuf],
        wrapper: &[OsString],
        pace: Duration,
    ) -> Result<Updater, BenchError> {
        let mut wrapper = wrapper.to_vec();
        if matches!(self, Way::Nothing | Way::CacheWithoutAdvice) {
            wrapper.push(compile("no_advice")?.into_os_string());
        }
        match self {
            Way::Nothing | Way::Advice | Way::Sorting => Updater::loops(paths, &wrapper),
            _ => Ok(Updater::Daemon(Box::new(Daemon::start(self.setup(wrapper, pace)?)?))),
        }
    }

    fn setup(self, wrapper: Vec<OsString>, pace: Duration) -> Result<Setup, BenchError> {
        let side = if self == Way::Rrdcached { Side::Theirs } else { Side::Ours };
        let mut setup = Setup::fresh(side, &build_directory()?.join("bench-rrd-daemons"))?;
        setup.wrapper = wrapper;
        let wait = (WAIT_ROUNDS as f64 * pace.as_secs_f64()).ceil() as u64;
        (setup.timeout, setup.delay) = (wait, wait);
        if side == Side::Ours {
            // An answer says that the update is on the disk.
            setup.options = ["--commit-window", "0", "--memory-max", "3G"].map(String::from).to_vec();
        }
        if self == Way::Cache {
            (setup.timeout, setup.delay) = (2 * wait, 0);
            setup.options.extend(["--spread", "0"].map(String::from));
        }
        Ok(setup)
    }
}
