//! Our caching daemon: what it answers, beside Debian's, and what it keeps when it is killed.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../../rrd/tests/oracle/mod.rs"]
mod oracle;
mod served;

use std::path::{Path, PathBuf};

use oracle::Random;
use served::{Daemon, check};

/// Commands whose answers must be Debian's, with `DIR` for the base directory.
const SCRIPT: &[&str] = &[
    "PING",
    "ping",
    "",
    "FOO bar",
    ".",
    "WROTE t.rrd",
    "UPDATE",
    "UPDATE t.rrd",
    "UPDATE t.rrd N:1:2",
    "UPDATE t.rrd abc:1:2",
    "UPDATE t.rrd 1000000300",
    "UPDATE t.rrd 1000000300:5:6",
    "UPDATE t.rrd 1000000300:5:6",
    "UPDATE t.rrd -5:5:6",
    "UPDATE t.rrd 1000000600:7:8 1000000900:9:10",
    "UPDATE t.rrd 1000001000:7:8 1000001000:9:10",
    "update t.rrd 1000001100.25:7:8",
    "UPDATE t.rrd 1000001100.25:7:8",
    "UPDATE no.rrd 1000000300:5:6",
    "UPDATE sub 1000000300:5:6",
    "UPDATE a\\ b.rrd 1000000300:5:6",
    "PENDING",
    "PENDING t.rrd",
    "PENDING no.rrd",
    "LAST t.rrd",
    "FLUSH",
    "FLUSH t.rrd",
    "FLUSH sub/u.rrd",
    "PENDING t.rrd",
    "LAST",
    "LAST no.rrd",
    "LAST sub/u.rrd",
    "FIRST t.rrd",
    "FIRST t.rrd 0",
    "FIRST t.rrd 1",
    "FIRST t.rrd 9",
    "FIRST no.rrd 0",
    "FETCH",
    "FETCH t.rrd",
    "FETCH t.rrd NONE",
    "FETCH no.rrd LAST",
    "FETCH t.rrd LAST x",
    "FETCH t.rrd LAST 1000000000 x",
    "FETCH t.rrd LAST 1000000000 1000000900",
    "FETCH t.rrd LAST 1000000000 1000000900 y",
    "FETCH t.rrd LAST 1000000000 1000000900 y x",
    "FETCH t.rrd AVERAGE 1000000000 1000000900",
    "INFO",
    "INFO t.rrd",
    "INFO no.rrd",
    "QUEUE",
    "SUSPEND",
    "SUSPEND t.rrd",
    "SUSPEND t.rrd",
    "SUSPEND no.rrd",
    "UPDATE t.rrd 1000002000:1:2",
    "PENDING t.rrd",
    "RESUME t.rrd",
    "RESUME t.rrd",
    "RESUME no.rrd",
    "SUSPENDALL",
    "SUSPENDALL",
    "RESUMEALL",
    "RESUMEALL",
    "FORGET",
    "FORGET t.rrd",
    "FORGET t.rrd",
    "FORGET no.rrd",
    "FLUSHALL",
    "FLUSH no.rrd",
    "CREATE",
    "CREATE c.rrd",
    "CREATE c.rrd DS:x:GAUGE:60:U:U",
    "CREATE c.rrd -b 5 DS:x:GAUGE:60:U:U RRA:LAST:0.5:1:5",
    "CREATE c.rrd -z DS:x:GAUGE:60:U:U RRA:LAST:0.5:1:5",
    "CREATE c.rrd -s 10 -b 1000000000 DS:x:GAUGE:60:U:U RRA:LAST:0.5:1:5",
    "CREATE c.rrd -O DS:x:GAUGE:60:U:U RRA:LAST:0.5:1:5",
    "CREATE d.rrd -s 0 -O -b 1000000000 -t c.rrd",
    "LAST c.rrd",
    "LAST d.rrd",
    "LIST",
    "LIST sub",
    "LIST /sub",
    "LIST /sub/",
    "LIST RECURSIVE /sub",
    "LIST RECURSIVE",
    "LIST /no",
    "LIST /no.rrd",
    "LIST /d.rrd",
    "LIST RECURSIVE /d.rrd",
    "LIST /../",
];

/// The same two files in two directories.
fn two_directories(name: &str) -> (PathBuf, PathBuf) {
    let make = |who: &str| {
        let dir = oracle::directory(&format!("{name}-{who}"));
        std::fs::create_dir(dir.join("sub")).unwrap();
        dir
    };
    let (theirs, ours) = (make("theirs"), make("ours"));
    let create = "create t.rrd --start 1000000000 --step 300 DS:x:GAUGE:600:U:U DS:y:GAUGE:600:U:U \
                  RRA:LAST:0.5:1:5 RRA:AVERAGE:0.5:2:5";
    assert_eq!(oracle::Oracle::start(&theirs).run(create).error, None);
    for copy in [theirs.join("sub/u.rrd"), ours.join("t.rrd"), ours.join("sub/u.rrd")] {
        std::fs::copy(theirs.join("t.rrd"), copy).unwrap();
    }
    (theirs, ours)
}

