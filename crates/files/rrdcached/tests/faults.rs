//! What the daemon does when files and disks fail: samples are kept, and the failure is reported.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../../rrd/tests/oracle/mod.rs"]
mod oracle;
mod served;

use std::fs::OpenOptions;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use khz_rrd::file::{Access, Rrd};
use served::{Client, Daemon, check, create, last_on_disk, update};

const FIRST: i64 = 1_000_000_001;

/// A daemon with a log and messages in a file, and one update that waits for `t.rrd`.
fn with_one_update(name: &str, more: &[&str]) -> (std::path::PathBuf, Daemon, Client) {
    let dir = oracle::directory(name);
    let mut arguments = vec!["-j", "log", "-o", "messages"];
    arguments.extend(more);
    let daemon = Daemon::ours(&dir, &arguments);
    let mut client = daemon.client();
    create(&mut client, "t.rrd");
    client.order(&update("t.rrd", FIRST));
    (dir, daemon, client)
}

/// FLUSH fails with `error`; the client, STATS and the messages show it; the sample is kept.
fn fails(client: &mut Client, dir: &Path, error: &str) {
    let before = client.stat("WritesFailed");
    let answer = client.ask("FLUSH t.rrd");
    assert!(answer[0].starts_with("-1 ") && answer[0].contains(error), "{answer:?}");
    assert_eq!(client.stat("WritesFailed"), before + 1);
    assert_eq!((client.stat("FilesFailed"), client.stat("UpdatesPending")), (1, 1));
    assert_eq!(client.ask("PENDING t.rrd"), ["1 updates pending", &format!("{FIRST}:1")]);
    let messages = std::fs::read_to_string(dir.join("messages")).unwrap();
    assert!(
        messages.contains("1 updates are kept and tried again") && messages.contains(error),
        "{messages}"
    );
}

fn heals(client: &mut Client, dir: &Path) {
    client.order("FLUSH t.rrd");
    check(&dir.join("t.rrd"), &[FIRST]);
    assert_eq!(client.stat("UpdatesPending"), 0);
}

#[test]
fn a_file_locked_by_somebody_else_keeps_its_values_and_is_tried_again() {
    let (dir, _daemon, mut client) = with_one_update("locked", &[]);
    let held = Rrd::open(&dir.join("t.rrd"), Access::Write).unwrap();
    fails(&mut client, &dir, &format!("could not lock RRD '{}'", dir.join("t.rrd").display()));
    drop(held);
    // Without another request.
    client.wait_for("UpdatesPending", |waiting| waiting == 0);
    check(&dir.join("t.rrd"), &[FIRST]);
    assert_eq!(client.stat("FilesFailed"), 0);
}

/// Sets the largest size of files of a process; `None` for no limit.
fn limit_files(daemon: &Daemon, bytes: Option<u64>) {
    use rustix::process::{Pid, Resource, Rlimit, prlimit};
    let pid = Pid::from_child(&daemon.child);
    prlimit(Some(pid), Resource::Fsize, Rlimit { current: bytes, maximum: None }).unwrap();
}

