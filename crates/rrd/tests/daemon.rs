//! Our caching daemon: what it answers, beside Debian's, and what it keeps when it is killed.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod oracle;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use khz_rrd::file::{Access, Rrd};
use oracle::Random;

/// How long a daemon may take to open its socket.
const PATIENCE: Duration = Duration::from_secs(20);

struct Daemon {
    child: Child,
    socket: PathBuf,
}

impl Daemon {
    fn start(program: &str, arguments: &[&str], dir: &Path) -> Self {
        let socket = dir.join("socket");
        let _ = std::fs::remove_file(&socket);
        let child = Command::new(program)
            .args(arguments)
            .args(["-g", "-l"])
            .arg(format!("unix:{}", socket.display()))
            .current_dir(dir)
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("{program}: {error}; install Debian's package `rrdcached`"));
        let started = Instant::now();
        while UnixStream::connect(&socket).is_err() {
            assert!(started.elapsed() < PATIENCE, "{program} opens no socket");
            std::thread::yield_now();
        }
        Self { child, socket }
    }

    fn ours(dir: &Path, more: &[&str]) -> Self {
        let mut arguments = vec!["rrdcached"];
        arguments.extend(more);
        Self::start(env!("CARGO_BIN_EXE_khz-rrd"), &arguments, dir)
    }

    fn client(&self) -> Client {
        let stream = UnixStream::connect(&self.socket).unwrap();
        Client { reader: BufReader::new(stream.try_clone().unwrap()), stream }
    }

    fn kill(&mut self) {
        // SIGKILL: nothing can be tidied up.
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Client {
    reader: BufReader<UnixStream>,
    stream: UnixStream,
}

impl Client {
    fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).unwrap();
    }

    /// One answer with its lines; `None` when the daemon is gone.
    fn answer(&mut self) -> Option<Vec<String>> {
        let mut status = String::new();
        if self.reader.read_line(&mut status).ok()? == 0 {
            return None;
        }
        let count: i64 = status.split(' ').next()?.parse().ok()?;
        let mut lines = vec![status.trim_end().to_string()];
        for _ in 0..count.max(0) {
            let mut line = String::new();
            self.reader.read_line(&mut line).ok()?;
            lines.push(line.trim_end_matches('\n').to_string());
        }
        Some(lines)
    }

    fn ask(&mut self, line: &str) -> Vec<String> {
        self.send(&format!("{line}\n"));
        self.answer().unwrap_or_else(|| panic!("no answer to: {line}"))
    }
}

