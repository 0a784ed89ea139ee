//! How the rows of a base lane or of a kept channel get into the store. It hands over a block when the block has ended, or when no
//! row has come for long. Whenever the log asks, it also gives the rows of the open block. If the node's clock is wrong, it says by
//! how much the store must shift the times; the bytes stay. It writes nothing itself; the store's log does, in a thread of its own.

use std::sync::Arc;

use khz_block::{Decoder, Header, Step};
use khz_link::Ranges;
use khz_link::former::channel_of;
use khz_model::{Columns, Nanos, NodeName};
use khz_store::log::{Intake, LoggedBlock, LoggedLane, OpenBlock, Take};

use super::{Block, Lane, Open};
use crate::clock;
use crate::limits::{BLOCKS_UNMEASURED_MAX, CLOCK_OFF_MAX, UNMEASURED_MAX};
use crate::schemas::Schema;
use crate::trusted;

/// What a lane hands to the log, and what it has handed over.
#[derive(Debug)]
pub(super) struct LaneLog {
    intake: Intake,
    lane: Arc<LoggedLane>,
    /// Rows that the log had before this hub's start.
    before: Ranges,
    clock: Option<NodeClock>,
    /// Since when its rows wait for that, on our boot clock; `None`: they do not.
    waits_since: Option<Nanos>,
    /// Bytes of the open block that the log has taken.
    bytes: usize,
    /// When something came of the open block first, on our boot clock; `None`: nothing has come since it was handed over.
    began: Option<Nanos>,
    /// The log has taken rows of this block, but the node has recorded others: the log must drop them.
    void: Option<(Header, Arc<Schema>)>,
    /// Rows of the open block that were handed over as a block, because it did not go on for long.
    rows: u32,
    /// The rows of the open block before the node sent it again from its start. They stay until the resent block has as
    /// many rows.
    replaced: Option<LoggedBlock>,
    /// Blocks of the past that came before the node's clock was measured, each with the time of its last row.
    unmeasured: Vec<(Block, Nanos)>,
}

/// How far a node's wall clock was ahead of ours when that was measured, and its real time minus its boot time then.
#[derive(Clone, Copy, Debug)]
struct NodeClock {
    ahead: i64,
    real_offset: i64,
    /// By how much ours had been set then; `None`: another hub compared it with its own clock.
    ours_set_by: Option<i64>,
}

/// Whose clock a node's clock was compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComparedWith {
    /// That of this hub.
    Ours,
    /// That of the hub below through which the node comes.
    AnotherHubs,
}

impl LaneLog {
    fn new(intake: &Intake, node: &NodeName, epoch: u64) -> Self {
        let lane = intake.lane(node, epoch);
        let mut before = Ranges::default();
        lane.stored().into_iter().for_each(|(from, to)| {
            before.add(from, to);
        });
        LaneLog {
            intake: intake.clone(),
            lane,
            before,
            clock: None,
            waits_since: None,
            bytes: 0,
            began: None,
            void: None,
            rows: 0,
            replaced: None,
            unmeasured: Vec::new(),
        }
    }

    /// What must be added to the times of a block because the node's clock is wrong. A block has its real time minus its boot time.
    /// Within one boot, and so within an epoch, this difference changes only when the clock is set. So it shows how far off the clock
    /// was when the block was written. If our clock was set since that measurement, this counts, too: otherwise rows would get wrong
    /// times for up to a minute, until the next measurement.
    fn shift(&self, header: &Header) -> i64 {
        let Some(clock) = self.clock else { return 0 };
        let set_since = header.stamp.real_offset.saturating_sub(clock.real_offset);
        let ours_set_since = clock.ours_set_by.map_or(0, |before| trusted::set_by().saturating_sub(before));
        let ahead = clock.ahead.saturating_add(set_since).saturating_sub(ours_set_since);
        if ahead.unsigned_abs() > CLOCK_OFF_MAX.0 { ahead.saturating_neg() } else { 0 }
    }

    /// True for a moment after the node has come, before its clock is measured: rows at a wrong time would look as if the node were
    /// silent.
    fn waits(&self) -> bool {
        let is_soon = |since: Nanos| clock::boot().since(since) < UNMEASURED_MAX;
        self.clock.is_none() && self.waits_since.is_some_and(is_soon)
    }

    fn block_of(&self, block: &Block, last: Nanos) -> LoggedBlock {
        LoggedBlock {
            header: block.header,
            rows: block.rows,
            schema: block.schema.clone(),
            schema_hash: block.schema.hash(),
            bytes: block.bytes.clone(),
            last,
            shift: self.shift(&block.header),
        }
    }

    /// Another block begins.
    fn begin(&mut self) {
        (self.bytes, self.began, self.rows) = (0, None, 0);
    }

    /// More bytes of the open block have come.
    pub(super) fn grew(&mut self, open: &Open) {
        self.began.get_or_insert_with(clock::boot);
        self.intake.grown();
        if self.replaced.as_ref().is_some_and(|replaced| replaced.rows <= open.scanner.rows()) {
            self.replaced = None;
        }
    }

