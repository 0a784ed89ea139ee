//! A made-up cluster for a real door, with any number of nodes. Its values move as on real nodes: load comes in jobs that
//! many nodes share, some nodes are down, some kernels lack a source. A node's values depend only on its number and the
//! time. Nothing is gathered.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use khz_model::{
    Absence, Delivery, Instance, Interest, Kind, LaneStatus, Metric, Nanos, NodeName, NodeStatus, Pattern,
    Query, QueryError, RangeAnswer, RangeRequest, Rate, Reading, Recent, RecentAnswer, Row, Sample, Series,
    Snapshot, Stamp, Subscription, WaitFor,
};

/// CPUs of every node.
const CPUS: usize = 8;
/// Nodes with neighbouring numbers that work on the same job.
const JOB_NODES: u64 = 48;
/// Most rows that a subscription gets at once, however long it was not polled.
const ROWS_MAX: u64 = 1_000;
/// The metrics of the catalogue that this cluster has.
const SHOWN: [&str; 18] = [
    "cpu.all.*",
    "cpu.user",
    "cpu.idle",
    "cpu.iowait",
    "mem.total",
    "mem.free",
    "mem.available",
    "mem.buffers",
    "mem.cached",
    "load.*",
    "tasks.*",
    "net.*_bytes",
    "net.*_errors",
    "net.*_dropped",
    "disk.*",
    "kernel.*",
    "pressure.*.avg10",
    "pressure.*.some.total",
];

/// The cluster. Clones share its state.
#[derive(Clone)]
pub struct Cluster {
    nodes: Arc<Vec<NodeName>>,
    columns: Arc<Vec<Series>>,
    down: Arc<Mutex<BTreeSet<usize>>>,
    /// The nodes that are down because they have left.
    left: Arc<Mutex<BTreeSet<String>>>,
    /// The nodes that are down because they were never seen.
    missing: Arc<Mutex<BTreeSet<String>>>,
    past: Option<Past>,
    /// When a program begins on the first node (time since boot).
    program: Arc<Mutex<Option<Nanos>>>,
    /// Which nodes have hardly any memory left, and from when to when (time since 1970).
    full: Arc<Mutex<Vec<(usize, Nanos, Nanos)>>>,
}

/// What a cluster remembers: a row a second.
#[derive(Clone, Copy)]
struct Past {
    /// The first row.
    since: Nanos,
    /// From when to when nothing was gathered.
    gap: (Nanos, Nanos),
    /// When the load of the last minute is [`SPIKE`] for one row.
    spike: Nanos,
    /// True for a hub that was started again: it has nothing in memory of nodes that are down.
    is_stored: bool,
}

impl Past {
    /// The last ten minutes, as a hub has them in memory.
    fn recent() -> Self {
        let since = Nanos(real_now().0 - 600 * Nanos::SECOND.0);
        Past { since, gap: (since, since), spike: Nanos(0), is_stored: false }
    }
}

/// A load that no other row has.
pub const SPIKE: f64 = 400.0;

/// Nodes were booted this long before the end of the gap in their past (s).
pub const BOOTED_BEFORE: u64 = 60;

/// A program begins on each node so much later than on the one before.
pub const STAGGER: Nanos = Nanos::from_millis(50);

impl Cluster {
    /// A cluster of `count` nodes. Most are called node0001 and so on; some are gpu, io and login nodes. One in 150 is down.
    pub fn new(count: usize) -> Self {
        let mut nodes = names(count);
        nodes.sort();
        let down = (0..count).filter(|&n| noise(n as u64, 5) < 1.0 / 150.0).collect();
        Cluster {
            nodes: Arc::new(nodes),
            columns: Arc::new(columns()),
            down: Arc::new(Mutex::new(down)),
            left: Arc::default(),
            missing: Arc::default(),
            past: Some(Past::recent()),
            program: Arc::default(),
            full: Arc::default(),
        }
    }

    /// A cluster that remembers nothing.
    #[must_use]
    pub fn without_past(mut self) -> Self {
        self.past = None;
        self
    }

