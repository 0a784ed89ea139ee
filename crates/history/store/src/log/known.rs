//! Finds which rows of a node the log has, without reading them, for a reader that follows the log and must know the missing rows.

use std::sync::{Arc, PoisonError};

use khz_model::{Nanos, NodeName};

use crate::lane_of::are_of_channel;
use crate::log::{LogView, LoggedLane};

/// A block of the log.
#[derive(Clone, Debug)]
pub struct KnownBlock {
    /// Its lane, which says the epoch, and which rows of it are or were in the log.
    pub lane: Arc<LoggedLane>,
    /// Its first row.
    pub first_row: u64,
    /// How many rows it has.
    pub rows: u32,
    /// The times of its first and last row, corrected.
    pub span: (Nanos, Nanos),
}

impl LogView {
    /// The blocks of a node's base lane, those included that wait for a commit, in the order in which they came. A block that has grown
    /// may come twice.
    pub fn known(&self, node: &NodeName) -> Vec<KnownBlock> {
        let mut known = Vec::new();
        {
            let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
            let of_base = index.of(node).iter().filter(|entry| !are_of_channel(entry.schema.series()));
            known.extend(of_base.map(|entry| KnownBlock {
                lane: entry.lane.clone(),
                first_row: entry.first_row,
                rows: entry.rows,
                span: entry.span,
            }));
        }
        let state = self.shared.state();
        for waiting in [&state.writing.blocks, &state.batch.blocks].into_iter().flatten() {
            if waiting.lane.node() == node && !are_of_channel(waiting.block.schema.series()) {
                known.push(KnownBlock {
                    lane: waiting.lane.clone(),
                    first_row: waiting.block.header.first_row,
                    rows: waiting.block.rows,
                    span: waiting.block.span(),
                });
            }
        }
        known
    }

    /// The base lane of a node that came last.
    pub(crate) fn newest_base(&self, node: &NodeName) -> Option<Arc<LoggedLane>> {
        let lanes = self.shared.state().lanes();
        lanes.into_iter().rev().find(|lane| lane.node() == node && !lane.is_of_channel())
    }
}
