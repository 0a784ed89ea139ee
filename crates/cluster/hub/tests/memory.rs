//! What a hub remembers of its nodes over restarts: which were up, which left on purpose, which are expected and never
//! came.

#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
mod fake;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fake::{Node, settings, until};
use khz_hub::{Cluster, HubQuery, LinkDoor, LinkServer, RosterKeeper, Settings, Source};
use khz_link::driver::HubAddress;
use khz_link::{Goodbye, Leaving, Role};
use khz_model::{ByteSize, Interest, NodeName, NodeStatus, Pattern, Presence, Query, Rate};

/// How often the roster is written again without changes.
const REFRESH: Duration = Duration::from_millis(20);

/// A hub that remembers.
struct Hub {
    // Dropped in this order: the door first, so that no node comes while the roster is written for the last time.
    server: LinkServer,
    query: HubQuery,
    cluster: Arc<Cluster>,
    _keeper: Option<RosterKeeper>,
}

impl Hub {
    fn start(place: Option<&Path>, expected: &[&str]) -> Self {
        Hub::named("hub", 7, place, expected)
    }

    fn named(name: &str, identity: u8, place: Option<&Path>, expected: &[&str]) -> Self {
        let rate_max = Rate::from_hz(1_000).unwrap();
        let settings = Settings { name: name.into(), history: ByteSize(1 << 20), rate_max };
        let cluster = Cluster::new(settings, [identity; 16]);
        let expected: Vec<NodeName> = expected.iter().map(|name| NodeName::new(name).unwrap()).collect();
        cluster.expect(&expected);
        let keeper = place.map(|place| RosterKeeper::start(cluster.clone(), place, REFRESH).unwrap());
        let door = LinkDoor {
            listen: vec!["127.0.0.1:0".parse().unwrap()],
            local: None,
            run: None,
            tls: None,
            key: None,
            certificates: false,
            insecure: true,
        };
        let server = LinkServer::start(cluster.clone(), door).unwrap();
        Hub { server, query: HubQuery::new(cluster.clone()), cluster, _keeper: keeper }
    }

    fn join(&self, name: &str) -> Node {
        let mut node = Node::join(self.server.addresses()[0], name);
        node.row(1, [1, 2, 3, 4]).beat();
        node
    }

    fn status(&self, name: &str) -> Option<NodeStatus> {
        self.query.status().into_iter().find(|status| status.node.as_str() == name)
    }

    /// `n1 up, n2 down`.
    fn states(&self) -> String {
        let state = |status: &NodeStatus| format!("{} {}", status.node, status.presence().as_str());
        self.query.status().iter().map(state).collect::<Vec<_>>().join(", ")
    }

    fn own(&self, name: &str) -> u64 {
        let samples = self.query.own().unwrap();
        samples.iter().find(|s| s.series.metric.name == name).unwrap().reading.value().unwrap()
    }
}

fn says_goodbye(node: &mut Node) {
    Goodbye { leaving: Leaving::Ends, text: "" }.put(&mut node.out);
    node.send();
}

fn all_of(hostlist: &str) -> Pattern {
    Pattern::new(&format!("{hostlist}:*")).unwrap()
}

