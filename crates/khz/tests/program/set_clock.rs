//! Somebody sets the clock of the hub's machine while the hub judges rules: alerts go on, no message says that they ended, no action runs
//! again, and an Alertmanager hears that they still fire. Or somebody sets a clock while rings are frozen: the rows have the hub's times.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use khz_record::{Event, Recording};

use crate::exposition::get_at;
use crate::process::{Running, khz, until};
use crate::remote_write::Place;
use crate::text::free_port;

const PATIENCE: Duration = Duration::from_secs(60);

/// Alerts of the hub and of a node, and one that fires if nodes seem to be down.
const RULES: &str = "groups:
- name: g
  interval: 1s
  rules:
  - {alert: NodeDown, expr: up == 0, annotations: {khz_actions: act}}
  - {alert: OfNone, expr: 'sum(node_memory_MemTotal_bytes) > 0', annotations: {khz_actions: act}}
  - {alert: OfHub, expr: 'sum by (instance) (node_memory_MemTotal_bytes) > 0', for: 2s}
  - {alert: OfNode, expr: node_memory_MemTotal_bytes > 0}
  - {alert: OfNodeLater, expr: node_memory_MemTotal_bytes > 0, for: 15m}
  - {alert: OfHubLater, expr: 'sum by (instance) (node_memory_MemTotal_bytes) > 0', for: 15m}
";

/// What fires while three nodes are up.
const FIRING: [&str; 7] = ["OfHub", "OfHub", "OfHub", "OfNode", "OfNode", "OfNode", "OfNone"];

/// The library that lets a test set a process' clock.
fn shim(folder: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/program/set_clock.c");
    let library = folder.join("set_clock.so");
    let built = Command::new("cc")
        .args(["-O2", "-Wall", "-shared", "-fPIC", "-o"])
        .args([&library, &source])
        .status()
        .unwrap();
    assert!(built.success());
    library
}

/// A clock that is this many seconds ahead.
struct Clock(File);

impl Clock {
    fn new(path: &Path, seconds: i64) -> Self {
        std::fs::write(path, seconds.to_le_bytes()).unwrap();
        Clock(File::options().write(true).open(path).unwrap())
    }

    fn set(&self, seconds: i64) {
        self.0.write_all_at(&seconds.to_le_bytes(), 0).unwrap();
    }
}

/// An Alertmanager whose clock is right: no alert that fires may have an end that has passed.
struct Alertmanager {
    port: u16,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Alertmanager {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let heard: Arc<Mutex<Vec<String>>> = Arc::default();
        let all = heard.clone();
        std::thread::spawn(move || {
            for socket in listener.incoming().map_while(Result::ok) {
                let all = all.clone();
                std::thread::spawn(move || serve(socket, &all));
            }
        });
        Alertmanager { port, heard }
    }

    /// How many ends it has heard. None of them has passed.
    fn ends(&self) -> usize {
        let heard = self.heard.lock().unwrap();
        let passed: Vec<&String> = heard.iter().filter(|line| line.starts_with("passed")).collect();
        assert!(passed.is_empty(), "{passed:?}");
        heard.len()
    }
}

/// Answers requests, and notes of each alert when it is to end.
fn serve(socket: TcpStream, heard: &Mutex<Vec<String>>) {
    let mut reader = BufReader::new(socket.try_clone().unwrap());
    loop {
        let (mut length, mut line) = (0, String::new());
        while reader.read_line(&mut line).is_ok_and(|bytes| bytes > 2) {
            let header = line.to_ascii_lowercase();
            length =
                header.strip_prefix("content-length:").map_or(length, |text| text.trim().parse().unwrap());
            line.clear();
        }
        if line.is_empty() {
            return;
        }
        let mut body = vec![0; length];
        if reader.read_exact(&mut body).is_err() {
            return;
        }
        let alerts: serde_json::Value = serde_json::from_slice(&body).unwrap();
        let now = khz_model::Nanos(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64);
        // Times of the same form sort as texts.
        let now = khz_model::calendar::Civil::of(now).to_string().replace(' ', "T");
        for alert in alerts.as_array().into_iter().flatten() {
            let end = alert["endsAt"].as_str().unwrap_or_default();
            let word = if end > now.as_str() { "to come" } else { "passed" };
            heard.lock().unwrap().push(format!("{word}: {alert} at {now}"));
        }
        if (&socket).write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").is_err() {
            return;
        }
    }
}

