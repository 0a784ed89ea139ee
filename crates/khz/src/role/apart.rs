//! Runs a command in a process of its own, if the command reads this machine's kernel while a FUSE file system is mounted. The
//! kernel cannot end a thread that waits for such a file system, nor its process: not even SIGKILL does. So the command's first
//! process waits until the second one reports its exit code, and then ends. This module knows nothing of the command's work.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use khz_parse::mountinfo::mounts;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::DisableMouseCapture;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::LeaveAlternateScreen;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, Signal, getppid, kill_process, set_parent_process_death_signal};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};

use super::signals::{self, exit_code, is_in_front};
use crate::show::outcome::Failure;

/// For the second process: the number of the first one, and the pipe that says how the second one ended: "4711:5".
const VARIABLE: &str = "KHZ_APART";
/// A longer list of mounts is not read. It counts as a list with a FUSE file system.
const LIST_BYTES_MAX: u64 = 8 << 20;
/// How long the first process waits for the second one to end after its work is done.
const END_MAX: Duration = Duration::from_millis(200);

/// Runs this process's command in a second process, and returns the end of that process as a failure. Returns without one if
/// nothing can hang for ever, or in the second process.
pub fn or_here(root: &Path) -> Result<(), Failure> {
    if pipe_of_second().is_some() {
        // The second process ends with the first one, whatever ended the first.
        let _ = set_parent_process_death_signal(Some(Signal::TERM));
        return Ok(());
    }
    if !may_hang(root) {
        return Ok(());
    }
    match in_second() {
        Ok(code) => Err(Failure::InSecond(code)),
        Err(error) => {
            tracing::debug!("no second process: {error}");
            Ok(())
        }
    }
}

/// The second process reports its exit code. Nobody waits for its outputs any more.
pub fn end(code: u8) {
    let Some(path) = pipe_of_second() else { return };
    // Hanging threads keep the files of this process open, and a pipe's reader waits for the last one.
    if let Ok(nowhere) = OpenOptions::new().read(true).write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdin(&nowhere);
        let _ = rustix::stdio::dup2_stdout(&nowhere);
        let _ = rustix::stdio::dup2_stderr(&nowhere);
    }
    let _ = OpenOptions::new().write(true).open(path).and_then(|mut pipe| pipe.write_all(&[code]));
}

/// The pipe, if this is the second process. A program started by it inherits the variable, but has another parent.
fn pipe_of_second() -> Option<String> {
    let value = std::env::var(VARIABLE).ok()?;
    let (first, pipe) = value.split_once(':')?;
    let is_child = getppid().is_some_and(|parent| parent.as_raw_nonzero().get().to_string() == first);
    is_child.then(|| format!("/proc/self/fd/{pipe}"))
}

/// True if a file system that is mounted here may keep a thread waiting for ever.
fn may_hang(root: &Path) -> bool {
    if root != Path::new("/") {
        return false;
    }
    let mut list = Vec::new();
    let read =
        File::open("/proc/self/mountinfo").and_then(|file| file.take(LIST_BYTES_MAX).read_to_end(&mut list));
    read.is_ok_and(|bytes| {
        bytes as u64 == LIST_BYTES_MAX || mounts(&list).any(|mount| is_fuse(mount.fs_type))
    })
}

fn is_fuse(fs_type: &[u8]) -> bool {
    // The kernel's own list of connections is of another type, and asks nobody.
    fs_type != b"fusectl" && (fs_type.starts_with(b"fuse") || fs_type == b"virtiofs")
}

/// What the first process learns about the second one.
enum Told {
    /// The second process has done its work, and ends with this code.
    Done(u8),
    /// It has ended.
    Ended(ExitStatus),
}

fn in_second() -> std::io::Result<u8> {
    let (said, says) = std::io::pipe()?;
    fcntl_setfd(&says, FdFlags::empty())?;
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let own = std::process::id();
    let pid = Arc::new(OnceLock::new());
    let pass = {
        let pid = pid.clone();
        move |signal| match pid.get() {
            // The terminal has sent Ctrl-C to both processes.
            Some(&second) if signal != Signal::INT || !is_in_front() => _ = kill_process(second, signal),
            _ => {}
        }
    };
    signals::count_signals(u32::MAX, pass).map_err(std::io::Error::other)?;
    let terminal = Terminal::now();
    // Start the program by its name, which lists of processes show. A program that was replaced meanwhile is still reachable as
    // /proc/self/exe.
    let own_path = std::env::current_exe().ok().filter(|path| path.is_file());
    let mut command = Command::new(own_path.unwrap_or_else(|| "/proc/self/exe".into()));
    command.args(words).env(VARIABLE, format!("{own}:{}", says.as_raw_fd()));
    let mut second = command.spawn()?;
    drop(says);
    let _ = pid.set(Pid::from_child(&second));
    let (told, hears) = channel();
    std::thread::spawn({
        let told = told.clone();
        move || tell_done(said, &told)
    });
    std::thread::spawn(move || tell_end(&mut second, &told));
    let code = match hears.recv() {
        Ok(Told::Done(code)) => {
            let _ = hears.recv_timeout(END_MAX);
            code
        }
        Ok(Told::Ended(status)) => {
            // The killed process could not restore the terminal.
            if let (Some(terminal), Some(_)) = (terminal, status.signal()) {
                terminal.give_back();
            }
            exit_code(status)
        }
        Err(_) => 1,
    };
    Ok(code)
}

/// The terminal as it was before the second process began.
struct Terminal {
    file: File,
    modes: Termios,
}

impl Terminal {
    /// `None`: there is none.
    fn now() -> Option<Self> {
        let file = OpenOptions::new().read(true).write(true).open("/dev/tty").ok()?;
        let modes = tcgetattr(&file).ok()?;
        Some(Terminal { file, modes })
    }

    /// Restores the terminal if its modes have changed.
    fn give_back(self) {
        let is_taken = tcgetattr(&self.file).is_ok_and(|modes| modes.local_modes != self.modes.local_modes);
        if is_taken {
            let _ = tcsetattr(&self.file, OptionalActions::Now, &self.modes);
            let mut out = BufWriter::new(&self.file);
            let _ = execute!(out, DisableMouseCapture, LeaveAlternateScreen, Show);
        }
    }
}

fn tell_done(mut said: impl Read, told: &Sender<Told>) {
    let mut code = [0];
    if said.read_exact(&mut code).is_ok() {
        let _ = told.send(Told::Done(code[0]));
    }
}

fn tell_end(second: &mut Child, told: &Sender<Told>) {
    if let Ok(status) = second.wait() {
        let _ = told.send(Told::Ended(status));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_systems_that_a_program_serves_may_hang() {
        for (fs_type, may) in [("fuse", true), ("fuse.sshfs", true), ("fuseblk", true), ("virtiofs", true)] {
            assert_eq!(is_fuse(fs_type.as_bytes()), may, "{fs_type}");
        }
        for fs_type in ["ext4", "nfs4", "fusectl", "overlay"] {
            assert!(!is_fuse(fs_type.as_bytes()), "{fs_type}");
        }
    }

    #[test]
    fn a_captured_host_hangs_nowhere() {
        assert!(!may_hang(Path::new("/nowhere")));
    }
}
