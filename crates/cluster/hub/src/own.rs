//! The hub's own metrics, and those of each node as the hub sees it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use khz_model::{Absence, Fault, Instance, Kind, Metric, Reading, Sample, Series, Stamp, Unit};

use crate::clock;
use crate::cluster::Cluster;
use crate::counts::own_metric;
use crate::node::Node;

/// All of them, now.
pub(crate) fn samples(cluster: &Cluster, tallies: &[(Series, Arc<AtomicU64>)]) -> Vec<Sample> {
    let boot = clock::boot();
    let stamp = Stamp { boot, real_offset: clock::wall() - boot.0 as i64 };
    let mut samples = Vec::new();
    let mut put = |metric: &Arc<Metric>, instance: Option<Instance>, reading: Reading| {
        samples.push(Sample { series: Series { metric: metric.clone(), instance }, reading, stamp });
    };
    for (metric, value) in cluster.counts.all().into_iter().chain(cluster.log_counts()) {
        put(&metric, None, Reading::Present(value));
    }
    for (Series { metric, instance }, count) in tallies {
        put(metric, instance.clone(), Reading::Present(count.load(Ordering::Relaxed)));
    }
    let (up, known, missing) = cluster.up();
    let whole =
        |name, exposition, help| Arc::new(own_metric(name, exposition, help, Kind::Gauge, Unit::Count, None));
    put(
        &whole(
            "khz.hub.nodes",
            "khz_hub_nodes",
            "Nodes that are known: those that were ever heard, and those expected.",
        ),
        None,
        Reading::Present(known),
    );
    put(
        &whole("khz.hub.nodes_up", "khz_hub_nodes_up", "Nodes that are connected."),
        None,
        Reading::Present(up),
    );
    put(
        &whole(
            "khz.hub.nodes_missing",
            "khz_hub_nodes_missing",
            "Nodes that are expected and were never heard.",
        ),
        None,
        Reading::Present(missing),
    );
    let history: u64 = cluster.nodes().iter().map(|node| history_bytes(&node.lock())).sum();
    let history = history + cluster.recorded.history_bytes();
    let bytes = own_metric(
        "khz.hub.history_bytes",
        "khz_hub_history_bytes",
        "Memory that blocks of the past take.",
        Kind::Gauge,
        Unit::Bytes,
        None,
    );
    put(&Arc::new(bytes), None, Reading::Present(history));
    let following = own_metric(
        "khz.hub.follow_bytes",
        "khz_hub_follow_bytes",
        "Memory that the places of readers at nodes take.",
        Kind::Gauge,
        Unit::Bytes,
        None,
    );
    put(&Arc::new(following), None, Reading::Present(cluster.follow_bytes.held()));
    let schemas = own_metric(
        "khz.hub.schema_bytes",
        "khz_hub_schema_bytes",
        "Memory that the schemas of all nodes take. A schema that several nodes share counts once.",
        Kind::Gauge,
        Unit::Bytes,
        None,
    );
    put(&Arc::new(schemas), None, Reading::Present(cluster.schemas.held()));
    let nodes = own_metric(
        "khz.hub.node_bytes",
        "khz_hub_node_bytes",
        "Memory that nodes take beside schemas and history: blocks that have not ended, the newest rows.",
        Kind::Gauge,
        Unit::Bytes,
        None,
    );
    put(&Arc::new(nodes), None, Reading::Present(cluster.node_bytes.held()));
    for (metric, value) in process() {
        put(&metric, None, value.map_or(Reading::Failed(Fault::Unreadable), Reading::Present));
    }
    let columns = node_columns();
    for (metric, value) in &columns {
        for node in cluster.nodes() {
            let reading = value(&node.lock()).map_or(Reading::Absent(Absence::NotYet), Reading::Present);
            put(metric, Some(Instance::from_kernel(node.name.as_str().as_bytes())), reading);
        }
    }
    samples
}

