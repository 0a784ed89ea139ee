//! A reader's link, `khz_link::driver::Following`, against a real hub: interests that come and go while it runs, hubs
//! that go away, queues that fill.

#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
mod fake;

use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use fake::{Hub, Node, settings, until};
use khz_block::{Decoder, SchemaDecoder, Step};
use khz_hub::{Cluster, HubQuery, LinkDoor, LinkServer, Settings};
use khz_link::driver::{Event, Events, Following, FollowingError, HubAddress};
use khz_link::{LaneKey, Role};
use khz_model::{ByteSize, Interest, Pattern, Rate};

/// Awaited events have come by then, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(60);

fn net(hub: &Hub) -> HubAddress {
    HubAddress::Net { host: "127.0.0.1".into(), port: hub.address().port() }
}

fn interest(patterns: &[&str], hz: u64) -> Interest {
    let patterns = patterns.iter().map(|pattern| Pattern::new(pattern).unwrap()).collect();
    Interest::new(patterns, Rate::from_hz(hz).unwrap(), false)
}

/// The first event that `wanted` makes something of; the others are left aside.
fn await_event<T>(events: &Events, mut wanted: impl FnMut(Event) -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let event = events.next_within(left).expect("what was awaited never came");
        if let Some(found) = wanted(event) {
            return found;
        }
    }
}

fn lane_of(events: &Events, node: &str) -> Arc<LaneKey> {
    await_event(events, |event| match event {
        Event::Lane { lane, .. } if lane.node == node => Some(lane),
        _ => None,
    })
}

/// The values of a block's rows.
fn rows(block: &[u8]) -> Vec<Vec<u64>> {
    let (mut decoder, mut rows, mut at) = (Decoder::new(), Vec::new(), 0);
    while at < block.len() {
        match decoder.step(&block[at..]).unwrap() {
            Step::Header(length) => at += length,
            Step::Row(length) => {
                at += length;
                rows.push(
                    (0..decoder.slots()).map(|s| decoder.reading(s).unwrap().value().unwrap()).collect(),
                );
            }
            Step::Incomplete => panic!("a block that is not whole"),
        }
    }
    rows
}

/// Writes rows until the hub has sent one of them to a reader; tells the last one's second.
fn rows_sent(hub: &Hub, node: &mut Node, first: u64) -> u64 {
    let (before, mut second) = (hub.own("khz.hub.reader_rows"), first - 1);
    until("the hub has sent a row", || {
        second += 1;
        node.row(second, [second, 10 * second, 100 * second, 1_000 * second]).beat();
        hub.own("khz.hub.reader_rows") > before
    });
    second
}

#[test]
fn interests_come_and_go_while_it_runs_and_their_rows_with_them() {
    let hub = Hub::new();
    let mut a = Node::join(hub.address(), "a");
    a.row(1, [1, 10, 100, 1000]).beat();
    let (sink, events) = Events::new(1 << 20).unwrap();
    let following = Following::start(settings(vec![net(&hub)], Role::Reader), sink).unwrap();
    await_event(&events, |event| (event == Event::Up { hub: "hub".into() }).then_some(()));

    let first = following.subscribe(&interest(&["load.1m", "gpu.*"], 1), false).unwrap();
    let lane = await_event(&events, |event| match event {
        Event::Lane { lane, interest, .. } if interest == first => Some(lane),
        _ => None,
    });
    assert_eq!(lane.node, "a");
    let sent = rows_sent(&hub, &mut a, 2);
    let mut schema = SchemaDecoder::new();
    await_event(&events, |event| match event {
        Event::Schema { bytes, .. } => schema.feed(&bytes).ok(),
        _ => None,
    });
    let names: Vec<_> = schema.series().iter().map(|series| series.metric.name.to_string()).collect();
    assert_eq!(names, ["load.1m", "gpu.stalls"]);

    let second = following.subscribe(&interest(&["mem.free"], 1), false).unwrap();
    let other = await_event(&events, |event| match event {
        Event::Lane { lane, interest, .. } if interest == second => Some(lane),
        _ => None,
    });
    assert_eq!(lane.epoch, other.epoch, "both are columns of the one lane of the node");
    assert_ne!(lane, other);
    // Taken back: what was open comes as a block, and the lane is over.
    following.unsubscribe(first);
    let block = await_event(&events, |event| match event {
        Event::Block { lane: of, bytes } if of == lane => Some(bytes),
        _ => None,
    });
    let came = rows(&block);
    assert!(came.iter().all(|row| row[1] == 100 * row[0] && row[0] <= 10 * sent), "{came:?}");
    await_event(&events, |event| (event == Event::Closed { lane: lane.clone() }).then_some(()));
    rows_sent(&hub, &mut a, sent + 1);
    drop(following);
    let mut last = Vec::new();
    await_event(&events, |event| match event {
        Event::Block { lane: of, bytes } => {
            assert_eq!(of, other, "the first interest was dismissed");
            last = rows(&bytes);
            None
        }
        Event::Down { .. } => Some(()),
        _ => None,
    });
    assert!(last.iter().all(|row| row.len() == 1), "{last:?}");
    until("the queue says that it is over", || {
        events.try_next();
        events.is_over()
    });
}

