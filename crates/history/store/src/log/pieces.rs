//! Which records of rows have bytes of blocks that the log does not have as a whole: those that a start reads, and those that
//! are read when such bytes are written again.

use std::collections::{BTreeMap, HashMap};

use crate::log::list::RecordPlace;
use crate::log::record::Piece;

/// Blocks that the log has in pieces only, of those that have come since it was opened: what was there before is in blocks.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    /// By lane and first row.
    blocks: HashMap<(u32, u64), Block>,
    /// How many of those pieces each record has.
    records: BTreeMap<RecordPlace, u32>,
}

#[derive(Debug, Default)]
struct Block {
    /// The records with its pieces, in the order of the block's bytes.
    records: Vec<RecordPlace>,
    /// The number after the last whole row.
    end: u64,
}

impl Pieces {
    /// A record has a piece.
    pub fn add(&mut self, piece: &Piece, record: RecordPlace) {
        let Pieces { blocks, records } = self;
        let block = blocks.entry((piece.lane, piece.first_row)).or_default();
        if piece.offset == 0 {
            // It came again from its start.
            release(records, block.records.drain(..));
        }
        block.records.push(record);
        block.end = piece.end;
        // As a rule it is the record of the piece before.
        match records.last_entry().filter(|last| *last.key() == record) {
            Some(mut last) => *last.get_mut() += 1,
            None => *records.entry(record).or_default() += 1,
        }
    }

    /// The log has a block up to this row. It has everything that came of it before.
    pub fn block(&mut self, lane: u32, first_row: u64, end: u64) {
        let key = (lane, first_row);
        if self.blocks.get(&key).is_some_and(|block| block.end <= end)
            && let Some(block) = self.blocks.remove(&key)
        {
            release(&mut self.records, block.records.into_iter());
        }
    }

    /// A segment is gone.
    pub fn forget_segment(&mut self, segment: u64) {
        let is_gone = |record: &RecordPlace| record.0 == segment;
        self.records.retain(|record, _| !is_gone(record));
        self.blocks.retain(|_, block| {
            block.records.retain(|record| !is_gone(record));
            !block.records.is_empty()
        });
    }

    /// The records that have such pieces.
    pub fn records(&self) -> impl ExactSizeIterator<Item = RecordPlace> {
        self.records.keys().copied()
    }

    /// The records that have pieces of a block.
    pub fn of(&self, lane: u32, first_row: u64) -> &[RecordPlace] {
        self.blocks.get(&(lane, first_row)).map_or(&[], |block| &block.records)
    }
}

fn release(records: &mut BTreeMap<RecordPlace, u32>, of_block: impl Iterator<Item = RecordPlace>) {
    for record in of_block {
        if let Some(count) = records.get_mut(&record) {
            *count -= 1;
            if *count == 0 {
                records.remove(&record);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(lane: u32, offset: usize, end: u64) -> Piece {
        Piece { lane, schema: 0, first_row: 60, offset, length: 10, end, shift: 0 }
    }

    fn needed(pieces: &Pieces) -> Vec<RecordPlace> {
        pieces.records().collect()
    }

    #[test]
    fn a_record_is_needed_until_all_its_blocks_are_there_as_a_whole() {
        let mut pieces = Pieces::default();
        for lane in [1, 2] {
            pieces.add(&piece(lane, 0, 61), (1, 100));
            pieces.add(&piece(lane, 10, 62), (1, 200));
        }
        pieces.block(1, 60, 61);
        assert_eq!(needed(&pieces), [(1, 100), (1, 200)], "row 61 came after that");
        pieces.block(1, 60, 62);
        assert_eq!(needed(&pieces), [(1, 100), (1, 200)], "the other lane");
        pieces.add(&piece(2, 0, 62), (2, 300));
        assert_eq!((needed(&pieces), pieces.of(2, 60)), (vec![(2, 300)], &[(2, 300)][..]));
        pieces.add(&piece(2, 10, 63), (3, 400));
        pieces.forget_segment(2);
        assert_eq!(needed(&pieces), [(3, 400)]);
        pieces.block(2, 60, 120);
        assert!(needed(&pieces).is_empty() && pieces.blocks.is_empty());
    }
}
