//! Simulated nodes and a real hub, over real connections.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Waker};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use khz_channel::Definition;
use khz_hub::{Cluster, HubQuery, LinkDoor, LinkServer, Settings as HubSettings};
use khz_model::{ByteSize, Interest, Nanos, Pattern, Query, Rate, Subscription};
use khz_simulate::{Crowd, Faults, Library, Report, Settings};
use khz_trust::ClusterKey;

const NODES: usize = 24;

fn hub(identity: u8, listen: &str, key: Option<ClusterKey>) -> (LinkServer, HubQuery) {
    let settings = HubSettings {
        name: "hub".into(),
        history: ByteSize(64 << 20),
        rate_max: Rate::from_hz(1_000).unwrap(),
    };
    let cluster = Cluster::new(settings, [identity; 16]);
    let listen = vec![listen.parse().unwrap()];
    let insecure = key.is_none();
    let door = LinkDoor { listen, local: None, run: None, tls: None, key, certificates: false, insecure };
    (LinkServer::start(cluster.clone(), door).unwrap(), HubQuery::new(cluster))
}

struct Simulation {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Report>,
}

impl Simulation {
    fn of(hub: std::net::SocketAddr, key: Option<ClusterKey>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let told = stop.clone();
        let thread = std::thread::spawn(move || {
            let names = ["compile", "netcopy"].map(String::from);
            let settings = Settings {
                from: None,
                hub,
                tls: None,
                key,
                run_dirs: Vec::new(),
                nodes: NODES,
                prefix: "n".into(),
                period: Nanos::from_millis(10),
                seed: 5,
                length: None,
                held: Nanos::from_secs(600),
                quiet_rules: false,
                faults: Faults::default(),
                jobs: Vec::new(),
            };
            let crowd = Crowd::new(settings, Library::read(&names, None, 300).unwrap()).unwrap();
            crowd.run(&told, |_| {})
        });
        Simulation { stop, thread }
    }

