//! Nodes that answer from a script, a real door for them on a real socket, and a client that writes HTTP by
//! hand. Uses no clocks: row `n` has the stamp `n` and values that follow from `n`.

#![allow(dead_code)]

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use khz_http::{Counters, Door};
use khz_model::metric::Text;
use khz_model::{
    Absence, ChannelName, Delivery, Exposition, Fault, Forgotten, Instance, Interest, Kind, LaneStatus,
    Metric, Nanos, NodeName, NodeStatus, Notice, Origin, Pattern, Query, QueryError, RangeAnswer,
    RangeContent, RangePart, RangePoint, RangeRequest, RangeShape, RangeTotal, Rate, Reading, Refresh, Row,
    Sample, Series, Snapshot, Stamp, Subscription, Unit, WaitFor,
};

/// A test that waits longer than this for a byte has failed.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The scripted node, or several with nearly the same readings.
pub struct FakeNode {
    /// In name order; the first is n1.
    pub nodes: Vec<NodeName>,
    /// Nodes that do not answer.
    pub down: Mutex<BTreeSet<NodeName>>,
    /// Nodes that were forgotten.
    pub forgotten: Mutex<BTreeSet<NodeName>>,
    /// The answering program is no node, and has these numbers about itself.
    pub own: Option<Vec<Sample>>,
    /// The notices of the next subscription.
    pub notices: Vec<Notice>,
    pub columns: Arc<Vec<Series>>,
    /// How many rows one poll of a subscription returns.
    pub rows_a_poll: usize,
    /// From this row on there is one more column.
    pub grows_at: u64,
    pub stopped: AtomicBool,
    /// It has no store.
    pub forgetful: AtomicBool,
    /// The past of each series never ends, but for [`SHORT`].
    pub endless: AtomicBool,
    /// Every request is refused: a limit is reached.
    pub full: AtomicBool,
    /// The node takes no handlers.
    pub unable: AtomicBool,
    pub subscriptions: Arc<AtomicUsize>,
    /// The `age_max` of every call of `latest`.
    pub ages: Mutex<Vec<Nanos>>,
    /// Every call of `renew`: its patterns and the wanted age.
    pub renewed: Mutex<Vec<(String, Nanos)>>,
    /// No node answers `renew`.
    pub silent: AtomicBool,
    /// Every request, in order: its patterns, or `own` for its own numbers.
    pub asked: Mutex<Vec<String>>,
    /// What was subscribed to, in order.
    pub interests: Mutex<Vec<Interest>>,
    /// While a test holds this, requests and so the whole door stand still.
    pub held_up: Mutex<()>,
}

impl Default for FakeNode {
    fn default() -> Self {
        FakeNode {
            nodes: vec![node()],
            down: Mutex::default(),
            forgotten: Mutex::default(),
            own: None,
            notices: Vec::new(),
            columns: Arc::new(columns()),
            rows_a_poll: 17,
            grows_at: u64::MAX,
            stopped: AtomicBool::new(false),
            forgetful: AtomicBool::new(false),
            endless: AtomicBool::new(false),
            full: AtomicBool::new(false),
            unable: AtomicBool::new(false),
            subscriptions: Arc::new(AtomicUsize::new(0)),
            ages: Mutex::new(Vec::new()),
            renewed: Mutex::default(),
            silent: AtomicBool::new(false),
            asked: Mutex::default(),
            interests: Mutex::default(),
            held_up: Mutex::default(),
        }
    }
}

pub fn metric(name: &'static str, kind: Kind, unit: Unit, exposed: &'static str) -> Metric {
    Metric {
        name: Cow::Borrowed(name),
        kind,
        unit,
        value_type: khz_model::ValueType::Unsigned,
        labels_from: None,
        places: 0,
        max: None,
        refresh: Refresh::Event,
        help: Text::from(format!("What the kernel says of {name}.")),
        origin: Origin { file: Cow::Borrowed("/proc/stat"), field: Cow::Borrowed("field") },
        instances: None,
        exposition: Exposition {
            help: None,
            name: Cow::Borrowed(exposed),
            labels: Cow::Borrowed(&[]),
            instance_label: None,
            divisor: 1,
            untyped: false,
        },
        flat: Text::from(name.replace('.', "")),
    }
}

