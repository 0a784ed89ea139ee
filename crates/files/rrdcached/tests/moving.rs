//! Programs of Debian that write through rrdcached, unchanged, with our daemon: what they send goes to Debian's daemon too,
//! and afterwards both have the same files, byte for byte.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../../rrd/tests/oracle/mod.rs"]
mod oracle;
mod served;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use served::{Client, Daemon, PATIENCE};

/// How long the programs send, if `KHZ_RRD_MOVING` does not say another number of seconds.
const SECONDS: u64 = 45;

/// A daemon of each kind, with its own directory, behind one socket.
struct Both {
    ours: Daemon,
    theirs: Daemon,
    /// The directory of our daemon's files, which the programs know.
    ours_at: PathBuf,
    theirs_at: PathBuf,
    /// The socket for the programs, and the same as an address of IPv4.
    socket: PathBuf,
    address: String,
}

impl Both {
    fn start(name: &str) -> Self {
        let dir = oracle::directory(name).canonicalize().unwrap();
        let [ours_at, theirs_at] = ["ours", "their"].map(|side| dir.join(side));
        std::fs::create_dir_all(&ours_at).unwrap();
        std::fs::create_dir_all(&theirs_at).unwrap();
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let both = Self {
            ours: Daemon::ours(&ours_at, &["-j", "log"]),
            theirs: Daemon::debians(&theirs_at, &[]),
            socket: dir.join("s"),
            address: tcp.local_addr().unwrap().to_string(),
            ours_at,
            theirs_at,
        };
        let unix = UnixListener::bind(&both.socket).unwrap();
        let daemons = both.daemons();
        std::thread::spawn(move || {
            for program in unix.incoming().flatten() {
                daemons.serve(program.try_clone().unwrap(), program);
            }
        });
        let daemons = both.daemons();
        std::thread::spawn(move || {
            for program in tcp.incoming().flatten() {
                daemons.serve(program.try_clone().unwrap(), program);
            }
        });
        both
    }

    fn daemons(&self) -> Daemons {
        let place = |at: &PathBuf| at.to_str().unwrap().to_string();
        Daemons {
            sockets: [self.ours.socket.clone(), self.theirs.socket.clone()],
            places: [place(&self.ours_at), place(&self.theirs_at)],
        }
    }

    /// Every file, written by both daemons.
    fn files(&self) -> [BTreeMap<String, Vec<u8>>; 2] {
        [(&self.ours, &self.ours_at), (&self.theirs, &self.theirs_at)].map(|(daemon, at)| {
            let names = rrd_files(at);
            let mut client = Client::unix(&daemon.socket);
            for name in &names {
                client.order(&format!("FLUSH {name}"));
            }
            names.into_iter().map(|name| (name.clone(), std::fs::read(at.join(&name)).unwrap())).collect()
        })
    }
}

/// Ours and Debian's: where they listen, and where their files are.
#[derive(Clone)]
struct Daemons {
    sockets: [PathBuf; 2],
    places: [String; 2],
}

impl Daemons {
    /// Passes on what a program says, in a thread.
    fn serve(&self, hears: impl Write + Send + 'static, says: impl Read + Send + 'static) {
        let daemons = self.clone();
        std::thread::spawn(move || daemons.pass_on(hears, says));
    }

    /// Sends what a program says to both daemons, and answers it with what ours says.
    fn pass_on(&self, mut hears: impl Write + Send + 'static, says: impl Read) {
        let [mut ours, mut theirs] =
            [0, 1].map(|side: usize| UnixStream::connect(&self.sockets[side]).unwrap());
        let [mut answers, mut unheard] = [&ours, &theirs].map(|daemon| daemon.try_clone().unwrap());
        std::thread::spawn(move || std::io::copy(&mut answers, &mut hears));
        std::thread::spawn(move || std::io::copy(&mut unheard, &mut std::io::sink()));
        for line in BufReader::new(says).lines().map_while(Result::ok) {
            let there = line.replace(&self.places[0], &self.places[1]);
            begin_alike(&line, &there);
            // A program that has gone, or a daemon: the comparison of the files shows what was lost. A new file is copied,
            // since each daemon would begin it at a random row.
            if !is(&line, "create") {
                let _ = theirs.write_all(format!("{there}\n").as_bytes());
            }
            let _ = ours.write_all(format!("{line}\n").as_bytes());
        }
        let _ = ours.shutdown(Shutdown::Write);
        let _ = theirs.shutdown(Shutdown::Write);
    }
}

/// Whether a line is this command.
fn is(line: &str, command: &str) -> bool {
    line.split(' ').next().is_some_and(|word| word.eq_ignore_ascii_case(command))
}

/// Copies a file that the program or our daemon has made, before its first update.
fn begin_alike(line: &str, there: &str) {
    let name = |line: &str| line.split(' ').find(|word| word.ends_with(".rrd")).map(PathBuf::from);
    let (Some(here), Some(there)) = (name(line), name(there)) else { return };
    if is(line, "update") && here.exists() && !there.exists() {
        std::fs::create_dir_all(there.parent().unwrap()).unwrap();
        std::fs::copy(here, there).unwrap();
    }
}

