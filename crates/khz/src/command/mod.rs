//! The commands: each file or folder has the flags of one command, its examples for `--help`, and `run`. The
//! other files are parts that several commands use: whom they ask, this node, recordings.

pub mod actions;
pub mod agent;
pub mod alerts;
pub mod alone;
pub mod blackbox;
pub mod catalog;
pub mod certs;
pub mod channel;
pub mod check;
pub mod completions;
pub mod config;
pub mod correlate;
pub mod demo;
mod elsewhere;
pub mod export;
mod found;
pub mod freeze;
pub mod get;
pub mod handler;
pub mod health;
pub mod hub;
pub mod job;
mod job_lines;
pub mod job_nodes;
pub mod lasting;
pub mod man;
pub mod mount;
pub mod nodes;
pub mod notify;
mod odd;
pub mod past;
pub mod past_chunks;
mod past_reason;
pub mod plot;
mod preferred;
pub mod publish;
pub mod query;
pub mod record;
pub mod recording;
pub mod ring;
pub mod rrd;
pub mod rules;
pub mod simulate;
pub mod store;
pub mod target;
pub mod this_node;
pub mod top;
pub mod umount;
pub mod unknown_metrics;
pub mod wait;
pub mod watch;
pub mod why;

use khz_model::Pattern;
use khz_model::hostlist::Hostlist;

use crate::config::{Layers, NodeFlags, Plan};
use crate::role::gatherer;
use crate::show::outcome::Failure;
use crate::show::table::remark;

/// Reads and checks the configuration. A command starts nothing before this has succeeded.
pub fn plan(flags: NodeFlags) -> Result<(Layers, Plan), Failure> {
    let source_names = gatherer::source_names();
    let layers = Layers::read(flags, &source_names).map_err(Failure::usage)?;
    for (name, near) in &layers.suspects {
        remark!("no setting is called {name} (did you mean {near}?); it is ignored");
    }
    let host_name = gatherer::host_name(layers.value("root").text.as_ref());
    let plan = Plan::check(&layers, &host_name, &source_names).map_err(Failure::usage)?;
    Ok((layers, plan))
}

/// Patterns from the command line.
pub fn patterns(texts: &[String]) -> Result<Vec<Pattern>, Failure> {
    texts.iter().map(|text| Pattern::new(text).map_err(Failure::usage)).collect()
}

/// Hostlists from the command line as one. A part of a pattern that names series is no node.
pub fn hostlist(texts: &[String]) -> Result<String, Failure> {
    match texts.iter().find(|text| text.is_empty() || text.contains(':')) {
        Some(text) => Err(Failure::usage(format!("'{text}' is no node: write node7, node[1-8] or web*"))),
        None => Ok(texts.join(",")),
    }
}

/// A hostlist from the command line. It is read as a part of a pattern, so that the error points at the place.
pub fn hosts(text: &str) -> Result<Hostlist, Failure> {
    let pattern = Pattern::of_nodes(text).map_err(Failure::usage)?;
    pattern.nodes().cloned().ok_or_else(|| {
        Failure::usage(format!("there is no node in '{text}': write node7, node[1-8] or web*"))
    })
}
