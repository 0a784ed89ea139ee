//! Rows of a lane that some readers are missing: blocks that came late, rows that are lost, and rows that the node was
//! asked to send again. It decides nothing for a reader; it only knows the state of each row.

use std::collections::VecDeque;

use khz_link::Ranges;
use khz_model::Nanos;

use super::{Block, Lane};
use crate::limits::{LATE_BYTES_MAX, LATE_KEPT};

/// The known state of rows that readers are missing.
#[derive(Debug, Default)]
pub(crate) struct Late {
    /// Blocks that came late, in the order in which they came, each with the time.
    blocks: VecDeque<(Nanos, Block)>,
    bytes: usize,
    /// Rows that nothing can bring any more.
    lost: Ranges,
    /// Rows that the node was asked to send again.
    again: Ranges,
    /// Rows from here on come without asking, or are reported lost.
    wanted_from: u64,
    /// `wanted_from` is the first row of the next block.
    begins: bool,
    /// The lane is wanted on the present connection.
    is_wanted: bool,
    /// Until when the first of the readers that wait at a gap does so.
    gap_until: Option<Nanos>,
    /// Counts changes of all this.
    pub changes: u64,
}

/// The state of some rows.
#[derive(Debug)]
pub(crate) enum Part {
    /// They are in this block.
    Here(Block, u64, u64),
    /// They are lost.
    Lost(u64, u64),
    /// They were here and were dropped.
    Gone(u64, u64),
    /// They never came, and will not unless the node is asked.
    Never(u64, u64),
}

impl Part {
    /// The rows, the last not included.
    pub fn rows(&self) -> (u64, u64) {
        let (Part::Here(_, from, to) | Part::Lost(from, to) | Part::Gone(from, to) | Part::Never(from, to)) =
            self;
        (*from, *to)
    }
}

impl Late {
    /// A late block came with rows that some reader is missing.
    pub fn take(&mut self, block: Block, now: Nanos) {
        let (from, to) = (block.header.first_row, block.end());
        self.again.remove(from, to);
        self.bytes += block.bytes.len();
        self.blocks.push_back((now, block));
        self.changes += 1;
        while self.bytes > LATE_BYTES_MAX && self.blocks.len() > 1 {
            self.give_up_oldest();
        }
    }

    /// True if late blocks are here.
    pub fn has_blocks(&self) -> bool {
        !self.blocks.is_empty()
    }

    /// These rows came with the newest block, or came late when no reader wanted late rows: they are no longer under
    /// way. A reader that is missing them finds them in their block, or requests them again.
    pub fn came(&mut self, from: u64, to: u64) {
        if !self.again.parts(from, to).is_empty() {
            self.again.remove(from, to);
            self.changes += 1;
        }
    }

    /// These rows are lost.
    pub fn lose(&mut self, from: u64, to: u64) {
        self.again.remove(from, to);
        self.lost.add(from, to);
        self.changes += 1;
    }

    /// The node is asked for these rows.
    pub fn ask(&mut self, from: u64, to: u64) {
        self.again.add(from, to);
        if let Some((from, to)) = self.again.take_forgotten() {
            self.again.remove(from, to);
        }
    }

    /// Readers want the node's rows from this row on (`None`: from the first that comes, since rows may have been made
    /// after the lane was offered). `false`: this was already set on this connection.
    pub fn want(&mut self, from: Option<u64>) -> bool {
        if std::mem::replace(&mut self.is_wanted, true) {
            return false;
        }
        (self.wanted_from, self.begins) = (from.unwrap_or(u64::MAX), from.is_none());
        self.changes += 1;
        true
    }

    /// True until the first of the wanted rows comes.
    pub fn begins(&self) -> bool {
        self.begins
    }

    /// A block begins with this row.
    pub fn began(&mut self, row: u64) {
        if std::mem::take(&mut self.begins) {
            self.wanted_from = row;
            self.changes += 1;
        }
    }

    /// The lane is not wanted any more; `false`: it was not wanted before.
    pub fn leave(&mut self) -> bool {
        std::mem::take(&mut self.is_wanted)
    }

    /// The rows among these that are lost.
    pub fn lost(&self, from: u64, to: u64) -> Vec<(u64, u64)> {
        self.lost.parts(from, to)
    }

