//! `khz nodes`: which nodes there are and how each is, as a table of at most 80 columns or as the door's own JSON.

use std::io::Write;

use khz_model::Pattern;
use serde::Deserialize;
use serde_json::Value;

use crate::outcome::{Done, Failure, Outcome};
use crate::quantities::{of_count, of_span};
use crate::table::{Side, Table, cut, printable};
use khz_model::fold::{by_name, fold};

/// Stands where nothing is known.
const UNKNOWN: &str = "-";

/// The door's answer.
#[derive(Clone, Debug, Deserialize)]
pub struct Nodes {
    /// One object a node, as it came: what a newer door adds passes through.
    pub status: Vec<Value>,
}

/// How a node is. Spans are seconds, as decimal strings.
#[derive(Clone, Debug, Deserialize)]
struct Status {
    node: String,
    up: bool,
    heard: Option<String>,
    since: Option<String>,
    #[serde(default)]
    version: String,
    #[serde(default)]
    lanes: Vec<Lane>,
    clock_offset: Option<String>,
    round_trip: Option<String>,
    problem: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
struct Lane {
    rate: String,
    rows: u64,
    lost: u64,
    late: u64,
}

/// What to print of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Choice {
    /// One JSON object a line.
    pub as_json: bool,
    /// Only nodes that are down; any of them makes the exit code 3.
    pub only_down: bool,
}

/// Prints the nodes; those that `pattern` names one by one and that are unknown are missing.
pub fn print(
    nodes: &Nodes,
    pattern: Option<&Pattern>,
    choice: Choice,
    width: Option<usize>,
    out: &mut impl Write,
) -> Outcome {
    let mut all = nodes.status.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    all.sort_by(|(a, _), (b, _)| by_name(&a.node, &b.node));
    let mut missing = unknown(&all, pattern);
    if choice.only_down {
        all.retain(|(status, _)| !status.up);
        missing.extend(all.iter().map(|(status, _)| status.node.clone()));
    }
    if choice.as_json {
        for (_, value) in &all {
            writeln!(out, "{value}")?;
        }
    } else if !all.is_empty() {
        out.write_all(table(&all).render(width).as_bytes())?;
        problems(&all, width, out)?;
    } else if nodes.status.is_empty() {
        eprintln!("khz: no node has reported yet");
    }
    out.flush()?;
    if missing.is_empty() { Ok(Done::Wholly) } else { Ok(Done::Partly { missing }) }
}

fn read(value: &Value) -> Result<(Status, &Value), Failure> {
    let status = Status::deserialize(value)
        .map_err(|error| Failure::work(format!("a status that cannot be read: {error}")))?;
    Ok((status, value))
}

impl Nodes {
    /// What the pattern asks for and nobody knows: nodes that it names one by one, or the whole of it where no node is selected.
    pub fn unknown(&self, pattern: &Pattern) -> Vec<String> {
        let Ok(all) = self.status.iter().map(read).collect::<Result<Vec<_>, _>>() else { return Vec::new() };
        let is_none = all.iter().all(|(status, _)| !pattern.matches_node(&status.node));
        let wholly = pattern.nodes().filter(|_| is_none).map(|nodes| nodes.as_str().to_owned());
        match unknown(&all, Some(pattern)) {
            none if none.is_empty() => wholly.into_iter().collect(),
            some => some,
        }
    }
}

/// The nodes that the pattern names one by one and that nobody knows.
fn unknown(all: &[(Status, &Value)], pattern: Option<&Pattern>) -> Vec<String> {
    let named = pattern.and_then(|pattern| pattern.nodes()?.expand()).unwrap_or_default();
    named.into_iter().filter(|name| all.iter().all(|(status, _)| status.node != *name)).collect()
}

fn table(all: &[(Status, &Value)]) -> Table {
    let titles = [
        ("NODE", Side::Left),
        ("STATE", Side::Left),
        ("RATE", Side::Right),
        ("ROWS", Side::Right),
        ("LOST", Side::Right),
        ("LATE", Side::Right),
        ("OFFSET", Side::Right),
        ("RTT", Side::Right),
        ("VERSION", Side::Left),
    ];
    let mut table = Table::new(&titles, 0);
    for (status, _) in all {
        let sum = |count: fn(&Lane) -> u64| match status.lanes.as_slice() {
            [] => UNKNOWN.to_owned(),
            lanes => of_count(lanes.iter().map(count).fold(0, u64::saturating_add)),
        };
        table.row([
            status.node.clone(),
            state(status),
            rates(&status.lanes),
            sum(|lane| lane.rows),
            sum(|lane| lane.lost),
            sum(|lane| lane.late),
            span(status.clock_offset.as_deref()),
            span(status.round_trip.as_deref()),
            status.version.clone(),
        ]);
    }
    table
}

/// `up 3d`, `down 12s`: how long it is up, and when it was last heard.
fn state(status: &Status) -> String {
    let (word, age) = if status.up { ("up", &status.since) } else { ("down", &status.heard) };
    match age {
        Some(age) => format!("{word} {}", span(Some(age))),
        None => word.to_owned(),
    }
}

