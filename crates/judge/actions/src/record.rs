//! A run of an action for an alert, as people see it and as the log has it.

use khz_notify::{ALERT_NAME, Alert, Labels};
use serde::{Deserialize, Serialize};

use crate::limits::LABELS_BYTES_MAX;
use crate::settings::Action;

/// What came of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It was done.
    Done,
    /// It was written down what would have been done.
    DryRun,
    /// There was nothing to do.
    Nothing,
    /// It failed.
    Failed,
    /// The run did not begin: too often, too soon, or its alert was over or too large.
    Held,
    /// khz ended during the run, so its result is unknown.
    Interrupted,
}

impl Outcome {
    /// The word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Outcome::Done => "done",
            Outcome::DryRun => "dry_run",
            Outcome::Nothing => "nothing",
            Outcome::Failed => "failed",
            Outcome::Held => "held",
            Outcome::Interrupted => "interrupted",
        }
    }
}

/// What a run is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct About {
    pub action: String,
    pub kind: String,
    pub node: String,
    pub alert: Labels,
    /// The fingerprint of the alert's labels, which may have been too long for the log.
    pub fingerprint: u64,
    pub starts_at: i64,
    pub dry_run: bool,
}

impl About {
    pub fn new(action: &Action, alert: &Alert) -> Self {
        let all = &alert.labels;
        let bytes: usize = all.iter().map(|(name, value)| name.len() + value.len()).sum();
        let is_short = |text: &str| text.len() <= LABELS_BYTES_MAX / 4;
        let mut labels = all.clone();
        if bytes > LABELS_BYTES_MAX {
            labels
                .retain(|name, value| (name == ALERT_NAME || *name == action.node_label) && is_short(value));
        }
        About {
            action: action.name.clone(),
            kind: action.kind.word().to_owned(),
            node: node_of(action, alert).filter(|node| is_short(node)).unwrap_or_default().to_owned(),
            alert: labels,
            fingerprint: alert.fingerprint(&Labels::new()),
            starts_at: alert.starts_at,
            dry_run: action.dry_run,
        }
    }

    pub fn key(&self) -> Key {
        Key { action: self.action.clone(), fingerprint: self.fingerprint, starts_at: self.starts_at }
    }
}

/// The node that an alert is about.
pub(crate) fn node_of<'a>(action: &Action, alert: &'a Alert) -> Option<&'a str> {
    alert
        .labels
        .get(&action.node_label)
        .map(|label| crate::host::host_of(label))
        .filter(|node| !node.is_empty())
}

/// One firing of one alert, for one action, which runs once.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Key {
    pub action: String,
    pub fingerprint: u64,
    pub starts_at: i64,
}

impl Key {
    pub fn new(action: &str, alert: &Alert) -> Self {
        let fingerprint = alert.fingerprint(&Labels::new());
        Key { action: action.to_owned(), fingerprint, starts_at: alert.starts_at }
    }
}

/// A failed run with a due retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Again {
    pub run: u64,
    /// How many attempts there were.
    pub attempts: u32,
    /// When the next one is due (ms since 1970).
    pub at: i64,
}

/// A run. Times are in ms since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Its number, by which people ask for its output.
    pub id: u64,
    /// The action.
    pub action: String,
    /// What the action does, in a word.
    pub kind: String,
    /// The node; empty if the alert names none.
    pub node: String,
    /// The alert's labels.
    pub alert: Labels,
    /// Since when the alert fires.
    pub starts_at: i64,
    /// The action only says what it would do.
    pub dry_run: bool,
    /// When its last attempt began, or when it was refused.
    pub began: i64,
    /// How many attempts began.
    pub attempts: u32,
    /// When its last attempt ended; `None`: it runs.
    pub ended: Option<i64>,
    /// The result of its last attempt; `None`: it runs.
    pub outcome: Option<Outcome>,
    /// A sentence about it, for operators: it may have the last line that a program printed.
    pub text: String,
    /// The same without the program's output; `None`: the text contains no output.
    pub end: Option<String>,
    /// Its output is kept.
    pub has_output: bool,
    /// When another attempt is due, if the alert still fires then; `None`: there will be none.
    pub again: Option<i64>,
}

impl Run {
    /// A sentence about it for readers who may not see outputs.
    pub fn text_for_readers(&self) -> &str {
        self.end.as_deref().unwrap_or(&self.text)
    }
}

/// A line of the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Line {
    /// Ms since 1970.
    pub at: i64,
    /// The number of the run; 0 if there is none.
    pub run: u64,
    #[serde(flatten)]
    pub event: Event,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum Event {
    /// An attempt begins now.
    Begin { attempt: u32, about: About },
    /// An attempt has ended, or no further attempt will follow. `again`: when the next one is due.
    End {
        outcome: Outcome,
        text: String,
        /// The text without the program's output.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        end: Option<String>,
        output: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        again: Option<i64>,
    },
    /// It does not begin.
    Held { text: String, about: About },
    /// An entry from the older file, which is removed: this action has run, and a retry may be due.
    Kept {
        key: Key,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        again: Option<Again>,
    },
}
