//! Made-up nodes that hand their rows to a log, as a hub does: all with the same values, each at another place of its block.

use std::sync::Arc;

use khz_block::{Encoder, HEADER_BYTES, Header};
use khz_model::{Columns, Instance, Nanos, NodeName, Series, Stamp};
use khz_store::log::{Intake, LoggedBlock, LoggedLane, OpenBlock};

use crate::error::BenchError;
use crate::program::failed;

/// Nodes of a large cluster, and their slots.
pub const NODES: usize = 4_096;
pub const SLOTS: usize = 300;
/// Of the slots, those that change from row to row, each by a byte or two: 270 bytes a row, as recordings have at 1 Hz.
pub const MOVING: usize = 130;
/// Rows of a block at 1 Hz.
pub const BLOCK_ROWS: u64 = 60;
/// When the first row was gathered: the begin of an hour.
pub const BEGIN: u64 = 1_763_002_800_000_000_000;

/// A block, and where each of its rows ends.
pub struct Model {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    schema: Arc<dyn Columns>,
}

impl Model {
    /// Rows with this number of slots, of which `moving` change from row to row.
    pub fn new(slots: usize, moving: usize) -> Self {
        let metric = khz_parse::catalogue()[0].clone();
        let name = |slot: usize| Some(Instance::from_kernel(format!("slot{slot}").as_bytes()));
        let series: Vec<Series> =
            (0..slots).map(|slot| Series { metric: metric.clone(), instance: name(slot) }).collect();
        let mut encoder = Encoder::new(0, 1, Nanos::SECOND);
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        for row in 0..BLOCK_ROWS {
            let stamp = Stamp { boot: Nanos(row * Nanos::SECOND.0), real_offset: BEGIN.cast_signed() };
            let value = |slot: usize| {
                let slot = slot as u64;
                (0, 1_000_000 + row * (slot * 7 % 190) + (row * row + slot) * 31 % 23)
            };
            match row {
                0 => encoder.key_row(stamp, slots, value, &mut bytes),
                _ => encoder.delta_row(stamp, 0..moving, value, &mut bytes),
            }
            ends.push(bytes.len());
        }
        Model { bytes, ends, schema: Arc::new(series) }
    }
}

/// A node on its way through its block.
pub struct Node {
    lane: Arc<LoggedLane>,
    header: Header,
    row: usize,
}

/// Nodes, each at another place of its block.
pub fn nodes(model: &Model, intake: &Intake) -> Result<Vec<Node>, BenchError> {
    some_nodes(NODES, model, intake)
}

/// This many of them.
pub fn some_nodes(count: usize, model: &Model, intake: &Intake) -> Result<Vec<Node>, BenchError> {
    let mut nodes = Vec::new();
    for number in 0..count {
        let name = NodeName::new(&format!("node{number:04}")).map_err(|error| failed("a name", error))?;
        let header = Header::from_bytes(model.bytes.first_chunk().unwrap_or(&[0; HEADER_BYTES]), 0);
        let header = header.map_err(|error| failed("a block", error))?;
        nodes.push(Node { lane: intake.lane(&name, 1), header, row: 0 });
    }
    for (number, node) in nodes.iter_mut().enumerate() {
        (0..number % BLOCK_ROWS as usize).for_each(|_| node.step(model, intake));
    }
    Ok(nodes)
}

impl Node {
    /// A row comes.
    pub fn step(&mut self, model: &Model, intake: &Intake) {
        let offset = self.row.checked_sub(1).map_or(0, |before| model.ends[before]);
        let mut bytes = &model.bytes[offset..model.ends[self.row]];
        let first;
        if offset == 0 {
            first = [&self.header.to_bytes(), &bytes[HEADER_BYTES..]].concat();
            bytes = &first;
        }
        let end = self.header.first_row + self.row as u64 + 1;
        let begins = (offset == 0).then(|| (model.schema.clone(), [7; 16]));
        let open = OpenBlock { header: &self.header, begins, offset, bytes, end, shift: 0 };
        intake.rows(&self.lane, open);
        self.row += 1;
        if self.row == model.ends.len() {
            self.end(model, intake);
        }
    }

    fn end(&mut self, model: &Model, intake: &Intake) {
        let mut bytes = model.bytes.clone();
        bytes[..HEADER_BYTES].copy_from_slice(&self.header.to_bytes());
        let block = LoggedBlock {
            header: self.header,
            rows: BLOCK_ROWS as u32,
            schema: model.schema.clone(),
            schema_hash: [7; 16],
            bytes: Arc::new(bytes),
            last: Nanos(self.header.stamp.real().0 + (BLOCK_ROWS - 1) * Nanos::SECOND.0),
            shift: 0,
        };
        intake.block(&self.lane, block);
        self.header.first_row += BLOCK_ROWS;
        self.header.stamp.boot.0 += BLOCK_ROWS * Nanos::SECOND.0;
        self.row = 0;
    }

    /// Its name.
    pub fn name(&self) -> &NodeName {
        self.lane.node()
    }

    /// Its lane in another log.
    pub fn lane_in(&self, intake: &Intake) -> Arc<LoggedLane> {
        intake.lane(self.lane.node(), self.lane.epoch())
    }

    /// How many rows have come.
    pub fn rows(&self) -> u64 {
        self.header.first_row + self.row as u64
    }

    /// What has come of its open block.
    pub fn open(&self, model: &Model) -> Option<LoggedBlock> {
        let last = (self.row as u64).checked_sub(1)?;
        let mut bytes = model.bytes[..model.ends[last as usize]].to_vec();
        bytes[..HEADER_BYTES].copy_from_slice(&self.header.to_bytes());
        Some(LoggedBlock {
            header: self.header,
            rows: self.row as u32,
            schema: model.schema.clone(),
            schema_hash: [7; 16],
            bytes: Arc::new(bytes),
            last: Nanos(self.header.stamp.real().0 + last * Nanos::SECOND.0),
            shift: 0,
        })
    }
}
