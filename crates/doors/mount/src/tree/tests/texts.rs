//! How fresh a kernel file's text is when somebody begins to read it. Time is an argument: no test sleeps.

use std::sync::Arc;
use std::time::{Duration, Instant};

use khz_model::{Nanos, NodeName, NodeStatus, Rate, Stamp};

use crate::answer::Answer;
use crate::effects::Command;
use crate::file::{Caller, Read};
use crate::inode::{Inode, NodeId};
use crate::limits::{LEASE, OPENED_TEXT_MAX, TEXT_AGE_MAX, TEXT_NOW_PAUSE, TEXT_NOW_WAIT};
use crate::options::Options;
use crate::tree::Tree;

const READER: Caller = Caller { user: 1_000, since: None };

/// A tree with one node, which shows one file. The test answers for the node.
struct Lab {
    tree: Tree,
    now: Instant,
    file: Inode,
    /// The subscription to the file, once there is one.
    subscription: u32,
}

impl Lab {
    fn new() -> Self {
        let mut tree = Tree::new(Options::new(Rate::from_hz(100).unwrap(), "reader"), 0);
        let now = Instant::now();
        tree.connected(true, "test", now);
        tree.nodes(&[NodeStatus::here(NodeName::new("n1").unwrap())], true, now);
        let top = Inode::plain(NodeId(1), tree.paths.proc);
        assert_eq!(tree.lookup(top, b"stat", now, false), Answer::Wait);
        let subscription = subscribed(&mut tree, now);
        tree.kernel_text(subscription, &text("stat\n"), stamp(1), now);
        let Answer::Ready(file) = tree.lookup(top, b"stat", now, false) else { panic!("no file") };
        Lab { tree, now, file, subscription: 0 }
    }

    /// A file that is open, and whose reader has read the text of the open.
    fn open() -> (Self, u64) {
        let (mut lab, handle) = Lab::opened();
        assert_eq!(lab.begin(handle), ready("one"));
        (lab, handle)
    }

    /// A file that is open, with a fresh text.
    fn opened() -> (Self, u64) {
        let mut lab = Lab::new();
        assert_eq!(lab.tree.open(lab.file, false, READER, lab.now, false), Answer::Wait);
        lab.subscription = subscribed(&mut lab.tree, lab.now);
        lab.says("one", 1);
        lab.tree.kernel_text_answered(lab.subscription, 1, true, lab.now);
        let Answer::Ready(opened) = lab.tree.open(lab.file, false, READER, lab.now, false) else {
            panic!("it does not open")
        };
        (lab, opened.handle)
    }

    fn says(&mut self, line: &str, seconds: u64) {
        self.tree.kernel_text(self.subscription, &text(line), stamp(seconds), self.now);
    }

    /// A reader begins, or goes on waiting since `began`.
    fn read(&mut self, handle: u64, began: Instant, late: bool) -> Answer<String> {
        match self.tree.read(Read { handle, offset: 0, size: 4_096, began }, self.now, late) {
            Answer::Ready(bytes) => Answer::Ready(String::from_utf8(bytes).unwrap()),
            Answer::Wait => Answer::Wait,
            Answer::Fail(errno) => Answer::Fail(errno),
        }
    }

    fn begin(&mut self, handle: u64) -> Answer<String> {
        self.read(handle, self.now, false)
    }

    /// The requests to the node since the last call.
    fn asked(&mut self) -> Vec<u32> {
        let commands = self.tree.errands(self.now).commands;
        let requests = commands.iter().filter_map(|command| match command {
            &Command::ReadTextNow(number, request) if number == self.subscription => Some(request),
            _ => None,
        });
        requests.collect()
    }
}

/// The subscription that was just made.
fn subscribed(tree: &mut Tree, now: Instant) -> u32 {
    let commands = tree.errands(now).commands;
    let number = commands.iter().find_map(|command| match command {
        Command::SubscribeText(subscription) => Some(subscription.number),
        _ => None,
    });
    number.unwrap()
}

fn text(line: &str) -> Arc<[u8]> {
    line.as_bytes().into()
}

fn stamp(seconds: u64) -> Stamp {
    Stamp { boot: Nanos(seconds * 1_000_000_000), real_offset: 1_600_000_000_000_000_000 }
}

fn ready(line: &str) -> Answer<String> {
    Answer::Ready(line.to_owned())
}

const MS: Duration = Duration::from_millis(1);

