//! The units in packaging/ under a real systemd as first process: installed as docs/security.md says, started with TLS,
//! killed, frozen, stopped. `cargo xtask test --slow` runs it.

#![allow(clippy::unwrap_used)]

use khz_guest_test::guest::Guest;
use khz_guest_test::image::Image;
use khz_guest_test::{debian, root, until};
use serde_json::Value;

/// The test's shell, as a service like any other.
const CONSOLE: &str = "\
[Unit]
Description=The test's shell

[Service]
ExecStart=/bin/console
Restart=always
";

/// What a guest need not hold in its memory.
const UNREAD: [&str; 4] =
    ["usr/share/doc", "usr/share/locale", "usr/share/man", "usr/lib/x86_64-linux-gnu/gconv"];

/// The hub's settings: reachable by others, so with TLS, and with tokens for nodes.
const HUB_TOML: &str = r#"listen = ["10.77.0.1:7070"]
link_listen = ["10.77.0.1:7071"]
tls_cert = "/etc/khz/tls/hub-hub1.pem"
tls_key = "/etc/khz/tls/hub-hub1.key"
tls_ca = "/etc/khz/tls/ca.pem"
cluster_key = "/etc/khz/tls/cluster.key"
rrd = "/var/lib/khz/rrd"
rrd_match = ["load.1m"]
"#;

const AGENT_TOML: &str = r#"hub = ["10.77.0.1"]
tls_ca = "/etc/khz/tls/ca.pem"
token = "/etc/khz/n1.token"
"#;

/// A system call that the unit forbids kills at once, where in earnest it would fail: so none goes unnoticed.
const STRICT: &str = "[Service]\nSystemCallErrorNumber=\nSystemCallErrorNumber=kill\n";

const OWN_FILE: &str = "[Service]\nEnvironment=KHZ_CONFIG=/etc/khz/agent.toml\n";

/// The agent watches a captured host, whose interfaces the test makes up.
const CAPTURED: &str = "[Service]\nEnvironment=KHZ_ROOT=/srv/host KHZ_CPU_MAX=100%%\n";

/// Such a host's interfaces: so many, from the first on.
const INTERFACES: &str = r#"#!/bin/sh
mkdir -p /srv/host/proc/net && chmod -R 755 /srv/host
{
    echo 'Inter-|   Receive                                                |  Transmit'
    echo ' face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed'
    seq "$1" | sed 's/.*/  veth&: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16/'
} > /srv/host/proc/net/dev
"#;

/// A minimal Debian with systemd as first process; khz and packaging/ lie in /root, not installed.
fn boot() -> Guest {
    let image = Image::new("service")
        .lay_over(&debian::whole("systemd"))
        .without(&UNREAD)
        .with_shell()
        .with_khz("root/khz")
        .with_folder(&root().join("packaging"), "root/packaging")
        .with_text("etc/systemd/system/console.service", CONSOLE)
        .with_link("../console.service", "etc/systemd/system/multi-user.target.wants/console.service")
        .with_link("/dev/null", "etc/systemd/system/getty.target")
        .with_text("etc/hostname", "n1\n")
        .with_text("root/hub.toml", HUB_TOML)
        .with_text("root/agent.toml", AGENT_TOML)
        .with_text("root/strict.conf", STRICT)
        .with_text("root/own-file.conf", OWN_FILE)
        .with_text("root/captured.conf", CAPTURED)
        .with_program("bin/interfaces", INTERFACES)
        // Empty: this machine gets a name of its own.
        .with_text("etc/machine-id", "")
        .with_link("lib/systemd/systemd", "init")
        .pack();
    Guest::boot(&debian::kernel(), image, 256, "rdinit=/init", &[])
}

/// The lines of the documentation that install and start, without their remarks.
fn documented() -> Vec<String> {
    let page = std::fs::read_to_string(root().join("docs/security.md")).unwrap();
    let (_, section) = page.split_once("## As a service").unwrap();
    let (_, block) = section.split_once("```console\n").unwrap();
    let (block, _) = block.split_once("```").unwrap();
    block.lines().map(|line| line.strip_prefix("# ").unwrap().to_owned()).collect()
}

/// One property of a unit.
fn property(guest: &mut Guest, unit: &str, name: &str) -> String {
    guest.say(&format!("systemctl show -P {name} {unit}")).trim().to_owned()
}

