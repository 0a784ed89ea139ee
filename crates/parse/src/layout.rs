//! Where the numbers stand in a text, so that the next text of the same shape needs no parser. It owns spans,
//! not values, and refuses to guess: a byte that changed outside every span means that the layout moved.
//!
//! ```text
//!   cpu  699 0 283 ...\nintr 4711 0 9 0 0 ...\nctxt 5120\n
//!      └─┬─┘                └┬─┘└────┬────┘        └┬─┘
//!       span               span     gap           span
//! ```
//!
//! A **span** is a number with the padding before it (one blank stays outside as the separator, so that a
//! number can never grow into its neighbour's name). A **gap** is a long stretch that nobody wants: it is not
//! even compared, only searched for a newline, which would move lines.

use std::ops::Range;

/// A span that fills no slot: it may change freely as long as no newline enters it.
pub(crate) const NO_SLOT: u32 = u32::MAX;

/// A span that fills no slot but stands between words that do: it must stay one word.
pub(crate) const ONE_WORD: u32 = u32::MAX - 1;

/// Stretches without a wanted number that are longer than this are gaps.
const GAP_MIN: usize = 96;

/// A number's place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub start: u32,
    pub end: u32,
    /// The slot it fills, or [`NO_SLOT`], or [`ONE_WORD`].
    pub slot: u32,
    /// The slot of the total it also adds to, or [`NO_SLOT`].
    pub total: u32,
    pub multiplier: u64,
    /// Digits behind the point.
    pub places: u8,
    /// Blanks may stand before the digits.
    pub padded: bool,
}

impl Span {
    pub fn without_value(range: Range<usize>, slot: u32, padded: bool) -> Self {
        let (start, end) = (range.start as u32, range.end as u32);
        Span { start, end, slot, total: NO_SLOT, multiplier: 1, places: 0, padded }
    }
}

/// The spans and gaps of one text.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    /// Length of the text it describes.
    len: usize,
    /// Set once a text was parsed without fault; texts with faults are always parsed in full.
    valid: bool,
    spans: Vec<Span>,
    gaps: Vec<Range<usize>>,
    /// For each 64 bytes of text the first span that ends behind their start.
    first_span: Vec<u32>,
}

impl Layout {
    pub fn clear(&mut self) {
        self.valid = false;
        self.spans.clear();
        self.gaps.clear();
    }

    pub fn add(&mut self, span: Span) {
        self.spans.push(span);
    }

    /// Nobody wants `range`.
    pub fn ignore(&mut self, range: Range<usize>) {
        if range.len() >= GAP_MIN {
            self.gaps.push(range);
        } else if !range.is_empty() {
            let (start, end) = (range.start as u32, range.end as u32);
            self.spans.push(Span {
                start,
                end,
                slot: NO_SLOT,
                total: NO_SLOT,
                multiplier: 1,
                places: 0,
                padded: true,
            });
        }
    }

    /// Makes it usable for texts of `len` bytes.
    pub fn complete(&mut self, len: usize) {
        self.spans.sort_unstable_by_key(|s| s.start);
        self.gaps.sort_unstable_by_key(|g| g.start);
        self.first_span.clear();
        let mut span = 0;
        for chunk in 0..=len / 64 {
            while self.spans.get(span).is_some_and(|s| s.end as usize <= chunk * 64) {
                span += 1;
            }
            self.first_span.push(span as u32);
        }
        self.len = len;
        self.valid = true;
    }

    /// True when a text of that length may have this layout.
    pub fn fits(&self, len: usize) -> bool {
        self.valid && self.len == len
    }

    /// Calls `changed` for each span in which the two texts differ, in order. `false`: the layout moved, and
    /// what was reported so far may be wrong. Both texts have the layout's length.
    #[inline]
    pub fn compare(&self, before: &[u8], now: &[u8], mut changed: impl FnMut(&Span) -> bool) -> bool {
        let mut from = 0;
        for gap in &self.gaps {
            if !self.compare_stretch(before, now, from..gap.start, &mut changed)
                || now[gap.clone()].contains(&b'\n')
            {
                return false;
            }
            from = gap.end;
        }
        self.compare_stretch(before, now, from..self.len, &mut changed)
    }

    /// One stretch between gaps, 64 bytes at a time.
    #[inline]
    fn compare_stretch(
        &self,
        before: &[u8],
        now: &[u8],
        stretch: Range<usize>,
        changed: &mut impl FnMut(&Span) -> bool,
    ) -> bool {
        let (before_chunks, before_rest) = before[stretch.clone()].as_chunks::<64>();
        let (now_chunks, now_rest) = now[stretch.clone()].as_chunks::<64>();
        let mut at = stretch.start;
        // Differing bytes before this position belong to a span that was already reported.
        let mut done = at;
        for (a, b) in before_chunks.iter().zip(now_chunks) {
            if a != b && !self.report(a, b, at, &mut done, changed) {
                return false;
            }
            at += 64;
        }
        before_rest == now_rest || {
            let (mut a, mut b) = ([0; 64], [0; 64]);
            a[..before_rest.len()].copy_from_slice(before_rest);
            b[..now_rest.len()].copy_from_slice(now_rest);
            self.report(&a, &b, at, &mut done, changed)
        }
    }

    /// Finds the spans of the differing bytes in 64 bytes that start at `at`.
    #[inline]
    fn report(
        &self,
        before: &[u8; 64],
        now: &[u8; 64],
        at: usize,
        done: &mut usize,
        changed: &mut impl FnMut(&Span) -> bool,
    ) -> bool {
        let (before, _) = before.as_chunks::<8>();
        let (now, _) = now.as_chunks::<8>();
        for (word, (a, b)) in before.iter().zip(now).enumerate() {
            let mut differ = u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b);
            let word_at = at + word * 8;
            while differ != 0 {
                let byte = differ.trailing_zeros() as usize / 8;
                let position = word_at + byte;
                if position >= *done {
                    let Some(span) = self.span_at(position) else { return false };
                    if !changed(span) {
                        return false;
                    }
                    *done = span.end as usize;
                }
                // The rest of the word up to the span's end is dealt with.
                let skip = (*done - word_at).min(8);
                differ = if skip == 8 { 0 } else { differ & (u64::MAX << (skip * 8)) };
            }
        }
        true
    }

    /// The span that holds byte `position`.
    #[inline]
    fn span_at(&self, position: usize) -> Option<&Span> {
        let first = *self.first_span.get(position / 64)? as usize;
        let span = self.spans.get(first..)?.iter().find(|s| s.end as usize > position)?;
        (span.start as usize <= position).then_some(span)
    }
}