fn directory(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("khz-memory-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    path
}

#[test]
fn a_node_that_says_goodbye_has_left_and_one_that_breaks_off_is_down() {
    let hub = Hub::start(None, &["a", "c"]);
    let (mut a, b) = (hub.join("a"), hub.join("b"));
    assert_eq!(hub.states(), "a up, b up, c missing");
    assert!(hub.status("a").unwrap().expected && !hub.status("b").unwrap().expected);
    says_goodbye(&mut a);
    drop((a, b));
    until("both are gone", || hub.states() == "a left, b down, c missing");
    assert_eq!(hub.status("a").unwrap().problem, None, "nothing went wrong");
    assert!(hub.status("b").unwrap().problem.is_some());
    assert_eq!((hub.own("khz.hub.nodes"), hub.own("khz.hub.nodes_missing")), (3, 1));
    let _a = hub.join("a");
    until("a is back", || hub.states() == "a up, b down, c missing");
}

/// After a kill -9 of the hub, "last heard" is what the file has.
#[test]
fn the_file_goes_on_while_a_node_is_up_and_none_comes_or_goes() {
    let place = directory("refresh");
    let hub = Hub::start(Some(&place), &[]);
    let mut node = hub.join("n1");
    let written = || std::fs::read_to_string(place.join("roster.jsonl")).unwrap_or_default();
    let heard = || {
        let line = written().lines().nth(1).map(str::to_owned)?;
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        line["heard"].as_str()?.parse::<f64>().ok()
    };
    until("the node is written", || heard().is_some());
    let first = heard().unwrap();
    let mut rows = 2;
    until("a later time is written", || {
        node.row(rows, [1, 2, 3, 4]).beat();
        rows += 1;
        heard().unwrap() > first
    });
    drop(node);
    until("it is down", || written().contains("\"down\""));
    // Nothing changes any more: the disk has rest.
    let last = written();
    std::thread::sleep(Duration::from_millis(2_500));
    assert_eq!(written(), last);
}

#[test]
fn a_hub_that_starts_again_knows_the_nodes_that_are_down() {
    let place = directory("again");
    {
        let hub = Hub::start(Some(&place), &["n1", "n9"]);
        let (mut up, mut left, down) = (hub.join("n1"), hub.join("n2"), hub.join("n3"));
        says_goodbye(&mut left);
        drop((left, down));
        until("they are gone", || {
            up.beat();
            hub.states() == "n1 up, n2 left, n3 down, n9 missing"
        });
    }
    let hub = Hub::start(Some(&place), &["n1", "n9"]);
    assert_eq!(hub.states(), "n1 down, n2 left, n3 down, n9 missing");
    let n3 = hub.status("n3").unwrap();
    assert!(n3.heard.is_some() && n3.address.unwrap().starts_with("127.0.0.1:") && n3.version == "test");
    assert_eq!(hub.status("n9").unwrap().heard, None);
    let missing = |texts: &str| {
        let patterns = [Pattern::new(texts).unwrap()];
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match hub.query.latest(&patterns, khz_model::Nanos(0)).as_mut().poll(&mut context) {
            std::task::Poll::Ready(answer) => answer.unwrap().missing,
            std::task::Poll::Pending => panic!("the hub makes its readers wait"),
        }
    };
    assert_eq!(missing("n[1-3]:load.1m"), ["n1", "n2", "n3"]);
    let _n3 = hub.join("n3");
    until("n3 is back", || hub.states() == "n1 down, n2 left, n3 up, n9 missing");
    assert_eq!(hub.status("n3").unwrap().presence(), Presence::Up);
    drop(hub);
    std::fs::remove_dir_all(place).unwrap();
}

#[test]
fn what_is_forgotten_stays_forgotten_and_what_is_there_cannot_be() {
    let place = directory("forget");
    let hub = Hub::start(Some(&place), &["n1", "n9"]);
    let (_up, gone) = (hub.join("n2"), (hub.join("n1"), hub.join("n3")));
    drop(gone);
    until("they are gone", || hub.states() == "n1 down, n2 up, n3 down, n9 missing");
    let forgotten = hub.query.forget(&all_of("n[1-9]")).unwrap();
    let names = |nodes: &[NodeName]| nodes.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(names(&forgotten.nodes), ["n1", "n3"]);
    assert_eq!(names(&forgotten.expected), ["n1"]);
    let refused: Vec<String> = forgotten.refused.iter().map(|(node, why)| format!("{node}: {why}")).collect();
    assert_eq!(
        refused,
        [
            "n2: still up; only nodes that are gone can be forgotten",
            "n9: never seen, and expected by the setting `nodes`"
        ]
    );
    assert_eq!(hub.states(), "n1 missing, n2 up, n9 missing");
    drop(hub);
    let hub = Hub::start(Some(&place), &[]);
    assert_eq!(hub.states(), "n2 down");
    drop(hub);
    std::fs::remove_dir_all(place).unwrap();
}

#[test]
fn a_reader_that_stayed_gets_the_rows_of_a_node_that_was_forgotten_and_came_back() {
    let hub = Hub::start(None, &[]);
    drop(hub.join("n1"));
    until("n1 is down", || hub.states() == "n1 down");
    let interest = Interest::new(vec![all_of("n*")], Rate::from_hz(1).unwrap(), false);
    let mut subscription = hub.query.subscribe(interest).unwrap();
    subscription.poll();
    assert_eq!(hub.query.forget(&all_of("n1")).unwrap().nodes.len(), 1);
    let mut n1 = hub.join("n1");
    n1.row(2, [5, 6, 7, 8]).beat();
    until("its rows come", || subscription.poll().iter().any(|delivery| !delivery.rows.is_empty()));
}

#[test]
fn a_damaged_roster_and_a_place_that_cannot_be_used_do_not_keep_a_hub_from_starting() {
    let place = directory("damaged");
    drop({
        let hub = Hub::start(Some(&place), &[]);
        let nodes = (hub.join("n1"), hub.join("n2"));
        (nodes, hub)
    });
    let file = place.join("roster.jsonl");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("\"n2\"", "\"n 2\"")).unwrap();
    let hub = Hub::start(Some(&place), &[]);
    assert_eq!(hub.states(), "n1 down");
    assert!(place.join("roster.jsonl.damaged").exists());
    // Another hub in the same directory gets an error.
    let other = RosterKeeper::start(hub.cluster.clone(), &place, REFRESH).unwrap_err().to_string();
    assert!(other.contains("another hub") && other.contains("--state-dir"), "{other}");
    let nowhere =
        RosterKeeper::start(hub.cluster.clone(), Path::new("/proc/khz"), REFRESH).unwrap_err().to_string();
    assert!(nowhere.starts_with("cannot make /proc/khz: "), "{nowhere}");
    // The place vanishes under a running hub: it is made again, with all that the hub knows.
    std::fs::remove_dir_all(&place).unwrap();
    let _n3 = hub.join("n3");
    let has_n3 = || std::fs::read_to_string(&file).is_ok_and(|text| text.contains("\"n3\""));
    until("the roster is written again", has_n3);
    // If it cannot be made again, the hub goes on, and says what it could not do.
    let kept = place.with_extension("kept");
    std::fs::rename(&place, &kept).unwrap();
    std::fs::write(&place, "").unwrap();
    let _n4 = hub.join("n4");
    until("the failure is counted", || hub.own("khz.hub.roster_failures") > 0);
    assert_eq!(hub.states(), "n1 down, n3 up, n4 up");
    std::fs::remove_file(&place).unwrap();
    std::fs::remove_dir_all(&kept).unwrap();
}

