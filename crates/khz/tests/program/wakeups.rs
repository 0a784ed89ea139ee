//! Wake-ups without a reason: a process that nobody asks wakes up for its ticks, for what follows from a tick, and for nothing
//! else. No time is measured: the rows in the ring count the ticks, and the kernel counts the wake-ups of each thread.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use khz_block::{Decoder, Step};
use khz_ring::Reader;

use crate::process::{Running, khz};

/// The limit only ends a hanging test.
const PATIENCE: Duration = Duration::from_secs(60);

/// The most wake-ups of all threads a tick: one to gather and send, one for the hub's answer.
const A_TICK: u64 = 2;

/// A directory for rings, and one for sockets.
fn place(name: &str) -> (String, String) {
    let folder =
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-wake-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let below = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    (below("rings"), below("run"))
}

/// Rows that a lane's ring holds: ticks, counted without asking anybody.
fn rows(rings: &str, lane: &str) -> u64 {
    let file = Path::new(rings).join("n1").join(format!("{lane}.ring"));
    let Ok(reader) = Reader::open(&file) else { return 0 };
    let mut rows = 0;
    for at in reader.blocks() {
        let mut bytes = Vec::new();
        if reader.block(at, &mut bytes).is_none() {
            continue;
        }
        let (mut decoder, mut rest) = (Decoder::new(), &bytes[..]);
        while let Ok(step @ (Step::Header(length) | Step::Row(length))) = decoder.step(rest) {
            rest = &rest[length..];
            rows += u64::from(matches!(step, Step::Row(_)));
        }
    }
    rows
}

/// Waits until this many more rows have come.
fn wait_for_rows(rings: &str, lane: &str, more: u64) {
    let (begun, first) = (Instant::now(), rows(rings, lane));
    while rows(rings, lane) < first + more {
        assert!(begun.elapsed() < PATIENCE, "{rings}: {} rows in {lane}", rows(rings, lane));
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// How often each thread of a process has gone to sleep by itself.
fn sleeps(process: &Running) -> BTreeMap<String, u64> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", process.child.id())).unwrap();
    let of_task = |task: std::io::Result<std::fs::DirEntry>| {
        let path = task.unwrap().path();
        let status = std::fs::read_to_string(path.join("status")).ok()?;
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let thread = format!("{} {}", field("Name:")?, path.file_name()?.to_str()?);
        Some((thread, field("voluntary_ctxt_switches:")?.parse().ok()?))
    };
    tasks.filter_map(of_task).collect()
}

/// What each thread has slept since.
fn since(process: &Running, before: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let now = sleeps(process).into_iter();
    now.map(|(thread, count)| (thread.clone(), count - before.get(&thread).unwrap_or(&0))).collect()
}

/// Lets ticks pass and holds the wake-ups of some processes against them.
fn hold_against_ticks(rings: &str, lane: &str, ticks: u64, processes: &[(&str, &Running)]) {
    let from = rows(rings, lane);
    let before: Vec<_> = processes.iter().map(|(_, process)| sleeps(process)).collect();
    wait_for_rows(rings, lane, ticks);
    let after: Vec<_> =
        processes.iter().zip(&before).map(|((_, process), before)| since(process, before)).collect();
    let ticks = rows(rings, lane) - from;
    for ((name, _), threads) in processes.iter().zip(after) {
        let all: u64 = threads.values().sum();
        assert!(all <= A_TICK * ticks, "{name}: {all} wake-ups in {ticks} ticks, {threads:?}");
    }
}

/// Gathers what the bare loop of the benchmark reads, once a second.
const ONCE_A_SECOND: [&str; 4] =
    ["--base-rate", "1Hz", "--sources", "stat=1Hz,meminfo=1Hz,loadavg=1Hz,uptime=1Hz,net/dev=1Hz"];

#[test]
fn khz_alone_wakes_up_for_its_ticks() {
    let (rings, run) = place("alone");
    let alone = Running::start(&["--ring-dir", &rings, "--run-dir", &run]);
    wait_for_rows(&rings, "local", 5);
    hold_against_ticks(&rings, "local", 20, &[("khz", &alone)]);
}

#[test]
fn khz_alone_at_1_hz_wakes_up_for_its_ticks() {
    let (rings, run) = place("slow");
    let places = ["--ring-dir", &rings, "--run-dir", &run];
    let alone = Running::start(&[&places[..], &ONCE_A_SECOND].concat());
    wait_for_rows(&rings, "base", 2);
    hold_against_ticks(&rings, "base", 4, &[("khz", &alone)]);
}

#[test]
fn khz_alone_that_was_read_wakes_up_for_its_ticks_again() {
    let (rings, run) = place("read");
    let places = ["--ring-dir", &rings, "--run-dir", &run];
    let alone = Running::start(&[&places[..], &ONCE_A_SECOND].concat());
    // A socket that a client has found, and left again.
    let socket = Path::new(&run).join("khz-link.sock");
    drop(std::os::unix::net::UnixStream::connect(&socket).unwrap());
    let threads = || sleeps(&alone).len();
    let wait_for = |what: &str, count: usize| {
        let begun = Instant::now();
        while threads() != count {
            assert!(begun.elapsed() < PATIENCE, "{what}: {:?}", sleeps(&alone));
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    wait_for("hub and link run", 4);
    wait_for("hub and link have ended", 2);
    hold_against_ticks(&rings, "base", 3, &[("khz", &alone)]);
}

#[test]
fn a_store_into_which_nothing_comes_wakes_nobody() {
    let (store, _) = place("store");
    let hub = Running::start_hub(&["--insecure", "--store", &store]);
    let (others, elsewhere) = place("store-elsewhere");
    let places = ["--ring-dir", &others, "--run-dir", &elsewhere];
    let _clock = Running::start(&[&places[..], &ONCE_A_SECOND].concat());
    wait_for_rows(&others, "base", 1);
    let before = sleeps(&hub);
    wait_for_rows(&others, "base", 3);
    let slept = since(&hub, &before);
    let threads = ["store", "compact"].map(|name| slept.keys().any(|thread| thread.starts_with(name)));
    assert_eq!(threads, [true, true], "{slept:?}");
    assert!(slept.values().all(|&sleeps| sleeps == 0), "{slept:?}");
}

#[test]
fn a_hub_sleeps_until_a_node_comes_and_wakes_up_for_its_rows_then() {
    let (rings, run) = place("sending");
    // A node elsewhere: it finds nothing of the hub on this machine.
    let hub = Running::start_hub(&["--insecure"]);
    let link = hub.link();
    // A node that does not report to the hub counts the time.
    let (others, elsewhere) = place("elsewhere");
    let places = ["--ring-dir", &others, "--run-dir", &elsewhere];
    let alone = Running::start(&[&places[..], &ONCE_A_SECOND].concat());
    wait_for_rows(&others, "base", 1);
    let before = sleeps(&hub);
    wait_for_rows(&others, "base", 3);
    let slept = since(&hub, &before);
    assert!(slept.values().all(|&sleeps| sleeps == 0), "a hub without nodes: {slept:?}");
    drop(alone);
    let places = ["--ring-dir", &rings, "--run-dir", &run];
    let words = [&["agent", "--hub", &link, "--listen", "127.0.0.1:0", "--node", "n1"], &places[..]];
    let agent = Running::of(khz(&[&words.concat()[..], &ONCE_A_SECOND].concat()));
    // The first Beats are timed, each with a wake-up of its own.
    wait_for_rows(&rings, "base", 6);
    hold_against_ticks(&rings, "base", 6, &[("agent", &agent), ("hub", &hub)]);
}
