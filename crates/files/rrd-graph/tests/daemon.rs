//! Graphs through Debian's rrdcached: what waits there is written before it is drawn.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// How long a daemon may take to open its socket.
const PATIENCE: Duration = Duration::from_secs(60);
const OURS: &str = env!("CARGO_BIN_EXE_khz-rrd-graph");

struct Daemon {
    child: Child,
    folder: PathBuf,
}

impl Daemon {
    fn start(name: &str, more: &[&str]) -> Self {
        let folder = std::env::temp_dir().join(format!("khz-rrd-graph-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let folder = folder.canonicalize().unwrap();
        let mut command = Command::new("rrdcached");
        command.args(["-g", "-w", "3600", "-l", &format!("unix:{}/socket", folder.display()), "-b"]);
        command.arg(&folder).args(more).arg("-p").arg(folder.join("pid")).stderr(Stdio::null());
        let child = command.spawn().expect("this test needs Debian's package `rrdcached`");
        let daemon = Self { child, folder };
        let started = Instant::now();
        while UnixStream::connect(daemon.folder.join("socket")).is_err() {
            assert!(started.elapsed() < PATIENCE, "rrdcached opens no socket");
            std::thread::yield_now();
        }
        daemon
    }

    fn address(&self) -> String {
        format!("unix:{}/socket", self.folder.display())
    }

    fn file(&self) -> String {
        self.folder.join("t.rrd").to_str().unwrap().to_string()
    }

    /// A sample that stays in the daemon.
    fn sample(&self, time: u64, value: u64) {
        let words = ["update", "--daemon", &self.address(), &self.file(), &format!("{time}:{value}")];
        assert!(run("rrdtool", &self.folder, &words).status.success());
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn run(program: &str, folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.args(words).current_dir(folder).env("TZ", "UTC").env_remove("RRDCACHED_ADDRESS");
    command.env("FONTCONFIG_FILE", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/commands/fonts.conf"));
    command.output().unwrap_or_else(|error| panic!("{program}: {error}; install Debian's package `rrdtool`"))
}

#[test]
fn what_waits_in_a_daemon_is_drawn() {
    let daemon = Daemon::start("daemon", &[]);
    let (address, file) = (daemon.address(), daemon.file());
    let create =
        ["create", &file, "--start", "1000000000", "--step", "5", "DS:a:GAUGE:10:0:U", "RRA:LAST:0.5:1:72"];
    assert!(run("rrdtool", &daemon.folder, &create).status.success());
    let plain = format!("DEF:a={file}:a:LAST");
    let own = format!("{plain}:daemon={}", address.replace(':', "\\:"));
    let words = |before: &[&str], definition: &str, end: u64| -> Vec<String> {
        let range = format!(
            "graph g.png {} -s 1000000000 -e {end} {definition} PRINT:a:LAST:%.1lf LINE:a",
            before.join(" ")
        );
        range.split_whitespace().map(str::to_string).collect()
    };
    let shown = |words: &[String]| {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let output = run(OURS, &daemon.folder, &words);
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    daemon.sample(1_000_000_005, 7);
    // Without the daemon the file has no sample yet.
    assert_eq!(shown(&words(&[], &plain, 1_000_000_005)), "481x141\n-nan\n");
    assert_eq!(shown(&words(&["--daemon", &address], &plain, 1_000_000_005)), "481x141\n7.0\n");
    daemon.sample(1_000_000_010, 9);
    assert_eq!(shown(&words(&[], &own, 1_000_000_010)), "481x141\n9.0\n");

    daemon.sample(1_000_000_015, 11);
    let mut pipe = Command::new(OURS)
        .arg("-")
        .current_dir(&daemon.folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let line = words(&["--daemon", &address], &plain, 1_000_000_015).join(" ");
    writeln!(pipe.stdin.as_mut().unwrap(), "{line}\n{line}").unwrap();
    let answer = String::from_utf8(pipe.wait_with_output().unwrap().stdout).unwrap();
    assert_eq!(answer.matches("481x141\n11.0\nOK u:").count(), 2, "{answer}");
}

#[test]
fn without_its_daemon_a_graph_is_drawn_and_the_error_is_rrdtools() {
    let folder = std::env::temp_dir().join(format!("khz-rrd-graph-alone-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let create =
        ["create", "t.rrd", "--start", "1000000000", "--step", "5", "DS:a:GAUGE:10:0:U", "RRA:LAST:0.5:1:9"];
    assert!(run("rrdtool", &folder, &create).status.success());
    for definition in
        ["DEF:a=t.rrd:a:LAST", "DEF:a=none.rrd:a:LAST", "DEF:a=t.rrd:a:LAST:daemon=unix\\:/nowhere/socket"]
    {
        let words = ["graph", "g.png", "--daemon", "unix:/nowhere/socket", definition, "LINE:a"];
        let [ours, theirs] = [OURS, "rrdtool"].map(|program| run(program, &folder, &words));
        assert_eq!(String::from_utf8_lossy(&ours.stdout), String::from_utf8_lossy(&theirs.stdout));
        assert_eq!(String::from_utf8_lossy(&ours.stderr), String::from_utf8_lossy(&theirs.stderr));
        assert_eq!(ours.status.code(), theirs.status.code());
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// With `-B` the daemon refuses files outside of its folder. Then nothing is drawn or, with `-Z`, no row of the file.
#[test]
fn what_a_daemon_refuses_is_not_drawn() {
    let daemon = Daemon::start("refused", &["-B"]);
    let outside = std::env::temp_dir().join(format!("khz-rrd-graph-outside-{}.rrd", std::process::id()));
    let outside = outside.to_str().unwrap().to_string();
    let inside = daemon.file();
    for file in [&inside, &outside] {
        let create = [
            "create",
            file,
            "--start",
            "1000000000",
            "--step",
            "5",
            "DS:a:GAUGE:10:0:U",
            "RRA:LAST:0.5:1:72",
        ];
        assert!(run("rrdtool", &daemon.folder, &create).status.success());
        let update = ["update", file, "1000000005:3", "1000000010:4"];
        assert!(run("rrdtool", &daemon.folder, &update).status.success());
    }
    let missing = daemon.folder.join("none.rrd").to_str().unwrap().to_string();
    let mut compared = 0;
    for address in [daemon.address(), "unix:/nowhere/socket".into()] {
        for files in
            [vec![&inside], vec![&outside], vec![&missing], vec![&inside, &outside], vec![&missing, &inside]]
        {
            for has_own in [false, true] {
                for before in [&[][..], &["-Z"], &["-a", "CSV"]] {
                    let own = if has_own {
                        format!(":daemon={}", address.replace(':', "\\:"))
                    } else {
                        String::new()
                    };
                    let mut words = vec!["graph".to_string(), "g.out".into()];
                    words.extend(before.iter().map(|word| word.to_string()));
                    if !has_own {
                        words.extend(["--daemon".into(), address.clone()]);
                    }
                    words.extend(["-s", "1000000000", "-e", "1000000020"].map(str::to_string));
                    for (index, file) in files.iter().enumerate() {
                        words.push(format!("DEF:d{index}={file}:a:LAST{own}"));
                        words.extend([format!("PRINT:d{index}:LAST:%lf"), format!("LINE:d{index}")]);
                    }
                    let words: Vec<&str> = words.iter().map(String::as_str).collect();
                    let picture = daemon.folder.join("g.out");
                    let [ours, theirs] = [OURS, "rrdtool"].map(|program| {
                        let _ = std::fs::remove_file(&picture);
                        let output = run(program, &daemon.folder, &words);
                        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                        let mut error = text(&output.stderr);
                        // rrdtool asks the daemon for rows, and ours has it write the file: their words for a file that is not there.
                        if error.contains("none.rrd") {
                            error = "no such file".into();
                        }
                        // rrdtool leaves an empty file where a table fails.
                        let is_written = std::fs::metadata(&picture).is_ok_and(|facts| facts.len() > 0);
                        (text(&output.stdout), error, output.status.code(), is_written)
                    });
                    // A signal has no code: rrdtool may die of -Z with several files or a refusal.
                    match theirs.2 {
                        Some(_) => assert_eq!(ours, theirs, "{words:?}"),
                        None => assert_ne!(ours.2, None, "{words:?}"),
                    }
                    compared += usize::from(theirs.2.is_some());
                }
            }
        }
    }
    std::fs::remove_file(&outside).unwrap();
    assert!(compared >= 40, "only {compared}");
}
