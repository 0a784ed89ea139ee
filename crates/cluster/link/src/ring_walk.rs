//! Walks over the closed blocks of a ring, oldest first, while its writer continues.

use khz_block::{HEADER_BYTES, Header, RowScanner};
use khz_model::Nanos;

use crate::limits::PIECE;
use crate::source::Lane;

/// The header of the block at `at`, if a block begins there. If the block is closed, the closing
/// fields are final.
pub(crate) fn header<L: Lane>(lane: &L, at: u64, scratch: &mut Vec<u8>) -> Option<Header> {
    let first = header_once(lane, at, scratch)?;
    // The writer writes the closing fields before the flag, and we read them after the flag.
    if first.closed.is_some() { header_once(lane, at, scratch) } else { Some(first) }
}

fn header_once<L: Lane>(lane: &L, at: u64, scratch: &mut Vec<u8>) -> Option<Header> {
    scratch.clear();
    lane.copy(at, HEADER_BYTES, scratch).ok()?;
    Header::from_bytes(scratch.first_chunk()?, 0).ok()
}

/// The number of the next row, counted in the newest block; 0 if there is none.
pub(crate) fn next_row<L: Lane>(lane: &L, scratch: &mut Vec<u8>) -> u64 {
    let (mut at, mut scanner) = (lane.newest(), RowScanner::new());
    loop {
        scratch.clear();
        match lane.copy(at, PIECE, scratch) {
            Ok(copied) if copied > 0 && scanner.feed(scratch).is_ok() => at += copied as u64,
            _ => return scanner.next_row(),
        }
    }
}

/// A closed block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// Where it begins.
    pub at: u64,
    /// Its first row.
    pub first_row: u64,
    /// The row after its last.
    pub end_row: u64,
    /// When its first row was gathered. None of its rows was gathered after `ended`.
    pub began: Nanos,
    pub ended: Nanos,
}

/// Walks the ring once. If the writer overtakes its first step, it begins again. The writer cannot
/// overtake later steps.
pub(crate) struct Walk<'a, L> {
    lane: &'a L,
    scratch: &'a mut Vec<u8>,
    /// The block that comes next.
    next: Option<(u64, Header)>,
}

/// After a writer has overtaken a walk's first step this many times, the walk finds nothing.
const TRIES: usize = 8;

impl<'a, L: Lane> Walk<'a, L> {
    pub fn new(lane: &'a L, scratch: &'a mut Vec<u8>) -> Self {
        let next = (0..TRIES).find_map(|_| {
            let at = lane.oldest();
            Some((at, header(lane, at, scratch)?))
        });
        Walk { lane, scratch, next }
    }
}

impl<L: Lane> Iterator for Walk<'_, L> {
    type Item = Found;

    fn next(&mut self) -> Option<Found> {
        let (at, head) = self.next.take()?;
        let (rows, length, _) = head.closed?;
        let next = at.checked_add(HEADER_BYTES as u64 + u64::from(length))?;
        if next <= self.lane.newest() {
            self.next = header(self.lane, next, self.scratch).map(|header| (next, header));
        }
        let ended = self.next.map_or(Nanos(u64::MAX), |(_, header)| header.stamp.boot);
        let end_row = head.first_row.checked_add(u64::from(rows))?;
        Some(Found { at, first_row: head.first_row, end_row, began: head.stamp.boot, ended })
    }
}
