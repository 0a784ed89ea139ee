//! The simulated cluster: for each node the job that it runs, the fault that it has, and the values of the series that the rules need.
//! It plays the recordings, and the courses of faults, of `khz-simulate`. It judges nothing.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use khz_model::{Nanos, Pattern, Series};
use khz_promql::{LabelSet, METRIC_NAME, stale};
use khz_rules::{Memory, RuleSet, Seen};
use khz_simulate::{Fault, FaultEnd, FaultKind, Library, Reel, Symptoms, Variation};

use super::weather::{Chance, Job};

/// Between two rows (ms).
pub const STEP_MS: i64 = 15_000;
/// When it begins (ms since 1970).
pub const BEGIN_MS: i64 = 1_763_640_000_000;
/// A node that has failed is back after this (ms).
const BACK_MS: i64 = 900_000;
/// Alarms so long after a node is back belong to its fault (ms): rules look back half an hour.
const AFTERMATH_MS: i64 = 3_600_000;
/// Faults begin when all rules have what they look back at (ms).
const SETTLING_MS: i64 = 2 * 3_600_000;

/// How large a run is.
pub struct Plan {
    pub nodes: usize,
    pub hours: i64,
    pub faults_of_each: usize,
    pub seed: u64,
}

impl Plan {
    pub fn steps(&self) -> i64 {
        self.hours * 3_600_000 / STEP_MS
    }
}

/// A fault that was injected. Times are ms since 1970.
pub struct Injected {
    pub node: String,
    pub kind: FaultKind,
    pub begin: i64,
    /// When its node went down.
    pub failed: Option<i64>,
    fault: Fault,
}

/// All nodes.
pub struct Cluster {
    nodes: Vec<Node>,
    faults: Vec<Injected>,
    healthy_ms: i64,
}

struct Node {
    name: String,
    chance: Chance,
    job: Job,
    reels: Vec<Rc<Reel>>,
    variation: Variation,
    /// The series that are given, each with its slot in every recording.
    series: Arc<Vec<Wanted>>,
    labels: Vec<LabelSet>,
    up: LabelSet,
    booted: LabelSet,
    boot_s: i64,
    /// What counters had gained before this job.
    gained: Vec<u64>,
    /// What the job's recording had when it began.
    first: Vec<u64>,
    /// Added to counters by jobs, such as time of waiting for disks.
    waited: f64,
    /// The number of its fault.
    fault: Option<usize>,
    symptoms: Option<Symptoms>,
    at_begin: Vec<u64>,
    at_end: Vec<u64>,
    silent: Option<(i64, i64)>,
    was_silent: bool,
}

/// A series that rules need.
struct Wanted {
    series: Series,
    slots: Vec<Option<usize>>,
    is_counter: bool,
    scale: f64,
}

impl Cluster {
    /// A cluster whose nodes give what these rules name.
    pub fn new(library: &Library, set: &RuleSet, plan: &Plan) -> Self {
        let exprs: Vec<&str> = set.groups().flat_map(|group| &group.rules).map(|rule| &*rule.expr).collect();
        let recordings = library.recordings();
        let mut wanted = Vec::new();
        for one in &recordings[0].series {
            let exposed = &*one.metric.exposition.name;
            // Its time of boot is the node's own.
            let is_named =
                exprs.iter().any(|expr| expr.contains(exposed)) && exposed != "node_boot_time_seconds";
            // Of the modes of CPUs only those that some rule chooses.
            let is_chosen = one.metric.exposition.labels.iter().all(|(name, value)| {
                let text = format!("{name}=\"{value}\"");
                name != "mode" || exprs.iter().any(|expr| expr.contains(&text))
            });
            let is_named = is_named && is_chosen;
            let key = one.to_string();
            let slot = |other: &Arc<khz_simulate::Recording>| {
                let slot = other.series.iter().position(|other| other.to_string() == key)?;
                (other.states[slot] == 0).then_some(slot)
            };
            let slots: Vec<Option<usize>> = recordings.iter().map(slot).collect();
            if is_named && slots.iter().all(Option::is_some) {
                wanted.push(Wanted {
                    is_counter: one.metric.kind == khz_model::Kind::Counter,
                    scale: 10f64.powi(i32::from(one.metric.places)) * one.metric.exposition.divisor as f64,
                    series: one.clone(),
                    slots,
                });
            }
        }
        let wanted = Arc::new(wanted);
        let reel = |recording: &Arc<khz_simulate::Recording>| {
            Rc::new(Reel::unencoded(recording.clone(), Nanos(STEP_MS as u64 * 1_000_000)))
        };
        let reels: Vec<Rc<Reel>> = recordings.iter().map(reel).collect();
        let mut chance = Chance::new(plan.seed.wrapping_mul(0x1234_5677));
        let nodes = (0..plan.nodes).map(|number| Node::new(number, &wanted, &reels, plan.seed)).collect();
        let mut cluster = Cluster { nodes, faults: Vec::new(), healthy_ms: 0 };
        cluster.inject(plan, &mut chance);
        cluster
    }

