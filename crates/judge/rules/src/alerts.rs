//! The alerts of one rule, and their changes from one evaluation to the next, on all nodes or on one. It gets the results of the
//! expression, with expanded labels and annotations. It knows neither queries nor clocks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use khz_promql::LabelSet;

use crate::alert::{Alert, AlertState, Change, RESOLVED_KEPT};
use crate::group::Room;
use crate::limits::{ALERTS_MAX, HUB_ALERTS_MAX, RESOLVED_MAX};

/// A series that the expression gave, with the alert's labels and annotations.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub labels: LabelSet,
    pub annotations: Arc<[(Arc<str>, String)]>,
    pub value: f64,
}

impl Found {
    /// Bytes of its annotations.
    pub fn texts_bytes(&self) -> usize {
        texts_bytes(&self.annotations)
    }
}

/// Bytes of annotations.
pub(crate) fn texts_bytes(annotations: &[(Arc<str>, String)]) -> usize {
    annotations.iter().map(|(name, text)| name.len() + text.len()).sum()
}

/// How many active alerts a rule may have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Most {
    /// What its group says.
    pub of_group: Option<usize>,
    /// How many the other rules of the hub leave.
    pub of_hub: usize,
}

/// An alert, and what a step did to it.
pub(crate) type Stepped = (Arc<Alert>, Option<Change>);

/// The alerts of a rule, grouped by node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Alerts {
    nodes: BTreeMap<Arc<str>, OfNode>,
    /// How many alerts are active, and the bytes of all annotations.
    size: Room,
    /// The number of alerts, including the resolved ones.
    count: usize,
    /// Alerts that have fired and were forgotten because there were too many; for [`Alerts::take_forgotten`].
    forgotten: Vec<Arc<Alert>>,
}

type OfNode = BTreeMap<LabelSet, Arc<Alert>>;

/// The label that names the node of an alert.
pub const NODE_LABEL: &str = "instance";

/// This long after its time (ms), the hub ends an alert that fires on without its series if the judging node has not done so. The
/// node counts from the loss of the series; a hub that was started meanwhile counts from a later time.
const LATE: i64 = 60_000;

/// Whose alerts a step is about.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Scope<'a> {
    /// The alerts of one node, which judges by itself.
    One(&'a str),
    /// All alerts but those of the nodes in these sets. Some fire on without their series.
    Except(&'a [&'a BTreeSet<Arc<str>>], Kept<'a>),
}

/// Alerts that go on without their series, since their nodes have just gone or moved.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Kept<'a> {
    /// Those of these nodes.
    pub nodes: Option<&'a BTreeSet<Arc<str>>>,
    /// How long alerts of no node fire on (ms).
    pub others: i64,
    /// No hub judges these nodes for a while. Their alerts stay as they are, however long it takes.
    pub unjudged: Option<&'a BTreeSet<Arc<str>>>,
    /// The last time span in which nodes went to another hub (ms since 1970): an alert that lost its series then goes on there.
    pub left: Option<(i64, i64)>,
}

impl Kept<'_> {
    /// Whether an alert of no node that has lost its series at this time may go on at another hub.
    fn may_go_on(&self, node: &Arc<str>, lost_at: i64) -> bool {
        node.is_empty() && self.left.is_some_and(|(from, to)| (from..to).contains(&lost_at))
    }

    /// Whether alerts of a node go on without their series, and how long firing ones do (ms).
    fn of(&self, node: &Arc<str>) -> (bool, i64) {
        match self.nodes.is_some_and(|nodes| nodes.contains(node)) {
            true => (true, i64::MAX),
            false => (false, if node.is_empty() { self.others } else { 0 }),
        }
    }
}

fn is_in(sets: &[&BTreeSet<Arc<str>>], node: &Arc<str>) -> bool {
    sets.iter().any(|set| set.contains(node))
}

/// Why the alerts of a rule could not be made, in Prometheus' words where it has some.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AlertsError {
    #[error("vector contains metrics with the same labelset after applying alert labels")]
    Same,
    #[error("exceeded limit of {0} with {1} alerts")]
    Limit(usize, usize),
    #[error(
        "all rules together have more than {HUB_ALERTS_MAX} active alerts, which is the limit of a hub: this rule would add {0}"
    )]
    Hub(usize),
}

