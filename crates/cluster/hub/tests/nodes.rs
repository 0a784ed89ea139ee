//! What nodes say and what readers then see, over real sockets.

#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
mod fake;

use fake::{Hub, Node, until};
use khz_link::{Frame, Reason};
use khz_model::{Interest, Nanos, NodeName, NodeStatus, Pattern, Query, QueryError, Rate, Reading, Snapshot};

fn patterns(texts: &[&str]) -> Vec<Pattern> {
    texts.iter().map(|text| Pattern::new(text).unwrap()).collect()
}

/// The hub answers at once: its futures are ready when they are first asked.
fn latest(hub: &Hub, texts: &[&str]) -> Result<Snapshot, QueryError> {
    let patterns = patterns(texts);
    let mut future = hub.query.latest(&patterns, Nanos(0));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match future.as_mut().poll(&mut context) {
        std::task::Poll::Ready(answer) => answer,
        std::task::Poll::Pending => panic!("the hub makes its readers wait"),
    }
}

fn status(hub: &Hub, name: &str) -> NodeStatus {
    hub.query.status().into_iter().find(|status| status.node.as_str() == name).unwrap()
}

fn value(snapshot: &Snapshot, node: usize) -> Reading {
    snapshot.nodes[node].1[0].reading
}

#[test]
fn the_latest_row_of_every_node_is_there() {
    let hub = Hub::new();
    let mut a = Node::join(hub.address(), "a");
    let mut b = Node::join(hub.address(), "b");
    a.row(1, [10, 20, 30, 40]).row(2, [11, 20, 31, 40]).beat();
    b.row(1, [99, 0, 0, 0]).beat();
    let snapshot = latest(&hub, &["mem.free"]).unwrap();
    assert_eq!((value(&snapshot, 0), value(&snapshot, 1)), (Reading::Present(11), Reading::Present(99)));
    assert!(snapshot.missing.is_empty());
    // More rows of the same block, then a new block.
    a.row(3, [12, 20, 31, 40]).end().row(4, [13, 20, 31, 40]).beat();
    assert_eq!(value(&latest(&hub, &["a:mem.free"]).unwrap(), 0), Reading::Present(13));
    assert_eq!(hub.own("khz.hub.rows"), 5);
}

#[test]
fn a_subscription_hears_once_that_a_node_has_gone_and_once_that_it_is_back() {
    let hub = Hub::new();
    let mut a = Node::join(hub.address(), "a");
    a.row(1, [10, 20, 30, 40]).beat();
    until("a's row is there", || !latest(&hub, &["a:mem.free"]).unwrap().nodes.is_empty());
    let mut subscription = hub.subscribe(&["mem.free"], 1);
    assert!(subscription.notices().is_empty(), "it is there");
    let mut told = || {
        let mut told = Vec::new();
        until("a change is reported", || {
            subscription.poll();
            told = subscription.notices();
            !told.is_empty()
        });
        let [notice] = told.as_slice() else { panic!("{told:?}") };
        let (presence, since) = notice.change.unwrap();
        assert!(subscription.notices().is_empty(), "once");
        (notice.text.clone(), presence, since)
    };
    drop(a);
    let (text, presence, since) = told();
    assert_eq!(presence, khz_model::Presence::Down);
    assert!(text.starts_with(&format!("is down since {} UTC: ", since.time_of_day())), "{text}");
    let _a = Node::join(hub.address(), "a");
    let (text, presence, since) = told();
    assert_eq!(
        (presence, text),
        (khz_model::Presence::Up, format!("is back since {} UTC", since.time_of_day()))
    );
    // A node that was forgotten while it was down is another node, and comes back all the same.
    drop(_a);
    assert_eq!(told().1, khz_model::Presence::Down);
    hub.query.forget(&Pattern::new("a:*").unwrap()).unwrap();
    let _a = Node::join(hub.address(), "a");
    assert_eq!(told().1, khz_model::Presence::Up);
}

