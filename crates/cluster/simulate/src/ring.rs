//! A ring that is never written: knows which blocks a node's lane has by now, and makes their bytes when the
//! hub asks for them. To the link it looks like a real ring. Blocks end where a real agent would end them.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use khz_block::{HEADER_BYTES, Header};
use khz_link::{Lane, Overtaken};
use khz_model::{Nanos, Stamp};

use crate::reel::Reel;
use crate::variation::Variation;

// The numbers of `block/encode.rs`, where they are private; a test below compares the bytes.
/// The ring does not end a block for its size before it has this many rows and spans this much time (`docs/block.md`).
const BLOCK_ROWS_MIN: u64 = 10;
const BLOCK_SPAN_MIN: Nanos = Nanos::from_millis(100);
/// After that, a block ends at this many bytes of rows, or at this many times the bytes of its key row if that is more ...
const BLOCK_BYTES: u64 = 16 << 10;
const BLOCK_KEY_ROWS: u64 = 8;
/// ... or at this many rows, or at this much time.
const BLOCK_ROWS: u64 = 128;
const BLOCK_SPAN: Nanos = Nanos::from_secs(60);

/// What a ring plays, and how.
#[derive(Clone, Debug)]
pub struct Score {
    /// Tells it from every other lane of this process.
    pub id: u64,
    /// The lane's name.
    pub name: String,
    /// The epoch of its row numbers, random.
    pub epoch: u64,
    /// The rows.
    pub reel: Rc<Reel>,
    /// The reel's row at which it begins.
    pub phase: u64,
    /// How this node differs from others.
    pub variation: Variation,
    /// When it gathers row 0.
    pub start: Stamp,
    /// How long a block stays in the ring.
    pub held: Nanos,
    /// It has no period: it gathers a row when somebody asks for one. Each is a block of its own.
    pub is_on_demand: bool,
}

/// A lane of a simulated node. Clones are the same ring.
#[derive(Clone, Debug)]
pub struct PlayedRing(Rc<Played>);

#[derive(Debug)]
struct Played {
    score: Score,
    blocks: RefCell<Blocks>,
    /// Number of rows played.
    next_row: Cell<u64>,
    /// The demand that these rows answer.
    answered: Cell<u32>,
}

#[derive(Debug)]
struct Blocks {
    /// Oldest first; the last one is open. Never empty.
    known: VecDeque<Block>,
    /// Number of bytes ever written.
    head: u64,
    /// The row that begins the block after the open one.
    end_row: u64,
    /// Header and key row of the open block.
    key: Vec<u8>,
}

/// A block, and its position in everything that was ever written.
#[derive(Clone, Copy, Debug)]
struct Block {
    at: u64,
    first_row: u64,
    /// How many periods of the reel after the start of the ring its first row is.
    tick: u64,
    /// Rows, their bytes and checksum; `None` while it is open.
    closed: Option<(u32, u32, u32)>,
}

impl PlayedRing {
    /// A ring with its first row.
    pub fn new(score: Score) -> Self {
        let blocks = Blocks { known: VecDeque::new(), head: 0, end_row: 0, key: Vec::new() };
        let ring =
            Played { score, blocks: RefCell::new(blocks), next_row: Cell::new(0), answered: Cell::new(0) };
        ring.open(&mut ring.blocks.borrow_mut(), (0, 0));
        ring.next_row.set(1);
        PlayedRing(Rc::new(ring))
    }

    /// Plays up to `now`, where the ring has a period.
    pub fn advance(&self, now: Nanos) {
        if now >= self.0.score.start.boot && !self.0.score.is_on_demand {
            self.0.play(self.0.tick(now) + 1);
        }
    }

    /// Gathers a row at `now` to answer a demand.
    pub fn give(&self, ask: u32, now: Nanos) {
        self.0.gather(self.0.tick(now));
        self.0.answered.set(ask);
    }

    /// Number of rows played.
    pub fn rows(&self) -> u64 {
        self.0.next_row.get()
    }

    /// When it gathers the next row.
    pub fn next_tick(&self) -> Nanos {
        Nanos(self.0.score.start.boot.0 + self.0.next_row.get() * self.0.score.reel.period.0)
    }
}

impl Played {
    /// How many periods of the reel have passed since the start.
    fn tick(&self, now: Nanos) -> u64 {
        now.since(self.score.start.boot).0 / self.score.reel.period.0
    }

    /// The position in the reel of the row of this tick.
    fn place(&self, tick: u64) -> u64 {
        self.score.phase + tick
    }

