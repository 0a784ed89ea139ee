//! Nodes whose lanes gain series: what a node says of a schema that the hub has from elsewhere, in part or twice, and
//! what does not fit what it has offered.

#![allow(clippy::unwrap_used)]

#[allow(dead_code, reason = "other tests need more of it")]
mod fake;

use fake::{Hub, Node, series};
use khz_block::{Encoder, SchemaEncoder};
use khz_link::{Frame, LaneOffer, Reason, Told, Want, put};
use khz_model::{Instance, Nanos, NodeStatus, Pattern, Query, Reading, Sample, Series};
use ring::digest::{SHA256, digest};

const PERIOD: Nanos = Nanos::SECOND;

/// A schema of one metric, with these instances, as bytes.
fn schema(names: &[&str]) -> Vec<u8> {
    let (mut encoder, mut bytes) = (SchemaEncoder::new(), Vec::new());
    let metric = series().remove(1).metric;
    for name in names {
        let instance = Some(Instance::from_kernel(name.as_bytes()));
        encoder.append(&Series { metric: metric.clone(), instance }, &mut bytes).unwrap();
    }
    bytes
}

fn hash(schema: &[u8]) -> [u8; 16] {
    let mut hash = [0; 16];
    hash.copy_from_slice(&digest(&SHA256, schema).as_ref()[..16]);
    hash
}

/// A node that offers and says schemas as a test wants it.
struct Growing {
    node: Node,
    name: &'static str,
    epoch: u64,
    generation: u32,
    interest: u32,
}

impl Growing {
    fn new(hub: &Hub, name: &str) -> Self {
        let mut node = Node::connect(hub.address(), name);
        node.hello(None);
        Growing { node, name: "base", epoch: 1, generation: 1, interest: 0 }
    }

    fn put_offer(&mut self, bytes: u64, hash: [u8; 16]) {
        LaneOffer {
            lane: self.node.lane,
            node: "",
            name: self.name,
            epoch: self.epoch,
            generation: self.generation,
            period: PERIOD,
            interest: self.interest,
            oldest_row: 0,
            next_row: self.node.encoder.rows(),
            schema_bytes: bytes,
            schema_hash: hash,
            stands_in: false,
        }
        .put(&mut self.node.out);
    }

    /// Offers the lane; tells how much of its schema the hub has.
    fn offer(&mut self, schema: &[u8]) -> u64 {
        self.put_offer(schema.len() as u64, hash(schema));
        self.wanted().schema_bytes
    }

    fn wanted(&mut self) -> Want {
        self.node.send();
        self.node.await_frame(|frame| match frame {
            Frame::Want(want) => Some(want.to_want()),
            _ => None,
        })
    }

    /// Says the schema from there on.
    fn say(&mut self, schema: &[u8], from: u64) {
        let frame = put::open_schema(&mut self.node.out, self.node.lane, self.generation, from);
        self.node.out.extend_from_slice(&schema[from as usize..]);
        frame.close(&mut self.node.out);
    }

    /// A block with one row: each slot has its number times `factor`.
    fn block(&mut self, second: u64, slots: usize, factor: u64) {
        self.put_block(second, slots, factor);
        self.node.beat();
    }

    fn put_block(&mut self, second: u64, slots: usize, factor: u64) {
        let stamp = khz_model::Stamp { boot: Nanos::from_secs(second), real_offset: 0 };
        let mut bytes = Vec::new();
        let rows = self.node.encoder.rows();
        self.node.encoder.resume(rows, self.generation);
        self.node.encoder.key_row(stamp, slots, |slot| (0, slot as u64 * factor), &mut bytes);
        let frame = put::open_lane(&mut self.node.out, khz_link::frame::kind::BLOCK, self.node.lane);
        self.node.out.extend_from_slice(&bytes);
        frame.close(&mut self.node.out);
        self.node.end();
    }

    /// The connection breaks, and the next one goes on in the lane.
    fn reconnect(self, hub: &Hub, name: &str) -> Self {
        let encoder = self.node.encoder;
        let mut node = Node::connect(hub.address(), name);
        node.hello(None);
        node.encoder = encoder;
        Growing { node, ..self }
    }
}

fn status(hub: &Hub, name: &str) -> NodeStatus {
    hub.query.status().into_iter().find(|status| status.node.as_str() == name).unwrap()
}

/// The latest values of a node, as `instance=value`.
fn latest(hub: &Hub, name: &str) -> String {
    let patterns = [Pattern::new(&format!("{name}:load.*")).unwrap()];
    let mut future = hub.query.latest(&patterns, Nanos(0));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let std::task::Poll::Ready(answer) = future.as_mut().poll(&mut context) else { panic!("it waits") };
    let value = |sample: &Sample| {
        let instance = sample.series.instance.as_ref().unwrap().to_string();
        match sample.reading {
            Reading::Present(value) => format!("{instance}={value}"),
            _ => format!("{instance}=?"),
        }
    };
    answer.unwrap().nodes[0].1.iter().map(value).collect::<Vec<_>>().join(" ")
}

