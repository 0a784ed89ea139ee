//! Commands that read and change files through the daemon: they see what waits, and force no write.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../../rrd/tests/oracle/mod.rs"]
mod oracle;
mod served;

use std::process::Command;

use served::{Daemon, last_on_disk, update};

/// Arguments of a file whose rows take several samples each.
const FILE: &str =
    "-s 10 -b 1000000000 DS:x:GAUGE:1000:U:U DS:y:COUNTER:1000:U:U RRA:LAST:0.5:1:50 RRA:AVERAGE:0.5:3:50";

#[test]
fn what_waits_is_seen_as_if_it_were_written_and_is_not() {
    let dir = oracle::directory("views");
    let daemon = Daemon::ours(&dir, &["-j", "log"]);
    let mut client = daemon.client();
    client.order(&format!("CREATE t.rrd {FILE}"));
    let mut random = oracle::Random::new(oracle::first_seed());
    let mut time = 1_000_000_000;
    let looks = [
        "FETCH t.rrd LAST 1000000000 1000000600",
        "FETCH t.rrd AVERAGE 1000000000 1000000600",
        "INFO t.rrd",
        "FIRST t.rrd 1",
        "LAST t.rrd",
    ];
    for _ in 0..oracle::cases(20).min(200) {
        let before = last_on_disk(&dir.join("t.rrd"));
        for _ in 0..1 + random.below(5) {
            time += 1 + random.below(40) as i64;
            client.order(&format!("UPDATE t.rrd {time}:{}:{}", random.below(1000), random.below(100_000)));
        }
        let seen: Vec<Vec<String>> = looks.iter().map(|look| client.order(look)).collect();
        let dumped = {
            let mut other = daemon.client();
            other.send("DUMP t.rrd\n");
            other.rest()
        };
        assert_eq!(last_on_disk(&dir.join("t.rrd")), before, "looking has written");
        client.order("FLUSH t.rrd");
        assert_eq!(last_on_disk(&dir.join("t.rrd")), time);
        let written: Vec<Vec<String>> = looks.iter().map(|look| client.order(look)).collect();
        assert_eq!(seen, written);
        let judged = Command::new("rrdtool").args(["dump", "t.rrd"]).current_dir(&dir).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&dumped), String::from_utf8_lossy(&judged.stdout));
    }
    assert_eq!(client.stat("WritesFailed"), 0);
}

#[test]
fn tuning_writes_what_waits_first_and_values_that_come_after_meet_the_new_file() {
    let dir = oracle::directory("tune");
    let daemon = Daemon::ours(&dir, &["-j", "log"]);
    let mut client = daemon.client();
    client.order(&format!("CREATE t.rrd {FILE}"));
    client.order("UPDATE t.rrd 1000000010:1:1 1000000020:2:2");
    client.order("TUNE t.rrd 2 --heartbeat x:7000");
    assert_eq!(last_on_disk(&dir.join("t.rrd")), 1_000_000_020);
    assert!(client.order("INFO t.rrd").contains(&"ds[x].minimal_heartbeat 1 7000".to_string()));
    // Another source: samples need three readings from now on.
    client.order("TUNE t.rrd 1 DS:z:GAUGE:1000:U:U");
    assert!(client.ask("UPDATE t.rrd 1000000030:3:3")[0].contains("expected 3 data source readings"));
    client.order("UPDATE t.rrd 1000000030:3:3:4");
    client.order("FLUSH t.rrd");
    // rrdtool reads what is left.
    let judged = Command::new("rrdtool").args(["lastupdate", "t.rrd"]).current_dir(&dir).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&judged.stdout), " x y z\n\n1000000030: 3 3 4\n");
    for wrong in ["TUNE", "TUNE t.rrd", "TUNE t.rrd x --heartbeat x:5"] {
        assert!(client.ask(wrong)[0].starts_with("-1 Usage: TUNE"), "{wrong}");
    }
    // A count that is too small, and one that is too large: it is not trusted.
    client.order("TUNE t.rrd 0 --heartbeat x:70 --heartbeat y:70");
    client.order("TUNE t.rrd 99999 --heartbeat x:80");
    assert!(client.ask("TUNE t.rrd 2 --heartbeat q:5")[0].starts_with("-1 RRD Error: "));
    assert!(client.ask("TUNE no.rrd 2 --heartbeat q:5")[0].starts_with("-1 RRD Error: "));
}

#[test]
fn clients_that_read_and_change_at_once_never_see_half_a_file() {
    let dir = oracle::directory("together");
    let daemon = Daemon::ours(&dir, &["-j", "log", "-w", "0"]);
    let mut client = daemon.client();
    served::create(&mut client, "t.rrd");
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let work = |lines: &'static [&'static str]| {
            let (daemon, stop) = (&daemon, &stop);
            scope.spawn(move || {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    for line in lines {
                        let mut client = daemon.client();
                        client.send(&format!("{line}\nQUIT\n"));
                        let answer = String::from_utf8_lossy(&client.rest()).into_owned();
                        assert!(!answer.starts_with('-'), "{line}: {answer}");
                        // A row that is older than the newest must be known.
                        let rows = answer.lines().filter_map(|line| line.split_once(": "));
                        let values: Vec<&str> = rows
                            .filter(|(time, _)| {
                                time.trim().parse::<u64>().is_ok_and(|time| time > 1_000_000_000)
                            })
                            .map(|(_, value)| value)
                            .collect();
                        let known = values.iter().rposition(|value| !value.contains("nan")).unwrap_or(0);
                        assert!(values[..known].iter().all(|value| !value.contains("nan")), "{answer}");
                    }
                }
            });
        };
        work(&["FETCH t.rrd LAST 1000000000 1000000400", "INFO t.rrd", "LAST t.rrd"]);
        work(&["DUMP t.rrd", "TUNE t.rrd 2 --heartbeat x:100000", "FLUSH t.rrd"]);
        for time in 1_000_000_001..1_000_000_300 {
            client.order(&update("t.rrd", time));
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    client.order("FLUSH t.rrd");
    served::check(&dir.join("t.rrd"), &(1_000_000_001..1_000_000_300).collect::<Vec<_>>());
}