pub fn with_instances(mut metric: Metric, what: &'static str) -> Metric {
    metric.instances = Some(Cow::Borrowed(what));
    metric.exposition.instance_label = Some(Cow::Borrowed(what));
    metric
}

fn cpu(name: &'static str, mode: &'static str) -> Arc<Metric> {
    let mut metric =
        with_instances(metric(name, Kind::Counter, Unit::Seconds, "node_cpu_seconds_total"), "cpu");
    metric.exposition.labels = Cow::Owned(vec![(Cow::Borrowed("mode"), Cow::Borrowed(mode))]);
    metric.places = 2;
    Arc::new(metric)
}

/// Metrics of every kind: two that share a family, decimals, untyped with a divisor, awkward instances.
pub fn columns() -> Vec<Series> {
    let of = |metric: &Arc<Metric>, instance: &[u8]| Series {
        metric: Arc::clone(metric),
        instance: Some(Instance::from_kernel(instance)),
    };
    let alone = |metric: Metric| Series { metric: Arc::new(metric), instance: None };
    let load = Metric { places: 2, ..metric("load.1m", Kind::Gauge, Unit::Count, "node_load1") };
    let mut pages = metric("vm.page_in_bytes", Kind::Counter, Unit::Bytes, "node_vmstat_pgpgin");
    pages.exposition.untyped = true;
    pages.exposition.divisor = 1_024;
    let rx = Arc::new(with_instances(
        metric("net.rx_bytes", Kind::Counter, Unit::Bytes, "node_network_receive_bytes_total"),
        "device",
    ));
    let (user, idle) = (cpu("cpu.user", "user"), cpu("cpu.idle", "idle"));
    vec![
        of(&user, b"0"),
        of(&rx, b"eth0"),
        of(&idle, b"0"),
        of(&user, b"1"),
        of(&idle, b"1"),
        of(&rx, b"a\"b\\c\nd:[*]"),
        alone(load),
        alone(pages),
        alone(metric("mem.total", Kind::Gauge, Unit::Bytes, "node_memory_MemTotal_bytes")),
        alone(metric("mem.high_total", Kind::Gauge, Unit::Bytes, "node_memory_HighTotal_bytes")),
        alone(metric("context_switches", Kind::Counter, Unit::Count, "node_context_switches_total")),
        alone(metric("broken.field", Kind::Gauge, Unit::Count, "node_broken_field")),
    ]
}

/// The value of a column in row `n`.
pub fn reading(series: &Series, n: u64) -> Reading {
    match &*series.metric.name {
        "mem.high_total" => Reading::Absent(Absence::NoField),
        "broken.field" => Reading::Failed(Fault::Malformed),
        "context_switches" => Reading::Present(u64::MAX - 1_000_000_000 + n),
        "mem.total" => Reading::Present(16_777_216_000),
        "net.rx_bytes" => Reading::Present(n / 10),
        _ => Reading::Present(n),
    }
}

pub fn stamp(n: u64) -> Stamp {
    Stamp { boot: Nanos(n), real_offset: 1_763_690_000_000_000_000 }
}

pub fn node() -> NodeName {
    NodeName::new("n1").unwrap()
}

/// Nodes n1, n2, ... in name order.
pub fn cluster(count: usize) -> Vec<NodeName> {
    let mut nodes: Vec<NodeName> = (1..=count).map(|n| NodeName::new(&format!("n{n}")).unwrap()).collect();
    nodes.sort();
    nodes
}

impl FakeNode {
    pub fn many(count: usize) -> FakeNode {
        FakeNode { nodes: cluster(count), ..FakeNode::default() }
    }

    pub fn set_down(&self, names: &[&str]) {
        *self.down.lock().unwrap() = names.iter().map(|name| NodeName::new(name).unwrap()).collect();
    }

    fn is_up(&self, node: &NodeName) -> bool {
        !self.down.lock().unwrap().contains(node)
    }

