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
    agents: Vec<Ended>,
}

const NODES: [&str; 2] = ["n1", "n2"];

impl Stage {
    /// Agents go back to the first hub after this time.
    fn new(failback_after: &str) -> Self {
        let (http, link) = ([free_port(), free_port()], [free_port(), free_port()]);
        let mut stage = Stage { http, link, hubs: [None, None], agents: Vec::new() };
        stage.start(0);
        stage.start(1);
        let hubs = stage.link.join(",");
        for node in NODES {
            let words = ["agent", "--node", node, "--hub", &hubs, "--failback-after", failback_after];
            let more = ["--sources", "loadavg", "--base-rate", "10Hz", "--ring", "16MiB", "--insecure"];
            stage.agents.push(Ended::start_silent(&mut khz(&[&words[..], &more].concat())));
        }
        stage.await_all_at(0);
        stage
    }

    fn start(&mut self, number: usize) {
        let name = format!("hub{number}");
        let words = ["hub", "--listen", &self.http[number], "--link-listen", &self.link[number], "--node"];
        self.hubs[number] = Some(Running::of(khz(&[&words[..], &[&name, "--insecure"]].concat())));
    }

    fn await_all_at(&self, number: usize) {
        until(PATIENCE, "all agents are at that hub", || {
            let table = out(&khz(&["nodes", "--server", &self.http[number]]).output().unwrap());
            NODES.iter().all(|node| table.contains(&format!("{node}    up")))
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

#[test]
fn a_watch_goes_back_with_its_node() {
    let mut stage = Stage::new("2s");
    let mut watch = Watch::at(&stage.both());
    watch.row();
    stage.kill_first();
    watch.line("an outage", |line| line["event"] == "outage");
    watch.row();
    stage.bring_back_first();
    watch.line("it goes on at the first", |line| line["event"] == "outage");
    watch.row();
    let message = watch.message();
    let first = format!("http://{} is asked now", stage.http[0]);
    assert!(message.contains(&first), "{message}");
}

#[test]
fn readers_find_nodes_that_stay_at_the_second_hub_though_the_first_is_back() {
    let mut stage = Stage::new("0s");
    stage.kill_first();
    stage.start(0);
    let hubs = stage.link.join(",");
    let words =
        ["record", "n1:load.1m", "--rate", "10", "--for", "300ms", "--hub", &hubs, "--insecure", "-q"];
    let file = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("fail-back-2-{}.khzt", std::process::id()));
    let record = khz(&[&words[..], &["-o", file.to_str().unwrap()]].concat()).output().unwrap();
    let _ = std::fs::remove_file(&file);
    assert_eq!(code(&record), 0, "{}", err(&record));
    let both = stage.both();
    let watch = khz(&["watch", "n1:load.1m", "--count", "3", "--server", &both]).output().unwrap();
    assert_eq!(out(&watch).lines().filter(|line| line.contains("\tn1\t")).count(), 3, "{}", err(&watch));
}
