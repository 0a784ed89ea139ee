//! The log's directory or its files are taken away while the daemon runs. Everything that it acknowledged, before or
//! after, is in the files when it is killed and started again. What it cannot keep it refuses, with the reason.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../../rrd/tests/oracle/mod.rs"]
mod oracle;
mod served;

use std::fs::{self, Permissions};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use served::{Client, Daemon, PATIENCE, check, create, update};

const FIRST: i64 = 1_000_000_001;
/// Updates before and after the loss.
const COUNT: i64 = 200;

/// A daemon in whose log the first updates are.
struct Case {
    dir: PathBuf,
    daemon: Daemon,
    client: Client,
    acknowledged: Vec<i64>,
    refused: Vec<String>,
}

/// Options of a daemon that writes to files only when it must.
const ARGUMENTS: [&str; 6] = ["-j", "log", "-o", "messages", "-w", "3600"];

impl Case {
    fn start(name: &str) -> Self {
        let dir = oracle::directory(name);
        let daemon = Daemon::ours(&dir, &ARGUMENTS);
        Self::with(dir, daemon)
    }

    fn with(dir: PathBuf, daemon: Daemon) -> Self {
        let mut client = daemon.client();
        create(&mut client, "t.rrd");
        let mut case = Self { dir, daemon, client, acknowledged: vec![], refused: vec![] };
        case.update(FIRST..FIRST + COUNT);
        assert_eq!(case.refused, Vec::<String>::new());
        case
    }

    fn log(&self) -> PathBuf {
        self.dir.join("log")
    }

    fn update(&mut self, times: std::ops::Range<i64>) {
        for time in times {
            let answer = self.client.ask(&update("t.rrd", time)).remove(0);
            match answer.strip_prefix("-1 ") {
                Some(why) => self.refused.push(why.into()),
                None => self.acknowledged.push(time),
            }
        }
    }

    fn more(&mut self) {
        self.update(FIRST + COUNT..FIRST + 2 * COUNT);
    }

    fn messages(&self) -> String {
        fs::read_to_string(self.dir.join("messages")).unwrap()
    }

    /// Waits for the message `what`, which comes at the next check of the log at the latest.
    fn told(&self, what: &str) {
        let started = Instant::now();
        while !self.messages().contains(what) {
            assert!(started.elapsed() < PATIENCE, "{}", self.messages());
            std::thread::yield_now();
        }
    }

    /// Every update is acknowledged, in a rebuilt log.
    fn goes_on(&mut self) {
        self.more();
        assert_eq!(self.refused, Vec::<String>::new());
        self.client.wait_for("LogInTrouble", |trouble| trouble == 0);
        self.told("the log is rebuilt, and all that waits is logged once more");
    }

    /// Updates are refused with `why`, and what waits is written to the files.
    fn refuses(&mut self, why: &str) {
        self.more();
        assert!(self.refused.iter().any(|text| text.contains(why)), "{:?}", self.refused.first());
        assert_eq!(self.client.stat("LogInTrouble"), 1);
        self.told(why);
        self.told("what waits is written to the files");
        self.client.wait_for("UpdatesPending", |waiting| waiting == 0);
    }

    /// Kills the daemon and starts another one over the log in `log`: nothing acknowledged is missing.
    fn survives(mut self, log: &str) {
        self.daemon.kill();
        let daemon = Daemon::ours(&self.dir, &["-j", log, "-w", "3600"]);
        let mut client = daemon.client();
        // Where all of it was written, nothing is known of the file.
        client.ask("FLUSH t.rrd");
        check(&self.dir.join("t.rrd"), &self.acknowledged);
        assert!(self.acknowledged.len() >= COUNT as usize);
    }
}

#[test]
fn a_log_directory_that_is_removed_is_made_again_with_all_that_waits() {
    let mut case = Case::start("log-removed");
    fs::remove_dir_all(case.log()).unwrap();
    case.goes_on();
    case.told("No such file or directory");
    case.survives("log");
}

#[test]
fn a_log_directory_that_is_removed_while_nothing_comes_is_made_again() {
    let mut case = Case::start("log-idle");
    fs::remove_dir_all(case.log()).unwrap();
    case.told("the log is rebuilt");
    assert_eq!(case.client.stat("UpdatesPending"), COUNT as u64);
    case.survives("log");
}

#[test]
fn a_log_directory_that_is_renamed_is_made_again() {
    let mut case = Case::start("log-renamed");
    fs::rename(case.log(), case.dir.join("away")).unwrap();
    case.goes_on();
    case.survives("log");
}

#[test]
fn an_empty_directory_in_its_place_becomes_the_log() {
    let mut case = Case::start("log-replaced");
    fs::rename(case.log(), case.dir.join("away")).unwrap();
    fs::create_dir(case.log()).unwrap();
    case.goes_on();
    case.survives("log");
}

