//! Jobs of a batch system: how long `khz why` takes over a job of 64 nodes, and what the label `job_id` costs a query, beside the same query
//! with the names of the nodes.

use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use khz_http::JobDesk;
use khz_job::{End, Jobs, Start};
use khz_model::{Instance, Nanos, Series};
use khz_store::Store;
use khz_store::range::RangeReader;

use crate::agent::build_agent;
use crate::error::BenchError;
use crate::program::failed;
use crate::query::contender::Question;
use crate::query::served::Served;
use crate::record::{Bound, Record};
use crate::section::{Section, Suite};
use crate::spread::{Spread, ratios};
use crate::store::folder::Scratch;
use crate::store::made_up::Days;
use crate::store::ranges::keep;
use crate::table::{Table, figure};

/// The suite and its sections.
pub static SUITE: Suite = Suite {
    name: "jobs",
    about: "jobs of a batch system at a hub",
    sections: &[Section {
        name: "asked",
        seconds: (20, 10),
        about: "khz why over 64 nodes x 1 h; PromQL by job_id beside the same with the names of the nodes",
        run,
    }],
};

/// 2025-11-01, a midnight.
const NOVEMBER: Nanos = Nanos(1_761_955_200_000_000_000);
const HOUR_MS: i64 = 3_600_000;
/// Nodes of the store, and those of the job: there are others, too.
const NODES: usize = 128;
const OF_JOB: &str = "node[0001-0064]";
/// `khz why` may take this long (ms).
const WHY_MS_MAX: f64 = 1_000.0;
/// A query by `job_id` may take this many times as long as the same with the names of the nodes.
const JOIN_MAX: f64 = 1.2;

/// What `khz why` reads of each node, one instance of each.
const READ: [&str; 22] = [
    "cpu.all.user",
    "cpu.all.nice",
    "cpu.all.system",
    "cpu.all.idle",
    "cpu.all.iowait",
    "cpu.all.irq",
    "cpu.all.softirq",
    "cpu.all.steal",
    "kernel.procs_running",
    "mem.available",
    "mem.total",
    "vm.swap_in_pages",
    "vm.swap_out_pages",
    "pressure.cpu.some.total",
    "pressure.memory.some.total",
    "pressure.io.some.total",
    "disk.io_time",
    "net.rx_errors",
    "net.tx_errors",
    "net.rx_dropped",
    "net.tx_dropped",
    "tcp.retransmits",
];

fn series(count: usize) -> Vec<Series> {
    let all = khz_parse::catalogue();
    let named = READ.iter().filter_map(|name| all.iter().find(|metric| &*metric.name == *name));
    let of = |metric: &Arc<khz_model::Metric>| Series {
        metric: metric.clone(),
        instance: metric.instances.is_some().then(|| Instance::from_kernel(b"dev0")),
    };
    named.take(count).map(of).collect()
}

/// Runs the section.
fn run(record: &mut Record) -> Result<(), BenchError> {
    let scratch = Scratch::new("jobs")?;
    let period = Nanos::from_secs(record.effort.of(1, 10));
    let days = Days { nodes: NODES, series: READ.len(), of: series, begin: NOVEMBER, days: 1, period };
    let folder = scratch.at("store");
    record.progress("a day of all nodes is written");
    days.write(&folder, |_| {})?;
    let (store, ..) = Store::open(&folder, keep(), days.end()).map_err(|error| failed("the store", error))?;
    let reader = RangeReader::new(store.shelf().clone(), Some(store.log()), Arc::new(()));
    // An hour before the day's end, so that the job's time begins and ends within hours.
    let end = i64::try_from(days.end().0 / 1_000_000).unwrap_or(i64::MAX) - HOUR_MS / 2;
    let desk = JobDesk { jobs: Arc::new(jobs(end)?), own_only: false, freezes_failed: false };
    let nodes = (1..=NODES).filter_map(|node| khz_model::NodeName::new(&format!("node{node:04}")).ok());
    let served = Served::with_jobs(reader, nodes.collect(), khz_parse::catalogue(), Some(desk))?;
    why(record, &served)?;
    join(record, &served, end)
}

