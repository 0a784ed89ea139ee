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
    /// It did not begin: too often, too soon, or its alert was over or too large.
    Held,
    /// khz ended while it ran: nobody knows what came of it.
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
    /// The number of the alert's labels; they may have been too long for the log.
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

/// One firing of one alert, for one action: it acts once.
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

/// A failed run that is to be tried again.
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
    /// It only says what it would do.
    pub dry_run: bool,
    /// When its last attempt began, or when it was decided not to begin.
    pub began: i64,
    /// How many attempts began.
    pub attempts: u32,
    /// When its last attempt ended; `None`: it runs.
    pub ended: Option<i64>,
    /// What came of its last attempt; `None`: it runs.
    pub outcome: Option<Outcome>,
    /// A sentence about it, for operators: it may have the last line that a program printed.
    pub text: String,
    /// The same without what the program printed; `None`: it has nothing of that.
    pub end: Option<String>,
    /// Its output is kept.
    pub has_output: bool,
    /// When another attempt is due, if the alert still fires then; `None`: there will be none.
    pub again: Option<i64>,
}

impl Run {
    /// A sentence about it for somebody who may not read outputs.
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
    /// An attempt has ended, or it is known that there will be no other one. `again`: when the next one is due.
    End {
        outcome: Outcome,
        text: String,
        /// The text without what the program printed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        end: Option<String>,
        output: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        again: Option<i64>,
    },
    /// It does not begin.
    Held { text: String, about: About },
    /// The older file, which goes, said so: this has acted, and perhaps is to be tried again.
    Kept {
        key: Key,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        again: Option<Again>,
    },
}
