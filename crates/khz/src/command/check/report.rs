//! The report of `khz check`, as a table or as JSON.

use std::io::Write;

use khz_gather::percent;
use serde_json::json;

use super::{Finding, Found, HeldBack, SourceCost, privileges};
use crate::show::outcome::{Done, Outcome};
use crate::show::table::{Side, Table, json_line, wrapped};

impl SourceCost {
    /// Number of series that failed.
    fn failed(&self) -> usize {
        self.missing.iter().filter(|missing| missing.is_failed).count()
    }

    /// Number of series that are absent.
    fn absent(&self) -> usize {
        self.missing.len() - self.failed()
    }

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
        for line in sources.iter().filter_map(held_back).chain(together.sentences()) {
            writeln!(out, "\n{}", wrapped(&line, width.unwrap_or(100)).join("\n"))?;
        }
        out.write_all(remarks(sources, width.unwrap_or(100)).as_bytes())?;
        let is_there = |source: &&SourceCost| !matches!(source.finding, Finding::Absent(_));
        let more = sources.iter().filter(is_there).filter_map(|one| Some((one.name.as_str(), one.as_root?)));
        if let Some(text) = privileges::sentence(more) {
            writeln!(out, "\n{}", wrapped(&text, width.unwrap_or(100)).join("\n"))?;
        }
    }
    out.flush()?;
    Ok(Done::Wholly)
}

fn table(sources: &[SourceCost]) -> Table {
    let titles = [
        ("SOURCE", Side::Left),
        ("VALUES", Side::Right),
        ("ABSENT", Side::Right),
        ("FAILED", Side::Right),
        ("BYTES", Side::Right),
        ("TIME (µs)", Side::Right),
        ("RATE", Side::Right),
        ("CPU h/DAY", Side::Right),
    ];
    let mut table = Table::new(&titles, 0);
    for source in sources {
        match &source.finding {
            Finding::Absent(why) => table.remark(source.name.clone(), &format!("absent: {why}")),
            Finding::Failed(fault) => table.remark(source.name.clone(), &format!("FAILED: {fault}")),
            Finding::Works => table.row([
                source.name.clone(),
                source.values.to_string(),
                source.absent().to_string(),
                source.failed().to_string(),
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
        sum(|source| source.absent() as f64).to_string(),
        sum(|source| source.failed() as f64).to_string(),
        sum(|source| source.bytes as f64).to_string(),
        format!("{:.1}", sum(|source| source.gather.as_secs_f64()) * 1e6),
        String::new(),
        format!("{:.4}", sum(SourceCost::hours_a_day)),
    ]);
    table
}

/// That a source is gathered less often than the settings say, and why.
fn held_back(source: &SourceCost) -> Option<String> {
    let (HeldBack { wanted, is_too_dear }, rate, budget) = (source.held_back?, source.rate?, source.budget?);
    let name = &source.name;
    Some(match is_too_dear {
        true => {
            let percent = percent(budget);
            format!(
                "{name}: at {wanted} it would cost more than its budget of {percent} % of a core, so it is gathered {} at this cost.",
                rate.often()
            )
        }
        false => format!("{name}: the settings say {wanted}, but surveys are made once a second at most."),
    })
}

/// What is absent or failed, and why: one paragraph for each source and reason.
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
        if let Some(remark) = &source.remark {
            if source.missing.is_empty() {
                text.push_str(&format!("\n{}:\n", source.name));
            }
            text.push_str(&format!("  {}\n", wrapped(remark, width.saturating_sub(2)).join("\n  ")));
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
        "absent": source.absent(),
        "failed": source.failed(),
        "missing": missing,
        "remark": source.remark,
        "as_root": source.as_root,
        "bytes": source.bytes,
        "gather_ns": source.gather.0,
        "rate": source.rate.map(|rate| rate.to_string()),
        "rate_of_settings": source.held_back.map_or(source.rate, |held| Some(held.wanted)).map(|rate| rate.to_string()),
        "budget_percent": source.budget.map(percent),
        "cpu_hours_a_day": format!("{:.6}", source.hours_a_day()),
    })
}

#[cfg(test)]
mod tests {
    use khz_model::{Nanos, Rate};

    use super::super::Missing;
    use super::super::together::Together;
    use super::*;

    fn found(sources: Vec<SourceCost>) -> Found {
        let together = Together::new(Nanos(0), Vec::new(), 0.1, Rate::from_hz(1_000).unwrap());
        Found { sources, together }
    }

    fn sources() -> Vec<SourceCost> {
        let missing = |series: &str| Missing {
            series: series.to_owned(),
            is_failed: false,
            why: "absent: this kernel does not print it".to_owned(),
        };
        let failed = Missing {
            series: "mem.free".to_owned(),
            is_failed: true,
            why: "FAILED: malformed text".to_owned(),
        };
        let stat = SourceCost {
            name: "stat".to_owned(),
            path: "/proc/stat".to_owned(),
            finding: Finding::Works,
            values: 188,
            missing: Vec::new(),
            remark: None,
            as_root: None,
            bytes: 5120,
            gather: Nanos::from_micros(36),
            rate: Rate::from_hz(1000),
            budget: None,
            held_back: None,
        };
        vec![
            stat.clone(),
            SourceCost {
                name: "meminfo".to_owned(),
                missing: vec![missing("mem.high_total"), missing("mem.high_free"), failed],
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
            "SOURCE        VALUES  ABSENT  FAILED  BYTES  TIME (µs)    RATE  CPU h/DAY\n\
             stat             188       0       0   5120       36.0  1000Hz     0.8640\n\
             meminfo           40       2       1   1500       10.0     1Hz     0.0002\n\
             pressure/irq  absent: this host does not have the source\n\
             all              228       2       1   6620       46.0             0.8642\n\
             \n\
             meminfo: FAILED: malformed text:\n  mem.free\n\
             \n\
             meminfo: absent: this kernel does not print it:\n  mem.high_total, mem.high_free\n"
        );
    }

    #[test]
    fn a_source_that_is_gathered_less_often_than_the_settings_say_has_a_sentence() {
        let mut sources = sources();
        let rate = |hz| Rate::from_hz(hz).unwrap();
        for (source, budget, is_too_dear) in [(0, 0.003, true), (1, 0.01, false)] {
            let held_back = Some(HeldBack { wanted: rate(100), is_too_dear });
            let (rate, budget) = (Some(rate(1)), Some(budget));
            sources[source] = SourceCost { rate, budget, held_back, ..sources[source].clone() };
        }
        let mut out = Vec::new();
        print(&found(sources), false, Some(200), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        for sentence in [
            "stat: at 100Hz it would cost more than its budget of 0.3 % of a core, so it is gathered",
            "meminfo: the settings say 100Hz, but surveys are made once a second at most.",
        ] {
            assert!(text.contains(sentence), "{text}");
        }
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
        let meminfo: serde_json::Value = serde_json::from_str(text.lines().nth(1).unwrap()).unwrap();
        assert_eq!((&meminfo["absent"], &meminfo["failed"]), (&json!(2), &json!(1)));
        // The last one is about all of them together.
        assert_eq!((findings.len(), &findings[3]), (4, &serde_json::Value::Null));
    }

    #[test]
    fn long_lists_wrap() {
        assert_eq!(paragraph("x:", &["aaa", "bbb", "ccc"], 11), "x:\n  aaa, bbb,\n  ccc\n");
        assert_eq!(paragraph("x:", &["much_too_long", "b"], 8), "x:\n  much_t\n  oo_lon\n  g, b\n");
    }
}
