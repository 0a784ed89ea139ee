//! Tests of following another hub, whose nodes are shown here.

use khz_block::{Decoder, Encoder, SchemaEncoder};
use khz_link::{LaneKey, LaneSink, Told};
use khz_model::{ByteSize, ChannelName, ChannelTerms, Instance, Nanos, Reading, Series, Stamp, metric};

use super::*;
use crate::clock::played;
use crate::cluster::Settings;
use crate::counts::own_metric;
use crate::followed::{FollowedChannel, Follows, Looks};
use crate::lane::{Lane, Part};
use crate::limits::FOLLOWED_LINGER;
use crate::node::{Answer, Arrival, BASE, Link, Terms};
use crate::rule_rows::RuleRows;

mod clocks;

/// How the base lane is offered.
const OFFER: LaneOffer<'static> = LaneOffer {
    lane: 1,
    node: "a",
    name: "interest1",
    epoch: 9,
    generation: 1,
    period: Nanos::SECOND,
    interest: EVERYTHING,
    oldest_row: 0,
    next_row: 0,
    schema_bytes: 1,
    schema_hash: [0; 16],
    stands_in: false,
};

/// A schema of these instances.
fn schema(names: &[&str]) -> Vec<u8> {
    let metric = own_metric("a.b", "a_b", "A.", metric::Kind::Gauge, metric::Unit::Count, Some("x"));
    let (metric, mut encoder, mut bytes) = (Arc::new(metric), SchemaEncoder::new(), Vec::new());
    for name in names {
        let instance = Some(Instance::from_kernel(name.as_bytes()));
        encoder.append(&Series { metric: metric.clone(), instance }, &mut bytes).expect("room");
    }
    bytes
}

/// The hub below, with one node.
struct Below {
    follower: Follower<NodesBelow>,
    key: LaneKey,
    encoder: Encoder,
    generation: u32,
}

impl Below {
    fn new() -> Self {
        Below::asking(None)
    }

    fn asking(asked: Option<Asked>) -> Self {
        let rate_max = Rate::from_hz(1_000).expect("a rate");
        let settings = Settings { name: "hub".into(), history: ByteSize(1 << 20), rate_max };
        Below::of(Cluster::new(settings, [1; 16]), 0, asked)
    }

    /// One of several hubs below this cluster.
    fn of(cluster: Arc<Cluster>, number: usize, asked: Option<Asked>) -> Self {
        let follower = match asked {
            Some(asked) => follower_of(cluster, number, asked),
            None => follower(cluster, number).expect("a bell"),
        };
        let key = LaneKey { node: "a".into(), name: "interest1".into(), epoch: 9 };
        let mut below = Below { follower, key, encoder: Encoder::new(0, 1, Nanos::SECOND), generation: 1 };
        below.offer_base();
        below
    }

    fn offer_base(&mut self) {
        self.follower.offered(&self.key, &OFFER).expect("it is wanted");
    }

    fn cluster(&self) -> &Cluster {
        &self.follower.reader().here.cluster
    }

    fn node(&self) -> Arc<SharedNode> {
        self.cluster().node(&NodeName::new("a").expect("a name")).expect("it was offered")
    }

    fn schema(&mut self, generation: u32, names: &[&str]) {
        self.generation = generation;
        self.follower.schema(&self.key, generation, 0, &schema(names));
    }