fn node_of(labels: &LabelSet) -> &str {
    labels.get(NODE_LABEL)
}

fn size(alerts: &OfNode) -> Room {
    let is_active = |alert: &&Arc<Alert>| alert.state != AlertState::Inactive;
    let texts = alerts.values().map(|alert| texts_bytes(&alert.annotations)).sum();
    Room { alerts: alerts.values().filter(is_active).count(), texts }
}

impl Alerts {
    /// All alerts: active ones and those that were resolved not long ago.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Alert>> {
        self.nodes.values().flat_map(BTreeMap::values)
    }

    /// True if some of a node are active.
    pub fn has_active(&self, node: &str) -> bool {
        self.size_of(node).alerts > 0
    }

    /// How many are active, and the bytes of the annotations of all.
    pub fn size(&self) -> Room {
        self.size
    }

    /// The same of a node.
    pub fn size_of(&self, node: &str) -> Room {
        self.nodes.get(node).map(size).unwrap_or_default()
    }

    /// The alert with these labels.
    pub fn get(&self, labels: &LabelSet) -> Option<&Arc<Alert>> {
        self.nodes.get(node_of(labels))?.get(labels)
    }

    /// Forgets the alerts of these nodes, as if there had been none. With `only_active`, resolved ones stay. Returns whether there
    /// were some.
    pub fn release(&mut self, nodes: &BTreeSet<Arc<str>>, only_active: bool) -> bool {
        let meant: Vec<Arc<str>> = self.nodes.keys().filter(|node| nodes.contains(*node)).cloned().collect();
        let mut is_changed = false;
        for node in &meant {
            let Some(mut of_node) = self.nodes.remove(node) else { continue };
            (self.size, self.count) = (self.size.beside(size(&of_node)), self.count - of_node.len());
            let before = of_node.len();
            of_node.retain(|_, alert| only_active && alert.state == AlertState::Inactive);
            is_changed |= of_node.len() < before;
            (self.size, self.count) = (self.size.and(size(&of_node)), self.count + of_node.len());
            if !of_node.is_empty() {
                self.nodes.insert(node.clone(), of_node);
            }
        }
        is_changed
    }

    /// Takes the alerts that were forgotten because the rule gave too many. People may have heard of them. Each is returned once.
    pub fn take_forgotten(&mut self) -> Vec<Arc<Alert>> {
        std::mem::take(&mut self.forgotten)
    }

    /// Forgets an alert, as if there had been none. Returns whether there was one.
    pub fn forget(&mut self, labels: &LabelSet) -> bool {
        let node = node_of(labels);
        let Some(of_node) = self.nodes.get_mut(node) else { return false };
        let before = size(of_node);
        if of_node.remove(labels).is_none() {
            return false;
        }
        let (after, is_empty) = (size(of_node), of_node.is_empty());
        if is_empty {
            self.nodes.remove(node);
        }
        self.count -= 1;
        self.size = self.size.beside(before).and(after);
        true
    }

    /// Puts an alert back that was saved.
    pub fn put(&mut self, alert: Alert) {
        let of_node = self.nodes.entry(node_of(&alert.labels).into()).or_default();
        let before = size(of_node);
        let known = of_node.insert(alert.labels.clone(), Arc::new(alert));
        self.count += usize::from(known.is_none());
        self.size = self.size.beside(before).and(size(of_node));
    }

    /// Notes whether an alert that was resolved at this time went on at another hub. Returns whether this is new.
    pub fn went_on(&mut self, labels: &LabelSet, resolved_at: i64, went_on: bool) -> bool {
        let alert = self.nodes.get_mut(node_of(labels)).and_then(|of_node| of_node.get_mut(labels));
        let is_meant =
            |alert: &&mut Arc<Alert>| alert.resolved_at == Some(resolved_at) && alert.went_on != went_on;
        match alert.filter(is_meant) {
            Some(alert) => {
                Arc::make_mut(alert).went_on = went_on;
                true
            }
            None => false,
        }
    }

    /// Firing alerts become pending again if their rule's longer `for` is not over yet. Returns them in their firing state.
    pub fn wait_again(&mut self, hold: i64, time: i64) -> Vec<Arc<Alert>> {
        let mut fired = Vec::new();
        let all = self.nodes.values_mut().flat_map(BTreeMap::values_mut);
        for alert in all.filter(|alert| alert.state == AlertState::Firing && time - alert.active_at < hold) {
            let before = alert.clone();
            // The next step would make the same change, but would not report that the alert has fired.
            if advance(Arc::make_mut(alert), time, hold) == Some(Change::Pending) {
                fired.push(before);
            }
        }
        fired
    }

    /// Somebody set the clock by this time (ms). Pending alerts, and those that fire on without their series, wait neither longer
    /// nor shorter. The time at which an alert fired stays, since other hubs identify the alert by it.
    pub fn clock_set(&mut self, by: i64) {
        for alert in self.nodes.values_mut().flat_map(BTreeMap::values_mut) {
            let waits = alert.state == AlertState::Pending;
            if !waits && alert.keep_firing_since.is_none() {
                continue;
            }
            let alert = Arc::make_mut(alert);
            if waits {
                alert.active_at = alert.active_at.saturating_add(by);
            }
            alert.keep_firing_since = alert.keep_firing_since.map(|since| since.saturating_add(by));
        }
    }

    /// Takes the results of the expression at a time, and returns the changes. `hold` and `keep_firing` are the times of the rule
    /// (ms). Alerts that the scope leaves out stay as they are.
    pub fn step(
        &mut self,
        found: Vec<Found>,
        time: i64,
        times: (i64, i64),
        most: Most,
        scope: Scope<'_>,
    ) -> Result<Vec<Stepped>, AlertsError> {
        let mut present: BTreeMap<Arc<str>, BTreeMap<LabelSet, Found>> = BTreeMap::new();
        for found in found {
            let node = present.entry(node_of(&found.labels).into()).or_default();
            if node.insert(found.labels.clone(), found).is_some() {
                return Err(AlertsError::Same);
            }
        }
        let (mut all, mut next) = (Vec::new(), Vec::new());
        let known = || self.nodes.keys().chain(present.keys()).cloned();
        let meant: BTreeSet<Arc<str>> = match scope {
            Scope::One(node) => BTreeSet::from([node.into()]),
            Scope::Except(sets, _) => known().filter(|node| !is_in(sets, node)).collect(),
        };
        let kept = match scope {
            Scope::One(_) => Kept::default(),
            Scope::Except(_, kept) => kept,
        };
        for node in &meant {
            let known = self.nodes.get(node).cloned().unwrap_or_default();
            let (waits, fires) = kept.of(node);
            let times = Times { hold: times.0, keep_firing: times.1.max(fires), waits };
            let present = present.remove(node).unwrap_or_default();
            let may_go_on = |lost_at| kept.may_go_on(node, lost_at);
            next.push((node.clone(), step(known, present, time, times, &may_go_on, &mut all)));
        }
        if let Scope::Except(sets, _) = scope {
            for (node, known) in self.nodes.iter().filter(|(node, _)| is_in(sets, node)) {
                let is_judged = !kept.unjudged.is_some_and(|unjudged| unjudged.contains(node));
                next.push((node.clone(), pass(known.clone(), time, times, is_judged, &mut all)));
            }
        }
        let none = (Room::default(), Room::default());
        let (now, before) = next.iter().fold(none, |(now, before), (node, alerts)| {
            (now.and(size(alerts)), before.and(self.size_of(node)))
        });
        let sized = self.size.beside(before).and(now);
        let of_rule = most.of_group.unwrap_or(ALERTS_MAX).min(ALERTS_MAX);
        if sized.alerts > of_rule {
            // As in Prometheus, the rule then starts without any known alerts.
            let before = std::mem::take(self);
            self.forgotten = before.iter().filter(|alert| alert.fired_at.is_some()).cloned().collect();
            return Err(AlertsError::Limit(of_rule, sized.alerts));
        }
        // Existing alerts may always go on, and end.
        if sized.alerts > most.of_hub.max(self.size.alerts) {
            return Err(AlertsError::Hub(sized.alerts - self.size.alerts));
        }
        self.size = sized;
        for (node, alerts) in next {
            self.count += alerts.len();
            let before = match alerts.is_empty() {
                true => self.nodes.remove(&node),
                false => self.nodes.insert(node, alerts),
            };
            self.count -= before.map_or(0, |before| before.len());
        }
        self.forget_resolved();
        all.sort_by(|one, two| one.0.labels.cmp(&two.0.labels));
        Ok(all)
    }

    /// A rule whose alerts get new labels each time would leave resolved ones without end. The oldest are no longer listed.
    fn forget_resolved(&mut self) {
        let Some(beyond) = (self.count - self.size.alerts).checked_sub(RESOLVED_MAX + 1) else { return };
        let mut resolved: Vec<(Option<i64>, LabelSet)> = self
            .iter()
            .filter(|alert| alert.state == AlertState::Inactive)
            .map(|alert| (alert.resolved_at, alert.labels.clone()))
            .collect();
        resolved.sort_unstable();
        for (_, labels) in resolved.iter().take(beyond + 1) {
            let node = node_of(labels);
            let Some(of_node) = self.nodes.get_mut(node) else { continue };
            if let Some(alert) = of_node.remove(labels) {
                self.size.texts = self.size.texts.saturating_sub(texts_bytes(&alert.annotations));
                self.count -= 1;
            }
            if of_node.is_empty() {
                self.nodes.remove(node);
            }
        }
    }
}

