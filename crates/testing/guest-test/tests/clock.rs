//! Sets the wall clock by hours under a running hub and a running agent, in guests, so that this machine's clock stays.
//! `cargo xtask test --slow` runs these tests.

#![allow(clippy::unwrap_used)]

use khz_guest_test::guest::Guest;
use khz_guest_test::hub::Hub;
use khz_guest_test::{debian, small, until};
use serde_json::Value;

/// One machine: busybox, khz and some modules of the kernel.
fn boot(name: &str, modules: &[&str], more: &[&str]) -> Guest {
    let kernel = debian::kernel();
    let image = small::image(name, &kernel, modules).pack();
    Guest::boot(&kernel, image, 256, small::KERNEL_WORDS, more)
}

/// The hub's report about the node n1.
struct Node(Value);

impl Node {
    fn of(nodes: &str) -> Option<Node> {
        let line = nodes.lines().find(|line| line.contains("\"n1\""))?;
        Some(Node(serde_json::from_str(line).unwrap()))
    }

    fn base(&self, key: &str) -> Option<u64> {
        let lane = self.0["lanes"].as_array()?.iter().find(|lane| lane["name"] == "base")?;
        lane[key].as_u64()
    }

    fn seconds(value: &Value) -> Option<f64> {
        value.as_str()?.parse().ok()
    }

    /// How far the node's clock is ahead of the hub's, in seconds.
    fn clock_offset(&self) -> Option<f64> {
        Node::seconds(&self.0["clock_offset"])
    }

    /// The age of its newest row, in seconds.
    fn age(&self) -> Option<f64> {
        let lane = self.0["lanes"].as_array()?.iter().find(|lane| lane["name"] == "base")?;
        Node::seconds(&lane["age"])
    }

    fn assert_undisturbed(&self, when: &str) {
        let counted = ["awaited", "lost", "late"].map(|key| self.base(key));
        assert_eq!(counted, [Some(0); 3], "{when}: rows went missing: {}", self.0);
        assert_eq!(
            (&self.0["up"], &self.0["connects"]),
            (&Value::Bool(true), &1.into()),
            "{when}: {}",
            self.0
        );
    }
}

/// The rows of a ring, from `khz ring export --json`: number, boot clock, wall clock.
fn rows(exported: &str) -> Vec<(u64, f64, f64)> {
    let row = |line: &str| {
        let row: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let seconds = |key: &str| Node::seconds(&row[key]).unwrap();
        (row["row"].as_u64().unwrap(), seconds("boot"), seconds("time"))
    };
    exported.lines().map(row).collect()
}

/// What the hub says of the node n1.
fn node_at(hub: &Hub) -> Option<Node> {
    Node::of(&hub.ask(&["nodes", "n1", "--json"]).1)
}

/// Sets the guest's clock forth or back.
fn set_clock(guest: &mut Guest, seconds: i64) {
    guest.say(&format!("date -s @$(($(date +%s) + {seconds}))"));
}