    fn end(self) -> Report {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    // It only ends a test that hangs: on a busy machine a crowd begins late.
    let end = Instant::now() + Duration::from_secs(180);
    while !is_so() {
        assert!(Instant::now() < end, "this never happened: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn number(hub: &HubQuery, name: &str) -> u64 {
    let samples = hub.own().unwrap();
    samples.iter().find(|one| one.series.metric.name == name).unwrap().reading.value().unwrap()
}

fn rows_of_every_node(hub: &HubQuery, rows: u64) -> bool {
    let status = hub.status();
    status.len() == NODES && status.iter().all(|node| node.lanes.iter().any(|lane| lane.rows >= rows))
}

#[test]
fn every_row_that_was_played_arrives_once() {
    let (server, query) = hub(1, "127.0.0.1:0", None);
    let simulation = Simulation::of(server.addresses()[0], None);
    until("200 rows of every node", || rows_of_every_node(&query, 200));
    let report = simulation.end();
    assert_eq!((report.unacknowledged, report.lost, report.welcomes), (0, 0, NODES as u64));
    assert_eq!(number(&query, "khz.hub.rows"), report.rows);
    assert_eq!(number(&query, "khz.hub.rows_twice"), 0);
}

#[test]
fn a_hub_that_has_just_begun_gets_everything_that_the_rings_hold() {
    let (server, query) = hub(1, "127.0.0.1:0", None);
    let address = server.addresses()[0];
    let simulation = Simulation::of(address, None);
    until("200 rows of every node", || rows_of_every_node(&query, 200));
    drop(server);
    let (_server, query) = hub(2, &address.to_string(), None);
    until("what they had before and more", || rows_of_every_node(&query, 400));
    let report = simulation.end();
    assert_eq!((report.unacknowledged, report.lost), (0, 0));
    assert_eq!(number(&query, "khz.hub.rows"), report.rows);
    assert!(number(&query, "khz.hub.rows_late") > 0, "old rows came after new ones");
}

#[test]
fn a_reader_that_wants_more_gets_a_lane_of_its_own() {
    let (server, query) = hub(1, "127.0.0.1:0", None);
    let simulation = Simulation::of(server.addresses()[0], None);
    until("a row of every node", || rows_of_every_node(&query, 1));
    let interest = |pattern: &str, hz| {
        Interest::new(vec![Pattern::new(pattern).unwrap()], Rate::from_hz(hz).unwrap(), false)
    };
    let mut fast = query.subscribe(interest("n07:kernel.*", 1_000)).unwrap();
    let mut stamps = Vec::new();
    until("two hundred rows at 1,000 Hz", || {
        for delivery in fast.poll() {
            assert_eq!(delivery.node.as_str(), "n07");
            stamps.extend(delivery.rows.iter().map(|row| row.stamp.boot.0));
        }
        stamps.windows(2).filter(|pair| pair[1] - pair[0] == 1_000_000).count() > 200
    });
    drop(fast);
    simulation.end();
}

#[test]
fn a_node_that_was_asked_for_a_row_now_has_no_further_rate() {
    let (server, query) = hub(1, "127.0.0.1:0", None);
    let simulation = Simulation::of(server.addresses()[0], None);
    until("a row of every node", || rows_of_every_node(&query, 1));
    let patterns = [Pattern::new("kernel.*").unwrap()];
    // The first time the nodes get ready, the second time they are.
    for _ in 0..2 {
        let mut asked = query.renew(&patterns, Nanos(0));
        let mut context = Context::from_waker(Waker::noop());
        until("an answer", || asked.as_mut().poll(&mut context).is_ready());
    }
    until("each node has sent further rows", || rows_of_every_node(&query, 50));
    for node in query.status() {
        let names: Vec<&str> = node.lanes.iter().map(|lane| lane.name.as_str()).collect();
        assert_eq!(names, ["base"], "{}", node.node);
    }
    // Its end comes while such a lane is there.
    let report = simulation.end();
    assert_eq!((report.unacknowledged, report.lost, report.broken), (0, 0, 0));
}

#[test]
fn nodes_show_the_tokens_that_a_hub_wants() {
    let key = || ClusterKey::from_bytes([9; 32]);
    let (server, query) = hub(1, "127.0.0.1:0", Some(key()));
    let strangers = Simulation::of(server.addresses()[0], None);
    until("they are refused", || number(&query, "khz.hub.refused") >= NODES as u64);
    assert_eq!(strangers.end().welcomes, 0);
    let known = Simulation::of(server.addresses()[0], Some(key()));
    until("a row of every node", || rows_of_every_node(&query, 1));
    assert_eq!(known.end().unacknowledged, 0);
}

/// Values by node and time.
type Values = BTreeMap<(String, u64), u64>;

fn take(rows: &mut dyn Subscription, values: &mut Values) -> u64 {
    let mut lost = 0;
    for delivery in rows.poll() {
        lost += delivery.lost;
        for row in delivery.rows {
            let value = row.readings[0].value().unwrap();
            assert_eq!(
                values.insert((delivery.node.to_string(), row.stamp.boot.0), value),
                None,
                "a row came twice"
            );
        }
    }
    lost
}

#[test]
fn simulated_nodes_execute_channels_on_the_rows_that_they_play() {
    let (server, query) = hub(1, "127.0.0.1:0", None);
    let simulation = Simulation::of(server.addresses()[0], None);
    until("a row of every node", || rows_of_every_node(&query, 1));
    let pattern = Pattern::new("kernel.context_switches").unwrap();
    let plain = Interest::new(vec![pattern], Rate::from_hz(100).unwrap(), false);
    let channel =
        |definition: &str| Definition::from_json(definition.as_bytes()).unwrap().interest().unwrap();
    let (mut played, mut every_fifth, mut never) = (
        query.subscribe(plain).unwrap(),
        query
            .subscribe(channel(
                r#"{"name":"some","series":["kernel.context_switches"],"rate":"100Hz","every":"50ms"}"#,
            ))
            .unwrap(),
        query
            .subscribe(channel(
                r#"{"name":"never","expr":"{\"kernel.context_switches\"} < 0","rate":"100Hz"}"#,
            ))
            .unwrap(),
    );
    let (mut all, mut some) = (Values::new(), Values::new());
    until("a second of rows of every node", || {
        assert_eq!(take(&mut *played, &mut all), 0);
        assert_eq!(take(&mut *every_fifth, &mut some), 0, "rows of a channel are numbered without gaps");
        let of_node = |n: usize| {
            let name = format!("n{:02}", n + 1);
            some.iter().filter(|(key, value)| key.0 == name && all.get(key) == Some(value)).count()
        };
        (0..NODES).all(|n| of_node(n) >= 20)
    });
    for (key, value) in &some {
        if let Some(known) = all.get(key) {
            assert_eq!(value, known, "{key:?}");
        }
    }
    let times: Vec<u64> = some.keys().filter(|key| key.0 == "n07").map(|key| key.1).collect();
    // The first row is that of the moment at which the channel began.
    assert!(times[1] - times[0] <= 50_000_000, "{times:?}");
    assert!(times[1..].windows(2).all(|two| two[1] - two[0] == 50_000_000), "{times:?}");
    assert!(never.poll().is_empty(), "a condition that does not hold sends nothing");
    simulation.end();
}

#[test]
fn a_simulated_node_without_a_hub_goes_on_executing_its_channels() {
    let (server, query) = hub(1, "127.0.0.1:0", None);
    let address = server.addresses()[0];
    let simulation = Simulation::of(address, None);
    let definition = r#"{"name":"on","nodes":"n07","series":["kernel.context_switches"],"rate":"10Hz"}"#;
    let interest = || Definition::from_json(definition.as_bytes()).unwrap().interest().unwrap();
    // Number and time of the last row that has come.
    let last = |rows: &mut dyn Subscription| {
        let delivery = rows.poll().pop()?;
        Some((delivery.last?, delivery.rows.last()?.stamp.boot.0))
    };
    let mut rows = query.subscribe(interest()).unwrap();
    let mut before = None;
    until("a row", || {
        before = last(&mut *rows).or(before);
        before.is_some()
    });
    drop((rows, server, query));
    // Longer than the time for which a node makes up for ticks that it has missed.
    std::thread::sleep(Duration::from_secs(4));
    let (_server, query) = hub(2, &address.to_string(), None);
    let mut rows = query.subscribe(interest()).unwrap();
    let mut after = None;
    until("a row at the next hub", || {
        after = last(&mut *rows);
        after.is_some()
    });
    let ((first, began), (second, went)) = (before.unwrap(), after.unwrap());
    assert_eq!(first.epoch, second.epoch);
    assert_eq!((second.number - first.number) * 100_000_000, went - began, "a row for each tick");
    simulation.end();
}

#[test]
fn simulated_nodes_execute_a_channel_that_was_followed_before_they_came() {
    let (server, query) = hub(1, "127.0.0.1:0", None);
    let definition = r#"{"name":"early","series":["kernel.context_switches"],"rate":"10Hz"}"#;
    let interest = Definition::from_json(definition.as_bytes()).unwrap().interest().unwrap();
    let mut rows = query.subscribe(interest).unwrap();
    let simulation = Simulation::of(server.addresses()[0], None);
    let (mut values, mut refused) = (Values::new(), Vec::new());
    until("a row of every node", || {
        take(&mut *rows, &mut values);
        refused.extend(rows.notices().into_iter().filter(|notice| notice.is_refusal));
        assert!(refused.is_empty(), "{refused:?}");
        values.keys().map(|(node, _)| node).collect::<std::collections::BTreeSet<_>>().len() == NODES
    });
    simulation.end();
}
