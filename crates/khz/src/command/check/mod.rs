//! `khz check`: what each source holds on this host and what gathering it costs, as a table or as JSON. The
//! measuring itself is the gather stage's.

mod probe;
pub mod together;

use crate::config::NodeFlags;
use crate::show::terminal;
use clap::Args;
use std::io::Write;

use khz_model::{Nanos, Rate};
use serde_json::json;

use crate::command::check::together::Together;
use crate::show::outcome::{Done, Outcome};
use crate::show::table::{Side, Table, json_line, wrapped};

/// Examples for `khz check --help`.
pub const EXAMPLES: &str = "\
Examples:
  khz check                         this machine
  khz check 'cpu.*' 'net.*'         how often these can be had together
  khz check --root /srv/captured    a captured host
  khz check --json                  one object a line, for programs";

/// `khz check`.
#[derive(Debug, Args)]
pub struct CheckFlags {
    /// Only the sources of these patterns [default: all].
    #[arg(value_name = "PATTERN")]
    pub patterns: Vec<String>,
    /// One JSON object a line.
    #[arg(long)]
    pub json: bool,
    /// The settings.
    #[command(flatten)]
    pub settings: NodeFlags,
}

/// Tries the sources and prints the report.
pub fn run(flags: CheckFlags, outer: NodeFlags, out: &mut impl Write) -> Outcome {
    let patterns = super::patterns(&flags.patterns)?;
    let (_, plan) = super::plan(flags.settings.over(outer))?;
    print(&probe::probe(&plan, &patterns)?, flags.json, terminal::width(), out)
}

/// The report.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// About each source.
    pub sources: Vec<SourceCost>,
    /// How often those that are gathered can be had together.
    pub together: Together,
}

/// What was found out about one source.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceCost {
    /// The source.
    pub name: String,
    /// Its file below the root.
    pub path: String,
    /// What happened to it.
    pub finding: Finding,
    /// Values that are there.
    pub values: usize,
    /// What is not there, and why.
    pub missing: Vec<Missing>,
    /// Bytes of one gather.
    pub bytes: u64,
    /// CPU time of one gather.
    pub gather: Nanos,
    /// How often it is gathered with the present settings; `None` when it is not.
    pub rate: Option<Rate>,
}

/// How reading a source went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// It was read.
    Works,
    /// This host does not have it, and that is in order.
    Absent(String),
    /// It is there, but reading it went wrong.
    Failed(String),
}

/// Series of a source that have no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The series.
    pub series: String,
    /// Absent or failed, and why.
    pub why: String,
}

impl SourceCost {
    /// Hours of CPU a day at its rate.
    fn hours_a_day(&self) -> f64 {
        let share = self.rate.map_or(0.0, |rate| self.gather.as_secs_f64() * rate.hz());
        share * 24.0
    }
}

/// Prints the report.
pub fn print(found: &Found, as_json: bool, width: Option<usize>, out: &mut impl Write) -> Outcome {
    let Found { sources, together } = found;
    if as_json {
        for source in sources {
            writeln!(out, "{}", json_line(&object(source)))?;
        }
        writeln!(out, "{}", together.object())?;
    } else {
        out.write_all(table(sources).render(width).as_bytes())?;
        for line in together.sentences() {
            writeln!(out, "\n{}", wrapped(&line, width.unwrap_or(100)).join("\n"))?;
        }
        out.write_all(remarks(sources, width.unwrap_or(100)).as_bytes())?;
    }
    out.flush()?;
    Ok(Done::Wholly)
}

fn table(sources: &[SourceCost]) -> Table {
    let titles = [
        ("SOURCE", Side::Left),
        ("VALUES", Side::Right),
        ("ABSENT", Side::Right),
        ("BYTES", Side::Right),
        ("MICROSECONDS", Side::Right),
        ("RATE", Side::Right),
        ("CPU HOURS/DAY", Side::Right),
    ];
    let mut table = Table::new(&titles, 0);
    for source in sources {
        match &source.finding {
            Finding::Absent(why) => table.remark(source.name.clone(), &format!("absent: {why}")),
            Finding::Failed(fault) => table.remark(source.name.clone(), &format!("FAILED: {fault}")),
            Finding::Works => table.row([
                source.name.clone(),
                source.values.to_string(),
                source.missing.len().to_string(),
                source.bytes.to_string(),
                format!("{:.1}", source.gather.as_secs_f64() * 1e6),
                source.rate.map_or("off".to_owned(), |rate| rate.to_string()),
                format!("{:.4}", source.hours_a_day()),
            ]),
        }
    }
    let sum = |part: fn(&SourceCost) -> f64| sources.iter().map(part).sum::<f64>();
    table.row([
        "all".to_owned(),
        sum(|source| source.values as f64).to_string(),
        sum(|source| source.missing.len() as f64).to_string(),
        sum(|source| source.bytes as f64).to_string(),
        format!("{:.1}", sum(|source| source.gather.as_secs_f64()) * 1e6),
        String::new(),
        format!("{:.4}", sum(SourceCost::hours_a_day)),
    ]);
    table
}

