//! `khz alerts`: which alerts there are at a hub, since when, and why. `alerts/show.rs` shows one with the rows around it.

mod show;

use std::collections::BTreeSet;
use std::io::Write;

use clap::{Args, Subcommand};
use khz_ask::{ActionRun, AlertAnswer, Server};
use khz_model::{Nanos, moment};
use khz_notify::ALERT_NAME;
use serde_json::json;

use crate::command::past::now;
use crate::command::target::Target;
use crate::config::{NodeFlags, ReaderFlags};
use crate::show::outcome::{Done, Outcome};
use crate::show::quantities::of_span;
use crate::show::table::{Side, Table, cut, fitted, json_line, remark};
use crate::show::terminal;

/// Labels that say where an alert is.
const INSTANCE: &str = "instance";
const JOB: &str = "job";

/// Letters of a name, a place and a reason in the table, also where no terminal cuts it: `khz alerts show` has the whole.
const NAME_CHARS_MAX: usize = 64;
const PLACE_CHARS_MAX: usize = 120;
const WHY_CHARS_MAX: usize = 200;
/// Letters of a value in the table.
const NUMBER_CHARS_MAX: usize = 12;
/// A name and a place have these percentages of a terminal at most, so that there is room for the reason, which is why people look.
const NAME_PERCENT: usize = 30;
const PLACE_PERCENT: usize = 25;
const CHARS_MIN: usize = 16;

/// Examples for `khz alerts --help`.
pub const EXAMPLES: &str = "\
Examples:
  khz alerts                        what fires, and what may fire soon
  khz alerts --firing               what fires
  khz alerts show NodeDown node7    one alert with all its texts, and the rows
                                    around its beginning
  khz alerts --json                 one object a line

STATE says for how long: `firing 5m` has fired for five minutes. `pending 2m`
has been true for two minutes, which is less than `for` of its rule.
docs/rules.md says how a hub gets rules: khz hub --rules DIR.";

/// `khz alerts`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct AlertsFlags {
    /// What to do instead of listing the alerts.
    #[command(subcommand)]
    pub command: Option<AlertsCommand>,
    /// Only alerts that fire.
    #[arg(long)]
    pub firing: bool,
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

/// What `khz alerts` does besides listing.
#[derive(Debug, Subcommand)]
pub enum AlertsCommand {
    /// Show an alert: its texts and labels, its rule, since when, and a plot that begins before it.
    #[command(after_help = show::EXAMPLES)]
    Show(show::AlertsShowFlags),
}

/// Lists the alerts.
pub fn run(flags: AlertsFlags, outer: NodeFlags, out: &mut impl Write) -> Outcome {
    if let Some(AlertsCommand::Show(flags)) = flags.command {
        return show::run(flags, outer, out);
    }
    let (_, plan) = crate::command::plan(flags.settings.over(outer))?;
    let server = flags.target.running(&plan)?;
    let answer = server.alerts()?;
    answer.warnings.iter().for_each(|warning| remark!("{warning}"));
    let mut alerts = answer.data.alerts;
    alerts.retain(|alert| !flags.firing || alert.state == "firing");
    // What fires comes first, then what is there the longest.
    alerts.sort_by(|one, other| (&one.state, &one.active_at).cmp(&(&other.state, &other.active_at)));
    let runs = runs(&server, &alerts);
    if flags.json {
        for alert in &alerts {
            let mut object = json!(alert);
            let runs = last_runs(alert, &runs);
            if let Some(run) = runs.first() {
                (object["action"], object["actions"]) = (json!(run), json!(runs));
            }
            writeln!(out, "{}", json_line(&object))?;
        }
    } else if !alerts.is_empty() {
        let width = terminal::width();
        write!(out, "{}", table(&alerts, &runs, now(), width).render(width))?;
    }
    out.flush()?;
    let known = server.rules_in_use()?;
    if known.failed > 0 {
        remark!("{} of {} rules fail: /api/v1/rules and the hub's log say why", known.failed, known.rules);
    }
    if alerts.is_empty() && !flags.json {
        match known.rules {
            0 => remark!("no alerts: this khz has no rules in use (khz hub --rules DIR)"),
            rules => remark!("no alerts, of {rules} rules"),
        }
    }
    Ok(Done::Wholly)
}

/// What was done about these alerts. A khz of before knows nothing of actions, and that is no failure.
fn runs(server: &Server, alerts: &[AlertAnswer]) -> Vec<ActionRun> {
    match alerts.iter().any(|alert| alert.annotations.contains_key(khz_actions::ANNOTATION)) {
        true => server.actions().map(|answer| answer.runs).unwrap_or_default(),
        false => Vec::new(),
    }
}

