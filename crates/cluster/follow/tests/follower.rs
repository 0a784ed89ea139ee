//! A follower, fed as a link feeds it. Its reader writes down what it is called with.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use khz_block::{BlockError, Decoder, Encoder, SchemaEncoder};
use khz_follow::{Follower, Lane, Lanes, Reader, Row, Subscriptions};
use khz_link::texts::{NoText, TextGiven, Why};
use khz_link::{HubName, LaneKey, LaneOffer, LaneSink, Told};
use khz_model::{Metric, Nanos, NodeName, NodeStatus, Series, Stamp};

/// What the reader was called with, one line a call. A lane is its number, node and subscription.
#[derive(Default)]
struct Notes {
    lines: Vec<String>,
    /// It decodes schemas itself.
    decodes: bool,
    /// Metrics of all columns, by address.
    metrics: BTreeSet<usize>,
}

impl Notes {
    fn of(&mut self, lane: &Lane<Self>, text: &str) {
        let line = format!("{} {} {}: {text}", lane.number(), lane.node(), lane.subscription());
        self.lines.push(line);
    }
}

impl Reader for Notes {
    type Subscription = &'static str;
    type Lane = ();

    fn offered(&mut self, _: &NodeName, _: &LaneOffer<'_>, _: &&'static str) -> Option<()> {
        Some(())
    }
    fn changed(&mut self, lane: &mut Lane<Self>) {
        self.of(lane, &format!("every {}", lane.period()));
    }
    fn schema(&mut self, lane: &mut Lane<Self>, generation: u32, offset: u64, bytes: &[u8]) -> bool {
        if self.decodes {
            self.of(lane, &format!("schema {generation} {offset}+{}", bytes.len()));
        }
        self.decodes
    }
    fn damaged(&mut self, lane: &mut Lane<Self>, error: &BlockError) {
        self.of(lane, &format!("damaged: {error}"));
    }
    fn columns(&mut self, lane: &mut Lane<Self>, known: usize) {
        self.metrics.extend(lane.series().iter().map(|one| Arc::as_ptr(&one.metric) as usize));
        let series: Vec<String> = lane.series().iter().map(ToString::to_string).collect();
        self.of(lane, &format!("columns {known} {}", series.join(" ")));
    }
    fn row(&mut self, lane: &mut Lane<Self>, row: &Row<'_>) {
        let changed: Vec<String> =
            row.changed().map(|(slot, reading)| format!("{slot}={reading:?}")).collect();
        self.of(lane, &format!("row {} of {} {}", row.number(), row.all().count(), changed.join(" ")));
    }
    fn lost(&mut self, lane: &mut Lane<Self>, from: u64, to: u64) {
        self.of(lane, &format!("lost {from}..{to}"));
    }
    fn closed(&mut self, lane: Lane<Self>, ended: Option<&str>) {
        self.of(&lane, &format!("closed {ended:?}"));
    }
    fn notice(&mut self, subscription: &&'static str, granted: bool, text: &str) {
        self.lines.push(format!("notice {subscription} {granted} {text}"));
    }
    fn nodes(&mut self, nodes: Vec<NodeStatus>, is_last: bool) {
        self.lines.push(format!("nodes {} {is_last}", nodes.len()));
    }
    fn up(&mut self, hub: &HubName) {
        self.lines.push(format!("up {}", hub.name));
    }
    fn down(&mut self, problem: &str) {
        self.lines.push(format!("down {problem}"));
    }
}

/// A follower with two subscriptions: "all" has number 1 and "some" has number 2.
struct Link {
    follower: Follower<Notes>,
}

impl Link {
    fn new() -> Self {
        let subscriptions = Subscriptions::from_iter([(1, "all"), (2, "some")]);
        Link { follower: Follower::new(Notes::default(), subscriptions) }
    }

    /// The calls since the last time.
    fn calls(&mut self) -> Vec<String> {
        std::mem::take(&mut self.follower.reader_mut().lines)
    }

    fn offer(&mut self, lane: &Sent, schema_bytes: u64) -> bool {
        self.follower.offered(&lane.key, &lane.offer(schema_bytes)).is_some()
    }

    fn schema(&mut self, lane: &Sent, offset: u64, bytes: &[u8]) {
        self.follower.schema(&lane.key, 1, offset, bytes);
    }

