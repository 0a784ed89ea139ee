//! Rows on their way through a hub to readers that count them as the node does: each comes once, or is known to be
//! missing,
//! or lost; whatever comes late, is cut off or comes back.

#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
mod fake;

use std::collections::{BTreeMap, BTreeSet};

use fake::{Hub, Node, until};
use khz_block::{Decoder, HEADER_BYTES, Header, Step};
use khz_link::{Ask, Frame, Role, Want};
use khz_model::{Nanos, Query};

/// What a reader knows of one lane.
#[derive(Default)]
struct Lane {
    node: String,
    epoch: u64,
    next_row: u64,
    period: Nanos,
    open: Vec<u8>,
    past: Vec<u8>,
    /// Second of each row, by its number; a row that comes twice is an error.
    rows: BTreeMap<u64, u64>,
    /// The wall-clock time of each row.
    times: BTreeMap<u64, u64>,
    lost: BTreeSet<u64>,
    closed: bool,
}

impl Lane {
    /// The numbers between the first and the last row that are neither here nor lost.
    fn missing(&self) -> Vec<u64> {
        let Some((&first, &last)) =
            self.rows.first_key_value().zip(self.rows.last_key_value()).map(|(f, l)| (f.0, l.0))
        else {
            return Vec::new();
        };
        (first..last).filter(|row| !self.rows.contains_key(row) && !self.lost.contains(row)).collect()
    }

    fn take(&mut self, bytes: &[u8]) {
        let (mut decoder, mut at) = (Decoder::new(), 0);
        while let Ok(Step::Header(length) | Step::Row(length)) = decoder.step(&bytes[at..]) {
            at += length;
            let header = *decoder.header().unwrap();
            let Some(row) = decoder.next_row().checked_sub(1).filter(|row| *row >= header.first_row) else {
                continue;
            };
            let second = decoder.stamp().boot.0 / 1_000_000_000;
            self.times.insert(row, decoder.stamp().real().0);
            let known = self.rows.insert(row, second);
            assert!(known.is_none_or(|known| known == second), "row {row} is two");
        }
    }
}

/// A reader of the second version.
struct Reader {
    node: Node,
    lanes: BTreeMap<u32, Lane>,
    /// What it wants of a lane that is offered.
    want: Box<dyn Fn(&Lane) -> Want>,
}

impl Reader {
    fn new(hub: &Hub, want: impl Fn(&Lane) -> Want + 'static) -> Self {
        let mut node = Node::connect(hub.address(), "r");
        node.version = 2;
        node.hello_as(Role::Reader, None);
        Reader { node, lanes: BTreeMap::new(), want: Box::new(want) }
    }

    /// Subscribes to `mem.free`, with this many seconds between two rows.
    fn subscribe(&mut self, seconds: u64) -> &mut Self {
        self.subscribe_to(1, seconds, "mem.free")
    }

    fn subscribe_to(&mut self, number: u32, seconds: u64, pattern: &str) -> &mut Self {
        let ask = Ask { number, period: Nanos::from_secs(seconds), patterns: &[pattern], ..Ask::default() };
        ask.put(&mut self.node.out);
        self.node.send();
        self
    }

    /// Reads until it is so.
    fn until(&mut self, what: &str, is_so: impl Fn(&BTreeMap<u32, Lane>) -> bool) {
        while !is_so(&self.lanes) {
            let (lanes, want) = (&mut self.lanes, &self.want);
            let mut said = Vec::new();
            let more = self.node.next(|frame| take(&frame, lanes, want, &mut said));
            assert!(more.is_some(), "the hub has closed, and never was: {what}");
            self.node.out.extend_from_slice(&said);
            self.node.send();
        }
    }

    /// The one lane that is not over.
    fn lane(&self) -> &Lane {
        self.lanes.values().rev().find(|lane| !lane.closed).unwrap()
    }
}

