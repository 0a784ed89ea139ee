//! A group is evaluated: what its rules record, which alerts they make, and what outlives a restart.

use std::path::Path;

use khz_promql::{Limits, is_stale, label_text};

use super::saved::SavedGroup;
use super::*;
use crate::alert::AlertState;
use crate::limits::STATE_BYTES_MAX;
use crate::memory::Memory;
use crate::rule::RuleSet;

mod gone;
mod hubs;
mod kept;
mod rows;

fn group(text: &str) -> Arc<Group> {
    let set =
        RuleSet::parse(Path::new("test.yml"), text.as_bytes()).unwrap_or_else(|error| panic!("{error}"));
    set.groups().next().unwrap().clone()
}

/// A group, and what it has recorded.
struct Stage {
    evaluator: Evaluator,
    memory: Memory,
}

impl Stage {
    fn new(text: &str) -> Self {
        Stage { evaluator: Evaluator::new(group(text), Arc::default()), memory: Memory::default() }
    }

    fn set(&mut self, name: &str, label: &str, time: i64, value: f64) {
        let labels = LabelSet::new([(METRIC_NAME, name), ("x", label)]);
        self.memory.add(&labels, time, value);
    }

    fn set_on(&mut self, name: &str, node: &str, time: i64) {
        let labels = LabelSet::new([(METRIC_NAME, name), ("instance", node)]);
        self.memory.add(&labels, time, 1.0);
    }

    fn pass(&mut self, time: i64) -> Pass {
        let mut clock = || Duration::ZERO;
        let pass = self.evaluator.evaluate(&Engine::new(Limits::default()), &self.memory, time, &mut clock);
        for sample in &pass.samples {
            self.memory.add(&sample.labels, sample.time, sample.value);
        }
        pass
    }
}

fn samples(pass: &Pass) -> Vec<String> {
    let text = |sample: &Recorded| {
        let value = if is_stale(sample.value) { String::from("stale") } else { sample.value.to_string() };
        format!("{} {} {value}", label_text(&sample.labels), sample.time)
    };
    pass.samples.iter().map(text).collect()
}

#[test]
fn a_rule_sees_what_those_before_it_recorded_in_the_same_pass() {
    let text =
        "groups: [{name: g, rules: [{record: a, expr: b + 1, labels: {y: z}}, {record: c, expr: a * 2}]}]";
    let mut stage = Stage::new(text);
    stage.set("b", "1", 0, 1.0);
    assert_eq!(
        samples(&stage.pass(1_000)),
        ["{__name__=\"a\", x=\"1\", y=\"z\"} 1000 2", "{__name__=\"c\", x=\"1\", y=\"z\"} 1000 4"]
    );
    // The samples of the pass before are below, those of this one above.
    stage.set("b", "1", 1_500, 5.0);
    let pass = stage.pass(2_000);
    assert_eq!(samples(&pass)[1], "{__name__=\"c\", x=\"1\", y=\"z\"} 2000 12");
    assert!(pass.rules.iter().all(|report| report.error.is_none() && report.samples == 1));
}

#[test]
fn a_series_that_a_rule_no_longer_gives_ends_and_so_does_the_state_of_an_alert() {
    let mut stage = Stage::new(
        "groups: [{name: g, rules: [{alert: A, expr: b > 0, for: 1s}, {record: r, expr: b > 0}]}]",
    );
    stage.set("b", "1", 0, 1.0);
    let state =
        |state: &str| format!("{{__name__=\"ALERTS\", alertname=\"A\", alertstate=\"{state}\", x=\"1\"}}");
    let since = "{__name__=\"ALERTS_FOR_STATE\", alertname=\"A\", x=\"1\"}";
    let recorded = "{__name__=\"r\", x=\"1\"}";
    let pass = stage.pass(1_000);
    assert_eq!(
        samples(&pass),
        [format!("{} 1000 1", state("pending")), format!("{since} 1000 1"), format!("{recorded} 1000 1")]
    );
    assert_eq!(
        samples(&stage.pass(2_000)),
        [
            format!("{} 2000 1", state("firing")),
            format!("{since} 2000 1"),
            format!("{} 2000 stale", state("pending")),
            format!("{recorded} 2000 1")
        ]
    );
    stage.set("b", "1", 2_500, 0.0);
    let pass = stage.pass(3_000);
    assert_eq!(
        samples(&pass),
        [
            format!("{} 3000 stale", state("firing")),
            format!("{since} 3000 stale"),
            format!("{recorded} 3000 stale")
        ]
    );
    assert_eq!(pass.alerts[0].change, Some(Change::Resolved));
    assert!(stage.pass(4_000).samples.is_empty());
}

