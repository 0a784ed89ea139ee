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
    /// The first hub reads the second.
    is_above: bool,
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
        let (nodes, agents) = (Vec::new(), Vec::new());
        let mut stage = Stage { http, link, hubs: [None, None], nodes, agents, is_above: false };
        stage.start(0);
        stage.start(1);
        stage
    }

    /// The same, where the first hub reads the second.
    fn above() -> Self {
        let mut stage = Stage::empty();
        stage.is_above = true;
        stage.start(0);
        stage
    }

    /// An agent with these hubs.
    fn add(&mut self, node: &'static str, hubs: &str, failback_after: &str) {
        self.add_at("10Hz", node, hubs, failback_after);
    }

    /// The same, with a base lane of this rate.
    fn add_at(&mut self, rate: &str, node: &'static str, hubs: &str, failback_after: &str) {
        let words = ["agent", "--node", node, "--hub", hubs, "--failback-after", failback_after];
        let more = ["--sources", "loadavg", "--base-rate", rate, "--ring", "16MiB", "--insecure"];
        self.agents.push(Ended::start_silent(&mut khz(&[&words[..], &more].concat())));
        self.nodes.push(node);
    }

    fn start(&mut self, number: usize) {
        let name = format!("hub{number}");
        let words = ["hub", "--listen", &self.http[number], "--link-listen", &self.link[number], "--node"];
        let source = ["--source", &self.link[1]];
        let source = &source[..if self.is_above && number == 0 { 2 } else { 0 }];
        // The address must be free.
        self.hubs[number] = None;
        self.hubs[number] = Some(Running::of(khz(&[&words[..], &[&name, "--insecure"], source].concat())));
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
    // The last two are slower than the base lane, and the last does not divide its rate.
    let recordings = ["50", "10", "2", "4"].map(record);
    let begun = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    let size = |file: &std::path::Path| std::fs::metadata(file).map_or(0, |about| about.len());
    until(PATIENCE, "the recordings have begun", || recordings.iter().all(|(_, _, file)| size(file) > 0));
    std::thread::sleep(Duration::from_secs(5));
    stage.hubs[1] = None;
    stage.await_all_at(0);
    std::thread::sleep(Duration::from_secs(3));
    for ((mut record, mut lines, file), rate) in recordings.into_iter().zip([50.0, 10.0, 2.0, 5.0]) {
        signal(&record.0, "INT");
        let mut message = String::new();
        lines.read_to_string(&mut message).unwrap();
        assert_eq!(record.0.wait().unwrap().code(), Some(0), "{message}");
        let rows = khz(&["export", file.to_str().unwrap()]).output().unwrap();
        let _ = std::fs::remove_file(&file);
        assert_eq!(code(&rows), 0, "{}", err(&rows));
        let times: Vec<f64> = times_of(&rows, "n1").iter().filter_map(|time| time.parse().ok()).collect();
        let (oldest, newest) = (times[0], times[times.len() - 1]);
        assert!((oldest - begun).abs() < 2.0, "{rate} Hz: from {oldest} on, begun at {begun}: {message}");
        let expected = (newest - oldest) * rate;
        let count = times.len() as f64;
        assert!((count - expected).abs() < expected / 10.0 + 2.0, "{rate} Hz: {count} rows of {expected}");
    }
}

