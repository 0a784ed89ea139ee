//! The commands through Debian's rrdcached.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod oracle;

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use khz_rrd::client::Client;

/// How long a daemon may take to open its socket.
const PATIENCE: Duration = Duration::from_secs(20);

struct Daemon {
    child: Child,
    dir: PathBuf,
    address: String,
}

impl Daemon {
    fn start(name: &str) -> Self {
        let dir = oracle::directory(name).canonicalize().unwrap();
        let socket = dir.join("socket");
        let address = format!("unix:{}", socket.display());
        let child = Command::new("rrdcached")
            .args(["-g", "-l", &address, "-b"])
            .arg(&dir)
            .arg("-p")
            .arg(dir.join("pid"))
            .stderr(Stdio::null())
            .spawn()
            .expect("this test needs Debian's package `rrdcached`");
        let started = Instant::now();
        while UnixStream::connect(&socket).is_err() {
            assert!(started.elapsed() < PATIENCE, "rrdcached opens no socket");
            std::thread::yield_now();
        }
        Self { child, dir, address }
    }

    fn run(&self, line: &str) -> Output {
        Command::new(env!("CARGO_BIN_EXE_khz-rrd"))
            .args(line.split(' ').filter(|word| !word.is_empty()))
            .current_dir(&self.dir)
            .env("RRDCACHED_ADDRESS", &self.address)
            .output()
            .unwrap()
    }

    fn text(&self, line: &str) -> String {
        let output = self.run(line);
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn error(&self, line: &str) -> String {
        let output = self.run(line);
        assert_eq!(output.status.code(), Some(1), "{line}");
        String::from_utf8(output.stderr).unwrap()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn last_on_disk(path: &Path) -> i64 {
    khz_rrd::file::Rrd::open(path, khz_rrd::file::Access::Read).unwrap().header.last_update()
}

#[test]
fn updates_wait_in_the_daemon_until_somebody_looks() {
    let daemon = Daemon::start("rrdcached");
    let file = daemon.dir.join("t.rrd");
    daemon.text("create t.rrd --start 1000000000 --step 300 DS:x:GAUGE:600:U:U RRA:LAST:0.5:1:5");
    daemon.text("update t.rrd 1000000300:5");
    assert_eq!(last_on_disk(&file), 1_000_000_000);
    let again = daemon.error("update t.rrd 1000000300:5");
    assert!(again.contains("illegal attempt to update using time 1000000300"), "{again}");
    let fetched = daemon.text("fetch t.rrd LAST -s 1000000000 -e 1000000100");
    assert!(fetched.contains("1000000200: 5.0000000000e+00"), "{fetched}");
    assert_eq!(last_on_disk(&file), 1_000_000_300);
    daemon.text("update t.rrd 1000000600:7");
    daemon.text("flushcached t.rrd");
    assert_eq!(last_on_disk(&file), 1_000_000_600);
    assert!(daemon.text("list /").lines().any(|line| line == "t.rrd"));
    assert!(daemon.error("flushcached no.rrd").contains("Flushing of file \"no.rrd\" failed"));
    assert!(daemon.error("update -t x t.rrd 1000000900:7").contains("templates"));
}

#[test]
fn without_a_daemon_there_is_an_error_and_no_direct_write() {
    let address = format!("unix:{}/nobody", oracle::directory("nobody").display());
    let Err(error) = Client::connect(&address) else { panic!("connected to nobody") };
    assert_eq!(error.to_string(), "Unable to connect to rrdcached: No such file or directory");
}