    fn stamp(&self, tick: u64) -> Stamp {
        let Stamp { boot, real_offset } = self.score.start;
        Stamp { boot: Nanos(boot.0 + tick * self.score.reel.period.0), real_offset }
    }

    /// Bytes of the delta rows after `from` up to `to`, both ticks.
    fn deltas(&self, from: u64, to: u64) -> u64 {
        let reel = &self.score.reel;
        reel.bytes_until(self.place(to)) - reel.bytes_until(self.place(from))
    }

    /// Gathers the row of this tick as a block of its own, unless the newest row is that row.
    fn gather(&self, tick: u64) {
        let blocks = &mut *self.blocks.borrow_mut();
        if blocks.known.back().is_some_and(|newest| newest.tick >= tick) {
            return;
        }
        let row = self.next_row.get();
        self.close(blocks);
        self.open(blocks, (row, tick));
        self.next_row.set(row + 1);
    }

    /// Plays until there are `rows` rows, one of each tick.
    fn play(&self, rows: u64) {
        let blocks = &mut *self.blocks.borrow_mut();
        while self.next_row.get() < rows {
            let next = self.next_row.get();
            if next == blocks.end_row {
                self.close(blocks);
                self.open(blocks, (next, next));
                self.next_row.set(next + 1);
                continue;
            }
            let until = rows.min(blocks.end_row);
            blocks.head += self.deltas(next - 1, until - 1);
            self.next_row.set(until);
        }
    }

    /// Begins a block with this row, which is the row of this tick.
    fn open(&self, blocks: &mut Blocks, (row, tick): (u64, u64)) {
        let Score { reel, variation, held, .. } = &self.score;
        let (at, first_row) = (blocks.head, row);
        blocks.key.clear();
        reel.key_row((self.place(tick), row), self.stamp(tick), variation, &mut blocks.key);
        blocks.head += blocks.key.len() as u64;
        blocks.end_row = self.end_row(row, (blocks.key.len() - HEADER_BYTES) as u64);
        blocks.known.push_back(Block { at, first_row, tick, closed: None });
        let held_ticks = held.0 / reel.period.0;
        while blocks.known.get(1).is_some_and(|second| second.tick + held_ticks < tick) {
            blocks.known.pop_front();
        }
    }

    /// The row that begins the next block: the first for which this block is full.
    fn end_row(&self, first: u64, key_bytes: u64) -> u64 {
        let period = self.score.reel.period.0;
        let least = BLOCK_ROWS_MIN.max(BLOCK_SPAN_MIN.0.div_ceil(period));
        let most = BLOCK_ROWS.min(BLOCK_SPAN.0.div_ceil(period)).max(least);
        let enough = BLOCK_BYTES.max(key_bytes * BLOCK_KEY_ROWS);
        let is_full = |rows: u64| key_bytes + self.deltas(first, first + rows - 1) >= enough;
        let (mut low, mut high) = (least, most);
        while low < high {
            let middle = low.midpoint(high);
            if is_full(middle) { high = middle } else { low = middle + 1 }
        }
        first + low
    }

    fn close(&self, blocks: &mut Blocks) {
        let Some(block) = blocks.known.back_mut() else { return };
        let rows = self.next_row.get() - block.first_row;
        let bytes = blocks.head - block.at - HEADER_BYTES as u64;
        let mut checksum = crc32fast::Hasher::new();
        checksum.update(&blocks.key[HEADER_BYTES..]);
        let from = self.score.reel.bytes_until(self.place(block.tick));
        let deltas = bytes as usize + HEADER_BYTES - blocks.key.len();
        self.score.reel.bytes(from, deltas).for_each(|piece| checksum.update(piece));
        block.closed = Some((rows as u32, bytes as u32, checksum.finalize()));
    }

    /// Appends a part of a block.
    fn copy_block(&self, blocks: &Blocks, at: usize, (offset, length): (usize, usize), out: &mut Vec<u8>) {
        let block = blocks.known[at];
        let mut again = Vec::new();
        let is_open = at + 1 == blocks.known.len();
        if !is_open && offset + length > HEADER_BYTES {
            // Only the open block's key row is in memory.
            let (row, tick, variation) = (block.first_row, block.tick, &self.score.variation);
            let reel = &self.score.reel;
            reel.key_row((self.place(tick), row), self.stamp(tick), variation, &mut again);
        }
        let key = if is_open { &blocks.key } else { &again };
        let head = self.header(&block);
        let (mut offset, end) = (offset, offset + length);
        if offset < HEADER_BYTES {
            out.extend_from_slice(&head[offset..end.min(HEADER_BYTES)]);
            offset = end.min(HEADER_BYTES);
        }
        if offset < end && offset < key.len() {
            out.extend_from_slice(&key[offset..end.min(key.len())]);
            offset = end.min(key.len());
        }
        if offset < end {
            let from = self.score.reel.bytes_until(self.place(block.tick)) + (offset - key.len()) as u64;
            self.score.reel.bytes(from, end - offset).for_each(|piece| out.extend_from_slice(piece));
        }
    }

