//! Readers of two hubs: when the first hub dies, is back, and its agents go back to it, their readers go with them.

use std::io::{BufRead, BufReader, Read};
use std::process::ChildStderr;
use std::time::Duration;

use crate::process::{Ended, Running, code, err, khz, out, until};
use crate::text::free_port;
use crate::watched::{Watch, signal};

const PATIENCE: Duration = Duration::from_secs(120);

/// Two hubs at addresses that stay the same, and agents that prefer the first.
struct Stage {
    http: [String; 2],
    link: [String; 2],
    hubs: [Option<Running>; 2],
    nodes: Vec<&'static str>,
    agents: Vec<Ended>,
}

const NODES: [&str; 2] = ["n1", "n2"];

impl Stage {
    /// Agents go back to the first hub after this time.
    fn new(failback_after: &str) -> Self {
        let mut stage = Stage::empty();
        for node in NODES {
            stage.add(node, &stage.link.join(","), failback_after);
        }
        stage.await_all_at(0);
        stage
    }

    /// Hubs without agents.
    fn empty() -> Self {
        let (http, link) = ([free_port(), free_port()], [free_port(), free_port()]);
        let mut stage = Stage { http, link, hubs: [None, None], nodes: Vec::new(), agents: Vec::new() };
        stage.start(0);
        stage.start(1);
        stage
    }

    /// An agent with these hubs.
    fn add(&mut self, node: &'static str, hubs: &str, failback_after: &str) {
        let words = ["agent", "--node", node, "--hub", hubs, "--failback-after", failback_after];
        let more = ["--sources", "loadavg", "--base-rate", "10Hz", "--ring", "16MiB", "--insecure"];
        self.agents.push(Ended::start_silent(&mut khz(&[&words[..], &more].concat())));
        self.nodes.push(node);
    }

    fn start(&mut self, number: usize) {
        let name = format!("hub{number}");
        let words = ["hub", "--listen", &self.http[number], "--link-listen", &self.link[number], "--node"];
        self.hubs[number] = Some(Running::of(khz(&[&words[..], &[&name, "--insecure"]].concat())));
    }

    fn await_all_at(&self, number: usize) {
        self.await_at(number, &self.nodes);
    }

    fn await_at(&self, number: usize, nodes: &[&str]) {
        until(PATIENCE, "the agents are at that hub", || {
            let table = out(&khz(&["nodes", "--server", &self.http[number]]).output().unwrap());
            nodes.iter().all(|node| table.contains(&format!("{node}    up")))
        });
    }

    /// The first hub is killed, and the agents go to the second.
    fn kill_first(&mut self) {
        self.hubs[0] = None;
        self.await_all_at(1);
    }

    /// The first hub is back, and the agents go back to it.
    fn bring_back_first(&mut self) {
        self.start(0);
        self.await_all_at(0);
    }

    fn both(&self) -> String {
        self.http.join(",")
    }
}

/// Reads lines until one has this.
fn await_line(lines: &mut BufReader<ChildStderr>, part: &str) -> String {
    let (mut line, mut all) = (String::new(), String::new());
    loop {
        line.clear();
        assert!(lines.read_line(&mut line).unwrap() > 0, "it has ended before it said {part}: {all}");
        all.push_str(&line);
        if line.contains(part) {
            return line;
        }
    }
}

#[test]
fn a_recording_goes_back_with_its_nodes_and_is_whole() {
    let mut stage = Stage::new("2s");
    let file = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("fail-back-{}.khzt", std::process::id()));
    let path = file.to_str().unwrap().to_owned();
    let hubs = stage.link.join(",");
    let words = ["record", "load.1m", "--rate", "10", "--hub", &hubs, "--insecure", "-q", "-o", &path];
    let mut record = Ended::start(&mut khz(&words));
    let mut lines = BufReader::new(record.0.stderr.take().unwrap());
    let size = || std::fs::metadata(&file).map_or(0, |about| about.len());
    until(PATIENCE, "the recording has begun", || size() > 0);
    stage.kill_first();
    stage.bring_back_first();
    // Which hub it says depends on when it has noticed what.
    let line = await_line(&mut lines, &format!("leaves for {}", stage.link[0]));
    assert!(line.contains("that it follows"), "{line}");
    let moved = std::time::SystemTime::now();
    // The second hub is not needed any more.
    stage.hubs[1] = None;
    let newest = || {
        let nodes = khz(&["get", "load.1m", "--server", &stage.http[0]]).output().unwrap();
        (code(&nodes), out(&nodes))
    };
    until(PATIENCE, "the nodes answer at the first hub", || newest().0 == 0);
    signal(&record.0, "INT");
    let mut message = String::new();
    lines.read_to_string(&mut message).unwrap();
    let status = record.0.wait().unwrap();
    assert_eq!(status.code(), Some(0), "{message}");
    let rows = khz(&["export", &path]).output().unwrap();
    assert_eq!(code(&rows), 0, "{}", err(&rows));
    let _ = std::fs::remove_file(&file);
    let moved = moved.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    for node in NODES {
        let last = out(&rows)
            .lines()
            .filter(|line| line.split(',').any(|cell| cell == node))
            .filter_map(|line| line.split(',').next()?.parse::<f64>().ok())
            .fold(0.0, f64::max);
        assert!(last > moved - 1.0, "{node}: {last}, {moved}: {}", out(&rows));
    }
}