#[test]
fn a_header_of_which_half_could_be_written_is_taken_back() {
    let dir = oracle::directory("half");
    // A process that writes beyond the limit is killed, unless it ignores the signal; a full disk kills nobody.
    let mut command = Command::new("sh");
    let program = env!("CARGO_BIN_EXE_khz-rrdcached");
    let start =
        format!("trap '' XFSZ; exec {program} rrdcached -b {} -j log -o messages \"$@\"", dir.display());
    command.args(["-c", &start, "sh"]);
    let daemon = Daemon::spawn(command, &dir);
    let mut client = daemon.client();
    // Its live header is from byte 60,368 on, and no row is due between two steps.
    let sources: Vec<String> = (0..500).map(|index| format!("DS:s{index}:GAUGE:100000:U:U")).collect();
    client.order(&format!("CREATE t.rrd -s 300 -b 1000000000 {} RRA:LAST:0.5:1:50", sources.join(" ")));
    let update = |time: i64| format!("UPDATE t.rrd {time}{}", format!(":{}", time % 1000).repeat(500));
    client.order(&update(1_000_000_010));
    client.order("FLUSH t.rrd");
    let before = std::fs::read(dir.join("t.rrd")).unwrap();
    client.order(&update(1_000_000_020));
    limit_files(&daemon, Some(70_000));
    let answer = client.ask("FLUSH t.rrd");
    assert!(answer[0].contains("writing") && answer[0].contains("File too large"), "{answer:?}");
    assert!(std::fs::read(dir.join("t.rrd")).unwrap() == before, "half of a header is left");
    limit_files(&daemon, None);
    client.order("FLUSH t.rrd");
    assert_eq!(last_on_disk(&dir.join("t.rrd")), 1_000_000_020);
    assert_eq!((client.stat("UpdatesRefused"), client.stat("UpdatesPending")), (0, 0));
}

#[test]
fn a_sample_with_a_blank_in_it_is_refused_and_no_part_of_it_is_taken() {
    let dir = oracle::directory("blank");
    let daemon = Daemon::ours(&dir, &[]);
    let mut client = daemon.client();
    create(&mut client, "t.rrd");
    for sample in ["1000000001:1\\ 2", "1000000001:1\\ 1000000002:2"] {
        let answer = client.ask(&format!("UPDATE t.rrd {sample}"));
        assert!(answer[0].starts_with("-1 a blank within a sample: '1000000001:1 "), "{answer:?}");
        assert_eq!(client.stat("UpdatesPending"), 0);
    }
    client.order("UPDATE t.rrd 1000000001:1 1000000002:2");
    assert_eq!(client.stat("UpdatesPending"), 2);
}

#[test]
fn a_read_only_file_keeps_its_values() {
    let dir = oracle::directory("readonly");
    let root = dir.metadata().unwrap().uid() == 0;
    std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o777)).unwrap();
    // Root may write everything, so the daemon runs as another user.
    let user: &[&str] = if root { &["-U", "nobody"] } else { &[] };
    std::fs::write(dir.join("messages"), "").unwrap();
    let daemon = Daemon::ours(&dir, &[&["-j", "log", "-o", "messages"], user].concat());
    let mut client = daemon.client();
    create(&mut client, "t.rrd");
    client.order(&update("t.rrd", FIRST));
    let mode =
        |mode| std::fs::set_permissions(dir.join("t.rrd"), std::fs::Permissions::from_mode(mode)).unwrap();
    mode(0o444);
    fails(&mut client, &dir, &format!("opening '{}': Permission denied", dir.join("t.rrd").display()));
    mode(0o644);
    heals(&mut client, &dir);
}

#[test]
fn a_deleted_file_keeps_its_values_until_it_is_there_again() {
    let (dir, _daemon, mut client) = with_one_update("deleted", &[]);
    std::fs::rename(dir.join("t.rrd"), dir.join("away")).unwrap();
    fails(
        &mut client,
        &dir,
        &format!("opening '{}': No such file or directory", dir.join("t.rrd").display()),
    );
    std::fs::rename(dir.join("away"), dir.join("t.rrd")).unwrap();
    heals(&mut client, &dir);
}

#[test]
fn a_file_replaced_while_it_is_kept_open_gets_its_values_itself() {
    let (dir, _daemon, mut client) = with_one_update("replaced", &[]);
    std::fs::copy(dir.join("t.rrd"), dir.join("copy")).unwrap();
    client.order("FLUSH t.rrd");
    std::fs::rename(dir.join("copy"), dir.join("t.rrd")).unwrap();
    assert_eq!(last_on_disk(&dir.join("t.rrd")), 1_000_000_000);
    client.order(&update("t.rrd", FIRST + 1));
    client.order("FLUSH t.rrd");
    check(&dir.join("t.rrd"), &[FIRST + 1]);
}

