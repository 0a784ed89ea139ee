//! The positions of the numbers in a text, so that the next text of the same shape needs no full parse. It
//! owns spans, not values, and refuses to guess: a byte that changed outside every span means that the layout
//! moved.
//!
//! ```text
//!   cpu  699 0 283 ...\nintr 4711 0 9 0 0 ...\nctxt 5120\n
//!      └─┬─┘                └┬─┘└────┬────┘        └┬─┘
//!       span               span     gap           span
//! ```
//!
//! - A **span** is a number with the padding before it. One blank stays outside as the separator, so that a
//!   number can never grow into its neighbour's name.
//! - A **gap** is a long stretch without a wanted number. It is not compared, only searched for a newline,
//!   which would move lines.

use std::ops::Range;

use crate::compare::CHUNK;

/// A span that fills no slot: it may change freely as long as no newline enters it.
pub(crate) const NO_SLOT: u32 = u32::MAX;

/// A span that fills no slot but lies between words that do: it must stay one word.
pub(crate) const ONE_WORD: u32 = u32::MAX - 1;

/// A stretch without a wanted number is a gap when it has at least this many whole chunks.
const GAP_MIN: usize = 1;

/// The position of a number, in sixteen bytes: at a thousand ticks a second each cache line counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    start: u32,
    /// The slot it fills, or [`NO_SLOT`], or [`ONE_WORD`].
    pub slot: u32,
    length: u16,
    /// The distance in slots to the total that the number also adds to; 0 when there is none. The same number in another unit is a
    /// total of one part.
    total_ahead: u8,
    /// The reading is the text's number times 2 to this power.
    shift: u8,
    /// The total takes the reading times 2 to this power.
    total_shift: u8,
    /// The digits after the point, and [`PADDED`].
    form: u8,
}

/// Blanks may stand before the digits.
const PADDED: u8 = 0x80;

impl Span {
    /// The number in `range` fills `slot`; blanks may precede its digits if `padded`. The length is cut at 64
    /// KiB: no number is that long.
    pub fn new(range: Range<usize>, slot: u32, padded: bool) -> Self {
        let length = u16::try_from(range.len()).unwrap_or(u16::MAX);
        let form = if padded { PADDED } else { 0 };
        Span { start: range.start as u32, slot, length, total_ahead: 0, shift: 0, total_shift: 0, form }
    }

    /// Sets the digits after the point, and a multiplier that is a power of two.
    pub fn scaled(mut self, places: u8, multiplier: u64) -> Self {
        debug_assert!(
            multiplier.is_power_of_two() && places < PADDED,
            "BUG: a multiplier is not a power of two"
        );
        self.form |= places;
        self.shift = multiplier.trailing_zeros() as u8;
        self
    }

    /// The number also adds to the total `total_ahead` slots further on.
    pub fn adding(mut self, total_ahead: u8) -> Self {
        self.total_ahead = total_ahead;
        self
    }

    /// The number also is that of another span: further on in the slots, and in no larger unit.
    fn in_unit_of(&mut self, other: Span) {
        let ahead = other.slot.checked_sub(self.slot).and_then(|ahead| u8::try_from(ahead).ok());
        let shift = other.shift.checked_sub(self.shift);
        debug_assert!(self.total_ahead == 0 && other.total_ahead == 0, "BUG: a part of two totals");
        debug_assert!(
            ahead.is_some_and(|ahead| ahead > 0) && shift.is_some(),
            "BUG: units in the wrong order"
        );
        (self.total_ahead, self.total_shift) = (ahead.unwrap_or(0), shift.unwrap_or(0));
    }

    #[inline]
    pub fn start(&self) -> usize {
        self.start as usize
    }

    #[inline]
    pub fn end(&self) -> usize {
        self.start as usize + usize::from(self.length)
    }

    #[inline]
    pub fn padded(&self) -> bool {
        self.form & PADDED != 0
    }

    #[inline]
    pub fn places(&self) -> u8 {
        self.form & !PADDED
    }

    #[inline]
    pub fn multiplier(&self) -> u64 {
        1 << self.shift
    }