fn take(frame: &Frame<'_>, lanes: &mut BTreeMap<u32, Lane>, want: &dyn Fn(&Lane) -> Want, out: &mut Vec<u8>) {
    match frame {
        Frame::Lane(offer) => {
            let is_new = !lanes.contains_key(&offer.lane);
            let lane = lanes.entry(offer.lane).or_default();
            (lane.node, lane.epoch) = (offer.node.to_owned(), offer.epoch);
            (lane.next_row, lane.period) = (offer.next_row, offer.period);
            if is_new {
                want(lane).put(offer.lane, out);
            }
        }
        Frame::Block { lane, bytes } => {
            let lane = lanes.get_mut(lane).unwrap();
            lane.open = bytes.to_vec();
            lane.take(&lane.open.clone());
        }
        Frame::Rows { lane, bytes } => {
            let lane = lanes.get_mut(lane).unwrap();
            lane.open.extend_from_slice(bytes);
            lane.take(&lane.open.clone());
        }
        Frame::Past { lane, last, bytes } => {
            let lane = lanes.get_mut(lane).unwrap();
            lane.past.extend_from_slice(bytes);
            if *last {
                let block = std::mem::take(&mut lane.past);
                let header = Header::from_bytes(block[..HEADER_BYTES].try_into().unwrap(), 0).unwrap();
                let (rows, length, crc) = header.closed.unwrap();
                assert_eq!(
                    (length as usize, crc),
                    (block.len() - HEADER_BYTES, crc32(&block[HEADER_BYTES..]))
                );
                let first = header.first_row;
                let twice = lane.rows.range(first..first + u64::from(rows)).next();
                assert_eq!(twice, None, "a row came twice");
                lane.take(&block);
            }
        }
        Frame::Lost { lane, from, to } => lanes.get_mut(lane).unwrap().lost.extend(*from..*to),
        Frame::Closed { lane } => lanes.get_mut(lane).unwrap().closed = true,
        _ => {}
    }
}

fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for &byte in bytes {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = crc >> 1 ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
        }
    }
    !crc
}

/// Everything that comes, late or not.
fn all(lane: &Lane) -> Want {
    let from_row = lane.next_row.saturating_sub(1);
    Want { epoch: lane.epoch, from_row, span: Nanos(u64::MAX), ..Want::default() }
}

/// What comes from now on.
fn new(lane: &Lane) -> Want {
    Want { span: Nanos(0), ..all(lane) }
}

/// A node of the second version with a lane of this epoch whose next row has this number.
fn node(hub: &Hub, epoch: u64, next_row: u64) -> Node {
    let mut node = Node::connect(hub.address(), "a");
    node.version = 2;
    node.encoder.resume(next_row, 1);
    node.hello(None).offer(epoch, 0);
    node
}

#[test]
fn a_reader_sees_the_epoch_and_the_row_numbers_of_the_node() {
    let hub = Hub::with(0, |_| {});
    let mut a = node(&hub, 77, 1_000);
    a.row(1, [1; 4]).row(2, [2; 4]).beat();
    let mut reader = Reader::new(&hub, all);
    reader.subscribe(1).until("the newest row", |lanes| lanes.values().any(|lane| !lane.rows.is_empty()));
    assert_eq!((reader.lane().epoch, reader.lane().next_row), (77, 1_002));
    a.row(3, [3; 4]).end().row(4, [4; 4]).beat();
    reader.until("all rows", |lanes| lanes[&1].rows.len() == 3);
    assert_eq!(reader.lane().rows, [(1_001, 2), (1_002, 3), (1_003, 4)].into());
}

#[test]
fn a_row_has_the_same_time_for_a_reader_as_in_the_block_of_its_node() {
    let hub = Hub::with(0, |_| {});
    let mut a = node(&hub, 77, 1_000);
    a.row(0, [0; 4]).beat();
    let mut reader = Reader::new(&hub, all);
    reader.subscribe(1).until("the newest row", |lanes| lanes.values().any(|lane| !lane.rows.is_empty()));
    let real = |a: &Node, second: u64| second * 1_000_000_000 + a.real_offset as u64;
    let mut expected: BTreeMap<u64, u64> = (0..2).map(|second| (1_000 + second, real(&a, second))).collect();
    a.row(1, [1; 4]).end();
    // The two clocks drift, or their difference was measured a little later.
    a.real_offset += 44;
    expected.extend((2..4).map(|second| (1_000 + second, real(&a, second))));
    a.row(2, [2; 4]).row(3, [3; 4]).beat();
    reader.until("the last row", |lanes| lanes[&1].rows.contains_key(&1_003));
    assert_eq!(reader.lane().times, expected);
}

