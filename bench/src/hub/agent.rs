//! An agent that sends every row of five files to a hub, beside the bare loop that only reads and parses them: what
//! sending costs the node.

use std::time::Duration;

use super::cluster::Hub;
use crate::agent::{Contest, agent_command, build_agent, compare};
use crate::error::BenchError;
use crate::record::Record;

/// CPU per sample may be so many times that of the bare loop.
fn dearer(rate: u64) -> f64 {
    if rate >= 100 { 1.4 } else { 2.0 }
}

/// An agent times its first four answers, and then every tenth. Where an answer weighs, it is to be seen as it is for the
/// rest of its life.
fn warm_up(rate: u64) -> Duration {
    Duration::from_secs(if rate >= 100 { 2 } else { 6 })
}

/// Runs the section.
pub fn run(record: &mut Record) -> Result<(), BenchError> {
    let hub = Hub::start(&build_agent()?, "127.0.0.1:0", "127.0.0.1:0", &["--history", "0MiB"])?;
    let link = hub.link.to_string();
    let command = |program: &std::path::Path, rate: u64| {
        let mut agent = std::process::Command::new(program);
        agent.arg("agent").args(["--hub", &link, "--base-rate", &format!("{rate}Hz")]);
        agent.args(agent_command(program, rate).get_args());
        agent
    };
    let title = "## An agent that sends every row to a hub, beside a bare C loop";
    compare(record, &Contest { section: "sending agent", title, command: &command, dearer, warm_up })?;
    let rows = hub.count("khz_hub_rows_total")?;
    record.say(&format!("The hub has received {rows} rows of all turns together.\n"));
    Ok(())
}