#[test]
fn alike_nodes_that_gain_the_same_series_stay_connected() {
    let hub = Hub::new();
    let (before, after) = (schema(&["x"]), schema(&["x", "y", "z"]));
    let mut nodes = ["a", "b", "c"].map(|name| Growing::new(&hub, name));
    for node in &mut nodes {
        let here = node.offer(&before);
        node.say(&before, here);
        node.block(1, 1, 10);
    }
    for node in &mut nodes {
        node.offer(&after);
        // It does not know that the hub has it from the first one.
        node.say(&after, before.len() as u64);
        node.block(2, 3, 10);
    }
    for name in ["a", "b", "c"] {
        assert_eq!((status(&hub, name).connects, status(&hub, name).problem), (1, None));
        assert_eq!(latest(&hub, name), "x=0 y=10 z=20");
        let base = &status(&hub, name).lanes[0];
        assert_eq!((base.rows, base.lost, base.late, base.awaited), (2, 0, 0, 0));
    }
}

#[test]
fn a_piece_that_the_hub_has_in_part_or_again_adds_only_what_is_new() {
    let hub = Hub::new();
    let (first, second, third) = (schema(&["x"]), schema(&["x", "y"]), schema(&["x", "y", "z"]));
    let mut known = Growing::new(&hub, "known");
    known.offer(&second);
    known.say(&second, 0);
    known.block(1, 2, 1);
    let mut a = Growing::new(&hub, "a");
    a.offer(&first);
    a.say(&first, 0);
    a.block(1, 1, 1);
    assert_eq!(a.offer(&second), second.len() as u64, "another node has it");
    // Two slots came since it was said, and one after it was offered.
    a.say(&third, first.len() as u64);
    a.block(2, 3, 1);
    assert_eq!(latest(&hub, "a"), "x=0 y=1 z=2");
    for from in [0, first.len() as u64, third.len() as u64] {
        a.say(&third, from);
        a.block(3, 3, 2);
    }
    assert_eq!(latest(&hub, "a"), "x=0 y=2 z=4");
    // What another sender of the lane had said before the reader left and came back, cut anywhere.
    for at in 1..third.len() {
        a.say(&third[..at], at as u64 / 2);
    }
    a.block(4, 3, 3);
    assert_eq!((latest(&hub, "a").as_str(), status(&hub, "a").connects), ("x=0 y=3 z=6", 1));
}

#[test]
fn a_piece_that_leaves_a_hole_is_refused() {
    let hub = Hub::new();
    let (first, second) = (schema(&["x"]), schema(&["x", "y"]));
    let mut a = Growing::new(&hub, "a");
    a.offer(&second);
    a.say(&second, first.len() as u64);
    a.node.send();
    assert_eq!(
        a.node.refusal(),
        (Reason::Protocol, "a piece of a schema that does not continue it".to_owned())
    );
}

#[test]
fn bytes_that_are_not_what_was_offered_are_refused_and_said_from_the_start_next_time() {
    let hub = Hub::new();
    let (first, right, wrong) = (schema(&["x"]), schema(&["x", "y"]), schema(&["x", "w"]));
    let mut a = Growing::new(&hub, "a");
    a.offer(&first);
    a.say(&first, 0);
    a.block(1, 1, 1);
    a.offer(&right);
    a.say(&wrong, first.len() as u64);
    a.node.send();
    let refusal = a.node.refusal();
    assert_eq!(refusal, (Reason::Protocol, "a schema that is not the one that was offered".to_owned()));
    // Also where slots came after the offer.
    let mut a = a.reconnect(&hub, "a");
    assert_eq!(a.offer(&right), 0, "nothing of it is believed");
    a.say(&schema(&["x", "w", "z"]), 0);
    a.node.send();
    assert_eq!(a.node.refusal(), refusal);
    let mut a = a.reconnect(&hub, "a");
    assert_eq!(a.offer(&right), 0);
    a.say(&right, 0);
    a.block(2, 2, 5);
    assert_eq!(latest(&hub, "a"), "x=0 y=5");
}

#[test]
fn rows_that_came_keep_their_meaning_whatever_is_offered_then() {
    let hub = Hub::new();
    let (mine, other) = (schema(&["x", "y"]), schema(&["u", "v", "w"]));
    let mut b = Growing::new(&hub, "b");
    b.offer(&other);
    b.say(&other, 0);
    b.block(1, 3, 1);
    let mut a = Growing::new(&hub, "a");
    a.offer(&mine);
    a.say(&mine, 0);
    a.block(1, 2, 7);
    // The same generation, and a schema that the hub has, but none that continues its own.
    assert_eq!(a.offer(&other), other.len() as u64);
    a.node.beat();
    assert_eq!(latest(&hub, "a"), "x=0 y=7");
    let history = hub.query.history(&[Pattern::new("a:load.*").unwrap()], Nanos::from_secs(60), 100).unwrap();
    let names: Vec<String> =
        history[0].columns.iter().map(|s| s.instance.as_ref().unwrap().to_string()).collect();
    assert_eq!(names, ["x", "y"]);
    a.block(2, 3, 9);
    assert_eq!(latest(&hub, "a"), "u=0 v=9 w=18");
    // A schema that is shorter than the one before is another schema, too.
    a.put_offer(8, [9; 16]);
    assert_eq!(a.wanted().schema_bytes, 0);
}

