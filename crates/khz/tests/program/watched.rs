//! `khz watch` while a node goes away, and while the hub stands still.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::process::{Ended, Running, code, err, khz, out, until};

/// Awaited things have happened by then, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(60);

pub fn signal(child: &Child, name: &str) {
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
}

/// A hub and an agent, n1, that reports to it.
fn cluster() -> (Running, Ended) {
    let hub = Running::start_hub(&[]);
    let agent = start_agent(&hub);
    until(PATIENCE, "n1 is up", || {
        let nodes = khz(&["nodes", "--server", &hub.url]).output().unwrap();
        out(&nodes).contains("n1    up")
    });
    (hub, agent)
}

fn start_agent(hub: &Running) -> Ended {
    let mut agent = hub.beside(&["agent", "--node", "n1", "--hub", &hub.link()]);
    Ended::start_silent(&mut agent)
}

/// A watch whose lines are read as they come.
pub struct Watch {
    child: Ended,
    lines: BufReader<std::process::ChildStdout>,
}

impl Watch {
    fn start(hub: &Running) -> Self {
        Watch::at(&hub.url)
    }

    pub fn at(server: &str) -> Self {
        let words = ["watch", "n1:load.1m", "--json", "--server", server];
        let mut command = khz(&words);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Watch { child: Ended(child), lines }
    }

    /// The first line that is like this.
    pub fn line(&mut self, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + PATIENCE;
        let mut line = String::new();
        loop {
            line.clear();
            assert!(self.lines.read_line(&mut line).unwrap() > 0, "the watch has ended before: {what}");
            let read: Value = serde_json::from_str(&line).unwrap();
            if is_it(&read) {
                return read;
            }
            assert!(Instant::now() < end, "there was no line: {what}");
        }
    }

    pub fn row(&mut self) {
        self.line("a row", |line| line["values"].is_object());
    }

    /// Its stderr.
    pub fn message(mut self) -> String {
        signal(&self.child.0, "TERM");
        let mut message = String::new();
        self.child.0.stderr.take().unwrap().read_to_string(&mut message).unwrap();
        message
    }
}

#[test]
fn commands_that_ask_once_say_which_hub_stands_still_and_what_to_do_and_ask_no_other() {
    let (hub, _agent) = cluster();
    signal(&hub.child, "STOP");
    let url = hub.url.trim_end_matches('/');
    for words in [
        &["nodes"][..],
        &["get", "mem.free"],
        &["get", "n1:mem.free", "--json"],
        &["catalog"],
        &["watch", "mem.free", "--count", "1"],
        &["nodes", "forget", "n1"],
    ] {
        let output = khz(&[words, &["--server", url]].concat()).output().unwrap();
        let message = err(&output);
        assert_eq!(code(&output), 1, "{words:?}: {message}");
        let expected = format!("khz: {url}/ takes connections and does not answer: it stands still");
        assert!(
            message.starts_with(&expected) && message.contains("systemctl status"),
            "{words:?}: {message}"
        );
    }
    // Its local socket is found too: the command does not silently read this machine's kernel instead.
    let output = hub.beside(&["get", "mem.free"]).output().unwrap();
    assert_eq!((code(&output), out(&output).as_str()), (1, ""), "{}", err(&output));
    assert!(err(&output).contains("hub.sock/ takes connections and does not answer"), "{}", err(&output));
}

