//! Nodes that were not connected to the recorder's hub when the recording began. If such a node was there before, the hub offers
//! its old lanes. Their rows are from before the recording, until the node returns.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use khz_block::{HEADER_BYTES, Header};
use khz_link::LaneKey;

/// The nodes, and their lanes.
#[derive(Debug, Default)]
pub struct Unseen {
    nodes: HashSet<String>,
    /// The first row of each lane that is not there yet.
    lanes: HashMap<Arc<LaneKey>, u64>,
}

impl Unseen {
    /// Notes a node that the hub lists as not up, before the first rows.
    pub fn is_down(&mut self, node: &str) {
        self.nodes.insert(node.to_owned());
    }

    /// The recording has begun. Lanes that are offered from now on are new, or were already offered.
    pub fn begun(&mut self) {
        self.nodes.clear();
    }

    /// The hub offers a lane whose next row is this one.
    pub fn offered(&mut self, lane: &Arc<LaneKey>, next_row: u64) {
        if self.nodes.contains(&lane.node) {
            self.lanes.entry(lane.clone()).or_insert(next_row);
        }
    }

    /// True for a lane that has delivered only old rows.
    pub fn has(&self, lane: &LaneKey) -> bool {
        self.lanes.contains_key(lane)
    }

    /// Handles rows before this one. Returns true if they are old. The first new row means that the node is there.
    pub fn is_old(&mut self, lane: &LaneKey, end: u64) -> bool {
        let Some(&next_row) = self.lanes.get(lane) else { return false };
        if end > next_row {
            self.lanes.remove(lane);
        }
        end <= next_row
    }

    /// The same for a closed block.
    pub fn is_old_block(&mut self, lane: &LaneKey, block: &[u8]) -> bool {
        let head = block.first_chunk::<HEADER_BYTES>().and_then(|head| Header::from_bytes(head, 0).ok());
        let end = |header: Header| {
            header.first_row.saturating_add(header.closed.map_or(0, |(rows, ..)| rows.into()))
        };
        self.is_old(lane, head.map_or(0, end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_node_that_was_not_there_are_old_until_one_comes_that_nobody_had() {
        let lane = |node: &str| Arc::new(LaneKey { node: node.into(), name: "base".into(), epoch: 7 });
        let (gone, here) = (lane("n1"), lane("n2"));
        let mut unseen = Unseen::default();
        unseen.is_down("n1");
        [&gone, &here].into_iter().for_each(|lane| unseen.offered(lane, 100));
        unseen.begun();
        assert!(unseen.has(&gone) && !unseen.has(&here));
        assert!(unseen.is_old(&gone, 100) && !unseen.is_old(&here, 100));
        // The connection broke, and the hub has heard of more rows meanwhile.
        unseen.offered(&gone, 130);
        assert!(!unseen.is_old(&gone, 101) && !unseen.has(&gone), "it is back");
        assert!(!unseen.is_old(&gone, 90), "late rows are rows like others");
        unseen.offered(&gone, 200);
        assert!(!unseen.has(&gone) && !unseen.is_old_block(&gone, b"no block"));
    }
}
