//! Channels, from readers and doors to nodes that are made of frames.

#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
mod fake;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fake::{Hub, Node, interest, until};
use khz_block::{Decoder, SchemaDecoder, Step};
use khz_hub::{ChannelKeeper, KnownChannel, KnownChannels};
use khz_link::limits::{HANDLER_BYTES_MAX, LANES_MAX, VERSION};
use khz_link::{ABILITIES, Ask, ChannelFrame, Frame, KNOWS_CHANNELS, KNOWS_OWN, Role, Told, Want};
use khz_model::{
    Bell, ChannelName, ChannelTerms, Interest, Nanos, NodeName, Query, QueryError, Subscription,
};
use khz_store::log::Log;
use khz_trust::ClusterKey;

/// A node that knows channels.
fn node(hub: &Hub, name: &str) -> Node {
    node_with(hub, name, ABILITIES)
}

/// One with these abilities, which the hub knows.
fn node_with(hub: &Hub, name: &str, abilities: u8) -> Node {
    let mut node = comes(hub, name, abilities);
    node.beat();
    node
}

/// The same, with what the hub sends to it still unread.
fn comes(hub: &Hub, name: &str, abilities: u8) -> Node {
    let mut node = Node::connect(hub.address(), name);
    (node.abilities, node.version) = (abilities, VERSION);
    node.hello(None);
    node
}

/// Keeps the channels that it finds, and lists one.
struct Keeps<F>(F);

impl<F: Fn(&ChannelName) -> Option<Interest> + Send + Sync> KnownChannels for Keeps<F> {
    fn find(&self, name: &ChannelName) -> Option<Interest> {
        (self.0)(name)
    }
    fn revision(&self) -> u64 {
        1
    }
    fn list(&self) -> Vec<KnownChannel> {
        vec![KnownChannel { name: "hot".to_owned(), json: "{\"name\":\"hot\"}".to_owned() }]
    }
}

/// A channel as a door subscribes to it.
fn channel(name: &str, handler: &[u8]) -> Interest {
    let terms = ChannelTerms { name: ChannelName::new(name).unwrap(), handler: handler.into() };
    Interest { channel: Some(Arc::new(terms)), ..interest(&["load.*"], 100) }
}

/// A reader that subscribes to a channel over the link.
fn reader(hub: &Hub) -> Node {
    let mut reader = Node::connect(hub.address(), "r");
    (reader.abilities, reader.version) = (ABILITIES, VERSION);
    reader.hello_as(Role::Reader, None);
    reader
}

fn ask(reader: &mut Node, number: u32, hz: u64, name: &str, past: bool) {
    let channel = Some(ChannelFrame { name, handler: &[1] });
    let (period, patterns) = (Nanos(1_000_000_000 / hz), &["load.*"]);
    Ask { number, period, prompt: true, past, channel, patterns, ..Ask::default() }.put(&mut reader.out);
    reader.send();
}

/// The number, the name and the handler of the next Channel that the node gets.
fn next_channel(node: &mut Node) -> (u32, String, Vec<u8>) {
    node.await_frame(|frame| match frame {
        Frame::Interest(interest) => {
            let channel = interest.channel?;
            Some((interest.number, channel.name.to_owned(), channel.handler.to_vec()))
        }
        _ => None,
    })
}

/// The interest that the node is to dismiss next. The hub may answer a Beat before it says so.
fn dismissed(node: &mut Node) -> u32 {
    node.await_frame(|frame| match frame {
        Frame::Dismiss { number } => Some(*number),
        _ => None,
    })
}

/// The frames that the node has got, up to the answer to a Beat.
fn heard(node: &mut Node) -> Vec<&'static str> {
    let mut names = Vec::new();
    khz_link::Beat { stamp: fake::AWAITED, round_trip: None, offset: 0, retransmits: 0 }.put(&mut node.out);
    node.send();
    node.await_frame(|frame| match frame {
        Frame::Beaten(beaten) if beaten.stamp == fake::AWAITED => Some(()),
        Frame::Beaten(_) => None,
        other => {
            names.push(other.name());
            None
        }
    });
    names
}

/// Grants a channel with a lane of this epoch.
fn grant(node: &mut Node, interest: u32, epoch: u64) -> Want {
    let want = node.offer_lane("boost1", epoch, 0, interest);
    let lane = node.lane;
    Told { interest, granted: true, period: Nanos::from_millis(10), text: "", lane, refused_by: "" }
        .put(&mut node.out);
    node.beat();
    want
}

/// The seconds of rows, the number of columns, and the rows lost, that a door has got.
#[derive(Debug, Default, PartialEq)]
struct Got {
    seconds: Vec<u64>,
    columns: usize,
    lost: u64,
}

impl Got {
    fn poll(&mut self, subscription: &mut dyn Subscription) -> &mut Self {
        for delivery in subscription.poll() {
            self.lost += delivery.lost;
            self.seconds.extend(delivery.rows.iter().map(|row| row.stamp.boot.0 / 1_000_000_000));
            self.columns = delivery.columns.len();
        }
        self
    }
}

/// What a reader has got over the link.
#[derive(Default)]
struct Received {
    schema: SchemaDecoder,
    decoder: Decoder,
    /// Numbers and seconds.
    rows: Vec<(u64, u64)>,
    told: Vec<(bool, String)>,
    lost: u64,
    /// Lanes that were closed.
    closed: usize,
}

