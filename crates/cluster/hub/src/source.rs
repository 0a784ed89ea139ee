//! Another hub as a source of nodes (`--source`, nested hubs): its nodes appear here under their names, at their base rate or once a
//! second, and with the channels that readers follow here. This hub reads the other hub as any reader does. It puts each row into a
//! lane of the node as if the node had sent it, under the node's epoch and numbers, so that it recognizes repeated rows. It refuses a
//! hub that gets nodes from here, since that would be a loop.

mod asked;
mod early_rows;
mod fed_channel;
mod fed_lane;
mod held_rows;
mod hub_clock;
mod late_rows;
mod node_below;

use std::collections::HashMap;
use std::sync::Arc;

use khz_block::{HEADER_BYTES, Header};
use khz_follow::{Follower, Lane, Lanes, Reader, Row, Subscriber, Subscriptions};
use khz_link::driver::FollowingSettings;
use khz_link::{Held, HubName, LaneOffer, SchemaPiece};
use khz_model::{Interest, NodeName, NodeStatus, Pattern, Rate};

use crate::clock;
use crate::cluster::Cluster;
use crate::followed::AsksBelow;
use crate::generations::Generations;
use crate::lane::ComparedWith;
use crate::mailbox::{Command, Mailbox};
use crate::node::{Node, SOURCE_SHIFT, SharedNode, THROUGH_HUB};
use crate::trusted;
use asked::Asking;
pub(crate) use asked::{Asked, Wanted};
use fed_lane::Origin;
use hub_clock::{Ahead, HubClock};
use node_below::{Here, LANE, NodeBelow};

/// A hub whose nodes come here. Dropping it ends the connection, and its nodes are down then.
pub struct Source {
    _asking: Arc<Asking>,
}

impl Source {
    /// Connects to the hub, or to the first of several that answers. Each source has another `number`.
    pub fn start(cluster: Arc<Cluster>, settings: FollowingSettings, number: usize) -> std::io::Result<Self> {
        let asked = Asked::default();
        let nodes = NodesBelow::new(cluster.clone(), number, Some(asked.clone()))?;
        let mailbox = nodes.here.mailbox.clone();
        let subscriber = Subscriber::start(settings, nodes)?;
        mailbox.wakes(subscriber.link().waker());
        let everything = Interest::new(
            vec![Pattern::everything()],
            Rate::from_hz(1).ok_or_else(|| std::io::Error::other("BUG: once a second is a rate"))?,
            false,
        );
        subscriber.subscribe(&everything, false, Wanted::Everything).map_err(std::io::Error::other)?;
        // Nodes that are down or missing at that hub are known here too.
        subscriber.link().roster(true);
        let asking = Arc::new(Asking { subscriber, cluster: cluster.clone(), asked });
        cluster.followed.tell(&asking);
        // Readers may have come before it.
        asking.followed();
        Ok(Source { _asking: asking })
    }
}

/// The number of the one subscription, to everything, if rows do not come over a [`Subscriber`].
pub(crate) const EVERYTHING: u32 = 1;

/// A follower that puts rows into the cluster, and passes no channels on. The caller gives it lanes and rows.
pub(crate) fn follower(cluster: Arc<Cluster>, number: usize) -> std::io::Result<Follower<NodesBelow>> {
    let everything = Subscriptions::from_iter([(EVERYTHING, Wanted::Everything)]);
    Ok(Follower::new(NodesBelow::new(cluster, number, None)?, everything))
}

/// The same, and also requests the channels in `asked`.
#[cfg(test)]
pub(crate) fn follower_of(cluster: Arc<Cluster>, number: usize, asked: Asked) -> Follower<NodesBelow> {
    let nodes = NodesBelow::new(cluster, number, Some(asked)).expect("a bell");
    Follower::new(nodes, Subscriptions::from_iter([(EVERYTHING, Wanted::Everything)]))
}

/// The nodes of a source, as they appear here.
pub(crate) struct NodesBelow {
    here: Here,
    number: usize,
    /// Lanes of all connections until now.
    lanes_made: u64,
    refusal: Option<String>,
    /// The clock of the hub, and which one it is: its identity is another one after each start.
    clock: HubClock,
    identity: [u8; 16],
    nodes: HashMap<NodeName, NodeBelow>,
    /// Nodes in the part of the hub's list that has arrived.
    listing: HashMap<NodeName, Listed>,
    /// Nodes in its list before.
    listed: HashMap<NodeName, Listed>,
    /// Nodes that it had listed when it went away, until its next list is complete.
    unconfirmed: HashMap<NodeName, Arc<SharedNode>>,
}

