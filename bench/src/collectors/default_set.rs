//! The whole default set of an agent that sends a row each second, beside node_exporter with its own default set, which is scraped each
//! second: the CPU time of the processes for a sample. Each reads the same kernel; none reports about itself. node_exporter has neither
//! processes nor control groups, so that one agent leaves them out, and another one has all.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::agent::build_agent;
use crate::error::BenchError;
use crate::http;
use crate::hub::cluster::Hub;
use crate::hub::scrape::{node_exporter, wait_for};
use crate::record::{Bound, Record};
use crate::spread::{Spread, ratios};
use crate::table::{Table, figure, thousands};
use crate::watched::Watched;

/// An agent may take this part of node_exporter's CPU time for a sample.
const PART: f64 = 0.1;
/// Its own memory, in MB.
const MEMORY: f64 = 6.0;
/// Seconds of a turn: surveys of every ten seconds are in each.
const TURN: u64 = 10;
/// The contenders.
const WHO: [&str; 3] = ["khz, the same series", "khz, all", "node_exporter"];
/// What the first agent leaves out.
const WITHOUT: &str = "[sources.processes]\nenabled = false\n[sources.cgroups]\nenabled = false\n";

/// Runs the section.
pub fn run(record: &mut Record) -> Result<(), BenchError> {
    let program = build_agent()?;
    let (exporter, exporter_at) = node_exporter()?;
    let hub = Hub::start(&program, "127.0.0.1:0", "127.0.0.1:0", &["--history", "0MiB"])?;
    let folder = std::env::temp_dir().join(format!("khz-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(BenchError::file(&folder))?;
    let [without, all] = ["without.toml", "all.toml"].map(|name| folder.join(name));
    std::fs::write(&without, WITHOUT).map_err(BenchError::file(&without))?;
    std::fs::write(&all, "").map_err(BenchError::file(&all))?;
    let contenders =
        [agent(&program, hub.link, "n1", &without)?, agent(&program, hub.link, "n2", &all)?, exporter];
    let pages = [(hub.http, "/metrics?node=n1"), (hub.http, "/metrics?node=n2"), (exporter_at, "/metrics")];
    for (address, path) in pages {
        wait_for(address, path)?;
    }
    // What is read at the start is over.
    std::thread::sleep(Duration::from_secs(TURN));
    let costs = costs(record, &contenders, exporter_at)?;
    let mut table =
        Table::new(&["who", "CPU us a sample", "quartiles", "series node_*", "all series", "RssAnon MB"]);
    let mut memory = Vec::new();
    for (who, name) in WHO.into_iter().enumerate() {
        let Some(cost) = Spread::of(costs[who].iter().copied()) else { continue };
        let (named, all) = series_in(&http::get(pages[who].0, pages[who].1)?);
        memory.push(contenders[who].held()?.anonymous_kb as f64 / 1e3);
        table.row([
            name.to_owned(),
            figure(cost.median),
            format!("{}..{}", figure(cost.lower), figure(cost.upper)),
            thousands(named as f64),
            thousands(all as f64),
            memory.last().copied().map_or_else(String::new, figure),
        ]);
    }
    let _ = std::fs::remove_dir_all(&folder);
    record.show("## The default set at 1 Hz: agents that send to a hub, and node_exporter, scraped", &table);
    let ratio = |who: usize| Spread::of(ratios(&costs[who], &costs[2]));
    let promise = "CPU a sample / node_exporter's, the same series at 1 Hz";
    record.verdict(promise, ratio(0), Bound::AtMost(PART));
    record.verdict("the same with processes and control groups", ratio(1), Bound::Stated);
    let memory = Spread::of(memory.get(1).copied());
    record.verdict("agent's own memory (RssAnon), MB, with all", memory, Bound::AtMost(MEMORY));
    record.say("The agents keep no files of rings; their memory has the rings.\n");
    Ok(())
}

/// An agent of this name with these settings.
fn agent(program: &Path, link: SocketAddr, node: &str, config: &Path) -> Result<Watched, BenchError> {
    let mut command = Command::new(program);
    command.args(["agent", "--quiet", "--log", "error", "--node", node, "--ring-dir", "none"]);
    command.args(["--local-rate", "1Hz", "--hub", &link.to_string(), "--config"]);
    Watched::start(command.arg(config))
}

/// CPU microseconds a sample of each, turn by turn, while node_exporter is scraped each second.
fn costs(
    record: &mut Record,
    contenders: &[Watched; 3],
    exporter: SocketAddr,
) -> Result<[Vec<f64>; 3], BenchError> {
    let turns = record.effort.of(12, 2);
    let mut costs = WHO.map(|_| Vec::new());
    for turn in 0..turns {
        let before = cpu(contenders)?;
        let start = Instant::now();
        for second in 0..TURN {
            let next = start + Duration::from_secs(second) + Duration::from_millis(500);
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
            http::get(exporter, "/metrics")?;
        }
        let end = start + Duration::from_secs(TURN);
        std::thread::sleep(end.saturating_duration_since(Instant::now()));
        let after = cpu(contenders)?;
        for (who, name) in WHO.into_iter().enumerate() {
            let cost = (after[who] - before[who]) as f64 / TURN as f64 / 1e3;
            record.sample(["default", "1 Hz", &name.replace(',', "")], turn, "cpu_us", cost);
            costs[who].push(cost);
        }
        record.progress(&format!("turn {} of {turns}", turn + 1));
    }
    Ok(costs)
}

/// CPU nanoseconds of each.
fn cpu(contenders: &[Watched; 3]) -> Result<[u64; 3], BenchError> {
    let [one, two, three] = contenders;
    Ok([one.counted()?.cpu_ns, two.counted()?.cpu_ns, three.counted()?.cpu_ns])
}

/// Series whose names node_exporter gave, and all.
fn series_in(text: &str) -> (usize, usize) {
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let all = lines.clone().count();
    (lines.filter(|line| line.starts_with("node_")).count(), all)
}
