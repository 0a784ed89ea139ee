//! Alerts that fire on because of `keep_firing_for` when their hub is killed: they end when they would have ended without that.

use super::*;

const RULES: &str = "groups: [{name: g, rules: [{alert: A, expr: b, keep_firing_for: 40s}]}]";

/// The group as it is after its hub was killed: what is saved is what there was after the last change.
struct Killed {
    saved: Option<SavedGroup>,
}

impl Killed {
    /// These alerts have come of a pass, or of what a node has said.
    fn look(&mut self, evaluator: &Evaluator, alerts: &[PassedAlert]) {
        if alerts.iter().any(|passed| passed.change.is_some()) {
            self.saved = evaluator.save();
        }
    }

    fn restart(&self, now: i64) -> Evaluator {
        Evaluator::restore(group(RULES), Arc::default(), self.saved.as_ref().unwrap(), now)
    }
}

/// When each firing ends, with a hub that is killed at this time, or at none. Its series is there up to 10 s, and from 25 s to 30 s.
fn ends(killed_at: Option<i64>, is_of_node: bool) -> Vec<i64> {
    let (mut stage, mut killed) = (Stage::new(RULES), Killed { saved: None });
    let mut ends = Vec::new();
    for time in (5_000..100_000).step_by(5_000) {
        if killed_at == Some(time) {
            stage.evaluator = killed.restart(time);
        }
        let is_there = time <= 10_000 || (25_000..=30_000).contains(&time);
        let labels = LabelSet::new([("instance", "n1")]);
        let alerts = if is_of_node {
            let vector = is_there.then(|| VectorSample { labels: labels.clone(), time, value: 1.0 });
            let engine = Engine::new(Limits::default());
            let given = vec![(0, vector.into_iter().collect())];
            stage.evaluator.take(&engine, &Memory::default(), ("n1", time), given).0
        } else {
            let series = LabelSet::new([(METRIC_NAME, "b"), ("instance", "n1")]);
            stage.memory.add(&series, time - 1, if is_there { 1.0 } else { khz_promql::stale() });
            stage.pass(time).alerts
        };
        killed.look(&stage.evaluator, &alerts);
        ends.extend(alerts.iter().filter(|one| one.change == Some(Change::Resolved)).map(|_| time));
    }
    ends
}

#[test]
fn an_alert_that_keeps_firing_ends_at_the_same_time_with_and_without_a_restart() {
    for is_of_node in [false, true] {
        assert_eq!(ends(None, is_of_node), [75_000], "{is_of_node}");
        for killed_at in (10_000..=75_000).step_by(5_000) {
            assert_eq!(ends(Some(killed_at), is_of_node), [75_000], "{is_of_node}, killed at {killed_at}");
        }
    }
}
