//! The differential parser of one kernel file: give it each new text, it keeps the readings. Equal bytes cost
//! a comparison; changed numbers are parsed where they stand; a moved layout is parsed in full, by field name.
//!
//! Why parsing in place is right: bytes outside the spans are equal in both texts, so names and separators
//! stand where they stood; inside a span only `blanks digits` is accepted. The full parser would therefore
//! find the same words at the same places. The property tests hold the two against each other.

use khz_model::{Reading, Schema};

use crate::kernel_file::KernelFile;
use crate::layout::{Layout, NO_SLOT, ONE_WORD, Span};
use crate::number;
use crate::sink::{FaultNote, Readings, Sink};
use crate::slots::Slots;

/// What a new text was to the parser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Parsed where the numbers stood before.
    InPlace,
    /// Parsed in full: the first text, a moved layout, or a text with faults.
    Full,
}

/// Readings of one kernel file, kept up to date text by text.
#[derive(Debug)]
pub struct Parser {
    slots: Slots,
    readings: Readings,
    layout: Layout,
    faults: Vec<FaultNote>,
    seen: Vec<u32>,
    parse_number: u32,
    /// The last text and the buffer for the next one; they change places with every text.
    before: Vec<u8>,
    now: Vec<u8>,
}

impl Parser {
    /// A parser that has seen no text: every slot is Absent (not yet).
    pub fn new(file: &'static KernelFile) -> Self {
        let slots = Slots::new(file);
        let mut readings = Readings::default();
        readings.grow(slots.schema().len());
        Parser {
            slots,
            readings,
            layout: Layout::default(),
            faults: Vec::new(),
            seen: Vec::new(),
            parse_number: 0,
            before: Vec::new(),
            now: Vec::new(),
        }
    }

    /// The file it parses.
    pub fn file(&self) -> &'static KernelFile {
        self.slots.file
    }

    /// The buffer for the next text. Fill it from the start, then call [`Parser::advance`] with the length.
    #[inline]
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.now
    }

    /// Takes the first `len` bytes of the buffer as the new text. `len` beyond the buffer counts as all of it.
    #[inline]
    pub fn advance(&mut self, len: usize) -> Outcome {
        let len = len.min(self.now.len());
        self.readings.changed.clear();
        let outcome = if self.parse_in_place(len) { Outcome::InPlace } else { self.parse_in_full(len) };
        std::mem::swap(&mut self.before, &mut self.now);
        outcome
    }

    /// The same for a text that stands elsewhere: for tests, replays and tools.
    pub fn advance_with(&mut self, text: &[u8]) -> Outcome {
        if self.now.len() < text.len() {
            self.now.resize(text.len(), 0);
        }
        self.now[..text.len()].copy_from_slice(text);
        self.advance(text.len())
    }

    /// There was no text this time: every slot takes the state of `reading`.
    pub fn lose(&mut self, reading: Reading) {
        self.readings.changed.clear();
        self.layout.clear();
        for slot in 0..self.slots.schema().len() as u32 {
            self.readings.set(slot, reading);
        }
    }

    /// Slots whose reading the latest text changed; a slot may stand here twice.
    #[inline]
    pub fn changed(&self) -> &[u32] {
        &self.readings.changed
    }

    /// The value bits of every slot; meaningless where the state is not 0.
    #[inline]
    pub fn values(&self) -> &[u64] {
        &self.readings.values
    }

    /// The state of every slot, as [`Reading::state`].
    #[inline]
    pub fn states(&self) -> &[u8] {
        &self.readings.states
    }

    /// The reading of a slot, if there is such a slot.
    pub fn reading(&self, slot: usize) -> Option<Reading> {
        (slot < self.readings.values.len()).then(|| self.readings.get(slot as u32))
    }

    /// What the slots mean. It only ever grows.
    pub fn schema(&self) -> &Schema {
        self.slots.schema()
    }

    /// What was wrong with the latest fully parsed text.
    pub fn faults(&self) -> &[FaultNote] {
        &self.faults
    }

    #[inline]
    fn parse_in_place(&mut self, len: usize) -> bool {
        if !self.layout.fits(len) {
            return false;
        }
        let (before, now) = (&self.before[..len], &self.now[..len]);
        let readings = &mut self.readings;
        self.layout.compare(before, now, |span| {
            let text = &now[span.start as usize..span.end as usize];
            if span.slot >= ONE_WORD {
                return harmless(span, text);
            }
            if !span.padded && text[0] == b' ' {
                return false;
            }
            let Ok(number) = number::parse(text, span.places) else { return false };
            let Some(value) = number.checked_mul(span.multiplier) else { return false };
            let old = std::mem::replace(&mut readings.values[span.slot as usize], value);
            readings.changed.push(span.slot);
            if span.total != NO_SLOT {
                let total = &mut readings.values[span.total as usize];
                *total = total.wrapping_add(value).wrapping_sub(old);
                readings.changed.push(span.total);
            }
            true
        })
    }

    #[cold]
    #[inline(never)]
    fn parse_in_full(&mut self, len: usize) -> Outcome {
        self.parse_number = self.parse_number.wrapping_add(1).max(1);
        let mut sink = Sink::new(
            &self.now[..len],
            &mut self.slots,
            &mut self.readings,
            &mut self.layout,
            &mut self.faults,
            &mut self.seen,
            self.parse_number,
        );
        let parse = sink.parser();
        parse(&mut sink);
        sink.finish();
        Outcome::Full
    }
}

/// True when new text in a span without a value leaves the words and lines around it where they were.
fn harmless(span: &Span, text: &[u8]) -> bool {
    if span.slot == NO_SLOT {
        return !text.contains(&b'\n');
    }
    let blanks = if span.padded { text.iter().take_while(|&&b| b == b' ').count() } else { 0 };
    let word = &text[blanks..];
    !word.is_empty() && !word.iter().any(u8::is_ascii_whitespace)
}