    /// The nodes that a pattern selects and that are up, each with its number from 0.
    fn answering(&self, patterns: &[Pattern]) -> Vec<(u64, NodeName)> {
        let wanted = |node: &NodeName| patterns.iter().any(|p| p.matches_node(node.as_str()));
        let numbered = self.nodes.iter().enumerate().map(|(k, node)| (k as u64, node.clone()));
        numbered.filter(|(_, node)| wanted(node) && self.is_up(node)).collect()
    }

    /// The nodes that the patterns name and that do not answer.
    fn missing(&self, patterns: &[Pattern]) -> Vec<String> {
        let named = patterns.iter().filter_map(Pattern::nodes).filter_map(|list| list.expand()).flatten();
        let mut missing: Vec<String> = named
            .filter(|name| !self.nodes.iter().any(|node| node.as_str() == name && self.is_up(node)))
            .collect();
        for node in self.down.lock().unwrap().iter().map(ToString::to_string) {
            if !missing.contains(&node) && patterns.iter().any(|p| p.matches_node(&node)) {
                missing.push(node);
            }
        }
        missing
    }

    fn select(&self, patterns: &[Pattern]) -> Result<Vec<Series>, QueryError> {
        if self.stopped.load(Ordering::SeqCst) {
            return Err(QueryError::Stopped);
        }
        let wanted = |series: &&Series| {
            let instance = series.instance.as_ref();
            let here = |p: &Pattern| self.nodes.iter().any(|node| p.matches_node(node.as_str()));
            patterns.iter().any(|p| here(p) && p.matches_series(&series.metric.name, instance))
        };
        let selected: Vec<Series> = self.columns.iter().filter(wanted).cloned().collect();
        if selected.is_empty() {
            let patterns = patterns.iter().map(Pattern::to_string).collect::<Vec<_>>().join(" ");
            return Err(QueryError::NothingMatches { patterns });
        }
        Ok(selected)
    }

    fn check_full(&self) -> Result<(), QueryError> {
        if self.full.load(Ordering::SeqCst) {
            Err(QueryError::Full { what: "readers", limit: 7 })
        } else {
            Ok(())
        }
    }
}

impl Query for FakeNode {
    fn nodes(&self) -> Vec<NodeName> {
        let forgotten = self.forgotten.lock().unwrap();
        self.nodes.iter().filter(|node| !forgotten.contains(*node)).cloned().collect()
    }

    fn series(&self, _: &NodeName) -> Option<Arc<dyn khz_model::Columns>> {
        Some(self.columns.clone())
    }

    /// Forgets nodes that are down. Without numbers of its own (`own`) it remembers no nodes.
    fn forget(&self, nodes: &Pattern) -> Result<Forgotten, QueryError> {
        if self.own.is_none() {
            return Err(QueryError::NoMemory);
        }
        let mut forgotten = Forgotten::default();
        for node in self.nodes().into_iter().filter(|node| nodes.matches_node(node.as_str())) {
            match self.is_up(&node) {
                true => forgotten.refused.push((node, "it is up".to_owned())),
                false => forgotten.nodes.push(node),
            }
        }
        self.forgotten.lock().unwrap().extend(forgotten.nodes.iter().cloned());
        Ok(forgotten)
    }

    fn status(&self) -> Vec<NodeStatus> {
        self.status_of(&self.nodes)
    }

    fn status_of(&self, nodes: &[NodeName]) -> Vec<NodeStatus> {
        if self.nodes.len() == 1 && self.down.lock().unwrap().is_empty() {
            return vec![NodeStatus::here(node())];
        }
        let lane = || LaneStatus {
            name: "base".to_owned(),
            rate: Rate::from_hz(1).unwrap(),
            asked: Rate::from_hz(1).unwrap(),
            slots: self.columns.len() as u64,
            age: Some(Nanos::from_millis(400)),
            rows: 86_400,
            awaited: 2,
            lost: 7,
            late: 1,
        };
        let status = |node: &NodeName| {
            let up = self.is_up(node);
            NodeStatus {
                up,
                heard: Some(if up { Nanos::from_millis(400) } else { Nanos::from_secs(12) }),
                since: Some(if up { Nanos::from_secs(86_400) } else { Nanos::from_secs(9) }),
                address: Some("192.0.2.7:40000".to_owned()),
                lanes: vec![lane()],
                clock_offset: Some(-12_345),
                round_trip: Some(Nanos::from_micros(180)),
                retransmitted: Some(3),
                connects: 2,
                problem: (!up).then(|| "the connection was reset".to_owned()),
                ..NodeStatus::here(node.clone())
            }
        };
        nodes.iter().map(status).collect()
    }

