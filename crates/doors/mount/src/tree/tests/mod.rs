//! The whole tree, with a hub that the test plays. Time is an argument: no test sleeps.

mod channels;
mod listing;
mod tables;
mod texts;
mod values;

use std::sync::Arc;
use std::time::{Duration, Instant};

use khz_model::{Nanos, NodeName, NodeStatus, Rate, Reading, Series, Stamp};

use super::*;
use crate::answer::Answer;
use crate::effects::{Command, Push};
use crate::file::{Caller, Opened, Read};
use crate::limits::LEASE;
use crate::sample::series;
use crate::upstream::{ChannelSubscription, Subscription};

const WAIT: Duration = Duration::from_secs(5);
const READER: Caller = Caller { user: 1_000, since: None };

/// A tree, its clock, and a hub that the test plays.
struct Lab {
    tree: Tree,
    now: Instant,
    subscriptions: Vec<Subscription>,
    lists_nodes: bool,
    /// Channels that the tree follows.
    channels: Vec<ChannelSubscription>,
    lists_channels: bool,
    /// Sleepers that were woken.
    woken: Vec<u64>,
}

impl Lab {
    /// A tree whose hub knows these nodes.
    fn of(nodes: &[&str]) -> Self {
        Lab::with(nodes, |_| {})
    }

    fn with(nodes: &[&str], tune: impl FnOnce(&mut Options)) -> Self {
        let mut options = Options::new(Rate::from_hz(100).unwrap(), "reader");
        options.wait = WAIT;
        tune(&mut options);
        let mut lab = Lab {
            tree: Tree::new(options, 0),
            now: Instant::now(),
            subscriptions: Vec::new(),
            lists_nodes: false,
            channels: Vec::new(),
            lists_channels: false,
            woken: Vec::new(),
        };
        lab.tree.connected(true, "test", lab.now);
        // A program lists the nodes.
        assert_eq!(lab.list(Inode::ROOT), Answer::Wait);
        lab.tell(&nodes.iter().map(|node| (*node, true)).collect::<Vec<_>>());
        lab
    }

    /// Does what has to be done.
    fn work(&mut self) {
        let errands = self.tree.errands(self.now);
        let work = self.tree.pushes(self.now);
        let wakes = work.pushes.iter().filter_map(|push| match push {
            Push::Wake(sleeper) => Some(*sleeper),
            _ => None,
        });
        self.woken.extend(wakes);
        self.woken.extend(self.tree.pushed(&work.pushes));
        for command in errands.commands {
            match command {
                Command::Subscribe(subscription) => self.subscriptions.push(subscription),
                Command::Unsubscribe(number) => self.subscriptions.retain(|known| known.number != number),
                Command::ListNodes(wanted) => self.lists_nodes = wanted,
                Command::ListChannels(wanted) => self.lists_channels = wanted,
                Command::SubscribeChannel(channel) => self.channels.push(channel),
                Command::UnsubscribeChannel(number) => self.channels.retain(|known| known.number != number),
                Command::SubscribeText(_) | Command::ReadTextNow(..) | Command::UnsubscribeText(_) => {}
            }
        }
    }

