//! Freezes of 128 simulated nodes: the time from the request until the last node has marked its rows, and until all rows are in the
//! recording; and how late live rows are meanwhile, beside the same cluster without freezes.

use std::path::Path;
use std::time::{Duration, Instant};

use khz_ask::{FreezeAnswer, Server};
use khz_model::Nanos;

use super::cluster::{Hub, Simulation};
use crate::agent::build_agent;
use crate::error::BenchError;
use crate::program::failed;
use crate::record::{Bound, Record};
use crate::spread::{Spread, quantile};
use crate::table::{Table, figure, thousands};

/// Nodes, and rows a second of each: as many as a local lane has.
const CLUSTER: (u64, u64) = (128, 10);
const BEFORE: Nanos = Nanos::from_secs(20);
const AFTER: Nanos = Nanos::SECOND;
/// A hub takes 12 freezes within a minute.
const APART: Duration = Duration::from_millis(5_100);
const PATIENCE: Duration = Duration::from_secs(120);
/// The rings must have what is asked for.
const SETTLING: Duration = Duration::from_secs(25);
/// To be kept: from the condition to the last ring that is marked, and to the recording.
const MARKED_MS: f64 = 100.0;
const FETCHED_S: f64 = 10.0;

/// Runs the section.
pub fn run(record: &mut Record) -> Result<(), BenchError> {
    let program = build_agent()?;
    let freezes = record.effort.of(30, 4);
    let folder = std::env::temp_dir().join(format!("khz-bench-freeze-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(BenchError::file(&folder))?;
    let measured = measure(record, &program, &folder, freezes);
    let _ = std::fs::remove_dir_all(&folder);
    measured
}

fn measure(record: &mut Record, program: &Path, folder: &Path, freezes: usize) -> Result<(), BenchError> {
    let (state, run) = (folder.display().to_string(), folder.join("run"));
    let run_dir = run.display().to_string();
    let more = ["--state-dir", &state, "--store", "none", "--run-dir", &run_dir];
    let hub = Hub::start(program, "127.0.0.1:0", "127.0.0.1:0", &more)?;
    let turn = APART * freezes as u32;
    let seconds = (SETTLING + 2 * turn + PATIENCE).as_secs();
    let nodes = Simulation::start(program, hub.link, CLUSTER, seconds, &["--run-dir", &run_dir])?;
    nodes.wait_for_all()?;
    std::thread::sleep(SETTLING);
    let before = nodes.next()?;
    std::thread::sleep(turn);
    let without = nodes.next()?;
    // Only operators may freeze: at the local socket, whose system says who asks.
    let socket = khz_ask::local::find(Some(&run));
    let server = Server::local(&socket.ok_or_else(|| failed("khz hub", "it has no local socket"))?);
    let mut found = Vec::new();
    for number in 0..freezes {
        record.progress(&format!("freeze {} of {freezes}", number + 1));
        let next = Instant::now() + APART;
        let one = freeze(&server)?;
        let values =
            [("marked_ms", marked_ms(&one)), ("fetched_s", fetched_s(&one)), ("bytes", one.bytes as f64)];
        for (what, value) in values {
            record.sample(["freeze", "128 nodes", "khz"], number, what, value);
        }
        found.push(one);
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    let with = nodes.next()?;
    let late = |from: u64, to: u64| to.saturating_sub(from).to_string();
    let mut table = Table::new(&["", "p50", "p99", "most"]);
    let mut row = |name: &str, of: fn(&FreezeAnswer) -> f64, bound: Bound| {
        let mut all: Vec<f64> = found.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        let [p50, p99, most] = [0.5, 0.99, 1.0].map(|q| quantile(&all, q));
        table.row([name.to_owned(), figure(p50), figure(p99), figure(most)]);
        record.verdict(&format!("a freeze of 128 nodes: {name}, p99"), Spread::of([p99]), bound);
    };
    row("from the request to the last ring marked, ms", marked_ms, Bound::AtMost(MARKED_MS));
    row("from the end of the time to the recording, s", fetched_s, Bound::AtMost(FETCHED_S));
    row("bytes of the recording", |one| one.bytes as f64, Bound::Stated);
    record.show("## Freezes of 128 nodes with 20 s at 10 Hz", &table);
    record.say(&format!(
        "Rows that left more than a second late: {} without freezes, {} with them, in as long. The longest delay of all: {} ms\n\
         without, {} ms in the end. {} rows a freeze.\n",
        late(before.number("late"), without.number("late")),
        late(without.number("late"), with.number("late")),
        without.number("latest_ns") / 1_000_000,
        with.number("latest_ns") / 1_000_000,
        thousands(found.first().map_or(0, |one| one.rows) as f64),
    ));
    Ok(())
}

/// Freezes all nodes, and waits for the recording.
fn freeze(server: &Server) -> Result<FreezeAnswer, BenchError> {
    let wrong = |error: khz_ask::AskError| failed("khz hub", error);
    let begun = server.freeze("*", (BEFORE, AFTER), "a benchmark").map_err(wrong)?;
    let until = Instant::now() + PATIENCE;
    loop {
        let one = server.freeze_of(begun.id).map_err(wrong)?;
        if one.is_done() {
            return match one.count(&["fetched"]) == one.nodes {
                true => Ok(one),
                false => Err(failed("khz hub", format!("nodes are missing: {:?}", one.groups))),
            };
        }
        if Instant::now() > until {
            return Err(failed("khz hub", format!("freeze {} does not end", begun.id)));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn seconds(text: Option<&String>) -> f64 {
    text.and_then(|text| text.parse().ok()).unwrap_or(f64::INFINITY)
}

fn marked_ms(one: &FreezeAnswer) -> f64 {
    seconds(one.marked_after.as_ref()) * 1e3
}

fn fetched_s(one: &FreezeAnswer) -> f64 {
    seconds(one.fetched_after.as_ref())
}
