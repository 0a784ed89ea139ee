//! `khz nodes`: its flags, and the nodes with the status of each, as a table or as the door's own JSON.

pub mod forget;
mod lines;
mod order;
mod table;

use self::order::Order;
use crate::command::target::Target;
use crate::config::{NodeFlags, ReaderFlags};
use clap::{Args, Subcommand};
use std::io::Write;

use khz_ask::{NodeStatus, Nodes};
use khz_model::Misses;

use crate::command::target::AGENT_ALONE;
use crate::show::look::{ColorFlag, Look, Tone};
use crate::show::misses;
use crate::show::outcome::{Done, Failure, Outcome};
use crate::show::table::json_line;
use khz_model::fold::{by_name, fold};

/// Examples for `khz nodes --help`.
pub const EXAMPLES: &str = "\
Examples:
  khz nodes                         every node that the hub has ever seen or
                                    expects (khz hub --nodes 'node[001-500]')
  khz nodes 'node[001-128]'         these nodes. If the hub does not know some
                                    of them, it names them; exit code 3
  khz nodes --down --missing        only those that are down or were never seen;
                                    the exit code is 3 if there are any
  khz nodes --sort lost --top 5     those that lost most rows
  khz nodes forget node017          a node that will not come back
  khz nodes --json | jq .state      one object a line, for programs

States: up; down (seen before, and silent now); left (its agent was stopped);
missing (expected, and never seen).

Exit codes: 0 all is well, 1 an error while it worked, 2 wrong usage, 3 an
expected node is down or missing, or the hub does not know one that you named.";

/// `khz nodes`.
#[derive(Debug, Args)]
pub struct NodesFlags {
    /// Forgetting instead of listing.
    #[command(subcommand)]
    pub command: Option<NodesCommand>,
    /// Which nodes: hostlists, also with * and ?; none means all.
    #[arg(value_name = "NODES")]
    pub hosts: Vec<String>,
    /// Only nodes that are down: seen before, and silent now.
    #[arg(long)]
    pub down: bool,
    /// Only nodes that are missing: expected, and never seen.
    #[arg(long)]
    pub missing: bool,
    /// Which come first.
    #[command(flatten)]
    pub order: Order,
    /// One JSON object a line.
    #[arg(long)]
    pub json: bool,
    /// Colours.
    #[command(flatten)]
    pub color: ColorFlag,
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
    /// Make the hub forget nodes that are gone; for operators.
    ///
    /// The hub keeps a node that is up, one that another hub reports, and one that is expected and was never seen. A
    /// forgotten node that comes back is known again.
    #[command(after_help = forget::EXAMPLES)]
    Forget(forget::ForgetFlags),
}

/// Asks for the nodes and prints them, or has some of them forgotten.
pub fn run(flags: NodesFlags, outer: NodeFlags, out: &mut impl Write) -> Outcome {
    if let Some(NodesCommand::Forget(mut forget)) = flags.command {
        let has_order = flags.order != Order::default();
        if !flags.hosts.is_empty() || flags.down || flags.missing || flags.json || has_order {
            return Err(Failure::usage(
                "`khz nodes forget NODES` takes the nodes after `forget`, and nothing of a list (--down, --missing, \
                 --sort, --top, --json)",
            ));
        }
        // Settings may stand before the word, too.
        forget.target.server = forget.target.server.or(flags.target.server);
        return forget::run(forget, flags.settings.over(outer), out);
    }
    let text = (!flags.hosts.is_empty()).then(|| super::hostlist(&flags.hosts)).transpose()?;
    let hosts = text.as_deref().map(super::hosts).transpose()?;
    let (_, plan) = super::plan(flags.settings.over(outer))?;
    let found = flags.target.nodes(&plan, text.as_deref())?;
    let misses = match &hosts {
        Some(hosts) if found.lacks(hosts) => flags.target.unknown_nodes(&plan, hosts)?,
        _ => Misses::default(),
    };
    let choice = Choice {
        as_json: flags.json,
        only_down: flags.down,
        only_missing: flags.missing,
        order: flags.order,
    };
    print(&found, &misses, choice, &Look::of_stdout(flags.color.color), out)
}

/// Which nodes to print, and how.
#[derive(Clone, Copy, Debug, Default)]
pub struct Choice {
    /// One JSON object a line.
    pub as_json: bool,
    /// Only nodes that are down; any of them makes the exit code 3.
    pub only_down: bool,
    /// Only nodes that are expected and were never seen; any of them makes the exit code 3.
    pub only_missing: bool,
    /// Which come first, and how many are printed. The exit code is about all.
    pub order: Order,
}

