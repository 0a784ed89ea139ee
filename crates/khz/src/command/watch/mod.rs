//! `khz watch`: its flags. `follow.rs` follows the rows, `rates.rs` makes rates of counters, `lines.rs` and `screen.rs`
//! print; `pages.rs` and `picture.rs` make what is on the screen. `past.rs` shows the past again.

mod follow;
mod lines;
mod outage;
mod pages;
mod past;
mod picture;
mod printer;
mod rates;
mod screen;
#[cfg(test)]
mod tests;

use std::io::Write;
use std::time::Instant;

use clap::Args;
use khz_ask::Piece;
use khz_model::{Interest, Nanos};

pub use self::follow::{Watch, asks_again};
use self::lines::Lines;
pub use self::lines::object as row_json;
use self::past::Replay;
pub use self::past::pieces as past_pieces;
pub use self::printer::{Change, Line, Printer};
pub use self::rates::{Rates, Shown};
use self::screen::Screen;
use crate::command::job_nodes;
use crate::command::lasting::Absent;
use crate::command::past::Span;
use crate::command::target::Target;
use crate::config::{NodeFlags, ReaderFlags};
use crate::show::look::{ColorFlag, Look, When};
use crate::show::order::Order;
use crate::show::outcome::{Failure, Outcome};
use crate::show::table::remark;
use crate::show::terminal;

/// Examples for `khz watch --help`.
pub const EXAMPLES: &str = "\
Examples:
  khz watch 'cpu.all.*'                     CPUs in each mode, once a second
  khz watch 'net.*_bytes[eth0]' --rate 10   bytes per second, ten times a second
  khz watch mem.free --rate 100 --for 10s   a thousand rows, then done
  khz watch 'vm.*' --json --count 60        one object a line, values as decimal
                                            strings
  khz watch kernel.interrupts --raw         the counter itself
  khz watch 'program.cpu[*]' --top 10       the ten programs that take most CPU,
                                            the largest first
  khz watch 'node7:load.*' --from '2026-11-21 14:00' --speed 10
                                            replays that time from the hub's
                                            store, ten times as fast

On a terminal the column TREND has the last values of each series, the lowest as
the lowest bar; it is left out where there is no room. What is unknown is a hole.

In a pipe, a line that begins with # names the columns, or says how many rows of
a node were lost since the start.

With --json a row is an object: node, time (seconds since 1970), rate, lost (how
many rows of the node were lost since the start), and values by series. If there
is no value, it is an object: absent, failed or unknown, with the reason.

If the khz that is watched goes away, the command asks again until it is back,
and says how many rows are missing.

Exit code 3: rows were lost, or it is not known how many; a node that was killed
had no row for a second or more; or a named node was away all the time (khz does
not show its old rows).";

/// `khz watch`.
#[derive(Debug, Args)]
pub struct WatchFlags {
    /// Which series: [NODES:]METRIC[INSTANCE], as 'cpu.*[0]'.
    #[arg(value_name = "PATTERN", required = true)]
    pub patterns: Vec<String>,
    /// How often: 100Hz, 1kHz, or a period: 5s.
    #[arg(long, value_name = "RATE", default_value = "1Hz", allow_hyphen_values = true)]
    pub rate: String,
    /// Counters as totals, not as rates.
    #[arg(long)]
    pub raw: bool,
    /// Sample at that rate even where the kernel updates the number more slowly.
    #[arg(long)]
    pub exact: bool,
    /// One JSON object a row.
    #[arg(long)]
    pub json: bool,
    /// On a terminal: which series come first.
    #[command(flatten)]
    pub order: Order,
    /// Colours.
    #[command(flatten)]
    pub color: ColorFlag,
    /// Stop after this time.
    #[arg(long = "for", value_name = "DURATION")]
    pub duration: Option<String>,
    /// Stop after this many rows.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Show rows of the past, out of the hub's store, from this moment on: '2026-11-21 14:03:20' (local time),
    /// 2026-11-21T14:03:20Z, or -1h.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, conflicts_with_all = ["rate", "exact"])]
    pub from: Option<String>,
    /// With --from: to this moment [default: now].
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, requires = "from")]
    pub to: Option<String>,
    /// With --from: how many times as fast as it was; 0: as fast as it comes.
    #[arg(long, value_name = "N", default_value_t = 1.0, requires = "from", allow_negative_numbers = true)]
    pub speed: f64,
    /// Where to ask.
    #[command(flatten)]
    pub target: Target,
    /// The settings.
    #[command(flatten)]
    pub settings: ReaderFlags,
}

