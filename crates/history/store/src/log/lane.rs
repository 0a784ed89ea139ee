//! A lane in the log (a node's base lane, or that of a kept channel): which of its rows are safe, and which of its blocks is open.
//! The hub holds one for each lane. The commit marks the rows that it has written.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use khz_model::{NodeName, Series};

use crate::lane_of::are_of_channel;
use crate::limits::STORED_RANGES_MAX;
use crate::log::intake::KnownSchema;
use crate::log::pieces::{Left, Ranges, Records};
use crate::log::record::Piece;

/// A lane of a node in one epoch.
#[derive(Debug)]
pub struct LoggedLane {
    pub(crate) number: u32,
    node: NodeName,
    epoch: u64,
    safe: Mutex<Safe>,
    /// Rows are gone from the disk, and nobody has asked for that since.
    has_lost: AtomicBool,
    /// Rows of a channel have come. The log's lanes have no names, so their rows tell it.
    is_of_channel: AtomicBool,
}

/// What is on the disk.
#[derive(Debug, Default)]
struct Safe {
    /// Ranges of rows, in order, none touching the next.
    stored: Vec<(u64, u64)>,
    open: Option<Journalled>,
    /// The records that have pieces of it.
    records: Ranges,
    /// What a commit has taken: the first row of the block, and the number of bytes. It is not on the disk yet.
    taken: Option<(u64, usize)>,
    /// The schema of the open block, and its number.
    schema: Option<(u32, KnownSchema)>,
}

/// The block whose rows are in the log, and not yet as a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Journalled {
    pub first_row: u64,
    /// How many of its bytes are in the log.
    pub bytes: usize,
    /// The number after its last whole row.
    pub end: u64,
    /// The segment in which it begins.
    pub segment: u64,
    /// How many of its bytes there were when it was moved last, because an older segment was removed.
    pub moved: usize,
    /// How many times it was moved since anything came of it.
    pub idle: u32,
}

impl LoggedLane {
    pub(crate) fn new(number: u32, node: NodeName, epoch: u64) -> Self {
        let (safe, has_lost, is_of_channel) = Default::default();
        LoggedLane { number, node, epoch, safe, has_lost, is_of_channel }
    }

    /// The node.
    pub fn node(&self) -> &NodeName {
        &self.node
    }

    /// The lane's epoch.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// True if it is the lane of a channel, as far as rows have come.
    pub(crate) fn is_of_channel(&self) -> bool {
        self.is_of_channel.load(Ordering::Relaxed)
    }

    /// Rows with these series have come.
    pub(crate) fn has(&self, series: &[Series]) {
        if are_of_channel(series) {
            self.is_of_channel.store(true, Ordering::Relaxed);
        }
    }

    /// Ranges of rows that are safe on the disk, in order: the first row of each, and the row after its last one. If there are too
    /// many ranges, the oldest are forgotten.
    pub fn stored(&self) -> Vec<(u64, u64)> {
        self.safe().stored.clone()
    }

    /// Every row before this one is safe, from the first that is known to be; 0: none is.
    pub fn stored_until(&self) -> u64 {
        self.safe().stored.first().map_or(0, |&(_, end)| end)
    }

    /// Rows are on the disk. Returns how many were not before.
    pub(crate) fn add(&self, from: u64, to: u64) -> u64 {
        self.safe().add(from, to)
    }

    /// True if the log has rows of a block that begins with this row, and not the whole block.
    pub fn has_open(&self, first_row: u64) -> bool {
        self.open().is_some_and(|open| open.first_row == first_row)
    }

    /// The schema of the open block, and its number.
    pub(crate) fn schema(&self) -> Option<(u32, KnownSchema)> {
        self.safe().schema.clone()
    }

    /// The open block whose rows are in the log.
    pub(crate) fn open(&self) -> Option<Journalled> {
        self.safe().open
    }

    /// A commit takes bytes of the open block. Returns the number of the block's schema; `None`: they do not continue what
    /// the log has of the block.
    pub(crate) fn take(
        &self,
        first_row: u64,
        offset: usize,
        length: usize,
        begins: Option<(u32, KnownSchema)>,
    ) -> Option<u32> {
        let mut safe = self.safe();
        if let Some((_, schema)) = &begins {
            self.has(schema.columns.series());
            safe.schema = begins;
        } else if safe.reached() != Some((first_row, offset)) {
            return None;
        }
        safe.taken = Some((first_row, offset + length));
        safe.schema.as_ref().map(|(number, _)| *number)
    }

    /// A piece of the open block is in the log: in this record, of this segment. Returns how many rows were not there before, and
    /// the block that was open before.
    pub(crate) fn journalled(
        &self,
        piece: &Piece,
        record: u64,
        segment: u64,
        records: &mut Records,
    ) -> (u64, Option<Left>) {
        let Piece { first_row, end, .. } = *piece;
        let bytes = piece.offset + piece.length;
        let mut safe = self.safe();
        safe.taken = None;
        let is_other = safe.open.is_some_and(|open| open.first_row != first_row);
        let left = if is_other { safe.leave() } else { None };
        if piece.offset == 0 {
            // It came again from its start.
            records.release(std::mem::take(&mut safe.records));
        }
        records.add(&mut safe.records, record);
        let known = safe.open.filter(|open| open.bytes <= bytes);
        let known = known.unwrap_or(Journalled { first_row, bytes, end, segment, moved: 0, idle: 0 });
        let idle = if known.bytes == bytes { known.idle } else { 0 };
        safe.open = Some(Journalled { bytes, end, idle, ..known });
        (safe.add(first_row, end), left)
    }

