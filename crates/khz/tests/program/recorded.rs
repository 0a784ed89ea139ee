//! Recordings of a small cluster whose hub is killed and whose nodes are killed and frozen: every row is in the file
//! once, or the file says that it is missing.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use khz_record::{Event, RecordError, Recording, Survey};

use crate::process::{self, Running, khz, run};
use crate::record::{folder, word};

/// Awaited things have happened by then, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(90);

fn until(what: &str, is_so: impl FnMut() -> bool) {
    process::until(PATIENCE, what, is_so);
}

/// A hub on loopback and agents that report to it.
struct Cluster {
    folder: PathBuf,
    link: String,
    hub: Option<Running>,
    agents: Vec<Child>,
}

impl Cluster {
    fn start(name: &str, nodes: usize, more: &[&str]) -> Self {
        let folder = folder(name);
        let words = ["hub", "--listen", "127.0.0.1:0", "--link-listen", "127.0.0.1:0", "--node", "n1"];
        let mut command = khz(&[&words[..], &["--text-listen", "none"]].concat());
        command.env("KHZ_RUN_DIR", folder.join("run"));
        let hub = Running::of(command);
        let link = hub.link();
        let mut cluster = Cluster { folder, link, hub: Some(hub), agents: Vec::new() };
        for number in 0..nodes {
            let agent = cluster.agent(number, more);
            cluster.agents.push(agent);
        }
        cluster.until_all_are_up();
        cluster
    }

