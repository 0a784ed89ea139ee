//! Commands at the text door and its answers, over a real socket.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod fake;

use fake::{FakeCluster, Open};
use khz_model::{LaneStatus, Nanos};
use khz_text::Limits;

fn cluster() -> Open {
    Open::new(FakeCluster::new(&["lbp1", "lbp12", "node007", "web", "web0"]), Limits::default())
}

#[test]
fn the_items_are_described() {
    let open = cluster();
    let expected = "0 lbp B 0 0\n0 nodes B 0 4\n1 memfree U\n2 load1m U\n4 cpu3user U\n8 eth0rxbytes U\n\
                    10 psi B 0 100.00\n20 memhigh U\n40 broken U\n\n";
    assert_eq!(open.client().ask("#"), expected);
    assert!(open.client().ask(":items\n").contains("\n8 eth0rxbytes counter count 0 net.rx_bytes[eth0]\n"));
}

#[test]
fn a_status_has_the_present_values_and_nothing_else() {
    let open = cluster();
    let status = open.client().ask("S");
    let web: Vec<&str> = status.lines().filter(|line| line.starts_with("web ")).collect();
    assert_eq!(
        web,
        [
            "web -1 memfree 376119299",
            "web -1 load1m 0.52",
            "web -1 cpu3user 0.07",
            "web -1 eth0rxbytes 18446744073709551612",
            "web -1 psi 0.07",
            "web 0 memfree 376119300",
            "web 0 load1m 0.52",
            "web 0 cpu3user 0.07",
            "web 0 eth0rxbytes 18446744073709551611",
            "web 0 psi 0.07",
        ]
    );
    assert!(
        status.starts_with("lbp 1 memfree 376119296\n") && status.contains("\nnode00 7 memfree "),
        "{status}"
    );
}

#[test]
fn masks_choose_until_the_next_one() {
    let open = cluster();
    let mut client = open.client();
    let expected = "lbp 1 memfree 376119296\nlbp 1 load1m 0.52\nlbp 12 memfree 376119297\nlbp 12 load1m 0.52\n\
                    node00 7 memfree 376119298\nnode00 7 load1m 0.52\nweb -1 memfree 376119299\nweb -1 load1m 0.52\n\
                    web 0 memfree 376119300\nweb 0 load1m 0.52\n\n";
    assert_eq!(client.ask("3S"), expected);
    assert_eq!(client.ask("S"), expected, "it stays");
    assert_eq!(client.ask("\r\n3 \r\nS\r\n"), expected, "typed by telnet");
    assert_eq!(client.ask("2S").lines().filter(|line| !line.is_empty()).count(), 5);
    assert_eq!(client.ask("0S").lines().count(), 5 * 5 + 1);
    assert_eq!(client.line("60S"), "\n", "absent and failed values are left out");
}

#[test]
fn several_commands_in_one_packet_are_answered_in_order() {
    let open = cluster();
    let mut client = open.client();
    client.say("1S2S#");
    assert!(client.until("\n\n").contains("memfree"));
    assert!(client.until("\n\n").contains("load1m"));
    assert!(client.until("\n\n").starts_with("0 lbp B 0 0\n"));
}

#[test]
fn extensions_begin_with_a_colon() {
    let open = cluster();
    let mut client = open.client();
    assert_eq!(client.line(":nodes web*\n"), ":ok 2 of 5 nodes\n");
    assert_eq!(client.ask("1S"), "web -1 memfree 376119299\nweb 0 memfree 376119300\n\n");
    assert_eq!(client.line(":sexp\n"), ":ok\n");
    client.say("3S");
    assert_eq!(
        client.until(")))\n"),
        "(status\n (node \"web\" (time 1763690000.000000001) (memfree 376119299) (load1m 0.52))\n \
         (node \"web0\" (time 1763690000.000000001) (memfree 376119300) (load1m 0.52)))\n"
    );
    assert_eq!(client.line(":lines\n"), ":ok\n");
    assert_eq!(client.line(":nodes\n"), ":ok 5 of 5 nodes\n");
    assert!(client.line(":frobnicate\n").starts_with(":error no such word"));
    assert!(client.line(":nodes n[\n").starts_with(":error "));
    assert!(client.ask(":help\n").contains(": :every 10Hz"));
}

#[test]
fn slowed_and_the_answer_to_every_report_the_lanes_that_run_slower_than_asked() {
    let lane = |name: &str, rate: &str, asked: &str| LaneStatus {
        name: name.to_owned(),
        rate: rate.parse().unwrap(),
        asked: asked.parse().unwrap(),
        slots: 1,
        age: None,
        rows: 1,
        awaited: 0,
        lost: 0,
        late: 0,
    };
    let mut cluster = FakeCluster::new(&["lbp1", "lbp2"]);
    cluster.lanes =
        vec![lane("base", "1Hz", "1Hz"), lane("boost1", "250Hz", "1000Hz"), lane("boost2", "128ms", "100Hz")];
    let open = Open::new(cluster, Limits::default());
    let mut client = open.client();
    assert_eq!(client.ask(":slowed\n"), "lbp1 boost1 250Hz 1000Hz\nlbp1 boost2 128ms 100Hz\n\n");
    assert_eq!(
        client.line("1:every 50Hz\n"),
        ":ok 1 node runs slower than asked, below its CPU ceiling (:slowed)\n"
    );
    // Statuses stay as they were: old readers know no other lines.
    let expected = "lbp 1 memfree 376119296\nlbp 2 memfree 376119297\n\n";
    assert_eq!(client.until("\n\n"), expected);
    client.say(":nodes lbp2\n");
    client.until(":ok 1 of 2 nodes\n");
    assert_eq!(client.line(":slowed\n"), "\n", "that node is not shown");
}

#[test]
fn ages_are_passed_on() {
    let open = cluster();
    let mut client = open.client();
    client.ask("S");
    client.line(":age 2ms\n");
    client.ask("S");
    client.line(":age any\n");
    client.ask("S");
    let ages = open.cluster.ages.lock().unwrap().clone();
    // The door's first request takes rows of any age; then each status asks for the window.
    let (window, any) = (Nanos::from_micros(100), Nanos(u64::MAX));
    assert_eq!(ages, [any, window, Nanos::from_millis(2), any]);
}

#[test]
fn statuses_follow_at_a_rate_until_something_is_typed() {
    let open = cluster();
    let mut client = open.client();
    assert_eq!(client.line("1:every 50Hz\n"), ":ok\n");
    for _ in 0..5 {
        assert!(client.until("\n\n").starts_with("lbp 1 memfree"));
    }
    client.say("2S");
    while !client.until("\n\n").contains("load1m") {}
    assert!(client.line(":every 200Hz\n").starts_with(":error 200Hz is for operators"));
    assert!(client.ask("S").contains("load1m"), "and the connection stays open");
}

#[test]
fn nodes_that_do_not_answer_in_time_are_not_waited_for() {
    let mut cluster = FakeCluster::new(&["n1"]);
    cluster.stuck_below = Nanos::from_millis(1);
    let limits = Limits { answer_deadline: std::time::Duration::from_millis(5), ..Limits::default() };
    let open = Open::new(cluster, limits);
    let mut client = open.client();
    assert_eq!(client.line("1S"), "\n");
    assert_eq!(client.ask(":age any\nS"), ":ok\nn 1 memfree 376119296\n\n");
}