#[test]
fn a_node_that_is_named_and_not_there_is_missing_and_so_is_one_that_is_down() {
    let hub = Hub::new();
    let mut a = Node::join(hub.address(), "a");
    a.row(1, [10, 20, 30, 40]).beat();
    let snapshot = latest(&hub, &["a:mem.free", "c[1-2]:mem.free"]).unwrap();
    assert_eq!((snapshot.nodes.len(), snapshot.missing), (1, vec!["c1".to_owned(), "c2".to_owned()]));
    drop(a);
    until("a is down", || !status(&hub, "a").up);
    assert_eq!(latest(&hub, &["a:mem.free"]).unwrap().missing, ["a"]);
    assert!(matches!(latest(&hub, &["no.such"]), Err(QueryError::NothingMatches { .. })));
}

#[test]
fn a_node_that_falls_silent_is_down() {
    let hub = Hub::new();
    let mut a = Node::join(hub.address(), "a");
    a.row(1, [1, 2, 3, 4]).beat();
    a.falls_silent();
    // How long that takes is judged by khz-link's simulation, which has its own clock.
    until("a is down", || !status(&hub, "a").up);
    assert_eq!(status(&hub, "a").problem.as_deref(), Some("silent for too long"));
}

#[test]
fn another_machine_with_the_same_name_is_refused_and_the_same_machine_supersedes() {
    let hub = Hub::new();
    let mut first = Node::join(hub.address(), "a");
    first.row(1, [1, 2, 3, 4]).beat();
    let mut other = Node::connect(hub.address(), "a");
    other.machine = [9; 16];
    other.hello(None);
    let (reason, text) = other.refusal();
    assert_eq!(reason, Reason::NameTaken);
    assert!(text.contains("a is taken by another machine"), "{text}");
    assert!(status(&hub, "a").problem.unwrap().contains("refused 127.0.0.1"), "the hub shows it too");
    // The same machine, started again.
    let mut newer = Node::connect(hub.address(), "a");
    newer.started = 2_000;
    newer.hello(None).offer(1, 0);
    assert_eq!(first.refusal().0, Reason::Superseded);
    newer.row(2, [5, 5, 5, 5]).beat();
    // The older start comes back: it may not.
    let mut older = Node::connect(hub.address(), "a");
    older.hello(None);
    assert_eq!(older.refusal().0, Reason::Superseded);
    assert!(status(&hub, "a").up);
    // A node that is down does not hold its name.
    drop(newer);
    until("a is down", || !status(&hub, "a").up);
    let mut other = Node::connect(hub.address(), "a");
    other.machine = [9; 16];
    other.hello(None).offer(77, 0);
    assert!(status(&hub, "a").up);
}

#[test]
fn rows_that_come_again_are_counted_once_and_gaps_are_known_filled_or_lost() {
    let hub = Hub::new();
    let mut a = Node::join(hub.address(), "a");
    a.row(0, [0; 4]).row(1, [1; 4]).row(2, [2; 4]).beat();
    // The connection breaks; rows 3 to 5 are recorded meanwhile, and the open block comes again from its start.
    let mut again = Node::connect(hub.address(), "a");
    again.encoder = std::mem::replace(&mut a.encoder, khz_block::Encoder::new(0, 1, Nanos::SECOND));
    let mut closed = Vec::new();
    let stamp = |second| khz_model::Stamp { boot: Nanos::from_secs(second), real_offset: 0 };
    again.encoder.close();
    again.encoder.key_row(stamp(3), 4, |_| (0, 3), &mut closed);
    again.encoder.delta_row(stamp(4), 0..4, |_| (0, 4), &mut closed);
    let header = again.encoder.close().unwrap();
    closed[..khz_block::HEADER_BYTES].copy_from_slice(&header.to_bytes());
    let want = again.hello(None).offer(1, 0);
    assert_eq!((want.from_row, want.have), (3, vec![(0, 3)]));
    again.encoder.resume(8, 1);
    again.row(8, [8; 4]).beat();
    let base = |hub: &Hub| status(hub, "a").lanes[0].clone();
    assert_eq!((base(&hub).rows, base(&hub).awaited, base(&hub).lost), (4, 5, 0));
    let frame = khz_link::put::open_past(&mut again.out, 1, true);
    again.out.extend_from_slice(&closed);
    frame.close(&mut again.out);
    again.beat();
    assert_eq!((base(&hub).rows, base(&hub).awaited, base(&hub).late), (6, 3, 2));
    khz_link::put::lost(&mut again.out, 1, 5, 8);
    let acks = again.beat();
    assert_eq!((base(&hub).rows, base(&hub).awaited, base(&hub).lost), (6, 0, 3));
    assert_eq!(acks[0].received, 9);
    assert_eq!(hub.own("khz.hub.rows_lost"), 3);
    // The history is in order, with what was filled in.
    let history = hub.query.history(&patterns(&["mem.free"]), Nanos::from_secs(600), 100).unwrap();
    let values: Vec<_> = history[0].rows.iter().map(|row| row.readings[0].value().unwrap()).collect();
    assert_eq!(values, [0, 1, 2, 3, 4, 8]);
}