impl Received {
    fn read_until(&mut self, reader: &mut Node, mut is_enough: impl FnMut(&Received) -> bool) {
        while !is_enough(self) {
            let mut wanted = None;
            let took = reader.next(|frame| match &frame {
                Frame::Lane(offer) => {
                    // As a reader that is new and wants late rows too.
                    let (epoch, from_row) = (offer.epoch, offer.next_row.saturating_sub(1));
                    let want =
                        Want { epoch, from_row, span: Nanos(u64::MAX), prompt: true, ..Want::default() };
                    wanted = Some((offer.lane, want));
                }
                Frame::Schema(piece) => self.schema.feed(piece.bytes).unwrap(),
                Frame::Block { bytes, .. } | Frame::Rows { bytes, .. } => self.rows(bytes),
                Frame::Past { bytes, .. } => {
                    let before = std::mem::take(&mut self.decoder);
                    self.rows(bytes);
                    self.decoder = before;
                }
                Frame::Told(told) => self.told.push((told.granted, told.text.to_owned())),
                Frame::Lost { from, to, .. } => self.lost += to - from,
                Frame::Closed { .. } => {
                    self.closed += 1;
                    (self.schema, self.decoder) = Default::default();
                }
                _ => {}
            });
            took.expect("the hub goes on");
            if let Some((lane, want)) = wanted {
                want.put(lane, &mut reader.out);
                reader.send();
            }
        }
    }

    fn rows(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            match self.decoder.step(bytes).unwrap() {
                Step::Header(length) => bytes = &bytes[length..],
                Step::Row(length) => {
                    bytes = &bytes[length..];
                    let second = self.decoder.stamp().boot.0 / 1_000_000_000;
                    self.rows.push((self.decoder.next_row() - 1, second));
                }
                Step::Incomplete => panic!("a row in two frames"),
            }
        }
    }
}

#[test]
fn readers_and_doors_share_a_channel_and_it_ends_with_the_last_of_them() {
    let hub = Hub::new();
    let mut a = node(&hub, "a");
    let mut door = hub.query.subscribe(channel("hot", &[1])).unwrap();
    let (number, name, handler) = next_channel(&mut a);
    assert_eq!((&name[..], &handler[..]), ("hot", &[1][..]));
    let other = hub.query.subscribe(channel("hot", &[1])).unwrap();
    assert_eq!(heard(&mut a), [""; 0], "they share it");
    let want = grant(&mut a, number, 5);
    assert_eq!((want.epoch, want.from_row, want.span), (5, 0, Nanos(u64::MAX)));
    a.row(3, [1; 4]).row(70, [2; 4]).beat();
    let mut got = Got::default();
    until("both rows came", || got.poll(&mut *door).seconds.len() == 2);
    // The patterns select one of these series: of a channel a node sends only what is wanted.
    assert_eq!(got, Got { seconds: vec![3, 70], columns: 4, lost: 0 });
    // Another handler, another name: another lane.
    let changed = hub.query.subscribe(channel("hot", &[2])).unwrap();
    let (second, _, handler) = next_channel(&mut a);
    assert_eq!((second != number, &handler[..]), (true, &[2][..]));
    drop(changed);
    assert_eq!(dismissed(&mut a), second);
    drop(door);
    assert_eq!(heard(&mut a), [""; 0], "one is left");
    drop(other);
    assert_eq!(dismissed(&mut a), number);
}

/// A bell, and how many times it has rung.
fn bell() -> (Bell, Arc<AtomicU64>) {
    let rings = Arc::new(AtomicU64::new(0));
    let counted = rings.clone();
    (Arc::new(move || _ = counted.fetch_add(1, Ordering::Release)), rings)
}

#[test]
fn a_row_of_a_channel_rings_for_its_doors_and_a_grant_does_not() {
    let hub = Hub::new();
    let mut a = node(&hub, "a");
    let mut hot = hub.query.subscribe(channel("hot", &[1])).unwrap();
    let hot_number = next_channel(&mut a).0;
    let mut cold = hub.query.subscribe(channel("cold", &[2])).unwrap();
    next_channel(&mut a);
    let mut plain = hub.subscribe(&["load.*"], 1);
    let ((at_hot, hot_rings), (at_cold, cold_rings)) = (bell(), bell());
    assert!(hot.ring(&at_hot) && cold.ring(&at_cold));
    assert!(!plain.ring(&at_cold), "rows of plain series come at known times");
    grant(&mut a, hot_number, 5);
    a.beat();
    let rings = |of: &AtomicU64| of.load(Ordering::Acquire);
    assert_eq!((rings(&hot_rings), rings(&cold_rings)), (0, 0), "no row has come");
    a.row(3, [1; 4]).beat();
    assert_eq!((rings(&hot_rings), rings(&cold_rings)), (1, 0));
    // It can be polled from the ring on.
    assert_eq!(Got::default().poll(&mut *hot).seconds, [3]);
    a.row(4, [2; 4]).row(5, [3; 4]).beat();
    assert_eq!(rings(&hot_rings), 3);
    // Another door shares the node's subscription, and has a bell of its own.
    let mut other = hub.query.subscribe(channel("hot", &[1])).unwrap();
    let (at_other, other_rings) = bell();
    assert!(other.ring(&at_other));
    drop(hot);
    a.row(6, [4; 4]).beat();
    assert_eq!((rings(&hot_rings), rings(&other_rings)), (3, 1), "who has gone is not woken");
    // A node that comes later.
    let mut b = node(&hub, "b");
    assert_eq!(rings(&other_rings), 2, "the door asks it for the channel");
    let mut got = Got::default();
    got.poll(&mut *other);
    let number = b.await_frame(|frame| match frame {
        Frame::Interest(interest) if interest.channel?.name == "hot" => Some(interest.number),
        _ => None,
    });
    grant(&mut b, number, 6);
    b.row(7, [5; 4]).beat();
    assert_eq!(rings(&other_rings), 3);
}