/// A node whose rows 1,003 to 1,005 do not come with the others, read by this reader.
fn with_a_hole(want: fn(&Lane) -> Want) -> (Hub, Node, Reader) {
    let hub = Hub::with(0, |_| {});
    let mut a = node(&hub, 77, 1_000);
    a.row(0, [0; 4]).beat();
    let mut reader = Reader::new(&hub, want);
    reader.subscribe(1).until("the newest row", |lanes| lanes.values().any(|lane| !lane.rows.is_empty()));
    a.row(1, [1; 4]).row(2, [2; 4]).end();
    a.encoder.resume(1_006, 1);
    a.row(6, [6; 4]).beat();
    reader.until("the row after the hole", |lanes| lanes[&1].rows.contains_key(&1_006));
    (hub, a, reader)
}

#[test]
fn rows_that_are_awaited_are_a_hole_until_they_come_late() {
    let (_hub, mut a, mut reader) = with_a_hole(all);
    assert_eq!((reader.lane().missing(), reader.lane().lost.len()), (vec![1_003, 1_004, 1_005], 0));
    a.past(3..6, 1_003).row(7, [7; 4]).beat();
    reader.until("the hole is filled", |lanes| {
        lanes[&1].missing().is_empty() && lanes[&1].rows.contains_key(&1_007)
    });
    assert!(reader.lane().rows.iter().all(|(row, second)| *row == second + 1_000));
}

#[test]
fn rows_that_the_node_has_lost_are_lost_for_the_reader_too() {
    let (_hub, mut a, mut reader) = with_a_hole(all);
    khz_link::put::lost(&mut a.out, 1, 1_003, 1_005);
    a.past(5..6, 1_005).row(7, [7; 4]).beat();
    reader.until("nothing is missing", |lanes| {
        lanes[&1].missing().is_empty() && lanes[&1].rows.contains_key(&1_007)
    });
    assert_eq!(reader.lane().lost, [1_003, 1_004].into());
}

#[test]
fn a_reader_that_wants_only_new_rows_hears_at_once_which_do_not_come() {
    let (_hub, mut a, mut reader) = with_a_hole(new);
    assert_eq!(reader.lane().lost, [1_003, 1_004, 1_005].into());
    a.past(3..6, 1_003).row(7, [7; 4]).beat();
    reader.until("the next row", |lanes| lanes[&1].rows.contains_key(&1_007));
    assert_eq!(reader.lane().rows.len(), 5, "what came late is lost for it");
}

#[test]
fn a_reader_lacks_no_rows_of_a_node_that_has_none_of_its_series() {
    for want in [new, all] {
        let hub = Hub::with(0, |_| {});
        let mut a = node(&hub, 77, 1_000);
        a.row(0, [0; 4]).beat();
        let mut reader = Reader::new(&hub, want);
        reader.subscribe_to(1, 1, "gpu.none").until("a lane without series", |lanes| lanes.len() == 1);
        reader.subscribe_to(2, 1, "mem.free");
        reader.until("the newest row", |lanes| lanes.values().any(|lane| !lane.rows.is_empty()));
        a.row(1, [1; 4]).end();
        a.encoder.resume(1_004, 1);
        // The node does not have the rows between.
        khz_link::put::lost(&mut a.out, 1, 1_002, 1_004);
        a.row(4, [4; 4]).beat();
        reader.until("which rows are lost", |lanes| lanes[&2].lost == [1_002, 1_003].into());
        assert!(reader.lanes[&1].lost.is_empty() && reader.lanes[&1].rows.is_empty());
    }
}

