//! Alerts whose rule was removed or changed are resolved, at a change of the files and at a restart with other files.

use super::*;
use crate::alert::RESOLVED_KEPT;
use crate::limits::RESOLVED_MAX;

const BEFORE: &str = "groups: [{name: g, rules: [{alert: A, expr: b}, {alert: B, expr: b, labels: {severity: warn}}, {alert: C, expr: b}, \
                      {alert: D, expr: b, for: 1h}, {alert: E, expr: b}]}]";
/// A stays, B has another label, C has to hold for longer, and nothing is left of D and E.
const AFTER: &str = "groups: [{name: g, rules: [{alert: A, expr: b > 0}, {alert: B, expr: b, labels: {severity: page}}, \
                     {alert: C, expr: b, for: 1h}]}]";
const NONE: &str = "groups: [{name: other, rules: []}]";

/// A group whose alerts fire since 1 ms, but for D, which waits.
fn firing() -> Stage {
    let mut stage = Stage::new(BEFORE);
    stage.set("b", "1", 0, 1.0);
    stage.pass(1);
    stage
}

/// What is gone: names, when they fired, and when they were resolved.
fn shown<'a>(gone: impl IntoIterator<Item = &'a GoneAlert>) -> Vec<(String, Option<i64>, Option<i64>)> {
    let name = |one: &GoneAlert| one.alert.labels.get(ALERT_NAME).to_owned();
    let mut all: Vec<_> = gone
        .into_iter()
        .inspect(|one| assert_eq!(one.alert.state, AlertState::Inactive))
        .map(|one| (name(one), one.alert.fired_at, one.alert.resolved_at))
        .collect();
    all.sort();
    all
}

fn expected(names: &[&str], resolved: i64) -> Vec<(String, Option<i64>, Option<i64>)> {
    names.iter().map(|name| ((*name).to_owned(), Some(1), Some(resolved))).collect()
}

/// A state of no group.
fn with_none(gone: &Gone) -> Saved {
    let mut saved = Saved::new(Vec::new());
    saved.gone = gone.save();
    saved
}

#[test]
fn firing_alerts_of_rules_that_were_removed_or_changed_are_resolved_once() {
    let mut changed = firing().evaluator.changed(group(AFTER), 500);
    assert_eq!(shown(&changed.take_gone()), expected(&["B", "C", "E"], 500), "D was never told");
    assert!(changed.take_gone().is_empty());
    let states: Vec<_> = (0..3).flat_map(|rule| changed.alerts(rule)).map(|alert| alert.state).collect();
    assert_eq!(states, [AlertState::Firing, AlertState::Pending], "A goes on, and C waits");
    let records = "groups: [{name: g, rules: [{record: A, expr: b}]}]";
    let mut changed = firing().evaluator.changed(group(records), 500);
    assert_eq!(shown(&changed.take_gone()), expected(&["A", "B", "C", "E"], 500));
    assert_eq!(shown(&firing().evaluator.into_gone(500)), expected(&["A", "B", "C", "E"], 500));
    assert_eq!(&*firing().evaluator.into_gone(500)[0].expr, "b");
}

#[test]
fn an_alert_that_was_resolved_before_its_rule_went_keeps_its_end() {
    let mut stage = firing();
    stage.set("b", "1", 300, f64::NAN);
    stage.memory = Memory::default();
    stage.pass(400);
    assert_eq!(shown(&stage.evaluator.into_gone(500)), expected(&["A", "B", "C", "E"], 400));
}