#[test]
fn what_fails_keeps_its_alerts_and_says_why() {
    let text = "groups:\n- name: g\n  limit: 1\n  rules:\n  - {alert: A, expr: b, labels: {x: same}}\n  - {record: r, expr: b, labels: {x: same}}\n  - {record: s, expr: b}\n  - {record: t, expr: 'b[5m]'}\n  - {alert: B, expr: b}";
    let mut stage = Stage::new(text);
    stage.set("b", "1", 0, 1.0);
    assert!(stage.pass(1).rules[0].error.is_none());
    stage.set("b", "2", 2, 1.0);
    let pass = stage.pass(3);
    let errors: Vec<&str> =
        pass.rules.iter().map(|report| report.error.as_deref().unwrap_or_default()).collect();
    assert_eq!(
        errors,
        [
            "vector contains metrics with the same labelset after applying alert labels",
            "vector contains metrics with the same labelset after applying rule labels",
            "exceeded limit of 1 with 2 series",
            "rule result is not a vector or scalar",
            "exceeded limit of 1 with 2 alerts",
        ]
    );
    let firing: Vec<usize> = pass.alerts.iter().map(|alert| alert.rule).collect();
    assert_eq!(firing, [0]);
}

#[test]
fn queries_and_samples_lie_back_by_the_offset_of_the_group() {
    let mut stage = Stage::new("groups: [{name: g, query_offset: 1m, rules: [{record: r, expr: b}]}]");
    stage.set("b", "1", 0, 1.0);
    stage.set("b", "1", 30_000, 2.0);
    assert_eq!(samples(&stage.pass(80_000)), ["{__name__=\"r\", x=\"1\"} 20000 1"]);
}

const FOR_15M: &str =
    "groups: [{name: g, rules: [{alert: A, expr: b > 0, for: 15m, labels: {s: '{{ $value }}'}}]}]";

/// A group whose alert is pending since 0, saved at some minute and restored at another; the minute since when it is active.
fn restored_at(saved: i64, now: i64) -> Option<i64> {
    let mut stage = Stage::new(FOR_15M);
    stage.set("b", "1", 0, 1.0);
    for minute in 0..=saved {
        stage.set("b", "1", minute * 60_000 + 1, 1.0);
        stage.pass(minute * 60_000 + 1);
    }
    let bytes = Saved::new(vec![stage.evaluator.save().unwrap()]).to_bytes().0;
    let saved = Saved::from_bytes(&bytes).unwrap();
    let group = group(FOR_15M);
    let found = saved.group(&group).unwrap();
    let restore =
        |found: &SavedGroup| Evaluator::restore(group.clone(), Arc::default(), found, now * 60_000 + 1);
    let evaluator = restore(found);
    // Killed before its first pass, and started again at once: nothing is lost, and the pause does not count twice.
    let again = restore(&evaluator.save().unwrap());
    assert!(again.alerts(0).eq(evaluator.alerts(0)));
    let alert = evaluator.alerts(0).next()?;
    Some((alert.active_at - 1) / 60_000)
}

