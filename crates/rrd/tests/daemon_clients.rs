//! Clients that know nothing of us: rrdtool, the perl and the python bindings, through our daemon.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod oracle;
mod served;

use std::path::Path;
use std::process::{Command, Output};

use served::{Daemon, last_on_disk};

fn text(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

fn rrdtool(dir: &Path, address: &str, line: &str) -> String {
    let output = Command::new("rrdtool")
        .args(line.split_whitespace())
        .current_dir(dir)
        .env("RRDCACHED_ADDRESS", address)
        .output()
        .unwrap();
    text(&output)
}

const CREATE: &str = "create t.rrd --start 1000000000 --step 300 DS:x:GAUGE:600:U:U RRA:LAST:0.5:1:5";

#[test]
fn rrdtool_says_the_same_through_our_daemon_as_without_one() {
    let (plain, dir) = (oracle::directory("client-plain"), oracle::directory("client"));
    let daemon = Daemon::ours(&dir, &["-j", "log"]);
    let address = daemon.address();
    for line in [
        CREATE,
        "update t.rrd 1000000300:5",
        "update t.rrd 1000000600:6 1000000900:7",
        "last t.rrd",
        "first t.rrd",
        "fetch t.rrd LAST -s 1000000000 -e 1000000900",
        "lastupdate t.rrd",
        "xport --start 1000000000 --end 1000000900 DEF:v=t.rrd:x:LAST XPORT:v",
        "tune t.rrd --heartbeat x:700",
        "update t.rrd 1000001200:8",
        "lastupdate t.rrd",
        "list /",
    ] {
        let (here, there) = match line {
            // Without a daemon there is no base directory.
            "list /" => ("log\nt.rrd\n".into(), rrdtool(&dir, &address, line)),
            _ => (rrdtool(&plain, "", line), rrdtool(&dir, &address, line)),
        };
        let plain_of = |text: String, dir: &Path| text.replace(&format!("{}/", dir.display()), "");
        if line.starts_with("last ") {
            // rrdcached answers LAST with the end of a step.
            assert_eq!(there, "1000000800\n");
        } else {
            assert_eq!(plain_of(there, &dir), plain_of(here, &plain), "{line}");
        }
    }
    // Row positions are random, so only what is the same for both is compared.
    let steady = |text: String| -> Vec<String> {
        text.lines()
            .filter(|line| !line.contains("cur_row") && !line.contains("filename"))
            .map(str::to_string)
            .collect()
    };
    assert_eq!(steady(rrdtool(&dir, &address, "info t.rrd")), steady(rrdtool(&plain, "", "info t.rrd")));
    assert_eq!(rrdtool(&dir, &address, "dump t.rrd"), rrdtool(&plain, "", "dump t.rrd"));
}

#[test]
fn rrdtools_daemon_option_leaves_the_file_alone_until_it_is_flushed() {
    let dir = oracle::directory("client-option");
    let daemon = Daemon::ours(&dir, &[]);
    let address = daemon.address();
    rrdtool(&dir, "", &format!("{CREATE} --daemon {address}"));
    rrdtool(&dir, "", &format!("update --daemon {address} t.rrd 1000000300:5"));
    assert_eq!(last_on_disk(&dir.join("t.rrd")), 1_000_000_000);
    let fetched =
        rrdtool(&dir, "", &format!("fetch --daemon {address} t.rrd LAST -s 1000000000 -e 1000000100"));
    assert!(fetched.contains("1000000200: 5.0000000000e+00"), "{fetched}");
    // Shown, and yet not written.
    assert_eq!(last_on_disk(&dir.join("t.rrd")), 1_000_000_000);
    rrdtool(&dir, "", &format!("flushcached --daemon {address} t.rrd"));
    assert_eq!(last_on_disk(&dir.join("t.rrd")), 1_000_000_300);
}

#[test]
fn our_own_fetch_and_last_see_what_waits_and_force_no_write() {
    let dir = oracle::directory("client-own");
    let daemon = Daemon::ours(&dir, &["-j", "log"]);
    let address = daemon.address();
    rrdtool(&dir, &address, CREATE);
    rrdtool(&dir, &address, "update t.rrd 1000000300:5 1000000600:7");
    let fetch = "fetch t.rrd LAST -s 1000000000 -e 1000000900";
    let ours = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_khz-rrd"));
        command.args(fetch.split(' ')).args(more).current_dir(&dir).env_remove("RRDCACHED_ADDRESS");
        text(&command.output().unwrap())
    };
    let seen = ours(&["--daemon", &address]);
    let last = |daemon: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_khz-rrd"));
        command.args(["last", "t.rrd"]).current_dir(&dir).env("RRDCACHED_ADDRESS", daemon);
        text(&command.output().unwrap())
    };
    assert_eq!((last(&address).as_str(), last("").as_str()), ("1000000500\n", "1000000000\n"));
    assert_eq!(last(&address), rrdtool(&dir, &address, "last t.rrd"));
    assert_eq!(last_on_disk(&dir.join("t.rrd")), 1_000_000_000);
    assert_eq!(seen, rrdtool(&dir, &address, fetch));
    rrdtool(&dir, &address, "flushcached t.rrd");
    assert_eq!(seen, ours(&[]));
    assert!(seen.contains("6.3333333333e+00"), "{seen}");
}