#[test]
fn until_rows_of_a_new_generation_come_the_last_row_has_its_own_names() {
    let hub = Hub::new();
    let (before, after) = (schema(&["x", "veth1", "y"]), schema(&["x", "y", "veth2"]));
    for name in ["a", "b"] {
        let mut node = Growing::new(&hub, name);
        node.offer(&before);
        node.say(&before, 0);
        node.block(1, 3, 5);
        // Started again: other devices, the same ring.
        let mut node = node.reconnect(&hub, name);
        node.generation = 2;
        let here = node.offer(&after);
        node.say(&after, here);
        node.node.beat();
        assert_eq!(latest(&hub, name), "x=0 veth1=5 y=10");
        node.block(2, 3, 6);
        assert_eq!(latest(&hub, name), "x=0 y=6 veth2=12");
    }
}

#[test]
fn a_lane_that_an_answer_names_is_wanted_with_the_length_of_the_schema_that_is_here() {
    let hub = Hub::new();
    let (base, before, after) = (schema(&["b"]), schema(&["x"]), schema(&["x", "veth2", "y"]));
    let mut a = Growing::new(&hub, "a");
    a.offer(&base);
    a.say(&base, 0);
    a.block(1, 1, 1);
    // The lane that serves it was offered before: it is wanted when the node answers.
    let _reader = hub.subscribe(&["a:load.*"], 10);
    for (generation, schema) in [(1, &before), (2, &after)] {
        (a.name, a.epoch, a.generation, a.node.lane) = ("local", 2, generation, 2);
        a.node.encoder = Encoder::new(2, generation, PERIOD);
        a.put_offer(schema.len() as u64, hash(schema));
        a.node.send();
        let number = a.node.await_frame(|frame| match frame {
            Frame::Interest(interest) => Some(interest.number),
            _ => None,
        });
        Told { interest: number, granted: true, period: PERIOD, text: "", lane: 2, refused_by: "" }
            .put(&mut a.node.out);
        assert_eq!(a.wanted().schema_bytes, 0, "nothing of generation {generation} is here");
        a.say(schema, 0);
        a.block(10 + u64::from(generation), if generation == 1 { 1 } else { 3 }, 1);
        a = a.reconnect(&hub, "a");
    }
}

#[test]
fn the_past_of_more_restarts_than_a_hub_remembers_schemas_of_is_taken() {
    let hub = Hub::new();
    let mut a = Growing::new(&hub, "a");
    let generations: Vec<u32> = (1..=20).collect();
    let name = |generation: u32| format!("veth{generation}");
    // One row of each, newest first, as an agent sends what a new hub has not.
    for &generation in generations.iter().rev() {
        let name = name(generation);
        let schema = schema(&["x", &name]);
        a.generation = generation;
        if generation == 20 {
            a.offer(&schema);
        }
        a.say(&schema, 0);
        a.node.encoder = Encoder::new(0, generation, PERIOD);
        a.node.encoder.resume(u64::from(generation), generation);
        let mut bytes = Vec::new();
        let stamp = khz_model::Stamp { boot: Nanos::from_secs(generation.into()), real_offset: 0 };
        a.node.encoder.key_row(stamp, 2, |_| (0, generation.into()), &mut bytes);
        if generation == 20 {
            let frame = put::open_lane(&mut a.node.out, khz_link::frame::kind::BLOCK, 1);
            a.node.out.extend_from_slice(&bytes);
            frame.close(&mut a.node.out);
        } else {
            let header = a.node.encoder.close().unwrap();
            bytes[..khz_block::HEADER_BYTES].copy_from_slice(&header.to_bytes());
            let frame = put::open_past(&mut a.node.out, 1, true);
            a.node.out.extend_from_slice(&bytes);
            frame.close(&mut a.node.out);
        }
        a.node.beat();
    }
    let base = &status(&hub, "a").lanes[0];
    assert_eq!((base.rows, base.awaited), (20, 0));
    // And the present lane still grows.
    a.generation = 20;
    let (before, after) = (schema(&["x", "veth20"]), schema(&["x", "veth20", "y"]));
    a.offer(&after);
    a.say(&after, before.len() as u64);
    a.node.encoder.resume(21, 20);
    a.block(21, 3, 4);
    assert_eq!(latest(&hub, "a"), "x=0 veth20=4 y=8");
}