    /// Time between two rows; 0: they come on demand.
    fn period(&self) -> Nanos {
        if self.score.is_on_demand { Nanos(0) } else { self.score.reel.period }
    }

    fn header(&self, block: &Block) -> [u8; HEADER_BYTES] {
        Header {
            lane: 0,
            generation: 1,
            slots: self.score.reel.slots() as u32,
            first_row: block.first_row,
            stamp: self.stamp(block.tick),
            period: self.period(),
            closed: block.closed,
        }
        .to_bytes()
    }
}

impl Lane for PlayedRing {
    fn id(&self) -> u64 {
        self.0.score.id
    }

    fn name(&self) -> &str {
        &self.0.score.name
    }

    fn epoch(&self) -> u64 {
        self.0.score.epoch
    }

    fn generation(&self) -> u32 {
        1
    }

    fn period(&self) -> Nanos {
        self.0.period()
    }

    fn answered(&self) -> u32 {
        self.0.answered.get()
    }

    fn head(&self) -> u64 {
        self.0.blocks.borrow().head
    }

    fn oldest(&self) -> u64 {
        self.0.blocks.borrow().known.front().map_or(0, |block| block.at)
    }

    fn newest(&self) -> u64 {
        self.0.blocks.borrow().known.back().map_or(0, |block| block.at)
    }

    fn copy(&self, from: u64, most: usize, out: &mut Vec<u8>) -> Result<usize, Overtaken> {
        let blocks = &*self.0.blocks.borrow();
        let last = blocks.known.len() - 1;
        // It is usually the newest.
        let at = match blocks.known[last].at <= from {
            true => last,
            false => {
                blocks.known.partition_point(|block| block.at <= from).checked_sub(1).ok_or(Overtaken)?
            }
        };
        let end = blocks.known.get(at + 1).map_or(blocks.head, |next| next.at);
        let offset = from - blocks.known[at].at;
        let length = most.min(end.saturating_sub(from) as usize);
        self.0.copy_block(blocks, at, (offset as usize, length), out);
        Ok(length)
    }

    fn schema_bytes(&self, generation: u32) -> Option<u64> {
        (generation == 1).then_some(self.0.score.reel.schema.len() as u64)
    }