    fn own(&self) -> Option<Vec<Sample>> {
        self.asked.lock().unwrap().push("own".to_owned());
        self.own.clone()
    }

    fn metrics(&self) -> Vec<Arc<Metric>> {
        let mut names = HashSet::new();
        let metrics = self.columns.iter().map(|series| &series.metric);
        metrics.filter(|metric| names.insert(&metric.name)).cloned().collect()
    }

    fn rate_max(&self) -> Rate {
        Rate::from_hz(1_000).unwrap()
    }

    fn latest<'a>(
        &'a self,
        patterns: &'a [Pattern],
        age_max: Nanos,
    ) -> WaitFor<'a, Result<Snapshot, QueryError>> {
        Box::pin(async move {
            let texts: Vec<String> = patterns.iter().map(Pattern::to_string).collect();
            self.asked.lock().unwrap().push(texts.join(" "));
            drop(self.held_up.lock().unwrap());
            let selected = self.select(patterns)?;
            self.check_full()?;
            self.ages.lock().unwrap().push(age_max);
            let samples = |k: u64| {
                let sample = |series: &Series| Sample {
                    series: series.clone(),
                    reading: reading(series, 1_234 + 100 * k),
                    stamp: stamp(1_234),
                };
                selected.iter().map(sample).collect()
            };
            Ok(Snapshot {
                nodes: self.answering(patterns).into_iter().map(|(k, node)| (node, samples(k))).collect(),
                missing: self.missing(patterns),
            })
        })
    }

    fn renew<'a>(&'a self, patterns: &'a [Pattern], age_max: Nanos) -> WaitFor<'a, ()> {
        Box::pin(async move {
            let patterns: Vec<String> = patterns.iter().map(Pattern::to_string).collect();
            self.renewed.lock().unwrap().push((patterns.join(" "), age_max));
            if self.silent.load(Ordering::SeqCst) {
                std::future::pending::<()>().await;
            }
        })
    }

    fn subscribe(&self, interest: Interest) -> Result<Box<dyn Subscription>, QueryError> {
        self.interests.lock().unwrap().push(interest.clone());
        let columns = self.select(&interest.patterns)?;
        self.check_full()?;
        if self.unable.load(Ordering::SeqCst) {
            let problem = "this node takes no handlers".to_owned();
            let channel = ChannelName::new("adhoc").unwrap();
            return Err(QueryError::Channel { channel, problem, for_now: false });
        }
        if interest.rate.is_above(self.rate_max()) {
            return Err(QueryError::AboveCeiling { asked: interest.rate, ceiling: self.rate_max() });
        }
        self.subscriptions.fetch_add(1, Ordering::SeqCst);
        let mut grown = columns.clone();
        grown.push(Series {
            metric: Arc::clone(&columns[0].metric),
            instance: Some(Instance::from_kernel(b"new")),
        });
        Ok(Box::new(FakeRows {
            columns: Arc::new(columns),
            grown: Arc::new(grown),
            rate: interest.rate,
            rows_a_poll: self.rows_a_poll,
            grows_at: self.grows_at,
            next: 0,
            nodes: self.answering(&interest.patterns),
            notices: self.notices.clone(),
            alive: Arc::clone(&self.subscriptions),
        }))
    }

    fn range(&self, request: RangeRequest) -> Result<Box<dyn RangeAnswer>, QueryError> {
        let columns = self.select(&request.patterns).or_else(|error| match error {
            QueryError::NothingMatches { .. } => Ok(Vec::new()),
            error => Err(error),
        })?;
        self.check_full()?;
        if self.forgetful.load(Ordering::SeqCst) {
            return Err(QueryError::NoStore);
        }
        if request.from >= request.to {
            return Err(QueryError::RangeBackwards);
        }
        let nodes = self.answering(&request.patterns).into_iter();
        let left =
            nodes.flat_map(|(_, node)| columns.iter().map(move |series| (node.clone(), series.clone())));
        let mut left: Vec<(NodeName, Series)> = left.collect();
        left.reverse();
        let is_short = columns.iter().all(|series| &*series.metric.name == SHORT);
        let is_endless = self.endless.load(Ordering::SeqCst) && !is_short;
        Ok(Box::new(FakePast { shape: request.shape, left, damage: Vec::new(), is_endless }))
    }

    fn history_of(
        &self,
        node: &NodeName,
        patterns: &[Pattern],
        span: Nanos,
        rows_max: usize,
    ) -> Result<Option<Delivery>, QueryError> {
        let columns = Arc::new(self.select(patterns)?);
        self.check_full()?;
        let rows = (span.0 / 1_000_000_000).min(rows_max as u64);
        let rows = (0..rows).map(|n| row(&columns, n)).collect();
        Ok(Some(Delivery { node: node.clone(), columns, rows, lost: 0, rate: None, last: None }))
    }
}

