//! A hub on the host, for guests that reach the host's loopback.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::static_khz;

/// Hubs that this process has started: each has a folder of its own.
static STARTED: AtomicU64 = AtomicU64::new(0);

/// A running hub; it ends with this value.
pub struct Hub {
    child: Child,
    door: String,
    /// The port on the loopback to which agents report.
    pub link_port: String,
    run_dir: PathBuf,
}

impl Hub {
    /// Starts one on free ports and waits until it listens.
    pub fn start() -> Hub {
        // QEMU opens the guests' connections on this machine, and they show no token.
        let words =
            ["hub", "--node", "hub", "--listen", "127.0.0.1:0", "--link-listen", "127.0.0.1:0", "--insecure"];
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let run_dir = crate::folder().join(format!("run-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&run_dir).expect("a folder can be made");
        let mut command = Command::new(static_khz());
        command
            .args(words)
            .env("KHZ_STATE_DIR", "none")
            .env("KHZ_RUN_DIR", &run_dir)
            .env("XDG_CONFIG_HOME", "/nonexistent");
        let mut child = command
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
        let mut line = String::new();
        let out = child.stdout.as_mut().expect("BUG: it was asked for");
        BufReader::new(out).read_line(&mut line).expect("the hub can be read");
        let after = |mark: &str| line.split_once(mark).unwrap_or_else(|| panic!("a hub said: {line}")).1;
        let word =
            |text: &str| text.split_whitespace().next().unwrap_or(text).trim_end_matches('/').to_owned();
        let (door, link_port) =
            (format!("http://{}", word(after("http://"))), word(after("report to 127.0.0.1:")));
        Hub { child, door, link_port, run_dir }
    }

    /// Asks it with a command of khz: the exit code, and what the command printed.
    pub fn ask(&self, words: &[&str]) -> (Option<i32>, String) {
        let mut command = Command::new(static_khz());
        command.args(words).args(["--server", &self.door]).env("XDG_CONFIG_HOME", "/nonexistent");
        let output = command.output().unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.run_dir);
    }
}
