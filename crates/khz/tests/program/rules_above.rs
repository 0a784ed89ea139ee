//! Two hubs with the same rules above one hub that has all nodes: whatever is killed or stopped, people are told once of an alert that is
//! true all the time, its action runs once, and nobody is told that it is over.

use std::time::Duration;

use crate::process::{Running, khz, until};
use crate::shared_rules::{OF_BOTH, Stage, alerts, evaluated, has_heard, number};
use crate::text::free_port;
use crate::watched::signal;

const PATIENCE: Duration = Duration::from_secs(180);
const NODES: [&str; 3] = ["n0", "n1", "n2"];

/// A hub with three nodes, and two above it, of which the first one judges the nodes.
struct Above {
    stage: Stage,
    below: String,
    _below: Running,
    _agents: Vec<Running>,
}

impl Above {
    /// Starts all. Returns the two hubs above when both know that the first one has told people and acted.
    fn start(name: &str) -> (Above, [Running; 2]) {
        let stage = Stage::new(name, OF_BOTH);
        let below = free_port();
        let words = ["hub", "--listen", "127.0.0.1:0", "--link-listen", &below, "--node", "below"];
        let state = stage.path("state-below");
        let mut command =
            khz(&[&words[..], &["--state-dir", &state, "--store", "none", "--insecure"]].concat());
        command.env("KHZ_RUN_DIR", stage.path("run-below"));
        let hub = Running::of(command);
        let agents = NODES.map(|node| stage.agent_back_after(node, std::slice::from_ref(&below), "2s"));
        let above = Above { stage, below, _below: hub, _agents: agents.into() };
        let first = above.hub(0);
        until(PATIENCE, "it fires at the first hub, which tells people and acts", || {
            above.told("firing") == [1, 0] && above.acted() == [1, 0]
        });
        let second = above.hub(1);
        above.judges(&first, &second);
        (above, [first, second])
    }

    /// The first or the second hub.
    fn hub(&self, number: usize) -> Running {
        self.stage.hub_with(number, &["--source", &self.below])
    }

    /// Waits until the first hub judges all nodes again, and the second one has nothing more to say of the alert.
    fn judges(&self, first: &Running, second: &Running) {
        let names = serde_json::to_string(&NODES).unwrap();
        let state = || std::fs::read_to_string(self.stage.path("state-0/alerts.jsonl")).unwrap_or_default();
        until(PATIENCE, "the first hub judges all nodes", || state().contains(&format!("\"nodes\":{names}")));
        until(PATIENCE, "the alert is at the first hub only", || {
            alerts(first).len() == 1 && alerts(second).is_empty()
        });
        until(PATIENCE, "each has heard the last word of the other", || {
            has_heard(first, second) && has_heard(second, first)
        });
        evaluated(first, || ());
    }

    /// How many messages of a status each hub has sent.
    fn told(&self, status: &str) -> [usize; 2] {
        [0, 1].map(|number| self.stage.told(number, status).len())
    }

    fn acted(&self) -> [usize; 2] {
        [0, 1].map(|number| self.stage.acted(number).len())
    }

    /// What people heard, and what was done, is what it was at the start.
    fn is_quiet(&self) {
        let all = [self.told("firing"), self.told("resolved"), self.acted()];
        assert_eq!(all, [[1, 0], [0, 0], [1, 0]], "told as firing and as resolved, and acted on");
    }
}

#[test]
fn an_alert_that_is_true_all_the_time_goes_on_when_the_first_of_two_hubs_above_one_is_killed_and_comes_back()
{
    let (above, [first, second]) = Above::start("rules-above-killed");
    drop(first);
    until(PATIENCE, "the second hub knows that it is alone", || {
        number(&second, "khz_rules_peers_silent ") == 1
    });
    until(PATIENCE, "the alert is there", || alerts(&second).len() == 1);
    evaluated(&second, || ());
    let first = above.hub(0);
    above.judges(&first, &second);
    above.is_quiet();
}

#[test]
fn an_alert_that_is_true_all_the_time_goes_on_when_both_hubs_above_one_stand_still_and_the_first_is_killed() {
    let (above, [first, second]) = Above::start("rules-above-stopped");
    [&first, &second].into_iter().for_each(|hub| signal(&hub.child, "STOP"));
    // Both stand still for longer than a hub may be silent.
    std::thread::sleep(Duration::from_secs(15));
    [&first, &second].into_iter().for_each(|hub| signal(&hub.child, "CONT"));
    // About when the second hub has left the nodes to the first one for so long that its alert may end.
    std::thread::sleep(Duration::from_secs(25));
    drop(first);
    std::thread::sleep(Duration::from_secs(4));
    let first = above.hub(0);
    above.judges(&first, &second);
    above.is_quiet();
}
