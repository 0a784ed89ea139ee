//! The link state of one node: which connection speaks for the node, who the node is, and when it connected, was last
//! heard and disconnected. This file decides whether a node is up, down or left. It sends nothing and knows no lanes.
//!
//! | state | when |
//! |---|---|
//! | up | a connection speaks for the node |
//! | left | no connection does, and the last one said goodbye |
//! | down | no connection does, and the last one ended without a goodbye |
//!
//! A node that the configuration expects and that never connected is *missing*: `khz_model::NodeStatus::presence` says so.
//!
//! A node whose connection is silent becomes down. Two places decide that, each for its own connections:
//!
//! - The link door cuts connections of its own (`cut_silent` in `server/thread.rs`) when `khz_link::HubEnd::deadline` has
//!   passed. Peers get more time if the hub itself was frozen (`due.rs`).
//! - A node of another hub is down when nothing came for [`silent_after`] (`source.rs`).
//!
//! Both use the constant `khz_link::limits::SILENCE`.

use std::sync::Arc;

use khz_link::limits::{SILENCE, VERSION_OF_NUMBERS};
use khz_link::{KNOWS_CHANNELS, KNOWS_FREEZE, KNOWS_OWN, Reason};
use khz_model::{Away, LaneStatus, Nanos, NodeName, NodeStatus, Stamp};

use crate::caller::Caller;
use crate::clock;
use crate::mailbox::{Command, Mailbox};
use crate::memory::{Entry, State};
use crate::texts::TextAbilities;

use super::reports::Reports;
use super::up_longer::UpLonger;

/// Connections with this number or a higher one are not connections of the link door: another hub speaks for the node.
pub(crate) const THROUGH_HUB: u64 = 1 << 63;
/// Of such a connection, the bits from this one on have the number of the source: it makes fewer than 2^40 connections.
pub(crate) const SOURCE_SHIFT: u32 = 40;

/// A node whose rows come this far apart is silent when nothing has come for this long.
pub(crate) fn silent_after(period: Nanos) -> Nanos {
    SILENCE.max(Nanos(period.0.saturating_mul(3)))
}

/// The connection that speaks for a node.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    mailbox: Arc<Mailbox>,
    connection: u64,
    /// What the peer understands of kernel texts.
    texts: TextAbilities,
    /// The peer can send rows again (the frame `Again`).
    resends: bool,
    /// The peer knows channels.
    channels: bool,
    /// It knows that a hub may want some itself.
    own: bool,
    /// It can keep rows until the hub fetches them.
    freezes: bool,
}

impl Link {
    /// A connection whose peer understands only what every version does.
    pub fn new(mailbox: Arc<Mailbox>, connection: u64) -> Self {
        Link {
            mailbox,
            connection,
            texts: TextAbilities::default(),
            resends: false,
            channels: false,
            own: false,
            freezes: false,
        }
    }

    /// The same link, but for a peer that has this version of the protocol and these abilities.
    pub fn of_peer(self, version: u8, abilities: u8) -> Self {
        let (texts, resends) = (TextAbilities::from_abilities(abilities), version >= VERSION_OF_NUMBERS);
        let [channels, own, freezes] =
            [KNOWS_CHANNELS, KNOWS_OWN, KNOWS_FREEZE].map(|ability| abilities & ability != 0);
        Link { texts, resends, channels, own, freezes, ..self }
    }

    /// What the peer understands of kernel texts.
    pub fn texts(&self) -> TextAbilities {
        self.texts
    }

    /// True if the peer can send rows again.
    pub fn resends(&self) -> bool {
        self.resends
    }

    /// True if channels may be sent. Another hub that speaks for a node refuses them, with its name.
    pub fn takes_channels(&self) -> bool {
        self.channels || self.is_through_hub()
    }

    /// True if the peer may hear which subscriptions are the hub's own.
    pub fn knows_own(&self) -> bool {
        self.own
    }

    /// True if the peer can keep rows until the hub fetches them.
    pub fn freezes(&self) -> bool {
        self.freezes
    }

    /// The number of the connection.
    pub fn connection(&self) -> u64 {
        self.connection
    }

