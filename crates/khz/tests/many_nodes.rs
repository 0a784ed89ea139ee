//! The program against a door of several nodes: what it prints, which nodes it misses, how it exits.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

#[path = "../../doors/http/tests/fake/mod.rs"]
mod fake;
#[path = "program/process.rs"]
#[allow(dead_code, reason = "the other program tests need more of it")]
mod process;

use std::sync::Arc;

use fake::{FakeNode, Server};
use khz_model::{NodeName, Notice};
use process::{code, err, out, run};

/// Four nodes, of which n3 is down.
fn four() -> FakeNode {
    let node = FakeNode { rows_a_poll: 1, ..FakeNode::many(4) };
    node.set_down(&["n3"]);
    node
}

fn ask(server: &Server, words: &[&str]) -> std::process::Output {
    let url = format!("http://{}", server.addr);
    run(&[words, &["--server", &url]].concat())
}

#[test]
fn nodes_are_listed_up_or_down() {
    let server = Server::start(Arc::new(four()));
    let all = ask(&server, &["nodes"]);
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(
        out(&all),
        format!(
            "NODE  STATE     RATE   ROWS  LOST  LATE  OFFSET    RTT  VERSION\n\
             n1    up 1d      1Hz  86.4k     7     1   -12us  180us  {version}\n\
             n2    up 1d      1Hz  86.4k     7     1   -12us  180us  {version}\n\
             n3    down 12s   1Hz  86.4k     7     1   -12us  180us  {version}\n\
             n4    up 1d      1Hz  86.4k     7     1   -12us  180us  {version}\n\
             n3: the connection was reset\n\
             4 nodes: 3 up, 1 down\n"
        )
    );
    assert_eq!((code(&all), err(&all).as_str()), (0, ""));
    let down = ask(&server, &["nodes", "--down", "--json"]);
    assert_eq!((code(&down), err(&down).as_str()), (3, "khz: no answer from n3\n"));
    assert_eq!(out(&down).lines().count(), 1);
    let some = ask(&server, &["nodes", "n[1-2,8-9]"]);
    assert_eq!((code(&some), err(&some).as_str()), (3, "khz: no node is called n[8-9] (there are n[1-4])\n"));
    assert_eq!(out(&some).lines().count(), 4);
    let wrong = ask(&server, &["nodes", "n[2-1]"]);
    assert_eq!(code(&wrong), 2, "{}", err(&wrong));
}

#[test]
fn several_nodes_are_rows_and_those_that_are_missing_are_named_folded() {
    let server = Server::start(Arc::new(four()));
    let some = ask(&server, &["get", "n[1-4,7]:load.1m", "n[1-4]:mem.*"]);
    assert_eq!(
        out(&some),
        "NODE  load.1m  mem.total  mem.high_total\n\
         n1      12.34   15.6 GiB          absent\n\
         n2      13.34   15.6 GiB          absent\n\
         n4      15.34   15.6 GiB          absent\n"
    );
    let expected = "khz: no node is called n7 (there are n[1-4])\nkhz: no answer from n3\n";
    assert_eq!((code(&some), err(&some).as_str()), (3, expected), "one is down, and one never was");
    let one = ask(&server, &["get", "n[3-4]:load.1m"]);
    assert_eq!(out(&one), "NODE  load.1m\nn4      15.34\n", "the one that answers is named");
    let nobody = ask(&server, &["get", "n[7-9]:load.1m"]);
    let expected = "khz: no node is called n[7-9] (there are n[1-4])\n";
    assert_eq!((code(&nobody), err(&nobody).as_str()), (1, expected));
    let down = ask(&server, &["get", "n3:load.1m"]);
    assert_eq!((code(&down), err(&down).as_str()), (1, "khz: no answer from n3\n"));
}

#[test]
fn a_watch_of_an_unknown_node_says_so_and_goes_on() {
    let server = Server::start(Arc::new(four()));
    let watched =
        ask(&server, &["watch", "n[1,77-78]:load.1m", "other*:load.1m", "--rate", "100", "--count", "2"]);
    assert_eq!(
        err(&watched),
        "khz: no node is called n[77-78] (there are n[1-4]); its rows come when it reports\n\
         khz: no node is called other*; its rows come when it reports\n"
    );
    assert_eq!(code(&watched), 3);
    let known = ask(&server, &["watch", "n1:load.1m", "--rate", "100", "--count", "2"]);
    assert_eq!((code(&known), err(&known).as_str()), (0, ""));
}

#[test]
fn several_nodes_are_followed_and_a_notice_is_printed_once() {
    let slow = "100Hz is above this node's ceiling; it sends 10Hz";
    let notice = |node: &str| Notice::of(NodeName::new(node).unwrap(), slow);
    let server = Server::start(Arc::new(FakeNode { notices: vec![notice("n1"), notice("n2")], ..four() }));
    let watched = ask(&server, &["watch", "n[1-2]:load.1m", "--rate", "100", "--count", "4"]);
    let text = out(&watched);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[..2], ["# n1 at 100Hz", "# time\tnode\tload.1m (count)"]);
    let rows: Vec<(&str, &str)> =
        lines[2..].iter().map(|line| line.split_once('\t').unwrap().1.split_once('\t').unwrap()).collect();
    assert_eq!(rows, [("n1", "0.00"), ("n2", "1.00"), ("n1", "0.01"), ("n2", "1.01")]);
    assert_eq!(err(&watched), "khz: n[1-2]: 100Hz is above this node's ceiling; it sends 10Hz\n");
    assert_eq!(code(&watched), 0);
}
