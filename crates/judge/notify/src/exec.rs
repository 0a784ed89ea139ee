//! Runs a program for a message: its arguments as they are, without a shell; the message on stdin and in the environment; one at a
//! time, within a time, and what it prints is kept within a size. What it does is its own business.

use std::collections::VecDeque;
use std::io::{self, PipeReader, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use khz_model::printable::printable_lines;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use crate::alert::{Labels, with_external};
use crate::answer::{Answer, cut};
use crate::body;
use crate::digest::Job;
use crate::door::Door;
use crate::limits::OUTPUT_BYTES_MAX;
use crate::message::Message;
use crate::settings::ExecSettings;

/// The exit code by which a program asks to be run again later: EX_TEMPFAIL of sysexits.h.
const TRY_LATER: i32 = 75;
/// How long a program that was told to end may take for it.
const FAREWELL: Duration = Duration::from_secs(2);
/// The longest sleep: then the end of khz is noticed.
const SLEEP_MAX: Duration = Duration::from_millis(500);
/// Variables that are khz's own.
const OURS: [&str; 4] = ["CREDENTIALS_DIRECTORY", "LISTEN_FDS", "NOTIFY_SOCKET", "WATCHDOG_USEC"];
/// Bytes of the environment's value of one label: the kernel takes 128 KiB for each.
const VALUE_BYTES_MAX: usize = 8 << 10;

/// A program.
pub(crate) struct Exec {
    settings: ExecSettings,
    external: Arc<Labels>,
    is_over: Arc<AtomicBool>,
    output: Option<String>,
}

impl Exec {
    pub fn new(settings: &ExecSettings, external: &Arc<Labels>, is_over: &Arc<AtomicBool>) -> Self {
        Exec {
            settings: settings.clone(),
            external: external.clone(),
            is_over: is_over.clone(),
            output: None,
        }
    }

    fn command(&self, message: &Message) -> Result<Command, String> {
        let (program, arguments) = self.settings.command.split_first().ok_or("it names no program")?;
        let mut command = Command::new(program);
        command.args(arguments).process_group(0).stdin(Stdio::piped());
        // Settings may be secrets, and the supervisor's socket is not for others.
        let inherited = std::env::vars_os().map(|(name, _)| name);
        let ours = inherited.filter(|name| {
            name.to_str().is_some_and(|name| name.starts_with("KHZ_") || OURS.contains(&name))
        });
        ours.for_each(|name| _ = command.env_remove(name));
        command.envs(environment(message, &self.external));
        Ok(command)
    }

    fn run(&self, message: &Message) -> Result<(Ended, Tail), String> {
        let mut command = self.command(message)?;
        let failed = |error: io::Error| {
            let program = self.settings.command.first().map_or("", String::as_str);
            cut(format!("cannot run {program}: {error}"))
        };
        let (reader, writer) = io::pipe().map_err(failed)?;
        command.stdout(writer.try_clone().map_err(failed)?).stderr(writer);
        let mut child = command.spawn().map_err(failed)?;
        // The parent's ends of the pipe go with it.
        drop(command);
        let body = body::webhook(message, &self.settings.name, &self.external);
        let run = Run::new(&mut child, reader, body).map_err(failed);
        let ended = run.and_then(|run| run.watch(&mut child, self).map_err(failed));
        if ended.is_err() {
            stop(&child, Signal::KILL);
            let _ = child.wait();
        }
        ended
    }
}

impl Door<Job> for Exec {
    fn send(&mut self, job: &Job) -> Answer {
        match self.run(&job.message) {
            Err(problem) => Answer::Refused(problem),
            Ok((ended, tail)) => {
                let text = tail.text();
                let last = text.lines().last().unwrap_or_default().trim();
                let said = if last.is_empty() { String::new() } else { format!(": {last}") };
                let answer = match ended {
                    Ended::Stopped => Answer::Later("khz ends".to_owned(), None),
                    Ended::Late => Answer::Refused(cut(format!(
                        "it was killed after {} s{said}",
                        self.settings.timeout.as_secs_f64()
                    ))),
                    Ended::By(status) if status.success() => Answer::Taken(cut(format!("exit code 0{said}"))),
                    Ended::By(status) => {
                        let problem = match (status.code(), status.signal()) {
                            (Some(code), _) => cut(format!("exit code {code}{said}")),
                            (_, signal) => cut(format!("signal {}{said}", signal.unwrap_or_default())),
                        };
                        match status.code() {
                            Some(TRY_LATER) => Answer::Later(problem, None),
                            _ => Answer::Refused(problem),
                        }
                    }
                };
                self.output = Some(text);
                answer
            }
        }
    }

    fn output(&self) -> Option<String> {
        self.output.clone()
    }
}

/// How a program ended.
enum Ended {
    By(ExitStatus),
    /// It ran for too long.
    Late,
    /// khz itself ends.
    Stopped,
}

/// A program that runs, and its pipes.
struct Run {
    process: OwnedFd,
    stdin: Option<ChildStdin>,
    output: Option<PipeReader>,
    body: Vec<u8>,
    written: usize,
    tail: Tail,
}

impl Run {
    fn new(child: &mut Child, output: PipeReader, body: Vec<u8>) -> io::Result<Self> {
        let process = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
        let stdin = child.stdin.take();
        if let Some(stdin) = &stdin {
            rustix::io::ioctl_fionbio(stdin, true)?;
        }
        rustix::io::ioctl_fionbio(&output, true)?;
        Ok(Run { process, stdin, output: Some(output), body, written: 0, tail: Tail::default() })
    }

    /// Feeds it and reads what it prints until it has ended.
    fn watch(mut self, child: &mut Child, of: &Exec) -> io::Result<(Ended, Tail)> {
        let mut deadline = Instant::now() + of.settings.timeout;
        let mut ended = None;
        loop {
            let now = Instant::now();
            if now >= deadline || (ended.is_none() && of.is_over.load(Ordering::Acquire)) {
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
                    // Those that it has started, too.
                    stop(child, Signal::KILL);
                }
                return Ok((ended, self.tail));
            }
        }
    }

    /// Waits for one thing to happen; true: the program has ended.
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
            // It does not want to know.
            Err(_) => self.written = self.body.len(),
        }
        if self.written == self.body.len() {
            self.stdin = None;
        }
    }

    /// Reads what there is, a pipe's size at most: one that floods gets no more time than others.
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

