//! Alerts whose rule was removed or changed: people are told at once that they are resolved. They are mentioned again while others
//! that were resolved are, since a restart of the hub may have come in between.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use khz_promql::{LabelSet, label_text};
use khz_rules::{Gone, GoneAlert, PassedAlert, RuleSet, Saved, SavedGone};

use super::passed::{LOGGED_MAX, for_people};

/// How often they are mentioned.
const MENTIONED_EVERY: Duration = Duration::from_secs(60);

/// The alerts of a hub that have no rule.
#[derive(Default)]
pub(super) struct WithoutRule {
    all: Gone,
    /// Those of which nobody was told.
    news: Vec<GoneAlert>,
    mentioned: Option<Instant>,
}

impl WithoutRule {
    /// What an earlier process left behind that has no rule in this set. Nobody may have been told.
    pub fn restore(saved: Option<&Saved>, set: &RuleSet, now: i64) -> Self {
        let groups: Vec<_> = set.groups().cloned().collect();
        let all = saved.map(|saved| Gone::restore(saved, &groups, now)).unwrap_or_default();
        WithoutRule { all, ..WithoutRule::default() }
    }

    /// Takes alerts that have lost their rule, except those whose labels another rule's firing alerts have.
    pub fn add<'a>(&mut self, mut gone: Vec<GoneAlert>, firing: impl Iterator<Item = &'a LabelSet>) {
        if gone.is_empty() {
            return;
        }
        let mut labels: BTreeSet<LabelSet> = gone.iter().map(|one| one.alert.labels.clone()).collect();
        firing.for_each(|fires| _ = labels.remove(fires));
        gone.retain(|one| labels.contains(&one.alert.labels));
        for one in gone.iter().take(LOGGED_MAX) {
            tracing::info!(
                "alert {} is resolved: its rule was removed or changed",
                label_text(&one.alert.labels)
            );
        }
        if let Some(more) = gone.len().checked_sub(LOGGED_MAX).filter(|more| *more > 0) {
            tracing::info!("{more} more alerts are resolved: their rules were removed or changed");
        }
        self.all.add(gone.iter().cloned());
        self.news.extend(gone);
    }

    /// Rules say something of these alerts, which is newer.
    pub fn heard(&mut self, alerts: &[PassedAlert]) {
        if self.all.is_empty() && self.news.is_empty() {
            return;
        }
        for passed in alerts.iter().filter(|passed| passed.alert.fired_at.is_some()) {
            self.all.remove(&passed.alert.labels);
            self.news.retain(|one| one.alert.labels != passed.alert.labels);
        }
    }

    /// What people are to be told now.
    pub fn due(&mut self, now: i64, external_url: &str) -> Vec<khz_notify::Alert> {
        let is_due = self.mentioned.is_none_or(|at| at.elapsed() >= MENTIONED_EVERY);
        let text = |one: &GoneAlert| for_people(&one.alert, &one.expr, external_url);
        let news: Vec<_> = std::mem::take(&mut self.news).iter().map(text).collect();
        if !is_due {
            return news;
        }
        self.mentioned = Some(Instant::now());
        self.all.expire(now);
        // There may be more news than are kept.
        news.into_iter().chain(self.all.iter().map(text)).collect()
    }

    /// What outlives this process.
    pub fn save(&self) -> Vec<SavedGone> {
        self.all.save()
    }
}
