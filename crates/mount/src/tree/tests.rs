//! Which values and tables are current, and who waits for new ones. Time is an argument: no test sleeps.

use std::sync::Arc;
use std::time::{Duration, Instant};

use khz_model::{Nanos, NodeName, NodeStatus, Rate, Reading, Series, Stamp};

use super::*;
use crate::answer::Answer;
use crate::effects::Command;
use crate::file::{Caller, Opened, Read};
use crate::limits::LEASE;
use crate::sample::series;
use crate::upstream::Subscription;

const WAIT: Duration = Duration::from_secs(5);
const READER: Caller = Caller { user: 1_000, since: None };

/// A tree, its clock, and a hub that the test plays.
struct Cluster {
    tree: Tree,
    now: Instant,
    subscriptions: Vec<Subscription>,
    lists_nodes: bool,
}

impl Cluster {
    /// One whose hub knows these nodes.
    fn of(nodes: &[&str]) -> Self {
        Cluster::with(nodes, |_| {})
    }

    fn with(nodes: &[&str], tune: impl FnOnce(&mut Options)) -> Self {
        let mut options = Options::new(Rate::from_hz(100).unwrap(), "reader");
        options.wait = WAIT;
        tune(&mut options);
        let mut cluster = Cluster {
            tree: Tree::new(options, 0),
            now: Instant::now(),
            subscriptions: Vec::new(),
            lists_nodes: false,
        };
        cluster.tree.connected(true, "test", cluster.now);
        // A program lists the nodes.
        assert_eq!(cluster.list(Inode::ROOT), Answer::Wait);
        cluster.tell(&nodes.iter().map(|node| (*node, true)).collect::<Vec<_>>());
        cluster
    }

    /// Does what has to be done.
    fn work(&mut self) {
        for command in self.tree.work(self.now).commands {
            match command {
                Command::Subscribe(subscription) => self.subscriptions.push(subscription),
                Command::Unsubscribe(number) => self.subscriptions.retain(|known| known.number != number),
                Command::ListNodes(wanted) => self.lists_nodes = wanted,
                Command::SubscribeText(_) | Command::ReadTextNow(..) | Command::UnsubscribeText(_) => {}
            }
        }
    }

    /// Lets time go by; leases run out in it.
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