    /// Notes that a complete block is in the log. Its earlier parts are not needed any more. Returns how many rows are new, and the
    /// open block if it is another one or has more rows.
    pub(crate) fn logged(&self, first_row: u64, end: u64, records: &mut Records) -> (u64, Option<Left>) {
        let mut safe = self.safe();
        let mut left = None;
        if safe.open.is_some_and(|open| open.first_row <= first_row) {
            left = safe.leave();
            safe.schema = None;
        }
        if let Some(whole) = left.take_if(|left| left.first_row == first_row && left.end <= end) {
            records.release(whole.records);
        }
        (safe.add(first_row, end), left)
    }

    /// Reads which records have pieces of the open block.
    pub(crate) fn with_records<T>(&self, read: impl FnOnce(&Ranges) -> T) -> T {
        read(&self.safe().records)
    }

    /// The bytes of the open block have moved to this segment.
    pub(crate) fn moved(&self, first_row: u64, bytes: usize, segment: u64) {
        if let Some(open) = self.safe().open.as_mut().filter(|open| open.first_row == first_row) {
            open.idle = if open.moved == bytes { open.idle + 1 } else { 0 };
            (open.segment, open.moved) = (segment, bytes);
        }
    }

    /// Rows are gone from the disk.
    pub(crate) fn lose(&self, from: u64, to: u64) {
        self.safe().remove(from, to);
        self.has_lost.store(true, Ordering::Release);
    }

    /// Keeps only these of the rows that were called safe.
    pub(crate) fn keep(&self, ranges: &[(u64, u64)]) {
        let mut safe = self.safe();
        safe.stored.clear();
        for (from, to) in ranges {
            safe.add(*from, *to);
        }
    }

    /// True if safe rows have vanished from the disk since the last call, because somebody has removed a file. Holders of such rows
    /// pass them on again.
    pub fn take_lost(&self) -> bool {
        // As a rule nothing is lost.
        self.has_lost.load(Ordering::Relaxed) && self.has_lost.swap(false, Ordering::AcqRel)
    }

    /// The rows that the log had of the open block are gone from the disk.
    pub(crate) fn lose_open(&self) -> Option<Left> {
        let mut safe = self.safe();
        if let Some(open) = safe.open {
            safe.remove(open.first_row, open.end);
            self.has_lost.store(true, Ordering::Release);
        }
        safe.forget_open()
    }

    /// The open block's bytes in the log cannot be continued. Returns that block.
    pub(crate) fn forget_open(&self) -> Option<Left> {
        self.safe().forget_open()
    }

    fn safe(&self) -> MutexGuard<'_, Safe> {
        self.safe.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Safe {
    fn forget_open(&mut self) -> Option<Left> {
        (self.taken, self.schema) = (None, None);
        self.leave()
    }

    /// No block is open any more. Returns the one that was.
    fn leave(&mut self) -> Option<Left> {
        let Journalled { first_row, end, .. } = self.open.take()?;
        Some(Left { first_row, end, records: std::mem::take(&mut self.records) })
    }

    /// How far the log has the open block: its first row, and how many of its bytes.
    fn reached(&self) -> Option<(u64, usize)> {
        self.taken.or(self.open.map(|open| (open.first_row, open.bytes)))
    }

    fn remove(&mut self, from: u64, to: u64) {
        if from >= to {
            return;
        }
        let rest = |&(begin, end): &(u64, u64)| [(begin, end.min(from)), (begin.max(to), end)];
        let rest = self.stored.iter().flat_map(rest).filter(|(begin, end)| begin < end);
        self.stored = rest.collect();
    }

    fn add(&mut self, from: u64, to: u64) -> u64 {
        if from >= to {
            return 0;
        }
        // As a rule a row follows the last one.
        if let Some((begin, end)) = self.stored.last_mut()
            && (*begin..=*end).contains(&from)
        {
            let before = *end;
            *end = before.max(to);
            return *end - before;
        }
        // The ranges from `first` on and before `last` touch the new one.
        let first = self.stored.partition_point(|&(_, end)| end < from);
        let last = self.stored.partition_point(|&(begin, _)| begin <= to);
        let touched = self.stored.get(first..last).unwrap_or_default();
        let before: u64 = touched.iter().map(|(begin, end)| end - begin).sum();
        let begin = touched.first().map_or(from, |&(begin, _)| begin.min(from));
        let end = touched.last().map_or(to, |&(_, end)| end.max(to));
        self.stored.splice(first..last.max(first), [(begin, end)]);
        if self.stored.len() > STORED_RANGES_MAX {
            self.stored.remove(0);
        }
        end - begin - before
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ranges_are_those_of_a_set(
            changes in prop::collection::vec((0u64..60, 0u64..9, prop::bool::weighted(0.8)), 0..40),
        ) {
            let (mut safe, mut rows) = (Safe::default(), BTreeSet::new());
            for (from, count, is_added) in changes {
                if is_added {
                    safe.add(from, from + count);
                    rows.extend(from..from + count);
                } else {
                    safe.remove(from, from + count);
                    rows.retain(|row| !(from..from + count).contains(row));
                }
            }
            let of_ranges: Vec<u64> = safe.stored.iter().flat_map(|&(from, to)| from..to).collect();
            prop_assert_eq!(of_ranges, rows.into_iter().collect::<Vec<u64>>());
            prop_assert!(safe.stored.is_sorted_by(|one, next| one.1 < next.0));
        }
    }
}
