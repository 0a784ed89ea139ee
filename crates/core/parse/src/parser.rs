//! The differential parser of one kernel file: it takes each new text and keeps the readings. Equal bytes
//! cost a comparison. Changed numbers are parsed at their known positions. When the layout moves, the whole
//! text is parsed by field name.
//!
//! Why parsing in place is right: bytes outside the spans are equal in both texts, so names and separators
//! have not moved. A span accepts only `blanks digits`. The full parser would therefore find the same words
//! at the same positions. The property tests compare the two.

use khz_model::{Absence, Nanos, Reading, Schema};

use crate::compare::{CHUNK, prefetch, vectorised};
use crate::in_place::InPlace;
use crate::kernel_file::KernelFile;
use crate::layout::Layout;
use crate::sink::{FaultNote, Readings, Sink};
use crate::slots::Slots;

/// How the parser took a new text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Only changed numbers were parsed, at their known positions.
    InPlace,
    /// Parsed in full: the first text, a moved layout, a text with faults or the text after one.
    Full,
}

/// The readings of one kernel file, kept up to date text by text.
#[derive(Debug)]
pub struct Parser {
    slots: Slots,
    readings: Readings,
    layout: Layout,
    faults: Vec<FaultNote>,
    seen: Vec<u32>,
    parse_number: u32,
    /// The last text, padded with zeros. Its gaps may be from an older text; they are never compared.
    before: Vec<[u8; CHUNK]>,
}

impl Parser {
    /// A parser before its first text: every slot is Absent (not yet).
    pub fn new(file: &'static KernelFile) -> Self {
        let mut slots = Slots::new(file);
        slots.expect_own();
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
        }
    }

    /// The file it parses.
    pub fn file(&self) -> &'static KernelFile {
        self.slots.file
    }

    /// Call it before reading a text: while the kernel writes the text, the data for the comparison comes
    /// into the cache. Even at a thousand ticks a second, other programs have used the caches since the last
    /// tick.
    #[inline]
    pub fn expect(&self) {
        prefetch(&self.before);
        prefetch(self.layout.chunks());
        prefetch(self.layout.spans());
        prefetch(&self.readings.values);
    }

    /// Takes the first `length` bytes of `room` as the new text. It overwrites the bytes after them, and
    /// enlarges `room` if it ends within the next 72 bytes. A `length` beyond the room counts as the whole
    /// room.
    #[inline]
    pub fn advance(&mut self, room: &mut Vec<u8>, length: usize) -> Outcome {
        self.readings.changed.clear();
        let length = length.min(room.len());
        fill_chunk(room, length);
        if self.parse_in_place(&room[..], length) {
            Outcome::InPlace
        } else {
            self.parse_in_full(room, length)
        }
    }

    /// The same for a text in a slice: for tests, replays and tools.
    pub fn advance_with(&mut self, text: &[u8]) -> Outcome {
        let mut room = text.to_vec();
        self.advance(&mut room, text.len())
    }

    /// Call it when there is no new text and the readings stay valid: nothing has changed.
    pub fn keep(&mut self) {
        self.readings.changed.clear();
    }

    /// Call it when the text could not be had: every slot takes the state of `reading`.
    pub fn lose(&mut self, reading: Reading) {
        self.readings.changed.clear();
        self.layout.clear();
        for slot in 0..self.slots.schema().len() as u32 {
            self.readings.set(slot, reading);
        }
    }

    /// Slots whose reading the latest text changed; a slot may appear twice.
    #[inline]
    pub fn changed(&self) -> &[u32] {
        &self.readings.changed
    }

    /// The value bits of every slot; without meaning where the state is not 0.
    #[inline]
    pub fn values(&self) -> &[u64] {
        &self.readings.values
    }

    /// The state of every slot, as [`Reading::state`].
    #[inline]
    pub fn states(&self) -> &[u8] {
        &self.readings.states
    }

    /// The reading of a slot, if the slot exists.
    pub fn reading(&self, slot: usize) -> Option<Reading> {
        (slot < self.readings.values.len()).then(|| self.readings.get(slot as u32))
    }

    /// The number of slots whose instances have been gone for at least `age`. An instance counts as gone from the
    /// first call that finds it gone, so call this now and then.
    pub fn slots_gone(&mut self, now: Nanos, age: Nanos) -> usize {
        let states = &self.readings.states;
        self.slots.note_gone(now, age, |slot| states[slot as usize] == Absence::InstanceGone as u8)
    }

    /// Bytes of names and labels: of all instances, and of the instances that the last [`Parser::slots_gone`]
    /// counted.
    pub fn names(&self) -> (usize, usize) {
        self.slots.names()
    }

    /// Begins with new slots, without those of instances that have been gone for at least `age`
    /// ([`Parser::slots_gone`] has noted since when). Every other instance keeps its readings under new slots.
    pub fn renew(&mut self, now: Nanos, age: Nanos) {
        let slots = self.slots.renew(now, age);
        self.readings.take_over(&slots);
        // Spans name slots, so the next text is parsed in full.
        self.layout.clear();
        self.seen = Vec::new();
    }

    /// The meaning of the slots. It only grows until [`Parser::renew`].
    pub fn schema(&self) -> &Schema {
        self.slots.schema()
    }

    /// The faults of the latest text that was parsed in full.
    pub fn faults(&self) -> &[FaultNote] {
        &self.faults
    }

    #[inline]
    fn parse_in_place(&mut self, room: &[u8], length: usize) -> bool {
        if !self.layout.fits(length) {
            return false;
        }
        let (now, _) = room.as_chunks();
        vectorised(InPlace {
            layout: &self.layout,
            before: &mut self.before,
            now,
            readings: &mut self.readings,
        })
    }

    #[cold]
    #[inline(never)]
    fn parse_in_full(&mut self, room: &[u8], length: usize) -> Outcome {
        let (chunks, _) = room.as_chunks();
        self.before.clear();
        self.before.extend_from_slice(&chunks[..length.div_ceil(CHUNK)]);
        let text = &room[..length];
        self.parse_number = self.parse_number.wrapping_add(1).max(1);
        let mut sink = Sink::new(
            text,
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

/// Sets the bytes after the text to zero up to the end of its last chunk, so that only whole chunks are
/// compared.
#[inline]
fn fill_chunk(room: &mut Vec<u8>, length: usize) {
    let whole = length.next_multiple_of(CHUNK);
    // Eight bytes more than needed, so that the last store always fits.
    if room.len() < whole + 8 {
        room.resize(whole + 8, 0);
    }
    let mut at = length;
    while at < whole {
        if let Some(word) = room[at..].first_chunk_mut::<8>() {
            *word = [0; 8];
        }
        at += 8;
    }
}
