//! The state of groups between two passes, as bytes, so that alerts go on after a restart. The format is JSON with a version.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use khz_promql::{LabelSet, put_value};
use serde::{Deserialize, Serialize};

use super::gone::{SavedGone, gone_of};
use super::{Evaluator, GoneAlert, Settings};
use crate::alert::{Alert, AlertState};
use crate::alerts::Alerts;
use crate::error::RulesError;
use crate::limits::{STATE_BYTES_MAX, STATE_READ_BYTES_MAX};
use crate::rule::{Group, Rule};

/// The version of the format.
const VERSION: u32 = 1;

/// The state of some groups.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Saved {
    khz_rules: u32,
    /// The groups.
    pub groups: Vec<SavedGroup>,
    /// The nodes that this hub has judged, where several hubs share them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// The nodes among these that are down, and when each left this hub (ms since 1970); 0: before it was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down: Option<BTreeMap<String, i64>>,
    /// Firing alerts of no node that this hub owns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub own: Vec<SavedOwn>,
    /// Silent hubs whose alerts this hub has taken over, and when (ms since 1970).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub took_over: BTreeMap<String, i64>,
    /// This hub evaluates its groups from this time on (ms since 1970). It was started, or stood still, shortly before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evaluates_from: Option<i64>,
    /// Alerts that have no rule any more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gone: Vec<SavedGone>,
}

/// A firing alert of no node that a hub owns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedOwn {
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Since when the hub owns it (ms since 1970).
    pub since: i64,
}

/// What found no room in a saved state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Alerts.
    pub alerts: usize,
    /// Series that were recorded.
    pub series: usize,
}

/// The most bytes that each group, rule and list of a saved state takes beside its texts.
const AROUND: usize = 128;

/// The state of a group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedGroup {
    /// Its file.
    pub file: String,
    /// Its name.
    pub name: String,
    /// The time of its last pass, or of a later word of a node (ms since 1970).
    pub time: i64,
    /// The group was not evaluated since its hub was restarted. Its alerts have the state of this time (ms since 1970).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restored_from: Option<i64>,
    /// Its rules, in their order. Rules without alerts and series are left out.
    pub rules: Vec<SavedRule>,
}

/// The state of a rule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedRule {
    /// Its name.
    pub name: String,
    /// Its labels, as they are written.
    pub labels: BTreeMap<String, String>,
    /// Its alerts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alerts: Vec<SavedAlert>,
    /// The series that it gave last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<BTreeMap<String, String>>,
}

/// An alert. Times are ms since 1970.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedAlert {
    /// `inactive`, `pending` or `firing`.
    pub state: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// Its value, as Prometheus prints it.
    pub value: String,
    /// See [`Alert::active_at`].
    pub active_at: i64,
    /// See [`Alert::fired_at`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fired_at: Option<i64>,
    /// See [`Alert::fired_here_at`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fired_here_at: Option<i64>,
    /// See [`Alert::resolved_at`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_at: Option<i64>,
    /// See [`Alert::ended_before`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_before: Option<i64>,
    /// See [`Alert::keep_firing_since`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_firing_since: Option<i64>,
    /// See [`Alert::went_on`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub went_on: bool,
}

impl Saved {
    /// The state of these groups.
    pub fn new(groups: Vec<SavedGroup>) -> Self {
        let (nodes, down, own, took_over, evaluates_from, gone) = Default::default();
        Saved { khz_rules: VERSION, groups, nodes, down, own, took_over, evaluates_from, gone }
    }

    /// Returns bytes that can be read again. If they would be too many, annotations are left out, since the next evaluation renews
    /// them. If they still are, only the newest alerts are kept, active before resolved ones, and then series.
    pub fn to_bytes(self) -> (Vec<u8>, LeftOut) {
        self.within(STATE_BYTES_MAX)
    }

