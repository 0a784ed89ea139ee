//! Alerts that move between two hubs with their node. One hub forgets them without a message, and the other goes on with the first
//! hub's last word. Another module decides which hub judges which node.

use std::collections::BTreeSet;
use std::sync::Arc;

use khz_promql::LabelSet;

use super::saved::{SavedAlert, SavedGroup, active_since, restored};
use super::{Evaluator, PassedAlert};
use crate::alert::{Alert, AlertState, Change};
use crate::alerts::texts_bytes;
use crate::limits::{ALERTS_MAX, RULE_TEXTS_BYTES_MAX};

/// The longest gap over which pending alerts go on as if there was no gap (ms). After a longer one, Prometheus' rules for a restart
/// apply.
const GAP_MAX: i64 = 60_000;

/// The longest delay after a group's due time until a hub has evaluated it, and its word is here (ms).
const EVALUATED_LATE: i64 = 2_000;

/// When alerts move, in ms since 1970 on the clock of the hub that takes them.
#[derive(Clone, Copy, Debug)]
pub struct Handover {
    /// When the other hub said its word.
    pub known_at: i64,
    /// Now.
    pub now: i64,
    /// The word was true only until this time, since the node had then left the other hub. `None`: it was true when it was said.
    pub left_at: Option<i64>,
}

impl Evaluator {
    /// Forgets the alerts of nodes that another hub judges from now on, without resolving them. With `only_active`, alerts that
    /// were resolved before stay known as long as usual. Returns whether there were some.
    pub fn release(&mut self, nodes: &BTreeSet<Arc<str>>, only_active: bool) -> bool {
        let mut is_changed = false;
        for rule in 0..self.rules.len() {
            is_changed |= self.change(rule, |alerts| alerts.release(nodes, only_active));
        }
        self.takes += u64::from(is_changed);
        is_changed
    }

    /// Takes over the wanted alerts of another hub. With `only_active`, takes only those that are active here, too. If both hubs
    /// have an alert, the one that was active for longer counts, unless it has ended here since the other hub saw it: then it is
    /// another firing. Returns those that go on.
    pub fn adopt(
        &mut self,
        saved: &SavedGroup,
        handover: Handover,
        only_active: bool,
        is_wanted: &dyn Fn(&SavedAlert) -> bool,
    ) -> Vec<PassedAlert> {
        let gap = handover.now.saturating_sub(handover.known_at);
        if gap > self.settings.outage_tolerance {
            return Vec::new();
        }
        // The alerts here are from before this hub was started. Until this hub has judged, the other hub's state counts.
        if only_active && self.is_restored() {
            return Vec::new();
        }
        let group = self.group.clone();
        // A hub that was asked just before its end may have last evaluated the group some time earlier.
        let late = if only_active { 0 } else { self.interval().saturating_add(EVALUATED_LATE) };
        let seen_at = match saved.restored_from {
            Some(at) => at,
            None => saved.time.max(handover.known_at.saturating_sub(late)),
        };
        let seen_at = handover.left_at.map_or(seen_at, |left_at| left_at.min(seen_at));
        let (mut adopted, mut used) = (Vec::new(), vec![false; group.rules.len()]);
        for of_rule in &saved.rules {
            let alike = |rule: &usize| !used[*rule] && of_rule.is_of(&group.rules[*rule]);
            let Some(rule) = (0..group.rules.len()).find(alike) else { continue };
            used[rule] = true;
            let Some(alerting) = group.rules[rule].alerting() else { continue };
            for saved in of_rule.alerts.iter().filter(|saved| is_wanted(saved)) {
                let Some(mut alert) = restored(saved) else { continue };
                if alert.state == AlertState::Pending && gap > GAP_MAX {
                    let (at, now, grace) = (handover.known_at, handover.now, self.settings.grace);
                    alert.active_at = active_since(alert.active_at, alerting.hold, at, now, grace);
                }
                alert.end_by(handover.now);
                // `went_on` is about the other hub, and about a lost series.
                alert.went_on &= alert.state == AlertState::Inactive;
                // A firing alert counts more than a pending one, and that more than a resolved one. Between equal states, the older
                // one counts.
                let goes_on =
                    |known: &Arc<Alert>| (known.state, -known.active_at) >= (alert.state, -alert.active_at);
                let known = self.rules[rule].alerts.get(&alert.labels);
                let is_active = known.is_some_and(|known| known.state != AlertState::Inactive);
                let has_ended = alert.state != AlertState::Inactive
                    && known.and_then(|known| known.last_end()).is_some_and(|end| end > seen_at);
                let of_here = known.filter(|known| known.state == AlertState::Firing);
                alert.fired_here_at = of_here.and_then(|known| known.fired_here_at).or(alert.fired_here_at);
                if let Some(known) = of_here.filter(|_| alert.state == AlertState::Firing) {
                    (alert.keep_firing_since, alert.went_on) = (known.keep_firing_since, known.went_on);
                }
                if known.is_some_and(goes_on) || has_ended || only_active && !is_active {
                    continue;
                }
                let (room, taken) = (self.room_of(rule), self.rules[rule].alerts.size());
                if taken.alerts >= room.alerts.min(ALERTS_MAX) {
                    continue;
                }
                if taken.texts.saturating_add(texts_bytes(&alert.annotations))
                    > room.texts.min(RULE_TEXTS_BYTES_MAX)
                {
                    alert.annotations = Arc::from([]);
                }
                let kept = Arc::new(alert.clone());
                self.change(rule, |alerts| alerts.put(alert));
                adopted.push(PassedAlert { rule, alert: kept, change: None });
            }
        }
        if !adopted.is_empty() {
            self.takes += 1;
            self.known = self.known.max(Some(handover.known_at.min(handover.now)));
        }
        adopted
    }
}