#[test]
fn a_subscription_gets_the_newest_row_first_and_then_every_row_of_nodes_old_and_new() {
    let hub = Hub::new();
    let mut a = Node::join(hub.address(), "a");
    a.row(1, [1; 4]).row(2, [2; 4]).beat();
    let mut subscription = hub.subscribe(&["mem.free"], 1);
    let mut seen: Vec<(NodeName, u64)> = Vec::new();
    let mut look = |seen: &mut Vec<(NodeName, u64)>| {
        for delivery in subscription.poll() {
            let rows =
                delivery.rows.iter().map(|row| (delivery.node.clone(), row.readings[0].value().unwrap()));
            seen.extend(rows);
            assert_eq!(delivery.lost, 0);
        }
    };
    look(&mut seen);
    a.row(3, [3; 4]).end().row(4, [4; 4]).row(5, [5; 4]).beat();
    look(&mut seen);
    let mut b = Node::join(hub.address(), "b");
    b.row(1, [100; 4]).beat();
    look(&mut seen);
    let named: Vec<(&str, u64)> = seen.iter().map(|(node, value)| (node.as_str(), *value)).collect();
    assert_eq!(named, [("a", 2), ("a", 3), ("a", 4), ("a", 5), ("b", 100)]);
}

#[test]
fn a_faster_rate_is_asked_of_the_node_once_and_taken_back_when_the_last_reader_goes() {
    let hub = Hub::new();
    let mut a = Node::join(hub.address(), "a");
    a.row(1, [1; 4]).beat();
    let first = hub.subscribe(&["a:mem.*"], 500);
    let mut second = hub.subscribe(&["a:mem.*"], 500);
    let number = a.await_frame(|frame| match frame {
        Frame::Interest(interest) => {
            assert_eq!(interest.period, Nanos::from_millis(2));
            assert_eq!(interest.patterns().collect::<Vec<_>>(), ["mem.*"]);
            Some(interest.number)
        }
        _ => None,
    });
    khz_link::Told {
        interest: number,
        granted: true,
        period: Nanos::from_millis(2),
        text: "",
        lane: 0,
        refused_by: "",
    }
    .put(&mut a.out);
    let base = std::mem::replace(&mut a.encoder, khz_block::Encoder::new(2, 1, Nanos::from_millis(2)));
    a.lane = 2;
    a.offer_lane("boost1", 5, 0, number);
    a.row(10, [77; 4]).row(11, [78; 4]).beat();
    let rows: Vec<u64> = second
        .poll()
        .iter()
        .flat_map(|delivery| delivery.rows.iter().map(|row| row.readings[0].value().unwrap()))
        .collect();
    assert_eq!(rows, [78], "the newest row of the boost lane");
    drop(first);
    a.row(12, [79; 4]).beat();
    assert_eq!(second.poll()[0].rows[0].readings[0], Reading::Present(79), "the other reader goes on");
    let running =
        || status(&hub, "a").lanes.iter().map(|lane| lane.name.clone()).collect::<Vec<_>>().join(" ");
    assert_eq!(running(), "base boost1");
    drop(second);
    assert_eq!(running(), "base", "nobody wants the other one, whether its node still has it or not");
    let dismissed = a.await_frame(|frame| match frame {
        Frame::Dismiss { number } => Some(*number),
        _ => None,
    });
    assert_eq!(dismissed, number);
    drop(base);
}

