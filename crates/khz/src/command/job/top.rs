//! `khz job top`: `khz top` with the nodes of a job.

use std::io::Write;

use clap::Args;

use crate::command::job_nodes;
use crate::command::target::Target;
use crate::command::top::{self, TopFlags};
use crate::config::{NodeFlags, ReaderFlags};
use crate::show::outcome::Outcome;
use crate::show::table::remark;

pub const EXAMPLES: &str = "\
Examples:
  khz job top 4711                  its nodes, now
  khz job top 4711 --at -30s        its nodes at that time
  khz job top 4711 --once --size 120x40
                                    one picture as text";

/// `khz job top`.
#[derive(Debug, Args)]
pub struct JobTopFlags {
    /// The id of the job.
    #[arg(value_name = "JOB")]
    id: String,
    /// Begin at this moment of the past: 14:03, '2026-11-21 14:03:20' (local time), -10m.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    at: Option<String>,
    /// Print one picture as text, and end.
    #[arg(long)]
    once: bool,
    /// The size of that picture [default: of the terminal, or 80x24].
    #[arg(long, value_name = "COLUMNSxLINES", requires = "once", value_parser = top::picture_size)]
    size: Option<(u16, u16)>,
    /// Where to ask.
    #[command(flatten)]
    target: Target,
    /// The settings.
    #[command(flatten)]
    settings: ReaderFlags,
}

/// Shows the nodes.
pub fn run(flags: JobTopFlags, outer: NodeFlags, out: &mut impl Write) -> Outcome {
    let JobTopFlags { id, at, once, size, target, settings } = flags;
    let (_, plan) = crate::command::plan(settings.clone().over(outer.clone()))?;
    let job = job_nodes::last_run(&target, &plan, &id)?;
    let at = at.or_else(|| {
        let end = job.end.clone()?;
        remark!("job {id} has ended: these are its nodes at its end");
        Some(end)
    });
    let rate = top::RATE;
    let flags = TopFlags { what: vec![job.nodes], rate, at, once, size, target, settings };
    top::run(flags, outer, out)
}
