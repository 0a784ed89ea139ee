//! What readers' interests cost, in operations: times are the machine's.

use khz_model::{ByteSize, NodeName, Pattern};

use super::*;
use crate::cluster::Settings;
use crate::limits::OPERATIONS_A_TURN;
use crate::mailbox::Mailbox;
use crate::node::{Arrival, Link};

const NODES: usize = 7_000;

fn names(nodes: std::ops::Range<usize>) -> Vec<NodeName> {
    nodes.map(|number| NodeName::new(&format!("n{number}")).unwrap()).collect()
}

fn cluster(nodes: usize) -> Arc<Cluster> {
    let rate_max = Rate::from_hz(1_000).unwrap();
    let cluster = Cluster::new(Settings { name: "hub".into(), history: ByteSize(0), rate_max }, [7; 16]);
    cluster.expect(&names(0..nodes));
    cluster
}

fn begin(cluster: &Arc<Cluster>, patterns: &[&str], hz: u64) -> ClusterSubscription {
    let patterns = patterns.iter().map(|text| Pattern::new(text).unwrap()).collect();
    let interest = Interest::new(patterns, Rate::from_hz(hz).unwrap(), false);
    ClusterSubscription::begin(cluster.clone(), interest, Pace::Flushed, Numbers::Nodes).unwrap()
}

/// Goes on until all is found out; tells what each turn of this number of operations has done.
fn turns(subscription: &mut ClusterSubscription, operations: usize) -> Vec<u64> {
    let mut made = Vec::new();
    while subscription.can_go_on() {
        let mut turn = Turn::of(operations);
        subscription.go_on(&mut turn).unwrap();
        made.push(turn.made());
        assert!(made.len() < 10 * NODES, "it never ends");
    }
    made
}

fn all(subscription: &mut ClusterSubscription) -> u64 {
    turns(subscription, OPERATIONS_A_TURN).iter().sum()
}

#[test]
fn nodes_that_are_named_are_looked_up_however_many_others_there_are() {
    let cluster = cluster(NODES);
    for (patterns, nodes) in [
        (&["n1:mem.*"][..], 1),
        (&["n[0-31]:load.1m"], 32),
        (&["n1,n[7-9],nobody:*", "n6999:cpu.*[0]"], 5),
        (&["nobody:mem.*"], 0),
    ] {
        let mut named = begin(&cluster, patterns, 1);
        let made = all(&mut named);
        assert_eq!(named.cursors().len(), nodes, "{patterns:?}");
        assert!(made <= 2 * nodes as u64 + 1, "{patterns:?}: {made} operations");
    }
}

#[test]
fn sixty_four_interests_in_some_nodes_cost_what_these_nodes_cost() {
    let cluster = cluster(NODES);
    let mut readers: Vec<ClusterSubscription> =
        (0..64).map(|n| begin(&cluster, &[&format!("n[{n}-{}]:mem.*", n + 9)], 1)).collect();
    let made: u64 = readers.iter_mut().map(all).sum();
    assert_eq!(made, 64 * 2 * 10, "each is looked up, and followed");
    // A node that comes is held against each interest once.
    cluster.expect(&names(NODES..NODES + 1));
    let made: u64 = readers.iter_mut().map(all).sum();
    assert_eq!(made, 64);
}

#[test]
fn a_subscription_to_everything_gives_the_turn_back() {
    let cluster = cluster(NODES);
    for patterns in [&["mem.*"][..], &["n*:mem.*"], &["n*,m*,x*:mem.*"], &["n[0-99999]:mem.*"]] {
        let mut everything = begin(&cluster, patterns, 1);
        let cost = everything.choice.cost() as u64;
        let made = turns(&mut everything, 500);
        assert_eq!(everything.cursors().len(), NODES, "{patterns:?}");
        assert!(made.iter().all(|&made| made < 500 + cost), "{patterns:?}: {made:?}");
        assert_eq!(made.iter().sum::<u64>(), NODES as u64 * (cost + 1), "{patterns:?}: each once");
    }
}