/// Signals a program and all that it has started. It is not waited for yet, or has just been, so its number is still its own or
/// that of its group.
fn stop(child: &Child, signal: Signal) {
    let _ = kill_process_group(Pid::from_child(child), signal);
}

/// The last bytes of an output.
#[derive(Default)]
struct Tail {
    bytes: VecDeque<u8>,
    left_out: u64,
}

impl Tail {
    fn add(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
        let beyond = self.bytes.len().saturating_sub(OUTPUT_BYTES_MAX);
        self.bytes.drain(..beyond);
        self.left_out += beyond as u64;
    }

    fn text(&self) -> String {
        let (one, two) = self.bytes.as_slices();
        let text = String::from_utf8_lossy(&[one, two].concat()).into_owned();
        let text = printable_lines(&text);
        match self.left_out {
            0 => text.into_owned(),
            left_out => format!("({left_out} bytes before this were left out)\n{text}"),
        }
    }
}

/// The message for programs that do not read JSON.
fn environment(message: &Message, external: &Labels) -> Vec<(String, String)> {
    let mut all = vec![
        ("KHZ_ALERT_NAME".to_owned(), message.name.as_deref().unwrap_or_default().to_owned()),
        ("KHZ_ALERT_STATUS".to_owned(), body::status(message.is_firing()).to_owned()),
        ("KHZ_ALERT_TITLE".to_owned(), message.title()),
        ("KHZ_ALERT_FIRING".to_owned(), message.firing.to_string()),
        ("KHZ_ALERT_RESOLVED".to_owned(), message.resolved.to_string()),
        ("KHZ_ALERT_REPEAT".to_owned(), u8::from(message.is_repeat).to_string()),
    ];
    let (labels, annotations) = (message.common_labels(), message.common_annotations());
    let labels = with_external(&labels, external);
    let labels = labels.iter().map(|(name, value)| ("LABEL", *name, *value));
    let annotations = annotations.iter().map(|(name, value)| ("ANNOTATION", name.as_str(), value.as_str()));
    for (kind, name, value) in labels.chain(annotations) {
        let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        // Others are only in the JSON: a variable cannot have their name, or the kernel not their value.
        if is_name && !value.contains('\0') && value.len() <= VALUE_BYTES_MAX {
            all.push((format!("KHZ_ALERT_{kind}_{name}"), value.to_owned()));
        }
    }
    all.iter_mut().for_each(|(_, value)| value.retain(|c| c != '\0'));
    all
}