#[test]
fn what_comes_between_the_offer_of_a_lane_and_its_want_is_not_lost() {
    let hub = Hub::with(0, |_| {});
    let mut a = node(&hub, 77, 1_000);
    a.row(0, [0; 4]).beat();
    let mut reader = Reader::new(&hub, new);
    reader.subscribe(1);
    let offered = reader.node.await_frame(|frame| match frame {
        Frame::Lane(offer) => Some((offer.lane, offer.epoch, offer.next_row)),
        _ => None,
    });
    assert_eq!(offered, (1, 77, 1_001));
    // Another block has begun when the Want comes.
    a.row(1, [1; 4]).end().row(2, [2; 4]).end().row(3, [3; 4]).beat();
    let lane = Lane { epoch: 77, next_row: 1_001, ..Lane::default() };
    new(&lane).put(1, &mut reader.node.out);
    reader.lanes.insert(1, lane);
    reader.node.send();
    reader.until("the newest row", |lanes| lanes[&1].rows.contains_key(&1_003));
    assert_eq!(reader.lane().rows, [(1_000, 0), (1_001, 1), (1_002, 2), (1_003, 3)].into());
    assert!(reader.lane().lost.is_empty());
}

#[test]
fn one_of_three_rows_has_a_number_of_its_own_and_what_is_left_out_is_not_lost() {
    let hub = Hub::with(0, |_| {});
    let mut a = node(&hub, 77, 3);
    a.row(3, [3; 4]).beat();
    let mut reader = Reader::new(&hub, all);
    reader.subscribe(3).until("the newest row", |lanes| lanes.values().any(|lane| !lane.rows.is_empty()));
    assert_eq!((reader.lane().period, reader.lane().next_row), (Nanos::from_secs(3), 2));
    assert_ne!(reader.lane().epoch, 77);
    for second in 4..10 {
        a.row(second, [second; 4]);
    }
    // Rows 10 to 22 are lost but for 14 and 15: of the numbers 3 to 6 there are 4 and 5.
    a.end();
    a.encoder.resume(23, 1);
    a.row(23, [23; 4]).row(24, [24; 4]);
    khz_link::put::lost(&mut a.out, 1, 10, 14);
    khz_link::put::lost(&mut a.out, 1, 16, 23);
    a.past(14..16, 14).beat();
    reader.until("the last row", |lanes| lanes[&1].rows.contains_key(&8) && lanes[&1].missing().is_empty());
    let lane = reader.lane();
    assert_eq!(lane.rows, [(1, 3), (2, 6), (3, 9), (4, 14), (5, 15), (7, 23), (8, 24)].into());
    assert_eq!(lane.lost, [6].into());
}

#[test]
fn what_a_reader_missed_and_the_hub_does_not_have_is_asked_of_the_node() {
    asks_for_what_a_reader_missed(0);
}

#[test]
fn what_a_reader_missed_before_the_time_that_a_hub_remembers_is_asked_of_the_node_too() {
    asks_for_what_a_reader_missed(1 << 20);
}

fn asks_for_what_a_reader_missed(history: u64) {
    let hub = Hub::with(history, |_| {});
    let mut a = node(&hub, 77, 1_000);
    a.row(0, [0; 4]).beat();
    // It has seen the rows 900 to 909 and 950 to 979 through another hub.
    let mut reader = Reader::new(&hub, |lane| Want {
        epoch: lane.epoch,
        from_row: 900,
        span: Nanos(u64::MAX),
        have: vec![(900, 910), (950, 980)],
        ..Want::default()
    });
    reader.subscribe(1);
    reader.until("it is offered", |lanes| !lanes.is_empty());
    // The hub may have asked already: `beat` would skip that.
    a.row(1, [1; 4]).send();
    let mut asked = Vec::new();
    while asked.len() < 2 {
        asked.push(a.await_frame(|frame| match frame {
            Frame::Again { lane: 1, from, to } => Some((*from, *to)),
            _ => None,
        }));
    }
    assert_eq!(asked, [(910, 950), (980, 1_000)]);
    // Of the first it has half, the block of the second begins with rows that the reader has.
    khz_link::put::lost(&mut a.out, 1, 910, 930);
    a.past(930..950, 930).past(970..1_000, 970).beat();
    reader.until("everything is known", |lanes| {
        let lane = &lanes[&1];
        lane.lost.len() == 20 && lane.rows.len() == 20 + 20 + 2
    });
    let numbers: Vec<u64> = reader.lane().rows.keys().copied().collect();
    assert_eq!(numbers, (930..950).chain(980..1_002).collect::<Vec<_>>());
    assert_eq!(reader.lane().lost, (910..930).collect());
}

