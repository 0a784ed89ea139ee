//! The commands through Debian's rrdcached.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../../rrd/tests/oracle/mod.rs"]
mod oracle;
mod served;

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
        self.run_by(Path::new(env!("CARGO_BIN_EXE_khz-rrdcached")), line)
    }

    fn run_by(&self, program: &Path, line: &str) -> Output {
        Command::new(program)
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
fn updates_wait_in_the_daemon_until_a_command_reads_the_file() {
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
    assert!(daemon.error("update -s -t x t.rrd 1000000900:7").contains("templates"));
}

#[test]
fn without_a_daemon_there_is_an_error_and_no_direct_write() {
    let address = format!("unix:{}/nobody", oracle::directory("nobody").display());
    let Err(error) = Client::connect(&address) else { panic!("connected to nobody") };
    assert_eq!(error.to_string(), "Unable to connect to rrdcached: No such file or directory");
}

/// The commands of `lines`, by rrdtool and by ours through a daemon each, give the same output and the same files.
#[test]
fn templates_and_errors_through_a_daemon_read_as_rrdtools() {
    let (theirs, ours) = (Daemon::start("template-theirs"), Daemon::start("template-ours"));
    let create = "create t.rrd --start 1000000000 --step 300 DS:x:GAUGE:600:U:U DS:y:GAUGE:600:U:U DS:z:GAUGE:600:U:U \
                  RRA:LAST:0.5:1:5";
    let lines = [
        create,
        "update -t x t.rrd 1000000300:5",
        "update -t z:x t.rrd 1000000600:5:6 1000000601:U:7",
        "update -t y:q t.rrd 1000000700:5:6",
        "update -t y:y t.rrd 1000000700:5:6",
        "update -t y:y:y:y t.rrd 1000000800:5:6:7:8",
        "update -t : t.rrd 1000000700:5",
        "update -t y t.rrd 1000000700",
        "update -t y t.rrd 1000000701:5:6",
        "update -t y t.rrd x:5",
        "update -t y t.rrd 1000000704:",
        "update -t y:x t.rrd 1000000705::5",
        "update -t y: t.rrd 1000000707:5:6",
        "update -t y t.rrd 1000000300:5",
        "update -t y t.rrd -5@7",
        "update -t y no.rrd 1000000300:5",
        "update -s -t y t.rrd 1000000300:5",
        "update t.rrd 1000000710@5:6:7",
        "lastupdate t.rrd",
        "info no.rrd",
        "first no.rrd",
        "last no.rrd",
        "lastupdate no.rrd",
        "dump no.rrd",
        "tune no.rrd -h x:5",
        "tune t.rrd -h q:5",
        "tune t.rrd -h x:5",
        "flushcached t.rrd",
        "create none/t.rrd DS:x:GAUGE:600:U:U RRA:LAST:0.5:1:5",
        "create t.rrd -O DS:x:GAUGE:600:U:U RRA:LAST:0.5:1:5",
        "create u.rrd DS:x:GAUGE:600:U:U",
        "dump t.rrd",
    ];
    let own = Path::new(env!("CARGO_BIN_EXE_khz-rrdcached"));
    for line in lines {
        let told = |daemon: &Daemon, program: &Path| {
            let output = daemon.run_by(program, line);
            let text =
                |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(&daemon.dir.display().to_string(), "@");
            (output.status.code(), text(&output.stdout), text(&output.stderr))
        };
        assert_eq!(told(&ours, own), told(&theirs, Path::new("rrdtool")), "{line}");
    }
}

#[test]
fn a_file_tuned_beside_rrdcached_loses_nothing_that_comes_meanwhile() {
    let daemon = Daemon::start("tuned");
    let client = || Client::connect(&daemon.address).unwrap();
    let file = daemon.dir.join("t.rrd");
    daemon.text("create t.rrd --start 1000000000 --step 1 DS:x:GAUGE:100000:U:U RRA:LAST:0.5:1:200000");
    let name = file.display().to_string();
    let is_done = std::sync::atomic::AtomicBool::new(false);
    let acknowledged = std::thread::scope(|scope| {
        let updates = scope.spawn(|| {
            let (mut client, mut taken, mut time) = (client(), vec![], 1_000_000_000i64);
            while !is_done.load(std::sync::atomic::Ordering::Relaxed) && time < 1_000_190_000 {
                time += 1;
                if client.ask(&["UPDATE", &name, &format!("{time}:{}", time % 1000)]).unwrap().code >= 0 {
                    taken.push(time);
                }
            }
            taken
        });
        for round in 0..10 {
            daemon.text(&format!("tune t.rrd --heartbeat x:{}", 100_000 + round));
        }
        is_done.store(true, std::sync::atomic::Ordering::Relaxed);
        updates.join().unwrap()
    });
    daemon.text("flushcached t.rrd");
    served::check(&file, &acknowledged);
    assert!(acknowledged.len() > 100, "{}", acknowledged.len());
}
