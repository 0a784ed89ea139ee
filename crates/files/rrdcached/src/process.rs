//! The daemon's requests to the system: its number in a file, its user, its place in the background, its signals, its limits. It
//! knows nothing of updates.

#![allow(unsafe_code, reason = "the standard library has no users, no fork(2) and no signals")]

use std::ffi::CString;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use khz_rrd::error::{Error, Result, refused};
use khz_rrd::text;

/// The file with the process's number.
pub struct PidFile(PathBuf);

impl PidFile {
    /// Claims `path`. [`PidFile::fill`] writes the number, when it is the final one.
    ///
    /// # Errors
    /// Another daemon runs, or the file cannot be made.
    pub fn claim(path: &Path) -> Result<Self> {
        let failed = |error| Error::io("creating pid file", path, error);
        let create = || OpenOptions::new().write(true).create_new(true).open(path);
        match create() {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let text = std::fs::read_to_string(path).map_err(failed)?;
                if let Some(pid) = text.trim().parse().ok().and_then(rustix::process::Pid::from_raw)
                    && rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH)
                {
                    return refused(format!(
                        "another rrdcached runs as process {pid}, says '{}'",
                        text::name(path),
                        pid = pid.as_raw_nonzero()
                    ));
                }
                // A killed daemon left it.
                std::fs::remove_file(path).and_then(|()| create()).map_err(failed)?;
            }
            Err(error) => return Err(failed(error)),
        }
        Ok(Self(std::path::absolute(path).unwrap_or_else(|_| path.into())))
    }

    /// Writes this process's number.
    ///
    /// # Errors
    /// What the system says.
    pub fn fill(&self) -> Result<()> {
        let failed = |error| Error::io("writing pid file", &self.0, error);
        let mut file = OpenOptions::new().write(true).truncate(true).open(&self.0).map_err(failed)?;
        writeln!(file, "{}", std::process::id()).map_err(failed)
    }

    /// Where it is.
    pub fn path(&self) -> PathBuf {
        self.0.clone()
    }
}

/// A user's number and group.
///
/// # Errors
/// There is no such user.
pub fn user(name: &str) -> Result<(u32, u32)> {
    let text = CString::new(name).unwrap_or_default();
    // SAFETY: `text` is a C string; the result is read before any other call, and no other thread runs yet.
    let found = unsafe { libc::getpwnam(text.as_ptr()).as_ref().map(|user| (user.pw_uid, user.pw_gid)) };
    let by_number = || {
        let uid = name.parse().ok()?;
        // SAFETY: as above.
        unsafe { libc::getpwuid(uid).as_ref().map(|user| (user.pw_uid, user.pw_gid)) }
    };
    found.or_else(by_number).ok_or_else(|| Error::Refused(format!("there is no user \"{name}\"")))
}

/// A group's number.
///
/// # Errors
/// There is no such group.
pub fn group(name: &str) -> Result<u32> {
    let text = CString::new(name).unwrap_or_default();
    // SAFETY: `text` is a C string; the result is read before any other call, and no other thread runs yet.
    let found = unsafe { libc::getgrnam(text.as_ptr()).as_ref().map(|group| group.gr_gid) };
    let by_number = || name.parse::<u32>().ok();
    found.or_else(by_number).ok_or_else(|| Error::Refused(format!("there is no group \"{name}\"")))
}

/// Becomes `user` and `group`, if the process may. Must be called while it has one thread.
///
/// # Errors
/// The system refuses. Without privileges nothing is tried, as in rrdcached.
pub fn become_other(user: Option<(u32, u32)>, group: Option<u32>) -> Result<()> {
    if !rustix::process::geteuid().is_root() || (user.is_none() && group.is_none()) {
        return Ok(());
    }
    let failed = |what| move || Error::io("changing to", what, io::Error::last_os_error());
    let gid = group.or(user.map(|(_, gid)| gid));
    if let Some(gid) = gid {
        // SAFETY: plain numbers; the list is `gid` alone.
        let done = unsafe { libc::setgroups(1, &raw const gid) == 0 && libc::setgid(gid) == 0 };
        done.then_some(()).ok_or_else(failed("another group"))?;
    }
    if let Some((uid, _)) = user {
        // SAFETY: a plain number.
        let done = unsafe { libc::setuid(uid) == 0 };
        done.then_some(()).ok_or_else(failed("another user"))?;
    }
    Ok(())
}

/// Continues in the background, in a session of its own and without a terminal. Must be called while the process has one
/// thread.
///
/// # Errors
/// What the system says.
pub fn to_background() -> Result<()> {
    let failed = || Error::io("going to", "the background", io::Error::last_os_error());
    // SAFETY: the process has one thread, so the child has all there is.
    match unsafe { libc::fork() } {
        -1 => return Err(failed()),
        0 => {}
        _ => std::process::exit(0),
    }
    let _ = rustix::process::setsid();
    let opened = OpenOptions::new().read(true).write(true).open("/dev/null");
    let null = opened.map_err(|error| Error::io("opening", "/dev/null", error))?;
    for stream in [
        rustix::stdio::dup2_stdin(&null),
        rustix::stdio::dup2_stdout(&null),
        rustix::stdio::dup2_stderr(&null),
    ] {
        stream.map_err(|error| Error::io("leaving", "the terminal", error.into()))?;
    }
    Ok(())
}

/// Raises the limit of open files as far as the process may; returns it, if there is one.
pub fn raise_open_files() -> Option<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    getrlimit(Resource::Nofile).current
}

/// The machine's boot, as the kernel names it; empty where it cannot be read.
pub fn boot() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    boot.trim().into()
}

/// A signal that ends the daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// TERM or INT: end as `-j` and `-F` say.
    End,
    /// USR1: write everything, then end.
    EndWritten,
    /// USR2: end at once.
    EndNow,
}

/// Signals that do not kill the process and can be waited for.
pub struct Signals(libc::sigset_t);

impl Signals {
    /// Holds the signals back. Must be called before other threads start, which inherit it.
    pub fn hold() -> Self {
        // SAFETY: a signal set of zeros is valid storage, which sigemptyset fills; all calls get valid pointers.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGUSR1, libc::SIGUSR2] {
                libc::sigaddset(&raw mut set, signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
            Self(set)
        }
    }

    /// Waits for the next.
    pub fn wait(&self) -> Signal {
        let mut signal = 0;
        // SAFETY: the set was filled by `hold`, and `signal` lives through the call.
        while unsafe { libc::sigwait(&raw const self.0, &raw mut signal) } != 0 {}
        match signal {
            libc::SIGUSR1 => Signal::EndWritten,
            libc::SIGUSR2 => Signal::EndNow,
            _ => Signal::End,
        }
    }
}