/// What is absent and why: one paragraph for each source and reason.
fn remarks(sources: &[SourceCost], width: usize) -> String {
    let mut text = String::new();
    for source in sources.iter().filter(|source| !matches!(source.finding, Finding::Absent(_))) {
        let mut reasons: Vec<&str> = source.missing.iter().map(|missing| missing.why.as_str()).collect();
        reasons.sort_unstable();
        reasons.dedup();
        for why in reasons {
            let series: Vec<&str> =
                source.missing.iter().filter(|m| m.why == why).map(|m| m.series.as_str()).collect();
            text.push('\n');
            text.push_str(&paragraph(&format!("{}: {why}:", source.name), &series, width));
        }
    }
    text
}

/// A head, and below it words separated by commas, in indented lines of at most `width` where words allow.
fn paragraph(head: &str, words: &[&str], width: usize) -> String {
    const INDENT: &str = "  ";
    let lines = wrapped(&words.join(", "), width.saturating_sub(INDENT.len()));
    format!("{head}\n{INDENT}{}\n", lines.join(&format!("\n{INDENT}")))
}

fn object(source: &SourceCost) -> serde_json::Value {
    let (outcome, why) = match &source.finding {
        Finding::Works => ("works", None),
        Finding::Absent(why) => ("absent", Some(why)),
        Finding::Failed(why) => ("failed", Some(why)),
    };
    let missing: Vec<_> =
        source.missing.iter().map(|m| json!({ "series": m.series, "why": m.why })).collect();
    json!({
        "source": source.name,
        "file": source.path,
        "outcome": outcome,
        "why": why,
        "values": source.values,
        "missing": missing,
        "bytes": source.bytes,
        "gather_ns": source.gather.0,
        "rate": source.rate.map(|rate| rate.to_string()),
        "cpu_hours_a_day": format!("{:.6}", source.hours_a_day()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(sources: Vec<SourceCost>) -> Found {
        let together = Together::new(Nanos(0), Vec::new(), 0.1, Rate::from_hz(1_000).unwrap());
        Found { sources, together }
    }

    fn sources() -> Vec<SourceCost> {
        let missing = |series: &str| Missing {
            series: series.to_owned(),
            why: "absent: this kernel does not print it".to_owned(),
        };
        let stat = SourceCost {
            name: "stat".to_owned(),
            path: "/proc/stat".to_owned(),
            finding: Finding::Works,
            values: 188,
            missing: Vec::new(),
            bytes: 5120,
            gather: Nanos::from_micros(36),
            rate: Rate::from_hz(1000),
        };
        vec![
            stat.clone(),
            SourceCost {
                name: "meminfo".to_owned(),
                missing: vec![missing("mem.high_total"), missing("mem.high_free")],
                values: 40,
                bytes: 1500,
                gather: Nanos::from_micros(10),
                rate: Rate::from_hz(1),
                ..stat.clone()
            },
            SourceCost {
                name: "pressure/irq".to_owned(),
                finding: Finding::Absent("this host does not have the source".to_owned()),
                values: 0,
                bytes: 0,
                gather: Nanos(0),
                ..stat
            },
        ]
    }

    #[test]
    fn the_table_fits_eighty_columns_and_tells_what_a_day_costs() {
        let mut out = Vec::new();
        assert_eq!(print(&found(sources()), false, Some(80), &mut out).unwrap(), Done::Wholly);
        let text = String::from_utf8(out).unwrap();
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert_eq!(
            text,
            "SOURCE        VALUES  ABSENT  BYTES  MICROSECONDS    RATE  CPU HOURS/DAY\n\
             stat             188       0   5120          36.0  1000Hz         0.8640\n\
             meminfo           40       2   1500          10.0     1Hz         0.0002\n\
             pressure/irq  absent: this host does not have the source\n\
             all              228       2   6620          46.0                 0.8642\n\
             \n\
             meminfo: absent: this kernel does not print it:\n  mem.high_total, mem.high_free\n"
        );
    }

    #[test]
    fn json_keeps_works_absent_and_failed_apart() {
        let mut sources = sources();
        sources[1].finding = Finding::Failed("malformed".to_owned());
        let mut out = Vec::new();
        print(&found(sources), true, None, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let findings: Vec<serde_json::Value> = text
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["outcome"].clone())
            .collect();
        assert_eq!(findings[..3], ["works", "failed", "absent"]);
        // The last one is about all of them together.
        assert_eq!((findings.len(), &findings[3]), (4, &serde_json::Value::Null));
    }

    #[test]
    fn long_lists_wrap() {
        assert_eq!(paragraph("x:", &["aaa", "bbb", "ccc"], 11), "x:\n  aaa, bbb,\n  ccc\n");
        assert_eq!(paragraph("x:", &["much_too_long", "b"], 8), "x:\n  much_too_long,\n  b\n");
    }
}
