//! From bytes to rows: columns are chosen, rows decoded, handed out, and gaps between them reported.

use std::sync::Arc;

use khz_block::Step;

use super::{ANY, Cursor, Event, LEAP_MAX, Numbers};
use crate::schemas::Schema;

impl Cursor {
    /// Chooses the columns of a schema, and announces them if they are new.
    pub(super) fn choose(&mut self, schema: &Arc<Schema>, take: &mut impl FnMut(Event<'_>)) {
        let are_new = self.columns.choose(schema, &self.selection);
        if let Some(served) = self.lane
            && (are_new || self.offered_period != served.period())
        {
            self.offered_period = served.period();
            let rows = if self.numbers == Numbers::Nodes { self.rows() } else { (0, 0) };
            take(Event::Columns(&self.columns, served, rows));
        }
    }

    /// Decodes copied bytes. The unfinished end of the newest piece is read again later.
    pub(super) fn decode(&mut self, mut bytes: &[u8], newest: bool, take: &mut impl FnMut(Event<'_>)) {
        while !bytes.is_empty() {
            match self.decoder.step(bytes) {
                Ok(Step::Header(length)) => {
                    bytes = &bytes[length..];
                    // A block of another generation may have fewer slots. Slots that it lacks have
                    // changed too.
                    self.skipped = true;
                }
                Ok(Step::Row(length)) => {
                    bytes = &bytes[length..];
                    self.row(take);
                }
                // Rows were checked when they came: bytes that do not decode are the unfinished end.
                Ok(Step::Incomplete) | Err(_) => break,
            }
        }
        self.place.offset -= if newest { bytes.len() } else { 0 };
    }

    /// Hands out the decoder's row, if the reader wants it.
    fn row(&mut self, take: &mut impl FnMut(Event<'_>)) {
        let Some(served) = self.lane else { return };
        let row = self.decoder.next_row() - 1;
        let number = served.number(row);
        let is_first = self.expected == ANY;
        // A node whose numbers leap back this far counts from there now.
        let is_known = !is_first && number < self.expected && self.expected - number <= LEAP_MAX;
        if is_known || self.decoder.stamp().boot < self.since || !self.is_missing(number) {
            self.skipped = true;
            return;
        }
        if !is_first {
            self.leap(number, take);
        }
        if served.first_row(number) < row && !self.columns.are_bare() && self.leaves_to_late(number) {
            return;
        }
        let all = !std::mem::replace(&mut self.skipped, false);
        if let Some(missing) = &mut self.missing {
            missing.settle(number, number + 1, take);
            missing.waits_for_row = false;
        }
        (self.expected, self.last) = (number + 1, Some(self.decoder.stamp()));
        self.is_bare = self.columns.are_bare();
        take(Event::Row(&self.columns, &self.decoder, number, all));
    }

    /// At the node, another row of this number comes first. A reader that takes late rows gets that row, as at every other hub, or
    /// another one if it is lost. `false`: this reader takes no late rows.
    fn leaves_to_late(&mut self, number: u64) -> bool {
        let Some(missing) = &mut self.missing else { return false };
        missing.retry();
        (self.expected, self.skipped, self.is_bare) = (number + 1, true, false);
        true
    }

    /// True if the row of this number was not handed out before.
    fn is_missing(&self, number: u64) -> bool {
        self.missing.as_ref().is_none_or(|missing| missing.has(number))
    }

    /// Reports the rows between the expected number and this one. A gap longer than any lane is no loss: the node has begun
    /// to count elsewhere.
    fn leap(&mut self, number: u64, take: &mut impl FnMut(Event<'_>)) {
        let (from, to) = (self.expected, number);
        if from >= to {
            return;
        }
        // Where neither the row before nor this one has any of its series, the reader lacks nothing.
        let is_bare = self.is_bare && self.columns.are_bare();
        if is_bare || to - from > LEAP_MAX {
            if let Some(missing) = &mut self.missing {
                missing.settle(from, to, take);
            }
        } else if self.is_past {
            let node = self.node.lock();
            let lane = self.lane.and_then(|served| node.lanes().get_or_former(served.id));
            let lost = lane.map_or_else(Vec::new, |lane| lane.late.lost(from, to));
            drop(node);
            lost.into_iter().for_each(|(from, to)| take(Event::Lost(from, to)));
        } else {
            match &mut self.missing {
                Some(missing) => missing.retry(),
                None => take(Event::Lost(from, to)),
            }
        }
    }
}