/// A hub whose clock is ahead by this many seconds at its start.
fn start(place: &Place, link: &str, alertmanager: u16, ahead: i64) -> (Running, Clock) {
    let told = place.0.join("told");
    let acted = place.0.join("acted");
    let config = format!(
        "[[notify.alertmanager]]\nurl = \"http://127.0.0.1:{alertmanager}\"\nresend = \"5s\"\n\
         [[notify.exec]]\nname = \"keep\"\ncommand = [\"/bin/sh\", \"-c\", \"cat >> {}\"]\nwait = \"100ms\"\n\
         [actions.act]\nexec = [\"/bin/sh\", \"-c\", \"echo $KHZ_ALERT_NAME >> {}\"]\nper_hour = 60\ncooldown = \"0s\"\n",
        told.display(),
        acted.display()
    );
    std::fs::create_dir_all(place.0.join("rules")).unwrap();
    place.file("rules/g.yml", RULES);
    let clock = Clock::new(&place.0.join("clock"), ahead);
    let file = |name: &str| place.0.join(name).to_str().unwrap().to_owned();
    let config = place.file("khz.toml", &config);
    let mut command = khz(&[
        "hub",
        "--config",
        &config,
        "--listen",
        "127.0.0.1:0",
        "--link-listen",
        link,
        "--node",
        "hub",
        "--rules",
        &file("rules"),
        "--state-dir",
        &file("state"),
        "--store",
        &file("store"),
    ]);
    go_by(&mut command, place, &shim(&place.0));
    (Running::of(command), clock)
}

fn go_by(command: &mut Command, place: &Place, shim: &Path) {
    go_by_clock(command, place, shim, "clock");
}

fn go_by_clock(command: &mut Command, place: &Place, shim: &Path, clock: &str) {
    let clock = place.0.join(clock);
    command.env("KHZ_RUN_DIR", place.0.join("run")).env("KHZ_TEST_CLOCK", clock).env("LD_PRELOAD", shim);
}

/// Names of the alerts that fire, sorted.
fn firing(hub: &Running) -> Vec<String> {
    let answer: serde_json::Value = {
        let text = get_at(hub, "/api/v1/alerts");
        let body = &text[text.find('{').unwrap_or(0)..];
        serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {text}"))
    };
    let alerts = answer["data"]["alerts"].as_array().cloned().unwrap_or_default();
    let fires = alerts.iter().filter(|alert| alert["state"] == "firing");
    let mut names: Vec<String> =
        fires.filter_map(|alert| Some(alert["labels"]["alertname"].as_str()?.to_owned())).collect();
    names.sort();
    names
}

/// The hub's clock is set by each of these, and set right again after some seconds.
fn goes_on_while_the_clock_is_set(name: &str, by: &[i64]) {
    let (place, link) = (Place::new(name), free_port());
    let alertmanager = Alertmanager::start();
    let (hub, clock) = start(&place, &link, alertmanager.port, 0);
    let agents = ["n1", "n2", "n3"].map(|node| place.agent(&link, node));
    let all = FIRING;
    until(PATIENCE, "all alerts fire", || firing(&hub) == all);
    let acted = || std::fs::read_to_string(place.0.join("acted")).unwrap_or_default();
    until(PATIENCE, "it acts", || acted() == "OfNone\n");
    for seconds in by {
        clock.set(*seconds);
        // Longer than a hub waits after its clock was set, and longer than series live without rows.
        for _ in 0..25 {
            std::thread::sleep(Duration::from_secs(1));
            assert_eq!(firing(&hub), all, "set by {seconds} s");
        }
        let late = get_at(&hub, "/api/v1/rules");
        assert!(!late.contains("groups are late"), "{late}");
        clock.set(0);
        std::thread::sleep(Duration::from_secs(12));
        assert_eq!(firing(&hub), all, "set right again after {seconds} s");
    }
    assert_eq!(acted(), "OfNone\n");
    let told = std::fs::read_to_string(place.0.join("told")).unwrap_or_default();
    let told: String = told.split_whitespace().collect();
    assert!(told.contains("\"status\":\"firing\""), "{told}");
    assert!(!told.contains("NodeDown") && !told.contains("\"status\":\"resolved\""), "{told}");
    assert!(alertmanager.ends() > 10, "it hears of them again and again");
    drop(agents);
    let (_, log) = hub.end("TERM");
    assert!(log.contains("rules are judged as if it had not been set"), "{log}");
}

