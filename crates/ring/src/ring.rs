//! The ring itself: bytes appended at `head`, whole blocks given up at `tail`.
//!
//! ```text
//! word 0   head: bytes ever written; everything before it is complete
//! word 1   tail: bytes given up; everything before it may be overwritten at any moment
//! word 2   newest: where the newest block begins
//! word 8.. data, a power of two of bytes; byte p of the stream stands at p modulo that size
//! ```
//!
//! The writer gives up old blocks *before* it overwrites them (tail, then a release fence, then data, then
//! head); a reader copies first and looks at tail afterwards (data, then an acquire fence, then tail). If tail
//! has not passed the copied bytes, none of them was overwritten while it copied.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use khz_block::{HEADER_BYTES, Header};

use crate::memory::{Memory, RingError};

const HEAD: usize = 0;
const TAIL: usize = 1;
const NEWEST: usize = 2;
const DATA: usize = 8;

/// A ring holds at most this many blocks, however small they are: the writer remembers where each begins.
const BLOCKS_MAX: usize = 16_384;

/// The reader was too slow: the bytes it wanted are given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("overtaken by the writer")]
pub struct Overtaken;

/// A ring of `bytes` bytes, rounded down to a power of two (64 KiB at least).
pub fn ring(bytes: usize) -> Result<(Writer, Reader), RingError> {
    let size = 1usize << bytes.max(1 << 16).ilog2();
    let memory = Arc::new(Memory::new(DATA + size / 8)?);
    let writer = Writer {
        memory: memory.clone(),
        size: size as u64,
        head: 0,
        blocks: VecDeque::with_capacity(BLOCKS_MAX),
        partial: 0,
    };
    Ok((writer, Reader { memory, size: size as u64 }))
}

/// The one that appends.
#[derive(Debug)]
pub struct Writer {
    memory: Arc<Memory>,
    size: u64,
    head: u64,
    /// Where the blocks that the ring still holds begin, oldest first.
    blocks: VecDeque<u64>,
    /// The word at head as far as it is written.
    partial: u64,
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

    /// Begins a new block with these bytes (a header and its key row). `false`: larger than the ring, nothing
    /// was written.
    pub fn begin(&mut self, bytes: &[u8]) -> bool {
        if self.blocks.len() == BLOCKS_MAX {
            self.blocks.pop_front();
        }
        self.blocks.push_back(self.head);
        if !self.append(bytes) {
            self.blocks.pop_back();
            return false;
        }
        self.memory.words()[NEWEST].store(self.blocks.back().copied().unwrap_or(0), Ordering::Release);
        true
    }

    /// Appends to the open block. `false`: the block would be larger than the ring; nothing was written.
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
        let words = self.memory.words();
        words[TAIL].store(self.blocks.front().copied().unwrap_or(self.head), Ordering::Relaxed);
        fence(Ordering::Release);
        self.copy_in(bytes);
        self.memory.words()[HEAD].store(self.head, Ordering::Release);
        true
    }

    /// Writes the open block's final header over its first one.
    pub fn close(&mut self, header: &Header) {
        let Some(&at) = self.blocks.back() else { return };
        // Blocks begin wherever the last one ended, so the header's words are shared with their neighbours. From
        // the back, so that the flag that calls the rest final comes last; a reader that still mixes old and
        // new finds no block where it looks next, and stops there.
        for (i, byte) in header.to_bytes().into_iter().enumerate().rev() {
            self.put(at + i as u64, byte);
        }
        let word = &self.memory.words()[DATA + (self.head % self.size / 8) as usize];
        self.partial = word.load(Ordering::Relaxed) & mask_below(self.head % 8);
    }

    fn put(&self, position: u64, byte: u8) {
        let word = &self.memory.words()[DATA + (position % self.size / 8) as usize];
        let shift = position % 8 * 8;
        let kept = word.load(Ordering::Relaxed) & !(0xff << shift);
        word.store(kept | u64::from(byte) << shift, Ordering::Relaxed);
    }

    /// Whole words at a time; the last one stays in `partial` until it is full.
    fn copy_in(&mut self, mut bytes: &[u8]) {
        let memory = self.memory.clone();
        let words = memory.words();
        while !bytes.is_empty() {
            let filled = (self.head % 8) as usize;
            let take = bytes.len().min(8 - filled);
            let mut word = self.partial.to_le_bytes();
            word[filled..filled + take].copy_from_slice(&bytes[..take]);
            let word = u64::from_le_bytes(word);
            words[DATA + (self.head % self.size / 8) as usize].store(word, Ordering::Relaxed);
            self.head += take as u64;
            self.partial = if filled + take == 8 { 0 } else { word };
            bytes = &bytes[take..];
        }
    }
}