/// How long alerts are pending, and fire on.
#[derive(Clone, Copy, Debug)]
struct Times {
    /// How long alerts are pending (ms).
    hold: i64,
    /// How long alerts fire on without their series (ms).
    keep_firing: i64,
    /// Pending alerts stay pending without their series.
    waits: bool,
}

/// The alerts of a node after a step that found these series. `may_go_on`: whether an alert that lost its series at this time may
/// go on at another hub.
fn step(
    known: OfNode,
    mut present: BTreeMap<LabelSet, Found>,
    time: i64,
    times: Times,
    may_go_on: &dyn Fn(i64) -> bool,
    all: &mut Vec<Stepped>,
) -> OfNode {
    let hold = times.hold;
    let mut next = OfNode::new();
    for (labels, mut alert) in known {
        not_ahead(&mut alert, time);
        let (alert, change) = match present.remove(&labels) {
            Some(found) if alert.state != AlertState::Inactive => seen(alert, found, time, hold),
            Some(found) => begun(found, time, hold, alert.last_end()),
            None => match missed(alert, time, times) {
                (alert, Some(Change::Dropped)) => {
                    all.push((alert.clone(), Some(Change::Dropped)));
                    // The earlier firing and its end stay known, just as if the alert had not been pending.
                    let Some(alert) = over_since(alert) else { continue };
                    next.insert(labels, alert);
                    continue;
                }
                (alert, None) if is_old(&alert, time) => continue,
                (mut alert, change) => {
                    // This stays so until the series is back: the nodes may come and go in between, also over a restart.
                    let is_of_now = alert.state == AlertState::Firing || change == Some(Change::Resolved);
                    if is_of_now && !alert.went_on && alert.keep_firing_since.is_some_and(may_go_on) {
                        Arc::make_mut(&mut alert).went_on = true;
                    }
                    (alert, change)
                }
            },
        };
        all.push((alert.clone(), change));
        next.insert(labels, alert);
    }
    for (labels, found) in present {
        let (alert, change) = begun(found, time, hold, None);
        all.push((alert.clone(), change));
        next.insert(labels, alert);
    }
    next
}

