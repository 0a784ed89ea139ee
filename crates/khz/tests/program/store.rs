//! A store that real processes write: hubs and agents that are killed and started again.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use khz_model::{Nanos, NodeName, RangeContent, RangeRequest, RangeShape, Ranges};
use khz_store::StoreReader;
use khz_store::range::RangeReader;

use crate::process::{Running, code, err, khz, out, run, until};
use crate::text::free_port;

/// The limit only ends a hanging test.
const PATIENCE: Duration = Duration::from_secs(120);

/// The times at which a hub is killed.
const KILLS: u32 = 6;

struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Place(path)
    }

    fn store(&self) -> String {
        self.0.join("store").to_str().unwrap().to_owned()
    }

    /// A hub that stores here, whose link door is at this address.
    fn hub(&self, link: &str, more: &[&str]) -> Running {
        let store = self.store();
        let words =
            ["hub", "--listen", "127.0.0.1:0", "--link-listen", link, "--node", "hub", "--store", &store];
        let mut command = khz(&[&words, more].concat());
        command.env("KHZ_RUN_DIR", self.0.join("run"));
        Running::of(command)
    }

    /// What the store has of a node, as another process sees it.
    fn rows(&self, node: &str) -> Rows {
        Rows::of(&self.0.join("store"), node)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// How many rows there are of a node in log and columns, and the number of the newest in the log. Columns have no numbers.
#[derive(Debug, Default)]
struct Rows {
    count: u64,
    newest: Option<u64>,
}

impl Rows {
    fn of(store: &Path, node: &str) -> Self {
        let Ok(store) = StoreReader::open(store) else { return Rows::default() };
        assert!(store.damage().is_empty(), "{:?}", store.damage());
        let name = NodeName::new(node).unwrap();
        let blocks = store.log().blocks(&name, None, Nanos(0), Nanos(u64::MAX), &mut Vec::new());
        let newest = blocks.iter().map(|block| block.header.first_row + u64::from(block.rows) - 1).max();
        // Each row has a reading of it.
        let patterns = vec![format!("{node}:load.1m").parse().unwrap()];
        let request = RangeRequest { patterns, from: Nanos(0), to: Nanos(u64::MAX), shape: RangeShape::Rows };
        let reader = RangeReader::new(store.shelf().clone(), Some(store.log()), Arc::new(()));
        let (mut answer, mut count) = (reader.range(request).unwrap(), 0);
        while let Some(part) = answer.next().unwrap() {
            let RangeContent::Readings(readings) = part.content else { panic!("rows were asked for") };
            count += readings.len() as u64;
        }
        Rows { count, newest }
    }

    /// How many rows there are if none is missing.
    fn whole(&self) -> Option<u64> {
        (self.newest? + 1 == self.count).then_some(self.count)
    }
}

/// An agent that samples ten times a second, and finds the key of the hub's run here.
fn agent(place: &Place, hub: &str, node: &str) -> Running {
    agent_at("10Hz", place, hub, node)
}

fn agent_at(rate: &str, place: &Place, hub: &str, node: &str) -> Running {
    let words = ["agent", "--node", node, "--hub", hub, "--base-rate", rate, "--sources", "loadavg,meminfo"];
    let mut command = khz(&words);
    command.env("KHZ_RUN_DIR", place.0.join("run"));
    Running::of(command)
}

#[test]
fn whenever_the_hub_is_killed_no_row_is_missing_that_a_ring_still_has() {
    let (place, link) = (Place::new("kills"), free_port());
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    println!("seed {seed}");
    let mut random = seed | 1;
    let mut hub = place.hub(&link, &[]);
    let nodes = ["n1", "n2"];
    let _agents = nodes.map(|node| agent(&place, &link, node));
    until(PATIENCE, "both nodes are stored", || nodes.iter().all(|node| place.rows(node).count > 0));
    let mut stored = 0;
    for _ in 0..KILLS {
        // At any moment of the second between two commits, and sometimes before the nodes are back.
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        std::thread::sleep(Duration::from_millis((random >> 33) % 2_500));
        hub.end("KILL");
        let after = place.rows("n1").count;
        assert!(after >= stored, "{after} rows of {stored}");
        stored = after;
        hub = place.hub(&link, &[]);
    }
    // The hub asks for the rows that it lacks when the nodes are back.
    let before = nodes.map(|node| place.rows(node).count);
    until(PATIENCE, "every row is stored", || {
        let after =
            |(node, before): (&&str, &u64)| place.rows(node).whole().is_some_and(|rows| rows > before + 20);
        nodes.iter().zip(&before).all(after)
    });
    assert_eq!(hub.end("TERM").0, Some(0));
    for node in nodes {
        assert!(place.rows(node).whole().is_some(), "{node}: {:?}", place.rows(node));
    }
}

#[test]
fn a_store_that_is_removed_under_a_hub_which_is_killed_later_has_every_row_that_a_ring_still_has() {
    let (place, link) = (Place::new("removed"), free_port());
    let hub = place.hub(&link, &[]);
    let _agent = agent(&place, &link, "n1");
    until(PATIENCE, "rows are stored", || place.rows("n1").count > 50);
    // The hub may make a file meanwhile, and so keep a folder.
    let _ = std::fs::remove_dir_all(place.store());
    // The log is there again, with all that it had, and goes on.
    until(PATIENCE, "the log is there again", || place.rows("n1").whole().is_some_and(|rows| rows > 60));
    let (code, message) = hub.end("KILL");
    assert_eq!(code, None);
    assert!(message.contains("somebody has removed files of the store's log"), "{message}");
    let before = place.rows("n1").count;
    let _hub = place.hub(&link, &[]);
    until(PATIENCE, "every row is stored", || {
        place.rows("n1").whole().is_some_and(|rows| rows > before + 20)
    });
}

#[test]
fn a_hub_that_cannot_open_its_store_says_so_in_its_counts() {
    let place = Place::new("closed");
    let state = place.0.join("state");
    std::fs::create_dir_all(&state).unwrap();
    std::fs::write(state.join("store"), "where a folder should be").unwrap();
    let mut command =
        khz(&["hub", "--listen", "127.0.0.1:0", "--link-listen", "127.0.0.1:0", "--node", "hub"]);
    command.env("KHZ_RUN_DIR", place.0.join("run")).env("KHZ_STATE_DIR", &state);
    let closed = Running::of(command);
    let open = place.hub("127.0.0.1:0", &[]);
    for (hub, is_open, counts) in [(&closed, "0", 1), (&open, "1", 10)] {
        let answer = ureq::get(format!("{}metrics", hub.url)).call().unwrap();
        let metrics = answer.into_body().read_to_string().unwrap();
        let of_store: Vec<&str> = metrics.lines().filter(|line| line.starts_with("khz_store_")).collect();
        assert!(of_store.contains(&&*format!("khz_store_open {is_open}")), "{of_store:?}");
        assert!(of_store.len() >= counts, "{of_store:?}");
    }
    let (_, message) = closed.end("TERM");
    assert!(message.contains("rows will not be stored"), "{message}");
}

#[test]
fn what_came_before_a_clean_end_is_stored() {
    let (place, link) = (Place::new("clean"), free_port());
    let hub = place.hub(&link, &[]);
    let agent = agent(&place, &link, "n1");
    until(PATIENCE, "rows are stored", || place.rows("n1").count > 20);
    assert_eq!(agent.end("TERM").0, Some(0));
    let before = Instant::now();
    assert_eq!(hub.end("TERM").0, Some(0));
    assert!(before.elapsed() < PATIENCE);
    let rows = place.rows("n1");
    assert!(rows.whole().is_some_and(|rows| rows > 20), "{rows:?}");
}

#[test]
fn khz_alone_stores_its_rows_if_it_is_told_where_and_writes_nothing_otherwise() {
    let place = Place::new("alone");
    let words = ["--base-rate", "10Hz", "--sources", "loadavg,meminfo"];
    let alone = Running::start(&[&words[..], &["--store", &place.store()]].concat());
    until(PATIENCE, "rows are stored", || place.rows("n1").count > 20);
    assert_eq!(alone.end("TERM").0, Some(0));
    assert!(place.rows("n1").whole().is_some());

    let state = place.0.join("state");
    let mut command = khz(&[&["--listen", "127.0.0.1:0", "--node", "n1"], &words[..]].concat());
    command.env("KHZ_STATE_DIR", &state);
    assert_eq!(Running::of(command).end("TERM").0, Some(0));
    assert!(!state.exists(), "it has a directory for its state, and stores nothing");
}

#[test]
fn a_hub_stores_below_its_state_directory_unless_a_setting_says_otherwise() {
    let place = Place::new("state");
    let start = |more: &[&str]| {
        let words = ["hub", "--listen", "127.0.0.1:0", "--link-listen", "127.0.0.1:0", "--node", "hub"];
        let mut command = khz(&[&words, more].concat());
        command.env("KHZ_STATE_DIR", place.0.join("state"));
        Running::of(command).end("TERM")
    };
    assert_eq!(start(&["--store", "none"]).0, Some(0));
    assert!(!place.0.join("state/store").exists());
    assert_eq!(start(&[]).0, Some(0));
    assert!(place.0.join("state/store/log").is_dir());
}

#[test]
fn a_store_that_cannot_be_used_ends_a_hub_that_was_told_to_use_it_and_no_other() {
    let place = Place::new("unusable");
    std::fs::create_dir_all(&place.0).unwrap();
    std::fs::write(place.0.join("store"), "a file").unwrap();
    let output =
        khz(&["hub", "--listen", "127.0.0.1:0", "--link-listen", "127.0.0.1:0", "--store", &place.store()])
            .output()
            .unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.starts_with("khz: --store: cannot "), "{message}");

    let mut command = khz(&["hub", "--listen", "127.0.0.1:0", "--link-listen", "127.0.0.1:0"]);
    command.env("KHZ_STATE_DIR", &place.0);
    let (code, message) = Running::of(command).end("TERM");
    assert_eq!(code, Some(0), "{message}");
    assert!(message.contains("khz: warn: rows will not be stored: cannot "), "{message}");
}