#[test]
fn what_is_to_be_noticed_of_a_node_rings_for_the_doors_that_follow_a_channel_there() {
    let hub = Hub::new();
    let mut a = node(&hub, "a");
    let mut door = hub.query.subscribe(channel("hot", &[1])).unwrap();
    let interest = next_channel(&mut a).0;
    let (at_door, rung) = bell();
    assert!(door.ring(&at_door));
    // The reader that a bell wakes finds the notice.
    let told = |door: &mut dyn Subscription, rings: u64, expected: &str| {
        until(expected, || rung.load(Ordering::Acquire) == rings);
        door.poll();
        let notices: Vec<String> = door.notices().into_iter().map(|notice| notice.text).collect();
        assert!(notices.len() == 1 && notices[0].starts_with(expected), "{notices:?}");
    };
    let text = "channel hot: 4 MiB of windows are in use";
    Told { interest, granted: false, period: Nanos(0), text, lane: 0, refused_by: "" }.put(&mut a.out);
    a.beat();
    told(&mut *door, 1, text);
    drop(a);
    told(&mut *door, 2, "is down since");
    let _back = node(&hub, "a");
    told(&mut *door, 3, "is back since");
}

#[test]
fn a_reader_of_a_channel_gets_every_row_since_it_came_and_none_from_before() {
    let hub = Hub::new();
    let mut a = node(&hub, "a");
    // The lane has rows already: another hub had it.
    a.encoder.resume(7, 1);
    let mut doors = vec![(hub.query.subscribe(channel("hot", &[1])).unwrap(), Got::default())];
    let number = next_channel(&mut a).0;
    let mut first = reader(&hub);
    let mut at_first = Received::default();
    // Doors and readers that want each row at once share a subscription.
    ask(&mut first, 1, 100, "hot", false);
    at_first.read_until(&mut first, |got| !got.told.is_empty());
    assert_eq!(grant(&mut a, number, 5).from_row, 7);
    a.beat();
    a.row(10, [1; 4]).beat();
    at_first.read_until(&mut first, |got| !got.rows.is_empty());
    for (second, count) in [(20, 3), (21, 1), (22, 2)] {
        doors.push((hub.query.subscribe(channel("hot", &[1])).unwrap(), Got::default()));
        (0..count).for_each(|n| {
            a.row(second + 10 * n, [n; 4]);
        });
        a.end().beat();
    }
    let mut last = reader(&hub);
    ask(&mut last, 1, 100, "hot", false);
    let mut at_last = Received::default();
    at_last.read_until(&mut last, |got| !got.told.is_empty());
    khz_link::Beat { stamp: fake::AWAITED, round_trip: None, offset: 0, retransmits: 0 }.put(&mut last.out);
    at_last.read_until(&mut last, |_| true);
    a.row(99, [9; 4]).end().beat();
    let all = [10, 20, 30, 40, 21, 22, 32, 99];
    for (begins, (door, got)) in [0, 1, 4, 5].into_iter().zip(&mut doors) {
        until("the last row came", || got.poll(&mut **door).seconds.last() == Some(&99));
        assert_eq!((&got.seconds[..], got.lost), (&all[begins..], 0));
    }
    at_first.read_until(&mut first, |got| got.rows.last().is_some_and(|row| row.1 == 99));
    let numbered: Vec<(u64, u64)> = (7..).zip(all).collect();
    assert_eq!((at_first.rows, at_first.lost), (numbered.clone(), 0));
    at_last.read_until(&mut last, |got| !got.rows.is_empty());
    assert_eq!((at_last.rows, at_last.lost), (numbered[7..].to_vec(), 0), "no old row comes first");
}

#[test]
fn rows_that_a_node_made_while_it_had_no_connection_come_when_it_is_back() {
    let hub = Hub::new();
    let mut a = node(&hub, "a");
    let mut door = hub.query.subscribe(channel("hot", &[1])).unwrap();
    let number = next_channel(&mut a).0;
    grant(&mut a, number, 5);
    let mut got = Got::default();
    a.row(1, [1; 4]).row(2, [1; 4]).beat();
    until("two rows", || got.poll(&mut *door).seconds.len() == 2);
    // One reader comes while the node is away: it gets only what is new then.
    let mut encoder = std::mem::replace(&mut a.encoder, khz_block::Encoder::new(0, 1, Nanos::SECOND));
    drop(a);
    until("it is away", || hub.query.status().iter().all(|node| !node.up));
    let mut late = hub.query.subscribe(channel("hot", &[1])).unwrap();
    encoder.close();
    let mut a = comes(&hub, "a", ABILITIES);
    a.encoder.resume(4, 1);
    let again = next_channel(&mut a).0;
    assert_eq!(again, number);
    let want = grant(&mut a, number, 5);
    assert_eq!((want.from_row, want.span), (2, Nanos(u64::MAX)), "what is missing, however old");
    // The block with the rows 2 and 3 has come before row 4.
    a.encoder.resume(2, 1);
    a.row(3, [1; 4]).row(4, [1; 4]).row(5, [1; 4]).beat();
    until("all rows", || got.poll(&mut *door).seconds.len() == 5);
    assert_eq!((&got.seconds[..], got.lost), (&[1, 2, 3, 4, 5][..], 0));
    let mut of_late = Got::default();
    until("the new rows", || of_late.poll(&mut *late).seconds.last() == Some(&5));
    assert_eq!(of_late.lost, 0);
}

