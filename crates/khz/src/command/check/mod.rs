//! `khz check`: its flags, and what it finds: the values and the cost of each source on this host. `probe.rs` measures,
//! `report.rs` prints.

mod privileges;
mod probe;
mod report;
pub mod together;
mod wanted;

use crate::config::NodeFlags;
use crate::show::terminal;
use clap::Args;
use std::io::Write;

use khz_model::{Nanos, Rate};

use crate::command::check::together::Together;
use crate::command::check::wanted::Wanted;
use crate::show::outcome::Outcome;

/// Examples for `khz check --help`.
pub const EXAMPLES: &str = "\
Examples:
  khz check                         this machine
  khz check 'cpu.*' 'net.*'         the sources of these metrics, and the
                                    highest rate for all of them together
  khz check filesystem              this source, by the name in the table
  khz check --root /srv/captured    a captured host
  khz check --json                  one object a line, for programs";

/// `khz check`.
#[derive(Debug, Args)]
pub struct CheckFlags {
    /// Only these sources: names from the table, or patterns of metrics [default: all].
    #[arg(value_name = "SOURCE|PATTERN")]
    pub wanted: Vec<String>,
    /// One JSON object a line.
    #[arg(long)]
    pub json: bool,
    /// The settings.
    #[command(flatten)]
    pub settings: NodeFlags,
}

/// Tries the sources and prints the report.
pub fn run(flags: CheckFlags, outer: NodeFlags, out: &mut impl Write) -> Outcome {
    let (_, plan) = super::plan(flags.settings.over(outer))?;
    let wanted = Wanted::read(&flags.wanted, &plan.sources.known)?;
    report::print(&probe::probe(&plan, &wanted)?, flags.json, terminal::width(), out)
}

/// The report.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// About each source.
    pub sources: Vec<SourceCost>,
    /// The highest rate for all sources together.
    pub together: Together,
}

/// What was found about one source.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceCost {
    /// The source.
    pub name: String,
    /// Its file below the root.
    pub path: String,
    /// How reading it went.
    pub finding: Finding,
    /// Number of values that are present.
    pub values: usize,
    /// Series without a value, each with the reason.
    pub missing: Vec<Missing>,
    /// Why files without a number have none, while others may have theirs.
    pub remark: Option<String>,
    /// What root would see beside this.
    pub as_root: Option<&'static str>,
    /// Bytes of one gather.
    pub bytes: u64,
    /// CPU time of one gather.
    pub gather: Nanos,
    /// Its rate with the present settings and at the present cost; `None` where it is not gathered.
    pub rate: Option<Rate>,
    /// The share of one core that it may cost; `None` where it is not gathered.
    pub budget: Option<f64>,
    /// Why its rate is less than the settings say.
    pub held_back: Option<HeldBack>,
}

/// Why a source is gathered less often than the settings say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeldBack {
    /// The rate of the settings.
    pub wanted: Rate,
    /// It costs more than that at the rate of the settings; else it is a survey, and these have a rate of their own.
    pub is_too_dear: bool,
}

/// How reading a source went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// It was read.
    Works,
    /// This host does not have it, which is normal.
    Absent(String),
    /// It exists, but reading it failed.
    Failed(String),
}

/// Series of a source that have no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The series.
    pub series: String,
    /// False: it is absent, which is normal.
    pub is_failed: bool,
    /// Absent or failed, and why.
    pub why: String,
}