    #[inline]
    pub fn total(&self) -> Option<u32> {
        (self.total_ahead != 0).then(|| self.slot + u32::from(self.total_ahead))
    }

    /// What a reading is to the total; `None`: more than 64 bits.
    #[inline]
    pub fn in_total(&self, value: u64) -> Option<u64> {
        (value.leading_zeros() >= u32::from(self.total_shift)).then(|| value << self.total_shift)
    }
}

/// The spans that end in one chunk of text: enough to find the span of a byte without a search.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChunkSpans {
    /// One bit for each byte that is the last of a span.
    ends: u64,
    /// The first span that ends in this chunk or after it.
    first: u32,
}

impl ChunkSpans {
    /// The index of the first span that ends at byte `bit` of the chunk or after it.
    #[inline(always)]
    pub fn span_at(self, bit: u32) -> usize {
        self.first as usize + (self.ends & ((1 << bit) - 1)).count_ones() as usize
    }
}

/// The spans and gaps of one text.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    /// The length of the text that it describes.
    len: usize,
    /// Set after a text was parsed without fault. Texts with faults are always parsed in full.
    valid: bool,
    spans: Vec<Span>,
    /// Ranges of chunks, not of bytes.
    gaps: Vec<Range<usize>>,
    chunks: Vec<ChunkSpans>,
}

impl Layout {
    pub fn clear(&mut self) {
        self.valid = false;
        self.spans.clear();
        self.gaps.clear();
    }

    /// Adds a span. A span at the same place as the previous one is the same number in another
    /// unit.
    pub fn add(&mut self, span: Span) {
        match self.spans.last_mut() {
            Some(last) if last.start == span.start && last.slot < ONE_WORD => last.in_unit_of(span),
            _ => self.spans.push(span),
        }
    }

    /// Marks `range` as unwanted. Its whole chunks become a gap, if there are enough of them; its edges
    /// become spans.
    pub fn ignore(&mut self, range: Range<usize>) {
        let chunks = range.start.div_ceil(CHUNK)..range.end / CHUNK;
        if chunks.len() < GAP_MIN {
            return self.ignore_bytes(range);
        }
        self.ignore_bytes(range.start..chunks.start * CHUNK);
        self.ignore_bytes(chunks.end * CHUNK..range.end);
        self.gaps.push(chunks);
    }

    /// Adds several spans for a long stretch: a span's length has 16 bits.
    fn ignore_bytes(&mut self, range: Range<usize>) {
        let mut start = range.start;
        while start < range.end {
            let end = range.end.min(start + usize::from(u16::MAX));
            self.add(Span::new(start..end, NO_SLOT, true));
            start = end;
        }
    }

    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// Makes the layout usable for texts of `len` bytes.
    pub fn complete(&mut self, len: usize) {
        self.spans.sort_unstable_by_key(|s| s.start);
        let chunks = len.div_ceil(CHUNK);
        // The empty gap at the end ends the last stretch: each stretch to compare ends at a gap.
        self.gaps.push(chunks..chunks);
        self.gaps.sort_unstable_by_key(|g| g.start);
        self.chunks.clear();
        let mut span = 0;
        for chunk in 0..chunks {
            let mut spans = ChunkSpans { ends: 0, first: span as u32 };
            while let Some(last) =
                self.spans.get(span).map(|s| s.end() - 1).filter(|last| last / CHUNK <= chunk)
            {
                spans.ends |= 1 << (last % CHUNK);
                span += 1;
            }
            self.chunks.push(spans);
        }
        self.len = len;
        self.valid = true;
    }

    /// True when a text of `len` bytes may have this layout.
    pub fn fits(&self, len: usize) -> bool {
        self.valid && self.len == len
    }

    /// The gaps, in order; the last one is empty and lies at the end.
    pub fn gaps(&self) -> &[Range<usize>] {
        &self.gaps
    }

    /// The spans that end in each chunk.
    pub fn chunks(&self) -> &[ChunkSpans] {
        &self.chunks
    }
}