/// A metric whose past is always short.
pub const SHORT: &str = "mem.total";

/// Rows that a series has in the store.
pub const PAST_ROWS: u64 = 600;

/// The past of some series of some nodes, whatever time is asked for.
struct FakePast {
    shape: RangeShape,
    /// What is still to come, the last first.
    left: Vec<(NodeName, Series)>,
    damage: Vec<String>,
    /// It gives the last series again and again.
    is_endless: bool,
}

impl RangeAnswer for FakePast {
    fn next(&mut self) -> Result<Option<RangePart>, QueryError> {
        let next = if self.is_endless { self.left.last().cloned() } else { self.left.pop() };
        let Some((node, series)) = next else { return Ok(None) };
        if &*series.metric.name == "broken.field" {
            self.damage.push("a.col, byte 7: 9 bytes are damaged".to_owned());
        }
        let row = |n| (stamp(n), reading(&series, n));
        let content = match self.shape {
            RangeShape::Rows | RangeShape::Steps(_) | RangeShape::Columns(_) => {
                RangeContent::Readings((0..PAST_ROWS).map(row).collect())
            }
            RangeShape::Newest => RangeContent::Readings(vec![row(PAST_ROWS - 1)]),
            RangeShape::Buckets(_) => RangeContent::Points((0..9).map(past_point).collect()),
            RangeShape::Points(points) => {
                RangeContent::Points((0..points.min(9).into()).map(past_point).collect())
            }
        };
        let shift = if self.shape == RangeShape::Rows { PAST_SHIFT } else { 0 };
        Ok(Some(RangePart { node, series, step: Nanos(0), shift, content, labels: Vec::new() }))
    }

    fn width(&self) -> Option<Nanos> {
        matches!(self.shape, RangeShape::Points(_)).then_some(Nanos::from_secs(60))
    }

    fn damage(&mut self) -> Vec<String> {
        std::mem::take(&mut self.damage)
    }
}

/// The clock of nodes in the past was 20 minutes ahead.
const PAST_SHIFT: i64 = -1_200_500_000_000;

fn past_point(n: u64) -> RangePoint {
    let begin = Nanos::from_secs(60 * n);
    RangePoint {
        begin,
        count: 2,
        first: (begin, 100 + n),
        last: (Nanos(begin.0 + 1), 7),
        lowest: 7,
        highest: 100 + n,
        sum: RangeTotal::Exact(i128::from(107 + n) << 70),
        resets: 1,
        changes: 1,
        correction: RangeTotal::Exact(i128::from(100 + n)),
    }
}

pub fn row(columns: &[Series], n: u64) -> Row {
    row_of(columns, n, 0)
}

