//! Rows to bytes. The encoder keeps the lane's last row; a delta row costs what changed, not what there is.

use khz_model::{Nanos, Stamp};

use crate::header::{HEADER_BYTES, Header};
use crate::varint;

/// Kind bytes of rows.
pub(crate) const KEY: u8 = 1;
pub(crate) const DELTA: u8 = 2;

/// Bytes of the largest row of so many slots: each restated, with a value of ten bytes.
const fn row_bytes_max(slots: usize) -> usize {
    slots * 13 + 32
}

/// Memory for any row of so many slots, so that rows allocate only when the schema grows. Very large schemas
/// get what their rows take in practice and may grow once more.
fn room_for(slots: usize) -> usize {
    row_bytes_max(slots).min(slots * 6 + (64 << 10))
}

/// Turns the rows of one lane into the bytes of one block after the other.
#[derive(Debug)]
pub struct Encoder {
    lane: u16,
    generation: u32,
    period: Nanos,
    values: Vec<u64>,
    states: Vec<u8>,
    /// Rows written in all.
    row: u64,
    /// Header of the open block.
    header: Option<Header>,
    rows: u32,
    bytes: u32,
    checksum: crc32fast::Hasher,
    stamp: Stamp,
    /// The body under construction, kept for its memory.
    body: Vec<u8>,
}

impl Encoder {
    /// An encoder without an open block.
    pub fn new(lane: u16, generation: u32, period: Nanos) -> Self {
        Encoder {
            lane,
            generation,
            period,
            values: Vec::new(),
            states: Vec::new(),
            row: 0,
            header: None,
            rows: 0,
            bytes: 0,
            checksum: crc32fast::Hasher::new(),
            stamp: Stamp::default(),
            body: Vec::new(),
        }
    }

    /// No row of so many slots has more bytes.
    pub const fn row_bytes_max(slots: usize) -> usize {
        row_bytes_max(slots)
    }

    /// Rows in the open block.
    pub fn rows_open(&self) -> u32 {
        self.rows
    }

    /// Bytes of rows in the open block.
    pub fn bytes_open(&self) -> u32 {
        self.bytes
    }

    /// Rows written in all.
    pub fn rows(&self) -> u64 {
        self.row
    }

    /// Slots of the open block.
    pub fn slots(&self) -> usize {
        self.values.len()
    }

    /// Changes the lane's period, from the next block on.
    pub fn set_period(&mut self, period: Nanos) {
        self.period = period;
    }

    /// Opens a block with a key row: appends header and row to `out`. `reading` gives each slot's state and
    /// value bits. A block that is still open must be closed first.
    pub fn key_row(
        &mut self,
        stamp: Stamp,
        slots: usize,
        reading: impl Fn(usize) -> (u8, u64),
        out: &mut Vec<u8>,
    ) {
        assert!(self.header.is_none(), "BUG: a block is opened before the one before it was closed");
        self.values.resize(slots, 0);
        self.states.resize(slots, 0);
        self.body.clear();
        self.body.reserve(room_for(slots));
        out.reserve(room_for(slots) + HEADER_BYTES);
        let (lane, generation, period) = (self.lane, self.generation, self.period);
        let header = Header {
            lane,
            generation,
            slots: slots as u32,
            first_row: self.row,
            stamp,
            period,
            closed: None,
        };
        out.extend_from_slice(&header.to_bytes());
        self.header = Some(header);
        for slot in 0..slots {
            let (state, value) = reading(slot);
            self.states[slot] = state;
            self.values[slot] = value;
            self.body.push(state);
            if state == 0 {
                varint::put(&mut self.body, value);
            }
        }
        self.finish_row(KEY, stamp, None, out);
    }

    /// Appends a delta row to `out`. `changed` names each slot that may have changed, once and in order.
    pub fn delta_row(
        &mut self,
        stamp: Stamp,
        changed: impl Iterator<Item = usize>,
        reading: impl Fn(usize) -> (u8, u64),
        out: &mut Vec<u8>,
    ) {
        self.body.clear();
        let (mut count, mut next) = (0u64, 0usize);
        for slot in changed {
            let (state, value) = reading(slot);
            let (old_state, old) = (self.states[slot], self.values[slot]);
            if (state, value) == (old_state, old) {
                continue;
            }
            let gap = (slot - next) as u64;
            if state == 0 && old_state == 0 {
                varint::put(&mut self.body, gap * 2);
                varint::put(&mut self.body, varint::zigzag(value.wrapping_sub(old)));
            } else {
                varint::put(&mut self.body, gap * 2 + 1);
                self.body.push(state);
                if state == 0 {
                    varint::put(&mut self.body, value);
                }
            }
            self.states[slot] = state;
            self.values[slot] = value;
            next = slot + 1;
            count += 1;
        }
        self.finish_row(DELTA, stamp, Some(count), out);
    }

    /// Writes a row around the entries in `body`.
    fn finish_row(&mut self, kind: u8, stamp: Stamp, entries: Option<u64>, out: &mut Vec<u8>) {
        let start = out.len();
        let elapsed = if kind == KEY { 0 } else { stamp.boot.since(self.stamp.boot).0 };
        let before = varint::length(elapsed) + entries.map_or(0, varint::length);
        out.push(kind);
        varint::put(out, (before + self.body.len()) as u64);
        varint::put(out, elapsed);
        if let Some(entries) = entries {
            varint::put(out, entries);
        }
        out.extend_from_slice(&self.body);
        self.checksum.update(&out[start..]);
        self.bytes += (out.len() - start) as u32;
        self.rows += 1;
        self.row += 1;
        self.stamp = stamp;
    }

    /// Ends the open block; its final header goes where its first one stands. `None` without an open block.
    pub fn close(&mut self) -> Option<Header> {
        let mut header = self.header.take()?;
        let checksum = std::mem::take(&mut self.checksum).finalize();
        header.closed = Some((std::mem::take(&mut self.rows), std::mem::take(&mut self.bytes), checksum));
        Some(header)
    }
}