/// A node in the list of the hub below.
enum Listed {
    Known {
        node: Arc<SharedNode>,
        is_up: bool,
    },
    /// It is up at that hub, and unknown here until its lane comes. Then it gets this status.
    Coming(Box<NodeStatus>),
}

impl Listed {
    /// The node, if it is known here.
    fn known(self) -> Option<Arc<SharedNode>> {
        match self {
            Listed::Known { node, .. } => Some(node),
            Listed::Coming(_) => None,
        }
    }
}

/// A lane of the hub below.
pub(crate) struct LaneBelow {
    /// Its number among all lanes of all connections.
    id: u64,
    /// The number of the node's lane here that gets its rows.
    here: u32,
    /// The meaning of its slots; it is also kept while the node is connected directly.
    schemas: Generations,
    /// The first row that is wanted, if rows before the offer are.
    from: Option<u64>,
    /// For a base lane: the rows that are here. All others are wanted.
    held: Option<Held>,
    /// Rows before this one were there when the lane was offered.
    offered_at: u64,
}

impl LaneBelow {
    /// Of a row of this generation.
    fn origin(&self, generation: u32) -> Origin<'_> {
        Origin { lane: self.id, generation, schema: self.schemas.of(generation) }
    }
}

impl NodesBelow {
    /// A source without nodes.
    fn new(cluster: Arc<Cluster>, number: usize, asked: Option<Asked>) -> std::io::Result<Self> {
        let mailbox = Arc::new(Mailbox::new()?);
        Ok(NodesBelow {
            here: Here { cluster, mailbox, hub: String::new(), asked, begun: clock::boot() },
            number,
            lanes_made: 0,
            refusal: None,
            clock: HubClock::default(),
            identity: HubName::default().identity,
            nodes: HashMap::new(),
            listing: HashMap::new(),
            listed: HashMap::new(),
            unconfirmed: HashMap::new(),
        })
    }

    /// The source is away. The states of its nodes stay known, and which of them it expects.
    fn lose(&mut self) {
        self.here.cluster.sources.forget(self.number);
        for (name, listed) in self.listing.drain().chain(self.listed.drain()) {
            let Some(node) = listed.known() else { continue };
            node.lock().link_mut().source_is_away(self.number);
            self.unconfirmed.insert(name, node);
        }
        for node in self.nodes.values_mut() {
            node.forget_refusals();
        }
        self.here.asked.iter().for_each(Asked::forget_refusals);
    }

    /// The node of this name; `None`: there is no room for it.
    fn node(&mut self, name: &NodeName) -> Option<&mut NodeBelow> {
        if !self.nodes.contains_key(name) {
            let node = self.here.cluster.node_or_new(name, clock::boot())?;
            self.comes(name, &node);
            self.nodes.insert(name.clone(), NodeBelow::new(node));
        }
        self.nodes.get_mut(name)
    }

    /// Applies the listed state of a node that was not known here before.
    fn comes(&mut self, name: &NodeName, node: &Arc<SharedNode>) {
        let listed = self.listing.get_mut(name).or(self.listed.get_mut(name));
        if let Some(listed) = listed
            && let Listed::Coming(status) = listed
        {
            node.lock().link_mut().reported_by(self.number, &self.here.hub, status);
            *listed = Listed::Known { node: node.clone(), is_up: true };
        }
    }

    fn list(&mut self, status: &NodeStatus) {
        // A node that is up comes with its lane.
        let node = match status.up {
            true => self.here.cluster.node(&status.node),
            false => self.here.cluster.node_or_new(&status.node, clock::boot()),
        };
        let Some(node) = node else {
            if status.up {
                self.listing.insert(status.node.clone(), Listed::Coming(Box::new(status.clone())));
            }
            return;
        };
        if let Some(below) = self.nodes.get_mut(&status.node).filter(|_| !status.up) {
            below.listed_as_gone(status, &self.here);
        }
        let is_news = {
            let mut node = node.lock();
            if let Some(ahead) = status.clock_offset.filter(|_| !node.link().is_direct()) {
                set_clock(&mut node, self.clock.of_node(ahead, clock::boot()), status.up);
            }
            node.link_mut().reported_by(self.number, &self.here.hub, status)
        };
        if is_news {
            self.here.cluster.changes.ring();
        }
        self.listing.insert(status.node.clone(), Listed::Known { node, is_up: status.up });
    }

    /// Whether the hub below says that the node is not up.
    fn is_gone(&self, name: &NodeName) -> bool {
        let listed = self.listing.get(name).or(self.listed.get(name));
        listed.is_some_and(|listed| matches!(listed, Listed::Known { is_up: false, .. }))
    }
}