#[test]
fn a_store_is_shown_and_checked_and_damage_is_named_with_file_and_offset() {
    let (place, link) = (Place::new("shown"), free_port());
    let hub = place.hub(&link, &[]);
    let agent = agent(&place, &link, "n1");
    until(PATIENCE, "rows are stored", || place.rows("n1").count > 5);
    // While the hub writes, too.
    let shown = run(&["store", "show", &place.store(), "--json"]);
    assert_eq!(code(&shown), 0, "{}", err(&shown));
    drop(agent);
    assert_eq!(hub.end("TERM").0, Some(0));
    let shown = run(&["store", "show", &place.store(), "--json"]);
    let lines: Vec<serde_json::Value> =
        out(&shown).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names: Vec<&str> = lines.iter().map(|line| line["what"].as_str().unwrap()).collect();
    assert_eq!(names, ["log", "rows", "minutes", "hours"]);
    assert!(lines[0]["bytes"].as_u64().unwrap() > 0 && lines[0]["newest"].is_string(), "{}", lines[0]);
    let table = run(&["store", "show", &place.store(), "--keep", "1GiB"]);
    assert!(out(&table).contains(&format!(" of 1.0 GiB in {}\n", place.store())), "{}", out(&table));

    let checked = run(&["store", "check", &place.store()]);
    assert_eq!(
        (code(&checked), out(&checked).ends_with(" files are whole\n")),
        (0, true),
        "{}",
        out(&checked)
    );
    let segment = std::fs::read_dir(place.0.join("store/log")).unwrap().next().unwrap().unwrap().path();
    let mut bytes = std::fs::read(&segment).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x40;
    std::fs::write(&segment, &bytes).unwrap();
    std::fs::create_dir_all(place.0.join("store/raw")).unwrap();
    std::fs::write(place.0.join("store/raw/notes"), "mine").unwrap();
    let checked = run(&["store", "check", &place.store()]);
    assert_eq!(code(&checked), 1, "{}", out(&checked));
    assert!(out(&checked).contains(&format!("{}, byte ", segment.display())), "{}", out(&checked));
    assert!(out(&checked).contains("raw/notes is not a file of the store"), "{}", out(&checked));

    let none = run(&["store", "show", place.0.join("nowhere").to_str().unwrap()]);
    assert_eq!(code(&none), 2);
    assert!(err(&none).starts_with("khz: there is no store in "), "{}", err(&none));
}