/// `1+100Hz`: of all lanes.
fn rates(lanes: &[Lane]) -> String {
    let Some((last, others)) = lanes.split_last() else { return UNKNOWN.to_owned() };
    let short = |lane: &Lane| lane.rate.trim_start_matches("every ").to_owned();
    let others = others.iter().map(short).map(|rate| rate.trim_end_matches("Hz").to_owned());
    others.chain([short(last)]).collect::<Vec<_>>().join("+")
}

fn span(seconds: Option<&str>) -> String {
    seconds.and_then(|text| text.parse().ok()).map_or_else(|| UNKNOWN.to_owned(), of_span)
}

/// Why nodes are down or were refused: one line for all to whom the same happened.
fn problems(all: &[(Status, &Value)], width: Option<usize>, out: &mut impl Write) -> std::io::Result<()> {
    let mut sentences: Vec<(&str, Vec<&str>)> = Vec::new();
    for (status, _) in all {
        let Some(problem) = status.problem.as_deref() else { continue };
        match sentences.iter_mut().find(|(text, _)| *text == problem) {
            Some((_, nodes)) => nodes.push(&status.node),
            None => sentences.push((problem, vec![&status.node])),
        }
    }
    for (problem, nodes) in sentences {
        let line = printable(&format!("{}: {problem}", fold(nodes)));
        writeln!(out, "{}", cut(&line, width.unwrap_or(usize::MAX)))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &str = r#"{"nodes": ["node10", "node2", "node9"], "status": [
        {"node": "node10", "up": true, "heard": "0.400000000", "since": "266400.000000000", "address": "192.0.2.7:40000",
         "version": "0.1.0", "clock_offset": "-0.000012345", "round_trip": "0.000180000", "retransmitted": 3, "connects": 1,
         "problem": null, "lanes": [
            {"name": "base", "rate": "1Hz", "age": "0.4", "slots": 300, "rows": 266400, "awaited": 0, "lost": 0, "late": 2},
            {"name": "boost", "rate": "100Hz", "age": "0.4", "slots": 9, "rows": 900, "awaited": 0, "lost": 7, "late": 0}]},
        {"node": "node2", "up": false, "heard": "12.300000000", "since": "9.000000000", "address": null, "version": "0.1.0",
         "lanes": [], "clock_offset": null, "round_trip": null, "retransmitted": null, "connects": 4,
         "problem": "the connection was reset"},
        {"node": "node9", "up": false, "heard": "7204.000000000", "since": "7201.000000000", "address": null, "version": "0.1.0",
         "lanes": [], "clock_offset": null, "round_trip": null, "retransmitted": null, "connects": 4,
         "problem": "the connection was reset"}], "rate_max": "1000Hz", "period_ns_min": 1000000}"#;

    fn printed(pattern: Option<&str>, choice: Choice) -> (String, Done) {
        let nodes: Nodes = serde_json::from_str(ANSWER).unwrap();
        let pattern = pattern.map(|text| Pattern::new(&format!("{text}:*")).unwrap());
        let mut out = Vec::new();
        let done = print(&nodes, pattern.as_ref(), choice, Some(80), &mut out).unwrap();
        (String::from_utf8(out).unwrap(), done)
    }

    #[test]
    fn the_table_fits_eighty_columns_and_tells_why_nodes_are_down() {
        let (text, done) = printed(None, Choice::default());
        assert_eq!(
            text,
            "NODE    STATE        RATE  ROWS  LOST  LATE  OFFSET    RTT  VERSION\n\
             node2   down 12s        -     -     -     -       -      -  0.1.0\n\
             node9   down 2h         -     -     -     -       -      -  0.1.0\n\
             node10  up 3d     1+100Hz  267k     7     2   -12us  180us  0.1.0\n\
             node[2,9]: the connection was reset\n"
        );
        assert_eq!(done, Done::Wholly, "nodes that are down were asked after, and answered for");
        assert!(text.lines().all(|line| line.chars().count() <= 80));
    }

    #[test]
    fn only_those_that_are_down_and_any_of_them_is_a_partial_success() {
        let (text, done) = printed(None, Choice { only_down: true, ..Choice::default() });
        assert_eq!(text.lines().count(), 4);
        assert_eq!(done, Done::Partly { missing: vec!["node2".to_owned(), "node9".to_owned()] });
    }

    #[test]
    fn a_node_that_is_named_and_unknown_is_missing() {
        let (_, done) = printed(Some("node[9-11]"), Choice::default());
        assert_eq!(done, Done::Partly { missing: vec!["node11".to_owned()] });
    }

    #[test]
    fn json_is_the_doors_own_object_a_line() {
        let (text, _) = printed(None, Choice { as_json: true, only_down: false });
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 3);
        assert_eq!(
            (&lines[2]["node"], &lines[2]["lanes"][1]["lost"]),
            (&Value::from("node10"), &Value::from(7))
        );
        assert_eq!(lines[0]["connects"], 4, "also what the table does not show");
    }
}
