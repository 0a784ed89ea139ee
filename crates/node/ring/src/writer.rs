//! Writes a ring: it appends bytes at head and gives up whole blocks at tail. There is one writer. It waits
//! for nobody, and asks the kernel only for pages when a schema outgrows its own.
//!
//! It gives up old blocks *before* it overwrites them (tail, release fence, data, head). A reader copies
//! first and checks tail afterwards (data, acquire fence, tail). If tail has not passed the copied bytes,
//! none of them was overwritten during the copy.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use khz_block::Header;
use khz_model::{Nanos, Stamp};
use rustix::fd::OwnedFd;

use crate::bytes::RingBytes;
use crate::error::RingError;
use crate::layout::{DATA_AT, DATA_MIN, ENTRY_BYTES, Label, SCHEMA_BYTES, WORDS_AT, word};
use crate::memory::{Memory, nameless};
use crate::reader::Reader;
use crate::recover::Recovered;
use crate::schema_area::{Pages, SchemaArea, SchemaFull};

/// The writer remembers the position of each block. If blocks are smaller than this on average, it gives up
/// the oldest ones early.
const BLOCK_BYTES_MEAN: u64 = 1_024;
/// A ring: its writer, a reader, and the number of its next row.
#[derive(Debug)]
pub struct Ring {
    /// The writer.
    pub writer: Writer,
    /// A reader.
    pub reader: Reader,
    /// The number of the next row: 0 in a new ring.
    pub next_row: u64,
}

impl Ring {
    /// Makes a ring of about `bytes` bytes in anonymous memory, which ends with the process. The size is
    /// rounded down to a power of two.
    pub fn anonymous(bytes: u64, label: Label) -> Result<Self, RingError> {
        let size = data_bytes(bytes);
        let no_memory = |source| RingError::NoMemory { bytes: size, source };
        let file = nameless(DATA_AT + size).map_err(no_memory)?;
        let memory = Memory::of(&file, DATA_AT + size).map_err(no_memory)?;
        memory.copy_in(0, &label.to_page(size));
        Ok(Ring::of(memory, file, size, label, Pages::AsTouched, Recovered::default()))
    }

    /// Makes a ring from prepared memory, for the next generation.
    pub(crate) fn of(
        memory: Memory,
        file: OwnedFd,
        size: u64,
        label: Label,
        pages: Pages,
        found: Recovered,
    ) -> Self {
        let memory = Arc::new(memory);
        let reader = Reader::new(RingBytes::Mapped(memory.clone()), size, Arc::new(label));
        let mut blocks = found.blocks;
        let blocks_max = (size / BLOCK_BYTES_MEAN) as usize;
        blocks.drain(..blocks.len().saturating_sub(blocks_max));
        blocks.reserve_exact(blocks_max - blocks.len());
        let generation = found.generation + 1;
        let schema = SchemaArea::new(found.schema_end, found.older, pages);
        let writer = Writer { memory, file, size, head: found.head, blocks, blocks_max, generation, schema };
        writer.set_word(word::GENERATION, generation.into());
        writer.set_word(word::PID, rustix::process::getpid().as_raw_nonzero().get() as u64);
        Ring { writer, reader, next_row: found.next_row }
    }
}

/// The size of a ring for which about `bytes` bytes were requested.
pub(crate) fn data_bytes(bytes: u64) -> u64 {
    1 << bytes.clamp(DATA_MIN, crate::layout::DATA_MAX).ilog2()
}

/// The one writer of a ring.
#[derive(Debug)]
pub struct Writer {
    memory: Arc<Memory>,
    file: OwnedFd,
    size: u64,
    head: u64,
    /// The positions of the blocks that the ring still holds, oldest first.
    blocks: VecDeque<u64>,
    blocks_max: usize,
    generation: u32,
    schema: SchemaArea,
}

impl Writer {
    /// The size of the data in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The bytes from the oldest block to the end.
    pub fn used(&self) -> u64 {
        self.head - self.blocks.front().copied().unwrap_or(self.head)
    }

