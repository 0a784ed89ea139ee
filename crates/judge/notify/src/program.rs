//! Runs a configured program without a shell, with its stdin and environment. Its time and its kept output are limited. It does not
//! know what the program is for, nor when it is due.

use std::collections::VecDeque;
use std::io::{self, PipeReader, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use khz_model::printable::printable_lines;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use crate::answer::cut;

/// How long a program may take to end after it was asked to.
const FAREWELL: Duration = Duration::from_secs(2);
/// The longest sleep, so that the end of khz is noticed.
const SLEEP_MAX: Duration = Duration::from_millis(500);
/// How long a program may still run when khz ends: the time to notice the end, to ask the program to end, and a moment after the
/// kill.
pub(crate) const STOPPED_AFTER: Duration = Duration::from_secs(6);
/// Variables that are khz's own.
const OURS: [&str; 4] = ["CREDENTIALS_DIRECTORY", "LISTEN_FDS", "NOTIFY_SOCKET", "WATCHDOG_USEC"];
/// Bytes of the environment's value of one label: the kernel takes 128 KiB for each.
const VALUE_BYTES_MAX: usize = 8 << 10;

/// A program, and what it gets.
#[derive(Clone, Debug)]
pub struct Program<'a> {
    /// The program and its arguments, as the kernel gets them.
    pub command: &'a [String],
    /// Its variables, besides those of khz's environment that are not khz's own.
    pub variables: Vec<(String, String)>,
    /// What it gets on stdin.
    pub stdin: Vec<u8>,
    /// How long it may run.
    pub timeout: Duration,
    /// Bytes of its output that are kept, the last ones.
    pub output_max: usize,
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// By itself, or by a signal from outside.
    By(ExitStatus),
    /// It ran for too long, and was killed with all that it had started.
    Late,
    /// khz itself ends, and has stopped the program.
    Stopped,
}

/// Why the end of a program is unknown.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The program was not started: it may be missing during an upgrade, or the machine lacks resources now.
    #[error("{0}")]
    NotStarted(String),
    /// The program cannot be started, since its input is too large for the kernel.
    #[error("{0}")]
    TooMuch(String),
    /// The program was started, but its result is unknown.
    #[error("{0}")]
    Lost(String),
}

/// A program that has ended.
#[derive(Clone, Debug)]
pub struct Run {
    /// How.
    pub ended: Ended,
    /// The last part of its output, safe for a screen.
    pub output: String,
}

impl Program<'_> {
    /// Runs it and waits for its end; `is_over` says that khz ends.
    ///
    /// # Errors
    /// Returns why it cannot be run, in a sentence.
    pub fn run(self, is_over: &AtomicBool) -> Result<Run, RunError> {
        let names_none = || RunError::NotStarted("it names no program".to_owned());
        let (program, arguments) = self.command.split_first().ok_or_else(names_none)?;
        let sentence = |error: &io::Error| cut(format!("cannot run {program}: {error}"));
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::ArgumentListTooLong => RunError::TooMuch(sentence(&error)),
            _ => RunError::NotStarted(sentence(&error)),
        };
        let lost = |error: io::Error| RunError::Lost(sentence(&error));
        let mut command = Command::new(program);
        command.args(arguments).process_group(0).stdin(Stdio::piped());
        // Settings may be secrets, and other programs must not get the supervisor's socket.
        let inherited = std::env::vars_os().map(|(name, _)| name);
        let ours = inherited.filter(|name| {
            name.to_str().is_some_and(|name| name.starts_with("KHZ_") || OURS.contains(&name))
        });
        ours.for_each(|name| _ = command.env_remove(name));
        command.envs(self.variables);
        let (reader, writer) = io::pipe().map_err(failed)?;
        command.stdout(writer.try_clone().map_err(failed)?).stderr(writer);
        let mut child = command.spawn().map_err(failed)?;
        // The parent's ends of the pipe go with it.
        drop(command);
        let running = Running::new(&mut child, reader, self.stdin, self.output_max);
        let run = running.and_then(|run| run.watch(&mut child, self.timeout, is_over)).map_err(lost);
        if run.is_err() {
            stop(&child, Signal::KILL);
            let _ = child.wait();
        }
        run
    }
}

impl Run {
    /// The last line that it printed, with a colon before it; nothing if it printed nothing.
    pub fn last_words(&self) -> String {
        let last = self.output.lines().last().unwrap_or_default().trim();
        if last.is_empty() { String::new() } else { format!(": {last}") }
    }

    /// How it ended, in some words: `exit code 1: no such host`.
    pub fn sentence(&self, timeout: Duration) -> String {
        let said = if matches!(self.ended, Ended::Stopped) { String::new() } else { self.last_words() };
        cut(format!("{}{said}", self.end(timeout)))
    }

    /// The same without what it printed: `exit code 1`.
    pub fn end(&self, timeout: Duration) -> String {
        match self.ended {
            Ended::Stopped => "khz ends".to_owned(),
            Ended::Late => format!("it was killed after {} s", timeout.as_secs_f64()),
            Ended::By(status) => match (status.code(), status.signal()) {
                (Some(code), _) => format!("exit code {code}"),
                (_, signal) => format!("signal {}", signal.unwrap_or_default()),
            },
        }
    }
}

