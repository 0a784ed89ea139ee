//! One connection from its beginning to its end: it moves bytes between the socket and one end of the protocol. It never
//! sleeps. The seat decides which thread drives it, and when.

use std::sync::Arc;

use khz_model::Nanos;
use khz_trust::explain_io;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::io::Errno;

use crate::driver::bell::Bell;
use crate::driver::counters::{Counters, add, set};
use crate::driver::transport::Transport;
use crate::driver::{clock, tcp};
use crate::error::LinkError;
use crate::goodbye::{Goodbye, Leaving};
use crate::limits::OUT_MAX;

/// Bytes read at once.
const READ_MAX: usize = 16 << 10;
/// The bytes that wait and the Goodbye have this long to leave: a service that is stopped should end soon.
const LEAVING: Nanos = Nanos::from_millis(200);
/// Rows that wait for a flush get this part of that time: the Goodbye needs the rest.
const FLUSHING: Nanos = Nanos(LEAVING.0 / 2);
/// The time between two updates of the connection's counters.
const COUNT: Nanos = Nanos::SECOND;
/// How often the kernel is asked for retransmissions: it is a system call that no row needs.
const ASK_EVERY: Nanos = Nanos::from_secs(5);

/// One end of the protocol, as a session drives it: an agent's or a reader's.
pub(crate) trait End {
    /// Takes bytes from the hub.
    fn receive(&mut self, bytes: &[u8], now: Nanos, wall: i64, out: &mut Vec<u8>) -> Result<(), LinkError>;
    /// Sends what is due.
    fn poll(&mut self, now: Nanos, wall: i64, out: &mut Vec<u8>) -> Result<(), LinkError>;
    /// When to poll it next.
    fn next_wake(&self) -> Nanos;
    /// True if it has more to send as soon as the waiting bytes are sent.
    fn wants_room(&self) -> bool {
        false
    }
    /// How many of the answers to come need not wake a thread, and how many bytes each has.
    fn answers_may_wait(&self) -> (usize, usize) {
        (0, 0)
    }
    /// This number of bytes came and stays unread; `answer` is the length of one answer. `false`: the bytes are not
    /// whole answers.
    fn kept(&mut self, bytes: usize, answer: usize) -> bool {
        let _ = (bytes, answer);
        true
    }
    /// The first time at which the thread that writes rows may send them: at once, at the next
    /// flush, or never.
    fn carries_from(&self) -> Nanos {
        Nanos(u64::MAX)
    }
    /// True if that thread sends rows at least once a second.
    fn is_carried_often(&self) -> bool {
        false
    }
    /// True while there is nothing to send but a few rows.
    fn is_calm(&self) -> bool {
        false
    }
    /// True once the hub has accepted us.
    fn is_welcome(&self) -> bool;
    /// The identity of the hub, as its Greeting says it; zeros: unknown.
    fn hub_identity(&self) -> [u8; 16] {
        [0; 16]
    }
    /// The hub has accepted us, just now.
    fn welcomed(&mut self) {}
    /// The kernel has retransmitted this many segments.
    fn retransmitted(&mut self, segments: u64) {
        let _ = segments;
    }
    /// We are about to end the connection: sends everything that waits for a later moment. `false`: not everything had
    /// room.
    fn flush(&mut self, out: &mut Vec<u8>) -> bool {
        let _ = out;
        true
    }
    /// We end the connection on purpose: sends a Goodbye.
    fn goodbye(&self, goodbye: &Goodbye<'_>, out: &mut Vec<u8>) {
        let _ = (goodbye, out);
    }
    /// Everything that has come was handed to the end.
    fn read_all(&mut self) {}
    /// Updates the counters. Called once a second and at the end.
    fn count(&mut self, counters: &Counters);
}

/// Buffers that outlive connections.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    input: Vec<u8>,
    out: Vec<u8>,
}

impl Buffers {
    pub fn new() -> Self {
        Buffers { input: vec![0; READ_MAX], out: Vec::new() }
    }
}

/// Why a session ended.
#[derive(Debug)]
pub(crate) enum Ended {
    /// The thread is to end.
    Stopped,
    /// We move to this hub, which is better; the text says why, for people.
    Moves(usize, String),
    /// The protocol ended it.
    Link(LinkError),
    /// The peer closed, or the socket failed.
    Socket(String),
}

impl From<LinkError> for Ended {
    fn from(error: LinkError) -> Self {
        Ended::Link(error)
    }
}

impl From<std::io::Error> for Ended {
    fn from(error: std::io::Error) -> Self {
        Ended::Socket(explain_io(&error))
    }
}

