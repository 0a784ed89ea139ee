//! Hostile clients: oversized, slow and malformed requests, foreign names, floods of idle connections, and
//! readers that do not read. Bytes over real sockets.

// Helpers of tests are tests too, which clippy's `allow-unwrap-in-tests` does not see.
#![allow(clippy::unwrap_used)]

mod fake;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fake::{Answer, FakeNode, Server};
use khz_door::DoorError;
use khz_http::Door;
use khz_model::{Reading, Sample};

fn at(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::SeqCst)
}

fn status(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).split(' ').nth(1).unwrap_or("").to_owned()
}

#[test]
fn a_port_in_use_is_said_in_one_sentence_before_anything_starts() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = taken.local_addr().unwrap();
    let error = khz_door::listen(&[addr], "--listen").unwrap_err();
    assert!(matches!(error, DoorError::InUse { .. }));
    assert_eq!(
        error.to_string(),
        format!(
            "{addr} is in use by another program; stop that one or choose another address with --listen ADDRESS:PORT"
        )
    );
}

#[test]
fn malformed_requests_are_refused_and_counted() {
    let server = Server::start(Arc::new(FakeNode::default()));
    let requests: [&[u8]; 5] = [
        b"\0\x01\x02\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    ];
    for (n, request) in requests.iter().enumerate() {
        assert_eq!(status(&server.raw(request)), "400", "{request:?}");
        server.wait("refusal counted", |c| at(&c.requests_refused) == n as u64 + 1);
    }
    assert_eq!(server.get("/healthz").status, 200);
}

#[test]
fn heads_too_large_or_with_too_many_fields_are_refused() {
    let server = Server::start(Arc::new(FakeNode::default()));
    let large = format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(64 * 1024));
    let many = format!("GET / HTTP/1.1\r\nHost: localhost\r\n{}\r\n", "X: y\r\n".repeat(100));
    // The server may close while the client still sends; its answer may then be lost.
    assert!(["431", ""].contains(&status(&server.raw(large.as_bytes())).as_str()));
    assert_eq!(status(&server.raw(many.as_bytes())), "431");
    server.wait("both counted", |c| at(&c.requests_refused) == 2);
}