    /// A cluster that remembers `seconds`. Nothing was gathered for ten minutes in the middle of them, in the last of which the nodes were
    /// booted ([`BOOTED_BEFORE`]), and the row after the first quarter has the load [`SPIKE`].
    #[must_use]
    pub fn with_past(mut self, seconds: u64) -> Self {
        let now = real_now().0 / Nanos::SECOND.0;
        let at = |before: u64| Nanos::from_secs(now - before);
        let gap = (at(seconds / 2), at(seconds / 2 - 600));
        self.past = Some(Past { since: at(seconds), gap, spike: at(seconds - seconds / 4), is_stored: true });
        self
    }

    /// When the remembered spike was, the gap began, and the past began: seconds since 1970.
    pub fn past(&self) -> (u64, u64, u64) {
        let past = self.past.expect("BUG: this cluster has a past");
        let seconds = |time: Nanos| time.0 / Nanos::SECOND.0;
        (seconds(past.spike), seconds(past.gap.0), seconds(past.since))
    }

    /// Starts a program now, on one node after the other: from then on `tasks.running` is high.
    pub fn begin_program(&self) {
        *self.program.lock().unwrap_or_else(PoisonError::into_inner) = Some(boot_now());
    }

    /// Whether the program runs on a node.
    fn has_program(&self, at: usize, time: Nanos) -> bool {
        let begin = *self.program.lock().unwrap_or_else(PoisonError::into_inner);
        begin.is_some_and(|begin| time.0 >= begin.0 + at as u64 * STAGGER.0)
    }

    /// From one time to another (seconds since 1970) a node has hardly any memory left.
    pub fn fill_memory(&self, node: &str, from: u64, to: u64) {
        let at = self.nodes.iter().position(|name| name.as_str() == node).expect("the node exists");
        let times = (Nanos::from_secs(from), Nanos::from_secs(to));
        self.full.lock().unwrap_or_else(PoisonError::into_inner).push((at, times.0, times.1));
    }

    /// Whether a node has hardly any memory left at a time since boot.
    fn is_full(&self, at: usize, time: Nanos) -> bool {
        let full = self.full.lock().unwrap_or_else(PoisonError::into_inner);
        // Before any node was filled, nobody asks for the clock.
        if full.is_empty() {
            return false;
        }
        let real = Nanos((real_now().0 + time.0).saturating_sub(boot_now().0));
        full.iter().any(|(node, from, to)| *node == at && (*from..*to).contains(&real))
    }

    /// Takes nodes away: some have left, some are expected and were never seen.
    pub fn set_away(&self, left: &[&str], missing: &[&str]) {
        for (all, names) in [(&self.left, left), (&self.missing, missing)] {
            names.iter().for_each(|node| self.set_down(node, true));
            let names = names.iter().map(|node| (*node).to_owned()).collect();
            *all.lock().unwrap_or_else(PoisonError::into_inner) = names;
        }
    }

    /// The nodes in name order.
    pub fn names(&self) -> &[NodeName] {
        &self.nodes
    }

    /// Takes a node down, or brings it back.
    pub fn set_down(&self, node: &str, is_down: bool) {
        let at = self.nodes.iter().position(|name| name.as_str() == node).expect("the node exists");
        let mut down = self.down.lock().unwrap_or_else(PoisonError::into_inner);
        if is_down {
            down.insert(at)
        } else {
            down.remove(&at)
        };
    }