fn rrd_files(at: &Path) -> Vec<String> {
    let mut missing = 0;
    let files = khz_rrd::page_cache::rrd_files(at, &mut missing);
    assert_eq!(missing, 0);
    files.iter().map(|file| file.strip_prefix(at).unwrap().to_str().unwrap().to_string()).collect()
}

/// A program that is ended with the test.
struct Program(Child);

impl Program {
    fn start(command: &mut Command) -> Option<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok().map(Self)
    }

    fn end(mut self) {
        assert!(Command::new("kill").arg(self.0.id().to_string()).status().unwrap().success());
        let started = Instant::now();
        while self.0.try_wait().unwrap().is_none() {
            assert!(started.elapsed() < PATIENCE, "the program does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn seconds() -> u64 {
    std::env::var("KHZ_RRD_MOVING").ok().and_then(|text| text.parse().ok()).unwrap_or(SECONDS)
}

/// Compares the files, of which there are at least `count`, and each has been updated.
fn compare(both: &Both, count: usize) {
    let [ours, theirs] = both.files();
    assert!(ours.len() >= count, "only {} files", ours.len());
    assert_eq!(ours.keys().collect::<Vec<_>>(), theirs.keys().collect::<Vec<_>>());
    let different: Vec<&String> =
        ours.iter().filter(|(name, bytes)| theirs[*name] != **bytes).map(|(name, _)| name).collect();
    assert!(different.is_empty(), "{} of {} files differ: {different:?}", different.len(), ours.len());
    let mut client = Client::unix(&both.ours.socket);
    assert!(client.stat("UpdatesReceived") >= ours.len() as u64);
    assert_eq!((client.stat("UpdatesRefused"), client.stat("WritesFailed")), (0, 0));
}

#[test]
#[ignore = "a minute of a running collectd: cargo xtask test --slow"]
fn collectd_writes_the_same_files_through_our_daemon() {
    let both = Both::start("moving-collectd");
    let dir = both.ours_at.parent().unwrap();
    let settings = format!(
        "Hostname \"here\"\nBaseDir \"{0}\"\nPIDFile \"{0}/pid\"\nInterval 1\nLoadPlugin cpu\nLoadPlugin load\n\
         LoadPlugin memory\nLoadPlugin interface\nLoadPlugin df\nLoadPlugin rrdcached\n<Plugin rrdcached>\n\
         DaemonAddress \"unix:{1}\"\nDataDir \"{2}\"\nCreateFiles true\n</Plugin>\n",
        dir.display(),
        both.socket.display(),
        both.ours_at.display()
    );
    let file = dir.join("collectd.conf");
    std::fs::write(&file, settings).unwrap();
    let Some(program) = Program::start(Command::new("/usr/sbin/collectd").arg("-f").arg("-C").arg(&file))
    else {
        return khz_skip::skip("there is no collectd (package collectd-core)");
    };
    std::thread::sleep(Duration::from_secs(seconds()));
    program.end();
    compare(&both, 10);
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output().unwrap();
    id.stdout.trim_ascii() == b"0"
}

/// A free port of loopback, for a moment.
fn port() -> u16 {
    std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
#[ignore = "a minute of mrtg and snmpd: cargo xtask test --slow"]
fn mrtg_writes_the_same_files_through_our_daemon() {
    let both = Both::start("moving-mrtg");
    let dir = both.ours_at.parent().unwrap();
    let agent_settings = dir.join("snmpd.conf");
    std::fs::write(&agent_settings, "rocommunity public 127.0.0.1\n").unwrap();
    let port = port();
    let mut agent = Command::new("/usr/sbin/snmpd");
    agent.args(["-f", "-C", "-c"]).arg(&agent_settings).arg("-Lf").arg(dir.join("snmpd.log"));
    agent
        .arg("-p")
        .arg(dir.join("snmpd.pid"))
        .arg(format!("udp:127.0.0.1:{port}"))
        .env("SNMP_PERSISTENT_DIR", dir);
    let Some(_agent) = Program::start(&mut agent) else {
        return khz_skip::skip("there is no snmpd (package snmpd)");
    };
    let settings = format!(
        "WorkDir: {}\nLogFormat: rrdtool\nRRDCached: unix:{}\nEnableIPv6: no\nTarget[lo]: 1:public@127.0.0.1:{port}:\n\
         MaxBytes[lo]: 12500000000\nTitle[lo]: lo\nPageTop[lo]: lo\n",
        both.ours_at.display(),
        both.socket.display()
    );
    let file = dir.join("mrtg.cfg");
    std::fs::write(&file, settings).unwrap();
    let started = Instant::now();
    let mut runs = 0;
    while started.elapsed() < Duration::from_secs(seconds()) {
        let mut mrtg = Command::new("mrtg");
        mrtg.env("LANG", "C")
            .arg("--lock-file")
            .arg(dir.join("lock"))
            .arg("--confcache-file")
            .arg(dir.join("cc"));
        let Ok(output) = mrtg.arg(&file).stdin(Stdio::null()).output() else {
            return khz_skip::skip("there is no mrtg (package mrtg)");
        };
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && !said.contains("ERROR"), "{said}");
        runs += 1;
        // MRTG counts in seconds, and refuses two updates in one.
        std::thread::sleep(Duration::from_millis(1100));
    }
    assert!(runs > 2);
    compare(&both, 1);
}

#[test]
#[ignore = "a minute of gmetad and gmond: cargo xtask test --slow"]
fn gmetad_writes_the_same_files_through_our_daemon() {
    let both = Both::start("moving-gmetad");
    let dir = both.ours_at.parent().unwrap();
    let modules = format!("/usr/lib/{}-linux-gnu/ganglia", std::env::consts::ARCH);
    let module =
        |name: &str| format!("module {{ name = \"{name}_module\" path = \"{modules}/mod{name}.so\" }} ");
    let metric = |name: &str| format!("metric {{ name = \"{name}\" value_threshold = \"0\" }} ");
    let (at, xml, interactive) = (port(), port(), port());
    let settings = format!(
        "globals {{ daemonize = no setuid = no send_metadata_interval = 5 }} cluster {{ name = \"home\" }} \
         udp_send_channel {{ host = 127.0.0.1 port = {at} }} udp_recv_channel {{ port = {at} bind = 127.0.0.1 }} \
         tcp_accept_channel {{ port = {at} bind = 127.0.0.1 }} modules {{ module {{ name = \"core_metrics\" }} {} }} \
         collection_group {{ collect_every = 5 time_threshold = 5 {} }}\n",
        ["load", "mem", "net"].map(module).concat(),
        ["load_one", "mem_free", "mem_cached", "bytes_in", "bytes_out"].map(metric).concat()
    );
    let file = dir.join("gmond.conf");
    std::fs::write(&file, settings).unwrap();
    let Some(_gmond) = Program::start(Command::new("/usr/sbin/gmond").arg("-f").arg("-c").arg(&file)) else {
        return khz_skip::skip("there is no gmond (package ganglia-monitor)");
    };
    let settings = format!(
        "data_source \"home\" 3 127.0.0.1:{at}\ngridname \"grid\"\nxml_port {xml}\ninteractive_port {interactive}\nsetuid off\n\
         rrd_rootdir \"{}\"\nrrdcached_address {}\n",
        both.ours_at.display(),
        both.address
    );
    let file = dir.join("gmetad.conf");
    std::fs::write(&file, settings).unwrap();
    // With a level of messages it stays in the foreground.
    let mut gmetad = Command::new("/usr/sbin/gmetad");
    let Some(gmetad) = Program::start(gmetad.args(["-d", "1", "-c"]).arg(&file)) else {
        return khz_skip::skip("there is no gmetad (package gmetad)");
    };
    std::thread::sleep(Duration::from_secs(seconds()));
    gmetad.end();
    compare(&both, 10);
}

#[test]
#[ignore = "a minute of munin-update and munin-node: cargo xtask test --slow"]
fn munin_writes_the_same_files_through_our_daemon() {
    let update = Path::new("/usr/share/munin/munin-update");
    if !update.exists() || !Path::new("/usr/sbin/munin-node").exists() {
        return khz_skip::skip("there is no munin or no munin-node (packages munin, munin-node)");
    }
    if !is_root() {
        return khz_skip::skip("munin-update runs as the user munin, and only root can start it so");
    }
    let both = Both::start("moving-munin");
    let dir = both.ours_at.parent().unwrap();
    // The user munin has to come here.
    for place in [dir, &both.ours_at, &both.socket] {
        std::fs::set_permissions(place, std::fs::Permissions::from_mode(0o777)).unwrap();
    }
    let port = port();
    let node = format!(
        "log_file {0}/node.log\npid_file {0}/node.pid\nbackground 0\nsetsid 0\nuser root\ngroup root\nhost 127.0.0.1\n\
         port {port}\nhost_name here\nallow ^127\\.0\\.0\\.1$\n",
        dir.display()
    );
    let file = dir.join("node.conf");
    std::fs::write(&file, node).unwrap();
    let _node = Program::start(Command::new("/usr/sbin/munin-node").arg("--config").arg(&file)).unwrap();
    let settings = format!(
        "dbdir {0}/db\nhtmldir {1}\nlogdir {1}\nrundir {1}\ntmpldir /etc/munin/templates\nrrdcached_socket {2}\n\
         [here]\n address 127.0.0.1\n port {port}\n use_node_name yes\n",
        both.ours_at.display(),
        dir.display(),
        both.socket.display()
    );
    let file = dir.join("munin.conf");
    std::fs::write(&file, settings).unwrap();
    let database = both.ours_at.join("db");
    std::fs::create_dir(&database).unwrap();
    std::fs::set_permissions(&database, std::fs::Permissions::from_mode(0o777)).unwrap();
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(seconds()) {
        let mut munin = Command::new("setpriv");
        munin
            .args(["--reuid=munin", "--regid=munin", "--clear-groups"])
            .arg(update)
            .arg("--config")
            .arg(&file);
        let output = munin.current_dir("/").stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    compare(&both, 20);
}
