//! Parsing in place: it compares two texts of one layout, and parses only the numbers that changed, at their
//! known positions. It gives up when a byte outside the spans changed or when a span no longer holds a
//! number; the caller then parses in full.
//!
//! The code has few branches on purpose. At a thousand ticks a second the processor has forgotten them since
//! the last tick, and a branch that it predicts wrong costs as much as parsing a number.

use crate::compare::{CHUNK, Work, difference_mask, first_difference, has_newline};
use crate::layout::{Layout, NO_SLOT, ONE_WORD, Span};
use crate::number;
use crate::sink::Readings;

/// A text and the text before it.
pub(crate) struct InPlace<'a> {
    pub layout: &'a Layout,
    /// Both texts have the layout's length and are padded with zeros to whole chunks. `run` makes `before`
    /// equal to `now` outside the gaps.
    pub before: &'a mut [[u8; CHUNK]],
    pub now: &'a [[u8; CHUNK]],
    pub readings: &'a mut Readings,
}

impl Work for InPlace<'_> {
    /// `false`: the layout moved, and the readings written until then may be wrong.
    type Output = bool;

    #[inline(always)]
    fn run(mut self) -> bool {
        // Differing bytes before this position belong to a span that was already parsed.
        let mut done = 0;
        let mut from = 0;
        for gap in self.layout.gaps() {
            if !self.stretch(from, gap.start, &mut done) || has_newline(self.now[gap.clone()].as_flattened())
            {
                return false;
            }
            from = gap.end;
        }
        true
    }
}

impl InPlace<'_> {
    /// Handles the chunks between two gaps.
    #[inline(always)]
    fn stretch(&mut self, from: usize, to: usize, done: &mut usize) -> bool {
        let mut chunk = from;
        loop {
            chunk += first_difference(&self.before[chunk..to], &self.now[chunk..to]);
            if chunk >= to {
                return true;
            }
            if !self.chunk(chunk, done) {
                return false;
            }
            self.before[chunk] = self.now[chunk];
            chunk += 1;
        }
    }

    /// Handles the spans of the bytes that differ in one chunk.
    #[inline(always)]
    fn chunk(&mut self, chunk: usize, done: &mut usize) -> bool {
        let start = chunk * CHUNK;
        let spans = self.layout.chunks()[chunk];
        let mut differ = difference_mask(&self.before[chunk], &self.now[chunk]);
        differ &= from_bit(done.saturating_sub(start));
        while differ != 0 {
            let bit = differ.trailing_zeros();
            let Some(span) = self.layout.spans().get(spans.span_at(bit)) else { return false };
            if span.start() > start + bit as usize || !self.span(*span) {
                return false;
            }
            *done = span.end();
            differ &= from_bit(*done - start);
        }
        true
    }

    /// Handles one span whose text changed.
    #[inline(always)]
    fn span(&mut self, span: Span) -> bool {
        let text = self.now.as_flattened();
        if span.slot >= ONE_WORD {
            return harmless(span, &text[span.start()..span.end()]);
        }
        let number = match text[..span.end()].last_chunk() {
            Some(block) => number::at_the_end(block, span.end() - span.start(), span.places(), span.padded()),
            None => None,
        };
        let number = match number {
            Some(number) => number,
            None => match parse_slowly(span, &text[span.start()..span.end()]) {
                Some(number) => number,
                None => return false,
            },
        };
        let Some(value) = number.checked_mul(span.multiplier()) else { return false };
        let readings = &mut *self.readings;
        let old = std::mem::replace(&mut readings.values[span.slot as usize], value);
        readings.changed.push(span.slot);
        // A total is Absent while one of its parts is; it stays Absent here.
        if let Some(total) = span.total()
            && readings.states[total as usize] == 0
        {
            let (Some(value), Some(old)) = (span.in_total(value), span.in_total(old)) else { return false };
            let sum = &mut readings.values[total as usize];
            let Some(larger) = sum.wrapping_sub(old).checked_add(value) else { return false };
            *sum = larger;
            readings.changed.push(total);
        }
        true
    }
}

/// A mask of all bits from `bit` on; empty when `bit` is beyond 63.
#[inline(always)]
fn from_bit(bit: usize) -> u64 {
    u64::MAX.checked_shl(bit as u32).unwrap_or(0)
}

/// Parses numbers that the fast way does not take: very long ones, and those in a text's first bytes.
#[inline(never)]
fn parse_slowly(span: Span, text: &[u8]) -> Option<u64> {
    if !span.padded() && text.first() == Some(&b' ') {
        return None;
    }
    number::parse(text, span.places()).ok()
}

/// True when new text in a span without a value leaves the surrounding words and lines at their positions.
#[inline(never)]
fn harmless(span: Span, text: &[u8]) -> bool {
    if span.slot == NO_SLOT {
        return !has_newline(text);
    }
    let blanks = if span.padded() { text.iter().take_while(|&&b| b == b' ').count() } else { 0 };
    let word = &text[blanks..];
    !word.is_empty() && !word.iter().any(u8::is_ascii_whitespace)
}
