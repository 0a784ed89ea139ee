//! The nodes that a server knows and the status of each, and what became of a request to forget some.

use khz_model::fold::fold;
use khz_model::hostlist::Hostlist;
use khz_model::{Misses, NodeName, Rate};
use serde::Deserialize;
use serde_json::Value;

use crate::{AskError, MissesAnswer};

/// The answer about nodes.
#[derive(Clone, Debug, Deserialize)]
pub struct Nodes {
    /// One object a node, as it came: fields that a newer door adds pass through.
    pub status: Vec<Value>,
    /// An agent has answered: it knows no node but its own.
    #[serde(skip)]
    pub of_agent: bool,
}

/// The status of a node. Spans of time are seconds, as decimal strings; an unknown one is `None`.
#[derive(Clone, Debug, Deserialize)]
pub struct NodeStatus {
    /// The node's name.
    pub node: String,
    /// Its agent is connected.
    pub up: bool,
    /// up, down, left or missing; older doors do not send it ([`NodeStatus::state`]).
    state: Option<String>,
    /// The hub's `--nodes` names it.
    #[serde(default)]
    pub expected: bool,
    /// When it was last heard, and since when it is in this state.
    #[serde(flatten)]
    pub ages: Ages,
    /// Version of its agent.
    #[serde(default)]
    pub version: String,
    /// Its lanes; none while it is down.
    #[serde(default)]
    pub lanes: Vec<LaneStatus>,
    /// Its clock minus the hub's.
    pub clock_offset: Option<String>,
    /// From the hub to the node and back.
    pub round_trip: Option<String>,
    /// Why it is down or was refused, as a sentence.
    pub problem: Option<String>,
    /// Nothing proves its name (`--insecure`).
    #[serde(default)]
    pub believed: bool,
    /// The hub that it reports to.
    pub hub: Option<String>,
    /// It is not at the hub that it prefers.
    pub away: Option<Away>,
}

/// Ages in seconds, under their present names and their older ones, and the same as times (older doors do not send them).
#[derive(Clone, Debug, Deserialize)]
pub struct Ages {
    heard_age: Option<String>,
    heard: Option<String>,
    heard_time: Option<String>,
    since_age: Option<String>,
    since: Option<String>,
    since_time: Option<String>,
}

/// Why a node is not at the hub that it prefers.
#[derive(Clone, Debug, Deserialize)]
pub struct Away {
    /// The preferred hub.
    pub first: String,
    /// What is wrong with it; may be empty.
    pub problem: String,
    /// Since when.
    #[serde(flatten)]
    pub ages: Ages,
    /// In how many seconds the node goes back at the earliest; `None`: it stays.
    pub back: Option<String>,
}

/// A lane of a node as the hub has it.
#[derive(Clone, Debug, Deserialize)]
pub struct LaneStatus {
    /// The rate at which its rows come.
    pub rate: String,
    /// The rate that a reader asked for; older doors do not send it.
    asked: Option<String>,
    /// Rows received.
    pub rows: u64,
    /// Rows that will not come.
    pub lost: u64,
    /// Rows that came after younger ones.
    pub late: u64,
}

/// What became of a request to forget nodes.
#[derive(Debug, Deserialize)]
pub struct Forgotten {
    /// Nodes that the hub has forgotten.
    pub forgotten: Vec<String>,
    /// Those of them that are expected: they are missing from now on.
    pub expected: Vec<String>,
    /// Nodes that it still remembers.
    pub refused: Vec<Refused>,
    /// What nobody knows.
    pub misses: MissesAnswer,
}

/// A node that the hub did not forget.
#[derive(Debug, Deserialize)]
pub struct Refused {
    /// The node.
    pub node: String,
    /// The reason, as a sentence.
    pub why: String,
}

impl Nodes {
    /// The status of each node, with the object that it came in.
    ///
    /// # Errors
    /// [`AskError::Status`] where an object lacks a field or has one of the wrong type.
    pub fn statuses(&self) -> Result<Vec<(NodeStatus, &Value)>, AskError> {
        let read = |value| Ok((NodeStatus::deserialize(value).map_err(AskError::Status)?, value));
        self.status.iter().map(read).collect()
    }

