//! The units of packaging/ under a real systemd, in a guest. They are installed as docs/security.md says, started with
//! TLS, killed, frozen and stopped. `cargo xtask test --slow` runs this.

#![allow(clippy::unwrap_used)]

use khz_guest_test::guest::Guest;
use khz_guest_test::image::Image;
use khz_guest_test::{debian, root, until};
use serde_json::Value;

/// The test's shell, as a service.
const CONSOLE: &str = "\
[Unit]
Description=The test's shell

[Service]
ExecStart=/bin/console
Restart=always
";

/// Folders that the guest does not need in its memory.
const UNREAD: [&str; 4] =
    ["usr/share/doc", "usr/share/locale", "usr/share/man", "usr/lib/x86_64-linux-gnu/gconv"];

/// The hub's settings. Other machines can reach it, so it has TLS, and tokens for nodes.
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

/// Kills a process that makes a forbidden system call. In the real unit the call only fails, and could go unnoticed.
const STRICT: &str = "[Service]\nSystemCallErrorNumber=\nSystemCallErrorNumber=kill\n";

const OWN_FILE: &str = "[Service]\nEnvironment=KHZ_CONFIG=/etc/khz/agent.toml\n";

/// The agent watches a captured host. The test makes up its interfaces.
const CAPTURED: &str = "[Service]\nEnvironment=KHZ_ROOT=/srv/host KHZ_CPU_MAX=100%%\n";

/// Writes that host's interfaces; the first word says how many.
const INTERFACES: &str = r#"#!/bin/sh
mkdir -p /srv/host/proc/net && chmod -R 755 /srv/host
{
    echo 'Inter-|   Receive                                                |  Transmit'
    echo ' face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed'
    seq "$1" | sed 's/.*/  veth&: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16/'
} > /srv/host/proc/net/dev
"#;

/// Boots a minimal Debian with systemd as first process. khz and packaging/ are in /root, not installed.
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
        // Empty, so that systemd gives this guest its own id.
        .with_text("etc/machine-id", "")
        .with_link("lib/systemd/systemd", "init")
        .pack();
    Guest::boot(&debian::kernel(), image, 256, "rdinit=/init", &[])
}

/// The commands of docs/security.md that install and start the units.
fn documented() -> Vec<String> {
    let page = std::fs::read_to_string(root().join("docs/security.md")).unwrap();
    let (_, section) = page.split_once("## As a service").unwrap();
    let (_, block) = section.split_once("```console\n").unwrap();
    let (block, _) = block.split_once("```").unwrap();
    block.lines().map(|line| line.strip_prefix("# ").unwrap().to_owned()).collect()
}

/// The value of one property of a unit.
fn property(guest: &mut Guest, unit: &str, name: &str) -> String {
    guest.say(&format!("systemctl show -P {name} {unit}")).trim().to_owned()
}

/// Rows of the base lane in the ring of n1.
fn rows_in_ring(guest: &mut Guest) -> Vec<u64> {
    let exported = guest.run("khz ring export --node n1 --json load.1m 2>/dev/null").text;
    let number = |line: &str| serde_json::from_str::<Value>(line).ok()?["row"].as_u64();
    exported.lines().filter_map(number).collect()
}

/// The hub's report about the base lane of n1: (up, rows, missing).
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
    // The units have Type=notify: each of these commands returns after READY=1.
    for line in start {
        guest.say(line);
    }
}

/// Checks what the kernel enforces on both units. The unit's file alone proves nothing.
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

/// Rows come to the hub over TLS, the ring is in its place, files are recorded.
fn assert_at_work(guest: &mut Guest) {
    until("rows come to the hub", || at_hub(guest).is_some_and(|(up, rows, _)| up && rows > 3));
    let owner = guest.say("stat -c '%U %a' /dev/shm/khz/n1/base.ring");
    assert_eq!(owner.trim(), "khz 640");
    until("a file is recorded", || guest.run("test -s /var/lib/khz/rrd/n1/load.1m.rrd").code == 0);
    let got = guest.run("khz get n1:mem.total --json");
    assert_eq!((got.code, got.text.lines().count()), (0, 1), "{}", got.text);
}