#[test]
fn a_lane_is_left_when_nothing_is_served_by_it_and_not_while_an_interest_waits_for_its_answer() {
    let hub = Hub::new();
    let mut a = Node::join(hub.address(), "a");
    a.row(1, [1; 4]).beat();
    // What the hub says to the node, but for what it answers.
    let heard = |a: &mut Node| {
        a.await_frame(|frame| match frame {
            Frame::Interest(interest) => Some(format!("Interest {}", interest.number)),
            Frame::Dismiss { number } => Some(format!("Dismiss {number}")),
            Frame::Leave { lane } => Some(format!("Leave {lane}")),
            Frame::Want(want) => Some(format!("Want {} prompt {}", want.lane, want.prompt)),
            _ => None,
        })
    };
    let told = |a: &mut Node, interest: u32, lane: u32| {
        let period = Nanos::from_millis(2);
        khz_link::Told { interest, granted: true, period, text: "", lane, refused_by: "" }.put(&mut a.out);
        a.send();
    };
    let first = hub.subscribe(&["mem.*"], 500);
    assert_eq!(heard(&mut a), "Interest 1");
    a.encoder = khz_block::Encoder::new(2, 1, Nanos::from_millis(2));
    a.lane = 2;
    a.offer_lane("boost1", 5, 0, 1);
    told(&mut a, 1, 2);
    assert_eq!(heard(&mut a), "Want 2 prompt false");
    let second = hub.subscribe(&["load.*"], 500);
    assert_eq!(heard(&mut a), "Interest 2");
    drop(first);
    assert_eq!(heard(&mut a), "Dismiss 1");
    // The same lane serves the second: it was not left meanwhile, and is not after this Want.
    told(&mut a, 2, 2);
    assert_eq!(heard(&mut a), "Want 2 prompt false");
    drop(second);
    assert_eq!((heard(&mut a), heard(&mut a)), ("Dismiss 2".into(), "Leave 2".into()));
    // One subscription waits for its answer while a lane serves another.
    let third = hub.subscribe(&["mem.*"], 500);
    assert_eq!(heard(&mut a), "Interest 3");
    told(&mut a, 3, 2);
    assert_eq!(heard(&mut a), "Want 2 prompt false");
    let _fourth = hub.subscribe(&["load.*"], 500);
    assert_eq!(heard(&mut a), "Interest 4");
    drop(third);
    assert_eq!(heard(&mut a), "Dismiss 3");
    told(&mut a, 4, 1);
    assert_eq!((heard(&mut a), heard(&mut a)), ("Want 1 prompt true".into(), "Leave 2".into()));
}

#[test]
fn who_comes_to_a_lane_that_was_left_gets_what_comes_and_not_what_was_there() {
    let hub = Hub::new();
    let mut a = Node::join(hub.address(), "a");
    a.row(1, [1; 4]).beat();
    let subscribe = || {
        let rate = Rate::from_hz(500).unwrap();
        hub.query.subscribe(Interest::new(patterns(&["mem.*"]), rate, false)).unwrap()
    };
    let told = |a: &mut Node, interest: u32| {
        let period = Nanos::from_millis(2);
        khz_link::Told { interest, granted: true, period, text: "", lane: 2, refused_by: "" }.put(&mut a.out);
    };
    let mut first = subscribe();
    a.encoder = khz_block::Encoder::new(2, 1, Nanos::from_millis(2));
    a.lane = 2;
    a.offer_lane("local", 5, 0, 1);
    told(&mut a, 1);
    a.row(10, [10; 4]).beat();
    let seen = |subscription: &mut Box<dyn khz_model::Subscription>| {
        let (mut rows, mut lost) = (Vec::new(), 0);
        for delivery in subscription.poll() {
            lost += delivery.lost;
            rows.extend(delivery.rows.iter().map(|row| row.readings[0].value().unwrap()));
        }
        (rows, lost)
    };
    assert_eq!(seen(&mut first), (vec![10], 0));
    drop(first);
    a.await_frame(|frame| matches!(frame, Frame::Leave { lane: 2 }).then_some(()));
    let mut second = subscribe();
    told(&mut a, 2);
    a.beat();
    assert_eq!(seen(&mut second), (Vec::new(), 0), "an old row is not wanted");
    a.end();
    a.out.clear();
    a.encoder.resume(50, 1);
    a.row(60, [60; 4]).row(61, [61; 4]).beat();
    assert_eq!(seen(&mut second), (vec![61], 0), "the newest row, and nothing is lost");
    a.row(62, [62; 4]).beat();
    assert_eq!(seen(&mut second), (vec![62], 0));
}