/// A connection.
pub(crate) struct Session<E> {
    pub end: E,
    transport: Transport,
    buffers: Buffers,
    counters: Counters,
    /// Which hub it is, from 1.
    hub: u64,
    /// Since when it is accepted.
    pub welcome: Option<Nanos>,
    next_ask: Nanos,
    next_count: Nanos,
    /// The socket becomes readable when it has this many bytes.
    readable_from: usize,
    /// Why the connection ended while another thread than the link's thread drove it.
    failed: Option<Ended>,
}

/// How the link's thread sleeps until the next turn.
pub(crate) struct Pause {
    pub socket: Arc<OwnedFd>,
    pub interest: PollFlags,
    /// On CLOCK_BOOTTIME.
    pub until: Nanos,
}

impl<E: End> Session<E> {
    pub fn new(end: E, transport: Transport, mut buffers: Buffers, counters: Counters, hub: u64) -> Self {
        buffers.out.clear();
        Session {
            end,
            transport,
            buffers,
            counters,
            hub,
            welcome: None,
            next_ask: Nanos(0),
            next_count: Nanos(0),
            readable_from: 1,
            failed: None,
        }
    }

    /// Sends what is due. Returns how long to pause when there is nothing more to send. `None`: there is more, so the next
    /// turn is due at once.
    pub fn turn(&mut self) -> Result<Option<Pause>, Ended> {
        if let Some(failed) = self.failed.take() {
            return Err(failed);
        }
        let now = clock::now();
        if now >= self.next_ask {
            self.ask_retransmits(now);
        }
        self.say(now)?;
        if self.end.wants_room() && self.buffers.out.is_empty() {
            return Ok(None);
        }
        let waits = !self.is_sent();
        let interest = if waits { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let socket = self.transport.socket().clone();
        Ok(Some(Pause { socket, interest, until: self.end.next_wake() }))
    }

    fn say(&mut self, now: Nanos) -> Result<(), Ended> {
        if now >= self.next_count {
            // A little early, so that this update happens in the poll that sends the Beat.
            self.next_count = Nanos(now.0 + COUNT.0 * 9 / 10);
            self.count();
        }
        self.end.poll(now, clock::wall(), &mut self.buffers.out)?;
        // Before the Beat is sent: a near hub answers within microseconds.
        self.wake_at_bytes();
        self.write()
    }

    /// Sends the rows that wait for a flush, and then a Goodbye, if the hub reads them soon. Otherwise the hub sees the connection end
    /// without a Goodbye.
    fn leave(&mut self, leaving: Leaving, text: &str) {
        let now = clock::now();
        let (flushing, gone) = (Nanos(now.0 + FLUSHING.0), Nanos(now.0 + LEAVING.0));
        let mut is_all = self.end.flush(&mut self.buffers.out);
        while !is_all && self.send_until(flushing) {
            is_all = self.end.flush(&mut self.buffers.out);
        }
        self.end.goodbye(&Goodbye { leaving, text }, &mut self.buffers.out);
        self.send_until(gone);
    }

    /// Sends the waiting bytes, as far as the hub reads them before this time. `true`: all were
    /// sent.
    fn send_until(&mut self, until: Nanos) -> bool {
        while self.write().is_ok() {
            if self.is_sent() {
                return true;
            }
            let left = until.since(clock::now());
            if left == Nanos(0) {
                return false;
            }
            let room = PollFd::new(self.transport.socket(), PollFlags::OUT);
            let timeout = Timespec { tv_sec: 0, tv_nsec: left.0.min(LEAVING.0) as i64 };
            if poll(&mut [room], Some(&timeout)).is_err() {
                return false;
            }
        }
        false
    }

    /// The pause is over; `woken`: something can be read.
    pub fn wake(&mut self, woken: bool) -> Result<(), Ended> {
        // An answer may have come that did not wake us.
        let may_hold_answer = self.readable_from > 1 || self.transport.has_kept();
        if woken || may_hold_answer { self.read() } else { Ok(()) }
    }

    /// Sends the rows that were written just now, if there is nothing else to send; `false`: the link's thread has to. Bytes that
    /// have come stay unread: only the link's thread decodes them.
    pub fn carry(&mut self) -> bool {
        if self.failed.is_some() || !self.is_sent() || !self.end.is_calm() {
            return false;
        }
        let (_, answer) = self.end.answers_may_wait();
        let answer = self.transport.wire_bytes(answer);
        let is_heard = self.transport.keep().is_some_and(|bytes| self.end.kept(bytes, answer));
        self.failed = self.say(clock::now()).err();
        self.failed.is_none() && self.is_sent() && is_heard
    }

    fn is_sent(&self) -> bool {
        self.buffers.out.is_empty() && !self.transport.wants_write()
    }

    /// The connection has ended. The last frame of the hub may have the reason.
    pub fn finish(mut self, ended: Ended) -> (E, Ended, Buffers) {
        match &ended {
            Ended::Stopped => self.leave(Leaving::Ends, ""),
            Ended::Moves(_, text) => self.leave(Leaving::Moves, text),
            _ => {}
        }
        self.count();
        let ended = match ended {
            Ended::Socket(_) => self.read().err().unwrap_or(ended),
            other => other,
        };
        (self.end, ended, self.buffers)
    }

    /// Answers that are not timed wait in the socket; any other frame, such as an Interest, wakes us at once.
    fn wake_at_bytes(&mut self) {
        let (answers, bytes) = self.end.answers_may_wait();
        let bytes = answers * self.transport.wire_bytes(bytes) + 1;
        if bytes != self.readable_from {
            self.readable_from = bytes;
            tcp::set_readable_from(self.transport.socket(), bytes);
        }
    }

    fn read(&mut self) -> Result<(), Ended> {
        let result = self.read_what_came();
        self.end.read_all();
        result
    }

    fn read_what_came(&mut self) -> Result<(), Ended> {
        loop {
            let was_kept = self.transport.has_kept();
            let Some(count) = self.transport.read(&mut self.buffers.input)? else { return Ok(()) };
            if count == 0 {
                return Err(Ended::Socket("the hub has closed the connection".into()));
            }
            add(&self.counters.bytes_received, count as u64);
            let bytes = &self.buffers.input[..count];
            self.end.receive(bytes, clock::now(), clock::wall(), &mut self.buffers.out)?;
            if self.welcome.is_none() && self.end.is_welcome() {
                self.welcomed();
            }
            // More may have come than was kept.
            if count < self.buffers.input.len() && !was_kept {
                return Ok(());
            }
        }
    }

    fn welcomed(&mut self) {
        self.welcome = Some(clock::now());
        add(&self.counters.connects, 1);
        set(&self.counters.hub, Some(self.hub));
        self.end.welcomed();
    }

    fn write(&mut self) -> Result<(), Ended> {
        let out = &mut self.buffers.out;
        if out.is_empty() && !self.transport.wants_write() {
            return Ok(());
        }
        let written = self.transport.write(out)?;
        add(&self.counters.bytes_sent, written as u64);
        add(&self.counters.sends, 1);
        out.drain(..written);
        if out.is_empty() && out.capacity() > 4 * OUT_MAX {
            // A very large block made it grow; the next ones are smaller.
            *out = Vec::new();
        }
        Ok(())
    }

    /// Asks the kernel for retransmissions, for the next Beat and the counters. Where that would need a wake-up of its own,
    /// it asks less often.
    fn ask_retransmits(&mut self, now: Nanos) {
        self.next_ask = Nanos(now.0 + ASK_EVERY.0 * 9 / 10);
        if let Some(segments) = tcp::retransmits(self.transport.socket()) {
            self.end.retransmitted(segments);
            set(&self.counters.retransmits, Some(segments));
        }
    }

    fn count(&mut self) {
        self.end.count(&self.counters);
    }
}

/// Sleeps until the descriptor is ready, the bell rings (which is silenced), or the time has passed. `true`: something
/// can be read from the descriptor.
pub(crate) fn sleep(what: Option<(BorrowedFd<'_>, PollFlags)>, bell: &Bell, time: Nanos) -> bool {
    let seconds = (time.0 / 1_000_000_000).min(3_600);
    let timeout = Timespec { tv_sec: seconds as i64, tv_nsec: (time.0 % 1_000_000_000) as i64 };
    let bell_fd = PollFd::new(bell, PollFlags::IN);
    let ready = |fd: &PollFd<'_>| fd.revents() & !PollFlags::OUT != PollFlags::empty();
    let mut fds = match &what {
        Some((fd, flags)) => [bell_fd, PollFd::from_borrowed_fd(*fd, *flags)],
        None => [bell_fd.clone(), bell_fd],
    };
    match poll(&mut fds, Some(&timeout)) {
        Ok(_) | Err(Errno::INTR) => {}
        // It fails only for a broken descriptor, which the next read reports.
        Err(_) => return true,
    }
    if ready(&fds[0]) {
        bell.silence();
    }
    what.is_some() && ready(&fds[1])
}