/// A recording at a rate below that of the base lane, while the first hub is killed twice and agents come late: each row of that rate
/// once and in order, whoever came to a hub first.
#[test]
fn a_recording_slower_than_the_base_lane_has_each_row_once_whichever_hub_its_nodes_were_at() {
    let mut stage = Stage::new("2s");
    let hubs = stage.link.join(",");
    let record = |rate: &'static str| {
        let file = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("fail-back-6-{rate}-{}.khzt", std::process::id()));
        let words = ["record", "load.1m", "--rate", rate, "--hub", &hubs, "--insecure", "-o"];
        let mut record = Ended::start(&mut khz(&[&words[..], &[file.to_str().unwrap()]].concat()));
        let lines = BufReader::new(record.0.stderr.take().unwrap());
        (record, lines, file)
    };
    // Of a base rate of 10 Hz these are one row of 5, of 3 and of 1.
    let recordings = ["2", "3", "7"].map(record);
    let size = |file: &std::path::Path| std::fs::metadata(file).map_or(0, |about| about.len());
    until(PATIENCE, "the recordings have begun", || recordings.iter().all(|(_, _, file)| size(file) > 0));
    stage.kill_first();
    stage.add("n3", &hubs, "2s");
    stage.await_all_at(1);
    stage.bring_back_first();
    stage.kill_first();
    stage.bring_back_first();
    let all = [(0.5, "2Hz"), (0.3, "every 300ms instead of 3Hz"), (0.1, "at 10Hz instead of 7Hz")];
    for ((mut record, mut lines, file), (period, rate)) in recordings.into_iter().zip(all) {
        signal(&record.0, "INT");
        let mut message = String::new();
        lines.read_to_string(&mut message).unwrap();
        assert_eq!(record.0.wait().unwrap().code(), Some(0), "{message}");
        assert!(rate == "2Hz" || message.contains(rate), "{message}");
        let rows = khz(&["export", file.to_str().unwrap()]).output().unwrap();
        let _ = std::fs::remove_file(&file);
        assert_eq!(code(&rows), 0, "{}", err(&rows));
        assert!(!out(&rows).contains("missing"), "{}", out(&rows));
        for node in ["n1", "n2", "n3"] {
            let times: Vec<f64> = times_of(&rows, node).iter().filter_map(|time| time.parse().ok()).collect();
            assert!(times.is_sorted_by(|one, next| one < next), "{node}, {rate}: {times:?}");
            let expected = (times[times.len() - 1] - times[0]) / period;
            let is_few = (times.len() as f64 - expected).abs() < expected / 10.0 + 2.0;
            assert!(is_few, "{node}, {rate}: {} rows of {expected}", times.len());
        }
    }
}

/// The first hub reads the second. It has a row a second of a node that is there, and the second has all. A recording faster than that has
/// only rows of its own rate, each once, wherever the node is.
#[test]
fn a_recording_at_a_hub_and_at_the_one_above_it_has_each_row_once() {
    let mut stage = Stage::above();
    let hubs = stage.link.join(",");
    stage.add("n1", &hubs, "2s");
    stage.await_all_at(0);
    let record = |rate: &'static str| {
        let file = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("fail-back-7-{rate}-{}.khzt", std::process::id()));
        let words = ["record", "n1:load.1m", "--rate", rate, "--hub", &hubs, "--insecure", "-o"];
        let mut record = Ended::start(&mut khz(&[&words[..], &[file.to_str().unwrap()]].concat()));
        let lines = BufReader::new(record.0.stderr.take().unwrap());
        (record, lines, file)
    };
    let recordings = ["2", "50"].map(record);
    let size = |file: &std::path::Path| std::fs::metadata(file).map_or(0, |about| about.len());
    until(PATIENCE, "the recordings have begun", || recordings.iter().all(|(_, _, file)| size(file) > 0));
    // It goes to the second, comes through it for a while, and goes back.
    stage.kill_first();
    stage.start(0);
    stage.await_all_at(0);
    std::thread::sleep(Duration::from_secs(12));
    for ((mut record, mut lines, file), period) in recordings.into_iter().zip([0.5, 0.02]) {
        signal(&record.0, "INT");
        let mut message = String::new();
        lines.read_to_string(&mut message).unwrap();
        assert_eq!(record.0.wait().unwrap().code(), Some(0), "{message}");
        let rows = khz(&["export", file.to_str().unwrap()]).output().unwrap();
        let _ = std::fs::remove_file(&file);
        assert_eq!(code(&rows), 0, "{}", err(&rows));
        let times: Vec<f64> = times_of(&rows, "n1").iter().filter_map(|time| time.parse().ok()).collect();
        assert!(times.is_sorted_by(|one, next| one < next), "{message}: {times:?}");
        let expected = (times[times.len() - 1] - times[0]) / period;
        // What a busy machine did not gather is counted.
        let known = times.len() as f64 + ticks_without_row(&message);
        let is_whole = (known - expected).abs() < expected / 10.0 + 2.0;
        assert!(is_whole, "{} rows of {expected}: {message}", times.len());
    }
}

/// The ticks without a row that the line at a recording's end counts: "..., 96 ticks without a row, ...".
fn ticks_without_row(message: &str) -> f64 {
    let before = message.split(" ticks without a row").next().filter(|before| before.len() < message.len());
    before.and_then(|text| text.rsplit(' ').next()?.parse().ok()).unwrap_or(0.0)
}

/// The times of a node's rows.
fn times_of<'a>(rows: &'a std::process::Output, node: &str) -> Vec<&'a str> {
    let text = std::str::from_utf8(&rows.stdout).unwrap();
    let of_node = text.lines().filter(|line| line.split(',').any(|cell| cell == node));
    of_node.filter_map(|line| line.split(',').next()).collect()
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