/// The same for node number `k`: its values are a hundred rows ahead of the node before it.
pub fn row_of(columns: &[Series], n: u64, k: u64) -> Row {
    let readings = columns.iter().map(|series| reading(series, n + 100 * k)).collect();
    Row { stamp: stamp(n), readings }
}

struct FakeRows {
    columns: Arc<Vec<Series>>,
    grown: Arc<Vec<Series>>,
    rate: Rate,
    rows_a_poll: usize,
    grows_at: u64,
    next: u64,
    nodes: Vec<(u64, NodeName)>,
    notices: Vec<Notice>,
    alive: Arc<AtomicUsize>,
}

impl Subscription for FakeRows {
    fn poll(&mut self) -> Vec<Delivery> {
        let from = self.next;
        self.next += self.rows_a_poll as u64;
        let border = self.grows_at.clamp(from, self.next);
        let mut deliveries = Vec::new();
        for (k, node) in &self.nodes {
            for (columns, numbers) in [(&self.columns, from..border), (&self.grown, border..self.next)] {
                let rows: Vec<Row> = numbers.map(|n| row_of(columns, n, *k)).collect();
                let columns = Arc::clone(columns);
                deliveries.push(Delivery {
                    node: node.clone(),
                    columns,
                    rows,
                    lost: 0,
                    rate: None,
                    last: None,
                });
            }
        }
        deliveries.into_iter().filter(|delivery| !delivery.rows.is_empty()).collect()
    }

    fn notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    fn rate(&self) -> Rate {
        self.rate
    }
}

impl Drop for FakeRows {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A door in its own thread; dropping it closes the door.
pub struct Server {
    pub addr: SocketAddr,
    pub counters: Counters,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub fn start(query: Arc<FakeNode>) -> Server {
        Server::start_with(query, |_| {})
    }

    pub fn start_with(query: Arc<FakeNode>, change: impl FnOnce(&mut Door)) -> Server {
        Server::of(query, change)
    }

    /// The door of whatever answers.
    pub fn of(query: Arc<dyn Query>, change: impl FnOnce(&mut Door)) -> Server {
        let mut door = Door::new(query);
        door.listen = vec![SocketAddr::from(([127, 0, 0, 1], 0))];
        // As for khz alone: every local caller may use any rate.
        door.access.door = khz_trust::Door::Alone;
        change(&mut door);
        let counters = door.counters.clone();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("door".to_owned())
            .spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(async {
                    let bound = door.bind().await.unwrap();
                    tell.send(bound.local_addr()).unwrap();
                    bound.serve(async { drop(stopped.await) }).await;
                });
            })
            .unwrap();
        Server { addr: told.recv().unwrap(), counters, stop: Some(stop), thread: Some(thread) }
    }

    pub fn connect(&self) -> TcpStream {
        let socket = TcpStream::connect(self.addr).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    }

    /// Sends `request` unchanged and reads until the server closes.
    pub fn raw(&self, request: &[u8]) -> Vec<u8> {
        let mut socket = self.connect();
        // The server may refuse and close before everything is sent.
        let _ = socket.write_all(request);
        let mut answer = Vec::new();
        let _ = socket.read_to_end(&mut answer);
        answer
    }

    pub fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
        self.send(method, path, headers, "")
    }

    /// A request with a body.
    pub fn put(&self, path: &str, body: &str) -> Answer {
        self.send("PUT", path, &[("Content-Length", &body.len().to_string())], body)
    }

    fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut request = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        if !headers.iter().any(|(name, _)| *name == "Host") {
            request.push_str(&format!("Host: {}\r\n", self.addr));
        }
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        request.push_str("\r\n");
        request.push_str(body);
        Answer::parse(&self.raw(request.as_bytes()))
    }

    pub fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[])
    }

    /// Opens a stream; reads and checks the answer's head.
    pub fn stream(&self, path: &str) -> Events {
        let mut socket = self.connect();
        write!(socket, "GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", self.addr).unwrap();
        let mut events = Events { reader: BufReader::new(socket), text: Vec::new(), left: 0 };
        let head = events.head();
        assert!(head.starts_with("HTTP/1.1 200") && head.contains("text/event-stream"), "{head}");
        events
    }

    /// Waits until a counter has the expected value; it may change shortly after the client gets its answer.
    pub fn wait(&self, what: &str, reached: impl Fn(&Counters) -> bool) {
        let deadline = std::time::Instant::now() + PATIENCE;
        while !reached(&self.counters) {
            assert!(std::time::Instant::now() < deadline, "never: {what}; {:?}", self.counters);
            std::thread::yield_now();
        }
    }

    pub fn count(&self, counter: impl Fn(&Counters) -> &Arc<AtomicU64>) -> u64 {
        counter(&self.counters).load(Ordering::SeqCst)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(std::thread::panicking() || ended.is_ok(), "the server panicked");
        }
    }
}

