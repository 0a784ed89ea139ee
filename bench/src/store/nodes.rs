//! Made-up nodes whose rows go into a log, as those of a hub do: all with the same values, each at another place of its block.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use khz_block::{Encoder, HEADER_BYTES, Header};
use khz_model::{Columns, Nanos, NodeName, Stamp};
use khz_store::log::{Intake, LoggedBlock, LoggedLane, OpenBlock, OpenBlocks, Take};
use khz_store::range::OpenRows;

use crate::error::BenchError;
use crate::program::failed;
use crate::store::made_up;

/// Nodes of a large cluster, and their slots.
pub const NODES: usize = 4_096;
pub const SLOTS: usize = 300;
/// Of the slots, those that change from row to row, each by a byte or two: 270 bytes a row, as recordings have at 1 Hz.
pub const MOVING: usize = 130;
/// Rows of a block at 1 Hz.
pub const BLOCK_ROWS: u64 = 60;
/// When the first row was gathered: the begin of an hour.
pub const BEGIN: u64 = 1_763_002_800_000_000_000;

/// A block of all nodes, and where each of its rows ends.
struct Model {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Model {
    /// The rows of the block with this number. Their values go on where those of the block before ended, as counters do.
    fn new(schema: &Arc<dyn Columns>, moving: usize, number: u64) -> Self {
        let mut encoder = Encoder::new(0, 1, Nanos::SECOND);
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        for row in 0..BLOCK_ROWS {
            let stamp = Stamp { boot: Nanos(row * Nanos::SECOND.0), real_offset: BEGIN.cast_signed() };
            let value = |slot: usize| {
                let is_moving = slot < moving;
                let (slot, row) = (slot as u64, if is_moving { number * BLOCK_ROWS + row } else { 0 });
                (0, 1_000_000 + row * (slot * 7 % 190) + (row * row + slot) * 31 % 23)
            };
            match row {
                0 => encoder.key_row(stamp, schema.series().len(), value, &mut bytes),
                _ => encoder.delta_row(stamp, 0..moving, value, &mut bytes),
            }
            ends.push(bytes.len());
        }
        Model { bytes, ends }
    }
}

/// Nodes on their way through their blocks, as the hub has them.
pub struct Nodes {
    schema: Arc<dyn Columns>,
    moving: usize,
    cluster: Mutex<Cluster>,
}

struct Cluster {
    /// By their numbers: those that a node has come to.
    models: Vec<Model>,
    nodes: Vec<Node>,
}

struct Node {
    lane: Arc<LoggedLane>,
    header: Header,
    /// What has come of the open block, how many rows these are, and how many bytes the log has taken.
    bytes: Vec<u8>,
    rows: usize,
    taken: usize,
}

impl Nodes {
    /// Nodes with this number of slots, of which `moving` change from row to row, each at another place of its block.
    pub fn new(slots: usize, moving: usize, intake: &Intake) -> Result<Arc<Self>, BenchError> {
        Nodes::some(NODES, slots, moving, intake)
    }

    /// This many of them.
    pub fn some(count: usize, slots: usize, moving: usize, intake: &Intake) -> Result<Arc<Self>, BenchError> {
        let schema: Arc<dyn Columns> = Arc::new(made_up::slots(slots));
        let model = Model::new(&schema, moving, 0);
        let header = Header::from_bytes(model.bytes.first_chunk().unwrap_or(&[0; HEADER_BYTES]), 0);
        let header = header.map_err(|error| failed("a block", error))?;
        let mut nodes = Vec::new();
        for number in 0..count {
            let name = NodeName::new(&format!("node{number:04}")).map_err(|error| failed("a name", error))?;
            let lane = intake.lane(&name, 1);
            let mut node = Node { lane, header, bytes: Vec::new(), rows: 0, taken: 0 };
            (0..number % BLOCK_ROWS as usize).for_each(|_| node.row(&model));
            nodes.push(node);
        }
        let cluster = Mutex::new(Cluster { models: vec![model], nodes });
        let nodes = Arc::new(Nodes { schema, moving, cluster });
        intake.ask(&nodes);
        intake.grown();
        Ok(nodes)
    }

    /// A row of each node comes. This is no work of the store.
    pub fn rows(&self) {
        let Cluster { models, nodes } = &mut *self.all();
        for node in nodes {
            let number = node.header.first_row / BLOCK_ROWS;
            if number == models.len() as u64 {
                models.push(Model::new(&self.schema, self.moving, number));
            }
            node.row(&models[number as usize]);
        }
    }

