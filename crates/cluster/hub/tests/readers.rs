//! Readers on the link, and what each role may do: tokens, certificates, roles.

#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
mod fake;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use fake::{Hub, Node, until};
use khz_block::{Decoder, SchemaDecoder, Step};
use khz_hub::{LinkDoor, LinkDoorError, LinkServer};
use khz_link::{Ask, Frame, Reason, Role, Want};
use khz_model::{Nanos, NodeName, Query};
use khz_trust::ClusterKey;

/// Second and values.
type Row = (u64, Vec<u64>);

/// A reader's lane: node, schema, decoder, rows.
type Lane = (String, SchemaDecoder, Decoder, Vec<Row>);

/// A proof for a nonce.
type Prove<'a> = &'a dyn Fn(&[u8; 32]) -> Option<[u8; 32]>;

/// What a reader has received.
#[derive(Default)]
struct Received {
    lanes: BTreeMap<u32, Lane>,
    /// Answers: subscription, granted, text.
    answers: Vec<(u32, bool, String)>,
    lost: u64,
}

impl Received {
    /// Takes a frame. Returns a lane that was offered: it is to be wanted.
    fn take(&mut self, frame: &Frame<'_>) -> Option<u32> {
        match frame {
            Frame::Lane(offer) => {
                let lane = (offer.node.to_owned(), SchemaDecoder::new(), Decoder::new(), Vec::new());
                self.lanes.insert(offer.lane, lane);
                return Some(offer.lane);
            }
            Frame::Schema(piece) => self.lanes.get_mut(&piece.lane).unwrap().1.feed(piece.bytes).unwrap(),
            Frame::Block { lane, bytes } | Frame::Rows { lane, bytes } => {
                let (_, _, decoder, rows) = self.lanes.get_mut(lane).unwrap();
                let mut bytes = *bytes;
                while !bytes.is_empty() {
                    match decoder.step(bytes).unwrap() {
                        Step::Header(length) => bytes = &bytes[length..],
                        Step::Row(length) => {
                            bytes = &bytes[length..];
                            let values = (0..decoder.slots())
                                .map(|slot| decoder.reading(slot).unwrap().value().unwrap());
                            rows.push((decoder.stamp().boot.0 / 1_000_000_000, values.collect()));
                        }
                        Step::Incomplete => panic!("a row in two frames"),
                    }
                }
            }
            Frame::Told(told) => self.answers.push((told.interest, told.granted, told.text.to_owned())),
            Frame::Lost { from, to, .. } => self.lost += to - from,
            _ => {}
        }
        None
    }
}

/// A reader reads until it has what it wants.
fn read_until(reader: &mut Node, received: &mut Received, mut is_enough: impl FnMut(&Received) -> bool) {
    while !is_enough(received) {
        let mut want = None;
        reader.next(|frame| want = received.take(&frame)).expect("the hub goes on");
        if let Some(lane) = want {
            Want::default().put(lane, &mut reader.out);
            reader.send();
        }
    }
}

/// Subscribes with the frame Interest.
fn subscribe(reader: &mut Node, number: u32, hz: u64, prompt: bool, patterns: &[&str]) {
    let period = Nanos(1_000_000_000 / hz);
    Ask { number, period, prompt, patterns, ..Ask::default() }.put(&mut reader.out);
    reader.send();
}