/// A hub whose clock is off by this many seconds when it starts, and is set right when the hub has judged for a while. `is_of_all`: the nodes' clocks
/// are off and set right, too.
fn goes_on_when_the_clock_is_set_right(name: &str, by: i64, is_of_all: bool) {
    let (place, link) = (Place::new(name), free_port());
    let alertmanager = Alertmanager::start();
    let (hub, clock) = start(&place, &link, alertmanager.port, by);
    let shim = shim(&place.0);
    let agents = ["n1", "n2", "n3"].map(|node| match is_of_all {
        false => place.agent(&link, node),
        true => {
            let words = ["agent", "--node", node, "--hub", &link, "--sources", "loadavg,meminfo,uptime"];
            let mut command = khz(&words);
            go_by(&mut command, &place, &shim);
            Running::of(command)
        }
    });
    until(PATIENCE, "all alerts fire", || firing(&hub) == FIRING);
    // The clocks of the nodes were measured.
    std::thread::sleep(Duration::from_secs(5));
    assert_eq!(firing(&hub), FIRING);
    clock.set(0);
    for _ in 0..75 {
        std::thread::sleep(Duration::from_secs(1));
        assert_eq!(firing(&hub), FIRING, "it was off by {by} s");
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let up = get_at(&hub, &format!("/api/v1/query?query=count(up==1)&time={now}"));
    assert!(up.contains("\"3\""), "rows come at the right time: {up}");
    let acted = std::fs::read_to_string(place.0.join("acted")).unwrap_or_default();
    assert_eq!(acted, "OfNone\n");
    let told = std::fs::read_to_string(place.0.join("told")).unwrap_or_default();
    let told: String = told.split_whitespace().collect();
    assert!(!told.contains("NodeDown") && !told.contains("\"status\":\"resolved\""), "{told}");
    drop(agents);
    hub.end("TERM");
}

#[test]
fn alerts_go_on_when_the_clock_of_a_hub_was_wrong_at_its_start_and_is_set_right() {
    if cfg!(not(target_arch = "x86_64")) {
        return khz_skip::skip("the clock of a process can be set on x86-64 only");
    }
    std::thread::scope(|scope| {
        scope.spawn(|| goes_on_when_the_clock_is_set_right("clock-was-back", -3_600, false));
        scope.spawn(|| goes_on_when_the_clock_is_set_right("clock-was-ahead", 7_200, false));
    });
}

#[test]
fn alerts_go_on_when_the_clocks_of_a_hub_and_its_nodes_are_set_together() {
    if cfg!(not(target_arch = "x86_64")) {
        return khz_skip::skip("the clock of a process can be set on x86-64 only");
    }
    std::thread::scope(|scope| {
        scope.spawn(|| goes_on_when_the_clock_is_set_right("clocks-were-back", -3_600, true));
        scope.spawn(|| goes_on_when_the_clock_is_set_right("clocks-were-ahead", 600, true));
    });
}

#[test]
fn alerts_go_on_while_the_hubs_clock_is_set_back() {
    if cfg!(not(target_arch = "x86_64")) {
        return khz_skip::skip("the clock of a process can be set on x86-64 only");
    }
    goes_on_while_the_clock_is_set("clock-back", &[-20, -3_600]);
}

#[test]
fn alerts_go_on_while_the_hubs_clock_is_set_forward() {
    if cfg!(not(target_arch = "x86_64")) {
        return khz_skip::skip("the clock of a process can be set on x86-64 only");
    }
    goes_on_while_the_clock_is_set("clock-forward", &[20, 7_200]);
}

/// The times of the rows of each node in the recording of a freeze, in seconds after the moment, in the order of the rows.
fn times_of_freeze(hub: &Running, place: &Place, id: u64) -> BTreeMap<String, Vec<f64>> {
    let id = id.to_string();
    let shown = || -> serde_json::Value {
        let shown = hub.beside(&["blackbox", "show", &id, "--json"]).output().unwrap();
        serde_json::from_slice(&shown.stdout).unwrap_or_default()
    };
    until(PATIENCE, "the freeze is done", || shown()["state"] == "done");
    let shown = shown();
    assert_eq!(shown["groups"][0]["state"], "fetched", "{shown}");
    let at: f64 = shown["at"].as_str().unwrap().parse().unwrap();
    let file = place.0.join(format!("{id}.khzt"));
    let written = hub.beside(&["blackbox", "export", &id, "-o", file.to_str().unwrap()]).output().unwrap();
    assert_eq!(written.status.code(), Some(0), "{written:?}");
    let (mut nodes, mut times) = (BTreeMap::new(), BTreeMap::<String, Vec<f64>>::new());
    let take = |event: Event<'_>| match event {
        Event::Lane(place, lane, _) => _ = nodes.insert(place, lane.node.to_string()),
        Event::Block(block) => {
            let times = times.entry(nodes[&block.lane].clone()).or_default();
            block.rows(|_, row| times.push(row.stamp().real().as_secs_f64() - at));
        }
        _ => {}
    };
    Recording::of(&[file]).read(take).unwrap();
    times
}