/// What the process takes, under the agent's own names.
fn process() -> [(Arc<Metric>, Option<u64>); 2] {
    let cpu = own_metric(
        "khz.process.cpu",
        "khz_process_cpu_seconds_total",
        "CPU time of the whole process.",
        Kind::Counter,
        Unit::Seconds,
        None,
    );
    let anon = own_metric(
        "khz.process.rss_anon",
        "khz_process_rss_anon_bytes",
        "Memory of the process that is its own.",
        Kind::Gauge,
        Unit::Bytes,
        None,
    );
    [(Arc::new(cpu), Some(clock::process_cpu())), (Arc::new(anon), rss_anon())]
}

/// `size resident shared ...` of /proc/self/statm, in pages.
fn rss_anon() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let mut words = text.split(' ').skip(1).map(str::parse::<u64>);
    let (resident, shared) = (words.next()?.ok()?, words.next()?.ok()?);
    Some(resident.saturating_sub(shared) * rustix::param::page_size() as u64)
}

fn history_bytes(node: &Node) -> u64 {
    node.lanes().history_bytes()
}

type Value = fn(&Node) -> Option<u64>;

/// One metric for each number that is known of every node.
fn node_columns() -> Vec<(Arc<Metric>, Value)> {
    let metric = |name, exposition, help, kind, unit| {
        Arc::new(own_metric(name, exposition, help, kind, unit, Some("node")))
    };
    use Kind::{Counter, Gauge};
    use Unit::{Count, Seconds};
    vec![
        (
            metric("khz.node.up", "khz_node_up", "1 when the node is connected and heard.", Gauge, Count),
            |node| Some(u64::from(node.link().is_up())),
        ),
        (
            metric(
                "khz.node.heard",
                "khz_node_heard_age_seconds",
                "Time since the node was last heard.",
                Gauge,
                Seconds,
            ),
            |node| node.status(clock::boot()).heard.map(|age| age.0),
        ),
        (
            metric(
                "khz.node.connects",
                "khz_node_connects_total",
                "Times that the node connected.",
                Counter,
                Count,
            ),
            |node| Some(node.link().connects()),
        ),
        (
            metric("khz.node.rows", "khz_node_rows_total", "Rows received from the node.", Counter, Count),
            |node| Some(node.lanes().counted().rows),
        ),
        (
            metric(
                "khz.node.rows_awaited",
                "khz_node_rows_awaited",
                "Rows of the node that are missing and may still come.",
                Gauge,
                Count,
            ),
            |node| Some(node.lanes().awaited()),
        ),
        (
            metric(
                "khz.node.rows_lost",
                "khz_node_rows_lost_total",
                "Rows that the node lost before they were sent.",
                Counter,
                Count,
            ),
            |node| Some(node.lanes().counted().lost),
        ),
        (
            metric(
                "khz.node.rows_late",
                "khz_node_rows_late_total",
                "Rows of the node that filled a gap.",
                Counter,
                Count,
            ),
            |node| Some(node.lanes().counted().late),
        ),
        (
            metric(
                "khz.node.round_trip",
                "khz_node_round_trip_seconds",
                "Round trip between node and hub.",
                Gauge,
                Seconds,
            ),
            |node| node.link().beats().round_trip.map(|time| time.0),
        ),
        (
            metric(
                "khz.node.clock_ahead",
                "khz_node_clock_ahead_seconds",
                "How far the node's wall clock is ahead of the hub's; absent when it is behind.",
                Gauge,
                Seconds,
            ),
            |node| node.link().beats().clock_offset.and_then(|offset| u64::try_from(offset).ok()),
        ),
        (
            metric(
                "khz.node.clock_behind",
                "khz_node_clock_behind_seconds",
                "How far the node's wall clock is behind the hub's; absent when it is ahead.",
                Gauge,
                Seconds,
            ),
            |node| node.link().beats().clock_offset.filter(|&offset| offset < 0).map(i64::unsigned_abs),
        ),
        (
            metric(
                "khz.node.retransmitted",
                "khz_node_retransmitted_segments_total",
                "TCP segments that the node had to send again.",
                Counter,
                Count,
            ),
            |node| node.link().beats().retransmitted,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use khz_model::{ByteSize, Nanos, NodeName, Rate};

    use super::*;
    use crate::cluster::Settings;
    use crate::lane::tests::gets_rows;
    use crate::mailbox::Mailbox;
    use crate::node::{Arrival, BASE, Link};

    fn cluster() -> Arc<Cluster> {
        let rate_max = Rate::from_hz(1_000).expect("a rate");
        Cluster::new(Settings { name: "hub".into(), history: ByteSize(1 << 20), rate_max }, [7; 16])
    }

    /// A beat of a node to whose clock ours has this offset.
    fn beat(offset: i64) -> khz_link::Beat {
        khz_link::Beat { stamp: 0, round_trip: Some(Nanos(70)), offset, retransmits: 9 }
    }

    /// Every number by its series.
    fn numbers(cluster: &Cluster) -> BTreeMap<String, Option<u64>> {
        let samples = samples(cluster, &[]);
        samples.into_iter().map(|sample| (sample.series.to_string(), sample.reading.value())).collect()
    }

    #[test]
    fn every_number_of_a_node_is_what_is_known_of_it_and_what_is_not_known_is_absent() {
        let cluster = cluster();
        let name = |text: &str| NodeName::new(text).expect("a good name");
        cluster.expect(&[name("expected")]);
        let node = cluster.node_or_new(&name("a"), clock::boot()).expect("room for a node");
        let hour = 3_600 * Nanos::SECOND.0;
        {
            let mut state = node.lock();
            let link = Link::new(Arc::new(Mailbox::new().expect("an eventfd")), 1);
            let heard = Nanos(clock::boot().0.saturating_sub(10 * Nanos::SECOND.0));
            state.connect(&Arrival::default(), link, heard);
            let id = state.lanes_mut().offered(1, BASE, 7, Nanos::SECOND).expect("room for a lane");
            let lane = state.lanes_mut().get_mut(id).expect("the lane");
            gets_rows(lane, 0, 5);
            gets_rows(lane, 20, 2);
            lane.lose(5, 9);
            lane.late_rows = 3;
            state.link_mut().beat(&beat(6), heard);
        }
        node.set_up(true);
        let known = numbers(&cluster);
        let of = |name: &str| known[&format!("khz.node.{name}[a]")];
        let names = [
            "up",
            "connects",
            "rows",
            "rows_awaited",
            "rows_lost",
            "rows_late",
            "round_trip",
            "clock_behind",
            "clock_ahead",
            "retransmitted",
        ];
        let values =
            [Some(1), Some(1), Some(7), Some(11), Some(4), Some(3), Some(70), Some(6), None, Some(9)];
        assert_eq!(names.map(of), values);
        assert!(of("heard").is_some_and(|age| age < hour), "{:?}", of("heard"));
        let of = |name: &str| known[&format!("khz.node.{name}[expected]")];
        assert_eq!(
            ["up", "connects", "rows", "heard", "round_trip", "retransmitted"].map(of),
            [Some(0), Some(0), Some(0), None, None, None]
        );
        let hub = ["nodes", "nodes_up", "nodes_missing", "follow_bytes"]
            .map(|name| known[&format!("khz.hub.{name}")]);
        assert_eq!(hub, [Some(2), Some(1), Some(1), Some(0)]);
        let past = node.lock().lanes().history_bytes();
        assert!(past > 0 && known["khz.hub.history_bytes"] == Some(past));
        node.lock().link_mut().beat(&beat(-8), clock::boot());
        let known = numbers(&cluster);
        assert_eq!((known["khz.node.clock_behind[a]"], known["khz.node.clock_ahead[a]"]), (None, Some(8)));
    }

    #[test]
    fn what_the_process_takes_is_what_the_kernel_says() {
        let status = std::fs::read_to_string("/proc/self/status").expect("procfs");
        let line =
            status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("a kernel of these days");
        let kernel = line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1_024;
        // Other tests take memory too, but not many times as much.
        let ours = rss_anon().expect("procfs");
        assert!((kernel / 8..kernel * 8 + (64 << 20)).contains(&ours), "{ours} and {kernel}");
        let known = numbers(&cluster());
        assert!(
            known["khz.process.cpu"].is_some_and(|time| time > 0) && known["khz.process.rss_anon"].is_some()
        );
    }
}
