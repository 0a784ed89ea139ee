//! The lanes of one channel: what their columns are, and which rows are missing. A node sends the rows of a channel with numbers
//! without gaps, so a gap means that rows were lost.

use std::collections::HashMap;
use std::sync::Arc;

use khz_model::{NodeName, Series};

use crate::inode::NodeId;
use crate::upstream::ChannelRow;

/// A lane of a node.
#[derive(Clone, Debug)]
pub(super) struct ChannelLane {
    pub node: NodeId,
    pub name: NodeName,
    pub series: Arc<Vec<Series>>,
}

/// How many rows are missing before a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    Nothing,
    Rows(u64),
    /// The node has begun to count again.
    Unknown,
}

impl Missing {
    /// The number, where it is known.
    pub fn rows(self) -> Option<u64> {
        match self {
            Missing::Nothing => Some(0),
            Missing::Rows(rows) => Some(rows),
            Missing::Unknown => None,
        }
    }
}

/// The lanes, and the last row of each node.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    lanes: HashMap<u64, ChannelLane>,
    /// Epoch and number of the last row of each node.
    last: HashMap<NodeId, (u64, u64)>,
}

impl Lanes {
    /// A lane has these columns from now on.
    pub fn columns(&mut self, lane: u64, columns: ChannelLane) {
        self.lanes.insert(lane, columns);
    }

    /// A row: its lane, and what is missing before it. `None`: nobody knows its columns.
    pub fn row(&mut self, row: &ChannelRow<'_>) -> Option<(&ChannelLane, Missing)> {
        let lane = self.lanes.get(&row.lane)?;
        let missing = match self.last.insert(lane.node, (row.epoch, row.number)) {
            None => Missing::Nothing,
            Some((epoch, _)) if epoch != row.epoch => Missing::Unknown,
            Some((_, last)) => match row.number.saturating_sub(last.saturating_add(1)) {
                0 => Missing::Nothing,
                rows => Missing::Rows(rows),
            },
        };
        Some((lane, missing))
    }

    /// Nothing more comes in a lane.
    pub fn close(&mut self, lane: u64) {
        self.lanes.remove(&lane);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_model::Stamp;

    #[test]
    fn a_gap_in_an_epoch_is_counted_and_between_epochs_it_is_unknown() {
        let name = NodeName::new("n1").unwrap();
        let lane = || ChannelLane { node: NodeId(1), name: name.clone(), series: Arc::default() };
        let mut lanes = Lanes::default();
        let mut row = |lane_number, epoch, number| {
            lanes.columns(lane_number, lane());
            let row = ChannelRow { lane: lane_number, epoch, number, stamp: Stamp::default(), readings: &[] };
            lanes.row(&row).unwrap().1
        };
        assert_eq!(row(1, 5, 100), Missing::Nothing, "the first one");
        assert_eq!(row(1, 5, 101), Missing::Nothing);
        assert_eq!(row(2, 5, 105), Missing::Rows(3), "after another connection");
        assert_eq!(row(2, 6, 1), Missing::Unknown);
        assert_eq!(row(2, 6, 2), Missing::Nothing);
    }
}