#[test]
fn a_copy_of_the_log_in_its_place_is_left_alone() {
    let mut case = Case::start("log-copy");
    let copied = Command::new("cp").arg("-a").arg(case.log()).arg(case.dir.join("copy")).status().unwrap();
    assert!(copied.success());
    fs::rename(case.log(), case.dir.join("away")).unwrap();
    fs::rename(case.dir.join("copy"), case.log()).unwrap();
    case.refuses("another file has its name");
    case.told("is another directory with a log in it");
    case.survives("log");
}

#[test]
fn a_file_in_its_place_has_updates_refused_and_files_written() {
    let mut case = Case::start("log-file");
    fs::rename(case.log(), case.dir.join("away")).unwrap();
    fs::write(case.log(), "").unwrap();
    case.refuses("Not a directory");
    // When it is back, the log continues.
    fs::remove_file(case.log()).unwrap();
    fs::rename(case.dir.join("away"), case.log()).unwrap();
    case.client.wait_for("LogInTrouble", |trouble| trouble == 0);
    case.told("the log is where it belongs again");
    let refused = case.refused.len();
    case.update(FIRST + 2 * COUNT..FIRST + 3 * COUNT);
    assert_eq!(case.refused.len(), refused);
    case.survives("log");
}

#[test]
fn segments_that_are_unlinked_renamed_or_cut_are_written_again() {
    type Damage = fn(&Path);
    let cases: [(&str, Damage); 3] = [
        ("unlinked", |segment| fs::remove_file(segment).unwrap()),
        ("moved", |segment| fs::rename(segment, segment.with_extension("away")).unwrap()),
        ("cut", |segment| fs::write(segment, "").unwrap()),
    ];
    for (name, damage) in cases {
        let mut case = Case::start(name);
        for entry in fs::read_dir(case.log()).unwrap() {
            damage(&entry.unwrap().path());
        }
        case.goes_on();
        case.survives("log");
    }
}

#[test]
fn an_older_segment_that_is_unlinked_is_written_again() {
    let mut case = Case::start("older");
    // A small log has small segments.
    drop(case.daemon);
    case.daemon = Daemon::ours(&case.dir, &[&ARGUMENTS[..], &["--log-max", "64K"]].concat());
    case.client = case.daemon.client();
    case.client.wait_for("Replaying", |replaying| replaying == 0);
    let mut segments: Vec<PathBuf> =
        fs::read_dir(case.log()).unwrap().map(|entry| entry.unwrap().path()).collect();
    segments.sort();
    assert!(segments.len() > 1, "{segments:?}");
    fs::remove_file(&segments[0]).unwrap();
    case.told("the log is rebuilt");
    case.more();
    assert_eq!(case.refused, Vec::<String>::new());
    case.survives("log");
}

#[test]
fn a_log_directory_that_is_read_only_for_its_user_goes_on_being_written() {
    let dir = oracle::directory("log-mode");
    fs::set_permissions(&dir, Permissions::from_mode(0o777)).unwrap();
    fs::write(dir.join("messages"), "").unwrap();
    let daemon = Daemon::ours(&dir, &[&ARGUMENTS[..], &["-U", "nobody"]].concat());
    let mut case = Case::with(dir, daemon);
    for mode in [0o555, 0o000] {
        fs::set_permissions(case.log(), Permissions::from_mode(mode)).unwrap();
        if mode != 0 {
            case.more();
            assert_eq!(case.refused, Vec::<String>::new());
        } else {
            // The next start could not read the log.
            case.update(FIRST + 2 * COUNT..FIRST + 3 * COUNT);
            assert!(case.refused[0].contains("Permission denied"), "{:?}", case.refused[0]);
            case.client.wait_for("UpdatesPending", |waiting| waiting == 0);
        }
    }
    fs::set_permissions(case.log(), Permissions::from_mode(0o755)).unwrap();
    case.client.wait_for("LogInTrouble", |trouble| trouble == 0);
    case.survives("log");
}