    /// A key row with these values.
    fn row(&mut self, lane: &Sent, number: u64, values: &[u64]) {
        let (mut encoder, mut bytes, mut row) =
            (Encoder::new(0, 1, Nanos::SECOND), Vec::new(), Decoder::new());
        let stamp = Stamp { boot: Nanos(number), real_offset: 0 };
        encoder.key_row(stamp, values.len(), |slot| (0, values[slot]), &mut bytes);
        row.catch_up(&bytes).unwrap();
        self.follower.row(&lane.key, number, &row);
    }
}

/// A lane at the hub.
struct Sent {
    key: LaneKey,
    interest: u32,
}

impl Sent {
    fn new(node: &str, interest: u32, epoch: u64) -> Self {
        Sent { key: LaneKey { node: node.into(), name: format!("interest{interest}"), epoch }, interest }
    }

    fn offer(&self, schema_bytes: u64) -> LaneOffer<'_> {
        LaneOffer {
            lane: 1,
            node: &self.key.node,
            name: &self.key.name,
            epoch: self.key.epoch,
            generation: 1,
            period: Nanos::SECOND,
            interest: self.interest,
            oldest_row: 0,
            next_row: 0,
            schema_bytes,
            schema_hash: [0; 16],
            stands_in: false,
        }
    }
}

/// Series of the catalogue, and their schema.
fn series(names: &[&str]) -> Vec<u8> {
    let catalogue = khz_parse::catalogue();
    let metric = |name: &&str| -> Arc<Metric> {
        let found = catalogue.iter().find(|metric| metric.name == *name);
        found.unwrap_or_else(|| panic!("no metric {name}")).clone()
    };
    let (mut encoder, mut bytes) = (SchemaEncoder::new(), Vec::new());
    for metric in names.iter().map(metric) {
        encoder.append(&Series { metric, instance: None }, &mut bytes).unwrap();
    }
    bytes
}

const TWO: [&str; 2] = ["mem.free", "mem.total"];

#[test]
fn a_schema_that_comes_in_pieces_is_shown_as_columns_before_the_first_row() {
    let (mut link, lane, schema) = (Link::new(), Sent::new("n1", 1, 7), series(&TWO));
    assert!(link.offer(&lane, schema.len() as u64));
    for (n, piece) in schema.chunks(5).enumerate() {
        link.schema(&lane, 5 * n as u64, piece);
    }
    assert_eq!(link.calls(), [""; 0], "columns wait for a row: more pieces may follow");
    link.row(&lane, 40, &[1, 2]);
    link.row(&lane, 41, &[3, 4]);
    assert_eq!(
        link.calls(),
        [
            "1 n1 all: columns 0 mem.free mem.total",
            "1 n1 all: row 40 of 2 0=Present(1) 1=Present(2)",
            "1 n1 all: row 41 of 2 0=Present(3) 1=Present(4)",
        ]
    );
}

#[test]
fn a_schema_that_grows_keeps_its_first_columns_and_one_that_begins_again_keeps_none() {
    let (mut link, lane) = (Link::new(), Sent::new("n1", 1, 7));
    let (two, three) = (series(&TWO), series(&["mem.free", "mem.total", "mem.cached"]));
    assert_eq!(three[..two.len()], two);
    link.offer(&lane, two.len() as u64);
    link.schema(&lane, 0, &two);
    link.row(&lane, 1, &[1, 2]);
    link.schema(&lane, two.len() as u64, &three[two.len()..]);
    link.row(&lane, 2, &[1, 2, 3]);
    // As many series, and the same: their slots may have been chosen again.
    link.schema(&lane, 0, &three);
    link.row(&lane, 3, &[1, 2, 3]);
    let columns = link.calls().into_iter().filter(|line| line.contains("columns")).collect::<Vec<_>>();
    assert_eq!(
        columns,
        [
            "1 n1 all: columns 0 mem.free mem.total",
            "1 n1 all: columns 2 mem.free mem.total mem.cached",
            "1 n1 all: columns 0 mem.free mem.total mem.cached",
        ]
    );
}

#[test]
fn a_lane_without_series_shows_no_columns_at_the_offer_and_whenever_it_loses_its_series() {
    let (mut link, lane, schema) = (Link::new(), Sent::new("n1", 2, 7), series(&TWO));
    link.offer(&lane, 0);
    assert_eq!(link.calls(), ["1 n1 some: columns 0 "]);
    link.schema(&lane, 0, &schema);
    link.row(&lane, 1, &[1, 2]);
    link.calls();
    link.follower.changed(&lane.key, &lane.offer(0));
    assert_eq!(link.calls(), ["1 n1 some: every 1s", "1 n1 some: columns 0 "]);
}

