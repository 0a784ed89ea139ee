//! Channels: what it costs a node to decide what is worth sending, and what is saved.

mod bytes;
mod node;
mod plan;
mod wake;

use std::path::Path;
use std::sync::Arc;

use khz_model::{ChannelName, ChannelTerms};
use khz_plan::Handler;

use crate::block::workload::{self, Workload};
use crate::error::BenchError;
use crate::program::failed;
use crate::section::{Section, Suite};

/// The suite and its sections.
pub static SUITE: Suite = Suite {
    name: "channels",
    about: "conditions and values computed at the node",
    sections: &[
        Section {
            name: "plan",
            seconds: (60, 10),
            about: "a plan of ten conditions and its parts, a row at a time: ns",
            run: plan::run,
        },
        Section {
            name: "bytes",
            seconds: (30, 10),
            about: "bytes of what channels send beside the raw rows: means, deadbands, thresholds",
            run: bytes::run,
        },
        Section {
            name: "node",
            seconds: (300, 60),
            about: "64 channels on one node at 100 Hz beside a plain lane: CPU, memory",
            run: node::run,
        },
        Section {
            name: "wake",
            seconds: (330, 90),
            about: "from the row that makes a condition true to the program behind a hub, beside raw rows,\nidle and beside 16 hogs",
            run: wake::run,
        },
    ],
};

/// Ten conditions of the kinds that people write: numbers of the row, means, rates, the highest, a quantile.
pub const TEN: [&str; 10] = [
    "node_load1 > 40",
    "node_memory_MemAvailable_bytes < 1e9",
    "node_procs_running > 50",
    "node_procs_blocked > 10",
    "avg_over_time(node_procs_running[1s]) > 30",
    "avg_over_time(node_memory_MemFree_bytes[1s]) < 1e8",
    "max_over_time(node_procs_blocked[1s]) > 8",
    "rate(node_context_switches_total[1s]) > 1e6",
    "rate(node_intr_total[1s]) > 1e6",
    "quantile_over_time(0.9, node_procs_running[1s]) > 40",
];

/// The plan of an expression.
pub fn compiled(expression: &str) -> Result<khz_plan::Plan, BenchError> {
    khz_promql::compile(expression).map_err(|error| failed(expression, error))
}

/// What a channel with this handler asks of a node.
pub fn terms(name: &str, handler: &Handler) -> Result<Arc<ChannelTerms>, BenchError> {
    let name = ChannelName::new(name).map_err(|error| failed("the channel's name", error))?;
    let handler = handler.to_bytes().map_err(|error| failed("the handler", error))?.into();
    Ok(Arc::new(ChannelTerms { name, handler }))
}

/// The recorded workloads at 100 Hz.
fn workloads() -> Result<Vec<Workload>, BenchError> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/workloads");
    let all = workload::all(&folder)?;
    Ok(all.into_iter().filter(|workload| workload.every == 1).collect())
}
