//! What becomes of alerts, step by step: on all nodes or on one, beyond each limit, and when clocks jump.

use proptest::prelude::*;

use super::*;

fn step_all(
    alerts: &mut Alerts,
    found: Vec<Found>,
    time: i64,
    times: (i64, i64),
    limit: Option<usize>,
) -> Result<Vec<Stepped>, AlertsError> {
    let most = Most { of_group: limit, of_hub: HUB_ALERTS_MAX };
    alerts.step(found, time, times, most, Scope::Except(&[], Kept::default()))
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
        let all =
            step_all(&mut alerts, found.collect(), at as i64 * 10_000, (hold, keep_firing), None).unwrap();
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
            "a firing KeepsFiring",
            "a firing -",
            "a firing Returned",
            "a firing KeepsFiring",
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
fn a_clock_that_jumps_neither_ends_what_fires_nor_lets_it_wait_for_hours() {
    let found = || vec![Found { labels: LabelSet::default(), annotations: Arc::from([]), value: 1.0 }];
    const HOUR: i64 = 3_600_000;
    let mut alerts = Alerts::default();
    let mut step = |time, found, times| -> (AlertState, Option<i64>, Option<Change>) {
        let all = step_all(&mut alerts, found, time, times, None).unwrap();
        let (alert, change) = &all[0];
        (alert.state, alert.fired_at, *change)
    };
    let (hold, keep) = (10_000, 60_000);
    assert_eq!(step(9 * HOUR, found(), (hold, keep)).0, AlertState::Pending);
    // An hour back, and it waits for its time, not for the clock.
    assert_eq!(step(8 * HOUR, found(), (hold, keep)).0, AlertState::Pending);
    let fired = Some(8 * HOUR + hold);
    assert_eq!(
        step(8 * HOUR + hold, found(), (hold, keep)),
        (AlertState::Firing, fired, Some(Change::Fired))
    );
    // An hour back: the same firing goes on, and bridges a gap that is not an hour long.
    assert_eq!(step(7 * HOUR, found(), (hold, keep)), (AlertState::Firing, fired, None));
    let kept = Some(Change::KeepsFiring);
    assert_eq!(step(7 * HOUR + 1, vec![], (hold, keep)), (AlertState::Firing, fired, kept));
    assert_eq!(step(6 * HOUR, vec![], (hold, keep)), (AlertState::Firing, fired, None));
    assert_eq!(step(6 * HOUR + keep, vec![], (hold, keep)).2, Some(Change::Resolved));
    // A day forward: what is over is forgotten, and what comes begins now.
    assert_eq!(step(30 * HOUR, found(), (hold, keep)), (AlertState::Pending, None, Some(Change::Pending)));
}

#[test]
fn for_and_keep_firing_for_are_as_long_when_the_clock_is_set_meanwhile() {
    let found = || vec![Found { labels: LabelSet::default(), annotations: Arc::from([]), value: 1.0 }];
    let (hold, keep) = (10_000, 60_000);
    for set in [-3_600_000, -20_000, 20_000, 7_200_000] {
        let mut alerts = Alerts::default();
        let mut now = 40_000_000;
        for (passed, is_there, expected) in [
            (0, true, AlertState::Pending),
            (9_000, true, AlertState::Pending),
            (1_000, true, AlertState::Firing),
            (1_000, false, AlertState::Firing),
            (59_000, false, AlertState::Firing),
            (1_000, false, AlertState::Inactive),
        ] {
            now += passed + set;
            alerts.clock_set(set);
            let series = if is_there { found() } else { Vec::new() };
            let all = step_all(&mut alerts, series, now, (hold, keep), None).unwrap();
            assert_eq!(all[0].0.state, expected, "set by {set}, after {passed} ms");
        }
    }
}

#[test]
fn alerts_with_other_labels_each_time_leave_no_resolved_ones_without_end() {
    let mut alerts = Alerts::default();
    for step in 0..4 {
        let found = (0..RESOLVED_MAX / 2).map(|number| Found {
            labels: LabelSet::new([("x", format!("{step}-{number}"))]),
            annotations: Arc::from([(Arc::from("a"), "text".to_owned())]),
            value: 1.0,
        });
        let all = step_all(&mut alerts, found.collect(), step * 1_000, (0, 0), None).unwrap();
        let resolved = all.iter().filter(|(_, change)| *change == Some(Change::Resolved)).count();
        assert_eq!(resolved, if step == 0 { 0 } else { RESOLVED_MAX / 2 }, "each is told once");
    }
    assert_eq!(alerts.size().alerts, RESOLVED_MAX / 2);
    assert_eq!(alerts.iter().count(), RESOLVED_MAX / 2 + RESOLVED_MAX);
    assert_eq!(alerts.size().texts, alerts.iter().count() * "atext".len());
    let gone = LabelSet::new([("x", "0-0")]);
    assert!(alerts.get(&gone).is_none(), "the oldest went");
}

#[test]
fn a_hub_has_room_for_so_many_alerts_and_what_is_there_goes_on() {
    let found = |count: usize| -> Vec<Found> {
        let one = |number: usize| Found {
            labels: LabelSet::new([("x", number.to_string())]),
            annotations: Arc::from([]),
            value: 1.0,
        };
        (0..count).map(one).collect()
    };
    let mut alerts = Alerts::default();
    let mut step = |count, of_hub| {
        let most = Most { of_group: None, of_hub };
        alerts.step(found(count), 0, (0, 0), most, Scope::Except(&[], Kept::default())).map(|all| all.len())
    };
    assert_eq!(step(3, 3), Ok(3));
    assert_eq!(step(4, 3), Err(AlertsError::Hub(1)));
    assert_eq!(step(3, 2), Ok(3), "others have taken the room, and these stay");
    assert_eq!(alerts.size().alerts, 3);
}

#[test]
fn a_longer_hold_time_lets_a_firing_alert_wait_again() {
    let found = || vec![Found { labels: LabelSet::default(), annotations: Arc::from([]), value: 1.0 }];
    let mut alerts = Alerts::default();
    let mut change = |time, hold| step_all(&mut alerts, found(), time, (hold, 0), None).unwrap().remove(0).1;
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
        let most = Most { of_group: None, of_hub: HUB_ALERTS_MAX };
        let all = alerts.step(found, time, (0, 20_000), most, scope).unwrap();
        let word = |(alert, change): &Stepped| {
            format!("{} {} {change:?}", alert.labels.get("instance"), alert.state.as_str())
        };
        all.iter().map(word).collect()
    };
    assert_eq!(step(vec![found("n1", "a")], 0, Scope::One("n1")), ["n1 firing Some(Fired)"]);
    assert_eq!(
        step(vec![found("n2", "a")], 0, Scope::Except(&[&judging], Kept::default())),
        ["n1 firing None", "n2 firing Some(Fired)"]
    );
    assert_eq!(step(vec![], 1_000, Scope::One("n1")), ["n1 firing Some(KeepsFiring)"]);
    assert_eq!(
        step(vec![found("n2", "a")], 30_000, Scope::Except(&[&judging], Kept::default())),
        ["n1 firing None", "n2 firing None"],
        "the node says when it is over"
    );
    let unjudged = Kept { unjudged: Some(&judging), ..Kept::default() };
    assert_eq!(
        step(vec![found("n2", "a")], 81_000, Scope::Except(&[&judging], unjudged)),
        ["n1 firing None", "n2 firing None"],
        "while nobody judges the node, nobody says that it is over"
    );
    assert_eq!(
        step(vec![found("n2", "a")], 81_000, Scope::Except(&[&judging], Kept::default())),
        ["n1 inactive Some(Resolved)", "n2 firing None"],
        "but not for ever"
    );
}

