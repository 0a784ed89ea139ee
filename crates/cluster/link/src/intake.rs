//! One lane at its receiver: reassembles and checks blocks, passes on each row as it comes and each complete block
//! once, and remembers across connections which rows are settled.

use std::borrow::Cow;

use khz_block::{Decoder, HEADER_BYTES, Header, Step};
use khz_model::{Nanos, Stamp};

use crate::block_parts::{Part, check, parts_without, span_of};
use crate::error::Reject;
use crate::limits::{BLOCK_MAX, GENERATIONS_MAX, HAVE_MAX};
use crate::message::{End, LaneOffer, Want};
use crate::ranges::Ranges;
use crate::span::{NodeClock, Span};

/// Takes the rows of one lane.
pub trait RowSink {
    /// The next row, as soon as it has come. Its block may later prove damaged, or stay incomplete. Then the row comes again, as
    /// a row or in a block.
    fn row(&mut self, number: u64, row: &Decoder);
    /// A closed block, header and rows, whose checksum is right. Each block comes once; after an outage the newest
    /// comes first.
    fn block(&mut self, bytes: &[u8]);
    /// The same for a block whose rows came late: [`RowSink::row`] did not show them.
    fn past(&mut self, bytes: &[u8]) {
        self.block(bytes);
    }
    /// These rows (the last not included) are lost for good.
    fn lost(&mut self, from: u64, to: u64);
}

#[derive(Debug)]
struct Open {
    bytes: Vec<u8>,
    /// How many of its bytes are decoded.
    done: usize,
    decoder: Decoder,
    rows: u32,
}

/// One lane of one epoch.
#[derive(Debug, Default)]
pub struct Intake {
    epoch: u64,
    /// How many bytes of each generation's schema have come.
    schemas: Vec<(u32, u64)>,
    settled: Ranges,
    open: Option<Open>,
    past: Vec<u8>,
    /// Rows that came more than once.
    repeated: u64,
    /// When the oldest and the newest row were gathered.
    span: Option<Span>,
    /// The clock of its node.
    clock: Option<NodeClock>,
    elsewhere: Elsewhere,
}

/// The times of rows that came in other lanes.
#[derive(Clone, Debug, Default)]
struct Elsewhere {
    times: Vec<Span>,
    /// True if a reader that has those rows does not lack the rows of this lane.
    is_no_loss: bool,
}

impl Elsewhere {
    fn has(&self, stamp: Stamp) -> bool {
        self.times.iter().any(|span| span.covers(stamp))
    }
}

impl Intake {
    /// A lane without rows.
    pub fn new(epoch: u64) -> Self {
        Intake { epoch, ..Intake::default() }
    }

    /// The same rows in a lane of another epoch.
    pub fn under(self, epoch: u64) -> Self {
        if epoch == self.epoch {
            return self;
        }
        let Intake { settled, span, clock, elsewhere, .. } = self;
        Intake { settled, span, clock, elsewhere, ..Intake::new(epoch) }
    }

    /// The Want for the missing rows of an offered lane.
    pub fn want(&self, offer: &LaneOffer<'_>, span: Nanos, prompt: bool) -> Want {
        Want {
            epoch: self.epoch,
            from_row: self.settled.complete_from_zero(),
            span,
            schema_bytes: self.schema_bytes(offer.generation),
            prompt,
            have: self.settled.above(),
        }
    }

    /// The same for a lane of which rows came before. It requests missing rows of any age.
    pub fn want_missed(&self, offer: &LaneOffer<'_>, prompt: bool) -> Want {
        let from_row = self.settled.start().unwrap_or(offer.next_row).max(self.settled.complete_from_zero());
        let above = self.settled.above();
        // There are more ranges than a Want may carry, so the rows between the oldest ranges are
        // given up.
        let from_row = if above.len() == HAVE_MAX { above[0].0.max(from_row) } else { from_row };
        Want { from_row, have: above, ..self.want(offer, Nanos(u64::MAX), prompt) }
    }

    /// The Want for rows from now on. If the lane is new here, it begins at row `from`, if that is given. Missed rows are
    /// reported as lost.
    pub fn want_new(&self, offer: &LaneOffer<'_>, from: Option<u64>, prompt: bool) -> Want {
        let newest = offer.next_row.saturating_sub(1);
        let from_row = if self.has_rows() { self.settled.end() } else { from.unwrap_or(newest) };
        Want { from_row, have: Vec::new(), ..self.want(offer, Nanos(0), prompt) }
    }

    /// Rows have come in order at this time.
    pub fn came(&mut self, now: Nanos) {
        if let Some(span) = self.span {
            self.clock = Some(NodeClock::after(self.clock, span.last, now));
        }
    }