    /// Gives the log the bytes of the open block that have come since the log last took some.
    fn give(&mut self, open: Option<&Open>, take: &mut Take<'_>) {
        if let Some((header, schema)) = &self.void {
            // The block begins again without rows: after a restart, the hub finds no trace of the
            // earlier rows.
            let nothing = OpenBlock {
                header,
                begins: Some((schema.clone(), schema.hash())),
                offset: 0,
                bytes: &Header { closed: None, ..*header }.to_bytes(),
                end: header.first_row,
                shift: 0,
            };
            if !take(&self.lane, nothing) {
                return;
            }
            self.void = None;
        }
        let Some(open) = open.filter(|open| open.bytes.len() > self.bytes && !self.waits()) else { return };
        let schema = || (open.schema.clone() as Arc<dyn Columns>, open.schema.hash());
        let rows = OpenBlock {
            header: &open.header,
            begins: (self.bytes == 0).then(schema),
            offset: self.bytes,
            bytes: &open.bytes[self.bytes..],
            end: open.header.first_row.saturating_add(open.scanner.rows().into()),
            shift: self.shift(&open.header),
        };
        if take(&self.lane, rows) {
            self.bytes = open.bytes.len();
        }
    }

    /// Hands over again the blocks of which the log lacks some rows. For the open block, the log gets all rows that
    /// came.
    fn again<'a>(&mut self, blocks: impl IntoIterator<Item = &'a Block>) {
        let stored = self.lane.stored();
        let is_stored = |block: &Block| {
            stored.iter().any(|&(from, to)| from <= block.header.first_row && block.end() <= to)
        };
        for block in blocks.into_iter().filter(|block| !is_stored(block)) {
            self.intake.block(&self.lane, self.block_of(block, last_time(block)));
        }
        self.bytes = 0;
    }

    /// The open block comes again from its start. Its earlier rows stay until as many have come again.
    pub(super) fn comes_again(&mut self, block: Option<(Block, Nanos)>) {
        if let Some((block, last)) = block.filter(|(block, _)| self.is_longest(block.rows)) {
            self.replaced = Some(self.block_of(&block, last));
        }
        self.begin();
    }

    /// The open block gives way to another one.
    pub(super) fn ended(&mut self, block: &Block, last: Nanos) {
        if self.is_longest(block.rows) && block.rows > self.rows {
            self.intake.block(&self.lane, self.block_of(block, last));
        }
        self.gives_way();
    }

    /// Another block begins. The open block has no rows that the log does not have.
    pub(super) fn gives_way(&mut self) {
        if let Some(replaced) = self.replaced.take() {
            self.intake.block(&self.lane, replaced);
        }
        self.begin();
    }

    /// The open block was handed over, and is dropped.
    pub(super) fn forget_open(&mut self) {
        self.replaced = None;
        self.begin();
    }

    /// True if at most these rows of the open block have ever come.
    fn is_longest(&self, rows: u32) -> bool {
        self.replaced.as_ref().is_none_or(|replaced| replaced.rows <= rows)
    }

    /// The rows of the open block are not the rows that the node has recorded. Returns how many of them
    /// there may be.
    pub(super) fn take_back(&mut self, header: &Header, schema: &Arc<Schema>) -> u32 {
        if self.lane.has_open(header.first_row) {
            self.void = Some((*header, schema.clone()));
            self.intake.grown();
        }
        self.begin();
        self.replaced.take().map_or(0, |replaced| replaced.rows)
    }

    /// Whether a block of the past has rows that the log does not have.
    pub(super) fn lacks(&self, received: &Ranges, from: u64, to: u64) -> bool {
        let is_news = |&(from, to): &(u64, u64)| !self.before.holes(from, to).is_empty();
        received.holes(from, to).iter().any(is_news)
    }

    /// A block of the past came. It waits until the node's clock is measured: the first two beats do that.
    pub(super) fn past(&mut self, block: &Block, last: Nanos) {
        if self.clock.is_none() && self.unmeasured.len() < BLOCKS_UNMEASURED_MAX {
            self.unmeasured.push((block.clone(), last));
        } else {
            self.intake.block(&self.lane, self.block_of(block, last));
        }
    }

    /// The node's clock is measured, or will not be.
    fn measured(&mut self) {
        for (block, last) in std::mem::take(&mut self.unmeasured) {
            self.intake.block(&self.lane, self.block_of(&block, last));
        }
    }

    /// The oldest row that the log had before this hub's start.
    pub(super) fn first(&self) -> Option<u64> {
        self.before.start()
    }

    /// Memory of blocks that wait here.
    pub(super) fn held(&self) -> usize {
        let unmeasured: usize = self.unmeasured.iter().map(|(block, _)| block.bytes.len()).sum();
        unmeasured + self.replaced.as_ref().map_or(0, |replaced| replaced.bytes.len())
    }
}

