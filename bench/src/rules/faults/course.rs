//! The rules while the cluster goes on: each row is put into a memory, all groups are evaluated, and what fires is noted. A firing at a
//! node within a day after another one of the same rule belongs to it, as in `khz rules score`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use khz_promql::{Engine, Limits, Value};
use khz_rules::{Change, Evaluator, Memory, RuleSet, Scores, Settings};

use super::cluster::{BEGIN_MS, Cluster, STEP_MS};
use super::foretells;

/// Rows so old are forgotten (ms): longer than every rule looks back.
const KEPT_MS: i64 = 2 * 3_600_000;
/// The rule whose interval is checked.
const EXHAUSTION: &str = "MemoryRunsOutSoon";

/// The rules, and what they know.
pub struct Course {
    groups: Vec<Evaluator>,
    engine: Engine,
    memory: Memory,
}

/// What was told.
#[derive(Default)]
pub struct Told {
    /// Rule, node and time (ms) of each firing.
    all: Vec<(String, String, i64)>,
    /// Scores as a hub keeps them.
    pub scores: Scores,
    /// Times of the end of memory, as they were foretold: node, when, from, to (ms).
    foretold: Vec<(String, i64, i64)>,
    /// How often the end of memory was in its interval, and how often there was one.
    pub intervals: (u64, u64),
}

impl Course {
    pub fn new(set: &RuleSet) -> Self {
        let settings = Arc::new(Settings { interval: STEP_MS, ..Settings::default() });
        let groups = set.groups().map(|group| Evaluator::new(group.clone(), settings.clone())).collect();
        Course { groups, engine: Engine::new(Limits::default()), memory: Memory::default() }
    }

    /// A row, and an evaluation of all rules.
    pub fn step(&mut self, cluster: &mut Cluster, step: i64, told: &mut Told) {
        let now = BEGIN_MS + step * STEP_MS;
        cluster.row(step, &mut self.memory);
        if step % 4 == 0 {
            told.scores.look(now, cluster.seen());
        }
        if step % 40 == 0 {
            self.memory.forget(now - KEPT_MS);
        }
        for group in &mut self.groups {
            let pass = group.evaluate(&self.engine, &self.memory, now, &mut || Duration::ZERO);
            for sample in &pass.samples {
                self.memory.add(&sample.labels, sample.time, sample.value);
            }
            let fired = pass.alerts.iter().filter(|passed| passed.change == Some(Change::Fired));
            for passed in fired {
                let rule = group.group().rules[passed.rule].name.to_string();
                let node = passed.alert.labels.get("instance").to_owned();
                told.scores.fired(&rule, Some(&node), now);
                if rule == EXHAUSTION {
                    let bound = |name: &str| bound(&self.engine, &self.memory, name, &node, now);
                    if let (Some(from), Some(to)) = (bound("seconds_min"), bound("seconds_max")) {
                        told.foretold.push((node.clone(), now + from, now + to));
                    }
                }
                told.all.push((rule, node, now));
            }
        }
        told.ended(cluster, now);
    }
}

/// How long memory lasts by one end of the interval (ms).
fn bound(engine: &Engine, memory: &Memory, name: &str, node: &str, now: i64) -> Option<i64> {
    let query = format!("node:memory_lasts:{name}{{instance=\"{node}\"}}");
    match engine.query(memory, &query, now).ok()?.value {
        Value::Vector(vector) => vector.first().map(|sample| (sample.value * 1e3) as i64),
        _ => None,
    }
}

impl Told {
    /// Checks the intervals of nodes that have died of a leak now.
    fn ended(&mut self, cluster: &Cluster, now: i64) {
        for fault in cluster.faults().iter().filter(|fault| fault.failed == Some(now)) {
            if fault.kind != khz_simulate::FaultKind::Leak {
                continue;
            }
            let (inside, all) = &mut self.intervals;
            self.foretold.retain(|(node, from, to)| {
                if *node == fault.node {
                    *all += 1;
                    *inside += u64::from((*from..=*to).contains(&now));
                }
                *node != fault.node
            });
        }
    }

    /// When a rule that foretells fired first at a node within a time.
    pub fn first_within(&self, node: &str, from: i64, to: i64) -> Option<i64> {
        let at_node = self.all.iter().filter(|(rule, at, _)| at == node && foretells(rule));
        at_node.map(|(.., time)| *time).filter(|time| (from..to).contains(time)).min()
    }

    /// For each rule the warnings at nodes with a fault.
    pub fn true_alarms(&self, cluster: &Cluster) -> BTreeMap<String, u64> {
        self.counted(|node, at| cluster.is_ill(node, at))
    }

    /// For each rule the warnings at nodes without one.
    pub fn false_alarms(&self, cluster: &Cluster) -> BTreeMap<String, u64> {
        self.counted(|node, at| !cluster.is_ill(node, at))
    }

    fn counted(&self, counts: impl Fn(&str, i64) -> bool) -> BTreeMap<String, u64> {
        let mut last: BTreeMap<(&str, &str), i64> = BTreeMap::new();
        let mut found: BTreeMap<String, u64> = BTreeMap::new();
        for (rule, node, at) in self.all.iter().filter(|(_, node, at)| counts(node, *at)) {
            let known = last.get(&(&**rule, &**node)).copied();
            if known.is_none_or(|known| at - known > khz_rules::limits::SCORE_WINDOW) {
                last.insert((rule, node), *at);
                *found.entry(rule.clone()).or_default() += 1;
            }
        }
        found
    }
}