const fn mask_below(bytes: u64) -> u64 {
    if bytes == 0 { 0 } else { u64::MAX >> (64 - bytes * 8) }
}

/// One of those that read; cheap to clone.
#[derive(Clone, Debug)]
pub struct Reader {
    memory: Arc<Memory>,
    size: u64,
}

impl Reader {
    /// Bytes ever written.
    pub fn head(&self) -> u64 {
        self.memory.words()[HEAD].load(Ordering::Acquire)
    }

    /// Where the oldest block that is still there begins.
    pub fn oldest(&self) -> u64 {
        self.memory.words()[TAIL].load(Ordering::Acquire)
    }

    /// Where the newest block begins.
    pub fn newest(&self) -> u64 {
        self.memory.words()[NEWEST].load(Ordering::Acquire)
    }

    /// Copies the bytes from `from` up to head, at most `most` of them, behind what is in `out`; tells how many.
    pub fn copy(&self, from: u64, most: usize, out: &mut Vec<u8>) -> Result<usize, Overtaken> {
        let head = self.head();
        if from > head || head - from > self.size {
            return Err(Overtaken);
        }
        let length = (head - from).min(most as u64);
        let start = out.len();
        self.copy_out(from, from + length, out);
        fence(Ordering::Acquire);
        if self.memory.words()[TAIL].load(Ordering::Relaxed) > from {
            out.truncate(start);
            return Err(Overtaken);
        }
        Ok(length as usize)
    }

    fn copy_out(&self, from: u64, to: u64, out: &mut Vec<u8>) {
        let words: &[AtomicU64] = self.memory.words();
        out.reserve((to - from) as usize + 8);
        let mut at = from;
        while at < to {
            let word = words[DATA + (at % self.size / 8) as usize].load(Ordering::Relaxed).to_le_bytes();
            let skip = (at % 8) as usize;
            let take = (8 - skip).min((to - at) as usize);
            out.extend_from_slice(&word[skip..skip + take]);
            at += take as u64;
        }
    }

