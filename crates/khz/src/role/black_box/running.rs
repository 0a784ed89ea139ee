//! A freeze that is being taken or fetched: the states of its nodes. This module writes nothing, and asks no node.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use khz_model::{Nanos, NodeName};

use super::entry::{self, Entry, Group, NodeState};
use super::{since_boot, wall};

/// A freeze that is being taken or fetched.
pub struct Running {
    /// Its number for people.
    pub id: u64,
    /// How its nodes are doing.
    pub nodes: BTreeMap<NodeName, Standing>,
    /// Present nodes that have not answered.
    pub unmarked: BTreeSet<NodeName>,
    /// When the last of the other nodes answered.
    pub answered: Option<Nanos>,
    /// When rows last reached the disk.
    pub settled: Option<Nanos>,
    /// Why rows that have come are not on the disk yet.
    pub waits: Option<String>,
    /// When something last happened.
    pub moved: Instant,
    /// When the frozen time is over.
    pub over: Instant,
    /// Somebody has removed it.
    pub is_removed: bool,
    /// An earlier start of the hub has begun it.
    pub is_resumed: bool,
    /// Its recording was lost once, and all rows are fetched again.
    pub is_begun_again: bool,
    /// Rows that come now were asked for before the new start, and do not count.
    pub is_wasted: bool,
}

/// How one node is doing.
#[derive(Debug, PartialEq, Eq)]
pub struct Standing {
    /// Its state.
    pub state: NodeState,
    /// Why; may be empty.
    pub text: String,
    /// All rows of the node have come. The node counts as fetched when they are on the disk.
    pub is_in_hand: bool,
}

impl Running {
    /// The freeze of an entry. `is_resumed`: an earlier start of the hub has begun it.
    pub fn new(entry: &Entry, nodes: &BTreeSet<NodeName>, is_resumed: bool) -> Self {
        let left = entry.at_now().saturating_add_unsigned(entry.after).saturating_sub(wall());
        let asked = || Standing { state: NodeState::Asked, text: String::new(), is_in_hand: false };
        Running {
            id: entry.id,
            nodes: nodes.iter().map(|node| (node.clone(), asked())).collect(),
            unmarked: nodes.clone(),
            answered: None,
            settled: None,
            waits: None,
            moved: Instant::now(),
            over: Instant::now() + Duration::from_nanos(u64::try_from(left).unwrap_or(0)),
            is_removed: false,
            is_resumed,
            is_begun_again: false,
            is_wasted: false,
        }
    }

    /// True while a node may still send rows, or rows wait for the disk.
    pub fn is_awaited(&self) -> bool {
        self.waits.is_some() || self.nodes.values().any(|known| !known.state.is_over())
    }

    /// True if nothing more comes from any node, or nothing has come for this long.
    pub fn is_over(&self, awaited: Duration) -> bool {
        let is_whole = self.nodes.values().all(|known| known.state.is_over());
        let since = self.moved.max(self.over);
        is_whole || Instant::now().saturating_duration_since(since) >= awaited
    }

    /// True if rows of a node have come, and may not be on the disk yet.
    pub fn has_unsettled(&self) -> bool {
        self.nodes.values().any(Standing::is_unsettled)
    }

    /// Notes that all received rows are on the disk. Returns the nodes that now count as fetched.
    pub fn settle(&mut self) -> Vec<NodeName> {
        self.waits = None;
        let mut settled = Vec::new();
        for (node, known) in self.nodes.iter_mut().filter(|(_, known)| known.is_unsettled()) {
            known.state = if known.text.is_empty() { NodeState::Fetched } else { NodeState::Short };
            self.settled = Some(since_boot());
            settled.push(node.clone());
        }
        settled
    }

    /// The rows that have come are lost; their nodes still have them.
    pub fn forget_rows(&mut self) {
        self.moved = Instant::now();
        let in_hand = |known: &&mut Standing| known.is_in_hand && known.state != NodeState::Missing;
        for known in self.nodes.values_mut().filter(in_hand) {
            (known.state, known.is_in_hand) = (NodeState::Kept, false);
        }
    }

    /// The recording has these rows, and gets no others. Nodes whose rows are not on the disk lack some or all of them.
    pub fn have_only(&mut self, rows: &BTreeMap<String, u64>, why: &str) {
        for (node, known) in &mut self.nodes {
            let has_rows = rows.contains_key(node.as_str());
            let is_whole = known.state.is_over() && (has_rows || known.state == NodeState::Missing);
            if !is_whole {
                known.state = if has_rows { NodeState::Short } else { NodeState::Missing };
                known.text = why.to_owned();
            }
        }
    }

    /// Nodes that have not delivered are missing. Returns them.
    pub fn leave_out(&mut self, why: &str) -> BTreeSet<NodeName> {
        let mut left_out = BTreeSet::new();
        let awaited = |known: &Standing| !known.state.is_over() && !known.is_in_hand;
        for (node, known) in self.nodes.iter_mut().filter(|(_, known)| awaited(known)) {
            (known.state, known.text) = (NodeState::Missing, why.to_owned());
            left_out.insert(node.clone());
        }
        left_out
    }

    /// Notes that nothing more comes. `missing`: the rows that nodes made and that are not in the recording.
    pub fn conclude(&mut self, missing: &[(String, u64)]) {
        for (node, known) in &mut self.nodes {
            if !known.state.is_over() {
                let why = if known.text.is_empty() { "it has not answered" } else { known.text.as_str() };
                (known.text, known.state) = (why.to_owned(), NodeState::Missing);
            }
            let rows = missing.iter().find(|(name, _)| name == node.as_str()).map(|(_, rows)| rows);
            if let (Some(rows), NodeState::Fetched) = (rows, known.state) {
                (known.text, known.state) = (format!("{rows} rows are missing"), NodeState::Short);
            }
        }
    }

    /// The nodes, grouped by their states.
    pub fn groups(&self) -> Vec<Group> {
        entry::groups(self.nodes.iter().map(|(node, one)| (node, one.state, one.text.as_str())))
    }

    /// Nodes of which rows are missing.
    pub fn lacking(&self) -> u64 {
        self.nodes.values().filter(|known| known.state != NodeState::Fetched).count() as u64
    }
}

impl Standing {
    fn is_unsettled(&self) -> bool {
        self.is_in_hand && !self.state.is_over()
    }
}
