//! Rows that a reader is missing, if it wants every row, late or not: it fetches rows that came late, asks the node to send
//! again what is not here, and reports what is lost.

use std::ops::Range;

use khz_block::{Decoder, Step};
use khz_link::Ranges;

use super::{BYTES_A_READ, Columns, Cursor, Event};
use crate::lane::{Block, Lane, Part};

/// Which rows a reader has, by the reader's numbers.
#[derive(Debug)]
pub(crate) struct Missing {
    /// Rows before this are not wanted.
    from: u64,
    /// Rows that were handed out, that the reader said it has, or that are lost.
    settled: Ranges,
    /// The node's first row after the reader came. The node is asked for older rows that are not here.
    asks_before: u64,
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
        Missing { from, settled, asks_before, done_at: None }
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

    /// The lane is over: rows missing before this number will not come.
    pub fn end(&self, expected: u64) -> Vec<(u64, u64)> {
        self.settled.holes(self.from, expected)
    }
}

/// What to do about some holes.
#[derive(Default)]
struct Work {
    blocks: Vec<(Block, Range<u64>)>,
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
        let holes = missing.settled.holes(missing.from, expected);
        if holes.is_empty() {
            return true;
        }
        let shared = self.node.clone();
        let mut node = shared.lock();
        let Some(lane) =
            node.lanes().get_or_former(served.id).filter(|lane| Some(lane.late.changes) != missing.done_at)
        else {
            return true;
        };
        let (changes, is_alive) = (lane.late.changes, lane.alive);
        let (asks_before, every) = (missing.asks_before, served.every);
        let mut work = Work::default();
        for (from, to) in holes {
            if work.until.is_none() {
                work.take(lane, from * every, to * every, asks_before);
            }
        }
        if is_alive {
            for (from, to) in std::mem::take(&mut work.again) {
                if !node.resend(served.id, from, to) {
                    work.lose(from, to);
                }
            }
        } else {
            // The node cannot be asked now; the lane changes when it can.
            work.again.clear();
        }
        drop(node);
        for (block, rows) in std::mem::take(&mut work.blocks) {
            self.late_rows(&block, rows, take);
        }
        let Some(missing) = &mut self.missing else { return true };
        for (from, to) in work.lost {
            // A reader's number stands for `every` rows of the node: it is lost when all of these are.
            let (from, to) = (from.div_ceil(every), to / every);
            for (from, to) in missing.settled.holes(from.max(missing.from), to.max(missing.from)) {
                missing.settle(from, to, take);
                take(Event::Lost(from, to));
            }
        }
        missing.done_at = work.until.is_none().then_some(changes);
        work.until.is_none()
    }

    fn late_rows(&mut self, block: &Block, rows: Range<u64>, take: &mut impl FnMut(Event<'_>)) {
        let (Some(served), Some(missing)) = (self.lane, &mut self.missing) else { return };
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

impl Work {
    /// Notes what to do about these rows of the node.
    fn take(&mut self, lane: &Lane, from: u64, to: u64, asks_before: u64) {
        let (parts, until) = lane.parts(from, to, BYTES_A_READ);
        self.until = (until < to).then_some(until);
        for part in parts {
            match part {
                Part::Here(block, from, to) => self.blocks.push((block, from..to)),
                Part::Lost(from, to) => self.lose(from, to),
                Part::Gone(..) | Part::Never(..) if !lane.alive => {}
                Part::Never(from, to) => self.again.push((from, to)),
                // Rows that were here when the reader came are asked for. For later ones the reader was too slow.
                Part::Gone(from, to) => {
                    let asked = to.min(asks_before);
                    if from < asked {
                        self.again.push((from, asked));
                    }
                    if from.max(asked) < to {
                        self.lose(from.max(asked), to);
                    }
                }
            }
        }
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