    /// The number of nodes that are down.
    pub fn down(&self) -> usize {
        self.down.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    fn is_up(&self, at: usize) -> bool {
        !self.down.lock().unwrap_or_else(PoisonError::into_inner).contains(&at)
    }

    /// The columns that any pattern selects.
    fn select(&self, patterns: &[Pattern]) -> Result<Arc<Vec<Series>>, QueryError> {
        let wanted = self.columns.iter().filter(|series| series.is_selected(patterns));
        let columns: Vec<Series> = wanted.cloned().collect();
        if columns.is_empty() {
            let patterns = patterns.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            return Err(QueryError::NothingMatches { patterns });
        }
        Ok(Arc::new(columns))
    }

    /// The nodes that any pattern selects, by their places.
    fn places(&self, patterns: &[Pattern]) -> Vec<usize> {
        let wanted = |at: &usize| patterns.iter().any(|p| p.matches_node(self.nodes[*at].as_str()));
        (0..self.nodes.len()).filter(wanted).collect()
    }

    fn row(&self, at: usize, columns: &[Series], time: Nanos) -> Row {
        let (has_program, is_full) = (self.has_program(at, time), self.is_full(at, time));
        let moment = Moment { has_program, is_full, ..Moment::new(at as u64, time.as_secs_f64()) };
        let readings = columns.iter().map(|series| moment.reading(series)).collect();
        let real_offset = real_now().0 as i64 - boot_now().0 as i64;
        Row { stamp: Stamp { boot: time, real_offset }, readings }
    }

    /// Rows at every multiple of `period` in `from..=until`.
    fn delivery(
        &self,
        at: usize,
        columns: &Arc<Vec<Series>>,
        ticks: std::ops::RangeInclusive<u64>,
        period: Nanos,
    ) -> Delivery {
        let rows = ticks.map(|tick| self.row(at, columns, Nanos(tick * period.0))).collect();
        Delivery {
            node: self.nodes[at].clone(),
            columns: Arc::clone(columns),
            rows,
            lost: 0,
            rate: None,
            last: None,
        }
    }
}

fn names(count: usize) -> Vec<NodeName> {
    let special = [("login", count / 1_024, 1), ("io", count / 128, 2), ("gpu", count / 32, 3)];
    let mut names = Vec::new();
    for (prefix, members, width) in special {
        names.extend((1..=members).map(|n| format!("{prefix}{n:0width$}")));
    }
    let width = count.to_string().len();
    names.extend((1..=count - names.len()).map(|n| format!("node{n:0width$}")));
    names.iter().map(|name| NodeName::new(name).expect("BUG: a made-up name is a name")).collect()
}

fn columns() -> Vec<Series> {
    let patterns: Vec<Pattern> = SHOWN.iter().map(|p| Pattern::new(p).expect("BUG: a pattern")).collect();
    let mut columns = Vec::new();
    for metric in khz_gather::catalogue() {
        if !patterns.iter().any(|p| p.matches_metric(&metric.name)) {
            continue;
        }
        let instances: Vec<String> = match metric.instances.as_deref() {
            None => {
                columns.push(Series { metric, instance: None });
                continue;
            }
            Some("cpu") => (0..CPUS).map(|cpu| cpu.to_string()).collect(),
            Some(_) if metric.name.starts_with("net.") => vec!["lo".into(), "eth0".into(), "ib0".into()],
            Some(_) if metric.name.starts_with("disk.") => vec!["nvme0n1".into()],
            Some(_) => continue,
        };
        for instance in instances {
            let instance = Some(Instance::from_kernel(instance.as_bytes()));
            columns.push(Series { metric: Arc::clone(&metric), instance });
        }
    }
    columns
}

/// A node at an instant.
struct Moment {
    node: u64,
    /// Seconds since the made-up boot.
    time: f64,
    /// The share of its CPUs that is busy now; its integral is seconds of one CPU since boot.
    busy: Wave,
    memory: Wave,
    network: Wave,
    disk: Wave,
    has_program: bool,
    is_full: bool,
}

/// A quantity that swings around a mean: its value now, and its integral since boot, which only grows.
struct Wave {
    now: f64,
    sum: f64,
}

impl Wave {
    /// `mean` and `swing` are in 0..=1. `swing` is cut to `mean` and to `1 - mean`.
    fn new(time: f64, mean: f64, swing: f64, period: f64, phase: f64) -> Self {
        let swing = swing.min(mean).min(1.0 - mean);
        let turn = std::f64::consts::TAU / period;
        let angle = turn * time + phase * std::f64::consts::TAU;
        Wave { now: mean + swing * angle.sin(), sum: mean * time - swing / turn * angle.cos() + swing / turn }
    }
}

impl Moment {
    fn new(node: u64, time: f64) -> Self {
        let job = noise(node / JOB_NODES, 1);
        // A third of the jobs are idle. The nodes of any other job are almost equally busy.
        let mean =
            if job < 0.33 { 0.03 + 0.05 * noise(node, 2) } else { 0.25 + 0.7 * job + 0.04 * noise(node, 2) };
        let mean = mean.min(0.97);
        Moment {
            node,
            time,
            busy: Wave::new(time, mean, 0.25 * noise(node, 3) + 0.05, 20.0 + 40.0 * job, job),
            memory: Wave::new(time, 0.12 + 0.75 * noise(node / JOB_NODES, 4), 0.05, 300.0, noise(node, 4)),
            network: Wave::new(time, 0.5, 0.4, 15.0 + 20.0 * job, noise(node, 6)),
            has_program: false,
            is_full: false,
            disk: Wave::new(time, 0.02 + 0.6 * noise(node, 7).powi(4), 0.3, 45.0, noise(node, 8)),
        }
    }

