//! What can be typed behind `khz export`, `khz plot` and `khz correlate`, and the help that teaches it.

use std::path::PathBuf;

use clap::Args;

/// Which recording, and what of it.
#[derive(Debug, Args)]
pub struct Chosen {
    /// The recording: one file, or those of a rotation in their order.
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Only these series: [NODES:]METRIC[INSTANCE]; may be given several times.
    #[arg(short = 'm', long = "match", value_name = "PATTERN")]
    pub patterns: Vec<String>,
    /// Only from this time after the first row on: 5s.
    #[arg(long, value_name = "DURATION")]
    pub from: Option<String>,
    /// Only to this time after the first row: 20s.
    #[arg(long, value_name = "DURATION")]
    pub to: Option<String>,
}

/// Examples for `khz export --help`.
pub const EXPORT_EXAMPLES: &str = "\
Examples:
  khz export run.khzt                         everything, as CSV
  khz export run.khzt --match 'node[1-4]:load.*' -o load.csv
  khz export run.khzt --json | jq .values     one object a row
  khz export run.000*.khzt                    the files of a rotation
  khz export run.khzt --parquet -o run.parquet

Rows of a node come in order; nodes alternate block by block. Values are the
kernel's own decimals, counters as totals; absent is empty, failed is the word.
What of a damaged file is whole is printed; the damage is named with its place,
and the exit code is 1.";

/// `khz export`.
#[derive(Debug, Args)]
pub struct ExportFlags {
    /// What to print.
    #[command(flatten)]
    pub chosen: Chosen,
    /// Values separated by commas: this is what comes without a flag.
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
    /// One JSON object a row.
    #[arg(long)]
    pub json: bool,
    /// A Parquet file, if this program was built with it; needs --output.
    #[arg(long, conflicts_with_all = ["csv", "json"], requires = "output")]
    pub parquet: bool,
    /// Write to this file instead of stdout.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Examples for `khz plot --help`.
pub const PLOT_EXAMPLES: &str = "\
Examples:
  khz plot run.khzt -m cpu.all.user -m cpu.all.system -o run.svg
                                                    one panel a node, CPUs at
                                                    work in the two modes
  khz plot run.khzt -m kernel.forks -m cpu.all.system --per-sample -o run.png
                                                    two axes, left and right
  khz plot run.khzt -m load.1m                      here, in characters
  khz plot run.khzt -m mem.free --from 5s --to 9s -o part.html

Counters are drawn as rates per second: CPU times in CPUs, what was so for a
share of the time in per cent of it. --per-sample draws what they grew by from
one row to the next, times in ticks of 10 ms. Where a pixel holds several rows
the line is their mean, and the paler band reaches from the smallest to the
largest. Where rows are missing the line is broken and the ground is grey.";

/// `khz plot`.
#[derive(Debug, Args)]
pub struct PlotFlags {
    /// What to draw.
    #[command(flatten)]
    pub chosen: Chosen,
    /// Draw these series too, on the right axis.
    #[arg(long, value_name = "PATTERN")]
    pub right: Vec<String>,
    /// The picture: .svg, .png or .html; without one it is drawn here, with characters.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Draw it here too.
    #[arg(long)]
    pub terminal: bool,
    /// Counters as their growth from one row to the next.
    #[arg(long)]
    pub per_sample: bool,
    /// The line above the picture.
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,
    /// Pixels from left to right.
    #[arg(long, value_name = "N", default_value_t = 960, value_parser = clap::value_parser!(u32).range(400..=8_000))]
    pub width: u32,
    /// Pixels of a panel from top to bottom.
    #[arg(long, value_name = "N", default_value_t = 88, value_parser = clap::value_parser!(u32).range(40..=2_000))]
    pub panel_height: u32,
}

/// Examples for `khz correlate --help`.
pub const CORRELATE_EXAMPLES: &str = "\
Examples:
  khz correlate run.khzt --with node1:kernel.interrupts
  khz correlate run.khzt --with node3:kernel.context_switches --max-lag 30s \\
          --match 'node*:pressure.*'
  khz correlate run.khzt --with node2:load.1m --json

The coefficient is Pearson's, between -1 and 1, at the lag where it is furthest
from 0; a positive lag means that the series follows the one given with --with.
Counters are rates. Coefficients of few pairs, and the best of thousands of
series, are large by chance: look at --max-lag and PAIRS before you believe them.";

/// `khz correlate`.
#[derive(Debug, Args)]
pub struct CorrelateFlags {
    /// What to look at.
    #[command(flatten)]
    pub chosen: Chosen,
    /// The series that all others are held against: NODE:METRIC[INSTANCE].
    #[arg(long, value_name = "SERIES")]
    pub with: String,
    /// Look so far to both sides [default: a quarter of the span, at most 60s and 600 samples].
    #[arg(long, visible_alias = "lag", value_name = "DURATION")]
    pub max_lag: Option<String>,
    /// Print so many.
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub top: usize,
    /// Leave out coefficients closer to 0 than this.
    #[arg(long, value_name = "R", default_value_t = 0.3)]
    pub least: f64,
    /// One JSON object a series.
    #[arg(long)]
    pub json: bool,
}
