//! The memory that readers make the door hold: for every route, clients that send a request and do not read. Answers
//! stay within their budget; beyond it the door answers 503 until the clients are gone, and all memory is
//! released.

// clippy's `allow-unwrap-in-tests` does not cover helpers of tests.
#![allow(clippy::unwrap_used)]

mod deaf;
mod fake;

use std::io::Read;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use deaf::{DEAF, MIB, READ, beginning, cluster, deaf, described, large, server_for};
use fake::{FakeNode, PATIENCE, Server};

fn at(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::SeqCst)
}

fn server(node: FakeNode, budget: u64) -> Server {
    server_for("/channels", node, budget)
}

/// Waits until this many requests were handled, and checks the budget meanwhile.
fn wait_for_requests(server: &Server, case: &str, requests: u64, budget: u64) {
    server.wait(case, |counters| {
        let held = at(&counters.answer_bytes);
        assert!(held <= budget, "{case}: {held} bytes are held, the budget is {budget}");
        at(&counters.requests) >= requests
    });
}

#[test]
fn every_route_is_large_enough_to_be_tried_or_says_why_not() {
    // Their answers are part of the program, or one line.
    let small = ["/", "/{file}", "/healthz", "/khz/v1/openapi.json", "/khz/v1/tour", "/khz/v1/events"];
    let small_too = ["/api/v1/query_exemplars", "/api/v1/status/buildinfo", "/khz/v1/rules"];
    // As long as the query, and as the names of labels, of which there are few.
    let short = [
        "/api/v1/format_query",
        "/api/v1/labels",
        "/khz/v1/channels/{name}",
        "/khz/v1/jobs/{job}",
        "/khz/v1/rules/picture",
    ];
    let one = ["/khz/v1/blackbox/{id}"];
    let small = [&small[..], &small_too, &short, &one].concat();
    let tried: Vec<String> = large().iter().map(|(path, ..)| described(path)).collect();
    let tried: Vec<&str> = tried.iter().map(String::as_str).collect();
    for (path, _) in khz_http::documented() {
        assert!(small.contains(&path) != tried.contains(&path), "{path}");
    }
}

#[test]
fn clients_that_do_not_read_hold_no_more_than_the_budget_on_any_route() {
    for (path, node, budget) in large() {
        let server = server_for(path, node, budget);
        let mut clients: Vec<TcpStream> = (0..DEAF).map(|_| deaf(&server, path)).collect();
        wait_for_requests(&server, path, DEAF as u64, budget);
        let is_stream = path.contains("/stream") || path.contains("/tiles");
        let case = format!("{path}: not all have room");
        server.wait(&case, |counters| {
            assert!(at(&counters.answer_bytes) <= budget, "{path}");
            // A stream may have begun while there was still room.
            at(&counters.answers_refused) + at(&counters.answers_cut) > 0
        });
        let refusal = clients.iter_mut().map(beginning).find(|text| text.starts_with("HTTP/1.1 503"));
        match refusal {
            Some(text) => {
                assert!(text.contains("\r\nretry-after: 5\r\n") && text.contains("try again"), "{text}")
            }
            None => assert!(is_stream, "{path}: no client got 503"),
        }
        for small in ["/", "/healthz", "/khz/v1/openapi.json"] {
            assert_eq!(server.get(small).status, 200, "{small} while {path} is not read");
        }
        drop(clients);
        server.wait("all comes back", |counters| at(&counters.answer_bytes) == 0);
        if path == READ {
            let begins = beginning(&mut deaf(&server, path));
            assert!(begins.starts_with("HTTP/1.1 200"), "{path} afterwards: {begins}");
        } else if !is_stream {
            let answer = server.get(path);
            assert_eq!(answer.status, 200, "{path} afterwards");
            assert!(answer.bytes.len() > 128 << 10, "{path}: {} bytes", answer.bytes.len());
            // The last piece counts until the socket has taken it.
            server.wait("all comes back again", |counters| at(&counters.answer_bytes) == 0);
        }
    }
}

#[test]
fn a_node_is_scraped_although_clients_that_do_not_read_fill_the_budget_of_long_answers() {
    let server = server_for("", FakeNode { own: Some(Vec::new()), ..cluster(1, 2_000) }, MIB);
    let mut unread: Vec<TcpStream> = Vec::new();
    let mut is_full = false;
    while !is_full {
        assert!(unread.len() < 4 * DEAF, "there is always room for another long answer");
        let mut client = deaf(&server, "/khz/v1/catalog");
        is_full = beginning(&mut client).starts_with("HTTP/1.1 503");
        unread.push(client);
    }
    for _ in 0..3 {
        let scrape = server.get("/metrics?node=n1");
        assert_eq!(scrape.status, 200, "{}", scrape.body);
        assert!(scrape.body.contains("a_metric_with_a_long_name_number_1999"), "{}", scrape.body);
        assert_eq!(server.get("/metrics").status, 200, "the program's own numbers");
    }
}