#[test]
fn alerts_of_nodes_that_have_just_gone_go_on_and_those_of_no_node_for_a_time() {
    let (mut alerts, gone) = (Alerts::default(), BTreeSet::from([Arc::from("n1")]));
    let found = |node: &str| Found {
        labels: LabelSet::new([("instance", node)].into_iter().filter(|_| !node.is_empty())),
        annotations: Arc::from([]),
        value: 1.0,
    };
    let mut step = |nodes: &[&str], time, hold, kept: Kept<'_>| -> Vec<String> {
        let most = Most { of_group: None, of_hub: HUB_ALERTS_MAX };
        let found = nodes.iter().map(|node| found(node)).collect();
        let all = alerts.step(found, time, (hold, 0), most, Scope::Except(&[], kept)).unwrap();
        let word = |(alert, change): &Stepped| {
            let change = change.map_or_else(|| String::from("-"), |change| format!("{change:?}"));
            format!("{:?} {} {change}", alert.labels.get("instance"), alert.state.as_str())
        };
        all.iter().map(word).collect()
    };
    let kept = Kept { nodes: Some(&gone), others: 10_000, ..Kept::default() };
    step(&["n1", "n2", ""], 0, 0, Kept::default());
    let keeps = ["\"\" firing KeepsFiring", "\"n1\" firing KeepsFiring", "\"n2\" inactive Resolved"];
    assert_eq!(step(&[], 1_000, 0, kept), keeps);
    let one_ends = ["\"\" inactive Resolved", "\"n1\" firing -", "\"n2\" inactive -"];
    assert_eq!(step(&[], 11_000, 0, kept), one_ends);
    assert_eq!(step(&["n1"], 12_000, 0, Kept::default())[1], "\"n1\" firing Returned");
    assert_eq!(step(&[], 13_000, 0, Kept::default())[1], "\"n1\" inactive Resolved");
    // What is pending waits on, and fires only with its series.
    assert_eq!(step(&["n1", ""], 20_000, 5_000, kept)[1], "\"n1\" pending Pending");
    assert_eq!(step(&[], 24_000, 5_000, kept)[..2], ["\"\" inactive Dropped", "\"n1\" pending -"]);
    assert_eq!(step(&[], 26_000, 5_000, kept)[1], "\"n1\" pending -");
    assert_eq!(step(&["n1"], 27_000, 5_000, kept)[1], "\"n1\" firing Fired");
}