#[test]
fn samples_older_than_what_somebody_else_wrote_are_counted_and_reported() {
    let (dir, _daemon, mut client) = with_one_update("older", &[]);
    let direct = Command::new("rrdtool").args(["update", "t.rrd", "1000000009:9"]).current_dir(&dir).status();
    assert!(direct.unwrap().success());
    let why = "1 of 1 updates are dropped: not newer than the file, which somebody else has written";
    assert_eq!(client.ask("FLUSH t.rrd"), [format!("-1 {}: {why}", dir.join("t.rrd").display())]);
    assert_eq!((client.stat("UpdatesRefused"), client.stat("UpdatesPending")), (1, 0));
    let messages = std::fs::read_to_string(dir.join("messages")).unwrap();
    assert!(messages.contains("not newer than the file"), "{messages}");
    check(&dir.join("t.rrd"), &[1_000_000_009]);
    // What would be dropped again is not taken again.
    let refused = client.ask(&update("t.rrd", FIRST + 1)).remove(0);
    assert!(refused.contains("when last update time is 1000000009.0"), "{refused}");
    client.order(&update("t.rrd", 1_000_000_010));
    client.order("FLUSH t.rrd");
    check(&dir.join("t.rrd"), &[1_000_000_009, 1_000_000_010]);
}

#[test]
fn a_file_that_gets_another_source_takes_what_fits_and_keeps_what_does_not() {
    let (dir, _daemon, mut client) = with_one_update("sources", &[]);
    client.order("FLUSH t.rrd");
    let tune = |source: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_khz-rrdcached"));
        command.args(["tune", "t.rrd", source]).current_dir(&dir).env_remove("RRDCACHED_ADDRESS");
        assert!(command.status().unwrap().success());
    };
    // What fits is taken at once.
    tune("DS:y:GAUGE:100000:U:U");
    client.order("UPDATE t.rrd 1000000002:2:0");
    let refused = client.ask("UPDATE t.rrd 1000000003:3").remove(0);
    assert!(refused.contains("expected 2 data source readings (got 1)"), "{refused}");
    // What waits and does not fit any more is not thrown away.
    tune("DEL:y");
    let answer = client.ask("FLUSH t.rrd").remove(0);
    assert!(answer.starts_with("-1 ") && answer.contains("has 1 data sources now"), "{answer}");
    assert_eq!(client.ask("PENDING t.rrd"), ["1 updates pending", "1000000002:2:0"]);
    assert_eq!((client.stat("FilesFailed"), client.stat("UpdatesRefused")), (1, 0));
    let refused = client.ask("UPDATE t.rrd 1000000003:3:0").remove(0);
    assert!(refused.contains("expected 1 data source readings (got 2)"), "{refused}");
    tune("DS:y:GAUGE:100000:U:U");
    client.order("FLUSH t.rrd");
    let rrd = Rrd::open(&dir.join("t.rrd"), Access::Read).unwrap();
    assert_eq!((rrd.header.last_update(), client.stat("FilesFailed")), (FIRST + 1, 0));
}

#[test]
fn a_file_that_stays_away_is_reported_once() {
    let (dir, _daemon, mut client) = with_one_update("away", &[]);
    std::fs::remove_file(dir.join("t.rrd")).unwrap();
    for _ in 0..3 {
        fails(&mut client, &dir, "No such file or directory");
    }
    let messages = std::fs::read_to_string(dir.join("messages")).unwrap();
    assert_eq!(messages.lines().count(), 1, "{messages}");
}