    /// True if another hub speaks for the node.
    pub fn is_through_hub(&self) -> bool {
        self.connection >= THROUGH_HUB
    }

    /// The number of the source whose hub speaks for the node; `None`: none does.
    fn source(&self) -> Option<usize> {
        let number = (self.connection & !THROUGH_HUB) >> SOURCE_SHIFT;
        self.is_through_hub().then(|| usize::try_from(number).ok()).flatten()
    }

    /// Leaves a command for the thread that owns the connection.
    pub fn send(&self, command: Command) {
        self.mailbox.put(self.connection, command);
    }
}

/// Which run of which machine a node is, as the node says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    pub machine: [u8; 16],
    pub boot: [u8; 16],
    /// Start of the agent on the boot clock, ns. Setting the wall clock back makes no start older.
    pub start: i64,
}

/// What is known of a node when it connects.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Arrival<'a> {
    pub identity: Identity,
    pub version: &'a str,
    pub caller: Option<Caller>,
    /// Nothing proves the node's name.
    pub is_unproved: bool,
}

/// What the roster or another hub reports about a node that has not connected here. Times in ns since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Past {
    heard: i64,
    since: i64,
    address: String,
}

/// What the beats of a node measure.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Beats {
    /// How far the node's wall clock is ahead of ours, ns.
    pub clock_offset: Option<i64>,
    pub round_trip: Option<Nanos>,
    /// TCP segments that the node had to send again.
    pub retransmitted: Option<u64>,
}

/// A refusal is shown for this long after the last one: an agent that is refused tries again every 30 s at most.
const REFUSAL_SHOWN: Nanos = Nanos::from_secs(120);

/// The link state of one node.
#[derive(Debug)]
pub(crate) struct LinkState {
    link: Option<Link>,
    /// The source whose hub spoke for the node last; `None`: the last connection was its own.
    source: Option<usize>,
    identity: Identity,
    version: String,
    caller: Option<Caller>,
    is_unproved: bool,
    connects: u64,
    /// When the node was last heard, and when it came or went, on our boot clock.
    heard: Nanos,
    changed: Nanos,
    /// The node has said goodbye: when its connection ends, it has left.
    said_goodbye: bool,
    /// To which hub it goes, in words.
    goodbye: Option<String>,
    has_left: bool,
    /// Why the node is down, or what is wrong with it while it is up.
    problem: Option<String>,
    /// Why another connection was refused the node's name, and when the last one was.
    refusal: Option<(String, Nanos)>,
    /// Why the node is not at the hub that it prefers, and when it said so.
    away: Option<(Away, Nanos)>,
    beats: Beats,
    up_longer: UpLonger,
    /// `None` once the node has connected here.
    past: Option<Past>,
    /// When this hub heard it last before its present start, ns since 1970; `None`: never.
    heard_before: Option<i64>,
    /// The configuration expects the node.
    is_expected: bool,
    /// The reports of other hubs about it.
    reports: Reports,
}

impl LinkState {
    /// A node that was never heard.
    pub fn new(now: Nanos) -> Self {
        LinkState {
            link: None,
            source: None,
            identity: Identity::default(),
            version: String::new(),
            caller: None,
            is_unproved: false,
            connects: 0,
            heard: now,
            changed: now,
            said_goodbye: false,
            goodbye: None,
            has_left: false,
            problem: None,
            refusal: None,
            away: None,
            beats: Beats::default(),
            up_longer: UpLonger::default(),
            past: None,
            heard_before: None,
            is_expected: false,
            reports: Reports::default(),
        }
    }

    /// Up, left or down.
    pub fn state(&self) -> State {
        match self.link {
            Some(_) => State::Up,
            None if self.has_left => State::Left,
            None => State::Down,
        }
    }

    /// True if a connection speaks for the node.
    pub fn is_up(&self) -> bool {
        self.state() == State::Up
    }

    /// True if that connection is the node's own, and not one of another hub.
    pub fn is_direct(&self) -> bool {
        self.link.as_ref().is_some_and(|link| !link.is_through_hub())
    }