/// The hub below has reported how far the clock of a node is ahead. If the node is not up there, the measurement may be old.
fn set_clock(node: &mut Node, ahead: Ahead, is_up: bool) {
    let (of_hub, compared) = match ahead {
        Ahead::Ours(ahead) => (Some(ahead), trusted::machine_ahead().map(|by| ahead.saturating_add(by))),
        // Hubs are synchronised better than the nodes whose clocks are wrong.
        Ahead::Theirs(ahead) => (Some(ahead), Some(ahead)),
        Ahead::Unknown => (None, None),
    };
    let of = if matches!(ahead, Ahead::Ours(_)) { ComparedWith::Ours } else { ComparedWith::AnotherHubs };
    match compared {
        Some(ahead) if is_up => node.set_clock(ahead, of),
        Some(ahead) => node.set_clock_of_new_lanes(ahead, of),
        None => {}
    }
    // A hub above this one hears it, too.
    if let Some(ahead) = of_hub.filter(|_| is_up || node.link().beats().clock_offset.is_none()) {
        node.link_mut().told_clock(ahead);
    }
}

impl Reader for NodesBelow {
    type Subscription = Wanted;
    type Lane = LaneBelow;

    fn offered(&mut self, name: &NodeName, offer: &LaneOffer<'_>, wanted: &Wanted) -> Option<LaneBelow> {
        self.lanes_made += 1;
        let id = self.lanes_made;
        let connection = THROUGH_HUB | (self.number as u64) << SOURCE_SHIFT | id;
        self.node(name)?;
        let NodesBelow { here, nodes, .. } = self;
        let node = nodes.get_mut(name)?;
        let (number, from, held) = match wanted {
            Wanted::Everything => (LANE, None, Some(node.begin(connection, id, offer, here))),
            Wanted::Channel(channel) => {
                let terms = channel.terms_at(name.as_str())?;
                let (number, from) = node.offered(connection, (channel, terms), id, offer, here);
                (number, from, None)
            }
        };
        let schemas = Generations::default();
        Some(LaneBelow { id, here: number, schemas, from, held, offered_at: offer.next_row })
    }

    fn wants_from(&self, lane: &LaneBelow) -> Option<u64> {
        lane.from
    }

    fn held(&self, lane: &LaneBelow) -> Option<Held> {
        lane.held.clone()
    }

    fn changed(&mut self, lane: &mut Lane<Self>) {
        if let Some(node) = self.nodes.get_mut(lane.node()) {
            node.changed(lane.data.here, lane.period());
        }
    }

    /// The cluster shares schemas among all its nodes, so they are decoded there.
    fn schema(&mut self, lane: &mut Lane<Self>, generation: u32, offset: u64, bytes: &[u8]) -> bool {
        let name = lane.node().clone();
        let (cluster, data) = (&self.here.cluster, &mut lane.data);
        let piece = SchemaPiece { lane: LANE, generation, offset, bytes };
        let known = data.schemas.of(generation).map_or(0, |schema| schema.series().len());
        match data.schemas.take(&piece, &cluster.schemas) {
            Ok(Some(schema)) => cluster.note_metrics(&schema, known),
            Ok(None) => {}
            Err(problem) => self.refusal = Some(format!("{name}: {problem}")),
        }
        true
    }

    fn row(&mut self, lane: &mut Lane<Self>, row: &Row<'_>) {
        let LaneBelow { here: number, offered_at, .. } = lane.data;
        let is_of_before = number == LANE && row.number() < offered_at && self.is_gone(lane.node());
        let NodesBelow { here, nodes, .. } = self;
        let Some(node) = nodes.get_mut(lane.node()) else { return };
        // Schemas of late rows may have come meanwhile: the block says which is its own.
        let generation = row.decoder().header().map_or(0, |header| header.generation);
        let (origin, row) = (lane.data.origin(generation), (row.number(), row.decoder()));
        let taken = match number {
            LANE => node.base_row(origin, row, is_of_before, here),
            _ => node.row(number, origin, row, here),
        };
        if let Err(problem) = taken {
            tracing::debug!("{} through {}: {problem}", lane.node(), here.hub);
        }
    }

    fn past(&mut self, lane: &mut Lane<Self>, block: &[u8]) {
        let NodesBelow { here, nodes, .. } = self;
        let Some(node) = nodes.get_mut(lane.node()).filter(|_| lane.data.here == LANE) else { return };
        let header = block.first_chunk::<HEADER_BYTES>().and_then(|head| Header::from_bytes(head, 0).ok());
        let generation = header.map_or(0, |header| header.generation);
        if let Err(problem) = node.base_past(lane.data.origin(generation), block, here) {
            tracing::debug!("{} through {}: {problem}", lane.node(), here.hub);
        }
    }

