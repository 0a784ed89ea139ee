//! `khz nodes`: which nodes there are and how each is, as a table of at most 80 columns or as the door's own JSON.

pub mod forget;

use crate::command::target::Target;
use crate::config::{NodeFlags, ReaderFlags};
use crate::show::terminal;
use clap::{Args, Subcommand};
use std::io::Write;

use khz_ask::{Away, LaneStatus, NodeStatus, Nodes};
use khz_model::Misses;
use serde_json::Value;

use crate::command::target::AGENT_ALONE;
use crate::show::misses;
use crate::show::outcome::{Done, Outcome};
use crate::show::quantities::{of_count, of_span};
use crate::show::table::{Side, Table, cut, json_line, printable};
use khz_model::fold::{by_name, fold};

/// Stands where nothing is known.
const UNKNOWN: &str = "-";

/// Examples for `khz nodes --help`.
pub const EXAMPLES: &str = "\
Examples:
  khz nodes                         every node that the hub ever heard or
                                    expects (khz hub --nodes 'node[001-500]')
  khz nodes 'node[001-128]'         these; those that nobody knows are named,
                                    and the exit code is 3
  khz nodes --down --missing        only those that are down or were never seen;
                                    the exit code is 3 if there are any
  khz nodes forget node017          a node that will not come back
  khz nodes --json | jq .state      one object a line, for programs

States: up; down (heard once, and gone); left (gone, after it had said so: its
agent was stopped); missing (expected, and never seen). Exit codes: 0 nothing to
say, 1 failed at work, 2 wrong usage, 3 an expected node is down or missing, or
nobody knows a node that was named.";

/// `khz nodes`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct NodesFlags {
    /// Forgetting instead of listing.
    #[command(subcommand)]
    pub command: Option<NodesCommand>,
    /// Which nodes, as a hostlist or with * and ?; none means all.
    #[arg(value_name = "NODES")]
    pub hosts: Option<String>,
    /// Only those that are down: heard once, and gone without a goodbye.
    #[arg(long)]
    pub down: bool,
    /// Only those that are missing: expected, and never seen.
    #[arg(long)]
    pub missing: bool,
    /// One JSON object a line.
    #[arg(long)]
    pub json: bool,
    /// Where to ask.
    #[command(flatten)]
    pub target: Target,
    /// The settings.
    #[command(flatten)]
    pub settings: ReaderFlags,
}

/// What else can be done with nodes.
#[derive(Debug, Subcommand)]
pub enum NodesCommand {
    /// Take nodes that are gone out of the hub's memory; for operators.
    ///
    /// A node that is up cannot be forgotten, nor one that another hub tells of, nor one that is expected and was
    /// never seen. One that comes back is known again.
    #[command(after_help = forget::EXAMPLES)]
    Forget(forget::ForgetFlags),
}

/// Asks for the nodes and prints them, or has some of them forgotten.
pub fn run(flags: NodesFlags, outer: NodeFlags, out: &mut impl Write) -> Outcome {
    if let Some(NodesCommand::Forget(flags)) = flags.command {
        return forget::run(flags, outer, out);
    }
    let hosts = flags.hosts.as_deref().map(super::hosts).transpose()?;
    let (_, plan) = super::plan(flags.settings.over(outer))?;
    let found = flags.target.nodes(&plan, flags.hosts.as_deref())?;
    let misses = match &hosts {
        Some(hosts) if found.lacks(hosts) => flags.target.unknown_nodes(&plan, hosts)?,
        _ => Misses::default(),
    };
    let choice = Choice { as_json: flags.json, only_down: flags.down, only_missing: flags.missing };
    print(&found, &misses, choice, terminal::width(), out)
}

/// What to print of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Choice {
    /// One JSON object a line.
    pub as_json: bool,
    /// Only nodes that are down; any of them makes the exit code 3.
    pub only_down: bool,
    /// Only nodes that are expected and were never seen; any of them makes the exit code 3.
    pub only_missing: bool,
}

