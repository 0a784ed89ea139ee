//! What a khz says of its rules: the alerts that there are, and loading its rule files again.

use std::collections::BTreeMap;

use khz_model::http_names::RULES_PATH;
use serde::Deserialize;

use crate::error::AskError;
use crate::server::{Server, percent_encoded};

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
    /// Since when it fires; an older khz does not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fired_at: Option<String>,
    /// Since when it fires only because of `keep_firing_for`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_firing_since: Option<String>,
    /// The value of its series.
    pub value: String,
}

/// What a khz says of its rules.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct RulesAnswer {
    /// The groups.
    pub data: RulesData,
}

/// All groups.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct RulesData {
    /// Each.
    pub groups: Vec<GroupAnswer>,
}

/// A group.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct GroupAnswer {
    /// Its name.
    pub name: String,
    /// Its file.
    pub file: String,
    /// Its rules.
    pub rules: Vec<RuleAnswer>,
}

/// A rule.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RuleAnswer {
    /// Its group.
    #[serde(skip)]
    pub group: String,
    /// Its name.
    pub name: String,
    /// Its expression.
    pub query: String,
    /// `for`, in seconds.
    pub duration: f64,
    /// Why its last evaluation failed.
    pub last_error: Option<String>,
    /// Its alerts, where they were asked for.
    pub alerts: Vec<AlertAnswer>,
    /// Who judges it; `None`: the hub, for all nodes.
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

/// What to draw of an alert.
#[derive(Clone, Debug, Deserialize)]
pub struct RulePicture {
    /// The series, as a query.
    pub query: String,
    /// How they are compared with the bound.
    pub operator: Option<String>,
    /// The number that they are compared with.
    pub bound: Option<String>,
}

/// The scores of the rules. Times are seconds.
#[derive(Clone, Debug, Deserialize)]
pub struct ScoresAnswer {
    /// Since when they are kept.
    pub since: Option<String>,
    /// Nodes that went down without saying so.
    pub failures: u64,
    /// Of these: some rule had warned of it.
    pub foretold: u64,
    /// Nodes that actions have drained.
    pub drains: u64,
    /// Firings that found no room.
    pub unscored: u64,
    /// The last failures of which no rule had warned.
    pub unforetold: Vec<FailureAnswer>,
    /// The rules, by name.
    pub rules: Vec<ScoreAnswer>,
}

/// A failure of which no rule had warned.
#[derive(Clone, Debug, Deserialize, serde::Serialize)]
pub struct FailureAnswer {
    /// The node.
    pub node: String,
    /// When it fell silent.
    pub at: String,
}

/// The score of a rule.
#[derive(Clone, Debug, Deserialize, serde::Serialize)]
pub struct ScoreAnswer {
    /// Its name.
    pub rule: String,
    /// How often it began to fire.
    pub fired: u64,
    /// Of these: about nothing that is a node.
    pub elsewhere: u64,
    /// When the node was down already.
    pub late: u64,
    /// Warnings of a node.
    pub warnings: u64,
    /// The node went down within 24 hours.
    pub down: u64,
    /// The node was drained, for another rule.
    pub drained: u64,
    /// The node was drained, for this rule.
    pub acted: u64,
    /// Nothing happened.
    pub nothing: u64,
    /// Nobody knows what happened.
    pub unknown: u64,
    /// The 24 hours are not over.
    pub open: u64,
    /// How much earlier than the failure it fired.
    pub lead: Option<LeadAnswer>,
    /// When it fired last.
    pub last: Option<String>,
}

/// Lead times.
#[derive(Clone, Debug, Deserialize, serde::Serialize)]
pub struct LeadAnswer {
    /// Of the last ones.
    pub median: String,
    /// Of all.
    pub lowest: String,
    /// Of all.
    pub highest: String,
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
        self.only_at_hub()?;
        self.get_json("/api/v1/alerts")
    }

    /// The rules, and who judges them.
    ///
    /// # Errors
    /// See [`AskError`].
    pub fn rules(&self) -> Result<RulesAnswer, AskError> {
        self.only_at_hub()?;
        self.get_json("/api/v1/rules?exclude_alerts=true")
    }

    /// The scores of the rules. A khz of before, which keeps none, is an error as any unknown path.
    ///
    /// # Errors
    /// See [`AskError`].
    pub fn rule_scores(&self) -> Result<ScoresAnswer, AskError> {
        self.only_at_hub()?;
        self.get_json(&format!("{RULES_PATH}/score"))
    }

    /// The alerting rules of this name, with their alerts.
    ///
    /// # Errors
    /// See [`AskError`].
    pub fn alert_rules(&self, name: &str) -> Result<Vec<RuleAnswer>, AskError> {
        self.only_at_hub()?;
        let name = percent_encoded(name);
        let rules: RulesAnswer = self.get_json(&format!("/api/v1/rules?type=alert&rule_name[]={name}"))?;
        let of_group = |group: GroupAnswer| {
            group.rules.into_iter().map(move |rule| RuleAnswer { group: group.name.clone(), ..rule })
        };
        Ok(rules.data.groups.into_iter().flat_map(of_group).collect())
    }

    /// What to draw of an expression: the series that it compares, of this instance only, and the number that it compares them with.
    ///
    /// # Errors
    /// See [`AskError`].
    pub fn rule_picture(&self, expr: &str, instance: Option<&str>) -> Result<RulePicture, AskError> {
        self.only_at_hub()?;
        let of = instance.map(|instance| format!("&instance={}", percent_encoded(instance)));
        let query = percent_encoded(expr);
        self.get_json(&format!("{RULES_PATH}/picture?query={query}{}", of.unwrap_or_default()))
    }

    /// How many rules there are.
    ///
    /// # Errors
    /// See [`AskError`].
    pub fn rules_in_use(&self) -> Result<RulesInUse, AskError> {
        self.only_at_hub()?;
        self.get_json(RULES_PATH)
    }

    /// Loads the rule files again.
    ///
    /// # Errors
    /// See [`AskError`]; those that are refused have the places of their errors in it.
    pub fn load_rules(&self) -> Result<RulesInUse, AskError> {
        self.only_at_hub()?;
        self.put_nothing(RULES_PATH)
    }
}
