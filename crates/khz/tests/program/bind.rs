//! `--bind`: the local address of outgoing connections, on a host that has several. In its own network namespace. Needs root
//! and iproute2; otherwise it is skipped.

use std::process::{Command, Stdio};

use crate::process::{code, err, run};

/// Each process connects from its own address. Then the kernel lists all connections.
const SCRIPT: &str = r#"
set -u
all=
ip link set lo up || exit 77
for n in 1 11 12 13 14 15 16; do ip address add 10.77.0.$n/32 dev lo || exit 77; done
cd "$FOLDER"
export KHZ_STATE_DIR=none KHZ_RING_DIR=none XDG_CONFIG_HOME=/nonexistent
"$KHZ" hub --listen 10.77.0.1:7070 --link-listen 10.77.0.1:7071 --text-listen 10.77.0.1:2709 --insecure --run-dir r1 > hub.log 2>&1 & all="$all $!"
"$KHZ" agent --node n1 --hub 10.77.0.1 --insecure --run-dir r2 --bind 10.77.0.11 > n1.log 2>&1 & all="$all $!"
UPPER="hub --listen 127.0.0.1:0 --link-listen 127.0.0.1:0 --text-listen none --insecure"
"$KHZ" $UPPER --source 10.77.0.1 --run-dir r3 --bind 10.77.0.12 > upper.log 2>&1 & all="$all $!"
"$KHZ" $UPPER --source text://10.77.0.1 --run-dir r4 --bind 10.77.0.13 > text.log 2>&1 & all="$all $!"
tries=0
until "$KHZ" get n1:mem.free --server 10.77.0.1:7070 > get.log 2>&1 || [ $tries -ge 300 ]; do tries=$((tries + 1)); sleep 0.1; done
"$KHZ" record 'n1:*' --hub 10.77.0.1 --insecure --bind 10.77.0.14 -o run.khzt > record.log 2>&1 & all="$all $!"
KHZ_BIND=10.77.0.15 "$KHZ" watch n1:mem.free --server http://10.77.0.1:7070 > watch.log 2>&1 & all="$all $!"
"$KHZ" simulate --nodes 2 --rate 1Hz --prefix s --hub 10.77.0.1:7071 --insecure --bind 10.77.0.16 --run-dir r5 > simulate.log 2>&1 & all="$all $!"
peers() { ss -tnH state established dst 10.77.0.1 | awk '{ split($3, a, ":"); split($4, b, ":"); print a[1], b[2] }' | sort -u; }
tries=0
until [ "$(peers | grep -c '10.77.0.1[1-6] ')" -ge 6 ] || [ $tries -ge 300 ]; do tries=$((tries + 1)); sleep 0.1; done
peers
"$KHZ" nodes --server http://10.77.0.1:7070 --bind 10.77.0.15 --json
kill $all
wait
"#;

#[test]
fn connections_go_out_from_the_address_that_was_asked_for() {
    let folder = std::env::temp_dir().join(format!("khz-bind-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let ran = Command::new("unshare")
        .args(["--net", "sh", "-c", SCRIPT])
        .env("FOLDER", &folder)
        .env("KHZ", env!("CARGO_BIN_EXE_khz"))
        .stdin(Stdio::null())
        .output();
    let log = |name: &str| std::fs::read_to_string(folder.join(format!("{name}.log"))).unwrap_or_default();
    let logs: String = ["hub", "n1", "upper", "text", "get", "record", "watch", "simulate"]
        .map(|who| format!("{who}: {}\n", log(who)))
        .concat();
    let _ = std::fs::remove_dir_all(&folder);
    let lines = match ran {
        Ok(output) if !output.stdout.is_empty() => String::from_utf8(output.stdout).unwrap(),
        other => {
            return khz_skip::skip(format!("needs root, unshare and iproute2: {other:?}"));
        }
    };
    for (who, expected) in [
        ("the agent", "10.77.0.11 7071"),
        ("the hub above, over the link", "10.77.0.12 7071"),
        ("the hub above, over the text protocol", "10.77.0.13 2709"),
        ("the recorder", "10.77.0.14 7071"),
        ("the reader", "10.77.0.15 7070"),
        ("the simulation", "10.77.0.16 7071"),
        ("the hub, of the agent", "\"address\":\"10.77.0.11:"),
    ] {
        assert!(lines.contains(expected), "{who}: no {expected} in\n{lines}\n{logs}");
    }
}

#[test]
fn an_address_that_cannot_be_bound_is_refused_or_named() {
    for (address, message) in [
        ("eth0", "bind (from --bind): 'eth0' is not an address of this machine without a port, as 10.0.0.7"),
        ("10.0.0.7:80", "bind (from --bind): '10.0.0.7:80' is not an address"),
        ("224.0.0.1", "is not an address"),
    ] {
        let output = run(&["config", "--bind", address]);
        assert_eq!(code(&output), 2, "{address}");
        assert!(err(&output).contains(message), "{}", err(&output));
    }
    let words = ["simulate", "--nodes", "1", "--insecure", "--hub", "192.0.2.1:7071", "--bind"];
    for (address, problem) in [
        ("eth0", "'eth0' is not an address of this machine"),
        ("192.0.2.77", "no interface of this machine has the address"),
    ] {
        let output = run(&[&words[..], &[address]].concat());
        assert_eq!(code(&output), 2, "{address}");
        assert!(err(&output).contains(problem), "{address}: {}", err(&output));
    }
    // TEST-NET-1: no machine has this address.
    let output = run(&["get", "mem.free", "--server", "192.0.2.1:7070", "--bind", "192.0.2.77"]);
    assert_eq!(code(&output), 1);
    let message = err(&output);
    assert!(
        message.contains("no interface of this machine has the address 192.0.2.77 (--bind)"),
        "{message}"
    );
}
