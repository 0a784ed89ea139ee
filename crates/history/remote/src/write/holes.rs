//! Rows that are missing so far. Agents send what a hub has missed newest first, so a node's rows are complete only some time
//! after the first of them came. Until then the rows after a hole wait, because receivers want samples in the order of time.

use std::collections::{BTreeMap, BTreeSet};

use khz_store::log::KnownBlock;

/// Holes of a node that are remembered. A node with more has the others filled or skipped later.
const HOLES_MAX: usize = 256;

/// The holes of a node, each with the time at which it was noticed.
#[derive(Debug, Default)]
pub(crate) struct Holes {
    /// By the epoch, and the number of the first row that is missing.
    noticed: BTreeMap<(u64, u64), u64>,
}

impl Holes {
    /// Until when rows may be sent: before the first hole after `from` that was noticed less than `delay` ns before `now`.
    /// `known` are all blocks of the node.
    pub fn limit(&mut self, known: &[KnownBlock], from: u64, now: u64, delay: u64) -> Option<u64> {
        let mut limit: Option<u64> = None;
        let mut present = BTreeSet::new();
        for block in known.iter().filter(|block| block.span.0.0 >= from && block.first_row > 0) {
            let Some(first) = first_missing(block, known) else { continue };
            let key = (block.lane.epoch(), first);
            if present.len() < HOLES_MAX {
                present.insert(key);
            }
            let noticed = if present.contains(&key) { *self.noticed.entry(key).or_insert(now) } else { 0 };
            if now.saturating_sub(noticed) < delay {
                limit = Some(limit.unwrap_or(u64::MAX).min(block.span.0.0));
            }
        }
        self.noticed.retain(|key, _| present.contains(key));
        limit
    }
}

/// The first of the rows that are missing before this block; `None`: the row before it is there.
fn first_missing(block: &KnownBlock, known: &[KnownBlock]) -> Option<u64> {
    let before = block.first_row - 1;
    let of_lane = known.iter().filter(|other| other.lane.epoch() == block.lane.epoch());
    let blocks = of_lane.map(|other| (other.first_row, other.first_row + u64::from(other.rows)));
    let mut first = 0;
    // Rows that are columns by now are known to the lane.
    for (begin, end) in blocks.chain(block.lane.stored()) {
        if (begin..end).contains(&before) {
            return None;
        }
        if end <= before {
            first = first.max(end);
        }
    }
    Some(first)
}

/// Rows of a node that were sent, or were not wanted, by their numbers; for counting those that come too late.
#[derive(Debug, Default)]
pub(crate) struct Done {
    /// For each epoch, ranges of rows in order, none touching the next.
    epochs: BTreeMap<u64, Vec<(u64, u64)>>,
}

/// Ranges of an epoch that are remembered.
const RANGES_MAX: usize = 256;

impl Done {
    /// These rows are done. Returns how many were not before.
    pub fn add(&mut self, block: &KnownBlock) -> u64 {
        let ranges = self.epochs.entry(block.lane.epoch()).or_default();
        let (from, to) = (block.first_row, block.first_row + u64::from(block.rows));
        let first = ranges.partition_point(|&(_, end)| end < from);
        let last = ranges.partition_point(|&(begin, _)| begin <= to);
        let touched = ranges.get(first..last).unwrap_or_default();
        let overlap = |&(begin, end): &(u64, u64)| end.min(to).saturating_sub(begin.max(from));
        let before: u64 = touched.iter().map(overlap).sum();
        let begin = touched.first().map_or(from, |&(begin, _)| begin.min(from));
        let end = touched.last().map_or(to, |&(_, end)| end.max(to));
        ranges.splice(first..last.max(first), [(begin, end)]);
        if ranges.len() > RANGES_MAX {
            ranges.remove(0);
        }
        to - from - before
    }

    /// Forgets the epochs that the log does not have any more.
    pub fn forget(&mut self, known: &[KnownBlock]) {
        self.epochs.retain(|epoch, _| known.iter().any(|block| block.lane.epoch() == *epoch));
    }
}