/// The last run of each action for the last firing of an alert that one of them was for, the newest first.
fn last_runs<'a>(alert: &AlertAnswer, runs: &'a [ActionRun]) -> Vec<&'a ActionRun> {
    let mut of_alert = runs.iter().rev().filter(|run| run.alert == alert.labels).peekable();
    let starts_at = of_alert.peek().map(|run| &run.starts_at);
    let (mut last, mut names) = (Vec::new(), BTreeSet::new());
    for run in of_alert.filter(|run| Some(&run.starts_at) == starts_at) {
        if names.insert(&run.action) {
            last.push(run);
        }
    }
    last
}

/// What was done about an alert, in lines: what has failed, and the last one; how many others there are.
fn done_about(runs: &[&ActionRun]) -> Vec<String> {
    let has_failed = |run: &ActionRun| matches!(run.outcome.as_deref(), Some("failed" | "interrupted"));
    let is_shown = |(number, run): &(usize, &&ActionRun)| *number == 0 || has_failed(run);
    let shown = runs.iter().enumerate().filter(is_shown);
    let mut lines: Vec<String> = shown.map(|(_, run)| done(run)).collect();
    let others = runs.len() - lines.len();
    if let Some(last) = lines.last_mut().filter(|_| others > 0) {
        *last += &format!("; {others} more, none of which failed: khz actions log");
    }
    lines
}

fn table(alerts: &[AlertAnswer], runs: &[ActionRun], now: Nanos, width: Option<usize>) -> Table {
    let chars = |percent: usize, most: usize| {
        width.map_or(most, |width| (width.saturating_mul(percent) / 100).clamp(CHARS_MIN, most))
    };
    let titles = [
        ("ALERT", Side::Left),
        ("STATE", Side::Left),
        ("VALUE", Side::Right),
        ("WHERE", Side::Left),
        ("WHY", Side::Left),
    ];
    let mut table = Table::new(&titles, 4);
    let places = places(alerts, chars(PLACE_PERCENT, PLACE_CHARS_MAX));
    let names = alerts.iter().map(|alert| alert.labels.get(ALERT_NAME).map_or("", String::as_str));
    let names = fitted(names, chars(NAME_PERCENT, NAME_CHARS_MAX));
    for ((alert, name), place) in alerts.iter().zip(names).zip(places) {
        let text = |name: &str| alert.annotations.get(name).filter(|text| !text.is_empty());
        let why = text("summary").or_else(|| text("description")).cloned().unwrap_or_default();
        table.row([name, since(alert, now), number(&alert.value), place, cut(&why, WHY_CHARS_MAX)]);
        for line in done_about(&last_runs(alert, runs)) {
            table.remark(String::new(), &line);
        }
    }
    table
}

/// The places of alerts, each in at most `most` letters.
fn places(alerts: &[AlertAnswer], most: usize) -> Vec<String> {
    let shared = shared(alerts);
    fitted(alerts.iter().map(|alert| place(alert, &shared)), most)
}

/// The labels that all of several alerts have alike.
fn shared(all: &[AlertAnswer]) -> BTreeSet<&str> {
    let [first, others @ ..] = all else { return BTreeSet::new() };
    let is_shared = |(name, value): &(&String, &String)| {
        !others.is_empty() && others.iter().all(|other| other.labels.get(*name) == Some(*value))
    };
    first.labels.iter().filter(is_shared).map(|(name, _)| name.as_str()).collect()
}

/// The labels that tell an alert from the others: the instance first, and none that they share.
fn place(alert: &AlertAnswer, shared: &BTreeSet<&str>) -> String {
    let instance = alert.labels.get_key_value(INSTANCE);
    let others = alert.labels.iter().filter(|(name, _)| {
        !matches!(name.as_str(), ALERT_NAME | INSTANCE | JOB) && !shared.contains(name.as_str())
    });
    let words: Vec<String> =
        instance.into_iter().chain(others).map(|(name, value)| format!("{name}={value}")).collect();
    words.join(" ")
}

/// `drain-node: done: n3 drains (run 4: khz actions output 4)`
fn done(run: &ActionRun) -> String {
    let ActionRun { action, run: number, text, .. } = run;
    let colon = if text.is_empty() { "" } else { ": " };
    let outcome = run.outcome.as_deref().unwrap_or("runs");
    let output = if run.output { format!(", khz actions output {number}") } else { String::new() };
    let again = if run.again.is_some() { ", another attempt is due" } else { "" };
    format!("{action}: {outcome}{colon}{} (run {number}{again}{output})", cut(text, WHY_CHARS_MAX))
}

