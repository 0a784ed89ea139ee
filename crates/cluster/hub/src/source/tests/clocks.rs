//! Clocks of nodes below, of their hub, and of this one.

use khz_store::log::Log;

use super::*;

const HOUR: i64 = 3_600_000_000_000;

/// A hub with a log, in a folder that goes with the test, and one below it with a node.
struct Stage {
    folder: std::path::PathBuf,
    _log: Log,
    below: Below,
}

impl Stage {
    fn new(test: &str) -> Self {
        played::NOW.set(Some(Nanos::from_secs(1_000)));
        let folder = std::env::temp_dir().join(format!("khz-hub-clocks-{}-{test}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let (log, intake, _) = Log::open(&folder).expect("a log");
        let rate_max = Rate::from_hz(1_000).expect("a rate");
        let settings = Settings { name: "hub".into(), history: ByteSize(1 << 20), rate_max };
        let cluster = Cluster::new(settings, [1; 16]);
        cluster.log_to(intake);
        let mut below = Below::of(cluster, 0, None);
        below.schema(1, &["x"]);
        below.row(1);
        Stage { folder, _log: log, below }
    }

    /// This many seconds pass.
    fn pass(&self, seconds: u64) {
        played::NOW.set(Some(Nanos(clock::boot().0 + Nanos::from_secs(seconds).0)));
    }

    /// The clock of the hub below is this much ahead of ours, as the link measures.
    fn measure(&mut self, ahead: i64) {
        self.below.follower.clock(Some(ahead));
    }

    /// The hub below says that the node's clock is this much ahead of its own.
    fn says(&mut self, ahead: i64, is_up: bool) {
        let of_now = self.below.node().lock().status(clock::boot());
        self.below.follower.node(&NodeStatus { clock_offset: Some(ahead), up: is_up, ..of_now });
        self.below.follower.nodes_end();
    }

    /// How far the node's clock is ahead, as people and hubs above see it, and what is added to the times of its rows in the store.
    fn known(&self) -> (Option<i64>, Option<i64>) {
        let shared = self.below.node();
        let mut node = shared.lock();
        let said = node.status(clock::boot()).clock_offset;
        let lane = node.lanes_mut().numbered(LANE).expect("it has a lane");
        (said, lane.open_for_log().map(|block| block.shift))
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn nodes_below_a_hub_whose_clock_is_wrong_are_stored_at_our_time() {
    for off in [-HOUR, HOUR] {
        // The clocks of its nodes are right.
        let mut stage = Stage::new("hub-off");
        stage.measure(off);
        stage.says(-off, true);
        assert_eq!(stage.known(), (Some(0), Some(0)), "{off}");
        // They are as wrong as its own.
        let mut stage = Stage::new("all-off");
        stage.measure(off);
        stage.says(0, true);
        assert_eq!(stage.known(), (Some(off), Some(-off)), "{off}");
    }
}

#[test]
fn a_hub_whose_clock_nobody_measures_is_believed() {
    let mut stage = Stage::new("believed");
    stage.says(HOUR, true);
    assert_eq!(stage.known(), (Some(HOUR), Some(-HOUR)));
}

#[test]
fn what_is_known_of_a_nodes_clock_stays_until_its_hub_has_measured_it_again() {
    for set in [-HOUR, HOUR] {
        let mut stage = Stage::new("set");
        stage.measure(0);
        stage.says(0, true);
        assert_eq!(stage.known(), (Some(0), Some(0)));
        // The clock of its hub alone is set, and what that hub says of the node is of before.
        stage.below.follower.clock(None);
        stage.says(0, true);
        stage.measure(set);
        stage.says(0, true);
        assert_eq!(stage.known(), (Some(0), Some(0)), "{set}");
        stage.pass(60);
        stage.says(-set, true);
        assert_eq!(stage.known(), (Some(0), Some(0)), "{set}");
        // The node has gone from there, and what that hub says of it is older than the next time that its clock is set.
        stage.measure(0);
        stage.pass(60);
        stage.says(-set, false);
        assert_eq!(stage.known(), (Some(0), Some(0)), "{set}");
    }
}

#[test]
fn a_hub_that_was_started_again_with_a_wrong_clock_has_measured_its_nodes_by_that() {
    let name =
        |identity: u8| HubName { name: "below".into(), identity: [identity; 16], ..HubName::default() };
    let mut stage = Stage::new("again");
    stage.below.follower.up(&name(1));
    stage.measure(0);
    stage.says(0, true);
    stage.below.follower.down("cut");
    stage.below.follower.up(&name(2));
    stage.below.offer_base();
    stage.below.row(2);
    stage.measure(HOUR);
    stage.says(-HOUR, true);
    assert_eq!(stage.known(), (Some(0), Some(0)));
    stage.says(0, true);
    assert_eq!(stage.known(), (Some(HOUR), Some(-HOUR)), "all its nodes go by it");
}
