//! Freezes for people: the table of all, one freeze, the progress of a fetch, and the exit code.

use std::fmt::Write;

use khz_ask::{FreezeAnswer, FreezeGroup};
use khz_model::Nanos;
use khz_model::calendar::utc;

use crate::show::outcome::Done;
use crate::show::quantities::{of_bytes, of_span, seconds_since};
use crate::show::table::{Side, Table, cut, printable, remark};

/// Letters of a cause, and of names of nodes, that a table shows.
const CAUSE_CHARS_MAX: usize = 120;
const NODES_CHARS_MAX: usize = 60;
/// States of nodes whose rows are missing, or will be.
const LACKING: [&str; 2] = ["missing", "short"];

/// All freezes.
pub fn table(freezes: &[FreezeAnswer], now: Nanos) -> Table {
    let titles = [
        ("ID", Side::Right),
        ("AGO", Side::Right),
        ("STATE", Side::Left),
        ("NODES", Side::Right),
        ("MISSING", Side::Right),
        ("SIZE", Side::Right),
        ("CAUSE", Side::Left),
    ];
    let mut table = Table::new(&titles, 6);
    for freeze in freezes {
        let joined = if freeze.joined > 0 { format!(" (and {} more)", freeze.joined) } else { String::new() };
        table.row([
            freeze.id.to_string(),
            of_span(seconds_since(&freeze.at, now)),
            freeze.state.clone(),
            freeze.nodes.to_string(),
            freeze.count(&LACKING).to_string(),
            size(freeze),
            format!("{}{joined}", cut(&freeze.cause, CAUSE_CHARS_MAX)),
        ]);
    }
    table
}

/// The size of a recording, if there is one.
fn size(freeze: &FreezeAnswer) -> String {
    match freeze.is_done() && freeze.bytes == 0 {
        true => "none".to_owned(),
        false => of_bytes(freeze.bytes as f64, ""),
    }
}

/// One freeze, with the states of its nodes.
pub fn whole(freeze: &FreezeAnswer) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        // Writing to a text cannot fail.
        let _ = writeln!(text, "{name:<9} {}", printable(&value));
    };
    line("cause", freeze.cause.clone());
    freeze.also.iter().for_each(|cause| line("and", cause.clone()));
    if freeze.joined > freeze.also.len() as u64 {
        line("joined", format!("{} causes in all", freeze.joined));
    }
    line("at", utc(Nanos((seconds(&freeze.at) * 1e9) as u64)));
    let (before, after) = (of_span(seconds(&freeze.before)), of_span(seconds(&freeze.after)));
    line("rows", format!("from {before} before to {after} after"));
    line("nodes", format!("{} ({})", cut(&freeze.asked, NODES_CHARS_MAX), freeze.nodes));
    line("state", format!("{}: {}", freeze.state, progress(freeze)));
    if let Some(time) = &freeze.marked_after {
        line("marked", format!("the last node {:.1} ms after the moment", seconds(time) * 1e3));
    }
    if let Some(time) = freeze.fetched_after.as_ref().filter(|_| freeze.is_done()) {
        line("fetched", format!("{:.1} s after the end of the time", seconds(time)));
    }
    if freeze.is_done() {
        line("size", format!("{} rows, {}", freeze.rows, size(freeze)));
    }
    if let Some(problem) = &freeze.problem {
        line("problem", problem.clone());
    }
    for FreezeGroup { state, text, nodes, .. } in freeze.groups.iter().filter(|group| !group.text.is_empty())
    {
        line(state, format!("{nodes}: {text}"));
    }
    text
}

/// `3 marked, 125 fetched`
pub fn progress(freeze: &FreezeAnswer) -> String {
    let mut states: Vec<(&str, u64)> = Vec::new();
    for group in &freeze.groups {
        match states.iter_mut().find(|(state, _)| *state == group.state) {
            Some((_, count)) => *count += group.count,
            None => states.push((&group.state, group.count)),
        }
    }
    let states: Vec<String> = states.iter().map(|(state, count)| format!("{count} {state}")).collect();
    states.join(", ")
}