    /// True if this connection speaks for the node.
    pub fn is_linked(&self, connection: u64) -> bool {
        self.link.as_ref().is_some_and(|link| link.connection == connection)
    }

    /// The connection that speaks for the node.
    pub fn link(&self) -> Option<&Link> {
        self.link.as_ref()
    }

    /// Sends a command to the node, if it is up.
    pub fn send(&self, command: Command) {
        if let Some(link) = &self.link {
            link.send(command);
        }
    }

    /// Whether a connection of this identity may speak for the node now. The same machine may, unless a newer start of
    /// it is connected. Another machine may only while no connection holds the name.
    pub fn admits(&self, name: &NodeName, identity: &Identity) -> Result<(), (Reason, String)> {
        // A node that comes itself is believed more than a hub that speaks for it.
        if !self.is_direct() {
            return Ok(());
        }
        if identity.machine != self.identity.machine {
            let address = self.caller.map_or_else(String::new, |caller| format!(" (from {})", caller.from()));
            let text = format!(
                "the name {name} is taken by another machine that is connected{address}: give one of them another name (--node)"
            );
            return Err((Reason::NameTaken, text));
        }
        if identity.boot != self.identity.boot || identity.start >= self.identity.start {
            return Ok(());
        }
        let text =
            format!("{name} has been started again on this machine since: only one agent may speak for it");
        Err((Reason::Superseded, text))
    }

    /// A connection was refused the node's name; people see why in the node's status, for a while after the last one.
    pub fn refused(&mut self, problem: String, now: Nanos) {
        self.refusal = Some((problem, now));
    }

    /// What is wrong with the node now.
    fn problem(&self, now: Nanos) -> Option<String> {
        let age = |at: &Nanos| now.since(*at);
        match self.refusal.as_ref().filter(|(_, at)| age(at) < REFUSAL_SHOWN) {
            Some((text, at)) => Some(format!("{text} ({} s ago)", age(at).0 / Nanos::SECOND.0)),
            None => self.problem.clone(),
        }
    }

    /// This connection speaks for the node from now on. Returns the connection that did so before, which
    /// the caller must cut.
    pub fn connect(&mut self, arrival: &Arrival<'_>, link: Link, now: Nanos) -> Option<Link> {
        let is_another_boot = self.link.is_some() && arrival.identity.boot != self.identity.boot;
        if arrival.identity.boot != self.identity.boot {
            self.up_longer = UpLonger::default();
        }
        self.source = link.source();
        let before = self.link.replace(link);
        if before.is_none() {
            self.changed = now;
        }
        self.identity = arrival.identity;
        arrival.version.clone_into(&mut self.version);
        self.caller = arrival.caller;
        self.is_unproved = arrival.is_unproved;
        self.heard = now;
        self.connects += 1;
        self.past = None;
        (self.said_goodbye, self.has_left) = (false, false);
        // A machine that reboots connects again only after its old connection has ended. If two boots are connected at once, two
        // machines have this machine id.
        self.problem = is_another_boot.then(|| {
            "another boot of the same machine id was connected: is it a clone (/etc/machine-id)?".to_owned()
        });
        (self.refusal, self.away) = (None, None);
        before
    }

    /// The connection has ended. `false`: another connection had superseded it.
    pub fn disconnect(&mut self, connection: u64, problem: Option<String>, now: Nanos) -> bool {
        if !self.is_linked(connection) {
            return false;
        }
        self.link = None;
        self.changed = now;
        self.has_left = std::mem::take(&mut self.said_goodbye);
        self.problem = if self.has_left { self.goodbye.take() } else { problem };
        (self.refusal, self.away) = (None, None);
        true
    }

    /// When the connection that speaks for the node brought something last.
    pub fn last_heard(&self) -> Nanos {
        self.heard
    }

    /// How long ago the last bytes came, also before this hub's start; `None`: none ever came here.
    pub fn silent_for(&self) -> Option<Nanos> {
        match self.connects {
            0 => self.heard_before.map(clock::ago),
            _ => Some(clock::boot().since(self.heard)),
        }
    }