/// The job 4711, and thousands before it.
fn jobs(end: i64) -> Result<Jobs, BenchError> {
    let jobs = Jobs::in_memory();
    let wrong = |error| failed("a job", error);
    for id in 0..10_000 {
        let (id, begin) = (format!("old{id}"), end - 100 * HOUR_MS);
        let nodes = OF_JOB.to_owned();
        jobs.start(Start { id: id.clone(), nodes, ..Start::default() }, begin).map_err(wrong)?;
        jobs.end(End { id, ..End::default() }, begin + HOUR_MS).map_err(wrong)?;
    }
    let (id, nodes) = ("4711".to_owned(), OF_JOB.to_owned());
    jobs.start(Start { id: id.clone(), nodes, ..Start::default() }, end - HOUR_MS).map_err(wrong)?;
    jobs.end(End { id, ..End::default() }, end).map_err(wrong)?;
    Ok(jobs)
}

/// The whole command, from its start to its end.
fn why(record: &mut Record, served: &Served) -> Result<(), BenchError> {
    let program = build_agent()?;
    let mut times = Vec::new();
    for turn in 0..record.effort.of(12, 4) {
        record.progress(&format!("khz why, turn {}", turn + 1));
        let start = Instant::now();
        let output = Command::new(&program)
            .args(["why", "4711", "--json", "--server", &served.address.to_string()])
            .env("XDG_CONFIG_HOME", "/nonexistent")
            .output();
        let output = output.map_err(|error| failed("khz why", error))?;
        let took = start.elapsed().as_secs_f64() * 1e3;
        if output.stdout.is_empty() {
            return Err(failed("khz why", String::from_utf8_lossy(&output.stderr)));
        }
        // The first one reads the disk.
        if turn > 0 {
            record.sample(["asked", "why", "khz"], turn, "wall_ms", took);
            times.push(took);
        }
    }
    let spread = Spread::of(times);
    let mut table = Table::new(&["what", "ms", "quartiles"]);
    if let Some(spread) = spread {
        let quartiles = format!("{} - {}", figure(spread.lower), figure(spread.upper));
        table.row(["khz why, 64 nodes, 1 h".to_owned(), figure(spread.median), quartiles]);
    }
    record.show("## khz why", &table);
    record.verdict("khz why over 64 nodes and an hour: ms", spread, Bound::AtMost(WHY_MS_MAX));
    Ok(())
}

/// The same query by the job and by the names of its nodes, in turn.
fn join(record: &mut Record, served: &Served, end: i64) -> Result<(), BenchError> {
    let names: Vec<String> = (1..=64).map(|node| format!("node{node:04}")).collect();
    let names = names.join("|");
    let (to, from) = (end.unsigned_abs() / 1_000, (end - HOUR_MS).unsigned_abs() / 1_000);
    let cases = [
        ("rate", "avg(rate(node_pressure_cpu_waiting_seconds_total{SELECTOR}[1m]))"),
        ("gauge", "max by (instance) (node_memory_MemAvailable_bytes{SELECTOR})"),
    ];
    let mut table = Table::new(&["query", "by job_id, ms", "by names, ms", "ratio"]);
    for (name, text) in cases {
        let question =
            |selector: &str| Question { text: text.replace("SELECTOR", selector), from, to, step: 15 };
        let sides = [question("job_id=\"4711\""), question(&format!("instance=~\"{names}\""))];
        let mut times = [Vec::new(), Vec::new()];
        for turn in 0..=record.effort.of(20, 6) {
            record.progress(&format!("{name}, pair {turn}"));
            for side in [turn % 2, 1 - turn % 2] {
                let (found, took) = sides[side].ask(served.address, "")?;
                if found.points == 0 {
                    return Err(failed(&*sides[side].text, "it gave nothing"));
                }
                // The first pair reads the disk.
                if turn > 0 {
                    let who = ["job_id", "names"][side];
                    record.sample(["asked", name, who], turn, "wall_ms", took.as_secs_f64() * 1e3);
                    times[side].push(took.as_secs_f64() * 1e3);
                }
            }
        }
        let ratio = Spread::of(ratios(&times[0], &times[1]));
        let median =
            |times: &[f64]| Spread::of(times.to_vec()).map_or_else(String::new, |s| figure(s.median));
        let shown = ratio.map_or_else(String::new, |ratio| figure(ratio.median));
        table.row([name.to_owned(), median(&times[0]), median(&times[1]), shown]);
        record.verdict(
            &format!("a query by job_id, as a multiple of the same by names ({name})"),
            ratio,
            Bound::AtMost(JOIN_MAX),
        );
    }
    record.show("## PromQL by job_id", &table);
    Ok(())
}