/// The time of a block's last row, by the node's clock.
fn last_time(block: &Block) -> Nanos {
    let (mut decoder, mut rest) = (Decoder::new(), &block.bytes[..]);
    while let Ok(Step::Header(length) | Step::Row(length)) = decoder.step(rest) {
        rest = &rest[length..];
    }
    decoder.stamp().real()
}

impl Lane {
    /// From now on the lane's rows go into the log too.
    pub fn log_to(&mut self, intake: &Intake, node: &NodeName) {
        if self.log.is_none() {
            self.log = Some(Box::new(LaneLog::new(intake, node, self.epoch)));
        }
    }

    /// The node has just come, and this hub measures its clock in a moment: until then the log gets no rows of the lane.
    pub fn await_clock(&mut self) {
        if let Some(log) = &mut self.log {
            log.waits_since = Some(clock::boot());
        }
    }

    /// True if the log stores the rows as if the node's clock were right, because nobody has measured the
    /// clock yet.
    pub fn lacks_clock(&self) -> bool {
        self.log.as_ref().is_some_and(|log| log.clock.is_none())
    }

    /// Stops logging the lane's rows. The rows that have come are handed over first.
    pub fn log_no_more(&mut self) {
        self.hand_over(Nanos(0), clock::boot());
        self.log = None;
    }

    /// True if the lane's rows go into the log.
    pub fn is_logged(&self) -> bool {
        self.log.is_some()
    }

    /// True for a lane in which a kept channel ran while this hub was away. The lane gives its rows to the store, and no other
    /// reader reads it.
    pub fn is_former_of_channel(&self) -> bool {
        self.is_logged() && channel_of(&self.name).is_some()
    }

    /// Which rows the log had before this hub's start; `None`: the lane's rows go into no log.
    pub fn logged_before(&self) -> Option<&Ranges> {
        self.log.as_ref().map(|log| &log.before)
    }

    /// True if the log had this row before this hub's start.
    pub fn had_logged(&self, row: u64) -> bool {
        self.log.as_ref().is_some_and(|log| log.before.contains(row))
    }

    /// All rows before this one are safe in the store, from the first that is; 0: none is.
    pub fn stored_until(&self) -> u64 {
        self.log.as_ref().map_or(0, |log| log.lane.stored_until())
    }

    /// The node's clock was measured: it is this much ahead.
    pub fn set_clock(&mut self, ahead: i64, of: ComparedWith) {
        let Some(real_offset) = self.newest().map(|stamp| stamp.real_offset) else { return };
        if let Some(log) = &mut self.log {
            let ours_set_by = (of == ComparedWith::Ours).then(trusted::set_by);
            log.clock = Some(NodeClock { ahead, real_offset, ours_set_by });
            log.measured();
        }
    }

    /// Gives the log the bytes of the open block that have come since the log last took some. If the log has lost rows, it
    /// gets the rows in memory again.
    pub fn give_log(&mut self, take: &mut Take<'_>) {
        if let Some(log) = &mut self.log {
            if log.lane.take_lost() {
                log.again(&self.recent);
            }
            log.give(self.open.as_ref(), take);
        }
    }

    /// The open block for the log, as far as it has come.
    pub fn open_for_log(&self) -> Option<LoggedBlock> {
        let log = self.log.as_ref().filter(|log| !log.waits())?;
        match (self.open_block(), self.newest()) {
            (Some(block), Some(last)) if log.is_longest(block.rows) => {
                Some(log.block_of(&block, last.real()))
            }
            _ => log.replaced.clone(),
        }
    }

    /// First and last time of the open block; [`Lane::open_for_log`] may return a shorter part of it.
    pub fn open_span(&self) -> Option<(Nanos, Nanos)> {
        let log = self.log.as_ref().filter(|log| !log.waits())?;
        let open = self.open.as_ref().zip(self.newest()).map(|(open, last)| {
            let shift = log.shift(&open.header);
            let corrected = |time: Nanos| Nanos(time.0.saturating_add_signed(shift));
            (corrected(open.header.stamp.real()), corrected(last.real()))
        });
        let spans = open.into_iter().chain(log.replaced.as_ref().map(LoggedBlock::span));
        spans.reduce(|all, one| (all.0.min(one.0), all.1.max(one.1)))
    }

    /// Hands the open block over if it began this long ago or before: perhaps it does not go on. If it does, the log gets it
    /// again from its start.
    pub fn hand_over(&mut self, age: Nanos, now: Nanos) {
        if let Some(log) = &mut self.log {
            log.measured();
        }
        let Some(log) = &self.log else { return };
        if log.began.is_some_and(|began| now.since(began) < age) {
            return;
        }
        let is_new = |block: &LoggedBlock| block.rows > log.rows;
        let Some(block) = self.open_for_log().filter(is_new) else { return };
        if let Some(log) = &mut self.log {
            (log.bytes, log.began, log.rows) = (0, None, block.rows);
            log.intake.block(&log.lane, block);
        }
    }
}

#[cfg(test)]
mod tests;
