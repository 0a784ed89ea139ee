//! Which values are current, and which requests wait for newer ones.

use std::time::Duration;

use super::*;

#[test]
fn an_open_waits_for_a_new_value_after_the_lease_has_ended() {
    let (mut lab, free) = Lab::forgotten(&["n1"], |_| {});
    assert_eq!(lab.cat(free, false), Answer::Wait, "the value is old");
    lab.row("n1:*", "n1", &[("mem.free", 8)]);
    assert_eq!(lab.cat(free, false), text("8\n"));
    lab.pass(LEASE - Duration::from_secs(1));
    assert_eq!(lab.cat(free, false), text("8\n"), "rows come");
}

#[test]
fn a_row_that_comes_after_its_subscription_ended_answers_no_open() {
    let mut lab = Lab::of(&["n1"]);
    assert_eq!(lab.find("n1/metrics/mem"), Answer::Wait);
    let subscription = lab.subscription("n1:*");
    lab.row_of(subscription, "n1", &[("mem.free", 7)]);
    let free = lab.at("n1/metrics/mem/free");
    lab.pass(LEASE);
    assert_eq!(lab.cat(free, false), Answer::Wait);
    lab.work();
    lab.more(lane(subscription, "n1"), &[("mem.free", 7)]);
    assert_eq!(lab.cat(free, false), Answer::Wait);
}

#[test]
fn a_reader_who_waits_in_vain_gets_the_old_value_but_an_error_with_strict() {
    let (mut lab, free) = Lab::forgotten(&["n1"], |_| {});
    assert_eq!(lab.cat(free, true), text("7\n"));
    assert_eq!(lab.tree.counts.timed_out, 1);
    let (mut lab, free) = Lab::forgotten(&["n1"], |options| options.strict = true);
    assert_eq!(lab.cat(free, false), Answer::Wait);
    assert_eq!(lab.cat(free, true), Answer::Fail(libc::ETIMEDOUT));
}

#[test]
fn an_open_waits_for_a_node_that_is_down_until_a_whole_list_has_come() {
    let (mut lab, free) = Lab::forgotten(&["n1"], |_| {});
    assert_eq!(lab.cat(free, false), Answer::Wait);
    lab.work();
    lab.tell(&[("n1", false)]);
    assert_eq!(lab.cat(free, false), Answer::Wait, "the list may have begun before the request");
    lab.tell(&[("n1", false)]);
    assert_eq!(lab.cat(free, false), text("7\n"), "nothing came");
    lab.row("n1:*", "n1", &[("mem.free", 9)]);
    assert_eq!(lab.cat(free, false), text("9\n"));
}

#[test]
fn files_keep_their_values_while_the_hub_is_away_and_opens_wait_when_it_is_back() {
    let (mut lab, free) = Lab::forgotten(&["n1", "n2"], |_| {});
    let (mem, status) = (lab.at("n1/metrics/mem"), lab.at("n1/status"));
    lab.pass(LEASE * 2);
    lab.tree.connected(false, "gone", lab.now);
    assert_eq!(lab.cat(free, false), text("7\n"));
    assert_eq!(lab.list(mem), Answer::Ready(vec!["free".into()]));
    let nodes = [".by", ".channels", ".control", ".mount", "n1", "n2"].map(str::to_owned).to_vec();
    assert_eq!(lab.list(Inode::ROOT), Answer::Ready(nodes));
    assert!(matches!(lab.cat(status, false), Answer::Ready(text) if text.contains("hub away\n")));
    assert_eq!(lab.find("n1/metrics/mem/used"), Answer::Fail(libc::ENOENT));
    lab.tree.connected(true, "back", lab.now);
    assert_eq!(lab.cat(free, false), Answer::Wait);
    assert_eq!(lab.list(Inode::ROOT), Answer::Wait);
    assert_eq!(lab.cat(status, false), Answer::Wait);
}

#[test]
fn a_node_that_a_new_hub_does_not_know_has_an_unknown_state_and_keeps_its_value() {
    let (mut lab, free) = Lab::forgotten(&["n1", "n2"], |_| {});
    let status = lab.at("n1/status");
    lab.tree.connected(false, "gone", lab.now);
    lab.tree.connected(true, "another", lab.now);
    assert_eq!(lab.cat(free, false), Answer::Wait);
    lab.work();
    lab.tell(&[("n2", true)]);
    lab.tell(&[("n2", true)]);
    assert!(matches!(lab.cat(status, false), Answer::Ready(text) if text.starts_with("state unknown\n")));
    assert_eq!(lab.cat(free, false), text("7\n"));
}

