//! Reading a lane: bytes from a reader's place on, where a reader joins, and the newest row decoded.

use std::sync::Arc;

use khz_block::{Decoder, Header, Step};
use khz_model::{Nanos, Stamp};

use super::{Block, Lane, Latest};
use crate::schemas::Schema;

/// A reader's place in a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// First row of the block that it reads.
    pub first_row: u64,
    /// Bytes of it that the reader has.
    pub offset: usize,
}

/// What [`Lane::read`] has found.
pub(crate) enum Piece {
    /// Nothing new.
    Nothing,
    /// More of the same block.
    More,
    /// The start of another block.
    Block(Arc<Schema>),
}

/// Bytes of a block from a place on.
struct Next<'a> {
    place: Place,
    bytes: &'a [u8],
    schema: &'a Arc<Schema>,
}

impl Lane {
    /// The newest row, decoded; `None` before the first.
    pub fn latest(&mut self) -> Option<&Decoder> {
        let open = self.open.as_ref()?;
        if open.scanner.rows() == 0 {
            return None;
        }
        let first_row = open.header.first_row;
        let latest = self.latest.get_or_insert_with(|| {
            Box::new(Latest { decoder: Decoder::new(), first_row: u64::MAX, offset: 0 })
        });
        // A block that came again after an outage may be shorter than the part that was decoded.
        if latest.first_row != first_row || latest.offset > open.bytes.len() {
            (latest.first_row, latest.offset) = (first_row, 0);
        }
        while let Ok(Step::Header(length) | Step::Row(length)) =
            latest.decoder.step(&open.bytes[latest.offset..])
        {
            latest.offset += length;
        }
        latest.decoder.header().is_some().then_some(&latest.decoder)
    }

    /// The row that [`Lane::latest`] decoded last, and what its slots mean.
    pub fn decoded(&self) -> Option<(Arc<Schema>, &Decoder)> {
        let (open, latest) = (self.open.as_ref()?, self.latest.as_ref()?);
        let is_present = latest.first_row == open.header.first_row && latest.decoder.header().is_some();
        is_present.then(|| (open.schema.clone(), &latest.decoder))
    }

    /// The start of the present block, where a reader joins; older rows are history.
    pub fn join(&self) -> Place {
        Place { first_row: self.open.as_ref().map_or(0, |open| open.header.first_row), offset: 0 }
    }

    /// The place from which on the rows from this one on are read, as far as they are here.
    pub fn join_at(&self, row: u64) -> Place {
        let present = self.join();
        let first_row = match self.recent.get(self.recent_after(row).wrapping_sub(1)) {
            _ if present.first_row <= row => present.first_row,
            Some(block) if row < block.end() => block.header.first_row,
            // It is in no block: reading goes on with the next one.
            _ => row,
        };
        Place { first_row, offset: 0 }
    }

    /// The start of the block in which the rows from `since` (the node's boot clock) on begin, as far as they are here.
    pub fn join_since(&self, since: Nanos) -> Place {
        let present = self.join();
        let blocks = self.recent.iter().map(|block| &block.header);
        let blocks = blocks.filter(|header| header.first_row < present.first_row);
        let begun = |header: &&Header| header.stamp.boot <= since;
        let is_present = self.open.as_ref().is_none_or(|open| open.header.stamp.boot <= since);
        let oldest = blocks.clone().next();
        match blocks.take_while(begun).last().or(oldest).filter(|_| !is_present) {
            Some(header) => Place { first_row: header.first_row, offset: 0 },
            None => present,
        }
    }

    /// Appends the bytes after a reader's place to `out`, at most to the end of a block, and moves the place.
    pub fn read(&self, place: &mut Place, out: &mut Vec<u8>) -> Piece {
        let Some(next) = self.what_follows(place) else { return Piece::Nothing };
        *place = next.place;
        let begins = place.offset == 0;
        let Some(rest) = next.bytes.get(place.offset..).filter(|rest| !rest.is_empty()) else {
            return Piece::Nothing;
        };
        out.extend_from_slice(rest);
        place.offset = next.bytes.len();
        if begins { Piece::Block(next.schema.clone()) } else { Piece::More }
    }

    /// The first row of the block that the next [`Lane::read`] begins; `None`: it begins none.
    pub fn begins_next(&self, place: &Place) -> Option<u64> {
        let next = self.what_follows(place)?;
        (next.place.offset == 0 && !next.bytes.is_empty()).then_some(next.place.first_row)
    }

    /// The row after the block at a reader's place; `None`: the block is not here.
    pub fn end_at(&self, place: &Place) -> Option<u64> {
        let open = self.open.as_ref().filter(|open| open.header.first_row == place.first_row);
        let end = open.map(|open| place.first_row + u64::from(open.scanner.rows()));
        end.or_else(|| self.recent_at(place.first_row).map(Block::end))
    }

