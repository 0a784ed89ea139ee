//! A hub of the real code but for its sockets: each connection has its end of the protocol, its peer, and a wire.

use std::sync::Arc;

use khz_link::limits::VERSION;
use khz_link::{ABILITIES, HubEnd, HubEndConfig, KNOWS_CHANNELS, LinkError, Reason};
use khz_model::{ByteSize, Nanos, Rate};
use khz_trust::Place;

use super::random::Random;
use super::store::Stored;
use super::wire::Shared;
use crate::caller::Caller;
use crate::cluster::{Cluster, Settings};
use crate::followed::Looks;
use crate::mailbox::Mailbox;
use crate::peer::{Peer, Talk};
use crate::proofs::Proofs;
use crate::turn::Turn;

/// Readers that are not prompt get rows this often.
const FLUSH: Nanos = Nanos::from_millis(100);

/// The hub.
pub struct Hub {
    pub cluster: Arc<Cluster>,
    /// It may have a source, which passes channels on.
    _below: Arc<Looks>,
    mailbox: Arc<Mailbox>,
    config: HubEndConfig,
    connections: Vec<Connection>,
    made: u64,
    kept_house: Nanos,
    /// Its log, if it has one.
    pub store: Option<Stored>,
    /// The version of the link that it speaks.
    pub version: u8,
}

struct Connection {
    token: u64,
    end: HubEnd,
    peer: Peer,
    out: Vec<u8>,
    wire: Shared,
    flushed: Nanos,
}

impl Hub {
    /// A hub without nodes.
    pub fn new(identity: u8) -> Self {
        Hub::remembering(identity, ByteSize(256 << 20))
    }

    /// The first byte of its identity.
    pub fn number(&self) -> u8 {
        self.config.identity[0]
    }

    /// The same with this much memory for the past.
    fn remembering(identity: u8, history: ByteSize) -> Self {
        let settings = Settings {
            name: format!("hub{identity}"),
            history,
            rate_max: Rate::from_hz(1_000).expect("a rate"),
        };
        let identity = [identity; 16];
        let (cluster, below) = (Cluster::new(settings.clone(), identity), Arc::new(Looks));
        cluster.followed.tell(&below);
        Hub {
            config: HubEndConfig::new(identity, settings.name.clone()),
            cluster,
            _below: below,
            mailbox: Arc::new(Mailbox::new().expect("a bell")),
            connections: Vec::new(),
            made: 0,
            kept_house: Nanos(0),
            store: None,
            version: VERSION,
        }
    }

    /// Begins again with a log, before anything has come, and with this much memory for the past.
    pub fn store(&mut self, history: ByteSize, removes: bool) {
        self.start(Stored::new(removes), history, self.config.identity[0]);
    }

    fn start(&mut self, mut store: Stored, history: ByteSize, identity: u8) {
        store.kill();
        *self = Hub::remembering(identity, history);
        self.cluster.log_to(store.start());
        self.store = Some(store);
    }

    /// Stores the rows that wait for the clocks of nodes, as happens after a while: hubs above get the clocks with the
    /// roster.
    pub fn hand_over(&mut self, random: &mut Random) {
        self.cluster.hand_over(Nanos(u64::MAX));
        if let Some(store) = &mut self.store {
            store.commit(random);
        }
    }

    /// A peer connects, which speaks this version of the link.
    pub fn accept(&mut self, wire: &Shared, version: u8, now: Nanos) {
        self.config.highest = self.version.min(version);
        // Older programs know no channels either.
        let before = if self.config.highest < VERSION { KNOWS_CHANNELS } else { 0 };
        self.config.abilities = ABILITIES & !before;
        let (mut out, nonce) = (Vec::new(), [5; 32]);
        self.config.sources = self.cluster.sources.all();
        let end = HubEnd::new(&self.config, nonce, now, &mut out);
        self.made += 1;
        let connection =
            Connection { token: self.made, end, peer: Peer::Stranger, out, wire: wire.clone(), flushed: now };
        self.connections.push(connection);
    }

