//! The daemon as a process: settings in, then sockets, log, cache and threads are put together, and taken apart when a
//! signal ends it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use khz_rrd::error::{Error, Result, refused};
use khz_rrd::text;

use crate::base::Base;
use crate::cache::{Cache, End, Limits};
use crate::connection::listen::{self, Address};
use crate::log::{self, Log};
use crate::messages::{self, Level, Messages, Sink};
use crate::process::{self, PidFile, Signal, Signals};

/// How often limits and old samples are looked at.
const TICK: Duration = Duration::from_secs(1);
/// Where the process's number is kept if nothing is said, in the background.
const PID_FILE: &str = "/run/rrdcached.pid";
/// Most files kept open if nothing is said.
const OPEN_MAX: u64 = 100_000;

/// How to run.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The sockets.
    pub listen: Vec<Address>,
    /// Where the log lies; without it updates do not survive the process.
    pub log: Option<PathBuf>,
    /// How long an acknowledged update may be unsynced; zero syncs before each answer.
    pub window: Duration,
    /// Bytes the log may have.
    pub log_max: u64,
    /// When to write, and how much may wait.
    pub limits: Limits,
    /// Threads that write.
    pub writers: u32,
    /// Connections served at once.
    pub connections: usize,
    /// Where relative names lie.
    pub base: PathBuf,
    /// Whether every file must be below it.
    pub confine: bool,
    /// Whether everything is written at the end, even with a log.
    pub always_write: bool,
    /// Whether the process stays where it is.
    pub foreground: bool,
    /// Where its number is kept.
    pub pid_file: Option<PathBuf>,
    /// Who it becomes: user and his group.
    pub user: Option<(u32, u32)>,
    /// The group it becomes.
    pub group: Option<u32>,
    /// The file messages go to.
    pub messages: Option<PathBuf>,
    /// How grave they must be.
    pub level: Level,
    /// What the command line gave reason to say.
    pub warnings: Vec<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: vec![],
            log: None,
            window: Duration::from_millis(10),
            log_max: 8 << 30,
            limits: Limits { open_max: 0, ..Limits::default() },
            writers: 4,
            connections: listen::CONNECTIONS,
            base: "/tmp".into(),
            confine: false,
            always_write: false,
            foreground: false,
            pid_file: None,
            user: None,
            group: None,
            messages: None,
            level: Level::ERROR,
            warnings: vec![],
        }
    }
}

/// Runs until a signal ends it.
///
/// # Errors
/// A socket, the log, the base directory or the pid file cannot be had.
pub fn serve(settings: &Settings) -> Result<()> {
    for warning in &settings.warnings {
        khz_rrd::cli::say(&format!("WARNING: {warning}"));
    }
    let pid_file = match (&settings.pid_file, settings.foreground) {
        (Some(path), _) => Some(PidFile::claim(path)?),
        (None, false) => Some(PidFile::claim(Path::new(PID_FILE))?),
        (None, true) => None,
    };
    let cleanup = |error| {
        pid_file.iter().for_each(|file| remove(&file.path()));
        error
    };
    // Whoever can connect finds our number; in the background it is another one, and written then.
    if let Some(file) = pid_file.as_ref().filter(|_| settings.foreground) {
        file.fill().map_err(cleanup)?;
    }
    let mut sockets = vec![];
    for address in &settings.listen {
        sockets.extend(listen::open(address).map_err(cleanup)?);
    }
    let paths: Vec<PathBuf> = sockets.iter().filter_map(listen::Socket::path).collect();
    let cleanup = |error| {
        paths.iter().for_each(|path| remove(path));
        cleanup(error)
    };
    let log = settings.log.as_deref().map(|path| std::path::absolute(path).unwrap_or_else(|_| path.into()));
    let base = Base::new(&settings.base, settings.confine).map_err(cleanup)?;
    let sink = match (&settings.messages, settings.foreground) {
        (Some(path), _) => messages::to_file(path).map_err(cleanup)?,
        (None, true) => Sink::Terminal,
        // A machine without a system log gets a silent daemon.
        (None, false) => messages::to_system().unwrap_or(Sink::Nothing),
    };
    if !settings.foreground {
        process::to_background().map_err(cleanup)?;
    }
    if let Some(file) = pid_file.as_ref().filter(|_| !settings.foreground) {
        file.fill().map_err(cleanup)?;
    }
    process::become_other(settings.user, settings.group).map_err(cleanup)?;
    // Directories are never in the way of being unmounted, except this one, which rrdcached holds as well.
    let _ = std::env::set_current_dir(base.directory());
    let signals = Signals::hold();
    let messages = Messages::new(sink, settings.level);
    let ended = converse(settings, log, base, messages, sockets, &signals);
    paths.iter().for_each(|path| remove(path));
    pid_file.iter().for_each(|file| remove(&file.path()));
    ended
}

fn remove(path: &Path) {
    // It may be gone, or in a directory that is no longer ours.
    let _ = std::fs::remove_file(path);
}

fn converse(
    settings: &Settings,
    log: Option<PathBuf>,
    base: Base,
    messages: Messages,
    sockets: Vec<listen::Socket>,
    signals: &Signals,
) -> Result<()> {
    let (log, left) = match log {
        Some(directory) => {
            no_journals(&directory)?;
            let (log, left) = Log::open(log_settings(settings, directory))?;
            (Some(log), Some(left))
        }
        None => (None, None),
    };
    let mut limits = settings.limits;
    if limits.open_max == 0 {
        limits.open_max = raise_open_files();
    }
    let logged = log.is_some();
    let cache = Arc::new(Cache::new(base, limits, log, left.is_some(), messages));
    let mut writers = vec![];
    for _ in 0..settings.writers {
        let cache = cache.clone();
        writers.push(spawn("khz-rrd-write", move || cache.work())?);
    }
    let places = Arc::new(listen::Places::new(settings.connections));
    for socket in sockets {
        socket.serve(cache.clone(), places.clone())?;
    }
    if let Some(left) = left {
        let cache = cache.clone();
        spawn("khz-rrd-replay", move || {
            if let Err(error) = cache.replay(&left) {
                cache.report(&error);
            }
        })?;
    }
    let ticking = cache.clone();
    spawn("khz-rrd-tick", move || {
        loop {
            std::thread::sleep(TICK);
            ticking.tick();
        }
    })?;
    let end = match signals.wait() {
        Signal::EndWritten => End::Written,
        Signal::EndNow => End::Now,
        Signal::End if logged && !settings.always_write => End::Now,
        Signal::End => End::Written,
    };
    cache.end(end);
    for writer in writers {
        let _ = writer.join();
    }
    cache.close()
}

/// Refuses to start over what an rrdcached has left: it would never be written.
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

fn log_settings(settings: &Settings, directory: PathBuf) -> log::Settings {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    log::Settings {
        directory,
        window: settings.window,
        bytes_max: settings.log_max,
        boot: boot.trim().into(),
        storage: Arc::new(log::Disk),
    }
}

/// Raises the limit of open files as far as it goes; how many may be kept.
fn raise_open_files() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    let most = getrlimit(Resource::Nofile).current.unwrap_or(OPEN_MAX);
    (most / 2).min(OPEN_MAX) as usize
}

/// Starts a thread.
///
/// # Errors
/// What the system says.
pub fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<std::thread::JoinHandle<()>> {
    let thread = std::thread::Builder::new().name(name.into()).spawn(work);
    thread.map_err(|error| Error::io("starting the thread", name, error))
}
