//! A hub whose process has no file descriptor left. Alone in its process, since the limit is the process'.

#![allow(clippy::unwrap_used)]

#[allow(dead_code, reason = "other tests need more of it")]
mod fake;

use std::fs::File;
use std::io::Read;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use fake::{Hub, Node, until};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

#[test]
fn without_descriptors_a_hub_rests_serves_open_connections_and_accepts_waiting_ones_afterwards() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(128), maximum: limit.maximum }).unwrap();
    let hub = Hub::new();
    let mut a = Node::join(hub.address(), "a");
    a.row(1, [1; 4]).beat();
    let mut files: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    assert!(files.pop().is_some(), "one descriptor for who wants to come in");
    let (started, failures) = (Instant::now(), || hub.own("khz.hub.accepts_failed"));
    let mut waits = TcpStream::connect(hub.address()).unwrap();
    until("the hub has tried again", || failures() >= 3);
    // Ten times a second, however long this took: connections that wait must not keep the thread awake.
    assert!(failures() <= started.elapsed().as_millis() as u64 / 100 + 2, "{} failures", failures());
    assert_eq!(a.row(2, [2; 4]).beat()[0].received, 2, "who is there is served");
    drop(files);
    waits.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    assert_eq!(waits.read(&mut [0; 1]).unwrap(), 1, "who waited is greeted");
    Node::join(hub.address(), "b").row(1, [1; 4]).beat();
}
