//! `khz channel watch`: follows the rows of a channel, on the screen, as lines, or with a program for each.

use std::io::Write;
use std::time::Instant;

use clap::Args;
use khz_model::Nanos;

use super::exec::Exec;
use super::whom::Whom;
use crate::command::watch::{Watch, Way, onto};
use crate::config::NodeFlags;
use crate::show::look::When;
use crate::show::order::Order;
use crate::show::outcome::Outcome;

/// Examples for `khz channel watch --help`.
pub const EXAMPLES: &str = "\
Examples:
  khz channel watch hot             rows as they come
  khz channel watch hot --json      one object a line, as khz watch prints them
  khz channel watch hot --count 1   until the next row
  khz channel watch hot --exec logger -t khz
                                    runs this program for each row, one at a
                                    time, without a shell. It gets the row as
                                    JSON on stdin

While the program runs, further rows wait. If more than 64 rows wait, the oldest
are left out, and stderr says how many. After --for or --count the program has
10 s for the rows that wait. --exec takes the rest of the line. Somebody may
change the channel meanwhile. If the channel is removed, the command ends. If
the hub goes away, the command asks again until the hub is back, and says how
many rows are missing.

Exit code 1:
- the program could not be run, or failed for a row (the first failure is
  printed, the others are counted);
- or the stream has ended;
- or no row came, and nodes refused the channel until the end.
Exit code 3: rows were left out or are missing, or it is not known how many.";

/// Flags of `khz channel watch`.
#[derive(Debug, Args)]
pub struct ChannelWatchFlags {
    /// Which channel.
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Counters as totals, not as rates.
    #[arg(long)]
    pub raw: bool,
    /// One JSON object a row.
    #[arg(long)]
    pub json: bool,
    /// Stop after this time.
    #[arg(long = "for", value_name = "DURATION", allow_hyphen_values = true)]
    pub duration: Option<Nanos>,
    /// Stop after this many rows.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Run this program for each row, with the row as JSON on stdin.
    #[arg(long, value_name = "PROGRAM", num_args = 1.., allow_hyphen_values = true, conflicts_with = "json")]
    pub exec: Vec<String>,
    /// Whom to ask.
    #[command(flatten)]
    pub whom: Whom,
}

/// Follows the rows.
pub fn run(flags: ChannelWatchFlags, outer: NodeFlags, out: &mut impl Write) -> Outcome {
    let (_, plan) = crate::command::plan(flags.whom.settings.over(outer))?;
    let until = flags.duration.and_then(|span| Instant::now().checked_add(span.into()));
    let watch = Watch { raw: flags.raw, count: flags.count, until, is_past: false, asked: None };
    let mut rows = flags.whom.target.channel_rows(&plan, &flags.name, watch.left())?.until(until);
    let next = move || rows.next();
    if flags.exec.is_empty() {
        return onto(watch, Way::of(flags.json, When::Auto, Order::default())?, out, next);
    }
    let mut program = Exec::new(&flags.exec)?;
    let outcome = watch.follow(next, &mut program, &mut std::io::stderr());
    program.end(outcome)
}
