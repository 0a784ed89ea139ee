//! Nodes whose rows are known before they come: a node that begins again, as after a crash of its hub, makes the same rows.

use std::collections::BTreeMap;
use std::sync::Arc;

use khz_block::{Encoder, Header};
use khz_model::{
    Columns, Nanos, Pattern, RangeContent, RangeRequest, RangeShape, Ranges, Reading, Series, Stamp,
};
use khz_store::Key;
use khz_store::log::{Intake, LoggedBlock, LoggedLane};

use super::node;
use super::open::{Open, Piece};
use super::stored::{BEGIN, SECOND, all_keys, reading, schema, told};

/// The epoch of all lanes.
pub const EPOCH: u64 = 1;
/// From row to row.
pub const PERIOD: u64 = 10 * SECOND;
/// Rows of a block.
pub const BLOCK_ROWS: u64 = 20;
/// All nodes booted then.
const BOOT: u64 = BEGIN - 3_600 * SECOND;

/// When a row is gathered.
pub fn time(row: u64) -> u64 {
    BEGIN + row * PERIOD
}

fn of_row(number: usize, row: u64, place: usize) -> Reading {
    reading(place, row * 7 + number as u64)
}

/// A node.
pub struct Sender {
    pub lane: Arc<LoggedLane>,
    number: usize,
    series: Vec<(usize, Series)>,
    columns: Arc<dyn Columns>,
    encoder: Encoder,
    bytes: Vec<u8>,
    handed: usize,
    open: Arc<Open>,
    pub next: u64,
}

impl Sender {
    /// It sends everything from the first row on that the log does not have, and before that the beginning of its block.
    pub fn begin(number: usize, intake: &Intake, open: &Arc<Open>) -> Self {
        let lane = intake.lane(&node(number), EPOCH);
        let stored = lane.stored();
        assert!(matches!(stored[..], [] | [(0, _)]), "rows between others are missing: {stored:?}");
        let next = lane.stored_until() / BLOCK_ROWS * BLOCK_ROWS;
        let series = schema(0);
        let columns: Vec<Series> = series.iter().map(|(_, series)| series.clone()).collect();
        let mut encoder = Encoder::new(0, 1, Nanos(PERIOD));
        encoder.resume(next, 1);
        Sender {
            lane,
            number,
            series,
            columns: Arc::new(columns),
            encoder,
            bytes: Vec::new(),
            handed: 0,
            open: open.clone(),
            next,
        }
    }

    /// Hands over rows, and their block when it has ended.
    pub fn send(&mut self, intake: &Intake, rows: u64) {
        for _ in 0..rows {
            self.row();
            if self.next.is_multiple_of(BLOCK_ROWS) {
                self.end(intake);
            }
        }
        self.hand_over(intake);
    }

    fn stamp(row: u64) -> Stamp {
        Stamp { boot: Nanos(time(row) - BOOT), real_offset: BOOT as i64 }
    }

    fn row(&mut self) {
        let (number, row, series) = (self.number, self.next, &self.series);
        let of_slot = |slot: usize| {
            let reading = of_row(number, row, series[slot].0);
            (reading.state(), reading.bits())
        };
        match self.encoder.rows_open() {
            0 => self.encoder.key_row(Self::stamp(row), series.len(), of_slot, &mut self.bytes),
            _ => self.encoder.delta_row(Self::stamp(row), 0..series.len(), of_slot, &mut self.bytes),
        }
        self.next += 1;
    }

    /// What is new of the open block.
    fn hand_over(&mut self, intake: &Intake) {
        if self.handed == self.bytes.len() {
            return;
        }
        let header = Header::from_bytes(self.bytes.first_chunk().unwrap(), 0).unwrap();
        let begins = (self.handed == 0).then(|| (self.columns.clone(), [EPOCH as u8; 16]));
        let (lane, offset, bytes) = (self.lane.clone(), self.handed, self.bytes[self.handed..].to_vec());
        self.open.came(intake, Piece { lane, header, begins, offset, bytes, end: self.next });
        self.handed = self.bytes.len();
    }

    fn end(&mut self, intake: &Intake) {
        let bytes = Arc::new(std::mem::take(&mut self.bytes));
        let block = LoggedBlock {
            header: Header::from_bytes(bytes.first_chunk().unwrap(), 0).unwrap(),
            rows: self.encoder.rows_open(),
            schema: self.columns.clone(),
            schema_hash: [EPOCH as u8; 16],
            bytes,
            last: Self::stamp(self.next - 1).real(),
            shift: 0,
        };
        self.encoder.close();
        self.handed = 0;
        intake.block(&self.lane, block);
    }
}

/// Asks for all rows from this one on, and compares them with what the nodes have sent. Returns the number after the last
/// row of each node; the rows before must all be there, once.
pub fn check(reader: &dyn Ranges, nodes: usize, from: u64) -> Vec<u64> {
    let (patterns, to) = (vec![Pattern::everything()], Nanos(u64::MAX));
    let request = RangeRequest { patterns, from: Nanos(time(from)), to, shape: RangeShape::Rows };
    let mut answer = reader.range(request).unwrap();
    let (keys, mut ends) = (all_keys(), BTreeMap::new());
    while let Some(part) = answer.next().unwrap() {
        let number = (0..nodes).find(|number| node(*number) == part.node).unwrap();
        let place = keys.iter().position(|key| *key == Key::of(&part.series)).unwrap();
        let RangeContent::Readings(readings) = &part.content else { panic!("rows were asked for") };
        let row = ends.entry((number, place)).or_insert(from);
        for (stamp, reading) in readings {
            assert_eq!(stamp.real().0, time(*row), "node {number}, series {place}, row {row}");
            let expected = told(of_row(number, *row, place));
            assert_eq!(told(*reading), expected, "node {number}, series {place}, row {row}");
            *row += 1;
        }
    }
    assert_eq!(answer.damage(), [""; 0]);
    let series = schema(0);
    let of_node = |number: usize| {
        let end = |place: usize| ends.get(&(number, place)).copied().unwrap_or(from);
        let first = end(series[0].0);
        assert!(series.iter().all(|(place, _)| end(*place) == first), "node {number}: {ends:?}");
        first
    };
    (0..nodes).map(of_node).collect()
}