    /// Rows that the node was asked for and has not sent: on another connection it is asked again.
    pub fn asked(&self) -> &[(u64, u64)] {
        self.again.as_slice()
    }

    /// A reader waits until then for rows that it is missing.
    pub fn wait_until(&mut self, until: Nanos) {
        self.gap_until = Some(self.gap_until.map_or(until, |known| known.min(until)));
    }

    /// Until when the first of these waits.
    pub fn gap_until(&self) -> Option<Nanos> {
        self.gap_until
    }

    /// True, once, if a reader has waited long enough.
    pub fn take_waited(&mut self, now: Nanos) -> bool {
        self.gap_until.take_if(|until| now >= *until).is_some()
    }

    /// Drops what readers have had time to fetch.
    pub fn keep_house(&mut self, now: Nanos, has_readers: bool) {
        if !has_readers {
            self.again = Ranges::default();
            let is_old = |(came, _): &&(Nanos, Block)| now.since(*came) > LATE_KEPT;
            while let Some((_, block)) = self.blocks.front().filter(is_old) {
                self.bytes -= block.bytes.len();
                self.blocks.pop_front();
            }
        }
        while self.blocks.front().is_some_and(|(came, _)| now.since(*came) > LATE_KEPT) {
            self.give_up_oldest();
        }
    }

    fn give_up_oldest(&mut self) {
        let Some((_, block)) = self.blocks.pop_front() else { return };
        self.bytes -= block.bytes.len();
        self.lost.add(block.header.first_row, block.end());
        self.changes += 1;
    }
}

impl Lane {
    /// The states of the rows `from..to`, in order, without rows that are still to come. It stops after about
    /// `bytes` of blocks; the second value is the row where it stopped.
    pub fn parts(&self, from: u64, to: u64, bytes: usize) -> (Vec<Part>, u64) {
        let (mut parts, mut at, mut left) = (Vec::new(), from, bytes);
        while at < to {
            if left == 0 {
                return (parts, at);
            }
            let next = match self.block_of(at) {
                Some(block) => {
                    let end = block.end().min(to);
                    left = left.saturating_sub(block.bytes.len());
                    parts.push(Part::Here(block, at, end));
                    end
                }
                None => {
                    let end = self.block_after(at).unwrap_or(to).min(to);
                    self.absent(at, end, &mut parts);
                    end
                }
            };
            at = next;
        }
        (parts, to)
    }

    /// The same for rows that are in no block here.
    fn absent(&self, from: u64, to: u64, parts: &mut Vec<Part>) {
        let late = &self.late;
        parts.extend(late.lost.parts(from, to).into_iter().map(|(from, to)| Part::Lost(from, to)));
        for (from, to) in late.lost.holes(from, to) {
            for (from, to) in late.again.holes(from, to) {
                let had = self.received.parts(from, to);
                parts.extend(had.into_iter().map(|(from, to)| Part::Gone(from, to)));
                let never = self.received.holes(from, to.min(late.wanted_from.max(from)));
                parts.extend(never.into_iter().map(|(from, to)| Part::Never(from, to)));
            }
        }
    }

    /// The block that has this row.
    fn block_of(&self, row: u64) -> Option<Block> {
        let has = |block: &&Block| (block.header.first_row..block.end()).contains(&row);
        let late = self.late.blocks.iter().map(|(_, block)| block).find(has);
        let recent = || self.recent.get(self.recent_after(row).checked_sub(1)?).filter(has);
        let open = || self.open_block().filter(|block| has(&block));
        late.or_else(recent).cloned().or_else(open)
    }

    /// The first row of the next block after this row.
    fn block_after(&self, row: u64) -> Option<u64> {
        let late = self.late.blocks.iter().map(|(_, block)| block);
        let blocks = late.chain(self.recent.get(self.recent_after(row))).map(|block| &block.header);
        let firsts = blocks.chain(self.open.as_ref().map(|open| &open.header)).map(|header| header.first_row);
        firsts.filter(|&first| first > row).min()
    }

    /// The index of the first recent block that begins after this row.
    pub(super) fn recent_after(&self, row: u64) -> usize {
        self.recent.partition_point(|block| block.header.first_row <= row)
    }
}