    /// The nodes that send no rows, one line for each reason: `down: n[3-4]`.
    pub fn not_up(&self) -> Vec<String> {
        let all: Vec<NodeStatus> =
            self.status.iter().filter_map(|value| NodeStatus::deserialize(value).ok()).collect();
        let line = |(state, words): (&str, &str)| {
            let names: Vec<&str> = all.iter().filter(|s| s.is(state)).map(|s| s.node.as_str()).collect();
            (!names.is_empty()).then(|| format!("{words}: {}", fold(names)))
        };
        let states = [("down", "down"), ("left", "left"), ("missing", "never seen")];
        states.into_iter().filter_map(line).collect()
    }

    /// True where the hostlist names nodes that are not among these.
    pub fn lacks(&self, hosts: &Hostlist) -> bool {
        let names: Vec<NodeName> =
            self.status.iter().filter_map(|value| NodeName::new(value["node"].as_str()?).ok()).collect();
        !Misses::of_nodes(hosts, &names).is_empty()
    }
}

impl NodeStatus {
    /// True where it is in this state.
    pub fn is(&self, state: &str) -> bool {
        self.state() == state
    }

    /// up, down, left or missing. Older doors say only whether it is up.
    pub fn state(&self) -> &str {
        self.state.as_deref().unwrap_or(if self.up { "up" } else { "down" })
    }
}

impl Ages {
    /// Seconds since the node was last heard.
    pub fn heard(&self) -> Option<&str> {
        self.heard_age.as_deref().or(self.heard.as_deref())
    }

    /// Seconds since it is in its state.
    pub fn since(&self) -> Option<&str> {
        self.since_age.as_deref().or(self.since.as_deref())
    }

    /// The time of the answer (seconds since 1970), by the clock of who has answered.
    pub fn now(&self) -> Option<f64> {
        let both = [(&self.heard_time, self.heard()), (&self.since_time, self.since())];
        let sum = |(time, age): &(&Option<String>, Option<&str>)| {
            Some(time.as_deref()?.parse::<f64>().ok()? + age.as_deref()?.parse::<f64>().ok()?)
        };
        both.iter().find_map(sum)
    }
}

impl LaneStatus {
    /// The rate that a reader asked for, where the node runs the lane more slowly.
    pub fn slowed_from(&self) -> Option<&str> {
        let asked = self.asked.as_deref()?;
        let rate = |text: &str| text.trim_start_matches("every ").parse::<Rate>().ok();
        rate(&self.rate)?.is_slowed_from(rate(asked)?).then_some(asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(status: &str) -> Nodes {
        serde_json::from_str(&format!(r#"{{"status":[{status}]}}"#)).unwrap()
    }

    #[test]
    fn ages_are_read_under_their_present_and_their_older_names() {
        for ages in [
            r#""heard_age":"60.0","since_age":"9.0","heard_time":"1763690000.0","since_time":"1763690000.0""#,
            r#""heard":"60.0","since":"9.0""#,
        ] {
            let nodes = nodes(&format!(r#"{{"node":"n1","up":false,"state":"down",{ages}}}"#));
            let statuses = nodes.statuses().unwrap();
            let ages = &statuses[0].0.ages;
            assert_eq!((ages.heard(), ages.since()), (Some("60.0"), Some("9.0")));
            let now = ages.heard_time.is_some().then_some(1_763_690_060.0);
            assert_eq!(ages.now(), now, "the clock of the door");
        }
    }

    #[test]
    fn a_named_node_that_is_not_in_the_answer_is_lacking() {
        let status = ["node10", "node2", "node9"].map(|name| format!(r#"{{"node":"{name}","up":true}}"#));
        let nodes = nodes(&status.join(","));
        let lacks = |text: &str| nodes.lacks(&Hostlist::new(text).unwrap());
        assert!(lacks("node[9-11]") && lacks("x*") && !lacks("node[9-10]") && !lacks("node*"));
    }

    #[test]
    fn a_malformed_status_is_an_error_and_a_missing_state_follows_from_up() {
        assert!(nodes(r#"{"node":"n1"}"#).statuses().unwrap_err().to_string().starts_with("a status that"));
        let older = nodes(r#"{"node":"n1","up":false}"#);
        assert_eq!(older.statuses().unwrap()[0].0.state(), "down");
        assert_eq!(older.not_up(), ["down: n1"]);
    }
}