    /// Something came from the node.
    pub fn heard(&mut self, now: Nanos) {
        self.heard = now;
    }

    /// A beat came. The round trip is not known before the second one, and neither is the offset.
    pub fn beat(&mut self, beat: &khz_link::Beat, now: Nanos) {
        self.heard = now;
        self.beats.round_trip = beat.round_trip;
        if beat.round_trip.is_some() {
            self.beats.clock_offset = Some(beat.offset.saturating_neg());
        }
        self.beats.retransmitted = Some(beat.retransmits);
    }

    /// Another hub has measured the node's clock: it is this much ahead.
    pub fn told_clock(&mut self, ahead: i64) {
        self.beats.clock_offset = Some(ahead);
    }

    /// The node will end its connection on purpose. If it goes to another hub, `why` says to which.
    pub fn goodbye(&mut self, why: Option<String>) {
        (self.said_goodbye, self.goodbye) = (true, why);
    }

    /// True between the node's goodbye and the end of its connection.
    pub fn has_said_goodbye(&self) -> bool {
        self.said_goodbye
    }

    /// The node says why it is not at the hub that it prefers.
    pub fn set_away(&mut self, away: Away, now: Nanos) {
        self.away = Some((away, now));
    }

    /// The node's wall clock is this much ahead of ours, and its newest row has this stamp.
    pub fn measured(&mut self, ahead: i64, row: Stamp, now: Nanos) {
        self.up_longer.measured(ahead, row, now, clock::wall());
    }

    /// Our time since boot minus the node's, ns; `None`: not measured yet.
    pub fn up_longer(&self) -> Option<i64> {
        self.up_longer.get()
    }

    /// What the beats measured last.
    pub fn beats(&self) -> Beats {
        self.beats
    }

    /// How often the node has connected.
    pub fn connects(&self) -> u64 {
        self.connects
    }

    /// When the node came or went.
    pub fn changed(&self) -> Nanos {
        self.changed
    }

    /// The source through which the node came last, if it is gone; `None`: it is up, or came itself.
    pub fn gone_through(&self) -> Option<usize> {
        self.source.filter(|_| !self.is_up())
    }

    /// The configuration expects the node.
    pub fn expect(&mut self) {
        self.is_expected = true;
    }

    /// True if the configuration of this hub expects the node.
    pub fn is_expected(&self) -> bool {
        self.is_expected
    }

    /// The node's status, with these lanes.
    pub fn status(&self, node: &NodeName, lanes: Vec<LaneStatus>, now: Nanos) -> NodeStatus {
        let up = self.is_up();
        let (heard, since) = match &self.past {
            Some(past) => (Some(clock::ago(past.heard)), Some(clock::ago(past.since))),
            None => ((self.connects > 0).then(|| now.since(self.heard)), Some(now.since(self.changed))),
        };
        let address = self.past.as_ref().map(|past| past.address.clone()).filter(|text| !text.is_empty());
        NodeStatus {
            node: node.clone(),
            up,
            left: self.state() == State::Left,
            expected: self.is_expected || self.reports.expect(),
            heard,
            since,
            address: self.caller.map(|caller| caller.to_string()).or(address),
            version: self.version.clone(),
            lanes,
            clock_offset: self.beats.clock_offset,
            round_trip: self.beats.round_trip,
            retransmitted: self.beats.retransmitted,
            connects: self.connects,
            problem: self.problem(now),
            believed: self.is_unproved,
            // The hub that answers fills in its own name.
            hub: None,
            away: self.away.as_ref().map(|(away, said)| aged(away, now.since(*said))),
        }
    }
}

/// What outlives a connection, and a start of the hub.
impl LinkState {
    /// The node's entry in the roster; `None` if it was never heard.
    pub fn entry(&self, node: &NodeName, now: Nanos) -> Option<Entry> {
        let (heard, since) = match &self.past {
            Some(past) => (past.heard, past.since),
            None if self.connects == 0 => return None,
            None => (clock::at(self.heard, now), clock::at(self.changed, now)),
        };
        let address = self.past.as_ref().map(|past| past.address.clone());
        Some(Entry {
            node: node.clone(),
            state: self.state(),
            heard,
            since,
            address: address.or(self.caller.map(|caller| caller.to_string())).unwrap_or_default(),
            version: self.version.clone(),
        })
    }