/// Prints the nodes, and how many of them are there. Exit code 3: some are down or missing that are expected or were
/// asked for by that, or nobody knows some that were named, which `misses` says.
pub fn print(
    nodes: &Nodes,
    misses: &Misses,
    choice: Choice,
    width: Option<usize>,
    out: &mut impl Write,
) -> Outcome {
    let mut all = nodes.statuses()?;
    all.sort_by(|(a, _), (b, _)| by_name(&a.node, &b.node));
    let summary = summary(&all);
    let is_chosen = |status: &NodeStatus| match (choice.only_down, choice.only_missing) {
        (false, false) => true,
        (down, missing) => down && status.is("down") || missing && status.is("missing"),
    };
    let is_filtered = choice.only_down || choice.only_missing;
    all.retain(|(status, _)| is_chosen(status));
    if choice.as_json {
        for (_, value) in &all {
            writeln!(out, "{}", json_line(value))?;
        }
    } else if !all.is_empty() {
        out.write_all(table(&all).render(width).as_bytes())?;
        problems(&all, width, out)?;
        away(&all, width, out)?;
        slowed(&all, width, out)?;
        believed(&all, width, out)?;
        writeln!(out, "{}", cut(&summary, width.unwrap_or(usize::MAX)))?;
    } else if nodes.status.is_empty() && misses.is_empty() {
        crate::show::table::remark!("no node has reported yet");
    }
    out.flush()?;
    let counts = |status: &NodeStatus| is_filtered || status.expected;
    let named = |state: &str| -> Vec<String> {
        let alike = all.iter().filter(|(status, _)| status.is(state) && counts(status));
        alike.map(|(status, _)| status.node.clone()).collect()
    };
    let (down, missing) = (named("down"), named("missing"));
    if nodes.of_agent {
        crate::show::table::remark!("{}", AGENT_ALONE);
    }
    misses::tell(misses);
    if !missing.is_empty() {
        crate::show::table::remark!("never seen: {}", fold(&missing));
    }
    // Who asks which nodes are away must not take an agent's silence for a good answer.
    let is_known = !(nodes.of_agent && is_filtered);
    match is_known && down.is_empty() && missing.is_empty() && misses.is_empty() {
        true => Ok(Done::Wholly),
        false => Ok(Done::Partly { missing: down }),
    }
}

/// `5 nodes: 2 up, 1 down, 1 left, 1 missing; 3 expected`.
fn summary(all: &[(NodeStatus, &Value)]) -> String {
    let count = |state: &str| all.iter().filter(|(status, _)| status.is(state)).count();
    let others = ["down", "left", "missing"].map(|state| (count(state), state));
    let others =
        others.iter().filter(|(count, _)| *count > 0).map(|(count, state)| format!("{count} {state}"));
    let states: Vec<String> = [format!("{} up", count("up"))].into_iter().chain(others).collect();
    let nodes = if all.len() == 1 { "node" } else { "nodes" };
    let expected = match all.iter().filter(|(status, _)| status.expected).count() {
        0 => String::new(),
        expected => format!("; {expected} expected"),
    };
    format!("{} {nodes}: {}{expected}", all.len(), states.join(", "))
}

fn table(all: &[(NodeStatus, &Value)]) -> Table {
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
        ("EXPECTED", Side::Left),
    ];
    // Where nobody says who is expected the column would say nothing.
    let has_expected = all.iter().any(|(status, _)| status.expected);
    let columns = titles.len() - usize::from(!has_expected);
    let mut table = Table::new(&titles[..columns], 0);
    for (status, _) in all {
        let sum = |count: fn(&LaneStatus) -> u64| match status.lanes.as_slice() {
            [] => UNKNOWN.to_owned(),
            lanes => of_count(lanes.iter().map(count).fold(0, u64::saturating_add)),
        };
        let row = [
            status.node.clone(),
            state(status),
            rates(&status.lanes),
            sum(|lane| lane.rows),
            sum(|lane| lane.lost),
            sum(|lane| lane.late),
            span(status.clock_offset.as_deref()),
            span(status.round_trip.as_deref()),
            status.version.clone(),
            if status.expected { "yes" } else { "no" }.to_owned(),
        ];
        table.row(row.into_iter().take(columns));
    }
    table
}

/// `up 3d`, `down 12s`: how long it is up, and when it was last heard.
fn state(status: &NodeStatus) -> String {
    let age = if status.up { status.ages.since() } else { status.ages.heard() };
    match age {
        Some(age) => format!("{} {}", status.state(), span(Some(age))),
        None => status.state().to_owned(),
    }
}

/// `1+100Hz`: of all lanes; `1+250<1000Hz` where one was to be faster.
fn rates(lanes: &[LaneStatus]) -> String {
    let Some((last, others)) = lanes.split_last() else { return UNKNOWN.to_owned() };
    let short = |lane: &LaneStatus| {
        let rate = lane.rate.trim_start_matches("every ");
        match lane.slowed_from() {
            Some(asked) => format!("{}<{asked}", rate.trim_end_matches("Hz")),
            None => rate.to_owned(),
        }
    };
    let others = others.iter().map(short).map(|rate| rate.trim_end_matches("Hz").to_owned());
    others.chain([short(last)]).collect::<Vec<_>>().join("+")
}