/// A daemon in a mount namespace of its own, after `script` has mounted something there; its first argument is the
/// directory. `None`, with the reason, where the system or our rights do not allow that.
fn in_namespace(name: &str, unshare: &str, script: &str, more: &[&str]) -> Result<Case, String> {
    let dir = oracle::directory(name);
    let disk = dir.join("disk");
    fs::create_dir(&disk).unwrap();
    let start = |script: String| {
        let mut command = Command::new("unshare");
        command.args([unshare, "sh", "-c", &script, "sh"]).arg(&dir);
        command
    };
    // The mounts of an attempt end with its namespace.
    let attempt = start(script.to_string()).output().map_err(|error| format!("unshare: {error}"))?;
    if !attempt.status.success() {
        return Err(format!("mounts in a namespace: {}", String::from_utf8_lossy(&attempt.stderr).trim()));
    }
    unmounted(&dir);
    let mut command = start(format!("{script} && shift && exec \"$@\""));
    command.arg(env!("CARGO_BIN_EXE_khz-rrdcached")).args(["rrdcached", "-b"]).arg(&dir);
    command.args(["-j", "disk/log", "-o", "messages", "-w", "3600"]).args(more);
    let daemon = Daemon::spawn(command, &dir);
    Ok(Case::with(dir, daemon))
}

/// One with its log on a disk in memory.
fn on_own_disk(name: &str, size: &str) -> Result<Case, String> {
    in_namespace(name, "-rm", &format!("mount -t tmpfs -o size={size} none \"$1/disk\""), &[])
}

/// Waits until the image of a disk in `dir` is mounted nowhere: the kernel tidies up after a namespace when it likes.
fn unmounted(dir: &Path) {
    let started = Instant::now();
    loop {
        let devices = Command::new("losetup").arg("-j").arg(dir.join("image")).output();
        if devices.is_err() || devices.is_ok_and(|output| output.stdout.is_empty()) {
            return;
        }
        assert!(started.elapsed() < PATIENCE, "the image stays mounted");
        std::thread::yield_now();
    }
}

impl Case {
    /// Runs a command in the namespace of the daemon; returns whether it succeeded.
    fn within(&self, command: &[&str]) -> bool {
        let pid = self.daemon.child.id().to_string();
        let mut nsenter = Command::new("nsenter");
        nsenter.args(["-U", "--preserve-credentials", "-m", "-t", &pid]).args(command);
        nsenter.stderr(Stdio::null()).current_dir("/").status().unwrap().success()
    }
}

#[test]
fn another_file_system_over_the_log_has_updates_refused_until_it_is_gone() {
    for at in ["disk", "disk/log"] {
        let mut case = match on_own_disk("log-over", "8m") {
            Ok(case) => case,
            Err(why) => return khz_skip::skip(why),
        };
        let place = case.dir.join(at).display().to_string();
        assert!(case.within(&["mount", "-t", "tmpfs", "none", &place]));
        case.refuses("the log would not be found after a restart");
        assert!(case.within(&["umount", &place]));
        case.client.wait_for("LogInTrouble", |trouble| trouble == 0);
        let refused = case.refused.len();
        case.update(FIRST + 2 * COUNT..FIRST + 3 * COUNT);
        assert_eq!(case.refused.len(), refused);
        // Nothing of this is left when the namespace ends: only the files count.
        case.client.order("FLUSH t.rrd");
        case.survives("other");
    }
}

#[test]
fn a_log_on_a_disk_that_becomes_full_refuses_and_keeps_what_it_acknowledged() {
    let mut case = match on_own_disk("log-full", "64k") {
        Ok(case) => case,
        Err(why) => return khz_skip::skip(why),
    };
    let filler = case.dir.join("disk/filler").display().to_string();
    case.within(&["dd", "if=/dev/zero", &format!("of={filler}"), "bs=4k"]);
    // Until the last page of the log is full.
    for round in 1..20 {
        case.update(FIRST + round * COUNT..FIRST + (round + 1) * COUNT);
        if !case.refused.is_empty() {
            break;
        }
    }
    assert!(case.refused[0].contains("No space left on device"), "{:?}", case.refused.first());
    assert_eq!(case.client.stat("LogInTrouble"), 1);
    case.told("No space left on device");
    assert!(case.within(&["rm", &filler]));
    let (started, time) = (Instant::now(), FIRST + 4_900);
    while case.client.ask(&update("t.rrd", time))[0].starts_with('-') {
        assert!(started.elapsed() < PATIENCE, "it does not take again");
    }
    case.acknowledged.push(time);
    let log = case.dir.join("disk/log").display().to_string();
    let kept = case.dir.join("kept").display().to_string();
    assert!(case.within(&["cp", "-r", &log, &kept]));
    case.survives("kept");
}

