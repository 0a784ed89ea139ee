//! Hubs above hubs, while a node is killed and starts again with other rings: each of its rows is at every level, from the first one of
//! each start on.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, SystemTime};

use crate::process::{Ended, Running, code, err, khz, out, run, until};
use crate::text::free_port;

/// The limit only ends a hanging test.
const PATIENCE: Duration = Duration::from_secs(120);

const SERIES: &str = "n1:uptime.up";

/// A hub with a store, in a folder of its own.
struct Place {
    folder: PathBuf,
    link: String,
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Place {
    fn new(name: &str) -> Self {
        let folder = format!("restarts-{}-{name}", std::process::id());
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(folder);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        Place { folder, link: free_port() }
    }

    fn path(&self, name: &str) -> String {
        self.folder.join(name).to_str().unwrap().to_owned()
    }

    fn hub(&self, more: &[&str]) -> Running {
        let store = self.path("store");
        let words = ["hub", "--listen", "127.0.0.1:0", "--link-listen", &self.link, "--store", &store];
        let mut command = khz(&[&words[..], more].concat());
        command.env("KHZ_RUN_DIR", self.folder.join("run"));
        Running::of(command)
    }
}

/// Milliseconds since 1970.
fn now() -> i64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis() as i64
}

/// When each row of the node was gathered that the hub has stored, in ms since 1970.
fn stored(hub: &Running) -> BTreeSet<i64> {
    let output = run(&["export", "--from", "-1h", "-m", SERIES, "--json", "--server", &hub.url]);
    out(&output).lines().filter_map(time).collect()
}

/// The time of a row.
fn time(line: &str) -> Option<i64> {
    let row: serde_json::Value = serde_json::from_str(line).unwrap();
    let seconds: f64 = row["time"].as_str()?.parse().unwrap();
    Some((seconds * 1_000.0).round() as i64)
}

/// A start of the agent: when, how many rows a second, and how many of them are one row above.
struct Start {
    at: i64,
    every: usize,
}

/// Of the rows that the first hub has, those that are one row at a hub above: the first one of each number.
fn above(rows: &BTreeSet<i64>, starts: &[Start]) -> BTreeSet<i64> {
    let mut all = BTreeSet::new();
    for (number, start) in starts.iter().enumerate() {
        let end = starts.get(number + 1).map_or(i64::MAX, |next| next.at);
        all.extend(rows.range(start.at..end).step_by(start.every));
    }
    all
}

#[test]
fn no_row_is_lost_at_hubs_above_hubs_when_a_node_starts_again_with_another_base_rate() {
    let places = ["first", "second", "third"].map(Place::new);
    let first = places[0].hub(&[]);
    let second = places[1].hub(&["--source", &places[0].link]);
    let third = places[2].hub(&["--source", &places[1].link]);
    let file = places[2].path("rows.khzt");
    let (mut starts, mut recorder): (Vec<Start>, Option<Ended>) = (Vec::new(), None);
    for (hz, pause) in [(10, 300), (1, 1_000), (10, 300), (5, 300), (5, 1_000), (10, 0)] {
        let had = stored(&first).len();
        starts.push(Start { at: now(), every: hz });
        let rate = format!("{hz}Hz");
        let words =
            ["agent", "--node", "n1", "--hub", &places[0].link, "--sources", "uptime", "--base-rate", &rate];
        let mut agent = Ended::start_silent(&mut first.beside(&words));
        // Rows of two seconds.
        until(PATIENCE, "the first hub has rows", || stored(&first).len() > had + 2 * hz);
        if recorder.is_none() {
            until(PATIENCE, "the third hub has rows", || !stored(&third).is_empty());
            let words = ["record", SERIES, "--rate", "1", "--hub", &places[2].link, "-o", &file];
            recorder = Some(Ended::start(&mut third.beside(&words)));
            until(PATIENCE, "it records", || std::fs::metadata(&file).is_ok_and(|file| file.len() > 0));
        }
        agent.0.kill().unwrap();
        agent.0.wait().unwrap();
        std::thread::sleep(Duration::from_millis(pause));
    }
    let rows = stored(&first);
    let expected = above(&rows, &starts);
    for (hub, name) in [(&second, "second"), (&third, "third")] {
        until(PATIENCE, &format!("the {name} hub has each row: {expected:?}"), || {
            // Rows that came since the kill of the last agent.
            let all = above(&stored(&first), &starts);
            stored(hub) == all
        });
    }
    let expected = above(&stored(&first), &starts);
    let pid = recorder.as_ref().unwrap().0.id().to_string();
    assert!(Command::new("kill").args(["-s", "INT", &pid]).status().unwrap().success());
    let (_, _, said) = recorder.unwrap().end();
    let output = run(&["export", &file, "--json"]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    let recorded: BTreeSet<i64> = out(&output).lines().filter_map(time).collect();
    let since = *recorded.first().unwrap_or_else(|| panic!("nothing is recorded: {said}"));
    assert!(since < starts[1].at, "it began with the first start: {since}");
    let expected: BTreeSet<i64> = expected.range(since..).copied().collect();
    assert_eq!(recorded, expected, "{said}");
}

#[test]
fn an_agent_that_ends_cleanly_leaves_no_row_that_only_its_ring_has() {
    let place = Place::new("ends");
    let hub = place.hub(&[]);
    let rings = place.path("rings");
    for hz in ["10Hz", "25Hz"] {
        let words = ["agent", "--node", "n1", "--hub", &place.link, "--sources", "uptime", "--base-rate", hz];
        let mut command = hub.beside(&words);
        let agent = Ended::start_silent(command.env("KHZ_RING_DIR", &rings));
        let had = stored(&hub).len();
        until(PATIENCE, "rows have come", || stored(&hub).len() >= had + 12);
        assert_eq!(agent.end_by("TERM"), Some(0));
        let output = run(&["ring", "export", "--json", "--dir", &rings, SERIES.split_once(':').unwrap().1]);
        assert_eq!(code(&output), 0, "{}", err(&output));
        let in_ring = out(&output).lines().count();
        // The ring of another rate is another one.
        until(PATIENCE, &format!("{hz}: the hub has the {in_ring} rows of the ring"), || {
            stored(&hub).len() == had + in_ring
        });
    }
}