    /// The same, with at most this many bytes.
    pub(super) fn within(mut self, most: usize) -> (Vec<u8>, LeftOut) {
        let bytes = serde_json::to_vec(&self).unwrap_or_default();
        if bytes.len() <= most {
            return (bytes, LeftOut::default());
        }
        drop(bytes);
        self.rules_mut().flat_map(|rule| &mut rule.alerts).for_each(|alert| alert.annotations.clear());
        self.gone.iter_mut().for_each(|gone| gone.alert.annotations.clear());
        let bytes = serde_json::to_vec(&self).unwrap_or_default();
        if bytes.len() <= most {
            return (bytes, LeftOut::default());
        }
        drop(bytes);
        let left_out = self.reduce(most);
        (serde_json::to_vec(&self).unwrap_or_default(), left_out)
    }

    /// Converts the times to another clock, which is ahead of the current one by this many ms.
    pub fn shift(&mut self, by: i64) {
        let moved = |time: &mut i64| *time = time.saturating_add(by);
        for group in &mut self.groups {
            moved(&mut group.time);
            group.restored_from.iter_mut().for_each(moved);
            group.rules.iter_mut().flat_map(|rule| &mut rule.alerts).for_each(|alert| alert.shift(by));
        }
        self.gone.iter_mut().for_each(|gone| gone.alert.shift(by));
        // 0 is no time.
        self.down.iter_mut().flat_map(BTreeMap::values_mut).filter(|went| **went != 0).for_each(moved);
        self.own.iter_mut().for_each(|own| moved(&mut own.since));
        self.took_over.values_mut().for_each(moved);
        self.evaluates_from.iter_mut().for_each(moved);
    }

    /// How many alerts it has.
    pub fn alerts(&self) -> usize {
        self.groups.iter().flat_map(|group| &group.rules).map(|rule| rule.alerts.len()).sum::<usize>()
            + self.gone.len()
    }

    fn rules_mut(&mut self) -> impl Iterator<Item = &mut SavedRule> {
        self.groups.iter_mut().flat_map(|group| &mut group.rules)
    }

    /// Leaves out what has no room. The newest alerts are kept.
    fn reduce(&mut self, most: usize) -> LeftOut {
        fn length<T: Serialize>(one: &T) -> usize {
            serde_json::to_vec(one).map_or(usize::MAX, |bytes| bytes.len() + 1)
        }
        let heads = self.groups.iter().map(|group| {
            let rule = |rule: &SavedRule| 2 * rule.name.len() + length(&rule.labels) + AROUND;
            let rules: usize = group.rules.iter().map(rule).sum();
            rules + 2 * (group.name.len() + group.file.len()) + AROUND
        });
        let mut room = most.saturating_sub(
            heads.sum::<usize>() + length(&self.nodes) + length(&self.down) + length(&self.own) + AROUND,
        );
        let mut left_out = LeftOut::default();
        let is_over = |alert: &SavedAlert| alert.state == AlertState::Inactive.as_str();
        let mut order: Vec<(bool, i64, usize, usize, usize)> = Vec::new();
        for (at, rule) in self.rules_mut().enumerate() {
            let place = |(number, alert): (usize, &SavedAlert)| {
                (is_over(alert), alert.active_at.saturating_neg(), at, number, length(alert))
            };
            order.extend(rule.alerts.iter().enumerate().map(place));
        }
        order.sort_unstable();
        let mut kept = BTreeSet::new();
        for (_, _, rule, number, length) in order {
            match room.checked_sub(length) {
                Some(left) => {
                    room = left;
                    kept.insert((rule, number));
                }
                None => left_out.alerts += 1,
            }
        }
        for (at, rule) in self.rules_mut().enumerate() {
            let mut number = 0..;
            rule.alerts.retain(|_| number.next().is_some_and(|number| kept.contains(&(at, number))));
            match room.checked_sub(length(&rule.series)) {
                Some(left) => room = left,
                None => left_out.series += std::mem::take(&mut rule.series).len(),
            }
        }
        let before = self.gone.len();
        self.gone.retain(|gone| {
            let left = room.checked_sub(length(gone));
            room = left.unwrap_or(room);
            left.is_some()
        });
        left_out.alerts += before - self.gone.len();
        left_out
    }

