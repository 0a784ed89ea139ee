//! A caching daemon under measurement: ours or Debian's rrdcached, started in the same way and sent the same
//! requests.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::client::Connection;
use super::side_by_side::side_by_side;
use crate::agent::build_agent;
use crate::error::BenchError;
use crate::program::failed;
use crate::watched::Watched;

/// Connections that stay open for measuring.
pub const CONNECTIONS: usize = 16;

/// How long a daemon may take for its first answer, and for writing everything.
const PATIENCE: Duration = Duration::from_secs(900);

/// How long a daemon that is to be killed in the middle of many updates takes them before.
const BEFORE_KILL: Duration = Duration::from_millis(100);

/// How often a daemon's counts are read.
const LOOK: Duration = Duration::from_millis(2);

/// Which daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// `khz rrdcached`.
    Ours,
    /// Debian's `rrdcached`.
    Theirs,
}

impl Side {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Side::Ours => "ours",
            Side::Theirs => "rrdcached",
        }
    }
}

/// How to start a daemon.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Which daemon.
    pub side: Side,
    /// The folder of log and socket.
    pub folder: PathBuf,
    /// Seconds an update waits before it is written.
    pub timeout: u64,
    /// Seconds over which writes are spread.
    pub delay: u64,
    /// The words before the command line: a program that changes the conditions.
    pub wrapper: Vec<OsString>,
    /// Further options.
    pub options: Vec<String>,
}

impl Setup {
    /// A daemon with a fresh log, which writes only on request.
    pub fn fresh(side: Side, folder: &Path) -> Result<Self, BenchError> {
        let folder = folder.join(side.name());
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(folder.join("log")).map_err(BenchError::file(&folder))?;
        Ok(Setup { side, folder, timeout: 86_400, delay: 0, wrapper: Vec::new(), options: Vec::new() })
    }

    fn command(&self) -> Result<Command, BenchError> {
        let mut words = self.wrapper.clone();
        match self.side {
            Side::Ours => words.extend([build_agent()?.into(), "rrdcached".into()]),
            Side::Theirs => words.push("rrdcached".into()),
        }
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        command.arg("-g").arg("-l").arg(format!("unix:{}", self.socket().display()));
        command.arg("-j").arg(self.folder.join("log")).args(["-t", "4"]);
        command.arg("-w").arg(self.timeout.to_string());
        command.arg("-p").arg(self.folder.join("pid"));
        if self.delay > 0 {
            command.arg("-z").arg(self.delay.to_string());
        }
        command.arg("-f").arg((2 * self.timeout).to_string());
        command.args(&self.options);
        Ok(command)
    }

    fn socket(&self) -> PathBuf {
        self.folder.join("socket")
    }
}

/// A running daemon; dropping it kills it.
pub struct Daemon {
    /// How it was started.
    pub setup: Setup,
    /// The process.
    pub process: Watched,
    /// Open connections; the first one also sends requests.
    pub connections: Vec<Connection>,
    /// When the process was started.
    pub started: Instant,
    /// The time until its first answer.
    pub first_answer: Duration,
}

impl Daemon {
    /// Starts it and waits for its first answer.
    pub fn start(setup: Setup) -> Result<Self, BenchError> {
        let mut command = setup.command()?;
        let started = Instant::now();
        let mut process = Watched::start(&mut command)?;
        let mut first = loop {
            let answer = Connection::open(&setup.socket())
                .and_then(|mut connection| connection.ask("PING").map(|_| connection));
            match answer {
                Ok(connection) => break connection,
                Err(error) if started.elapsed() > PATIENCE || process.has_ended() => {
                    return Err(failed(setup.side.name(), error));
                }
                Err(_) => std::thread::sleep(LOOK),
            }
        };
        let first_answer = started.elapsed();
        first.stats()?;
        let mut connections = vec![first];
        while connections.len() < CONNECTIONS {
            connections.push(Connection::open(&setup.socket())?);
        }
        Ok(Daemon { setup, process, connections, started, first_answer })
    }

    /// Sends all batches, divided among the first `connections`; returns how long it took.
    pub fn send(&mut self, batches: &[Vec<u8>], connections: usize) -> Result<Duration, BenchError> {
        let share = batches.len().div_ceil(connections).max(1);
        let start = Instant::now();
        let pairs = self.connections.iter_mut().zip(batches.chunks(share));
        side_by_side(pairs.map(|(connection, batches)| {
            move || batches.iter().try_for_each(|batch| connection.send(batch))
        }))?;
        Ok(start.elapsed())
    }

    /// Sends the first `whole` batches, and the others in a thread beside, in the middle of which it is killed. Returns
    /// how many were acknowledged.
    pub fn send_until_killed(&mut self, batches: &[Vec<u8>], whole: usize) -> Result<usize, BenchError> {
        let (before, after) = batches.split_at(whole);
        self.send(before, 1)?;
        let Daemon { connections, process, .. } = self;
        let sent = std::thread::scope(|scope| {
            let sender =
                scope.spawn(|| after.iter().take_while(|batch| connections[0].send(batch).is_ok()).count());
            std::thread::sleep(BEFORE_KILL);
            process.kill();
            sender.join()
        });
        sent.map(|count| whole + count).map_err(|_| BenchError::Reply("BUG: a sender".into()))
    }

    /// Sends batches of which it may have some updates already. Returns how many it had.
    pub fn send_again(&mut self, batches: &[Vec<u8>]) -> Result<u64, BenchError> {
        batches.iter().map(|batch| self.connections[0].send_again(batch)).sum()
    }

    /// A count of `STATS`; 0 where the daemon has none with this name.
    pub fn stat(&mut self, name: &str) -> Result<u64, BenchError> {
        Ok(self.connections[0].stats()?.get(name).copied().unwrap_or(0))
    }

    /// Waits until `UpdatesWritten` has grown to `writes`.
    pub fn wait_for_writes(&mut self, writes: u64) -> Result<(), BenchError> {
        self.wait("UpdatesWritten", |written| written >= writes)
    }

    /// Waits until a count of `STATS` satisfies `wanted`.
    pub fn wait(&mut self, name: &str, wanted: impl Fn(u64) -> bool) -> Result<(), BenchError> {
        let start = Instant::now();
        while !wanted(self.stat(name)?) {
            if start.elapsed() > PATIENCE {
                return Err(failed(self.setup.side.name(), format!("{name} stays at {}", self.stat(name)?)));
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Makes it write all pending updates of `files` files.
    pub fn drain(&mut self, files: usize) -> Result<Duration, BenchError> {
        let before = self.stat("UpdatesWritten")?;
        let start = Instant::now();
        self.connections[0].ask("FLUSHALL")?;
        self.wait_for_writes(before + files as u64)?;
        Ok(start.elapsed())
    }

    /// CPU nanoseconds up to now.
    pub fn cpu_ns(&self) -> Result<u64, BenchError> {
        Ok(self.process.counted()?.cpu_ns)
    }

    /// Kills it like a power cut; returns how it was started.
    pub fn kill(self) -> Setup {
        self.setup.clone() // dropping the process is a SIGKILL
    }
}