#[test]
fn a_log_belongs_to_one_daemon() {
    let (dir, mut daemon, _client) = with_one_update("alone", &[]);
    let mut second = Command::new(env!("CARGO_BIN_EXE_khz-rrdcached"));
    second.args(["rrdcached", "-g", "-j", "log", "-b", ".", "-l", "unix:second"]).current_dir(&dir);
    let mut second = second.stderr(std::process::Stdio::piped()).spawn().unwrap();
    let started = std::time::Instant::now();
    let ended = loop {
        match second.try_wait().unwrap() {
            Some(status) => break status,
            None if started.elapsed() < served::PATIENCE => std::thread::yield_now(),
            None => {
                second.kill().unwrap();
                second.wait().unwrap();
                panic!("a second daemon runs over the same log");
            }
        }
    };
    let error = std::io::read_to_string(second.stderr.take().unwrap()).unwrap();
    let told = format!("another daemon has its log in '{}'", dir.join("log").display());
    assert!(!ended.success() && error.contains(&told), "{error}");
    // And it has left the first one's log alone.
    daemon.kill();
    let daemon = Daemon::ours(&dir, &["-j", "log"]);
    heals(&mut daemon.client(), &dir);
}

#[test]
fn a_file_that_cannot_be_written_does_not_fill_a_small_log() {
    let dir = oracle::directory("stuck");
    // On a disk of its own: a checkpoint waits for everything that other processes write to the disk.
    let limits = ["-j", "small/log", "--log-max", "64K", "-w", "3600"];
    let daemon = Daemon::spawn(small_disk(&dir, "2m", &limits), &dir);
    let mut client = daemon.client();
    create(&mut client, "small/t.rrd");
    create(&mut client, "small/busy.rrd");
    client.order(&update("small/t.rrd", FIRST));
    std::fs::remove_file(format!("/proc/{}/root{}/small/t.rrd", daemon.child.id(), dir.display())).unwrap();
    let (mut time, mut taken) = (FIRST, std::time::Instant::now());
    // Several times what the log holds.
    while time < FIRST + 4900 {
        let mut text = String::from("BATCH\n");
        for offset in 0..100 {
            text.push_str(&update("small/busy.rrd", time + offset));
            text.push('\n');
        }
        client.send(&text);
        client.send(".\n");
        client.answer().unwrap();
        // A batch that comes in one piece is taken as a whole, or refused as a whole until the next tick.
        match client.answer().unwrap().get(1) {
            None => (time, taken) = (time + 100, std::time::Instant::now()),
            Some(error) => assert!(taken.elapsed() < served::PATIENCE, "it takes nothing any more: {error}"),
        }
    }
    assert_eq!(client.ask("PENDING small/t.rrd"), ["1 updates pending", &format!("{FIRST}:1")]);
}

#[test]
fn stamps_of_milliseconds_come_back_as_they_were() {
    let (_dir, _daemon, mut client) = with_one_update("millis", &[]);
    let mut wanted = vec!["21 updates pending".to_string(), format!("{FIRST}:1")];
    for time in 1_700_000_000_900i64..1_700_000_000_920 {
        client.order(&format!("UPDATE t.rrd {time}:1"));
        wanted.push(format!("{time}:1"));
    }
    assert_eq!(client.ask("PENDING t.rrd"), wanted);
}

#[test]
fn a_batch_answers_the_beginning_of_each_error() {
    let (_dir, _daemon, mut client) = with_one_update("batch", &[]);
    let long = "ä".repeat(30_000);
    client.send(&format!("BATCH\nUPDATE t.rrd {long}\nUPDATE t.rrd 1000000002:2\nFOO{long}\n.\n"));
    client.answer().unwrap();
    let errors = client.answer().unwrap();
    assert_eq!(errors[0], "2 errors");
    assert!(errors[1].starts_with("1 Cannot find timestamp in 'ä"), "{errors:?}");
    assert!(errors[2].starts_with("3 Unknown command: FOOä"), "{errors:?}");
    assert!(errors.iter().all(|error| error.len() < 400), "{errors:?}");
}

