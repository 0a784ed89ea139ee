//! A day of what programs really sent (`days/ORIGIN`), through our daemon and through Debian's: answers and files are the same.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../../rrd/tests/oracle/mod.rs"]
mod oracle;
mod served;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use oracle::Oracle;
use served::Daemon;

/// The .rrd files of a program, and what it sent in a day.
struct Day {
    /// Name, and the words of `create`.
    files: Vec<(String, String)>,
    lines: Vec<String>,
}

impl Day {
    fn of(program: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/days/{program}.xz"));
        let output = Command::new("xz").arg("-dc").arg(&path).output();
        let output =
            output.unwrap_or_else(|error| panic!("xz: {error}; install Debian's package `xz-utils`"));
        assert!(output.status.success(), "{}: {}", path.display(), String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        let (files, lines) = text.split_once("\n\n").unwrap_or(("", &text));
        let file = |line: &str| {
            let mut words = line.strip_prefix("file ")?.splitn(4, ' ');
            let (name, start, step) = (words.next()?.to_string(), words.next()?, words.next()?);
            Some((name, format!("--start {start} --step {step} {}", words.next()?)))
        };
        Self {
            files: files.lines().map(|line| file(line).unwrap_or_else(|| panic!("{line}"))).collect(),
            lines: lines.lines().filter(|line| !line.is_empty()).map(str::to_string).collect(),
        }
    }
}

/// Directories for our daemon and Debian's.
fn places(name: &str) -> [PathBuf; 2] {
    let dir = oracle::directory(name).canonicalize().unwrap();
    ["ours", "theirs"].map(|side| {
        std::fs::create_dir_all(dir.join(side)).unwrap();
        dir.join(side)
    })
}

/// What is in each .rrd file below `dir`, by name.
fn files(dir: &Path, content: impl Fn(&Path) -> Vec<u8>) -> BTreeMap<String, Vec<u8>> {
    let mut missing = 0;
    let files = khz_rrd::page_cache::rrd_files(dir, &mut missing);
    assert_eq!(missing, 0);
    let name = |file: &Path| file.strip_prefix(dir).unwrap().to_str().unwrap().to_string();
    files.iter().map(|file| (name(file), content(file))).collect()
}

fn compare(ours: &BTreeMap<String, Vec<u8>>, theirs: &BTreeMap<String, Vec<u8>>, count: usize) {
    assert_eq!(ours.keys().collect::<Vec<_>>(), theirs.keys().collect::<Vec<_>>());
    assert_eq!(ours.len(), count);
    let differ: Vec<&String> = ours.keys().filter(|name| ours[*name] != theirs[*name]).collect();
    assert!(differ.is_empty(), "{} of {count} files differ: {differ:?}", differ.len());
}

/// Sends a program's day to both daemons.
fn replay(program: &str) {
    let day = Day::of(program);
    let [ours_at, theirs_at] = places(program);
    let mut rrdtool = Oracle::start(&theirs_at);
    for (name, words) in &day.files {
        let [here, there] = [ours_at.join(name), theirs_at.join(name)];
        std::fs::create_dir_all(here.parent().unwrap()).unwrap();
        std::fs::create_dir_all(there.parent().unwrap()).unwrap();
        assert_eq!(rrdtool.run(&format!("create {name} {words}")).error, None, "{name}");
        std::fs::copy(there, here).unwrap();
    }
    let (mut ours, mut theirs) = (Daemon::ours(&ours_at, &["-j", "log"]), Daemon::debians(&theirs_at, &[]));
    let (mut to_ours, mut to_theirs) = (ours.client(), theirs.client());
    let mut taken = 0;
    for line in &day.lines {
        let of = |answer: Vec<String>, at: &Path| answer.join("\n").replace(at.to_str().unwrap(), "");
        let (answer, wanted) = (of(to_ours.ask(line), &ours_at), of(to_theirs.ask(line), &theirs_at));
        // Each counts what it does in its own way.
        if line != "STATS" {
            assert_eq!(answer, wanted, "{line}");
        }
        taken += usize::from(!answer.starts_with('-'));
    }
    assert!(taken * 100 > day.lines.len() * 95, "only {taken} of {} lines were taken", day.lines.len());
    // USR1: everything is written. (FLUSH of Debian's answers while a thread of it may still write.)
    assert!(ours.end("USR1").success());
    assert!(theirs.end("USR1").success());
    let content = |file: &Path| std::fs::read(file).unwrap();
    compare(&files(&ours_at, content), &files(&theirs_at, content), day.files.len());
}

#[test]
#[ignore = "a day of collectd: cargo xtask test --slow"]
fn a_day_of_collectd_makes_the_same_files() {
    replay("collectd");
}

#[test]
#[ignore = "a day of gmetad: cargo xtask test --slow"]
fn a_day_of_gmetad_makes_the_same_files() {
    replay("gmetad");
}

#[test]
#[ignore = "a day of munin: cargo xtask test --slow"]
fn a_day_of_munin_makes_the_same_files() {
    replay("munin");
}

#[test]
#[ignore = "a day of MRTG: cargo xtask test --slow"]
fn a_day_of_mrtg_makes_the_same_files() {
    replay("mrtg");
}

/// The answers of `program -` in `dir`, through the daemon at `address` or without one. Paths begin at the directory, and OK is without
/// its times.
fn piped(program: &str, dir: &Path, address: Option<&str>, lines: &[String]) -> Vec<String> {
    let mut command = Command::new(program);
    command.arg("-").current_dir(dir).env("LC_ALL", "C").env("TZ", "UTC").env_remove("RRDCACHED_ADDRESS");
    if let Some(address) = address {
        command.env("RRDCACHED_ADDRESS", address);
    }
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let (mut input, said) = (child.stdin.take().unwrap(), format!("{}\nquit\n", lines.join("\n")));
    let sends = std::thread::spawn(move || input.write_all(said.as_bytes()));
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    sends.join().unwrap().unwrap();
    child.wait().unwrap();
    let place = dir.to_str().unwrap();
    let answer = |line: &str| match line.starts_with("OK u:") {
        true => "OK".to_string(),
        false => line.replace(place, ""),
    };
    text.lines().map(answer).collect()
}

/// What `rrdtool dump` prints: each program begins a new file at a row of its own.
fn dump(file: &Path) -> Vec<u8> {
    let output = Command::new("rrdtool").arg("dump").arg(file).env("LC_ALL", "C").env("TZ", "UTC").output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", file.display());
    output.stdout
}

#[test]
#[ignore = "a day of LibreNMS's poller: cargo xtask test --slow"]
fn a_day_of_librenms_makes_the_same_files() {
    let day = Day::of("librenms");
    let khz = env!("CARGO_BIN_EXE_khz-rrdcached");
    let created = day.lines.iter().filter(|line| line.starts_with("create ")).count();
    assert!(created > 20);
    let start = |name: &str| {
        let places = places(name);
        places.iter().for_each(|place| std::fs::create_dir_all(place.join("sw1")).unwrap());
        places
    };
    let [ours_at, theirs_at] = start("librenms");
    let (answers, wanted) =
        (piped(khz, &ours_at, None, &day.lines), piped("rrdtool", &theirs_at, None, &day.lines));
    assert!(wanted.len() >= day.lines.len());
    assert_eq!(answers, wanted);
    let plain = files(&theirs_at, dump);
    compare(&files(&ours_at, dump), &plain, created);

    // With daemons: our program and rrdtool with ours, rrdtool with Debian's.
    let [khz_at, rrdtool_at] = start("librenms-ours");
    let [_, theirs_at] = start("librenms-theirs");
    let mut daemons = [
        Daemon::ours(&khz_at, &["-j", "log"]),
        Daemon::ours(&rrdtool_at, &["-j", "log"]),
        Daemon::debians(&theirs_at, &[]),
    ];
    let sides = [(khz, &khz_at), ("rrdtool", &rrdtool_at), ("rrdtool", &theirs_at)];
    let answers: Vec<Vec<String>> = (sides.iter().zip(&daemons))
        .map(|((program, dir), daemon)| piped(program, dir, Some(&daemon.address()), &day.lines))
        .collect();
    assert_eq!(answers[0], answers[2]);
    assert_eq!(answers[1], answers[2]);
    daemons.iter_mut().for_each(|daemon| assert!(daemon.end("USR1").success()));
    for (_, dir) in sides {
        compare(&files(dir, dump), &plain, created);
    }
}
