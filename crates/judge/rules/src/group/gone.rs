//! Alerts whose rule was removed, has other labels now, or gave too many alerts. Nobody can judge them any more, so they are
//! resolved. They are listed for the same time as other resolved alerts, also over a restart, so that everybody who heard of them
//! learns of their end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use khz_promql::LabelSet;
use serde::{Deserialize, Serialize};

use super::saved::{SavedAlert, SavedGroup, SavedRule, restored, saved};
use super::{Evaluator, Saved};
use crate::alert::{Alert, AlertState, RESOLVED_KEPT};
use crate::alerts::texts_bytes;
use crate::limits::{RESOLVED_MAX, RULE_TEXTS_BYTES_MAX};
use crate::rule::Group;

/// A resolved alert that has no rule.
#[derive(Clone, Debug, PartialEq)]
pub struct GoneAlert {
    /// The alert: it has fired, and is resolved.
    pub alert: Arc<Alert>,
    /// The expression that its rule had; empty if that is not known.
    pub expr: Arc<str>,
}

/// Such an alert in a saved state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedGone {
    /// The expression that its rule had.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub expr: String,
    /// The alert.
    #[serde(flatten)]
    pub alert: SavedAlert,
}

/// The alerts of a hub that have no rule, the newest of each label set.
#[derive(Clone, Debug, Default)]
pub struct Gone {
    alerts: BTreeMap<LabelSet, GoneAlert>,
    /// Bytes of their annotations.
    texts: usize,
}

impl GoneAlert {
    /// Makes one from an alert whose rule goes at this time (ms since 1970). `None`: it has not fired, so nobody heard of it.
    pub(super) fn of(alert: &Alert, expr: &Arc<str>, now: i64) -> Option<Self> {
        alert.fired_at?;
        let mut alert = alert.clone();
        if alert.state != AlertState::Inactive {
            (alert.state, alert.resolved_at, alert.keep_firing_since) =
                (AlertState::Inactive, Some(now), None);
        }
        Some(GoneAlert { alert: Arc::new(alert), expr: expr.clone() })
    }
}

impl Gone {
    /// Restores what an earlier process left: alerts without a rule at that time, and those of groups that are not in this set.
    pub fn restore(saved: &Saved, groups: &[Arc<Group>], now: i64) -> Self {
        let known: BTreeSet<(&str, &str)> = groups.iter().map(|group| (&*group.file, &*group.name)).collect();
        let mut gone = Gone::default();
        gone.add(saved.gone.iter().filter_map(|one| one.alert(now)));
        let without_group =
            |group: &&SavedGroup| !known.contains(&(group.file.as_str(), group.name.as_str()));
        let rules = saved.groups.iter().filter(without_group).flat_map(|group| &group.rules);
        gone.add(rules.flat_map(|rule| gone_of(&rule.alerts, now)));
        gone.expire(now);
        gone
    }

    /// Adds alerts. If they are too many, the oldest are no longer listed. If their annotations are too long, they get none.
    pub fn add(&mut self, alerts: impl IntoIterator<Item = GoneAlert>) {
        for mut one in alerts {
            self.remove(&one.alert.labels.clone());
            let bytes = texts_bytes(&one.alert.annotations);
            if self.texts + bytes > RULE_TEXTS_BYTES_MAX {
                Arc::make_mut(&mut one.alert).annotations = Arc::from([]);
            }
            self.texts += texts_bytes(&one.alert.annotations);
            self.alerts.insert(one.alert.labels.clone(), one);
        }
        let Some(beyond) = self.alerts.len().checked_sub(RESOLVED_MAX + 1) else { return };
        let mut order: Vec<(Option<i64>, LabelSet)> =
            self.iter().map(|one| (one.alert.resolved_at, one.alert.labels.clone())).collect();
        order.sort_unstable();
        order.iter().take(beyond + 1).for_each(|(_, labels)| self.remove(labels));
    }

    /// An alert with these labels fires again under another rule, so it is not over.
    pub fn remove(&mut self, labels: &LabelSet) {
        if let Some(one) = self.alerts.remove(labels) {
            self.texts = self.texts.saturating_sub(texts_bytes(&one.alert.annotations));
        }
    }

    /// Forgets those that were resolved long ago.
    pub fn expire(&mut self, now: i64) {
        let is_old = |one: &GoneAlert| {
            // Somebody may have set the clock back. An end in the future is not kept for longer.
            one.alert.resolved_at.is_none_or(|at| now.abs_diff(at) > RESOLVED_KEPT.unsigned_abs())
        };
        let old: Vec<LabelSet> =
            self.iter().filter(|one| is_old(one)).map(|one| one.alert.labels.clone()).collect();
        old.iter().for_each(|labels| self.remove(labels));
    }

    /// The alerts.
    pub fn iter(&self) -> impl Iterator<Item = &GoneAlert> {
        self.alerts.values()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.alerts.is_empty()
    }

    /// What is to be saved.
    pub fn save(&self) -> Vec<SavedGone> {
        self.iter().map(|one| SavedGone { expr: one.expr.to_string(), alert: saved(&one.alert) }).collect()
    }
}

impl SavedGroup {
    /// Its fired alerts whose rules are not in this group. `None`: there is no such group.
    pub fn without_rule(&self, group: Option<&Group>, now: i64) -> Vec<GoneAlert> {
        let is_there = |of_rule: &&SavedRule| {
            let mut rules = group.into_iter().flat_map(|group| &group.rules);
            rules.any(|rule| of_rule.is_of(rule) && rule.alerting().is_some())
        };
        self.rules.iter().filter(|rule| !is_there(rule)).flat_map(|rule| gone_of(&rule.alerts, now)).collect()
    }
}

impl SavedGone {
    /// The alert. `None`: this version does not know its state.
    pub fn alert(&self, now: i64) -> Option<GoneAlert> {
        GoneAlert::of(&restored(&self.alert)?, &Arc::from(self.expr.as_str()), now)
    }
}

/// Saved alerts of a rule that is not there any more.
pub(super) fn gone_of(alerts: &[SavedAlert], now: i64) -> impl Iterator<Item = GoneAlert> {
    let none: Arc<str> = Arc::from("");
    alerts.iter().filter_map(move |alert| GoneAlert::of(&restored(alert)?, &none, now))
}

impl Evaluator {
    /// True if there are alerts for [`Evaluator::take_gone`].
    pub fn has_gone(&self) -> bool {
        !self.gone.is_empty()
    }

    /// Takes alerts that have no rule since the group was changed or restored, that are pending again since their rule has a longer
    /// `for`, or that were forgotten since their rule gave too many. Each is returned once.
    pub fn take_gone(&mut self) -> Vec<GoneAlert> {
        std::mem::take(&mut self.gone)
    }

    /// The alerts of a group that is removed at this time (ms since 1970).
    pub fn into_gone(self, now: i64) -> Vec<GoneAlert> {
        let rules = self.group.rules.iter().zip(&self.rules);
        let of = |(rule, progress): (&crate::rule::Rule, &super::Progress)| -> Vec<GoneAlert> {
            progress.alerts.iter().filter_map(|alert| GoneAlert::of(alert, &rule.expr, now)).collect()
        };
        self.gone.iter().cloned().chain(rules.flat_map(of)).collect()
    }

    /// The labels of the alerts that fire.
    pub fn firing(&self) -> impl Iterator<Item = &LabelSet> {
        let alerts = self.rules.iter().flat_map(|progress| progress.alerts.iter());
        alerts.filter(|alert| alert.state == AlertState::Firing).map(|alert| &alert.labels)
    }
}
