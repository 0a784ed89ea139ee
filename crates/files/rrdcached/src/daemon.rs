//! The daemon as a process: it claims its pid file and sockets, goes to the background, starts its threads, and takes all
//! of that apart when a signal ends it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use khz_rrd::error::{Error, Result, refused};
use khz_rrd::text;

use crate::base::Base;
use crate::cache::{Cache, End, Limits};
use crate::connection::listen::{self, Socket};
use crate::connection::serve::{self, Places};
use crate::log::{self, Left, Log};
use crate::messages::{self, Messages, Sink};
use crate::process::{self, PidFile, Signal, Signals};
use crate::settings::Settings;

/// Time between two calls of [`Cache::tick`].
const TICK: Duration = Duration::from_secs(1);
/// The default pid file, in the background.
const PID_FILE: &str = "/run/rrdcached.pid";
/// The default number of files kept open is at most this.
const OPEN_MAX: u64 = 100_000;

/// The files that show that the daemon runs. They are removed when this is dropped.
struct Footprint {
    pid_file: Option<PidFile>,
    sockets: Vec<PathBuf>,
}

/// What the threads work with.
struct Parts {
    base: Base,
    messages: Messages,
    sockets: Vec<Socket>,
    /// The log's directory.
    log: Option<PathBuf>,
}

/// Runs until a signal ends it.
///
/// # Errors
/// A socket, the log, the base directory or the pid file cannot be had.
pub fn serve(settings: &Settings) -> Result<()> {
    for warning in &settings.warnings {
        khz_rrd::cli::say(&format!("WARNING: {warning}"));
    }
    let mut footprint = Footprint::claim(settings)?;
    let parts = Parts {
        sockets: footprint.open_sockets(settings)?,
        log: settings.log.as_deref().map(absolute),
        base: Base::new(&settings.base, settings.confine)?,
        messages: Messages::new(sink(settings)?, settings.level),
    };
    if !settings.foreground {
        process::to_background()?;
        // Only now is the number the final one.
        footprint.fill()?;
    }
    process::become_other(settings.user, settings.group)?;
    // A working directory cannot be unmounted. The base directory is rrdcached's as well.
    let _ = std::env::set_current_dir(parts.base.directory());
    // The threads inherit it.
    let signals = Signals::hold();
    run(settings, parts, &signals)
}

impl Footprint {
    fn claim(settings: &Settings) -> Result<Self> {
        let pid_file = match (&settings.pid_file, settings.foreground) {
            (Some(path), _) => Some(PidFile::claim(path)?),
            (None, false) => Some(PidFile::claim(Path::new(PID_FILE))?),
            (None, true) => None,
        };
        let footprint = Self { pid_file, sockets: vec![] };
        if settings.foreground {
            // Before the sockets are open: a client that can connect finds the number.
            footprint.fill()?;
        }
        Ok(footprint)
    }

    /// Writes the process's number.
    fn fill(&self) -> Result<()> {
        self.pid_file.as_ref().map_or(Ok(()), PidFile::fill)
    }

    fn open_sockets(&mut self, settings: &Settings) -> Result<Vec<Socket>> {
        let mut sockets = vec![];
        for address in &settings.listen {
            sockets.extend(listen::open(address)?);
        }
        self.sockets = sockets.iter().filter_map(Socket::path).collect();
        Ok(sockets)
    }
}

impl Drop for Footprint {
    fn drop(&mut self) {
        for path in self.sockets.iter().cloned().chain(self.pid_file.iter().map(PidFile::path)) {
            // It may be gone, or in a directory that is no longer ours.
            let _ = std::fs::remove_file(path);
        }
    }
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.into())
}

/// Where messages go.
fn sink(settings: &Settings) -> Result<Sink> {
    match (&settings.messages, settings.foreground) {
        (Some(path), _) => messages::to_file(path),
        (None, true) => Ok(Sink::Terminal),
        // A machine without a system log gets a silent daemon.
        (None, false) => Ok(messages::to_system().unwrap_or(Sink::Nothing)),
    }
}

/// Starts the threads, waits for a signal, and ends the daemon as the signal and the settings say.
fn run(settings: &Settings, parts: Parts, signals: &Signals) -> Result<()> {
    let Parts { base, messages, sockets, log } = parts;
    let (log, left) = log.map(|directory| open_log(settings, directory)).transpose()?.unzip();
    let has_log = log.is_some();
    let cache = Arc::new(Cache::new(base, limits(settings), log, left.is_some(), messages));
    let mut writers = vec![];
    for _ in 0..settings.writers {
        let cache = cache.clone();
        writers.push(spawn("khz-rrd-write", move || cache.work())?);
    }
    let places = Arc::new(Places::new(settings.connections));
    for socket in sockets {
        serve::serve(socket, cache.clone(), places.clone())?;
    }
    if let Some(left) = left {
        start_replay(cache.clone(), left)?;
    }
    start_ticking(cache.clone())?;
    cache.end(end(signals.wait(), has_log && !settings.always_write));
    for writer in writers {
        let _ = writer.join();
    }
    cache.close()
}

/// How to end on `signal`; `may_leave` says whether what waits may be left to the log.
fn end(signal: Signal, may_leave: bool) -> End {
    match signal {
        Signal::EndNow => End::Now,
        Signal::End if may_leave => End::Now,
        Signal::End | Signal::EndWritten => End::Written,
    }
}

fn start_replay(cache: Arc<Cache>, left: Left) -> Result<()> {
    let replay = move || {
        if let Err(error) = cache.replay(&left) {
            cache.report(&error);
        }
    };
    spawn("khz-rrd-replay", replay).map(|_| ())
}

fn start_ticking(cache: Arc<Cache>) -> Result<()> {
    let ticks = move || {
        loop {
            std::thread::sleep(TICK);
            cache.tick();
        }
    };
    spawn("khz-rrd-tick", ticks).map(|_| ())
}

fn open_log(settings: &Settings, directory: PathBuf) -> Result<(Log, Left)> {
    no_journals(&directory)?;
    Log::open(log::Settings {
        directory,
        window: settings.window,
        bytes_max: settings.log_max,
        boot: process::boot(),
        storage: Arc::new(log::Disk),
    })
}

/// Refuses to start over the journals of an rrdcached: their updates would never be written.
fn no_journals(directory: &Path) -> Result<()> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let journal = |entry: &std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with("rrd.journal.");
    match entries.into_iter().find(journal) {
        Some(entry) => refused(format!(
            "'{}' is a journal of rrdcached, which is not read here: start rrdcached once more and end it with SIGUSR1",
            text::name(entry.path())
        )),
        None => Ok(()),
    }
}

/// The limits, with a number of files to keep open.
fn limits(settings: &Settings) -> Limits {
    let mut limits = settings.limits;
    if limits.open_max == 0 {
        limits.open_max = (process::raise_open_files().unwrap_or(OPEN_MAX) / 2).min(OPEN_MAX) as usize;
    }
    limits
}

/// Starts a thread.
///
/// # Errors
/// What the system says.
pub fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<std::thread::JoinHandle<()>> {
    let thread = std::thread::Builder::new().name(name.into()).spawn(work);
    thread.map_err(|error| Error::io("starting the thread", name, error))
}