    /// Takes over the node's clock from an earlier lane: a lane learns the clock only from rows
    /// that come in order.
    pub fn knows_clock(&mut self, clock: Option<NodeClock>) {
        self.clock = self.clock.or(clock);
    }

    /// The clock of the node, as far as it is known.
    pub fn clock(&self) -> Option<NodeClock> {
        self.clock
    }

    /// When its oldest and its newest row were gathered, on the node's clocks.
    pub fn span(&self) -> Option<Span> {
        self.span
    }

    /// Rows of these times came in other lanes, so the rows of this lane are not wanted. They count as lost, unless the rows of the
    /// other lanes make up for them.
    pub fn follows(&mut self, times: Vec<Span>, is_no_loss: bool) {
        self.elsewhere = Elsewhere { times, is_no_loss };
    }

    /// The first row that was received or is lost.
    pub fn first_row(&self) -> Option<u64> {
        self.settled.start()
    }

    /// True when a row was received, or is known to be lost.
    pub fn has_rows(&self) -> bool {
        self.settled.start().is_some()
    }

    /// Rows between the oldest and the newest that were neither received nor lost.
    pub fn missing(&self) -> u64 {
        self.settled.missing()
    }

    /// Bytes of a generation's schema that came.
    pub fn schema_bytes(&self, generation: u32) -> u64 {
        self.schemas.iter().find(|(known, _)| *known == generation).map_or(0, |(_, bytes)| *bytes)
    }

    /// The first row that was neither received nor lost.
    pub fn complete_until(&self) -> u64 {
        self.settled.complete_from_zero()
    }

    /// Rows that came more than once.
    pub fn repeated(&self) -> u64 {
        self.repeated
    }

    /// A piece of a schema came. Returns how many of its first bytes came before. If the first byte of a generation comes
    /// again, that generation begins again.
    pub fn schema(&mut self, generation: u32, offset: u64, length: usize) -> Result<usize, Reject> {
        let here = self.here(generation);
        let known = match here.checked_sub(offset) {
            None => return Err(Reject::protocol("a piece of a schema that does not continue it")),
            Some(_) if offset == 0 => 0,
            // A reader that leaves a lane and accepts it again may get the same piece twice.
            Some(known) => usize::try_from(known).unwrap_or(usize::MAX).min(length),
        };
        *here = offset.saturating_add(length as u64).max(if offset == 0 { 0 } else { *here });
        Ok(known)
    }

    fn here(&mut self, generation: u32) -> &mut u64 {
        let index = self.schemas.iter().position(|(known, _)| *known == generation);
        let index = index.unwrap_or_else(|| {
            if self.schemas.len() == GENERATIONS_MAX {
                // Past blocks come newest first, and the present generation still grows, so the oldest generation is
                // dropped.
                let oldest = self.schemas.iter().enumerate().min_by_key(|(_, (known, _))| *known);
                self.schemas.remove(oldest.map_or(0, |(index, _)| index));
            }
            self.schemas.push((generation, 0));
            self.schemas.len() - 1
        });
        &mut self.schemas[index].1
    }

    /// A block begins.
    pub fn begin(&mut self, bytes: &[u8], sink: &mut impl RowSink) -> Result<(), Reject> {
        let header = bytes.first_chunk().map(|head| Header::from_bytes(head, 0));
        let Some(Ok(_)) = header else { return Err(Reject::protocol("a Block without a block's header")) };
        self.open = Some(Open { bytes: Vec::new(), done: 0, decoder: Decoder::new(), rows: 0 });
        self.rows(bytes, sink)
    }

    /// The block continues.
    pub fn rows(&mut self, bytes: &[u8], sink: &mut impl RowSink) -> Result<(), Reject> {
        let Some(open) = &mut self.open else { return Err(Reject::protocol("Rows outside a block")) };
        if open.bytes.len() + bytes.len() > BLOCK_MAX {
            return Err(Reject::protocol("a block larger than any may be"));
        }
        open.bytes.extend_from_slice(bytes);
        loop {
            match open.decoder.step(&open.bytes[open.done..]) {
                Ok(Step::Header(length)) if open.done == 0 => open.done += length,
                Ok(Step::Header(_)) => return Err(Reject::protocol("a header within a block")),
                Ok(Step::Row(length)) => {
                    open.done += length;
                    open.rows += 1;
                    let stamp = open.decoder.stamp();
                    if !self.elsewhere.has(stamp) {
                        sink.row(open.decoder.next_row() - 1, &open.decoder);
                        widen(&mut self.span, Span::of(stamp));
                    }
                }
                Ok(Step::Incomplete) => return Ok(()),
                Err(error) => return Err(Reject::protocol(format!("a damaged row: {error}"))),
            }
        }
    }

