//! What the log takes for each row, on top of what a hub does anyway: copying its bytes when they come, handing over its
//! block, and the commit, which is a thread of its own in a hub.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use khz_block::{Encoder, HEADER_BYTES, Header};
use khz_model::{Columns, Nanos, NodeName, Series, Stamp};
use khz_store::log::{Intake, Log, LoggedBlock, LoggedLane, OpenBlock};

use crate::error::BenchError;
use crate::pairs::thread_cpu_ns;
use crate::program::failed;
use crate::record::{Bound, Record};
use crate::spread::Spread;
use crate::table::{Table, figure, thousands};

const NODES: usize = 4_096;
const SLOTS: usize = 300;
/// Of them change from row to row, each by a byte or two: 270 bytes a row, as recordings have at 1 Hz.
const MOVING: usize = 130;
/// Rows of a block at 1 Hz.
const BLOCK_ROWS: u64 = 60;
/// When the first row was gathered.
const BEGIN: i64 = 1_763_000_000_000_000_000;

/// A block, and where each of its rows ends.
struct Model {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    schema: Arc<dyn Columns>,
}

/// The cost of one turn, in ns of CPU a row.
struct Turn {
    handing: f64,
    commits: f64,
    /// The longest commit by the clock, in ms.
    longest_ms: f64,
    /// Bytes of the log a row.
    bytes: f64,
}

/// Runs the section.
pub fn run(record: &mut Record) -> Result<(), BenchError> {
    let folder = std::env::temp_dir().join(format!("khz-bench-store-{}", std::process::id()));
    let model = model();
    let heads =
        ["rate", "turn", "handing over, ns/row", "commit, ns/row", "both", "longest commit, ms", "bytes/row"];
    let mut table = Table::new(&heads);
    for (rate, seconds) in [(1, 120), (100, 4)] {
        let mut both = Vec::new();
        for number in 0..record.effort.of(10, 2) {
            record.progress(&format!("{rate} Hz, turn {}", number + 1));
            let turn = play(&folder, &model, rate, seconds)?;
            let case = format!("4096 x {rate} x 300");
            for (what, value) in [
                ("handing_ns", turn.handing),
                ("commit_ns", turn.commits),
                ("longest_ms", turn.longest_ms),
                ("bytes", turn.bytes),
            ] {
                record.sample(["ingest", &case, "khz"], number, what, value);
            }
            table.row([
                format!("{rate} Hz"),
                (number + 1).to_string(),
                figure(turn.handing),
                figure(turn.commits),
                figure(turn.handing + turn.commits),
                figure(turn.longest_ms),
                thousands(turn.bytes),
            ]);
            both.push((turn.handing + turn.commits) / 1e3);
        }
        let promise = format!("store: CPU a row of 300 slots, {rate} Hz, us");
        record.verdict(&promise, Spread::of(both), Bound::AtMost(0.25));
    }
    let _ = fs::remove_dir_all(&folder);
    record.show("## 4,096 nodes with 300 slots", &table);
    record.say(
        "One thread does what the hub's thread and the log's thread do. Each node is at another place of its block. A commit\n\
         writes and syncs what a second brought: rows of open blocks, and the blocks that have ended.\n",
    );
    Ok(())
}

fn model() -> Model {
    let metric = khz_parse::catalogue()[0].clone();
    let name = |slot: usize| Some(khz_model::Instance::from_kernel(format!("slot{slot}").as_bytes()));
    let series: Vec<Series> =
        (0..SLOTS).map(|slot| Series { metric: metric.clone(), instance: name(slot) }).collect();
    let mut encoder = Encoder::new(0, 1, Nanos::SECOND);
    let (mut bytes, mut ends) = (Vec::new(), Vec::new());
    for row in 0..BLOCK_ROWS {
        let stamp = Stamp { boot: Nanos(row * Nanos::SECOND.0), real_offset: BEGIN };
        let value = |slot: usize| (0, 1_000_000 + row * (slot as u64 * 7 % 190));
        match row {
            0 => encoder.key_row(stamp, SLOTS, value, &mut bytes),
            _ => encoder.delta_row(stamp, 0..MOVING, value, &mut bytes),
        }
        ends.push(bytes.len());
    }
    Model { bytes, ends, schema: Arc::new(series) }
}

