//! Clients that know nothing of us: rrdtool, the perl and the python bindings, through our daemon.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../../rrd/tests/oracle/mod.rs"]
mod oracle;
mod served;

use std::path::Path;
use std::process::{Command, Output};

use served::{Daemon, check, last_on_disk, update};

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
    // Shown, but not written.
    assert_eq!(last_on_disk(&dir.join("t.rrd")), 1_000_000_000);
    rrdtool(&dir, "", &format!("flushcached --daemon {address} t.rrd"));
    assert_eq!(last_on_disk(&dir.join("t.rrd")), 1_000_000_300);
}

#[test]
fn a_file_made_from_another_has_what_waits_for_that_one() {
    let dir = oracle::directory("client-sources");
    let daemon = Daemon::ours(&dir, &["-j", "log"]);
    let address = daemon.address();
    let layout = "DS:x:GAUGE:600:U:U RRA:LAST:0.5:1:5";
    for (number, from) in
        ["--source t.rrd", "--template t.rrd", "--source t.rrd --template t.rrd"].into_iter().enumerate()
    {
        let _ = std::fs::remove_file(dir.join("t.rrd"));
        rrdtool(&dir, &address, &format!("create t.rrd --start 1000000000 --step 300 {layout}"));
        rrdtool(&dir, &address, "update t.rrd 1000000300:5 1000000600:7");
        assert_eq!(last_on_disk(&dir.join("t.rrd")), 1_000_000_000);
        let rest = if from.contains("template") { "" } else { layout };
        // Debian's rrdtool, as the client, sends names that are not absolute.
        let [ours, plain] = ["ours", "plain"].map(|side| format!("{side}-{number}.rrd"));
        rrdtool(&dir, &address, format!("create {ours} {from} --step 300 {rest}").trim_end());
        assert_eq!(last_on_disk(&dir.join("t.rrd")), 1_000_000_600, "{from}");
        rrdtool(&dir, "", format!("create {plain} {from} --step 300 {rest}").trim_end());
        assert_eq!(
            rrdtool(&dir, "", &format!("dump {ours}")),
            rrdtool(&dir, "", &format!("dump {plain}")),
            "{from}"
        );
    }
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
        let mut command = Command::new(env!("CARGO_BIN_EXE_khz-rrdcached"));
        command.args(fetch.split(' ')).args(more).current_dir(&dir).env_remove("RRDCACHED_ADDRESS");
        text(&command.output().unwrap())
    };
    let seen = ours(&["--daemon", &address]);
    let last = |daemon: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_khz-rrdcached"));
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

#[test]
fn our_own_tune_through_the_daemon_loses_nothing_that_comes_meanwhile() {
    let dir = oracle::directory("tune-meanwhile");
    let daemon = Daemon::ours(&dir, &["-j", "log"]);
    let mut client = daemon.client();
    client.order("CREATE t.rrd -s 1 -b 1000000000 DS:x:GAUGE:100000:U:U RRA:LAST:0.5:1:200000");
    let is_done = std::sync::atomic::AtomicBool::new(false);
    let acknowledged = std::thread::scope(|scope| {
        let updates = scope.spawn(|| {
            let (mut client, mut taken, mut time) = (daemon.client(), vec![], 1_000_000_000);
            while !is_done.load(std::sync::atomic::Ordering::Relaxed) && time < 1_000_190_000 {
                time += 1;
                if !client.ask(&update("t.rrd", time))[0].starts_with('-') {
                    taken.push(time);
                }
            }
            taken
        });
        for round in 0..10 {
            // In place, and rebuilt.
            for change in ["--heartbeat x:100001", "RRA:MAX:0.5:10:5", "DELRRA:1"] {
                let mut tune = Command::new(env!("CARGO_BIN_EXE_khz-rrdcached"));
                tune.args(["tune", "t.rrd", "-D", &daemon.address()])
                    .args(change.split(' '))
                    .current_dir(&dir);
                let output = tune.output().unwrap();
                assert!(
                    output.status.success(),
                    "{round} {change}: {}",
                    String::from_utf8_lossy(&output.stderr)
                );
            }
        }
        is_done.store(true, std::sync::atomic::Ordering::Relaxed);
        updates.join().unwrap()
    });
    client.order("FLUSH t.rrd");
    check(&dir.join("t.rrd"), &acknowledged);
    assert!(acknowledged.len() > 100, "{}", acknowledged.len());
    assert_eq!(client.stat("UpdatesRefused"), 0);
}

#[test]
fn templates_work_over_a_network_and_leave_computed_sources_out() {
    let dir = oracle::directory("tune-template");
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address = format!("127.0.0.1:{port}");
    let daemon = Daemon::ours(&dir, &["-l", &address]);
    let mut client = daemon.client();
    client.order(
        "CREATE t.rrd -s 300 -b 1000000000 DS:x:GAUGE:600:U:U DS:c:COMPUTE:x,2,* DS:y:GAUGE:600:U:U RRA:LAST:0.5:1:5",
    );
    let run = |line: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_khz-rrdcached"));
        command.args(line.split(' ')).args(["--daemon", &address]).current_dir("/").output().unwrap()
    };
    assert!(run("update -t y t.rrd 1000000300:5").status.success());
    assert_eq!(client.ask("PENDING t.rrd"), ["1 updates pending", "1000000300:U:5"]);
    let refused = run("update -t y:c t.rrd 1000000400:5:6");
    let told = "there are fields in template (y:c) that are not in the rrdfile (x:c:y)";
    assert!(String::from_utf8_lossy(&refused.stderr).contains(told));
    assert!(run("tune t.rrd --heartbeat x:7").status.success());
    assert!(client.ask("INFO t.rrd").iter().any(|line| line == "ds[x].minimal_heartbeat 1 7"));
}
