//! From a status to rows: each node has a lane, whose slots are the items that the node has shown, in that order. Rows and
//! schema are handled like those of nodes that come over the link.

use std::collections::HashMap;

use khz_block::{Decoder, Encoder, SchemaEncoder};
use khz_follow::Follower;
use khz_link::{LaneKey, LaneOffer, LaneSink};
use khz_model::{Absence, Fault, Nanos, NodeName, Reading, Stamp};

use super::PERIOD;
use super::lines::Problem;
use super::words::Items;
use crate::clock;
use crate::source::{EVERYTHING, NodesBelow};

/// Nodes of one source.
const NODES_MAX: usize = 4_096;
/// Slots of all its nodes together.
const SLOTS_MAX: usize = 2 << 20;
/// The generation of every lane: the items of a text door are never renewed.
const GENERATION: u32 = 1;

/// The nodes and items of a source on this connection.
pub(crate) struct Relay {
    epoch: u64,
    nodes: HashMap<NodeName, Node>,
    slots: usize,
    /// The status had an item that was not in the list of items, or there is no list yet.
    wants_items: bool,
}

struct Node {
    key: LaneKey,
    slots: HashMap<u32, usize>,
    readings: Vec<Reading>,
    schema: SchemaEncoder,
    /// Bytes of the schema that were passed on.
    told: u64,
    /// Bytes that were appended since.
    fresh: Vec<u8>,
    encoder: Encoder,
    decoder: Decoder,
    /// The node is in the present status.
    is_here: bool,
}

impl Relay {
    pub fn new(number: usize) -> Self {
        // Each connection has its own lanes, and two sources of one node differ by their number.
        let epoch = clock::boot().0.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(number as u64);
        Relay { epoch, nodes: HashMap::new(), slots: 0, wants_items: true }
    }

    pub fn wants_items(&self) -> bool {
        self.wants_items
    }

    /// The list of items has come.
    pub fn has_items(&mut self) {
        self.wants_items = false;
    }

    /// One value of the present status.
    pub fn line(
        &mut self,
        (name, item, text): (NodeName, &str, &str),
        items: &Items,
        follower: &mut Follower<NodesBelow>,
    ) -> Result<(), Problem> {
        let Some((number, item)) = items.find(item).and_then(|number| Some((number, items.get(number)?)))
        else {
            self.wants_items = true;
            return Ok(());
        };
        let is_full = self.nodes.len() >= NODES_MAX;
        let node = match self.nodes.get_mut(&name) {
            Some(node) => node,
            None if is_full => {
                return Err(Problem::Said(format!("it has more than {NODES_MAX} nodes")));
            }
            None => self.nodes.entry(name.clone()).or_insert(Node::begin(&name, self.epoch, follower)?),
        };
        node.is_here = true;
        let slot = match node.slots.get(&number) {
            Some(&slot) => slot,
            None if self.slots >= SLOTS_MAX => {
                return Err(Problem::Said(format!("its nodes have more than {SLOTS_MAX} values")));
            }
            None => {
                node.schema
                    .append(&item.series, &mut node.fresh)
                    .map_err(|error| Problem::Said(format!("{name} has {error}")))?;
                self.slots += 1;
                node.readings.push(Reading::Absent(Absence::NotYet));
                node.slots.insert(number, node.readings.len() - 1);
                node.readings.len() - 1
            }
        };
        node.readings[slot] = item.reading(text).unwrap_or(Reading::Failed(Fault::Malformed));
        Ok(())
    }

    /// The status is complete: every node in it has a row.
    pub fn end(&mut self, follower: &mut Follower<NodesBelow>) -> Result<(), Problem> {
        let boot = clock::boot();
        let stamp = Stamp { boot, real_offset: clock::wall() - boot.0 as i64 };
        for node in self.nodes.values_mut().filter(|node| node.is_here) {
            node.row(stamp, follower)?;
        }
        Ok(())
    }
}

impl Node {
    /// Offers the node's lane.
    fn begin(name: &NodeName, epoch: u64, follower: &mut Follower<NodesBelow>) -> Result<Self, Problem> {
        let key = LaneKey { node: name.to_string(), name: "base".to_owned(), epoch };
        let period = Nanos(PERIOD.as_nanos() as u64);
        let offer = LaneOffer {
            lane: 1,
            node: &key.node,
            name: &key.name,
            epoch,
            generation: GENERATION,
            period,
            interest: EVERYTHING,
            oldest_row: 0,
            next_row: 0,
            schema_bytes: 0,
            schema_hash: [0; 16],
            stands_in: false,
        };
        if follower.offered(&key, &offer).is_none() {
            return Err(Problem::Said(format!("there is no room for its node {name}")));
        }
        Ok(Node {
            key,
            slots: HashMap::new(),
            readings: Vec::new(),
            schema: SchemaEncoder::new(),
            told: 0,
            fresh: Vec::new(),
            encoder: Encoder::new(0, GENERATION, period),
            decoder: Decoder::new(),
            is_here: false,
        })
    }

    /// Passes on the new bytes of the schema, and a row. Items that the next status lacks are absent then.
    fn row(&mut self, stamp: Stamp, follower: &mut Follower<NodesBelow>) -> Result<(), Problem> {
        if !self.fresh.is_empty() {
            follower.schema(&self.key, GENERATION, self.told, &self.fresh);
            self.told += self.fresh.len() as u64;
            self.fresh.clear();
        }
        let number = self.encoder.rows();
        let mut bytes = Vec::new();
        let reading = |slot: usize| (self.readings[slot].state(), self.readings[slot].bits());
        self.encoder.key_row(stamp, self.readings.len(), reading, &mut bytes);
        self.encoder.close();
        self.decoder.catch_up(&bytes).map_err(|error| Problem::Said(format!("BUG: {error}")))?;
        follower.row(&self.key, number, &self.decoder);
        self.readings.fill(Reading::Absent(Absence::InstanceGone));
        self.is_here = false;
        Ok(())
    }
}