#[test]
fn a_past_that_was_cut_off_is_asked_for_again() {
    let hub = Hub::with(1 << 20, |_| {});
    let mut a = node(&hub, 77, 1_000);
    // The newest comes first.
    a.row(0, [0; 4]).past(990..1_000, 990).beat();
    drop(a);
    until("the hub has seen that it is gone", || hub.own("khz.hub.nodes_up") == 0);
    let mut a = Node::connect(hub.address(), "a");
    a.encoder.resume(1_001, 1);
    let want = a.hello(None).offer(77, 0);
    assert_eq!((want.from_row, want.have.as_slice()), (0, &[(990, 1_001)][..]));
    assert_eq!(want.span, khz_hub::limits::HISTORY_SPAN);
}

/// The cluster forgets this node.
fn forget(hub: &Hub, node: &str) {
    use khz_model::{Pattern, Query};
    until("it is down", || hub.own("khz.hub.nodes_up") == 0);
    let pattern = Pattern::new(&format!("{node}:*")).unwrap();
    assert_eq!(hub.query.forget(&pattern).unwrap().nodes.len(), 1);
}

#[test]
fn a_lane_of_a_node_that_is_forgotten_is_closed_and_when_it_comes_back_goes_on_where_it_was() {
    let hub = Hub::with(0, |_| {});
    let mut a = node(&hub, 77, 1_000);
    a.row(0, [0; 4]).row(1, [1; 4]).beat();
    // It wants what it has not, as a recorder does.
    let mut reader = Reader::new(&hub, |lane| Want { from_row: 1_001, ..all(lane) });
    reader.subscribe(1).until("the newest row", |lanes| lanes.values().any(|lane| !lane.rows.is_empty()));
    drop(a);
    forget(&hub, "a");
    reader.until("the lane is over", |lanes| lanes[&1].closed);
    assert_eq!(reader.lanes[&1].lost.len(), 0, "the node still has what is missing");
    let mut a = node(&hub, 77, 1_010);
    a.row(10, [10; 4]).beat();
    reader.until("it is offered again", |lanes| lanes.len() == 2);
    let asked = a.await_frame(|frame| match frame {
        Frame::Again { from, to, .. } => Some((*from, *to)),
        _ => None,
    });
    assert_eq!((reader.lane().epoch, asked), (77, (1_001, 1_010)));
    a.past(1..10, 1_001).beat();
    reader.until("everything", |lanes| lanes.values().any(|lane| !lane.closed && lane.rows.len() == 10));
    assert!(reader.lanes.values().all(|lane| lane.lost.is_empty()));
}

#[test]
fn a_door_gets_what_is_here_of_a_node_that_is_forgotten_and_what_comes_when_it_is_back() {
    let hub = Hub::with(0, |_| {});
    let mut a = node(&hub, 77, 1_000);
    a.row(0, [0; 4]).beat();
    let mut subscription = hub.subscribe(&["mem.free"], 1);
    let seen = |subscription: &mut Box<dyn khz_model::Subscription>| -> Vec<u64> {
        let rows = subscription.poll().into_iter().flat_map(|delivery| delivery.rows);
        rows.map(|row| row.stamp.boot.0 / 1_000_000_000).collect()
    };
    assert_eq!(seen(&mut subscription), [0]);
    a.row(1, [1; 4]).beat();
    drop(a);
    forget(&hub, "a");
    let mut a = node(&hub, 77, 1_002);
    a.row(2, [2; 4]).beat();
    // What is said of the forgotten one comes first.
    assert_eq!((seen(&mut subscription), seen(&mut subscription)), (vec![1], vec![2]));
    a.row(3, [3; 4]).beat();
    assert_eq!(seen(&mut subscription), [3]);
}

