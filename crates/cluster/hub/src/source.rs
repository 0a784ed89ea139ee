//! Another hub as the source of this one: its nodes appear here under their names, at their base rate. It follows that
//! hub as any reader does and lays each row into the node's lane as if the node had sent it. It refuses hubs whose
//! nodes come from here: that would be a loop.

use std::collections::HashMap;
use std::sync::Arc;

use khz_block::{Decoder, Encoder};
use khz_link::driver::{Following, FollowingSettings, FollowingSink};
use khz_link::{FollowSink, HubName, LaneKey, LaneOffer, SchemaPiece, Told, Wish};
use khz_model::{Interest, Nanos, NodeName, NodeStatus, Pattern, Rate};

use crate::clock;
use crate::cluster::Cluster;
use crate::counts::Counts;
use crate::generations::Generations;
use crate::mailbox::{Command, Mailbox};
use crate::node::{Answer, Arrival, BASE, Link, SharedNode, THROUGH_HUB, silent_after};

/// A hub that is followed. Dropping it ends that; its nodes are down then.
pub struct Source {
    _following: Following,
}

impl Source {
    /// Follows the hub, or the first of several that answers; `number` tells it from other sources.
    pub fn start(cluster: Arc<Cluster>, settings: FollowingSettings, number: usize) -> std::io::Result<Self> {
        let sink = Sink::new(cluster, number)?;
        let following = Following::start(settings, sink)?;
        let everything = Interest {
            patterns: vec![Pattern::everything()],
            rate: Rate::from_hz(1).ok_or_else(|| std::io::Error::other("BUG: once a second is a rate"))?,
            exact: false,
        };
        following.ask(&everything, false).map_err(std::io::Error::other)?;
        // Those that are down, and those that are missing there, are known here too.
        following.roster(true);
        Ok(Source { _following: following })
    }
}

/// Lays rows into the cluster.
pub(crate) struct Sink {
    pub cluster: Arc<Cluster>,
    number: usize,
    /// What readers want of these nodes; it is refused.
    mailbox: Arc<Mailbox>,
    lanes: HashMap<LaneKey, Lane>,
    made: u64,
    hub: String,
    refusal: Option<String>,
    /// Nodes that the hub tells of: in this round, and in the one before.
    telling: HashMap<NodeName, Arc<SharedNode>>,
    told: HashMap<NodeName, Arc<SharedNode>>,
}

/// A node's lane.
struct Lane {
    node: Arc<SharedNode>,
    connection: u64,
    /// Of this connection alone: the slots of its blocks are those that the hub below has chosen on it, and not the
    /// node's own. The rows have the node's numbers.
    epoch: u64,
    period: Nanos,
    /// The row that came next when it was offered.
    next_row: u64,
    encoder: Encoder,
    /// What its slots mean, whoever speaks for the node when that comes.
    schemas: Generations,
    generation: u32,
    /// Slots of the open block; 0: the next row begins another.
    slots: usize,
    last: Nanos,
    is_up: bool,
}

/// The number that the one lane of such a node has.
const LANE: u32 = 1;

impl Lane {
    /// The node is there, as if it had connected; `false`: somebody else speaks for it, or there is no room for it.
    fn connect(&mut self, cluster: &Cluster, mailbox: &Arc<Mailbox>, hub: &str) -> bool {
        let now = clock::boot();
        if !self.is_up {
            // While nothing came it may have been forgotten: the one of its name is another then.
            let Some(node) = cluster.node_or_new(&self.node.name, now) else { return false };
            self.node = node;
        }
        let mut node = self.node.lock();
        if node.link().is_linked(self.connection) {
            return true;
        }
        if node.link().is_up() {
            return false;
        }
        let link = Link::new(mailbox.clone(), self.connection);
        let arrival = Arrival { version: &format!("through {hub}"), ..Arrival::default() };
        node.connect(&arrival, link, now);
        if node.lanes_mut().offered(LANE, BASE, self.epoch, self.period).is_none() {
            return false;
        }
        if let Some(lane) = node.lanes_mut().numbered(LANE) {
            (lane.alive, lane.next_offered) = (true, self.next_row);
            lane.late.want(Some(self.next_row.saturating_sub(1)));
        }
        drop(node);
        self.node.set_up(true);
        self.is_up = true;
        // Somebody else may have spoken for it meanwhile: no block of ours is open there.
        self.encoder.close();
        self.slots = 0;
        true
    }

    fn disconnect(&mut self, why: &str) {
        self.node.disconnect(self.connection, Some(why.to_owned()), clock::boot());
        self.is_up = false;
        self.encoder.close();
    }

    /// Writes one row; what does not fit together begins anew with the next.
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

impl Sink {
    /// One that has no nodes yet; `number` tells its source from others.
    pub fn new(cluster: Arc<Cluster>, number: usize) -> std::io::Result<Self> {
        let mailbox = Arc::new(Mailbox::new()?);
        Ok(Sink {
            cluster,
            number,
            mailbox,
            lanes: HashMap::new(),
            made: 0,
            hub: String::new(),
            refusal: None,
            telling: HashMap::new(),
            told: HashMap::new(),
        })
    }