#[test]
fn an_open_asks_for_the_text_of_the_first_read() {
    let (mut lab, handle) = Lab::opened();
    assert_eq!(lab.begin(handle), ready("one"));
    assert_eq!(lab.asked(), [0_u32; 0], "one request went along with the subscription, and it was answered");
}

#[test]
fn the_first_read_has_the_length_that_stat_has_shown() {
    let (mut lab, first) = Lab::open();
    let size = |lab: &mut Lab| lab.tree.attributes(lab.file, lab.now).unwrap().size;
    // The next open waits for a fresh text. `stat` shows its length until this reader closes the file or begins again.
    lab.now += 200 * MS;
    let caller = Caller { since: Some(lab.now), ..READER };
    assert_eq!(lab.tree.open(lab.file, false, caller, lab.now, false), Answer::Wait);
    assert_eq!(lab.asked(), [2]);
    lab.says("longer", 2);
    lab.tree.kernel_text_answered(lab.subscription, 2, true, lab.now);
    let Answer::Ready(opened) = lab.tree.open(lab.file, false, caller, lab.now, false) else {
        panic!("it does not open")
    };
    lab.says("by far the longest", 3);
    assert_eq!(size(&mut lab), 6);
    assert_eq!(lab.begin(first), ready("by far the longest"), "others see what there is");
    assert_eq!(size(&mut lab), 6);
    assert_eq!(lab.begin(opened.handle), ready("longer"));
    assert_eq!(size(&mut lab), 6, "it may ask `stat` again after the read");
    assert_eq!(lab.begin(opened.handle), ready("by far the longest"));
    assert_eq!(size(&mut lab), 18);
}

#[test]
fn a_reader_who_begins_long_after_the_open_gets_a_fresh_text() {
    let (mut lab, handle) = Lab::opened();
    lab.now += OPENED_TEXT_MAX + MS;
    assert_eq!(lab.begin(handle), Answer::Wait);
}

#[test]
fn a_text_older_than_50_ms_is_asked_for_again_and_readers_share_the_answer() {
    let (mut lab, handle) = Lab::open();
    let first = lab.now;
    lab.now = first + TEXT_AGE_MAX;
    assert_eq!(lab.begin(handle), ready("one"), "as old as allowed");
    lab.now += MS;
    let began = lab.now;
    assert_eq!(lab.begin(handle), Answer::Wait);
    assert_eq!(lab.asked(), [2]);
    // A text that comes without a request may have been read earlier.
    lab.says("two", 2);
    assert_eq!(lab.read(handle, began, false), Answer::Wait);
    lab.now += 9 * MS;
    let later = lab.now;
    assert_eq!(lab.begin(handle), Answer::Wait);
    assert_eq!(lab.asked(), [0_u32; 0], "the request is under way");
    lab.says("three", 3);
    lab.tree.kernel_text_answered(lab.subscription, 2, true, lab.now);
    assert_eq!(lab.read(handle, began, false), ready("three"));
    assert_eq!(lab.read(handle, later, false), ready("three"));
    assert_eq!(lab.asked(), [0_u32; 0]);
}

#[test]
fn a_reader_who_begins_long_after_the_request_needs_another_answer() {
    let (mut lab, handle) = Lab::open();
    lab.now += 200 * MS;
    assert_eq!(lab.begin(handle), Answer::Wait);
    assert_eq!(lab.asked(), [2]);
    lab.now += 100 * MS;
    let later = lab.now;
    assert_eq!(lab.begin(handle), Answer::Wait);
    lab.tree.kernel_text_answered(lab.subscription, 2, true, lab.now);
    assert_eq!(lab.read(handle, later, false), Answer::Wait, "that answer may be 100 ms too old");
    assert_eq!(lab.asked(), [3]);
    lab.tree.kernel_text_answered(lab.subscription, 3, true, lab.now);
    assert_eq!(lab.read(handle, later, false), ready("one"));
}

#[test]
fn one_reader_waits_for_a_node_that_does_not_answer_and_the_others_get_the_last_text() {
    let (mut lab, handle) = Lab::open();
    lab.now += 200 * MS;
    let began = lab.now;
    assert_eq!(lab.begin(handle), Answer::Wait);
    lab.now += TEXT_NOW_WAIT;
    assert_eq!(lab.read(handle, began, true), ready("one"), "this reader has waited long enough");
    assert_eq!(lab.begin(handle), ready("one"), "other readers do not wait");
    assert_eq!(lab.asked(), [2], "it is asked only once");
    lab.says("two", 2);
    lab.tree.kernel_text_answered(lab.subscription, 2, true, lab.now);
    assert_eq!(lab.begin(handle), Answer::Wait, "it answers again: readers wait again");
}

