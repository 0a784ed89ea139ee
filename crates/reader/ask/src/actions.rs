//! What a khz says of its actions: what they are, what they have done, and what a run printed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::AskError;
use crate::server::Server;

/// Path of the actions.
const ACTIONS_PATH: &str = "/khz/v1/actions";

/// The actions, and what they have done last.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct ActionsAnswer {
    /// The actions, in the order of the configuration.
    pub actions: Vec<ActionAnswer>,
    /// Their last runs, oldest first.
    pub runs: Vec<ActionRun>,
}

/// An action, with what it counts since its khz began.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct ActionAnswer {
    /// Its name.
    pub name: String,
    /// What it does, in a word.
    pub kind: String,
    /// It only says what it would do.
    pub dry_run: bool,
    /// How often it acts within an hour, at most.
    pub per_hour: u64,
    /// Within this time it acts on one node once, in seconds.
    pub cooldown: String,
    /// Runs that did what they were to do.
    pub done: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// Runs that found nothing to do.
    pub nothing: u64,
    /// Alerts for which it did not run.
    pub held: u64,
    /// Alerts that found no room.
    pub dropped: u64,
    /// Alerts that wait.
    pub waiting: u64,
    /// Its last run.
    pub last: Option<ActionRun>,
}

/// A run of an action for an alert. Times are seconds since 1970.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct ActionRun {
    /// Its number.
    pub run: u64,
    /// The action.
    pub action: String,
    /// What it does, in a word.
    pub kind: String,
    /// The node; empty if the alert names none.
    pub node: String,
    /// The alert's labels.
    pub alert: BTreeMap<String, String>,
    /// Since when the alert fires.
    pub starts_at: String,
    /// It only says what it would do.
    pub dry_run: bool,
    /// When its last attempt began.
    pub began: String,
    /// How many attempts began.
    pub attempts: u64,
    /// When its last attempt ended; `None`: it runs.
    pub ended: Option<String>,
    /// What came of it; `None`: it runs.
    pub outcome: Option<String>,
    /// A sentence about it.
    pub text: String,
    /// What it printed is kept.
    pub output: bool,
    /// When another attempt is due, if the alert still fires then; `None`: there will be none.
    #[serde(default)]
    pub again: Option<String>,
}

impl Server {
    /// The actions. A khz of before, which knows none, is an error as any unknown path.
    ///
    /// # Errors
    /// See [`AskError`].
    pub fn actions(&self) -> Result<ActionsAnswer, AskError> {
        self.only_at_hub()?;
        self.get_json(ACTIONS_PATH)
    }

    /// What a run printed.
    ///
    /// # Errors
    /// See [`AskError`]; that nothing is kept is one that is refused.
    pub fn action_output(&self, run: u64) -> Result<String, AskError> {
        self.only_at_hub()?;
        self.get_text(&format!("{ACTIONS_PATH}/{run}/output"))
    }
}