#[test]
fn a_pending_alert_goes_on_after_a_restart_as_in_prometheus() {
    // Eleven of fifteen minutes are left: the pause does not count.
    assert_eq!(restored_at(4, 10), Some(6));
    // Five are left: it waits for ten.
    assert_eq!(restored_at(10, 12), Some(7));
    // Longer than an hour, and a clock that went back: it begins again.
    assert_eq!((restored_at(4, 70), restored_at(4, 3)), (None, None));
}

#[test]
fn a_firing_alert_goes_on_after_a_restart_and_is_resolved_when_its_series_is_gone() {
    let mut stage = Stage::new("groups: [{name: g, rules: [{alert: A, expr: b > 0}, {record: r, expr: b}]}]");
    stage.set("b", "1", 0, f64::NAN);
    stage.set("b", "1", 1, f64::INFINITY);
    let before = stage.pass(1);
    let saved = stage.evaluator.save().unwrap();
    let group = stage.evaluator.group().clone();
    let restored = Evaluator::restore(group, Arc::default(), &saved, 60_000);
    assert_eq!(restored.alerts(0).next().unwrap(), &before.alerts[0].alert);
    let mut stage = Stage { evaluator: restored, memory: Memory::default() };
    let pass = stage.pass(60_000);
    assert_eq!(pass.alerts[0].change, Some(Change::Resolved));
    assert_eq!(samples(&pass).iter().filter(|sample| sample.ends_with("stale")).count(), 3);
}

#[test]
fn a_state_of_another_version_or_that_is_none_is_refused() {
    let text = |bytes: &[u8]| Saved::from_bytes(bytes).unwrap_err().to_string();
    assert!(text(b"{\"khz_rules\":2,\"groups\":[]}").contains("version 2"));
    assert!(text(b"{").contains("cannot be used"));
    assert!(text(&vec![b' '; crate::limits::STATE_READ_BYTES_MAX + 1]).contains("may have"));
}

#[test]
fn the_bytes_of_a_saved_state_stay() {
    let mut stage = Stage::new(
        "groups: [{name: g, rules: [{alert: A, expr: b > 0, annotations: {t: u}}, {record: r, expr: b}]}]",
    );
    stage.set("b", "1", 0, 1.5);
    stage.pass(7);
    let bytes = Saved::new(vec![stage.evaluator.save().unwrap()]).to_bytes().0;
    let expected = concat!(
        r#"{"khz_rules":1,"groups":[{"file":"test.yml","name":"g","time":7,"rules":[{"name":"A","labels":{},"#,
        r#""alerts":[{"state":"firing","labels":{"alertname":"A","x":"1"},"annotations":{"t":"u"},"value":"1.5","#,
        r#""active_at":7,"fired_at":7,"fired_here_at":7}],"series":[{"__name__":"ALERTS","alertname":"A","alertstate":"firing","x":"1"},"#,
        r#"{"__name__":"ALERTS_FOR_STATE","alertname":"A","x":"1"}]},"#,
        r#"{"name":"r","labels":{},"series":[{"__name__":"r","x":"1"}]}]}]}"#,
    );
    assert_eq!(String::from_utf8(bytes).unwrap(), expected);
}

#[test]
fn a_changed_group_keeps_the_state_of_rules_that_are_still_there_and_ends_the_series_of_others() {
    let mut stage = Stage::new("groups: [{name: g, rules: [{record: q, expr: b}, {alert: A, expr: b > 0}]}]");
    stage.set("b", "1", 0, 1.0);
    stage.pass(1);
    let changed =
        group("groups: [{name: g, rules: [{alert: A, expr: b > 0.5, for: 1s}, {alert: B, expr: b > 0}]}]");
    assert!(*changed != **stage.evaluator.group());
    stage.evaluator = stage.evaluator.changed(changed, 1_001);
    let pass = stage.pass(1_001);
    assert_eq!(pass.alerts.iter().map(|alert| alert.change).collect::<Vec<_>>(), [None, Some(Change::Fired)]);
    assert_eq!(samples(&pass).last().unwrap(), "{__name__=\"q\", x=\"1\"} 1001 stale");
    let ends = stage.evaluator.end(2_000);
    assert!(ends.len() == 4 && ends.iter().all(|end| is_stale(end.value) && end.time == 2_000));
}