/// The numbers of rows that came in Block and Rows, and of those in Lost, with one Want for each lane that is offered.
fn rows_in_order(reader: &mut Node, from_row: u64, count: usize) -> (Vec<u64>, Vec<(u64, u64)>) {
    let (mut got, mut lost) = (Received::default(), Vec::new());
    while got.rows.len() < count {
        let mut wanted = None;
        let took = reader.next(|frame| match &frame {
            Frame::Lane(offer) => wanted = Some((offer.lane, offer.epoch)),
            Frame::Schema(_) => {}
            Frame::Block { bytes, .. } | Frame::Rows { bytes, .. } => got.rows(bytes),
            Frame::Past { .. } => panic!("a reader that takes no late rows gets none"),
            Frame::Lost { from, to, .. } => lost.push((*from, *to)),
            _ => {}
        });
        took.expect("the hub goes on");
        if let Some((lane, epoch)) = wanted {
            Want { epoch, from_row, prompt: true, ..Want::default() }.put(lane, &mut reader.out);
            reader.send();
        }
    }
    (got.rows.into_iter().map(|(number, _)| number).collect(), lost)
}

/// A reader gets the rows 0 and 1, and goes. Meanwhile the node makes the rows 2 to 7. The reader comes back, and the hub asks for those
/// from 8 on; row 8 has come.
fn reader_that_comes_back(hub: &Hub) -> (Node, Node) {
    let mut a = node(hub, "a");
    let mut first = reader(hub);
    ask(&mut first, 1, 100, "hot", false);
    let number = next_channel(&mut a).0;
    grant(&mut a, number, 5);
    a.row(1, [1; 4]).row(2, [2; 4]).beat();
    assert_eq!(rows_in_order(&mut first, 0, 2), (vec![0, 1], vec![]));
    drop(first);
    assert_eq!(dismissed(&mut a), number);
    khz_link::put::closed(&mut a.out, a.lane);
    let mut back = reader(hub);
    ask(&mut back, 1, 100, "hot", false);
    let number = next_channel(&mut a).0;
    a.end();
    a.out.clear();
    a.encoder.resume(8, 1);
    assert_eq!(grant(&mut a, number, 5).from_row, 8);
    a.row(9, [9; 4]).beat();
    (a, back)
}

#[test]
fn a_reader_that_comes_back_gets_the_rows_since_then_in_their_order_and_hears_of_those_that_the_node_lost() {
    let hub = Hub::new();
    // Of the rows 2 to 7 the node has 4 and 5 no more.
    let (mut a, mut back) = reader_that_comes_back(&hub);
    let asker = std::thread::spawn(move || rows_in_order(&mut back, 2, 6));
    let asked = a.await_frame(|frame| match frame {
        Frame::Again { lane, from, to } => Some((*lane, *from, *to)),
        _ => None,
    });
    assert_eq!(asked, (a.lane, 2, 8));
    // The newest block first, as a node sends them, and newer rows meanwhile.
    a.row(10, [1; 4]).past(7..9, 6).past(3..5, 2);
    khz_link::put::lost(&mut a.out, a.lane, 4, 6);
    a.beat();
    let (rows, lost) = asker.join().unwrap();
    assert_eq!((&rows[..], &lost[..]), (&[2, 3, 6, 7, 8, 9][..], &[(4, 6)][..]));
}

#[test]
fn rows_behind_others_that_are_missing_come_though_the_node_has_gone_and_nothing_else_does() {
    let hub = Hub::new();
    let (mut a, mut back) = reader_that_comes_back(&hub);
    let asker = std::thread::spawn(move || rows_in_order(&mut back, 2, 1));
    a.await_frame(|frame| matches!(frame, Frame::Again { .. }).then_some(()));
    drop(a);
    assert_eq!(asker.join().unwrap(), (vec![8], vec![(2, 8)]));
}

