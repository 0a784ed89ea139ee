//! Another hub as a source of nodes (`--source`, nested hubs): they appear here under their names, at their base rate.
//! This hub reads the other one as any reader does, and puts each row into the node's lane as if the node had sent it. It
//! refuses a hub that gets nodes from here, since that would be a loop.

use std::collections::HashMap;
use std::sync::Arc;

use khz_block::{Decoder, Encoder};
use khz_follow::{Follower, Lane, Lanes, Reader, Row, Subscriber, Subscriptions};
use khz_link::driver::FollowingSettings;
use khz_link::{HubName, LaneOffer, SchemaPiece};
use khz_model::{Interest, Nanos, NodeName, NodeStatus, Pattern, Rate};

use crate::clock;
use crate::cluster::Cluster;
use crate::counts::Counts;
use crate::generations::Generations;
use crate::mailbox::{Command, Mailbox};
use crate::node::{Answer, Arrival, BASE, Link, SharedNode, THROUGH_HUB, silent_after};

/// A hub whose nodes come here. Dropping it ends that; its nodes are down then.
pub struct Source {
    _subscriber: Subscriber<()>,
}

impl Source {
    /// Connects to the hub, or to the first of several that answers. Each source has another `number`.
    pub fn start(cluster: Arc<Cluster>, settings: FollowingSettings, number: usize) -> std::io::Result<Self> {
        let subscriber = Subscriber::start(settings, NodesBelow::new(cluster, number)?)?;
        let everything = Interest::new(
            vec![Pattern::everything()],
            Rate::from_hz(1).ok_or_else(|| std::io::Error::other("BUG: once a second is a rate"))?,
            false,
        );
        subscriber.subscribe(&everything, false, ()).map_err(std::io::Error::other)?;
        // Nodes that are down, and nodes that are missing there, are known here too.
        subscriber.link().roster(true);
        Ok(Source { _subscriber: subscriber })
    }
}

/// The number of the one subscription, to everything, if rows do not come over a [`Subscriber`].
pub(crate) const EVERYTHING: u32 = 1;

/// A follower that puts rows into the cluster. The caller gives it lanes and rows.
pub(crate) fn follower(cluster: Arc<Cluster>, number: usize) -> std::io::Result<Follower<NodesBelow>> {
    Ok(Follower::new(NodesBelow::new(cluster, number)?, Subscriptions::from_iter([(EVERYTHING, ())])))
}

/// The nodes of a source, as they appear here.
pub(crate) struct NodesBelow {
    pub cluster: Arc<Cluster>,
    number: usize,
    /// Subscriptions of readers here that these nodes cannot serve, because they need more than the base lane. They are refused.
    mailbox: Arc<Mailbox>,
    /// Lanes of all connections until now.
    lanes_made: u64,
    hub: String,
    refusal: Option<String>,
    /// Nodes in the part of the hub's list that has arrived.
    listing: HashMap<NodeName, Arc<SharedNode>>,
    /// Nodes in its list before.
    listed: HashMap<NodeName, Arc<SharedNode>>,
}

/// A node's lane.
pub(crate) struct NodeLane {
    node: Arc<SharedNode>,
    connection: u64,
    /// An epoch for this connection only: the hub below has chosen the slots of its blocks on it. The rows have the node's
    /// numbers.
    epoch: u64,
    /// The row that came next when the lane was offered.
    next_row: u64,
    encoder: Encoder,
    /// What its slots mean, also while the node is connected here itself.
    schemas: Generations,
    generation: u32,
    /// Slots of the open block; 0: the next row begins another.
    slots: usize,
    last: Nanos,
    /// It has connected the node, and not disconnected it. Another connection may have taken the node over since.
    is_up: bool,
}

/// The number that the one lane of such a node has.
const LANE: u32 = 1;

impl NodeLane {
    /// Connects the node, as if it had connected itself. `false`: it is connected another way, or there is no room for it.
    fn connect(&mut self, below: &NodesBelow, period: Nanos) -> bool {
        let now = clock::boot();
        if self.node.lock().link().is_linked(self.connection) {
            return true;
        }
        // While it was not connected this way, the cluster may have forgotten the node and made a new entry with its name.
        let Some(node) = below.cluster.node_or_new(&self.node.name, now) else { return false };
        self.node = node;
        let mut node = self.node.lock();
        if node.link().is_up() {
            return false;
        }
        let link = Link::new(below.mailbox.clone(), self.connection);
        let arrival = Arrival { version: &format!("through {}", below.hub), ..Arrival::default() };
        node.connect(&arrival, link, now);
        let Some(id) = node.lanes_mut().offered(LANE, BASE, self.epoch, period) else { return false };
        node.log_lane(id, &below.cluster);
        if let Some(lane) = node.lanes_mut().numbered(LANE) {
            (lane.alive, lane.next_offered) = (true, self.next_row);
            lane.late.want(Some(self.next_row.saturating_sub(1)));
        }
        drop(node);
        below.cluster.keep(&self.node);
        self.node.set_up(true);
        self.is_up = true;
        // The node may have been connected itself meanwhile: no block of ours is open there.
        self.encoder.close();
        self.slots = 0;
        true
    }