#[test]
fn a_lane_is_closed_once_and_what_comes_after_goes_nowhere() {
    let (mut link, lane) = (Link::new(), Sent::new("n1", 1, 7));
    link.offer(&lane, 10);
    link.follower.lost(&lane.key, 3, 9);
    link.follower.closed(&lane.key);
    link.follower.closed(&lane.key);
    link.schema(&lane, 0, &series(&TWO));
    link.row(&lane, 1, &[1, 2]);
    link.follower.lost(&lane.key, 9, 10);
    link.follower.changed(&lane.key, &lane.offer(0));
    assert_eq!(link.calls(), ["1 n1 all: lost 3..9", "1 n1 all: closed None"]);
}

#[test]
fn a_lane_of_another_epoch_is_another_lane_with_its_own_schema() {
    let (mut link, schema) = (Link::new(), series(&TWO));
    let (before, after) = (Sent::new("n1", 1, 7), Sent::new("n1", 1, 8));
    link.offer(&before, schema.len() as u64);
    link.schema(&before, 0, &schema);
    link.row(&before, 1, &[1, 2]);
    link.calls();
    link.offer(&after, schema.len() as u64);
    link.follower.closed(&before.key);
    link.row(&after, 0, &[5, 6]);
    link.schema(&after, 0, &schema);
    link.row(&after, 1, &[7, 8]);
    assert_eq!(
        link.calls(),
        [
            "1 n1 all: closed None",
            "2 n1 all: row 0 of 2 0=Present(5) 1=Present(6)",
            "2 n1 all: columns 0 mem.free mem.total",
            "2 n1 all: row 1 of 2 0=Present(7) 1=Present(8)",
        ]
    );
}

#[test]
fn a_lane_that_is_offered_again_under_another_number_of_the_link_closes_the_first() {
    let (mut link, lane) = (Link::new(), Sent::new("n1", 1, 7));
    link.offer(&lane, 10);
    link.offer(&lane, 10);
    link.row(&lane, 1, &[1]);
    assert_eq!(link.calls(), ["1 n1 all: closed None", "2 n1 all: row 1 of 1 0=Present(1)"]);
}

#[test]
fn a_connection_that_ends_closes_its_lanes_first_and_is_reported_once_until_a_hub_accepts_again() {
    let (mut link, lane) = (Link::new(), Sent::new("n1", 1, 7));
    link.follower.down("refused");
    link.follower.down("refused again");
    let hub = HubName { name: "hub1".into(), ..HubName::default() };
    link.follower.up(&hub);
    link.offer(&lane, 10);
    link.follower.down("silent");
    link.follower.down("refused");
    link.row(&lane, 1, &[1]);
    link.follower.up(&hub);
    link.offer(&lane, 10);
    link.row(&lane, 2, &[1]);
    assert_eq!(
        link.calls(),
        [
            "down refused",
            "up hub1",
            "1 n1 all: closed Some(\"silent\")",
            "down silent",
            "up hub1",
            "2 n1 all: row 2 of 1 0=Present(1)",
        ]
    );
}

#[test]
fn answers_that_come_before_the_number_of_a_subscription_is_known_wait_for_it() {
    let subscriptions = Subscriptions::default();
    let follower = Arc::new(Mutex::new(Follower::new(Notes::default(), subscriptions.clone())));
    let mut threads = Vec::new();
    for (name, number) in [("first", 7), ("second", 8)] {
        let send = || {
            let ((answers, done), follower) = (channel(), follower.clone());
            threads.push(std::thread::spawn(move || {
                let text = "no such node yet";
                let told =
                    Told { interest: number, granted: true, period: Nanos(0), text, lane: 0, refused_by: "" };
                follower.lock().unwrap().answered(&told);
                let lane = Sent::new("n1", number, 7);
                let accepted = follower.lock().unwrap().offered(&lane.key, &lane.offer(0)).is_some();
                // The test may have ended with a failure.
                let _ = answers.send(());
                accepted
            }));
            // The answer is there, and must not be handled as if nobody had subscribed.
            let handled = done.recv_timeout(Duration::from_millis(50));
            assert_eq!(handled, Err(RecvTimeoutError::Timeout));
            Ok::<_, Infallible>(number)
        };
        assert_eq!(subscriptions.add(name, send), Ok(number));
        assert!(threads.pop().unwrap().join().unwrap(), "the lane of {name} is accepted");
    }
    let lines = std::mem::take(&mut follower.lock().unwrap().reader_mut().lines);
    assert_eq!(
        lines,
        [
            "notice first true no such node yet",
            "1 n1 first: columns 0 ",
            "notice second true no such node yet",
            "2 n1 second: columns 0 ",
        ]
    );
}

