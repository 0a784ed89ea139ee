//! The lines below the table of nodes: what is wrong with some of them, and how many there are. Nodes with the same reason
//! share a line.

use std::io::{self, Write};

use khz_ask::{Away, NodeStatus};
use khz_model::fold::fold;
use serde_json::Value;

use super::table::span;
use crate::show::look::{Look, Tone};
use crate::show::table::{printable, wrapped};

/// `5 nodes: 2 up, 1 down, 1 left, 1 missing; 3 expected`.
pub fn summary(all: &[(NodeStatus, &Value)]) -> String {
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

/// The lines after the first one of a sentence that does not fit into one.
const INDENT: &str = "  ";
/// Terminals that are narrower have no room for an indent.
const INDENTED_MIN: usize = 20;

/// Prints a sentence. On a terminal it is broken at its width, not cut: the reason stands at the end.
pub fn line(text: &str, tone: Tone, look: &Look, out: &mut impl Write) -> io::Result<()> {
    let Some(width) = look.width else { return writeln!(out, "{}", look.painted(text, tone)) };
    let indent = if width < INDENTED_MIN { "" } else { INDENT };
    for (at, part) in wrapped(text, width - indent.len()).iter().enumerate() {
        writeln!(out, "{}{}", if at == 0 { "" } else { indent }, look.painted(part, tone))?;
    }
    Ok(())
}

/// Nodes that run lanes more slowly than readers asked for.
pub fn slowed(all: &[(NodeStatus, &Value)], look: &Look, out: &mut impl Write) -> io::Result<()> {
    let is_slowed = |status: &NodeStatus| status.lanes.iter().any(|lane| lane.slowed_from().is_some());
    let names: Vec<String> =
        all.iter().filter(|(status, _)| is_slowed(status)).map(|(status, _)| status.node.clone()).collect();
    if names.is_empty() {
        return Ok(());
    }
    let text = format!("{}: slower than asked, to stay below the CPU ceiling (cpu_max)", fold(&names));
    line(&text, Tone::Plain, look, out)
}

/// Nodes that are not at the hub that they prefer.
pub fn away(all: &[(NodeStatus, &Value)], look: &Look, out: &mut impl Write) -> io::Result<()> {
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
        let text = printable(&format!("{}: on {hub}; {first}{since}: {why}; {back}", fold(nodes)));
        line(&text, Tone::Plain, look, out)?;
    }
    Ok(())
}

/// The shorter of two spans, as decimal strings.
fn soonest(one: Option<String>, other: Option<String>) -> Option<String> {
    let seconds = |text: &String| text.parse::<f64>().unwrap_or(f64::INFINITY);
    one.into_iter().chain(other).min_by(|a, b| seconds(a).total_cmp(&seconds(b)))
}

/// Nodes whose names nothing proves.
pub fn believed(all: &[(NodeStatus, &Value)], look: &Look, out: &mut impl Write) -> io::Result<()> {
    let names: Vec<String> =
        all.iter().filter(|(status, _)| status.believed).map(|(status, _)| status.node.clone()).collect();
    if names.is_empty() {
        return Ok(());
    }
    let text = format!("names are believed, not proved (--insecure): {}", fold(&names));
    line(&text, Tone::Plain, look, out)
}

/// Why nodes are down or were refused.
pub fn problems(all: &[(NodeStatus, &Value)], look: &Look, out: &mut impl Write) -> io::Result<()> {
    let mut sentences: Vec<(&str, Vec<&str>)> = Vec::new();
    for (status, _) in all {
        let Some(problem) = status.problem.as_deref() else { continue };
        match sentences.iter_mut().find(|(text, _)| *text == problem) {
            Some((_, nodes)) => nodes.push(&status.node),
            None => sentences.push((problem, vec![&status.node])),
        }
    }
    for (problem, nodes) in sentences {
        let text = printable(&format!("{}: {problem}", fold(nodes)));
        line(&text, Tone::Bad, look, out)?;
    }
    Ok(())
}