    /// Reads such bytes.
    ///
    /// # Errors
    ///
    /// Returns what is wrong with the bytes. The caller then begins without a state.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, RulesError> {
        if bytes.len() > STATE_READ_BYTES_MAX {
            return Err(RulesError::StateTooLong(bytes.len()));
        }
        let saved: Saved =
            serde_json::from_slice(bytes).map_err(|error| RulesError::State(error.to_string()))?;
        saved.check().map(|()| saved)
    }

    /// Fails if this khz does not know its version.
    ///
    /// # Errors
    ///
    /// Says which version it has.
    pub fn check(&self) -> Result<(), RulesError> {
        match self.khz_rules {
            VERSION => Ok(()),
            other => {
                Err(RulesError::State(format!("it has version {other}; this khz reads version {VERSION}")))
            }
        }
    }

    /// The state of a group.
    pub fn group(&self, group: &Group) -> Option<&SavedGroup> {
        self.groups.iter().find(|saved| *saved.file == *group.file && *saved.name == *group.name)
    }
}

impl SavedAlert {
    /// See [`Saved::shift`].
    fn shift(&mut self, by: i64) {
        let SavedAlert { fired_at, fired_here_at, resolved_at, ended_before, keep_firing_since, .. } = self;
        let others = [fired_at, fired_here_at, resolved_at, ended_before, keep_firing_since];
        for time in others.into_iter().flatten().chain([&mut self.active_at]) {
            *time = time.saturating_add(by);
        }
    }

    /// When it was last resolved, as far as known (ms since 1970). An alert that went on elsewhere has not ended.
    pub fn last_end(&self) -> Option<i64> {
        match self.state == AlertState::Inactive.as_str() {
            true => self.resolved_at.filter(|_| !self.went_on),
            false => self.ended_before,
        }
    }
}

impl SavedRule {
    /// Whether it is the state of this rule: one of the same name and labels.
    pub(super) fn is_of(&self, rule: &Rule) -> bool {
        *rule.name == *self.name && texts(rule) == self.labels
    }

    /// Whether a group has its rule.
    pub fn is_in(&self, group: &Group) -> bool {
        group.rules.iter().any(|rule| self.is_of(rule))
    }
}

impl SavedGroup {
    /// The time for which the state of its alerts was true (ms since 1970).
    pub(super) fn judged_at(&self) -> i64 {
        self.restored_from.unwrap_or(self.time)
    }
}

impl Evaluator {
    /// The state to save; `None`: nothing is known of its alerts so far.
    pub fn save(&self) -> Option<SavedGroup> {
        let time = self.last.max(self.known)?;
        let rules = self.group.rules.iter().zip(&self.rules).map(|(rule, progress)| SavedRule {
            name: rule.name.to_string(),
            labels: texts(rule),
            alerts: progress.alerts.iter().map(|alert| saved(alert)).collect(),
            series: progress.series.iter().map(plain).collect(),
        });
        // A rule that is missing has no state. With thousands of rules, this saves much: the file is written at each change.
        let rules = rules.filter(|rule| !rule.alerts.is_empty() || !rule.series.is_empty());
        let (file, name) = (self.group.file.to_string(), self.group.name.to_string());
        let restored_from = self.restored_from;
        Some(SavedGroup { file, name, time, restored_from, rules: rules.collect() })
    }

