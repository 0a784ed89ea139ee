//! What a khz says of its rules: the alerts that there are, and loading its rule files again.

use std::collections::BTreeMap;

use khz_model::http_names::RULES_PATH;
use serde::Deserialize;

use crate::error::AskError;
use crate::server::Server;

/// The alerts of a khz.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Alerts {
    /// What it found.
    pub data: AlertsData,
    /// What one should know, such as rule files that are refused.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// The list.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct AlertsData {
    /// The alerts.
    pub alerts: Vec<AlertAnswer>,
}

/// An alert.
#[derive(Clone, Debug, Deserialize, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AlertAnswer {
    /// What it is known by, `alertname` among them.
    pub labels: BTreeMap<String, String>,
    /// What people read.
    pub annotations: BTreeMap<String, String>,
    /// `pending` or `firing`.
    pub state: String,
    /// Since when its series is there.
    pub active_at: String,
    /// Since when it fires only because of `keep_firing_for`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_firing_since: Option<String>,
    /// The value of its series.
    pub value: String,
}

/// What a hub says of its rules.
#[derive(Clone, Debug, Deserialize)]
pub struct RulesAnswer {
    /// The groups.
    pub data: RulesData,
}

/// All groups.
#[derive(Clone, Debug, Deserialize)]
pub struct RulesData {
    /// Each.
    pub groups: Vec<GroupAnswer>,
}

/// A group.
#[derive(Clone, Debug, Deserialize)]
pub struct GroupAnswer {
    /// Its name.
    pub name: String,
    /// Its file.
    pub file: String,
    /// Its rules.
    pub rules: Vec<RuleAnswer>,
}

/// A rule.
#[derive(Clone, Debug, Deserialize)]
pub struct RuleAnswer {
    /// Its name.
    pub name: String,
    /// Who judges it; `None`: the hub, for all nodes.
    #[serde(default)]
    pub judged: Option<JudgedAnswer>,
}

/// Who judges a rule.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct JudgedAnswer {
    /// On how many nodes these do by themselves.
    pub nodes: u64,
    /// On how many the hub does.
    pub hub: u64,
}

/// How many rules are in use.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct RulesInUse {
    /// Groups.
    pub groups: u64,
    /// Rules.
    pub rules: u64,
    /// Rules whose last evaluation failed; not known when files were loaded.
    #[serde(default)]
    pub failed: u64,
}

impl Server {
    /// The alerts that there are.
    ///
    /// # Errors
    /// See [`AskError`].
    pub fn alerts(&self) -> Result<Alerts, AskError> {
        self.get_json("/api/v1/alerts")
    }

    /// The rules, and who judges them.
    ///
    /// # Errors
    /// See [`AskError`].
    pub fn rules(&self) -> Result<RulesAnswer, AskError> {
        self.get_json("/api/v1/rules?exclude_alerts=true")
    }

    /// How many rules there are.
    ///
    /// # Errors
    /// See [`AskError`].
    pub fn rules_in_use(&self) -> Result<RulesInUse, AskError> {
        self.get_json(RULES_PATH)
    }

    /// Loads the rule files again.
    ///
    /// # Errors
    /// See [`AskError`]; those that are refused have the places of their errors in it.
    pub fn load_rules(&self) -> Result<RulesInUse, AskError> {
        self.put_nothing(RULES_PATH)
    }
}
