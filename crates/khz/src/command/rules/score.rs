//! `khz rules score`: how good each alerting rule of a running hub is as a warning. It computes nothing: the hub keeps the scores.

use std::io::Write;

use clap::Args;
use khz_ask::{ScoreAnswer, ScoresAnswer};
use khz_model::Nanos;
use khz_rules::lead_text;
use serde_json::json;

use crate::command::past::now;
use crate::command::target::Target;
use crate::config::{NodeFlags, ReaderFlags};
use crate::show::outcome::{Done, Failure, Outcome};
use crate::show::quantities::{of_span, seconds_since};
use crate::show::table::{Side, Table, json_line, printable, remark};
use crate::show::terminal;

/// Examples for `khz rules score --help`.
pub const EXAMPLES: &str = "\
Examples:
  khz rules score                   all alerting rules
  khz rules score MemoryRunsOut     one of them, with every count
  khz rules score --json            one object a line: all rules together, then
                                    each

When a rule fires at a node, it warns of this node for 24 hours. If it fires
there again within this time, this belongs to the same warning. The columns:

  FIRED     how often it began to fire
  WARNINGS  warnings of a node. Each is in one of the columns that follow
  DOWN      the node went down within the 24 hours, without a goodbye
  DRAINED   an action of khz drained the node, for an alert of another rule
  ACTED     an action drained the node for an alert of this very rule, so nobody
            knows what would have happened otherwise
  NOTHING   nothing happened: a false alarm, as far as khz can see
  OPEN      the 24 hours are not over
  LEAD      the time from the firing to the moment at which the node went down
            or was drained: the median, the lowest and the highest

The last line has the number of failures of nodes, and of how many of them some
rule had warned. If you name a rule, khz also prints firings when the node was
down already, firings about no node, and warnings whose result is not known,
because the node was away or no hub ran. khz does not see a node that an
operator drains by hand.";

