//! Recorded workloads: an agent at 100 Hz beside a workload, for a minute, written as a trace. They provide
//! life-like rows for sizes, speeds and the simulator.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use khz_block::{Encoder, HEADER_BYTES, SchemaEncoder, trace};
use khz_gather::{Agent, Plan};
use khz_model::{Delivery, Interest, Nanos, NodeName, Pattern, Rate, Row, Series};

use crate::error::BenchError;
use crate::load::Load;
use crate::program::failed;

const SPAN: Duration = Duration::from_secs(60);
const RATE_HZ: u64 = 100;
/// The workload runs this long before the recording begins.
const WARM_UP: Duration = Duration::from_secs(3);
/// The niceness of the agent while it records.
const PRIORITY: i32 = -15;
const BETWEEN_POLLS: Duration = Duration::from_millis(100);

/// Runs the workload and records it into `file`.
pub fn record(workload: &str, file: &Path) -> Result<(), BenchError> {
    let workers: &[&str] = match workload {
        "idle" => &[],
        "compile" => &["compile", "compile"],
        "netcopy" => &["copy"],
        "mempressure" => &["pressure"],
        _ => return Err(BenchError::Usage(format!("no workload called '{workload}'"))),
    };
    let _load = Load::of(workers)?;
    // The workload must not delay the agent's ticks: the rows must show the workload, not the recording.
    let _ = rustix::process::nice(PRIORITY); // without privileges the recording has fewer rows
    std::thread::sleep(WARM_UP);
    let agent = Agent::start(plan()?).map_err(|e| failed("the agent", e))?;
    let mut recording = Recording::default();
    let rate = Rate::from_hz(RATE_HZ).ok_or_else(|| failed("the agent", "no such rate"))?;
    let interest = Interest::new(vec![Pattern::everything()], rate, false);
    let mut rows = agent.query().subscribe(interest).map_err(|e| failed("a subscription", e))?;
    let start = Instant::now();
    while start.elapsed() < SPAN {
        std::thread::sleep(BETWEEN_POLLS);
        rows.poll().iter().try_for_each(|delivery| recording.take(delivery))?;
    }
    recording.close_block();
    println!(
        "{}: {} rows of {} slots in {} blocks, {} bytes; {:.2} of the CPU time was idle",
        file.display(),
        recording.encoder.rows(),
        recording.encoder.slots(),
        recording.blocks,
        recording.trace.len(),
        recording.idle_share(),
    );
    fs::write(file, &recording.trace).map_err(BenchError::file(file))
}

/// An agent that keeps the rate at any cost.
fn plan() -> Result<Plan, BenchError> {
    let node = NodeName::new("node").map_err(|e| failed("the agent", e))?;
    Ok(Plan { cpu_max: 1.0, ..Plan::new("/", node) })
}

/// A trace being written.
struct Recording {
    trace: Vec<u8>,
    schema: SchemaEncoder,
    encoder: Encoder,
    /// The open block.
    block: Vec<u8>,
    blocks: u32,
    /// Idle time and stamp of the first and the last row.
    idle: Option<[(u64, Nanos); 2]>,
}

impl Default for Recording {
    fn default() -> Self {
        let mut trace = Vec::new();
        trace::begin(&mut trace);
        let period = Nanos(Nanos::SECOND.0 / RATE_HZ);
        let encoder = Encoder::new(0, 1, period);
        Recording { trace, schema: SchemaEncoder::new(), encoder, block: Vec::new(), blocks: 0, idle: None }
    }
}

impl Recording {
    fn take(&mut self, delivery: &Delivery) -> Result<(), BenchError> {
        if delivery.lost > 0 {
            return Err(failed("the recording", format!("{} rows were lost", delivery.lost)));
        }
        let new = &delivery.columns[self.schema.len()..];
        if !new.is_empty() {
            self.close_block();
            let mut bytes = Vec::new();
            for series in new {
                self.schema.append(series, &mut bytes).map_err(|e| failed("the schema", e))?;
            }
            trace::put_schema(&bytes, &mut self.trace);
        }
        for row in &delivery.rows {
            self.append(row);
            self.note_idle(row, &delivery.columns);
        }
        Ok(())
    }

    fn append(&mut self, row: &Row) {
        if self.encoder.wants_new_block(row.stamp) || row.readings.len() > self.encoder.slots() {
            self.close_block();
        }
        let slots = row.readings.len();
        let parts = |slot: usize| (row.readings[slot].state(), row.readings[slot].bits());
        if self.encoder.rows_open() == 0 {
            self.encoder.key_row(row.stamp, slots, parts, &mut self.block);
        } else {
            self.encoder.delta_row(row.stamp, 0..slots, parts, &mut self.block);
        }
    }

    fn close_block(&mut self) {
        if let Some(header) = self.encoder.close() {
            self.block[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
            trace::put_block(&self.block, &mut self.trace);
            self.block.clear();
            self.blocks += 1;
        }
    }

    fn note_idle(&mut self, row: &Row, columns: &[Series]) {
        let slot = columns.iter().position(|series| series.metric.name == "cpu.all.idle");
        if let Some(ticks) = slot.and_then(|slot| row.readings.get(slot)).and_then(|reading| reading.value())
        {
            let now = (ticks, row.stamp.boot);
            self.idle.get_or_insert([now, now])[1] = now;
        }
    }

    /// The share of all processors' time that was idle.
    fn idle_share(&self) -> f64 {
        let Some([(first, from), (last, to)]) = self.idle else { return f64::NAN };
        let processors = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        (last - first) as f64 / 100.0 / to.since(from).as_secs_f64() / processors
    }
}
