//! A hub as a process that is stopped, killed and started again: what it remembers of its nodes, and what commands print.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::process::{Running, code, err, khz, out, run};

struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Place(path)
    }

    fn state(&self) -> PathBuf {
        self.0.join("state")
    }

    /// A hub that remembers here, with its local socket here.
    fn hub(&self, more: &[&str]) -> Running {
        let words = ["hub", "--listen", "127.0.0.1:0", "--link-listen", "127.0.0.1:0", "--node", "hub"];
        let mut command = khz(&[&words, more].concat());
        command.env("KHZ_STATE_DIR", self.state()).env("KHZ_RUN_DIR", self.0.join("run"));
        Running::of(command)
    }

    /// A command as the hub's own user, by the local socket.
    fn ask(&self, words: &[&str]) -> std::process::Output {
        let url = format!("unix:{}", self.0.join("run/hub.sock").display());
        run(&[words, &["--server", &url]].concat())
    }

    /// `n1 up, n2 down`.
    fn states(&self) -> String {
        let text = out(&self.ask(&["nodes", "--json"]));
        let node = |line: &str| {
            let node: Value = serde_json::from_str(line).unwrap();
            format!("{} {}", node["node"].as_str().unwrap(), node["state"].as_str().unwrap())
        };
        text.lines().map(node).collect::<Vec<_>>().join(", ")
    }

    fn until(&self, states: &str) {
        let end = Instant::now() + Duration::from_secs(60);
        while self.states() != states {
            assert!(Instant::now() < end, "it is '{}', and never became '{states}'", self.states());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn agent(hub: &Running, node: &str) -> Running {
    Running::of(hub.beside(&["agent", "--node", node, "--hub", &hub.link(), "--ring", "4MiB"]))
}

#[test]
fn a_hub_that_was_restarted_says_who_is_down_who_left_and_who_is_missing() {
    let place = Place::new("restart");
    let hub = place.hub(&["--nodes", "n[1-3],n9"]);
    let (n1, n2, n4) = (agent(&hub, "n1"), agent(&hub, "n2"), agent(&hub, "n4"));
    place.until("n1 up, n2 up, n3 missing, n4 up, n9 missing");
    assert_eq!(n1.end("TERM").0, Some(0));
    n2.end("KILL");
    place.until("n1 left, n2 down, n3 missing, n4 up, n9 missing");
    assert_eq!(hub.end("TERM").0, Some(0));
    n4.end("KILL");

    let hub = place.hub(&["--nodes", "n[1-3],n9"]);
    assert_eq!(place.states(), "n1 left, n2 down, n3 missing, n4 down, n9 missing");
    let all = place.ask(&["nodes"]);
    assert!(out(&all).ends_with("\n5 nodes: 0 up, 2 down, 1 left, 2 missing; 4 expected\n"), "{}", out(&all));
    assert_eq!(
        (code(&all), err(&all).as_str()),
        (3, "khz: never seen: n[3,9]\nkhz: no answer from n2\n"),
        "n4 is down, and nobody expects it; n1 has left"
    );
    for (words, lines, expected) in [
        (&["nodes", "--down", "--json"][..], 2, 3),
        (&["nodes", "--missing", "--json"], 2, 3),
        (&["nodes", "--down", "--missing", "--json"], 4, 3),
        (&["nodes", "n[1,4]", "--json"], 2, 0),
        (&["nodes", "n1", "--down", "--json"], 0, 0),
    ] {
        let output = place.ask(words);
        assert_eq!((out(&output).lines().count(), code(&output)), (lines, expected), "{words:?}");
    }
    let targets = fetch(&hub, "/khz/v1/targets");
    let nodes: Vec<&str> = targets
        .as_array()
        .unwrap()
        .iter()
        .map(|target| target["labels"]["instance"].as_str().unwrap())
        .collect();
    assert_eq!(nodes, ["n1", "n2", "n3", "n4", "n9"]);
    let asked = place.ask(&["get", "n[2-3],n7:load.1m"]);
    assert_eq!(code(&asked), 1, "{}", err(&asked));
    assert_eq!(err(&asked), "khz: no node is called n7 (there are n[1-4,9]); no answer from n[2-3]\n");
    // A reader that follows them sees why nothing comes.
    let followed = place.ask(&["watch", "n[1-4]:load.1m", "--for", "100ms"]);
    let message = err(&followed);
    assert!(message.contains("khz: down: n[2,4]\nkhz: left: n1\nkhz: never seen: n3\n"), "{message}");
    assert_eq!(code(&followed), 3, "{message}");
}

#[test]
fn a_hub_above_says_who_is_missing_also_while_the_hub_below_is_dead() {
    let (below, above) = (Place::new("below"), Place::new("above"));
    let leaf = below.hub(&["--nodes", "n1,n9", "--insecure"]);
    let _upper = above.hub(&["--source", &leaf.link(), "--insecure"]);
    let _n1 = agent(&leaf, "n1");
    above.until("n1 up, n9 missing");
    leaf.end("KILL");
    above.until("n1 down, n9 missing");
    let all = above.ask(&["nodes"]);
    assert_eq!(code(&all), 3, "{}", out(&all));
    assert_eq!(err(&all), "khz: never seen: n9\nkhz: no answer from n1\n");
}

#[test]
fn a_watch_shows_no_old_rows_of_a_node_that_is_down() {
    let place = Place::new("watch-down");
    let hub = place.hub(&[]);
    let (n1, _n2) = (agent(&hub, "n1"), agent(&hub, "n2"));
    place.until("n1 up, n2 up");
    n1.end("KILL");
    place.until("n1 down, n2 up");
    let one = place.ask(&["watch", "n1:load.1m", "--for", "1500ms", "--json"]);
    assert_eq!((code(&one), out(&one).as_str()), (3, ""), "{}", err(&one));
    assert!(err(&one).contains("no answer from n1"), "{}", err(&one));
    let both = place.ask(&["watch", "load.1m", "--for", "3s", "--json"]);
    assert_eq!(code(&both), 0, "who names no node waits for none: {}", err(&both));
    assert!(out(&both).contains("\"n2\"") && !out(&both).contains("\"n1\""), "{}", out(&both));
}

#[test]
fn an_agents_answer_about_nodes_is_not_taken_for_a_hubs() {
    let place = Place::new("agent-alone");
    let mut command = khz(&["agent", "--node", "n4", "--hub", "127.0.0.1:9", "--listen", "127.0.0.1:0"]);
    command.env("KHZ_RUN_DIR", place.0.join("run"));
    let _agent = Running::of(command);
    let ask = |words: &[&str]| {
        let output = khz(words).env("KHZ_RUN_DIR", place.0.join("run")).output().unwrap();
        (code(&output), err(&output))
    };
    let (code, message) = ask(&["nodes", "--down", "--missing"]);
    assert_eq!(code, 3, "{message}");
    assert!(message.contains("no hub answers on this machine"), "{message}");
    let (_, message) = ask(&["get", "n[1-4]:load.1m"]);
    assert!(message.contains("no hub answers on this machine"), "{message}");
}

fn fetch(hub: &Running, path: &str) -> Value {
    use std::io::{Read, Write};
    let address = hub.url.trim_start_matches("http://").trim_end_matches('/');
    let mut socket = std::net::TcpStream::connect(address).unwrap();
    write!(socket, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

#[test]
fn nodes_are_forgotten_by_operators_where_they_are_not_there() {
    let place = Place::new("forget");
    let hub = place.hub(&["--nodes", "n1,n9"]);
    let (_up, gone, other) = (agent(&hub, "n2"), agent(&hub, "n1"), agent(&hub, "n3"));
    place.until("n1 up, n2 up, n3 up, n9 missing");
    gone.end("KILL");
    other.end("TERM");
    place.until("n1 down, n2 up, n3 left, n9 missing");
    let stranger = run(&["nodes", "forget", "n3", "--server", &hub.url]);
    assert_eq!(code(&stranger), 2);
    assert!(
        err(&stranger).contains("forgetting nodes is for operators, and you are a reader"),
        "{}",
        err(&stranger)
    );
    let refused = place.ask(&["nodes", "forget", "n2,n9"]);
    assert_eq!(code(&refused), 1);
    assert_eq!(
        err(&refused),
        "khz: n2: still up; only nodes that are gone can be forgotten; \
         n9: never seen, and expected by the setting `nodes`\n"
    );
    let some = place.ask(&["nodes", "forget", "n[1-3],m7"]);
    assert_eq!(out(&some), "forgotten: n[1,3]\nexpected, and missing from now on: n1\n");
    assert_eq!(
        (code(&some), err(&some).as_str()),
        (3, "khz: n2: still up; only nodes that are gone can be forgotten\nkhz: no node is called m7\n")
    );
    assert_eq!(place.states(), "n1 missing, n2 up, n9 missing");
    let before = run(&["nodes", "--run-dir", place.0.join("run").to_str().unwrap(), "forget", "n3"]);
    assert_eq!((code(&before), err(&before).contains("no node is called n3")), (1, true), "{}", err(&before));
    let nobody = place.ask(&["nodes", "forget", "n3"]);
    assert_eq!(
        (code(&nobody), err(&nobody).as_str()),
        (1, "khz: no node is called n3 (there are n[1-2,9])\n")
    );
}

#[test]
fn a_forgotten_node_stays_forgotten_though_the_hub_is_killed_as_soon_as_it_has_said_so() {
    let place = Place::new("forgotten");
    let mut hub = place.hub(&[]);
    for name in ["n1", "n2", "n3"] {
        let gone = agent(&hub, name);
        place.until(&format!("{name} up"));
        gone.end("TERM");
        place.until(&format!("{name} left"));
        let forgotten = place.ask(&["nodes", "forget", name]);
        assert_eq!(out(&forgotten), format!("forgotten: {name}\n"), "{}", err(&forgotten));
        hub.end("KILL");
        hub = place.hub(&[]);
        assert_eq!(place.states(), "", "{name}");
    }
}

#[test]
fn what_a_hub_remembers_survives_kill_9_at_any_moment() {
    let place = Place::new("killed");
    let mut known: Vec<String> = Vec::new();
    for round in 0..20 {
        let hub = place.hub(&[]);
        // What was known once is known again, and the file was never half written.
        let names: Vec<String> =
            place.states().split(", ").filter_map(|s| Some(s.split(' ').next()?.to_owned())).collect();
        for name in &known {
            assert!(names.contains(name), "round {round}: {name} is forgotten; there are {names:?}");
        }
        assert!(!place.state().join("roster.jsonl.damaged").exists(), "round {round}");
        let _agents: Vec<Running> = (0..3).map(|n| agent(&hub, &format!("r{round}n{n}"))).collect();
        // Killed while it takes nodes in, while it writes, and after: each round a little later.
        let until = Instant::now() + Duration::from_millis(40 * round);
        while Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        hub.end("KILL");
        known = written(&place.state());
    }
    assert!(known.len() > 3, "something was remembered: {known:?}");
}

/// The nodes that the file holds at this moment.
fn written(state: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(state.join("roster.jsonl")).unwrap_or_default();
    let name = |line: &str| serde_json::from_str::<Value>(line).unwrap()["node"].as_str().map(str::to_owned);
    text.lines().filter_map(name).collect()
}

#[test]
fn a_damaged_roster_is_named_with_its_line_and_a_place_that_cannot_be_used_is_a_warning() {
    let place = Place::new("damaged");
    std::fs::create_dir_all(place.state()).unwrap();
    let file = place.state().join("roster.jsonl");
    let head = "{\"khz_roster\":1,\"hub\":\"hub\",\"nodes\":4}\n";
    let n1 = "{\"node\":\"n1\",\"state\":\"up\",\"heard\":\"1763690000.5\",\"since\":\"1763690000\"}\n";
    std::fs::write(&file, format!("{head}{n1}{{\"node\":\n?\n?\n")).unwrap();
    let hub = place.hub(&[]);
    assert_eq!(place.states(), "n1 down");
    let (_, message) = hub.end("TERM");
    let expected = format!("{}:3: it is no JSON", file.display());
    assert!(message.contains("(the first of 3 places)"), "{message}");
    assert!(message.contains(&expected) && message.contains("roster.jsonl.damaged"), "{message}");

    let mut command =
        khz(&["hub", "--listen", "127.0.0.1:0", "--link-listen", "127.0.0.1:0", "--node", "hub"]);
    command.env("KHZ_STATE_DIR", "/proc/no/such/place").stderr(Stdio::piped());
    let hub = Running::of(command);
    let nodes = run(&["nodes", "--server", &hub.url]);
    assert_eq!(code(&nodes), 0, "{}", err(&nodes));
    let (ended, message) = hub.end("TERM");
    assert_eq!(ended, Some(0));
    assert!(message.contains("nodes will not be remembered: cannot make /proc/no/such/place"), "{message}");
}
