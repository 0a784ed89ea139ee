//! Rows that a reader is missing, if it wants every row, late or not: it fetches rows that came late, asks the node to
//! resend rows that are not here, and reports lost rows. A row also waits here while an earlier row of the same number may
//! come.

use std::ops::Range;

use khz_block::{Decoder, Step};
use khz_link::Ranges;
use khz_model::Nanos;

use super::{BYTES_A_READ, Columns, Cursor, Event, ServedLane};
use crate::clock;
use crate::lane::{Block, Lane, Part};
use crate::limits::GAP_WAIT;
use crate::node::Node;

/// Which rows a reader has, by the reader's numbers.
#[derive(Debug)]
pub(crate) struct Missing {
    /// Rows before this are not wanted.
    from: u64,
    /// Rows that were handed out, that the reader said it has, or that are lost.
    settled: Ranges,
    /// The node's first row after the reader came. The node is asked for older rows that are not here.
    asks_before: u64,
    /// Late rows come after the next row in order: only that tells a hub above that the node is here.
    pub waits_for_row: bool,
    /// [`crate::lane::Late::changes`] when nothing more could be done.
    done_at: Option<u64>,
}

impl Missing {
    pub fn new(lane: &mut Lane, from: u64, asks_before: u64, have: impl Iterator<Item = (u64, u64)>) -> Self {
        lane.late_readers += 1;
        let mut settled = Ranges::default();
        have.for_each(|(from, to)| {
            settled.add(from, to);
        });
        Missing { from, settled, asks_before, waits_for_row: false, done_at: None }
    }

    /// The reader does not want them any more.
    pub fn leave(&self, lane: &mut Lane) {
        lane.late_readers = lane.late_readers.saturating_sub(1);
    }

    /// True for a row that the reader wants and does not have.
    pub fn has(&self, number: u64) -> bool {
        number >= self.from && !self.settled.contains(number)
    }

