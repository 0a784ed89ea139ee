//! Tests of following another hub, whose nodes are shown here.

use khz_block::SchemaEncoder;
use khz_link::{LaneKey, LaneSink};
use khz_model::{ByteSize, Instance, Reading, Series, Stamp, metric};

use super::*;
use crate::clock::played;
use crate::cluster::Settings;
use crate::counts::own_metric;

/// The hub below, with one node.
struct Below {
    follower: Follower<NodesBelow>,
    key: LaneKey,
    encoder: Encoder,
}

impl Below {
    fn new() -> Self {
        let rate_max = Rate::from_hz(1_000).expect("a rate");
        let settings = Settings { name: "hub".into(), history: ByteSize(1 << 20), rate_max };
        let follower = follower(Cluster::new(settings, [1; 16]), 0).expect("a bell");
        let key = LaneKey { node: "a".into(), name: "interest1".into(), epoch: 9 };
        let mut below = Below { follower, key, encoder: Encoder::new(0, 1, Nanos::SECOND) };
        let offer = LaneOffer {
            lane: 1,
            node: "a",
            name: "interest1",
            epoch: 9,
            generation: 1,
            period: Nanos::SECOND,
            interest: EVERYTHING,
            oldest_row: 0,
            next_row: 0,
            schema_bytes: 0,
            schema_hash: [0; 16],
        };
        below.follower.offered(&below.key, &offer).expect("it is wanted");
        below
    }

    fn cluster(&self) -> &Cluster {
        &self.follower.reader().cluster
    }

    fn node(&self) -> Arc<SharedNode> {
        self.cluster().node(&NodeName::new("a").expect("a name")).expect("it was offered")
    }

    fn schema(&mut self, generation: u32, names: &[&str]) {
        let metric = own_metric("a.b", "a_b", "A.", metric::Kind::Gauge, metric::Unit::Count, Some("x"));
        let (metric, mut encoder, mut bytes) = (Arc::new(metric), SchemaEncoder::new(), Vec::new());
        for name in names {
            let instance = Some(Instance::from_kernel(name.as_bytes()));
            encoder.append(&Series { metric: metric.clone(), instance }, &mut bytes).expect("room");
        }
        self.follower.schema(&self.key, generation, 0, &bytes);
    }

    /// A row of this second, with the second as its one value.
    fn row(&mut self, second: u64) {
        let (mut bytes, mut row) = (Vec::new(), Decoder::new());
        let stamp = Stamp { boot: Nanos::from_secs(second), real_offset: 0 };
        let number = self.encoder.rows();
        self.encoder.key_row(stamp, 1, |_| (0, second), &mut bytes);
        self.encoder.close();
        row.catch_up(&bytes).expect("a row");
        self.follower.row(&self.key, number, &row);
    }

    /// Nothing comes for ten seconds.
    fn silence(&mut self) {
        played::NOW.set(Some(Nanos(clock::boot().0 + Nanos::from_secs(10).0)));
        self.follower.rest();
    }

    /// The number of rows, and the newest with its name.
    fn there(&self) -> (u64, Option<(String, Reading)>) {
        let shared = self.node();
        let mut node = shared.lock();
        let Some(lane) = node.lanes_mut().numbered(LANE) else { return (0, None) };
        let rows = lane.rows();
        lane.latest();
        let newest = lane.decoded().and_then(|(schema, row)| {
            Some((schema.series().first()?.instance.as_ref()?.to_string(), row.reading(0)?))
        });
        (rows, newest)
    }
}

#[test]
fn a_node_that_spoke_for_itself_when_its_schema_came_is_shown_when_it_does_no_more() {
    let mut below = Below::new();
    below.schema(1, &["x"]);
    below.row(1);
    let link = Link::new(below.follower.reader().mailbox.clone(), 5);
    let connect = |node: &mut crate::node::Node| {
        node.connect(&Arrival { version: "itself", ..Arrival::default() }, link, Nanos(0));
        node.lanes_mut().offered(LANE, BASE, 77, Nanos::SECOND);
    };
    connect(&mut below.node().lock());
    below.schema(2, &["y"]);
    below.row(2);
    assert_eq!(below.there(), (1, None), "it speaks for itself, and the one row was of the epoch before");
    below.node().lock().disconnect(5, None, Nanos(0));
    below.row(3);
    below.row(4);
    assert_eq!(below.there(), (3, Some(("y".into(), Reading::Present(4)))));
}

#[test]
fn a_node_of_another_hub_refuses_what_only_its_own_hub_can_ask_of_it() {
    let mut below = Below::new();
    below.schema(1, &["x"]);
    below.row(1);
    let name = khz_model::ChannelName::new("hot").expect("a name");
    let channel = Arc::new(khz_model::ChannelTerms { name, handler: [1].as_slice().into() });
    for (channel, part) in [(None, "at its base rate"), (Some(channel), "passes no channels on")] {
        let patterns = vec![Pattern::everything()];
        let terms =
            crate::node::Terms { patterns, rate: Rate::from_hz(10), exact: false, prompt: false, channel };
        let number = below.node().lock().subscribe(&Arc::new(terms)).expect("room");
        below.follower.rest();
        let node = below.node();
        let node = node.lock();
        let answer = node.subscriptions().get(number).and_then(|known| known.answer()).expect("an answer");
        assert!(!answer.granted && answer.text.contains(part), "{}", answer.text);
    }
}

#[test]
fn rows_of_as_many_slots_that_mean_something_else_begin_a_block() {
    let mut below = Below::new();
    below.schema(1, &["x"]);
    below.row(1);
    below.schema(2, &["y"]);
    below.row(2);
    assert_eq!(below.there(), (2, Some(("y".into(), Reading::Present(2)))));
}

#[test]
fn a_node_that_was_forgotten_while_it_was_silent_is_there_again_with_its_next_row() {
    let mut below = Below::new();
    below.schema(1, &["x"]);
    below.row(1);
    below.silence();
    let all = khz_model::Pattern::new("a:*").expect("a pattern");
    assert_eq!(below.cluster().forget(&all).nodes.len(), 1);
    below.row(2);
    assert_eq!(below.there(), (1, Some(("x".into(), Reading::Present(2)))));
}