    fn lost(&mut self, lane: &mut Lane<Self>, from: u64, to: u64) {
        if let Some(node) = self.nodes.get_mut(lane.node()) {
            node.lost(lane.data.here, lane.data.id, (from, to), &self.here);
        }
    }

    fn closed(&mut self, lane: Lane<Self>, ended: Option<&str>) {
        if let Some(node) = self.nodes.get_mut(lane.node()) {
            node.closed(lane.data.here, (lane.data.id, lane.subscription()), ended, &self.here);
        }
    }

    fn notice(&mut self, wanted: &Wanted, granted: bool, text: &str) {
        if granted {
            return;
        }
        let channel = match wanted {
            Wanted::Channel(channel) => channel.interest.channel.as_ref().map(|terms| &terms.name),
            _ => None,
        };
        let of = channel.map_or_else(String::new, |name| format!("channel {name}: "));
        tracing::warn!("hub {}: {of}{text}", self.here.hub);
        if let (Wanted::Channel(channel), Some(asked)) = (wanted, &self.here.asked) {
            asked.refused(channel, text);
            self.nodes.values().for_each(|node| node.refused_by_hub(channel, &self.here));
        }
    }

    fn refused(&mut self, wanted: &Wanted, name: &NodeName, text: &str) {
        if let Wanted::Channel(channel) = wanted
            && let Some(node) = self.node(name)
        {
            node.refuses(channel, text);
        }
    }

    fn clock(&mut self, ahead: Option<i64>) {
        self.clock.measured(ahead, clock::boot());
    }

    fn nodes(&mut self, nodes: Vec<NodeStatus>, is_last: bool) {
        if self.refusal.is_none() {
            nodes.iter().for_each(|status| self.list(status));
        }
        if !is_last {
            return;
        }
        let before = std::mem::replace(&mut self.listed, std::mem::take(&mut self.listing));
        // If a hub listed a node on this connection and lists it no longer, somebody made it forget
        // the node.
        let known = |(name, listed): (NodeName, Listed)| Some((name, listed.known()?, true));
        let before = before.into_iter().filter_map(known);
        let unconfirmed = self.unconfirmed.drain().map(|(name, node)| (name, node, false));
        for (name, node, is_certain) in before.chain(unconfirmed) {
            if self.listed.contains_key(&name) {
                continue;
            }
            let is_over = node.lock().link_mut().forget_report(self.number, is_certain);
            if is_over {
                self.here.cluster.forget_node(&node);
            }
        }
    }

    /// A source without an identity gets no nodes from other hubs.
    fn up(&mut self, hub: &HubName) {
        self.here.hub.clone_from(&hub.name);
        self.refusal = None;
        if std::mem::replace(&mut self.identity, hub.identity) != hub.identity {
            // It has measured its nodes' clocks since it began.
            self.clock = HubClock::default();
        }
        if hub.identity == HubName::default().identity {
            return self.here.cluster.sources.forget(self.number);
        }
        if self.here.cluster.sources.set(self.number, hub) {
            return;
        }
        let text = format!(
            "hub {} gets nodes from this hub, so this hub cannot get nodes from it: a loop; leave out one --source",
            hub.name
        );
        self.refusal = Some(text);
    }

    fn down(&mut self, _: &str) {
        self.here.cluster.sources.lose(self.number, clock::boot());
        self.clock.lose();
        self.lose();
    }

    /// Marks silent nodes as down, and answers the subscriptions of readers here.
    fn rest(&mut self, _: &mut Lanes<Self>) {
        let NodesBelow { here, nodes, .. } = self;
        let now = clock::boot();
        nodes.retain(|_, node| {
            node.silence(now, &here.hub);
            !node.is_over(here)
        });
        let commands = here.mailbox.take();
        if !commands.is_empty() {
            let mut by_connection: HashMap<u64, &mut NodeBelow> =
                nodes.values_mut().map(|node| (node.connection(), node)).collect();
            for (connection, command) in commands {
                // The hub below itself sends the node everything else that a hub sends.
                if let Command::Interest { number, terms, .. } = command
                    && let Some(node) = by_connection.get_mut(&connection)
                {
                    node.wanted(number, &terms, here);
                }
            }
        }
        here.cluster.stir();
    }

    fn refusal(&mut self) -> Option<String> {
        self.refusal.clone()
    }
}

impl Drop for NodesBelow {
    fn drop(&mut self) {
        for node in self.nodes.values_mut() {
            node.disconnect("this hub does not follow that one any more");
        }
        self.lose();
        for (_, node) in self.unconfirmed.drain() {
            node.lock().link_mut().forget_report(self.number, false);
        }
    }
}

#[cfg(test)]
mod tests;