    /// The block is complete.
    pub fn end(&mut self, end: &End, sink: &mut impl RowSink) -> Result<(), Reject> {
        let Some(mut open) = self.open.take() else { return Err(Reject::protocol("an End of no block")) };
        let body = open.bytes.len().saturating_sub(HEADER_BYTES);
        if (open.rows, body) != (end.rows, end.bytes as usize) || open.done != open.bytes.len() {
            return Err(Reject::protocol("a block that ends elsewhere than it says"));
        }
        let head = open.bytes.first_chunk().and_then(|head| Header::from_bytes(head, 0).ok());
        let Some(mut header) = head else { return Err(Reject::protocol("a block without its header")) };
        header.closed = Some((end.rows, end.bytes, end.crc));
        open.bytes[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
        for bytes in self.news(&open.bytes, sink)? {
            sink.block(&bytes);
        }
        Ok(())
    }

    /// A piece of a closed block.
    pub fn past(&mut self, last: bool, bytes: &[u8], sink: &mut impl RowSink) -> Result<(), Reject> {
        if self.past.len() + bytes.len() > BLOCK_MAX {
            return Err(Reject::protocol("a block larger than any may be"));
        }
        if last && self.past.is_empty() {
            return self.whole_past(bytes, sink);
        }
        self.past.extend_from_slice(bytes);
        if !last {
            return Ok(());
        }
        let whole = std::mem::take(&mut self.past);
        self.whole_past(&whole, sink)
    }

    fn whole_past(&mut self, bytes: &[u8], sink: &mut impl RowSink) -> Result<(), Reject> {
        for bytes in self.news(bytes, sink)? {
            if let Some(span) = span_of(&bytes) {
                widen(&mut self.span, span);
            }
            sink.past(&bytes);
        }
        Ok(())
    }

    /// Settles the rows of a closed block. Returns the rows that did not come in another lane, if some of them are
    /// new.
    fn news<'a>(&mut self, bytes: &'a [u8], sink: &mut impl RowSink) -> Result<Vec<Cow<'a, [u8]>>, Reject> {
        let (first_row, rows) = check(bytes)?;
        let end = first_row.checked_add(rows).ok_or_else(|| Reject::protocol("rows beyond counting"))?;
        if self.elsewhere.times.is_empty() {
            return Ok(self.settle_block((first_row, end), Cow::Borrowed(bytes), sink).into_iter().collect());
        }
        let (mut new, mut at) = (Vec::new(), first_row);
        let parts = parts_without(bytes, |_, stamp| self.elsewhere.has(stamp));
        let is_whole = parts.first().is_some_and(|part| (part.first, part.end) == (first_row, end));
        for Part { first, end, bytes: part } in parts {
            self.drop_rows(at, first, sink);
            let part = if is_whole { Cow::Borrowed(bytes) } else { Cow::Owned(part) };
            new.extend(self.settle_block((first, end), part, sink));
            at = end;
        }
        self.drop_rows(at, end, sink);
        Ok(new)
    }

    /// Settles rows that are wanted. Returns their block if some of the rows are new.
    fn settle_block<'a>(
        &mut self,
        (from, to): (u64, u64),
        bytes: Cow<'a, [u8]>,
        sink: &mut impl RowSink,
    ) -> Option<Cow<'a, [u8]>> {
        let new = self.settle(from, to, sink);
        self.repeated += (to - from).saturating_sub(new);
        (new > 0).then_some(bytes)
    }

    /// Settles rows that are not wanted.
    fn drop_rows(&mut self, from: u64, to: u64, sink: &mut impl RowSink) {
        // Rows before the first received row are no hole.
        match self.settled.start().is_some_and(|start| start < from) && !self.elsewhere.is_no_loss {
            true => self.lost(from, to, sink),
            false => _ = self.settle(from, to, sink),
        }
    }

    /// Notes these rows as received or lost. Returns how many of them are new. If there is no room for a hole, its
    /// rows are lost.
    fn settle(&mut self, from: u64, to: u64, sink: &mut impl RowSink) -> u64 {
        let new = self.settled.add(from, to);
        if let Some((from, to)) = self.settled.take_forgotten() {
            sink.lost(from, to);
        }
        new
    }

    /// Rows that are lost for good.
    pub fn lost(&mut self, from: u64, to: u64, sink: &mut impl RowSink) {
        let lacking = self.settled.holes(from, to);
        self.settle(from, to, sink);
        for (from, to) in lacking {
            sink.lost(from, to);
        }
    }

    /// If the lane has rows, the rows after them and before `until` are not wanted.
    pub fn skip(&mut self, until: u64) {
        if self.has_rows() && self.settled.end() < until {
            self.settled.add(self.settled.end(), until);
        }
    }

    /// Like [`Intake::skip`], but the rows count as lost.
    pub fn give_up_newer(&mut self, until: u64, sink: &mut impl RowSink) {
        if self.has_rows() && self.settled.end() < until {
            self.lost(self.settled.end(), until, sink);
        }
    }

    /// If the lane has rows, its missing rows before `until` are lost.
    pub fn give_up(&mut self, until: u64, sink: &mut impl RowSink) {
        if let Some(start) = self.settled.start().filter(|&start| start < until) {
            self.lost(start, until, sink);
        }
    }

    /// Hands out the whole rows of the open block as a closed block. The End of the block will not come. If the lane continues
    /// on another connection, these rows do not come again.
    pub fn cut_off(&mut self, sink: &mut impl RowSink) {
        let Some(open) = self.open.take().filter(|open| open.rows > 0) else { return };
        let mut bytes = open.bytes[..open.done].to_vec();
        let Some(mut header) = bytes.first_chunk().and_then(|head| Header::from_bytes(head, 0).ok()) else {
            return;
        };
        let body = &bytes[HEADER_BYTES..];
        header.closed = Some((open.rows, body.len() as u32, crc32fast::hash(body)));
        bytes[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
        // Rows that were decoded always make a sound block.
        for bytes in self.news(&bytes, sink).into_iter().flatten() {
            sink.block(&bytes);
        }
    }

    /// The connection has ended. Incomplete blocks come again.
    pub fn cut(&mut self) {
        self.open = None;
        self.past = Vec::new();
    }
}