#[test]
fn a_block_without_slots_needs_no_schema_and_is_taken() {
    let hub = Hub::new();
    let mut a = Node::join(hub.address(), "a");
    a.row(1, [1; 4]).end();
    let mut encoder = khz_block::Encoder::new(0, 2, Nanos::SECOND);
    encoder.resume(1, 2);
    let stamp = khz_model::Stamp { boot: Nanos::from_secs(2), real_offset: 0 };
    let mut bytes = Vec::new();
    encoder.key_row(stamp, 0, |_| (0, 0), &mut bytes);
    let frame = khz_link::put::open_lane(&mut a.out, khz_link::frame::kind::BLOCK, 1);
    a.out.extend_from_slice(&bytes);
    frame.close(&mut a.out);
    a.beat();
    assert_eq!(status(&hub, "a").lanes[0].rows, 2);
}

#[test]
fn a_reader_hears_of_a_refusal_and_gets_the_base_lane() {
    let hub = Hub::new();
    let mut a = Node::join(hub.address(), "a");
    a.row(1, [1; 4]).beat();
    let mut subscription = hub.subscribe(&["mem.free"], 1_000);
    assert!(subscription.notices().is_empty());
    let text = "1000Hz is above this agent's ceiling of 500Hz";
    khz_link::Told { interest: 1, granted: false, period: Nanos(0), text, lane: 0, refused_by: "" }
        .put(&mut a.out);
    a.beat();
    let notices = subscription.notices();
    assert_eq!(notices[0].text, format!("{text}; showing the base lane"));
    assert!(subscription.notices().is_empty(), "once");
    assert_eq!(subscription.poll()[0].rows[0].readings[0], Reading::Present(1));
}

#[test]
fn a_lane_of_an_unknown_metric_is_shown_like_any_other() {
    // The schema says all there is to know; the hub's own catalogue is never asked.
    let hub = Hub::new();
    let mut a = Node::join(hub.address(), "a");
    a.row(1, [1, 123, 3, 4]).beat();
    assert_eq!(value(&latest(&hub, &["gpu.*"]).unwrap(), 0), Reading::Present(4));
    let names: Vec<_> = hub.query.metrics().iter().map(|metric| metric.name.to_string()).collect();
    assert_eq!(names, ["mem.free", "load.1m", "kernel.context_switches", "gpu.stalls"]);
}

#[test]
fn silence_garbage_and_lies_end_the_connection_and_are_counted() {
    use std::io::Write;
    let hub = Hub::new();
    for bytes in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        &[0xff; 64],
        &[0, 0, 0, 0],
        &u32::MAX.to_le_bytes(),
        &[5, 0, 0, 0, 33, 1, 2, 3, 4],
    ] {
        let mut stranger = std::net::TcpStream::connect(hub.address()).unwrap();
        stranger.write_all(bytes).unwrap();
        let mut room = Vec::new();
        std::io::Read::read_to_end(&mut stranger, &mut room).ok();
    }
    until("five are refused", || hub.own("khz.hub.refused") == 5);
    let mut a = Node::join(hub.address(), "a");
    a.row(1, [1; 4]).row(2, [2; 4]);
    // The end says another checksum than the rows have.
    let (rows, bytes, crc) = a.encoder.close().unwrap().closed.unwrap();
    khz_link::End { lane: 1, rows, bytes, crc: crc ^ 1 }.put(&mut a.out);
    a.send();
    assert!(a.refusal().1.contains("checksum"));
    assert!(a.is_closed());
    until("it is counted", || hub.own("khz.hub.cut") == 1);
    assert!(status(&hub, "a").problem.unwrap().contains("checksum"));
    // What was damaged on the way has not come: it is wanted again.
    let want = Node::connect(hub.address(), "a").hello(None).offer(1, 0);
    assert_eq!((want.from_row, want.have), (0, vec![]));
}