    fn disconnect(&mut self, why: &str) {
        self.node.disconnect(self.connection, Some(why.to_owned()), clock::boot());
        self.is_up = false;
        self.encoder.close();
    }

    /// Writes one row. After an error the next row begins a block.
    fn row(&mut self, number: u64, row: &Decoder, counts: &Counts, keep: bool) -> Result<(), &'static str> {
        let slots = row.slots();
        let gap = self.encoder.rows() != number;
        let begins = gap || slots != self.slots || self.encoder.wants_new_block(row.stamp());
        let mut node = self.node.lock();
        let lane = node.lanes_mut().numbered(LANE).ok_or("no lane")?;
        if begins && let Some((rows, bytes, crc)) = self.encoder.close().and_then(|header| header.closed) {
            lane.end(rows, bytes, crc)?;
        }
        let reading = |slot: usize| (row.states()[slot], row.values()[slot]);
        let mut bytes = Vec::new();
        let added = if begins {
            if let Some(schema) = self.schemas.of(self.generation) {
                lane.set_schema(self.generation, schema.clone());
            }
            self.encoder.resume(number, self.generation);
            self.slots = slots;
            self.encoder.key_row(row.stamp(), slots, reading, &mut bytes);
            Counts::add(&counts.blocks, 1);
            lane.begin(&bytes, keep)?
        } else {
            self.encoder.delta_row(
                row.stamp(),
                row.changed().iter().map(|&slot| slot as usize),
                reading,
                &mut bytes,
            );
            lane.append(&bytes)?
        };
        self.last = clock::boot();
        node.link_mut().heard(self.last);
        drop(node);
        self.node.touch();
        Counts::add(&counts.rows, added);
        Ok(())
    }
}

impl Drop for NodeLane {
    fn drop(&mut self) {
        self.disconnect("this hub does not follow that one any more");
    }
}

impl NodesBelow {
    /// A source without nodes.
    fn new(cluster: Arc<Cluster>, number: usize) -> std::io::Result<Self> {
        let mailbox = Arc::new(Mailbox::new()?);
        Ok(NodesBelow {
            cluster,
            number,
            mailbox,
            lanes_made: 0,
            hub: String::new(),
            refusal: None,
            listing: HashMap::new(),
            listed: HashMap::new(),
        })
    }

    /// The source is gone. The states of its nodes stay known. While it is away, it is not known which nodes it expects.
    fn forget(&mut self) {
        self.cluster.sources.forget(self.number);
        for (_, node) in self.listing.drain().chain(self.listed.drain()) {
            node.lock().link_mut().forget_report();
        }
    }

    fn list(&mut self, status: &NodeStatus) {
        // A node that is up comes with its lane.
        let node = match status.up {
            true => self.cluster.node(&status.node),
            false => self.cluster.node_or_new(&status.node, clock::boot()),
        };
        let Some(node) = node else { return };
        let is_news = {
            let mut node = node.lock();
            // Hubs are synchronised better than the nodes whose clocks are wrong.
            if let Some(ahead) = status.clock_offset.filter(|_| !node.link().is_direct()) {
                node.set_clock(ahead);
            }
            node.link_mut().reported_by(&self.hub, status)
        };
        if is_news {
            self.cluster.changes.ring();
        }
        self.listing.insert(status.node.clone(), node);
    }
}

impl Reader for NodesBelow {
    type Subscription = ();
    type Lane = NodeLane;

    fn offered(&mut self, name: &NodeName, offer: &LaneOffer<'_>, (): &()) -> Option<NodeLane> {
        let node = self.cluster.node_or_new(name, clock::boot())?;
        self.lanes_made += 1;
        let connection = THROUGH_HUB | (self.number as u64) << 40 | self.lanes_made;
        Some(NodeLane {
            node,
            connection,
            epoch: self.cluster.epochs(connection) ^ offer.epoch,
            next_row: offer.next_row,
            encoder: Encoder::new(0, offer.generation, offer.period),
            schemas: Generations::default(),
            generation: offer.generation,
            slots: 0,
            last: Nanos(0),
            is_up: false,
        })
    }

