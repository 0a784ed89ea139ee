//! The writer's view of a ring's schema area: which generations have entries there, which of them still have
//! blocks, and how the others make room. It writes no block.
//!
//! The entries stand one after the other, from the start of the area, without gaps; the present one is the last
//! and grows at its end. Only a move of entries needs the sequence lock ([`word::SCHEMA_MOVES`]): while it is odd,
//! readers wait.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::fd::OwnedFd;

use crate::bytes::RingBytes;
use crate::layout::{Areas, ENTRY_BYTES, MEMORY_PAGE_BYTES, SCHEMA_BYTES, word};
use crate::memory::{Memory, allocate};
use crate::reader::Entries;
use crate::snapshot::sequence;

/// Pages of the schema area are allocated in steps of this size. Entries without blocks that are smaller than this
/// stay: moving the others would save no page.
pub(crate) const SCHEMA_STEP: u64 = 64 << 10;

/// The schema area has no room for the new bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no room in the ring's schema area")]
pub struct SchemaFull;

/// When pages of the schema area are allocated.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pages {
    /// At the first write to them.
    AsTouched,
    /// Before they are written; this many bytes of the area are allocated.
    Allocated(u64),
}

/// The schema area.
#[derive(Debug)]
pub(crate) struct SchemaArea {
    areas: Areas,
    /// The offset of the present entry in the area.
    start: u64,
    /// The present entry's length; `None` before its first byte.
    bytes: Option<u64>,
    /// The generations before the present one that still have blocks, oldest first, and the position in the stream
    /// at which the blocks of each end.
    older: VecDeque<(u32, u64)>,
    /// The present entry as it was before [`SchemaArea::put_aside`].
    aside: Option<(u64, Option<u64>)>,
    /// The end of the part of the area that has pages.
    top: u64,
    pages: Pages,
}

impl SchemaArea {
    /// An area in which a new generation begins at `start`.
    pub fn new(areas: Areas, start: u64, older: VecDeque<(u32, u64)>, pages: Pages) -> Self {
        SchemaArea { areas, start, bytes: None, older, aside: None, top: start, pages }
    }

    /// The offset of the present entry.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// The present entry's length; `None` before its first byte.
    pub fn bytes(&self) -> Option<u64> {
        self.bytes
    }

    /// True if the area is part of a file.
    pub fn is_in_file(&self) -> bool {
        matches!(self.pages, Pages::Allocated(_))
    }

    /// Appends to the present entry, which has room for it.
    pub fn extend(&mut self, memory: &Memory, generation: u32, bytes: &[u8]) {
        let (start, old) = (self.start, self.bytes.unwrap_or(0));
        let new = old + bytes.len() as u64;
        let entry = self.areas.schema + start;
        memory.copy_in(entry + ENTRY_BYTES + old, bytes);
        memory.store(entry, generation.into(), Ordering::Relaxed);
        memory.store(entry + 8, new, Ordering::Release);
        memory.store(self.areas.word(word::SCHEMA), start + ENTRY_BYTES + new, Ordering::Release);
        self.bytes = Some(new);
        self.aside = None;
        self.top = self.top.max(start + ENTRY_BYTES + new);
    }

    /// The present generation is over; its blocks end at `head`. The next entry follows.
    pub fn put_aside(&mut self, generation: u32, head: u64) {
        self.aside = Some((self.start, self.bytes));
        if let Some(bytes) = self.bytes.take() {
            self.older.push_back((generation, head));
            self.start = (self.start + ENTRY_BYTES + bytes).next_multiple_of(8);
        }
    }

    /// The next generation could not begin: the previous one continues.
    pub fn take_back(&mut self) {
        let Some((_, bytes)) = self.aside.take() else { return };
        if let Some(bytes) = bytes
            && self.older.pop_back().is_some()
        {
            // It may have moved, and is the last entry still.
            self.start -= (ENTRY_BYTES + bytes).next_multiple_of(8);
            self.bytes = Some(bytes);
        }
    }

