//! Writing a ring: bytes appended at head, whole blocks given up at tail. One writer, which waits for nobody
//! and, but for a schema that outgrows its pages, asks the kernel for nothing.
//!
//! It gives up old blocks *before* it overwrites them (tail, then a release fence, then data, then head); a
//! reader copies first and looks at tail afterwards (data, then an acquire fence, then tail). If tail has not
//! passed the copied bytes, none of them was overwritten while it copied.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use khz_block::Header;
use khz_model::{Nanos, Stamp};
use rustix::fd::OwnedFd;

use crate::error::RingError;
use crate::layout::{DATA_AT, DATA_MIN, ENTRY_BYTES, Label, SCHEMA_AT, SCHEMA_BYTES, WORDS_AT, word};
use crate::memory::{Memory, allocate, nameless};
use crate::reader::Reader;
use crate::recover::Recovered;
use crate::store::Store;

/// The writer remembers where each block begins; blocks smaller than this on average are given up early.
const BLOCK_BYTES_MEAN: u64 = 1_024;
/// Pages of the schema area are taken in steps of this.
pub(crate) const SCHEMA_STEP: u64 = 64 << 10;

/// The schema area has no room for what should be appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no room in the ring's schema area")]
pub struct SchemaFull;

/// The two ends of a ring, and where its rows go on.
#[derive(Debug)]
pub struct Ring {
    /// The one that appends.
    pub writer: Writer,
    /// One that reads.
    pub reader: Reader,
    /// Number of the next row: 0 in a new ring.
    pub next_row: u64,
}

impl Ring {
    /// A ring of about `bytes` bytes in memory without a name, which ends with the process. The size is rounded
    /// down to a power of two.
    pub fn anonymous(bytes: u64, label: Label) -> Result<Self, RingError> {
        let size = data_bytes(bytes);
        let no_memory = |source| RingError::NoMemory { bytes: size, source };
        let file = nameless(DATA_AT + size).map_err(no_memory)?;
        let memory = Memory::of(&file, DATA_AT + size).map_err(no_memory)?;
        memory.copy_in(0, &label.to_page(size));
        Ok(Ring::of(memory, file, size, label, Pages::AsTouched, Recovered::default()))
    }

    /// A ring around memory that is ready, for the next generation.
    pub(crate) fn of(
        memory: Memory,
        file: OwnedFd,
        size: u64,
        label: Label,
        pages: Pages,
        found: Recovered,
    ) -> Self {
        let memory = Arc::new(memory);
        let reader = Reader::new(Store::Mapped(memory.clone()), size, Arc::new(label));
        let mut blocks = found.blocks;
        let blocks_max = (size / BLOCK_BYTES_MEAN) as usize;
        blocks.drain(..blocks.len().saturating_sub(blocks_max));
        blocks.reserve_exact(blocks_max - blocks.len());
        let generation = found.generation + 1;
        let schema = SchemaArea { start: found.schema_end, bytes: None, pages };
        let writer = Writer { memory, file, size, head: found.head, blocks, blocks_max, generation, schema };
        writer.set_word(word::GENERATION, generation.into());
        writer.set_word(word::PID, rustix::process::getpid().as_raw_nonzero().get() as u64);
        Ring { writer, reader, next_row: found.next_row }
    }
}

/// The size that a ring of about so many bytes has.
pub(crate) fn data_bytes(bytes: u64) -> u64 {
    1 << bytes.clamp(DATA_MIN, crate::layout::DATA_MAX).ilog2()
}

/// The one that appends.
#[derive(Debug)]
pub struct Writer {
    memory: Arc<Memory>,
    file: OwnedFd,
    size: u64,
    head: u64,
    /// Where the blocks that the ring still holds begin, oldest first.
    blocks: VecDeque<u64>,
    blocks_max: usize,
    generation: u32,
    schema: SchemaArea,
}

/// The writer's own entry in the schema area.
#[derive(Debug)]
struct SchemaArea {
    /// Offset of the entry in the area.
    start: u64,
    /// Bytes in it; `None`: it has not begun.
    bytes: Option<u64>,
    pages: Pages,
}

/// When the pages of the schema area are taken.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pages {
    /// As they are first written.
    AsTouched,
    /// Before they are written; so many bytes of the area are there.
    Allocated(u64),
}