    /// Gives some nodes one fault each.
    fn inject(&mut self, plan: &Plan, chance: &mut Chance) {
        let end = plan.hours * 3_600_000;
        let mut free: Vec<usize> = (0..plan.nodes).collect();
        // A storm is what a program does; it foretells no failure.
        for kind in FaultKind::ALL.into_iter().filter(|kind| *kind != FaultKind::IoStorm) {
            for _ in 0..plan.faults_of_each.min(free.len()) {
                let number = free.swap_remove(chance.below(free.len()));
                let lasts = chance.between(1.0, 5.0).min((end - SETTLING_MS) as f64 / 3_600_000.0 - 1.0)
                    * 3_600_000.0;
                let last = (end - SETTLING_MS - AFTERMATH_MS) as f64 - lasts;
                let begin = SETTLING_MS + chance.between(0.0, last.max(0.0)) as i64;
                let fault = Fault {
                    kind,
                    nodes: Pattern::everything(),
                    begin: Nanos(begin as u64 * 1_000_000),
                    lasts: Nanos((lasts * 1e6) as u64),
                    strength: chance.between(0.6, 1.0),
                    end: FaultEnd::Down(None),
                };
                let node = &mut self.nodes[number];
                node.fault = Some(self.faults.len());
                let series: Vec<Series> = node.series.iter().map(|wanted| wanted.series.clone()).collect();
                node.symptoms = Some(Symptoms::new(std::slice::from_ref(&fault), &series));
                let (node, begin) = (node.name.clone(), BEGIN_MS + begin);
                self.faults.push(Injected { node, kind, begin, failed: None, fault });
            }
        }
    }

    pub fn faults(&self) -> &[Injected] {
        &self.faults
    }

    /// The time of all nodes without a fault, in seconds.
    pub fn healthy_s(&self) -> f64 {
        self.healthy_ms as f64 / 1e3
    }

    /// Whether an alarm at a node at a time belongs to a fault.
    pub fn is_ill(&self, node: &str, at: i64) -> bool {
        self.faults.iter().any(|fault| fault.node == node && fault.is_ill(at))
    }

    /// How the nodes are seen.
    pub fn seen(&self) -> impl Iterator<Item = (&str, Seen)> {
        self.nodes.iter().map(|node| {
            let seen =
                node.silent.filter(|_| node.was_silent).map_or(Seen::Up, |(since, _)| Seen::Down(since));
            (&*node.name, seen)
        })
    }

    /// Puts a row of each node into the memory.
    pub fn row(&mut self, step: i64, memory: &mut Memory) {
        let now = BEGIN_MS + step * STEP_MS;
        for node in &mut self.nodes {
            let fault = match node.fault {
                Some(number) => self.faults.get_mut(number),
                None => None,
            };
            if !fault.as_ref().is_some_and(|fault| fault.is_ill(now)) {
                self.healthy_ms += STEP_MS;
            }
            node.row(now, fault, memory);
        }
    }
}

impl Injected {
    fn is_ill(&self, at: i64) -> bool {
        at >= self.begin && self.failed.is_none_or(|failed| at <= failed + BACK_MS + AFTERMATH_MS)
    }

    fn end(&self) -> i64 {
        self.begin + (self.fault.lasts.0 / 1_000_000) as i64
    }
}

impl Node {
    fn new(number: usize, series: &Arc<Vec<Wanted>>, reels: &[Rc<Reel>], seed: u64) -> Self {
        let name = format!("node{:03}", number + 1);
        let mut chance = Chance::new(seed.wrapping_mul(1_000_003).wrapping_add(number as u64));
        let job = Job::next(0.0, &mut chance);
        let plain =
            |metric: &str| LabelSet::new([(METRIC_NAME, metric), ("instance", &*name), ("job", "node")]);
        let labels = series.iter().map(|wanted| labels(&wanted.series, &name)).collect();
        let variation = Variation::of_seed(seed ^ (number as u64) << 32);
        let mut node = Node {
            up: plain("up"),
            booted: plain("node_boot_time_seconds"),
            boot_s: BEGIN_MS / 1_000 - 1_000_000,
            gained: vec![0; series.len()],
            first: Vec::new(),
            waited: 0.0,
            fault: None,
            symptoms: None,
            at_begin: Vec::new(),
            at_end: Vec::new(),
            silent: None,
            was_silent: false,
            series: series.clone(),
            reels: reels.to_vec(),
            name,
            chance,
            job,
            variation,
            labels,
        };
        node.first = node.recorded(0);
        node
    }