    /// A value of n1 was read once, and its lease has run out since.
    fn forgotten(nodes: &[&str], tune: impl FnOnce(&mut Options)) -> (Self, Inode) {
        let mut cluster = Cluster::with(nodes, tune);
        assert_eq!(cluster.find("n1/metrics/mem"), Answer::Wait);
        cluster.row("n1:*", "n1", &[("mem.free", 7)]);
        let free = cluster.at("n1/metrics/mem/free");
        assert_eq!(cluster.cat(free, false), text("7\n"));
        cluster.pass(LEASE);
        assert_eq!((cluster.subscriptions.len(), cluster.lists_nodes), (0, cluster.tree.options.strict));
        (cluster, free)
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

#[test]
fn an_open_waits_for_a_new_value_after_the_lease_has_ended() {
    let (mut cluster, free) = Cluster::forgotten(&["n1"], |_| {});
    assert_eq!(cluster.cat(free, false), Answer::Wait, "the value is old");
    cluster.row("n1:*", "n1", &[("mem.free", 8)]);
    assert_eq!(cluster.cat(free, false), text("8\n"));
    cluster.pass(LEASE - Duration::from_secs(1));
    assert_eq!(cluster.cat(free, false), text("8\n"), "rows come");
}

#[test]
fn a_row_that_comes_after_its_subscription_ended_answers_no_open() {
    let mut cluster = Cluster::of(&["n1"]);
    assert_eq!(cluster.find("n1/metrics/mem"), Answer::Wait);
    let subscription = cluster.subscription("n1:*");
    cluster.row_of(subscription, "n1", &[("mem.free", 7)]);
    let free = cluster.at("n1/metrics/mem/free");
    cluster.pass(LEASE);
    assert_eq!(cluster.cat(free, false), Answer::Wait);
    cluster.work();
    cluster.more(lane(subscription, "n1"), &[("mem.free", 7)]);
    assert_eq!(cluster.cat(free, false), Answer::Wait);
}

#[test]
fn a_reader_who_waits_in_vain_gets_the_old_value_but_an_error_with_strict() {
    let (mut cluster, free) = Cluster::forgotten(&["n1"], |_| {});
    assert_eq!(cluster.cat(free, true), text("7\n"));
    assert_eq!(cluster.tree.counts.timed_out, 1);
    let (mut cluster, free) = Cluster::forgotten(&["n1"], |options| options.strict = true);
    assert_eq!(cluster.cat(free, false), Answer::Wait);
    assert_eq!(cluster.cat(free, true), Answer::Fail(libc::ETIMEDOUT));
}

#[test]
fn an_open_waits_for_a_node_that_is_down_until_a_whole_list_has_come() {
    let (mut cluster, free) = Cluster::forgotten(&["n1"], |_| {});
    assert_eq!(cluster.cat(free, false), Answer::Wait);
    cluster.work();
    cluster.tell(&[("n1", false)]);
    assert_eq!(cluster.cat(free, false), Answer::Wait, "the list may have begun before the question");
    cluster.tell(&[("n1", false)]);
    assert_eq!(cluster.cat(free, false), text("7\n"), "nothing came");
    cluster.row("n1:*", "n1", &[("mem.free", 9)]);
    assert_eq!(cluster.cat(free, false), text("9\n"));
}

#[test]
fn files_keep_their_values_while_the_hub_is_away_and_opens_wait_when_it_is_back() {
    let (mut cluster, free) = Cluster::forgotten(&["n1", "n2"], |_| {});
    let (mem, status) = (cluster.at("n1/metrics/mem"), cluster.at("n1/status"));
    cluster.pass(LEASE * 2);
    cluster.tree.connected(false, "gone", cluster.now);
    assert_eq!(cluster.cat(free, false), text("7\n"));
    assert_eq!(cluster.list(mem), Answer::Ready(vec!["free".into()]));
    let nodes = [".by", ".control", ".mount", "n1", "n2"].map(str::to_owned).to_vec();
    assert_eq!(cluster.list(Inode::ROOT), Answer::Ready(nodes));
    assert!(matches!(cluster.cat(status, false), Answer::Ready(text) if text.contains("hub away\n")));
    assert_eq!(cluster.find("n1/metrics/mem/used"), Answer::Fail(libc::ENOENT));
    cluster.tree.connected(true, "back", cluster.now);
    assert_eq!(cluster.cat(free, false), Answer::Wait);
    assert_eq!(cluster.list(Inode::ROOT), Answer::Wait);
    assert_eq!(cluster.cat(status, false), Answer::Wait);
}

#[test]
fn a_node_that_a_new_hub_does_not_know_has_an_unknown_state_and_keeps_its_value() {
    let (mut cluster, free) = Cluster::forgotten(&["n1", "n2"], |_| {});
    let status = cluster.at("n1/status");
    cluster.tree.connected(false, "gone", cluster.now);
    cluster.tree.connected(true, "another", cluster.now);
    assert_eq!(cluster.cat(free, false), Answer::Wait);
    cluster.work();
    cluster.tell(&[("n2", true)]);
    cluster.tell(&[("n2", true)]);
    assert!(matches!(cluster.cat(status, false), Answer::Ready(text) if text.starts_with("state unknown\n")));
    assert_eq!(cluster.cat(free, false), text("7\n"));
}

#[test]
fn a_series_that_came_while_nobody_was_subscribed_is_found() {
    let (mut cluster, _) = Cluster::forgotten(&["n1"], |_| {});
    let (job, metrics) = ("n1/metrics/job/late", cluster.at("n1/metrics"));
    assert_eq!(cluster.find(job), Answer::Wait);
    assert_eq!(cluster.list(metrics), Answer::Wait);
    cluster.row("n1:*", "n1", &[("mem.free", 8), ("job.late", 1)]);
    assert_eq!(cluster.list(metrics), Answer::Ready(vec!["mem".into(), "job".into()]));
    let job = cluster.at(job);
    assert_eq!(cluster.cat(job, false), text("1\n"));
    assert_eq!(cluster.find("n1/metrics/job/later"), Answer::Fail(libc::ENOENT), "all series are known");
}

/// The thread that pushes never waits: it would wait for itself.
#[test]
fn a_late_lookup_never_waits() {
    let (mut cluster, _) = Cluster::forgotten(&["n1"], |_| {});
    let parents = ["n1", "n1/metrics", "n1/metrics/mem", "n1/proc", "n1/.control/metrics", ".by"];
    let parents = parents.map(|path| cluster.at(path)).into_iter().chain([Inode::ROOT]);
    for (parent, name) in parents.flat_map(|parent| [(parent, "unheard"), (parent, "n2")]) {
        let answer = cluster.tree.lookup(parent, name.as_bytes(), cluster.now, true);
        assert_ne!(answer, Answer::Wait, "{parent:?} {name}");
    }
}

#[test]
fn a_status_is_current_as_long_as_its_file_is_open() {
    let mut cluster = Cluster::of(&["n1"]);
    let status = cluster.at("n1/status");
    cluster.pass(LEASE);
    assert!(!cluster.lists_nodes);
    // The end of a list that was under way.
    cluster.tell(&[("n1", true)]);
    assert_eq!(cluster.cat(status, false), Answer::Wait, "it was up before");
    cluster.tell(&[("n1", false)]);
    let Answer::Ready(Opened { handle, .. }) = cluster.tree.open(status, false, READER, cluster.now, false)
    else {
        panic!("it does not open")
    };
    assert!(matches!(cluster.read(handle), Answer::Ready(text) if text.starts_with("state down\n")));
    cluster.pass(LEASE * 3);
    assert!(cluster.lists_nodes, "the file is open");
    cluster.tree.release(handle, cluster.now);
    cluster.pass(LEASE);
    assert!(!cluster.lists_nodes);
}

#[test]
fn a_table_waits_once_and_only_for_nodes_that_are_up() {
    let mut cluster = Cluster::of(&["n1", "n2", "n3"]);
    cluster.tell(&[("n1", true), ("n2", true), ("n3", false)]);
    let job = cluster.at(".by/job.x");
    assert_eq!(cluster.cat(job, false), Answer::Wait);
    cluster.row("job.x", "n1", &[("job.x", 5)]);
    cluster.row("job.x", "n3", &[("job.x", 6)]);
    assert_eq!(cluster.cat(job, false), Answer::Wait, "n2 has not answered");
    cluster.pass(WAIT);
    assert_eq!(cluster.cat(job, false), text("n1 5\n"), "n3 is down, n2 has not answered in time");
    cluster.tell(&[("n1", true), ("n2", true), ("n3", true)]);
    assert_eq!(cluster.cat(job, false), text("n1 5\nn3 6\n"));
    cluster.tell(&[("n1", false), ("n2", false), ("n3", false)]);
    assert_eq!(cluster.cat(job, false), text(""), "no node is up");
}

#[test]
fn a_table_has_no_line_for_a_node_without_the_metric_and_does_not_exist_if_no_node_has_it() {
    let mut cluster = Cluster::of(&["n1", "n2"]);
    let job = cluster.at(".by/job.x");
    assert_eq!(cluster.cat(job, false), Answer::Wait);
    cluster.row("job.x", "n1", &[("job.x", 5)]);
    cluster.row("job.x", "n2", &[]);
    assert_eq!(cluster.cat(job, false), text("n1 5\n"));
    let none = cluster.at(".by/job.none");
    assert_eq!(cluster.cat(none, true), Answer::Fail(libc::ETIMEDOUT), "no node has answered");
    ["n1", "n2"].iter().for_each(|node| cluster.row("job.none", node, &[]));
    assert_eq!(cluster.cat(none, false), Answer::Fail(libc::ENOENT));
}

#[test]
fn a_table_is_kept_while_the_hub_is_away_and_waits_again_when_it_is_back() {
    let mut cluster = Cluster::of(&["n1", "n2"]);
    let job = cluster.at(".by/job.x");
    assert_eq!(cluster.cat(job, false), Answer::Wait);
    let subscription = cluster.subscription("job.x");
    cluster.row_of(subscription, "n1", &[("job.x", 1)]);
    cluster.row_of(subscription, "n2", &[("job.x", 2)]);
    assert_eq!(cluster.cat(job, false), text("n1 1\nn2 2\n"));
    cluster.pass(LEASE * 2);
    assert_eq!(cluster.subscriptions, []);
    cluster.tree.connected(false, "gone", cluster.now);
    assert_eq!(cluster.cat(job, false), text("n1 1\nn2 2\n"));
    cluster.pass(WAIT);
    cluster.tree.connected(true, "back", cluster.now);
    assert_eq!(cluster.cat(job, false), Answer::Wait);
    cluster.tell(&[("n1", true), ("n2", true)]);
    cluster.row("job.x", "n2", &[("job.x", 3)]);
    assert_eq!(cluster.cat(job, false), Answer::Wait, "n1 may still answer");
    assert_eq!(cluster.cat(job, true), text("n2 3\n"), "the line of n1 is old");
}

#[test]
fn a_table_stays_subscribed_while_its_file_is_open() {
    let mut cluster = Cluster::of(&["n1"]);
    let job = cluster.at(".by/job.x");
    assert_eq!(cluster.cat(job, false), Answer::Wait);
    cluster.row("job.x", "n1", &[("job.x", 5)]);
    let Answer::Ready(Opened { handle, .. }) = cluster.tree.open(job, false, READER, cluster.now, false)
    else {
        panic!("it does not open")
    };
    cluster.pass(LEASE * 3);
    let subscription = cluster.subscription("job.x");
    cluster.more(lane(subscription, "n1"), &[("job.x", 6)]);
    assert_eq!(cluster.read(handle), text("n1 6\n"));
    cluster.tree.release(handle, cluster.now);
    cluster.pass(LEASE);
    assert_eq!((cluster.subscriptions.len(), cluster.lists_nodes), (0, false));
}

#[test]
fn metrics_are_listed_before_anybody_has_opened_a_node() {
    let mut cluster = Cluster::of(&["n1", "n2"]);
    let by = cluster.at(".by");
    assert_eq!(cluster.list(by), Answer::Wait);
    cluster.row("n1:*", "n1", &[("mem.free", 1), ("load.1m", 2)]);
    assert_eq!(cluster.list(by), Answer::Ready(vec!["load.1m".into(), "mem.free".into()]));
    // A metric that only another node has is listed once somebody has read it.
    let job = cluster.at(".by/job.x");
    assert_eq!(cluster.cat(job, false), Answer::Wait);
    cluster.row("job.x", "n2", &[("job.x", 1)]);
    assert_eq!(cluster.list(by), Answer::Ready(["job.x", "load.1m", "mem.free"].map(str::to_owned).to_vec()));
}

#[test]
fn any_metric_name_can_be_looked_up_until_there_are_too_many() {
    let mut cluster = Cluster::of(&["n1"]);
    for name in ["*", "a:b", "mem.free[", "Ärger", "", "mem..free"] {
        assert_eq!(cluster.find(&format!(".by/{name}")), Answer::Fail(libc::ENOENT), "{name}");
    }
    for number in 0..crate::limits::BY_NAMES_MAX {
        cluster.at(&format!(".by/x.n{number}"));
    }
    assert_eq!(cluster.find(".by/x.more"), Answer::Fail(libc::ENOSPC));
    cluster.at(".by/x.n7");
    assert_eq!(cluster.tree.cluster.tables().names().1, 1);
}

/// A row of these readings for the subscription to everything.
fn readings(cluster: &mut Cluster, node: &str, values: &[(&str, Reading)]) {
    let subscription = cluster.subscription(&format!("{node}:*"));
    let columns: Vec<Series> = values.iter().map(|(metric, _)| series(metric, None)).collect();
    let lane = lane(subscription, node);
    cluster.tree.columns(lane, subscription, &name(node), &Arc::new(columns));
    let stamp = Stamp { boot: Nanos(cluster.tree.cluster.rows() + 1), real_offset: 0 };
    cluster.tree.row(lane, stamp, &mut values.iter().map(|&(_, reading)| reading).enumerate());
}

#[test]
fn a_series_without_a_value_is_not_listed() {
    let mut cluster = Cluster::of(&["n1"]);
    assert_eq!(cluster.find("n1/metrics/net"), Answer::Wait);
    let gone = Reading::Absent(khz_model::Absence::InstanceGone);
    let failed = Reading::Failed(khz_model::Fault::Unreadable);
    let there = Reading::Present(7);
    readings(&mut cluster, "n1", &[("net.a", there), ("net.b", gone), ("job.x", gone), ("job.y", failed)]);
    let (metrics, net, job) =
        (cluster.at("n1/metrics"), cluster.at("n1/metrics/net"), cluster.at("n1/metrics/job"));
    let listed = |cluster: &mut Cluster, inode| match cluster.list(inode) {
        Answer::Ready(names) => names.join(" "),
        other => panic!("{other:?}"),
    };
    assert_eq!(listed(&mut cluster, metrics), "net");
    assert_eq!(listed(&mut cluster, net), "a");
    assert_eq!(listed(&mut cluster, job), "");
    let file = cluster.at("n1/metrics/net/b");
    assert_eq!(cluster.cat(file, false), Answer::Fail(libc::ENODATA), "an open says why there is no value");
    readings(&mut cluster, "n1", &[("net.a", there), ("net.b", there), ("job.x", there), ("job.y", gone)]);
    assert_eq!(listed(&mut cluster, metrics), "net job");
    assert_eq!(listed(&mut cluster, net), "a b");
}

#[test]
fn a_value_keeps_its_length_for_a_moment_after_an_open() {
    let mut cluster = Cluster::of(&["n1"]);
    assert_eq!(cluster.find("n1/metrics/mem/free"), Answer::Wait);
    cluster.row("n1:*", "n1", &[("mem.free", 9)]);
    let free = cluster.at("n1/metrics/mem/free");
    let lane = lane(cluster.subscription("n1:*"), "n1");
    let Answer::Ready(opened) = cluster.tree.open(free, false, READER, cluster.now, false) else {
        panic!("it does not open")
    };
    let seen =
        |cluster: &mut Cluster| (cluster.tree.attributes(free).unwrap().size, cluster.read(opened.handle));
    assert_eq!(seen(&mut cluster), (2, Answer::Ready("9\n".to_owned())));
    cluster.more(lane, &[("mem.free", 10)]);
    cluster.work();
    assert_eq!(seen(&mut cluster), (2, Answer::Ready("9\n".to_owned())), "it has another length");
    assert!(cluster.tree.next_work().unwrap() <= cluster.now + crate::limits::LENGTH_HOLD);
    cluster.pass(crate::limits::LENGTH_HOLD);
    assert_eq!(seen(&mut cluster), (3, Answer::Ready("10\n".to_owned())));
    cluster.more(lane, &[("mem.free", 7)]);
    cluster.work();
    assert_eq!(seen(&mut cluster), (2, Answer::Ready("7\n".to_owned())), "the open was long ago");
}