/// What an alert does, and for how long: `firing 5m` does not count the time in which it was pending.
fn since(alert: &AlertAnswer, now: Nanos) -> String {
    match (&*alert.state, &alert.fired_at) {
        ("firing", Some(fired_at)) => format!("firing {}", age(fired_at, now)),
        // An older khz does not say since when.
        ("firing", None) => format!("firing, there {}", age(&alert.active_at, now)),
        (state, _) => format!("{state} {}", age(&alert.active_at, now)),
    }
}

/// How long it is since this date.
fn age(date: &str, now: Nanos) -> String {
    match moment::read(date, now, None) {
        Ok(time) => of_span(now.0.saturating_sub(time.0) as f64 / 1e9),
        Err(_) => date.to_owned(),
    }
}

/// A value as people read it, in at most 12 characters: `1.5e+00` is 1.5. What is longer is rounded to six digits, and says so
/// (`~59.3077`).
fn number(text: &str) -> String {
    let Ok(value) = text.parse::<f64>() else { return cut(text, NUMBER_CHARS_MAX) };
    let short = |number: &String| number.len() <= NUMBER_CHARS_MAX;
    Some(format!("{value}"))
        .filter(short)
        .or_else(|| Some(format!("{value:e}")).filter(short))
        .unwrap_or_else(|| format!("~{}", rounded(value, NUMBER_CHARS_MAX - 1)))
}

