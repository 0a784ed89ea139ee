//! `khz-bench text`: the text door with many nodes, beside a bare loop that writes the same bytes and beside
//! Debian's rstatd. Each section has its own file; this one only lists them.

mod client;
mod merge;
mod portmapper;
mod pull;
mod rpc;
mod rstat;
mod rstatd;
mod status;

use crate::agent::build_agent;
use crate::error::BenchError;
use crate::hub::cluster::{Hub, Simulation};
use crate::section::{Section, Suite};

/// A hub with a text door, and this many simulated nodes at 1 Hz, all connected.
fn cluster(nodes: u64) -> Result<(Hub, Simulation), BenchError> {
    let program = build_agent()?;
    let more = ["--text-listen", "127.0.0.1:0", "--history", "0MiB"];
    let hub = Hub::start(&program, "127.0.0.1:0", "127.0.0.1:0", &more)?;
    let simulation = Simulation::start(&program, hub.link, (nodes, 1), 600, &[])?;
    simulation.wait_for_all()?;
    Ok((hub, simulation))
}

/// The suite and its sections.
pub static SUITE: Suite = Suite {
    name: "text",
    about: "the text door",
    sections: &[
        Section {
            name: "pull",
            seconds: (70, 15),
            about: "statuses a second of 128 nodes, newly gathered and from rows already received",
            run: pull::run,
        },
        Section {
            name: "merge",
            seconds: (25, 10),
            about: "16 clients at 100 statuses a second each: requests that a node gets",
            run: merge::run,
        },
        Section {
            name: "status",
            seconds: (20, 10),
            about: "the whole status of 4,096 nodes, beside a bare loop that writes the same bytes",
            run: status::run,
        },
        Section {
            name: "rstat",
            seconds: (150, 30),
            about: "one agent beside rpc.rstatd (Debian package rstatd): time and CPU a request; needs root",
            run: rstatd::run,
        },
    ],
};
