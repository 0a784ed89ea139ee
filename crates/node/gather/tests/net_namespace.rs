//! Five hundred interfaces in a separate network namespace. There /proc/net/dev comes in many pieces. Every
//! counter of every interface is read, and equals the number in /sys. Interfaces come and go while the agent
//! runs.
//!
//! /proc/net/dev shows the namespace of the process that opens it, and a test runs in a thread. So the test
//! runs this program again inside the namespace. Needs root and iproute2; without them it reports that it was
//! skipped.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::net::UdpSocket;
use std::process::{Command, Stdio};

use futures_executor::block_on;
use khz_gather::{Agent, Plan};
use khz_model::{Absence, Nanos, NodeName, Pattern, Query, Reading, Sample};

/// Set only for the run inside the namespace, so that nobody who runs ignored tests by hand changes his own
/// interfaces.
const INSIDE: &str = "TEST_INSIDE_NAMESPACE";

/// The number of interfaces besides the loopback.
const INTERFACES: usize = 500;

/// The number of datagrams sent over the namespace's loopback, each of 1,000 bytes.
const DATAGRAMS: u64 = 100;

/// Each metric, and its files below /sys/class/net/NAME/statistics. The columns `errs`, `drop` and `frame`
/// are sums of several files (net/core/net-procfs.c).
const COUNTERS: [(&str, &[&str]); 16] = [
    ("net.rx_bytes", &["rx_bytes"]),
    ("net.rx_packets", &["rx_packets"]),
    ("net.rx_errors", &["rx_errors"]),
    ("net.rx_dropped", &["rx_dropped", "rx_missed_errors"]),
    ("net.rx_fifo", &["rx_fifo_errors"]),
    ("net.rx_frame", &["rx_length_errors", "rx_over_errors", "rx_crc_errors", "rx_frame_errors"]),
    ("net.rx_compressed", &["rx_compressed"]),
    ("net.rx_multicast", &["multicast"]),
    ("net.tx_bytes", &["tx_bytes"]),
    ("net.tx_packets", &["tx_packets"]),
    ("net.tx_errors", &["tx_errors"]),
    ("net.tx_dropped", &["tx_dropped"]),
    ("net.tx_fifo", &["tx_fifo_errors"]),
    ("net.tx_collisions", &["collisions"]),
    (
        "net.tx_carrier",
        &["tx_carrier_errors", "tx_aborted_errors", "tx_window_errors", "tx_heartbeat_errors"],
    ),
    ("net.tx_compressed", &["tx_compressed"]),
];

/// A network namespace, removed when this is dropped.
struct Namespace(String);

impl Namespace {
    fn new() -> Result<Self, String> {
        let name = format!("khz-test-{}", std::process::id());
        ip(&["netns", "add", &name], "")?;
        Ok(Namespace(name))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = ip(&["netns", "del", &self.0], "");
    }
}

/// Runs `ip` with this text as its standard input.
fn ip(arguments: &[&str], input: &str) -> Result<(), String> {
    let mut command = Command::new("ip");
    command.args(arguments).stdin(Stdio::piped()).stderr(Stdio::piped()).stdout(Stdio::null());
    let mut child = command.spawn().map_err(|e| format!("ip: {e}"))?;
    child.stdin.take().unwrap().write_all(input.as_bytes()).map_err(|e| format!("ip: {e}"))?;
    let output = child.wait_with_output().map_err(|e| format!("ip: {e}"))?;
    match output.status.success() {
        true => Ok(()),
        false => {
            Err(format!("ip {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim()))
        }
    }
}

/// Adds the interfaces and returns their names: dummies, or veth pairs if this kernel has no dummies.
fn add_interfaces(namespace: &str) -> Result<BTreeSet<String>, String> {
    let dummies: Vec<_> = (0..INTERFACES).map(|n| format!("dm{n}")).collect();
    let pairs: Vec<_> = (0..INTERFACES / 2).map(|n| (format!("ve{n}a"), format!("ve{n}b"))).collect();
    let batch = |lines: Vec<String>| ip(&["-n", namespace, "-batch", "-"], &lines.concat());
    let added = match batch(dummies.iter().map(|d| format!("link add {d} type dummy\n")).collect()) {
        Ok(()) => dummies,
        Err(_) => {
            let lines = pairs.iter().map(|(a, b)| format!("link add {a} type veth peer name {b}\n"));
            batch(lines.collect())?;
            pairs.into_iter().flat_map(|(a, b)| [a, b]).collect()
        }
    };
    // Interfaces that are up send greetings, so that not all counters are 0.
    batch(added.iter().step_by(5).map(|name| format!("link set {name} up\n")).collect())?;
    batch(vec!["link set lo up\n".to_owned()])?;
    Ok(added.into_iter().chain(["lo".to_owned()]).collect())
}

#[test]
fn five_hundred_interfaces_are_read_whole() {
    let namespace = match Namespace::new() {
        Ok(namespace) => namespace,
        Err(missing) => return khz_skip::skip(format!("needs root and iproute2 ({missing})")),
    };
    let names = add_interfaces(&namespace.0).unwrap();
    assert_eq!(names.len(), INTERFACES + 1);
    let output = Command::new("ip")
        .args(["netns", "exec", &namespace.0])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "inside_the_namespace", "--ignored", "--nocapture"])
        .env(INSIDE, "1")
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{printed}\n{}", String::from_utf8_lossy(&output.stderr));
    // If the test name above were wrong, the run would execute no test and succeed.
    assert!(printed.contains("1 passed"), "{printed}");
}