#[test]
fn damaged_files_are_reported_with_path_and_place_and_left_alone() {
    let (dir, _daemon, mut client) = with_one_update("damaged", &[]);
    let path = dir.join("t.rrd");
    let good = std::fs::read(&path).unwrap();
    let pointer = {
        let rrd = Rrd::open(&path, Access::Read).unwrap();
        rrd.header.layout().ptr(0)
    };
    // Bytes to change or the length to cut to, and what is said.
    let flip = |at: usize| {
        let mut bytes = good.clone();
        bytes[at] ^= 0x80;
        bytes
    };
    let name = path.display();
    let cases = [
        (flip(0), "is not an RRD file", format!("('{name}' at byte 0)")),
        (flip(16), "another architecture", format!("('{name}' at byte 16)")),
        (
            flip(27),
            "reached EOF while loading header rrd->ds_def",
            format!("('{name}' at byte {})", good.len()),
        ),
        (flip(pointer + 7), "has 5000 rows but its current row is", format!("('{name}' at byte {pointer})")),
        (
            good[..100].to_vec(),
            "reached EOF while loading header rrd->stat_head",
            format!("('{name}' at byte 100)"),
        ),
        (good[..good.len() - 8].to_vec(), "is too small", format!("('{name}' at byte {})", good.len() - 8)),
    ];
    for (bytes, what, place) in cases {
        // In place: the daemon may keep the file open.
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(bytes.len() as u64).unwrap();
        file.write_all_at(&bytes, 0).unwrap();
        fails(&mut client, &dir, what);
        let answer = client.ask("FLUSH t.rrd").remove(0);
        assert!(answer.contains(&place), "{answer}");
        for looking in ["INFO t.rrd", "FETCH t.rrd LAST", "FIRST t.rrd 0", "DUMP t.rrd"] {
            let answer = client.ask(looking).remove(0);
            assert!(answer.starts_with("-1 ") && answer.contains(&place), "{looking}: {answer}");
        }
        assert_eq!(std::fs::read(&path).unwrap(), bytes, "{what}: it was written");
    }
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(good.len() as u64).unwrap();
    file.write_all_at(&good, 0).unwrap();
    heals(&mut client, &dir);
}

#[test]
fn a_sample_that_the_file_refuses_is_dropped_alone_and_reported() {
    let (dir, _daemon, mut client) = with_one_update("reading", &[]);
    client.order("UPDATE t.rrd 1000000002:x 1000000003:3");
    let answer = client.ask("FLUSH t.rrd").remove(0);
    assert!(answer.starts_with("-1 ") && answer.contains(": 1 of 3 updates are dropped: "), "{answer}");
    client.order("FLUSH t.rrd");
    check(&dir.join("t.rrd"), &[FIRST, 1_000_000_003]);
    assert_eq!(client.stat("UpdatesRefused"), 1);
    let messages = std::fs::read_to_string(dir.join("messages")).unwrap();
    assert!(messages.contains("the update 1000000002:x is dropped"), "{messages}");
}

/// Mounts a file system of `size` at `dir/small`; in a namespace of its own where the test is not root.
fn small_disk(dir: &Path, size: &str, daemon: &[&str]) -> Command {
    let script = r#"mount -t tmpfs -o size="$1" none "$2" && shift 2 && exec "$@""#;
    let mut command = Command::new("unshare");
    command.args(["-rm", "sh", "-c", script, "sh", size]).arg(dir.join("small"));
    std::fs::create_dir(dir.join("small")).unwrap();
    command
        .arg(env!("CARGO_BIN_EXE_khz-rrdcached"))
        .arg("rrdcached")
        .args(["-b", dir.to_str().unwrap()])
        .args(daemon);
    command
}