    /// Takes in what the roster says of a node that has not connected since this hub's start. A node that was up then is
    /// down now; the best known time for the change is when the node was last heard.
    pub fn remember(&mut self, entry: &Entry) {
        if self.connects > 0 || self.past.is_some() {
            return;
        }
        let since = if entry.state == State::Up { entry.heard } else { entry.since };
        self.past = Some(Past { heard: entry.heard, since, address: entry.address.clone() });
        self.heard_before = Some(entry.heard);
        self.has_left = entry.state == State::Left;
        self.version.clone_from(&entry.version);
    }

    /// The hub of this source lists the node. `true`: the entry contains something new.
    pub fn reported_by(&mut self, source: usize, hub: &str, status: &NodeStatus) -> bool {
        let here = (self.connects > 0).then(|| clock::at(self.heard, clock::boot()));
        let told = self.reports.take(source, hub, status, here.or(self.past.as_ref().map(|past| past.heard)));
        if self.is_up() || status.up {
            return false;
        }
        // What this hub received itself, it knows itself.
        if told.has_forgotten && self.caller.is_none() && self.reports.remembers().is_none() {
            return self.never_heard();
        }
        if !told.counts {
            return told.is_news;
        }
        let before = (self.has_left, self.past.is_some());
        self.has_left = status.left;
        if let (0, Some(heard)) = (self.connects, status.heard) {
            let address = status.address.clone().unwrap_or_default();
            self.past = Some(Past {
                heard: clock::before(heard),
                since: clock::before(status.since.unwrap_or(heard)),
                address,
            });
            self.version.clone_from(&status.version);
            self.problem = status.problem.as_ref().map(|problem| format!("at hub {hub}: {problem}"));
        }
        told.is_news || before != (self.has_left, self.past.is_some())
    }

    /// The hubs through which the node came have forgotten it.
    fn never_heard(&mut self) -> bool {
        (self.connects, self.past, self.has_left, self.problem) = (0, None, false, None);
        self.heard_before = None;
        true
    }

    /// This source no longer lists the node. `true`: no hub knows or expects the node any more, because only other hubs did. But those
    /// hubs may have restarted and forgotten it (`is_certain` is false): then this hub remembers nodes that came through them.
    pub fn forget_report(&mut self, source: usize, is_certain: bool) -> bool {
        self.reports.forget(source);
        let was_here = self.is_up() || self.caller.is_some();
        let is_known = self.is_expected || self.reports.expect() || self.reports.remembers().is_some();
        let is_remembered = self.connects > 0 || self.past.is_some();
        !was_here && !is_known && (is_certain || !is_remembered)
    }

    /// This source is away. Its last word of the node counts until it says more.
    pub fn source_is_away(&mut self, source: usize) {
        self.reports.is_away(source);
    }

    /// Why the node cannot be forgotten; `None` if it can.
    pub fn must_stay(&self) -> Option<String> {
        if self.is_up() {
            return Some("still up; only nodes that are gone can be forgotten".into());
        }
        if let Some(hub) = self.reports.remembers() {
            return Some(format!("reported by hub {hub}; use `khz nodes forget` there"));
        }
        if self.connects > 0 || self.past.is_some() {
            return None;
        }
        match self.reports.expects() {
            Some(hub) => Some(format!("never seen, and expected by the setting `nodes` of hub {hub}")),
            // The hub that expected it no longer does, or is away, perhaps for ever.
            None if !self.is_expected => None,
            None => Some("never seen, and expected by the setting `nodes`".into()),
        }
    }
}

/// The same, this much later.
fn aged(away: &Away, later: Nanos) -> Away {
    let add = |time: Nanos| Nanos(time.0.saturating_add(later.0));
    Away {
        since: away.since.map(add),
        back: away.back.map(|time| Nanos(time.0.saturating_sub(later.0))),
        ..away.clone()
    }
}
