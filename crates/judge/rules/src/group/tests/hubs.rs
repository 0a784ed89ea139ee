//! Groups whose alerts move between hubs, whose rules are asked by another thread, and what the alerts of a hub may take together.

use super::*;

#[test]
fn alerts_move_to_another_hub_with_their_times_and_the_first_hub_says_nothing() {
    let text = "groups: [{name: g, rules: [{alert: F, expr: a}, {alert: P, expr: b, for: 1h, annotations: {n: '{{ $value }}'}}]}]";
    let mut first = Stage::new(text);
    first.set_on("a", "n1", 999);
    first.set_on("b", "n1", 999);
    first.set_on("b", "n2", 999);
    first.pass(1_000);
    let saved = first.evaluator.save().unwrap();
    let nodes =
        |names: &[&str]| -> BTreeSet<Arc<str>> { names.iter().map(|name| Arc::from(*name)).collect() };
    let of = |node: &'static str| move |alert: &SavedAlert| alert.labels["instance"] == node;
    let mut second = Stage::new(text);
    let handover = Handover { known_at: 50_000, now: 61_000, left_at: None };
    let adopted = second.evaluator.adopt(&saved, handover, false, &of("n1"));
    let times = |one: &PassedAlert| (one.rule, one.alert.active_at, one.alert.fired_at, one.change);
    assert_eq!(
        adopted.iter().map(times).collect::<Vec<_>>(),
        [(0, 1_000, Some(1_000), None), (1, 1_000, None, None)]
    );
    assert!(second.evaluator.adopt(&saved, handover, false, &of("n1")).is_empty(), "it has them");
    let kept = second.evaluator.save().expect("it is killed before its first pass");
    assert!(kept.rules.iter().zip(&saved.rules).all(|(kept, saved)| kept.alerts[0] == saved.alerts[0]));
    // They go on where they are now.
    second.set_on("a", "n1", 61_999);
    second.set_on("b", "n1", 61_999);
    let pass = second.pass(62_000);
    assert!(pass.alerts.iter().all(|one| one.change.is_none()), "{:?}", pass.alerts);
    // Of two that are active, the older one counts; what is active at the other hub only is not wanted.
    let mut third = Stage::new(text);
    third.set_on("b", "n2", 29_999);
    third.pass(30_000);
    let anything = |_: &SavedAlert| true;
    let merged = third.evaluator.adopt(
        &saved,
        Handover { known_at: 31_000, now: 31_000, left_at: None },
        true,
        &anything,
    );
    assert_eq!(merged.iter().map(times).collect::<Vec<_>>(), [(1, 1_000, None, None)]);
    // It fires for as long as at the hub that saw it first, and what this one has judged itself stays.
    let mut later = Stage::new(text);
    later.set_on("a", "n1", 29_999);
    later.pass(30_000);
    let mut of_other = saved.clone();
    let alerts = of_other.rules.iter_mut().flat_map(|rule| &mut rule.alerts);
    alerts.for_each(|alert| alert.fired_here_at = None);
    let merged = later.evaluator.adopt(
        &of_other,
        Handover { known_at: 31_000, now: 31_000, left_at: None },
        true,
        &anything,
    );
    let judged = |alert: &Alert| (alert.fired_at, alert.fired_here_at);
    assert_eq!(judged(&merged[0].alert), (Some(1_000), Some(30_000)));
    // Of one that only the other hub has judged, this is known once this hub has judged it.
    let mut taker = Stage::new(text);
    taker.evaluator.adopt(
        &of_other,
        Handover { known_at: 31_000, now: 31_000, left_at: None },
        false,
        &anything,
    );
    taker.set_on("a", "n1", 31_999);
    let pass = taker.pass(32_000);
    let of_rule = pass.alerts.iter().find(|one| one.rule == 0).unwrap();
    assert_eq!(judged(&of_rule.alert), (Some(1_000), Some(32_000)));
    // After a long time without a word, a pending alert waits as after a restart.
    let mut late = Stage::new(text);
    let handover = Handover { known_at: 50_000, now: 650_000, left_at: None };
    let adopted = late.evaluator.adopt(&saved, handover, false, &of("n2"));
    assert_eq!(adopted[0].alert.active_at, 1_000 + 600_000);
    let handover = Handover { known_at: 50_000, now: 50_000 + 3_600_001, left_at: None };
    assert!(Stage::new(text).evaluator.adopt(&saved, handover, false, &anything).is_empty());
    // The first hub forgets, and its series end.
    assert!(
        first.evaluator.release(&nodes(&["n1"]), true) && !first.evaluator.release(&nodes(&["n1"]), true)
    );
    let share = Arc::new(Share { away: Arc::new(nodes(&["n1"])), ..Share::default() });
    let engine = Engine::new(Limits::default());
    let pass = first
        .evaluator
        .evaluate_share(&engine, &first.memory, 2_000, &mut || Duration::ZERO, &|_| share.clone());
    let left: Vec<&str> = pass.alerts.iter().map(|one| one.alert.labels.get("instance")).collect();
    assert_eq!(left, ["n2"], "n1 is neither there nor over, though its series are");
}