#[test]
fn a_full_disk_refuses_updates_loses_none_and_takes_more_when_it_has_room() {
    let dir = oracle::directory("full");
    let daemon = Daemon::spawn(small_disk(&dir, "256k", &["-j", "small", "-o", "messages"]), &dir);
    let mut client = daemon.client();
    create(&mut client, "t.rrd");
    let (mut time, mut acknowledged) = (FIRST, vec![]);
    let error = loop {
        // Batches, so that few requests fill it.
        let mut text = String::from("BATCH\n");
        for offset in 0..100 {
            text.push_str(&update("t.rrd", time + offset));
            text.push('\n');
        }
        client.send(&text);
        client.send(".\n");
        client.answer().unwrap();
        let errors = client.answer().unwrap();
        if errors.len() == 1 {
            acknowledged.extend(time..time + 100);
            time += 100;
            assert!(time < FIRST + 4900, "the disk does not fill");
        } else {
            break errors[1].clone();
        }
    };
    assert!(error.contains("cannot be written: No space left on device"), "{error}");
    assert_eq!(client.stat("LogInTrouble"), 1);
    let messages = std::fs::read_to_string(dir.join("messages")).unwrap();
    assert!(messages.contains("No space left on device"), "{messages}");
    // The files are on another disk; what is in them need not be in the log.
    client.order("FLUSH t.rrd");
    check(&dir.join("t.rrd"), &acknowledged);
    let last = last_on_disk(&dir.join("t.rrd"));
    client.wait_for("LogBytes", |bytes| bytes < 1000);
    for time in last + 1..last + 100 {
        client.order(&update("t.rrd", time));
    }
    client.order("FLUSH t.rrd");
    check(&dir.join("t.rrd"), &(last + 1..last + 100).collect::<Vec<_>>());
}

#[test]
fn a_file_that_does_not_fit_its_disk_is_not_created_and_leaves_nothing() {
    let dir = oracle::directory("fullcreate");
    let daemon = Daemon::spawn(small_disk(&dir, "64k", &[]), &dir);
    let mut client = daemon.client();
    let answer = client.ask("CREATE small/t.rrd DS:x:GAUGE:60:U:U RRA:LAST:0.5:1:50000");
    assert!(answer[0].contains("No space left on device"), "{answer:?}");
    assert_eq!(client.ask("LIST /small"), ["0 RRDs"]);
}

#[test]
fn a_file_larger_than_its_disk_is_refused_before_anything_is_written() {
    let dir = oracle::directory("toolarge");
    let daemon = Daemon::spawn(small_disk(&dir, "64k", &[]), &dir);
    let mut client = daemon.client();
    let answer = client.ask("CREATE small/t.rrd DS:x:GAUGE:60:U:U RRA:LAST:0.5:1:99999999999").remove(0);
    assert!(answer.contains("No space left on device: it takes 8000000"), "{answer}");
}

#[test]
fn a_create_that_is_killed_leaves_nothing() {
    let dir = oracle::directory("killedcreate");
    // The system kills a process that writes more than 100 KB.
    let script = r#"ulimit -f 100; exec "$0" create t.rrd DS:x:GAUGE:60:U:U RRA:LAST:0.5:1:100000"#;
    let mut command = Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_khz-rrdcached")]).current_dir(&dir);
    let ended = command.env_remove("RRDCACHED_ADDRESS").status().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&ended), Some(libc::SIGXFSZ));
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0);
}

#[test]
fn at_its_limit_of_memory_it_refuses_and_says_how_old_its_backlog_is() {
    let dir = oracle::directory("memory");
    let daemon = Daemon::ours(&dir, &["--memory-max", "16K"]);
    let mut client = daemon.client();
    create(&mut client, "t.rrd");
    // Suspended, so that writing earlier does not help.
    client.order(&update("t.rrd", FIRST));
    client.order("SUSPEND t.rrd");
    let refused = (FIRST + 1..FIRST + 5000).find_map(|time| {
        let answer = client.ask(&update("t.rrd", time)).remove(0);
        answer.starts_with('-').then_some(answer)
    });
    let refused = refused.expect("there is no limit");
    assert!(refused.contains("bytes of updates wait to be written, the oldest for "), "{refused}");
    assert!(refused.ends_with("at most 16384 are held"), "{refused}");
    assert!(client.stat("BacklogBytes") <= 16384);
    client.order("RESUME t.rrd");
    client.order("FLUSH t.rrd");
    let last = last_on_disk(&dir.join("t.rrd"));
    client.order(&update("t.rrd", last + 1));
}