#[test]
fn an_alert_that_is_over_here_since_its_nodes_have_gone_to_another_hub_has_not_ended() {
    let ended = |lost_at: i64, left: Option<(i64, i64)>| {
        let mut alerts = Alerts::default();
        let labels = LabelSet::new([("alertname", "A")]);
        let found = || vec![Found { labels: labels.clone(), annotations: Arc::from([]), value: 1.0 }];
        let most = Most { of_group: None, of_hub: HUB_ALERTS_MAX };
        let mut step = |found, time, others| {
            let scope = Scope::Except(&[], Kept { others, left, ..Kept::default() });
            alerts.step(found, time, (0, 0), most, scope).unwrap();
            let alert = alerts.get(&labels).unwrap();
            (alert.last_end(), alert.ended_before)
        };
        step(found(), 1_000, 0);
        step(Vec::new(), lost_at, i64::MAX);
        let over = step(Vec::new(), 40_000, 0);
        (over.0, step(found(), 50_000, 0).1)
    };
    assert_eq!(ended(5_000, Some((4_000, 20_000))), (None, None));
    assert_eq!(ended(30_000, Some((4_000, 20_000))), (Some(40_000), Some(40_000)));
    assert_eq!(ended(5_000, None), (Some(40_000), Some(40_000)));
}

/// What an alert is but for its value and its texts, which the next evaluation gives it.
fn lasting(alerts: &Alerts) -> Vec<Alert> {
    alerts.iter().map(|alert| Alert { value: 0.0, annotations: Arc::from([]), ..(**alert).clone() }).collect()
}

proptest! {
    /// The alerts of a rule are saved, and said to another hub, after each step with a change, and after no other.
    #[test]
    fn a_step_that_says_of_no_change_leaves_nothing_to_be_saved(
        (hold, keep_firing) in (0..4i64, 0..4i64),
        steps in prop::collection::vec((0..4u8, 0..3u8, 1..4i64), 1..60),
    ) {
        let judging = BTreeSet::from([Arc::from("n1")]);
        let (mut alerts, mut saved, mut time) = (Alerts::default(), Vec::new(), 0);
        for (there, scope, seconds) in steps {
            time += seconds * 1_000;
            let names = ["n1", "n2"].into_iter().enumerate().filter(|(bit, _)| there & (1 << bit) != 0);
            let one = |(_, node)| Found {
                labels: LabelSet::new([("instance", node)]),
                annotations: Arc::from([]),
                value: time as f64,
            };
            let found = names.map(one).collect::<Vec<_>>();
            let judging = [&judging];
            let (scope, found) = match scope {
                0 => (Scope::Except(&[], Kept::default()), found),
                1 => (Scope::Except(&judging, Kept::default()), found.into_iter().filter(|one| node_of(&one.labels) == "n2").collect()),
                _ => (Scope::One("n1"), found.into_iter().filter(|one| node_of(&one.labels) == "n1").collect()),
            };
            let most = Most { of_group: None, of_hub: HUB_ALERTS_MAX };
            let all = alerts.step(found, time, (hold * 1_000, keep_firing * 1_000), most, scope).unwrap();
            if all.iter().any(|(_, change)| change.is_some()) {
                saved = lasting(&alerts);
            }
            prop_assert_eq!(lasting(&alerts), saved.clone());
        }
    }
}
