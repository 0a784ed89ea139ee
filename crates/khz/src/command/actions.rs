//! `khz actions`: what a hub does when alerts fire, what it has done, and what a run printed. It starts nothing.

use std::io::Write;

use clap::{Args, Subcommand};
use khz_ask::{ActionAnswer, ActionRun, ActionsAnswer};
use khz_model::Nanos;
use serde_json::json;

use crate::command::past::now;
use crate::command::target::Target;
use crate::config::{NodeFlags, ReaderFlags};
use crate::show::outcome::{Done, Outcome};
use crate::show::quantities::{of_span, seconds_since};
use crate::show::table::{Side, Table, cut, fitted, json_line, printable, remark};
use crate::show::terminal;

/// Letters of a node's or an alert's name that a table shows.
const NAME_CHARS_MAX: usize = 64;
/// Letters of what came of a run that a table shows; `--json` has all.
const TEXT_CHARS_MAX: usize = 300;

const LIST_EXAMPLES: &str = "\
Examples:
  khz actions list                  each configured action, and what it has done
  khz actions list --json           one object a line

A rule names actions in its annotation khz_actions. When its alert fires, these
actions run. docs/actions.md says how to configure actions.";

const LOG_EXAMPLES: &str = "\
Examples:
  khz actions log                   what was done, and what was held back
  khz actions log --since 1h        within the last hour
  khz actions log --json            one object a line

The hub shows its last 1,024 runs; actions.jsonl in its state directory has more.";

const OUTPUT_EXAMPLES: &str = "\
Examples:
  khz actions output 7              what run 7 printed (see: khz actions log)

Over the network you need an operator's token or certificate: docs/security.md.";

/// `khz actions`.
#[derive(Debug, Subcommand)]
pub enum ActionsCommand {
    /// List the actions of a hub: what each does, how often it may, and what it has done since the hub began.
    #[command(after_help = LIST_EXAMPLES)]
    List(ListFlags),
    /// Show what was done, for which alert, and what came of it.
    #[command(after_help = LOG_EXAMPLES)]
    Log(LogFlags),
    /// Print the output of one run, if its action keeps it (diagnose).
    #[command(after_help = OUTPUT_EXAMPLES)]
    Output(OutputFlags),
}