#[test]
fn a_restart_with_other_files_resolves_what_has_no_rule_however_long_it_took() {
    let saved = Saved::new(vec![firing().evaluator.save().unwrap()]);
    for now in [10_000, 10 * 3_600_000] {
        let mut restored =
            Evaluator::restore(group(AFTER), Arc::default(), saved.group(&group(AFTER)).unwrap(), now);
        let gone = shown(&restored.take_gone());
        // After a long pause all alerts begin again, and that of C cannot be told from one that never was.
        let names = if now == 10_000 { &["B", "C", "E"][..] } else { &["B", "E"] };
        assert_eq!(gone, expected(names, now));
        assert!(Gone::restore(&saved, &[group(AFTER)], now).is_empty(), "its group is there");
        let gone = Gone::restore(&saved, &[group(NONE)], now);
        assert_eq!(shown(gone.iter()), expected(&["A", "B", "C", "E"], now));
    }
}

#[test]
fn what_has_no_rule_outlives_restarts_for_as_long_as_other_resolved_alerts() {
    let mut gone = Gone::default();
    gone.add(firing().evaluator.into_gone(500));
    let bytes = with_none(&gone).to_bytes().0;
    let saved = Saved::from_bytes(&bytes).unwrap();
    let restored = |now| Gone::restore(&saved, &[group(NONE)], now);
    assert_eq!(shown(restored(500 + RESOLVED_KEPT).iter()), expected(&["A", "B", "C", "E"], 500));
    assert_eq!(&*restored(500).iter().next().unwrap().expr, "b");
    assert!(restored(501 + RESOLVED_KEPT).is_empty() && restored(499 - RESOLVED_KEPT).is_empty());
    let fires_again = gone.iter().next().unwrap().alert.labels.clone();
    gone.remove(&fires_again);
    assert_eq!(shown(gone.iter()).len(), 3);
}

#[test]
fn of_too_many_that_have_no_rule_the_newest_are_mentioned_and_saved_within_the_size() {
    let one = firing().evaluator.into_gone(500).remove(0);
    let numbered = |number: usize| {
        let mut one = one.clone();
        let alert = Arc::make_mut(&mut one.alert);
        alert.labels = LabelSet::new([(ALERT_NAME, "A"), ("x", number.to_string().as_str())]);
        alert.resolved_at = Some(number.try_into().unwrap());
        one
    };
    let mut gone = Gone::default();
    gone.add((0..RESOLVED_MAX + 3).map(numbered));
    let oldest = gone.iter().filter_map(|one| one.alert.resolved_at).min();
    assert_eq!((gone.iter().count(), oldest), (RESOLVED_MAX, Some(3)));
    let all = with_none(&gone);
    let (bytes, left_out) = all.within(10_000);
    let kept = Saved::from_bytes(&bytes).unwrap().gone.len();
    assert!(bytes.len() <= 10_000 && kept > 10, "{kept} of {} bytes", bytes.len());
    assert_eq!(left_out.alerts, RESOLVED_MAX - kept);
}

#[test]
fn alerts_of_a_rule_that_gives_more_than_its_limit_are_resolved_once_and_begin_again_below_it() {
    let mut stage = Stage::new(
        "groups: [{name: g, limit: 2, rules: [{alert: A, expr: b}, {alert: B, expr: c, for: 1h}]}]",
    );
    stage.set("b", "1", 0, 1.0);
    stage.set("b", "2", 0, 1.0);
    stage.set("c", "1", 0, 1.0);
    stage.pass(1);
    assert!(!stage.evaluator.has_gone());
    stage.set("b", "3", 2, 1.0);
    ["1", "2", "3"].into_iter().for_each(|label| stage.set("c", label, 2, 1.0));
    let pass = stage.pass(3);
    assert!(pass.rules.iter().all(|rule| rule.error.is_some()), "{pass:?}");
    assert_eq!(shown(&stage.evaluator.take_gone()), expected(&["A", "A"], 3), "B did not fire");
    stage.pass(4);
    assert!(!stage.evaluator.has_gone(), "once");
    stage.set("b", "3", 5, khz_promql::stale());
    let pass = stage.pass(6);
    let fired = pass.alerts.iter().filter(|one| one.change == Some(Change::Fired));
    assert_eq!(fired.map(|one| one.alert.active_at).collect::<Vec<_>>(), [6, 6]);
}
