//! A ring that is written: the rows of a channel, in blocks, as an agent's ring has them. It keeps the newest blocks; what they
//! mean is the channel's.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use khz_block::{Encoder, HEADER_BYTES, SchemaEncoder};
use khz_link::{Lane, Overtaken};
use khz_model::{Nanos, Series, Stamp};

/// Bytes of blocks that stay: what the smallest ring of a channel holds at an agent. The newest block stays, however large.
const RING_BYTES: usize = 64 << 10;

/// A lane of rows that were made. Clones are the same ring.
#[derive(Clone)]
pub struct MadeRing(Rc<Made>);

struct Made {
    /// Tells it from every other lane of this process.
    id: u64,
    name: String,
    epoch: u64,
    period: Cell<Nanos>,
    writer: RefCell<Writer>,
}

struct Writer {
    encoder: Encoder,
    schema: SchemaEncoder,
    /// The schema as bytes.
    described: Vec<u8>,
    blocks: VecDeque<Block>,
    /// Bytes ever written.
    head: u64,
    /// The next row begins a block, because the period has changed.
    is_repaced: bool,
    /// Bytes of blocks that stay.
    room: usize,
}

struct Block {
    at: u64,
    bytes: Vec<u8>,
}

impl MadeRing {
    /// A ring without rows, as large as that of a channel.
    pub fn new(id: u64, name: String, epoch: u64, period: Nanos) -> Self {
        Self::with_room(id, name, epoch, period, RING_BYTES)
    }

    /// A ring without rows that keeps this many bytes of blocks.
    pub fn with_room(id: u64, name: String, epoch: u64, period: Nanos, room: usize) -> Self {
        let writer = Writer {
            encoder: Encoder::new(0, 1, period),
            schema: SchemaEncoder::new(),
            described: Vec::new(),
            blocks: VecDeque::new(),
            head: 0,
            is_repaced: false,
            room,
        };
        MadeRing(Rc::new(Made { id, name, epoch, period: Cell::new(period), writer: RefCell::new(writer) }))
    }

    /// Rows come with this period from now on.
    pub fn set_period(&self, period: Nanos) {
        if self.0.period.replace(period) != period {
            let writer = &mut *self.0.writer.borrow_mut();
            writer.encoder.set_period(period);
            writer.is_repaced = true;
        }
    }

    /// Adds the meaning of a slot, in the order of slots. `false`: there is no room for it.
    pub fn describe(&self, series: &Series) -> bool {
        let writer = &mut *self.0.writer.borrow_mut();
        writer.schema.append(series, &mut writer.described).is_ok()
    }

    /// How many slots have a meaning.
    pub fn slots(&self) -> usize {
        self.0.writer.borrow().schema.len()
    }

    /// Writes a row: state and bits of each slot that has a meaning.
    pub fn write(&self, stamp: Stamp, cells: &[(u8, u64)]) {
        let writer = &mut *self.0.writer.borrow_mut();
        let width = cells.len().min(writer.schema.len());
        let is_repaced = std::mem::take(&mut writer.is_repaced);
        if is_repaced || writer.encoder.slots() != width || writer.encoder.wants_new_block(stamp) {
            writer.close();
        }
        writer.row(stamp, &cells[..width]);
    }

    /// Rows ever written.
    #[cfg(test)]
    pub fn rows(&self) -> u64 {
        self.0.writer.borrow().encoder.rows()
    }
}

impl Writer {
    /// Ends the open block, if there is one.
    fn close(&mut self) {
        if let (Some(header), Some(block)) = (self.encoder.close(), self.blocks.back_mut()) {
            block.bytes[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
        }
    }

    fn row(&mut self, stamp: Stamp, cells: &[(u8, u64)]) {
        let is_first = self.encoder.rows_open() == 0;
        if is_first {
            self.blocks.push_back(Block { at: self.head, bytes: Vec::new() });
        }
        let Some(block) = self.blocks.back_mut() else { return };
        let before = block.bytes.len();
        match is_first {
            true => self.encoder.key_row(stamp, cells.len(), |slot| cells[slot], &mut block.bytes),
            false => {
                self.encoder.delta_row(stamp, 0..cells.len(), |slot| cells[slot], &mut block.bytes);
            }
        }
        self.head += (block.bytes.len() - before) as u64;
        while self.blocks.len() > 1 && self.blocks.front().is_some_and(|first| self.is_old(first)) {
            self.blocks.pop_front();
        }
    }

    fn is_old(&self, block: &Block) -> bool {
        self.head - block.at > self.room as u64
    }
}

impl Lane for MadeRing {
    fn id(&self) -> u64 {
        self.0.id
    }

    fn name(&self) -> &str {
        &self.0.name
    }

    fn epoch(&self) -> u64 {
        self.0.epoch
    }

    fn generation(&self) -> u32 {
        1
    }

    fn period(&self) -> Nanos {
        self.0.period.get()
    }

    fn is_regular(&self) -> bool {
        false
    }