/// The faster lane of a node that is at the other hub than the recorder goes on, and the recorder gets its rows when the node is back.
#[test]
fn a_recording_gets_the_rows_of_a_node_that_stays_at_the_second_hub_for_longer_than_a_lane_lives_on() {
    let mut stage = Stage::empty();
    let hubs = stage.link.join(",");
    for (node, failback_after) in [("n1", "2s"), ("n2", "2s"), ("n3", "0s")] {
        stage.add(node, &hubs, failback_after);
    }
    stage.kill_first();
    let file = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("fail-back-3-{}.khzt", std::process::id()));
    let path = file.to_str().unwrap().to_owned();
    let words = ["record", "load.1m", "--rate", "50", "--hub", &hubs, "--insecure", "-q", "-o", &path];
    let mut record = Ended::start(&mut khz(&words));
    let mut lines = BufReader::new(record.0.stderr.take().unwrap());
    stage.start(0);
    stage.await_at(0, &["n1", "n2"]);
    await_line(&mut lines, &format!("leaves for {}", stage.link[0]));
    let rates = |number: usize| out(&khz(&["nodes", "--server", &stage.http[number]]).output().unwrap());
    // Longer than a lane lives on without a reader.
    std::thread::sleep(Duration::from_secs(13));
    let table = rates(1);
    assert!(table.lines().any(|line| line.starts_with("n3 ") && line.contains("+50Hz")), "{table}");
    stage.hubs[1] = None;
    stage.await_all_at(0);
    signal(&record.0, "INT");
    let mut message = String::new();
    lines.read_to_string(&mut message).unwrap();
    let status = record.0.wait().unwrap();
    let rows = khz(&["export", &path]).output().unwrap();
    let _ = std::fs::remove_file(&file);
    assert_eq!(status.code(), Some(0), "{message}");
    assert_eq!(code(&rows), 0, "{}", err(&rows));
    let times: Vec<&str> = times_of(&rows, "n3");
    let all: std::collections::HashSet<&&str> = times.iter().collect();
    assert_eq!(all.len(), times.len(), "no row comes twice");
    assert!(!out(&rows).contains("missing"), "{}", out(&rows));
}

/// A node was at the other hub when the recording began, and comes later: its rows since the begin come with it, in the lane that was
/// opened for the recording as well as in the base lane; none from before the begin does.
#[test]
fn a_recording_gets_the_rows_of_a_node_that_comes_from_another_hub_since_it_began() {
    let mut stage = Stage::empty();
    let [first, second] = stage.link.clone();
    stage.add("n1", &format!("{second},{first}"), "0s");
    stage.add("n2", &format!("{first},{second}"), "0s");
    stage.await_at(1, &["n1"]);
    stage.await_at(0, &["n2"]);
    // The agent has rows from before.
    std::thread::sleep(Duration::from_secs(5));
    let record = |rate: &str| {
        let file = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("fail-back-5-{rate}-{}.khzt", std::process::id()));
        let hubs = format!("{first},{second}");
        let words = ["record", "n*:load.1m", "--rate", rate, "--hub", &hubs, "--insecure", "-q", "-o"];
        let mut record = Ended::start(&mut khz(&[&words[..], &[file.to_str().unwrap()]].concat()));
        let lines = BufReader::new(record.0.stderr.take().unwrap());
        (record, lines, file)
    };
    let recordings = ["50", "10"].map(record);
    for ([http, _], (record, file)) in [&upper, &top].into_iter().zip(records) {
        until(PATIENCE, "no row is missing", || {
            let nodes = out(&khz(&["nodes", "--json", "--server", http]).output().unwrap());
            let is_whole = |line: &&str| line.contains("\"up\":true") && line.contains("\"awaited\":0");
            nodes.lines().filter(is_whole).count() == 2 && newest(http).0 == 0
        });
        signal(&record.0, "INT");
        let (status, _, message) = record.end();
        assert_eq!(status, 0, "{message}");
        let rows = khz(&["export", file.to_str().unwrap()]).output().unwrap();
        // A counted row is a hole in the file; one that came twice is a line too many.
        for node in ["n1", "n2"] {
            let of_node = out(&rows);
            let of_node = of_node.lines().filter(|line| line.split(',').any(|cell| cell == node));
            let times: Vec<f64> = of_node.filter_map(|line| line.split(',').next()?.parse().ok()).collect();
            let is_next = |pair: &[f64]| (0.5..1.5).contains(&(pair[1] - pair[0]));
            assert!(times.len() > 5 && times.windows(2).all(is_next), "{node}: {times:?}");
        }
        let _ = std::fs::remove_file(&file);
    }
}