#[test]
fn answers_read_as_rrdcacheds() {
    let (theirs, ours) = (oracle::directory("daemon-theirs"), oracle::directory("daemon-ours"));
    let pid = theirs.join("pid");
    let create =
        "create t.rrd --start 1000000000 --step 300 DS:x:GAUGE:600:U:U DS:y:GAUGE:600:U:U RRA:LAST:0.5:1:5";
    assert_eq!(oracle::Oracle::start(&theirs).run(create).error, None);
    std::fs::copy(theirs.join("t.rrd"), ours.join("t.rrd")).unwrap();
    let base = |dir: &Path| dir.to_str().unwrap().to_string();
    let a = Daemon::start("rrdcached", &["-b", &base(&theirs), "-p", pid.to_str().unwrap()], &theirs);
    let b = Daemon::ours(&ours, &["-b", &base(&ours), "-j", "log"]);
    let (mut a, mut b) = (a.client(), b.client());
    let script = [
        "PING",
        "ping",
        "UPDATE t.rrd 1000000300:5:6",
        "UPDATE t.rrd 1000000300:5:6",
        "UPDATE t.rrd 1000000600:7:8 1000000900:9:10",
        "UPDATE t.rrd 1000001000:7:8 1000001000:9:10",
        "UPDATE no.rrd 1000000300:5:6",
        "PENDING t.rrd",
        "PENDING no.rrd",
        "LAST t.rrd",
        "FLUSH t.rrd",
        "PENDING t.rrd",
        "FIRST t.rrd 0",
        "FETCH t.rrd LAST 1000000000 1000000900",
        "INFO t.rrd",
        "QUEUE",
        "SUSPEND t.rrd",
        "RESUME t.rrd",
        "FORGET t.rrd",
        "FLUSHALL",
        "FLUSH no.rrd",
        "CREATE c.rrd -s 10 -b 1000000000 DS:x:GAUGE:60:U:U RRA:LAST:0.5:1:5",
        "LAST c.rrd",
    ];
    let plain = |lines: Vec<String>, dir: &Path| -> Vec<String> {
        lines.into_iter().map(|line| line.replace(dir.to_str().unwrap(), "")).collect()
    };
    let mut wrong = vec![];
    for line in script {
        let (x, y) = (plain(a.ask(line), &theirs), plain(b.ask(line), &ours));
        if x != y {
            wrong.push(format!("{line}\n  rrdcached: {x:?}\n       ours: {y:?}"));
        }
    }
    for client in [&mut a, &mut b] {
        client
            .send("BATCH\nUPDATE t.rrd 1000002000:1:2\nUPDATE t.rrd 1000002000:1:2\nPING\nFLUSH t.rrd\n.\n");
    }
    assert_eq!(a.answer(), b.answer());
    let (x, y) = (a.answer().unwrap(), b.answer().unwrap());
    assert_eq!(plain(x, &theirs), plain(y, &ours));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn binary_fetches_and_lists_are_rrdcacheds() {
    let (theirs, ours) = (oracle::directory("more-theirs"), oracle::directory("more-ours"));
    let create =
        "create t.rrd --start 1000000000 --step 300 DS:x:GAUGE:600:U:U DS:y:GAUGE:600:U:U RRA:LAST:0.5:1:5";
    let mut rrdtool = oracle::Oracle::start(&theirs);
    assert_eq!(rrdtool.run(create).error, None);
    std::fs::create_dir(theirs.join("sub")).unwrap();
    std::fs::create_dir(ours.join("sub")).unwrap();
    for copy in ["t.rrd", "sub/u.rrd"] {
        std::fs::copy(theirs.join("t.rrd"), ours.join(copy)).unwrap();
        if copy != "t.rrd" {
            std::fs::copy(theirs.join("t.rrd"), theirs.join(copy)).unwrap();
        }
    }
    let pid = theirs.join("pid");
    let a =
        Daemon::start("rrdcached", &["-b", theirs.to_str().unwrap(), "-p", pid.to_str().unwrap()], &theirs);
    let b = Daemon::ours(&ours, &["-b", ours.to_str().unwrap()]);
    let whole = |daemon: &Daemon, text: &str| {
        let mut client = daemon.client();
        client.stream.set_read_timeout(Some(PATIENCE)).unwrap();
        client.send(text);
        let mut bytes = vec![];
        std::io::Read::read_to_end(&mut client.reader, &mut bytes).unwrap();
        bytes
    };
    for text in [
        "UPDATE t.rrd 1000000300:5:6 1000000600:7:8\nFETCHBIN t.rrd LAST 1000000000 1000000900\nQUIT\n",
        "LIST RECURSIVE /sub\nQUIT\n",
        "INFO t.rrd\nQUIT\n",
    ] {
        let (x, y) = (whole(&a, text), whole(&b, text));
        let text_of =
            |bytes: &[u8], dir: &Path| String::from_utf8_lossy(bytes).replace(dir.to_str().unwrap(), "");
        assert_eq!(text_of(&y, &ours), text_of(&x, &theirs), "{text}");
    }
}

/// Every second of `acknowledged` must be a row with its own value.
fn check(path: &Path, acknowledged: &[i64]) {
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

#[test]
fn an_acknowledged_update_survives_kill_9_at_any_instant() {
    // The heartbeat is long: seconds that were never acknowledged may be missing in between.
    const FILES: usize = 5;
    for seed in 0..oracle::cases(20) {
        let mut random = Random::new(seed + 1);
        let dir = oracle::directory("kill");
        let log = dir.join("log");
        let timeout = if random.chance(50) { "0" } else { "300" };
        let arguments = ["-j", log.to_str().unwrap(), "-w", timeout, "-b", dir.to_str().unwrap()];
        let mut acknowledged: Vec<Vec<i64>> = vec![vec![]; FILES];
        let mut times = [1_000_000_000i64; FILES];
        for life in 0..3 {
            let mut daemon = Daemon::ours(&dir, &arguments);
            let mut client = daemon.client();
            for file in (0..FILES).filter(|_| life == 0) {
                client.ask(&format!(
                    "CREATE {file}.rrd -s 1 -b 1000000000 DS:x:GAUGE:100000:U:U RRA:LAST:0.5:1:50000"
                ));
            }
            // The daemon dies while commands are on their way: some acknowledged, some not.
            let (commands, answers) = (200 + random.below(600), random.below(200));
            let mut text = String::new();
            for _ in 0..commands {
                let file = random.below(FILES as u64) as usize;
                times[file] += 1;
                text.push_str(&format!("UPDATE {file}.rrd {}:{}\n", times[file], times[file] % 1000));
                if random.chance(2) {
                    text.push_str(&format!("FLUSH {file}.rrd\n"));
                }
            }
            let mut sent: Vec<Option<(usize, i64)>> = vec![];
            for line in text.lines() {
                let words: Vec<&str> = line.split([' ', '.', ':']).collect();
                sent.push(
                    (words[0] == "UPDATE").then(|| (words[1].parse().unwrap(), words[3].parse().unwrap())),
                );
            }
            client.send(&text);
            for what in sent.iter().take(answers as usize) {
                let answer = client.answer().unwrap();
                assert!(answer[0].starts_with("0 "), "{answer:?}");
                if let Some((file, time)) = what {
                    acknowledged[*file].push(*time);
                }
            }
            daemon.kill();
            // What was answered but not read yet is acknowledged as well.
            for what in sent.iter().skip(answers as usize) {
                let Some(answer) = client.answer() else { break };
                if let Some((file, time)) = what.filter(|_| answer[0].starts_with("0 ")) {
                    acknowledged[file].push(time);
                }
            }
        }
        let daemon = Daemon::ours(&dir, &arguments);
        let mut client = daemon.client();
        for (file, acknowledged) in acknowledged.iter().enumerate() {
            let answer = client.ask(&format!("FLUSH {file}.rrd"));
            assert!(answer[0].starts_with("0 "), "{answer:?}");
            check(&dir.join(format!("{file}.rrd")), acknowledged);
        }
        drop(daemon);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}

#[test]
fn a_write_that_fails_keeps_its_values_and_says_so() {
    let dir = oracle::directory("fails");
    let daemon = Daemon::ours(&dir, &["-j", "log", "-b", dir.to_str().unwrap()]);
    let mut client = daemon.client();
    client.ask("CREATE t.rrd -s 1 -b 1000000000 DS:x:GAUGE:60:U:U RRA:LAST:0.5:1:50");
    client.ask("UPDATE t.rrd 1000000001:1");
    // Somebody else holds the file.
    let held = Rrd::open(&dir.join("t.rrd"), Access::Write).unwrap();
    let file = dir.join("t.rrd");
    assert_eq!(client.ask("FLUSH t.rrd"), [format!("-1 could not lock RRD '{}'", file.display())]);
    assert_eq!(client.ask("PENDING t.rrd"), ["1 updates pending", "1000000001:1"]);
    drop(held);
    assert!(client.ask("FLUSH t.rrd")[0].starts_with("0 Successfully flushed"));
    check(&dir.join("t.rrd"), &[1_000_000_001]);
}

#[test]
fn a_confined_daemon_touches_nothing_outside() {
    let (dir, outside) = (oracle::directory("confined"), oracle::directory("outside"));
    oracle::Oracle::start(&outside).run("create t.rrd --start 1000000000 DS:x:GAUGE:60:U:U RRA:LAST:0.5:1:5");
    std::os::unix::fs::symlink(&outside, dir.join("link")).unwrap();
    let daemon = Daemon::ours(&dir, &["-b", dir.to_str().unwrap(), "-B"]);
    let mut client = daemon.client();
    let direct = format!("{}/t.rrd", outside.display());
    for name in ["link/t.rrd", &direct, "../outside/t.rrd", "link/../link/t.rrd"] {
        for command in
            ["UPDATE {} 1000000300:1", "INFO {}", "FLUSH {}", "CREATE {} DS:x:GAUGE:60:U:U RRA:LAST:0.5:1:5"]
        {
            let answer = client.ask(&command.replace("{}", name));
            assert!(answer[0].contains("Permission denied"), "{command} {name}: {answer:?}");
        }
    }
}
