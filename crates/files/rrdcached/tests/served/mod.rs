//! A caching daemon as a child process, ours or Debian's, and a plain client of its protocol.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use khz_rrd::file::{Access, Rrd};

/// How long a daemon may take to open its socket, to change its state, or to end. A checkpoint syncs a whole disk, so it
/// waits for what every other process on the machine writes to it.
pub const PATIENCE: Duration = Duration::from_secs(300);

pub struct Daemon {
    pub child: Child,
    pub socket: PathBuf,
}

impl Daemon {
    pub fn start(program: &str, arguments: &[&str], dir: &Path) -> Self {
        let mut command = Command::new(program);
        command.args(arguments);
        Self::spawn(command, dir)
    }

    /// Starts `command`, a daemon's without its first socket.
    pub fn spawn(command: Command, dir: &Path) -> Self {
        Self::spawn_with(command, dir, Stdio::null())
    }

    /// One whose standard error can be read.
    pub fn spawn_heard(command: Command, dir: &Path) -> Self {
        Self::spawn_with(command, dir, Stdio::piped())
    }

    fn spawn_with(mut command: Command, dir: &Path, stderr: Stdio) -> Self {
        let socket = dir.join("socket");
        let _ = std::fs::remove_file(&socket);
        let child = command
            .args(["-g", "-l"])
            .arg(format!("unix:{}", socket.display()))
            .current_dir(dir)
            .env_remove("RRDCACHED_ADDRESS")
            .stderr(stderr)
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}; install Debian's package `rrdcached`"));
        let mut daemon = Self { child, socket };
        let started = Instant::now();
        while UnixStream::connect(&daemon.socket).is_err() {
            assert!(started.elapsed() < PATIENCE, "{command:?} opens no socket");
            assert_eq!(daemon.child.try_wait().unwrap(), None, "{command:?} ended");
            std::thread::yield_now();
        }
        daemon
    }

    /// Ours, with `dir` for its base.
    pub fn ours(dir: &Path, more: &[&str]) -> Self {
        let mut arguments = vec!["rrdcached", "-b", dir.to_str().unwrap()];
        arguments.extend(more);
        Self::start(env!("CARGO_BIN_EXE_khz-rrdcached"), &arguments, dir)
    }

    pub fn debians(dir: &Path, more: &[&str]) -> Self {
        let pid = dir.join("pid");
        let mut arguments = vec!["-b", dir.to_str().unwrap(), "-p", pid.to_str().unwrap()];
        arguments.extend(more);
        Self::start("rrdcached", &arguments, dir)
    }

    pub fn client(&self) -> Client {
        Client::unix(&self.socket)
    }

    pub fn address(&self) -> String {
        format!("unix:{}", self.socket.display())
    }

    /// SIGKILL: nothing can be cleaned up.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Sends a signal by its name and waits for the end.
    pub fn end(&mut self, signal: &str) -> ExitStatus {
        let sent = Command::new("kill").args(["-s", signal, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(started.elapsed() < PATIENCE, "the daemon does not end");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub trait Stream: Read + Write {}
impl Stream for UnixStream {}
impl Stream for TcpStream {}

pub struct Client {
    stream: BufReader<Box<dyn Stream>>,
}

impl Client {
    pub fn unix(path: &Path) -> Self {
        let stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { stream: BufReader::new(Box::new(stream)) }
    }

    pub fn tcp(address: &str) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { stream: BufReader::new(Box::new(stream)) }
    }

    pub fn send(&mut self, text: &str) {
        self.stream.get_mut().write_all(text.as_bytes()).unwrap();
    }

    /// One answer with its lines; `None` when the daemon is gone.
    pub fn answer(&mut self) -> Option<Vec<String>> {
        let mut status = String::new();
        if self.stream.read_line(&mut status).ok()? == 0 {
            return None;
        }
        let count: i64 = status.split(' ').next()?.parse().ok()?;
        let mut lines = vec![status.trim_end_matches('\n').to_string()];
        for _ in 0..count.max(0) {
            let mut line = String::new();
            self.stream.read_line(&mut line).ok()?;
            lines.push(line.trim_end_matches('\n').to_string());
        }
        Some(lines)
    }

    /// An answer, if the daemon gives one.
    pub fn try_ask(&mut self, line: &str) -> Option<Vec<String>> {
        self.stream.get_mut().write_all(format!("{line}\n").as_bytes()).ok()?;
        self.answer()
    }

    pub fn ask(&mut self, line: &str) -> Vec<String> {
        self.send(&format!("{line}\n"));
        self.answer().unwrap_or_else(|| panic!("no answer to: {line}"))
    }

    /// Sends a command that must succeed.
    pub fn order(&mut self, line: &str) -> Vec<String> {
        let answer = self.ask(line);
        assert!(!answer[0].starts_with('-'), "{line}: {answer:?}");
        answer
    }

    /// Everything until the daemon closes the connection.
    pub fn rest(&mut self) -> Vec<u8> {
        let mut bytes = vec![];
        self.stream.read_to_end(&mut bytes).unwrap();
        bytes
    }

    /// A number of STATS.
    pub fn stat(&mut self, name: &str) -> u64 {
        let stats = self.ask("STATS");
        let line = stats.iter().find_map(|line| line.strip_prefix(&format!("{name}: ")));
        line.unwrap_or_else(|| panic!("no {name} in {stats:?}")).parse().unwrap()
    }

    /// Asks STATS until `name` fits.
    pub fn wait_for(&mut self, name: &str, fits: impl Fn(u64) -> bool) {
        let started = Instant::now();
        while !fits(self.stat(name)) {
            assert!(started.elapsed() < PATIENCE, "{name} stays {}", self.stat(name));
            std::thread::yield_now();
        }
    }
}

/// A file of one second a row, whose value for a second is its last three digits.
pub fn create(client: &mut Client, name: &str) {
    client.order(&format!("CREATE {name} -s 1 -b 1000000000 DS:x:GAUGE:100000:U:U RRA:LAST:0.5:1:5000"));
}

/// The update for a second.
pub fn update(name: &str, time: i64) -> String {
    format!("UPDATE {name} {time}:{}", time % 1000)
}

/// Every second of `acknowledged` must be a row with its own value.
pub fn check(path: &Path, acknowledged: &[i64]) {
    let rrd = Rrd::open(path, Access::Read).unwrap();
    let (Some(first), Some(last)) = (acknowledged.first(), acknowledged.last()) else { return };
    let fetched = khz_rrd::fetch::fetch(&rrd, khz_rrd::rra::Function::Last, first - 1, *last, 1).unwrap();
    for time in acknowledged {
        let row = (time - fetched.start - 1) as usize;
        let value = fetched.values[row];
        let wanted = (time % 1000) as f64;
        assert_eq!(value, wanted, "{}: the value acknowledged for {time} is not there", path.display());
    }
}

/// When the file itself was last updated.
pub fn last_on_disk(path: &Path) -> i64 {
    Rrd::open(path, Access::Read).unwrap().header.last_update()
}