#[test]
fn small_answers_are_sent_however_little_there_is_left() {
    let server = server(FakeNode::default(), 1);
    for path in ["/", "/healthz", "/khz/v1/openapi.json"] {
        assert_eq!(server.get(path).status, 200, "{path}");
    }
    for path in ["/khz/v1/stream", "/khz/v1/tiles?match=load.1m", "/metrics", "/khz/v1/nodes"] {
        let answer = server.get(path);
        assert_eq!((answer.status, answer.headers["retry-after"].as_str()), (503, "5"), "{path}");
    }
    assert_eq!(server.get("/khz/v1/query?match=nothing").status, 503, "no room to look for it");
    assert_eq!(server.get("/khz/v1/query?match=[").status, 400, "a refusal needs none");
    assert_eq!(server.count(|c| &c.answer_bytes), 0);
}

#[test]
fn an_answer_that_outgrows_the_budget_ends_in_the_middle_and_is_counted() {
    // Two clients that read; when the second one's rows come, there is no room for them beside the first
    // one's.
    let node = FakeNode { rows_a_poll: 400, ..cluster(4, 200) };
    let server = server(node, MIB);
    let mut stream = deaf(&server, "/khz/v1/stream?rate=1000Hz");
    server.wait("the second one is dropped", |counters| at(&counters.answers_cut) == 1);
    let mut text = String::new();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.read_to_string(&mut text).unwrap_or_default();
    assert!(text.contains("event: dropped\ndata: {\"error\":\"the answers that others"), "{text}");
    server.wait("all comes back", |counters| at(&counters.answer_bytes) == 0);
}

#[test]
fn a_client_that_reads_too_slowly_is_cut_off_and_counted() {
    let server = Server::start_with(Arc::new(cluster(60, 600)), |door| {
        door.limits.stall_timeout = Duration::from_millis(200);
        door.limits.taken_min = 1 << 30;
    });
    let mut slow = deaf(&server, "/khz/v1/query");
    // It does take bytes all the time.
    let mut room = [0; 1_024];
    let mut taken = 0;
    while let Ok(read @ 1..) = slow.read(&mut room) {
        taken += read;
        std::thread::sleep(Duration::from_millis(1));
    }
    server.wait("the slow client is counted", |counters| at(&counters.connections_expired) == 1);
    server.wait("all comes back", |counters| at(&counters.answer_bytes) == 0);
    let whole = server.get("/khz/v1/query").body.len();
    assert!(taken < whole, "{taken} of {whole} bytes");
}

/// An answer that holds 1.5 MiB of samples.
const LONG_QUERY: &str =
    "/api/v1/query_range?query=%7B__name__=~%22a_metric.*%22%7D&start=1763690000&end=1763690600&step=1";

#[test]
fn a_long_answer_in_promql_gives_back_what_is_sent_while_the_rest_waits() {
    let server = server_for("", cluster(8, 40), 64 * MIB);
    let whole = server.get(LONG_QUERY).body.len();
    let held = |counters: &khz_http::Counters| at(&counters.answer_bytes);
    server.wait("nothing is held", |counters| held(counters) == 0);
    let mut client = deaf(&server, LONG_QUERY);
    client.read_exact(&mut [0; 1_024]).unwrap();
    let begun = server.count(|counters| &counters.answer_bytes);
    // Little of it has been sent.
    assert!(whole > 1_500_000 && (MIB..2 * MIB).contains(&begun), "{whole} bytes of text, {begun} held");
    client.read_exact(&mut vec![0; whole * 3 / 4]).unwrap();
    server.wait("most is given back", |counters| held(counters) < begun / 2);
    drop(client);
    server.wait("all comes back", |counters| held(counters) == 0);
}

#[test]
fn a_long_answer_in_promql_is_cut_where_its_client_is_slower_than_the_rate() {
    let server = Server::start_with(Arc::new(cluster(8, 40)), |door| {
        // Any wait is too long, and the connection itself is never cut off.
        door.limits.held_rate = u64::MAX;
        door.limits.stall_timeout = Duration::from_millis(1);
        door.limits.taken_min = 0;
    });
    let mut slow = deaf(&server, LONG_QUERY);
    let mut room = [0; 1_024];
    while let Ok(1..) = slow.read(&mut room) {
        std::thread::sleep(Duration::from_millis(1));
    }
    server.wait("it is cut", |counters| at(&counters.answers_cut) == 1);
    server.wait("all comes back", |counters| at(&counters.answer_bytes) == 0);
}