/// The sixteen readings of each interface, in the order of [`COUNTERS`].
fn readings(query: &dyn Query) -> BTreeMap<String, Vec<Reading>> {
    let pattern = [Pattern::new("net.*[*]").unwrap()];
    let snapshot = block_on(query.latest(&pattern, Nanos(0))).unwrap();
    let mut interfaces: BTreeMap<String, Vec<Reading>> = BTreeMap::new();
    // Those of /sys/class/net are there, too.
    let is_counter = |sample: &&Sample| COUNTERS.iter().any(|(name, _)| *name == &*sample.series.metric.name);
    for sample in snapshot.nodes[0].1.iter().filter(is_counter) {
        let counters =
            interfaces.entry(sample.series.instance.as_ref().unwrap().name().to_owned()).or_default();
        assert_eq!(&*sample.series.metric.name, COUNTERS[counters.len()].0);
        counters.push(sample.reading);
    }
    interfaces
}

/// The same numbers from /sys, for every interface: /sys belongs to this namespace too.
fn from_sys() -> BTreeMap<String, Vec<u64>> {
    let number = |interface: &str, file: &str| -> u64 {
        let path = format!("/sys/class/net/{interface}/statistics/{file}");
        fs::read_to_string(path).unwrap().trim().parse().unwrap()
    };
    let counters = |name: &str| {
        COUNTERS.iter().map(|(_, files)| files.iter().map(|file| number(name, file)).sum()).collect()
    };
    let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    fs::read_dir("/sys/class/net").unwrap().map(name).map(|name| (name.clone(), counters(&name))).collect()
}

/// Checks that everything was read, and that each number lies between the values in /sys before and after.
fn all_agree(query: &dyn Query) -> BTreeMap<String, Vec<Reading>> {
    let before = from_sys();
    let read = readings(query);
    let after = from_sys();
    assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>());
    for (name, counters) in &before {
        let values = read.get(name).unwrap_or_else(|| panic!("{name} was not read"));
        assert_eq!(values.len(), COUNTERS.len(), "{name}");
        for (index, (metric, _)) in COUNTERS.iter().enumerate() {
            let Reading::Present(value) = values[index] else {
                panic!("{metric}[{name}]: {:?}", values[index])
            };
            assert!(
                (counters[index]..=after[name][index]).contains(&value),
                "{metric}[{name}] is {value}, not {}..={}",
                counters[index],
                after[name][index]
            );
        }
    }
    read
}

#[test]
#[ignore = "run by five_hundred_interfaces_are_read_whole, inside its namespace"]
fn inside_the_namespace() {
    if std::env::var_os(INSIDE).is_none() {
        // Not a skipped test: if no namespace can be made, the outer test counts as skipped.
        return println!("runs only inside a network namespace of its own");
    }
    let agent = Agent::start(Plan::new("/", NodeName::new("n1").unwrap())).unwrap();
    let query = agent.query();

    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let own = socket.local_addr().unwrap();
    for _ in 0..DATAGRAMS {
        socket.send_to(&[7; 1_000], own).unwrap();
    }
    let read = all_agree(&*query);
    assert_eq!(read.len(), INTERFACES + 1);
    // The namespace's own loopback has carried these datagrams and nothing else.
    let bytes = read["lo"][0].value().unwrap();
    assert!((DATAGRAMS * 1_000..DATAGRAMS * 2_000).contains(&bytes), "{bytes}");
    let pieces = fs::read("/proc/net/dev").unwrap().len() / 4_096;
    assert!(pieces >= 8, "{pieces} pieces prove little");

    // One interface comes and one goes. The ends of a pair go together.
    ip(&["link", "add", "khz-new", "type", "bridge"], "").unwrap();
    let gone: Vec<_> = ["dm7", "ve7a", "ve7b"].into_iter().filter(|name| read.contains_key(*name)).collect();
    ip(&["link", "del", gone[0]], "").unwrap();
    let read = all_agree(&*query);
    assert_eq!(read.len(), INTERFACES + 2);
    assert!(read["khz-new"].iter().all(|reading| reading.value().is_some()));
    for name in &gone {
        let absent = Reading::Absent(Absence::InstanceGone);
        assert!(read[*name].iter().all(|reading| *reading == absent), "{name}: {:?}", read[*name]);
    }

    // The interface comes back: its series continues.
    ip(&["link", "add", gone[0], "type", "bridge"], "").unwrap();
    let read = all_agree(&*query);
    assert_eq!(read.len(), INTERFACES + 2);
    assert!(read[gone[0]].iter().all(|reading| reading.value().is_some()));
    agent.stop();
}
