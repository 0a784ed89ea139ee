//! `khz nodes forget`: asks a hub to forget nodes that are gone, and prints its answer. The hub decides which nodes it
//! forgets.

use crate::command::{self, target::Target};
use crate::config::{NodeFlags, ReaderFlags};
use clap::Args;
use std::io::Write;

use khz_ask::Forgotten;
use khz_model::Misses;
use khz_model::fold::fold;

use crate::show::misses;
use crate::show::outcome::{Done, Outcome};
use crate::show::table::printable;

/// Examples for `khz nodes forget --help`.
pub const EXAMPLES: &str = "\
Examples:
  khz nodes forget node017          a node that will not come back
  khz nodes forget 'old*,test*'

Exit codes: 0 all of them are forgotten, 1 none is, 2 wrong usage or you are no
operator, 3 some are. stderr names the others, with the reason.";

/// `khz nodes forget`.
#[derive(Debug, Args)]
pub struct ForgetFlags {
    /// Which nodes, as hostlists or with * and ?.
    #[arg(value_name = "NODES", required = true)]
    pub hosts: Vec<String>,
    /// Where to ask.
    #[command(flatten)]
    pub target: Target,
    /// The settings.
    #[command(flatten)]
    pub settings: ReaderFlags,
}

/// Asks the hub to forget the nodes, and prints its answer.
pub fn run(flags: ForgetFlags, outer: NodeFlags, out: &mut impl Write) -> Outcome {
    let hosts = command::hostlist(&flags.hosts)?;
    command::hosts(&hosts)?;
    let (_, plan) = command::plan(flags.settings.over(outer))?;
    print(flags.target.forget(&plan, &hosts)?, out)
}

/// Prints the forgotten nodes. Nodes that the hub did not forget are named on stderr, and the exit code is 3.
pub fn print(answer: Forgotten, out: &mut impl Write) -> Outcome {
    let Forgotten { forgotten, expected, refused, misses } = answer;
    writeln!(out, "forgotten: {}", printable(&fold(&forgotten)))?;
    if !expected.is_empty() {
        writeln!(out, "expected, and missing from now on: {}", printable(&fold(&expected)))?;
    }
    out.flush()?;
    let mut reasons: Vec<&str> = refused.iter().map(|refused| refused.why.as_str()).collect();
    reasons.sort_unstable();
    reasons.dedup();
    for why in reasons {
        let nodes = refused.iter().filter(|refused| refused.why == why).map(|refused| &refused.node);
        crate::show::table::remark!("{}", &format!("{}: {why}", fold(nodes)));
    }
    let misses = Misses::from(misses);
    misses::print(&misses);
    match refused.is_empty() && misses.is_empty() {
        true => Ok(Done::Wholly),
        false => Ok(Done::Partly { missing: Vec::new() }),
    }
}