    /// The generation of the schema of its rows.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// The reason why its rows no longer reach the file of that name: somebody cut it short, removed it or
    /// wrote to it. It needs a system call; once a second is often enough. Anonymous memory has no such
    /// problem.
    pub fn problem(&self) -> Option<&'static str> {
        if !self.schema.is_in_file() {
            return None;
        }
        let is_ours = self.memory.load(WORDS_AT + word::HEAD as u64 * 8, Ordering::Relaxed) == self.head;
        let problem = self.memory.problem(&self.file, DATA_AT + self.size);
        problem.or((!is_ours).then_some("somebody else has written to it"))
    }

    /// Publishes when the writer started.
    pub fn set_started(&self, now: Stamp) {
        self.set_word(word::STARTED, now.boot.0);
    }

    /// Publishes the lane's current period.
    pub fn set_period(&self, period: Nanos) {
        self.set_word(word::PERIOD, period.0);
    }

    fn set_word(&self, word: usize, value: u64) {
        self.memory.store(WORDS_AT + word as u64 * 8, value, Ordering::Release);
    }

    /// Begins a new block with these bytes (a header and its key row). `false`, and nothing written, if they
    /// are larger than the ring.
    pub fn begin(&mut self, bytes: &[u8]) -> bool {
        if self.blocks.len() == self.blocks_max {
            self.blocks.pop_front();
        }
        let at = self.head;
        self.blocks.push_back(at);
        if !self.append(bytes) {
            self.blocks.pop_back();
            return false;
        }
        self.set_word(word::NEWEST, at);
        true
    }

    /// Appends whole rows to the open block. `false`, and nothing written, if the block would become larger
    /// than the ring.
    pub fn append(&mut self, bytes: &[u8]) -> bool {
        // The last word is written as a whole, including the bytes after the end.
        let end = (self.head + bytes.len() as u64).next_multiple_of(8);
        let open = self.blocks.back().copied().unwrap_or(self.head);
        if end - open > self.size {
            return false;
        }
        while self.blocks.front().is_some_and(|&oldest| end - oldest > self.size) {
            self.blocks.pop_front();
        }
        let oldest = self.oldest();
        self.memory.store(WORDS_AT + word::TAIL as u64 * 8, oldest, Ordering::Relaxed);
        fence(Ordering::Release);
        let at = self.head & (self.size - 1);
        let (first, rest) = bytes.split_at(bytes.len().min((self.size - at) as usize));
        self.memory.copy_in(DATA_AT + at, first);
        self.memory.copy_in(DATA_AT, rest);
        self.head += bytes.len() as u64;
        self.set_word(word::HEAD, self.head);
        true
    }

    /// Replaces the open block's first header with its final one.
    pub fn close(&mut self, header: &Header) {
        let Some(&at) = self.blocks.back() else { return };
        close_block(&self.memory, self.size, at, header);
    }

    /// Appends to the schema of this generation; call it before the block that has the new slots.
    ///
    /// # Errors
    /// The area is full, or the system has no page for it. Nothing was written, and the slots must wait.
    pub fn extend_schema(&mut self, bytes: &[u8]) -> Result<(), SchemaFull> {
        let new = self.schema.bytes().unwrap_or(0) + bytes.len() as u64;
        self.make_schema_room(self.schema.start() + ENTRY_BYTES + new, self.generation)?;
        self.schema.extend(&self.memory, self.generation, bytes);
        Ok(())
    }

    /// Begins the next generation of slots with this schema; the rows after it have the next generation's number.
    /// Close the open block before. Schemas whose blocks are gone make room; if that is not enough, the ring
    /// gives up its oldest blocks.
    ///
    /// # Errors
    /// The schema is larger than the area, or the system has no page for it. The ring stays in its generation.
    pub fn begin_generation(&mut self, schema: &[u8]) -> Result<(), SchemaFull> {
        let generation = self.generation.checked_add(1).ok_or(SchemaFull)?;
        let bytes = ENTRY_BYTES + schema.len() as u64;
        if bytes > SCHEMA_BYTES {
            return Err(SchemaFull);
        }
        self.schema.put_aside(self.generation, self.head);
        self.make_schema_room(self.schema.start() + bytes, self.generation).inspect_err(|_| {
            self.schema.take_back();
        })?;
        self.schema.extend(&self.memory, generation, schema);
        self.generation = generation;
        self.set_word(word::GENERATION, generation.into());
        Ok(())
    }

    /// Sees to it that the schema area may be written up to `end`, which is counted from where the present
    /// entry begins: that entry may move.
    fn make_schema_room(&mut self, end: u64, generation: u32) -> Result<(), SchemaFull> {
        let wanted = end - self.schema.start();
        self.schema.forget_before(self.oldest());
        self.schema.tidy(&self.memory, wanted, generation);
        while self.schema.start() + wanted > SCHEMA_BYTES {
            let until = self.schema.oldest_end().ok_or(SchemaFull)?;
            self.give_up_blocks(until);
            self.schema.forget_before(self.oldest());
            self.schema.tidy(&self.memory, wanted, generation);
        }
        self.schema.take_pages(&self.file, self.schema.start() + wanted)
    }

    fn oldest(&self) -> u64 {
        self.blocks.front().copied().unwrap_or(self.head)
    }

    /// Gives up the blocks before this position.
    fn give_up_blocks(&mut self, until: u64) {
        while self.blocks.front().is_some_and(|&oldest| oldest < until) {
            self.blocks.pop_front();
        }
        self.set_word(word::TAIL, self.oldest());
        fence(Ordering::Release);
    }
}

/// Writes the closing fields, and then the flag that makes them valid.
pub(crate) fn close_block(memory: &Memory, size: u64, at: u64, header: &Header) {
    const FLAGS: usize = 5;
    const FIELDS: std::ops::Range<usize> = 48..60;
    let bytes = header.to_bytes();
    // A block begins where the last one ended, not at a word: its header shares words with its neighbours,
    // and may continue at the start of the data.
    let put = |i: usize| memory.copy_in(DATA_AT + ((at + i as u64) & (size - 1)), &bytes[i..=i]);
    FIELDS.for_each(put);
    fence(Ordering::Release);
    put(FLAGS);
}