/// Rows of the base lane in the ring of n1.
fn rows_in_ring(guest: &mut Guest) -> Vec<u64> {
    let exported = guest.run("khz ring export --node n1 --json load.1m 2>/dev/null").text;
    let number = |line: &str| serde_json::from_str::<Value>(line).ok()?["row"].as_u64();
    exported.lines().filter_map(number).collect()
}

/// The base lane of n1 as the hub knows it: (up, rows, missing).
fn at_hub(guest: &mut Guest) -> Option<(bool, u64, u64)> {
    let nodes = guest.run("KHZ_RUN_DIR=/run/khz khz nodes n1 --json 2>/dev/null").text;
    let node: Value = serde_json::from_str(nodes.lines().next()?).ok()?;
    let lane = node["lanes"].as_array()?.iter().find(|lane| lane["name"] == "base")?;
    let missing = lane["awaited"].as_u64()? + lane["lost"].as_u64()?;
    Some((node["up"] == true, lane["rows"].as_u64()?, missing))
}

fn certify(guest: &mut Guest) {
    guest.say("ip address add 10.77.0.1/32 dev lo");
    guest.say("/root/khz certs init && /root/khz certs hub hub1 10.77.0.1");
    guest.say("umask 077; /root/khz certs token node n1 > /etc/khz/n1.token");
    let keys = "/etc/khz/n1.token /etc/khz/tls/hub-hub1.key /etc/khz/tls/cluster.key";
    guest.say(&format!("chgrp khz {keys} && chmod 640 {keys}"));
    guest.say("cp /root/hub.toml /etc/khz/khz.toml && cp /root/agent.toml /etc/khz/agent.toml");
}

fn drop_in(guest: &mut Guest, unit: &str, file: &str) {
    let folder = format!("/etc/systemd/system/{unit}.service.d");
    guest.say(&format!("mkdir -p {folder} && cp /root/{file} {folder}/"));
}

fn install_and_start(guest: &mut Guest) {
    guest.say("until systemctl is-active -q multi-user.target; do sleep 0.2; done");
    let lines = documented();
    let (install, start): (Vec<_>, Vec<_>) = lines.iter().partition(|line| !line.contains("enable --now"));
    assert_eq!((install.len(), start.len()), (7, 2), "{lines:?}");
    for line in install {
        guest.say(&format!("cd /root && {line}"));
    }
    certify(guest);
    drop_in(guest, "khz-hub", "strict.conf");
    drop_in(guest, "khz-agent", "strict.conf");
    drop_in(guest, "khz-agent", "own-file.conf");
    guest.say("systemctl daemon-reload");
    // Type=notify: each of these ends when READY=1 has come.
    for line in start {
        guest.say(line);
    }
}

/// What the kernel enforces on both, whatever the unit's file says.
fn assert_confined(guest: &mut Guest) {
    for (unit, memory) in [("khz-hub", 2_u64 << 30), ("khz-agent", 256 << 20)] {
        let max = guest.say(&format!("cat /sys/fs/cgroup/system.slice/{unit}.service/memory.max"));
        assert_eq!(max.trim(), memory.to_string(), "{unit}");
        let pid = property(guest, unit, "MainPID");
        let status = guest.say(&format!("cat /proc/{pid}/status"));
        let field = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name)).unwrap();
            line.split_whitespace().nth(1).unwrap().to_owned()
        };
        let user = guest.say("id -u khz").trim().to_owned();
        assert_eq!(field("Uid:"), user, "{unit}");
        let confined = ["CapEff:", "NoNewPrivs:", "Seccomp:"].map(field);
        assert_eq!(confined, ["0000000000000000", "1", "2"].map(str::to_owned), "{unit}");
        let mounts = guest.say(&format!("cat /proc/{pid}/mountinfo"));
        let root = mounts.lines().rfind(|line| line.split_whitespace().nth(4) == Some("/"));
        let options = root.unwrap().split_whitespace().nth(5).unwrap();
        assert!(options.starts_with("ro,"), "{unit}: {mounts}");
    }
}

/// Rows come to the hub through TLS, the ring is in its place, files are recorded.
fn assert_at_work(guest: &mut Guest) {
    until("rows come to the hub", || at_hub(guest).is_some_and(|(up, rows, _)| up && rows > 3));
    let owner = guest.say("stat -c '%U %a' /dev/shm/khz/n1/base.ring");
    assert_eq!(owner.trim(), "khz 640");
    until("a file is recorded", || guest.run("test -s /var/lib/khz/rrd/n1/load.1m.rrd").code == 0);
    let got = guest.run("khz get n1:mem.total --json");
    assert_eq!((got.code, got.text.lines().count()), (0, 1), "{}", got.text);
}

