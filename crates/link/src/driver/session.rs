//! One connection from its welcome to its end: bytes between the socket and one end of the protocol, and a sleep in
//! one `ppoll` between them.

use khz_model::Nanos;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;

use crate::driver::bell::Bell;
use crate::driver::counters::{Counters, add, set};
use crate::driver::transport::Transport;
use crate::driver::{Shared, clock, tcp};
use crate::error::LinkError;
use crate::limits::OUT_MAX;

/// Bytes read at once.
const READ_MAX: usize = 16 << 10;
/// A goodbye has so long to leave, behind what waits: nobody who ends a service waits for more.
const LEAVING: Nanos = Nanos::from_millis(200);
/// How often the connection's own numbers are looked up.
const LOOK: Nanos = Nanos::SECOND;

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
    /// `Some`: nothing but an answer of so many bytes is expected, and that need not wake anybody.
    fn answer_may_wait(&self) -> Option<usize> {
        None
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
    fn goodbye(&self, out: &mut Vec<u8>) {
        let _ = out;
    }
    /// Everything that had come was taken.
    fn read_all(&mut self) {}
    /// Once a second, and at the end: writes down what it has counted.
    fn count(&mut self, counters: &Counters);
}

/// Buffers that outlive connections.
#[derive(Debug)]
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
        Ended::Socket(error.to_string())
    }
}

/// A connection.
pub(crate) struct Session<'a, E: End> {
    pub end: E,
    transport: Transport,
    buffers: &'a mut Buffers,
    shared: &'a Shared,
    /// Which hub it is, from 1.
    hub: u64,
    /// Since when it is welcome.
    pub welcome: Option<Nanos>,
    next_look: Nanos,
    /// So many bytes make the socket readable.
    readable_from: usize,
}

impl<'a, E: End> Session<'a, E> {
    pub fn new(end: E, transport: Transport, buffers: &'a mut Buffers, shared: &'a Shared, hub: u64) -> Self {
        buffers.out.clear();
        Session { end, transport, buffers, shared, hub, welcome: None, next_look: Nanos(0), readable_from: 1 }
    }

    /// Talks until something ends it.
    pub fn talk(&mut self) -> Ended {
        loop {
            if let Err(ended) = self.turn() {
                self.count();
                // The hub may have said why before it closed.
                return self.read().err().filter(|_| matches!(ended, Ended::Socket(_))).unwrap_or(ended);
            }
        }
    }

    fn turn(&mut self) -> Result<(), Ended> {
        if self.shared.is_stopped() {
            self.leave();
            return Err(Ended::Stopped);
        }
        let (now, wall) = (clock::now(), clock::wall());
        if now >= self.next_look {
            self.look(now);
        }
        self.end.poll(now, wall, &mut self.buffers.out)?;
        self.write()?;
        if self.end.wants_room() && self.buffers.out.is_empty() {
            return Ok(());
        }
        self.sleep(now)
    }

    /// Says goodbye behind what waits to be sent, as far as the hub takes that soon: a hub that takes nothing sees the
    /// connection end all the same.
    fn leave(&mut self) {
        self.end.goodbye(&mut self.buffers.out);
        let until = Nanos(clock::now().0 + LEAVING.0);
        while self.write().is_ok() && (!self.buffers.out.is_empty() || self.transport.wants_write()) {
            let left = until.since(clock::now());
            if left == Nanos(0) {
                return;
            }
            let room = PollFd::from_borrowed_fd(self.transport.fd(), PollFlags::OUT);
            let timeout = Timespec { tv_sec: 0, tv_nsec: left.0.min(LEAVING.0) as i64 };
            if poll(&mut [room], Some(&timeout)).is_err() {
                return;
            }
        }
    }

    /// Sleeps until something came, room is, the bell rings, or it is time; reads what came.
    fn sleep(&mut self, now: Nanos) -> Result<(), Ended> {
        let waits = !self.buffers.out.is_empty() || self.transport.wants_write();
        let interest = if waits { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        self.wake_at_bytes();
        let until = self.end.next_wake().since(now);
        let woken = sleep(Some((self.transport.fd(), interest)), &self.shared.bell, until);
        // An answer may have come that woke nobody.
        let may_hold_answer = self.readable_from > 1;
        if woken || may_hold_answer { self.read() } else { Ok(()) }
    }

    /// A Beaten that need not be timed waits in the socket for the next flush; anything beyond it, such as an interest,
    /// still wakes us at once.
    fn wake_at_bytes(&mut self) {
        let bytes = self.end.answer_may_wait().map_or(1, |answer| self.transport.wire_bytes(answer) + 1);
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
            let Some(count) = self.transport.read(&mut self.buffers.input)? else { return Ok(()) };
            if count == 0 {
                return Err(Ended::Socket("the hub has closed the connection".into()));
            }
            add(&self.shared.counters.bytes_received, count as u64);
            let bytes = &self.buffers.input[..count];
            self.end.receive(bytes, clock::now(), clock::wall(), &mut self.buffers.out)?;
            if self.welcome.is_none() && self.end.is_welcome() {
                self.welcomed();
            }
            if count < self.buffers.input.len() {
                return Ok(());
            }
        }
    }

    fn welcomed(&mut self) {
        self.welcome = Some(clock::now());
        add(&self.shared.counters.connects, 1);
        set(&self.shared.counters.hub, Some(self.hub));
        self.end.welcomed();
    }

    fn write(&mut self) -> Result<(), Ended> {
        let out = &mut self.buffers.out;
        if out.is_empty() && !self.transport.wants_write() {
            return Ok(());
        }
        let written = self.transport.write(out)?;
        add(&self.shared.counters.bytes_sent, written as u64);
        add(&self.shared.counters.sends, 1);
        out.drain(..written);
        if out.is_empty() && out.capacity() > 4 * OUT_MAX {
            // A very large block made it grow; the next ones are as usual.
            *out = Vec::new();
        }
        Ok(())
    }

    /// Once a second: retransmissions for the next Beat, and numbers for everybody.
    fn look(&mut self, now: Nanos) {
        // A little early, so that it falls on the flush that beats.
        self.next_look = Nanos(now.0 + LOOK.0 * 9 / 10);
        if let Some(segments) = tcp::retransmits(self.transport.socket()) {
            self.end.retransmitted(segments);
            set(&self.shared.counters.retransmits, Some(segments));
        }
        self.count();
    }

    fn count(&mut self) {
        self.end.count(&self.shared.counters);
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