/// The alerts of a node that judges by itself, or that nobody judges so far. They stay as they are, except those that ended long
/// ago.
fn pass(
    known: OfNode,
    time: i64,
    (hold, keep_firing): (i64, i64),
    is_judged: bool,
    all: &mut Vec<Stepped>,
) -> OfNode {
    let mut next = OfNode::new();
    for (labels, mut alert) in known.into_iter().filter(|(_, alert)| !is_old(alert, time)) {
        not_ahead(&mut alert, time);
        let is_late =
            |since: i64| is_judged && time.saturating_sub(since).saturating_sub(keep_firing) >= LATE;
        let (alert, change) = match alert.keep_firing_since.is_some_and(is_late) {
            true => missed(alert, time, Times { hold, keep_firing, waits: false }),
            false => (alert, None),
        };
        all.push((alert.clone(), change));
        next.insert(labels, alert);
    }
    next
}

/// An alert becomes active. `ended_before`: when it was last resolved.
fn begun(found: Found, time: i64, hold: i64, ended_before: Option<i64>) -> (Arc<Alert>, Option<Change>) {
    let Found { labels, annotations, value } = found;
    let mut alert = Alert {
        state: AlertState::Pending,
        labels,
        annotations,
        value,
        active_at: time,
        fired_at: None,
        fired_here_at: None,
        resolved_at: None,
        ended_before,
        keep_firing_since: None,
        went_on: false,
    };
    let change = advance(&mut alert, time, hold).or(Some(Change::Pending));
    (Arc::new(alert), change)
}

