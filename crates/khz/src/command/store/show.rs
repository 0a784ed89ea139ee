//! `khz store show`: what a store holds of each resolution, and how long each will last, as a table or as JSON.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use khz_model::Nanos;
use khz_model::calendar::utc;
use khz_store::StoreReader;
use khz_store::range::RangeReader;
use khz_store::shelf::{Tier, TierFacts};
use serde_json::json;

use super::files;
use crate::config::plan::StorePlan;
use crate::config::{Plan, StoreFlags};
use crate::role::store::keep;
use crate::show::outcome::{Done, Failure, Outcome, sentence};
use crate::show::quantities::{of_bytes, of_span};
use crate::show::table::{Side, Table, json_line, printable, say};

/// Examples for `khz store show --help`.
pub const EXAMPLES: &str = "\
Examples:
  khz store show                    the store of this machine's hub
  khz store show /srv/khz --keep 1TiB
                                    how long another store would last if it had
                                    this size
  khz store show --json             one object a resolution";

const DAY: f64 = 86_400.0;

/// What rows and minutes have before anything of the next coarser summaries goes: an hour, and a day.
const LEAST_DAYS: [f64; 2] = [1.0 / 24.0, 1.0];

/// Less is too little to say how much comes in a day.
const MEASURED_MIN: Nanos = Nanos::from_secs(600);

/// `khz store show`.
#[derive(Debug, Args)]
pub struct StoreShowFlags {
    /// The directory of the store [default: that of this machine's hub].
    #[arg(value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// One JSON object a resolution.
    #[arg(long)]
    pub json: bool,
    /// The settings.
    #[command(flatten)]
    pub settings: StoreFlags,
}

/// Prints what a store holds.
pub fn show(
    directory: &Path,
    json: bool,
    plan: &Plan,
    width: Option<usize>,
    out: &mut impl Write,
) -> Outcome {
    let store = StoreReader::open(directory).map_err(|error| Failure::work(sentence(&error)))?;
    let (count, bytes) = files::segments(directory)?;
    let log = Part { count, bytes, span: store.log().span(None) };
    let lines = lines(log, &store.shelf().facts(), &plan.store);
    let inventory = RangeReader::new(store.shelf().clone(), Some(store.log()), Arc::new(())).inventory();
    let (channels, groups) = (inventory.channels(), inventory.owners.len());
    if json {
        for line in &lines {
            writeln!(out, "{}", json_line(&line.object()))?;
        }
        if !channels.is_empty() {
            writeln!(out, "{}", json_line(&json!({ "what": "channels", "names": channels })))?;
        }
        if groups > 0 {
            writeln!(out, "{}", json_line(&json!({ "what": "rules", "groups": groups })))?;
        }
    } else {
        out.write_all(table(&lines).render(width).as_bytes())?;
        let all: u64 = lines.iter().map(|line| line.part.bytes).sum();
        let (bytes, keep) = (of_bytes(all as f64, ""), of_bytes(plan.store.keep.0 as f64, ""));
        writeln!(out, "\n{bytes} of {keep} in {}", directory.display())?;
        if !channels.is_empty() {
            let names: Vec<&str> = channels.into_iter().collect();
            writeln!(out, "among them rows of the channels {}", printable(&names.join(", ")))?;
        }
        match groups {
            0 => {}
            1 => writeln!(out, "among them what one group of rules has recorded")?,
            _ => writeln!(out, "among them what {groups} groups of rules have recorded")?,
        }
    }
    out.flush()?;
    if !store.damage().is_empty() {
        say("some of the log is damaged: `khz store check` says where");
    }
    Ok(Done::Wholly)
}

/// Some files: how many, how large, from when to when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Part {
    count: u64,
    bytes: u64,
    span: Option<(Nanos, Nanos)>,
}

/// One resolution, or the log.
#[derive(Clone, Debug, PartialEq)]
struct Line {
    name: &'static str,
    part: Part,
    /// Bytes a day; `None`: too little is there.
    a_day: Option<f64>,
    /// How long it will reach back, in days.
    lasts: Option<f64>,
}

fn lines(log: Part, tiers: &[TierFacts], store: &StorePlan) -> Vec<Line> {
    let mut lines = vec![Line { name: "log", part: log, a_day: None, lasts: None }];
    let keep = keep(store);
    for facts in tiers {
        let name = match facts.tier {
            Tier::Raw => "rows",
            Tier::Minute => "minutes",
            Tier::Hour => "hours",
        };
        let part = Part { count: facts.files as u64, bytes: facts.bytes, span: facts.span };
        let lasts = Some(keep.time(facts.tier).as_secs_f64() / DAY);
        lines.push(Line { name, part, a_day: a_day(&part), lasts });
    }
    share(&mut lines, store.keep.0 as f64);
    lines
}