#[test]
fn a_text_that_nobody_has_followed_for_a_while_is_the_last_one_where_the_node_does_not_answer() {
    let (mut lab, handle) = Lab::open();
    lab.tree.release(handle, lab.now);
    // The lease ends, and with it the subscription.
    lab.now += LEASE * 2;
    lab.tree.errands(lab.now);
    lab.now += LEASE * 2;
    lab.tree.errands(lab.now);
    let caller = Caller { since: Some(lab.now), ..READER };
    assert_eq!(lab.tree.open(lab.file, false, caller, lab.now, false), Answer::Wait);
    lab.subscription = subscribed(&mut lab.tree, lab.now);
    lab.now += TEXT_NOW_WAIT;
    let Answer::Ready(opened) = lab.tree.open(lab.file, false, caller, lab.now, true) else {
        panic!("this reader has waited long enough")
    };
    assert_eq!(lab.begin(opened.handle), ready("one"));
    let caller = Caller { since: Some(lab.now), ..READER };
    let Answer::Ready(opened) = lab.tree.open(lab.file, false, caller, lab.now, false) else {
        panic!("other readers do not wait")
    };
    assert_eq!(lab.begin(opened.handle), ready("one"));
    lab.says("two", 60);
    lab.tree.kernel_text_answered(lab.subscription, 2, true, lab.now);
    let open = lab.tree.open(lab.file, false, caller, lab.now, false);
    assert_eq!(open, Answer::Wait, "it answers again: readers wait again");
    lab.tree.kernel_text_answered(lab.subscription, 3, true, lab.now);
    let Answer::Ready(opened) = lab.tree.open(lab.file, false, caller, lab.now, false) else {
        panic!("it has answered")
    };
    assert_eq!(lab.begin(opened.handle), ready("two"));
}

#[test]
fn a_node_that_cannot_be_asked_gives_its_last_text_and_is_asked_again_after_a_pause() {
    let (mut lab, handle) = Lab::open();
    lab.now += 200 * MS;
    let began = lab.now;
    assert_eq!(lab.begin(handle), Answer::Wait);
    lab.tree.kernel_text_answered(lab.subscription, 2, false, lab.now);
    assert_eq!(lab.read(handle, began, false), ready("one"));
    lab.now += TEXT_NOW_PAUSE - MS;
    assert_eq!(lab.begin(handle), ready("one"));
    assert_eq!(lab.asked(), [2]);
    lab.now += MS;
    assert_eq!(lab.begin(handle), Answer::Wait);
    assert_eq!(lab.asked(), [3]);
}

#[test]
fn nobody_waits_while_the_hub_is_away_and_the_next_connection_asks_again() {
    let (mut lab, handle) = Lab::open();
    lab.now += 200 * MS;
    let began = lab.now;
    assert_eq!(lab.begin(handle), Answer::Wait);
    lab.tree.connected(false, "gone", lab.now);
    assert_eq!(lab.read(handle, began, false), ready("one"));
    lab.tree.connected(true, "test", lab.now);
    assert_eq!(lab.begin(handle), Answer::Wait);
    assert_eq!(lab.asked(), [2, 3]);
    lab.tree.kernel_text_answered(lab.subscription, 2, true, lab.now);
    assert_eq!(lab.begin(handle), Answer::Wait, "that answers a request of the last connection");
}

#[test]
fn an_older_text_is_shown_only_after_the_node_has_confirmed_it() {
    let (mut lab, handle) = Lab::open();
    lab.says("new", 9);
    assert_eq!(lab.begin(handle), ready("new"));
    // Another hub has an older text.
    lab.tree.connected(false, "gone", lab.now);
    lab.tree.connected(true, "another", lab.now);
    lab.says("old", 8);
    lab.now += TEXT_AGE_MAX / 2;
    assert_eq!(lab.begin(handle), ready("new"));
    lab.says("newer", 10);
    assert_eq!(lab.begin(handle), ready("newer"));
    // The machine has started again with a clock that was set back: both its clocks say that this text is older.
    lab.now += 200 * MS;
    assert_eq!(lab.begin(handle), Answer::Wait);
    assert_eq!(lab.asked(), [2]);
    lab.says("after the start", 1);
    lab.tree.kernel_text_answered(lab.subscription, 2, true, lab.now);
    assert_eq!(lab.begin(handle), ready("after the start"));
}
