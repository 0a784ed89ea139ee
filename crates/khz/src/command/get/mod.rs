//! `khz get`: its flags. `print.rs` prints the latest readings.

mod print;
mod properties;

use std::io::Write;

use clap::{Args, ValueEnum};
use khz_ask::Answer;
use khz_model::calendar::utc;
use khz_model::{Nanos, Pattern, RangeShape};

use crate::command::job_nodes;
use crate::command::past::{self, Asked, Span, Within};
use crate::command::target::Target;
use crate::config::{NodeFlags, ReaderFlags};
use crate::show::look::{ColorFlag, Look};
use crate::show::order::Order;
use crate::show::outcome::{Failure, Outcome};
use crate::show::table::remark;

/// Examples for `khz get --help`.
pub const EXAMPLES: &str = "\
Examples:
  khz get mem.free load.1m          two numbers
  khz get 'cpu.*[0]'                everything about CPU 0
  khz get 'net.*[eth0]' --json      one object a line, values as exact decimal
                                    strings
  khz get 'node*:mem.free' --top 10
                                    the ten nodes with most free memory
  khz get '*' --format properties   a Java property file of everything
  khz get 'mem.*' --direct          read this machine's kernel, even where a
                                    khz runs
  khz get 'node7:mem.*' --server http://127.0.0.1:8080
  khz get 'node*:load.1m' --age 1ms
                                    asks the nodes now, all at once. (Without
                                    --age a hub answers with the last rows)
  khz get 'job(4711):load.1m'       the nodes of a job of the hub
  khz get 'node7:mem.*' --at '2026-11-21 14:03:20'
                                    the values of that moment in the hub's
                                    store, and their age then; also --at -1h

A pattern is [NODES:]METRIC[INSTANCE]: nodes as a hostlist (node[001-128],web1)
or job(ID), metric and instance with * and ?. Quote it, because the shell has another use
for brackets and stars.

Exit codes: 0 done, 1 no value was found, 2 wrong usage, 3 partly done: some
nodes did not answer, or something does not exist.";

/// `khz get`.
#[derive(Debug, Args)]
pub struct GetFlags {
    /// Which series: [NODES:]METRIC[INSTANCE], as 'node[1-8]:net.rx_*[eth0]'.
    #[arg(value_name = "PATTERN", required = true)]
    pub patterns: Vec<String>,
    /// How to print them.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
    /// The same as --format json.
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
    /// Through a hub: ask nodes again whose numbers are older than this [default: use what they sent last].
    #[arg(long, value_name = "DURATION")]
    pub age: Option<String>,
    /// The newest readings at this moment, out of the hub's store: '2026-11-21 14:03:20' (local time),
    /// 2026-11-21T14:03:20Z, 'yesterday 14:00' or -1h. khz looks in the 24 hours before that moment. A pattern that selects
    /// nothing there gets its last readings of all that is stored.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, conflicts_with = "age")]
    pub at: Option<String>,
    /// Which come first.
    #[command(flatten)]
    pub order: Order,
    /// Colours.
    #[command(flatten)]
    pub color: ColorFlag,
    /// Where to ask.
    #[command(flatten)]
    pub target: Target,
    /// The settings.
    #[command(flatten)]
    pub settings: ReaderFlags,
}

/// How `khz get` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A table for people.
    Table,
    /// One JSON object a line.
    Json,
    /// A Java property file.
    Properties,
}

/// How an answer is printed.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    /// As what.
    pub format: Format,
    /// Which readings come first.
    pub order: Order,
    /// How a table looks.
    pub look: Look,
}

/// Asks for the latest readings and prints them.
pub fn run(flags: GetFlags, outer: NodeFlags, out: &mut impl Write) -> Outcome {
    let (_, plan) = super::plan(flags.settings.over(outer))?;
    let named = job_nodes::patterns(&flags.patterns, &flags.target, &plan)?;
    let patterns = &named.patterns;
    let age_max = flags.age.as_deref().map(str::parse).transpose().map_err(Failure::usage)?;
    let format = if flags.json { Format::Json } else { flags.format };
    if format == Format::Properties && flags.order.is_wanted() {
        return Err(Failure::usage("--sort and --top order a table or JSON: a property file has no order"));
    }
    let way = Way { format, order: flags.order, look: Look::of_stdout(flags.color.color) };
    let at = flags.at.as_deref().map(|at| past::moment("at", at)).transpose()?;
    // What the nodes of a job do after its end is not the job's.
    let ended = named.ended().filter(|_| at.is_none() && age_max.is_none());
    if let Some((id, end)) = ended {
        remark!("job {id} has ended: these are the values at its end, {}", utc(end));
    }
    let Some(at) = at.or(ended.map(|(_, end)| end)) else {
        let answer = flags.target.latest(&plan, patterns, age_max)?;
        return print::print(&answer, way, None, out, &mut std::io::stderr());
    };
    // A reading at that very moment counts.
    let to = Nanos(at.0.saturating_add(1));
    let before = Nanos(at.0.saturating_sub(AT_SPAN.0));
    let ask = |patterns: &[Pattern], from, to| {
        Asked::ask(&flags.target, &plan, patterns, Span { from, to }, RangeShape::Newest)
    };
    let mut asked = ask(patterns, before, to)?;
    let mut parts = asked.parts()?;
    let missing = asked.found().lacking();
    let mut older = None;
    if !missing.is_empty() && before > Nanos(0) {
        let older = older.insert(ask(&missing, Nanos(0), before)?);
        parts.extend(older.parts()?);
    }
    if !parts.is_empty() {
        let answer = Answer::of_past(parts);
        print::print(&answer, way, Some(at), out, &mut std::io::stderr())?;
    }
    let older = older.as_ref();
    let lacking = older.unwrap_or(&asked).found().lacking();
    let is_nothing = asked.found().is_nothing() && older.is_none_or(|older| older.found().is_nothing());
    let is_damaged = asked.is_damaged() || older.is_some_and(Asked::is_damaged);
    past::end(asked.server(), &lacking, is_nothing, is_damaged, Within::UpTo(at))
}

/// How far back `--at` looks for all readings. Only if a pattern, or a host of its list, has nothing in this time, its last readings are
/// searched in everything that is stored.
const AT_SPAN: Nanos = Nanos::from_secs(86_400);