#[test]
fn a_node_of_the_first_version_cannot_be_asked_and_its_rows_are_lost() {
    let hub = Hub::with(0, |_| {});
    let mut a = Node::connect(hub.address(), "a");
    a.encoder.resume(1_000, 1);
    a.hello(None).offer(77, 0);
    a.row(0, [0; 4]).beat();
    let mut reader = Reader::new(&hub, |lane| Want { from_row: 990, ..all(lane) });
    reader.subscribe(1).until("they are lost", |lanes| lanes.values().any(|lane| lane.lost.len() == 10));
    assert_eq!((reader.lane().lost.clone(), reader.lane().rows.len()), ((990..1_000).collect(), 1));
}

#[test]
fn a_node_that_begins_another_epoch_closes_the_lane_and_offers_another() {
    let hub = Hub::with(0, |_| {});
    let mut a = node(&hub, 77, 1_000);
    a.row(0, [0; 4]).beat();
    let mut reader = Reader::new(&hub, all);
    reader.subscribe(1).until("the newest row", |lanes| lanes.values().any(|lane| !lane.rows.is_empty()));
    a.row(1, [1; 4]).end();
    a.encoder.resume(1_005, 1);
    a.row(5, [5; 4]).beat();
    drop(a);
    let mut a = node(&hub, 78, 0);
    a.row(9, [9; 4]).beat();
    reader.until("the other lane", |lanes| {
        lanes.values().any(|lane| lane.epoch == 78 && !lane.rows.is_empty())
    });
    let before = &reader.lanes[&1];
    assert!(before.closed && before.missing().is_empty());
    assert_eq!(before.rows.keys().copied().collect::<Vec<_>>(), [1_000, 1_001, 1_005]);
    assert_eq!(before.lost, (1_002..1_005).collect(), "nobody has them any more");
    assert_eq!(reader.lane().rows, [(0, 9)].into());
}

#[test]
fn a_door_tells_how_many_rows_did_not_come_and_counts_no_ticks_between_two_epochs() {
    let hub = Hub::with(0, |_| {});
    let mut a = node(&hub, 77, 1_000);
    a.row(0, [0; 4]).beat();
    let mut subscription = hub.subscribe(&["mem.free"], 1);
    let (mut rows, mut lost) = (0, 0);
    let mut read_until = |wanted: usize| {
        until("rows come", || {
            for delivery in subscription.poll() {
                (rows, lost) = (rows + delivery.rows.len(), lost + delivery.lost);
            }
            rows == wanted
        });
        lost
    };
    assert_eq!(read_until(1), 0);
    a.row(1, [1; 4]).end();
    a.encoder.resume(1_006, 1);
    a.row(6, [6; 4]).beat();
    assert_eq!(read_until(3), 4);
    drop(a);
    let mut a = node(&hub, 78, 0);
    a.row(9, [9; 4]).beat();
    assert_eq!(read_until(4), 4, "nobody knows of rows in the seconds 7 and 8");
    let lane = &hub.query.status()[0].lanes[0];
    assert_eq!(
        (lane.rows, lane.lost, lane.awaited),
        (4, 4, 0),
        "what was awaited of the epoch before is lost"
    );
}

#[test]
fn a_node_that_was_cut_off_is_asked_for_what_a_reader_lacks() {
    let hub = Hub::with(0, |_| {});
    let mut a = node(&hub, 77, 1_000);
    a.row(0, [0; 4]).beat();
    let mut reader = Reader::new(&hub, all);
    reader.subscribe(1).until("the newest row", |lanes| lanes.values().any(|lane| !lane.rows.is_empty()));
    drop(a);
    until("the hub has seen that it is gone", || hub.own("khz.hub.nodes_up") == 0);
    let mut a = Node::connect(hub.address(), "a");
    a.encoder.resume(1_020, 1);
    let want = a.hello(None).offer(77, 0);
    assert_eq!(
        (want.from_row, want.span, want.have.as_slice()),
        (1_000, Nanos(u64::MAX), &[(1_000, 1_001)][..])
    );
    a.row(20, [20; 4]).past(1..20, 1_001).beat();
    reader.until("everything", |lanes| lanes[&1].rows.len() == 21);
    assert!(reader.lane().missing().is_empty() && reader.lane().lost.is_empty());
}