    /// Generations whose blocks all end at or before this position are no longer needed.
    pub fn forget_before(&mut self, oldest: u64) {
        while self.older.front().is_some_and(|&(_, end)| end <= oldest) {
            self.older.pop_front();
        }
    }

    /// The bytes of the area that have memory.
    pub fn used(&self) -> u64 {
        self.top
    }

    /// Where the blocks of the newest generation before the present one end.
    pub fn older_end(&self) -> Option<u64> {
        self.older.back().map(|&(_, end)| end)
    }

    /// The bytes after the present entry are no longer needed: returns where their pages begin, and their
    /// length.
    pub fn cut(&mut self) -> (u64, u64) {
        let end = self.areas.schema + self.start + self.bytes.map_or(0, |bytes| ENTRY_BYTES + bytes);
        let (from, top) = (end.next_multiple_of(MEMORY_PAGE_BYTES), self.areas.schema + self.top);
        self.top = self.top.min(from.saturating_sub(self.areas.schema));
        (from, top.saturating_sub(from))
    }

    /// Where the blocks of the oldest generation before the present one end.
    pub fn oldest_end(&self) -> Option<u64> {
        self.older.front().map(|&(_, end)| end)
    }

    /// Moves the needed entries together, if the present entry has no room for `wanted` bytes, or if unneeded
    /// bytes take half of the used part of the area. So each byte moves about once.
    pub fn tidy(&mut self, memory: &Arc<Memory>, wanted: u64, generation: u32) {
        let ring = RingBytes::Mapped(memory.clone());
        let (area, schema_word) = (self.areas.schema, self.areas.word(word::SCHEMA));
        let entries = Entries { bytes: &ring, area, at: 0, end: ring.load(schema_word) };
        let has_present = self.bytes.is_some();
        let is_present = |number| has_present && number == generation;
        let is_needed = |number| is_present(number) || self.older.iter().any(|&(older, _)| older == number);
        let needed: Vec<(u64, u64, u32)> = entries
            .filter(|entry| is_needed(entry.generation))
            .map(|entry| (entry.at - ENTRY_BYTES, ENTRY_BYTES + entry.bytes, entry.generation))
            .collect();
        let sizes = needed.iter().map(|(_, size, _)| size.next_multiple_of(8)).sum::<u64>();
        let used = self.start + self.bytes.map_or(0, |bytes| (ENTRY_BYTES + bytes).next_multiple_of(8));
        let unneeded = used.saturating_sub(sizes);
        let is_worth_it = unneeded >= SCHEMA_STEP && unneeded >= sizes;
        if unneeded == 0 || !(is_worth_it || self.start + wanted > SCHEMA_BYTES) {
            return;
        }
        sequence::write(&**memory, self.areas.word(word::SCHEMA_MOVES), |memory| {
            let (mut to, mut end) = (area, area);
            for &(from, size, number) in &needed {
                if is_present(number) {
                    self.start = to - area;
                }
                // Downwards, so that no word is overwritten before it was moved.
                for at in (0..size).step_by(8) {
                    memory.store(to + at, memory.load(from + at, Ordering::Relaxed), Ordering::Relaxed);
                }
                end = to + size;
                to = end.next_multiple_of(8);
            }
            if self.bytes.is_none() {
                self.start = to - area;
            }
            memory.store(schema_word, end - area, Ordering::Relaxed);
        });
    }

    /// Allocates pages up to `end`, so that no store into them can fail.
    pub fn take_pages(&mut self, file: &OwnedFd, end: u64) -> Result<(), SchemaFull> {
        let Pages::Allocated(there) = self.pages else { return Ok(()) };
        if end > there {
            let more = (end - there).next_multiple_of(SCHEMA_STEP).min(SCHEMA_BYTES - there);
            allocate(file, self.areas.schema + there, more).map_err(|_| SchemaFull)?;
            self.pages = Pages::Allocated(there + more);
        }
        Ok(())
    }
}
