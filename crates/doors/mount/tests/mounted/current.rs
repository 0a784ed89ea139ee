//! Reads get current values, though nothing was sent while nobody read.

use std::sync::Arc;
use std::time::{Duration, Instant};

use khz_model::NodeStatus;

use crate::lab::{Lab, errno, lane, name, wait_until};
use crate::names;
use crate::sample::series;

#[test]
fn without_readers_there_is_no_subscription_and_a_later_reader_gets_a_new_value() {
    let lab = Lab::new(3, |_| {});
    lab.read("n0001/metrics/mem/free").unwrap();
    assert_eq!(lab.subscriptions().len(), 1);
    assert_eq!(lab.subscriptions()[0].patterns, ["n0001:*"]);
    wait_until("the lease has run out", || {
        lab.subscriptions().is_empty() && !lab.asked.lock().unwrap().lists_nodes
    });
    {
        let mut asked = lab.asked.lock().unwrap();
        (asked.more, asked.delay) = (500, Duration::from_millis(100));
    }
    assert_eq!(lab.read("n0001/metrics/mem/free").unwrap(), "1500\n");
    assert_eq!(lab.read("n0001/metrics/load/1m").unwrap(), "1501\n");
}

#[test]
fn tables_are_listed_before_anybody_has_opened_a_node() {
    let lab = Lab::new(3, |_| {});
    assert_eq!(names(&lab, ".by"), ["load.1m", "mem.free"]);
    assert_eq!(lab.subscriptions().len(), 1, "one node is asked");
    assert_eq!(errno(lab.read(".by/mem.used")), libc::ENOENT);
    assert_eq!(lab.read(".by/mem.free").unwrap().lines().count(), 3);
}

#[test]
fn a_table_has_no_line_for_a_node_that_is_down() {
    let lab = Lab::new(3, |_| {});
    assert_eq!(lab.read(".by/mem.free").unwrap(), "n0000 1000\nn0001 1000\nn0002 1000\n");
    lab.sink.nodes(&[NodeStatus { up: false, ..NodeStatus::here(name(1)) }], false);
    assert_eq!(lab.read(".by/mem.free").unwrap(), "n0000 1000\nn0002 1000\n");
}

#[test]
fn the_tree_is_listed_while_the_hub_is_away() {
    let lab = Lab::new(2, |_| {});
    assert_eq!(names(&lab, "").len(), 6);
    wait_until("the lease has run out", || !lab.asked.lock().unwrap().lists_nodes);
    lab.asked.lock().unwrap().mute = true;
    lab.sink.connected(false, "gone");
    assert_eq!(names(&lab, ""), [".by", ".channels", ".control", ".mount", "n0000", "n0001"]);
}

/// A file whose name the kernel has forgotten, and whose node has series again that nobody knows: a lookup waits.
fn forgotten(lab: &Lab, file: &str) {
    // After two closes the file is followed for a while, and nothing keeps its name in the kernel.
    assert_eq!([(); 2].map(|()| lab.read(file).unwrap()), ["1000\n", "1000\n"]);
    let number = lab.subscriptions()[0].number;
    lab.sink.closed(lane(number, 0));
    let others = Arc::new(vec![series("load.1m", None)]);
    lab.sink.columns(lane(number, 1), number, &name(0), &others);
    rustix::mount::mount_remount(&lab.directory, rustix::mount::MountFlags::NOATIME, c"").unwrap();
}

/// The files of a strict mount's node get new pages, and somebody has read: the thread that pushes stores them.
fn turn(lab: &Lab) {
    let status = |up| NodeStatus { up, ..NodeStatus::here(name(0)) };
    lab.sink.nodes(&[status(false), status(true)], false);
}

fn read_in_a_thread(lab: &Lab, file: &str) -> std::thread::JoinHandle<i32> {
    let path = lab.path(file);
    std::thread::spawn(move || errno(std::fs::read(path)))
}

fn assert_times_out(reader: std::thread::JoinHandle<i32>) {
    let until = Instant::now() + Duration::from_secs(20);
    while !reader.is_finished() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(reader.is_finished(), "nobody answers waiting requests");
    assert_eq!(reader.join().unwrap(), libc::ETIMEDOUT);
}

const FREE: &str = "n0000/metrics/mem/free";

/// To store a value, the thread that pushes asks the kernel for the length of its file, and the kernel looks up the name.
/// A lookup in a node that has not answered waits; that of the thread that pushes does not.
#[test]
fn the_thread_that_pushes_does_not_wait_for_itself() {
    if !rustix::process::geteuid().is_root() {
        return khz_skip::skip("only root may have the kernel forget the names");
    }
    let lab = Lab::new(1, |options| options.strict = true);
    forgotten(&lab, FREE);
    let stored = lab.stat("pages_stored");
    turn(&lab);
    wait_until("the page is stored", || lab.stat("pages_stored") > stored);
    assert_times_out(read_in_a_thread(&lab, FREE));
}

/// Two who look up the same name at a time are one request: the kernel lets the second wait for the answer to the first.
#[test]
fn a_lookup_that_waits_ends_though_the_thread_that_pushes_waits_for_it() {
    if !rustix::process::geteuid().is_root() {
        return khz_skip::skip("only root may have the kernel forget the names");
    }
    let lab = Lab::new(1, |options| {
        options.strict = true;
        options.wait = Duration::from_secs(2);
    });
    forgotten(&lab, FREE);
    let stored = lab.stat("pages_stored");
    let reader = read_in_a_thread(&lab, FREE);
    wait_until("the reader waits", || lab.stat("requests_waiting") == 1);
    turn(&lab);
    wait_until("the page is stored", || lab.stat("pages_stored") > stored);
    assert_times_out(reader);
}