/// Whose lanes run slower than was asked for: one line for all.
fn slowed(all: &[(NodeStatus, &Value)], width: Option<usize>, out: &mut impl Write) -> std::io::Result<()> {
    let is_slowed = |status: &NodeStatus| status.lanes.iter().any(|lane| lane.slowed_from().is_some());
    let names: Vec<String> =
        all.iter().filter(|(status, _)| is_slowed(status)).map(|(status, _)| status.node.clone()).collect();
    if names.is_empty() {
        return Ok(());
    }
    let line = format!("{}: slower than asked, to stay below the CPU ceiling (cpu_max)", fold(&names));
    writeln!(out, "{}", cut(&line, width.unwrap_or(usize::MAX)))
}

fn span(seconds: Option<&str>) -> String {
    seconds.and_then(|text| text.parse().ok()).map_or_else(|| UNKNOWN.to_owned(), of_span)
}

/// Who is not at the hub that it would rather have: one line for all that are away for the same reason.
fn away(all: &[(NodeStatus, &Value)], width: Option<usize>, out: &mut impl Write) -> std::io::Result<()> {
    let mut lines: Vec<(Away, &str, Vec<&str>)> = Vec::new();
    for (status, _) in all {
        let (Some(away), Some(hub)) = (&status.away, &status.hub) else { continue };
        let same = |(known, at, _): &&mut (Away, &str, Vec<&str>)| {
            (&known.first, &known.problem, *at) == (&away.first, &away.problem, hub.as_str())
        };
        match lines.iter_mut().find(same) {
            Some((known, _, nodes)) => {
                known.back = soonest(known.back.take(), away.back.clone());
                nodes.push(&status.node);
            }
            None => lines.push((away.clone(), hub, vec![&status.node])),
        }
    }
    for (Away { first, problem, ages, back }, hub, nodes) in lines {
        let since = ages.since().map(|since| format!(" {} ago", span(Some(since)))).unwrap_or_default();
        let why = if problem.is_empty() { "not there".to_owned() } else { problem };
        let back = match back {
            Some(back) => format!("back at the earliest in {}", span(Some(&back))),
            None => "it stays".to_owned(),
        };
        let line = printable(&format!("{}: on {hub}; {first}{since}: {why}; {back}", fold(nodes)));
        writeln!(out, "{}", cut(&line, width.unwrap_or(usize::MAX)))?;
    }
    Ok(())
}

/// The shorter of two spans, as decimal strings.
fn soonest(one: Option<String>, other: Option<String>) -> Option<String> {
    let seconds = |text: &String| text.parse::<f64>().unwrap_or(f64::INFINITY);
    one.into_iter().chain(other).min_by(|a, b| seconds(a).total_cmp(&seconds(b)))
}

/// Whose names nobody has proved: one line for all.
fn believed(all: &[(NodeStatus, &Value)], width: Option<usize>, out: &mut impl Write) -> std::io::Result<()> {
    let names: Vec<String> =
        all.iter().filter(|(status, _)| status.believed).map(|(status, _)| status.node.clone()).collect();
    if names.is_empty() {
        return Ok(());
    }
    let line = format!("names are believed, not proved (--insecure): {}", fold(&names));
    writeln!(out, "{}", cut(&line, width.unwrap_or(usize::MAX)))
}

