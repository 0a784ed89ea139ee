//! `khz notify`: sends a test alert through the ways of the configuration, from this process, and says what came back. A running
//! hub does not take part.

use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::{Args, Subcommand};
use khz_notify::{ALERT_NAME, Alert, Answer, try_out};
use serde_json::json;

use crate::config::notify::warnings;
use crate::config::{NodeFlags, ReaderFlags};
use crate::show::outcome::{Done, Failure, Outcome, sentence};
use crate::show::table::{printable, remark};

/// Examples for `khz notify test --help`.
pub const EXAMPLES: &str = "\
Examples:
  khz notify test                   through every way that khz.toml names
  khz notify test email             through one of them
  khz notify test --resolved        the end of that alert
  khz notify test --json            an object for each way";

/// Characters of an answer that are shown: a proxy may say a whole page. `--json` has more.
const SHOWN_CHARS_MAX: usize = 200;

/// `khz notify`.
#[derive(Debug, Subcommand)]
pub enum NotifyCommand {
    /// Send a test alert through the configured ways, and say what came back.
    ///
    /// It is called khz_test. It goes out at once, from this command: a running hub neither knows of it nor counts it. An
    /// Alertmanager believes it for five minutes. Exit code 3: some of the ways did not take it.
    #[command(after_help = EXAMPLES)]
    Test(TestFlags),
}

/// `khz notify test`.
#[derive(Debug, Args)]
pub struct TestFlags {
    /// One way, by its name; all without it.
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// Send that it is resolved.
    #[arg(long)]
    pub resolved: bool,
    /// Print an object for each way.
    #[arg(long)]
    pub json: bool,
    /// The settings.
    #[command(flatten)]
    pub settings: ReaderFlags,
}

/// Runs one of the subcommands.
pub fn run(command: NotifyCommand, outer: NodeFlags, out: &mut impl Write) -> Outcome {
    let NotifyCommand::Test(flags) = command;
    let (layers, plan) = super::plan(flags.settings.over(outer))?;
    for warning in warnings(&layers.notify) {
        remark!("{warning}");
    }
    if plan.notify.ways() == 0 {
        return Err(Failure::usage("the configuration names nobody to tell: docs/notify.md says how"));
    }
    let alert = alert(plan.node.as_str(), flags.resolved);
    let answers = try_out(&plan.notify, flags.name.as_deref(), &alert);
    let answers = answers.map_err(|error| Failure::usage(sentence(&error)))?;
    let is_taken = |(_, answer): &&(String, Answer)| matches!(answer, Answer::Taken(_));
    let has_reached_some = |(_, answer): &(String, Answer)| matches!(answer, Answer::Partly { .. });
    for (way, answer) in &answers {
        if flags.json {
            let line = json!({ "way": way, "answer": word(answer), "text": answer.text() });
            writeln!(out, "{line}")?;
        } else {
            writeln!(out, "{way}: {}: {}", word(answer), shown(answer.text()))?;
        }
    }
    match answers.iter().filter(is_taken).count() {
        taken if taken == answers.len() => Ok(Done::Wholly),
        0 if !answers.iter().any(has_reached_some) => Err(Failure::Reported),
        _ => Ok(Done::Partly { missing: Vec::new() }),
    }
}

/// What the other side said, on a line that people read.
fn shown(text: &str) -> String {
    let text = printable(text);
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

fn word(answer: &Answer) -> &'static str {
    match answer {
        Answer::Taken(_) => "taken",
        Answer::Partly { .. } => "partly taken",
        Answer::Refused(_) | Answer::Unfit(_) => "refused",
        Answer::Later(..) => "not taken",
        Answer::Unknown(..) => "perhaps taken",
    }
}

fn alert(node: &str, is_resolved: bool) -> Alert {
    // A clock before 1970 is a clock that is not set.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
    let texts = |pairs: [(&str, &str); 2]| {
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).into_iter().collect()
    };
    let summary = "This is a test of khz notify; nothing is wrong.";
    Alert {
        labels: texts([(ALERT_NAME, "khz_test"), ("node", node)]),
        annotations: [("summary".to_owned(), summary.to_owned())].into(),
        starts_at: now,
        ends_at: is_resolved.then_some(now),
        ..Alert::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_a_short_line_whatever_the_receiver_says() {
        assert_eq!(shown("status 200: ok"), "status 200: ok");
        let whole = "ü".repeat(SHOWN_CHARS_MAX);
        assert_eq!(shown(&whole), whole);
        assert_eq!(shown(&format!("{whole}x")), format!("{whole}..."));
        // What is replaced counts as it is shown.
        let hostile = shown(&"\u{1b}\r\u{202e}".repeat(500));
        assert!(hostile.starts_with("??\\u202e??") && hostile.ends_with("..."), "{hostile}");
        assert_eq!(hostile.chars().count(), SHOWN_CHARS_MAX + 3);
    }
}
