//! The alerts of one rule, and how they go on from one evaluation to the next, on all nodes or on one. It is given the results of the
//! expression, with labels and annotations expanded; it knows neither queries nor clocks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use khz_promql::LabelSet;

use crate::alert::{Alert, AlertState, Change, RESOLVED_KEPT};
use crate::limits::ALERTS_MAX;

/// A series that the expression gave, with what the rule makes of it.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub labels: LabelSet,
    pub annotations: Arc<[(Arc<str>, String)]>,
    pub value: f64,
}

/// An alert, and what a step did to it.
pub(crate) type Stepped = (Arc<Alert>, Option<Change>);

/// The alerts of a rule, those of each node apart.
#[derive(Clone, Debug, Default)]
pub(crate) struct Alerts {
    nodes: BTreeMap<Arc<str>, OfNode>,
    /// How many of them are active.
    active: usize,
}

type OfNode = BTreeMap<LabelSet, Arc<Alert>>;

/// The label by which alerts are of a node.
pub(crate) const NODE_LABEL: &str = "instance";

/// How long after its time an alert that goes on firing without its series is ended here, if the node that judges it has not done so
/// (ms): the node counts from when it lost the series, and a hub that was started meanwhile from later on.
const LATE: i64 = 60_000;

/// Whose alerts a step is about.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Scope<'a> {
    /// Those of one node, which judges by itself.
    One(&'a str),
    /// All but those of nodes that judge by themselves.
    Except(&'a BTreeSet<Arc<str>>),
}

/// Why the alerts of a rule could not be made; the words are those of Prometheus where it has some.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AlertsError {
    #[error("vector contains metrics with the same labelset after applying alert labels")]
    Same,
    #[error("exceeded limit of {0} with {1} alerts")]
    Limit(usize, usize),
}

fn node_of(labels: &LabelSet) -> &str {
    labels.get(NODE_LABEL)
}

fn active(alerts: &OfNode) -> usize {
    alerts.values().filter(|alert| alert.state != AlertState::Inactive).count()
}

impl Alerts {
    /// All alerts: active ones and those that were resolved not long ago.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Alert>> {
        self.nodes.values().flat_map(BTreeMap::values)
    }

    /// True if some of a node are active.
    pub fn has_active(&self, node: &str) -> bool {
        self.nodes.get(node).is_some_and(|alerts| active(alerts) > 0)
    }

    /// Puts an alert back that was saved.
    pub fn put(&mut self, alert: Alert) {
        let of_node = self.nodes.entry(node_of(&alert.labels).into()).or_default();
        let before = active(of_node);
        of_node.insert(alert.labels.clone(), Arc::new(alert));
        self.active = self.active + active(of_node) - before;
    }

    /// Takes what the expression gave at a time, and says what has changed. `hold` and `keep_firing` are those of the rule (ms).
    /// Alerts that the scope leaves out stay as they are.
    pub fn step(
        &mut self,
        found: Vec<Found>,
        time: i64,
        times: (i64, i64),
        limit: Option<usize>,
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
            Scope::Except(judging) => known().filter(|node| !judging.contains(node)).collect(),
        };
        for node in &meant {
            let known = self.nodes.get(node).cloned().unwrap_or_default();
            next.push((
                node.clone(),
                step(known, present.remove(node).unwrap_or_default(), time, times, &mut all),
            ));
        }
        if let Scope::Except(judging) = scope {
            for node in judging.iter().filter(|node| self.nodes.contains_key(*node)) {
                let known = self.nodes.get(node).cloned().unwrap_or_default();
                next.push((node.clone(), pass(known, time, times, &mut all)));
            }
        }
        let of_next =
            |(node, alerts): &(Arc<str>, OfNode)| (active(alerts), self.nodes.get(node).map_or(0, active));
        let (now, before) = next.iter().map(of_next).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let active = self.active + now - before;
        let most = limit.unwrap_or(ALERTS_MAX).min(ALERTS_MAX);
        if active > most {
            // As Prometheus: nothing is known of the rule then.
            *self = Alerts::default();
            return Err(AlertsError::Limit(most, active));
        }
        self.active = active;
        for (node, alerts) in next {
            match alerts.is_empty() {
                true => drop(self.nodes.remove(&node)),
                false => drop(self.nodes.insert(node, alerts)),
            }
        }
        all.sort_by(|one, two| one.0.labels.cmp(&two.0.labels));
        Ok(all)
    }
}