/// Extends `span` by the times of `more`.
fn widen(span: &mut Option<Span>, more: Span) {
    *span = Some(span.map_or(more, |known| known.with(more)));
}

#[cfg(test)]
mod tests {
    use khz_block::Encoder;

    use super::*;

    #[test]
    fn a_piece_of_a_schema_that_came_in_part_adds_the_rest_and_one_after_a_hole_is_refused() {
        let mut intake = Intake::new(1);
        assert_eq!(intake.schema(1, 0, 100), Ok(0));
        assert_eq!(intake.schema(1, 100, 20), Ok(0));
        assert_eq!(intake.schema(1, 100, 20), Ok(20), "twice");
        assert_eq!(intake.schema(1, 90, 10), Ok(10));
        assert_eq!(intake.schema(1, 110, 30), Ok(10), "in part");
        assert_eq!(intake.schema_bytes(1), 140);
        assert!(intake.schema(1, 141, 1).is_err() && intake.schema(2, 1, 1).is_err());
        assert_eq!(intake.schema(1, 0, 50), Ok(0));
        assert_eq!(intake.schema_bytes(1), 50, "said from the start again");
    }

    #[test]
    fn of_a_lane_whose_rows_all_came_late_it_is_known_when_they_were_gathered() {
        struct Nobody;
        impl RowSink for Nobody {
            fn row(&mut self, _: u64, _: &Decoder) {}
            fn block(&mut self, _: &[u8]) {}
            fn lost(&mut self, from: u64, to: u64) {
                panic!("{from}..{to}");
            }
        }
        let block = |first: u64| {
            let (mut encoder, mut bytes) = (Encoder::new(0, 1, Nanos::SECOND), Vec::new());
            encoder.resume(first, 1);
            let stamp = |second: u64| Stamp { boot: Nanos::from_secs(second), real_offset: 0 };
            encoder.key_row(stamp(first), 1, |_| (0, first), &mut bytes);
            encoder.delta_row(stamp(first + 1), 0..1, |_| (0, first), &mut bytes);
            bytes[..HEADER_BYTES].copy_from_slice(&encoder.close().expect("rows").to_bytes());
            bytes
        };
        let mut intake = Intake::new(1);
        for first in [10, 20, 12] {
            intake.past(true, &block(first), &mut Nobody).expect("a block");
        }
        let span = intake.span().expect("rows came");
        assert_eq!((span.first.boot, span.last.boot), (Nanos::from_secs(10), Nanos::from_secs(21)));
        // How old they were when they came, their coming does not tell, but the lane before does.
        assert_eq!(intake.clock(), None);
        intake.knows_clock(Some(NodeClock::after(None, span.first, Nanos::from_secs(11))));
        assert_eq!(intake.clock().and_then(|clock| clock.here(span.last)), Some(Nanos::from_secs(22)));
    }

    #[test]
    fn the_present_generation_is_remembered_however_many_old_ones_come() {
        let mut intake = Intake::new(1);
        for generation in (1..=20).rev() {
            assert_eq!(intake.schema(generation, 0, 100), Ok(0));
        }
        assert_eq!(intake.schema_bytes(20), 100);
        assert_eq!(intake.schema(20, 100, 5), Ok(0));
    }
}