#[test]
fn a_reader_gets_the_rows_of_the_columns_it_subscribed_to_from_every_node() {
    let hub = Hub::new();
    let mut a = Node::join(hub.address(), "a");
    let mut b = Node::join(hub.address(), "b");
    a.row(1, [1, 10, 100, 1000]).beat();
    b.row(1, [2, 20, 200, 2000]).beat();
    let mut reader = hub.reader();
    subscribe(&mut reader, 1, 1, false, &["load.1m", "gpu.*"]);
    let mut received = Received::default();
    read_until(&mut reader, &mut received, |r| r.lanes.len() == 2);
    a.row(2, [3, 11, 101, 1001]).end().row(3, [3, 12, 101, 1002]).beat();
    b.row(2, [3, 21, 101, 2001]).beat();
    read_until(&mut reader, &mut received, |r| {
        let done = |node: &str, second| {
            r.lanes.values().any(|l| l.0 == node && l.3.last().is_some_and(|row| row.0 == second))
        };
        done("a", 3) && done("b", 2)
    });
    assert_eq!(received.answers, [(1, true, String::new())]);
    for (node, schema, _, rows) in received.lanes.values() {
        let names: Vec<_> = schema.series().iter().map(|series| series.metric.name.to_string()).collect();
        assert_eq!(names, ["load.1m", "gpu.stalls"]);
        let newest: &[Row] = match node.as_str() {
            "a" => &[(2, vec![11, 1001]), (3, vec![12, 1002])],
            _ => &[(2, vec![21, 2001])],
        };
        // The row that was there already may have come first.
        assert!(rows.ends_with(newest), "{node}: {rows:?}");
    }
    // Nothing more comes after the subscription has ended.
    khz_link::put::dismiss(&mut reader.out, 1);
    reader.send();
    reader.beat();
}

#[test]
fn memory_that_many_readers_held_is_given_back_once_when_they_have_gone() {
    static GIVEN_BACK: AtomicUsize = AtomicUsize::new(0);
    let hub = Hub::new();
    hub.cluster.when_given_back(|| {
        GIVEN_BACK.fetch_add(1, Ordering::SeqCst);
    });
    let _nodes: Vec<Node> = (0..20)
        .map(|n| {
            let mut node = Node::join(hub.address(), &format!("n{n}"));
            node.row(1, [1, 2, 3, 4]).beat();
            node
        })
        .collect();
    let mut readers: Vec<Node> = (0..5).map(|_| hub.reader()).collect();
    for reader in &mut readers {
        (0..60).for_each(|number| subscribe(reader, number, 1, false, &["*"]));
        is_heard(reader, &mut Received::default());
    }
    until("the readers hold much", || hub.own("khz.hub.follow_bytes") > 5 << 20);
    assert_eq!(GIVEN_BACK.load(Ordering::SeqCst), 0, "nothing is free yet");
    drop(readers);
    until("their memory is given back", || GIVEN_BACK.load(Ordering::SeqCst) > 0);
    until("and their places are free", || hub.own("khz.hub.follow_bytes") == 0);
    assert!(GIVEN_BACK.load(Ordering::SeqCst) <= 2, "not for each reader");
}

/// Sends the frames that were put, and reads until the hub has answered a Beat after them: then it has taken them in.
fn is_heard(reader: &mut Node, received: &mut Received) {
    khz_link::Beat { stamp: fake::AWAITED, round_trip: None, offset: 0, retransmits: 0 }.put(&mut reader.out);
    reader.send();
    let mut is_answered = false;
    while !is_answered {
        let took = reader.next(|frame| match frame {
            Frame::Beaten(beaten) if beaten.stamp == fake::AWAITED => is_answered = true,
            other => {
                received.take(&other);
            }
        });
        took.expect("the hub goes on");
    }
}