/// An agent whose interfaces come and go by the thousand restarts in the same process. Its unit must not forbid that.
fn assert_restarts_in_place(guest: &mut Guest) {
    guest.say("interfaces 2200");
    drop_in(guest, "khz-agent", "captured.conf");
    // The unit's real watchdog: in this emulated guest a restart with 35,000 slots takes longer than three seconds.
    guest.say("rm -f /etc/systemd/system/khz-agent.service.d/soon.conf");
    guest.say("systemctl daemon-reload && systemctl restart khz-agent");
    let pid = property(guest, "khz-agent", "MainPID");
    let sees = |guest: &mut Guest, name: &str| {
        let got = guest
            .run(&format!("khz ring export --node n1 --last 1s --csv 'net.rx_bytes[{name}]' 2>/dev/null"));
        got.text.lines().last().is_some_and(|row| row.ends_with(",1"))
    };
    until("it watches all interfaces", || sees(guest, "veth2200"));
    guest.say("interfaces 1");
    let said = "journalctl --no-pager -o cat -u khz-agent | grep -q 'with new slots'";
    until("it restarts", || guest.run(said).code == 0);
    until("it gathers again", || {
        sees(guest, "veth1") && property(guest, "khz-agent", "ActiveState") == "active"
    });
    assert_eq!(property(guest, "khz-agent", "MainPID"), pid, "in the same process");
    assert_eq!(property(guest, "khz-agent", "NRestarts"), "0");
}

#[test]
#[ignore = "slow: boots a virtual machine"]
fn both_units_run_confined_under_systemd_and_come_back_when_killed_frozen_or_worn_out() {
    let mut guest = boot();
    install_and_start(&mut guest);
    for unit in ["khz-hub", "khz-agent"] {
        assert_eq!(property(&mut guest, unit, "ActiveState"), "active");
        assert_eq!(property(&mut guest, unit, "Type"), "notify");
    }
    assert_confined(&mut guest);
    assert_at_work(&mut guest);

    // After kill -9 both are back, and so are the rows.
    let before = rows_in_ring(&mut guest);
    guest.say("systemctl kill -s KILL khz-hub khz-agent");
    for unit in ["khz-hub", "khz-agent"] {
        until("systemd has restarted it", || {
            property(&mut guest, unit, "NRestarts") == "1"
                && property(&mut guest, unit, "ActiveState") == "active"
        });
    }
    until("the hub has the old rows, and more", || {
        at_hub(&mut guest)
            .is_some_and(|(up, rows, missing)| up && missing == 0 && rows > before.len() as u64 + 3)
    });
    let after = rows_in_ring(&mut guest);
    assert_eq!(
        after,
        (0..after.len() as u64).collect::<Vec<_>>(),
        "the ring has each row once, before and after the kill"
    );

    // The watchdog is fed, and notices a unit that hangs.
    for unit in ["khz-hub", "khz-agent"] {
        guest.say(&format!(
            "printf '[Service]\\nWatchdogSec=3s\\n' > /etc/systemd/system/{unit}.service.d/soon.conf"
        ));
    }
    guest.say("systemctl daemon-reload && systemctl restart khz-hub khz-agent");
    for unit in ["khz-hub", "khz-agent"] {
        let fed = property(&mut guest, unit, "WatchdogTimestampMonotonic");
        until("the watchdog is fed", || property(&mut guest, unit, "WatchdogTimestampMonotonic") != fed);
        guest.say("sleep 4");
        assert_eq!(property(&mut guest, unit, "NRestarts"), "0", "{unit} is fed in time");
        guest.say(&format!("systemctl kill -s STOP {unit}"));
        until("systemd has restarted it", || {
            property(&mut guest, unit, "NRestarts") == "1"
                && property(&mut guest, unit, "ActiveState") == "active"
        });
    }
    assert_at_work(&mut guest);
    assert_restarts_in_place(&mut guest);

    guest.say("systemctl stop khz-agent khz-hub");
    for unit in ["khz-hub", "khz-agent"] {
        assert_eq!(property(&mut guest, unit, "Result"), "success", "{unit}");
        assert_eq!(property(&mut guest, unit, "ActiveState"), "inactive", "{unit}");
    }
    let journal = guest.say("journalctl --no-pager -o cat");
    assert!(!journal.contains("SIGSYS") && !journal.contains("status=31"), "{journal}");
    assert!(!journal.contains("panicked"), "{journal}");
}