    /// The cluster shares schemas among all its nodes, so they are decoded there.
    fn schema(&mut self, lane: &mut Lane<Self>, generation: u32, offset: u64, bytes: &[u8]) -> bool {
        let data = &mut lane.data;
        let piece = SchemaPiece { lane: LANE, generation, offset, bytes };
        let known = data.schemas.of(generation).map_or(0, |schema| schema.series().len());
        match data.schemas.take(&piece, &self.cluster.schemas) {
            Ok(Some(schema)) => self.cluster.note_metrics(&schema, known),
            Ok(None) => {}
            Err(problem) => self.refusal = Some(format!("{}: {problem}", data.node.name)),
        }
        if data.generation != generation {
            // The same number of slots may mean other series.
            (data.generation, data.slots) = (generation, 0);
        }
        true
    }

    fn row(&mut self, lane: &mut Lane<Self>, row: &Row<'_>) {
        let period = lane.period();
        let lane = &mut lane.data;
        if !lane.connect(self, period) {
            return;
        }
        let (counts, keep) = (&self.cluster.counts, self.cluster.keeps_history());
        if let Err(problem) = lane.row(row.number(), row.decoder(), counts, keep) {
            tracing::debug!("{} through {}: {problem}", lane.node.name, self.hub);
            lane.encoder.close();
            lane.slots = 0;
        }
    }

    fn lost(&mut self, lane: &mut Lane<Self>, from: u64, to: u64) {
        if let Some(place) = lane.data.node.lock().lanes_mut().numbered(LANE) {
            Counts::add(&self.cluster.counts.rows_lost, place.lose(from, to));
        }
    }

    fn closed(&mut self, mut lane: Lane<Self>, ended: Option<&str>) {
        match ended {
            Some(problem) => lane.data.disconnect(problem),
            None => lane.data.disconnect(&format!("hub {} has it no more", self.hub)),
        }
    }

    fn notice(&mut self, (): &(), granted: bool, text: &str) {
        if !granted {
            tracing::warn!("hub {}: {text}", self.hub);
        }
    }

    fn nodes(&mut self, nodes: Vec<NodeStatus>, is_last: bool) {
        if self.refusal.is_none() {
            nodes.iter().for_each(|status| self.list(status));
        }
        if !is_last {
            return;
        }
        let before = std::mem::replace(&mut self.listed, std::mem::take(&mut self.listing));
        for (name, node) in before {
            if !self.listed.contains_key(&name) {
                node.lock().link_mut().forget_report();
            }
        }
    }

    /// A source without an identity gets no nodes from other hubs.
    fn up(&mut self, hub: &HubName) {
        self.hub.clone_from(&hub.name);
        self.refusal = None;
        if hub.identity == HubName::default().identity {
            return self.cluster.sources.forget(self.number);
        }
        if self.cluster.sources.set(self.number, hub) {
            return;
        }
        let text = format!(
            "hub {} gets nodes from this hub, so this hub cannot get nodes from it: a loop; leave out one --source",
            hub.name
        );
        self.refusal = Some(text);
    }

    fn down(&mut self, _: &str) {
        self.forget();
    }

    /// Silent nodes are down, and Interests of readers beyond the base rate are refused.
    fn rest(&mut self, lanes: &mut Lanes<Self>) {
        let now = clock::boot();
        for lane in lanes.iter_mut().filter(|lane| lane.data.is_up) {
            let last = lane.data.last;
            if now.since(last) > silent_after(lane.period()) && last > Nanos(0) {
                lane.data.disconnect(&format!("silent at hub {}", self.hub));
            }
        }
        for (connection, command) in self.mailbox.take() {
            let Command::Interest { number, terms } = command else { continue };
            let Some(lane) = lanes.iter().find(|lane| lane.data.connection == connection) else { continue };
            let text = match terms.channel {
                None => format!("comes through hub {}, at its base rate", self.hub),
                Some(_) => {
                    format!("comes through hub {}, which passes no channels on: ask that hub", self.hub)
                }
            };
            lane.data.node.lock().answered(number, Answer { granted: false, text }, None);
        }
        self.cluster.stir();
    }

    fn refusal(&mut self) -> Option<String> {
        self.refusal.clone()
    }
}

impl Drop for NodesBelow {
    fn drop(&mut self) {
        self.forget();
    }
}

#[cfg(test)]
mod tests;
