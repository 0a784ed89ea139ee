//! Nodes that answer from a table, a real door for them on a real socket, and a client that types.

#![allow(dead_code)]

use std::borrow::Cow;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use khz_model::{
    Absence, Delivery, Exposition, Fault, Instance, Interest, Kind, LaneStatus, Metric, Nanos, NodeName,
    NodeStatus, Origin, Pattern, Query, QueryError, Rate, Reading, Refresh, Sample, Series, Snapshot, Stamp,
    Subscription, Unit, WaitFor,
};
use khz_text::{Counters, Door, Limits};

/// A test that waits longer than this for a byte has failed.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A cluster from a table.
pub struct FakeCluster {
    pub nodes: Vec<NodeName>,
    /// The lanes of the first of them.
    pub lanes: Vec<LaneStatus>,
    pub columns: Vec<Series>,
    /// The `age_max` of every request.
    pub ages: Mutex<Vec<Nanos>>,
    /// Requests for rows at most this old never get an answer.
    pub stuck_below: Nanos,
}

pub fn series(name: &'static str, instance: Option<&str>, places: u8, max: Option<u64>) -> Series {
    let text = Cow::Borrowed;
    let metric = Metric {
        name: text(name),
        kind: if max.is_none() && places == 0 { Kind::Counter } else { Kind::Gauge },
        unit: Unit::Count,
        value_type: khz_model::ValueType::Unsigned,
        labels_from: None,
        places,
        max,
        refresh: Refresh::Event,
        help: text("Help."),
        origin: Origin { file: text("/proc/x"), field: text("x") },
        instances: instance.map(|_| text(if name.starts_with("cpu") { "cpu" } else { "device" })),
        exposition: Exposition {
            name: text("x"),
            help: None,
            labels: Cow::Borrowed(&[]),
            instance_label: None,
            divisor: 1,
            untyped: false,
        },
        flat: Cow::Owned(name.rsplit_once("net.").map_or(name, |(_, last)| last).replace(['.', '_'], "")),
    };
    Series { metric: Arc::new(metric), instance: instance.map(|name| Instance::from_kernel(name.as_bytes())) }
}

impl FakeCluster {
    pub fn new(nodes: &[&str]) -> Self {
        let nodes = nodes.iter().map(|name| NodeName::new(name).unwrap()).collect();
        let columns = vec![
            series("mem.free", None, 0, None),
            series("load.1m", None, 2, None),
            series("cpu.user", Some("3"), 2, None),
            series("net.rx_bytes", Some("eth0"), 0, None),
            series("psi", None, 2, Some(10_000)),
            series("mem.high", None, 0, None),
            series("broken", None, 0, None),
        ];
        FakeCluster { nodes, lanes: Vec::new(), columns, ages: Mutex::default(), stuck_below: Nanos(0) }
    }

    pub fn reading(&self, node: usize, series: &Series) -> Reading {
        match &*series.metric.name {
            "mem.high" => Reading::Absent(Absence::NoField),
            "broken" => Reading::Failed(Fault::Malformed),
            "mem.free" => Reading::Present(376_119_296 + node as u64),
            "net.rx_bytes" => Reading::Present(u64::MAX - node as u64),
            "load.1m" => Reading::Present(52),
            _ => Reading::Present(7),
        }
    }
}

impl Query for FakeCluster {
    fn nodes(&self) -> Vec<NodeName> {
        self.nodes.clone()
    }

    fn metrics(&self) -> Vec<Arc<Metric>> {
        self.columns.iter().map(|series| series.metric.clone()).collect()
    }

    fn status(&self) -> Vec<NodeStatus> {
        let mut all: Vec<NodeStatus> = self.nodes.iter().cloned().map(NodeStatus::here).collect();
        if let Some(first) = all.first_mut() {
            first.lanes = self.lanes.clone();
        }
        all
    }

