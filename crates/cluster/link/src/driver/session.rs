//! One connection from its welcome to its end: bytes between the socket and one end of the protocol. It never sleeps; who
//! drives it, and when, is the seat's.

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
/// A goodbye has this long to leave after what waits before it: nobody who ends a service waits for more.
const LEAVING: Nanos = Nanos::from_millis(200);
/// How often the connection's own numbers are told.
const COUNT: Nanos = Nanos::SECOND;
/// How often the kernel is asked for retransmissions: it is a system call that no row needs.
const LOOK: Nanos = Nanos::from_secs(5);

/// One end of the protocol, as a session drives it: an agent's or a reader's.
pub(crate) trait End {
    /// Takes bytes from the hub.
    fn receive(&mut self, bytes: &[u8], now: Nanos, wall: i64, out: &mut Vec<u8>) -> Result<(), LinkError>;
    /// Says what is due.
    fn poll(&mut self, now: Nanos, wall: i64, out: &mut Vec<u8>) -> Result<(), LinkError>;
    /// When it wants to be polled next.
    fn next_wake(&self) -> Nanos;
    /// True where it has more to say as soon as what waits is sent.
    fn wants_room(&self) -> bool {
        false
    }
    /// How many answers that are to come need not wake anybody, and how many bytes each has.
    fn answers_may_wait(&self) -> (usize, usize) {
        (0, 0)
    }
    /// This number of bytes was kept unread, where an answer takes this number; `false`: they are no answers, or no whole ones.
    fn kept(&mut self, bytes: usize, answer: usize) -> bool {
        let _ = (bytes, answer);
        true
    }
    /// From when on whoever writes rows may say them: at once, at the next flush, or never.
    fn carries_from(&self) -> Nanos {
        Nanos(u64::MAX)
    }
    /// True while there is nothing to say but a few rows.
    fn is_calm(&self) -> bool {
        false
    }
    /// True once the hub has welcomed us.
    fn is_welcome(&self) -> bool;
    /// The hub has welcomed us, just now.
    fn welcomed(&mut self) {}
    /// The kernel has sent so many segments again.
    fn retransmitted(&mut self, segments: u64) {
        let _ = segments;
    }
    /// We end the connection on purpose: says so.
    fn goodbye(&self, goodbye: &Goodbye<'_>, out: &mut Vec<u8>) {
        let _ = (goodbye, out);
    }
    /// Everything that had come was taken.
    fn read_all(&mut self) {}
    /// Once a second, and at the end: writes down what it has counted.
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
    /// Somebody wants the thread to end.
    Stopped,
    /// We go back to this hub, which is better; the same in words.
    Moves(usize, String),
    /// The protocol says so.
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
    /// Since when it is welcome.
    pub welcome: Option<Nanos>,
    next_look: Nanos,
    next_count: Nanos,
    /// So many bytes make the socket readable.
    readable_from: usize,
    /// What ended it while somebody else than the link's thread drove it.
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
            next_look: Nanos(0),
            next_count: Nanos(0),
            readable_from: 1,
            failed: None,
        }
    }

    /// Says what is due, and how long there is nothing more to say; `None`: not at all.
    pub fn turn(&mut self) -> Result<Option<Pause>, Ended> {
        if let Some(failed) = self.failed.take() {
            return Err(failed);
        }
        let now = clock::now();
        if now >= self.next_look {
            self.look(now);
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
            // A little early, so that it falls on what says the Beat.
            self.next_count = Nanos(now.0 + COUNT.0 * 9 / 10);
            self.count();
        }
        self.end.poll(now, clock::wall(), &mut self.buffers.out)?;
        // Before the Beat is sent: its answer is a matter of microseconds where the hub is near.
        self.wake_at_bytes();
        self.write()
    }

    /// Says goodbye behind what waits to be sent, as far as the hub takes that soon: a hub that takes nothing sees the
    /// connection end all the same.
    fn leave(&mut self, leaving: Leaving, text: &str) {
        self.end.goodbye(&Goodbye { leaving, text }, &mut self.buffers.out);
        let until = Nanos(clock::now().0 + LEAVING.0);
        while self.write().is_ok() && (!self.buffers.out.is_empty() || self.transport.wants_write()) {
            let left = until.since(clock::now());
            if left == Nanos(0) {
                return;
            }
            let room = PollFd::new(self.transport.socket(), PollFlags::OUT);
            let timeout = Timespec { tv_sec: 0, tv_nsec: left.0.min(LEAVING.0) as i64 };
            if poll(&mut [room], Some(&timeout)).is_err() {
                return;
            }
        }
    }

    /// The pause is over; `woken`: something can be read.
    pub fn wake(&mut self, woken: bool) -> Result<(), Ended> {
        // An answer may have come that woke nobody.
        let may_hold_answer = self.readable_from > 1 || self.transport.has_kept();
        if woken || may_hold_answer { self.read() } else { Ok(()) }
    }

    /// Says the rows that were written just now, if that is all there is to say; `false`: the link's thread has to. It keeps
    /// what has come and reads nothing of it: what a hub says is taken apart by the link's thread alone.
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

    /// It is over. What the hub may have said before it closed tells more than that it closed.
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

    /// Beaten that need not be timed wait in the socket; anything beyond them, such as an interest, still wakes us at once.
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
            // What was kept may not be all that has come.
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
            // A very large block made it grow; the next ones are as usual.
            *out = Vec::new();
        }
        Ok(())
    }

    /// Asks for retransmissions, for the next Beat and for everybody: less often where it would take a wake-up.
    fn look(&mut self, now: Nanos) {
        self.next_look = Nanos(now.0 + LOOK.0 * 9 / 10);
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
        // Nothing but a broken descriptor, which the next read tells.
        Err(_) => return true,
    }
    if ready(&fds[0]) {
        bell.silence();
    }
    what.is_some() && ready(&fds[1])
}
