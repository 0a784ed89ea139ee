//! The link of `khz` alone: a reader at its local socket sees what a reader of a hub would see.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use khz_client::Access;
use khz_link::driver::{Event, Events, Following};
use khz_model::{Interest, Pattern, Rate};

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
