//! The rows of one lane that a peer lacks: which blocks of the ring have them, newest first, and which rows the ring no longer
//! has. It sends nothing itself.

use khz_model::Nanos;

use crate::ring_walk::{Found, Walk};
use crate::source::Lane;

/// A block to be sent, and which of its rows the peer lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pending {
    /// Its offset in the ring.
    pub at: u64,
    /// The rows that the peer lacks, the last not included.
    pub from: u64,
    pub to: u64,
    /// When its first row was gathered.
    pub began: Nanos,
}

/// The blocks of one lane's past that are still to be sent.
#[derive(Debug, Default)]
pub(crate) struct Backfill {
    /// Ranges of rows whose blocks were not searched for yet.
    gaps: Vec<(u64, u64)>,
    /// Blocks found, oldest first.
    blocks: Vec<Pending>,
    /// Rows that are in no block, not yet reported as lost.
    lost: Vec<(u64, u64)>,
}

impl Backfill {
    /// The peer lacks the rows of `from..to` that are not in `have` (ascending). Blocks that ended before `since` are not sent.
    pub fn want<L: Lane>(
        &mut self,
        lane: &L,
        (mut from, to): (u64, u64),
        have: impl Iterator<Item = (u64, u64)>,
        since: Nanos,
        scratch: &mut Vec<u8>,
    ) {
        for (begin, end) in have {
            self.add_gap(from, begin.min(to));
            from = from.max(end);
        }
        self.add_gap(from, to);
        self.plan(lane, since, scratch);
    }

    fn add_gap(&mut self, from: u64, to: u64) {
        if from < to {
            self.gaps.push((from, to));
        }
    }

    /// Searches the ring once for the blocks that have the rows.
    fn plan<L: Lane>(&mut self, lane: &L, since: Nanos, scratch: &mut Vec<u8>) {
        let mut gaps = std::mem::take(&mut self.gaps);
        gaps.extend(self.blocks.drain(..).map(|block| (block.from, block.to)));
        gaps.sort_unstable();
        // A row that is requested twice is sent once.
        gaps.dedup_by(|next, gap| {
            let overlaps = next.0 < gap.1;
            if overlaps {
                gap.1 = gap.1.max(next.1);
            }
            overlaps
        });
        let Some(&(_, end)) = gaps.last() else { return };
        let mut covered = 0;
        for found in Walk::new(lane, scratch).take_while(|found| found.first_row < end) {
            let unwanted = found.ended < since;
            for &(from, to) in &gaps {
                let (from, to) = (from.max(found.first_row), to.min(found.end_row));
                if from >= to {
                    continue;
                }
                // Rows between the previous block and this one are in no block.
                if !unwanted {
                    self.lose_between(&gaps, covered, from);
                    let Found { at, began, .. } = found;
                    self.blocks.push(Pending { at, from, to, began });
                }
                covered = covered.max(to);
            }
        }
        self.lose_between(&gaps, covered, end);
    }

    /// Reports the parts of `gaps` in `from..to` as lost.
    fn lose_between(&mut self, gaps: &[(u64, u64)], from: u64, to: u64) {
        for &(begin, end) in gaps {
            self.lose(begin.max(from), end.min(to));
        }
    }

    /// Notes these rows as lost.
    pub fn lose(&mut self, from: u64, to: u64) {
        match self.lost.last_mut() {
            _ if from >= to => {}
            Some(last) if last.1 == from => last.1 = to,
            _ => self.lost.push((from, to)),
        }
    }

    /// The newest block that is to be sent.
    pub fn newest(&self) -> Option<Pending> {
        self.blocks.last().copied()
    }

    /// The newest block was sent.
    pub fn sent(&mut self) {
        self.blocks.pop();
        if self.blocks.is_empty() {
            self.blocks = Vec::new();
        }
    }

    /// The newest block is damaged: its rows are lost.
    pub fn damaged(&mut self) {
        if let Some(block) = self.blocks.pop() {
            self.lose(block.from, block.to);
        }
    }

    /// The newest block was overwritten, and so were all older ones.
    pub fn overtaken(&mut self) {
        for block in std::mem::take(&mut self.blocks) {
            self.lose(block.from, block.to);
        }
    }

    /// The lost rows that were not yet returned.
    pub fn take_lost(&mut self) -> Vec<(u64, u64)> {
        std::mem::take(&mut self.lost)
    }
}

#[cfg(test)]
mod tests;