    /// A row of this second, with the second as its one value.
    fn row(&mut self, second: u64) {
        let (mut bytes, mut row) = (Vec::new(), Decoder::new());
        let stamp = Stamp { boot: Nanos::from_secs(second), real_offset: 0 };
        let number = self.encoder.rows();
        self.encoder.resume(number, self.generation);
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
    let link = Link::new(below.follower.reader().here.mailbox.clone(), 5);
    let connect = |node: &mut crate::node::Node| {
        node.connect(&Arrival { version: "itself", ..Arrival::default() }, link, Nanos(0));
        node.lanes_mut().offered(LANE, BASE, 77, Nanos::SECOND);
    };
    connect(&mut below.node().lock());
    below.schema(2, &["y"]);
    below.row(2);
    assert_eq!(below.there(), (2, None), "it speaks for itself, and the two rows were of the epoch before");
    below.node().lock().disconnect(5, None, Nanos(0));
    below.row(3);
    below.row(4);
    assert_eq!(below.there(), (4, Some(("y".into(), Reading::Present(4)))));
}

/// What readers subscribe to at the node, and the answer.
fn subscribes(below: &Below, terms: &Terms) -> u32 {
    below.node().lock().subscribe(&Arc::new(terms.clone())).expect("room")
}

fn answer(below: &Below, number: u32) -> Option<Answer> {
    below.node().lock().subscriptions().get(number).and_then(|known| known.answer()).cloned()
}

fn terms(channel: Option<Arc<ChannelTerms>>) -> Terms {
    let patterns = vec![Pattern::everything()];
    Terms { patterns, rate: Rate::from_hz(10), exact: false, prompt: false, channel }
}

fn hot() -> Arc<ChannelTerms> {
    let name = ChannelName::new("hot").expect("a name");
    Arc::new(ChannelTerms { name, handler: [1].as_slice().into() })
}

#[test]
fn a_node_of_another_hub_refuses_what_only_its_own_hub_can_ask_of_it() {
    let mut below = Below::new();
    below.schema(1, &["x"]);
    below.row(1);
    for (channel, part) in [(None, ", at 1Hz"), (Some(hot()), "passes no channels on")] {
        let number = subscribes(&below, &terms(channel));
        below.follower.rest();
        let answer = answer(&below, number).expect("an answer");
        assert!(!answer.granted && answer.text.contains(part), "{}", answer.text);
    }
}

/// The number of the subscription to the channel at the hub below.
const HOT: u32 = 2;

/// The hub below was asked for a channel that somebody follows here.
struct Passing {
    below: Below,
    asked: Asked,
    follows: Option<Follows>,
    channel: Arc<FollowedChannel>,
    key: LaneKey,
    encoder: Encoder,
}

impl Passing {
    fn new() -> Self {
        Passing::following(false)
    }

    /// With `is_kept`, who follows it is the store.
    fn following(is_kept: bool) -> Self {
        let asked = Asked::default();
        let mut below = Below::asking(Some(asked.clone()));
        below.schema(1, &["x"]);
        below.row(1);
        let rate = Rate::from_hz(10).expect("a rate");
        let interest =
            Interest { channel: Some(hot()), ..Interest::new(vec![Pattern::everything()], rate, false) };
        let cluster = below.follower.reader().here.cluster.clone();
        let follows = Some(Follows::new(cluster.clone(), &interest, is_kept));
        asked.follow(&cluster, |_| Ok(HOT), |_| {});
        let channel = cluster.followed.all().pop().expect("it is followed");
        let sent = || Ok::<_, std::convert::Infallible>(HOT);
        let Ok(_) = below.follower.subscriptions().add(Wanted::Channel(channel.clone()), sent);
        let key = LaneKey { node: "a".into(), name: "interest2".into(), epoch: 21 };
        Passing { below, asked, follows, channel, key, encoder: Encoder::new(0, 1, Nanos::from_millis(100)) }
    }

    /// The hub below offers the lane; rows from `first` on are for this hub.
    fn offer(&mut self, first: u64) {
        let offer =
            LaneOffer { lane: 2, name: "interest2", interest: HOT, epoch: 21, next_row: first + 1, ..OFFER };
        self.below.follower.offered(&self.key, &offer).expect("it is wanted");
        let bytes = schema(&["h"]);
        self.below.follower.schema(&self.key, 1, 0, &bytes);
    }

    fn row(&mut self, number: u64) {
        let (mut bytes, mut row) = (Vec::new(), Decoder::new());
        let stamp = Stamp { boot: Nanos::from_millis(1_000 + number * 100), real_offset: 0 };
        self.encoder.close();
        self.encoder.resume(number, 1);
        self.encoder.key_row(stamp, 1, |_| (0, number), &mut bytes);
        row.catch_up(&bytes).expect("a row");
        self.below.follower.row(&self.key, number, &row);
    }