    /// Reads what has come, and sends what is due. No peer may be refused.
    pub fn turn(&mut self, now: Nanos, lag: Nanos, random: &mut Random) {
        let mut at = 0;
        while at < self.connections.len() {
            let ended = self.receive(at, now);
            let connection = &self.connections[at];
            let ended = ended || connection.wire.borrow().is_cut || connection.end.deadline() < now;
            if ended { self.drop_connection(at, now) } else { at += 1 }
        }
        self.take_commands(now);
        for connection in &mut self.connections {
            connection.pump(&self.cluster, now);
            connection.wire.borrow_mut().from_hub.write(&mut connection.out, now, lag, random);
        }
        if now.since(self.kept_house) >= Nanos::SECOND {
            self.kept_house = now;
            self.cluster.keep_house(now);
            if let Some(store) = &mut self.store {
                store.commit(random);
            }
        }
    }

    /// `true`: a newer connection of the node has this one's place.
    fn receive(&mut self, at: usize, now: Nanos) -> bool {
        let Connection { token, end, peer, out, wire, .. } = &mut self.connections[at];
        loop {
            let Some(bytes) = wire.borrow_mut().to_hub.read(now) else { return false };
            let mut talk = Talk {
                cluster: &self.cluster,
                mailbox: &self.mailbox,
                proofs: &Proofs::default(),
                certified: None,
                connection: *token,
                caller: Caller::Local { uid: None, place: Place::LocalOwn },
                now,
                peer,
            };
            match end.receive(&bytes, now, now.0 as i64, &mut talk, out) {
                Ok(()) => {}
                Err(LinkError::Rejected(reject)) if reject.reason == Reason::Superseded => return true,
                Err(error) => panic!("{} was refused: {error}", who(&self.connections[at].peer)),
            }
        }
    }

    fn take_commands(&mut self, now: Nanos) {
        for (token, command) in self.mailbox.take() {
            let Some(at) = self.connections.iter().position(|known| known.token == token) else { continue };
            let Connection { end, out, .. } = &mut self.connections[at];
            if command.say(end, out).is_err() {
                self.drop_connection(at, now);
            }
        }
    }

    fn drop_connection(&mut self, at: usize, now: Nanos) {
        let connection = self.connections.remove(at);
        connection.wire.borrow_mut().is_cut = true;
        if let Peer::Node(shared) = &connection.peer {
            shared.disconnect(connection.token, Some("its connection has ended".into()), now);
        }
    }

    /// Kills the hub and starts it again: all peers are cut off, and only the log and the roster are remembered.
    pub fn restart(&mut self, now: Nanos) {
        while !self.connections.is_empty() {
            self.drop_connection(0, now);
        }
        let identity = self.config.identity[0].wrapping_add(64);
        let (history, roster) = (self.cluster.settings.history, self.cluster.entries());
        match self.store.take() {
            Some(store) => self.start(store, history, identity),
            None => *self = Hub::remembering(identity, history),
        }
        self.cluster.remember(roster);
    }
}

impl Connection {
    fn pump(&mut self, cluster: &Arc<Cluster>, now: Nanos) {
        let Peer::Reader(reader) = &mut self.peer else { return };
        let is_due = now.since(self.flushed) >= FLUSH;
        if reader.is_busy() && (is_due || reader.is_prompt() || reader.has_answers()) {
            reader.pump(cluster, &mut Turn::of(8), !is_due, &mut self.out);
        }
        if is_due {
            self.flushed = now;
        }
    }
}

fn who(peer: &Peer) -> String {
    match peer {
        Peer::Stranger => "a stranger".into(),
        Peer::Node(node) => format!("node {}", node.name),
        Peer::Reader(reader) => reader.identity.to_string(),
    }
}