#[test]
fn a_series_that_came_while_nobody_was_subscribed_is_found() {
    let (mut lab, _) = Lab::forgotten(&["n1"], |_| {});
    let (job, metrics) = ("n1/metrics/job/late", lab.at("n1/metrics"));
    assert_eq!(lab.find(job), Answer::Wait);
    assert_eq!(lab.list(metrics), Answer::Wait);
    lab.row("n1:*", "n1", &[("mem.free", 8), ("job.late", 1)]);
    assert_eq!(lab.list(metrics), Answer::Ready(vec!["mem".into(), "job".into()]));
    let job = lab.at(job);
    assert_eq!(lab.cat(job, false), text("1\n"));
    assert_eq!(lab.find("n1/metrics/job/later"), Answer::Fail(libc::ENOENT), "all series are known");
}

/// The thread that pushes never waits: all files wait for it.
#[test]
fn a_late_lookup_never_waits() {
    let (mut lab, _) = Lab::forgotten(&["n1"], |_| {});
    let parents =
        ["n1", "n1/metrics", "n1/metrics/mem", "n1/proc", "n1/.control/metrics", ".by", ".channels"];
    let parents = parents.map(|path| lab.at(path)).into_iter().chain([Inode::ROOT]);
    for (parent, name) in parents.flat_map(|parent| [(parent, "unheard"), (parent, "n2")]) {
        let answer = lab.tree.lookup(parent, name.as_bytes(), lab.now, true);
        assert_ne!(answer, Answer::Wait, "{parent:?} {name}");
    }
}

#[test]
fn a_status_is_current_as_long_as_its_file_is_open() {
    let mut lab = Lab::of(&["n1"]);
    let status = lab.at("n1/status");
    lab.pass(LEASE);
    assert!(!lab.lists_nodes);
    // The end of a list that was under way.
    lab.tell(&[("n1", true)]);
    assert_eq!(lab.cat(status, false), Answer::Wait, "it was up before");
    lab.tell(&[("n1", false)]);
    let Answer::Ready(Opened { handle, .. }) = lab.tree.open(status, false, READER, lab.now, false) else {
        panic!("it does not open")
    };
    assert!(matches!(lab.read(handle), Answer::Ready(text) if text.starts_with("state down\n")));
    lab.pass(LEASE * 3);
    assert!(lab.lists_nodes, "the file is open");
    lab.tree.release(handle, lab.now);
    lab.pass(LEASE);
    assert!(!lab.lists_nodes);
}

#[test]
fn a_value_keeps_its_length_for_a_moment_after_an_open() {
    let mut lab = Lab::of(&["n1"]);
    assert_eq!(lab.find("n1/metrics/mem/free"), Answer::Wait);
    lab.row("n1:*", "n1", &[("mem.free", 9)]);
    let free = lab.at("n1/metrics/mem/free");
    let lane = lane(lab.subscription("n1:*"), "n1");
    let Answer::Ready(opened) = lab.tree.open(free, false, READER, lab.now, false) else {
        panic!("it does not open")
    };
    let seen = |lab: &mut Lab| (lab.tree.attributes(free, lab.now).unwrap().size, lab.read(opened.handle));
    assert_eq!(seen(&mut lab), (2, Answer::Ready("9\n".to_owned())));
    lab.more(lane, &[("mem.free", 10)]);
    lab.work();
    assert_eq!(seen(&mut lab), (2, Answer::Ready("9\n".to_owned())), "it has another length");
    assert!(lab.tree.next_pushes().unwrap() <= lab.now + crate::limits::LENGTH_HOLD);
    lab.pass(crate::limits::LENGTH_HOLD);
    assert_eq!(seen(&mut lab), (3, Answer::Ready("10\n".to_owned())));
    lab.more(lane, &[("mem.free", 7)]);
    lab.work();
    assert_eq!(seen(&mut lab), (2, Answer::Ready("7\n".to_owned())), "the open was long ago");
}