    fn tells(&mut self, granted: bool, text: &str, refused_by: &str) {
        let told = Told { interest: HOT, granted, period: Nanos(0), text, lane: 0, refused_by };
        self.below.follower.answered(&told);
    }

    /// Of the lane of the channel here: its rows, those that are lost, and those that are missing. `None`: there is none.
    fn there(&self) -> Option<(u64, u64, u64)> {
        let node = self.below.node();
        let node = node.lock();
        let lane = node.lanes().present().iter().find(|lane| lane.name == "channel.hot")?;
        Some((lane.rows(), lane.lost(), lane.awaited()))
    }
}

#[test]
fn rows_of_a_channel_come_under_the_numbers_of_the_node_and_lost_ones_are_counted() {
    let mut passing = Passing::new();
    let number = subscribes(&passing.below, &terms(Some(hot())));
    passing.below.follower.rest();
    assert_eq!(answer(&passing.below, number).map(|answer| answer.granted), Some(true));
    passing.offer(40);
    passing.row(40);
    passing.row(41);
    assert_eq!(passing.there(), Some((2, 0, 0)));
    let served = passing.below.node().lock().subscriptions().get(number).and_then(|known| known.start());
    assert_eq!(served.map(|start| start.row), Some(40), "a reader gets the first row too");
    // The connection to the hub below ends: it is known from the numbers what came meanwhile.
    passing.below.follower.down("cut");
    passing.below.offer_base();
    passing.below.schema(1, &["x"]);
    passing.below.row(5);
    passing.offer(50);
    passing.below.follower.lost(&passing.key, 42, 52);
    passing.row(52);
    passing.row(53);
    assert_eq!(passing.there(), Some((4, 10, 0)));
    passing.row(56);
    assert_eq!(passing.there(), Some((5, 10, 2)));
}

#[test]
fn rows_that_a_young_hub_asks_for_in_case_that_somebody_lacks_them_are_not_lost_if_they_do_not_come() {
    for is_kept in [false, true] {
        let mut passing = Passing::following(is_kept);
        // Nothing of the channel is in a store, and this hub has just started.
        passing.offer(40);
        passing.row(5);
        passing.below.follower.lost(&passing.key, 6, 40);
        passing.row(40);
        let lost = |passing: &Passing| passing.there().map(|(rows, lost, _)| (rows, lost));
        assert_eq!(lost(&passing), Some((2, 0)), "kept: {is_kept}");
        passing.below.follower.lost(&passing.key, 41, 43);
        passing.row(43);
        assert_eq!(lost(&passing), Some((3, 2)), "kept: {is_kept}");
    }
}

#[test]
fn the_lane_of_a_channel_ends_with_its_last_reader_here() {
    let mut passing = Passing::new();
    let number = subscribes(&passing.below, &terms(Some(hot())));
    passing.offer(0);
    passing.row(0);
    assert_eq!(passing.there(), Some((1, 0, 0)));
    passing.below.node().lock().unsubscribe(number);
    passing.follows = None;
    let mut ended = Vec::new();
    let cluster = passing.below.follower.reader().here.cluster.clone();
    passing.asked.follow(&cluster, |_| unreachable!("nobody follows anything"), |number| ended.push(number));
    assert_eq!(ended, [HOT]);
    passing.below.follower.closed(&passing.key);
    passing.below.follower.rest();
    assert_eq!(passing.there(), None);
}

#[test]
fn rows_of_a_channel_come_for_some_seconds_after_its_last_reader_here_has_gone() {
    let mut passing = Passing::new();
    let below = Arc::new(Looks);
    let cluster = passing.below.follower.reader().here.cluster.clone();
    cluster.followed.tell(&below);
    let number = subscribes(&passing.below, &terms(Some(hot())));
    passing.offer(0);
    passing.row(0);
    passing.below.node().lock().unsubscribe(number);
    passing.follows = None;
    let nobody_else = |_: &_| unreachable!("nobody follows anything else");
    passing.asked.follow(&cluster, nobody_else, |_| panic!("a reader may come back"));
    passing.below.follower.rest();
    (1..4).for_each(|row| passing.row(row));
    assert_eq!(passing.there(), Some((4, 0, 0)));
    // It is back: the rows since it went are here, and the next ones follow.
    passing.follows = Some(Follows::new(cluster.clone(), &passing.channel.interest, false));
    let number = subscribes(&passing.below, &terms(Some(hot())));
    passing.below.follower.rest();
    assert_eq!(answer(&passing.below, number).map(|answer| answer.granted), Some(true));
    {
        let node = passing.below.node();
        let node = node.lock();
        let lane = node.lanes().present().iter().find(|lane| lane.name == "channel.hot").expect("a lane");
        let is_here = |part: &Part| matches!(part, Part::Here(..));
        assert!(lane.parts(1, 4, usize::MAX).0.iter().all(is_here));
    }
    passing.row(4);
    assert_eq!(passing.there(), Some((5, 0, 0)));
    // It goes for good.
    passing.below.node().lock().unsubscribe(number);
    passing.follows = None;
    cluster.followed.end_unread(Nanos(clock::boot().0 + FOLLOWED_LINGER.0));
    let mut ended = Vec::new();
    passing.asked.follow(&cluster, nobody_else, |number| ended.push(number));
    assert_eq!(ended, [HOT]);
}

#[test]
fn what_a_node_refuses_and_what_the_hub_below_refuses_is_said_to_readers_here() {
    let mut passing = Passing::new();
    let number = subscribes(&passing.below, &terms(Some(hot())));
    passing.tells(true, "a: its handlers are off", "a");
    passing.below.follower.rest();
    let refused = |text: &str| Some(Answer { granted: false, text: text.to_owned() });
    assert_eq!(answer(&passing.below, number), refused("its handlers are off"));
    // The node is started again with another setting.
    passing.offer(7);
    assert_eq!(answer(&passing.below, number).map(|answer| answer.granted), Some(true));

    let mut passing = Passing::new();
    let number = subscribes(&passing.below, &terms(Some(hot())));
    passing.below.follower.rest();
    passing.tells(false, "1000Hz is above this hub's ceiling of 100Hz", "");
    let why = "comes through hub : 1000Hz is above this hub's ceiling of 100Hz";
    assert_eq!(answer(&passing.below, number), refused(why));
    assert!(passing.asked.problem(&terms(Some(hot())), "a").is_some() && passing.asked.has(&passing.channel));
}

#[test]
fn two_readers_of_other_nodes_share_a_lane_here_and_no_row_comes_twice() {
    let mut passing = Passing::new();
    passing.offer(0);
    passing.row(0);
    let (first, second) = (passing.key.clone(), LaneKey { name: "interest3".into(), ..passing.key.clone() });
    let sent = || Ok::<_, std::convert::Infallible>(HOT + 1);
    let wanted = Wanted::Channel(passing.channel.clone());
    let Ok(_) = passing.below.follower.subscriptions().add(wanted, sent);
    let offer = LaneOffer { lane: 3, name: "interest3", interest: HOT + 1, epoch: 21, next_row: 1, ..OFFER };
    passing.below.follower.offered(&second, &offer).expect("it is wanted");
    passing.below.follower.schema(&second, 1, 0, &schema(&["h"]));
    passing.row(1);
    passing.key = second;
    (0..3).for_each(|number| passing.row(number));
    assert_eq!(passing.there(), Some((3, 0, 0)));
    passing.below.follower.closed(&first);
    passing.row(3);
    assert_eq!(passing.there(), Some((4, 0, 0)));
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

/// The rows of the node's base lane that are here, oldest first, as its history has them; and how many are lost.
fn history(below: &Below) -> (Vec<u64>, u64) {
    let node = below.node();
    let node = node.lock();
    let base = node.lanes().base().expect("a base lane");
    let rows =
        |block: crate::lane::Block| block.header.first_row..block.header.first_row + u64::from(block.rows);
    (base.blocks_since(Nanos(0)).into_iter().flat_map(rows).collect(), base.lost())
}

/// A closed block of these rows, each of the second of its number.
fn past(below: &mut Below, rows: std::ops::Range<u64>) {
    let first = rows.start;
    past_at(below, rows, first);
}

/// The hub below goes on with the row of this number.
fn row_of(below: &mut Below, number: u64) {
    below.encoder.close();
    below.encoder.resume(number, below.generation);
    below.row(number);
}

#[test]
fn a_node_that_gains_series_keeps_its_history_here() {
    let mut below = Below::new();
    let names: Vec<String> = (0..40).map(|n| format!("x{n}")).collect();
    for number in 0..40 {
        let known: Vec<&str> = names[..=number].iter().map(String::as_str).collect();
        below.schema(number as u32 + 1, &known);
        below.row(number as u64);
    }
    assert_eq!(history(&below), ((0..40).collect(), 0));
}

#[test]
fn a_node_that_goes_from_one_hub_below_to_the_other_and_back_has_each_row_once() {
    let mut one = Below::new();
    let mut other = Below::of(one.follower.reader().here.cluster.clone(), 1, None);
    one.schema(1, &["x"]);
    other.schema(1, &["x"]);
    (0..3).for_each(|number| row_of(&mut one, number));
    // The first hub does not know so far that the node has gone, and some rows were on their way.
    (4..6).for_each(|number| row_of(&mut other, number));
    row_of(&mut one, 3);
    past(&mut other, 1..5);
    assert_eq!(history(&one), ((0..6).collect(), 0));
    // It has: the other one speaks for the node. It is back soon, before the other one notices.
    let now = clock::boot();
    played::NOW.set(Some(Nanos(now.0 + 2 * Nanos::SECOND.0)));
    row_of(&mut other, 6);
    assert!(!one.node().lock().link().is_linked(one.follower.reader().nodes[&one.node().name].connection()));
    row_of(&mut one, 9);
    past(&mut one, 6..9);
    row_of(&mut other, 7);
    row_of(&mut one, 10);
    assert_eq!(history(&one), ((0..11).collect(), 0));
    played::NOW.set(None);
}

#[test]
fn late_rows_whose_schema_has_not_come_are_refused() {
    let mut below = Below::new();
    below.schema(1, &["x"]);
    row_of(&mut below, 7);
    below.generation = 2;
    past(&mut below, 3..5);
    assert_eq!(history(&below), (vec![7], 0), "their slots may mean anything");
    below.schema(2, &["y"]);
    past(&mut below, 3..5);
    assert_eq!(history(&below), (vec![3, 4, 7], 0));
}

#[test]
fn rows_that_one_hub_below_has_lost_are_lost_when_no_other_speaks_for_the_node() {
    let mut one = Below::new();
    let mut other = Below::of(one.follower.reader().here.cluster.clone(), 1, None);
    one.schema(1, &["x"]);
    other.schema(1, &["x"]);
    row_of(&mut one, 0);
    row_of(&mut one, 5);
    other.follower.lost(&other.key, 1, 4);
    assert_eq!(history(&one), (vec![0, 5], 0), "the first one may have them");
    past(&mut one, 1..3);
    one.follower.down("cut");
    row_of(&mut other, 6);
    assert_eq!(history(&one), (vec![0, 1, 2, 5, 6], 1));
    assert_eq!(one.node().lock().lanes().base().map(Lane::awaited), Some(1));
}

#[test]
fn a_node_that_has_gone_with_its_hub_is_told_from_one_that_has_gone_alone() {
    let within = Nanos::from_secs(10);
    let gone = |below: &Below| -> Vec<String> {
        let rows = RuleRows::new(below.follower.reader().here.cluster.clone(), std::thread::current());
        rows.gone_with_their_hub(within).iter().map(ToString::to_string).collect()
    };
    let mut below = Below::new();
    below.schema(1, &["x"]);
    row_of(&mut below, 0);
    assert_eq!(gone(&below), Vec::<String>::new(), "it is up");
    below.follower.down("cut");
    assert_eq!(gone(&below), ["a"]);
    below.offer_base();
    below.schema(1, &["x"]);
    row_of(&mut below, 1);
    assert_eq!(gone(&below), Vec::<String>::new(), "it is back");
    let mut alone = Below::new();
    alone.schema(1, &["x"]);
    row_of(&mut alone, 0);
    alone.follower.closed(&alone.key);
    assert!(!alone.node().lock().link().is_up());
    assert_eq!(gone(&alone), Vec::<String>::new(), "its hub is there");
}

#[test]
fn what_a_hub_below_is_asked_for_is_what_did_not_come_another_way() {
    let mut one = Below::new();
    one.schema(1, &["x"]);
    (100..103).chain(105..107).for_each(|number| row_of(&mut one, number));
    let mut other = Below::of(one.follower.reader().here.cluster.clone(), 1, None);
    let offer = LaneOffer { next_row: 110, ..OFFER };
    other.follower.down("another connection");
    let accept = other.follower.offered(&other.key, &offer).expect("it is wanted");
    let held = Held { from: 49, ranges: vec![(100, 103), (105, 107)] };
    assert_eq!(accept.held, Some(held), "and a minute from before the first one");
}

#[test]
fn a_node_that_connects_itself_goes_on_with_the_lane_that_came_through_a_hub() {
    let mut below = Below::new();
    below.schema(1, &["x"]);
    (0..3).for_each(|number| row_of(&mut below, number));
    let link = Link::new(below.follower.reader().here.mailbox.clone(), 5);
    let shared = below.node();
    let mut node = shared.lock();
    node.connect(&Arrival { version: "itself", ..Arrival::default() }, link, Nanos(0));
    let id = node.lanes_mut().offered(1, BASE, OFFER.epoch, Nanos::SECOND).expect("room");
    let lane = node.lanes_mut().get_mut(id).expect("the lane");
    assert_eq!(lane.next_row(), 3, "its rows are those that came through the hub");
    lane.becomes_its_own();
    assert_eq!(lane.newest_generation(), None, "the node numbers generations in its own way");
    lane.generation_for(&{
        let schema = schema(&["x", "y"]);
        let schemas = &below.cluster().schemas;
        schemas.grow(None, &schema, None).expect("a schema")
    });
    // The block that is open at the node begins before rows that came through the hub.
    let mut block = Vec::new();
    let mut encoder = Encoder::new(0, 1, Nanos::SECOND);
    encoder.resume(2, 1);
    let stamp = |second| Stamp { boot: Nanos::from_secs(second), real_offset: 0 };
    encoder.key_row(stamp(2), 1, |_| (0, 2), &mut block);
    encoder.delta_row(stamp(3), 0..1, |_| (0, 3), &mut block);
    assert_eq!(lane.begin(&block, true), Ok(1));
    drop(node);
    assert_eq!(history(&below), (vec![0, 1, 2, 3], 0));
    // The hub below has rows of before, and some that came meanwhile.
    past(&mut below, 1..3);
    row_of(&mut below, 3);
    row_of(&mut below, 4);
    assert_eq!(history(&below), (vec![0, 1, 2, 3, 4], 0));
}

/// The hub below begins another epoch of the node's base lane, of which it has as many rows.
fn begin_epoch(below: &mut Below, epoch: u64, next_row: u64) {
    below.follower.closed(&below.key);
    below.key.epoch = epoch;
    below.follower.offered(&below.key, &LaneOffer { epoch, next_row, ..OFFER }).expect("it is wanted");
    let generation = below.generation;
    below.schema(generation, &["x"]);
}

/// When the rows of each epoch were gathered that are here, in seconds: those of former epochs first, oldest first.
fn epochs(below: &Below) -> Vec<(u64, Vec<u64>)> {
    let node = below.node();
    let node = node.lock();
    let seconds = |lane: &Lane| {
        let blocks = lane.blocks_since(Nanos(0));
        let times = blocks.iter().flat_map(|block| crate::simulation::store::times(&block.bytes));
        (lane.epoch, times.map(|time| time.0 / 1_000_000_000).collect())
    };
    let bases = node.lanes().former().iter().chain(node.lanes().base()).filter(|lane| lane.name == BASE);
    bases.map(seconds).collect()
}

/// The row of this number and second.
fn row_at(below: &mut Below, number: u64, second: u64) {
    below.encoder.close();
    below.encoder.resume(number, below.generation);
    below.row(second);
}

/// The hub below lists the node as gone.
fn list_as_gone(below: &mut Below) {
    let status = NodeStatus { up: false, ..below.node().lock().status(clock::boot()) };
    below.follower.node(&status);
    below.follower.nodes_end();
}

#[test]
fn what_a_list_says_of_a_node_whose_lane_comes_only_later_is_known_here_also_when_the_hub_below_dies() {
    for is_listed_again in [false, true] {
        let expected =
            NodeStatus { up: true, expected: true, ..Below::new().node().lock().status(clock::boot()) };
        let mut below = Below::new();
        let status = NodeStatus { node: NodeName::new("b").expect("a name"), ..expected };
        let list = |below: &mut Below| {
            below.follower.node(&status);
            below.follower.nodes_end();
        };
        list(&mut below);
        let of_b = LaneKey { node: "b".into(), ..below.key.clone() };
        assert!(below.cluster().node(&status.node).is_none(), "it comes with its lane");
        below.follower.offered(&of_b, &LaneOffer { node: "b", ..OFFER }).expect("it is wanted");
        if is_listed_again {
            list(&mut below);
        }
        below.follower.down("cut");
        let b = below.cluster().node(&status.node).expect("it has come");
        assert!(b.lock().status(clock::boot()).expected);
    }
}

#[test]
fn the_first_rows_of_an_epoch_are_here_that_began_while_the_hub_below_listed_its_node_as_gone() {
    let mut below = Below::new();
    below.schema(1, &["x"]);
    (0..3).for_each(|number| row_at(&mut below, number, number));
    // Twice, so that no row has come between two lists.
    list_as_gone(&mut below);
    list_as_gone(&mut below);
    begin_epoch(&mut below, 10, 2);
    row_at(&mut below, 0, 5);
    row_at(&mut below, 1, 6);
    assert!(!below.node().lock().link().is_up(), "they may be rows of before");
    row_at(&mut below, 2, 7);
    assert!(below.node().lock().link().is_up());
    assert_eq!(epochs(&below), [(9, vec![0, 1, 2]), (10, vec![5, 6, 7])]);
    assert_eq!(below.node().lock().lanes().counted().rows, 6);
}

#[test]
fn an_epoch_that_began_and_ended_while_nobody_was_here_comes_in_its_place_and_does_not_take_that_of_the_present()
 {
    let mut below = Below::new();
    below.schema(1, &["x"]);
    row_at(&mut below, 0, 0);
    begin_epoch(&mut below, 11, 0);
    row_at(&mut below, 0, 20);
    row_at(&mut below, 1, 21);
    // Of the epoch between them the hub below has closed blocks only.
    begin_epoch(&mut below, 10, 3);
    past_at(&mut below, 0..3, 10);
    begin_epoch(&mut below, 11, 2);
    row_at(&mut below, 2, 22);
    assert_eq!(epochs(&below), [(9, vec![0]), (10, vec![10, 11, 12]), (11, vec![20, 21, 22])]);
    assert_eq!(below.node().lock().lanes().counted().rows, 7);
    // An epoch of the same time has the same rows in another lane.
    begin_epoch(&mut below, 12, 3);
    past_at(&mut below, 0..1, 11);
    assert_eq!(epochs(&below).len(), 3);
}

/// A closed block of these rows, the first of which was gathered in this second.
fn past_at(below: &mut Below, rows: std::ops::Range<u64>, second: u64) {
    let (mut encoder, mut bytes) = (Encoder::new(0, 1, Nanos::SECOND), Vec::new());
    encoder.resume(rows.start, below.generation);
    for number in rows.clone() {
        let stamp = Stamp { boot: Nanos::from_secs(second + number - rows.start), real_offset: 0 };
        match number == rows.start {
            true => encoder.key_row(stamp, 1, |_| (0, number), &mut bytes),
            false => encoder.delta_row(stamp, 0..1, |_| (0, number), &mut bytes),
        }
    }
    let header = encoder.close().expect("rows").to_bytes();
    bytes[..header.len()].copy_from_slice(&header);
    below.follower.past(&below.key, &bytes);
}
