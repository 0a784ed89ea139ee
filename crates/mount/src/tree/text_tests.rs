//! How new a kernel file's text is when somebody begins to read it. Time is told: nobody sleeps.

use std::sync::Arc;
use std::time::{Duration, Instant};

use khz_model::{Nanos, NodeName, NodeStatus, Rate, Stamp};

use crate::answer::Answer;
use crate::effects::Command;
use crate::file::{Caller, Read};
use crate::inode::{Inode, NodeId};
use crate::limits::{OPENED_TEXT_MAX, TEXT_AGE_MAX, TEXT_NOW_PAUSE, TEXT_NOW_WAIT};
use crate::options::Options;
use crate::tree::Tree;

const READER: Caller = Caller { user: 1_000, since: None };

/// A tree with one node, which shows one file; what it is asked, the test answers.
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

    /// A file that is open, and whose reader has read what he opened.
    fn open() -> (Self, u64) {
        let (mut lab, handle) = Lab::opened();
        assert_eq!(lab.begin(handle), ready("one"));
        (lab, handle)
    }

    /// A file that is open, with a text of now.
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

    /// What the node was asked since this was called last.
    fn asked(&mut self) -> Vec<u32> {
        let commands = self.tree.work(self.now).commands;
        let questions = commands.iter().filter_map(|command| match command {
            &Command::ReadTextNow(number, question) if number == self.subscription => Some(question),
            _ => None,
        });
        questions.collect()
    }
}

/// The subscription that was just made.
fn subscribed(tree: &mut Tree, now: Instant) -> u32 {
    let commands = tree.work(now).commands;
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
fn who_opens_a_file_has_asked_for_the_text_that_he_reads_next() {
    let (mut lab, handle) = Lab::opened();
    assert_eq!(lab.begin(handle), ready("one"));
    assert_eq!(lab.asked(), [], "one question went along with the subscription, and it was answered");
}

#[test]
fn who_opens_a_file_reads_a_text_of_the_length_that_stat_told_him() {
    let (mut lab, first) = Lab::open();
    let size = |lab: &mut Lab| lab.tree.attributes(lab.file).unwrap().size;
    // The next one waits for a text of now, and `stat` tells its length until he has closed the file or begun again.
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
    assert_eq!(size(&mut lab), 6, "he may ask again when he has read");
    assert_eq!(lab.begin(opened.handle), ready("by far the longest"));
    assert_eq!(size(&mut lab), 18);
}

#[test]
fn who_begins_to_read_long_after_he_opened_reads_a_text_of_now() {
    let (mut lab, handle) = Lab::opened();
    lab.now += OPENED_TEXT_MAX + MS;
    assert_eq!(lab.begin(handle), Answer::Wait);
}

#[test]
fn a_text_that_is_older_than_50_ms_is_asked_for_again_and_readers_within_a_window_share_the_answer() {
    let (mut lab, handle) = Lab::open();
    let first = lab.now;
    lab.now = first + TEXT_AGE_MAX;
    assert_eq!(lab.begin(handle), ready("one"), "as old as it may be");
    lab.now += MS;
    let began = lab.now;
    assert_eq!(lab.begin(handle), Answer::Wait);
    assert_eq!(lab.asked(), [2]);
    // A text that comes meanwhile by itself may have been read before.
    lab.says("two", 2);
    assert_eq!(lab.read(handle, began, false), Answer::Wait);
    lab.now += 9 * MS;
    let later = lab.now;
    assert_eq!(lab.begin(handle), Answer::Wait);
    assert_eq!(lab.asked(), [], "it is asked already");
    lab.says("three", 3);
    lab.tree.kernel_text_answered(lab.subscription, 2, true, lab.now);
    assert_eq!(lab.read(handle, began, false), ready("three"));
    assert_eq!(lab.read(handle, later, false), ready("three"));
    assert_eq!(lab.asked(), []);
}

#[test]
fn who_comes_long_after_the_ask_that_is_under_way_has_the_node_asked_once_more() {
    let (mut lab, handle) = Lab::open();
    lab.now += 200 * MS;
    assert_eq!(lab.begin(handle), Answer::Wait);
    assert_eq!(lab.asked(), [2]);
    lab.now += 100 * MS;
    let later = lab.now;
    assert_eq!(lab.begin(handle), Answer::Wait);
    lab.tree.kernel_text_answered(lab.subscription, 2, true, lab.now);
    assert_eq!(lab.read(handle, later, false), Answer::Wait, "that may be 100 ms older than his question");
    assert_eq!(lab.asked(), [3]);
    lab.tree.kernel_text_answered(lab.subscription, 3, true, lab.now);
    assert_eq!(lab.read(handle, later, false), ready("one"));
}

#[test]
fn a_node_that_does_not_answer_is_waited_for_once_and_gives_its_last_text() {
    let (mut lab, handle) = Lab::open();
    lab.now += 200 * MS;
    let began = lab.now;
    assert_eq!(lab.begin(handle), Answer::Wait);
    lab.now += TEXT_NOW_WAIT;
    assert_eq!(lab.read(handle, began, true), ready("one"), "his time is up");
    assert_eq!(lab.begin(handle), ready("one"), "nobody else waits");
    assert_eq!(lab.asked(), [2], "and it is not asked again and again");
    lab.says("two", 2);
    lab.tree.kernel_text_answered(lab.subscription, 2, true, lab.now);
    assert_eq!(lab.begin(handle), Answer::Wait, "it answers again: it is waited for again");
}

#[test]
fn a_node_that_cannot_be_asked_gives_what_it_has_and_is_left_alone_for_a_while() {
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
fn while_the_hub_is_away_nobody_waits_and_on_the_next_connection_the_node_is_asked_again() {
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
    assert_eq!(lab.begin(handle), Answer::Wait, "an answer to what was asked on the last connection");
}

#[test]
fn a_text_that_is_older_than_one_that_was_seen_is_shown_only_where_the_node_says_that_it_is_of_now() {
    let (mut lab, handle) = Lab::open();
    lab.says("new", 9);
    assert_eq!(lab.begin(handle), ready("new"));
    // Another hub has an older one.
    lab.tree.connected(false, "gone", lab.now);
    lab.tree.connected(true, "another", lab.now);
    lab.says("old", 8);
    lab.now += TEXT_AGE_MAX / 2;
    assert_eq!(lab.begin(handle), ready("new"));
    lab.says("newer", 10);
    assert_eq!(lab.begin(handle), ready("newer"));
    // A machine that has started again, with a clock that was set back: both its clocks say that this is older.
    lab.now += 200 * MS;
    assert_eq!(lab.begin(handle), Answer::Wait);
    assert_eq!(lab.asked(), [2]);
    lab.says("after the start", 1);
    lab.tree.kernel_text_answered(lab.subscription, 2, true, lab.now);
    assert_eq!(lab.begin(handle), ready("after the start"));
}
