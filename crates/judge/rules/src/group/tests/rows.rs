//! Rows come a little early or late: an alert changes at the row that is meant.

use super::*;

/// The time between two rows (ms).
const PERIOD: i64 = 1_000;

/// By how much rows come early or late (ms).
const JITTERS: [[i64; 5]; 4] =
    [[0, 0, 0, 0, 0], [0, -1, 1, -2, 2], [240, -240, 100, -100, 0], [1, 0, 0, 0, 0]];

fn stage(interval: &str, hold: i64, keep: i64) -> Stage {
    let text = format!(
        "groups: [{{name: g, interval: {interval}, rules: [{{alert: A, expr: 'a > 0', for: {hold}ms, keep_firing_for: {keep}ms}}]}}]"
    );
    let settings = Settings { tolerance: PERIOD / 2, ..Settings::default() };
    Stage { evaluator: Evaluator::new(group(&text), Arc::new(settings)), memory: Memory::default() }
}

/// The rows at which the alert fires and is resolved; its series is there for 9 rows.
fn changes(stage: &mut Stage, jitter: [i64; 5], is_at_node: bool) -> (Option<i64>, Option<i64>) {
    let (mut fired, mut resolved) = (None, None);
    for row in 0..20 {
        let time = 100_000 + row * PERIOD + jitter[(row % 5) as usize];
        let value = if row < 9 { 1.0 } else { 0.0 };
        let labels = LabelSet::new([(METRIC_NAME, "a"), ("instance", "n1")]);
        stage.memory.add(&labels, time, value);
        let passed = match is_at_node {
            false => stage.pass(time).alerts,
            true => {
                let sample = VectorSample { labels, time, value };
                let given = vec![(0, Vec::from_iter((value > 0.0).then_some(sample)))];
                let engine = Engine::new(Limits::default());
                stage.evaluator.take(&engine, &stage.memory, ("n1", time), given).0
            }
        };
        for one in passed {
            match one.change {
                Some(Change::Fired) => fired = Some(row),
                Some(Change::Resolved) => resolved = Some(row),
                _ => {}
            }
        }
    }
    (fired, resolved)
}

#[test]
fn an_alert_changes_at_the_row_that_is_meant_at_a_node_and_at_the_hub() {
    for is_at_node in [false, true] {
        for jitter in JITTERS {
            for (hold, keep) in [(0, 0), (1, 1), (4, 3), (7, 2), (9, 0)] {
                let mut stage = stage("1s", hold * PERIOD, keep * PERIOD);
                let expected = if hold < 9 { (Some(hold), Some(9 + keep)) } else { (None, None) };
                let got = changes(&mut stage, jitter, is_at_node);
                assert_eq!(got, expected, "{hold} {keep} {jitter:?} {is_at_node}");
            }
            // Less than a row is a row.
            assert_eq!(changes(&mut stage("1s", 300, 300), jitter, is_at_node), (Some(1), Some(10)));
        }
    }
}

#[test]
fn a_group_that_is_evaluated_more_often_than_nodes_judge_does_not_fire_earlier_by_more_than_half_its_interval()
 {
    let mut stage = stage("100ms", 300, 0);
    stage.set_on("a", "n1", 0);
    let fired = (0..9)
        .map(|at| at * 100)
        .find(|&time| stage.pass(time).alerts.iter().any(|one| one.change == Some(Change::Fired)));
    assert_eq!(fired, Some(300));
}
