//! From the row that makes a rule true, or false, to the request that tells a receiver: judged at the node, ten times a second.

use std::time::{Duration, Instant};

use super::site::{Came, Site, receiver};
use crate::error::BenchError;
use crate::program::failed;
use crate::record::{Bound, Record};
use crate::spread::{Spread, quantile};
use crate::table::{Table, figure};

/// True for half of each second.
const AT_NODE: &str = "({\"uptime.up\"} % 1) < 0.5";

/// The figure.
const P99_MS: f64 = 50.0;

/// Runs the section.
pub fn run(record: &mut Record) -> Result<(), BenchError> {
    let (at, came) = receiver()?;
    let text = format!(
        "groups:\n- name: g\n  interval: 1m\n  rules:\n  - alert: HalfASecond\n    expr: '{AT_NODE}'\n"
    );
    let mut site = Site::start(&text, Some(at), &["--rules-rate", "10Hz", "--store", "none"])?;
    site.agent("n1")?;
    let patience = Duration::from_secs(30);
    let next = || came.recv_timeout(patience).map_err(|error| failed("the receiver", error));
    // The first ones find a node that has just come.
    for _ in 0..6 {
        next()?;
    }
    let turns = record.effort.of(10, 3);
    let span = Duration::from_secs(record.effort.of(12, 5));
    let (mut medians, mut tails) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    let mut all = [Vec::new(), Vec::new()];
    for turn in 0..turns {
        record.progress(&format!("turn {}", turn + 1));
        let end = Instant::now() + span;
        let mut found = [Vec::new(), Vec::new()];
        while Instant::now() < end {
            let Came { is_resolved, took, .. } = next()?;
            found[usize::from(is_resolved)].push(took);
        }
        for (what, name) in ["fires", "is resolved"].into_iter().enumerate() {
            let times = &mut found[what];
            times.sort_by(f64::total_cmp);
            if times.is_empty() {
                return Err(failed(name, "no alert came"));
            }
            for (value, into, key) in [
                (quantile(times, 0.5), &mut medians[what], "p50_ms"),
                (quantile(times, 0.99), &mut tails[what], "p99_ms"),
            ] {
                record.sample(["alert", name, "at the node"], turn, key, value);
                into.push(value);
            }
            all[what].append(times);
        }
    }
    let mut table = Table::new(&["an alert", "p50 ms", "p99 ms", "of all, p99 ms", "times"]);
    for (what, name) in ["fires", "is resolved"].into_iter().enumerate() {
        all[what].sort_by(f64::total_cmp);
        let (middle, tail) = (Spread::of(medians[what].clone()), Spread::of(tails[what].clone()));
        let (Some(shown), Some(last)) = (&middle, &tail) else { continue };
        table.row([
            name.to_owned(),
            figure(shown.median),
            figure(last.median),
            figure(quantile(&all[what], 0.99)),
            all[what].len().to_string(),
        ]);
        record.verdict(&format!("{name}: p50, ms"), middle, Bound::Stated);
        record.verdict(&format!("{name}: p99, ms"), tail, Bound::AtMost(P99_MS));
    }
    record.show("## From the row at the node to the request at the receiver", &table);
    Ok(())
}