/// Size wins over time: hours have what the log and the least of rows and minutes leave, then come minutes, and rows have the
/// rest.
fn share(lines: &mut [Line], keep: f64) {
    let log = lines.first().map_or(0, |line| line.part.bytes) as f64;
    for place in (1..lines.len()).rev() {
        let (finer, rest) = lines.split_at_mut(place);
        let Some((line, coarser)) = rest.split_first_mut() else { return };
        let least = finer.iter().skip(1).zip(LEAST_DAYS).map(|(line, days)| line.a_day.unwrap_or(0.0) * days);
        let room = (keep - log - least.sum::<f64>() - coarser.iter().map(full).sum::<f64>()).max(0.0);
        line.lasts = line.a_day.zip(line.lasts).map(|(a_day, most)| lasting(room, a_day, most));
    }
}

/// What comes in a day.
fn a_day(part: &Part) -> Option<f64> {
    let (first, last) = part.span?;
    let span = last.since(first);
    (span >= MEASURED_MIN).then(|| part.bytes as f64 / span.as_secs_f64() * DAY)
}

/// Bytes once it reaches back as far as it may.
fn full(line: &Line) -> f64 {
    match (line.a_day, line.lasts) {
        (Some(a_day), Some(days)) => a_day * days,
        _ => line.part.bytes as f64,
    }
}

/// How many days fit, if this number of bytes comes in a day.
fn lasting(room: f64, a_day: f64, most: f64) -> f64 {
    if a_day > 0.0 { (room / a_day).min(most) } else { most }
}

fn table(lines: &[Line]) -> Table {
    let titles = [
        ("WHAT", Side::Left),
        ("FILES", Side::Right),
        ("SIZE", Side::Right),
        ("A DAY", Side::Right),
        ("LASTS", Side::Right),
        ("OLDEST", Side::Left),
        ("NEWEST", Side::Left),
    ];
    let mut table = Table::new(&titles, titles.len() - 1);
    for line in lines {
        let unknown = || "-".to_owned();
        table.row([
            line.name.to_owned(),
            line.part.count.to_string(),
            of_bytes(line.part.bytes as f64, ""),
            line.a_day.map_or_else(unknown, |bytes| of_bytes(bytes, "")),
            line.lasts.map_or_else(unknown, |days| of_span(days * DAY)),
            line.part.span.map_or_else(unknown, |(oldest, _)| utc(oldest)),
            line.part.span.map_or_else(unknown, |(_, newest)| utc(newest)),
        ]);
    }
    table
}

impl Line {
    fn object(&self) -> serde_json::Value {
        let time = |moment: Option<Nanos>| moment.map(|moment| moment.seconds_text());
        json!({
            "what": self.name,
            "files": self.part.count,
            "bytes": self.part.bytes,
            "bytes_a_day": self.a_day.map(f64::round),
            "lasts_seconds": self.lasts.map(|days| (days * DAY).floor()),
            "oldest": time(self.part.span.map(|span| span.0)),
            "newest": time(self.part.span.map(|span| span.1)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_wins_over_time_and_summaries_come_first() {
        let day = |days: u64| Nanos::from_secs(days * 86_400);
        let part = |bytes: u64, days: u64| Part { count: 1, bytes, span: Some((Nanos(0), day(days))) };
        let line = |bytes, days, lasts| Line {
            name: "rows",
            part: part(bytes, days),
            a_day: a_day(&part(bytes, days)),
            lasts: Some(lasts),
        };
        assert_eq!(a_day(&part(500, 10)), Some(50.0));
        assert_eq!(a_day(&Part { count: 1, bytes: 9, span: Some((Nanos(0), Nanos(1))) }), None);
        assert_eq!(full(&line(500, 10, 90.0)), 4_500.0);
        assert_eq!((lasting(1_000.0, 50.0, 21.0), lasting(5_000.0, 50.0, 21.0)), (20.0, 21.0));
        assert_eq!(lasting(1_000.0, 0.0, 21.0), 21.0, "nothing comes");
        let lasting_in = |keep: f64| {
            let log = Line { a_day: None, lasts: None, ..line(100, 1, 0.0) };
            let mut lines = [log, line(2_400, 10, 21.0), line(100, 10, 90.0), line(50, 10, 3_650.0)];
            share(&mut lines, keep);
            lines.map(|line| line.lasts)
        };
        let days = |rows, minutes, hours| [None, Some(rows), Some(minutes), Some(hours)];
        assert_eq!(lasting_in(100_000.0), days(21.0, 90.0, 3_650.0));
        assert_eq!(lasting_in(100.0 + 10.0 * 240.0 + 900.0 + 18_250.0), days(10.0, 90.0, 3_650.0));
        assert_eq!(lasting_in(100.0 + 10.0 + 10.0 + 5.0 * 20.0), days(1.0 / 24.0, 1.0, 20.0));
        assert_eq!(lasting_in(10.0), days(0.0, 0.0, 0.0));
    }
}
