//! One simulated node: its identity, its lanes, and its connection to the hub, which it takes up again when it
//! breaks. It speaks the link with the agent's own state machine, and waits for nobody.

use std::sync::Arc;

use khz_link::roster::{Outcome, Roster};
use khz_link::{AgentEnd, Identity, Lane, LinkError, Vouch};
use khz_model::{Nanos, Stamp};

use crate::chance;
use crate::lanes::NodeLanes;
use crate::report::LATE;
use crate::ring::PlayedRing;
use crate::wire::{Wire, WireError};

/// A connect that takes longer has failed.
const CONNECT_LATE: Nanos = Nanos::from_millis(500);

/// A node of the simulation.
pub struct Node {
    /// When it wants to act next.
    pub due: Nanos,
    /// Its lanes.
    pub lanes: NodeLanes,
    identity: Arc<Identity>,
    seed: u64,
    roster: Roster,
    link: Link,
    attempts: u64,
    /// Rows of the base lane that a hub has acknowledged, and that were lost, on earlier connections.
    acknowledged: u64,
    lost: u64,
}

enum Link {
    Down,
    Dialing(Wire, Option<Vouch>),
    Up(Box<Up>),
}

/// A connection that is established.
struct Up {
    wire: Wire,
    end: AgentEnd<PlayedRing>,
    /// What the socket had no room for.
    pending: Vec<u8>,
    since: Nanos,
    /// When everything that was due was last out.
    clear: Nanos,
}

/// What all nodes use in turn.
#[derive(Default)]
pub struct Desk {
    /// What one node has to say.
    pub out: Vec<u8>,
    /// What came in.
    pub bytes: Vec<u8>,
    /// What one read may bring.
    pub room: Vec<u8>,
    /// Bytes and writes, counted.
    pub written: u64,
    /// Writes, counted.
    pub writes: u64,
    /// Connections that were welcomed.
    pub welcomes: u64,
    /// Rows that left late.
    pub late: u64,
    /// The longest that a flush came after it was due.
    pub latest: Nanos,
}