#[test]
fn all_nodes_that_come_back_at_once_are_held_against_each_interest_once() {
    let cluster = cluster(0);
    let mut readers: Vec<ClusterSubscription> =
        (0..64).map(|n| begin(&cluster, &[if n % 2 == 0 { "n1:mem.*" } else { "m*:load.*" }], 1)).collect();
    assert_eq!(readers.iter_mut().map(all).sum::<u64>(), 32, "nobody is there; names are looked up");
    let mut made = 0;
    for first in (0..NODES).step_by(1_000) {
        cluster.expect(&names(first..first + 1_000));
        made += readers.iter_mut().map(all).sum::<u64>();
    }
    let hosts: u64 = (0..64).map(|n| if n % 2 == 0 { 1 } else { 2 }).sum();
    assert!(made <= NODES as u64 * hosts, "{made} operations");
}

#[test]
fn a_pattern_of_a_thousand_globs_costs_what_it_says_and_still_gives_the_turn_back() {
    let cluster = cluster(500);
    let globs: Vec<String> = (0..1_000).map(|n| format!("*{n}x")).collect();
    let hosts = &globs.join(",")[..4_000];
    let mut dear = begin(&cluster, &[&format!("{}:mem.*", hosts.trim_end_matches(','))], 1);
    let cost = dear.choice.cost() as u64;
    let made = turns(&mut dear, OPERATIONS_A_TURN);
    assert!(
        cost > 600 && made.iter().all(|&made| made < OPERATIONS_A_TURN as u64 + cost),
        "{cost}: {made:?}"
    );
}

#[test]
fn a_subscription_to_everything_cannot_grow_beyond_the_limit_by_nodes_that_come() {
    let cluster = cluster(0);
    let mut everything = begin(&cluster, &["*"], 1);
    all(&mut everything);
    let others = cluster.follow_bytes.take(cluster.follow_bytes_max()).unwrap();
    cluster.expect(&names(0..3));
    others.set(cluster.follow_bytes_max());
    all(&mut everything);
    assert_eq!(everything.cursors().len(), 0);
    assert!(everything.has_more() && !everything.can_go_on(), "nobody spins for it");
    let notices = everything.take_notices();
    assert!(notices.len() == 1 && notices[0].text.contains("is not shown yet"), "{notices:?}");
    everything.go_on(&mut Turn::whole()).unwrap();
    assert!(everything.take_notices().is_empty(), "it is said once");
    drop(others);
    everything.go_on(&mut Turn::whole()).unwrap();
    assert_eq!(everything.cursors().len(), 3, "when there is room they are shown");
}

#[test]
fn nodes_that_are_forgotten_are_let_go_and_come_back_as_others() {
    let cluster = cluster(0);
    for name in names(0..8) {
        let node = cluster.node_or_new(&name, Nanos(0)).unwrap();
        let link = Link::new(Arc::new(Mailbox::new().unwrap()), 1);
        node.lock().connect(&Arrival::default(), link, Nanos(0));
        assert!(node.disconnect(1, None, Nanos(0)));
    }
    let mut everything = begin(&cluster, &["*"], 1);
    all(&mut everything);
    everything.count();
    let before = cluster.follow_bytes.held();
    cluster.forget(&Pattern::new("n[0-2]:*").unwrap());
    assert_eq!(everything.let_go(), [2, 1, 0]);
    everything.count();
    assert_eq!(everything.cursors().len(), 5);
    assert!(cluster.follow_bytes.held() < before);
    cluster.expect(&names(0..1));
    all(&mut everything);
    assert_eq!(everything.cursors().len(), 6);
    drop(everything);
    assert_eq!(cluster.follow_bytes.held(), 0);
}

#[test]
fn nodes_of_which_a_reader_wants_the_same_share_the_terms() {
    let cluster = cluster(100);
    let nodes = cluster.appeared_after(0, 100);
    // A hub subscribes when it knows how fast the base lane is.
    for (_, node) in &nodes {
        node.lock().lanes_mut().offered(1, "base", 1, Nanos::SECOND).unwrap();
        node.touch();
    }
    let hosts: Vec<String> = (0..700).map(|n| format!("n{n}")).collect();
    let mut fast = begin(&cluster, &[&format!("{}:mem.*", hosts.join(",")), "n*:load.*", "n7:cpu.*"], 100);
    all(&mut fast);
    assert_eq!((fast.cursors().len(), fast.selections.len()), (100, 2), "n7, and all others");
    let terms = |at: usize| nodes[at].1.lock().subscriptions().first().unwrap().terms().clone();
    assert!(Arc::ptr_eq(&terms(0), &terms(99)) && !Arc::ptr_eq(&terms(0), &terms(7)));
    assert!(terms(0).patterns.iter().all(|pattern| pattern.nodes().is_none()), "the nodes are chosen here");
}