/// Where interfaces come and go by the thousand an agent starts itself anew, in the same process: nothing in its unit may
/// forbid that.
fn assert_begins_anew(guest: &mut Guest) {
    guest.say("interfaces 2200");
    drop_in(guest, "khz-agent", "captured.conf");
    // The watchdog as it is in earnest: emulated, a new start with 35,000 slots takes longer than three seconds.
    guest.say("rm -f /etc/systemd/system/khz-agent.service.d/soon.conf");
    guest.say("systemctl daemon-reload && systemctl restart khz-agent");
    let pid = property(guest, "khz-agent", "MainPID");
    let sees = |guest: &mut Guest, name: &str| {
        let got = guest
            .run(&format!("khz ring export --node n1 --last 1s --csv 'net.rx_bytes[{name}]' 2>/dev/null"));
        got.text.lines().last().is_some_and(|row| row.ends_with(",1"))
    };
    until("it watches all of them", || sees(guest, "veth2200"));
    guest.say("interfaces 1");
    let said = "journalctl --no-pager -o cat -u khz-agent | grep -q 'beginning anew'";
    until("it begins anew", || guest.run(said).code == 0);
    until("and goes on", || sees(guest, "veth1") && property(guest, "khz-agent", "ActiveState") == "active");
    assert_eq!(property(guest, "khz-agent", "MainPID"), pid, "in the same process");
    assert_eq!(property(guest, "khz-agent", "NRestarts"), "0");
}

#[test]
#[ignore = "slow: boots a machine of its own"]
fn both_units_run_confined_under_systemd_and_come_back_when_killed_frozen_or_outworn() {
    let mut guest = boot();
    install_and_start(&mut guest);
    for unit in ["khz-hub", "khz-agent"] {
        assert_eq!(property(&mut guest, unit, "ActiveState"), "active");
        assert_eq!(property(&mut guest, unit, "Type"), "notify");
    }
    assert_confined(&mut guest);
    assert_at_work(&mut guest);

    // kill -9: both are back, and so is what was recorded.
    let before = rows_in_ring(&mut guest);
    guest.say("systemctl kill -s KILL khz-hub khz-agent");
    for unit in ["khz-hub", "khz-agent"] {
        until("systemd has begun it anew", || {
            property(&mut guest, unit, "NRestarts") == "1"
                && property(&mut guest, unit, "ActiveState") == "active"
        });
    }
    until("the hub has what was before, and more", || {
        at_hub(&mut guest)
            .is_some_and(|(up, rows, missing)| up && missing == 0 && rows > before.len() as u64 + 3)
    });
    let after = rows_in_ring(&mut guest);
    assert_eq!(after, (0..after.len() as u64).collect::<Vec<_>>(), "one record, through the kill");

    // The watchdog is fed, and notices who hangs.
    for unit in ["khz-hub", "khz-agent"] {
        guest.say(&format!(
            "printf '[Service]\\nWatchdogSec=3s\\n' > /etc/systemd/system/{unit}.service.d/soon.conf"
        ));
    }
    guest.say("systemctl daemon-reload && systemctl restart khz-hub khz-agent");
    for unit in ["khz-hub", "khz-agent"] {
        let fed = property(&mut guest, unit, "WatchdogTimestampMonotonic");
        until("it is fed", || property(&mut guest, unit, "WatchdogTimestampMonotonic") != fed);
        guest.say("sleep 4");
        assert_eq!(property(&mut guest, unit, "NRestarts"), "0", "{unit} is fed in time");
        guest.say(&format!("systemctl kill -s STOP {unit}"));
        until("systemd has begun it anew", || {
            property(&mut guest, unit, "NRestarts") == "1"
                && property(&mut guest, unit, "ActiveState") == "active"
        });
    }
    assert_at_work(&mut guest);
    assert_begins_anew(&mut guest);

    guest.say("systemctl stop khz-agent khz-hub");
    for unit in ["khz-hub", "khz-agent"] {
        assert_eq!(property(&mut guest, unit, "Result"), "success", "{unit}");
        assert_eq!(property(&mut guest, unit, "ActiveState"), "inactive", "{unit}");
    }
    let journal = guest.say("journalctl --no-pager -o cat");
    assert!(!journal.contains("SIGSYS") && !journal.contains("status=31"), "{journal}");
    assert!(!journal.contains("panicked"), "{journal}");
}