#[test]
fn a_subscription_that_was_not_sent_is_not_kept() {
    let subscriptions = Subscriptions::default();
    assert_eq!(subscriptions.add("one", || Err("too many")), Err("too many"));
    assert_eq!(subscriptions.find(|_| true), None);
    subscriptions.add("two", || Ok::<_, Infallible>(4)).unwrap();
    assert_eq!((subscriptions.find(|one| *one == "two"), subscriptions.get(4)), (Some(4), Some("two")));
    subscriptions.remove(4);
    assert_eq!(subscriptions.get(4), None);
}

#[test]
fn a_damaged_schema_is_reported_once_and_its_rows_have_no_columns() {
    let (mut link, lane) = (Link::new(), Sent::new("n1", 1, 7));
    link.offer(&lane, 100);
    link.schema(&lane, 0, b"this is not a schema");
    link.schema(&lane, 20, b"nor is this");
    link.row(&lane, 1, &[1]);
    let calls = link.calls();
    assert_eq!(calls.len(), 2, "{calls:?}");
    assert!(calls[0].starts_with("1 n1 all: damaged: "), "{calls:?}");
    assert_eq!(calls[1], "1 n1 all: row 1 of 1 0=Present(1)");
    // The next generation is sound, and the one after it is not.
    link.schema(&lane, 0, &series(&TWO));
    link.row(&lane, 2, &[1, 2]);
    link.schema(&lane, 0, b"this is not a schema");
    let calls = link.calls();
    assert_eq!(calls[0], "1 n1 all: columns 0 mem.free mem.total");
    assert!(calls[2].contains("damaged"), "{calls:?}");
}

#[test]
fn a_row_tells_what_changed_and_what_all_slots_have() {
    struct Cells(Vec<(usize, Option<u64>)>, Vec<Option<u64>>);
    impl Reader for Cells {
        type Subscription = ();
        type Lane = ();
        fn offered(&mut self, _: &NodeName, _: &LaneOffer<'_>, _: &()) -> Option<()> {
            Some(())
        }
        fn row(&mut self, _: &mut Lane<Self>, row: &Row<'_>) {
            self.0 = row.changed().map(|(slot, reading)| (slot, reading.value())).collect();
            self.1 = row.all().map(|reading| reading.value()).collect();
        }
        fn notice(&mut self, (): &(), _: bool, _: &str) {}
    }
    let subscriptions = Subscriptions::from_iter([(1, ())]);
    let (mut follower, lane) = (Follower::new(Cells(vec![], vec![]), subscriptions), Sent::new("n1", 1, 7));
    follower.offered(&lane.key, &lane.offer(10));
    let (mut encoder, mut bytes, mut row) = (Encoder::new(0, 1, Nanos::SECOND), Vec::new(), Decoder::new());
    let stamp = |second| Stamp { boot: Nanos::from_secs(second), real_offset: 0 };
    encoder.key_row(stamp(1), 3, |slot| (0, slot as u64), &mut bytes);
    encoder.delta_row(stamp(2), 2..3, |_| (0, 9), &mut bytes);
    row.catch_up(&bytes).unwrap();
    follower.row(&lane.key, 1, &row);
    assert_eq!(follower.reader().0, [(2, Some(9))]);
    assert_eq!(follower.reader().1, [Some(0), Some(1), Some(9)]);
}

#[test]
fn a_subscription_that_is_granted_without_a_text_gets_no_notice() {
    let mut link = Link::new();
    let mut told = |interest, granted, text| {
        link.follower.answered(&Told { interest, granted, period: Nanos(0), text, lane: 0, refused_by: "" });
    };
    told(1, true, "");
    told(1, true, "slower");
    told(2, false, "");
    told(3, false, "nobody has subscribed to this");
    assert_eq!(link.calls(), ["notice all true slower", "notice some false "]);
}

#[test]
fn a_list_of_nodes_comes_in_parts_and_a_part_ends_with_its_connection() {
    let mut link = Link::new();
    let status = NodeStatus::here(NodeName::new("n1").unwrap());
    (0..600).for_each(|_| link.follower.node(&status));
    link.follower.nodes_end();
    link.follower.node(&status);
    link.follower.down("silent");
    link.follower.nodes_end();
    assert_eq!(
        link.calls(),
        ["nodes 256 false", "nodes 256 false", "nodes 88 true", "down silent", "nodes 0 true"]
    );
}

