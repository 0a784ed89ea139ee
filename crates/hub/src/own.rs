//! The hub's own numbers and those of each node as the hub sees it, for its exposition.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use khz_model::{Absence, Fault, Instance, Kind, Metric, Reading, Sample, Series, Stamp, Unit};

use crate::clock;
use crate::cluster::Cluster;
use crate::counts::own_metric;
use crate::node::Node;

/// All of them at this moment.
pub(crate) fn samples(cluster: &Cluster, tallies: &[(Arc<Metric>, Arc<AtomicU64>)]) -> Vec<Sample> {
    let boot = clock::boot();
    let stamp = Stamp { boot, real_offset: clock::wall() - boot.0 as i64 };
    let mut samples = Vec::new();
    let mut put = |metric: &Arc<Metric>, instance: Option<Instance>, reading: Reading| {
        samples.push(Sample { series: Series { metric: metric.clone(), instance }, reading, stamp });
    };
    for (metric, value) in cluster.counts.all() {
        put(&metric, None, Reading::Present(value));
    }
    for (metric, count) in tallies {
        put(metric, None, Reading::Present(count.load(Ordering::Relaxed)));
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
        "Memory that the schemas of all nodes take, those that several have once.",
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
    node.lanes.iter().chain(&node.former).map(|lane| lane.recent_bytes).sum()
}

type Value = fn(&Node) -> Option<u64>;

/// One metric for each thing that is known of every node.
fn node_columns() -> Vec<(Arc<Metric>, Value)> {
    let metric = |name, exposition, help, kind, unit| {
        Arc::new(own_metric(name, exposition, help, kind, unit, Some("node")))
    };
    use Kind::{Counter, Gauge};
    use Unit::{Count, Seconds};
    vec![
        (
            metric("khz.node.up", "khz_node_up", "1 when the node is connected and heard.", Gauge, Count),
            |node| Some(u64::from(node.link.is_some())),
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
            |node| Some(node.connects),
        ),
        (
            metric("khz.node.rows", "khz_node_rows_total", "Rows received from the node.", Counter, Count),
            |node| Some(node.counted().rows),
        ),
        (
            metric(
                "khz.node.rows_awaited",
                "khz_node_rows_awaited",
                "Rows of the node that are missing and may still come.",
                Gauge,
                Count,
            ),
            |node| Some(node.lanes.iter().fold(0, |sum, lane| lane.awaited().saturating_add(sum))),
        ),
        (
            metric(
                "khz.node.rows_lost",
                "khz_node_rows_lost_total",
                "Rows that the node lost before they were sent.",
                Counter,
                Count,
            ),
            |node| Some(node.counted().lost),
        ),
        (
            metric(
                "khz.node.rows_late",
                "khz_node_rows_late_total",
                "Rows of the node that filled a gap.",
                Counter,
                Count,
            ),
            |node| Some(node.counted().late),
        ),
        (
            metric(
                "khz.node.round_trip",
                "khz_node_round_trip_seconds",
                "Round trip between node and hub.",
                Gauge,
                Seconds,
            ),
            |node| node.round_trip.map(|time| time.0),
        ),
        (
            metric(
                "khz.node.clock_ahead",
                "khz_node_clock_ahead_seconds",
                "How far the node's wall clock is ahead of the hub's; absent when it is behind.",
                Gauge,
                Seconds,
            ),
            |node| node.clock_offset.and_then(|offset| u64::try_from(offset).ok()),
        ),
        (
            metric(
                "khz.node.clock_behind",
                "khz_node_clock_behind_seconds",
                "How far the node's wall clock is behind the hub's; absent when it is ahead.",
                Gauge,
                Seconds,
            ),
            |node| node.clock_offset.filter(|&offset| offset < 0).map(i64::unsigned_abs),
        ),
        (
            metric(
                "khz.node.retransmitted",
                "khz_node_retransmitted_segments_total",
                "TCP segments that the node had to send again.",
                Counter,
                Count,
            ),
            |node| node.retransmitted,
        ),
    ]
}