/// Joins the chunks of a body.
fn of_chunks(mut rest: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let (size, after) = split(rest, b"\r\n").expect("a chunk has a size");
        let size = usize::from_str_radix(std::str::from_utf8(size).unwrap(), 16).unwrap();
        if size == 0 {
            return body;
        }
        body.extend_from_slice(&after[..size]);
        rest = after[size..].strip_prefix(b"\r\n").expect("a chunk has an end");
    }
}

/// What is before and after the first `mark`.
fn split<'a>(bytes: &'a [u8], mark: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let at = bytes.windows(mark.len()).position(|window| window == mark)?;
    Some((&bytes[..at], &bytes[at + mark.len()..]))
}

/// An answer that came complete.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HashMap<String, String>,
    pub bytes: Vec<u8>,
    /// The bytes as a text; empty if they are none.
    pub body: String,
}

impl Answer {
    pub fn parse(bytes: &[u8]) -> Answer {
        let Some((head, body)) = split(bytes, b"\r\n\r\n") else {
            panic!("no answer: {:?}", String::from_utf8_lossy(bytes));
        };
        let head = std::str::from_utf8(head).unwrap();
        let chunked = head.to_ascii_lowercase().contains("\r\ntransfer-encoding: chunked");
        let bytes = if chunked { of_chunks(body) } else { body.to_owned() };
        let body = String::from_utf8(bytes.clone()).unwrap_or_default();
        let mut lines = head.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers = lines.map(|line| line.split_once(": ").unwrap());
        let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect();
        Answer { status, headers, bytes, body }
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// Media type without parameters.
    pub fn content_type(&self) -> &str {
        self.headers.get("content-type").map_or("", |kind| kind.split(';').next().unwrap())
    }
}

/// The events of a stream, read from its chunks.
pub struct Events {
    reader: BufReader<TcpStream>,
    text: Vec<u8>,
    /// Bytes of the present chunk that are not read yet.
    left: usize,
}

impl Events {
    fn head(&mut self) -> String {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(self.reader.read_line(&mut head).unwrap() > 0, "closed within the head: {head}");
        }
        head
    }

    /// The next event or comment as it was sent, without its empty line; `None` when the stream has ended
    /// regularly.
    pub fn next_text(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.text.windows(2).position(|two| two == b"\n\n") {
                let event = self.text.drain(..end + 2).collect::<Vec<_>>();
                return Some(String::from_utf8(event[..end].to_vec()).unwrap());
            }
            if !self.chunk() {
                return None;
            }
        }
    }

    /// The next event: its name and data.
    pub fn next(&mut self) -> Option<(String, serde_json::Value)> {
        loop {
            let text = self.next_text()?;
            if let Some((name, data)) =
                text.strip_prefix("event: ").and_then(|text| text.split_once("\ndata: "))
            {
                return Some((name.to_owned(), serde_json::from_str(data).unwrap()));
            }
        }
    }

    fn chunk(&mut self) -> bool {
        let mut size = String::new();
        self.reader.read_line(&mut size).unwrap();
        self.left = usize::from_str_radix(size.trim(), 16).unwrap();
        let mut chunk = vec![0; self.left + 2];
        self.reader.read_exact(&mut chunk).unwrap();
        self.text.extend_from_slice(&chunk[..self.left]);
        self.left > 0
    }
}