#[test]
fn groups_are_due_at_multiples_of_their_interval_moved_by_a_part_that_is_their_own() {
    let one = Stage::new("groups: [{name: g, interval: 15s, rules: []}]").evaluator;
    let two = Stage::new("groups: [{name: h, interval: 15s, rules: []}]").evaluator;
    assert_ne!(one.next(0) % 15_000, two.next(0) % 15_000);
    for after in [-1, 0, 14_999, 1_800_000_000_000] {
        let due = one.next(after);
        assert!(due > after && due <= after + 15_000 && (due - one.next(0)) % 15_000 == 0);
        assert_eq!(one.next(due), due + 15_000);
    }
}

/// A source in which somebody asks for `stop`.
struct Stopping<'a> {
    below: &'a Memory,
    flag: Arc<std::sync::atomic::AtomicBool>,
    asked: std::sync::atomic::AtomicUsize,
}

impl Source for Stopping<'_> {
    fn select(
        &self,
        wanted: &khz_promql::Selection,
        sink: &mut dyn khz_promql::Sink,
    ) -> Result<Vec<String>, khz_promql::QueryError> {
        if wanted.matchers.iter().any(|matcher| matcher.value == "stop") {
            self.asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            self.flag.store(true, std::sync::atomic::Ordering::Relaxed);
        }
        self.below.select(wanted, sink)
    }

    fn series(
        &self,
        matchers: &[khz_promql::Matcher],
        after: i64,
        to: i64,
        limit: usize,
    ) -> Result<(Vec<LabelSet>, bool), khz_promql::QueryError> {
        self.below.series(matchers, after, to, limit)
    }
}

#[test]
fn a_rule_that_is_cancelled_in_its_templates_stops_there_and_is_still_the_next() {
    let text = "groups: [{name: g, rules: [{record: r, expr: a}, {alert: A, expr: a, annotations: {n: '{{ query \"stop\" | len }}'}}]}]";
    let mut stage = Stage::new(text);
    (0..50).for_each(|n| stage.set("a", &n.to_string(), 0, 1.0));
    let flag = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let source = Stopping { below: &stage.memory, flag: flag.clone(), asked: 0.into() };
    let engine = Engine::new(Limits::default()).cancelled_by(flag.clone());
    let (mut clock, all) = (|| Duration::ZERO, Arc::new(Share::default()));
    let mut passing = stage.evaluator.begin(1_000);
    assert!(stage.evaluator.step(&mut passing, &engine, &source, &mut clock, &all));
    assert_eq!(passing.next_rule(), Some(1));
    assert!(!stage.evaluator.step(&mut passing, &engine, &source, &mut clock, &all));
    assert_eq!(
        (passing.next_rule(), source.asked.load(std::sync::atomic::Ordering::Relaxed)),
        (Some(1), 1),
        "the other 49 were not expanded"
    );
    assert_eq!(stage.evaluator.alerts(1).count(), 0);
    // Nobody stops it now.
    let engine = Engine::new(Limits::default());
    assert!(stage.evaluator.step(&mut passing, &engine, &source, &mut clock, &all));
    let pass = stage.evaluator.finish(passing);
    assert_eq!(
        (pass.rules.len(), pass.alerts.len(), source.asked.load(std::sync::atomic::Ordering::Relaxed)),
        (2, 50, 51)
    );
}

#[test]
fn the_templates_of_a_rule_and_its_query_have_one_time_together() {
    let mut stage = Stage::new("groups: [{name: g, rules: [{alert: A, expr: a, annotations: {n: x}}]}]");
    stage.set("a", "1", 0, 1.0);
    let engine = Engine::new(Limits { time: Duration::ZERO, ..Limits::default() }).together();
    assert!(matches!(engine.check(), Err(khz_promql::QueryError::Timeout(_))));
    // What a node says is not asked for again: only templates take time then.
    let given = vec![(0, vec![VectorSample { labels: LabelSet::default(), time: 0, value: 1.0 }])];
    let (passed, failed) = stage.evaluator.take(&engine, &stage.memory, ("n1", 0), given);
    assert!(passed.is_empty() && failed[0].error.starts_with("its templates take too long"), "{failed:?}");
}