#[test]
fn a_watch_of_two_hubs_goes_on_at_the_second_one_when_the_first_goes_away() {
    let (first, second) = (Running::start_hub(&["--insecure"]), Running::start_hub(&["--insecure"]));
    let (links, both) =
        (format!("{},{}", first.link(), second.link()), format!("{},{}", first.url, second.url));
    let _agent = Ended::start_silent(&mut khz(&["agent", "--node", "n1", "--hub", &links]));
    let is_up = |hub: &str| out(&khz(&["nodes", "--server", hub]).output().unwrap()).contains("n1    up");
    until(PATIENCE, "n1 is up at the first", || is_up(&first.url));
    let mut watch = Watch::at(&both);
    watch.row();
    let gone = first.url.clone();
    drop(first);
    let outage = watch.line("an outage", |line| line["event"] == "outage");
    assert!(outage["away_seconds"].is_string() && outage["missing"].is_u64(), "{outage}");
    watch.row();
    let second_url = second.url.trim_end_matches('/');
    let message = watch.message();
    assert!(message.contains(&format!("khz: {second_url} is asked now")), "{message}");
    // One that is not there from the start is left out.
    let wait = khz(&["wait", "n1:load.1m >= 0", "--timeout", "60s", "--server", &both]).output().unwrap();
    assert_eq!(code(&wait), 0, "{}", err(&wait));
    // Who asks once asks one.
    let get = khz(&["get", "n1:load.1m", "--server", &both]).output().unwrap();
    assert_eq!(code(&get), 2, "{}", err(&get));
    assert!(err(&get).contains("only where rows are followed"), "{}", err(&get));
    let nobody = khz(&["channel", "watch", "hot", "--server", &format!("{gone},{gone}")]).output().unwrap();
    assert_eq!(code(&nobody), 1, "{}", err(&nobody));
}

#[test]
fn a_watch_says_that_a_node_is_down_and_that_it_is_back() {
    let (hub, agent) = cluster();
    let mut watch = Watch::start(&hub);
    watch.row();
    drop(agent);
    let gone = watch.line("n1 is down", |line| line["event"] == "node");
    assert_eq!((&gone["node"], &gone["state"]), (&"n1".into(), &"down".into()), "{gone}");
    assert!(gone["since"].as_str().is_some_and(|since| since.contains('.')), "{gone}");
    let _agent = start_agent(&hub);
    let back = watch.line("n1 is up", |line| line["event"] == "node");
    assert_eq!(back["state"], "up", "{back}");
    // Its agent has begun to count again: nothing says that there were rows meanwhile.
    let row = watch.line("a row of the new agent", |line| line["values"].is_object());
    assert_eq!(row["lost"], 0, "{row}");
    let message = watch.message();
    assert!(message.contains("khz: n1 is down since "), "{message}");
    assert!(message.contains("khz: n1 is back since "), "{message}");
}

#[test]
fn a_watch_says_at_its_start_that_no_node_is_up() {
    let state =
        std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("watched-{}", std::process::id()));
    let words = ["--state-dir", state.to_str().unwrap(), "--store", "none"];
    let hub = Running::start_hub(&words);
    let watch = |hub: &Running| {
        let words = ["watch", "load.1m", "--for", "500ms", "--server", &hub.url];
        err(&khz(&words).output().unwrap())
    };
    let agent = start_agent(&hub);
    let list = |hub: &Running| out(&khz(&["nodes", "--server", &hub.url]).output().unwrap());
    until(PATIENCE, "n1 is up", || list(&hub).contains("n1    up"));
    assert_eq!(watch(&hub), "");
    drop(agent);
    until(PATIENCE, "n1 is down", || list(&hub).contains("n1    down"));
    hub.end("TERM");
    let hub = Running::start_hub(&words);
    let message = watch(&hub);
    let expected = "khz: down: n1\nkhz: rows come when one of these nodes is back\nkhz: no answer from n1\n";
    assert_eq!(message, expected);
    drop(hub);
    let _ = std::fs::remove_dir_all(&state);
}

#[test]
fn a_watch_says_that_its_hub_stands_still_and_that_it_is_back() {
    let (hub, _agent) = cluster();
    let mut watch = Watch::start(&hub);
    watch.row();
    signal(&hub.child, "STOP");
    let silent =
        watch.line("the hub is silent", |line| line["event"] == "server" && line["state"] == "silent");
    assert_eq!(silent["server"], hub.url.trim_end_matches('/'), "{silent}");
    signal(&hub.child, "CONT");
    watch.line("the hub is back", |line| line["event"] == "server" && line["state"] == "back");
    watch.row();
    let message = watch.message();
    let url = hub.url.trim_end_matches('/');
    assert!(message.contains(&format!("khz: {url} has not been heard for ")), "{message}");
    assert!(message.contains(&format!("khz: {url} is back; it was not heard for ")), "{message}");
}