#[test]
fn strangers_beyond_the_limit_push_out_the_oldest_and_disturb_no_peer() {
    let hub = Hub::new();
    let mut a = Node::join(hub.address(), "a");
    a.row(1, [1; 4]).beat();
    let strangers: Vec<_> =
        (0..1_500).map(|_| std::net::TcpStream::connect(hub.address()).unwrap()).collect();
    until("some were pushed out", || hub.own("khz.hub.handshakes_dropped") >= 1_500 - 1_024);
    a.row(2, [2; 4]).beat();
    assert_eq!(value(&latest(&hub, &["mem.free"]).unwrap(), 0), Reading::Present(2));
    assert!(status(&hub, "a").up);
    drop(strangers);
}

#[test]
fn clock_and_round_trip_are_as_the_node_measured_them() {
    let hub = Hub::new();
    let mut a = Node::join(hub.address(), "a");
    a.row(1, [1; 4]).beat();
    let status = status(&hub, "a");
    assert_eq!((status.clock_offset, status.round_trip), (Some(-1_000), Some(Nanos(5_000))));
    assert_eq!((status.retransmitted, status.connects), (Some(3), 1));
}

#[test]
fn a_version_that_the_hub_does_not_speak_is_refused_with_the_one_it_does() {
    let hub = Hub::new();
    let mut node = Node::connect(hub.address(), "a");
    khz_link::Hello {
        version: 9,
        role: khz_link::Role::Node,
        name: "a",
        machine: [1; 16],
        boot: [2; 16],
        started: 0,
        start_nonce: 0,
        program: "test",
        proof: None,
        abilities: 0,
    }
    .put(&mut node.out);
    node.send();
    let (reason, text) = node.refusal();
    assert_eq!(
        (reason, text.as_str()),
        (Reason::Version, "this hub speaks versions 1 to 3 of the protocol, not 9")
    );
    assert!(hub.query.nodes().is_empty());
}

#[test]
fn row_numbers_at_the_end_of_all_numbers_do_no_harm() {
    let hub = Hub::new();
    let mut a = Node::join(hub.address(), "a");
    a.encoder.resume(khz_block::ROW_MAX - 2, 1);
    a.row(1, [1; 4]).row(2, [2; 4]).beat();
    assert_eq!(status(&hub, "a").lanes[0].rows, 2);
    let mut b = Node::join(hub.address(), "b");
    khz_link::put::lost(&mut b.out, 1, 0, khz_block::ROW_MAX);
    b.row(1, [7; 4]).beat();
    assert_eq!(value(&latest(&hub, &["b:mem.free"]).unwrap(), 0), Reading::Present(7));
}

#[test]
fn the_newest_of_all_lanes_counts_for_each_series() {
    let hub = Hub::new();
    let mut a = Node::join(hub.address(), "a");
    a.row(1, [1; 4]).beat();
    let _reader = hub.subscribe(&["mem.free"], 100);
    let number = a.await_frame(|frame| match frame {
        Frame::Interest(interest) => Some(interest.number),
        _ => None,
    });
    let base = std::mem::replace(&mut a.encoder, khz_block::Encoder::new(2, 1, Nanos::from_millis(10)));
    a.lane = 2;
    a.offer_lane("boost1", 5, 0, number);
    a.row(2, [70; 4]).beat();
    assert_eq!(value(&latest(&hub, &["mem.free"]).unwrap(), 0), Reading::Present(70));
    (a.encoder, a.lane) = (base, 1);
    a.row(3, [80; 4]).beat();
    assert_eq!(value(&latest(&hub, &["mem.free"]).unwrap(), 0), Reading::Present(80));
}
