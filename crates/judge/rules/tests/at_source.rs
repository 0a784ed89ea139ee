//! Rules that a node judges fire and are resolved at the rows at which the hub's evaluator, evaluated at each row, says so: random rows
//! with gaps, absent readings, NaN and resets; random rules, hold times and times of keeping, and labels that make one alert of several
//! series, or two with the same labels: the hub takes over such a rule, and it fails as at the hub.

// Helpers of tests are tests too, which clippy's `allow-unwrap-in-tests` does not see.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use khz_model::metric::{Kind, Unit};
use khz_model::{Instance, Labels, Metric, Nanos, NodeName, Reading, Series, Stamp, ValueType};
use khz_plan::{BoundHandler, Handler, Identity, Judged, METRIC_NAME, RULE_METRIC, is_absent};
use khz_promql::{Engine, LabelSet, Limits, stale};
use khz_rules::{
    AlertState, Evaluator, Memory, NodeRules, Pass, Placement, RuleChannel, RuleId, RuleSet, Settings, Share,
    SourceRow, pack, place,
};
use proptest::prelude::*;

const BEGIN: i64 = 1_700_000_000_000;
const NODE: &str = "n1";
const OTHER: &str = "n2";
/// Half of the time between two rows (ms).
const TOLERANCE: i64 = 500;
const JOB: &str = "khz";

/// What nodes gather.
fn series() -> Vec<Series> {
    let metric =
        |name: &'static str, exposed: &'static str, kind| Metric::plain(name, exposed, kind, Unit::Count);
    let load = Arc::new(metric("load", "node_load", Kind::Gauge));
    let free = Arc::new(Metric { value_type: ValueType::Float, ..metric("free", "node_free", Kind::Gauge) });
    let rx = Arc::new(metric("rx", "node_rx_total", Kind::Counter).of_instances("device"));
    let of = |name: &str| Instance::from_text(name);
    vec![
        Series { metric: load, instance: None },
        Series { metric: free, instance: None },
        Series { metric: rx.clone(), instance: of("eth0") },
        Series { metric: rx, instance: of("eth1") },
    ]
}

/// The labels of these series at the hub.
fn labels(node: &str) -> Vec<LabelSet> {
    let of = |name: &str, device: &str| {
        LabelSet::new([(METRIC_NAME, name), ("instance", node), ("job", JOB), ("device", device)])
    };
    vec![of("node_load", ""), of("node_free", ""), of("node_rx_total", "eth0"), of("node_rx_total", "eth1")]
}

const EXPRS: [&str; 16] = [
    "node_load > 2",
    "node_load",
    "node_free < 3",
    "node_free / node_load > 1",
    "node_free != node_free",
    "0 / (node_load - 2) > 0 or node_free",
    "node_rx_total > 5",
    "rate(node_rx_total[5s]) > 0.4",
    "increase(node_rx_total[20s]) > 3",
    "resets(node_rx_total[10s]) > 0",
    "avg_over_time(node_load[7s]) > 2",
    "max by (instance) (node_rx_total) > 6",
    "sum without (device) (node_rx_total) / on(instance) group_left() node_load > 3",
    "node_load > 1 and on(instance) node_free > 2",
    "node_load > 3 unless on(instance) node_free > 4",
    "node_load or node_free > 2",
];

/// A row: how much later than the one before (ms), and the readings, each in a number or none.
type RandomRow = (i64, [Option<u8>; 4], [Option<u8>; 4]);

fn rows() -> impl Strategy<Value = Vec<RandomRow>> {
    let reading = || prop_oneof![1 => Just(None), 6 => (0u8..9).prop_map(Some)];
    let readings = || [reading(), reading(), reading(), reading()];
    // Rows stay where they are for some time, so that hold times pass.
    let row = (prop_oneof![8 => 900i64..1_100, 1 => 2_000i64..9_000], readings(), readings(), 1usize..6);
    prop::collection::vec(row, 1..40).prop_map(|rows| {
        let each = |(later, one, two, times): (i64, _, _, usize)| {
            // Rows come a little early or late.
            let others = (1..times).map(move |at| (if at % 2 == 0 { 998 } else { 1_001 }, one, two));
            std::iter::once((later, one, two)).chain(others)
        };
        rows.into_iter().flat_map(each).collect()
    })
}

/// A number as a reading: 8 of the double is NaN.
fn bits(slot: usize, number: u8) -> u64 {
    match (slot, number) {
        (1, 8) => f64::NAN.to_bits(),
        (1, number) => f64::from(number).to_bits(),
        (_, number) => u64::from(number),
    }
}