#[test]
fn a_lane_sends_rows_from_when_it_is_wanted_until_it_is_left() {
    let hub = Hub::new();
    let mut a = Node::join(hub.address(), "a");
    a.row(1, [1, 10, 100, 1000]).beat();
    let mut reader = hub.reader();
    let mut received = Received::default();
    let mut offered = Vec::new();
    for (number, pattern) in [(1, "load.1m"), (2, "mem.free")] {
        subscribe(&mut reader, number, 1, false, &[pattern]);
        while offered.len() < number as usize {
            reader.next(|frame| offered.extend(received.take(&frame))).expect("the hub goes on");
        }
    }
    let seconds = |received: &Received, lane: u32| -> Vec<u64> {
        received.lanes[&lane].3.iter().map(|(second, _)| *second).collect()
    };
    let until_row = |reader: &mut Node, received: &mut Received, lane: u32, second: u64| {
        while !seconds(received, lane).contains(&second) {
            let took = reader.next(|frame| {
                received.take(&frame);
            });
            took.expect("the hub goes on");
        }
    };
    let [first, second] = offered[..] else { panic!("{offered:?}") };
    Want::default().put(first, &mut reader.out);
    is_heard(&mut reader, &mut received);
    a.row(2, [2; 4]).row(3, [3; 4]).beat();
    until_row(&mut reader, &mut received, first, 3);
    assert_eq!(seconds(&received, second), [0; 0], "that lane is not wanted");
    khz_link::put::leave(&mut reader.out, first);
    Want::default().put(second, &mut reader.out);
    is_heard(&mut reader, &mut received);
    a.row(4, [4; 4]).row(5, [5; 4]).beat();
    until_row(&mut reader, &mut received, second, 5);
    assert_eq!(seconds(&received, first).last(), Some(&3), "it was left");
}

#[test]
fn what_changed_in_rows_that_a_slower_reader_does_not_get_is_in_the_next_one_that_it_gets() {
    let hub = Hub::new();
    let values = |second: u64| [second, 10 + (second + 1) / 3, 7, 100 + second / 4];
    let mut a = Node::join(hub.address(), "a");
    a.row(0, values(0)).beat();
    let mut reader = hub.reader();
    let (period, patterns) = (Nanos::from_secs(3), &["load.1m", "gpu.*"]);
    Ask { number: 1, period, patterns, ..Ask::default() }.put(&mut reader.out);
    reader.send();
    let mut received = Received::default();
    read_until(&mut reader, &mut received, |r| !r.lanes.is_empty());
    // The row that was there when the lane was offered comes as soon as the lane is wanted.
    read_until(&mut reader, &mut received, |r| {
        r.lanes.values().all(|lane| lane.3.first().is_some_and(|row| row.0 == 0))
    });
    for second in 1..40 {
        a.row(second, values(second));
        if second % 16 == 15 {
            a.end();
        }
    }
    a.beat();
    read_until(&mut reader, &mut received, |r| {
        r.lanes.values().any(|lane| lane.3.last().is_some_and(|row| row.0 >= 39))
    });
    let rows = &received.lanes.values().next().unwrap().3;
    let seconds: Vec<u64> = rows.iter().map(|row| row.0).collect();
    assert_eq!(seconds, (0..40).step_by(3).collect::<Vec<_>>());
    for (second, row) in rows {
        let [_, load, _, stalls] = values(*second);
        assert_eq!(row, &[load, stalls], "second {second}");
    }
}

#[test]
fn a_node_that_comes_later_is_read_too() {
    let hub = Hub::new();
    let mut reader = hub.reader();
    subscribe(&mut reader, 7, 1, false, &["mem.free"]);
    let mut received = Received::default();
    read_until(&mut reader, &mut received, |r| !r.answers.is_empty());
    let mut a = Node::join(hub.address(), "later");
    a.row(1, [5; 4]).beat();
    read_until(&mut reader, &mut received, |r| !r.lanes.is_empty());
    assert_eq!(received.lanes.values().next().unwrap().0, "later");
}