#[test]
fn a_refused_interest_is_told_and_one_too_many_is_not_even_said() {
    let hub = Hub::new();
    let (sink, events) = Events::new(1 << 20).unwrap();
    let following = Following::start(settings(vec![net(&hub)], Role::Reader), sink).unwrap();
    let fast = following.subscribe(&interest(&["*"], 1_000), false).unwrap();
    let (granted, text) = await_event(&events, |event| match event {
        Event::Told { interest, granted, text, .. } if interest == fast => Some((granted, text)),
        _ => None,
    });
    assert!(!granted && text.contains("operator"), "{text}");
    let all: Vec<_> = (0..64).map(|_| following.subscribe(&interest(&["*"], 1), false)).collect();
    assert_eq!(all.iter().filter(|asked| asked.is_ok()).count(), 63);
    assert_eq!(all[63], Err(FollowingError::TooMany));
    let none = Interest { patterns: Vec::new(), ..interest(&["*"], 1) };
    assert_eq!(following.subscribe(&none, false), Err(FollowingError::Patterns(0)));
    // All of them are said, and the hub does not find that too many.
    let mut told = 0;
    await_event(&events, |event| {
        assert!(!matches!(event, Event::Down { .. }), "{event:?}");
        told += usize::from(matches!(event, Event::Told { granted: true, .. }));
        (told == 63).then_some(())
    });
}

fn socket(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("khz-following-{}-{name}.sock", std::process::id()))
}

/// A hub with nothing but a local socket.
fn local_hub(path: &Path, name: &str, identity: u8) -> Hub {
    let _ = std::fs::remove_file(path);
    let local = UnixListener::bind(path).unwrap();
    local.set_nonblocking(true).unwrap();
    let settings =
        Settings { name: name.into(), history: ByteSize(0), rate_max: Rate::from_hz(1_000).unwrap() };
    let door = LinkDoor {
        listen: vec!["127.0.0.1:0".parse().unwrap()],
        local: Some(local),
        run: None,
        tls: None,
        key: None,
        certificates: false,
        insecure: true,
    };
    let cluster = Cluster::new(settings, [identity; 16]);
    let server = LinkServer::start(cluster.clone(), door).unwrap();
    Hub { query: HubQuery::new(cluster.clone()), server, cluster }
}

#[test]
fn when_a_hub_comes_back_interests_are_said_again_and_lanes_are_the_same() {
    let path = socket("back");
    let hub = local_hub(&path, "before", 1);
    let mut a = Node::join(hub.address(), "a");
    a.row(1, [1, 2, 3, 4]).beat();
    let (sink, events) = Events::new(1 << 20).unwrap();
    let following =
        Following::start(settings(vec![HubAddress::Local(path.clone())], Role::Operator), sink).unwrap();
    // Said before there is a connection.
    following.subscribe(&interest(&["mem.free"], 1), false).unwrap();
    let before = lane_of(&events, "a");
    drop((hub, a));
    await_event(&events, |event| matches!(event, Event::Down { .. }).then_some(()));

    let hub = local_hub(&path, "after", 2);
    let mut a = Node::join(hub.address(), "a");
    a.row(1, [5, 6, 7, 8]).beat();
    await_event(&events, |event| (event == Event::Up { hub: "after".into() }).then_some(()));
    let after = lane_of(&events, "a");
    assert_eq!(before, after, "rows have the numbers of the node, whichever hub has them");
    // The node goes on where it was.
    a.end();
    rows_sent(&hub, &mut a, 2);
    assert!(following.counters().connects.load(Ordering::Relaxed) >= 2);
    // The end hands out what no block has ended.
    drop(following);
    await_event(&events, |event| match event {
        Event::Block { lane, bytes } if lane == after => (!rows(&bytes).is_empty()).then_some(()),
        _ => None,
    });
    drop(hub);
    let _ = std::fs::remove_file(path);
}

#[test]
fn what_a_slow_reader_misses_is_told_as_lost() {
    let hub = Hub::new();
    let mut a = Node::join(hub.address(), "a");
    a.row(1, [0; 4]).beat();
    let (sink, events) = Events::new(2_000).unwrap();
    let following = Following::start(settings(vec![net(&hub)], Role::Reader), sink).unwrap();
    following.subscribe(&interest(&["mem.free"], 1), false).unwrap();
    lane_of(&events, "a");
    // A block of the hub's ends after a minute at 1 Hz.
    for second in 2..2_000 {
        a.row(second, [second; 4]);
        if second % 50 == 0 {
            a.end();
        }
        if second % 10 == 0 {
            a.beat();
        }
    }
    until("the queue has dropped blocks", || events.dropped() > 0);
    let dropped = events.dropped();
    let mut lost = 0;
    while let Some(event) = events.try_next() {
        if let Event::Lost { from, to, .. } = event {
            lost += to - from;
        }
    }
    assert!(lost >= dropped, "{lost} rows told of {dropped} dropped");
}