#[test]
fn invented_names_push_out_no_node_that_is_up_or_expected() {
    let place = directory("full");
    std::fs::create_dir_all(&place).unwrap();
    let lines = |from: usize| -> String {
        (from..khz_hub::limits::NODES_MAX + from)
            .map(|n| {
                let heard = 1_000 + n;
                format!(
                    "{{\"node\":\"x{n}\",\"state\":\"down\",\"heard\":\"{heard}\",\"since\":\"{heard}\"}}\n"
                )
            })
            .collect()
    };
    let head = format!("{{\"khz_roster\":1,\"hub\":\"h\",\"nodes\":{}}}\n", khz_hub::limits::NODES_MAX);
    std::fs::write(place.join("roster.jsonl"), head + &lines(0)).unwrap();
    let hub = Hub::start(Some(&place), &["x0"]);
    assert_eq!(hub.own("khz.hub.nodes"), khz_hub::limits::NODES_MAX as u64);
    let _n1 = hub.join("n1");
    let _n2 = hub.join("n2");
    // Finding the oldest means comparing all nodes: several make room together.
    let dropped = khz_hub::limits::NODES_DROPPED as u64;
    assert_eq!(hub.own("khz.hub.nodes"), khz_hub::limits::NODES_MAX as u64 + 2 - dropped);
    assert_eq!(hub.own("khz.hub.nodes_dropped"), dropped);
    assert!(hub.status("x0").unwrap().expected, "it was down the longest, and is expected");
    assert!(hub.status("x1").is_none() && hub.status(&format!("x{dropped}")).is_none());
    assert!(hub.status(&format!("x{}", dropped + 1)).is_some());
    drop(hub);
    std::fs::remove_dir_all(place).unwrap();
}

#[test]
fn a_hub_above_knows_which_nodes_are_down_missing_or_gone_below() {
    let below = Hub::named("below", 1, None, &["a", "z"]);
    let mut second = 1;
    let mut beats = |node: &mut Node| {
        second += 1;
        node.row(second, [second; 4]).beat();
    };
    let (mut a, mut b, c) = (below.join("a"), below.join("b"), below.join("c"));
    says_goodbye(&mut b);
    drop((b, c));
    until("they are gone", || {
        beats(&mut a);
        below.states() == "a up, b left, c down, z missing"
    });
    let above = Hub::named("above", 2, None, &[]);
    let port = below.server.addresses()[0].port();
    let mut follows = settings(vec![HubAddress::Net { host: "127.0.0.1".into(), port }], Role::Reader);
    Arc::get_mut(&mut follows.identity).unwrap().machine = [2; 16];
    let source = Source::start(above.cluster.clone(), follows, 0).unwrap();
    until("they are known", || {
        beats(&mut a);
        assert!(above.status("c").is_none_or(|c| !c.up), "its last row has not brought it back");
        above.states() == "a up, b left, c down, z missing"
    });
    let expected = |name: &str| above.status(name).unwrap().expected;
    until("it is known who is expected", || {
        beats(&mut a);
        expected("a") && expected("z") && !expected("c")
    });
    for _ in 0..200 {
        beats(&mut a);
        assert!(!above.status("c").unwrap().up, "its last row has not brought it back");
    }
    let refused = above.query.forget(&all_of("c")).unwrap().refused;
    assert!(refused[0].1.contains("reported by hub below"), "{refused:?}");
    // Forgotten below, it is forgotten above, too.
    assert_eq!(below.query.forget(&all_of("c")).unwrap().nodes.len(), 1);
    until("it is gone above", || {
        beats(&mut a);
        above.states() == "a up, b left, z missing"
    });
    drop(source);
    until("the hub below is away", || above.status("a").is_some_and(|a| !a.up));
}
