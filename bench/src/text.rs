//! `khz-bench text`: the text door with many nodes behind it, beside a bare loop that writes the same bytes and beside
//! Debian's rstatd. The sections stand in files of their own; this one only chooses among them.

mod client;
mod merge;
mod pull;
mod rstat;
mod rstatd;
mod status;

use crate::agent::build_agent;
use crate::error::BenchError;
use crate::hub::cluster::{Hub, Simulation};
use crate::record::Record;

/// A hub with a text door, and so many simulated nodes at 1 Hz that have come.
fn cluster(nodes: u64) -> Result<(Hub, Simulation), BenchError> {
    let program = build_agent()?;
    let more = ["--text-listen", "127.0.0.1:0", "--history", "0MiB"];
    let hub = Hub::start(&program, "127.0.0.1:0", "127.0.0.1:0", &more)?;
    let simulation = Simulation::start(&program, hub.link, (nodes, 1), 600, &[])?;
    simulation.wait_for_all()?;
    Ok((hub, simulation))
}

type Section = (&'static str, fn(&mut Record) -> Result<(), BenchError>);

/// What it measures.
pub const SECTIONS: [Section; 4] =
    [("pull", pull::run), ("merge", merge::run), ("status", status::run), ("rstat", rstatd::run)];
