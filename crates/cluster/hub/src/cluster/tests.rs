//! Tests of what the hub knows of all nodes together.

use super::*;
use crate::cursor::Numbers;
use crate::subscription::{ClusterSubscription, Pace};
use khz_link::HubName;
use khz_model::{Interest, Pattern, QueryError};

fn cluster() -> Arc<Cluster> {
    let rate_max = Rate::from_hz(1_000).unwrap();
    Cluster::new(Settings { name: "hub".into(), history: ByteSize(0), rate_max }, [7; 16])
}

#[test]
fn readers_share_what_may_wait_for_all_of_them() {
    let cluster = cluster();
    for (readers, each) in
        [(0, OUT_BYTES_MAX), (64, OUT_BYTES_MAX), (100, READERS_OUT_BYTES_MAX / 100), (1_024, OUT_BYTES_MIN)]
    {
        cluster.readers.store(readers, Ordering::Relaxed);
        assert_eq!(cluster.out_bytes_max(), each, "{readers}");
        assert!(readers as usize * each <= READERS_OUT_BYTES_MAX);
    }
}

#[test]
fn new_readers_are_refused_when_readers_hold_as_much_as_they_may() {
    let cluster = cluster();
    let interest = || {
        let patterns = vec![Pattern::everything()];
        Interest::new(patterns, Rate::from_hz(1).unwrap(), false)
    };
    let follow = || ClusterSubscription::new(cluster.clone(), interest(), Pace::Flushed, Numbers::Doors);
    let all = cluster.follow_bytes.take(cluster.follow_bytes_max() + 1).unwrap();
    let refused = follow().err().unwrap();
    assert!(matches!(refused, QueryError::Full { .. }), "{refused}");
    assert!(refused.to_string().ends_with("is reached; try again when others have gone"), "{refused}");
    drop(all);
    assert!(follow().is_ok());
    assert_eq!(cluster.follow_bytes.held(), 0, "what nobody holds any more is given back");
}

fn name(text: &str) -> NodeName {
    NodeName::new(text).unwrap()
}

fn node_names(names: &[&str]) -> Vec<NodeName> {
    names.iter().map(|text| name(text)).collect()
}

#[test]
fn nodes_that_make_room_were_down_the_longest_and_are_neither_up_nor_expected() {
    let cluster = cluster();
    let entry = |text: &str, heard| Entry {
        node: name(text),
        state: crate::memory::State::Down,
        heard,
        since: heard,
        address: String::new(),
        version: String::new(),
    };
    cluster.remember(vec![entry("late", 70), entry("early", 50), entry("alike", 50), entry("up", 10)]);
    cluster.expect(&node_names(&["expected"]));
    cluster.node(&name("up")).unwrap().set_up(true);
    let names = || oldest(&cluster.nodes()).iter().map(|node| node.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(), node_names(&["alike", "early", "late"]));
    // A node that was never heard and is not expected goes first.
    cluster.node_or_new(&name("never"), Nanos(0)).unwrap();
    assert_eq!(names(), node_names(&["never", "alike", "early", "late"]));
}

#[test]
fn forgotten_nodes_are_gone_expected_ones_stay_known_and_those_that_must_stay_are_refused() {
    let cluster = cluster();
    let before = (cluster.appeared(), cluster.forgotten());
    cluster.expect(&node_names(&["n1", "n2"]));
    let mailbox = Arc::new(Mailbox::new().unwrap());
    for text in ["n3", "n4", "other"] {
        let node = cluster.node_or_new(&name(text), Nanos(0)).unwrap();
        let link = crate::node::Link::new(mailbox.clone(), 1);
        node.lock().connect(&crate::node::Arrival::default(), link, Nanos(0));
        if text != "n4" {
            node.lock().disconnect(1, None, Nanos(0));
        }
    }
    assert_eq!(cluster.appeared(), before.0 + 5, "readers look for each");
    let forgotten = cluster.forget(&Pattern::new("n*:*").unwrap());
    assert_eq!(forgotten.nodes, node_names(&["n3"]));
    let refused: Vec<&str> = forgotten.refused.iter().map(|(node, _)| node.as_str()).collect();
    assert_eq!((refused, forgotten.expected), (vec!["n1", "n2", "n4"], vec![]));
    assert!(cluster.forgotten() > before.1);
    assert_eq!(cluster.nodes().len(), 4);
    // An expected node that was here stays known.
    let one = cluster.node(&name("n1")).unwrap();
    let link = crate::node::Link::new(mailbox, 2);
    one.lock().connect(&crate::node::Arrival::default(), link, Nanos(0));
    one.lock().disconnect(2, None, Nanos(0));
    let forgotten = cluster.forget(&Pattern::new("n1:*").unwrap());
    assert_eq!((forgotten.nodes, forgotten.expected), (node_names(&["n1"]), node_names(&["n1"])));
    let again = cluster.node(&name("n1")).unwrap();
    assert!(again.lock().link().is_expected() && !Arc::ptr_eq(&again, &one));
    // It connects in the moment in which it was forgotten: it is the one of its name.
    cluster.keep(&one);
    assert!(Arc::ptr_eq(&cluster.node(&name("n1")).unwrap(), &one));
    let appeared = cluster.appeared();
    cluster.keep(&one);
    assert_eq!(cluster.appeared(), appeared, "it is known already");
}