#[test]
fn a_reader_above_a_hundred_hertz_is_refused_and_an_operator_is_not() {
    let key = ClusterKey::from_bytes([3; 32]);
    let copy = ClusterKey::from_bytes([3; 32]);
    let hub = Hub::with(0, |door| door.key = Some(copy));
    for (role, link_role, granted) in
        [(khz_trust::Role::Reader, Role::Reader, false), (khz_trust::Role::Operator, Role::Operator, true)]
    {
        let mut reader = Node::connect(hub.address(), "r");
        let proof = key.token(role, &NodeName::new("r").unwrap()).proof(&reader.nonce);
        reader.hello_as(link_role, Some(proof));
        subscribe(&mut reader, 1, 1_000, true, &["mem.free"]);
        let mut received = Received::default();
        read_until(&mut reader, &mut received, |r| !r.answers.is_empty());
        assert_eq!(received.answers[0].1, granted, "{role}");
        assert_eq!(received.answers[0].2.contains("operator role is needed"), !granted);
    }
}

#[test]
fn a_wrong_token_no_token_and_anothers_token_are_refused_where_tokens_are_needed() {
    let key = ClusterKey::from_bytes([3; 32]);
    let copy = ClusterKey::from_bytes([3; 32]);
    let hub = Hub::with(0, |door| door.key = Some(copy));
    let name = |text: &str| NodeName::new(text).unwrap();
    let proofs: [Prove<'_>; 4] = [
        &|_| None,
        &|nonce| Some(ClusterKey::from_bytes([4; 32]).token(khz_trust::Role::Node, &name("a")).proof(nonce)),
        &|nonce| Some(key.token(khz_trust::Role::Node, &name("b")).proof(nonce)),
        &|nonce| Some(key.token(khz_trust::Role::Operator, &name("a")).proof(nonce)),
    ];
    for proof in proofs {
        let mut node = Node::connect(hub.address(), "a");
        let proof = proof(&node.nonce);
        node.hello(proof);
        assert_eq!(node.refusal().0, Reason::Proof);
    }
    let mut node = Node::connect(hub.address(), "a");
    let proof = key.token(khz_trust::Role::Node, &name("a")).proof(&node.nonce);
    node.hello(Some(proof)).offer(1, 0);
    assert_eq!(hub.query.nodes().len(), 1);
    assert_eq!(hub.own("khz.hub.refused"), 4);
}

#[test]
fn a_reader_cannot_send_rows_and_a_node_cannot_read() {
    let hub = Hub::new();
    let mut reader = Node::connect(hub.address(), "a");
    reader.hello_as(Role::Reader, None);
    reader.row(1, [1; 4]).send();
    assert_eq!(reader.refusal().0, Reason::Protocol);
    let mut node = Node::connect(hub.address(), "a");
    node.hello(None);
    subscribe(&mut node, 1, 1, false, &["mem.free"]);
    assert!(matches!(node.refusal().0, Reason::Protocol | Reason::NotAllowed));
    until("both are counted", || hub.own("khz.hub.cut") == 2);
}

#[test]
fn an_address_that_others_can_reach_needs_tls_or_a_word() {
    let open = |insecure| {
        let hub = Hub::new();
        let settings = khz_hub::Settings {
            name: "h".into(),
            history: khz_model::ByteSize(0),
            rate_max: hub.query.rate_max(),
        };
        let door = LinkDoor {
            listen: vec!["0.0.0.0:0".parse().unwrap()],
            local: None,
            run: None,
            tls: None,
            key: None,
            certificates: false,
            insecure,
        };
        LinkServer::start(khz_hub::Cluster::new(settings, [0; 16]), door)
    };
    assert!(matches!(open(false), Err(LinkDoorError::Exposed(_))));
    assert!(open(true).is_ok());
}

