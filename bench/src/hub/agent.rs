//! An agent that sends every row of five files to a hub, beside the bare loop that only reads and parses
//! them: the cost of sending for a node. With few nodes, which send right after gathering, and with many,
//! which take turns.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::cluster::{Hub, Simulation};
use crate::agent::{Contest, agent_command, build_agent, compare};
use crate::error::BenchError;
use crate::place::Pinned;
use crate::program::build_directory;
use crate::record::Record;
use crate::sink::Sink;

/// CPU per sample may be at most this multiple of the bare loop's.
fn dearer(rate: u64) -> f64 {
    match rate {
        1_000.. => 1.1,
        100.. => 1.2,
        10.. => 1.3,
        _ => 1.7,
    }
}

/// An agent measures the time of its first four answers, and then of every tenth. Where an answer weighs, the
/// watch begins after those four, in the agent's usual state.
fn warm_up(rate: u64) -> Duration {
    Duration::from_secs(if rate >= 100 { 2 } else { 6 })
}

/// Enough nodes that the hub makes all of them take turns.
const MANY: u64 = 17;
/// They end when all have connected, or after this time at the latest.
const THERE_SECONDS: u64 = 60;

/// Runs the section.
pub fn run(record: &mut Record) -> Result<(), BenchError> {
    let few = "## An agent that sends every row to a hub, beside a bare C loop";
    let few = Case { section: "sending agent", title: few, rates: &[1_000, 100, 10, 1], dearer };
    few.run(record, |_, _| Ok(()))?;
    let turns = "## The same where a hub has many nodes, which take turns";
    let turns = Case { section: "sending agent in turns", title: turns, rates: &[1], dearer: |_| 2.2 };
    turns.run(record, |program, hub| {
        Simulation::start(program, hub.link, (MANY, 1), THERE_SECONDS, &[])?.wait_for_all().map(|_| ())
    })
}

/// One kind of hub.
struct Case {
    section: &'static str,
    title: &'static str,
    rates: &'static [u64],
    dearer: fn(u64) -> f64,
}

impl Case {
    fn run(
        &self,
        record: &mut Record,
        prepare: impl Fn(&Path, &Hub) -> Result<(), BenchError>,
    ) -> Result<(), BenchError> {
        let program = build_agent()?;
        // As if the hub were on another machine: its work leaves the agent's caches alone.
        let elsewhere = Pinned::elsewhere()?;
        let hub = Hub::start(&program, "127.0.0.1:0", "127.0.0.1:0", &["--history", "0MiB", "--insecure"])?;
        prepare(&program, &hub)?;
        let sink = Sink::start()?;
        drop(elsewhere);
        let link = hub.link.to_string();
        // Over TCP, as from another machine: the agent cannot find the hub's socket and run key, and its name
        // is believed.
        let run_dir = build_directory()?.join("khz-bench-agent-run");
        let command = |program: &Path, rate: u64| {
            let mut agent = Command::new(program);
            agent.arg("agent").args(["--hub", &link, "--base-rate", &format!("{rate}Hz")]);
            agent.arg("--run-dir").arg(&run_dir);
            agent.args(agent_command(program, rate).get_args());
            agent
        };
        let &Case { section, title, rates, dearer } = self;
        let contest = Contest {
            section,
            title,
            command: &command,
            rates,
            dearer,
            share_max: None,
            sink: Some(&sink),
            warm_up,
        };
        compare(record, &contest)?;
        let rows = hub.count("khz_hub_rows_total")?;
        record.say(&format!("The hub has received {rows} rows of all turns together.\n"));
        Ok(())
    }
}
