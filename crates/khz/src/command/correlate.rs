//! `khz correlate`: which series of a recording move together with one of them, and how much later or earlier.

use crate::command::recording::Chosen;
use clap::Args;
use std::io::Write;

use khz_model::{Nanos, Pattern};
use khz_record::{Grid, GridLimits, Limits, Match, Skipped, With};
use serde_json::json;

use crate::command::recording::{Opened, of_error, open};
use crate::show::outcome::{Failure, Outcome};
use crate::show::table::{Side, Table, json_line};
use crate::show::terminal;

/// Examples for `khz correlate --help`.
pub const EXAMPLES: &str = "\
Examples:
  khz correlate run.khzt --with node1:kernel.interrupts
  khz correlate run.khzt --with node3:kernel.context_switches --max-lag 30s \\
          --match 'node*:pressure.*'
  khz correlate run.khzt --with node2:load.1m --json

COEFFICIENT is Pearson's, between -1 and 1, at the lag where it is furthest from
0. A positive lag means that the series follows the one given with --with.
AT ONCE is the coefficient at lag 0. PAIRS is the number of pairs of samples
from which the coefficient was computed. Counters are compared as rates. If
there are few pairs, or thousands of series, some coefficients are large by
chance: check --max-lag and PAIRS before you believe them.";

/// `khz correlate`.
#[derive(Debug, Args)]
pub struct CorrelateFlags {
    /// The recording.
    #[command(flatten)]
    pub chosen: Chosen,
    /// The series that all others are compared with: NODE:METRIC[INSTANCE].
    #[arg(long, value_name = "SERIES")]
    pub with: String,
    /// The longest lag to try, earlier and later [default: a quarter of the span, at most 60s and 600 samples].
    #[arg(long, visible_alias = "lag", value_name = "DURATION")]
    pub max_lag: Option<String>,
    /// How many to print.
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub top: usize,
    /// Leave out coefficients closer to 0 than this.
    #[arg(long, value_name = "R", default_value_t = 0.3)]
    pub least: f64,
    /// One JSON object a series.
    #[arg(long)]
    pub json: bool,
}

/// See [`usual_lag`].
const LAG_USUAL_MAX: Nanos = Nanos::from_secs(60);

/// Prints the closest series.
pub fn run(flags: &CorrelateFlags, out: &mut impl Write) -> Outcome {
    let with = Pattern::new(&flags.with).map_err(Failure::usage)?;
    let lag_max = flags.max_lag.as_deref().map(str::parse::<Nanos>).transpose().map_err(Failure::usage)?;
    let opened = open(&flags.chosen)?;
    opened.check(std::slice::from_ref(&with))?;
    let grid = Grid::of(
        &opened.recording,
        &opened.survey,
        &opened.patterns,
        std::slice::from_ref(&with),
        GridLimits::default(),
    )
    .map_err(of_error)?;
    let place = the_one(&grid, &with)?;
    let span = span(&opened, &grid);
    let samples = |place: usize| &grid.series[place].samples[span.clone()];
    // A coefficient of a few pairs is chance.
    let pairs_min = Limits::default().pairs_min.max(span.len() / 4);
    let lag = match lag_max {
        Some(lag) => (lag.0 / grid.step.0.max(1)) as usize,
        None => usual_lag(span.len(), grid.step),
    };
    let limits = Limits { lag, pairs_min, ..Limits::default() };
    let with = With { samples: samples(place), limits };
    let others = (0..grid.series.len()).filter(|&other| other != place);
    let (matches, skipped) = khz_record::correlate(with, others.map(|other| (other, samples(other))));
    if matches.is_empty() && skipped == Skipped::default() && grid.series.len() > 1 {
        return Err(Failure::work(format!("{} never changes in this span", grid.series[place].name())));
    }
    let near = matches.iter().filter(|found| found.coefficient.abs() >= flags.least);
    let shown: Vec<&Match> = near.take(flags.top).collect();
    if flags.json {
        for found in &shown {
            writeln!(out, "{}", json_line(&object(&grid, place, found)))?;
        }
    } else {
        out.write_all(table(&grid, &shown).render(terminal::width()).as_bytes())?;
    }
    out.flush()?;
    remark_counts(flags, &grid, &skipped, matches.len(), shown.len(), limits);
    opened.end()
}