#[test]
fn lanes_of_unknown_subscriptions_and_of_names_that_no_node_has_are_refused() {
    let mut link = Link::new();
    for (node, interest) in [("n1", 3), ("n1", 0), ("../n1", 1), ("", 1)] {
        assert!(!link.offer(&Sent::new(node, interest, 7), 10), "{node:?} {interest}");
    }
    assert_eq!(link.calls(), [""; 0]);
    assert_eq!(link.follower.lanes().iter().count(), 0);
}

#[test]
fn lanes_of_many_nodes_share_their_metrics() {
    let (mut link, schema) = (Link::new(), series(&TWO));
    for node in ["n1", "n2", "n3"] {
        let lane = Sent::new(node, 1, 7);
        link.offer(&lane, schema.len() as u64);
        link.schema(&lane, 0, &schema);
        link.row(&lane, 1, &[1, 2]);
    }
    assert_eq!(link.follower.reader().metrics.len(), TWO.len());
}

#[test]
fn a_reader_that_decodes_schemas_itself_gets_their_bytes_and_no_columns() {
    let (mut link, lane, schema) = (Link::new(), Sent::new("n1", 1, 7), series(&TWO));
    link.follower.reader_mut().decodes = true;
    link.offer(&lane, schema.len() as u64);
    link.schema(&lane, 0, &schema[..10]);
    link.schema(&lane, 10, &schema[10..]);
    link.row(&lane, 1, &[1, 2]);
    assert_eq!(
        link.calls(),
        [
            "1 n1 all: schema 1 0+10".to_owned(),
            format!("1 n1 all: schema 1 10+{}", schema.len() - 10),
            "1 n1 all: row 1 of 2 0=Present(1) 1=Present(2)".to_owned(),
        ]
    );
}

#[test]
fn kernel_texts_and_refusals_pass_through_and_a_rest_shows_the_lanes() {
    #[derive(Default)]
    struct Rest(Vec<String>);
    impl Reader for Rest {
        type Subscription = ();
        type Lane = u64;
        fn offered(&mut self, _: &NodeName, offer: &LaneOffer<'_>, (): &()) -> Option<u64> {
            (offer.epoch != 9).then_some(offer.epoch)
        }
        fn row(&mut self, _: &mut Lane<Self>, _: &Row<'_>) {}
        fn notice(&mut self, (): &(), _: bool, _: &str) {}
        fn text(&mut self, number: u32, text: &Arc<[u8]>, stamp: Stamp) {
            self.0.push(format!("text {number} {} {}", text.len(), stamp.boot));
        }
        fn text_answered(&mut self, answer: TextGiven) {
            self.0.push(format!("answered {} {} {}", answer.number, answer.ask, answer.is_read));
        }
        fn no_text(&mut self, none: &NoText<'_>) {
            self.0.push(format!("none {} {:?} {}", none.number, none.why, none.text));
        }
        fn rest(&mut self, lanes: &mut Lanes<Self>) {
            self.0.extend(lanes.iter().map(|lane| format!("lane {} {}", lane.number(), lane.data)));
        }
        fn refusal(&mut self) -> Option<String> {
            self.0.len().checked_sub(4).map(|_| "too much".to_owned())
        }
    }
    let mut follower = Follower::new(Rest::default(), Subscriptions::from_iter([(1, ())]));
    let (lane, unwanted) = (Sent::new("n1", 1, 7), Sent::new("n1", 1, 9));
    assert!(follower.offered(&unwanted.key, &unwanted.offer(10)).is_none(), "the reader refuses it");
    follower.offered(&lane.key, &lane.offer(10));
    follower.text(5, &Arc::from(&b"text"[..]), Stamp { boot: Nanos(3), real_offset: 0 });
    follower.text_given(TextGiven { number: 5, ask: 8, is_read: true });
    follower.no_text(&NoText { number: 6, why: Why::Missing, text: "no such file" });
    assert_eq!(follower.refusal(), None);
    follower.rest();
    assert_eq!(follower.refusal().as_deref(), Some("too much"));
    assert_eq!(
        follower.reader().0,
        ["text 5 4 3ns", "answered 5 8 true", "none 6 Missing no such file", "lane 1 7"]
    );
}