/// Why nodes are down or were refused: one line for all to whom the same happened.
fn problems(all: &[(NodeStatus, &Value)], width: Option<usize>, out: &mut impl Write) -> std::io::Result<()> {
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

    fn printed(answer: &str, choice: Choice) -> (String, Done) {
        let nodes: Nodes = serde_json::from_str(answer).unwrap();
        let mut out = Vec::new();
        let done = print(&nodes, &Misses::default(), choice, Some(80), &mut out).unwrap();
        (String::from_utf8(out).unwrap(), done)
    }

    #[test]
    fn lanes_that_run_slower_than_asked_are_marked_and_said_once() {
        let slowed =
            ANSWER.replace(r#""rate": "100Hz", "age""#, r#""rate": "every 128ms", "asked": "1000Hz", "age""#);
        let (text, _) = printed(&slowed, Choice::default());
        assert!(text.contains("1+128ms<1000Hz"), "{text}");
        assert!(
            text.contains("node10: slower than asked, to stay below the CPU ceiling (cpu_max)\n"),
            "{text}"
        );
        // A little slower is rounding, and an older hub does not say what was asked for.
        for same in [r#""rate": "600Hz", "asked": "1000Hz", "age""#, r#""rate": "every 128ms", "age""#] {
            let (text, _) = printed(&ANSWER.replace(r#""rate": "100Hz", "age""#, same), Choice::default());
            assert!(!text.contains('<') && !text.contains("slower"), "{text}");
        }
    }

    #[test]
    fn the_table_fits_eighty_columns_and_tells_why_nodes_are_down() {
        let (text, done) = printed(ANSWER, Choice::default());
        assert_eq!(
            text,
            "NODE    STATE        RATE  ROWS  LOST  LATE  OFFSET    RTT  VERSION\n\
             node2   down 12s        -     -     -     -       -      -  0.1.0\n\
             node9   down 2h         -     -     -     -       -      -  0.1.0\n\
             node10  up 3d     1+100Hz  267k     7     2   -12us  180us  0.1.0\n\
             node[2,9]: the connection was reset\n\
             3 nodes: 1 up, 2 down\n"
        );
        assert_eq!(done, Done::Wholly, "nobody expects them");
        assert!(text.lines().all(|line| line.chars().count() <= 80));
    }

    /// n1 is up, n2 down, n3 left, n4 missing; all but n1 are expected, as far as `expected` says.
    fn states(expected: &[&str]) -> String {
        let status = |(node, state, heard): (&str, &str, &str)| {
            format!(
                r#"{{"node":"{node}","up":{},"state":"{state}","expected":{},"heard":{heard},"since":"9.0","version":"1"}}"#,
                state == "up",
                expected.contains(&node)
            )
        };
        let all = [
            ("n1", "up", r#""0.4""#),
            ("n2", "down", r#""60.0""#),
            ("n3", "left", r#""90.0""#),
            ("n4", "missing", "null"),
        ];
        format!(r#"{{"status":[{}]}}"#, all.map(status).join(","))
    }

    #[test]
    fn expected_missing_down_and_left_are_told_apart() {
        let (text, done) = printed(&states(&["n2", "n3", "n4"]), Choice::default());
        assert_eq!(
            text,
            "NODE  STATE    RATE  ROWS  LOST  LATE  OFFSET  RTT  VERSION  EXPECTED\n\
             n1    up 9.0s     -     -     -     -       -    -  1        no\n\
             n2    down 1m     -     -     -     -       -    -  1        yes\n\
             n3    left 1m     -     -     -     -       -    -  1        yes\n\
             n4    missing     -     -     -     -       -    -  1        yes\n\
             4 nodes: 1 up, 1 down, 1 left, 1 missing; 3 expected\n"
        );
        assert_eq!(done, Done::Partly { missing: vec!["n2".to_owned()] });
    }

    #[test]
    fn expected_nodes_that_are_not_there_and_those_that_were_asked_for_are_a_partial_success() {
        let all = Choice::default();
        let down = Choice { only_down: true, ..all };
        let missing = Choice { only_missing: true, ..all };
        let both = Choice { only_down: true, only_missing: true, ..all };
        for (expected, choice, shown, is_whole) in [
            (&[][..], all, "n1 n2 n3 n4", true),
            (&["n1", "n3"], all, "n1 n2 n3 n4", true),
            (&["n2"], all, "n1 n2 n3 n4", false),
            (&["n4"], all, "n1 n2 n3 n4", false),
            (&[], down, "n2", false),
            (&["n4"], missing, "n4", false),
            (&["n4"], both, "n2 n4", false),
        ] {
            let (text, done) = printed(&states(expected), Choice { as_json: true, ..choice });
            let names: Vec<String> = text
                .lines()
                .map(|line| serde_json::from_str::<Value>(line).unwrap()["node"].as_str().unwrap().to_owned())
                .collect();
            assert_eq!((names.join(" ").as_str(), done == Done::Wholly), (shown, is_whole), "{expected:?}");
        }
        let (_, done) = printed(&states(&[]), missing);
        assert!(matches!(done, Done::Partly { .. }), "it is missing because somebody expects it");
    }

    #[test]
    fn who_is_not_at_its_first_hub_is_told_with_the_reason_and_the_time() {
        let node = |name: &str, back: &str| {
            format!(
                r#"{{"node": "{name}", "up": true, "state": "up", "expected": false, "heard": "0.4", "since": "100.0", "version": "1", "lanes": [],
                "clock_offset": null, "round_trip": null, "problem": null, "hub": "hub2",
                "away": {{"first": "hub1:7071", "problem": "silent for 2.5s", "since": "720.0", "back": {back}}}}}"#
            )
        };
        let answer = format!(r#"{{"status": [{}, {}]}}"#, node("n1", "\"240.0\""), node("n2", "\"180.0\""));
        let nodes: Nodes = serde_json::from_str(&answer).unwrap();
        let mut text = Vec::new();
        print(&nodes, &khz_model::Misses::default(), Choice::default(), None, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let expected = "n[1-2]: on hub2; hub1:7071 12m ago: silent for 2.5s; back at the earliest in 3m\n";
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn json_is_the_doors_own_object_a_line() {
        let (text, _) = printed(ANSWER, Choice { as_json: true, ..Choice::default() });
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 3);
        assert_eq!(
            (&lines[2]["node"], &lines[2]["lanes"][1]["lost"]),
            (&Value::from("node10"), &Value::from(7))
        );
        assert_eq!(lines[0]["connects"], 4, "also what the table does not show");
    }
}
