//! What a reader lacks of a lane, who wants every row, late or not: it fetches what has come late, asks the node for what
//! nobody here has, and says what is lost.

use std::ops::Range;

use khz_block::{Decoder, Step};
use khz_link::Ranges;

use super::{BYTES_A_LOOK, Columns, Follower, Seen};
use crate::lane::{Block, Lane, Part};

/// What he has, by his numbers.
#[derive(Debug)]
pub(crate) struct Lacking {
    /// Rows below it are not wanted.
    from: u64,
    /// Rows that were handed out, that he has said he has, or that are lost.
    settled: Ranges,
    /// Rows of the node below this were there before he came: the node is asked for those that are not here.
    asks_below: u64,
    /// What [`crate::lane::Late::changes`] was when nothing more could be done.
    seen: Option<u64>,
}

impl Lacking {
    pub fn new(lane: &mut Lane, from: u64, asks_below: u64, have: impl Iterator<Item = (u64, u64)>) -> Self {
        lane.late_readers += 1;
        let mut settled = Ranges::default();
        have.for_each(|(from, to)| {
            settled.add(from, to);
        });
        Lacking { from, settled, asks_below, seen: None }
    }

    /// Nobody wants them any more.
    pub fn leave(&self, lane: &mut Lane) {
        lane.late_readers = lane.late_readers.saturating_sub(1);
    }

    /// True for a row that he wants and has not.
    pub fn lacks(&self, number: u64) -> bool {
        number >= self.from && !self.settled.contains(number)
    }

    /// He has these, or they are lost. A hole for which there is no room is lost.
    pub fn given(&mut self, from: u64, to: u64, seen: &mut impl FnMut(Seen<'_>)) {
        self.settled.add(from, to);
        if let Some((from, to)) = self.settled.take_forgotten()
            && from.max(self.from) < to
        {
            seen(Seen::Lost(from.max(self.from), to));
        }
    }

    /// There is another hole.
    pub fn look_again(&mut self) {
        self.seen = None;
    }

    /// The lane is over: what he lacks before this number will not come.
    pub fn end(&self, expected: u64) -> Vec<(u64, u64)> {
        self.settled.holes(self.from, expected)
    }
}

/// What is to be done about some holes.
#[derive(Default)]
struct Work {
    blocks: Vec<(Block, Range<u64>)>,
    /// Rows of the node that will not come, in order.
    lost: Vec<(u64, u64)>,
    again: Vec<(u64, u64)>,
    /// It says nothing of what lies behind this row.
    until: Option<u64>,
}

impl Follower {
    /// Hands out what has come late, and says what is lost; `false` when there is more.
    pub(super) fn look_for_late(&mut self, seen: &mut impl FnMut(Seen<'_>)) -> bool {
        let (Some(followed), Some(late)) = (self.lane, &self.late) else { return true };
        let expected = self.expected;
        let holes = late.settled.holes(late.from, expected);
        if holes.is_empty() {
            return true;
        }
        let shared = self.node.clone();
        let mut node = shared.lock();
        let Some(lane) =
            node.lanes().get_or_former(followed.id).filter(|lane| Some(lane.late.changes) != late.seen)
        else {
            return true;
        };
        let (changes, is_alive) = (lane.late.changes, lane.alive);
        let (asks_below, every) = (late.asks_below, followed.every);
        let mut work = Work::default();
        for (from, to) in holes {
            if work.until.is_none() {
                work.take(lane, from * every, to * every, asks_below);
            }
        }
        if is_alive {
            for (from, to) in std::mem::take(&mut work.again) {
                if !node.resend(followed.id, from, to) {
                    work.lose(from, to);
                }
            }
        } else {
            // Nobody can be asked now; the lane changes when somebody can.
            work.again.clear();
        }
        drop(node);
        for (block, rows) in std::mem::take(&mut work.blocks) {
            self.late_rows(&block, rows, seen);
        }
        let Some(late) = &mut self.late else { return true };
        for (from, to) in work.lost {
            // A number is lost when all rows that could have it are.
            let (from, to) = (from.div_ceil(every), to / every);
            for (from, to) in late.settled.holes(from.max(late.from), to.max(late.from)) {
                late.given(from, to, seen);
                seen(Seen::Lost(from, to));
            }
        }
        late.seen = work.until.is_none().then_some(changes);
        work.until.is_none()
    }

    fn late_rows(&mut self, block: &Block, rows: Range<u64>, seen: &mut impl FnMut(Seen<'_>)) {
        let (Some(followed), Some(late)) = (self.lane, &mut self.late) else { return };
        let (mut columns, mut decoder, mut skipped) = (Columns::default(), Decoder::new(), true);
        columns.choose(&block.schema, &self.selection);
        let mut bytes = &block.bytes[..];
        while let Ok(Step::Header(length) | Step::Row(length)) = decoder.step(bytes) {
            bytes = &bytes[length..];
            let Some(row) = decoder.next_row().checked_sub(1).filter(|row| rows.contains(row)) else {
                skipped = true;
                continue;
            };
            let number = followed.number(row);
            if decoder.next_row() == block.header.first_row || !late.lacks(number) {
                skipped = true;
                continue;
            }
            late.given(number, number + 1, seen);
            seen(Seen::Late(&columns, &decoder, number, !std::mem::replace(&mut skipped, false)));
        }
    }
}

impl Work {
    /// What is to be done about these rows of the node.
    fn take(&mut self, lane: &Lane, from: u64, to: u64, asks_below: u64) {
        let (parts, until) = lane.parts(from, to, BYTES_A_LOOK);
        self.until = (until < to).then_some(until);
        for part in parts {
            match part {
                Part::Here(block, from, to) => self.blocks.push((block, from..to)),
                Part::Lost(from, to) => self.lose(from, to),
                Part::Gone(..) | Part::Never(..) if !lane.alive => {}
                Part::Never(from, to) => self.again.push((from, to)),
                // What was here when he came is asked for; who is too slow for what comes loses it.
                Part::Gone(from, to) => {
                    let asked = to.min(asks_below);
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

    /// Ranges that touch become one: of thinned rows a number may lie in both.
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