fn value(slot: usize, number: u8) -> f64 {
    if slot == 1 { f64::from_bits(bits(slot, number)) } else { f64::from(number) }
}

/// The samples of a node as the hub has them.
fn remember(memory: &mut Memory, node: &str, time: i64, row: &[Option<u8>; 4], last: &mut [bool; 4]) {
    for (slot, labels) in labels(node).iter().enumerate() {
        match row[slot] {
            Some(number) => drop(memory.add(labels, time, value(slot, number))),
            None if last[slot] => drop(memory.add(labels, time, stale())),
            None => {}
        }
        last[slot] = row[slot].is_some();
    }
}

/// The node: it executes a handler, and names what comes out as the agent does.
struct Node {
    channel: RuleChannel,
    bound: BoundHandler,
    rules: NodeRules,
    is_judging: bool,
}

impl Node {
    fn new(channel: RuleChannel) -> Self {
        let handler = Handler::take(&channel.terms.handler).unwrap();
        let name = NodeName::new(NODE).unwrap();
        let identity = Identity { node: &name, job: "node" };
        let bound = BoundHandler::new(&handler, &series(), |_| true, identity, Nanos::SECOND).unwrap();
        Node { channel, bound, rules: NodeRules::default(), is_judging: false }
    }

    /// The row that it sends; `None`: it sends none.
    fn row(&mut self, time: i64, row: &[Option<u8>; 4]) -> Option<Vec<(Series, Reading)>> {
        let boot = Nanos(((time - BEGIN + 1_000_000) * 1_000_000).cast_unsigned());
        let stamp = Stamp { boot, real_offset: (BEGIN - 1_000_000) * 1_000_000 };
        let read = |slot: u32| row[slot as usize].map(|number| bits(slot as usize, number));
        if !self.bound.row(stamp, read) {
            return None;
        }
        let channel = self.channel.terms.name.metric();
        let all = self.bound.results().unwrap().iter().zip(self.bound.values()).map(|(result, &value)| {
            let end = match result.judged.unwrap() {
                Judged::Ready => "ready".to_owned(),
                Judged::Rule(rule) => format!("r{rule}"),
            };
            let metric = Metric::plain(format!("{channel}.{end}"), "x", Kind::Gauge, Unit::Count);
            let own = result.labels.iter().filter(|(name, _)| !["instance", "job"].contains(name));
            let own = own.map(|(name, value)| (if name == METRIC_NAME { RULE_METRIC } else { name }, value));
            let labels = Labels::new(own).unwrap();
            let instance = Some(Instance::from_kernel(b"").with_labels(&labels));
            let reading = match is_absent(value) {
                true => Reading::Absent(khz_model::Absence::NoResult),
                false => Reading::Present(value.to_bits()),
            };
            (Series { metric: Arc::new(metric), instance }, reading)
        });
        Some(all.collect())
    }
}

/// The alerts of a rule, without their values: those of a node are as old as its last row.
fn alerts(evaluator: &Evaluator, rules: usize) -> BTreeMap<(usize, LabelSet), String> {
    let of_rule = |rule: usize| evaluator.alerts(rule).map(move |alert| (rule, alert));
    let words = |(rule, alert): (usize, &Arc<khz_rules::Alert>)| {
        let active = (alert.state != AlertState::Inactive).then_some(alert.active_at);
        let text =
            format!("{:?} since {active:?}, {:?} to {:?}", alert.state, alert.fired_at, alert.resolved_at);
        ((rule, alert.labels.clone()), text)
    };
    (0..rules).flat_map(of_rule).map(words).collect()
}