    fn rate_max(&self) -> Rate {
        Rate::from_hz(1_000).unwrap()
    }

    fn latest<'a>(
        &'a self,
        patterns: &'a [Pattern],
        age_max: Nanos,
    ) -> WaitFor<'a, Result<Snapshot, QueryError>> {
        self.ages.lock().unwrap().push(age_max);
        if age_max < self.stuck_below {
            return Box::pin(std::future::pending());
        }
        let stamp = Stamp { boot: Nanos(1), real_offset: 1_763_690_000_000_000_000 };
        let numbered = self.nodes.iter().enumerate();
        let chosen = numbered.filter(|(_, node)| patterns.iter().any(|p| p.matches_node(node.as_str())));
        let nodes = chosen.map(|(number, node)| {
            let wanted = self.columns.iter().filter(|series| series.is_selected(patterns));
            let sample = |series: &Series| Sample {
                series: series.clone(),
                reading: self.reading(number, series),
                stamp,
            };
            (node.clone(), wanted.map(sample).collect())
        });
        let snapshot = Snapshot { nodes: nodes.collect(), missing: Vec::new() };
        Box::pin(std::future::ready(Ok(snapshot)))
    }

    fn subscribe(&self, _: Interest) -> Result<Box<dyn Subscription>, QueryError> {
        Err(QueryError::Stopped)
    }

    fn history_of(
        &self,
        _: &NodeName,
        _: &[Pattern],
        _: Nanos,
        _: usize,
    ) -> Result<Option<Delivery>, QueryError> {
        Err(QueryError::Stopped)
    }
}

/// A door that is open until this is dropped.
pub struct Open {
    pub addr: SocketAddr,
    pub counters: Counters,
    pub cluster: Arc<FakeCluster>,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Open {
    pub fn new(cluster: FakeCluster, limits: Limits) -> Self {
        let cluster = Arc::new(cluster);
        let counters = Counters::default();
        let sockets = khz_door::listen(&["127.0.0.1:0".parse().unwrap()], "--text-listen").unwrap();
        let addr = sockets[0].local_addr().unwrap();
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let (query, counts) = (cluster.clone(), counters.clone());
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let door = Door { limits, counters: counts, ..Door::new(query, "lbp") };
                let stopped = async { drop(stopped.await) };
                door.on(sockets).unwrap().serve(stopped).await;
            });
        });
        Open { addr, counters, cluster, stop: Some(stop), thread: Some(thread) }
    }

    pub fn client(&self) -> Client {
        Client::new(self.addr)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        drop(self.stop.take());
        let _ = self.thread.take().unwrap().join();
    }
}

/// A client that types.
pub struct Client(pub TcpStream);

impl Client {
    pub fn new(addr: SocketAddr) -> Self {
        let socket = TcpStream::connect(addr).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Client(socket)
    }

    pub fn say(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).unwrap();
    }

    /// Reads up to and including this text.
    pub fn until(&mut self, end: &str) -> String {
        let mut bytes = Vec::new();
        let mut byte = [0];
        while !bytes.ends_with(end.as_bytes()) {
            match self.0.read(&mut byte) {
                Ok(1) => bytes.push(byte[0]),
                other => panic!("{other:?} after {:?}", String::from_utf8_lossy(&bytes)),
            }
        }
        String::from_utf8(bytes).unwrap()
    }

    /// Sends a command and reads up to the blank line that ends the answer.
    pub fn ask(&mut self, text: &str) -> String {
        self.say(text);
        self.until("\n\n")
    }

    /// Sends a command and reads the one line that answers it.
    pub fn line(&mut self, text: &str) -> String {
        self.say(text);
        self.until("\n")
    }

    /// True when the door has closed the connection; skips its last answers.
    pub fn is_closed(&mut self) -> bool {
        let mut rest = Vec::new();
        self.0.read_to_end(&mut rest).is_ok() || self.0.take_error().is_ok_and(|error| error.is_none())
    }
}