/// The longest lag without `--max-lag`, in samples. At more than a quarter of the span only a few pairs would decide, and
/// after more than a minute hardly anything on a node follows from another event.
fn usual_lag(samples: usize, step: Nanos) -> usize {
    let minute = (LAG_USUAL_MAX.0 / step.0.max(1)) as usize;
    (samples / 4).min(minute).min(Limits::default().lag)
}

/// The one series that the pattern selects.
fn the_one(grid: &Grid, with: &Pattern) -> Result<usize, Failure> {
    match grid.position(with).as_slice() {
        [] => Err(Failure::work(format!("nothing in this recording matches {with}"))),
        [one] => Ok(*one),
        several => {
            let names: Vec<String> = several.iter().take(5).map(|&place| grid.series[place].name()).collect();
            let more = if several.len() > 5 { ", ..." } else { "" };
            Err(Failure::usage(format!(
                "--with must be one series, and {with} is {}{more}",
                names.join(", ")
            )))
        }
    }
}

/// The samples between --from and --to.
fn span(opened: &Opened, grid: &Grid) -> std::ops::Range<usize> {
    let samples = grid.series.first().map_or(0, |series| series.samples.len());
    let at = |moment: Nanos| (moment.since(grid.start).0 / grid.step.0.max(1)) as usize;
    let (from, to) = (at(opened.from).min(samples), (at(opened.to) + 2).min(samples));
    from..to.max(from)
}

fn table(grid: &Grid, shown: &[&Match]) -> Table {
    let titles = [
        ("SERIES", Side::Left),
        ("COEFFICIENT", Side::Right),
        ("LAG", Side::Right),
        ("AT ONCE", Side::Right),
        ("PAIRS", Side::Right),
    ];
    let mut table = Table::new(&titles, 0);
    for found in shown {
        table.row([
            grid.series[found.place].name(),
            format!("{:+.3}", found.coefficient),
            lag_words(found.lag, grid.step),
            found.at_once.map_or("-".to_owned(), |at_once| format!("{at_once:+.3}")),
            found.pairs.to_string(),
        ]);
    }
    table
}

fn lag_words(lag: i64, step: Nanos) -> String {
    let span = Nanos(lag.unsigned_abs() * step.0).as_secs_f64();
    match lag {
        0 => "0".to_owned(),
        lag if lag > 0 => format!("{} later", seconds(span)),
        _ => format!("{} earlier", seconds(span)),
    }
}

fn seconds(span: f64) -> String {
    if span < 1.0 { format!("{:.0} ms", span * 1e3) } else { format!("{span:.2} s") }
}

fn object(grid: &Grid, place: usize, found: &Match) -> serde_json::Value {
    let lag = found.lag as f64 * grid.step.as_secs_f64();
    json!({
        "series": grid.series[found.place].name(),
        "with": grid.series[place].name(),
        "coefficient": found.coefficient,
        "lag_seconds": format!("{lag:.9}"),
        "at_once": found.at_once,
        "pairs": found.pairs,
    })
}

/// Says on stderr how many series were compared, and which were not.
fn remark_counts(
    flags: &CorrelateFlags,
    grid: &Grid,
    skipped: &Skipped,
    held: usize,
    shown: usize,
    limits: Limits,
) {
    let mut words = vec![format!("{held} series, lags up to {} samples of {}", limits.lag, grid.step)];
    let mut add = |count: usize, what: &str| {
        if count > 0 {
            words.push(format!("{count} {what}"));
        }
    };
    add(
        held - shown,
        &format!("not shown (closer to 0 than {}, or beyond --top {})", flags.least, flags.top),
    );
    add(skipped.constant, "left out that never change");
    add(skipped.short, "left out with too few samples");
    add(skipped.work, "left out to bound the work: narrow --match or --max-lag");
    add(grid.left_out, "left out to bound the memory: narrow --match");
    if grid.rows_a_sample > 1 {
        words.push(format!("each sample is the mean of {} rows", grid.rows_a_sample));
    }
    crate::show::table::remark!("{}", words.join("; "));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_lag_is_at_most_a_quarter_of_the_span_a_minute_and_600_samples() {
        for (samples, step, lag) in [
            (100, Nanos::from_millis(100), 25),
            (3_600, Nanos::SECOND, 60),
            (20_000, Nanos::from_millis(100), 600),
            (20_000, Nanos::from_millis(10), 600),
            (3, Nanos::SECOND, 0),
            (3, Nanos(0), 0),
        ] {
            assert_eq!(usual_lag(samples, step), lag, "{samples} samples of {step}");
        }
    }
}