#[test]
fn while_a_rule_is_asked_a_node_may_begin_to_judge_it_and_its_word_counts() {
    let text = "groups: [{name: g, rules: [{alert: A, expr: a}]}]";
    let mut stage = Stage::new(text);
    stage.set_on("a", "n1", 999);
    stage.set_on("a", "n2", 999);
    let engine = Engine::new(Limits::default());
    let share = Arc::new(Share::default());
    let mut passing = stage.evaluator.begin(1_000);
    let asking = stage.evaluator.asking(&passing, &share).unwrap();
    let answered = asking.ask(&passing, &engine, &stage.memory, &mut || Duration::ZERO);
    // Meanwhile n1 says that it judges, and that nothing is there.
    stage.evaluator.take(&engine, &stage.memory, ("n1", 1_000), vec![(0, Vec::new())]);
    let now = Arc::new(Share { judging: BTreeSet::from([Arc::from("n1")]), ..Share::default() });
    assert!(stage.evaluator.answered(&mut passing, answered, &now));
    let pass = stage.evaluator.finish(passing);
    let there: Vec<&str> = pass.alerts.iter().map(|one| one.alert.labels.get("instance")).collect();
    assert_eq!(there, ["n2"]);
}

#[test]
fn annotations_of_all_rules_together_have_a_limit_and_what_is_beyond_it_is_counted() {
    let text = "groups: [{name: g, rules: [{alert: A, expr: a, annotations: {n: 0123456789}}, {alert: B, expr: a, annotations: {n: 0123456789}}]}]";
    let mut stage = Stage::new(text);
    (0..10).for_each(|n| stage.set("a", &n.to_string(), 999, 1.0));
    stage.evaluator.limit(Room { alerts: 100, texts: 11 * 15 });
    let pass = stage.pass(1_000);
    assert_eq!([pass.rules[0].bare, pass.rules[1].bare], [0, 5]);
    assert!(pass.rules[1].warnings[0].starts_with("5 alerts have no annotations"), "{:?}", pass.rules[1]);
    assert_eq!(stage.evaluator.size(), Room { alerts: 20, texts: 11 * 15 });
    // The same again: what a rule has is its own to renew.
    stage.pass(2_000);
    assert_eq!(stage.evaluator.size(), Room { alerts: 20, texts: 11 * 15 });
    stage.evaluator.limit(Room { alerts: 20, texts: 1_000 });
    stage.set("a", "more", 2_999, 1.0);
    let pass = stage.pass(3_000);
    let error = |rule: usize| pass.rules[rule].error.as_deref().unwrap_or_default();
    assert!(error(0).contains("the limit of a hub"), "{:?}", pass.rules[0]);
    assert_eq!(stage.evaluator.size().alerts, 20, "those before stay");
}
