//! The link of `khz` alone: a reader at its local socket sees what a reader of a hub would see.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use khz_block::SchemaDecoder;
use khz_client::Access;
use khz_link::driver::{Event, Events, Following};
use khz_model::{ChannelName, ChannelTerms, Interest, Nanos, Pattern, Rate};

use crate::process::Running;

#[test]
fn khz_alone_is_read_by_its_local_socket_as_a_hub_is() {
    let run_dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("link-{}", std::process::id()));
    let running = Running::start(&["--run-dir", run_dir.to_str().unwrap()]);
    let access = Access::local_in(Some(&run_dir)).unwrap();
    let (sink, events) = Events::new(1 << 20).unwrap();
    let following = Following::start(access.settings().unwrap(), sink).unwrap();
    let rate = Rate::from_hz(100).unwrap();
    let patterns = vec![Pattern::new("n1:mem.free").unwrap()];
    following.subscribe(&Interest::new(patterns, rate, true), true).unwrap();
    let mut lane = None;
    let rows = loop {
        match events.next_within(Duration::from_secs(60)).expect("rows come") {
            Event::Lane { lane: offered, period, .. } if period == rate.period() => lane = Some(offered),
            Event::Block { lane: of, bytes } if lane == Some(Arc::clone(&of)) => {
                let header = khz_block::Header::from_bytes(bytes.first_chunk().unwrap(), 0).unwrap();
                break header.closed.unwrap().0;
            }
            Event::Told { granted: false, text, .. } => panic!("refused: {text}"),
            _ => {}
        }
    };
    assert!(rows > 0);
    drop(following);
    assert_eq!(running.end("TERM").0, Some(0));
    assert!(std::fs::read_dir(&run_dir).unwrap().next().is_none(), "its sockets go with it");
    let error = Access::local_in(Some(&run_dir)).unwrap_err().to_string();
    assert!(error.starts_with("no khz answers on this machine"), "{error}");
    let _ = std::fs::remove_dir(run_dir);
}

/// A channel of the free memory.
fn channel(name: &str, handler: &[u8]) -> Interest {
    let name = ChannelName::new(name).unwrap();
    let terms = ChannelTerms { name, handler: handler.into() };
    let patterns = vec![Pattern::new("n1:mem.free").unwrap()];
    let channel = Some(Arc::new(terms));
    Interest { channel, ..Interest::new(patterns, Rate::from_hz(100).unwrap(), true) }
}

#[test]
fn a_node_executes_the_channels_that_come_over_the_link_and_says_what_it_refuses() {
    let run_dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("channel-{}", std::process::id()));
    let running = Running::start(&["--run-dir", run_dir.to_str().unwrap()]);
    let access = Access::local_in(Some(&run_dir)).unwrap();
    let (sink, events) = Events::new(1 << 20).unwrap();
    let following = Following::start(access.settings().unwrap(), sink).unwrap();
    let values = khz_promql::compile("avg_over_time(node_memory_MemFree_bytes[1s])").unwrap();
    let every = Nanos::from_millis(50);
    let handler = khz_plan::Handler { values: khz_plan::Values::Plan(values), every, ..Default::default() }
        .to_bytes()
        .unwrap();
    let good = following.subscribe(&channel("free", &handler), true).unwrap();
    let bad = following.subscribe(&channel("bad", &[0xff; 9]), true).unwrap();
    let (mut lanes, mut schema, mut rows, mut refused) = (Vec::new(), SchemaDecoder::new(), 0, None);
    while rows < 8 || refused.is_none() {
        match events.next_within(Duration::from_secs(60)).expect("rows come") {
            Event::Lane { lane, interest, .. } => lanes.push((interest, lane)),
            Event::Schema { bytes, .. } if schema.series().is_empty() => schema.feed(&bytes).unwrap(),
            Event::Block { lane, bytes } => {
                assert!(lanes.contains(&(good, lane)), "it has no other lane");
                rows +=
                    khz_block::Header::from_bytes(bytes.first_chunk().unwrap(), 0).unwrap().closed.unwrap().0;
            }
            Event::Lost { from, to, .. } => panic!("{from}..{to} lost"),
            Event::Told { interest, text, .. } if interest == bad && !text.is_empty() => refused = Some(text),
            _ => {}
        }
    }
    let series: Vec<String> = schema.series().iter().map(ToString::to_string).collect();
    assert_eq!(series, ["channel.free"]);
    let refused = refused.unwrap();
    assert!(refused.starts_with("n1: channel bad: "), "{refused}");
    drop(following);
    assert_eq!(running.end("TERM").0, Some(0));
    let _ = std::fs::remove_dir(run_dir);
}

#[test]
fn two_clusters_of_one_in_one_place_do_not_get_into_each_others_way() {
    let run_dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("two-{}", std::process::id()));
    let first = Running::start(&["--run-dir", run_dir.to_str().unwrap()]);
    let second = Running::start(&["--run-dir", run_dir.to_str().unwrap()]);
    assert!(Access::local_in(Some(&run_dir)).is_ok());
    assert_eq!(second.end("TERM").0, Some(0));
    assert!(Access::local_in(Some(&run_dir)).is_ok(), "the first one's socket stays");
    assert_eq!(first.end("TERM").0, Some(0));
    let _ = std::fs::remove_dir(run_dir);
}
