//! One connection of the link door: its socket, its end of the protocol, and what waits to be sent.

use std::fmt;

use khz_link::{HubEnd, LinkError};
use khz_model::Nanos;
use rustix::event::epoll;
use rustix::fd::OwnedFd;

use crate::caller::Caller;
use crate::limits::DEAF_BYTES_MAX;
use crate::mailbox::Command;
use crate::peer::Peer;
use crate::server::Token;
use crate::wire::Wire;

/// A connection.
pub(crate) struct Connection {
    pub token: Token,
    pub wire: Wire,
    pub end: HubEnd,
    pub out: Vec<u8>,
    pub caller: Caller,
    pub peer: Peer,
    /// A reader's next flush; if it is in the past, new rows are sent at once.
    pub flush_at: Nanos,
    /// The count of news up to which the reader has everything.
    pub flushed: u64,
    /// There was more than one flush may send.
    pub more: bool,
    /// Bytes of its unfinished frame.
    pub kept: usize,
    /// Bytes that were sent on it.
    pub sent: u64,
    /// Whether epoll reports when the socket has room.
    waits: bool,
}

/// Why a connection has ended.
#[derive(Debug)]
pub(crate) enum Ended {
    /// The peer has closed the connection.
    Closed,
    /// The peer was silent for too long.
    Silent,
    /// There were too many strangers.
    Pushed,
    /// The peer does not read what it gets.
    Deaf,
    /// The peer sent something that is refused.
    Cut(LinkError),
    /// Another connection superseded it, or the hub has another reason.
    Told(String),
    /// The socket or TLS failed.
    Wire(String),
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ended::Closed => f.write_str("it has closed the connection"),
            Ended::Silent => f.write_str("silent for too long"),
            Ended::Pushed => f.write_str("made room for others before it had said who it is"),
            Ended::Deaf => f.write_str("it does not read what it is sent"),
            Ended::Cut(error) => error.fmt(f),
            Ended::Told(text) | Ended::Wire(text) => f.write_str(text),
        }
    }
}

impl Ended {
    /// Whether people want to see the end in the log. They do not when a scanner goes, or a reader that is done.
    pub fn is_news(&self, peer: &Peer) -> bool {
        let stranger = matches!(peer, Peer::Stranger);
        match self {
            Ended::Cut(_) | Ended::Told(_) => true,
            Ended::Closed => matches!(peer, Peer::Node(_)),
            Ended::Pushed => !stranger,
            Ended::Silent | Ended::Deaf | Ended::Wire(_) => !stranger,
        }
    }
}

impl Connection {
    pub fn new(token: Token, wire: Wire, end: HubEnd, out: Vec<u8>, caller: Caller) -> Self {
        Connection {
            token,
            wire,
            end,
            out,
            caller,
            peer: Peer::Stranger,
            flush_at: Nanos(0),
            flushed: 0,
            more: false,
            kept: 0,
            sent: 0,
            waits: false,
        }
    }

    /// When the reader's next flush is due, if nothing comes after the news that `news` counts.
    pub fn next_flush(&self, news: u64, now: Nanos) -> Option<Nanos> {
        let Peer::Reader(reader) = &self.peer else { return None };
        // Room in the socket is an event; for a reader without subscriptions nothing can become due.
        if self.waits || !reader.is_busy() {
            return None;
        }
        if reader.has_answers() {
            return Some(now);
        }
        let has_more = self.more || self.flushed != news;
        let due = if has_more { Some(self.flush_at) } else { reader.next_timed() };
        due.map(|due| due.max(self.flush_at))
    }

    /// True before the peer has said who it is.
    pub fn is_stranger(&self) -> bool {
        matches!(self.peer, Peer::Stranger)
    }

    /// True if the peer is a reader.
    pub fn is_reader(&self) -> bool {
        matches!(self.peer, Peer::Reader(_))
    }

    /// The peer's name for the log.
    pub fn who(&self) -> String {
        match &self.peer {
            Peer::Stranger => format!("stranger {}", self.caller),
            Peer::Node(node) => format!("{} ({})", node.name, self.caller),
            Peer::Reader(reader) => format!("{} ({})", reader.identity, self.caller),
        }
    }

    /// Does what a command says.
    pub fn obey(&mut self, command: Command) -> Result<(), Ended> {
        command.say(&mut self.end, &mut self.out).map_err(Ended::Told)
    }

    /// Sends waiting bytes, as many as the socket takes now.
    pub fn flush(&mut self, epoll: &OwnedFd) -> Result<(), Ended> {
        let failed = |error: crate::wire::WireError| Ended::Wire(error.to_string());
        let mut sent = 0;
        loop {
            let taken = self.wire.write(&self.out[sent..]).map_err(failed)?;
            sent += taken;
            if taken == 0 || sent == self.out.len() {
                break;
            }
        }
        self.out.drain(..sent);
        self.sent += sent as u64;
        if self.out.len() > DEAF_BYTES_MAX {
            return Err(Ended::Deaf);
        }
        // Gives back memory that one burst has taken.
        if self.out.is_empty() && self.out.capacity() > ROOM_KEPT {
            self.out = Vec::new();
        }
        let waits = !self.out.is_empty() || self.wire.is_waiting();
        if waits != self.waits {
            self.waits = waits;
            let writing = if waits { epoll::EventFlags::OUT } else { epoll::EventFlags::empty() };
            let data = epoll::EventData::new_u64(self.token.number());
            epoll::modify(epoll, self.wire.socket(), data, epoll::EventFlags::IN | writing)
                .map_err(|errno| Ended::Wire(errno.to_string()))?;
        }
        Ok(())
    }
}

/// Capacity that a connection keeps when it has nothing to send.
const ROOM_KEPT: usize = 16 << 10;
