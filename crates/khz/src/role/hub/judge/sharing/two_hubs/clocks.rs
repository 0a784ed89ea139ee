//! Two hubs whose clocks are wrong, or are set.

use super::*;

const HOUR: i64 = 3_600_000;
const MINUTE: i64 = 60_000;

/// When the series of the alert comes, and for how long it has to wait (ms).
const COMES: i64 = 40_000;
const HOLD: i64 = 60_000;
/// When the hub that has the node dies.
const DIES: i64 = 85_000;

/// An alert of a node that waits while its hub dies.
fn waits() -> Course {
    let (period, on, phase) = (10_000_000, 9_000_000, START + COMES);
    let flap = Flap { period, on, interval: 5_000, hold: HOLD, keep: 0, phase, of: Of::Node };
    let dies = Outage { hub: 0, from: DIES, to: 10_000_000, is_freeze: false };
    let (flaps, nodes) = (vec![flap], vec![Node::new(0, Vec::new())]);
    let (delay, outages, wait, length) = (1_000, vec![dies], 0, 200_000);
    Course { flaps, delay, outages, nodes, wait, length, files: Files::Same, late: 0 }
}

/// When people hear of it, and when it is acted on, where clocks are set so: the hub, when that is, and by how much.
fn heard(sets: &[(usize, i64, i64)]) -> Vec<(i64, What)> {
    heard_in(&waits(), sets)
}

fn heard_in(course: &Course, sets: &[(usize, i64, i64)]) -> Vec<(i64, What)> {
    let world = run_while(course, &|world, at| {
        for (hub, _, by) in sets.iter().filter(|(_, when, _)| *when == at) {
            world.set_clock(*hub, *by, START + at);
        }
    });
    world.heard("a0").into_iter().map(|(at, what, _)| (at, what)).collect()
}

/// It waits as long as if both clocks were right.
fn waits_as_long(sets: &[(usize, i64, i64)]) {
    let heard = heard(sets);
    let mut whats: Vec<What> = heard.iter().map(|(_, what)| *what).collect();
    whats.sort_by_key(|what| *what == What::Acted);
    assert_eq!(whats, [What::Fires, What::Acted], "{sets:?}: {heard:?}");
    let due = COMES + HOLD;
    // Two evaluations, and 10 s after a clock was set, for its nodes' rows.
    let late = 2 * 5_000 + if sets.iter().any(|(_, at, _)| *at > DIES) { 10_000 } else { 0 };
    assert!(heard.iter().all(|(at, _)| (due - 1_000..due + late).contains(at)), "{sets:?}: {heard:?}");
}

#[test]
fn an_alert_waits_as_long_at_the_other_hub_if_the_clocks_are_right() {
    waits_as_long(&[]);
}

#[test]
fn an_alert_waits_as_long_at_the_other_hub_if_the_clock_of_one_was_wrong_all_the_time() {
    for by in [-HOUR, -MINUTE, MINUTE, HOUR, 20 * HOUR] {
        waits_as_long(&[(0, 0, by)]);
        waits_as_long(&[(1, 0, by)]);
    }
}

#[test]
fn an_alert_waits_as_long_at_the_other_hub_if_the_clock_of_the_first_one_is_set_before_or_while_it_waits() {
    for by in [-HOUR, -MINUTE, MINUTE, HOUR] {
        for at in [25_000, 60_000] {
            waits_as_long(&[(0, at, by)]);
            waits_as_long(&[(0, 0, -by), (0, at, by)]);
        }
    }
}

#[test]
fn an_alert_waits_as_long_at_the_other_hub_if_its_clock_is_set_before_or_after_the_first_one_dies() {
    for by in [-HOUR, -MINUTE, MINUTE, HOUR] {
        for at in [25_000, 60_000, DIES + 300, DIES + 5_000] {
            waits_as_long(&[(1, at, by)]);
            waits_as_long(&[(1, 0, -by), (1, at, by)]);
        }
    }
}

#[test]
fn an_alert_waits_as_long_at_the_other_hub_if_both_clocks_are_set_one_after_the_other() {
    for by in [-HOUR, HOUR] {
        waits_as_long(&[(0, 50_000, by), (1, 60_000, by)]);
        waits_as_long(&[(0, 50_000, by), (1, DIES + 3_000, by)]);
    }
}

/// Both hubs die while the alert waits, and the second one comes back alone: it goes by the last word of the first one.
#[test]
fn an_alert_waits_as_long_at_the_other_hub_if_both_die_and_the_other_one_comes_back_alone() {
    for sets in
        [vec![], vec![(0, 0, HOUR)], vec![(0, 0, -HOUR)], vec![(1, 0, HOUR)], vec![(0, 60_000, -HOUR)]]
    {
        let dies = |hub, from, to| Outage { hub, from, to, is_freeze: false };
        let outages = vec![dies(0, DIES, 10_000_000), dies(1, DIES + 400, DIES + 20_000)];
        let course = Course { outages, ..waits() };
        let heard = heard_in(&course, &sets);
        let told: Vec<i64> =
            heard.iter().filter(|(_, what)| *what == What::Fires).map(|(at, _)| *at).collect();
        // A gap of less than a minute counts as none. The hub evaluates some time after its start.
        let due = (COMES + HOLD).max(DIES + 30_000);
        assert!(told.len() == 1 && (due - 1_000..due + 20_000).contains(&told[0]), "{sets:?}: {heard:?}");
    }
}