fn compare(a: &Daemon, b: &Daemon, dirs: (&Path, &Path), script: &[&str]) {
    let plain = |lines: Vec<String>, dir: &Path| -> Vec<String> {
        lines.into_iter().map(|line| line.replace(dir.to_str().unwrap(), "DIR")).collect()
    };
    let mut wrong = vec![];
    for line in script {
        // A connection each: some errors make Debian's hang up.
        let (x, y) = (plain(a.client().ask(line), dirs.0), plain(b.client().ask(line), dirs.1));
        if x != y {
            wrong.push(format!("{line}\n  rrdcached: {x:?}\n       ours: {y:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn answers_read_as_rrdcacheds() {
    let (theirs, ours) = two_directories("answers");
    let (a, b) = (Daemon::debians(&theirs, &[]), Daemon::ours(&ours, &["-j", "log"]));
    compare(&a, &b, (&theirs, &ours), SCRIPT);
}

#[test]
fn a_confined_daemon_answers_as_rrdcached() {
    let (theirs, ours) = two_directories("confined-answers");
    let (a, b) = (Daemon::debians(&theirs, &["-B", "-R", "-O"]), Daemon::ours(&ours, &["-B", "-R", "-O"]));
    let script = [
        "UPDATE ../t.rrd 1000000300:1:2",
        "UPDATE /etc/passwd 1000000300:1:2",
        "FLUSH ../t.rrd",
        "FORGET ../t.rrd",
        "FETCH ../t.rrd LAST",
        "INFO ../t.rrd",
        "FIRST ../t.rrd 0",
        "LAST ../t.rrd",
        "CREATE ../c.rrd DS:x:GAUGE:60:U:U RRA:LAST:0.5:1:5",
        "CREATE new/dir/c.rrd -b 1000000000 DS:x:GAUGE:60:U:U RRA:LAST:0.5:1:5",
        "LAST new/dir/c.rrd",
        "CREATE new/dir/c.rrd DS:x:GAUGE:60:U:U RRA:LAST:0.5:1:5",
        "UPDATE t.rrd 1000000300:1:2",
        "FLUSH t.rrd",
        "LIST RECURSIVE /new",
    ];
    compare(&a, &b, (&theirs, &ours), &script);
}

#[test]
fn batches_and_binary_answers_are_rrdcacheds() {
    let (theirs, ours) = two_directories("batch");
    let (a, b) = (Daemon::debians(&theirs, &[]), Daemon::ours(&ours, &[]));
    let whole = |daemon: &Daemon, text: &str, dir: &Path| {
        let mut client = daemon.client();
        client.send(text);
        String::from_utf8_lossy(&client.rest()).replace(dir.to_str().unwrap(), "DIR")
    };
    for text in [
        "BATCH\nUPDATE t.rrd 1000000300:5:6\nUPDATE t.rrd 1000000300:1:2\nPING\nFOO\nFLUSH t.rrd\n.\nPING\nQUIT\n",
        "BATCH\nUPDATE\nUPDATE t.rrd\nUPDATE no.rrd 5:1\nBATCH\nFLUSHALL\nHELP\nWROTE t.rrd\nFORGET no.rrd\n.\nQUIT\n",
        "batch\nupdate t.rrd 1000000600:7:8\nsuspendall\nresumeall\nFLUSH no.rrd\nFETCH t.rrd LAST\n.\nQUIT\n",
        "BATCH\nQUIT\n",
        "PING\r\nPENDING t.rrd\r\nQUIT\r\n",
        "FLUSH t.rrd\nFETCHBIN t.rrd LAST 1000000000 1000000900\nFETCHBIN t.rrd LAST 1000000000 1000000900 y\nQUIT\n",
    ] {
        assert_eq!(whole(&b, text, &ours), whole(&a, text, &theirs), "{text}");
    }
}

#[test]
fn an_acknowledged_update_survives_kill_9_at_any_instant() {
    // The heartbeat is long: seconds that were never acknowledged may be missing in between.
    const FILES: usize = 5;
    for seed in 0..oracle::cases(17) {
        let mut random = Random::new(seed + 1);
        let dir = oracle::directory("kill");
        let log = dir.join("log");
        let timeout = if random.chance(50) { "0" } else { "300" };
        let arguments = ["-j", log.to_str().unwrap(), "-w", timeout];
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
            // The daemon is killed while commands come: some are acknowledged, some not.
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
            // Answers that are not read yet count as well.
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
