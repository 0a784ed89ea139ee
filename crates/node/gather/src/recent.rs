//! The rows of the base lane that are still in its ring, for range queries of a khz without a store.

use std::sync::{Arc, Mutex, PoisonError};

use khz_model::{Delivery, HISTORY_READINGS_MAX, Nanos, NodeName, Pattern, QueryError, Recent};
use khz_ring::{Cursor, Event};

use crate::clock;
use crate::lane::LaneView;
use crate::subscription::PastColumns;

/// The rows of one lane.
pub(crate) struct RecentRows {
    node: NodeName,
    lane: Arc<LaneView>,
    /// Only one reader decodes at a time.
    turn: Arc<Mutex<()>>,
}

impl RecentRows {
    pub fn new(node: NodeName, lane: Arc<LaneView>, turn: Arc<Mutex<()>>) -> Self {
        RecentRows { node, lane, turn }
    }

    /// The blocks in the ring, oldest first, each with the wall clock of its begin.
    fn blocks(&self) -> impl Iterator<Item = (u64, Nanos)> {
        let ring = &self.lane.ring;
        let blocks = std::iter::successors(Some(ring.oldest()), |at| ring.next_block(*at));
        blocks.filter_map(|at| Some((at, ring.header(at)?.stamp.real())))
    }
}

impl Recent for RecentRows {
    fn nodes(&self) -> Vec<NodeName> {
        vec![self.node.clone()]
    }

    fn span(&self) -> Option<(Nanos, Nanos)> {
        let first = self.blocks().map(|(_, real)| real).min()?;
        let ring = &self.lane.ring;
        let newest = self.blocks().last().and_then(|(at, _)| ring.header(at))?;
        let now = clock::boot().0.saturating_add_signed(newest.stamp.real_offset);
        Some((first, Nanos(now.max(first.0))))
    }

    fn rows(
        &self,
        node: &NodeName,
        patterns: &[Pattern],
        from: Nanos,
        to: Nanos,
    ) -> Result<Option<Delivery>, QueryError> {
        if *node != self.node {
            return Ok(None);
        }
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let mut first = self.lane.ring.oldest();
        for (at, real) in self.blocks() {
            if real > from {
                break;
            }
            first = at;
        }
        let mut columns = PastColumns::new(&self.lane, patterns, first);
        if columns.series.is_empty() {
            return Ok(None);
        }
        let mut cursor = Cursor::new(self.lane.ring.clone(), first);
        let (mut rows, mut readings) = (Vec::new(), 0);
        loop {
            match cursor.advance() {
                Event::Row => {
                    let decoder = cursor.decoder();
                    let real = decoder.stamp().real();
                    // The wall clock may have been set back, but not by more than a block is long.
                    if (from..to).contains(&real) {
                        let row = columns.row(&self.lane, decoder);
                        readings += row.readings.len();
                        rows.push(row);
                        if readings > HISTORY_READINGS_MAX {
                            return Err(QueryError::TooMuch { node: node.clone() });
                        }
                    }
                }
                // What begins later has later rows.
                Event::Block if cursor.decoder().header().is_some_and(|block| block.stamp.real() >= to) => {
                    break;
                }
                Event::Block => {}
                Event::UpToDate => break,
            }
        }
        let columns = Arc::new(columns.series);
        Ok(Some(Delivery {
            node: node.clone(),
            columns,
            rows,
            lost: cursor.take_lost(),
            rate: None,
            last: None,
        }))
    }
}