#[test]
fn lanes_with_a_past_share_the_history_alike() {
    let rate_max = Rate::from_hz(1_000).unwrap();
    let settings = Settings { name: "hub".into(), history: ByteSize(3_000), rate_max };
    let cluster = Cluster::new(settings, [7; 16]);
    assert!(cluster.keeps_history() && !self::cluster().keeps_history());
    assert_eq!(cluster.history_share(), 3_000, "nobody is there");
    let mut nodes = Vec::new();
    for text in ["a", "b", "c"] {
        let node = cluster.node_or_new(&name(text), Nanos(0)).unwrap();
        let mut state = node.lock();
        let id = state.lanes_mut().offered(1, "base", 7, Nanos::SECOND).unwrap();
        for row in 0..30 {
            crate::lane::tests::gets_rows(state.lanes_mut().get_mut(id).unwrap(), row, 1);
        }
        assert!(state.lanes().get(id).unwrap().recent_bytes > 1_000);
        drop(state);
        nodes.push((node, id));
    }
    cluster.keep_house(Nanos(0));
    assert_eq!(cluster.history_share(), 1_000);
    for (node, id) in &nodes {
        let bytes = node.lock().lanes().get(*id).unwrap().recent_bytes;
        assert!((900..=1_000).contains(&bytes), "{bytes} bytes of the history");
    }
}

#[test]
fn places_at_nodes_may_hold_so_much_for_all_and_so_much_more_for_each_node() {
    let cluster = cluster();
    assert_eq!(cluster.follow_bytes_max(), FOLLOW_BYTES_MAX);
    cluster.expect(&node_names(&["n1", "n2"]));
    let most = FOLLOW_BYTES_MAX + 2 * FOLLOW_BYTES_A_NODE;
    let _taken = cluster.follow_bytes.take(most - 10).unwrap();
    assert!(cluster.may_follow(10) && !cluster.may_follow(11) && !cluster.may_follow(u64::MAX));
}

#[test]
fn so_few_nodes_as_may_send_at_once_are_a_small_cluster() {
    let cluster = cluster();
    for n in 0..NODES_AT_ONCE {
        cluster.expect(&node_names(&[&format!("n{n}")]));
    }
    assert!(cluster.is_small());
    cluster.expect(&node_names(&["one-more"]));
    assert!(!cluster.is_small());
}

#[test]
fn hubs_that_nodes_come_from_are_known_once_each_and_a_loop_is_refused() {
    let cluster = cluster();
    let hub = |identity: u8, behind: &[u8]| HubName {
        identity: [identity; 16],
        sources: behind.iter().map(|&identity| [identity; 16]).collect(),
        ..HubName::default()
    };
    let changes = || cluster.sources.changes();
    assert!(cluster.sources.set(0, &hub(1, &[2])) && cluster.sources.set(1, &hub(3, &[2])));
    assert_eq!((cluster.sources.all(), changes()), (vec![[1; 16], [2; 16], [3; 16]], 2));
    assert!(cluster.sources.set(1, &hub(3, &[2])));
    assert_eq!(changes(), 2, "that is no news");
    assert!(!cluster.sources.set(2, &hub(7, &[])) && !cluster.sources.set(2, &hub(4, &[5, 7])), "that is us");
    assert_eq!(cluster.origins(), [[7; 16], [1; 16], [2; 16], [3; 16]]);
    cluster.sources.forget(0);
    assert_eq!(cluster.sources.all(), [[2; 16], [3; 16]]);
}

#[test]
fn it_is_known_for_a_while_when_the_connection_to_a_hub_below_has_ended() {
    let cluster = cluster();
    let within = |at: u64| cluster.sources.lost_within(Nanos::from_secs(10), Nanos::from_secs(at));
    assert_eq!(within(5), None);
    cluster.sources.lose(1, Nanos::from_secs(100));
    assert_eq!(within(105), Some([(1, Nanos::from_secs(100))].into()));
    assert_eq!(within(110), None, "that is long ago");
    cluster.sources.lose(2, Nanos::from_secs(108));
    assert_eq!(within(112).map(|lost| lost.len()), Some(2));
}