#[test]
fn foreign_hosts_and_origins_are_refused_and_counted() {
    let server = Server::start(Arc::new(FakeNode::default()));
    for headers in
        [("Host", "evil.example"), ("Origin", "http://evil.example"), ("Sec-Fetch-Site", "cross-site")]
    {
        let answer = server.ask("GET", "/khz/v1/query", &[headers]);
        assert_eq!(answer.status, 403, "{headers:?}");
        assert!(answer.json()["error"].is_string());
    }
    assert_eq!(server.count(|c| &c.requests_refused), 3);
    assert_eq!(
        status(
            &server.raw(b"GET http://evil.example/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        ),
        "403"
    );
    assert_eq!(status(&server.raw(b"GET /healthz HTTP/1.0\r\n\r\n")), "200", "no browser speaks 1.0");
}

#[test]
fn the_refusal_of_a_foreign_host_names_the_setting_that_would_allow_it() {
    let server = Server::start(Arc::new(FakeNode::default()));
    let answer = server.ask("GET", "/metrics", &[("Host", "hub.example:7070")]);
    let error = answer.json()["error"].as_str().unwrap().to_owned();
    for way in
        ["--allowed-hosts hub.example", "KHZ_ALLOWED_HOSTS=hub.example", "allowed_hosts = [\"hub.example\"]"]
    {
        assert!(error.contains(way), "{error}");
    }
    assert!(error.contains("http://127.0.0.1,"), "{error}");
}

#[test]
fn only_health_is_answered_without_a_token_or_with_a_wrong_one() {
    let server = Server::start_with(Arc::new(FakeNode::default()), |door| {
        door.access.key = Some(Arc::new(khz_trust::ClusterKey::generate().unwrap()));
    });
    for token in ["Bearer khz-reader-bob-00", "Bearer", "Basic YTpi"] {
        let shown = [("Authorization", token)];
        let health = server.ask("GET", "/healthz", &shown);
        assert_eq!((health.status, health.body.as_str()), (200, "{\"status\":\"ok\"}\n"), "{token}");
        assert_eq!(server.ask("HEAD", "/healthz", &shown).status, 200);
        for path in ["/", "/metrics", "/khz/v1/nodes", "/healthz/", "/khz/v1/query"] {
            assert_eq!(server.ask("GET", path, &shown).status, 401, "{path}");
        }
    }
    assert_eq!(server.ask("GET", "/healthz", &[("Host", "evil.example")]).status, 403);
}

#[test]
fn a_body_is_never_taken_for_a_request() {
    let server = Server::start(Arc::new(FakeNode::default()));
    let inner = "GET /khz/v1/nodes HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let request =
        format!("GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{inner}", inner.len());
    let answer = String::from_utf8(server.raw(request.as_bytes())).unwrap();
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{answer}");
}

/// Who is refused before the body has come gets the answer, and no error of the system.
#[test]
fn a_peer_that_is_still_sending_its_body_gets_the_refusal() {
    let server = Server::start(Arc::new(FakeNode::default()));
    for (path, expected) in [("/khz/v1/jobs/7", "413"), ("/khz/v1/nowhere", "404"), ("/khz/v1/nodes", "405")]
    {
        let mut peer = TcpStream::connect(server.addr).unwrap();
        peer.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let length = 400_000;
        write!(peer, "PUT {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n").unwrap();
        // The refusal is there already.
        std::thread::sleep(Duration::from_millis(50));
        for piece in vec![b' '; length].chunks(10_000) {
            peer.write_all(piece).unwrap();
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut answer = Vec::new();
        peer.read_to_end(&mut answer).unwrap();
        assert_eq!(status(&answer), expected, "{path}: {}", String::from_utf8_lossy(&answer));
    }
}

#[test]
fn several_requests_on_one_connection_are_answered_in_order() {
    let server = Server::start(Arc::new(FakeNode::default()));
    let one = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let last = "GET /nothing HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let answer = String::from_utf8(server.raw(format!("{one}{one}{last}").as_bytes())).unwrap();
    let statuses: Vec<&str> = answer.split("HTTP/1.1 ").skip(1).map(|part| &part[..3]).collect();
    assert_eq!(statuses, ["200", "200", "404"]);
}

#[test]
fn a_head_that_comes_too_slowly_is_given_up() {
    let server = Server::start_with(Arc::new(FakeNode::default()), |door| {
        door.limits.head_timeout = Duration::from_millis(50);
    });
    let mut slow = server.connect();
    slow.write_all(b"GET / HTTP/1.1\r\nHost: loc").unwrap();
    let mut silent = server.connect();
    let mut rest = Vec::new();
    let _ = slow.read_to_end(&mut rest);
    let _ = silent.read_to_end(&mut rest);
    server.wait("both expired", |c| at(&c.connections_expired) == 2);
    assert_eq!(server.get("/healthz").status, 200);
}

#[test]
fn a_stream_reader_that_does_not_read_is_dropped_and_counted() {
    let node = Arc::new(FakeNode { rows_a_poll: 2_000, ..FakeNode::default() });
    let server = Server::start_with(Arc::clone(&node), |door| {
        door.limits.stall_timeout = Duration::from_millis(100);
    });
    let mut deaf = server.connect();
    deaf.write_all(b"GET /khz/v1/stream?rate=1kHz HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    server.wait("the stream is dropped", |c| {
        assert_eq!(server.get("/healthz").status, 200, "others are answered all the while");
        at(&c.streams_dropped_slow) == 1
    });
    server.wait("the stream is gone", |c| at(&c.streams_open) == 0);
    drop(deaf);
}

#[test]
fn an_idle_connection_gives_way_and_a_busy_one_does_not() {
    let server = Server::start_with(Arc::new(FakeNode::default()), |door| door.limits.connections = 2);
    let mut stream = server.stream("/khz/v1/stream?rate=100Hz");
    stream.next().unwrap();
    let mut idle = server.connect();
    server.wait("both are open", |c| at(&c.connections_open) == 2);
    assert_eq!(server.get("/healthz").status, 200, "it took the idle one's place");
    assert_eq!(idle.read(&mut [0; 1]).unwrap_or(0), 0, "the idle one is closed");
    assert_eq!(server.count(|c| &c.connections_evicted), 1);
    stream.next().unwrap();
    let mut second = server.stream("/khz/v1/stream?rate=100Hz");
    second.next().unwrap();
    let mut refused = Vec::new();
    let _ = server.connect().read_to_end(&mut refused);
    assert_eq!((refused.len(), server.count(|c| &c.connections_refused)), (0, 1), "both are busy");
}

#[test]
fn health_and_the_hubs_own_numbers_do_not_wait_for_answers_that_nobody_reads() {
    const UNREAD: usize = 100;
    let own =
        Sample { series: fake::columns()[6].clone(), reading: Reading::Present(1), stamp: fake::stamp(0) };
    let node = Arc::new(FakeNode { own: Some(vec![own]), ..FakeNode::many(300) });
    let server = Server::start(Arc::clone(&node));
    // A door finds out once whether there are own numbers.
    server.wait("the door has asked for them", |_| !node.asked.lock().unwrap().is_empty());
    node.asked.lock().unwrap().clear();
    let ask = |path: &str| {
        let mut socket = server.connect();
        write!(socket, "GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", server.addr).unwrap();
        socket
    };
    // The first request holds up the door until all others wait in its sockets, the two short ones last.
    let held_up = node.held_up.lock().unwrap();
    let mut unread = vec![ask("/khz/v1/query?match=*:*")];
    server.wait("the first has begun", |_| !node.asked.lock().unwrap().is_empty());
    unread.extend((1..UNREAD).map(|_| ask("/khz/v1/query?match=*:*")));
    let (mut health, mut metrics) = (ask("/healthz"), ask("/metrics"));
    drop(held_up);
    for little in [&mut health, &mut metrics] {
        assert!(little.read(&mut [0; 16]).unwrap() > 0);
    }
    server.wait("all have begun", |_| node.asked.lock().unwrap().len() == UNREAD + 2);
    let asked = node.asked.lock().unwrap().clone();
    let before = |what: &str| asked.iter().position(|asked| asked == what).unwrap();
    assert!(before("") < UNREAD / 4, "{} long answers were begun before health was answered", before(""));
    assert!(before("own") < UNREAD / 4, "{} long answers were begun before the own numbers", before("own"));
    drop(unread);
}

#[test]
fn a_full_hub_still_reports_its_own_state() {
    let own =
        Sample { series: fake::columns()[6].clone(), reading: Reading::Present(1), stamp: fake::stamp(0) };
    let node = Arc::new(FakeNode { own: Some(vec![own]), ..FakeNode::many(2_000) });
    let server = Server::start_with(node, |door| {
        door.limits.answers = khz_model::ByteSize(1 << 20);
        // No client is dropped before the test has checked.
        door.limits.stall_timeout = 2 * fake::PATIENCE;
    });
    let ask = |_| {
        let mut socket = server.connect();
        write!(socket, "GET /khz/v1/query HTTP/1.1\r\nHost: {}\r\n\r\n", server.addr).unwrap();
        socket
    };
    let unread: Vec<TcpStream> = (0..40).map(ask).collect();
    server.wait("there is no room for all", |counters| at(&counters.answers_refused) > 0);
    assert_eq!(server.get("/khz/v1/query").status, 503);
    let metrics = server.get("/metrics");
    assert_eq!(metrics.status, 200, "{}", metrics.body);
    assert!(metrics.body.contains("node_load1"), "{}", metrics.body);
    drop(unread);
}

/// How many sockets this process may have, after it has raised its limit as far as it may.
fn sockets_possible() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    getrlimit(Resource::Nofile).current.map_or(usize::MAX, |n| n as usize)
}

fn anonymous_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn ten_thousand_idle_connections_disturb_nobody() {
    let flood = 10_000.min(sockets_possible().saturating_sub(1_500));
    assert!(flood > 500, "too few file descriptors to test anything");
    let server = Server::start(Arc::new(FakeNode::default()));
    let mut stream = server.stream("/khz/v1/stream?match=load.*&rate=100Hz");
    stream.next().unwrap();
    let before = anonymous_kib();
    let half_sent = |n: usize| {
        let mut socket = server.connect();
        if n.is_multiple_of(2) {
            let _ = socket.write_all(b"GET / HTTP/1.1\r\nHo");
        }
        socket
    };
    let idle: Vec<TcpStream> = (0..flood).map(half_sent).collect();
    assert_eq!(server.get("/healthz").status, 200);
    server.wait("all were accepted", |c| at(&c.connections) >= flood as u64 + 2);
    assert!(server.count(|c| &c.connections_open) <= 512 + 16, "{}", server.count(|c| &c.connections_open));
    assert_eq!(server.count(|c| &c.connections_refused), 0, "idle ones gave way");
    let grown = anonymous_kib().saturating_sub(before);
    assert!(grown < 64 * 1024, "{grown} KiB more for {flood} connections");
    for _ in 0..10 {
        assert_eq!(stream.next().unwrap().0, "rows", "the stream goes on");
    }
    drop(idle);
}

#[test]
fn a_keep_alive_client_is_answered_through_the_flood() {
    let server = Server::start_with(Arc::new(FakeNode::default()), |door| door.limits.connections = 8);
    for _ in 0..5 {
        let _idle: Vec<TcpStream> = (0..20).map(|_| server.connect()).collect();
        assert_eq!(server.get("/metrics").status, 200);
    }
}

#[test]
fn an_answer_survives_random_bytes_before_it() {
    use proptest::test_runner::{Config, TestRunner};
    let server = Server::start(Arc::new(FakeNode::default()));
    let mut runner = TestRunner::new(Config { cases: 64, failure_persistence: None, ..Config::default() });
    let bytes = proptest::collection::vec(proptest::num::u8::ANY, 1..200);
    runner
        .run(&bytes, |mut bytes| {
            bytes.extend_from_slice(b"\r\n\r\n");
            let answer = server.raw(&bytes);
            proptest::prop_assert!(answer.is_empty() || Answer::parse(&answer).status >= 400);
            Ok(())
        })
        .unwrap();
    assert_eq!(server.get("/healthz").status, 200);
}

#[test]
fn a_door_needs_every_address_or_takes_none() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (taken_addr, free_addr) = (taken.local_addr().unwrap(), free.local_addr().unwrap());
    drop(free);
    let mut door = Door::new(Arc::new(FakeNode::default()));
    door.listen = vec![free_addr, taken_addr];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    assert!(runtime.block_on(door.bind()).is_err());
    assert!(std::net::TcpListener::bind(free_addr).is_ok(), "the free one was given back");
}