impl Writer {
    /// Size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Bytes from the oldest block to the end.
    pub fn used(&self) -> u64 {
        self.head - self.blocks.front().copied().unwrap_or(self.head)
    }

    /// Generation of the schema whose rows it writes.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// Why its rows do not reach the file any more that has its name, where they do not: it was cut short, removed or written to by
    /// somebody else. It asks the kernel: once a second is often enough. A ring without a name has no such problem.
    pub fn problem(&self) -> Option<&'static str> {
        let Pages::Allocated(_) = self.schema.pages else { return None };
        let is_ours = self.memory.load(WORDS_AT + word::HEAD as u64 * 8, Ordering::Relaxed) == self.head;
        let problem = self.memory.problem(&self.file, DATA_AT + self.size);
        problem.or((!is_ours).then_some("somebody else has written to it"))
    }

    /// Tells readers when the writer began.
    pub fn set_started(&self, now: Stamp) {
        self.set_word(word::STARTED, now.boot.0);
    }

    /// Tells readers the lane's present period.
    pub fn set_period(&self, period: Nanos) {
        self.set_word(word::PERIOD, period.0);
    }

    fn set_word(&self, word: usize, value: u64) {
        self.memory.store(WORDS_AT + word as u64 * 8, value, Ordering::Release);
    }

    /// Begins a new block with these bytes (a header and its key row). `false`: larger than the ring, nothing
    /// was written.
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

    /// Appends whole rows to the open block. `false`: the block would be larger than the ring; nothing was
    /// written.
    pub fn append(&mut self, bytes: &[u8]) -> bool {
        // The last word is written whole: what stands in its other bytes is overwritten too.
        let end = (self.head + bytes.len() as u64).next_multiple_of(8);
        let open = self.blocks.back().copied().unwrap_or(self.head);
        if end - open > self.size {
            return false;
        }
        while self.blocks.front().is_some_and(|&oldest| end - oldest > self.size) {
            self.blocks.pop_front();
        }
        let oldest = self.blocks.front().copied().unwrap_or(self.head);
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

    /// Writes the open block's final header over its first one.
    pub fn close(&mut self, header: &Header) {
        let Some(&at) = self.blocks.back() else { return };
        close_block(&self.memory, self.size, at, header);
    }

    /// Appends to the schema of this generation; call it before the block that has the new slots.
    ///
    /// # Errors
    /// The area is used up, or the system has no page for it: nothing was written, and the slots must wait.
    pub fn extend_schema(&mut self, bytes: &[u8]) -> Result<(), SchemaFull> {
        let start = self.schema.start;
        let old = self.schema.bytes.unwrap_or(0);
        let new = old + bytes.len() as u64;
        let end = start + ENTRY_BYTES + new;
        if end > SCHEMA_BYTES {
            return Err(SchemaFull);
        }
        self.take_pages(end)?;
        self.memory.copy_in(SCHEMA_AT + start + ENTRY_BYTES + old, bytes);
        self.memory.store(SCHEMA_AT + start, self.generation.into(), Ordering::Relaxed);
        self.memory.store(SCHEMA_AT + start + 8, new, Ordering::Release);
        self.set_word(word::SCHEMA, end);
        self.schema.bytes = Some(new);
        Ok(())
    }

    #[cold]
    fn take_pages(&mut self, end: u64) -> Result<(), SchemaFull> {
        let Pages::Allocated(there) = self.schema.pages else { return Ok(()) };
        if end > there {
            let more = (end - there).next_multiple_of(SCHEMA_STEP).min(SCHEMA_BYTES - there);
            allocate(&self.file, SCHEMA_AT + there, more).map_err(|_| SchemaFull)?;
            self.schema.pages = Pages::Allocated(there + more);
        }
        Ok(())
    }
}

/// The closing fields, and then the flag that says that they are there.
pub(crate) fn close_block(memory: &Memory, size: u64, at: u64, header: &Header) {
    const FLAGS: usize = 5;
    const FIELDS: std::ops::Range<usize> = 48..60;
    let bytes = header.to_bytes();
    // Blocks begin wherever the last one ended: the header's words are shared with their neighbours, and it may
    // lie around the end of the data.
    let put = |i: usize| memory.copy_in(DATA_AT + ((at + i as u64) & (size - 1)), &bytes[i..=i]);
    FIELDS.for_each(put);
    fence(Ordering::Release);
    put(FLAGS);
}
