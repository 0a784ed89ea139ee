//! What is of now and what was so when somebody last looked. Time is told: nobody sleeps.

use std::sync::Arc;
use std::time::{Duration, Instant};

use khz_model::{Nanos, NodeName, NodeStatus, Rate, Reading, Series, Stamp};

use super::*;
use crate::limits::LEASE;
use crate::sample::series;
use crate::source::Wish;

const WAIT: Duration = Duration::from_secs(5);
const READER: Asker = Asker { user: 1_000, since: None };

/// A tree, its clock, and a hub that says what the test has it say.
struct Cluster {
    tree: Tree,
    now: Instant,
    wishes: Vec<Wish>,
    roster: bool,
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
        let mut cluster =
            Cluster { tree: Tree::new(options, 0), now: Instant::now(), wishes: Vec::new(), roster: false };
        cluster.tree.connected(true, "test", cluster.now);
        // Somebody has listed the nodes.
        assert_eq!(cluster.list(Inode::ROOT), Answer::Wait);
        cluster.tell(&nodes.iter().map(|node| (*node, true)).collect::<Vec<_>>());
        cluster
    }

    /// Does what is to be done.
    fn work(&mut self) {
        for order in self.tree.work(self.now).orders {
            match order {
                Order::Ask(wish) => self.wishes.push(wish),
                Order::Dismiss(number) => self.wishes.retain(|wish| wish.number != number),
                Order::Roster(wanted) => self.roster = wanted,
                Order::Read(_) | Order::ReadNow(..) | Order::Unread(_) => {}
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

    /// The number of the wish that has a pattern.
    fn wish(&mut self, pattern: &str) -> u32 {
        self.work();
        let known = self.wishes.iter().find(|wish| wish.patterns.contains(&pattern.to_owned()));
        known.unwrap_or_else(|| panic!("{pattern} in {:?}", self.wishes)).number
    }

    /// A node's columns and row for the wish with a pattern.
    fn row(&mut self, pattern: &str, node: &str, values: &[(&str, u64)]) {
        let wish = self.wish(pattern);
        self.row_of(wish, node, values);
    }

    fn row_of(&mut self, wish: u32, node: &str, values: &[(&str, u64)]) {
        let columns: Vec<Series> = values.iter().map(|(metric, _)| series(metric, None)).collect();
        let lane = lane(wish, node);
        self.tree.columns(lane, wish, &name(node), &Arc::new(columns));
        self.more(lane, values);
    }

    /// One more row in a lane.
    fn more(&mut self, lane: u64, values: &[(&str, u64)]) {
        let seconds = self.tree.counts.rows + 1;
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
        assert_eq!((cluster.wishes.len(), cluster.roster), (0, cluster.tree.options.strict));
        (cluster, free)
    }
}

fn name(node: &str) -> NodeName {
    NodeName::new(node).unwrap()
}

fn lane(wish: u32, node: &str) -> u64 {
    node.bytes().fold(u64::from(wish), |lane, byte| lane << 8 | u64::from(byte))
}

fn text(text: &str) -> Answer<String> {
    Answer::Ready(text.to_owned())
}

#[test]
fn a_value_is_awaited_anew_when_nobody_has_looked_for_a_while() {
    let (mut cluster, free) = Cluster::forgotten(&["n1"], |_| {});
    assert_eq!(cluster.cat(free, false), Answer::Wait, "what is there is of then");
    cluster.row("n1:*", "n1", &[("mem.free", 8)]);
    assert_eq!(cluster.cat(free, false), text("8\n"));
    cluster.pass(LEASE - Duration::from_secs(1));
    assert_eq!(cluster.cat(free, false), text("8\n"), "its rows come");
}

#[test]
fn a_row_that_was_under_way_when_a_node_was_not_wanted_any_more_answers_nobody() {
    let mut cluster = Cluster::of(&["n1"]);
    assert_eq!(cluster.find("n1/metrics/mem"), Answer::Wait);
    let wish = cluster.wish("n1:*");
    cluster.row_of(wish, "n1", &[("mem.free", 7)]);
    let free = cluster.at("n1/metrics/mem/free");
    cluster.pass(LEASE);
    assert_eq!(cluster.cat(free, false), Answer::Wait);
    cluster.work();
    cluster.more(lane(wish, "n1"), &[("mem.free", 7)]);
    assert_eq!(cluster.cat(free, false), Answer::Wait);
}

#[test]
fn who_has_waited_in_vain_gets_the_old_value_and_it_is_counted_but_not_with_strict() {
    let (mut cluster, free) = Cluster::forgotten(&["n1"], |_| {});
    assert_eq!(cluster.cat(free, true), text("7\n"));
    assert_eq!(cluster.tree.counts.timed_out, 1);
    let (mut cluster, free) = Cluster::forgotten(&["n1"], |options| options.strict = true);
    assert_eq!(cluster.cat(free, false), Answer::Wait);
    assert_eq!(cluster.cat(free, true), Answer::Fail(libc::ETIMEDOUT));
}

#[test]
fn of_a_node_that_is_down_the_hub_may_know_a_newer_value_until_a_list_has_begun_and_ended() {
    let (mut cluster, free) = Cluster::forgotten(&["n1"], |_| {});
    assert_eq!(cluster.cat(free, false), Answer::Wait);
    cluster.work();
    cluster.tell(&[("n1", false)]);
    assert_eq!(cluster.cat(free, false), Answer::Wait, "the list may have begun before the hub knew");
    cluster.tell(&[("n1", false)]);
    assert_eq!(cluster.cat(free, false), text("7\n"), "nothing came: what there was");
    cluster.row("n1:*", "n1", &[("mem.free", 9)]);
    assert_eq!(cluster.cat(free, false), text("9\n"));
}

#[test]
fn while_the_hub_is_away_everything_is_as_it_was_and_when_it_is_back_it_is_awaited() {
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
fn a_node_that_a_new_hub_does_not_know_is_in_an_unknown_state_and_keeps_its_value() {
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
fn a_series_that_came_while_nobody_looked_is_awaited_and_then_there() {
    let (mut cluster, _) = Cluster::forgotten(&["n1"], |_| {});
    let (job, metrics) = ("n1/metrics/job/late", cluster.at("n1/metrics"));
    assert_eq!(cluster.find(job), Answer::Wait);
    assert_eq!(cluster.list(metrics), Answer::Wait);
    cluster.row("n1:*", "n1", &[("mem.free", 8), ("job.late", 1)]);
    assert_eq!(cluster.list(metrics), Answer::Ready(vec!["mem".into(), "job".into()]));
    let job = cluster.at(job);
    assert_eq!(cluster.cat(job, false), text("1\n"));
    assert_eq!(cluster.find("n1/metrics/job/later"), Answer::Fail(libc::ENOENT), "all is known");
}

/// The thread that pushes asks so: it would wait for itself.
#[test]
fn who_is_late_never_waits_whatever_he_looks_up() {
    let (mut cluster, _) = Cluster::forgotten(&["n1"], |_| {});
    let parents = ["n1", "n1/metrics", "n1/metrics/mem", "n1/proc", "n1/.control/metrics", ".by"];
    let parents = parents.map(|path| cluster.at(path)).into_iter().chain([Inode::ROOT]);
    for (parent, name) in parents.flat_map(|parent| [(parent, "unheard"), (parent, "n2")]) {
        let answer = cluster.tree.lookup(parent, name.as_bytes(), cluster.now, true);
        assert_ne!(answer, Answer::Wait, "{parent:?} {name}");
    }
}

#[test]
fn the_status_is_of_now_or_awaited_and_stays_so_while_its_file_is_open() {
    let mut cluster = Cluster::of(&["n1"]);
    let status = cluster.at("n1/status");
    cluster.pass(LEASE);
    assert!(!cluster.roster);
    // The end of a list that was under way.
    cluster.tell(&[("n1", true)]);
    assert_eq!(cluster.cat(status, false), Answer::Wait, "it was up when somebody last looked");
    cluster.tell(&[("n1", false)]);
    let Answer::Ready(Opened { handle, .. }) = cluster.tree.open(status, false, READER, cluster.now, false)
    else {
        panic!("it is known")
    };
    assert!(matches!(cluster.read(handle), Answer::Ready(text) if text.starts_with("state down\n")));
    cluster.pass(LEASE * 3);
    assert!(cluster.roster, "it is read whenever its reader likes");
    cluster.tree.release(handle, cluster.now);
    cluster.pass(LEASE);
    assert!(!cluster.roster);
}

#[test]
fn a_metric_of_all_nodes_is_awaited_once_and_only_from_nodes_that_are_up() {
    let mut cluster = Cluster::of(&["n1", "n2", "n3"]);
    cluster.tell(&[("n1", true), ("n2", true), ("n3", false)]);
    let job = cluster.at(".by/job.x");
    assert_eq!(cluster.cat(job, false), Answer::Wait);
    cluster.row("job.x", "n1", &[("job.x", 5)]);
    cluster.row("job.x", "n3", &[("job.x", 6)]);
    assert_eq!(cluster.cat(job, false), Answer::Wait, "n2 has said nothing");
    cluster.pass(WAIT);
    assert_eq!(cluster.cat(job, false), text("n1 5\n"), "n3 is down, n2 has had its time");
    cluster.tell(&[("n1", true), ("n2", true), ("n3", true)]);
    assert_eq!(cluster.cat(job, false), text("n1 5\nn3 6\n"));
    cluster.tell(&[("n1", false), ("n2", false), ("n3", false)]);
    assert_eq!(cluster.cat(job, false), text(""), "no node is up");
}

#[test]
fn nodes_that_have_nothing_of_a_metric_say_so_and_one_that_nobody_has_is_not_there() {
    let mut cluster = Cluster::of(&["n1", "n2"]);
    let job = cluster.at(".by/job.x");
    assert_eq!(cluster.cat(job, false), Answer::Wait);
    cluster.row("job.x", "n1", &[("job.x", 5)]);
    cluster.row("job.x", "n2", &[]);
    assert_eq!(cluster.cat(job, false), text("n1 5\n"));
    let none = cluster.at(".by/job.none");
    assert_eq!(cluster.cat(none, true), Answer::Fail(libc::ETIMEDOUT), "nobody has said anything");
    ["n1", "n2"].iter().for_each(|node| cluster.row("job.none", node, &[]));
    assert_eq!(cluster.cat(none, false), Answer::Fail(libc::ENOENT));
}

#[test]
fn a_metric_of_all_nodes_is_awaited_anew_from_a_hub_that_is_back_and_kept_while_it_is_away() {
    let mut cluster = Cluster::of(&["n1", "n2"]);
    let job = cluster.at(".by/job.x");
    assert_eq!(cluster.cat(job, false), Answer::Wait);
    let wish = cluster.wish("job.x");
    cluster.row_of(wish, "n1", &[("job.x", 1)]);
    cluster.row_of(wish, "n2", &[("job.x", 2)]);
    assert_eq!(cluster.cat(job, false), text("n1 1\nn2 2\n"));
    cluster.pass(LEASE * 2);
    assert_eq!(cluster.wishes, []);
    cluster.tree.connected(false, "gone", cluster.now);
    assert_eq!(cluster.cat(job, false), text("n1 1\nn2 2\n"));
    cluster.pass(WAIT);
    cluster.tree.connected(true, "back", cluster.now);
    assert_eq!(cluster.cat(job, false), Answer::Wait);
    cluster.tell(&[("n1", true), ("n2", true)]);
    cluster.row("job.x", "n2", &[("job.x", 3)]);
    assert_eq!(cluster.cat(job, false), Answer::Wait, "n1 comes");
    assert_eq!(cluster.cat(job, true), text("n2 3\n"), "what n1 said to the hub before is not of now");
}

#[test]
fn a_metric_stays_wanted_while_its_file_is_open() {
    let mut cluster = Cluster::of(&["n1"]);
    let job = cluster.at(".by/job.x");
    assert_eq!(cluster.cat(job, false), Answer::Wait);
    cluster.row("job.x", "n1", &[("job.x", 5)]);
    let Answer::Ready(Opened { handle, .. }) = cluster.tree.open(job, false, READER, cluster.now, false)
    else {
        panic!("it is known")
    };
    cluster.pass(LEASE * 3);
    let wish = cluster.wish("job.x");
    cluster.more(lane(wish, "n1"), &[("job.x", 6)]);
    assert_eq!(cluster.read(handle), text("n1 6\n"));
    cluster.tree.release(handle, cluster.now);
    cluster.pass(LEASE);
    assert_eq!((cluster.wishes.len(), cluster.roster), (0, false));
}

#[test]
fn metrics_are_listed_before_anybody_has_looked_at_a_node() {
    let mut cluster = Cluster::of(&["n1", "n2"]);
    let by = cluster.at(".by");
    assert_eq!(cluster.list(by), Answer::Wait);
    cluster.row("n1:*", "n1", &[("mem.free", 1), ("load.1m", 2)]);
    assert_eq!(cluster.list(by), Answer::Ready(vec!["load.1m".into(), "mem.free".into()]));
    // One that only another node has is there too, once it was read.
    let job = cluster.at(".by/job.x");
    assert_eq!(cluster.cat(job, false), Answer::Wait);
    cluster.row("job.x", "n2", &[("job.x", 1)]);
    assert_eq!(cluster.list(by), Answer::Ready(["job.x", "load.1m", "mem.free"].map(str::to_owned).to_vec()));
}

#[test]
fn names_that_somebody_tries_are_metrics_up_to_a_limit() {
    let mut cluster = Cluster::of(&["n1"]);
    for name in ["*", "a:b", "mem.free[", "Ärger", "", "mem..free"] {
        assert_eq!(cluster.find(&format!(".by/{name}")), Answer::Fail(libc::ENOENT), "{name}");
    }
    for number in 0..crate::limits::BY_NAMES_MAX {
        cluster.at(&format!(".by/x.n{number}"));
    }
    assert_eq!(cluster.find(".by/x.more"), Answer::Fail(libc::ENOSPC));
    cluster.at(".by/x.n7");
    assert_eq!(cluster.tree.counts.by_names_left_out, 1);
}

/// A row of these readings for the wish for everything.
fn readings(cluster: &mut Cluster, node: &str, values: &[(&str, Reading)]) {
    let wish = cluster.wish(&format!("{node}:*"));
    let columns: Vec<Series> = values.iter().map(|(metric, _)| series(metric, None)).collect();
    let lane = lane(wish, node);
    cluster.tree.columns(lane, wish, &name(node), &Arc::new(columns));
    let stamp = Stamp { boot: Nanos(cluster.tree.counts.rows + 1), real_offset: 0 };
    cluster.tree.row(lane, stamp, &mut values.iter().map(|&(_, reading)| reading).enumerate());
}

#[test]
fn what_has_no_value_leaves_the_listings_and_comes_back_with_one() {
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
    assert_eq!(cluster.cat(file, false), Answer::Fail(libc::ENODATA), "by its name it says why");
    readings(&mut cluster, "n1", &[("net.a", there), ("net.b", there), ("job.x", there), ("job.y", gone)]);
    assert_eq!(listed(&mut cluster, metrics), "net job");
    assert_eq!(listed(&mut cluster, net), "a b");
}

#[test]
fn an_instance_that_has_just_gone_is_listed_for_a_while_and_reads_as_empty() {
    let mut cluster = Cluster::of(&["n1"]);
    assert_eq!(cluster.find("n1/metrics/net"), Answer::Wait);
    let (gone, there) = (Reading::Absent(khz_model::Absence::InstanceGone), Reading::Present(7));
    let failed = Reading::Failed(khz_model::Fault::Unreadable);
    let columns = ["net.a", "net.b", "net.c", "net.d"];
    // One row a second from the tenth second on: a and b are there, and then only a; c never was; d fails.
    let mut second = 10;
    let mut row = |cluster: &mut Cluster, readings: [Reading; 4], seconds: u64| {
        let wish = cluster.wish("n1:*");
        let lane = lane(wish, "n1");
        if second == 10 {
            let all = columns.map(|metric| series(metric, None)).to_vec();
            cluster.tree.columns(lane, wish, &name("n1"), &Arc::new(all));
        }
        for _ in 0..seconds {
            let stamp = Stamp { boot: Nanos::from_secs(second), real_offset: 0 };
            cluster.tree.row(lane, stamp, &mut readings.into_iter().enumerate());
            second += 1;
        }
    };
    row(&mut cluster, [there, there, gone, there], 1);
    let net = cluster.at("n1/metrics/net");
    let (b, c, d) =
        (cluster.at("n1/metrics/net/b"), cluster.at("n1/metrics/net/c"), cluster.at("n1/metrics/net/d"));
    let listed = |cluster: &mut Cluster| match cluster.list(net) {
        Answer::Ready(names) => names.join(" "),
        other => panic!("{other:?}"),
    };
    assert_eq!(listed(&mut cluster), "a b d");
    row(&mut cluster, [there, gone, gone, failed], 9);
    assert_eq!(listed(&mut cluster), "a b", "what fails is not listed");
    assert_eq!(cluster.cat(b, false), Answer::Ready(String::new()), "and whoever walks the tree can read it");
    assert_eq!(cluster.tree.attributes(b).unwrap().size, 0);
    assert_eq!(cluster.cat(c, false), Answer::Fail(libc::ENODATA), "it was never there");
    assert_eq!(cluster.cat(d, false), Answer::Fail(libc::EIO));
    let Answer::Ready(open) = cluster.tree.open(b, false, READER, cluster.now, false) else { panic!("b") };
    row(&mut cluster, [there, gone, gone, failed], 2);
    assert_eq!(listed(&mut cluster), "a");
    assert_eq!(cluster.cat(b, false), Answer::Fail(libc::ENODATA));
    assert_eq!(cluster.read(open.handle), Answer::Fail(libc::ENODATA), "also for who opened it in time");
    row(&mut cluster, [there, there, gone, failed], 1);
    assert_eq!(listed(&mut cluster), "a b");
    assert_eq!(cluster.read(open.handle), Answer::Ready("7\n".to_owned()));
}

#[test]
fn a_value_keeps_its_length_for_who_has_just_opened_its_file() {
    let mut cluster = Cluster::of(&["n1"]);
    assert_eq!(cluster.find("n1/metrics/mem/free"), Answer::Wait);
    cluster.row("n1:*", "n1", &[("mem.free", 9)]);
    let free = cluster.at("n1/metrics/mem/free");
    let lane = lane(cluster.wish("n1:*"), "n1");
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
    assert_eq!(seen(&mut cluster), (2, Answer::Ready("7\n".to_owned())), "it was opened long ago");
}
