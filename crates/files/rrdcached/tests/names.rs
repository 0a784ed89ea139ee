//! Names that are not UTF-8: every byte of them counts, in commands, the daemon and its log.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../../rrd/tests/oracle/mod.rs"]
mod oracle;
mod served;

use std::ffi::{OsStr, OsString};
use std::io::{Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use served::{Daemon, PATIENCE, last_on_disk};

const OURS: &str = env!("CARGO_BIN_EXE_khz-rrdcached");
const DEFINITION: &str = "--start 1000000000 --step 300 DS:x:GAUGE:600:U:U RRA:LAST:0.5:1:5";
/// Names that become the same if bytes are taken for characters, and one with a character that stands for a byte here.
const NAMES: [&[u8]; 4] =
    [b"a\xff.rrd", b"a\xfe.rrd", "a\u{fffd}.rrd".as_bytes(), "a\u{10ffff}.rrd".as_bytes()];

fn run(program: &str, dir: &Path, words: &[&[u8]]) -> Output {
    let mut command = Command::new(program);
    command.args(words.iter().map(|word| OsStr::from_bytes(word))).current_dir(dir).env("LC_ALL", "C");
    command.env("TZ", "UTC").env_remove("RRDCACHED_ADDRESS").stdin(Stdio::null()).output().unwrap()
}

/// `words` after the name of a file.
fn about<'a>(command: &'a str, name: &'a [u8], words: &'a str) -> Vec<&'a [u8]> {
    let rest = words.split(' ').filter(|word| !word.is_empty()).map(str::as_bytes);
    [command.as_bytes(), name].into_iter().chain(rest).collect()
}

fn names_in(dir: &Path) -> Vec<OsString> {
    let mut names: Vec<_> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    names
}

#[test]
fn commands_take_and_print_the_bytes_that_rrdtool_does() {
    let (theirs, ours) = (oracle::directory("names-theirs"), oracle::directory("names-ours"));
    let both = |words: &[&[u8]]| {
        let (a, b) = (run("rrdtool", &theirs, words), run(OURS, &ours, words));
        let shown: Vec<_> = words.iter().map(|word| String::from_utf8_lossy(word)).collect();
        assert_eq!((a.status.code(), a.stderr), (b.status.code(), b.stderr), "{shown:?}");
        (a.stdout, b.stdout)
    };
    let same = |words: &[&[u8]]| {
        let (a, b) = both(words);
        assert_eq!(String::from_utf8_lossy(&a), String::from_utf8_lossy(&b));
        assert!(a == b);
    };
    for (index, name) in NAMES.iter().enumerate() {
        both(&about("create", name, DEFINITION));
        let update = format!("1000000300:{index}");
        both(&about("update", name, &update));
    }
    assert_eq!(names_in(&ours), names_in(&theirs));
    assert_eq!(names_in(&ours).len(), NAMES.len());
    for name in NAMES {
        same(&about("lastupdate", name, ""));
        both(&about("update", name, "1000000300:1"));
        same(&about("last", &[name, b"\x80"].concat(), ""));
        same(&[b"update", name, b"1000000600:\xff"]);
        same(&[b"update", name, b"1000000700:U\xff"]);
        same(&about("lastupdate", name, ""));
        same(&[b"fetch", name, b"LA\xffST"]);
    }
    both(&[b"list", b"."]);
    same(&[b"create", b"b.rrd", b"DS:\xff:GAUGE:600:U:U", b"RRA:LAST:0.5:1:5"]);
    same(&[b"\xff", b"a"]);
    same(&[b"info", b"-\xff", b"a"]);
    let def = [&b"DEF:a="[..], NAMES[0], b":x:LAST"].concat();
    same(&[b"xport", &def, b"XPORT:a:leg\xff", b"-s", b"1000000000", b"-e", b"1000000900"]);
}