#[test]
fn one_process_writes_to_a_store_and_others_are_refused_by_name() {
    let (place, link) = (Place::new("one"), free_port());
    let hub = place.hub(&link, &[]);
    let store = place.store();
    let refused = format!("{store} is in use by process {}", hub.child.id());
    let second = ["hub", "--listen", "127.0.0.1:0", "--link-listen", "127.0.0.1:0", "--store", &store];
    for words in
        [&second[..], &["store", "compact", &store], &["store", "import", "x.khzt", "--store", &store]]
    {
        let output = run(words);
        assert_eq!(code(&output), 2, "{words:?}: {}", err(&output));
        assert!(err(&output).contains(&refused), "{words:?}: {}", err(&output));
    }
    // It may be read.
    assert_eq!(code(&run(&["store", "show", &store])), 0);
    assert_eq!(hub.end("KILL").0, None);
    assert_eq!(place.hub(&link, &[]).end("TERM").0, Some(0), "what was killed holds nothing");
}

#[test]
fn a_recording_is_taken_into_a_store_once_and_becomes_columns() {
    let (place, link) = (Place::new("import"), free_port());
    let hub = place.hub(&link, &[]);
    let _agent = agent(&place, &link, "n1");
    until(PATIENCE, "rows have come", || place.rows("n1").count > 30);
    let file = place.0.join("run.khzt");
    let words = ["record", "--last", "5m", "--hub", &link, "-o", file.to_str().unwrap()];
    let mut record = khz(&words);
    let recorded = record.env("KHZ_RUN_DIR", place.0.join("run")).output().unwrap();
    assert_eq!(code(&recorded), 0, "{}", err(&recorded));
    drop(hub);
    let other = place.0.join("other").to_str().unwrap().to_owned();
    let import = || run(&["store", "import", file.to_str().unwrap(), "--store", &other]);
    let first = import();
    assert_eq!(code(&first), 0, "{}", err(&first));
    assert!(out(&first).ends_with("nothing is left to do\n"), "{}", out(&first));
    let (rows, _) = out(&first)
        .split_once(" rows taken in; 0 were there before")
        .map(|(n, rest)| (n.to_owned(), rest.to_owned()))
        .unwrap();
    assert!(rows.parse::<u64>().unwrap() > 20, "{}", out(&first));
    let shown = run(&["store", "show", &other, "--json"]);
    let line: serde_json::Value = serde_json::from_str(out(&shown).lines().nth(1).unwrap()).unwrap();
    assert!(line["files"].as_u64().unwrap() >= 1 && line["newest"].is_string(), "{line}");
    let checked = run(&["store", "check", &other]);
    assert_eq!(code(&checked), 0, "{}", out(&checked));

    // A second time nothing is taken in, and no file is made.
    let second = import();
    assert_eq!(code(&second), 0, "{}", err(&second));
    assert!(
        out(&second).starts_with(&format!("0 rows taken in; {rows} were there before")),
        "{}",
        out(&second)
    );
    let shown = run(&["store", "show", &other, "--json"]);
    let same: serde_json::Value = serde_json::from_str(out(&shown).lines().nth(1).unwrap()).unwrap();
    assert_eq!(same, line);

    // And back: the same values at the same times.
    let again = place.0.join("again.khzt");
    let exported = run(&["store", "export", &other, "-o", again.to_str().unwrap()]);
    assert_eq!(
        (code(&exported), out(&exported)),
        (0, format!("{rows} rows of 1 nodes\n")),
        "{}",
        err(&exported)
    );
    assert_eq!(values(&again), values(&file));
    let nothing = place.0.join("nothing.khzt");
    let words = ["store", "export", &other, "-m", "mem.free", "--to", "2001-01-01 00:00:00", "-o"];
    let none = run(&[&words[..], &[nothing.to_str().unwrap()]].concat());
    assert_eq!(code(&none), 1, "{}", out(&none));
}

