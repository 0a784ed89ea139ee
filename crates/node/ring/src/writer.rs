//! Writes a ring: it appends bytes at head and gives up whole blocks at tail. There is one writer. It never waits, and asks
//! the kernel only for pages when a schema outgrows its pages. A ring in anonymous memory may keep fewer bytes than it has
//! room for ([`Writer::keep`]); then it returns the pages of dropped blocks to the kernel.
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
use crate::layout::{Areas, ENTRY_BYTES, Label, NAMELESS_DATA_MIN, PAGE_BYTES, SCHEMA_BYTES, word};
use crate::memory::{Memory, give_back, nameless};
use crate::reader::Reader;
use crate::recover::Recovered;
use crate::schema_area::{Pages, SchemaArea, SchemaFull};

/// The writer remembers the position of each block. If blocks are smaller than this on average, it gives up
/// the oldest ones early.
const BLOCK_BYTES_MEAN: u64 = 1_024;
/// But it remembers at least this many: blocks of a small ring may have a row each.
const BLOCKS_REMEMBERED_MIN: usize = 64;

/// Pages are given back when they are this part of what the ring keeps: each time costs a system call.
const PAGES_PART: u64 = 8;

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
        let size = data_bytes(bytes, NAMELESS_DATA_MIN);
        let areas = Areas::NAMELESS;
        let no_memory = |source| RingError::NoMemory { bytes: size, source };
        let file = nameless(areas.data + size).map_err(no_memory)?;
        let memory = Memory::of(&file, areas.data + size).map_err(no_memory)?;
        Ok(Ring::of(memory, areas, file, size, label, Pages::AsTouched, Recovered::default()))
    }

    /// Makes a ring from prepared memory, for the next generation.
    pub(crate) fn of(
        memory: Memory,
        areas: Areas,
        file: OwnedFd,
        size: u64,
        label: Label,
        pages: Pages,
        found: Recovered,
    ) -> Self {
        let (memory, file) = (Arc::new(memory), Arc::new(file));
        let reader = Reader::new(RingBytes::Mapped(memory.clone()), areas, size, Arc::new(label));
        let reader = reader.with_file(file.clone());
        let mut blocks = found.blocks;
        let blocks_max = blocks_max(size);
        blocks.drain(..blocks.len().saturating_sub(blocks_max));
        blocks.reserve_exact(blocks_max - blocks.len());
        let generation = found.generation + 1;
        let schema = SchemaArea::new(areas, found.schema_end, found.older, pages);
        let head = found.head;
        let writer = Writer {
            memory,
            areas,
            file,
            size,
            kept: size,
            paged_from: head,
            head,
            blocks,
            blocks_max,
            generation,
            schema,
        };
        writer.set_word(word::GENERATION, generation.into());
        writer.set_word(word::PID, rustix::process::getpid().as_raw_nonzero().get() as u64);
        Ring { writer, reader, next_row: found.next_row }
    }
}

/// The number of blocks of which a ring that keeps this many bytes remembers the position.
fn blocks_max(kept: u64) -> usize {
    ((kept / BLOCK_BYTES_MEAN) as usize).max(BLOCKS_REMEMBERED_MIN)
}

/// The size of a ring for which about `bytes` bytes, but at least `min`, were requested.
pub(crate) fn data_bytes(bytes: u64, min: u64) -> u64 {
    1 << bytes.clamp(min, crate::layout::DATA_MAX).ilog2()
}

/// The one writer of a ring.
#[derive(Debug)]
pub struct Writer {
    memory: Arc<Memory>,
    areas: Areas,
    file: Arc<OwnedFd>,
    size: u64,
    /// It gives up blocks so that it holds at most this many bytes: as a rule all for which it has room.
    kept: u64,
    /// Where the part of the stream begins whose pages the kernel has not got back.
    paged_from: u64,
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

    /// From now on the ring holds at most about this many bytes: at least a page, at most its size. A ring in a file has its
    /// size always.
    pub fn keep(&mut self, bytes: u64) {
        let kept = bytes.clamp(NAMELESS_DATA_MIN, self.size);
        if self.schema.is_in_file() || kept == self.kept {
            return;
        }
        // If the ring may hold most of its size, it keeps the pages of earlier dropped blocks, and overwrites them.
        if self.kept > self.size / 4 {
            self.paged_from = self.paged_from.max(self.oldest() & !(PAGE_BYTES as u64 - 1));
        }
        self.kept = kept;
        self.blocks_max = blocks_max(kept);
        let too_many = self.blocks.len().saturating_sub(self.blocks_max);
        let until = self.blocks.get(too_many).copied().unwrap_or(self.head);
        self.give_up_blocks(until);
        // The newest block stays, however large it is: the next row begins another one.
        while self.blocks.len() > 1 && self.used() > kept {
            self.give_up_blocks(self.blocks[1]);
        }
        self.give_back_pages(self.oldest());
        self.blocks.shrink_to(self.blocks_max);
        self.blocks.reserve_exact(self.blocks_max - self.blocks.len());
    }

