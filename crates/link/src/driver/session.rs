//! One connection from its welcome to its end: bytes between the socket and the state machine, and a sleep in one
//! `ppoll` between them.

use std::sync::atomic::Ordering;

use khz_model::Nanos;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;

use crate::agent_end::{AgentCounts, AgentEnd};
use crate::driver::bell::Bell;
use crate::driver::counters::{Counters, add, set};
use crate::driver::transport::Transport;
use crate::driver::{Shared, clock, tcp};
use crate::error::LinkError;
use crate::limits::OUT_MAX;
use crate::source::Lanes;

/// Bytes read at once.
const READ_MAX: usize = 16 << 10;
/// How often the connection's own numbers are looked up.
const LOOK: Nanos = Nanos::SECOND;

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
pub(crate) struct Session<'a, L: Lanes> {
    pub end: AgentEnd<L::Lane>,
    pub transport: Transport,
    pub buffers: &'a mut Buffers,
    pub lanes: &'a mut L,
    pub shared: &'a Shared,
    pub counters: &'a Counters,
    /// Which hub it is, from 1.
    pub hub: u64,
    /// Since when it is welcome.
    pub welcome: Option<Nanos>,
    next_look: Nanos,
    counted: AgentCounts,
    /// So many bytes make the socket readable.
    readable_from: usize,
}

impl<'a, L: Lanes> Session<'a, L> {
    pub fn new(
        end: AgentEnd<L::Lane>,
        transport: Transport,
        buffers: &'a mut Buffers,
        lanes: &'a mut L,
        shared: &'a Shared,
        hub: u64,
    ) -> Self {
        buffers.out.clear();
        let counters = &shared.counters;
        Session {
            end,
            transport,
            buffers,
            lanes,
            shared,
            counters,
            hub,
            welcome: None,
            next_look: Nanos(0),
            counted: AgentCounts::default(),
            readable_from: 1,
        }
    }

    /// Talks until something ends it.
    pub fn talk(&mut self) -> Ended {
        loop {
            if let Err(ended) = self.turn() {
                self.publish();
                // The hub may have said why before it closed.
                return self.read().err().filter(|_| matches!(ended, Ended::Socket(_))).unwrap_or(ended);
            }
        }
    }

    fn turn(&mut self) -> Result<(), Ended> {
        if self.shared.stop.load(Ordering::Relaxed) {
            return Err(Ended::Stopped);
        }
        let (now, wall) = (clock::now(), clock::wall());
        if self.readable_from > 1 {
            // An answer may have come that woke nobody.
            self.read()?;
        }
        if now >= self.next_look {
            self.look(now);
        }
        self.end.poll(now, wall, self.lanes, &mut self.buffers.out)?;
        self.write()?;
        if self.end.wants_room() && self.buffers.out.is_empty() {
            return Ok(());
        }
        self.sleep(now)
    }

    /// Sleeps until something came, room is, the bell rings, or it is time; reads what came.
    fn sleep(&mut self, now: Nanos) -> Result<(), Ended> {
        let waits = !self.buffers.out.is_empty() || self.transport.wants_write();
        let interest = if waits { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        self.wake_at_bytes();
        let until = self.end.next_wake().since(now);
        let woken = sleep(Some((self.transport.fd(), interest)), &self.shared.bell, until);
        if woken { self.read() } else { Ok(()) }
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
        loop {
            let Some(count) = self.transport.read(&mut self.buffers.input)? else { return Ok(()) };
            if count == 0 {
                return Err(Ended::Socket("the hub has closed the connection".into()));
            }
            add(&self.counters.bytes_received, count as u64);
            let bytes = &self.buffers.input[..count];
            self.end.receive(bytes, clock::now(), clock::wall(), self.lanes, &mut self.buffers.out)?;
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
        add(&self.counters.connects, 1);
        set(&self.counters.hub, Some(self.hub));
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

    /// Once a second: retransmissions for the next Beat, and numbers for everybody.
    fn look(&mut self, now: Nanos) {
        // A little early, so that it falls on the flush that beats.
        self.next_look = Nanos(now.0 + LOOK.0 * 9 / 10);
        if let Some(segments) = tcp::retransmits(self.transport.socket()) {
            self.end.set_retransmits(segments);
            set(&self.counters.retransmits, Some(segments));
        }
        self.publish();
    }

    fn publish(&mut self) {
        let counts = self.end.counts();
        add(&self.counters.rows, counts.rows - self.counted.rows);
        add(&self.counters.rows_lost, counts.lost - self.counted.lost);
        self.counted = counts;
        if self.welcome.is_none() {
            return;
        }
        set(&self.counters.rows_backlog, Some(counts.backlog));
        set(&self.counters.round_trip, counts.pair.map(|pair| pair.round_trip.0));
        set(&self.counters.clock_behind, counts.pair.map(|pair| pair.offset.max(0) as u64));
        set(&self.counters.clock_ahead, counts.pair.map(|pair| pair.offset.min(0).unsigned_abs()));
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
