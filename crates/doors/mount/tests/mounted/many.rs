//! Everything at once: many opens, many nodes, programs that walk the whole tree.

use std::fs::File;
use std::process::Command;

use crate::lab::{Lab, errno, wait_until};

/// Runs a program on the tree, and counts the lines of its output.
fn lines(lab: &Lab, program: &str, arguments: &[&str]) -> usize {
    let done = Command::new(program).args(arguments).arg(&lab.directory).output().unwrap();
    done.stdout.iter().filter(|&&byte| byte == b'\n').count()
}

/// find, du and grep -r over every file of every node.
fn walk(nodes: usize) {
    let lab = Lab::new(nodes, |options| options.wait = std::time::Duration::from_secs(30));
    // For each node: its directory, status, settings, and three metrics with their settings.
    let found = lines(&lab, "find", &["-L"]);
    assert!(found > nodes * 20, "{found}");
    assert_eq!(lines(&lab, "du", &["-s"]), 1);
    let read = lines(&lab, "grep", &["-rs", "--include=free", "1000"]);
    assert_eq!(read, nodes, "each node's free memory");
    let most = khz_mount::limits::NODE_SUBSCRIPTIONS_MAX + khz_mount::limits::METRIC_SUBSCRIPTIONS_MAX + 1;
    assert!(lab.subscriptions().len() <= most, "{} subscriptions", lab.subscriptions().len());
    assert_eq!(lab.stat("interests") as usize, lab.subscriptions().len());
    wait_until("nothing is open", || lab.stat("handles") <= 1);
}

#[test]
fn programs_that_walk_the_tree_end_and_cause_few_subscriptions() {
    walk(64);
}

#[test]
#[ignore = "long: four thousand nodes"]
fn programs_that_walk_a_tree_of_4096_nodes_end_and_cause_few_subscriptions() {
    walk(4_096);
}

/// Opens a file this often without closing it; other users go on.
fn open_without_closing(times: usize) {
    let lab = Lab::new(1, |_| {});
    let path = lab.path("n0000/metrics/mem/free");
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let room = limit.current.unwrap_or(1 << 20) as usize - 100;
    let files: Vec<File> = (0..times.min(room)).map(|_| File::open(&path).unwrap()).collect();
    assert_eq!(lab.stat("handles") as usize, files.len() + 1);
    assert_eq!(lab.stat("files_followed"), 1);
    assert_eq!(errno(lab.read("n0000/metrics/load/1m")), 0);
    drop(files);
    wait_until("all are closed", || lab.stat("handles") == 1);
}

#[test]
fn files_that_are_never_closed_cost_a_handle_each() {
    open_without_closing(2_000);
}

#[test]
#[ignore = "long: a hundred thousand opens"]
fn a_hundred_thousand_opens_without_close() {
    let raised = rustix::process::Rlimit { current: Some(110_000), maximum: Some(110_000) };
    // Only root may raise the limit; the test opens as many files as it may.
    let _ = rustix::process::setrlimit(rustix::process::Resource::Nofile, raised);
    open_without_closing(100_000);
}
