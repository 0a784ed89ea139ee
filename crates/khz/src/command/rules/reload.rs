//! `khz rules reload`: a hub loads its rule files again.

use std::io::Write;

use clap::Args;

use crate::command::target::Target;
use crate::config::{NodeFlags, ReaderFlags};
use crate::show::outcome::{Done, Outcome};

/// Examples for `khz rules reload --help`.
pub const EXAMPLES: &str = "\
Examples:
  khz rules reload                  the hub of this machine loads its files

SIGHUP to the hub's process does the same. Over the network you need an
operator's token or certificate: docs/security.md.";

/// Flags of `khz rules reload`.
#[derive(Debug, Args)]
pub struct RulesReloadFlags {
    /// Where to ask.
    #[command(flatten)]
    pub target: Target,
    /// The settings.
    #[command(flatten)]
    pub settings: ReaderFlags,
}

/// Asks for it, and says how many rules are in use then.
pub fn run(flags: RulesReloadFlags, outer: NodeFlags, out: &mut impl Write) -> Outcome {
    let (_, plan) = crate::command::plan(flags.settings.over(outer))?;
    let found = flags.target.running(&plan)?.load_rules()?;
    let count = |count: u64, noun: &str| format!("{count} {noun}{}", if count == 1 { "" } else { "s" });
    let verb = if found.rules == 1 { "is" } else { "are" };
    writeln!(out, "{} {verb} in use, in {}", count(found.rules, "rule"), count(found.groups, "group"))?;
    out.flush()?;
    Ok(Done::Wholly)
}
