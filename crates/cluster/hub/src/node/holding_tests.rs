//! What a node holds, and what it gives back when it has gone.

use std::sync::atomic::Ordering;

use khz_block::{Encoder, SchemaEncoder};
use khz_link::SchemaPiece;
use khz_model::{ByteSize, Instance, Metric, Series, Stamp};

use super::*;
use crate::cluster::Settings;
use crate::limits::BYTES_A_SLOT;
use crate::mailbox::Mailbox;

fn cluster(history: u64) -> Arc<Cluster> {
    let rate_max = Rate::from_hz(1_000).unwrap();
    Cluster::new(Settings { name: "hub".into(), history: ByteSize(history), rate_max }, [7; 16])
}

fn metric(name: &str) -> Arc<Metric> {
    let all = khz_parse::files().iter().flat_map(|file| file.metrics());
    let known = all.into_iter().next().expect("a metric of the catalogue");
    Arc::new(Metric { name: name.to_owned().into(), ..Metric::clone(&known) })
}

/// The bytes of a schema of this many slots.
fn schema(metric: &Arc<Metric>, word: &str, slots: u32) -> Vec<u8> {
    let (mut bytes, mut encoder) = (Vec::new(), SchemaEncoder::new());
    for slot in 0..slots {
        let instance = Some(Instance::from_kernel(format!("{word}{slot}").as_bytes()));
        encoder.append(&Series { metric: metric.clone(), instance }, &mut bytes).unwrap();
    }
    bytes
}

/// A node that is connected since `at`.
fn join(cluster: &Arc<Cluster>, name: &str, at: Nanos) -> Arc<SharedNode> {
    let node = cluster.node_or_new(&NodeName::new(name).unwrap(), at).unwrap();
    let link = Link::new(Arc::new(Mailbox::new().unwrap()), 1);
    node.lock().connect(&Arrival::default(), link, at);
    node
}

/// It has a lane of this schema, and a row of it.
fn lane(cluster: &Cluster, node: &SharedNode, number: u32, name: &str, schema: &[u8], slots: usize) {
    let mut node = node.lock();
    node.lanes_mut().offered(number, name, 1, Nanos::SECOND).unwrap();
    let lane = node.lanes_mut().numbered(number).unwrap();
    lane.alive = true;
    let piece = SchemaPiece { lane: number, generation: 1, offset: 0, bytes: schema };
    if let Some(schema) = lane.grow_schema(&piece, &cluster.schemas).unwrap() {
        cluster.note_metrics(&schema, 0);
    }
    let mut bytes = Vec::new();
    let stamp = Stamp { boot: Nanos::from_secs(1), real_offset: 1_700_000_000_000_000_000 };
    Encoder::new(0, 1, Nanos::SECOND).key_row(stamp, slots, |_| (0, 7), &mut bytes);
    lane.begin(&bytes, cluster.keeps_history()).unwrap();
    node.count(cluster).unwrap();
}

fn leave(node: &SharedNode, at: Nanos) {
    assert!(node.lock().disconnect(1, None, at));
}

fn seconds(n: u64) -> Nanos {
    Nanos::from_secs(1_000 + n)
}

#[test]
fn a_node_that_is_down_gives_back_what_is_not_needed_and_stays_known() {
    let cluster = cluster(0);
    let nothing = (cluster.schemas.held(), cluster.metrics().len());
    let node = join(&cluster, "a", seconds(0));
    let made_up = metric("made.up");
    for number in 1..=16 {
        let name = if number == 1 { "base".into() } else { format!("lane{number}") };
        lane(&cluster, &node, number, &name, &schema(&made_up, &format!("{number}."), 1_000), 1_000);
    }
    let held = cluster.node_bytes.held() + cluster.schemas.held();
    assert!(held > 16 * 1_000 * (BYTES_A_SLOT as u64 + 32), "{held}");
    leave(&node, seconds(10));
    let due = cluster.keep_house(seconds(11)).unwrap();
    assert_eq!(due, Nanos(seconds(10).0 + GONE_KEPT.0));
    assert_eq!(cluster.node_bytes.held() + cluster.schemas.held(), held, "it may be back in a moment");
    assert_eq!(cluster.keep_house(due), None, "there is nothing left to give back");
    assert_eq!(
        (cluster.schemas.held(), cluster.metrics().len()),
        nothing,
        "nobody knows its metric any more"
    );
    let left = cluster.node_bytes.held();
    assert!(left < 16_384, "{left} bytes of its place in the list");
    let status = node.lock().status(due);
    assert_eq!((status.connects, status.up, node.lock().lanes().counted().rows), (1, false, 16));
    // It comes back, and says what it has once more.
    join(&cluster, "a", seconds(100));
    lane(&cluster, &node, 1, "base", &schema(&made_up, "1.", 1_000), 1_000);
    assert_eq!(node.lock().lanes().counted().rows, 16, "the row is known");
}

#[test]
fn history_of_a_node_that_has_gone_stays_until_others_need_the_room() {
    let cluster = cluster(1 << 20);
    let node = join(&cluster, "a", seconds(0));
    let known = metric("made.up");
    lane(&cluster, &node, 1, "base", &schema(&known, "x", 100), 100);
    lane(&cluster, &node, 2, "fast", &schema(&known, "y", 100), 100);
    let held = cluster.schemas.held();
    leave(&node, seconds(10));
    assert_eq!(cluster.keep_house(seconds(100)), None);
    let left = cluster.schemas.held();
    assert!(0 < left && left < held, "{left} of {held}");
    assert!(node.lock().schema().is_some() && node.lock().lanes().present().len() == 1);
    cluster.is_short_of_memory.store(true, Ordering::Relaxed);
    cluster.keep_house(seconds(101));
    assert_eq!(cluster.schemas.held(), 0);
    assert_eq!(cluster.nodes().len(), 1, "it is known");
}

#[test]
fn what_a_reader_follows_of_a_node_that_is_down_stays_until_the_reader_goes() {
    let cluster = cluster(0);
    let node = join(&cluster, "a", seconds(0));
    lane(&cluster, &node, 1, "base", &schema(&metric("made.up"), "x", 100), 100);
    node.lock().lanes_mut().present_mut()[0].readers = 1;
    leave(&node, seconds(10));
    let again = cluster.keep_house(seconds(100));
    assert_eq!(again, Some(Nanos(seconds(100).0 + GONE_KEPT.0)));
    assert!(cluster.schemas.held() > 0);
    node.lock().lanes_mut().present_mut()[0].readers = 0;
    assert_eq!(cluster.keep_house(seconds(200)), None);
    assert_eq!(cluster.schemas.held(), 0);
}

#[test]
fn a_schema_that_many_nodes_have_counts_once_for_all_and_once_for_each() {
    let cluster = cluster(0);
    let bytes = schema(&metric("made.up"), "x", 5_000);
    let first = join(&cluster, "n0", seconds(0));
    lane(&cluster, &first, 1, "base", &bytes, 5_000);
    let once = cluster.schemas.held();
    for number in 1..20 {
        let node = join(&cluster, &format!("n{number}"), seconds(0));
        lane(&cluster, &node, 1, "base", &bytes, 5_000);
        lane(&cluster, &node, 2, "fast", &bytes, 5_000);
        assert_eq!(node.lock().held().1, first.lock().held().1, "two lanes of it are one schema");
    }
    assert_eq!(cluster.schemas.held(), once);
}