#[test]
fn a_recording_names_the_nodes_that_are_at_another_hub_of_its_list() {
    let mut stage = Stage::empty();
    let [first, second] = stage.link.clone();
    stage.add("n1", &format!("{first},{second}"), "0s");
    stage.add("n2", &format!("{second},{first}"), "0s");
    stage.await_at(0, &["n1"]);
    stage.await_at(1, &["n2"]);
    let file = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("fail-back-4-{}.khzt", std::process::id()));
    let path = file.to_str().unwrap();
    for pattern in ["n*:load.1m", "n[1-2]:load.1m"] {
        let words = ["record", pattern, "--rate", "10", "--for", "1s", "--hub", &format!("{first},{second}")];
        let record = khz(&[&words[..], &["--insecure", "-q", "-o", path]].concat()).output().unwrap();
        let _ = std::fs::remove_file(&file);
        let said = err(&record);
        assert_eq!(code(&record), 3, "{said}");
        assert!(said.contains(&format!("n2 was at {second}")), "{said}");
        assert!(!said.contains("no node is called") && !said.contains("no answer"), "{said}");
    }
}

#[test]
fn an_agent_that_stood_still_comes_back_to_the_hub_that_it_prefers() {
    let mut stage = Stage::empty();
    stage.add("n1", &stage.link.join(","), "1h");
    stage.await_all_at(0);
    // A connection that was good for 10 s.
    let rows = || {
        let nodes = khz(&["nodes", "--json", "--server", &stage.http[0]]).output().unwrap();
        let node: serde_json::Value = serde_json::from_str(out(&nodes).trim()).unwrap();
        node["lanes"][0]["rows"].as_u64().unwrap_or(0)
    };
    until(PATIENCE, "it has sent rows for some seconds", || rows() > 120);
    signal(&stage.agents[0].0, "STOP");
    until(PATIENCE, "its hub has given it up", || {
        let table = out(&khz(&["nodes", "--server", &stage.http[0]]).output().unwrap());
        table.contains("n1    down")
    });
    signal(&stage.agents[0].0, "CONT");
    stage.await_all_at(0);
    let second = khz(&["nodes", "--server", &stage.http[1]]).output().unwrap();
    assert!(!out(&second).contains("n1"), "{}", out(&second));
}

/// The process of a hub stands still, and goes on.
fn stop_and_go_on(stage: &Stage, number: usize, meanwhile: impl FnOnce()) {
    let hub = stage.hubs[number].as_ref().unwrap();
    signal(&hub.child, "STOP");
    meanwhile();
    signal(&hub.child, "CONT");
}

#[test]
fn a_hub_above_two_hubs_has_every_row_whichever_of_them_dies_or_stands_still() {
    let mut stage = Stage::empty();
    let hubs = stage.link.join(",");
    // At this rate hubs above get every row, not one of several.
    stage.add_at("1Hz", "n1", &hubs, "1s");
    stage.add_at("1Hz", "n2", &hubs, "1s");
    stage.await_all_at(0);
    // And one above that.
    let (upper, top) = ([free_port(), free_port()], [free_port(), free_port()]);
    let above = |[http, link]: &[String; 2], name: &str, source: &str| {
        let words = ["hub", "--listen", http, "--link-listen", link, "--node", name, "--insecure"];
        Running::of(khz(&[&words[..], &["--source", source, "--store", "none"]].concat()))
    };
    let _upper = above(&upper, "upper", &hubs);
    let _top = above(&top, "top", &upper[1]);
    let newest = |http: &str| {
        let rows = khz(&["get", "n[1-2]:load.1m", "--json", "--server", http]).output().unwrap();
        (code(&rows), out(&rows))
    };
    for [http, _] in [&upper, &top] {
        until(PATIENCE, "the nodes are there", || newest(http).0 == 0 && newest(http).1.contains("n2"));
    }
    let record = |[_, link]: &[String; 2], name: &str| {
        let file = format!("above-{}-{name}.khzt", std::process::id());
        let file = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(file);
        let words = ["record", "n[1-2]:load.1m", "--rate", "1", "--hub", link, "--insecure", "-q", "-o"];
        let record = Ended::start(&mut khz(&[&words[..], &[file.to_str().unwrap()]].concat()));
        until(PATIENCE, "it has begun", || std::fs::metadata(&file).is_ok_and(|about| about.len() > 0));
        (record, file)
    };
    let records = [record(&upper, "upper"), record(&top, "top")];
    stage.kill_first();
    stage.bring_back_first();
    stop_and_go_on(&stage, 0, || stage.await_all_at(1));
    stage.await_all_at(0);
    stage.kill_first();
    stage.bring_back_first();
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
        // A row that is missing is a pause, and one that came twice a line too many.
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
