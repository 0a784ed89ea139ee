//! A gap in the rows of a channel. Readers of channels take no late rows, but every row may be the row that they wait for. So the
//! rows of the gap come first: the rows that are here, and the rows that the node sends again. Newer rows wait in the lane until
//! then.

use khz_model::Nanos;

use super::{BYTES_A_READ, Cursor, Event, LEAP_MAX, Numbers};
use crate::clock;
use crate::lane::{Block, Lane, Part};
use crate::limits::GAP_WAIT;
use crate::node::Node;

/// The rows before the block that is read next, which were not handed out.
#[derive(Debug)]
pub(super) struct Gap {
    /// The first row of that block.
    until: u64,
    /// The reader counts among those that want late rows, since the lane keeps only theirs.
    is_late_reader: bool,
    /// [`crate::lane::Late::changes`] when nothing more could be done, and when that was.
    waits: Option<(u64, Nanos)>,
}

/// The result of a check of a gap.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Filled {
    /// There is no gap, or no gap any more.
    Whole,
    /// There is more to hand out.
    More,
    /// Something has to come first.
    Waits,
}

/// What to do with the next rows of a gap.
enum Next {
    Here(Block, u64),
    Lost(u64),
    /// They may come.
    ToCome,
}

impl Cursor {
    /// True if the block that is read next begins after row `expected`: there is a gap from now on.
    pub(super) fn leaps_next(&mut self, lane: &Lane, expected: u64) -> bool {
        // Nobody reads the rows that are kept, and who takes late rows fetches them otherwise.
        let is_in_order = self.is_of_channel() && !self.selection.is_kept && self.missing.is_none();
        let Some(until) = lane.begins_next(&self.place).filter(|_| is_in_order) else { return false };
        // After a greater leap the node counts elsewhere.
        let is_gap = expected < until && until - expected <= LEAP_MAX;
        if is_gap {
            self.gap = Some(Gap { until, is_late_reader: false, waits: None });
        }
        is_gap
    }

    /// The reader does not wait for a gap any more.
    pub(super) fn leave_gap(&mut self, lane: &mut Lane) {
        if let Some(gap) = self.gap.take() {
            lane.late_readers -= usize::from(gap.is_late_reader);
        }
    }

    /// Hands out the next rows of a gap, or reports them as lost. A reader that goes to another lane (`is_over`) waits for none.
    pub(super) fn fill_gap(&mut self, is_over: bool, take: &mut impl FnMut(Event<'_>)) -> Filled {
        let mut bytes = 0;
        while bytes < BYTES_A_READ {
            match self.next_of_gap(is_over) {
                None => return Filled::Whole,
                Some(Next::ToCome) => return Filled::Waits,
                Some(Next::Lost(to)) => self.lose_until(to, take),
                Some(Next::Here(block, to)) => {
                    bytes += block.bytes.len();
                    self.choose(&block.schema, take);
                    self.decode(&block.bytes, false, take);
                    // Bytes of a block were checked when they came. If they still cannot be decoded, no reader waits for them.
                    self.lose_until(to, take);
                }
            }
        }
        Filled::More
    }

    fn lose_until(&mut self, to: u64, take: &mut impl FnMut(Event<'_>)) {
        if self.expected < to {
            let from = std::mem::replace(&mut self.expected, to);
            take(Event::Lost(from, to));
        }
    }

    /// What to do with the expected row, and with the rows after it. `None`: there is no gap, or no gap any more.
    fn next_of_gap(&mut self, is_over: bool) -> Option<Next> {
        let until = self.gap.as_ref()?.until;
        let shared = self.node.clone();
        let mut node = shared.lock();
        let served = self.lane?;
        let lane = node.lanes_mut().get_mut(served.id)?;
        if self.expected >= until {
            // The decoder has read other blocks meanwhile, and the block before may have more rows now.
            self.place = lane.join_at(self.expected);
            self.leave_gap(lane);
            return None;
        }
        let (mut parts, _) = lane.parts(self.expected, until, BYTES_A_READ);
        parts.sort_unstable_by_key(|part| part.rows().0);
        let first = parts.first().filter(|part| part.rows().0 == self.expected);
        let lost = match first {
            Some(Part::Here(block, _, to)) => return Some(Next::Here(block.clone(), *to)),
            Some(Part::Lost(_, to)) => return Some(Next::Lost(*to)),
            Some(Part::Gone(_, to) | Part::Never(_, to)) => *to,
            // Up to the next rows of which something is known.
            None => parts.first().map_or(until, |part| part.rows().0),
        };
        if !self.may_wait(&mut node, is_over) {
            return Some(Next::Lost(lost));
        }
        for part in parts {
            if let Part::Gone(from, to) | Part::Never(from, to) = part {
                node.resend(served.id, from, to);
            }
        }
        Some(Next::ToCome)
    }

    /// True if rows that are not here may still come, so that the reader may wait for them. From the first call on, the lane
    /// keeps late rows.
    fn may_wait(&mut self, node: &mut Node, is_over: bool) -> bool {
        let (can_resend, now) = (node.can_resend(), clock::boot());
        // A forgotten node is another one when it comes back; a reader of the link asks it then.
        let is_over = is_over || self.is_ending && self.numbers != Numbers::Nodes;
        let (Some(gap), Some(lane)) =
            (&mut self.gap, self.lane.and_then(|served| node.lanes_mut().get_mut(served.id)))
        else {
            return false;
        };
        if !gap.is_late_reader {
            (gap.is_late_reader, lane.late_readers) = (true, lane.late_readers + 1);
        }
        let changes = lane.late.changes;
        let since = match gap.waits {
            Some((known, since)) if known == changes => since,
            _ => now,
        };
        gap.waits = Some((changes, since));
        // We cannot request rows from a node behind another hub: rows that this hub lacks are lost.
        let may_wait = !is_over && (can_resend || !lane.alive) && now.since(since) < GAP_WAIT;
        if may_wait {
            lane.late.wait_until(Nanos(since.0 + GAP_WAIT.0));
        }
        may_wait
    }
}
