//! A door without connections costs nothing: its thread never wakes.

// Helpers of tests are tests too, which clippy's `allow-unwrap-in-tests` does not see.
#![allow(clippy::unwrap_used)]

mod fake;

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Duration;

use fake::{FakeNode, Server};

/// How often the threads named `door` have gone to sleep.
fn sleeps_of_the_door() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let texts = tasks.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("status")).ok());
    let doors = texts.filter(|text| text.starts_with("Name:\tdoor\n"));
    let sleeps = doors.map(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).unwrap();
        line.trim().parse::<u64>().unwrap()
    });
    sleeps.sum()
}

#[test]
fn an_idle_door_is_never_woken_not_even_by_an_open_connection() {
    let server = Server::start(Arc::new(FakeNode::default()));
    let mut kept = server.connect();
    kept.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    assert!(kept.read(&mut [0; 4_096]).unwrap() > 0);
    // This waits for nothing to happen: the longer, the more wake-ups a timer would show.
    std::thread::sleep(Duration::from_millis(300));
    let before = sleeps_of_the_door();
    assert!(before > 0, "the door's thread is found");
    std::thread::sleep(Duration::from_secs(1));
    assert!(
        sleeps_of_the_door() - before <= 1,
        "{} wake-ups in an idle second",
        sleeps_of_the_door() - before
    );
}