#[test]
fn near_its_limit_it_writes_earlier() {
    let dir = oracle::directory("near");
    let daemon = Daemon::ours(&dir, &["--memory-max", "16K", "-w", "3600"]);
    let mut client = daemon.client();
    create(&mut client, "t.rrd");
    let mut time = FIRST;
    while client.stat("BacklogBytes") <= 16384 / 4 * 3 {
        client.order(&update("t.rrd", time));
        time += 1;
    }
    client.wait_for("UpdatesWritten", |written| written > 0);
    check(&dir.join("t.rrd"), &(FIRST..time).collect::<Vec<_>>());
}

#[test]
fn at_its_limit_of_log_it_refuses_and_goes_on_when_files_are_written() {
    let dir = oracle::directory("loglimit");
    let daemon = Daemon::ours(&dir, &["-j", "log", "--log-max", "8K", "-w", "3600"]);
    let mut client = daemon.client();
    create(&mut client, "t.rrd");
    let mut acknowledged = vec![];
    let mut refused = None;
    for time in FIRST..FIRST + 4000 {
        let answer = client.ask(&update("t.rrd", time)).remove(0);
        if answer.starts_with('-') {
            refused = Some(answer);
            break;
        }
        acknowledged.push(time);
    }
    let refused = refused.expect("there is no limit");
    assert!(
        refused.contains("bytes not yet in their files; at most 8192; the oldest waits for"),
        "{refused}"
    );
    client.order("FLUSH t.rrd");
    check(&dir.join("t.rrd"), &acknowledged);
    let time = acknowledged.last().unwrap() + 1;
    let started = std::time::Instant::now();
    while client.ask(&update("t.rrd", time))[0].starts_with('-') {
        assert!(started.elapsed() < served::PATIENCE, "it takes nothing any more");
        std::thread::yield_now();
    }
}

#[test]
fn a_confined_daemon_touches_nothing_outside() {
    let (dir, outside) = (oracle::directory("confined"), oracle::directory("outside"));
    oracle::Oracle::start(&outside).run("create t.rrd --start 1000000000 DS:x:GAUGE:60:U:U RRA:LAST:0.5:1:5");
    std::os::unix::fs::symlink(&outside, dir.join("link")).unwrap();
    std::os::unix::fs::symlink(outside.join("t.rrd"), dir.join("file.rrd")).unwrap();
    let before = std::fs::read(outside.join("t.rrd")).unwrap();
    let daemon = Daemon::ours(&dir, &["-B", "-R"]);
    let mut client = daemon.client();
    let direct = format!("{}/t.rrd", outside.display());
    for name in ["link/t.rrd", "file.rrd", &direct, "../outside/t.rrd", "link/../link/t.rrd"] {
        for command in [
            "UPDATE {} 1000000300:1",
            "INFO {}",
            "FLUSH {}",
            "FETCH {} LAST",
            "FIRST {} 0",
            "LAST {}",
            "DUMP {}",
            "TUNE {} 2 --heartbeat x:700",
        ] {
            let answer = client.ask(&command.replace("{}", name));
            assert!(answer[0].contains("Permission denied"), "{command} {name}: {answer:?}");
        }
    }
    for name in ["link/new.rrd", "link/deep/new.rrd", "../new.rrd"] {
        let answer = client.ask(&format!("CREATE {name} DS:x:GAUGE:60:U:U RRA:LAST:0.5:1:5"));
        assert!(answer[0].contains("Permission denied"), "{name}: {answer:?}");
    }
    for path in ["/link", "/link/", "/.."] {
        assert!(client.ask(&format!("LIST {path}"))[0].contains("Permission denied"), "{path}");
    }
    // A link in the place of a directory of a known file.
    create(&mut client, "sub/t.rrd");
    client.order(&update("sub/t.rrd", FIRST));
    std::fs::rename(dir.join("sub"), dir.join("was")).unwrap();
    std::os::unix::fs::symlink(&outside, dir.join("sub")).unwrap();
    assert!(client.ask("FLUSH sub/t.rrd")[0].contains("Permission denied"));
    assert_eq!(std::fs::read(outside.join("t.rrd")).unwrap(), before);
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 1);
}