    /// A source that has no identity, because it gets nodes from nobody.
    pub fn up_alone(&mut self, name: &str) {
        name.clone_into(&mut self.hub);
        self.refusal = None;
        self.cluster.sources.forget(self.number);
    }
}

impl FollowSink for Sink {
    fn wish(&mut self, key: &LaneKey, offer: &LaneOffer<'_>) -> Option<Wish> {
        let name = NodeName::new(&key.node).ok()?;
        let node = self.cluster.node_or_new(&name, clock::boot())?;
        self.made += 1;
        let connection = THROUGH_HUB | (self.number as u64) << 40 | self.made;
        let lane = Lane {
            node,
            connection,
            epoch: self.cluster.epochs(connection) ^ key.epoch,
            period: offer.period,
            next_row: offer.next_row,
            encoder: Encoder::new(0, offer.generation, offer.period),
            schemas: Generations::default(),
            generation: offer.generation,
            slots: 0,
            last: Nanos(0),
            is_up: false,
        };
        self.lanes.insert(key.clone(), lane);
        Some(Wish { span: Nanos(0), prompt: false })
    }

    fn changed(&mut self, key: &LaneKey, offer: &LaneOffer<'_>) {
        if let Some(lane) = self.lanes.get_mut(key) {
            lane.period = offer.period;
        }
    }

    fn schema(&mut self, key: &LaneKey, generation: u32, offset: u64, bytes: &[u8]) {
        let Some(lane) = self.lanes.get_mut(key) else { return };
        let piece = SchemaPiece { lane: LANE, generation, offset, bytes };
        let known = lane.schemas.of(generation).map_or(0, |schema| schema.series().len());
        match lane.schemas.take(&piece, &self.cluster.schemas) {
            Ok(Some(schema)) => self.cluster.note_metrics(&schema, known),
            Ok(None) => {}
            Err(problem) => self.refusal = Some(format!("{}: {problem}", key.node)),
        }
        if lane.generation != generation {
            // As many slots may mean something else.
            (lane.generation, lane.slots) = (generation, 0);
        }
    }

    fn row(&mut self, key: &LaneKey, number: u64, row: &Decoder) {
        let Some(lane) = self.lanes.get_mut(key) else { return };
        if !lane.connect(&self.cluster, &self.mailbox, &self.hub) {
            return;
        }
        if let Err(problem) = lane.row(number, row, &self.cluster.counts, self.cluster.keeps_history()) {
            tracing::debug!("{} through {}: {problem}", key.node, self.hub);
            lane.encoder.close();
            lane.slots = 0;
        }
    }

    // Rows were laid down as they came.
    fn block(&mut self, _: &LaneKey, _: &[u8]) {}

    fn lost(&mut self, key: &LaneKey, from: u64, to: u64) {
        let Some(lane) = self.lanes.get_mut(key) else { return };
        if let Some(place) = lane.node.lock().lanes_mut().numbered(LANE) {
            Counts::add(&self.cluster.counts.rows_lost, place.lose(from, to));
        }
    }

    fn told(&mut self, told: &Told<'_>) {
        if !told.granted {
            tracing::warn!("hub {}: {}", self.hub, told.text);
        }
    }

    fn node(&mut self, status: &NodeStatus) {
        if self.refusal.is_some() {
            return;
        }
        // One that is up comes with its lane.
        let node = match status.up {
            true => self.cluster.node(&status.node),
            false => self.cluster.node_or_new(&status.node, clock::boot()),
        };
        let Some(node) = node else { return };
        if node.lock().link_mut().reported_by(&self.hub, status) {
            self.cluster.changes.ring();
        }
        self.telling.insert(status.node.clone(), node);
    }

    fn nodes(&mut self) {
        let before = std::mem::replace(&mut self.told, std::mem::take(&mut self.telling));
        for (name, node) in before {
            if !self.told.contains_key(&name) {
                node.lock().link_mut().forget_report();
            }
        }
    }

    fn closed(&mut self, key: &LaneKey) {
        if let Some(mut lane) = self.lanes.remove(key) {
            lane.disconnect(&format!("hub {} has it no more", self.hub));
        }
    }
}

impl FollowingSink for Sink {
    fn up(&mut self, hub: &HubName) {
        self.hub.clone_from(&hub.name);
        self.refusal = None;
        if self.cluster.sources.set(self.number, hub) {
            return;
        }
        let text = format!(
            "hub {} gets nodes from this hub, so this hub cannot get nodes from it: a loop; leave out one --source",
            hub.name
        );
        self.refusal = Some(text);
    }

    fn down(&mut self, problem: &str) {
        self.cluster.sources.forget(self.number);
        // What they were stays known; what the hub expects is not known while it is away.
        for (_, node) in self.telling.drain().chain(self.told.drain()) {
            node.lock().link_mut().forget_report();
        }
        for (_, mut lane) in self.lanes.drain() {
            lane.disconnect(problem);
        }
    }

    /// Nodes of which nothing comes are down, and what readers want beyond the base rate is refused.
    fn rest(&mut self) {
        let now = clock::boot();
        for lane in self.lanes.values_mut().filter(|lane| lane.is_up) {
            if now.since(lane.last) > silent_after(lane.period) && lane.last > Nanos(0) {
                lane.disconnect(&format!("silent at hub {}", self.hub));
            }
        }
        for (connection, command) in self.mailbox.take() {
            let Command::Interest { number, .. } = command else { continue };
            let Some(lane) = self.lanes.values().find(|lane| lane.connection == connection) else { continue };
            let text = format!("comes through hub {}, at its base rate", self.hub);
            lane.node.lock().answered(number, Answer { granted: false, text }, None);
        }
        self.cluster.stir();
    }

    fn refusal(&mut self) -> Option<String> {
        self.refusal.clone()
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.down("this hub does not follow that one any more");
    }
}

#[cfg(test)]
mod tests;