    fn reading(&self, series: &Series) -> Reading {
        let metric = &series.metric;
        // Some kernels have no PSI.
        if metric.name.starts_with("pressure.") && noise(self.node, 9) < 0.02 {
            return Reading::Absent(Absence::NoSource);
        }
        let instance = series.instance.as_ref().map_or("", Instance::name);
        match self.value(metric, instance) {
            Some(value) => Reading::Present((value * 10f64.powi(metric.places.into())).max(0.0) as u64),
            None => Reading::Absent(Absence::NoField),
        }
    }

    /// The value in the metric's unit.
    fn value(&self, metric: &Metric, instance: &str) -> Option<f64> {
        let cpus = CPUS as f64;
        let total = 137_438_953_472.0;
        // A few nodes move most of the bytes.
        let bandwidth = 2e4 + 1.2e10 * noise(self.node, 10).powi(12);
        let lane = match instance {
            "lo" => 0.1,
            "ib0" => 1.0,
            _ => 0.02,
        };
        Some(match &*metric.name {
            "cpu.all.user" => 0.82 * self.busy.sum * cpus,
            "cpu.all.system" => 0.15 * self.busy.sum * cpus,
            "cpu.all.softirq" => 0.03 * self.busy.sum * cpus,
            "cpu.all.iowait" => 0.0,
            "cpu.all.idle" => (self.time - self.busy.sum) * cpus,
            name if name.starts_with("cpu.all.") => 0.0,
            "cpu.user" => self.busy.sum,
            "cpu.idle" => self.time - self.busy.sum,
            "cpu.iowait" => 0.0,
            "mem.total" => total,
            "mem.available" if self.is_full => 0.02 * total,
            "mem.available" => total * (1.0 - self.memory.now),
            "mem.free" => total * (0.9 - 0.9 * self.memory.now),
            "mem.buffers" => total * 0.01,
            "mem.cached" => total * 0.06,
            name if name.starts_with("load.") => cpus * self.busy.now,
            "tasks.running" | "kernel.procs_running" if self.has_program => 100.0,
            "tasks.running" | "kernel.procs_running" => 1.0 + cpus * self.busy.now,
            "tasks.total" => 420.0,
            "net.rx_bytes" => bandwidth * lane * self.network.sum,
            "net.tx_bytes" => 0.7 * bandwidth * lane * self.network.sum,
            // One interface drops packets, the others never did.
            "net.rx_dropped" if instance == "eth0" => 0.2 * self.time,
            name if name.ends_with("_errors") || name.ends_with("_dropped") => 0.0,
            "disk.read_bytes" => 4e8 * self.disk.sum,
            "disk.written_bytes" => 2e8 * self.disk.sum,
            "disk.io_time" => self.disk.sum,
            "kernel.context_switches" => 300.0 * self.time + 2e4 * self.busy.sum,
            "kernel.interrupts" => 250.0 * self.time + 9e3 * self.busy.sum,
            "kernel.forks" => 5.0 * self.time,
            "pressure.cpu.some.avg10" => 40.0 * self.busy.now.powi(6),
            "pressure.memory.some.avg10" => 3.0 * self.memory.now.powi(8),
            "pressure.io.some.avg10" => 60.0 * self.disk.now.powi(2),
            "pressure.cpu.some.total" => 0.1 * self.busy.sum,
            "pressure.io.some.total" => 0.1 * self.disk.sum,
            name if name.starts_with("pressure.") => 0.0,
            _ if metric.kind == Kind::Counter => self.time,
            _ => return None,
        })
    }
}

/// A number in 0..1 that looks random and is always the same for the same arguments.
fn noise(n: u64, salt: u64) -> f64 {
    let mut x = n.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(salt.wrapping_mul(0xd1b5_4a32_d192_ed03));
    x = (x ^ (x >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((x ^ (x >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}

fn real_now() -> Nanos {
    Nanos(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64)
}

/// The time since boot. All nodes booted 100 hours before this hour began, so that counters are plausible.
fn boot_now() -> Nanos {
    const HOUR: u64 = 3_600 * Nanos::SECOND.0;
    Nanos(real_now().0 % HOUR + 100 * HOUR)
}

impl Query for Cluster {
    fn nodes(&self) -> Vec<NodeName> {
        self.nodes.to_vec()
    }

    fn metrics(&self) -> Vec<Arc<Metric>> {
        let mut metrics: Vec<Arc<Metric>> = Vec::new();
        for series in self.columns.iter() {
            if metrics.last().is_none_or(|last| last.name != series.metric.name) {
                metrics.push(Arc::clone(&series.metric));
            }
        }
        metrics
    }

    fn rate_max(&self) -> Rate {
        Rate::from_hz(1_000).expect("BUG: 1,000 Hz is a rate")
    }

    fn latest<'a>(&'a self, patterns: &'a [Pattern], _: Nanos) -> WaitFor<'a, Result<Snapshot, QueryError>> {
        Box::pin(async move {
            let columns = self.select(patterns)?;
            let mut snapshot = Snapshot::default();
            for at in self.places(patterns) {
                if !self.is_up(at) {
                    snapshot.missing.push(self.nodes[at].to_string());
                    continue;
                }
                let row = self.row(at, &columns, boot_now());
                let samples = columns.iter().zip(&row.readings);
                let samples = samples.map(|(series, &reading)| Sample {
                    series: series.clone(),
                    reading,
                    stamp: row.stamp,
                });
                snapshot.nodes.push((self.nodes[at].clone(), samples.collect()));
            }
            Ok(snapshot)
        })
    }

    fn subscribe(&self, interest: Interest) -> Result<Box<dyn Subscription>, QueryError> {
        let columns = self.select(&interest.patterns)?;
        let places = self.places(&interest.patterns);
        let tick = boot_now().0 / interest.rate.period().0;
        Ok(Box::new(Rows { cluster: self.clone(), columns, places, rate: interest.rate, tick }))
    }

    fn history_of(
        &self,
        node: &NodeName,
        patterns: &[Pattern],
        span: Nanos,
        rows_max: usize,
    ) -> Result<Option<Delivery>, QueryError> {
        let columns = self.select(patterns)?;
        let period = Nanos((span.0 / rows_max.max(1) as u64).max(Nanos::SECOND.0));
        let until = boot_now().0 / period.0;
        let ticks = until.saturating_sub(span.0 / period.0)..=until;
        let at = self.places(patterns).into_iter().find(|&at| self.nodes.get(at) == Some(node));
        let at = at.filter(|&at| self.is_up(at) || !self.past.is_some_and(|past| past.is_stored));
        Ok(at.map(|at| self.delivery(at, &columns, ticks, period)))
    }

    fn range(&self, request: RangeRequest) -> Result<Box<dyn RangeAnswer>, QueryError> {
        Ok(Box::new(RecentAnswer::new(Arc::new(self.clone()), request)?))
    }

    fn status(&self) -> Vec<NodeStatus> {
        let status = |at: usize| {
            let up = self.is_up(at);
            let lane = LaneStatus {
                name: "base".into(),
                rate: Rate::from_hz(1).expect("BUG: 1 Hz is a rate"),
                asked: Rate::from_hz(1).expect("BUG: 1 Hz is a rate"),
                slots: self.columns.len() as u64,
                age: Some(Nanos::from_millis(300)),
                rows: boot_now().0 / Nanos::SECOND.0,
                awaited: 0,
                lost: if noise(at as u64, 11) < 0.01 { 12 } else { 0 },
                late: 0,
            };
            let is_among = |all: &Mutex<BTreeSet<String>>| {
                !up && all.lock().unwrap_or_else(PoisonError::into_inner).contains(self.nodes[at].as_str())
            };
            let is_missing = is_among(&self.missing);
            NodeStatus {
                up,
                left: is_among(&self.left),
                expected: is_missing,
                heard: (!is_missing).then(|| Nanos::from_millis(if up { 300 } else { 754_000 })),
                since: Some(Nanos::from_secs(if up { 86_400 } else { 751 })),
                address: Some(format!("10.0.{}.{}:7071", at / 250, at % 250 + 1)),
                lanes: vec![lane],
                clock_offset: Some((noise(at as u64, 12) * 4e5) as i64 - 200_000),
                round_trip: Some(Nanos::from_micros(90 + (noise(at as u64, 13) * 200.0) as u64)),
                retransmitted: Some(0),
                connects: 1,
                problem: (!up).then(|| "the connection was reset".into()),
                ..NodeStatus::here(self.nodes[at].clone())
            }
        };
        (0..self.nodes.len()).map(status).collect()
    }
}

impl Recent for Cluster {
    fn nodes(&self) -> Vec<NodeName> {
        self.nodes.to_vec()
    }

    fn span(&self) -> Option<(Nanos, Nanos)> {
        self.past.map(|past| (past.since, real_now()))
    }

    fn rows(
        &self,
        node: &NodeName,
        patterns: &[Pattern],
        from: Nanos,
        to: Nanos,
    ) -> Result<Option<Delivery>, QueryError> {
        let (Some(past), Some(at)) = (self.past, self.nodes.iter().position(|name| name == node)) else {
            return Ok(None);
        };
        let columns = self.select(patterns)?;
        let second = Nanos::SECOND.0;
        let seconds = from.max(past.since).0.div_ceil(second)..to.min(real_now()).0.div_ceil(second);
        let times = seconds.map(|time| Nanos(time * second));
        let offset = real_now().0 - boot_now().0;
        let rows = times.filter(|time| !(past.gap.0..past.gap.1).contains(time)).map(|time| {
            let mut row = self.row(at, &columns, Nanos(time.0 - offset));
            row.stamp.real_offset = offset as i64;
            if time == past.spike {
                set(&columns, &mut row, "load.1m", SPIKE);
            }
            if past.is_stored {
                let booted = if time < past.gap.0 { past.since } else { past.gap.1 };
                set(&columns, &mut row, "kernel.boot_time", booted.as_secs_f64() - BOOTED_BEFORE as f64);
            }
            row
        });
        Ok(Some(Delivery {
            node: node.clone(),
            rows: rows.collect(),
            columns,
            lost: 0,
            rate: None,
            last: None,
        }))
    }
}

/// Gives a metric a value in this row.
fn set(columns: &[Series], row: &mut Row, metric: &str, value: f64) {
    for (series, reading) in columns.iter().zip(&mut row.readings) {
        if &*series.metric.name == metric {
            *reading = Reading::Present((value * 10f64.powi(series.metric.places.into())) as u64);
        }
    }
}

/// A subscription: rows for the ticks that have passed.
struct Rows {
    cluster: Cluster,
    columns: Arc<Vec<Series>>,
    places: Vec<usize>,
    rate: Rate,
    /// The last tick that was delivered.
    tick: u64,
}

impl Subscription for Rows {
    fn poll(&mut self) -> Vec<Delivery> {
        let period = self.rate.period();
        let now = boot_now().0 / period.0;
        if now <= self.tick {
            return Vec::new();
        }
        let ticks = (self.tick + 1).max(now.saturating_sub(ROWS_MAX))..=now;
        self.tick = now;
        let up = self.places.iter().filter(|&&at| self.cluster.is_up(at));
        up.map(|&at| self.cluster.delivery(at, &self.columns, ticks.clone(), period)).collect()
    }

    fn rate(&self) -> Rate {
        self.rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_only_grow_and_a_cpu_is_never_more_than_busy() {
        for node in 0..200 {
            let mut before: Option<Moment> = None;
            for second in 360_000..360_050 {
                let moment = Moment::new(node, f64::from(second));
                assert!((0.0..=1.0).contains(&moment.busy.now), "node {node}");
                if let Some(before) = before {
                    let busy = moment.busy.sum - before.busy.sum;
                    assert!((-1e-6..=1.000_001).contains(&busy), "node {node}: {busy} s in a second");
                    assert!(moment.network.sum >= before.network.sum);
                }
                before = Some(moment);
            }
        }
    }

    #[test]
    fn there_are_as_many_nodes_as_asked_for_each_with_a_name() {
        for count in [1, 7, 64, 4_096] {
            let cluster = Cluster::new(count);
            let distinct: BTreeSet<&str> = cluster.names().iter().map(NodeName::as_str).collect();
            assert_eq!(distinct.len(), count);
            assert!(cluster.names().is_sorted());
        }
    }
}