    /// Lets time pass; leases end in it.
    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.work();
    }

    /// The whole list of nodes, and who is up.
    fn tell(&mut self, nodes: &[(&str, bool)]) {
        let status = |&(node, up): &(&str, bool)| NodeStatus { up, ..NodeStatus::here(name(node)) };
        self.tree.nodes(&nodes.iter().map(status).collect::<Vec<_>>(), true, self.now);
    }

    /// The number of the subscription that has a pattern.
    fn subscription(&mut self, pattern: &str) -> u32 {
        self.work();
        let known = self.subscriptions.iter().find(|known| known.patterns.contains(&pattern.to_owned()));
        known.unwrap_or_else(|| panic!("{pattern} in {:?}", self.subscriptions)).number
    }

    /// A node's columns and row for the subscription with a pattern.
    fn row(&mut self, pattern: &str, node: &str, values: &[(&str, u64)]) {
        let subscription = self.subscription(pattern);
        self.row_of(subscription, node, values);
    }

    fn row_of(&mut self, subscription: u32, node: &str, values: &[(&str, u64)]) {
        let columns: Vec<Series> = values.iter().map(|(metric, _)| series(metric, None)).collect();
        let lane = lane(subscription, node);
        self.tree.columns(lane, subscription, &name(node), &Arc::new(columns));
        self.more(lane, values);
    }

    /// One more row in a lane.
    fn more(&mut self, lane: u64, values: &[(&str, u64)]) {
        let seconds = self.tree.cluster.rows() + 1;
        let stamp = Stamp { boot: Nanos(seconds * 1_000_000_000), real_offset: 0 };
        let mut cells = values.iter().map(|&(_, value)| Reading::Present(value)).enumerate();
        self.tree.row(lane, stamp, &mut cells);
    }

    fn find(&mut self, path: &str) -> Answer<Inode> {
        let mut at = Inode::ROOT;
        for step in path.split('/') {
            match self.tree.lookup(at, step.as_bytes(), self.now, false) {
                Answer::Ready(inode) => at = inode,
                other => return other,
            }
        }
        Answer::Ready(at)
    }

    /// The inode of a path that is known.
    fn at(&mut self, path: &str) -> Inode {
        match self.find(path) {
            Answer::Ready(inode) => inode,
            other => panic!("{path}: {other:?}"),
        }
    }

    fn list(&mut self, inode: Inode) -> Answer<Vec<String>> {
        match self.tree.open_directory(inode, READER, self.now, false) {
            Answer::Ready(opened) => {
                let entries = self.tree.entries(opened.handle, 0).unwrap();
                let names = entries.map(|(_, entry)| entry.name.clone()).collect();
                self.tree.release(opened.handle, self.now);
                Answer::Ready(names)
            }
            Answer::Wait => Answer::Wait,
            Answer::Fail(errno) => Answer::Fail(errno),
        }
    }

    /// Opens, reads and closes, as `cat` does.
    fn cat(&mut self, inode: Inode, late: bool) -> Answer<String> {
        match self.tree.open(inode, false, READER, self.now, late) {
            Answer::Ready(Opened { handle, .. }) => {
                let read = self.read(handle);
                self.tree.release(handle, self.now);
                read
            }
            Answer::Wait => Answer::Wait,
            Answer::Fail(errno) => Answer::Fail(errno),
        }
    }

    fn read(&mut self, handle: u64) -> Answer<String> {
        match self.tree.read(Read { handle, offset: 0, size: 4_096, began: self.now }, self.now, false) {
            Answer::Ready(bytes) => Answer::Ready(String::from_utf8(bytes).unwrap()),
            Answer::Wait => Answer::Wait,
            Answer::Fail(errno) => Answer::Fail(errno),
        }
    }

    /// A value of n1 was read once, and its lease has ended since.
    fn forgotten(nodes: &[&str], tune: impl FnOnce(&mut Options)) -> (Self, Inode) {
        let mut lab = Lab::with(nodes, tune);
        assert_eq!(lab.find("n1/metrics/mem"), Answer::Wait);
        lab.row("n1:*", "n1", &[("mem.free", 7)]);
        let free = lab.at("n1/metrics/mem/free");
        assert_eq!(lab.cat(free, false), text("7\n"));
        lab.pass(LEASE);
        assert_eq!((lab.subscriptions.len(), lab.lists_nodes), (0, lab.tree.options.strict));
        (lab, free)
    }
}

fn name(node: &str) -> NodeName {
    NodeName::new(node).unwrap()
}

fn lane(subscription: u32, node: &str) -> u64 {
    node.bytes().fold(u64::from(subscription), |lane, byte| lane << 8 | u64::from(byte))
}

fn text(text: &str) -> Answer<String> {
    Answer::Ready(text.to_owned())
}
