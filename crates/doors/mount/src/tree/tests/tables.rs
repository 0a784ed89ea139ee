//! The tables below `.by`: which nodes they wait for, and which metrics are listed.

use super::*;

#[test]
fn a_table_waits_once_and_only_for_nodes_that_are_up() {
    let mut lab = Lab::of(&["n1", "n2", "n3"]);
    lab.tell(&[("n1", true), ("n2", true), ("n3", false)]);
    let job = lab.at(".by/job.x");
    assert_eq!(lab.cat(job, false), Answer::Wait);
    lab.row("job.x", "n1", &[("job.x", 5)]);
    lab.row("job.x", "n3", &[("job.x", 6)]);
    assert_eq!(lab.cat(job, false), Answer::Wait, "n2 has not answered");
    lab.pass(WAIT);
    assert_eq!(lab.cat(job, false), text("n1 5\n"), "n3 is down, n2 has not answered in time");
    lab.tell(&[("n1", true), ("n2", true), ("n3", true)]);
    assert_eq!(lab.cat(job, false), text("n1 5\nn3 6\n"));
    lab.tell(&[("n1", false), ("n2", false), ("n3", false)]);
    assert_eq!(lab.cat(job, false), text(""), "no node is up");
}

#[test]
fn a_table_has_no_line_for_a_node_without_the_metric_and_does_not_exist_if_no_node_has_it() {
    let mut lab = Lab::of(&["n1", "n2"]);
    let job = lab.at(".by/job.x");
    assert_eq!(lab.cat(job, false), Answer::Wait);
    lab.row("job.x", "n1", &[("job.x", 5)]);
    lab.row("job.x", "n2", &[]);
    assert_eq!(lab.cat(job, false), text("n1 5\n"));
    let none = lab.at(".by/job.none");
    assert_eq!(lab.cat(none, true), Answer::Fail(libc::ETIMEDOUT), "no node has answered");
    ["n1", "n2"].iter().for_each(|node| lab.row("job.none", node, &[]));
    assert_eq!(lab.cat(none, false), Answer::Fail(libc::ENOENT));
}

#[test]
fn a_table_is_kept_while_the_hub_is_away_and_waits_again_when_it_is_back() {
    let mut lab = Lab::of(&["n1", "n2"]);
    let job = lab.at(".by/job.x");
    assert_eq!(lab.cat(job, false), Answer::Wait);
    let subscription = lab.subscription("job.x");
    lab.row_of(subscription, "n1", &[("job.x", 1)]);
    lab.row_of(subscription, "n2", &[("job.x", 2)]);
    assert_eq!(lab.cat(job, false), text("n1 1\nn2 2\n"));
    lab.pass(LEASE * 2);
    assert_eq!(lab.subscriptions, []);
    lab.tree.connected(false, "gone", lab.now);
    assert_eq!(lab.cat(job, false), text("n1 1\nn2 2\n"));
    lab.pass(WAIT);
    lab.tree.connected(true, "back", lab.now);
    assert_eq!(lab.cat(job, false), Answer::Wait);
    lab.tell(&[("n1", true), ("n2", true)]);
    lab.row("job.x", "n2", &[("job.x", 3)]);
    assert_eq!(lab.cat(job, false), Answer::Wait, "n1 may still answer");
    assert_eq!(lab.cat(job, true), text("n2 3\n"), "the line of n1 is old");
}

#[test]
fn a_table_stays_subscribed_while_its_file_is_open() {
    let mut lab = Lab::of(&["n1"]);
    let job = lab.at(".by/job.x");
    assert_eq!(lab.cat(job, false), Answer::Wait);
    lab.row("job.x", "n1", &[("job.x", 5)]);
    let Answer::Ready(Opened { handle, .. }) = lab.tree.open(job, false, READER, lab.now, false) else {
        panic!("it does not open")
    };
    lab.pass(LEASE * 3);
    let subscription = lab.subscription("job.x");
    lab.more(lane(subscription, "n1"), &[("job.x", 6)]);
    assert_eq!(lab.read(handle), text("n1 6\n"));
    lab.tree.release(handle, lab.now);
    lab.pass(LEASE);
    assert_eq!((lab.subscriptions.len(), lab.lists_nodes), (0, false));
}

#[test]
fn metrics_are_listed_before_anybody_has_opened_a_node() {
    let mut lab = Lab::of(&["n1", "n2"]);
    let by = lab.at(".by");
    assert_eq!(lab.list(by), Answer::Wait);
    lab.row("n1:*", "n1", &[("mem.free", 1), ("load.1m", 2)]);
    assert_eq!(lab.list(by), Answer::Ready(vec!["load.1m".into(), "mem.free".into()]));
    // A metric that only another node has is listed once somebody has read it.
    let job = lab.at(".by/job.x");
    assert_eq!(lab.cat(job, false), Answer::Wait);
    lab.row("job.x", "n2", &[("job.x", 1)]);
    assert_eq!(lab.list(by), Answer::Ready(["job.x", "load.1m", "mem.free"].map(str::to_owned).to_vec()));
}

#[test]
fn any_metric_name_can_be_looked_up_until_there_are_too_many() {
    let mut lab = Lab::of(&["n1"]);
    for name in ["*", "a:b", "mem.free[", "Ärger", "", "mem..free"] {
        assert_eq!(lab.find(&format!(".by/{name}")), Answer::Fail(libc::ENOENT), "{name}");
    }
    for number in 0..crate::limits::BY_NAMES_MAX {
        lab.at(&format!(".by/x.n{number}"));
    }
    assert_eq!(lab.find(".by/x.more"), Answer::Fail(libc::ENOSPC));
    lab.at(".by/x.n7");
    assert_eq!(lab.tree.cluster.tables().names().1, 1);
}