    fn head(&self) -> u64 {
        self.0.writer.borrow().head
    }

    fn oldest(&self) -> u64 {
        self.0.writer.borrow().blocks.front().map_or(0, |block| block.at)
    }

    fn newest(&self) -> u64 {
        self.0.writer.borrow().blocks.back().map_or(0, |block| block.at)
    }

    fn copy(&self, from: u64, most: usize, out: &mut Vec<u8>) -> Result<usize, Overtaken> {
        let writer = self.0.writer.borrow();
        if writer.blocks.is_empty() {
            return Ok(0);
        }
        let after = writer.blocks.partition_point(|block| block.at <= from);
        let block = &writer.blocks[after.checked_sub(1).ok_or(Overtaken)?];
        let rest = block.bytes.get((from - block.at) as usize..).unwrap_or_default();
        let piece = &rest[..rest.len().min(most)];
        out.extend_from_slice(piece);
        Ok(piece.len())
    }

    fn schema_bytes(&self, generation: u32) -> Option<u64> {
        (generation == 1).then(|| self.0.writer.borrow().described.len() as u64)
    }

    fn schema(&self, generation: u32, from: u64, most: usize, out: &mut Vec<u8>) -> Option<usize> {
        self.schema_bytes(generation)?;
        let writer = self.0.writer.borrow();
        let rest = writer.described.get(from as usize..)?;
        let piece = &rest[..rest.len().min(most)];
        out.extend_from_slice(piece);
        Some(piece.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_block::{Decoder, Step};
    use khz_model::{Kind, Metric, Unit};
    use std::sync::Arc;

    fn series(name: &str) -> Series {
        let exposed = format!("khz_{}", name.replace('.', "_"));
        Series {
            metric: Arc::new(Metric::plain(name.to_owned(), exposed, Kind::Gauge, Unit::Count)),
            instance: None,
        }
    }

    fn stamp(second: u64) -> Stamp {
        Stamp { boot: Nanos::from_secs(second), real_offset: 0 }
    }

    /// Numbers and values of all rows from the oldest block on, copied in small pieces.
    fn rows(ring: &MadeRing) -> Vec<(u64, Vec<u64>)> {
        let (mut at, mut bytes, mut rows) = (ring.oldest(), Vec::new(), Vec::new());
        while at < ring.head() {
            at += ring.copy(at, 100, &mut bytes).expect("it is there") as u64;
        }
        let (mut decoder, mut rest) = (Decoder::new(), &bytes[..]);
        while !rest.is_empty() {
            match decoder.step(rest).expect("good bytes") {
                Step::Header(length) => rest = &rest[length..],
                Step::Row(length) => {
                    rest = &rest[length..];
                    let values =
                        (0..decoder.slots()).map(|slot| decoder.reading(slot).expect("a slot").bits());
                    rows.push((decoder.next_row() - 1, values.collect()));
                }
                Step::Incomplete => panic!("half a row"),
            }
        }
        rows
    }

    #[test]
    fn rows_are_numbered_and_new_slots_begin_a_block() {
        let ring = MadeRing::new(1, "channel.x".into(), 7, Nanos::SECOND);
        let mut nothing = Vec::new();
        assert_eq!((ring.copy(0, 100, &mut nothing).ok(), ring.head()), (Some(0), 0));
        assert!(ring.describe(&series("a.b")));
        ring.write(stamp(1), &[(0, 5)]);
        // A row may have more slots than are described.
        ring.write(stamp(2), &[(0, 6), (0, 9)]);
        assert!(ring.describe(&series("a.c")));
        ring.write(stamp(3), &[(0, 7), (0, 10)]);
        ring.set_period(Nanos::from_secs(5));
        ring.write(stamp(4), &[(0, 8), (0, 11)]);
        assert_eq!(rows(&ring), [(0, vec![5]), (1, vec![6]), (2, vec![7, 10]), (3, vec![8, 11])]);
        assert_eq!(ring.0.writer.borrow().blocks.len(), 3);
    }

    #[test]
    fn the_oldest_blocks_go_and_a_reader_that_asks_for_them_is_overtaken() {
        let ring = MadeRing::new(1, "channel.x".into(), 7, Nanos::SECOND);
        (0..100).for_each(|n| assert!(ring.describe(&series(&format!("a.b{n}")))));
        for second in 1..2_000 {
            let cells: Vec<(u8, u64)> = (0..100).map(|slot| (0, second * 1_000_003 * slot)).collect();
            ring.write(stamp(second), &cells);
        }
        let held: usize = ring.0.writer.borrow().blocks.iter().map(|block| block.bytes.len()).sum();
        assert!(held <= 2 * RING_BYTES, "{held} bytes");
        assert!(ring.oldest() > 0 && ring.copy(0, 100, &mut Vec::new()).is_err());
        let rows = rows(&ring);
        assert_eq!(rows.last().map(|(number, _)| *number), Some(ring.rows() - 1));
        assert!(rows.windows(2).all(|two| two[1].0 == two[0].0 + 1));
    }
}
