//! Clients that send garbage or do not read: the door drops them and counts the reason, and no other client
//! waits.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod fake;

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fake::{Client, FakeCluster, Open, PATIENCE};
use khz_text::Limits;

fn open(limits: Limits) -> Open {
    let names: Vec<String> = (0..400).map(|n| format!("node{n}")).collect();
    Open::new(FakeCluster::new(&names.iter().map(String::as_str).collect::<Vec<_>>()), limits)
}

fn until(count: &Arc<AtomicU64>, least: u64) {
    let start = Instant::now();
    while count.load(Ordering::Relaxed) < least {
        assert!(start.elapsed() < PATIENCE, "it was never counted");
        std::thread::yield_now();
    }
}

/// Sends until the door has closed the connection.
fn flood(mut client: Client, bytes: &[u8]) {
    while client.0.write_all(bytes).is_ok() {}
}

#[test]
fn an_endless_mask_and_an_endless_line_end_the_connection() {
    let open = open(Limits::default());
    flood(open.client(), &[b'f'; 4_000]);
    until(&open.counters.dropped_mask, 1);
    let mut client = open.client();
    client.say(":");
    flood(client, &[b'x'; 4_000]);
    until(&open.counters.dropped_line, 1);
    assert!(open.client().ask("1S").starts_with("node 0 memfree"));
}

#[test]
fn a_client_that_does_not_read_is_dropped_and_nobody_else_waits() {
    let open = open(Limits { stall_timeout: Duration::from_millis(300), ..Limits::default() });
    let silent = open.client();
    let mut writer = silent.0.try_clone().unwrap();
    let flooder = std::thread::spawn(move || while writer.write_all(&[b'S'; 1_000]).is_ok() {});
    for _ in 0..20 {
        assert!(open.client().ask("1S").starts_with("node 0 memfree"));
    }
    until(&open.counters.dropped_stalled, 1);
    flooder.join().unwrap();
    drop(silent);
}

#[test]
fn the_memory_of_all_connections_is_bounded_counted_and_returned() {
    let room = 1 << 20;
    let limits = Limits { answers: khz_model::ByteSize(room), ..Limits::default() };
    let open = open(limits);
    let held = || open.counters.answer_bytes.load(Ordering::Relaxed);
    let mut clients: Vec<Client> = Vec::new();
    let start = Instant::now();
    while open.counters.dropped_full.load(Ordering::Relaxed) == 0 {
        assert!(start.elapsed() < PATIENCE, "there was room for {} clients", clients.len());
        let before = held();
        let mut client = open.client();
        client.say("SSSSSSSS");
        clients.push(client);
        // The next one comes when this one's answer has begun, so that a busy door does not have thousands before it has begun one.
        let begun = || held() > before || open.counters.dropped_full.load(Ordering::Relaxed) > 0;
        while !begun() && start.elapsed() < PATIENCE {
            std::thread::yield_now();
        }
        assert!(held() <= room, "{} bytes", held());
    }
    drop(clients);
    while held() > 0 {
        assert!(start.elapsed() < PATIENCE, "{} bytes were never given back", held());
        std::thread::yield_now();
    }
    assert!(open.client().ask("1S").starts_with("node 0 memfree"));
}

#[test]
fn garbage_is_no_command() {
    let open = open(Limits::default());
    let mut client = open.client();
    let garbage: Vec<u8> = (0..=255u8).filter(|b| !b.is_ascii_hexdigit() && !b"S#:".contains(b)).collect();
    for _ in 0..100 {
        client.0.write_all(&garbage).unwrap();
    }
    assert!(client.ask("1S").starts_with("node 0 memfree"));
}

#[test]
fn a_thousand_clients_at_once_and_the_one_idle_longest_gives_way() {
    let open = open(Limits { connections: 100, ..Limits::default() });
    let mut first = open.client();
    assert!(first.ask("1S").starts_with("node 0 memfree"));
    let many: Vec<Client> = (0..1_000).map(|_| open.client()).collect();
    assert!(open.client().ask("1S").starts_with("node 0 memfree"), "the newest is served");
    until(&open.counters.connections_evicted, 900);
    let counted = open.counters.connections_open.load(Ordering::Relaxed);
    assert!(counted <= 100, "{counted} are open");
    assert!(first.is_closed());
    drop(many);
}
