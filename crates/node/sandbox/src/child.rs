//! The child process: one thread, which sleeps until a row of some program is due, or the agent has something to say.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::process::ExitCode;

use khz_model::{Nanos, Pattern};
use khz_program::{Program, ProgramError, ProgramHash};
use khz_ring::{Reader, Shared};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendFlags, recvmsg, sendmsg,
};
use rustix::time::{ClockId, clock_gettime};

use crate::confine::confine;
use crate::limits::{COUNTS_EVERY, MESSAGE_BYTES_MAX, PROGRAMS_MAX};
use crate::runner::{Out, Runner};
use crate::wire::{Begin, News, Order};

/// Executes programs until the agent closes the socket.
pub fn run(socket: OwnedFd) -> ExitCode {
    let mut talk = Talk { socket, message: Vec::new() };
    // The first look at a clock finds out how to look, with calls that are not to be had later.
    let begun = now();
    let confined = confine();
    let is_told = match &confined {
        Ok(how) => talk.tell(&News::Ready { how: how.to_string() }),
        Err(why) => talk.tell(&News::Unsafe { why: why.clone() }),
    };
    if !is_told || confined.is_err() {
        return ExitCode::FAILURE;
    }
    let mut child = Child { talk, programs: Vec::new(), counts_due: begun };
    while child.turn().is_some() {}
    ExitCode::SUCCESS
}

/// The boot clock, as both processes read it.
pub(crate) fn now() -> Nanos {
    let time = clock_gettime(ClockId::Boottime);
    Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// The way to the agent. A message waits until the agent has room for it: meanwhile the rings go on, and rows that are overtaken
/// there are counted.
struct Talk {
    socket: OwnedFd,
    message: Vec<u8>,
}

impl Out for Talk {
    fn tell(&mut self, news: &News) -> bool {
        let mut message = std::mem::take(&mut self.message);
        news.put(&mut message);
        let is_sent = self.send(&message);
        self.message = message;
        is_sent
    }

    fn send(&mut self, bytes: &[u8]) -> bool {
        loop {
            let sent = sendmsg(
                &self.socket,
                &[IoSlice::new(bytes)],
                &mut SendAncillaryBuffer::default(),
                SendFlags::NOSIGNAL,
            );
            match sent {
                Ok(_) => return true,
                Err(Errno::INTR) => {}
                Err(_) => return false,
            }
        }
    }
}

struct Child {
    talk: Talk,
    /// Each with the time at which a row of it is due (boot clock).
    programs: Vec<(Runner, Nanos)>,
    counts_due: Nanos,
}

impl Child {
    /// Sleeps until something is due, and does it. `None`: the agent has gone.
    fn turn(&mut self) -> Option<()> {
        if self.sleep() {
            self.take_orders()?;
        }
        for (program, due) in &mut self.programs {
            let now = now();
            if *due <= now {
                *due = program.turn(now, &mut self.talk)?;
            }
        }
        let now = now();
        if now >= self.counts_due {
            self.counts_due = Nanos(now.0 + COUNTS_EVERY.0);
            self.tell_counts()?;
        }
        Some(())
    }

    /// Sleeps; `true`: the agent has said something.
    fn sleep(&self) -> bool {
        let due = self.programs.iter().map(|(_, due)| *due).min();
        // Without programs nothing is due: the agent ends this process.
        let due = due.map(|due| due.min(self.counts_due)).unwrap_or(Nanos(u64::MAX));
        let wait = due.since(now());
        let wait = Timespec {
            tv_sec: (wait.0 / 1_000_000_000).min(3_600) as i64,
            tv_nsec: (wait.0 % 1_000_000_000) as i64,
        };
        let mut fds = [PollFd::new(&self.talk.socket, PollFlags::IN)];
        matches!(poll(&mut fds, Some(&wait)), Ok(1..))
    }

    fn tell_counts(&mut self) -> Option<()> {
        let Child { talk, programs, .. } = self;
        let mut counts = programs.iter().map(|(program, _)| (program.number, program.counts()));
        counts.all(|(number, counts)| talk.tell(&News::Counts { number, counts })).then_some(())
    }

    /// Takes what the agent has said. `None`: it has gone.
    fn take_orders(&mut self) -> Option<()> {
        let mut bytes = vec![0; MESSAGE_BYTES_MAX];
        loop {
            let (length, ring) = match received(&self.talk.socket, &mut bytes) {
                Ok((0, _)) => return None,
                Ok(received) => received,
                Err(Errno::AGAIN) => return Some(()),
                Err(Errno::INTR) => continue,
                Err(_) => return None,
            };
            match Order::take(&bytes[..length]) {
                Some(Order::End { number }) => self.programs.retain(|(program, _)| program.number != number),
                Some(Order::Begin(begin)) => self.begin(begin, ring)?,
                // The agent is the same program: it sends nothing else.
                None => return None,
            }
        }
    }

    fn begin(&mut self, begin: Begin, ring: Option<OwnedFd>) -> Option<()> {
        let number = begin.number;
        let known = self.programs.iter().position(|(program, _)| program.number == number);
        let wrong = match (program(&begin), known) {
            (Ok(program), Some(at)) => {
                self.programs[at].0.replace(program);
                None
            }
            (Ok(program), None) => {
                let begun = self.begun(program, begin, ring);
                begun.map(|begun| self.programs.push((begun, Nanos(0)))).err()
            }
            (Err(why), known) => {
                // The one before is not wanted any more.
                known.map(|at| self.programs.swap_remove(at));
                Some(why)
            }
        };
        wrong.is_none_or(|why| self.talk.tell(&News::Failed { number, why })).then_some(())
    }

    fn begun(&self, program: Program, begin: Begin, ring: Option<OwnedFd>) -> Result<Runner, String> {
        let Begin { number, ring_bytes, is_nameless, patterns, .. } = begin;
        if self.programs.len() >= PROGRAMS_MAX {
            return Err(format!("a node executes {PROGRAMS_MAX} programs at most"));
        }
        let file = ring.ok_or("its rows did not come along")?;
        let ring = Reader::of_shared(Shared { file, size: ring_bytes, is_nameless })?;
        let patterns: Result<Vec<Pattern>, _> = patterns.iter().map(|text| Pattern::new(text)).collect();
        let patterns = patterns.map_err(|error| error.to_string())?;
        Ok(Runner::new(number, program, patterns, ring))
    }
}

/// The module of a program, checked.
///
/// # Errors
/// It is no program, or another one than its name says.
fn program(begin: &Begin) -> Result<Program, String> {
    let module = khz_program::unpack(&begin.packed);
    let module = module.and_then(|module| match ProgramHash::of(&module) == ProgramHash::from(begin.hash) {
        true => Program::new(&module),
        false => Err(ProgramError::Damaged),
    });
    module.map_err(|error| error.to_string())
}

/// A message, and the descriptor that came along.
fn received(socket: &OwnedFd, bytes: &mut [u8]) -> Result<(usize, Option<OwnedFd>), Errno> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut beside = RecvAncillaryBuffer::new(&mut room);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let got = recvmsg(socket, &mut [IoSliceMut::new(bytes)], &mut beside, flags)?;
    let mut file = None;
    for message in beside.drain() {
        if let RecvAncillaryMessage::ScmRights(files) = message {
            file = files.last().or(file);
        }
    }
    Ok((got.bytes, file))
}