    /// What is read next at a reader's place.
    fn what_follows(&self, place: &Place) -> Option<Next<'_>> {
        let open = self.open.as_ref()?;
        let of_open = |place| Next { place, bytes: &open.bytes, schema: &open.schema };
        if place.first_row == open.header.first_row {
            return Some(of_open(*place));
        }
        if let Some(block) = self.recent_at(place.first_row).filter(|block| place.offset < block.bytes.len())
        {
            return Some(Next { place: *place, bytes: &block.bytes, schema: &block.schema });
        }
        // The reader has that block, or the block was dropped. It continues with the next block that is
        // here.
        let at = |header: &Header| Place { first_row: header.first_row, offset: 0 };
        Some(match self.recent.get(self.recent_after(place.first_row)) {
            Some(block) => Next { place: at(&block.header), bytes: &block.bytes, schema: &block.schema },
            None => of_open(at(&open.header)),
        })
    }

    /// The recent block that begins with this row.
    fn recent_at(&self, first_row: u64) -> Option<&Block> {
        let at = self.recent_after(first_row).checked_sub(1)?;
        self.recent.get(at).filter(|block| block.header.first_row == first_row)
    }

    /// The times of the first and the last row here.
    pub fn span(&self) -> Option<(Nanos, Nanos)> {
        let oldest = self.recent.iter().map(|block| block.header.stamp.real());
        let first = oldest.chain(self.open.iter().map(|open| open.header.stamp.real())).min()?;
        Some((first, self.newest()?.real().max(first)))
    }

    /// The place after all rows that are here.
    pub fn leave(&self) -> Place {
        let offset = self.open.as_ref().map_or(0, |open| open.bytes.len());
        Place { offset, ..self.join() }
    }

    /// The present block as it is, if it has rows.
    pub(super) fn open_block(&self) -> Option<Block> {
        let open = self.open.as_ref().filter(|open| open.scanner.rows() > 0)?;
        let (header, rows, schema) = (open.header, open.scanner.rows(), open.schema.clone());
        Some(Block { header, rows, schema, bytes: Arc::new(open.bytes.clone()) })
    }

    /// The first row of the present block.
    pub fn live(&self) -> Option<u64> {
        self.open.as_ref().map(|open| open.header.first_row)
    }

    /// The oldest row that is here.
    pub fn oldest_row(&self) -> u64 {
        let oldest = self.recent.front().map(|block| block.header.first_row);
        oldest.or(self.live()).unwrap_or(self.next_offered)
    }

    /// True if no row is left after a reader's place.
    pub fn is_read(&self, place: &Place) -> bool {
        let Some(open) = &self.open else { return true };
        // The start of a row whose end will not come does not count.
        place.first_row == open.header.first_row
            && place.offset + open.scanner.unfinished() >= open.bytes.len()
    }

    /// The number of the oldest row within `span`, where one row of every `every` has a number; 0 if any age is wanted.
    pub fn first_number_since(&self, span: Nanos, every: u64) -> u64 {
        if span == Nanos(u64::MAX) {
            return 0;
        }
        // Rows on their way may be of any age. The period gives the number of rows in the span: a node that has just come may have sent
        // none yet.
        let rows = span.0.checked_div(self.period.0).unwrap_or(u64::MAX).saturating_add(1);
        let by_period = self.next_row().max(self.next_offered).saturating_sub(rows);
        let Some(newest) = self.newest() else { return by_period / every };
        let since = newest.boot.since(span);
        let begun = |block: &&Block| block.header.stamp.boot <= since;
        let here = self.recent.iter().take_while(begun).last().map_or(0, |block| block.header.first_row);
        here.max(by_period) / every
    }

    /// How many rows of this period fit between this stamp and the newest row.
    pub fn ticks_since(&self, last: Stamp, period: Nanos) -> u64 {
        let Some(newest) = self.newest() else { return 0 };
        let passed = newest.real().since(last.real()).0.saturating_add(period.0 / 2);
        passed.checked_div(period.0).unwrap_or(0).saturating_sub(1)
    }

    /// Blocks with rows from `since` (the node's boot clock) on, oldest first, the present one as it is.
    pub fn blocks_since(&self, since: Nanos) -> Vec<Block> {
        let begins = |block: &Block| block.header.stamp.boot <= since;
        let first = self.recent.partition_point(begins).saturating_sub(1);
        let mut blocks: Vec<Block> = self.recent.iter().skip(first).cloned().collect();
        if let Some(open) = self.open.as_ref().filter(|open| open.scanner.rows() > 0) {
            blocks.retain(|block| block.header.first_row != open.header.first_row);
            blocks.extend(self.open_block());
        }
        blocks.sort_by_key(Block::end);
        without_overlaps(blocks)
    }
}

/// Blocks in the order of their ends, without repeated rows: if two blocks overlap, the block that ends later
/// has the rows of both.
fn without_overlaps(blocks: Vec<Block>) -> Vec<Block> {
    let (mut until, mut apart) = (u64::MAX, Vec::with_capacity(blocks.len()));
    for block in blocks.into_iter().rev() {
        let first = block.header.first_row;
        if block.end() <= until {
            apart.push(block);
        } else if let Some(block) = block.until(until) {
            apart.push(block);
        }
        until = until.min(first);
    }
    apart.reverse();
    apart
}