#[test]
#[ignore = "slow: boots a virtual machine"]
fn setting_the_clock_under_hub_and_agent_neither_loses_nor_doubles_a_row() {
    let mut guest = boot("clock", &[], &[]);
    guest.say("khz hub --node hub > /tmp/hub.log 2>&1 & echo $! > /tmp/hub.pid");
    let agent = "khz agent --node n1 --hub 127.0.0.1:7071 --base-rate 10Hz --ring 16MiB";
    guest.say(&format!("{agent} > /tmp/agent.log 2>&1 & echo $! > /tmp/agent.pid"));
    let node = |guest: &mut Guest| Node::of(&guest.run("khz nodes n1 --json 2>/dev/null").text);
    let rows_at_hub = |guest: &mut Guest| node(guest).and_then(|node| node.base("rows")).unwrap_or(0);
    until("rows come", || rows_at_hub(&mut guest) > 50);
    for seconds in [3_600, -7_200] {
        let when = format!("after {seconds} s");
        let before = rows_at_hub(&mut guest);
        set_clock(&mut guest, seconds);
        until("rows go on", || rows_at_hub(&mut guest) > before + 50);
        node(&mut guest).unwrap().assert_undisturbed(&when);
        until("ages and offset are as before", || {
            let node = node(&mut guest).unwrap();
            node.age().is_some_and(|age| age < 60.0)
                && node.clock_offset().is_some_and(|offset| offset.abs() < 1.0)
        });
        let got = guest.run("khz get n1:mem.total --json 2>/dev/null");
        assert_eq!((got.code, got.text.lines().count()), (0, 1), "{when}: {}", got.text);
        let metrics = guest.say("wget -q -O - http://127.0.0.1:7070/metrics | grep ^khz_node_");
        for metric in ["khz_node_clock_", "khz_node_round_trip_seconds"] {
            assert!(metrics.contains(metric), "{when}: no {metric}: {metrics}");
        }
        let last = rows(&guest.say("khz ring export --node n1 --last 2s --json mem.free"));
        let now: f64 = guest.say("date +%s").trim().parse().unwrap();
        assert!(last.len() > 5 && (now - last.last().unwrap().2).abs() < 60.0, "{when}: {last:?} at {now}");
        guest.say("kill -0 $(cat /tmp/hub.pid) $(cat /tmp/agent.pid)");
    }
    // The whole ring, once nothing is added any more.
    guest.say("kill $(cat /tmp/agent.pid)");
    until("the agent has ended", || guest.run("kill -0 $(cat /tmp/agent.pid)").code != 0);
    let all = rows(&guest.say("khz ring export --node n1 --json mem.free"));
    assert!(all.len() > 150, "{}", all.len());
    let numbers: Vec<u64> = all.iter().map(|row| row.0).collect();
    assert_eq!(numbers, (0..all.len() as u64).collect::<Vec<_>>(), "each row once");
    assert!(all.windows(2).all(|pair| pair[0].1 < pair[1].1), "the boot clock goes on");
    assert!(all.windows(2).all(|pair| pair[1].1 - pair[0].1 < 60.0), "and has no hole");
    let set = |pair: &[(u64, f64, f64)]| (pair[1].2 - pair[1].1) - (pair[0].2 - pair[0].1);
    let steps: Vec<i64> =
        all.windows(2).map(|pair| set(pair).round() as i64).filter(|&step| step != 0).collect();
    assert_eq!(steps.len(), 2, "the wall clock was set twice: {steps:?}");
    assert!((steps[0] - 3_600).abs() <= 2 && (steps[1] + 7_200).abs() <= 2, "{steps:?}");
    let at_hub = rows_at_hub(&mut guest);
    assert!(at_hub <= all.len() as u64, "{at_hub} rows at the hub, {} were gathered", all.len());
    let said = guest.say("cat /tmp/hub.log /tmp/agent.log");
    assert!(!said.contains("panicked") && !said.contains("ERROR"), "{said}");
}

#[test]
#[ignore = "slow: boots a virtual machine"]
fn a_hub_on_another_machine_follows_a_node_whose_clock_is_set() {
    let hub = Hub::start();
    let mut guest = boot("two-clocks", &small::NETWORK, &small::NETWORK_OF_QEMU);
    guest.say(small::JOIN_NETWORK);
    let agent = "khz agent --node n1 --base-rate 10Hz --ring 16MiB --insecure";
    guest.say(&format!("{agent} --hub 10.0.2.2:{} > /tmp/agent.log 2>&1 &", hub.link_port));
    let rows_at_hub = || node_at(&hub).and_then(|node| node.base("rows")).unwrap_or(0);
    until("rows come", || rows_at_hub() > 50);
    let mut ahead = 0;
    for seconds in [0, 3_600, -7_200, 3_600] {
        let before = rows_at_hub();
        set_clock(&mut guest, seconds);
        ahead += seconds;
        let when = format!("the guest's clock is {ahead} s ahead");
        let since = std::time::Instant::now();
        until(&format!("{when}, and the hub knows it"), || {
            let node = node_at(&hub).unwrap();
            node.clock_offset().is_some_and(|offset| (offset - ahead as f64).abs() < 30.0)
                && node.age().is_some_and(|age| age < 30.0)
        });
        println!("{when}: known after {:?}", since.elapsed());
        until("rows go on", || rows_at_hub() > before + 50);
        node_at(&hub).unwrap().assert_undisturbed(&when);
        let (code, got) = hub.ask(&["get", "n1:mem.total", "--json"]);
        assert_eq!((code, got.lines().count()), (Some(0), 1), "{when}: {got}");
    }
}