    /// Makes a group whose alerts go on from a saved state, at this time. After a pause longer than [`Settings::outage_tolerance`],
    /// they begin without a state. If the saved time lies in the future by at most the same span, the clock was set back. This
    /// counts as no pause, since an alert that begins again would act again.
    pub fn restore(group: Arc<Group>, settings: Arc<Settings>, saved: &SavedGroup, now: i64) -> Self {
        let mut evaluator = Evaluator::new(group, settings);
        let pause = now.saturating_sub(saved.time);
        let goes_on = pause.saturating_abs() <= evaluator.settings.outage_tolerance;
        let mut left: Vec<&SavedRule> = saved.rules.iter().collect();
        for (at, rule) in evaluator.group.rules.iter().enumerate() {
            let found = left.iter().position(|saved| saved.is_of(rule));
            let Some(found) = found.map(|found| left.remove(found)) else { continue };
            let progress = &mut evaluator.rules[at];
            progress.series = found.series.iter().map(|labels| LabelSet::new(labels.clone())).collect();
            let Some(hold) = rule.alerting().map(|alerting| alerting.hold) else {
                evaluator.gone.extend(gone_of(&found.alerts, now));
                continue;
            };
            if !goes_on {
                continue;
            }
            progress.alerts = alerts(found, hold, saved.time, now, &evaluator.settings);
            let unfired = progress.alerts.wait_again(hold, now);
            evaluator.gone.extend(unfired.iter().filter_map(|alert| GoneAlert::of(alert, &rule.expr, now)));
        }
        evaluator.gone.extend(left.iter().flat_map(|rule| gone_of(&rule.alerts, now)));
        let gone = left.into_iter().flat_map(|rule| &rule.series).map(|labels| LabelSet::new(labels.clone()));
        evaluator.ended = gone.collect::<BTreeSet<_>>();
        // If this process is killed before its first pass, it leaves the restored state as it is.
        evaluator.known = Some(now);
        evaluator.restored_from = goes_on.then(|| saved.judged_at());
        evaluator.measure();
        evaluator
    }
}

/// The alerts of a rule after a pause.
fn alerts(saved: &SavedRule, hold: i64, down_at: i64, now: i64, settings: &Settings) -> Alerts {
    let mut alerts = Alerts::default();
    for alert in &saved.alerts {
        let Some(mut alert) = restored(alert) else { continue };
        if alert.state == AlertState::Pending {
            alert.active_at = active_since(alert.active_at, hold, down_at, now, settings.grace);
        }
        alerts.put(alert);
    }
    alerts
}

/// Since when a pending alert counts as active after a pause, by Prometheus' rules. The pause does not count. An alert with less
/// than the grace time left waits for the grace time, since much data is still coming in.
pub(super) fn active_since(active_at: i64, hold: i64, down_at: i64, now: i64, grace: i64) -> i64 {
    let left = hold.saturating_sub(down_at.saturating_sub(active_at));
    if left <= 0 {
        active_at
    } else if hold < grace {
        now
    } else if left < grace {
        now.saturating_add(grace).saturating_sub(hold)
    } else {
        active_at.saturating_add(now.saturating_sub(down_at))
    }
}

pub(super) fn texts(rule: &Rule) -> BTreeMap<String, String> {
    rule.label_texts().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn plain(labels: &LabelSet) -> BTreeMap<String, String> {
    labels.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

pub(super) fn saved(alert: &Alert) -> SavedAlert {
    let mut value = String::new();
    put_value(&mut value, alert.value);
    SavedAlert {
        state: alert.state.as_str().to_owned(),
        labels: plain(&alert.labels),
        annotations: alert.annotations.iter().map(|(name, text)| (name.to_string(), text.clone())).collect(),
        value,
        active_at: alert.active_at,
        fired_at: alert.fired_at,
        fired_here_at: alert.fired_here_at,
        resolved_at: alert.resolved_at,
        ended_before: alert.ended_before,
        keep_firing_since: alert.keep_firing_since,
        went_on: alert.went_on,
    }
}

/// `None`: this version does not know the state.
pub(super) fn restored(saved: &SavedAlert) -> Option<Alert> {
    let states = [AlertState::Inactive, AlertState::Pending, AlertState::Firing];
    Some(Alert {
        state: states.into_iter().find(|state| state.as_str() == saved.state)?,
        labels: LabelSet::new(saved.labels.clone()),
        annotations: saved
            .annotations
            .iter()
            .map(|(name, text)| (Arc::from(&**name), text.clone()))
            .collect(),
        value: saved.value.parse().unwrap_or(f64::NAN),
        active_at: saved.active_at,
        fired_at: saved.fired_at,
        fired_here_at: saved.fired_here_at,
        resolved_at: saved.resolved_at,
        ended_before: saved.ended_before,
        keep_firing_since: saved.keep_firing_since,
        went_on: saved.went_on,
    })
}