/// The variable of a label or annotation; `None` if its name or value is not allowed in an environment.
pub fn variable(kind: &str, name: &str, value: &str) -> Option<(String, String)> {
    let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    let fits = is_name && !value.contains('\0') && value.len() <= VALUE_BYTES_MAX;
    fits.then(|| (format!("KHZ_ALERT_{kind}_{name}"), value.to_owned()))
}

/// A program that runs, and its pipes.
struct Running {
    process: OwnedFd,
    stdin: Option<ChildStdin>,
    output: Option<PipeReader>,
    body: Vec<u8>,
    written: usize,
    tail: Tail,
}

impl Running {
    fn new(child: &mut Child, output: PipeReader, body: Vec<u8>, max: usize) -> io::Result<Self> {
        let process = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
        let stdin = child.stdin.take();
        if let Some(stdin) = &stdin {
            rustix::io::ioctl_fionbio(stdin, true)?;
        }
        rustix::io::ioctl_fionbio(&output, true)?;
        let tail = Tail { bytes: VecDeque::new(), max, left_out: 0 };
        Ok(Running { process, stdin, output: Some(output), body, written: 0, tail })
    }

    /// Feeds the program and reads its output until it has ended.
    fn watch(mut self, child: &mut Child, timeout: Duration, is_over: &AtomicBool) -> io::Result<Run> {
        let mut deadline = Instant::now() + timeout;
        let mut ended = None;
        loop {
            let now = Instant::now();
            if now >= deadline || (ended.is_none() && is_over.load(Ordering::Acquire)) {
                let is_first = ended.is_none();
                let why = if now >= deadline { Ended::Late } else { Ended::Stopped };
                ended.get_or_insert(why);
                stop(child, if is_first { Signal::TERM } else { Signal::KILL });
                deadline = now + FAREWELL;
            }
            let has_ended = self.turn(deadline.saturating_duration_since(now).min(SLEEP_MAX))?;
            if has_ended {
                let status = child.wait()?;
                self.read();
                let ended = ended.unwrap_or(Ended::By(status));
                if !matches!(ended, Ended::By(_)) {
                    // This also kills what the program has started.
                    stop(child, Signal::KILL);
                }
                return Ok(Run { ended, output: self.tail.text() });
            }
        }
    }

    /// Waits for one event. Returns true if the program has ended.
    fn turn(&mut self, wait: Duration) -> io::Result<bool> {
        let mut waits = vec![PollFd::new(&self.process, PollFlags::IN)];
        let (stdin, output) = (self.stdin.as_ref(), self.output.as_ref());
        waits.extend(output.map(|pipe| PollFd::from_borrowed_fd(pipe.as_fd(), PollFlags::IN)));
        waits.extend(stdin.map(|pipe| PollFd::from_borrowed_fd(pipe.as_fd(), PollFlags::OUT)));
        let wait = Timespec::try_from(wait).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
        match poll(&mut waits, Some(&wait)) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        let has_ended = !waits[0].revents().is_empty();
        drop(waits);
        self.write();
        self.read();
        Ok(has_ended)
    }

    fn write(&mut self) {
        let Some(stdin) = &mut self.stdin else { return };
        match stdin.write(&self.body[self.written..]) {
            Ok(count) => self.written += count,
            Err(error) if is_for_later(&error) => return,
            // The program does not read its stdin.
            Err(_) => self.written = self.body.len(),
        }
        if self.written == self.body.len() {
            self.stdin = None;
        }
    }

    /// Reads the available output, at most a pipe's size, so that a program with much output gets no more time than others.
    fn read(&mut self) {
        const PIPE_BYTES: usize = 64 << 10;
        let Some(output) = &mut self.output else { return };
        let (mut bytes, mut left) = ([0; 4_096], PIPE_BYTES);
        while left > 0 {
            match output.read(&mut bytes) {
                Ok(count) if count > 0 => {
                    self.tail.add(&bytes[..count]);
                    left = left.saturating_sub(count);
                }
                Err(error) if is_for_later(&error) => return,
                _ => {
                    self.output = None;
                    return;
                }
            }
        }
    }
}

fn is_for_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Signals a program and all that it has started. The program was not yet waited for, or only just, so its number still belongs to
/// it or its group.
fn stop(child: &Child, signal: Signal) {
    let _ = kill_process_group(Pid::from_child(child), signal);
}

/// A byte of an output takes at most this many in its text.
const GROWTH_MAX: usize = 8;

/// The last bytes of an output.
struct Tail {
    bytes: VecDeque<u8>,
    max: usize,
    left_out: u64,
}

impl Tail {
    fn add(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
        let beyond = self.bytes.len().saturating_sub(self.max);
        self.bytes.drain(..beyond);
        self.left_out += beyond as u64;
    }

    /// Its text for a screen, within the same number of bytes. Bytes that are not valid characters take more room there.
    fn text(&self) -> String {
        let (one, two) = self.bytes.as_slices();
        let bytes = [one, two].concat();
        let shown = |from: usize| printable_lines(&String::from_utf8_lossy(&bytes[from..])).into_owned();
        let (mut from, mut text) = (0, shown(0));
        while text.len() > self.max {
            from += ((text.len() - self.max) / GROWTH_MAX).max(1);
            text = shown(from);
        }
        match self.left_out + from as u64 {
            0 => text,
            left_out => format!("({left_out} bytes before this were left out)\n{text}"),
        }
    }
}