/// Prints the nodes and their number. The exit code is 3 where expected nodes are down or missing, where `--down` or
/// `--missing` finds some, and where nobody knows a named node (`misses`).
pub fn print(nodes: &Nodes, misses: &Misses, choice: Choice, look: &Look, out: &mut impl Write) -> Outcome {
    let mut all = nodes.statuses()?;
    all.sort_by(|(a, _), (b, _)| by_name(&a.node, &b.node));
    let summary = lines::summary(&all);
    let is_chosen = |status: &NodeStatus| match (choice.only_down, choice.only_missing) {
        (false, false) => true,
        (down, missing) => down && status.is("down") || missing && status.is("missing"),
    };
    let is_filtered = choice.only_down || choice.only_missing;
    all.retain(|(status, _)| is_chosen(status));
    let mut shown = all.clone();
    choice.order.arrange(&mut shown);
    if choice.as_json {
        for (_, value) in &shown {
            writeln!(out, "{}", json_line(value))?;
        }
    } else if !all.is_empty() {
        out.write_all(table::table(&shown).draw(look).as_bytes())?;
        lines::problems(&shown, look, out)?;
        lines::away(&shown, look, out)?;
        lines::slowed(&shown, look, out)?;
        lines::believed(&shown, look, out)?;
        lines::line(&summary, Tone::Plain, look, out)?;
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
    misses::print(misses);
    if !missing.is_empty() {
        crate::show::table::remark!("never seen: {}", fold(&missing));
    }
    // An agent knows no other node: its answer does not mean that none is away.
    let is_known = !(nodes.of_agent && is_filtered);
    match is_known && down.is_empty() && missing.is_empty() && misses.is_empty() {
        true => Ok(Done::Wholly),
        false => Ok(Done::Partly { missing: down }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::order::Sort;
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
        let done = print(&nodes, &Misses::default(), choice, &Look::plain(Some(80)), &mut out).unwrap();
        (String::from_utf8(out).unwrap(), done)
    }

    #[test]
    fn lanes_that_run_slower_than_asked_are_marked_and_named_once() {
        let slowed =
            ANSWER.replace(r#""rate": "100Hz", "age""#, r#""rate": "every 128ms", "asked": "1000Hz", "age""#);
        let (text, _) = printed(&slowed, Choice::default());
        assert!(text.contains("1+128ms<1000Hz"), "{text}");
        assert!(
            text.contains("node10: slower than asked, to stay below the CPU ceiling (cpu_max)\n"),
            "{text}"
        );
        // A little slower is rounding. An older hub does not send the rate that was asked for.
        for same in [r#""rate": "600Hz", "asked": "1000Hz", "age""#, r#""rate": "every 128ms", "age""#] {
            let (text, _) = printed(&ANSWER.replace(r#""rate": "100Hz", "age""#, same), Choice::default());
            assert!(!text.contains('<') && !text.contains("slower"), "{text}");
        }
    }

    #[test]
    fn the_table_fits_eighty_columns_and_the_lines_below_say_why_nodes_are_down() {
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

    /// n1 is up, n2 down, n3 left, n4 missing; `expected` names those that are expected.
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
    fn expected_missing_down_and_left_are_different() {
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
    fn a_node_away_from_its_first_hub_has_the_reason_and_the_time() {
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
        print(&nodes, &khz_model::Misses::default(), Choice::default(), &Look::plain(None), &mut text)
            .unwrap();
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

    #[test]
    fn an_order_puts_the_worst_first_and_what_is_unknown_last() {
        let names = |sort, top| -> Vec<String> {
            let order = Order { sort: Some(sort), top };
            let (text, _) = printed(ANSWER, Choice { as_json: true, order, ..Choice::default() });
            let nodes = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["node"].clone());
            nodes.map(|node| node.as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(names(Sort::Node, None), ["node2", "node9", "node10"]);
        assert_eq!(names(Sort::State, None), ["node2", "node9", "node10"]);
        for by in [Sort::Rows, Sort::Lost, Sort::Late, Sort::Offset, Sort::Rtt] {
            assert_eq!(names(by, None), ["node10", "node2", "node9"], "{by:?}");
            assert_eq!(names(by, Some(1)), ["node10"], "{by:?}");
        }
        let all = Choice { order: Order { sort: Some(Sort::Lost), top: Some(1) }, ..Choice::default() };
        let (text, done) = printed(&states(&["n2"]), all);
        assert!(text.contains("n1 ") && !text.contains("n2 "), "{text}");
        assert_eq!(done, Done::Partly { missing: vec!["n2".to_owned()] }, "the exit code is about all");
    }

    #[test]
    fn a_narrow_terminal_keeps_the_state_and_breaks_the_reasons() {
        let nodes: Nodes = serde_json::from_str(ANSWER).unwrap();
        for width in 1..100 {
            let (mut out, look) = (Vec::new(), Look::plain(Some(width)));
            print(&nodes, &Misses::default(), Choice::default(), &look, &mut out).unwrap();
            let text = String::from_utf8(out).unwrap();
            assert!(text.lines().all(|line| crate::show::fit::columns(line) <= width), "{width}: {text}");
            assert!(width < 24 || text.contains("down 12s"), "{width}: {text}");
            let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(width < 24 || words.contains("node[2,9]: the connection was reset"), "{width}: {text}");
        }
    }

    #[test]
    fn a_terminal_shows_in_red_what_is_down() {
        let nodes: Nodes = serde_json::from_str(ANSWER).unwrap();
        let (mut out, look) = (Vec::new(), Look { has_color: true, ..Look::plain(Some(80)) });
        print(&nodes, &Misses::default(), Choice::default(), &look, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("node2   \x1b[31mdown 12s\x1b[0m "), "{text:?}");
        assert!(text.contains("node10  up 3d "), "{text:?}");
    }
}
