//! Streams over a real socket: every row once and in order, whole or as changes, and the end of both sides.

// Helpers of tests are tests too, which clippy's `allow-unwrap-in-tests` does not see.
#![allow(clippy::unwrap_used)]

mod fake;

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use fake::{Events, FakeNode, Server, row, stamp};
use khz_model::NodeName;
use khz_trust::{ClusterKey, Role};
use serde_json::Value;

/// Reads `count` rows; returns each as its stamp and its object.
fn rows(events: &mut Events, count: usize) -> Vec<(String, Value)> {
    let mut rows = Vec::new();
    while rows.len() < count {
        let (name, data) = events.next().expect("the stream goes on");
        if name == "rows" {
            assert_eq!(data["node"], "n1");
            let batch = data["rows"].as_array().unwrap();
            rows.extend(batch.iter().map(|row| (row["t"].as_str().unwrap().to_owned(), row.clone())));
        }
    }
    rows
}

fn assert_consecutive(rows: &[(String, Value)]) {
    for (n, (t, _)) in rows.iter().enumerate() {
        assert_eq!(*t, stamp(n as u64).real_text());
    }
}

#[test]
fn every_row_is_delivered_once_and_in_order() {
    let server = Server::start(Arc::new(FakeNode { rows_a_poll: 50, ..FakeNode::default() }));
    let mut events = server.stream("/khz/v1/stream?match=load.*&match=context_switches&rate=1000Hz");
    let (name, columns) = events.next().unwrap();
    assert_eq!((name.as_str(), columns["rate"].as_str()), ("columns", Some("1000Hz")));
    assert_eq!(columns["columns"][0]["name"], "load.1m");
    assert_eq!(columns["columns"][1]["name"], "context_switches");
    let rows = rows(&mut events, 1_000);
    assert_consecutive(&rows);
    assert_eq!(rows[999].1["v"], serde_json::json!(["9.99", "18446744072709552614"]));
    assert!(server.count(|c| &c.stream_rows) >= 1_000);
}

#[test]
fn unknown_readings_give_their_reason() {
    let server = Server::start(Arc::new(FakeNode::default()));
    let mut events = server.stream("/khz/v1/stream?match=mem.high_total&match=broken.*&rate=100Hz");
    let rows = rows(&mut events, 1);
    let expected =
        serde_json::json!([{"absent": "this kernel does not print it"}, {"failed": "malformed text"}]);
    assert_eq!(rows[0].1["v"], expected);
}

#[test]
fn changes_add_up_to_the_same_rows_even_when_columns_come() {
    let node = Arc::new(FakeNode { grows_at: 40, ..FakeNode::default() });
    let server = Server::start(Arc::clone(&node));
    let mut events = server.stream("/khz/v1/stream?rate=1000Hz&changes=1");
    let (mut columns, mut whole, mut current, mut seen) = (0, 0, Vec::new(), 0);
    while seen < 100 {
        let (name, data) = events.next().unwrap();
        if name == "columns" {
            columns += 1;
            current.clear();
            continue;
        }
        for sent in data["rows"].as_array().unwrap() {
            match sent["v"].as_array() {
                Some(values) => {
                    whole += 1;
                    current = values.clone();
                }
                None => {
                    for change in sent["c"].as_array().unwrap().chunks(2) {
                        let at = change[0].as_u64().unwrap() as usize;
                        assert_ne!(current[at], change[1], "what did not change is not sent");
                        current[at] = change[1].clone();
                    }
                }
            }
            // The first column's value is the row's number.
            assert_eq!(current[0], khz_model::Decimal::new(seen, 2).to_string().as_str());
            assert_eq!(current.len(), row(&node.columns, seen).readings.len() + usize::from(seen >= 40));
            seen += 1;
        }
    }
    assert_eq!((columns, whole), (2, 2), "one whole row after each columns");
}

#[test]
fn a_reader_that_falls_behind_gets_the_reason_and_is_counted() {
    let node = Arc::new(FakeNode { rows_a_poll: 1_000, ..FakeNode::default() });
    let server = Server::start_with(Arc::clone(&node), |door| door.limits.backlog_readings = 5_000);
    let mut events = server.stream("/khz/v1/stream?rate=1000Hz");
    let (name, data) = events.next().unwrap();
    assert_eq!(name, "dropped");
    assert!(
        data["error"].as_str().unwrap().contains("12000 readings were waiting, the limit is 5000"),
        "{data}"
    );
    assert!(events.next_text().is_none());
    assert_eq!(server.count(|c| &c.streams_dropped_slow), 1);
}

#[test]
fn streams_are_limited_and_their_places_come_back() {
    let node = Arc::new(FakeNode::default());
    let server = Server::start_with(Arc::clone(&node), |door| door.limits.streams = 1);
    let mut first = server.stream("/khz/v1/stream");
    first.next().unwrap();
    let refused = server.get("/khz/v1/stream");
    assert_eq!((refused.status, refused.headers["retry-after"].as_str()), (429, "5"));
    assert_eq!(server.count(|c| &c.streams_open), 1);
    drop(first);
    server.wait("the stream is gone", |c| c.streams_open.load(Ordering::SeqCst) == 0);
    assert_eq!(node.subscriptions.load(Ordering::SeqCst), 0, "the subscription is cancelled");
    server.stream("/khz/v1/stream").next().unwrap();
}

/// Opens a stream with this token, of which nothing but the status is read.
fn slow_stream(server: &Server, token: Option<&str>) -> (BufReader<TcpStream>, u16) {
    let mut socket = server.connect();
    let shown = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    write!(socket, "GET /khz/v1/stream?rate=100Hz HTTP/1.1\r\nHost: {}\r\n{shown}\r\n", server.addr).unwrap();
    let (mut reader, mut status) = (BufReader::new(socket), String::new());
    reader.read_line(&mut status).unwrap();
    (reader, status.split(' ').nth(1).unwrap().parse().unwrap())
}

#[test]
fn sixty_four_slow_readers_do_not_keep_an_operator_out() {
    let key = Arc::new(ClusterKey::generate().unwrap());
    let token = |role, name| key.token(role, &NodeName::new(name).unwrap()).to_string();
    let server = Server::start_with(Arc::new(FakeNode::default()), |door| {
        door.access.door = khz_trust::Door::Http;
        door.access.key = Some(key.clone());
    });
    let bob = token(Role::Reader, "bob");
    // By their address, and by a name.
    let tokens = [None, Some(bob.as_str())].into_iter().flat_map(|token| [token; 32]);
    let slow: Vec<(BufReader<TcpStream>, u16)> = tokens.map(|token| slow_stream(&server, token)).collect();
    let statuses: Vec<u16> = slow.iter().map(|(_, status)| *status).collect();
    assert_eq!(statuses, [vec![200; 56], vec![429; 8]].concat());
    assert_eq!(slow_stream(&server, None).1, 429, "an address has its share");
    let operators: Vec<_> =
        (0..8).map(|_| slow_stream(&server, Some(&token(Role::Operator, "alice")))).collect();
    assert!(operators.iter().all(|(_, status)| *status == 200));
    assert_eq!(slow_stream(&server, Some(&token(Role::Operator, "alice"))).1, 429);
}

#[test]
fn closing_the_door_ends_its_streams() {
    let node = Arc::new(FakeNode::default());
    let server = Server::start(Arc::clone(&node));
    let mut events = server.stream("/khz/v1/stream?rate=100Hz");
    events.next().unwrap();
    drop(server);
    while events.next_text().is_some() {}
    assert_eq!(node.subscriptions.load(Ordering::SeqCst), 0);
}