/// A value with at most six digits, in at most `chars` characters.
fn rounded(value: f64, chars: usize) -> String {
    const DIGITS: f64 = 6.0;
    let size = value.abs();
    let places = (DIGITS - 1.0 - size.log10().floor()).max(0.0) as usize;
    let plain = (1e-4..1e9).contains(&size).then(|| format!("{value:.places$}"));
    // Zeros at the end would look like digits that are known.
    let plain = plain.map(|number| match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => number,
    });
    let short = |number: &String| number.len() <= chars;
    plain
        .filter(short)
        .or_else(|| (0..=5).rev().map(|places| format!("{value:.places$e}")).find(short))
        .unwrap_or_else(|| format!("{value:.0e}"))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// An alert of n1 that is there since 10:29:01; if it fires, since a minute later.
    pub(crate) fn alert(name: &str, state: &str) -> AlertAnswer {
        AlertAnswer {
            labels: [("alertname", name), ("instance", "n1"), ("severity", "warning")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            annotations: [("summary".to_owned(), "load is 9 on n1".to_owned())].into(),
            state: state.to_owned(),
            active_at: "2026-11-21T10:29:01.000Z".to_owned(),
            fired_at: (state == "firing").then(|| "2026-11-21T10:30:01.000Z".to_owned()),
            keep_firing_since: None,
            value: "9.25e+00".to_owned(),
        }
    }

    /// A run for the alert `Busy`.
    fn run(number: u64, action: &str, starts_at: &str, outcome: &str) -> ActionRun {
        ActionRun {
            run: number,
            action: action.to_owned(),
            kind: "diagnose".to_owned(),
            node: "n1".to_owned(),
            alert: alert("Busy", "firing").labels,
            starts_at: starts_at.to_owned(),
            dry_run: false,
            began: "1.000".to_owned(),
            attempts: 1,
            ended: Some("2.000".to_owned()),
            outcome: Some(outcome.to_owned()),
            text: "exit code 0".to_owned(),
            output: true,
            again: None,
        }
    }

    #[test]
    fn what_failed_is_shown_beside_the_last_action_and_the_others_are_counted() {
        let runs = [
            run(1, "page", "1.000", "failed"),
            run(2, "look", "2.000", "failed"),
            run(3, "save", "2.000", "done"),
            run(4, "look", "2.000", "failed"),
            run(5, "note", "2.000", "interrupted"),
            run(6, "mark", "2.000", "done"),
            run(7, "drain", "2.000", "held"),
        ];
        let lines = done_about(&last_runs(&alert("Busy", "firing"), &runs));
        let expected = [
            "drain: held: exit code 0 (run 7, khz actions output 7)",
            "note: interrupted: exit code 0 (run 5, khz actions output 5)",
            "look: failed: exit code 0 (run 4, khz actions output 4); 2 more, none of which failed: khz actions log",
        ];
        assert_eq!(lines, expected);
        assert!(done_about(&last_runs(&alert("Soon", "pending"), &runs)).is_empty());
    }

    #[test]
    fn a_value_has_at_most_12_characters() {
        for (value, expected) in [
            ("9.25e+00", "9.25"),
            ("-1e+300", "-1e300"),
            ("123456789012", "123456789012"),
            ("1e+12", "1e12"),
            ("2.075", "2.075"),
            ("2.0749999999999", "~2.075"),
            ("0.1234567890123", "~0.123457"),
            ("59.307712345678", "~59.3077"),
            ("0.0009720001234", "~0.000972"),
            ("-123456789.12345", "~-123456789"),
            ("1999999.96", "1999999.96"),
            ("1999999.9612345", "~2000000"),
            ("0.00001234567890", "~1.23457e-5"),
            ("-1.2345678901234e-300", "~-1.235e-300"),
            ("-Inf", "-inf"),
            ("NaN", "NaN"),
            ("no number, but very long", "no number, …"),
        ] {
            assert_eq!(number(value), expected);
            assert!(number(value).chars().count() <= 12, "{value}");
        }
    }

    #[test]
    fn no_alert_makes_the_table_wide_where_there_is_no_terminal() {
        let mut wide = alert(&"Name".repeat(1_000), "firing");
        wide.labels.insert("label".to_owned(), "x".repeat(10_000));
        wide.annotations.insert("summary".to_owned(), "why ".repeat(10_000));
        wide.value = "-1e+300".to_owned();
        let mut other = alert("Busy", "firing");
        other.labels.insert("device".to_owned(), "sda".to_owned());
        let all = [wide, other];
        let text = table(&all, &[], Nanos(1_795_257_121_000_000_000), None).render(None);
        assert!(text.lines().all(|line| line.chars().count() < 350), "{text}");
        // A row without long texts is as short as it is without the other one.
        let places = places(&all, PLACE_CHARS_MAX);
        assert_eq!(places[0].chars().count(), crate::show::table::CHARS_CUT, "{places:?}");
        assert_eq!(places[1], "instance=n1 device=sda");
    }

    #[test]
    fn a_long_name_leaves_room_for_value_place_and_reason_in_a_terminal() {
        let all = [alert(&"LongName".repeat(10), "firing"), alert("Busy", "firing")];
        for width in [80, 100, 200] {
            let text = table(&all, &[], Nanos(1_795_257_121_000_000_000), Some(width)).render(Some(width));
            let lines: Vec<&str> = text.lines().skip(1).filter(|line| line.contains("firing")).collect();
            assert_eq!(lines.len(), 2, "{text}");
            for line in lines {
                assert!(line.chars().count() <= width, "{text}");
                for word in ["firing 2m", "9.25", "instance=n1", "load"] {
                    assert!(line.contains(word), "{word}: {text}");
                }
            }
        }
    }

    #[test]
    fn a_place_is_what_tells_an_alert_from_the_others() {
        let mut one = alert("Disk", "firing");
        one.labels.insert("device".to_owned(), "sda".to_owned());
        one.labels.insert("job".to_owned(), "node".to_owned());
        assert_eq!(
            place(&one, &shared(std::slice::from_ref(&one))),
            "instance=n1 device=sda severity=warning"
        );
        let mut other = one.clone();
        other.labels.insert("device".to_owned(), "sdb".to_owned());
        let both = [one, other];
        assert_eq!(
            [place(&both[0], &shared(&both)), place(&both[1], &shared(&both))],
            ["instance=n1 device=sda", "instance=n1 device=sdb"]
        );
    }

    #[test]
    fn an_alert_is_a_line_with_its_age_its_place_its_reason_and_its_action() {
        let older = AlertAnswer { fired_at: None, ..alert("Older", "firing") };
        let alerts = [alert("Busy", "firing"), alert("Soon", "pending"), older];
        let text =
            table(&alerts, &[run(4, "look", "1.000", "done")], Nanos(1_795_257_121_000_000_000), Some(120))
                .render(Some(120));
        for state in ["firing 2m", "pending 3m", "firing, there 3m"] {
            let line = text.lines().find(|line| line.contains(state)).unwrap_or_else(|| panic!("{text}"));
            for word in ["9.25", "instance=n1", "load is 9 on n1"] {
                assert!(line.contains(word), "{word}: {text}");
            }
        }
        assert!(text.contains("look: done: exit code 0 (run 4, khz actions output 4)"), "{text}");
    }
}
