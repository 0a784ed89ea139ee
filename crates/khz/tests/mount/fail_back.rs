//! A mount of two hubs, whose agents go to the second hub and back to the first: values go on.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::lab::until;

/// A process that is killed when the test is over.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts khz in this folder, and waits until it is ready.
fn start(folder: &Path, run: &str, words: &[&str]) -> Ended {
    let mut child = khz(folder, run, words).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("Kilohertz"), "{words:?} did not start: {line}");
    Ended(child)
}

fn khz(folder: &Path, run: &str, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_khz"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("KHZ_")) {
        command.env_remove(name);
    }
    command.args(words).env("XDG_CONFIG_HOME", "/nonexistent").env("KHZ_STATE_DIR", "none");
    command.env("KHZ_RING_DIR", "none").env("KHZ_TEXT_LISTEN", "none").env("KHZ_RUN_DIR", folder.join(run));
    command.stdin(Stdio::null());
    command
}

fn free() -> String {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

/// The mount of a test, which is unmounted at its end.
struct Place(PathBuf);

impl Drop for Place {
    fn drop(&mut self) {
        let cluster = self.0.join("cluster");
        let _ = khz(&self.0, "run", &["umount", cluster.to_str().unwrap()]).stderr(Stdio::null()).status();
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn values_go_on_when_the_agents_go_back_to_the_first_hub() {
    let place =
        Place(PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-fail-back", std::process::id())));
    let folder = &place.0;
    let cluster = folder.join("cluster");
    std::fs::create_dir_all(&cluster).unwrap();
    let (http, link) = ([free(), free()], [free(), free()]);
    let hub = |number: usize| {
        let name = format!("hub{number}");
        let words = ["hub", "--listen", &http[number], "--link-listen", &link[number], "--node", &name];
        start(folder, &name, &[&words[..], &["--insecure"]].concat())
    };
    let is_at = |number: usize| {
        let table = khz(folder, "run", &["nodes", "--server", &http[number]]).output().unwrap();
        String::from_utf8(table.stdout).unwrap().contains("n1    up")
    };
    let first = hub(0);
    let _second = hub(1);
    let hubs = link.join(",");
    let words = ["agent", "--node", "n1", "--hub", &hubs, "--failback-after", "2s", "--base-rate", "10Hz"];
    let _agent = start(folder, "agent", &[&words[..], &["--ring", "4MiB", "--insecure"]].concat());
    until("the agent is at the first hub", || is_at(0));
    let words = ["mount", cluster.to_str().unwrap(), "--hub", &hubs, "--foreground"];
    let _mount = start(folder, "mount", &words);
    let forks = cluster.join("n1/metrics/kernel/forks");
    let moves = |what: &str| {
        let before = std::fs::read_to_string(&forks).ok();
        until(what, || {
            let _ = Command::new("true").status();
            std::fs::read_to_string(&forks).is_ok_and(|now| Some(now) != before)
        });
    };
    moves("the value moves");
    drop(first);
    until("the agent is at the second hub", || is_at(1));
    moves("the value moves with the second hub");
    let _first = hub(0);
    until("the agent is back at the first hub", || is_at(0));
    // The value that was read last may still be on its way.
    moves("a last value comes");
    moves("the value goes on");
    moves("and on");
}