#[test]
fn a_channel_that_is_kept_is_followed_without_a_reader_and_its_rows_go_into_the_log() {
    let folder = std::env::temp_dir().join(format!("khz-hub-kept-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let (mut log, intake, _) = Log::open(&folder).unwrap();
    let mut rows = || {
        log.commit().unwrap();
        log.view().size().0
    };
    let hub = Hub::new();
    hub.cluster.log_to(intake);
    let mut keeper = ChannelKeeper::new(hub.cluster.clone());
    keeper.keep(vec![channel("hot", &[1])]);
    assert!(keeper.tend().is_empty());
    // The node comes later, and its lane has rows that the log lacks: an earlier hub had it.
    let mut a = node(&hub, "a");
    assert!(keeper.tend().is_empty());
    let number = next_channel(&mut a).0;
    a.encoder.resume(7, 1);
    let want = grant(&mut a, number, 5);
    assert_eq!((want.epoch, want.from_row, want.span, want.have), (5, 0, Nanos(u64::MAX), vec![]));
    a.row(10, [1; 4]).row(11, [2; 4]).end().row(12, [3; 4]).end().beat();
    // The last block is open until another one begins.
    a.row(13, [4; 4]).beat();
    assert_eq!(rows(), 3);
    // A reader shares the lane. When the channel is not kept any more, what has come is in the log, and nothing more.
    let mut door = hub.query.subscribe(channel("hot", &[1])).unwrap();
    assert_eq!(heard(&mut a), [""; 0]);
    keeper.keep(Vec::new());
    assert_eq!(rows(), 4);
    a.end().row(14, [5; 4]).end().row(15, [6; 4]).beat();
    let mut got = Got::default();
    until("the reader has them", || got.poll(&mut *door).seconds.last() == Some(&15));
    assert_eq!(rows(), 4);
    // Kept again, beside the reader that is there.
    keeper.keep(vec![channel("hot", &[1])]);
    assert!(keeper.tend().is_empty());
    assert_eq!(heard(&mut a), [""; 0]);
    a.end().row(16, [7; 4]).end().row(17, [8; 4]).beat();
    assert!(rows() > 4);
    drop((keeper, door));
    assert_eq!(heard(&mut a)[0], "Dismiss");
    let _ = std::fs::remove_dir_all(&folder);
}

#[test]
fn a_channel_that_a_node_refuses_is_a_notice_and_no_other_rows_come_in_its_place() {
    let hub = Hub::new();
    let mut a = node(&hub, "a");
    a.offer(1, 0);
    let mut old = node_with(&hub, "old", ABILITIES & !KNOWS_CHANNELS);
    old.offer(1, 0);
    let mut door = hub.query.subscribe(channel("hot", &[1])).unwrap();
    let mut link = reader(&hub);
    ask(&mut link, 1, 100, "hot", false);
    let text = "channel hot: 4 MiB of windows are in use";
    let interest = next_channel(&mut a).0;
    Told { interest, granted: false, period: Nanos(0), text, lane: 0, refused_by: "" }.put(&mut a.out);
    a.send();
    a.row(1, [1; 4]).beat();
    old.row(1, [1; 4]).beat();
    let mut notices = Vec::new();
    let mut rows = 0;
    until("both are refused", || {
        rows += door.poll().len();
        notices.extend(door.notices().into_iter().map(|notice| format!("{}: {}", notice.node, notice.text)));
        notices.len() == 2
    });
    notices.sort();
    let expected = [format!("a: {text}"), "old: its khz is older than channels: update it".to_owned()];
    assert_eq!(notices, expected);
    let mut received = Received::default();
    received.read_until(&mut link, |got| got.told.len() == 3);
    received.told.sort();
    assert_eq!(
        received.told,
        [String::new(), expected[0].clone(), expected[1].clone()].map(|text| (true, text))
    );
    a.row(2, [2; 4]).beat();
    rows += door.poll().len();
    assert_eq!((rows, received.rows.len()), (0, 0));
    assert!(!heard(&mut old).contains(&"Channel"));
}

#[test]
fn a_channel_that_a_node_refused_for_a_while_comes_when_it_has_room_and_its_readers_hear_that() {
    let hub = Hub::new();
    let mut a = node(&hub, "a");
    a.offer(1, 0);
    let mut door = hub.query.subscribe(channel("hot", &[1])).unwrap();
    let mut link = reader(&hub);
    ask(&mut link, 1, 100, "hot", false);
    let interest = next_channel(&mut a).0;
    let text = "channel hot: no memory for its windows";
    Told { interest, granted: false, period: Nanos(0), text, lane: 0, refused_by: "" }.put(&mut a.out);
    a.beat();
    let mut notices = Vec::new();
    let mut hear = |door: &mut dyn Subscription| {
        notices.extend(door.notices().into_iter().map(|notice| (notice.is_refusal, notice.text)));
        notices.last().cloned()
    };
    until("it is refused", || hear(&mut *door) == Some((true, text.to_owned())));
    let mut received = Received::default();
    received.read_until(&mut link, |got| got.told.len() == 2);
    grant(&mut a, interest, 5);
    a.row(1, [1; 4]).row(2, [2; 4]).beat();
    let mut got = Got::default();
    until("rows come", || got.poll(&mut *door).seconds == [1, 2]);
    let granted = (false, "sends the channel now".to_owned());
    until("the notice", || hear(&mut *door) == Some(granted.clone()));
    received.read_until(&mut link, |got| got.rows.len() == 2);
    assert!(received.told.contains(&(true, format!("a: {}", granted.1))), "{:?}", received.told);
    assert_eq!(got.lost, 0);
}

#[test]
fn a_node_that_comes_back_and_refuses_a_channel_again_is_heard_again() {
    let hub = Hub::new();
    let mut a = node(&hub, "a");
    a.offer(1, 0);
    let mut door = hub.query.subscribe(channel("hot", &[1])).unwrap();
    let mut link = reader(&hub);
    ask(&mut link, 1, 100, "hot", false);
    let (mut received, mut notices) = (Received::default(), Vec::new());
    let text = "this node takes no channels";
    for connection in 1..=3 {
        let interest = next_channel(&mut a).0;
        Told { interest, granted: false, period: Nanos(0), text, lane: 0, refused_by: "" }.put(&mut a.out);
        a.beat();
        until("it is refused", || {
            notices.extend(door.notices().into_iter().filter(|notice| notice.is_refusal));
            notices.len() == connection
        });
        // A hub above this one hears it, too.
        received.read_until(&mut link, |got| {
            got.told.iter().filter(|(_, told)| *told == format!("a: {text}")).count() == connection
        });
        drop(a);
        a = comes(&hub, "a", ABILITIES);
    }
    assert!(notices.iter().all(|notice| notice.text == text));
}

#[test]
fn readers_hear_which_series_of_a_channel_a_node_leaves_out_and_when_it_has_all_again() {
    let hub = Hub::new();
    let mut a = node(&hub, "a");
    a.offer(1, 0);
    let mut door = hub.query.subscribe(channel("hot", &[1])).unwrap();
    let interest = next_channel(&mut a).0;
    grant(&mut a, interest, 5);
    let mut notices = Vec::new();
    let mut hear = |door: &mut dyn Subscription| {
        notices.extend(door.notices().into_iter().map(|notice| notice.text));
        notices.clone()
    };
    let lane = a.lane;
    let mut says = |text: &str, heard: usize| {
        let period = Nanos::from_millis(10);
        Told { interest, granted: true, period, text, lane, refused_by: "" }.put(&mut a.out);
        a.row(1, [1; 4]).beat();
        until("the notice", || hear(&mut *door).len() == heard);
        hear(&mut *door)
    };
    let lacks = "sends 3 of 4 series, without net.rx_bytes[eth3]: there is no memory";
    says(lacks, 1);
    assert_eq!(says("sends 2 of 4 series", 2), [lacks, "sends 2 of 4 series"]);
    assert_eq!(says("", 3).last().map(String::as_str), Some("sends the channel now"));
}

#[test]
fn a_node_hears_what_the_hub_wants_for_itself_if_it_knows_such_a_thing() {
    let hub = Hub::new();
    let mut knows = node(&hub, "knows");
    let mut older = node_with(&hub, "older", ABILITIES & !KNOWS_OWN);
    let _door = hub.query.subscribe(channel("hot", &[1])).unwrap();
    let mut keeper = ChannelKeeper::new(hub.cluster.clone());
    keeper.keep(vec![channel("kept", &[1])]);
    assert!(keeper.tend().is_empty());
    let next = |node: &mut Node| {
        node.await_frame(|frame| match frame {
            Frame::Interest(ask) => Some((ask.number, ask.channel?.name.to_owned(), ask.own)),
            _ => None,
        })
    };
    let (number, name, own) = next(&mut knows);
    assert_eq!((&*name, own), ("hot", false));
    assert_eq!(
        (next(&mut knows).1, next(&mut older).2, next(&mut older).2),
        ("kept".to_owned(), false, false)
    );
    // What a reader was refused is asked for again when the store wants it, too.
    let text = "no memory";
    Told { interest: number, granted: false, period: Nanos(0), text, lane: 0, refused_by: "" }
        .put(&mut knows.out);
    knows.beat();
    keeper.keep(vec![channel("kept", &[1]), channel("hot", &[1])]);
    assert!(keeper.tend().iter().any(|(_, notice)| notice.text.contains(text)), "the refusal of before");
    assert_eq!(next(&mut knows), (number, "hot".to_owned(), true));
}

#[test]
fn a_channel_waits_for_a_place_at_a_node_that_has_too_many_subscriptions() {
    let hub = Hub::new();
    let mut a = node(&hub, "a");
    a.offer(1, 0);
    let mut others: Vec<_> = (0..56).map(|n| hub.query.subscribe(channel("hot", &[n])).unwrap()).collect();
    let mut door = hub.query.subscribe(channel("cold", &[1])).unwrap();
    let notices: Vec<String> = door.notices().into_iter().map(|notice| notice.text).collect();
    let text = "has too many different subscriptions; its rows come when other readers have gone";
    assert_eq!(notices, [text]);
    a.row(1, [1; 4]).beat();
    assert!(door.poll().is_empty(), "it shows no base lane");
    others.pop();
    a.row(2, [1; 4]).beat();
    assert!(door.poll().is_empty());
    let number = loop {
        let (number, name, _) = next_channel(&mut a);
        if name == "cold" {
            break number;
        }
    };
    a.lane = 2;
    a.encoder = khz_block::Encoder::new(0, 1, Nanos::SECOND);
    grant(&mut a, number, 9);
    a.row(3, [3; 4]).beat();
    let mut got = Got::default();
    until("its row came", || got.poll(&mut *door).seconds == [3]);
    let mut heard = door.notices().into_iter().map(|notice| notice.text);
    assert!(heard.any(|text| text == "sends the channel now"));
}

#[test]
fn who_comes_later_to_a_channel_of_states_gets_its_newest_row_first_and_of_events_only_new_ones() {
    let band = || Some(khz_plan::Deadband { absolute: 1.0, relative: 0.0 });
    let plan = khz_promql::compile("node_load1 > 2").unwrap();
    let event = khz_plan::When { plan: Some(plan), once: true, ..khz_plan::When::default() };
    for (when, first) in [(None, 2), (Some(event), 3)] {
        let mut handler = Vec::new();
        khz_plan::Handler { deadband: band(), when, ..khz_plan::Handler::default() }.put(&mut handler);
        assert!(khz_plan::Handler::take(&handler).is_ok());
        let hub = Hub::new();
        let mut a = node(&hub, "a");
        let mut door = hub.query.subscribe(channel("hot", &handler)).unwrap();
        let number = next_channel(&mut a).0;
        grant(&mut a, number, 5);
        a.row(1, [1; 4]).row(2, [2; 4]).beat();
        let mut got = Got::default();
        until("its rows", || got.poll(&mut *door).seconds == [1, 2]);
        let mut later = hub.query.subscribe(channel("hot", &handler)).unwrap();
        let mut link = reader(&hub);
        let frame = Some(ChannelFrame { name: "hot", handler: &handler });
        let (period, patterns) = (Nanos::from_millis(10), &["load.*"]);
        Ask { number: 1, period, prompt: true, channel: frame, patterns, ..Ask::default() }
            .put(&mut link.out);
        link.send();
        let mut of_later = Got::default();
        if first == 2 {
            until("the state", || of_later.poll(&mut *later).seconds == [2]);
        }
        let mut received = Received::default();
        received.read_until(&mut link, |got| !got.told.is_empty());
        a.row(3, [3; 4]).beat();
        until("the new row", || of_later.poll(&mut *later).seconds.last() == Some(&3));
        received.read_until(&mut link, |got| got.rows.last().is_some_and(|row| row.1 == 3));
        assert_eq!((of_later.seconds[0], of_later.lost), (first, 0));
        assert_eq!((received.rows[0].1, received.lost), (first, 0));
    }
}

#[test]
fn readers_do_not_take_the_places_of_channels_that_the_store_keeps() {
    let hub = Hub::new();
    let mut a = node(&hub, "a");
    a.offer(1, 0);
    let of_readers: Vec<_> = (0..57).map(|n| hub.query.subscribe(channel("hot", &[n])).unwrap()).collect();
    let mut keeper = ChannelKeeper::new(hub.cluster.clone());
    keeper.keep(vec![channel("kept", &[1])]);
    assert!(keeper.tend().is_empty());
    let asked: Vec<String> = (0..57).map(|_| next_channel(&mut a).1).collect();
    assert_eq!(asked.iter().filter(|name| *name == "hot").count(), 56);
    assert_eq!(asked.last().map(String::as_str), Some("kept"));
    drop(of_readers);
}

#[test]
fn a_lane_too_many_is_refused_and_the_node_stays() {
    let hub = Hub::new();
    let mut a = node(&hub, "a");
    a.offer(1, 0);
    a.row(1, [1; 4]).beat();
    let base = a.lane;
    for lane in 0..LANES_MAX as u32 - 1 {
        a.lane = 10 + lane;
        a.put_offer(&format!("lane{lane}"), 3, 0, 0);
    }
    let mut door = hub.query.subscribe(channel("hot", &[1])).unwrap();
    let number = next_channel(&mut a).0;
    a.lane = 10_000;
    a.put_offer("channel.hot", 3, 0, number);
    let lane = a.lane;
    Told { interest: number, granted: true, period: Nanos::SECOND, text: "", lane, refused_by: "" }
        .put(&mut a.out);
    a.send();
    let mut notices = Vec::new();
    until("the reader hears why", || {
        notices.extend(door.notices().into_iter().map(|notice| notice.text));
        !notices.is_empty()
    });
    assert_eq!(notices, [format!("the hub has {LANES_MAX} lanes of this node, and takes no more")]);
    // The node is there, and its base lane goes on.
    a.lane = base;
    a.row(2, [2; 4]).beat();
    let mut plain = hub.query.subscribe(interest(&["load.*"], 1)).unwrap();
    let mut got = Got::default();
    a.row(3, [3; 4]).beat();
    until("its rows come", || got.poll(&mut *plain).seconds.last() == Some(&3));
}

#[test]
fn what_no_reader_may_ask_for_is_refused_and_the_connection_goes_on() {
    let key = ClusterKey::from_bytes([3; 32]);
    let copy = ClusterKey::from_bytes([3; 32]);
    let hub = Hub::with(0, |door| door.key = Some(copy));
    for (role, link_role, is_operator) in
        [(khz_trust::Role::Reader, Role::Reader, false), (khz_trust::Role::Operator, Role::Operator, true)]
    {
        let mut reader = Node::connect(hub.address(), "r");
        (reader.abilities, reader.version) = (ABILITIES, VERSION);
        let proof = key.token(role, &NodeName::new("r").unwrap()).proof(&reader.nonce);
        reader.hello_as(link_role, Some(proof));
        ask(&mut reader, 1, 1_000, "hot", false);
        ask(&mut reader, 2, 2_000, "hot", false);
        ask(&mut reader, 3, 100, "Hot", false);
        ask(&mut reader, 4, 100, "hot", true);
        ask(&mut reader, 5, 100, "hot", false);
        let mut received = Received::default();
        received.read_until(&mut reader, |got| got.told.len() == 5);
        received.told.sort();
        let parts: &[&str] = match is_operator {
            false => &["no stored rows", "operator role", "operator role", "small letter"],
            true => &["no stored rows", "above this hub's ceiling", "small letter"],
        };
        let refused: Vec<_> = received.told.iter().filter(|(granted, _)| !granted).collect();
        assert_eq!(refused.len(), parts.len(), "{refused:?}");
        for part in parts {
            assert!(refused.iter().any(|(_, text)| text.contains(part)), "{part}: {refused:?}");
        }
    }
}

#[test]
fn a_door_is_refused_a_handler_that_no_frame_carries() {
    let hub = Hub::new();
    assert!(hub.query.subscribe(channel("hot", &[0; HANDLER_BYTES_MAX])).is_ok());
    let refused = hub.query.subscribe(channel("hot", &[0; HANDLER_BYTES_MAX + 1]));
    let Err(QueryError::Channel { channel, problem, .. }) = refused else { panic!("it is too long") };
    assert_eq!((channel.as_str(), &problem[..]), ("hot", "the handler has 32769 bytes, and may have 32768"));
}

#[test]
fn a_reader_may_name_a_channel_that_the_hub_keeps() {
    let hub = Hub::new();
    hub.cluster.know_channels(Arc::new(Keeps(|name: &ChannelName| {
        let interest =
            |hz| Interest { rate: khz_model::Rate::from_hz(hz).unwrap(), ..channel("hot", &[7, 7]) };
        match name.as_str() {
            "hot" => Some(interest(100)),
            "fast" => Some(interest(1_000)),
            _ => None,
        }
    })));
    let mut a = node(&hub, "a");
    a.offer(1, 0);
    let key_is_missing = "above 100Hz the operator role is needed";
    let mut reader = reader(&hub);
    let mut name = |number, name| {
        let channel = Some(ChannelFrame { name, handler: &[] });
        let (period, patterns) = (Nanos::SECOND, &["*"]);
        Ask { number, period, prompt: true, channel, patterns, ..Ask::default() }.put(&mut reader.out);
        reader.send();
        reader.await_frame(|frame| match frame {
            Frame::Told(told) if told.interest == number => {
                Some((told.granted, told.period, told.text.to_owned()))
            }
            _ => None,
        })
    };
    // At its own rate, whatever the frame says.
    assert_eq!(name(1, "hot"), (true, Nanos::from_millis(10), String::new()));
    let (granted, _, text) = name(2, "cold");
    assert_eq!((granted, &text[..]), (false, "there is no channel cold; `khz channel list` shows all"));
    let (granted, _, text) = name(3, "fast");
    assert!(!granted && text.contains(key_is_missing), "{text}");
    let (_, name, handler) = next_channel(&mut a);
    assert_eq!((&name[..], &handler[..]), ("hot", &[7, 7][..]));
}

/// Keeps one channel, whose handler is its revision; 0: it is removed.
#[derive(Default)]
struct Changing(AtomicU64);

impl KnownChannels for Changing {
    fn find(&self, name: &ChannelName) -> Option<Interest> {
        let revision = self.revision() as u8;
        (revision > 0 && name.as_str() == "hot").then(|| channel("hot", &[revision]))
    }
    fn revision(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
    fn list(&self) -> Vec<KnownChannel> {
        let json = self.revision().to_string();
        vec![KnownChannel { name: "hot".to_owned(), json }]
    }
}

#[test]
fn a_reader_hears_of_a_new_definition_before_the_lane_of_the_former_one_ends() {
    let (hub, kept) = (Hub::new(), Arc::new(Changing(AtomicU64::new(1))));
    hub.cluster.know_channels(kept.clone());
    let mut a = node(&hub, "a");
    let mut reader = reader(&hub);
    khz_link::definition::put_wanted(&mut reader.out, true);
    let channel = Some(ChannelFrame { name: "hot", handler: &[] });
    let (number, period, patterns) = (1, Nanos::SECOND, &["*"]);
    Ask { number, period, prompt: true, channel, patterns, ..Ask::default() }.put(&mut reader.out);
    reader.send();
    let (before, _, _) = next_channel(&mut a);
    grant(&mut a, before, 5);
    let mut received = Received::default();
    received.read_until(&mut reader, |received| !received.told.is_empty());
    a.row(3, [1; 4]).beat();
    received.read_until(&mut reader, |received| received.rows.len() == 1);
    kept.0.store(2, Ordering::Relaxed);
    let first = reader.await_frame(|frame| match frame {
        Frame::Definition(defined) if defined.json == "2" => Some("the definition"),
        Frame::Closed { .. } => Some("the end of the lane"),
        _ => None,
    });
    assert_eq!(first, "the definition");
}

#[test]
fn a_reader_that_has_named_a_channel_gets_the_rows_of_its_present_definition() {
    let (hub, kept) = (Hub::new(), Arc::new(Changing(AtomicU64::new(1))));
    hub.cluster.know_channels(kept.clone());
    let mut a = node(&hub, "a");
    let mut reader = reader(&hub);
    let channel = Some(ChannelFrame { name: "hot", handler: &[] });
    let (number, period, patterns) = (1, Nanos::SECOND, &["*"]);
    Ask { number, period, prompt: true, channel, patterns, ..Ask::default() }.put(&mut reader.out);
    reader.send();
    let (before, _, handler) = next_channel(&mut a);
    assert_eq!(handler, [1]);
    grant(&mut a, before, 5);
    let mut received = Received::default();
    received.read_until(&mut reader, |received| !received.told.is_empty());
    a.row(3, [1; 4]).row(4, [2; 4]).beat();
    received.read_until(&mut reader, |received| received.rows.len() == 2);
    // It is changed: with its next Beat at the latest the reader goes over to another lane, under the same number.
    kept.0.store(2, Ordering::Relaxed);
    let (after, name, handler) = next_channel(&mut a);
    assert_eq!((&name[..], &handler[..]), ("hot", &[2][..]));
    assert_ne!(before, after);
    a.end();
    a.lane += 1;
    grant(&mut a, after, 6);
    a.row(9, [3; 4]).row(70, [4; 4]).beat();
    received.read_until(&mut reader, |received| received.rows.len() == 4);
    assert_eq!(received.rows, [(0, 3), (1, 4), (2, 9), (3, 70)], "each lane has numbers of its own");
    assert_eq!((received.closed, received.lost), (1, 0));
    assert!(received.told.iter().all(|(granted, text)| *granted && text.is_empty()), "{:?}", received.told);
    // It is removed.
    kept.0.store(0, Ordering::Relaxed);
    received.read_until(&mut reader, |received| received.told.iter().any(|(granted, _)| !granted));
    assert_eq!(
        received.told.last().map(|(_, text)| &text[..]),
        Some("there is no channel hot; `khz channel list` shows all")
    );
    assert_eq!(received.closed, 2);
}

#[test]
fn a_reader_gets_the_list_of_channels_and_a_node_may_not_ask_for_it() {
    let hub = Hub::new();
    hub.cluster.know_channels(Arc::new(Keeps(|_: &ChannelName| None)));
    let mut reader = reader(&hub);
    khz_link::definition::put_wanted(&mut reader.out, true);
    reader.send();
    let mut listed = Vec::new();
    let count = reader.await_frame(|frame| match frame {
        Frame::Definition(defined) => {
            listed.push((defined.name.to_owned(), defined.json.to_owned()));
            None
        }
        Frame::Definitions { count } => Some(*count),
        _ => None,
    });
    assert_eq!((listed, count), (vec![("hot".to_owned(), "{\"name\":\"hot\"}".to_owned())], 1));
    let mut a = node(&hub, "a");
    khz_link::definition::put_wanted(&mut a.out, true);
    a.send();
    assert!(a.is_closed(), "only readers may");
}