#[test]
fn a_log_mounted_read_only_is_written_until_a_new_segment_is_needed() {
    // The same directory once more, read-only, over itself: what the daemon holds open can still be written.
    let mut case = match in_namespace("log-bound", "-rm", "true", &["--log-max", "64K"]) {
        Ok(case) => case,
        Err(why) => return khz_skip::skip(why),
    };
    let log = case.dir.join("disk/log").display().to_string();
    assert!(case.within(&["mount", "--bind", &log, &log]));
    assert!(case.within(&["mount", "-o", "remount,bind,ro", &log]));
    for round in 1..20 {
        case.update(FIRST + round * COUNT..FIRST + (round + 1) * COUNT);
        if !case.refused.is_empty() {
            break;
        }
    }
    assert!(case.refused[0].contains("Read-only file system"), "{:?}", case.refused.first());
    assert!(case.acknowledged.len() > COUNT as usize);
    assert_eq!(case.client.stat("LogInTrouble"), 1);
    case.told("Read-only file system");
    assert!(case.within(&["umount", &log]));
    case.client.wait_for("LogInTrouble", |trouble| trouble == 0);
    let refused = case.refused.len();
    case.update(FIRST + 4_500..FIRST + 4_600);
    assert_eq!(case.refused.len(), refused);
    case.survives("disk/log");
}

#[test]
fn a_log_on_a_disk_that_becomes_read_only_refuses_and_keeps_what_it_acknowledged() {
    // A disk of its own in a file, that the kernel makes read-only after an error in it.
    let script = "cd \"$1\" && { [ -e image ] || { truncate -s 16M image && mkfs.ext4 -q image; }; } && \
        mount -t ext4 -o loop,errors=remount-ro image disk";
    // Nothing is acknowledged before it is on the disk.
    let synced = ["--commit-window", "0"];
    let mut case = match in_namespace("log-remounted", "-m", script, &synced) {
        Ok(case) => case,
        Err(why) => return khz_skip::skip(why),
    };
    let mounts = fs::read_to_string(format!("/proc/{}/mounts", case.daemon.child.id())).unwrap();
    let place = format!(" {} ", case.dir.join("disk").display());
    let device = mounts.lines().find(|line| line.contains(&place)).and_then(|line| line.split(' ').next());
    let device = device.and_then(|device| device.strip_prefix("/dev/")).unwrap();
    if let Err(error) = fs::write(format!("/sys/fs/ext4/{device}/trigger_fs_error"), "1") {
        return khz_skip::skip(format!("this kernel's ext4 has no errors to order: {error}"));
    }
    case.more();
    assert!(!case.refused.is_empty() && case.acknowledged.len() < 2 * COUNT as usize);
    assert!(case.refused[0].contains("Read-only file system"), "{:?}", case.refused[0]);
    assert_eq!(case.client.stat("LogInTrouble"), 1);
    case.told("Read-only file system");
    case.daemon.kill();
    unmounted(&case.dir);
    // The next start has the disk as it is then.
    let kept = "mount -t ext4 -o loop image disk && cp -r disk/log kept";
    let copied = Command::new("unshare").args(["-m", "sh", "-c", kept]).current_dir(&case.dir).status();
    assert!(copied.unwrap().success());
    unmounted(&case.dir);
    case.survives("kept");
}

#[test]
fn a_log_that_is_made_immutable_refuses_and_keeps_what_it_acknowledged() {
    let mut case = Case::start("log-immutable");
    let change = |case: &Case, flag: &str| {
        let log = case.log();
        let files = fs::read_dir(&log).unwrap().map(|entry| entry.unwrap().path());
        let mut chattr = Command::new("chattr");
        chattr
            .arg(flag)
            .args(files.chain([log]))
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    };
    if !change(&case, "+i") {
        return khz_skip::skip("this file system has no immutable files, or we may not make them");
    }
    case.more();
    let refused = case.refused.len();
    assert!(change(&case, "-i"));
    // Some file systems let an open file be written all the same.
    if refused > 0 {
        assert!(
            case.refused[0].contains("cannot be written: Operation not permitted"),
            "{:?}",
            case.refused[0]
        );
        case.told("cannot be written: Operation not permitted");
    }
    let (started, time) = (Instant::now(), FIRST + 4_900);
    while case.client.ask(&update("t.rrd", time))[0].starts_with('-') {
        assert!(started.elapsed() < PATIENCE, "it does not take again");
    }
    case.acknowledged.push(time);
    case.survives("log");
}

#[test]
fn standard_error_reports_a_log_that_is_gone() {
    let dir = oracle::directory("log-stderr");
    let mut command = Command::new(env!("CARGO_BIN_EXE_khz-rrdcached"));
    command.args(["rrdcached", "-j", "log", "-b"]).arg(&dir);
    let mut daemon = Daemon::spawn_heard(command, &dir);
    let mut client = daemon.client();
    create(&mut client, "t.rrd");
    fs::remove_dir_all(dir.join("log")).unwrap();
    client.order(&update("t.rrd", FIRST));
    daemon.kill();
    let mut said = String::new();
    daemon.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(
        said.contains("the log would not be found after a restart") && said.contains("the log is rebuilt"),
        "{said}"
    );
}
