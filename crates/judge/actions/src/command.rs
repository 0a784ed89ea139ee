//! The configured programs for one alert: their input and their results.

use std::sync::atomic::AtomicBool;

use khz_notify::Alert;
use khz_notify::program::{Ended, Program, Run, variable};
use serde_json::json;

use crate::limits::OUTPUT_BYTES_MAX;
use crate::record::{Outcome, node_of};
use crate::settings::Action;

/// What came of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Result {
    pub outcome: Outcome,
    /// A sentence about it.
    pub text: String,
    /// The same without the program's output; `None`: the text contains no output.
    pub end: Option<String>,
    /// The part of the output that is kept.
    pub output: Option<String>,
}

impl Result {
    pub fn new(outcome: Outcome, text: impl Into<String>) -> Self {
        Result { outcome, text: text.into(), end: None, output: None }
    }
}

/// An attempt: its alert and its action.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempt<'a> {
    pub action: &'a Action,
    pub alert: &'a Alert,
    pub run: u64,
    pub number: u32,
}

impl Attempt<'_> {
    /// Runs the program with these words; `keeps` its output.
    pub fn program(&self, words: &[String], keeps: bool, is_over: &AtomicBool) -> Result {
        if self.action.dry_run {
            return Result::new(Outcome::DryRun, format!("would run {}", words.join(" ")));
        }
        let timeout = self.action.timeout;
        let program = Program {
            command: words,
            variables: self.variables(),
            stdin: self.body(),
            timeout,
            output_max: OUTPUT_BYTES_MAX,
        };
        match program.run(is_over) {
            Err(problem) => Result::new(Outcome::Failed, problem.to_string()),
            Ok(run) => {
                let text = run.sentence(timeout);
                let end = Some(run.end(timeout)).filter(|end| *end != text);
                Result { outcome: outcome(&run), text, end, output: keeps.then_some(run.output) }
            }
        }
    }

    /// The node as the alert names it; may be empty.
    pub fn node(&self) -> &str {
        node_of(self.action, self.alert).unwrap_or_default()
    }

    fn variables(&self) -> Vec<(String, String)> {
        let mut all = vec![
            ("KHZ_ACTION".to_owned(), self.action.name.clone()),
            ("KHZ_ACTION_RUN".to_owned(), self.run.to_string()),
            ("KHZ_ACTION_ATTEMPT".to_owned(), self.number.to_string()),
            ("KHZ_ACTION_NODE".to_owned(), self.node().to_owned()),
            ("KHZ_ALERT_NAME".to_owned(), self.alert.name().to_owned()),
            ("KHZ_ALERT_STATUS".to_owned(), "firing".to_owned()),
        ];
        let of = |kind: &'static str| move |(name, value): (&String, &String)| variable(kind, name, value);
        all.extend(self.alert.labels.iter().filter_map(of("LABEL")));
        all.extend(self.alert.annotations.iter().filter_map(of("ANNOTATION")));
        all.iter_mut().for_each(|(_, value)| value.retain(|c| c != '\0'));
        all
    }

    fn body(&self) -> Vec<u8> {
        let Alert { labels, annotations, starts_at, generator_url, .. } = self.alert;
        let alert = json!({
            "labels": labels, "annotations": annotations, "startsAtMs": starts_at, "generatorURL": generator_url,
        });
        let body = json!({
            "action": self.action.name, "run": self.run, "attempt": self.number, "node": self.node(), "alert": alert,
        });
        format!("{body}\n").into_bytes()
    }
}

/// The meaning of a program's end.
pub(crate) fn outcome(run: &Run) -> Outcome {
    match run.ended {
        Ended::By(status) if status.success() => Outcome::Done,
        Ended::By(_) | Ended::Late => Outcome::Failed,
        Ended::Stopped => Outcome::Interrupted,
    }
}