fn ask(daemon: &Daemon, line: &[u8]) -> Vec<u8> {
    let mut stream = UnixStream::connect(&daemon.socket).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(line).unwrap();
    stream.write_all(b"\nQUIT\n").unwrap();
    let mut answer = vec![];
    stream.read_to_end(&mut answer).unwrap();
    answer
}

#[test]
fn the_daemon_keeps_files_apart_by_every_byte_and_so_does_its_log() {
    let dir = oracle::directory("names-daemon");
    let mut daemon = Daemon::ours(&dir, &["-j", "log", "-w", "3600"]);
    let files: Vec<PathBuf> = NAMES.iter().map(|name| dir.join(OsString::from_vec(name.to_vec()))).collect();
    for (index, (name, file)) in NAMES.iter().zip(&files).enumerate() {
        assert!(run(OURS, &dir, &about("create", name, DEFINITION)).status.success());
        let update = [&b"UPDATE "[..], name, format!(" {}:1", 1_000_000_300 + index).as_bytes()].concat();
        assert_eq!(ask(&daemon, &update), b"0 errors, enqueued 1 value(s).\n");
        assert_eq!(last_on_disk(file), 1_000_000_000);
    }
    daemon.kill();
    let daemon = Daemon::ours(&dir, &["-j", "log", "-w", "3600"]);
    for (index, (name, file)) in NAMES.iter().zip(&files).enumerate() {
        let whole = file.as_os_str().as_bytes();
        let flushed = [&b"0 Successfully flushed "[..], whole, b".\n"].concat();
        assert_eq!(ask(&daemon, &[&b"FLUSH "[..], name].concat()), flushed);
        assert_eq!(last_on_disk(file), 1_000_000_300 + index as i64);
    }
    let listed = ask(&daemon, b"LIST /");
    assert!(NAMES.iter().all(|name| listed.split(|byte| *byte == b'\n').any(|line| line == *name)));
    let missing = ask(&daemon, b"FLUSH no\xff");
    assert!(missing.starts_with(b"-1 No such file: ") && missing.ends_with(b"/no\xff.\n"));
    // The command as its client.
    let address = daemon.address();
    let through = |command: &str, name: &[u8], words: &str| {
        let mut words = about(command, name, words);
        words.extend([&b"--daemon"[..], address.as_bytes()]);
        let output = run(OURS, &dir, &words);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    through("update", NAMES[0], "1000000900:9");
    assert_eq!(through("lastupdate", NAMES[0], ""), b" x\n\n1000000900: 9\n");
    assert_eq!(last_on_disk(&files[1]), 1_000_000_301);
}

#[test]
fn a_base_directory_may_be_called_anything() {
    let outer = oracle::directory("names-base");
    let base = outer.join(OsStr::from_bytes(b"b\xff"));
    std::fs::create_dir(&base).unwrap();
    let mut command = Command::new(OURS);
    command.args(["rrdcached", "-B", "-R", "-j"]).arg(base.join("log\u{10ffff}")).arg("-b").arg(&base);
    let daemon = Daemon::spawn(command, &outer);
    let create =
        format!("CREATE d\u{ff}/t.rrd {}", "-s 300 -b 1000000000 DS:x:GAUGE:600:U:U RRA:LAST:0.5:1:5");
    assert_eq!(ask(&daemon, create.as_bytes()), b"0 RRD created OK\n");
    assert_eq!(
        ask(&daemon, b"CREATE \xfe/t.rrd -s 300 -b 1000000000 DS:x:GAUGE:600:U:U RRA:LAST:0.5:1:5"),
        b"0 RRD created OK\n"
    );
    assert_eq!(ask(&daemon, b"UPDATE \xfe/t.rrd 1000000300:1"), b"0 errors, enqueued 1 value(s).\n");
    ask(&daemon, b"FLUSH \xfe/t.rrd");
    assert_eq!(last_on_disk(&base.join(OsStr::from_bytes(b"\xfe/t.rrd"))), 1_000_000_300);
}