/// Turns of the scheduler for which a name stays a file.
const DWELL: u32 = 300;

/// A name that is a file of the daemon's at one moment and a link to one outside at the next, until dropped.
struct Flicker(std::sync::Arc<std::sync::atomic::AtomicBool>, Option<std::thread::JoinHandle<()>>);

impl Flicker {
    fn start(name: std::path::PathBuf, outside: std::path::PathBuf) -> Self {
        let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let (stopped, spare) = (stop.clone(), name.with_extension("spare"));
        let inside = std::fs::read(&name).unwrap();
        let work = move || {
            while !stopped.load(std::sync::atomic::Ordering::Relaxed) {
                std::os::unix::fs::symlink(&outside, &spare).unwrap();
                std::fs::rename(&spare, &name).unwrap();
                std::fs::write(&spare, &inside).unwrap();
                std::fs::rename(&spare, &name).unwrap();
                // Long enough for some commands to succeed.
                (0..DWELL).for_each(|_| std::thread::yield_now());
            }
        };
        Self(stop, Some(std::thread::spawn(work)))
    }
}

impl Drop for Flicker {
    fn drop(&mut self) {
        self.0.store(true, std::sync::atomic::Ordering::Relaxed);
        self.1.take().unwrap().join().unwrap();
    }
}

#[test]
fn a_link_made_at_the_wrong_moment_leads_nowhere() {
    let (dir, outside) = (oracle::directory("flicker"), oracle::directory("flicker-outside"));
    let create = "--start 1000000000 DS:secret:GAUGE:60:U:U RRA:LAST:0.5:1:5";
    oracle::Oracle::start(&outside).run(&format!("create t.rrd {create}"));
    let secret = std::fs::read(outside.join("t.rrd")).unwrap();
    let daemon = Daemon::ours(&dir, &["-B"]);
    let mut client = daemon.client();
    for name in ["t.rrd", "source.rrd"] {
        client.order(&format!("CREATE {name} -b 1000000000 DS:x:GAUGE:60:U:U RRA:LAST:0.5:1:5"));
    }
    let _flicker = ["t.rrd", "source.rrd"].map(|name| Flicker::start(dir.join(name), outside.join("t.rrd")));
    let mut done = [0; 4];
    for turn in 0..400 {
        // In place, made again, from a source, from a template.
        let commands = [
            format!("TUNE t.rrd 2 --heartbeat x:{}", 60 + turn),
            "TUNE t.rrd 1 RRA:LAST:0.5:1:9".to_string(),
            "CREATE new.rrd -s 60 -r source.rrd DS:x:GAUGE:60:U:U RRA:LAST:0.5:1:5".to_string(),
            "CREATE new.rrd -t source.rrd".to_string(),
        ];
        for (command, done) in commands.iter().zip(&mut done) {
            let answer = client.ask(command);
            *done += usize::from(answer[0].starts_with("0 "));
            assert!(!answer[0].contains("/proc/"), "{answer:?}");
        }
        let info = client.ask("INFO new.rrd").join("\n");
        assert!(!info.contains("secret"), "{info}");
    }
    // Some of each succeed, or this would show nothing.
    assert!(done.iter().all(|done| *done > 0), "{done:?}");
    assert!(std::fs::read(outside.join("t.rrd")).unwrap() == secret, "the file outside was changed");
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 1);
}