    /// The header of the block that begins at `at`; `None` when none does.
    pub fn header(&self, at: u64) -> Option<Header> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES + 8);
        self.copy(at, HEADER_BYTES, &mut bytes).ok()?;
        Header::from_bytes(bytes.first_chunk()?, 0).ok()
    }

    /// Where the block behind the one at `at` begins; `None` when that is the newest, or no block begins there.
    pub fn next_block(&self, at: u64) -> Option<u64> {
        let (_, length, _) = self.header(at)?.closed?;
        let next = at + HEADER_BYTES as u64 + u64::from(length);
        (next <= self.newest()).then_some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A block whose row bytes say where they stand in the stream, so that a torn copy shows.
    fn block(number: u64, length: usize) -> Vec<u8> {
        let stamp = khz_model::Stamp { boot: khz_model::Nanos(number), real_offset: 0 };
        let header = Header {
            lane: 1,
            generation: 1,
            slots: 1,
            first_row: number,
            stamp,
            period: khz_model::Nanos(1),
            closed: None,
        };
        let mut bytes = header.to_bytes().to_vec();
        bytes.extend((0..length).map(|i| (number as usize * 31 + i) as u8));
        bytes
    }

    #[test]
    fn bytes_come_out_as_they_went_in_across_the_wrap() {
        let (mut writer, reader) = ring(1 << 16).unwrap();
        let (mut at, mut whole) = (0, Vec::new());
        for number in 0..400 {
            let bytes = block(number, 700 + number as usize % 13);
            assert!(writer.begin(&bytes[..100]) && writer.append(&bytes[100..]));
            whole.clear();
            at += reader.copy(at, usize::MAX, &mut whole).unwrap() as u64;
            assert_eq!(whole, bytes, "block {number}");
        }
        assert!(writer.used() <= writer.size());
    }

    #[test]
    fn a_reader_that_was_overtaken_is_told_so() {
        let (mut writer, reader) = ring(1 << 16).unwrap();
        for number in 0..200 {
            writer.begin(&block(number, 1_000));
        }
        assert_eq!(reader.copy(0, 10, &mut Vec::new()), Err(Overtaken));
        let mut bytes = Vec::new();
        reader.copy(reader.oldest(), HEADER_BYTES, &mut bytes).unwrap();
        assert!(
            Header::from_bytes(bytes.first_chunk().unwrap(), 0).is_ok(),
            "tail is always where a block begins"
        );
    }

    #[test]
    fn closed_blocks_can_be_walked() {
        let (mut writer, reader) = ring(1 << 16).unwrap();
        for number in 0..5u64 {
            let bytes = block(number, 123);
            writer.begin(&bytes);
            let mut header = Header::from_bytes(bytes.first_chunk().unwrap(), 0).unwrap();
            header.closed = Some((1, 123, 0));
            writer.close(&header);
        }
        let mut at = Some(reader.oldest());
        let mut count = 0;
        while let Some(block) = at {
            count += 1;
            at = reader.next_block(block);
        }
        assert_eq!(count, 5);
    }

    #[test]
    fn a_block_begins_at_the_oldest_position_after_every_append() {
        let (mut writer, reader) = ring(1 << 16).unwrap();
        let mut length = 1;
        for number in 0..3_000 {
            // Every remainder modulo 8, and every place in a word.
            length = (length * 37 + 11) % 900 + 1;
            let bytes = block(number, length);
            assert!(writer.begin(&bytes[..HEADER_BYTES]));
            for byte in &bytes[HEADER_BYTES..] {
                assert!(writer.append(&[*byte]));
                assert!(reader.header(reader.oldest()).is_some(), "block {number}");
            }
        }
    }

    #[test]
    fn a_block_larger_than_the_ring_is_refused_whole() {
        let (mut writer, reader) = ring(1 << 16).unwrap();
        assert!(!writer.begin(&block(0, 1 << 17)));
        assert_eq!(reader.head(), 0);
        assert!(writer.begin(&block(1, 10)));
    }

    /// Readers race the writer; every copy that is not refused must be what was written.
    #[test]
    fn no_reader_ever_sees_a_torn_block() {
        let (mut writer, reader) = ring(1 << 16).unwrap();
        let stop = AtomicU64::new(0);
        std::thread::scope(|scope| {
            let readers: Vec<_> = (0..3)
                .map(|_| {
                    scope.spawn(|| {
                        let (mut bytes, mut whole) = (Vec::new(), 0u64);
                        while stop.load(Ordering::Relaxed) == 0 || whole == 0 {
                            bytes.clear();
                            let at = reader.oldest();
                            if reader.head() == 0 || reader.copy(at, 900, &mut bytes).is_err() {
                                continue;
                            }
                            let Some(head) = bytes.first_chunk() else { continue };
                            let number =
                                Header::from_bytes(head, 0).expect("tail is where a block begins").first_row;
                            if bytes.len() == 900 {
                                assert_eq!(bytes, block(number, 900 - HEADER_BYTES));
                                whole += 1;
                            }
                        }
                        whole
                    })
                })
                .collect();
            for number in 0..200_000 {
                let bytes = block(number, 900 - HEADER_BYTES);
                assert!(writer.begin(&bytes[..500]) && writer.append(&bytes[500..]));
            }
            stop.store(1, Ordering::Relaxed);
            for reader in readers {
                assert!(reader.join().unwrap() > 0);
            }
        });
    }
}