/// Names the nodes that are missing on stderr. The exit code depends on them. `is_whole`: nodes with some missing rows count, too.
pub fn end(freeze: &FreezeAnswer, is_whole: bool) -> Done {
    let lacks = |group: &&FreezeGroup| {
        let is_unheard = group.state == "asked";
        is_unheard || group.state == "missing" || is_whole && group.state == "short" || !group.text.is_empty()
    };
    let mut is_partly = false;
    for FreezeGroup { text, nodes, .. } in freeze.groups.iter().filter(lacks) {
        let why = if text.is_empty() { "no answer yet" } else { text };
        remark!("{}: {}", printable(nodes), printable(why));
        is_partly = true;
    }
    if let Some(problem) = &freeze.problem {
        remark!("{}", printable(problem));
        is_partly = true;
    }
    if is_partly { Done::Partly { missing: Vec::new() } } else { Done::Wholly }
}

fn seconds(text: &str) -> f64 {
    text.parse().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn freeze() -> FreezeAnswer {
        let group = |state: &str, text: &str, nodes: &str, count| FreezeGroup {
            state: state.to_owned(),
            text: text.to_owned(),
            nodes: nodes.to_owned(),
            count,
        };
        FreezeAnswer {
            id: 7,
            state: "done".to_owned(),
            cause: "alert Hang".to_owned(),
            also: vec!["khz freeze".to_owned()],
            joined: 1,
            at: "1795435200.000000000".to_owned(),
            before: "20.000000000".to_owned(),
            after: "5.000000000".to_owned(),
            asked: "n[1-3]".to_owned(),
            nodes: 3,
            groups: vec![
                group("fetched", "", "n1", 1),
                group("short", "its ring lacks the first 3s", "n2", 1),
                group("missing", "the node is down", "n3", 1),
            ],
            rows: 500,
            bytes: 70_000,
            marked_after: Some("0.012300000".to_owned()),
            fetched_after: Some("2.500000000".to_owned()),
            problem: None,
        }
    }

    #[test]
    fn a_freeze_says_its_cause_its_times_and_why_nodes_are_missing() {
        let text = whole(&freeze());
        for part in [
            "cause     alert Hang\n",
            "and       khz freeze\n",
            "at        2026-11-23 12:00:00 UTC\n",
            "rows      from 20s before to 5.0s after\n",
            "nodes     n[1-3] (3)\n",
            "state     done: 1 fetched, 1 short, 1 missing\n",
            "marked    the last node 12.3 ms after the moment\n",
            "fetched   2.5 s after the end of the time\n",
            "short     n2: its ring lacks the first 3s\n",
            "missing   n3: the node is down\n",
        ] {
            assert!(text.contains(part), "{part}{text}");
        }
        let lines = table(&[freeze()], Nanos::from_secs(1_795_435_260)).render(Some(80));
        let line = lines.lines().nth(1).expect("a row");
        for word in ["7", "1m", "done", "3", "2", "alert Hang (and 1 more)"] {
            assert!(line.contains(word), "{word}: {line}");
        }
    }

    #[test]
    fn a_freeze_without_a_recording_says_so() {
        let freeze =
            FreezeAnswer { bytes: 0, problem: Some("its recording is missing".to_owned()), ..freeze() };
        let text = whole(&freeze);
        assert!(text.contains("size      500 rows, none\n"), "{text}");
        assert!(text.contains("problem   its recording is missing\n"), "{text}");
        let lines = table(&[freeze], Nanos::from_secs(1_795_435_260)).render(Some(80));
        assert!(lines.contains("  none  "), "{lines}");
    }

    #[test]
    fn nodes_that_are_missing_make_the_end_a_part() {
        assert_eq!(end(&freeze(), true), Done::Partly { missing: Vec::new() });
        let mut whole = freeze();
        whole.groups.truncate(1);
        assert_eq!(end(&whole, true), Done::Wholly);
    }
}
