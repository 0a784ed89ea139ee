//! `khz hub` and `khz agent` as processes in a place of the lab, and the hub's status of its nodes.

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::lab::Lab;

/// A process; killed when the test is over, however it ends.
pub struct Daemon {
    child: Child,
    place: String,
}

/// Where a test's daemons keep what must survive them.
pub fn folder(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    path
}

impl Daemon {
    /// `khz` with these words in a place, with a run directory of its own.
    pub fn start(lab: &Lab, place: &str, words: &[&str]) -> Daemon {
        let words = [&[env!("CARGO_BIN_EXE_khz")], words].concat();
        let mut command = lab.command(place, &words);
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("KHZ_")) {
            command.env_remove(name);
        }
        command.env("XDG_CONFIG_HOME", "/nonexistent");
        command.env("KHZ_RUN_DIR", folder(&format!("run-{place}")));
        command.env("KHZ_STATE_DIR", folder(&format!("state-{place}")));
        command.env("KHZ_RING_DIR", folder(&format!("rings-{place}")));
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        Daemon { child, place: place.to_owned() }
    }

    /// A hub in a place; ready to take nodes in.
    pub fn hub(lab: &Lab, place: &str, more: &[&str]) -> Daemon {
        let link = format!("{}:7071", lab.address(place));
        let words = [&["hub", "--node", place, "--link-listen", &link, "--insecure"], more].concat();
        let mut hub = Daemon::start(lab, place, &words);
        let mut line = String::new();
        BufReader::new(hub.child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("watching the nodes"), "the hub did not start: {line}{}", hub.message());
        hub
    }

    /// An agent in a place that reports to these hubs ten times a second.
    pub fn agent(lab: &Lab, place: &str, hubs: &[&str], more: &[&str]) -> Daemon {
        let hubs: Vec<String> = hubs.iter().map(|hub| format!("{}:7071", lab.address(hub))).collect();
        let hubs = hubs.join(",");
        let words =
            ["agent", "--node", place, "--hub", &hubs, "--base-rate", "10Hz", "--ring", "4MiB", "--insecure"];
        Daemon::start(lab, place, &[&words, more].concat())
    }

    /// Sends a signal by its name.
    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(std::process::Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    /// Ends it by a signal. Returns its exit code and its stderr.
    pub fn end(&mut self, signal: &str) -> (Option<i32>, String) {
        self.signal(signal);
        let code = self.child.wait().unwrap().code();
        (code, self.message())
    }

    /// Kills it with SIGKILL. Returns its stderr.
    pub fn kill(mut self) -> String {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.message()
    }

    fn message(&mut self) -> String {
        let mut message = String::new();
        let _ = self.child.kill();
        if let Some(stderr) = self.child.stderr.as_mut() {
            let _ = stderr.read_to_string(&mut message);
        }
        message
    }

    /// This hub's status of a node.
    pub fn node(&self, lab: &Lab, node: &str) -> Option<Value> {
        let khz = env!("CARGO_BIN_EXE_khz");
        let words = [khz, "nodes", node, "--json", "--server", "http://127.0.0.1:7070"];
        let output =
            lab.command(&self.place, &words).env("XDG_CONFIG_HOME", "/nonexistent").output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let line = text.lines().find(|line| line.contains(&format!("\"{node}\"")))?;
        Some(serde_json::from_str(line).unwrap())
    }

    /// Whether a node is up at this hub.
    pub fn is_up(&self, lab: &Lab, node: &str) -> bool {
        self.node(lab, node).is_some_and(|node| node["up"] == Value::Bool(true))
    }

    /// The base lane of a node at this hub.
    pub fn base(&self, lab: &Lab, node: &str) -> Option<Base> {
        let node = self.node(lab, node)?;
        let lane = node["lanes"].as_array()?.iter().find(|lane| lane["name"] == "base")?;
        let number = |key: &str| lane[key].as_u64().unwrap_or_else(|| panic!("no {key} in {lane}"));
        Some(Base {
            rows: number("rows"),
            awaited: number("awaited"),
            lost: number("lost"),
            late: number("late"),
        })
    }

    /// Output of a command of this hub's place.
    pub fn run(&self, lab: &Lab, words: &[&str]) -> (Option<i32>, String, String) {
        let words = [&[env!("CARGO_BIN_EXE_khz")], words, &["--server", "http://127.0.0.1:7070"]].concat();
        let output =
            lab.command(&self.place, &words).env("XDG_CONFIG_HOME", "/nonexistent").output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // A process that was stopped is killed all the same.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The base lane of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Base {
    pub rows: u64,
    pub awaited: u64,
    pub lost: u64,
    pub late: u64,
}

/// Waits until it is so. Returns how long that took.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(30), "it never came to be: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
    start.elapsed()
}