/// Why a connection has ended.
#[derive(Debug, thiserror::Error)]
pub enum Ended {
    /// The hub has closed it.
    #[error("the hub has closed the connection")]
    Closed,
    /// It took too long to establish.
    #[error("no connection after 500 ms")]
    Late,
    /// The socket or TLS.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// What was said on it.
    #[error(transparent)]
    Link(#[from] LinkError),
}

impl Node {
    /// A node that connects for the first time at `due`.
    pub fn new(identity: Arc<Identity>, lanes: NodeLanes, seed: u64, due: Nanos) -> Self {
        Node {
            due,
            lanes,
            identity,
            seed,
            roster: Roster::new(1),
            link: Link::Down,
            attempts: 0,
            acknowledged: 0,
            lost: 0,
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.identity.name
    }

    /// True once the hub has welcomed it.
    pub fn is_up(&self) -> bool {
        matches!(&self.link, Link::Up(up) if up.end.is_welcome())
    }

    /// True where it has no connection, not even a beginning.
    pub fn is_down(&self) -> bool {
        matches!(self.link, Link::Down)
    }

    /// Its socket, and whether it waits for room there.
    pub fn socket(&self) -> Option<(&std::net::TcpStream, bool)> {
        match &self.link {
            Link::Down => None,
            Link::Dialing(wire, _) => Some((wire.socket(), true)),
            Link::Up(up) => Some((up.wire.socket(), !up.pending.is_empty() || up.wire.is_waiting())),
        }
    }

    /// Begins to connect; something may vouch for it at this hub.
    pub fn dial(&mut self, wire: Wire, vouch: Option<Vouch>, now: Nanos) {
        self.attempts += 1;
        self.due = Nanos(now.0 + CONNECT_LATE.0);
        self.link = Link::Dialing(wire, vouch);
    }

    /// The socket has room: a connection is established, or more can be sent.
    pub fn on_room(&mut self, now: Stamp, desk: &mut Desk) -> Result<(), Ended> {
        match std::mem::replace(&mut self.link, Link::Down) {
            Link::Down => {}
            Link::Dialing(wire, vouch) => {
                if let Some(error) = wire.socket().take_error().map_err(WireError::Io)? {
                    return Err(WireError::Io(error).into());
                }
                let mut end = AgentEnd::new(self.identity.clone(), now.boot);
                if let Some(vouch) = vouch {
                    end.vouched(vouch);
                }
                let (since, clear) = (now.boot, now.boot);
                self.link = Link::Up(Box::new(Up { wire, end, pending: Vec::new(), since, clear }));
            }
            up => self.link = up,
        }
        self.act(now, desk)
    }

    /// Takes what has come.
    pub fn on_bytes(&mut self, now: Stamp, desk: &mut Desk) -> Result<(), Ended> {
        let Link::Up(up) = &mut self.link else { return Ok(()) };
        let Desk { out, bytes, room, welcomes, .. } = desk;
        bytes.clear();
        let is_open = up.wire.read(room, bytes)?;
        let was_welcome = up.end.is_welcome();
        // Interests are answered for this moment.
        self.lanes.advance(now);
        let out = if up.pending.is_empty() { out } else { &mut up.pending };
        let wall = now.real().0 as i64;
        let result = up.end.receive(bytes, now.boot, wall, &mut self.lanes, out);
        if up.end.is_welcome() && !was_welcome {
            *welcomes += 1;
            self.lanes.begin(now);
        }
        let said = up.say(desk, now.boot);
        result?;
        said?;
        if !is_open {
            return Err(Ended::Closed);
        }
        self.act(now, desk)
    }

    /// Does what is due; `now` may stand still at the end of the simulation.
    pub fn act(&mut self, now: Stamp, desk: &mut Desk) -> Result<(), Ended> {
        let boot = crate::clock::boot();
        let Link::Up(up) = &mut self.link else {
            return if matches!(self.link, Link::Dialing(..)) && boot >= self.due {
                Err(Ended::Late)
            } else {
                Ok(())
            };
        };
        let rows_before = self.lanes.base().map_or(0, PlayedRing::rows);
        self.lanes.advance(now);
        let rows = self.lanes.base().map_or(0, PlayedRing::rows) - rows_before;
        let waited = if up.pending.is_empty() { boot.since(self.due) } else { boot.since(up.clear) };
        if rows > 0 && up.end.is_welcome() {
            desk.latest = desk.latest.max(waited);
            desk.late += if waited > LATE { rows } else { 0 };
        }
        let out = if up.pending.is_empty() { &mut desk.out } else { &mut up.pending };
        up.end.poll(boot, now.real().0 as i64, &mut self.lanes, out)?;
        up.say(desk, boot)?;
        self.due = up.end.next_wake();
        if up.end.is_prompt() {
            self.due = self.due.min(self.lanes.next_tick());
        }
        Ok(())
    }

    /// The connection is over: another attempt comes after a pause.
    pub fn hang_up(&mut self, ended: &Ended, now: Nanos) {
        let lasted = match std::mem::replace(&mut self.link, Link::Down) {
            Link::Up(up) => {
                let counts = up.end.counts();
                self.lost += counts.lost;
                self.acknowledged = received(&up.end, &self.lanes);
                let lasted = if up.end.is_welcome() { now.since(up.since) } else { Nanos(0) };
                up.end.close(&mut self.lanes);
                lasted
            }
            _ => Nanos(0),
        };
        let outcome = match ended {
            Ended::Link(LinkError::Refused { .. }) => Outcome::Refused,
            _ => Outcome::Broke { lasted },
        };
        self.roster.ended(0, outcome, now, chance::number(self.seed, 100 + self.attempts));
        self.due = self.roster.next(now).1;
    }

    /// Rows made, not acknowledged, and lost.
    pub fn counts(&self) -> (u64, u64, u64) {
        let rows = self.lanes.base().map_or(0, PlayedRing::rows);
        match &self.link {
            Link::Up(up) => {
                let known = received(&up.end, &self.lanes);
                (rows, rows.saturating_sub(known), self.lost + up.end.counts().lost)
            }
            _ => (rows, rows.saturating_sub(self.acknowledged), self.lost),
        }
    }
}

/// All rows of the base lane before this one have arrived.
fn received(end: &AgentEnd<PlayedRing>, lanes: &NodeLanes) -> u64 {
    lanes.base().and_then(|base| end.received(base.id())).unwrap_or(0)
}

impl Up {
    /// Sends as far as it goes; what does not go waits.
    fn say(&mut self, desk: &mut Desk, now: Nanos) -> Result<(), WireError> {
        let is_fresh = self.pending.is_empty();
        let out = if is_fresh { &desk.out } else { &self.pending };
        let mut sent = 0;
        loop {
            let taken = self.wire.write(&out[sent..])?;
            desk.writes += u64::from(taken > 0);
            sent += taken;
            if taken == 0 || sent == out.len() {
                break;
            }
        }
        desk.written += sent as u64;
        if is_fresh {
            self.pending.extend_from_slice(&desk.out[sent..]);
            desk.out.clear();
        } else {
            self.pending.drain(..sent);
        }
        if self.pending.is_empty() {
            self.clear = now;
            // A node at ease holds no memory for a time when it was not.
            self.pending = Vec::new();
        }
        Ok(())
    }
}