    /// What the hub's thread does for the store then.
    pub fn hand(&self, intake: &Intake) {
        for node in &mut self.all().nodes {
            intake.grown();
            if node.rows as u64 == BLOCK_ROWS {
                node.end(&self.schema, intake);
            }
        }
    }

    /// A second has passed: both.
    pub fn step(&self, intake: &Intake) {
        self.rows();
        self.hand(intake);
    }

    /// How many rows of each node have come.
    pub fn counts(&self) -> Vec<u64> {
        self.all().nodes.iter().map(Node::count).collect()
    }

    /// How many rows that came are not in another log.
    pub fn missing_in(&self, intake: &Intake) -> u64 {
        let missing = |node: &Node| {
            let stored = intake.lane(node.lane.node(), node.lane.epoch()).stored();
            let rows = stored.into_iter().map(|(from, to)| to.min(node.count()) - from);
            node.count() - rows.sum::<u64>()
        };
        self.all().nodes.iter().map(missing).sum()
    }

    fn all(&self) -> MutexGuard<'_, Cluster> {
        self.cluster.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenBlocks for Nodes {
    fn grown(&self, take: &mut Take<'_>) {
        for node in self.all().nodes.iter_mut().filter(|node| node.taken < node.bytes.len()) {
            let begins = (node.taken == 0).then(|| (self.schema.clone(), [7; 16]));
            let open = OpenBlock {
                header: &node.header,
                begins,
                offset: node.taken,
                bytes: &node.bytes[node.taken..],
                end: node.header.first_row + node.rows as u64,
                shift: 0,
            };
            if take(&node.lane, open) {
                node.taken = node.bytes.len();
            }
        }
    }
}

/// What has come and is in no block of the log yet.
impl OpenRows for Nodes {
    fn nodes(&self) -> Vec<NodeName> {
        self.all().nodes.iter().map(|node| node.lane.node().clone()).collect()
    }

    fn of(&self, name: &NodeName, from: Nanos, to: Nanos) -> Vec<LoggedBlock> {
        let nodes = &self.all().nodes;
        // Their names have the order of their numbers.
        let place = nodes.binary_search_by(|node| node.lane.node().cmp(name)).ok();
        let is_within = |node: &&Node| node.rows > 0 && node.span().0 < to && node.span().1 >= from;
        let node = place.and_then(|place| nodes.get(place)).filter(is_within);
        node.map(|node| node.block(&self.schema, node.bytes.clone())).into_iter().collect()
    }

    fn span(&self) -> Option<(Nanos, Nanos)> {
        let nodes = &self.all().nodes;
        let spans = nodes.iter().filter(|node| node.rows > 0).map(Node::span);
        spans.reduce(|all, one| (all.0.min(one.0), all.1.max(one.1)))
    }
}

impl Node {
    /// How many rows have come.
    fn count(&self) -> u64 {
        self.header.first_row + self.rows as u64
    }

    /// The times of the first and last row of the open block.
    fn span(&self) -> (Nanos, Nanos) {
        let first = self.header.stamp.real();
        (first, Nanos(first.0 + (self.rows as u64).saturating_sub(1) * Nanos::SECOND.0))
    }

    fn block(&self, schema: &Arc<dyn Columns>, bytes: Vec<u8>) -> LoggedBlock {
        LoggedBlock {
            header: self.header,
            rows: self.rows as u32,
            schema: schema.clone(),
            schema_hash: [7; 16],
            bytes: Arc::new(bytes),
            last: self.span().1,
            shift: 0,
        }
    }

    fn row(&mut self, model: &Model) {
        let from = self.rows.checked_sub(1).map_or(0, |before| model.ends[before]);
        self.bytes.extend_from_slice(&model.bytes[from..model.ends[self.rows]]);
        if self.rows == 0 {
            self.bytes[..HEADER_BYTES].copy_from_slice(&self.header.to_bytes());
        }
        self.rows += 1;
    }

    fn end(&mut self, schema: &Arc<dyn Columns>, intake: &Intake) {
        let bytes = std::mem::take(&mut self.bytes);
        let block = self.block(schema, bytes);
        intake.block(&self.lane, block);
        self.header.first_row += BLOCK_ROWS;
        self.header.stamp.boot.0 += BLOCK_ROWS * Nanos::SECOND.0;
        (self.rows, self.taken) = (0, 0);
    }
}