/// `khz actions list`.
#[derive(Debug, Args)]
pub struct ListFlags {
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

/// `khz actions log`.
#[derive(Debug, Args)]
pub struct LogFlags {
    /// Only what began within this time: 1h, 2d.
    #[arg(long, value_name = "DURATION")]
    pub since: Option<Nanos>,
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

/// `khz actions output`.
#[derive(Debug, Args)]
pub struct OutputFlags {
    /// The number of the run.
    #[arg(value_name = "RUN")]
    pub run: u64,
    /// Where to ask.
    #[command(flatten)]
    pub target: Target,
    /// The settings.
    #[command(flatten)]
    pub settings: ReaderFlags,
}

/// Runs one of them.
pub fn run(command: ActionsCommand, outer: NodeFlags, out: &mut impl Write) -> Outcome {
    match command {
        ActionsCommand::List(flags) => list(flags, outer, out),
        ActionsCommand::Log(flags) => log(flags, outer, out),
        ActionsCommand::Output(flags) => output(flags, outer, out),
    }
}

fn list(flags: ListFlags, outer: NodeFlags, out: &mut impl Write) -> Outcome {
    let ActionsAnswer { actions, .. } = asked(flags.settings, &flags.target, outer)?;
    if flags.json {
        for action in &actions {
            writeln!(out, "{}", json_line(&json!(action)))?;
        }
    } else if actions.is_empty() {
        remark!("this khz does nothing about alerts: docs/actions.md says how to configure actions");
    } else {
        write!(out, "{}", table_of_actions(&actions, now()).render(terminal::width()))?;
        out.flush()?;
        let is_older = |action: &ActionAnswer| {
            action.last.is_some() && action.done + action.nothing + action.failed + action.held == 0
        };
        if actions.iter().any(is_older) {
            remark!("the counts are those since this hub began; a LAST beside zeros is of the time before");
        }
    }
    out.flush()?;
    Ok(Done::Wholly)
}

fn log(flags: LogFlags, outer: NodeFlags, out: &mut impl Write) -> Outcome {
    let ActionsAnswer { actions, mut runs } = asked(flags.settings, &flags.target, outer)?;
    let (now, since) = (now(), flags.since);
    runs.retain(|run| since.is_none_or(|since| seconds_since(&run.began, now) <= since.0 as f64 / 1e9));
    if flags.json {
        for run in &runs {
            writeln!(out, "{}", json_line(&json!(run)))?;
        }
    } else if !runs.is_empty() {
        write!(out, "{}", table_of_runs(&runs, now).render(terminal::width()))?;
    } else if actions.is_empty() {
        remark!("this khz does nothing about alerts: docs/actions.md says how to configure actions");
    } else {
        remark!("nothing was done");
    }
    out.flush()?;
    Ok(Done::Wholly)
}

fn output(flags: OutputFlags, outer: NodeFlags, out: &mut impl Write) -> Outcome {
    let (_, plan) = crate::command::plan(flags.settings.over(outer))?;
    let text = flags.target.running(&plan)?.action_output(flags.run)?;
    for line in text.lines() {
        writeln!(out, "{}", printable(line))?;
    }
    out.flush()?;
    Ok(Done::Wholly)
}

fn asked(
    settings: ReaderFlags,
    target: &Target,
    outer: NodeFlags,
) -> Result<ActionsAnswer, crate::show::outcome::Failure> {
    let (_, plan) = crate::command::plan(settings.over(outer))?;
    Ok(target.running(&plan)?.actions()?)
}

fn table_of_actions(actions: &[ActionAnswer], now: Nanos) -> Table {
    let titles = [
        ("ACTION", Side::Left),
        ("DOES", Side::Left),
        ("AN HOUR", Side::Right),
        ("DONE", Side::Right),
        ("FAILED", Side::Right),
        ("HELD", Side::Right),
        ("WAITING", Side::Right),
        ("LAST", Side::Left),
    ];
    let mut table = Table::new(&titles, 7);
    for action in actions {
        let dry = if action.dry_run { " (dry run)" } else { "" };
        table.row([
            action.name.clone(),
            format!("{}{dry}", action.kind),
            action.per_hour.to_string(),
            (action.done + action.nothing).to_string(),
            action.failed.to_string(),
            action.held.to_string(),
            action.waiting.to_string(),
            action.last.as_ref().map(|run| last(run, now)).unwrap_or_default(),
        ]);
    }
    table
}

/// `2m ago for NodeBroken on n3: done`
fn last(run: &ActionRun, now: Nanos) -> String {
    let short = |text: &str| cut(text, NAME_CHARS_MAX);
    let place = if run.node.is_empty() { String::new() } else { format!(" on {}", short(&run.node)) };
    format!("{} ago for {}{place}: {}", ago(&run.began, now), short(alert(run)), standing(run, now))
}

fn table_of_runs(runs: &[ActionRun], now: Nanos) -> Table {
    let titles = [
        ("RUN", Side::Right),
        ("AGO", Side::Right),
        ("ACTION", Side::Left),
        ("NODE", Side::Left),
        ("ALERT", Side::Left),
        ("OUTCOME", Side::Left),
        ("WHAT", Side::Left),
    ];
    let mut table = Table::new(&titles, 6).yielding(3);
    // A label may be as long as its node wants.
    let nodes = fitted(runs.iter().map(|run| &run.node), NAME_CHARS_MAX);
    let alerts = fitted(runs.iter().map(alert), NAME_CHARS_MAX);
    for ((run, node), alert) in runs.iter().zip(nodes).zip(alerts) {
        let output = if run.output { format!(" (khz actions output {})", run.run) } else { String::new() };
        table.row([
            run.run.to_string(),
            ago(&run.began, now),
            run.action.clone(),
            node,
            alert,
            standing(run, now),
            format!("{}{output}", cut(&run.text, TEXT_CHARS_MAX)),
        ]);
    }
    table
}

fn alert(run: &ActionRun) -> &str {
    run.alert.get("alertname").map_or("", String::as_str)
}

/// What came of it so far: `failed, again in 40s`.
fn standing(run: &ActionRun, now: Nanos) -> String {
    let outcome = run.outcome.as_deref().unwrap_or("runs");
    let left = |again: &String| again.parse().map_or(0.0, |at: f64| at - now.0 as f64 / 1e9);
    match run.again.as_ref().map(left) {
        None => outcome.to_owned(),
        Some(left) if left >= 1.0 => format!("{outcome}, again in {}", of_span(left)),
        // The hub waits for its rules after a start, or for an action that runs.
        Some(_) => format!("{outcome}, again soon"),
    }
}

fn ago(time: &str, now: Nanos) -> String {
    of_span(seconds_since(time, now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_and_actions_call_the_annotation_the_same() {
        assert_eq!(khz_rules::ACTIONS_ANNOTATION, khz_actions::ANNOTATION);
    }

    #[test]
    fn a_run_is_a_line_with_what_it_was_about_and_what_came_of_it() {
        let run = ActionRun {
            run: 12,
            action: "drain-node".to_owned(),
            kind: "drain".to_owned(),
            node: "n3".to_owned(),
            alert: [("alertname".to_owned(), "NodeBroken".to_owned())].into(),
            starts_at: "90.000".to_owned(),
            dry_run: false,
            began: "100.000".to_owned(),
            attempts: 1,
            ended: Some("100.100".to_owned()),
            outcome: Some("done".to_owned()),
            text: "n3 drains: khz: NodeBroken".to_owned(),
            output: false,
            again: None,
        };
        let text = table_of_runs(std::slice::from_ref(&run), Nanos::from_secs(160)).render(Some(120));
        let line = text.lines().nth(1).unwrap();
        for word in ["12", "1m", "drain-node", "n3", "NodeBroken", "done", "n3 drains: khz: NodeBroken"] {
            assert!(line.contains(word), "{word}: {text}");
        }
        assert_eq!(last(&run, Nanos::from_secs(160)), "1m ago for NodeBroken on n3: done");
        let failed = |again: &str| {
            let (outcome, again) = (Some("failed".to_owned()), Some(again.to_owned()));
            standing(&ActionRun { outcome, again, ..run.clone() }, Nanos::from_secs(160))
        };
        assert_eq!(failed("200.000"), "failed, again in 40s");
        assert_eq!(failed("150.000"), "failed, again soon");
        // What a node or a program says does not make all lines as wide.
        let mut long = ActionRun { node: "n".repeat(300), text: "x".repeat(5_000), ..run.clone() };
        long.alert.insert("alertname".to_owned(), "A".repeat(300));
        let text = table_of_runs(&[run, long], Nanos::from_secs(160)).render(None);
        let lines: Vec<usize> = text.lines().map(|line| line.chars().count()).collect();
        assert!(lines[1] < 200 && lines[2] < 500, "{lines:?}");
    }
}