impl Evaluator {
    /// Ends firing alerts that came from another hub and have ended there since, according to its current word. Only wanted ones.
    /// Returns them.
    pub fn end_with(
        &mut self,
        saved: &SavedGroup,
        now: i64,
        is_wanted: &dyn Fn(&SavedAlert) -> bool,
    ) -> Vec<PassedAlert> {
        let mut ended = Vec::new();
        for of_rule in &saved.rules {
            let place = self.group.rules.iter().position(|rule| of_rule.is_of(rule));
            let Some(rule) = place else { continue };
            for saved in of_rule.alerts.iter().filter(|saved| is_wanted(saved)) {
                let over = restored(saved).filter(|alert| alert.state == AlertState::Inactive);
                let Some(mut over) = over.filter(|alert| alert.fired_at.is_some()) else { continue };
                over.end_by(now);
                let known = self.rules[rule].alerts.get(&over.labels);
                let goes_over = known.is_some_and(|known| {
                    known.state == AlertState::Firing && over.resolved_at >= Some(known.active_at)
                });
                if goes_over {
                    let kept = Arc::new(over.clone());
                    self.change(rule, |alerts| alerts.put(over));
                    ended.push(PassedAlert { rule, alert: kept, change: Some(Change::Resolved) });
                }
            }
        }
        self.takes += u64::from(!ended.is_empty());
        ended
    }

    /// Notes whether an alert that was resolved here at this time went on at another hub. Returns whether this is new.
    pub fn went_on(&mut self, labels: &LabelSet, resolved_at: i64, went_on: bool) -> bool {
        let mut is_new = false;
        for rule in 0..self.rules.len() {
            is_new |= self.change(rule, |alerts| alerts.went_on(labels, resolved_at, went_on));
        }
        is_new
    }

    /// Forgets wanted alerts from before this process was started that another hub has taken over since, including ended ones.
    /// Returns them.
    pub fn forget_taken(&mut self, taken_at: i64, is_wanted: &dyn Fn(&LabelSet) -> bool) -> Vec<LabelSet> {
        if self.restored_from.is_none_or(|from| from >= taken_at) {
            return Vec::new();
        }
        let mut forgotten = Vec::new();
        for rule in 0..self.rules.len() {
            let meant = self.alerts(rule).map(|alert| &alert.labels).filter(|labels| is_wanted(labels));
            let meant: Vec<LabelSet> = meant.cloned().collect();
            self.change(rule, |alerts| meant.iter().for_each(|labels| _ = alerts.forget(labels)));
            forgotten.extend(meant);
        }
        self.takes += u64::from(!forgotten.is_empty());
        forgotten
    }

    /// Forgets wanted alerts from before this process was started that have ended at another hub since. That hub sends the
    /// messages. Returns them.
    pub fn forget_ended(
        &mut self,
        saved: &SavedGroup,
        is_wanted: &dyn Fn(&SavedAlert) -> bool,
    ) -> Vec<LabelSet> {
        let Some(restored_from) = self.restored_from else { return Vec::new() };
        let last_end = |alert: &SavedAlert| restored(alert).and_then(|alert| alert.last_end());
        let ended_since = |alert: &&SavedAlert| last_end(alert).is_some_and(|end| end > restored_from);
        let mut forgotten = Vec::new();
        for of_rule in &saved.rules {
            let ended = of_rule.alerts.iter().filter(ended_since).filter(|alert| is_wanted(alert));
            let ended: Vec<LabelSet> = ended.map(|alert| LabelSet::new(alert.labels.clone())).collect();
            for rule in 0..self.group.rules.len() {
                if *self.group.rules[rule].name != *of_rule.name {
                    continue;
                }
                for labels in &ended {
                    let is_active = |alert: &&Arc<Alert>| alert.state != AlertState::Inactive;
                    let has_one = self.rules[rule].alerts.get(labels).filter(is_active).is_some();
                    if has_one && self.change(rule, |alerts| alerts.forget(labels)) {
                        forgotten.push(labels.clone());
                    }
                }
            }
        }
        self.takes += u64::from(!forgotten.is_empty());
        forgotten
    }
}

impl Alert {
    /// Moves no time into the future, since the other hub's clock may be ahead.
    fn end_by(&mut self, now: i64) {
        self.active_at = self.active_at.min(now);
        let (fired, resolved) = (&mut self.fired_at, &mut self.resolved_at);
        for time in [fired, resolved, &mut self.ended_before, &mut self.keep_firing_since] {
            *time = time.map(|time| time.min(now));
        }
    }
}
