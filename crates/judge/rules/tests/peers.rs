//! "Which of 128 nodes is slow?": the shipped rules about peers over 128 made-up nodes, of which one is slow, or none, or some for a
//! moment.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use khz_promql::{Engine, LabelSet, Limits};
use khz_rules::{AlertState, Evaluator, Memory, RuleSet, Settings};

const ROW: i64 = 15_000;
const BEGIN: i64 = 1_763_690_000_000;

/// A number from 0 up to 1, the same in each run.
fn noise(row: i64, node: usize) -> f64 {
    let mut x =
        (row as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (node as u64).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 30)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((x ^ (x >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}

/// What a node does in a row: how busy it is, how much is stolen, and how many errors it has.
type Does = (f64, f64, f64);

/// The alerts that fired within half an hour, each with its node.
fn fired(nodes: usize, does: &dyn Fn(i64, usize) -> Does) -> BTreeSet<(String, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../packaging/rules/peers.yml");
    let set = RuleSet::load(&[path.canonicalize().unwrap()]).unwrap();
    let settings = Arc::new(Settings { interval: ROW, ..Settings::default() });
    let mut groups: Vec<Evaluator> =
        set.groups().map(|group| Evaluator::new(group.clone(), settings.clone())).collect();
    let (engine, mut memory, mut found) =
        (Engine::new(Limits::default()), Memory::default(), BTreeSet::new());
    let of = |metric: &str, more: &[(&str, &str)]| -> Vec<LabelSet> {
        let node = |number: usize| {
            let instance = format!("node{number:03}");
            let plain = [("__name__", metric), ("instance", &*instance), ("job", "node")];
            LabelSet::new(
                plain.iter().chain(more).map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
            )
        };
        (0..nodes).map(node).collect()
    };
    let series = [
        of("node_cpu_seconds_total", &[("cpu", "0"), ("mode", "idle")]),
        of("node_cpu_seconds_total", &[("cpu", "0"), ("mode", "steal")]),
        of("node_network_receive_errs_total", &[("device", "eth0")]),
        of("node_network_transmit_errs_total", &[("device", "eth0")]),
    ];
    let mut sums = vec![[0.0; 4]; nodes];
    for row in 0..110 {
        let now = BEGIN + row * ROW;
        for (node, sums) in sums.iter_mut().enumerate() {
            let (busy, stolen, errors) = does(row, node);
            let seconds = ROW as f64 / 1e3;
            for (at, more) in [1.0 - busy, stolen, errors, 0.0].into_iter().enumerate() {
                sums[at] += more * seconds;
                memory.add(&series[at][node], now, sums[at]);
            }
        }
        memory.forget(now - 900_000);
        for group in &mut groups {
            let pass = group.evaluate(&engine, &memory, now, &mut || Duration::ZERO);
            assert!(pass.rules.iter().all(|rule| rule.error.is_none()), "{:?}", pass.rules);
            for sample in &pass.samples {
                memory.add(&sample.labels, sample.time, sample.value);
            }
            for (number, rule) in group.group().rules.iter().enumerate() {
                let firing = group.alerts(number).filter(|alert| alert.state == AlertState::Firing);
                found.extend(
                    firing.map(|alert| (rule.name.to_string(), alert.labels.get("instance").to_owned())),
                );
            }
        }
    }
    found
}

/// All nodes work at the same job.
fn together(row: i64, node: usize) -> Does {
    (0.93 + 0.05 * noise(row, node), 0.01 * noise(row, node + 1_000), 0.0)
}

#[test]
fn of_128_nodes_the_odd_ones_are_found_and_no_other_and_none_if_none_is_odd() {
    assert_eq!(fired(128, &together), BTreeSet::new());
    let three_are_odd = |row: i64, node: usize| match node {
        // It waits while the others work.
        77 if row >= 25 => (0.6 + 0.1 * noise(row, node), 0.0, 0.0),
        12 if row >= 25 => (together(row, node).0, 0.3, 0.0),
        // Errors come in bursts of a row in each minute.
        3 if row >= 25 && row % 4 == 0 => (together(row, node).0, 0.0, 40.0),
        _ => together(row, node),
    };
    let found = fired(128, &three_are_odd);
    let found: Vec<(&str, &str)> = found.iter().map(|(alert, node)| (&**alert, &**node)).collect();
    let expected = [
        ("NetworkErrorsUnlikePeers", "node003"),
        ("NodeUnlikePeers", "node077"),
        ("StolenUnlikePeers", "node012"),
    ];
    assert_eq!(found, expected);
}

#[test]
fn nodes_that_do_different_things_and_nodes_that_are_odd_for_a_moment_are_not_told_of() {
    let each_its_own = |row: i64, node: usize| (noise(row / 40, node), 0.02 * noise(row, node), 0.0);
    assert_eq!(fired(24, &each_its_own), BTreeSet::new());
    // Each node stands still for two minutes at some time, as one that writes a checkpoint, and has a burst of errors once.
    let pauses = |row: i64, node: usize| match row - 10 - 3 * node as i64 {
        0..8 => (0.2, 0.0, if row % 30 == 0 { 20.0 } else { 0.0 }),
        _ => together(row, node),
    };
    assert_eq!(fired(24, &pauses), BTreeSet::new());
}