proptest! {
    // Each case evaluates two groups at each of some hundred rows.
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn what_nodes_judge_fires_and_is_resolved_at_the_same_rows_as_at_the_hub(
        rules in prop::collection::vec((0..EXPRS.len(), 0u32..7, 0u32..7, prop::bool::weighted(0.3)), 1..6),
        interval in prop::sample::select(vec!["1s", "15s", "1m"]),
        rows in rows(),
    ) {
        let of_rule = |(number, (expr, hold, keep, is_merged)): (usize, &(usize, u32, u32, bool))| {
            let labels = if *is_merged { "device: x, job: y" } else { "n: '{{ $labels.device }}', device: '{{ $labels.device }}'" };
            format!("  - {{alert: A{number}, for: {hold}s, keep_firing_for: {keep}s, labels: {{{labels}}}, expr: '{}'}}\n", EXPRS[*expr])
        };
        let text: String = rules.iter().enumerate().map(of_rule).collect();
        let text = format!("groups:\n- name: g\n  interval: {interval}\n  rules:\n{text}");
        let set = RuleSet::parse(Path::new("a.yml"), text.as_bytes()).unwrap_or_else(|error| panic!("{error}"));
        let group = set.groups().next().unwrap().clone();
        let mut placed = Vec::new();
        for (rule, one) in group.rules.iter().enumerate() {
            match place(&group, one, &|name| name.starts_with("node_")) {
                Placement::AtNodes(compiled) => placed.push((RuleId { group: 0, rule }, one.alerting().unwrap().clone(), compiled)),
                Placement::AtHub(at) => prop_assert!(false, "{}: {}", one.expr, at.why),
            }
        }
        let channels = pack("khz_rules_", TOLERANCE, placed.iter().map(|(id, alerting, compiled)| (*id, group.interval.unwrap(), &**alerting, compiled)));
        let mut nodes: Vec<Node> = channels.into_iter().map(Node::new).collect();
        let count = group.rules.len();
        let settings = Arc::new(Settings { tolerance: TOLERANCE, ..Settings::default() });
        let (mut hub, mut both) = (
            Evaluator::new(group.clone(), settings.clone()),
            Evaluator::new(group.clone(), settings),
        );
        let engine = Engine::new(Limits::default());
        let (mut memory, mut last, mut time) = (Memory::default(), [[false; 4]; 2], BEGIN);
        let (mut sent, mut taken_over) = (0, BTreeSet::new());
        for (later, row, other) in &rows {
            time += later;
            remember(&mut memory, NODE, time, row, &mut last[0]);
            remember(&mut memory, OTHER, time, other, &mut last[1]);
            let of_hub = hub.evaluate(&engine, &memory, time, &mut || Duration::ZERO);
            let mut of_node: BTreeMap<usize, bool> = BTreeMap::new();
            for node in &mut nodes {
                if let Some(row) = node.row(time, row) {
                    sent += 1;
                    let row = SourceRow::read(&node.channel, (NODE, JOB), time, row.iter().map(|(series, reading)| (series, reading)));
                    node.is_judging = row.is_ready;
                    if row.is_ready {
                        let given = node.rules.given(&node.channel, row, |id| both.has_active(id.rule, NODE));
                        let given = given.into_iter().map(|(id, series)| (id.rule, series));
                        let given = given.filter(|(rule, _)| !taken_over.contains(rule)).collect();
                        let (_, failed) = both.take(&engine, &memory, (NODE, time), given);
                        for unmade in failed {
                            let is_meant = rules[unmade.rule].3 && unmade.is_of_rule;
                            prop_assert!(is_meant && unmade.error.starts_with("its label device replaces"), "{unmade:?}");
                            taken_over.insert(unmade.rule);
                        }
                    }
                }
                of_node.extend(node.channel.rules.iter().map(|rule| (rule.id.rule, node.is_judging)));
            }
            let share = |rule: usize| {
                if taken_over.contains(&rule) {
                    return Arc::new(Share::default());
                }
                let judging: BTreeSet<Arc<str>> = of_node[&rule].then(|| NODE.into()).into_iter().collect();
                let left = [NODE, OTHER].into_iter().map(Arc::from).filter(|node| !judging.contains(node)).collect();
                Arc::new(Share { judging, left: Some(left), ..Share::default() })
            };
            let of_both = both.evaluate_share(&engine, &memory, time, &mut || Duration::ZERO, &share);
            // The hub may be the first to see that no node can judge a rule.
            for (rule, report) in of_both.rules.iter().enumerate().filter(|(_, report)| report.unfit.is_some()) {
                prop_assert!(rules[rule].3, "{report:?}");
                taken_over.insert(rule);
            }
            let errors = |pass: &Pass| pass.rules.iter().map(|rule| rule.error.clone()).collect::<Vec<_>>();
            prop_assert_eq!(errors(&of_both), errors(&of_hub), "at {} of {}", time - BEGIN, &text);
            prop_assert_eq!(alerts(&both, count), alerts(&hub, count), "at {} of {}", time - BEGIN, &text);
        }
        prop_assert!(nodes.iter().all(|node| node.is_judging) || rows.len() < 22, "{sent} rows were sent");
    }
}