/// Restores the resolved state of an alert that was only pending. `None`: it has not fired lately.
fn over_since(mut alert: Arc<Alert>) -> Option<Arc<Alert>> {
    let ended = alert.ended_before?;
    let now = Arc::make_mut(&mut alert);
    (now.resolved_at, now.ended_before) = (Some(ended), None);
    Some(alert)
}

/// The series of an active alert is there.
fn seen(mut alert: Arc<Alert>, found: Found, time: i64, hold: i64) -> (Arc<Alert>, Option<Change>) {
    let now = Arc::make_mut(&mut alert);
    (now.value, now.annotations) = (found.value, found.annotations);
    let is_back = now.keep_firing_since.take().is_some();
    now.went_on = false;
    let change = advance(now, time, hold).or(is_back.then_some(Change::Returned));
    if now.state == AlertState::Firing {
        now.fired_here_at.get_or_insert(time);
    }
    (alert, change)
}

/// The series of an alert is not there.
fn missed(mut alert: Arc<Alert>, time: i64, times: Times) -> (Arc<Alert>, Option<Change>) {
    let Times { hold, keep_firing, waits } = times;
    match alert.state {
        AlertState::Inactive => (alert, None),
        AlertState::Pending if waits => (alert, None),
        AlertState::Pending => {
            let now = Arc::make_mut(&mut alert);
            (now.state, now.resolved_at) = (AlertState::Inactive, Some(time));
            (alert, Some(Change::Dropped))
        }
        AlertState::Firing => {
            let now = Arc::make_mut(&mut alert);
            if keep_firing > 0 {
                let is_new = now.keep_firing_since.is_none();
                let since = *now.keep_firing_since.get_or_insert(time);
                if time - since < keep_firing {
                    let change = advance(now, time, hold).or(is_new.then_some(Change::KeepsFiring));
                    return (alert, change);
                }
            }
            (now.state, now.resolved_at) = (AlertState::Inactive, Some(time));
            (alert, Some(Change::Resolved))
        }
    }
}

/// Lets an alert fire if it is active for long enough. A firing alert that is not, because the rule was changed, becomes pending
/// again.
fn advance(alert: &mut Alert, time: i64, hold: i64) -> Option<Change> {
    let has_held = time - alert.active_at >= hold;
    match (alert.state, has_held) {
        (AlertState::Pending, true) => {
            (alert.state, alert.fired_at, alert.fired_here_at) = (AlertState::Firing, Some(time), Some(time));
            Some(Change::Fired)
        }
        // If the time is before the alert fired, the clock was set back: the alert goes on.
        (AlertState::Firing, false) if alert.fired_at.is_none_or(|fired| time >= fired) => {
            (alert.state, alert.fired_at, alert.fired_here_at) = (AlertState::Pending, None, None);
            alert.keep_firing_since = None;
            Some(Change::Pending)
        }
        _ => None,
    }
}

/// After the clock was set back, nothing waits for a time that is far ahead. The time at which the alert fired stays, since others
/// identify it by that.
fn not_ahead(alert: &mut Arc<Alert>, time: i64) {
    let is_ahead = |at: Option<i64>| at.is_some_and(|at| at > time);
    let waits = (alert.state == AlertState::Pending).then_some(alert.active_at);
    if is_ahead(waits) || is_ahead(alert.keep_firing_since) || is_ahead(alert.resolved_at) {
        let alert = Arc::make_mut(alert);
        if is_ahead(waits) {
            alert.active_at = time;
        }
        for at in [&mut alert.keep_firing_since, &mut alert.resolved_at] {
            *at = at.map(|at| at.min(time));
        }
    }
}

fn is_old(alert: &Alert, time: i64) -> bool {
    alert.resolved_at.is_some_and(|resolved| time - resolved > RESOLVED_KEPT)
}

#[cfg(test)]
mod tests;