    fn schema(&self, generation: u32, from: u64, most: usize, out: &mut Vec<u8>) -> Option<usize> {
        self.schema_bytes(generation)?;
        let rest = self.0.score.reel.schema.get(from as usize..)?;
        let piece = &rest[..rest.len().min(most)];
        out.extend_from_slice(piece);
        Some(piece.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::tests::recording_of;
    use khz_block::{Decoder, Encoder, RowScanner, Step};
    use std::sync::Arc;

    const START: Stamp = Stamp { boot: Nanos(1_000_000_000_000), real_offset: -5 };

    fn ring(period: Nanos, seed: u64) -> PlayedRing {
        let recording = Arc::new(recording_of(60, 500, |tick, slot| {
            (0, 90_000 + tick * slot as u64 * if slot % 3 == 0 { tick % 5 } else { 1 })
        }));
        PlayedRing::new(Score {
            id: 1,
            name: "base".into(),
            epoch: 9,
            reel: Rc::new(Reel::new(recording, period)),
            phase: 490,
            variation: Variation::of_seed(seed),
            start: START,
            held: Nanos::from_secs(3_600),
            is_on_demand: false,
        })
    }

    /// All bytes of the ring, piece by piece.
    fn all(ring: &PlayedRing, most: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        while (bytes.len() as u64) < ring.head() {
            assert!(ring.copy(bytes.len() as u64, most, &mut bytes).unwrap() > 0);
        }
        bytes
    }

    #[test]
    fn the_bytes_are_those_that_an_encoder_makes_of_the_same_rows() {
        for period in [1, 10, 100, 1_000].map(Nanos::from_millis) {
            let ring = ring(period, 3);
            ring.advance(Nanos(START.boot.0 + 1_300 * period.0 + 1));
            assert_eq!(ring.rows(), 1_301);
            assert_eq!(ring.next_tick(), Nanos(START.boot.0 + 1_301 * period.0));
            let played = all(&ring, 1_000);
            assert_eq!(played, all(&ring, 7));
            let (mut decoder, mut encoder) = (Decoder::new(), Encoder::new(0, 1, period));
            let (mut at, mut begun, mut expected) = (0, 0, Vec::new());
            while at < played.len() {
                let length = match decoder.step(&played[at..]).unwrap() {
                    Step::Header(length) => length,
                    Step::Row(length) => {
                        let reading = |slot: usize| {
                            let reading = decoder.reading(slot).unwrap();
                            (reading.state(), reading.bits())
                        };
                        if encoder.wants_new_block(decoder.stamp()) {
                            if let Some(header) = encoder.close() {
                                expected[begun..begun + HEADER_BYTES].copy_from_slice(&header.to_bytes());
                            }
                            begun = expected.len();
                            encoder.key_row(decoder.stamp(), 60, reading, &mut expected);
                        } else {
                            encoder.delta_row(decoder.stamp(), 0..60, reading, &mut expected);
                        }
                        length
                    }
                    Step::Incomplete => panic!("half a row at {at}"),
                };
                at += length;
            }
            assert!(played == expected, "period {period}");
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_bytes_however_time_passes_and_another_seed_gives_others() {
        let period = Nanos::from_millis(10);
        let (one, two, other) = (ring(period, 3), ring(period, 3), ring(period, 4));
        let until = Nanos(START.boot.0 + 700 * period.0);
        (0..700).for_each(|tick| one.advance(Nanos(START.boot.0 + tick * period.0)));
        [&one, &two, &other].into_iter().for_each(|ring| ring.advance(until));
        assert_eq!(all(&one, 100), all(&two, 5_000));
        assert_ne!(all(&one, 100), all(&other, 100));
    }

    #[test]
    fn on_demand_each_row_that_was_asked_for_is_there_and_no_other() {
        let ring = PlayedRing::new(Score {
            is_on_demand: true,
            held: Nanos::from_secs(30),
            ..ring(Nanos::from_millis(1), 3).0.score.clone()
        });
        assert_eq!(ring.period(), Nanos(0), "it has no rate");
        let mut expected = vec![START];
        for (ask, ms) in [(1, 40), (2, 40), (3, 41), (4, 15_041)] {
            let now = Stamp { boot: Nanos(START.boot.0 + ms * 1_000_000), ..START };
            ring.advance(now.boot);
            ring.give(ask, Nanos(now.boot.0 + 999));
            assert_eq!(ring.answered(), ask);
            expected.push(now);
        }
        expected.dedup();
        let (played, mut decoder, mut at, mut stamps) = (all(&ring, 100), Decoder::new(), 0, Vec::new());
        while at < played.len() {
            at += match decoder.step(&played[at..]).unwrap() {
                Step::Header(length) => length,
                Step::Row(length) => {
                    stamps.push(decoder.stamp());
                    length
                }
                Step::Incomplete => panic!("half a row at {at}"),
            };
        }
        assert_eq!((stamps, ring.rows()), (expected, 4));
        ring.give(5, Nanos(START.boot.0 + 60_000_000_000));
        assert!(ring.oldest() > 0, "old rows go");
    }

    #[test]
    fn old_blocks_go_and_the_others_stay_whole() {
        let ring = PlayedRing::new(Score {
            held: Nanos::from_secs(3),
            ..ring(Nanos::from_millis(10), 3).0.score.clone()
        });
        ring.advance(Nanos(START.boot.0 + 60_000_000_000));
        assert!(ring.oldest() > 0 && ring.copy(ring.oldest() - 1, 10, &mut Vec::new()).is_err());
        let mut block = Vec::new();
        let mut at = ring.oldest();
        let mut rows = 0;
        while at < ring.newest() {
            block.clear();
            let length = ring.copy(at, 1 << 20, &mut block).unwrap();
            let mut scanner = RowScanner::new();
            rows += scanner.feed(&block).unwrap();
            let (count, bytes, crc) = scanner.header().unwrap().closed.unwrap();
            assert_eq!((u64::from(count), bytes as usize), (scanner.rows().into(), length - HEADER_BYTES));
            assert_eq!(crc, crc32fast::hash(&block[HEADER_BYTES..]));
            at += length as u64;
        }
        assert!((200..600).contains(&rows), "{rows}");
    }
}