/// The alerts of a node after a step, in which these series are there.
fn step(
    known: OfNode,
    mut present: BTreeMap<LabelSet, Found>,
    time: i64,
    (hold, keep_firing): (i64, i64),
    all: &mut Vec<Stepped>,
) -> OfNode {
    let mut next = OfNode::new();
    for (labels, alert) in known {
        let (alert, change) = match present.remove(&labels) {
            Some(found) if alert.state != AlertState::Inactive => seen(alert, found, time, hold),
            Some(found) => begun(found, time, hold),
            None => match missed(alert, time, (hold, keep_firing)) {
                (alert, Some(Change::Dropped)) => {
                    all.push((alert, Some(Change::Dropped)));
                    continue;
                }
                (alert, None) if is_old(&alert, time) => continue,
                going_on => going_on,
            },
        };
        all.push((alert.clone(), change));
        next.insert(labels, alert);
    }
    for (labels, found) in present {
        let (alert, change) = begun(found, time, hold);
        all.push((alert.clone(), change));
        next.insert(labels, alert);
    }
    next
}

/// The alerts of a node that judges by itself: they stay as they are, but for those that are long over.
fn pass(known: OfNode, time: i64, (hold, keep_firing): (i64, i64), all: &mut Vec<Stepped>) -> OfNode {
    let mut next = OfNode::new();
    for (labels, alert) in known.into_iter().filter(|(_, alert)| !is_old(alert, time)) {
        let is_late = |since: i64| time.saturating_sub(since).saturating_sub(keep_firing) >= LATE;
        let (alert, change) = match alert.keep_firing_since.is_some_and(is_late) {
            true => missed(alert, time, (hold, keep_firing)),
            false => (alert, None),
        };
        all.push((alert.clone(), change));
        next.insert(labels, alert);
    }
    next
}

fn begun(found: Found, time: i64, hold: i64) -> (Arc<Alert>, Option<Change>) {
    let Found { labels, annotations, value } = found;
    let mut alert = Alert {
        state: AlertState::Pending,
        labels,
        annotations,
        value,
        active_at: time,
        fired_at: None,
        resolved_at: None,
        keep_firing_since: None,
    };
    let change = advance(&mut alert, time, hold).or(Some(Change::Pending));
    (Arc::new(alert), change)
}

/// The series of an active alert is there.
fn seen(mut alert: Arc<Alert>, found: Found, time: i64, hold: i64) -> (Arc<Alert>, Option<Change>) {
    let now = Arc::make_mut(&mut alert);
    (now.value, now.annotations, now.keep_firing_since) = (found.value, found.annotations, None);
    let change = advance(now, time, hold);
    (alert, change)
}

/// The series of an alert is not there.
fn missed(mut alert: Arc<Alert>, time: i64, (hold, keep_firing): (i64, i64)) -> (Arc<Alert>, Option<Change>) {
    match alert.state {
        AlertState::Inactive => (alert, None),
        AlertState::Pending => {
            let now = Arc::make_mut(&mut alert);
            (now.state, now.resolved_at) = (AlertState::Inactive, Some(time));
            (alert, Some(Change::Dropped))
        }
        AlertState::Firing => {
            let now = Arc::make_mut(&mut alert);
            if keep_firing > 0 {
                let since = *now.keep_firing_since.get_or_insert(time);
                if time - since < keep_firing {
                    let change = advance(now, time, hold);
                    return (alert, change);
                }
            }
            (now.state, now.resolved_at) = (AlertState::Inactive, Some(time));
            (alert, Some(Change::Resolved))
        }
    }
}

/// Lets an alert fire that is active for long enough, and wait again one that is not since the rule was changed.
fn advance(alert: &mut Alert, time: i64, hold: i64) -> Option<Change> {
    let has_held = time - alert.active_at >= hold;
    match (alert.state, has_held) {
        (AlertState::Pending, true) => {
            (alert.state, alert.fired_at) = (AlertState::Firing, Some(time));
            Some(Change::Fired)
        }
        (AlertState::Firing, false) => {
            (alert.state, alert.fired_at, alert.keep_firing_since) = (AlertState::Pending, None, None);
            Some(Change::Pending)
        }
        _ => None,
    }
}