#[test]
fn what_a_node_says_between_two_rules_of_a_pass_is_not_told_again_as_it_was_before() {
    let text = "groups: [{name: g, rules: [{alert: A, expr: a}, {record: r, expr: a}]}]";
    let mut stage = Stage::new(text);
    let engine = Engine::new(Limits::default());
    let labels = LabelSet::new([("instance", "n1")]);
    let fires = vec![(0, vec![VectorSample { labels, time: 0, value: 1.0 }])];
    stage.evaluator.take(&engine, &stage.memory, ("n1", 0), fires);
    let share = Arc::new(Share {
        judging: BTreeSet::from([Arc::from("n1")]),
        left: Some(BTreeSet::new()),
        ..Share::default()
    });
    let (mut clock, mut passing) = (|| Duration::ZERO, stage.evaluator.begin(1_000));
    stage.evaluator.step(&mut passing, &engine, &stage.memory, &mut clock, &share);
    let (passed, _) = stage.evaluator.take(&engine, &stage.memory, ("n1", 1_500), vec![(0, Vec::new())]);
    assert_eq!(passed[0].change, Some(Change::Resolved));
    stage.evaluator.step(&mut passing, &engine, &stage.memory, &mut clock, &share);
    let pass = stage.evaluator.finish(passing);
    let states: Vec<_> = pass.alerts.iter().map(|passed| (passed.alert.state, passed.change)).collect();
    assert_eq!(states, [(AlertState::Inactive, None)]);
}

#[test]
fn a_state_that_is_too_large_loses_annotations_first_then_old_alerts_and_the_newest_are_kept() {
    let saved = |name: &str, series: usize, time: i64| {
        let text = format!(
            "groups: [{{name: {name}, rules: [{{alert: A, expr: a, annotations: {{n: a long text}}}}]}}]"
        );
        let mut stage = Stage::new(&text);
        (0..series).for_each(|n| stage.set("a", &n.to_string(), time - 1, 1.0));
        stage.pass(time);
        stage.evaluator.save().unwrap()
    };
    let all = Saved::new(vec![saved("old", 30, 1_000), saved("new", 30, 5_000)]);
    let (whole, left_out) = all.clone().to_bytes();
    assert_eq!((Saved::from_bytes(&whole).unwrap(), left_out), (all.clone(), LeftOut::default()));
    let (bytes, left_out) = all.clone().within(whole.len() - 1);
    let read = Saved::from_bytes(&bytes).unwrap();
    assert!(bytes.len() < whole.len() && left_out == LeftOut::default());
    let alerts = |read: &Saved, group: usize| read.groups[group].rules[0].alerts.clone();
    assert!([0, 1].iter().flat_map(|group| alerts(&read, *group)).all(|alert| alert.annotations.is_empty()));
    for most in [1_000, 4_000, 6_000, 8_000] {
        let (bytes, left_out) = all.clone().within(most);
        let read = Saved::from_bytes(&bytes).unwrap();
        assert!(bytes.len() <= most, "{} of {most}", bytes.len());
        let (old, new) = (alerts(&read, 0).len(), alerts(&read, 1).len());
        assert_eq!(left_out.alerts, 60 - old - new);
        assert!(new == 30 || old == 0, "{most}: {old} old ones are there, and only {new} new ones");
    }
    // An earlier khz may have written more than this one does.
    let long = format!("{}{}", String::from_utf8(whole).unwrap(), " ".repeat(STATE_BYTES_MAX));
    assert_eq!(Saved::from_bytes(long.as_bytes()).unwrap(), all);
}
