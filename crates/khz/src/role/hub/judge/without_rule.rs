//! Alerts whose rule was removed, was changed, or gave too many alerts. People hear at once that they are resolved. They are listed
//! again for the same time as other resolved alerts, since the hub may be restarted in between.

use std::collections::BTreeSet;

use khz_promql::LabelSet;
use khz_rules::{Gone, GoneAlert, PassedAlert, RuleSet, Saved, SavedGone};

use super::passed::{LOGGED_MAX, for_people, shown_labels};

/// How often these alerts are listed (ms).
const MENTIONED_EVERY: u64 = 60_000;

/// The alerts of a hub that have no rule.
#[derive(Default)]
pub(super) struct WithoutRule {
    all: Gone,
    /// The alerts that nobody has heard of yet.
    news: Vec<GoneAlert>,
    /// When they were last listed (ms since 1970).
    mentioned: Option<i64>,
    /// When an earlier process last judged, and when this process found its remaining alerts (ms since 1970).
    restored: Option<(i64, i64)>,
}

impl WithoutRule {
    /// Takes the alerts of an earlier process that have no rule in this set. People may not have heard of them.
    pub fn restore(saved: Option<&Saved>, set: &RuleSet, now: i64) -> Self {
        let groups: Vec<_> = set.groups().cloned().collect();
        let all = saved.map(|saved| Gone::restore(saved, &groups, now)).unwrap_or_default();
        let judged_at = saved.and_then(|saved| saved.groups.iter().map(|group| group.time).max());
        WithoutRule { all, restored: judged_at.map(|at| (at, now)), ..WithoutRule::default() }
    }

    /// Nodes have come. Alerts that ended on them are listed soon, since nobody told people while the nodes were away.
    pub fn mention_again(&mut self) {
        self.mentioned = None;
    }

    /// Forgets the wanted alerts from before this process was started that another hub has taken over at this time. Returns them.
    pub fn forget_taken(&mut self, taken_at: i64, is_wanted: &dyn Fn(&LabelSet) -> bool) -> Vec<LabelSet> {
        let Some((judged_at, restored_at)) = self.restored.filter(|(judged_at, _)| taken_at > *judged_at)
        else {
            return Vec::new();
        };
        let is_meant = |one: &&GoneAlert| {
            one.alert.resolved_at.is_some_and(|at| at > judged_at && at <= restored_at)
                && is_wanted(&one.alert.labels)
        };
        let meant: Vec<LabelSet> =
            self.all.iter().filter(is_meant).map(|one| one.alert.labels.clone()).collect();
        meant.iter().for_each(|labels| self.all.remove(labels));
        self.news.retain(|one| !meant.contains(&one.alert.labels));
        meant
    }

    /// Takes alerts that have lost their rule. If another rule has a firing alert with the same labels, the alert is not over.
    pub fn add<'a>(&mut self, mut gone: Vec<GoneAlert>, firing: impl Iterator<Item = &'a LabelSet>) {
        if gone.is_empty() && self.all.is_empty() {
            return;
        }
        let mut labels: BTreeSet<LabelSet> = gone.iter().map(|one| one.alert.labels.clone()).collect();
        firing.for_each(|fires| {
            labels.remove(fires);
            self.all.remove(fires);
        });
        gone.retain(|one| labels.contains(&one.alert.labels));
        for one in gone.iter().take(LOGGED_MAX) {
            tracing::info!(
                "alert {} is resolved: its rule was removed or changed, or gave more alerts than its limit",
                shown_labels(&one.alert.labels)
            );
        }
        if let Some(more) = gone.len().checked_sub(LOGGED_MAX).filter(|more| *more > 0) {
            tracing::info!(
                "{more} more alerts are resolved: their rules were removed or changed, or gave more alerts than their limit"
            );
        }
        self.all.add(gone.iter().cloned());
        self.news.extend(gone);
    }

    /// Rules have reported these alerts, which is newer.
    pub fn heard(&mut self, alerts: &[PassedAlert]) {
        if self.all.is_empty() && self.news.is_empty() {
            return;
        }
        for passed in alerts.iter().filter(|passed| passed.alert.fired_at.is_some()) {
            self.all.remove(&passed.alert.labels);
            self.news.retain(|one| one.alert.labels != passed.alert.labels);
        }
    }

    /// The messages that are due now.
    pub fn due(&mut self, now: i64, external_url: &str) -> Vec<khz_notify::Alert> {
        let is_due = self.mentioned.is_none_or(|at| now.abs_diff(at) >= MENTIONED_EVERY);
        let text = |one: &GoneAlert| for_people(&one.alert, &one.expr, external_url);
        let news: Vec<_> = std::mem::take(&mut self.news).iter().map(text).collect();
        if !is_due {
            return news;
        }
        self.mentioned = Some(now);
        self.all.expire(now);
        // There may be more news than the list keeps.
        news.into_iter().chain(self.all.iter().map(text)).collect()
    }

    /// What outlives this process.
    pub fn save(&self) -> Vec<SavedGone> {
        self.all.save()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use khz_rules::{Alert, AlertState};

    use super::*;

    fn gone(name: &str) -> GoneAlert {
        let alert = Alert {
            state: AlertState::Inactive,
            labels: LabelSet::new([("alertname", name)]),
            annotations: Arc::from([]),
            value: 1.0,
            active_at: 1,
            fired_at: Some(1),
            fired_here_at: Some(1),
            resolved_at: Some(500),
            ended_before: None,
            went_on: false,
            keep_firing_since: None,
        };
        GoneAlert { alert: Arc::new(alert), expr: Arc::from("up == 0") }
    }

    fn names(due: &[khz_notify::Alert]) -> Vec<&str> {
        due.iter().map(khz_notify::Alert::name).collect()
    }

    #[test]
    fn what_has_lost_its_rule_is_told_at_once_and_mentioned_later_unless_it_fires_by_another_rule() {
        let mut without = WithoutRule::default();
        assert!(without.due(500, "http://hub").is_empty());
        // The first look at what is due may mention all; this one is not.
        without.mentioned = Some(500);
        let fires = gone("B").alert.labels.clone();
        without.add(vec![gone("A"), gone("B"), gone("C")], std::iter::once(&fires));
        let due = without.due(500, "http://hub");
        assert_eq!(names(&due), ["A", "C"]);
        assert_eq!((due[0].starts_at, due[0].ends_at), (1, Some(500)));
        assert!(due[0].generator_url.starts_with("http://hub/"));
        assert!(without.due(500, "").is_empty());
        let passed = |name: &str, fired_at| {
            let alert = Alert { fired_at, ..(*gone(name).alert).clone() };
            PassedAlert { rule: 0, alert: Arc::new(alert), change: None }
        };
        without.heard(&[passed("A", Some(7)), passed("C", None)]);
        without.mentioned = None;
        assert_eq!(names(&without.due(600, "")), ["C"], "a rule says something of A, and C only waits");
        without.add(Vec::new(), std::iter::once(&gone("C").alert.labels));
        assert!(without.save().is_empty());
    }
}