    /// What the job's recording has at a step after its begin.
    fn recorded(&self, since: u64) -> Vec<u64> {
        let (reel, job) = (&self.reels[self.job.recording], &self.job);
        let value = |wanted: &Wanted| {
            let slot = wanted.slots[job.recording]?;
            Some(reel.reading_at(job.phase + since, slot, &self.variation).1)
        };
        self.series.iter().map(|wanted| value(wanted).unwrap_or(0)).collect()
    }

    /// What it has without a fault.
    fn healthy(&mut self, now: i64) -> Vec<u64> {
        let seconds = (now - BEGIN_MS) as f64 / 1e3;
        let step = |seconds: f64| (seconds.max(0.0) * 1e3 / STEP_MS as f64) as u64;
        while seconds >= self.job.end {
            let last = self.recorded(step(self.job.end - self.job.begin));
            for (gained, (last, first)) in self.gained.iter_mut().zip(last.iter().zip(&self.first)) {
                *gained += last.saturating_sub(*first);
            }
            self.job = Job::next(self.job.end, &mut self.chance);
            self.first = self.recorded(0);
        }
        let mut values = self.recorded(step(seconds - self.job.begin));
        self.waited += self.job.disk(seconds) * STEP_MS as f64 / 1e3;
        let memory = self.job.memory(seconds);
        for (at, wanted) in self.series.iter().enumerate() {
            let value = &mut values[at];
            if wanted.is_counter {
                *value = self.gained[at] + value.saturating_sub(self.first[at]);
            }
            match &*wanted.series.metric.name {
                "mem.available" | "mem.free" => *value = (*value as f64 * (1.0 - memory)) as u64,
                "pressure.io.full.total" | "pressure.io.some.total" => {
                    *value += (self.waited * wanted.scale) as u64;
                }
                _ => {}
            }
        }
        values
    }

    fn row(&mut self, now: i64, fault: Option<&mut Injected>, memory: &mut Memory) {
        let mut values = self.healthy(now);
        if let (Some(fault), Some(symptoms)) = (fault, &self.symptoms) {
            if now < fault.begin || self.at_begin.is_empty() {
                self.at_begin.clone_from(&values);
            }
            if now <= fault.end() {
                self.at_end.clone_from(&values);
            }
            let (begin, over) =
                (i128::from(fault.fault.begin.0), i128::from(fault.fault.begin.0 + fault.fault.lasts.0));
            let healthy = values.clone();
            let at = |time: i128, slot: usize| match time {
                time if time <= begin => self.at_begin[slot],
                time if time >= over => self.at_end[slot],
                _ => healthy[slot],
            };
            let clock = i128::from(now - BEGIN_MS) * 1_000_000;
            for (slot, value) in values.iter_mut().enumerate().filter(|(slot, _)| symptoms.touch(*slot)) {
                *value = symptoms.value(slot, clock, *value, &at);
            }
            let of = |name: &str| self.series.iter().position(|wanted| wanted.series.metric.name == name);
            let share = match (of("mem.available"), of("mem.total")) {
                (Some(available), Some(total)) => values[available] as f64 / values[total].max(1) as f64,
                _ => 1.0,
            };
            // Of a leak a node dies as soon as there is nothing left.
            let is_dead =
                now >= fault.end() || (fault.kind == FaultKind::Leak && now > fault.begin && share < 0.01);
            if is_dead && fault.failed.is_none() {
                fault.failed = Some(now);
                self.silent = Some((now, now + BACK_MS));
            }
        }
        let is_silent = self.silent.is_some_and(|(from, until)| (from..until).contains(&now));
        memory.add(&self.up, now, if is_silent { 0.0 } else { 1.0 });
        if self.was_silent && !is_silent {
            self.boot_s = now / 1_000;
        }
        for (at, wanted) in self.series.iter().enumerate() {
            let value = match (is_silent, self.was_silent) {
                (true, true) => continue,
                (true, false) => stale(),
                _ => values[at] as f64 / wanted.scale,
            };
            memory.add(&self.labels[at], now, value);
        }
        if !is_silent {
            memory.add(&self.booted, now, self.boot_s as f64);
        } else if !self.was_silent {
            memory.add(&self.booted, now, stale());
        }
        self.was_silent = is_silent;
    }
}

/// The labels of a series at Prometheus.
fn labels(series: &Series, node: &str) -> LabelSet {
    let exposition = &series.metric.exposition;
    let mut labels: HashMap<&str, String> = HashMap::new();
    labels.insert(METRIC_NAME, exposition.name.to_string());
    labels.extend(exposition.labels.iter().map(|(name, value)| (&**name, value.to_string())));
    if let (Some(label), Some(instance)) = (&exposition.instance_label, &series.instance) {
        labels.insert(label, instance.name().to_owned());
    }
    labels.insert("instance", node.to_owned());
    labels.insert("job", "node".to_owned());
    LabelSet::new(labels)
}