/// A node on its way through its block.
struct Node {
    lane: Arc<LoggedLane>,
    header: Header,
    row: usize,
}

impl Node {
    fn step(&mut self, model: &Model, intake: &Intake) {
        let offset = self.row.checked_sub(1).map_or(0, |before| model.ends[before]);
        let mut head = [0; HEADER_BYTES];
        let mut bytes = &model.bytes[offset..model.ends[self.row]];
        let first;
        if offset == 0 {
            head.copy_from_slice(&self.header.to_bytes());
            first = [&head, &bytes[HEADER_BYTES..]].concat();
            bytes = &first;
        }
        let end = self.header.first_row + self.row as u64 + 1;
        let (schema, schema_hash) = (&model.schema, [7; 16]);
        intake.rows(
            &self.lane,
            OpenBlock { header: &self.header, schema, schema_hash, offset, bytes, end, shift: 0 },
        );
        self.row += 1;
        if self.row == model.ends.len() {
            self.end(model, intake);
        }
    }

    fn end(&mut self, model: &Model, intake: &Intake) {
        let mut bytes = model.bytes.clone();
        bytes[..HEADER_BYTES].copy_from_slice(&self.header.to_bytes());
        let last = Nanos(self.header.stamp.real().0 + BLOCK_ROWS * Nanos::SECOND.0);
        let block = LoggedBlock {
            header: self.header,
            rows: BLOCK_ROWS as u32,
            schema: model.schema.clone(),
            schema_hash: [7; 16],
            bytes: Arc::new(bytes),
            last,
            shift: 0,
        };
        intake.block(&self.lane, block);
        self.header.first_row += BLOCK_ROWS;
        self.header.stamp.boot.0 += BLOCK_ROWS * Nanos::SECOND.0;
        self.row = 0;
    }
}

fn play(folder: &Path, model: &Model, rate: usize, seconds: usize) -> Result<Turn, BenchError> {
    let _ = fs::remove_dir_all(folder);
    let store = |error: khz_store::StoreError| failed("the log", error);
    let (mut log, intake, _) = Log::open(folder).map_err(store)?;
    let mut nodes = Vec::new();
    for number in 0..NODES {
        let name = NodeName::new(&format!("node{number:04}")).map_err(|error| failed("a name", error))?;
        let header = Header::from_bytes(model.bytes.first_chunk().unwrap_or(&[0; HEADER_BYTES]), 0);
        let header = header.map_err(|error| failed("a block", error))?;
        nodes.push(Node { lane: intake.lane(&name, 1), header, row: 0 });
    }
    // Blocks of real nodes end at different moments.
    for (number, node) in nodes.iter_mut().enumerate() {
        (0..number % BLOCK_ROWS as usize).for_each(|_| node.step(model, &intake));
    }
    log.commit().map_err(store)?;
    let before = log.bytes();
    let (mut handing, mut commits, mut longest) = (0, 0, 0.0f64);
    for _ in 0..seconds {
        let start = thread_cpu_ns();
        for _ in 0..rate {
            nodes.iter_mut().for_each(|node| node.step(model, &intake));
        }
        let (middle, wall) = (thread_cpu_ns(), Instant::now());
        log.commit().map_err(store)?;
        handing += middle - start;
        commits += thread_cpu_ns() - middle;
        longest = longest.max(wall.elapsed().as_secs_f64() * 1e3);
    }
    let rows = (NODES * rate * seconds) as f64;
    Ok(Turn {
        handing: handing as f64 / rows,
        commits: commits as f64 / rows,
        longest_ms: longest,
        bytes: (log.bytes() - before) as f64 / rows,
    })
}