const PERL: &str = r#"
use RRDs;
sub ok { my $e = RRDs::error; die "@_: $e" if $e }
RRDs::create('t.rrd', '--daemon', $ARGV[0], '--start', 1000000000, '--step', 300, 'DS:x:GAUGE:600:U:U',
    'RRA:LAST:0.5:1:5'); ok 'create';
RRDs::update('--daemon', $ARGV[0], 't.rrd', '1000000300:5'); ok 'update';
my ($start, $step, $names, $rows) = RRDs::fetch('--daemon', $ARGV[0], 't.rrd', 'LAST', '-s', 1000000000, '-e', 1000000100);
ok 'fetch';
print "$start $step @$names $rows->[0][0]\n";
RRDs::flushcached('--daemon', $ARGV[0], 't.rrd'); ok 'flushcached';
print RRDs::last('t.rrd'), "\n";
RRDs::update('--daemon', $ARGV[0], 't.rrd', '1000000300:5');
print RRDs::error, "\n";
"#;

#[test]
fn the_perl_bindings_work_unchanged() {
    let dir = oracle::directory("client-perl");
    let daemon = Daemon::ours(&dir, &[]);
    let output = Command::new("perl").args(["-e", PERL, &daemon.address()]).current_dir(&dir).output();
    let told = text(&output.expect("this test needs Debian's package `librrds-perl`"));
    let mut lines = told.lines();
    assert_eq!(lines.next(), Some("1000000200 300 x 5"));
    assert_eq!(lines.next(), Some("1000000300"));
    let error = lines.next().unwrap_or_default();
    assert!(error.contains("illegal attempt to update using time 1000000300"), "{told}");
}

const PYTHON: &str = "
import rrdtool, sys
daemon = sys.argv[1]
rrdtool.create('t.rrd', '--daemon', daemon, '--start', '1000000000', '--step', '300', 'DS:x:GAUGE:600:U:U',
    'RRA:LAST:0.5:1:5')
rrdtool.update('--daemon', daemon, 't.rrd', '1000000300:5')
print(rrdtool.fetch('--daemon', daemon, 't.rrd', 'LAST', '-s', '1000000000', '-e', '1000000100'))
rrdtool.flushcached('--daemon', daemon, 't.rrd')
print(rrdtool.last('t.rrd'))
try:
    rrdtool.update('--daemon', daemon, 't.rrd', '1000000300:5')
except rrdtool.OperationalError as error:
    print(error)
";

#[test]
fn the_python_bindings_work_unchanged() {
    let dir = oracle::directory("client-python");
    let daemon = Daemon::ours(&dir, &[]);
    let output =
        Command::new("/usr/bin/python3").args(["-c", PYTHON, &daemon.address()]).current_dir(&dir).output();
    let told = text(&output.expect("this test needs Debian's package `python3-rrdtool`"));
    let mut lines = told.lines();
    assert_eq!(lines.next(), Some("((999999900, 1000000200, 300), ('x',), [(5.0,)])"));
    assert_eq!(lines.next(), Some("1000000300"));
    let error = lines.next().unwrap_or_default();
    assert!(error.contains("illegal attempt to update using time 1000000300"), "{told}");
}