/// Subscribes and prints rows until it is time to stop.
pub fn run(flags: WatchFlags, outer: NodeFlags, out: &mut impl Write) -> Outcome {
    let rate = flags.rate.parse().map_err(Failure::usage)?;
    let span: Option<Nanos> =
        flags.duration.as_deref().map(str::parse).transpose().map_err(Failure::usage)?;
    let (_, plan) = super::plan(flags.settings.over(outer))?;
    let named = job_nodes::patterns(&flags.patterns, &flags.target, &plan)?;
    if let (Some((id, _)), None) = (named.ended(), &flags.from) {
        remark!("job {id} has ended: these are its nodes now; --from shows its time");
    }
    let interest = Interest::new(named.patterns, rate, flags.exact);
    let until = span.and_then(|span| Instant::now().checked_add(span.into()));
    let way = Way::of(flags.json, flags.color.color, flags.order)?;
    let is_past = flags.from.is_some();
    let asked = (!is_past).then_some(interest.rate);
    let watch = Watch { raw: flags.raw, count: flags.count, until, is_past, asked };
    if let Some(from) = &flags.from {
        let span = Span::of(from, flags.to.as_deref())?;
        let replay = Replay::new(&flags.target, &plan, interest.patterns, span, flags.speed)?;
        return replay.show(|next| onto(watch, way, out, next));
    }
    let mut rows = flags.target.rows(&plan, interest, watch.left())?.until(until);
    let absent = rows.absent();
    onto_without(absent, watch, way, out, move || rows.next())
}

/// How rows are printed.
#[derive(Clone, Copy, Debug)]
pub enum Way {
    /// One JSON object a row.
    Json,
    /// A line for each row.
    Lines,
    /// A picture on a terminal, in this order.
    Screen(Look, Order),
}

impl Way {
    /// A picture where stdout is a terminal whose cursor can go up, else lines, which come as they are.
    pub fn of(as_json: bool, color: When, order: Order) -> Result<Self, Failure> {
        let has_screen = !as_json && terminal::size().is_some() && terminal::obeys_escapes();
        if !has_screen && order.is_wanted() {
            return Err(Failure::usage(NO_ORDER));
        }
        Ok(match as_json {
            true => Way::Json,
            false if has_screen => Way::Screen(Look::of_stdout(color), order),
            false => Way::Lines,
        })
    }
}

/// Rows that are lines have no order but that of time.
const NO_ORDER: &str = "--sort and --top order the table of a terminal, and here is none: rows come as lines, one after \
     the other; `khz get --top N` prints the first N once";

/// Prints on a screen or as lines.
pub fn onto(
    watch: Watch,
    way: Way,
    out: &mut impl Write,
    next: impl FnMut() -> Result<Option<Vec<Piece>>, Failure>,
) -> Outcome {
    onto_without(Absent::default(), watch, way, out, next)
}

fn onto_without(
    absent: Absent,
    watch: Watch,
    way: Way,
    out: &mut impl Write,
    next: impl FnMut() -> Result<Option<Vec<Piece>>, Failure>,
) -> Outcome {
    let remarks = &mut std::io::stderr();
    match way {
        Way::Screen(look, order) => {
            let mut screen = Screen::new(terminal::size, look, order, out);
            watch.follow_without(absent, next, &mut screen, remarks)
        }
        Way::Json | Way::Lines => {
            let mut lines = Lines::new(matches!(way, Way::Json), out);
            watch.follow_without(absent, next, &mut lines, remarks)
        }
    }
}