fn is_old(alert: &Alert, time: i64) -> bool {
    alert.resolved_at.is_some_and(|resolved| time - resolved > RESOLVED_KEPT)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step_all(
        alerts: &mut Alerts,
        found: Vec<Found>,
        time: i64,
        times: (i64, i64),
        limit: Option<usize>,
    ) -> Result<Vec<Stepped>, AlertsError> {
        alerts.step(found, time, times, limit, Scope::Except(&BTreeSet::new()))
    }

    /// Steps of 10 s: for each, which of the series a and b are there, and what is said then.
    fn play(hold: i64, keep_firing: i64, steps: &[&str]) -> Vec<String> {
        let mut alerts = Alerts::default();
        let mut said = Vec::new();
        for (at, present) in steps.iter().enumerate() {
            let found = present.chars().map(|c| Found {
                labels: LabelSet::new([("x", c.to_string())]),
                annotations: Arc::from([]),
                value: at as f64,
            });
            let all = step_all(&mut alerts, found.collect(), at as i64 * 10_000, (hold, keep_firing), None)
                .unwrap();
            let words = all.iter().map(|(alert, change)| {
                let change = change.map_or_else(|| String::from("-"), |change| format!("{change:?}"));
                format!("{} {} {change}", alert.labels.get("x"), alert.state.as_str())
            });
            said.push(words.collect::<Vec<_>>().join(", "));
        }
        said
    }

    #[test]
    fn an_alert_waits_fires_and_is_resolved() {
        assert_eq!(
            play(20_000, 0, &["a", "a", "ab", "a", "", "", "a"]),
            [
                "a pending Pending",
                "a pending -",
                "a firing Fired, b pending Pending",
                "a firing -, b inactive Dropped",
                "a inactive Resolved",
                "a inactive -",
                "a pending Pending",
            ]
        );
        assert_eq!(play(0, 0, &["a", ""]), ["a firing Fired", "a inactive Resolved"]);
    }

    #[test]
    fn an_alert_that_keeps_firing_bridges_gaps_shorter_than_that_time() {
        assert_eq!(
            play(0, 20_000, &["a", "", "", "a", "", "", ""]),
            [
                "a firing Fired",
                "a firing -",
                "a firing -",
                "a firing -",
                "a firing -",
                "a firing -",
                "a inactive Resolved",
            ]
        );
    }

    #[test]
    fn a_resolved_alert_is_kept_for_fifteen_minutes() {
        let mut steps = vec!["a", ""];
        steps.resize(2 + 92, "");
        let said = play(0, 0, &steps);
        // Resolved at 10 s; kept up to and with 910 s.
        assert_eq!((&*said[91], &*said[92]), ("a inactive -", ""));
    }

    #[test]
    fn the_limit_forgets_all_alerts_and_two_of_the_same_labels_change_nothing() {
        let found = |names: &[&str]| -> Vec<Found> {
            let one = |name: &&str| Found {
                labels: LabelSet::new([("x", *name)]),
                annotations: Arc::from([]),
                value: 1.0,
            };
            names.iter().map(one).collect()
        };
        let mut alerts = Alerts::default();
        assert!(step_all(&mut alerts, found(&["a", "b"]), 0, (0, 0), Some(2)).is_ok());
        assert_eq!(step_all(&mut alerts, found(&["a", "a"]), 1, (0, 0), None), Err(AlertsError::Same));
        assert_eq!(alerts.iter().count(), 2);
        assert_eq!(
            step_all(&mut alerts, found(&["a", "b", "c"]), 2, (0, 0), Some(2)),
            Err(AlertsError::Limit(2, 3))
        );
        assert_eq!(alerts.iter().count(), 0);
    }

    #[test]
    fn a_longer_hold_time_lets_a_firing_alert_wait_again() {
        let found = || vec![Found { labels: LabelSet::default(), annotations: Arc::from([]), value: 1.0 }];
        let mut alerts = Alerts::default();
        let mut change =
            |time, hold| step_all(&mut alerts, found(), time, (hold, 0), None).unwrap().remove(0).1;
        assert_eq!(change(0, 0), Some(Change::Fired));
        assert_eq!(change(10, 100), Some(Change::Pending));
        assert_eq!(change(99, 100), None);
        assert_eq!(change(100, 100), Some(Change::Fired));
    }

    #[test]
    fn a_step_of_one_node_leaves_the_alerts_of_others_and_a_step_of_the_hub_those_of_nodes_that_judge() {
        let found = |node: &str, name: &str| Found {
            labels: LabelSet::new([("instance", node), ("x", name)]),
            annotations: Arc::from([]),
            value: 1.0,
        };
        let mut alerts = Alerts::default();
        let judging = BTreeSet::from([Arc::from("n1")]);
        let mut step = |found: Vec<Found>, time, scope: Scope<'_>| -> Vec<String> {
            let all = alerts.step(found, time, (0, 20_000), None, scope).unwrap();
            let word = |(alert, change): &Stepped| {
                format!("{} {} {change:?}", alert.labels.get("instance"), alert.state.as_str())
            };
            all.iter().map(word).collect()
        };
        assert_eq!(step(vec![found("n1", "a")], 0, Scope::One("n1")), ["n1 firing Some(Fired)"]);
        assert_eq!(
            step(vec![found("n2", "a")], 0, Scope::Except(&judging)),
            ["n1 firing None", "n2 firing Some(Fired)"]
        );
        assert_eq!(step(vec![], 1_000, Scope::One("n1")), ["n1 firing None"], "it keeps firing");
        assert_eq!(
            step(vec![found("n2", "a")], 30_000, Scope::Except(&judging)),
            ["n1 firing None", "n2 firing None"],
            "the node says when it is over"
        );
        assert_eq!(
            step(vec![found("n2", "a")], 81_000, Scope::Except(&judging)),
            ["n1 inactive Some(Resolved)", "n2 firing None"],
            "but not for ever"
        );
    }
}