    fn agent(&self, number: usize, more: &[&str]) -> Child {
        let (node, rings) = (format!("n{number}"), self.folder.join("rings"));
        let words =
            ["agent", "--node", &node, "--hub", &self.link, "--ring-dir", word(&rings), "--ring", "4MiB"];
        let mut command = khz(&[&words, more].concat());
        command.env("KHZ_RUN_DIR", self.folder.join("run"));
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// kill -9, and another hub in its place.
    fn kill_hub(&mut self) {
        drop(self.hub.take());
        let words = ["--text-listen", "none", "--link-listen", &self.link];
        let mut command = khz(&[&["hub", "--listen", "127.0.0.1:0", "--node", "n1"][..], &words].concat());
        command.env("KHZ_RUN_DIR", self.folder.join("run"));
        self.hub = Some(Running::of(command));
    }

    fn until_all_are_up(&self) {
        let url = &self.hub.as_ref().unwrap().url;
        until("all nodes are up", || {
            let output = run(&["nodes", "--json", "--server", url]);
            let up = String::from_utf8_lossy(&output.stdout).matches("\"up\":true").count();
            up == self.agents.len()
        });
    }

    /// All nodes are asked for what is recorded again: they have a second lane.
    fn until_all_are_recorded(&self) {
        let url = &self.hub.as_ref().unwrap().url;
        until("all nodes are recorded", || {
            let output = run(&["nodes", "--json", "--server", url]);
            let has_boost = |line: &&str| line.contains("\"name\":\"boost");
            String::from_utf8_lossy(&output.stdout).lines().filter(has_boost).count() == self.agents.len()
        });
    }

    /// The hub's own user makes it forget a node; false where the node is up.
    fn forgets(&self, node: &str) -> bool {
        let mut command = khz(&["nodes", "forget", node]);
        command.env("KHZ_RUN_DIR", self.folder.join("run")).output().unwrap().status.success()
    }

    /// Waits until this many rows of all nodes are in the file.
    fn until_rows(&self, path: &Path, rows: u64) {
        until("rows come", || Rows::of(path).count() >= rows);
    }

    fn signal(&self, node: usize, name: &str) {
        signal(&self.agents[node], name);
    }

    /// Begins to record all nodes.
    fn record(&self, rate: &str) -> Recorded {
        let path = self.folder.join("run.khzt");
        let words =
            ["record", "n*:mem.free", "n*:load.1m", "--hub", &self.link, "--rate", rate, "-o", word(&path)];
        let child = khz(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        until("it records", || path.exists());
        Recorded { child, path }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for agent in &mut self.agents {
            let _ = agent.kill();
            let _ = agent.wait();
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn signal(child: &Child, name: &str) {
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
}

struct Recorded {
    child: Child,
    path: PathBuf,
}

impl Recorded {
    /// Ends the recording. Returns its rows and the command's output.
    fn end(self) -> (Rows, Output) {
        signal(&self.child, "INT");
        let output = self.child.wait_with_output().unwrap();
        (Rows::of(&self.path), output)
    }
}

/// For each node and epoch the numbers of its rows, in order.
struct Rows(BTreeMap<(String, u64), Vec<u64>>);

impl Rows {
    fn of(path: &Path) -> Self {
        let (mut lanes, mut rows) = (Vec::new(), BTreeMap::<_, Vec<u64>>::new());
        let recording = Recording::of(&[path.to_owned()]);
        let take = |event: Event<'_>| match event {
            Event::Lane(place, lane, _) if place == lanes.len() => {
                lanes.push((lane.node.to_string(), lane.epoch));
            }
            Event::Block(block) => {
                let numbers = rows.entry(lanes[block.lane].clone()).or_default();
                block.rows(|number, _| numbers.push(number));
            }
            _ => {}
        };
        match recording.read(take) {
            // The file is there, and its first bytes are not yet.
            Err(RecordError::NoTrace { .. }) => {}
            read => drop(read.unwrap()),
        }
        rows.values_mut().for_each(|numbers| numbers.sort_unstable());
        Rows(rows)
    }

    fn count(&self) -> u64 {
        self.0.values().map(|numbers| numbers.len() as u64).sum()
    }
}

/// Kills the hub this often while this many nodes are recorded: every row of each is in the file, once.
fn kill_the_hub(name: &str, nodes: usize, kills: usize) {
    let mut cluster = Cluster::start(name, nodes, &[]);
    let recorded = cluster.record("100Hz");
    for _ in 0..kills {
        cluster.until_all_are_recorded();
        cluster.kill_hub();
    }
    cluster.until_all_are_recorded();
    let (rows, output) = recorded.end();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    println!("{} rows of {nodes} nodes, {kills} kills; {message}", rows.count());
    assert_eq!(rows.0.len(), nodes, "one epoch of each: {:?}", rows.0.keys());
    for ((node, epoch), numbers) in &rows.0 {
        let (first, last) = (numbers[0], numbers[numbers.len() - 1]);
        let expected: Vec<u64> = (first..=last).collect();
        assert!(
            *numbers == expected,
            "{node} {epoch:x}: {} of {} rows; {message}",
            numbers.len(),
            expected.len()
        );
    }
    assert!(!message.contains("missing"), "{message}");
}

#[test]
fn a_hub_that_is_killed_again_and_again_leaves_no_gap_in_a_recording() {
    kill_the_hub("kills", 3, 3);
}

#[test]
#[ignore = "slow: twenty kills of a hub with twenty nodes"]
fn a_hub_that_is_killed_twenty_times_leaves_no_gap_in_the_recording_of_twenty_nodes() {
    kill_the_hub("twenty", 20, 20);
}

#[test]
fn a_recording_says_whose_rows_it_waits_for_and_an_interrupt_ends_that_with_what_there_is() {
    let mut cluster = Cluster::start("owed", 1, &[]);
    let recorded = cluster.record("20Hz");
    let path = recorded.path.clone();
    cluster.until_all_are_recorded();
    // The hub does not come back: nobody knows what its node has gathered since.
    drop(cluster.hub.take());
    let mut child = recorded.child;
    let mut messages = Messages::of(&mut child);
    let mut wait_for = |what: &str| messages.wait_for(what);
    // The recording must notice the broken connection before its end.
    wait_for("hub ");
    signal(&child, "INT");
    let waiting = wait_for("waiting up to ");
    assert!(waiting.contains(" s for ") && waiting.contains("n0"), "{waiting}");
    assert!(waiting.contains("Ctrl-C ends it with what there is"), "{waiting}");
    signal(&child, "INT");
    let summary = wait_for("1 node, ");
    assert!(summary.contains(path.to_str().unwrap()), "{summary}");
    child.wait().unwrap();
    assert_eq!(note(&path)["end"], "whole", "the file was finished");
}

/// Ticks of all lanes between each node's first and last row, by the wall clock.
fn ticks(path: &Path) -> u64 {
    let survey = Survey::of(&Recording::of(&[path.to_owned()])).unwrap();
    let first = survey.lanes.iter().filter_map(|lane| lane.first).min_by_key(|first| first.real()).unwrap();
    let last = survey.lanes.iter().filter_map(|lane| lane.last).max_by_key(|last| last.real()).unwrap();
    let period = survey.lanes[0].period.0;
    (last.real().since(first.real()).0 + period / 2) / period + 1
}

/// The last note of a recording.
fn note(path: &Path) -> serde_json::Value {
    let survey = Survey::of(&Recording::of(&[path.to_owned()])).unwrap();
    serde_json::from_str(survey.notes.last().unwrap()).unwrap()
}

/// Freezes and kills a node while it is recorded at this rate. Returns the last note and the output.
fn kill_and_freeze(name: &str, rate: &str, more: &[&str]) -> (serde_json::Value, u64) {
    let mut cluster = Cluster::start(name, 1, more);
    let recorded = cluster.record(rate);
    let path = recorded.path.clone();
    std::thread::sleep(Duration::from_secs(2));
    cluster.signal(0, "STOP");
    std::thread::sleep(Duration::from_secs(4));
    cluster.signal(0, "CONT");
    cluster.until_all_are_up();
    std::thread::sleep(Duration::from_secs(2));
    cluster.agents[0].kill().unwrap();
    cluster.agents[0].wait().unwrap();
    std::thread::sleep(Duration::from_secs(1));
    cluster.agents[0] = cluster.agent(0, more);
    cluster.until_all_are_up();
    std::thread::sleep(Duration::from_secs(3));
    let (rows, output) = recorded.end();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    println!("{message}");
    assert_eq!(output.status.code(), Some(3), "{message}");
    assert!(message.contains("without a row") && message.contains("stood still"), "{message}");
    // Each silence is marked where it was.
    let export = |more: &[&str]| {
        let output = run(&[&["export", word(&path)], more].concat());
        String::from_utf8(output.stdout).unwrap()
    };
    let marks = export(&["--json"]).lines().filter(|line| line.contains("\"gap\"")).count();
    let missing = export(&[]).lines().filter(|line| line.ends_with(",missing,missing")).count();
    println!("{marks} gaps are marked, {missing} in CSV");
    let note = note(&path);
    let number = |key: &str| note[key].as_u64().unwrap();
    assert!(marks as u64 >= number("silences") && marks == missing, "{note}");
    let known = rows.count() + number("rows_missing") + number("ticks_without_row");
    let all = ticks(&path);
    // At either end of an epoch a row may be a tick off.
    assert!(known.abs_diff(all) <= 3, "{known} of {all} are known of: {message}");
    assert!(number("silences") >= 2, "{note}");
    (note, rows.0.len() as u64)
}

#[test]
fn a_recording_tells_how_many_ticks_a_node_missed_that_was_frozen_and_killed() {
    let (_, epochs) = kill_and_freeze("boost", "100Hz", &[]);
    assert_eq!(epochs, 2, "the freeze did not end the lane, the kill did");
}

#[test]
fn what_the_base_lane_had_gathered_before_a_kill_comes_back_out_of_its_ring() {
    let (note, epochs) = kill_and_freeze("base", "20Hz", &["--base-rate", "20Hz"]);
    assert_eq!((epochs, note["rows_missing"].as_u64()), (1, Some(0)), "{note}");
}

/// Rows that left the ring may be missing; rows in the ring may not.
#[test]
fn a_node_that_is_killed_forgotten_and_back_before_its_hub_is_killed_leaves_no_gap_in_a_recording() {
    let mut cluster = Cluster::start("forget", 1, &[]);
    // The lane of this rate outlives the agent, in its ring.
    let recorded = cluster.record("10Hz");
    cluster.until_rows(&recorded.path, 10);
    cluster.agents[0].kill().unwrap();
    cluster.agents[0].wait().unwrap();
    until("the hub has seen that it is down, and forgets it", || cluster.forgets("n0"));
    cluster.agents[0] = cluster.agent(0, &[]);
    cluster.until_all_are_up();
    let rows = Rows::of(&recorded.path).count();
    cluster.until_rows(&recorded.path, rows + 10);
    cluster.kill_hub();
    cluster.until_all_are_up();
    let rows = Rows::of(&recorded.path).count();
    cluster.until_rows(&recorded.path, rows + 10);
    let (rows, output) = recorded.end();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(rows.0.len(), 1, "one epoch: {:?}", rows.0.keys());
    for numbers in rows.0.values() {
        let expected: Vec<u64> = (numbers[0]..=numbers[numbers.len() - 1]).collect();
        assert!(*numbers == expected, "{} of {} rows; {message}", numbers.len(), expected.len());
    }
    assert!(!message.contains("rows are missing"), "{message}");
}

/// The lines that a command writes to stderr.
struct Messages(BufReader<std::process::ChildStderr>);

impl Messages {
    fn of(child: &mut Child) -> Self {
        Messages(BufReader::new(child.stderr.take().unwrap()))
    }

    /// The next line with these words.
    fn wait_for(&mut self, words: &str) -> String {
        let mut line = String::new();
        while !line.contains(words) {
            line.clear();
            assert!(self.0.read_line(&mut line).unwrap() > 0, "it has ended without saying: {words}");
        }
        line
    }
}

#[test]
fn nodes_that_are_silent_until_the_end_are_awaited_and_named_and_counted() {
    let mut cluster = Cluster::start("tail", 4, &[]);
    let recorded = cluster.record("20Hz");
    cluster.until_all_are_recorded();
    cluster.until_rows(&recorded.path, 4 * 20);
    cluster.signal(1, "KILL");
    cluster.signal(2, "STOP");
    cluster.signal(3, "TERM");
    // So long is the silence.
    std::thread::sleep(Duration::from_secs(4));
    let Recorded { mut child, path } = recorded;
    let mut messages = Messages::of(&mut child);
    signal(&child, "INT");
    let waiting = messages.wait_for("waiting up to ");
    assert!(waiting.contains("n[1-3], silent at the end"), "{waiting}");
    signal(&child, "INT");
    for node in ["n1", "n2", "n3"] {
        let line = messages.wait_for("no row in the last");
        assert!(line.contains(&format!("{node}: ")), "{line}");
    }
    assert_eq!(child.wait().unwrap().code(), Some(3));
    let note = note(&path);
    assert_eq!(note["silent_at_end"], serde_json::json!(["n1", "n2", "n3"]), "{note}");
    // A node may have had ten rows that it had not sent; the freeze keeps them.
    assert!(note["ticks_without_row"].as_u64().unwrap() >= 3 * 3 * 20, "{note}");
    assert!(note["silences"].as_u64().unwrap() >= 3, "{note}");
    cluster.agents.iter_mut().for_each(|agent| drop(agent.kill()));
}

#[test]
fn a_node_that_comes_back_while_it_is_awaited_is_not_silent_at_the_end() {
    let cluster = Cluster::start("return", 1, &[]);
    let recorded = cluster.record("20Hz");
    cluster.until_all_are_recorded();
    cluster.until_rows(&recorded.path, 20);
    cluster.signal(0, "STOP");
    std::thread::sleep(Duration::from_secs(3));
    let Recorded { mut child, path } = recorded;
    let mut messages = Messages::of(&mut child);
    signal(&child, "INT");
    messages.wait_for("silent at the end");
    cluster.signal(0, "CONT");
    messages.wait_for("stood still");
    assert_eq!(child.wait().unwrap().code(), Some(3));
    let note = note(&path);
    assert_eq!(note["silent_at_end"], serde_json::json!([]), "{note}");
    assert!(note["silences"].as_u64().unwrap() >= 1, "{note}");
}

#[test]
fn a_recording_ends_while_new_names_come() {
    let cluster = Cluster::start("names", 1, &[]);
    let socket = std::os::unix::net::UnixDatagram::unbound().unwrap();
    let place = cluster.folder.join("run/publish.sock");
    until("it takes names", || socket.send_to(b"first=1", &place).is_ok());
    let path = cluster.folder.join("run.khzt");
    let words =
        ["record", "job.*", "--hub", &cluster.link, "--rate", "100", "--for", "1s", "-o", word(&path)];
    let mut child = khz(&words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    // Names come as long as it runs: a publisher has more than patience takes.
    let mut names = 0;
    until("it ends", || {
        names += 1;
        let _ = socket.send_to(format!("more[i{names}]=1").as_bytes(), &place);
        std::thread::sleep(Duration::from_millis(80));
        child.try_wait().unwrap().is_some()
    });
    assert!(Rows::of(&path).count() > 0);
}