    /// The reader has these rows, or they are lost. A hole for which there is no room is lost.
    pub fn settle(&mut self, from: u64, to: u64, take: &mut impl FnMut(Event<'_>)) {
        self.settled.add(from, to);
        if let Some((from, to)) = self.settled.take_forgotten()
            && from.max(self.from) < to
        {
            take(Event::Lost(from.max(self.from), to));
        }
    }

    /// There is another hole.
    pub fn retry(&mut self) {
        self.done_at = None;
    }

    /// How many rows were handed out, are lost, or were here before.
    pub fn settled(&self) -> u64 {
        self.settled.rows()
    }

    /// The rows missing among these.
    pub fn holes(&self, from: u64, to: u64) -> Vec<(u64, u64)> {
        self.settled.holes(from.max(self.from), to)
    }
}

/// Rows of the node in a block.
pub(super) type Rows = (Block, Range<u64>);

/// What to do about some holes.
struct Work {
    /// Rows of the node that have one number, and the node's first row after the reader came.
    every: u64,
    asks_before: u64,
    /// The node can be asked for rows.
    can_ask: bool,
    /// The lane is over: rows that are not here will not come in it.
    is_over: bool,
    /// The lane is over, and no other lane has its rows. So, of each number, the first row that is here is
    /// handed out.
    is_final: bool,
    /// It ends after some bytes.
    is_limited: bool,
    blocks: Vec<Rows>,
    /// Rows of the node that will not come, in order.
    lost: Vec<(u64, u64)>,
    again: Vec<(u64, u64)>,
    /// The work covers only rows before this one; `None`: all.
    until: Option<u64>,
}

impl Cursor {
    /// Hands out rows that came late, and reports lost ones. `false`: there is more.
    pub(super) fn read_late(&mut self, take: &mut impl FnMut(Event<'_>)) -> bool {
        let (Some(served), Some(missing)) = (self.lane, &self.missing) else { return true };
        let expected = self.expected;
        let holes = missing.holes(0, expected);
        if holes.is_empty() {
            return true;
        }
        let shared = self.node.clone();
        let mut node = shared.lock();
        let is_over = node.lanes().get(served.id).is_none();
        if missing.waits_for_row && !is_over && waits_for_row(&mut node, served.id) {
            return true;
        }
        let Some(lane) =
            node.lanes().get_or_former(served.id).filter(|lane| Some(lane.late.changes) != missing.done_at)
        else {
            return true;
        };
        let changes = lane.late.changes;
        let every = served.every;
        let is_final = is_over && self.is_final(&node, served);
        let mut work = Work::new(every, missing.asks_before, node.can_resend());
        (work.is_limited, work.is_over, work.is_final) = (true, is_over, is_final);
        for (from, to) in holes {
            if work.until.is_none() {
                work.take(lane, from * every, to * every);
            }
        }
        for (from, to) in std::mem::take(&mut work.again) {
            if !node.resend(served.id, from, to) {
                work.lose(from, to);
            }
        }
        drop(node);
        let Some(mut missing) = self.missing.take() else { return true };
        for (block, rows) in std::mem::take(&mut work.blocks) {
            self.late_rows(served, &mut missing, &block, rows, take);
        }
        for (from, to) in work.lost {
            // A reader's number covers `every` rows of the node. It is lost when all of these rows are
            // lost.
            let (from, to) = (from.div_ceil(every), to / every);
            for (from, to) in missing.holes(from, to) {
                missing.settle(from, to, take);
                take(Event::Lost(from, to));
            }
        }
        missing.done_at = work.until.is_none().then_some(changes);
        self.missing = Some(missing);
        work.until.is_none()
    }

    /// The rows of a lane that is over, for numbers that still wait for their first row. Rows of all other numbers were
    /// handed out.
    pub(super) fn rest_of(&self, node: &Node) -> Vec<Rows> {
        let is_thinned = self.lane.is_some_and(|served| served.every > 1);
        if is_thinned { self.missing_here(node, true) } else { Vec::new() }
    }

    /// The rows of a lane that is over which are here, and were not handed out.
    pub(super) fn missing_here(&self, node: &Node, is_final: bool) -> Vec<Rows> {
        let lane = self.lane.and_then(|served| Some((served.every, node.lanes().get_or_former(served.id)?)));
        let (Some(missing), Some((every, lane))) = (&self.missing, lane) else { return Vec::new() };
        let mut work = Work { is_over: true, is_final, ..Work::new(every, missing.asks_before, false) };
        for (from, to) in missing.holes(0, self.expected) {
            work.take(lane, from * every, to * every);
        }
        work.blocks
    }

    /// Hands out rows of a block.
    pub(super) fn late_rows(
        &self,
        served: ServedLane,
        missing: &mut Missing,
        block: &Block,
        rows: Range<u64>,
        take: &mut impl FnMut(Event<'_>),
    ) {
        let (mut columns, mut decoder, mut skipped) = (Columns::default(), Decoder::new(), true);
        columns.choose(&block.schema, &self.selection);
        let mut bytes = &block.bytes[..];
        while let Ok(Step::Header(length) | Step::Row(length)) = decoder.step(bytes) {
            bytes = &bytes[length..];
            let Some(row) = decoder.next_row().checked_sub(1).filter(|row| rows.contains(row)) else {
                skipped = true;
                continue;
            };
            let number = served.number(row);
            if decoder.next_row() == block.header.first_row || !missing.has(number) {
                skipped = true;
                continue;
            }
            missing.settle(number, number + 1, take);
            take(Event::Late(&columns, &decoder, number, !std::mem::replace(&mut skipped, false)));
        }
    }
}

/// Whether a hub above waits for the next row of a lane before it gets late ones. If the node is away, the hub waits for the
/// time that nodes need to come back.
fn waits_for_row(node: &mut Node, lane: u64) -> bool {
    let until = Nanos(node.link().changed().0 + GAP_WAIT.0);
    let Some(lane) = node.lanes_mut().get_mut(lane) else { return false };
    if lane.alive {
        return true;
    }
    let is_away = clock::boot() < until;
    if is_away {
        lane.late.wait_until(until);
    }
    is_away
}

impl Work {
    fn new(every: u64, asks_before: u64, can_ask: bool) -> Self {
        let (blocks, lost, again) = (Vec::new(), Vec::new(), Vec::new());
        let (is_over, is_final, is_limited) = Default::default();
        Work { every, asks_before, can_ask, is_over, is_final, is_limited, blocks, lost, again, until: None }
    }

    /// Notes what to do about these rows of the node.
    fn take(&mut self, lane: &Lane, from: u64, to: u64) {
        let mut at = from;
        while at < to {
            let (parts, until) = lane.parts(at, to, BYTES_A_READ);
            parts.into_iter().for_each(|part| self.part(part, lane.alive));
            // Rows that only wait for others are no work.
            if until < to && !self.blocks.is_empty() && self.is_limited {
                self.until = Some(until);
                return;
            }
            at = until;
        }
    }

    fn part(&mut self, part: Part, is_alive: bool) {
        match part {
            Part::Here(block, from, to) => {
                let from = self.first_due(from);
                if from < to {
                    self.blocks.push((block, from..to));
                }
            }
            // Another lane with the same rows may have a row that was lost in this one. The code
            // that leaves the lane decides.
            Part::Lost(..) if self.is_over => {}
            Part::Lost(from, to) => self.lose(from, to),
            // The node cannot be asked now; the lane changes when it can.
            Part::Gone(..) | Part::Never(..) if !is_alive || self.is_over => {}
            Part::Never(from, to) => self.ask(from, to),
            // Rows that were here when the reader came are requested again. For later rows the reader was too
            // slow.
            Part::Gone(from, to) => {
                let asked = to.min(self.asks_before);
                if from < asked {
                    self.ask(from, asked);
                }
                if from.max(asked) < to {
                    self.lose(from.max(asked), to);
                }
            }
        }
    }

    /// The first row from `row` on that may be handed out. Of the rows that share a number, it is the first that is not lost, whatever
    /// row came first, and at every hub.
    fn first_due(&self, row: u64) -> u64 {
        let first = row / self.every * self.every;
        let is_lost = || self.lost.iter().any(|&(from, to)| from <= first && row <= to);
        let is_due = first == row || self.is_final || is_lost();
        if is_due { row } else { first.saturating_add(self.every) }
    }

    /// The node is asked for these rows; without it they are lost.
    fn ask(&mut self, from: u64, to: u64) {
        if self.can_ask { self.again.push((from, to)) } else { self.lose(from, to) }
    }

    /// Ranges that touch become one: a number of thinned rows may lie in both.
    fn lose(&mut self, from: u64, to: u64) {
        self.lost.push((from, to));
        self.lost.sort_unstable();
        self.lost.dedup_by(|next, range| {
            let touches = next.0 <= range.1;
            if touches {
                range.1 = range.1.max(next.1);
            }
            touches
        });
    }
}