/// The values of one series in a recording, by their times.
fn values(recording: &Path) -> Vec<(String, String)> {
    let shown = run(&["export", recording.to_str().unwrap(), "-m", "mem.free", "--json"]);
    assert_eq!(code(&shown), 0, "{}", err(&shown));
    let line = |line: &str| {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        (row["time"].to_string(), row["values"].to_string())
    };
    out(&shown).lines().map(line).collect()
}

#[test]
fn a_disk_that_takes_no_more_stops_no_hub_and_is_counted() {
    let (place, link) = (Place::new("full"), free_port());
    let usual = khz(&[]);
    // No file may have more than some kilobytes: each segment of the log is full soon.
    let script = "trap '' XFSZ; ulimit -f 64; exec \"$0\" \"$@\"";
    let mut limited = Command::new("bash");
    limited.args(["-c", script]).arg(usual.get_program());
    limited.args(["hub", "--listen", "127.0.0.1:0", "--link-listen", &link, "--node", "hub"]);
    limited.args(["--store", &place.store()]).stdin(Stdio::null());
    for (name, value) in usual.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    limited.env("KHZ_RUN_DIR", place.0.join("run"));
    let hub = Running::of(limited);
    let _agent = agent_at("100Hz", &place, &link, "n1");
    let failures = || {
        let answer = ureq::get(format!("{}metrics", hub.url)).call().unwrap();
        let metrics = answer.into_body().read_to_string().unwrap();
        let line = metrics.lines().find(|line| line.starts_with("khz_store_failures_total "));
        line.and_then(|line| line.split(' ').nth(1)?.parse::<f64>().ok()).unwrap_or_default()
    };
    until(PATIENCE, "the disk has refused something", || failures() >= 1.0);
    let before = place.rows("n1").newest;
    let is_later = || place.rows("n1").newest > before.map(|row| row + 300);
    until(PATIENCE, "rows are stored again, in another segment", is_later);
    let (code, message) = hub.end("TERM");
    assert_eq!(code, Some(0), "{message}");
    assert!(message.contains("khz: warn: rows are not stored: cannot write "), "{message}");
    let rows = place.rows("n1");
    assert!(rows.whole().is_some(), "what waited was stored later: {rows:?}");
}
