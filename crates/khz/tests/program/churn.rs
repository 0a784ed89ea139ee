//! A node on which interfaces come and go by the thousand: the agent gives slots back and runs on.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::process::{Ended, Running, code, khz, out};

/// Interfaces at a time: three times as many need more slots than a node may have (262,144).
const INTERFACES: usize = 6_000;

/// Awaited things have happened by then. An instance keeps its slots for 30 s after it was last seen.
const PATIENCE: Duration = Duration::from_secs(120);

/// The agent's memory with all slots in use; it has some 190 MB in a debug build.
const MEMORY_MAX_KB: u64 = 400_000;

const HEAD: &str = "Inter-|   Receive                                                |  Transmit\n face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n";

/// Interface `kept`, which has received as many bytes as the number of the round, and those of the round.
fn net_dev(round: usize) -> String {
    let line = |name: String, n: usize| format!("{name}: {n} 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n");
    let others: String = (0..INTERFACES).map(|n| line(format!("veth{round}-{n}"), n)).collect();
    HEAD.to_owned() + &line("kept".to_owned(), round) + &others
}

/// Generation, slots and newest row number of the base lane's ring.
fn base_lane(rings: &Path) -> (u64, u64, u64) {
    let shown = khz(&["ring", "show", "--node", "n1", "--json"]).env("KHZ_RING_DIR", rings).output().unwrap();
    assert_eq!(code(&shown), 0, "{shown:?}");
    let lanes = out(&shown);
    let lanes = lanes.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let base = lanes.into_iter().find(|lane| lane["lane"] == "base").expect("a base lane");
    let number = |field: &str| base[field].as_u64().unwrap();
    (number("generation"), number("slots"), number("rows"))
}

/// The lines of a reader that has followed `kept` from the start.
struct Kept {
    lines: BufReader<ChildStdout>,
    rows: u64,
    round: u64,
    _child: Ended,
}

impl Kept {
    /// Follows it from the first row on. An agent that has just started on a busy machine may not answer at once, and the
    /// watch ends then.
    fn follow(server: &str) -> Self {
        let end = Instant::now() + PATIENCE;
        loop {
            let mut kept = Kept::start(server);
            let mut line = String::new();
            if kept.lines.read_line(&mut line).unwrap() > 0 {
                return kept;
            }
            assert!(Instant::now() < end, "the agent never answers");
        }
    }

    fn start(server: &str) -> Self {
        let words = ["watch", "n1:net.rx_bytes[kept]", "--raw", "--json", "--server", server];
        let mut child = khz(&words).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Kept { lines, rows: 0, round: 0, _child: Ended(child) }
    }

    /// Reads rows until the first of this round; no row is lost. A row has no value where the file was read while the
    /// test wrote it.
    fn until_round(&mut self, round: u64) {
        let (mut line, end) = (String::new(), Instant::now() + PATIENCE);
        while self.rows == 0 || self.round < round {
            line.clear();
            assert!(Instant::now() < end, "no row of round {round}; the last was of {}", self.round);
            assert!(self.lines.read_line(&mut line).unwrap() > 0, "the watch has ended");
            let row: Value = serde_json::from_str(&line).unwrap();
            if row["event"].is_string() {
                // A busy agent may be silent for seconds. Its rows come then.
                continue;
            }
            assert_eq!(row["lost"], 0, "{line}");
            let Some(value) = row["values"]["net.rx_bytes[kept]"].as_str() else { continue };
            let Ok(seen) = value.parse() else { continue };
            assert!((self.round..=round).contains(&seen), "{line}");
            (self.rows, self.round) = (self.rows + 1, seen);
        }
    }
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "it never came to be: {what}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn memory_most_kb(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn an_agent_whose_interfaces_come_and_go_beyond_its_slots_gives_slots_back_and_runs_on() {
    let root = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("churn-{}", std::process::id()));
    let (text, rings) = (root.join("proc/net/dev"), root.join("rings"));
    fs::create_dir_all(text.parent().unwrap()).unwrap();
    fs::write(&text, net_dev(0)).unwrap();
    let variables = [("KHZ_RING_DIR", rings.to_str().unwrap())];
    let words = ["--root", root.to_str().unwrap(), "--cpu-max", "100%"];
    let mut running = Running::start_in(&variables, &words);
    let mut kept = Kept::follow(&running.url);
    kept.until_round(0);
    let get = |name: &str, url: &str| {
        let answer = khz(&["get", &format!("net.rx_bytes[{name}]"), "--server", url]).output().unwrap();
        (code(&answer) == 0).then(|| out(&answer))
    };
    // The last interface of the third round finds no slot.
    for round in 1..=2 {
        fs::write(&text, net_dev(round)).unwrap();
        kept.until_round(round as u64);
    }
    // The reader's rows are of a lane of its own; a busy agent writes those of the base lane a little later.
    let mut generation = 0;
    until("all slots are in use", || {
        let (now, slots, _) = base_lane(&rings);
        generation = now;
        slots > 260_000
    });
    // It has one when those that are gone have given theirs back.
    let last = format!("veth2-{}", INTERFACES - 1);
    until("slots are given back", || base_lane(&rings).0 > generation);
    until("a row of the next generation", || (1..200_000).contains(&base_lane(&rings).1));
    until("the last interface has a slot", || get(&last, &running.url).is_some());
    let (_, slots, rows) = base_lane(&rings);
    assert!(slots < 200_000, "{slots} slots: those of the first round are given back");
    assert!(get("veth0-0", &running.url).is_none(), "its slots are another's");
    // Whoever reads goes on, in the ring and at the door.
    fs::write(&text, net_dev(3)).unwrap();
    kept.until_round(3);
    until("further rows", || base_lane(&rings).2 > rows);
    assert!(running.child.try_wait().unwrap().is_none(), "it is the same process");
    let memory = memory_most_kb(running.child.id());
    assert!(memory < MEMORY_MAX_KB, "{memory} kB");
    let (code, message) = running.end("TERM");
    assert_eq!(code, Some(0));
    assert!(!message.contains("beginning again"), "{message}");
    fs::remove_dir_all(root).unwrap();
}
