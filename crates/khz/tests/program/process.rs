//! Starts `khz` as a process, and takes its output.

use std::ffi::OsString;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// `khz` with an environment of its own: without the `KHZ_` variables of the user who runs the tests.
pub fn khz(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_khz"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("KHZ_")) {
        command.env_remove(name);
    }
    // The user who runs the tests may have a configuration file.
    command.env("XDG_CONFIG_HOME", "/nonexistent");
    // Tests run in parallel, and a khz may be running on this machine.
    command.env("KHZ_RING_DIR", "none");
    // Hubs remember their nodes; in tests only where the test asks for it.
    command.env("KHZ_STATE_DIR", "none");
    // And a khz of his own running, whose local socket these must neither find nor take.
    command.env("KHZ_RUN_DIR", run_dir());
    // The usual port of the text door is one, and these tests are many.
    command.env("KHZ_TEXT_LISTEN", "none");
    command.args(arguments).stdin(Stdio::null());
    command
}

/// A folder that no other process of these tests uses. It is made when a khz listens there.
fn run_dir() -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("run-{}-{number}", std::process::id());
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Runs it to its end.
pub fn run(arguments: &[&str]) -> Output {
    khz(arguments).output().unwrap()
}

/// Its stdout.
pub fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Its stderr.
pub fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Its exit code.
pub fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

/// Waits until it is so. Longer than `patience` is never.
pub fn until(patience: Duration, what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + patience;
    while !is_so() {
        assert!(Instant::now() < end, "it never came to be: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The first line, and nothing of what follows it.
pub fn first_line(out: &mut impl Read) -> String {
    let mut line = Vec::new();
    let mut byte = [0];
    while !line.ends_with(b"\n") && out.read(&mut byte).unwrap() == 1 {
        line.push(byte[0]);
    }
    String::from_utf8(line).unwrap()
}

/// A khz that runs at a free port; killed when the test is over, however it ends.
pub struct Running {
    /// The process.
    pub child: Child,
    /// The address of its door.
    pub url: String,
    /// The line it announced itself with.
    pub line: String,
    /// Its run directory.
    run_dir: OsString,
}

impl Running {
    /// Starts it as node n1 and waits until its door is open.
    pub fn start(more: &[&str]) -> Running {
        Running::start_in(&[], more)
    }

    /// The same with these variables in its environment.
    pub fn start_in(variables: &[(&str, &str)], more: &[&str]) -> Running {
        let arguments = [&["--listen", "127.0.0.1:0", "--node", "n1"], more].concat();
        let mut command = khz(&arguments);
        command.envs(variables.iter().copied());
        Running::of(command)
    }

    /// Starts a hub with all its doors at free ports.
    pub fn start_hub(more: &[&str]) -> Running {
        let words = ["hub", "--listen", "127.0.0.1:0", "--link-listen", "127.0.0.1:0", "--node", "n1"];
        Running::of(khz(&[&words, more].concat()))
    }

    /// Starts a daemon and waits until it has announced itself.
    pub fn of(mut command: Command) -> Running {
        let run_dir = command.get_envs().find(|(name, _)| *name == "KHZ_RUN_DIR").and_then(|(_, dir)| dir);
        let run_dir = run_dir.unwrap_or_default().to_owned();
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let line = first_line(child.stdout.as_mut().unwrap());
        if line.is_empty() {
            let mut message = String::new();
            child.stderr.as_mut().unwrap().read_to_string(&mut message).unwrap();
            panic!("khz did not start: {message}");
        }
        let url = line.trim_end().rsplit(' ').next().unwrap().to_owned();
        Running { child, url, line, run_dir }
    }

    /// The address of a hub's link door: "Kilohertz is watching the nodes that report to 127.0.0.1:40000 at http://...".
    pub fn link(&self) -> String {
        let (_, after) = self.line.split_once("report to ").unwrap();
        after.split([' ', ',']).next().unwrap().to_owned()
    }

    /// `khz` with the run directory of this one: what this one has for its own user is found.
    pub fn beside(&self, arguments: &[&str]) -> Command {
        let mut command = khz(arguments);
        command.env("KHZ_RUN_DIR", &self.run_dir);
        command
    }

    /// Sends a signal by its name. Returns the exit code and stderr.
    pub fn end(mut self, signal: &str) -> (Option<i32>, String) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &pid]).status().unwrap().success());
        let status = self.child.wait().unwrap();
        let mut message = String::new();
        self.child.stderr.as_mut().unwrap().read_to_string(&mut message).unwrap();
        (status.code(), message)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A process that is killed when the test is over.
pub struct Ended(pub Child);

impl Ended {
    /// Starts it; [`Ended::end`] has what it says.
    pub fn start(command: &mut Command) -> Self {
        Ended(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    /// Starts it; nobody reads what it says.
    pub fn start_silent(command: &mut Command) -> Self {
        Ended(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    /// Its exit code, stdout and stderr, when it has ended by itself.
    pub fn end(mut self) -> (i32, String, String) {
        let (mut out, mut err) = (String::new(), String::new());
        self.0.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        self.0.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        (self.0.wait().unwrap().code().unwrap(), out, err)
    }

    /// Its exit code after this signal.
    pub fn end_by(mut self, signal: &str) -> Option<i32> {
        let pid = self.0.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &pid]).status().unwrap().success());
        let mut status = None;
        until(Duration::from_secs(120), &format!("it ends by {signal}"), || {
            status = self.0.try_wait().unwrap();
            status.is_some()
        });
        status.and_then(|status| status.code())
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
