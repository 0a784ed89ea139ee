//! One simulated node: its identity, its lanes, and its connection to the hub, which it opens again when it
//! breaks. Speaks the link with the agent's own state machine, and never blocks.

use std::collections::VecDeque;
use std::sync::Arc;

use khz_link::frozen::MaybeFrozen;
use khz_link::hub_list::{HubList, Outcome};
use khz_link::{AgentEnd, Identity, Lane, LinkError, Vouch};
use khz_model::{Nanos, Stamp};

use crate::chance;
use crate::lanes::{NodeLane, NodeLanes};
use crate::report::LATE;
use crate::wire::{Wire, WireError};

/// A connect that takes longer has failed.
const CONNECT_LATE: Nanos = Nanos::from_millis(500);

/// A node of the simulation.
pub struct Node {
    /// When it next has work to do.
    pub due: Nanos,
    /// Its lanes.
    pub lanes: NodeLanes,
    identity: Arc<Identity>,
    seed: u64,
    hub_list: HubList,
    link: Link,
    attempts: u64,
    /// Rows of the base lane on earlier connections: acknowledged by a hub, and lost.
    acknowledged: u64,
    lost: u64,
    /// From when to when it is silent, in their order.
    silences: VecDeque<(Nanos, Nanos)>,
    /// It has been silent: rows that nobody has are not missed.
    has_fallen: bool,
}

enum Link {
    Down,
    Dialing(Wire, Option<Vouch>),
    Up(Box<Up>),
}

/// An established connection.
struct Up {
    wire: Wire,
    end: AgentEnd<MaybeFrozen<NodeLane>>,
    /// Bytes for which the socket had no room.
    pending: Vec<u8>,
    since: Nanos,
    /// When all bytes that were due had last been sent.
    clear: Nanos,
}

/// Buffers and counts that all nodes share, one node at a time.
#[derive(Default)]
pub struct Desk {
    /// The bytes that one node sends.
    pub out: Vec<u8>,
    /// The bytes that came in.
    pub bytes: Vec<u8>,
    /// The buffer of one read.
    pub room: Vec<u8>,
    /// Bytes written.
    pub written: u64,
    /// Writes.
    pub writes: u64,
    /// Connections that were welcomed.
    pub welcomes: u64,
    /// Rows that were sent late.
    pub late: u64,
    /// The longest delay of a flush.
    pub latest: Nanos,
    /// The end has come: no node gathers further rows, so none waits for its next one.
    pub is_over: bool,
}