/// `khz rules score`.
#[derive(Debug, Args)]
pub struct RulesScoreFlags {
    /// Only the rule of this name, with every count.
    #[arg(value_name = "RULE")]
    pub rule: Option<String>,
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

/// Shows the scores.
pub fn run(flags: RulesScoreFlags, outer: NodeFlags, out: &mut impl Write) -> Outcome {
    let (_, plan) = crate::command::plan(flags.settings.over(outer))?;
    let mut answer = flags.target.running(&plan)?.rule_scores()?;
    if answer.since.is_none() && answer.rules.is_empty() {
        return Err(Failure::work("this khz has no rules in use (khz hub --rules DIR)"));
    }
    if let Some(name) = &flags.rule {
        answer.rules.retain(|rule| rule.rule == *name);
        if answer.rules.is_empty() {
            return Err(Failure::work(format!("no alerting rule has the name {name:?}")));
        }
    }
    match (flags.json, &flags.rule) {
        (true, _) => objects(&answer, out)?,
        (false, Some(_)) => answer.rules.iter().try_for_each(|rule| one(rule, out))?,
        (false, None) => {
            out.write_all(table(&answer.rules).render(terminal::width()).as_bytes())?;
            writeln!(out, "\n{}", together(&answer, now()))?;
            if answer.unscored > 0 {
                remark!("{} firings found no room and are in no score", answer.unscored);
            }
        }
    }
    out.flush()?;
    Ok(Done::Wholly)
}

fn objects(answer: &ScoresAnswer, out: &mut impl Write) -> Result<(), Failure> {
    let ScoresAnswer { since, failures, foretold, drains, unscored, unforetold, rules } = answer;
    let together = json!({
        "since": since, "failures": failures, "foretold": foretold, "drains": drains, "unscored": unscored,
        "unforetold": unforetold,
    });
    writeln!(out, "{}", json_line(&together))?;
    for rule in rules {
        writeln!(out, "{}", json_line(&json!(rule)))?;
    }
    Ok(())
}

fn table(rules: &[ScoreAnswer]) -> Table {
    let numbers = ["FIRED", "WARNINGS", "DOWN", "DRAINED", "ACTED", "NOTHING", "OPEN"];
    let titles: Vec<(&str, Side)> = std::iter::once(("RULE", Side::Left))
        .chain(numbers.map(|title| (title, Side::Right)))
        .chain([("LEAD", Side::Left)])
        .collect();
    let mut table = Table::new(&titles, 0);
    for rule in rules {
        let ScoreAnswer { fired, warnings, down, drained, acted, nothing, open, .. } = rule;
        let counts = [fired, warnings, down, drained, acted, nothing, open].map(ToString::to_string);
        table.row(std::iter::once(rule.rule.clone()).chain(counts).chain([lead(rule, of_text)]));
    }
    table
}

/// `2h (40m to 5h)`
fn lead(rule: &ScoreAnswer, of: fn(&str) -> String) -> String {
    match &rule.lead {
        Some(lead) => {
            format!("{} ({} to {})", of(&lead.median), of(&lead.lowest), of(&lead.highest))
        }
        None => String::from("-"),
    }
}

fn of_text(seconds: &str) -> String {
    of_span(seconds.parse().unwrap_or(0.0))
}

fn one(rule: &ScoreAnswer, out: &mut impl Write) -> Result<(), Failure> {
    let in_words = |seconds: &str| lead_text(seconds.parse().unwrap_or(0));
    let lines = [
        ("fired", rule.fired, "how often it began to fire"),
        ("about no node", rule.elsewhere, "of these: about nothing that is a node"),
        ("late", rule.late, "the node was down already"),
        ("warnings", rule.warnings, "of a node; each ended with one of what follows"),
        ("  down", rule.down, "the node went down within 24 hours"),
        ("  drained", rule.drained, "for an alert of another rule"),
        ("  acted", rule.acted, "the node was drained for this very alert"),
        ("  nothing", rule.nothing, "nothing happened: false alarms"),
        ("  unknown", rule.unknown, "the node was away, or no hub ran"),
        ("  open", rule.open, "the 24 hours are not over"),
    ];
    writeln!(out, "{}", printable(&rule.rule))?;
    for (name, count, meaning) in lines {
        writeln!(out, "  {name:<14} {count:>6}  {meaning}")?;
    }
    writeln!(out, "  {:<14} {}", "lead", lead(rule, in_words))?;
    if let Some(last) = &rule.last {
        writeln!(out, "  {:<14} {} ago", "fired last", ago(last, now()))?;
    }
    Ok(())
}

fn ago(at: &str, now: Nanos) -> String {
    of_span(seconds_since(at, now))
}

/// The line below the table.
fn together(answer: &ScoresAnswer, now: Nanos) -> String {
    let Some(since) = answer.since.as_ref().map(|since| ago(since, now)) else {
        return String::from("this khz has only begun, and has seen no node yet");
    };
    let ScoresAnswer { failures, foretold, .. } = answer;
    let mut text = match failures {
        0 => format!("no node went down within the last {since}, since scores are kept"),
        _ => format!("{foretold} of {failures} failures of nodes within the last {since} were foretold"),
    };
    let last: Vec<String> = answer
        .unforetold
        .iter()
        .rev()
        .take(3)
        .map(|one| format!("{} ({} ago)", printable(&one.node), ago(&one.at, now)))
        .collect();
    if !last.is_empty() {
        text.push_str(&format!("; not foretold, the last ones: {}", last.join(", ")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_ask::{FailureAnswer, LeadAnswer};

    fn rule() -> ScoreAnswer {
        let lead = LeadAnswer { median: "7980".into(), lowest: "240".into(), highest: "21600".into() };
        ScoreAnswer {
            rule: "MemoryRunsOutSoon".into(),
            fired: 12,
            elsewhere: 0,
            late: 1,
            warnings: 9,
            down: 6,
            drained: 0,
            acted: 1,
            nothing: 1,
            unknown: 0,
            open: 1,
            lead: Some(lead),
            last: Some("0".into()),
        }
    }

    #[test]
    fn the_table_fits_eighty_columns_and_says_how_much_earlier() {
        let text = table(&[rule()]).render(Some(80));
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.contains("2h (4m to 6h)"), "{text}");
    }

    #[test]
    fn one_rule_has_every_count_and_all_rules_together_a_line() {
        let mut out = Vec::new();
        one(&rule(), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(
            text.contains("  late                1") && text.contains("2 h 13 min (4 min to 6 h)"),
            "{text}"
        );
        let unforetold = vec![FailureAnswer { node: "n7".into(), at: "900".into() }];
        let mut answer = ScoresAnswer {
            since: Some("400".into()),
            failures: 7,
            foretold: 6,
            drains: 1,
            unscored: 0,
            unforetold,
            rules: vec![rule()],
        };
        let now = Nanos::from_secs(1_000);
        assert_eq!(
            together(&answer, now),
            "6 of 7 failures of nodes within the last 10m were foretold; not foretold, the last ones: n7 (1m ago)"
        );
        (answer.failures, answer.unforetold) = (0, Vec::new());
        assert_eq!(together(&answer, now), "no node went down within the last 10m, since scores are kept");
        answer.since = None;
        assert_eq!(together(&answer, now), "this khz has only begun, and has seen no node yet");
    }
}