#[test]
fn a_reader_that_does_not_read_loses_rows_and_no_other_peer_does() {
    let hub = Hub::new();
    let mut a = Node::join(hub.address(), "a");
    a.row(0, [0; 4]).beat();
    let mut slow = hub.reader_with_little_room();
    subscribe(&mut slow, 1, 1, true, &["*"]);
    let mut received = Received::default();
    let interest = a.await_frame(|frame| match frame {
        Frame::Interest(interest) => Some(interest.number),
        _ => None,
    });
    khz_link::Told { interest, granted: true, period: Nanos(0), text: "", lane: 1, refused_by: "" }
        .put(&mut a.out);
    a.beat();
    read_until(&mut slow, &mut received, |r| !r.lanes.is_empty());
    // More rows than the sockets and the hub buffer. The reader sips: if it read nothing at all, the hub would end it.
    let mut second = 1;
    let held = |hub: &Hub| hub.own("khz.hub.history_bytes");
    for _ in 0..200 {
        for _ in 0..1_000 {
            let noise = u64::wrapping_mul(second, 0x9e37_79b9_7f4a_7c15);
            a.row(second, [noise, noise.rotate_left(9), noise.rotate_left(23), noise.rotate_left(47)]);
            second += 1;
            if second.is_multiple_of(100) {
                a.end();
            }
        }
        a.beat();
        slow.sip();
    }
    assert!(held(&hub) <= 3 << 20, "{}", held(&hub));
    // It reads on: missed rows are reported, and the newest row arrives.
    read_until(&mut slow, &mut received, |r| {
        r.lanes.values().any(|lane| lane.3.last().is_some_and(|row| row.0 == second - 1))
    });
    assert!(received.lost > 0);
    assert_eq!(hub.own("khz.hub.reader_rows_lost"), received.lost);
    let rows: u64 = received.lanes.values().map(|lane| lane.3.len() as u64).sum();
    assert!(rows + received.lost >= second - 1, "{rows} rows, {} lost of {second}", received.lost);
}

#[test]
fn the_sixty_fifth_subscription_is_refused_and_the_others_go_on() {
    let hub = Hub::new();
    let mut a = Node::join(hub.address(), "a");
    a.row(1, [1; 4]).beat();
    let mut reader = hub.reader();
    let mut received = Received::default();
    (1..=65).for_each(|number| subscribe(&mut reader, number, 1, false, &["mem.free"]));
    read_until(&mut reader, &mut received, |r| r.answers.len() == 65);
    let refused: Vec<_> = received.answers.iter().filter(|(_, granted, _)| !granted).collect();
    assert!(refused.len() == 1 && refused[0].0 == 65, "{refused:?}");
    assert!(refused[0].2.contains("more than 64 subscriptions on one connection"), "{refused:?}");
    // A subscription that replaces another needs no room, and one that ends makes room.
    received.answers.clear();
    subscribe(&mut reader, 64, 2, false, &["load.1m"]);
    khz_link::put::dismiss(&mut reader.out, 1);
    subscribe(&mut reader, 65, 1, false, &["mem.free"]);
    read_until(&mut reader, &mut received, |r| r.answers.len() == 2);
    assert!(received.answers.iter().all(|(_, granted, _)| *granted), "{:?}", received.answers);
}

#[test]
fn patterns_that_every_node_would_be_sent_have_a_limit_and_hosts_have_none_of_it() {
    let hub = Hub::new();
    let mut a = Node::join(hub.address(), "a");
    a.row(1, [1; 4]).beat();
    let mut reader = hub.reader();
    let mut received = Received::default();
    let long = "x".repeat(4_000);
    let metrics: Vec<&str> = vec![&long; 5];
    subscribe(&mut reader, 1, 1, false, &metrics);
    let hosts: Vec<String> =
        (0..64).map(|n| format!("a,{}:mem.free", vec![format!("n{n}"); 900].join(","))).collect();
    let hosts: Vec<&str> = hosts.iter().map(|text| &text[..]).collect();
    subscribe(&mut reader, 2, 1, false, &hosts[..30]);
    read_until(&mut reader, &mut received, |r| r.answers.iter().filter(|answer| answer.0 <= 2).count() >= 2);
    let of = |number| received.answers.iter().find(|answer| answer.0 == number).unwrap();
    assert!(!of(1).1 && of(1).2.contains("20000 bytes without their nodes"), "{:?}", of(1));
    assert!(of(2).1, "{:?}", of(2));
}