/// Why a connection has ended.
#[derive(Debug, thiserror::Error)]
pub enum Ended {
    /// The hub closed the connection.
    #[error("the hub has closed the connection")]
    Closed,
    /// Connecting took too long.
    #[error("no connection after 500 ms")]
    Late,
    /// The socket or TLS failed.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The hub broke the protocol.
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
            hub_list: HubList::new(1),
            link: Link::Down,
            attempts: 0,
            acknowledged: 0,
            lost: 0,
            silences: VecDeque::new(),
            has_fallen: false,
        }
    }

    /// The same, silent from one time to another, again and again (CLOCK_BOOTTIME).
    #[must_use]
    pub fn silent_at(mut self, mut silences: Vec<(Nanos, Nanos)>) -> Self {
        silences.sort_unstable();
        self.silences = silences.into();
        self
    }

    /// Whether it is silent now: then it has no connection, and says nothing until `due`.
    pub fn is_silent(&mut self, now: Nanos) -> bool {
        let Some(&(from, until)) = self.silences.front() else { return false };
        if now < from {
            return false;
        }
        if now >= until {
            self.silences.pop_front();
            return self.is_silent(now);
        }
        if !self.has_fallen || !self.is_down() || self.lanes.base().is_some() {
            // As if its power were gone: nobody says goodbye.
            if let Link::Up(up) = std::mem::replace(&mut self.link, Link::Down) {
                up.end.close(&mut self.lanes);
            }
            self.lanes.forget();
            (self.has_fallen, self.acknowledged, self.lost) = (true, 0, 0);
        }
        self.due = until;
        true
    }

    /// Until when it may wait at most.
    fn until_silent(&self) -> Nanos {
        self.silences.front().map_or(Nanos(u64::MAX), |(from, _)| *from)
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

    /// Begins to connect; `vouch` may prove its identity at this hub.
    pub fn dial(&mut self, wire: Wire, vouch: Option<Vouch>, now: Nanos) {
        self.attempts += 1;
        self.due = Nanos(now.0 + CONNECT_LATE.0);
        self.link = Link::Dialing(wire, vouch);
    }

    /// The socket has room: the connection is established, or more can be sent.
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

    /// Handles incoming bytes.
    pub fn on_bytes(&mut self, now: Stamp, desk: &mut Desk) -> Result<(), Ended> {
        let Link::Up(up) = &mut self.link else { return Ok(()) };
        let Desk { out, bytes, room, welcomes, .. } = desk;
        bytes.clear();
        let is_open = up.wire.read(room, bytes)?;
        let was_welcome = up.end.is_welcome();
        // Plays up to now, so that interests are answered for this moment.
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

    /// Does the work that is due; at the end of the simulation `now` may stand still.
    pub fn act(&mut self, now: Stamp, desk: &mut Desk) -> Result<(), Ended> {
        let boot = crate::clock::boot();
        let Link::Up(up) = &mut self.link else {
            return if matches!(self.link, Link::Dialing(..)) && boot >= self.due {
                Err(Ended::Late)
            } else {
                Ok(())
            };
        };
        let rows_before = self.lanes.base().map_or(0, NodeLane::rows);
        self.lanes.advance(now);
        let rows = self.lanes.base().map_or(0, NodeLane::rows) - rows_before;
        let waited = if up.pending.is_empty() { boot.since(self.due) } else { boot.since(up.clear) };
        if rows > 0 && up.end.is_welcome() {
            desk.latest = desk.latest.max(waited);
            desk.late += if waited > LATE { rows } else { 0 };
        }
        let out = if up.pending.is_empty() { &mut desk.out } else { &mut up.pending };
        up.end.poll(boot, now.real().0 as i64, &mut self.lanes, out)?;
        up.say(desk, boot)?;
        self.due = up.end.next_wake();
        if up.end.is_prompt() && !desk.is_over {
            self.due = self.due.min(self.lanes.next_tick());
        }
        self.due = self.due.min(self.until_silent());
        Ok(())
    }

    /// Without a hub it executes the channels that live on, as an agent does.
    pub fn execute_alone(&mut self, now: Stamp) {
        if !self.is_up() {
            self.lanes.execute(now);
        }
    }

    /// Ends the connection; the next attempt follows after a pause.
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
        self.hub_list.ended(0, outcome, now, chance::number(self.seed, 100 + self.attempts));
        self.due = self.hub_list.next(now).1;
    }

    /// Rows made, unacknowledged, and lost.
    pub fn counts(&self) -> (u64, u64, u64) {
        if self.has_fallen {
            return (self.lanes.base().map_or(0, NodeLane::rows), 0, 0);
        }
        let rows = self.lanes.base().map_or(0, NodeLane::rows);
        match &self.link {
            Link::Up(up) => {
                let known = received(&up.end, &self.lanes);
                (rows, rows.saturating_sub(known), self.lost + up.end.counts().lost)
            }
            _ => (rows, rows.saturating_sub(self.acknowledged), self.lost),
        }
    }
}

/// How many rows of the base lane have arrived without a gap.
fn received(end: &AgentEnd<MaybeFrozen<NodeLane>>, lanes: &NodeLanes) -> u64 {
    lanes.base().and_then(|base| end.received(base.id())).unwrap_or(0)
}

impl Up {
    /// Sends as many bytes as the socket takes; keeps the rest.
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
            // Releases the memory of an earlier backlog.
            self.pending = Vec::new();
        }
        Ok(())
    }
}
