//! The rows of the base lane that are still in its ring, for range queries of a khz without a store.

use std::sync::{Arc, Mutex, PoisonError};

use khz_block::Header;
use khz_model::{Delivery, HISTORY_READINGS_MAX, Nanos, NodeName, Pattern, QueryError, Recent, Stamp};
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

    /// The blocks in the ring, oldest first, each with the time of its begin. A clock that is set begins a block, so the wall
    /// clock of a block may be before that of an earlier one, but not within one.
    fn blocks(&self) -> impl Iterator<Item = (u64, Stamp)> {
        let ring = &self.lane.ring;
        let blocks = std::iter::successors(Some(ring.oldest()), |at| ring.next_block(*at));
        blocks.filter_map(|at| Some((at, ring.header(at)?.stamp)))
    }
}

impl Recent for RecentRows {
    fn nodes(&self) -> Vec<NodeName> {
        vec![self.node.clone()]
    }

    fn span(&self) -> Option<(Nanos, Nanos)> {
        let first = self.blocks().map(|(_, begin)| begin.real()).min()?;
        let (_, newest) = self.blocks().last()?;
        let now = clock::boot().0.saturating_add_signed(newest.real_offset);
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
        let (mut first, mut last, mut before) = (self.lane.ring.oldest(), None, None::<Stamp>);
        let mut has_first = false;
        for (at, begin) in self.blocks() {
            // The block before ends here, by its own wall clock.
            has_first |= before.is_some_and(|before| Stamp { boot: begin.boot, ..before }.real() > from);
            if !has_first {
                first = at;
            }
            if begin.real() < to {
                last = Some(begin.boot);
            }
            before = Some(begin);
        }
        let is_beyond = |block: &Header| last.is_none_or(|last| block.stamp.boot > last);
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
                    if (from..to).contains(&real) {
                        let row = columns.row(&self.lane, decoder);
                        readings += row.readings.len();
                        rows.push(row);
                        if readings > HISTORY_READINGS_MAX {
                            return Err(QueryError::TooMuch { node: node.clone() });
                        }
                    }
                }
                Event::Block if cursor.decoder().header().is_some_and(is_beyond) => break,
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

#[cfg(test)]
mod tests {
    use std::fs;

    use khz_model::{Rate, Stamp};
    use proptest::prelude::*;

    use super::*;
    use crate::budget::Budget;
    use crate::lane::{Lane, ring_of_tests};
    use crate::lane_set::LaneSet;
    use crate::source::Source;

    const SECOND: i64 = 1_000_000_000;
    /// The wall clock at the start, less the time since boot.
    const BEGIN: i64 = 1_763_690_000 * SECOND;

    /// A lane of 1 Hz with a row in each second, and the wall clock of each row; at some of them the clock was set.
    fn lane(steps: &[(u64, i64)]) -> (LaneSet, Vec<u64>) {
        let root = std::env::temp_dir().join(format!("khz-recent-{}", std::process::id()));
        fs::create_dir_all(root.join("proc")).unwrap();
        fs::write(root.join("proc/loadavg"), "0.01 0.02 0.03 1/100 4242\n").unwrap();
        let ring = ring_of_tests(1 << 20);
        let mut sources = [Source::file(&root, &khz_parse::loadavg::FILE, Budget::unlimited())];
        let stamp = |second, real_offset| Stamp { boot: Nanos::from_secs(second), real_offset };
        let lane = Lane::new(Some(Rate::from_hz(1).unwrap()), vec![Some(Nanos(0))], ring, stamp(0, BEGIN));
        let mut lanes = LaneSet::new(vec![lane], 1);
        let (mut room, mut calls, mut times, mut offset) = (Vec::new(), Vec::new(), Vec::new(), BEGIN);
        for second in 0..400 {
            offset += steps.iter().filter(|(at, _)| *at == second).map(|(_, by)| by * SECOND).sum::<i64>();
            let now = stamp(second, offset);
            sources[0].gather(now, &mut room);
            lanes.note(0, &sources[0]);
            lanes[0].record(now, &sources, &mut calls, &mut None);
            times.push(now.real().0);
        }
        (lanes, times)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn every_row_of_a_time_is_found_however_the_clock_was_set(
            steps in prop::collection::vec((0u64..400, -500i64..500), 0..4),
            asked in prop::collection::vec((-600i64..1_500, 0i64..300), 8),
        ) {
            let (lanes, times) = lane(&steps);
            let rows = RecentRows::new(NodeName::new("n1").unwrap(), lanes[0].view.clone(), Arc::default());
            for (from, length) in asked {
                let from = (BEGIN + from * SECOND) as u64;
                let to = from + (length * SECOND) as u64;
                let expected: Vec<u64> = times.iter().copied().filter(|time| (from..to).contains(time)).collect();
                let found = rows.rows(&rows.node, &[Pattern::new("load.1m").unwrap()], Nanos(from), Nanos(to));
                let found: Vec<u64> = found.unwrap().unwrap().rows.iter().map(|row| row.stamp.real().0).collect();
                prop_assert_eq!(found, expected);
            }
        }
    }
}