    /// Gives up the blocks of older generations, with their schemas, where they are in memory without a name.
    pub fn forget_older(&mut self) {
        let Some(until) = self.schema.older_end().filter(|_| !self.schema.is_in_file()) else { return };
        self.give_up_blocks(until);
        self.schema.forget_before(self.oldest().max(until));
        self.schema.tidy(&self.memory, SCHEMA_BYTES, self.generation);
        let (at, bytes) = self.schema.cut();
        if bytes > 0 {
            give_back(&self.file, at, bytes);
        }
    }

    /// The bytes of names that it holds, with those of older generations.
    pub fn schema_bytes(&self) -> u64 {
        self.schema.used()
    }

    /// The bytes that it holds at most.
    pub fn kept(&self) -> u64 {
        self.kept
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
    /// wrote to it. The check needs a system call; once a second is often enough. Anonymous memory has no
    /// such problem.
    pub fn problem(&self) -> Option<&'static str> {
        if !self.schema.is_in_file() {
            return None;
        }
        let is_ours = self.memory.load(self.areas.word(word::HEAD), Ordering::Relaxed) == self.head;
        let problem = self.memory.problem(&self.file, self.areas.data + self.size);
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

    /// Publishes the period that was asked of the lane.
    pub fn set_asked(&self, period: Nanos) {
        self.set_word(word::ASKED, period.0);
    }

    fn set_word(&self, word: usize, value: u64) {
        self.memory.store(self.areas.word(word), value, Ordering::Release);
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
        if end - open > self.kept {
            return false;
        }
        while self.blocks.front().is_some_and(|&oldest| end - oldest > self.kept) {
            self.blocks.pop_front();
        }
        let oldest = self.oldest();
        self.memory.store(self.areas.word(word::TAIL), oldest, Ordering::Relaxed);
        fence(Ordering::Release);
        self.give_back_pages(oldest);
        let at = self.head & (self.size - 1);
        let (first, rest) = bytes.split_at(bytes.len().min((self.size - at) as usize));
        self.memory.copy_in(self.areas.data + at, first);
        self.memory.copy_in(self.areas.data, rest);
        self.head += bytes.len() as u64;
        self.set_word(word::HEAD, self.head);
        true
    }

    /// Gives the pages before this position back, some at a time. A reader that copies zeros out of one then finds that `tail` is past it.
    fn give_back_pages(&mut self, oldest: u64) {
        // If the ring keeps more than that, pages of dropped blocks may already belong to the newest
        // block, one round later.
        if self.kept > self.size / 4 {
            return;
        }
        let until = oldest & !(PAGE_BYTES as u64 - 1);
        if until.saturating_sub(self.paged_from) < (self.kept / PAGES_PART).max(PAGE_BYTES as u64) {
            return;
        }
        while self.paged_from < until {
            let at = self.paged_from & (self.size - 1);
            let bytes = (until - self.paged_from).min(self.size - at);
            give_back(&self.file, self.areas.data + at, bytes);
            self.paged_from += bytes;
        }
    }

    /// Replaces the open block's first header with its final one.
    pub fn close(&mut self, header: &Header) {
        let Some(&at) = self.blocks.back() else { return };
        close_block(&self.memory, self.areas.data, self.size, at, header);
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

    /// Makes room in the schema area up to `end`, counted from the beginning of the present entry, because
    /// that entry may move.
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
pub(crate) fn close_block(memory: &Memory, data: u64, size: u64, at: u64, header: &Header) {
    const FLAGS: usize = 5;
    const FIELDS: std::ops::Range<usize> = 48..60;
    let bytes = header.to_bytes();
    // A block begins where the last one ended, not at a word: its header shares words with its neighbours,
    // and may continue at the start of the data.
    let put = |i: usize| memory.copy_in(data + ((at + i as u64) & (size - 1)), &bytes[i..=i]);
    FIELDS.for_each(put);
    fence(Ordering::Release);
    put(FLAGS);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::tests::label;

    const PAGE: u64 = PAGE_BYTES as u64;

    fn writer(bytes: u64, kept: u64) -> Writer {
        let mut writer = Ring::anonymous(bytes, label()).unwrap().writer;
        writer.keep(kept);
        writer
    }

    fn pages(writer: &Writer) -> u64 {
        rustix::fs::fstat(&writer.file).unwrap().st_blocks as u64 * 512 / PAGE
    }

    #[test]
    fn an_empty_ring_without_a_name_has_one_page() {
        let mut writer = writer(1 << 20, 1 << 20);
        writer.extend_schema(&[7; 900]).unwrap();
        assert_eq!(pages(&writer), 1);
        assert!(writer.begin(&[1; 100]));
        assert_eq!(pages(&writer), 2);
    }

    #[test]
    fn a_ring_that_is_to_keep_little_never_has_much_more_memory_than_that() {
        for kept in [PAGE, 5 * PAGE, 64 * PAGE] {
            let mut writer = writer(1 << 20, kept);
            for number in 0..20_000 {
                assert!(writer.begin(&vec![1; 300 + number % 700]));
                assert!(writer.used() <= kept);
                let most = kept / PAGE + (kept / PAGES_PART).div_ceil(PAGE) + 3;
                assert!(pages(&writer) <= most, "{kept} bytes, block {number}: {} pages", pages(&writer));
            }
            // For blocks smaller than a kilobyte, it remembers one position for each kilobyte.
            assert!(writer.used() > kept / 2, "{} of {kept}", writer.used());
        }
    }

    #[test]
    fn a_ring_that_is_to_keep_less_gives_the_rest_back_at_once_except_its_newest_block() {
        let mut writer = writer(1 << 20, 64 * PAGE);
        (0..2_000).for_each(|_| assert!(writer.begin(&[1; 1_000])));
        assert!(pages(&writer) > 60);
        writer.keep(4 * PAGE);
        assert!(writer.used() <= 4 * PAGE && writer.used() > 3 * PAGE, "{}", writer.used());
        assert!(pages(&writer) <= 8, "{} pages", pages(&writer));
        writer.keep(16 * PAGE);
        assert!(writer.begin(&[1; 5 * PAGE as usize]));
        writer.keep(2 * PAGE);
        assert_eq!(writer.used(), 5 * PAGE, "its newest block, until the next one begins");
        assert!(!writer.append(&[1; 10]) && writer.begin(&[1; 10]));
        assert_eq!(writer.used(), 10);
    }

    #[test]
    fn names_of_older_generations_are_given_back_with_their_rows() {
        let mut writer = writer(1 << 20, 4 * PAGE);
        writer.extend_schema(&[7; 100 * PAGE as usize]).unwrap();
        assert!(writer.begin(&[1; 100]));
        writer.forget_older();
        assert_eq!((writer.used(), writer.schema_bytes() > 100 * PAGE), (100, true), "there is no older one");
        writer.begin_generation(&[8; 50 * PAGE as usize]).unwrap();
        assert!(writer.begin(&[2; 200]));
        assert!(writer.schema_bytes() > 150 * PAGE && pages(&writer) > 150);
        writer.forget_older();
        assert_eq!(writer.used(), 200);
        assert!(writer.schema_bytes() <= 52 * PAGE && pages(&writer) <= 54, "{} pages", pages(&writer));
        writer.extend_schema(&[9; PAGE as usize]).unwrap();
        let reader = Reader::new(
            RingBytes::Mapped(writer.memory.clone()),
            writer.areas,
            writer.size,
            Arc::new(label()),
        );
        let mut names = Vec::new();
        assert_eq!(reader.schema(writer.generation(), 0, usize::MAX, &mut names), Some(51 * PAGE as usize));
        assert!(
            names[..50 * PAGE as usize].iter().all(|&byte| byte == 8) && names.ends_with(&[9; PAGE as usize])
        );
    }

    #[test]
    fn a_ring_that_is_to_keep_more_does_so_from_then_on() {
        let mut writer = writer(1 << 20, PAGE);
        (0..100).for_each(|_| assert!(writer.begin(&[1; 1_000])));
        assert!(!writer.begin(&[1; 5_000]), "larger than what it keeps");
        writer.keep(16 * PAGE);
        (0..100).for_each(|_| assert!(writer.begin(&[1; 5_000])));
        assert!(writer.used() > 15 * PAGE - 5_000 && writer.used() <= 16 * PAGE);
        writer.keep(u64::MAX);
        (0..300).for_each(|_| assert!(writer.begin(&[1; 5_000])));
        assert_eq!((writer.kept(), writer.used() > (1 << 20) - 5_000), (1 << 20, true));
    }
}