#[test]
fn rows_of_a_freeze_have_the_times_of_the_hub_whichever_clock_is_set_in_the_middle() {
    if cfg!(not(target_arch = "x86_64")) {
        return khz_skip::skip("the clock of a process can be set on x86-64 only");
    }
    let (place, link) = (Place::new("freeze-clocks"), free_port());
    let shim = shim(&place.0);
    let clocks = ["hub", "n1", "n2"].map(|name| Clock::new(&place.0.join(name), 0));
    let state = place.0.join("state").display().to_string();
    let words =
        ["hub", "--listen", "127.0.0.1:0", "--link-listen", &link, "--node", "hub", "--state-dir", &state];
    let mut command = khz(&words);
    go_by_clock(&mut command, &place, &shim, "hub");
    let hub = Running::of(command);
    let agents = ["n1", "n2"].map(|node| {
        let mut command = khz(&["agent", "--node", node, "--hub", &link, "--sources", "loadavg,uptime"]);
        go_by_clock(&mut command, &place, &shim, node);
        Running::of(command)
    });
    until(PATIENCE, "both nodes are up", || {
        let nodes = hub.beside(&["nodes", "--json"]).output().unwrap();
        String::from_utf8_lossy(&nodes.stdout).matches("\"state\":\"up\"").count() == 2
    });
    // Their clocks are measured, and their rings have rows.
    std::thread::sleep(Duration::from_secs(6));
    // Which clocks are set, by how many seconds.
    let cases: [[i64; 3]; 4] = [[0, -3_600, 0], [0, 0, 7_200], [-600, 0, 0], [3_600; 3]];
    for (id, case) in (1..).zip(cases) {
        let mut freeze = hub.beside(&["freeze", "n[1-2]", "--before", "3s", "--after", "3s"]);
        let freeze =
            freeze.args(["--because", "a test"]).stdout(std::process::Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_secs(1));
        clocks.iter().zip(case).for_each(|(clock, seconds)| clock.set(seconds));
        assert_eq!(freeze.wait_with_output().unwrap().status.code(), Some(0), "{case:?}");
        let times = times_of_freeze(&hub, &place, id);
        clocks.iter().for_each(|clock| clock.set(0));
        assert_eq!(times.keys().collect::<Vec<_>>(), ["n1", "n2"], "{case:?}");
        for times in times.values() {
            let is_whole = times.windows(2).all(|pair| pair[0] < pair[1] && pair[1] - pair[0] < 1.5);
            let (first, last) = (times[0], times[times.len() - 1]);
            assert!(is_whole && first < -2.5 && (2.0..5.0).contains(&last), "{case:?}: {times:?}");
        }
        std::thread::sleep(Duration::from_secs(2));
    }
    drop(agents);
    hub.end("TERM");
}
