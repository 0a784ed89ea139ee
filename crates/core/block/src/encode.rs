//! Rows to bytes. The encoder keeps the lane's last row, so that the cost of a delta row grows with the
//! changes, not with the slots.

use khz_model::reading::LABELS_STATE;
use khz_model::{Nanos, Stamp};

use crate::header::{HEADER_BYTES, Header};
use crate::label_cells::LabelCells;
use crate::{ROW_LABELS_MAX, varint};

/// Kind bytes of rows.
pub(crate) const KEY: u8 = 1;
pub(crate) const DELTA: u8 = 2;

/// The encoder does not end a block for its size before it has this many rows and spans this much time.
const BLOCK_ROWS_MIN: u32 = 10;
const BLOCK_SPAN_MIN: Nanos = Nanos::from_millis(100);
/// After that, a block ends at this many bytes of rows, or at this many times the bytes of its key row if that is more ...
const BLOCK_BYTES: u32 = 16 << 10;
const BLOCK_KEY_ROWS: u32 = 8;
/// ... or at this many rows, or at this much time.
const BLOCK_ROWS: u32 = 128;
const BLOCK_SPAN: Nanos = Nanos::from_secs(60);
/// The wall clock was set if it moved by more than this against the boot clock.
const CLOCK_STEP: Nanos = Nanos::from_millis(1);

/// The largest row of `slots` slots in bytes: every slot restated, with a value of ten bytes, and the most labels.
pub(crate) const fn row_bytes_max(slots: usize) -> usize {
    slots * 13 + 32 + ROW_LABELS_MAX
}

/// Memory for any row of `slots` slots, so that rows allocate only when the schema grows. A very large schema
/// gets the memory that its rows need in practice, and may allocate once more.
fn room_for(slots: usize) -> usize {
    (slots * 13 + 32).min(slots * 6 + (64 << 10))
}

/// Turns the rows of one lane into the bytes of its blocks.
#[derive(Debug)]
pub struct Encoder {
    lane: u16,
    generation: u32,
    period: Nanos,
    values: Vec<u64>,
    states: Vec<u8>,
    /// The number of the next row in the lane.
    row: u64,
    /// The header of the open block.
    header: Option<Header>,
    rows: u32,
    bytes: u32,
    /// The bytes of the open block's key row.
    key_bytes: u32,
    checksum: crc32fast::Hasher,
    stamp: Stamp,
    /// The labels of the slots whose readings are labels.
    labels: LabelCells,
    /// The body under construction, kept to reuse its memory.
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
            key_bytes: 0,
            checksum: crc32fast::Hasher::new(),
            stamp: Stamp::default(),
            labels: LabelCells::default(),
            body: Vec::new(),
        }
    }

    /// No row of `slots` slots has more bytes.
    pub const fn row_bytes_max(slots: usize) -> usize {
        row_bytes_max(slots)
    }

    /// The number of rows in the open block.
    pub fn rows_open(&self) -> u32 {
        self.rows
    }

    /// The bytes of rows in the open block.
    pub fn bytes_open(&self) -> u32 {
        self.bytes
    }

    /// The number of the next row, which is the number of rows ever written, including rows before
    /// [`Encoder::resume`].
    pub fn rows(&self) -> u64 {
        self.row
    }

    /// The number of slots of the open block.
    pub fn slots(&self) -> usize {
        self.values.len()
    }

    /// Continues a lane that another encoder began: the next row has number `next_row`, and the slots have
    /// the meaning of `generation`. Allowed only between two blocks.
    pub fn resume(&mut self, next_row: u64, generation: u32) {
        assert!(self.header.is_none(), "BUG: a lane is resumed inside an open block");
        self.row = next_row;
        self.generation = generation;
        // The next row restates every slot: labels that are forgotten here must not count as known.
        self.labels = LabelCells::default();
        self.states.clear();
        self.values.clear();
    }

    /// True when a row gathered at `now` begins a new block. The reasons are: no block is open; the open one is
    /// full; the wall clock was set since it began; the row is older than the last one, since time never goes back
    /// within a block. A caller has more reasons. In the gatherer `Lane::record_unrung` also ends a block if the
    /// schema grew, the period changed, or the block with one more row might exceed half the ring; `Lane::renew` ends it for
    /// another generation, and `Lane::refuse` after a row that the ring refused.
    #[inline]
    pub fn wants_new_block(&self, now: Stamp) -> bool {
        let Some(header) = &self.header else { return true };
        self.is_full(now.boot.since(header.stamp.boot))
            || now.boot < self.stamp.boot
            || now.real_offset.abs_diff(header.stamp.real_offset) > CLOCK_STEP.0
    }

    /// The same for a row that another encoder has written before. Its time must stay the same to the nanosecond: the rows of a
    /// block share one offset from boot time to real time, so a row with another offset begins a block.
    #[inline]
    pub fn wants_new_block_of_copies(&self, row: Stamp) -> bool {
        let is_other = |header: &Header| header.stamp.real_offset != row.real_offset;
        self.wants_new_block(row) || self.header.as_ref().is_some_and(is_other)
    }

    /// The rule of `docs/block.md`. A key row costs about a tenth of its block, and a reader that joins has
    /// little to decode.
    #[inline]
    fn is_full(&self, span: Nanos) -> bool {
        if self.rows < BLOCK_ROWS_MIN || span < BLOCK_SPAN_MIN {
            return false;
        }
        let enough = BLOCK_BYTES.max(self.key_bytes.saturating_mul(BLOCK_KEY_ROWS));
        self.bytes >= enough || self.rows >= BLOCK_ROWS || span >= BLOCK_SPAN
    }

    /// Changes the lane's period, from the next block on.
    pub fn set_period(&mut self, period: Nanos) {
        self.period = period;
    }

    /// Opens a block with a key row: appends header and row to `out`. `reading` gives each slot's state and
    /// value bits. Close an open block first.
    pub fn key_row(
        &mut self,
        stamp: Stamp,
        slots: usize,
        reading: impl Fn(usize) -> (u8, u64),
        out: &mut Vec<u8>,
    ) {
        assert!(self.header.is_none(), "BUG: a block is opened while another one is open");
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
            let (state, value) = self.writable(slot, reading(slot));
            self.restate(slot, state, value);
        }
        self.finish_row(KEY, stamp, None, out);
        self.key_bytes = self.bytes;
    }

    /// Appends a delta row to `out`. `changed` names each slot that may have changed, once each and in order.
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
            let (state, value) = self.writable(slot, reading(slot));
            let (old_state, old) = (self.states[slot], self.values[slot]);
            if (state, value) == (old_state, old) {
                continue;
            }
            let gap = (slot - next) as u64;
            if state == 0 && old_state == 0 {
                varint::put(&mut self.body, gap * 2);
                varint::put(&mut self.body, varint::zigzag(value.wrapping_sub(old)));
                self.values[slot] = value;
            } else {
                varint::put(&mut self.body, gap * 2 + 1);
                self.restate(slot, state, value);
            }
            next = slot + 1;
            count += 1;
        }
        self.finish_row(DELTA, stamp, Some(count), out);
    }

    /// The cell as it can be written: labels that are forgotten are not gathered yet, and those for which a row
    /// has no room are out of range.
    #[inline]
    fn writable(&mut self, slot: usize, cell: (u8, u64)) -> (u8, u64) {
        let is_known = cell.0 != LABELS_STATE || cell == (self.states[slot], self.values[slot]);
        if is_known { cell } else { self.labels.keep(slot, cell) }
    }

    /// Appends state and value of a slot to `body`.
    #[inline]
    fn restate(&mut self, slot: usize, state: u8, value: u64) {
        self.states[slot] = state;
        self.values[slot] = value;
        self.body.push(state);
        match state {
            0 => varint::put(&mut self.body, value),
            LABELS_STATE => self.labels.put(slot, &mut self.body),
            _ => {}
        }
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

    /// Closes the open block. Its final header replaces the one at the start of the block. `None` without an
    /// open block.
    pub fn close(&mut self) -> Option<Header> {
        let mut header = self.header.take()?;
        let checksum = std::mem::take(&mut self.checksum).finalize();
        header.closed = Some((std::mem::take(&mut self.rows), std::mem::take(&mut self.bytes), checksum));
        Some(header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of rows in the first block at this period, with `slots` slots of which `changing` change in
    /// every row.
    fn rows_of_a_block(period: Nanos, slots: usize, changing: usize) -> u32 {
        let mut encoder = Encoder::new(0, 1, period);
        let mut out = Vec::new();
        for n in 0.. {
            out.clear();
            let stamp = Stamp { boot: Nanos(1_000_000 + n * period.0), real_offset: 5 };
            let reading = |slot: usize| (0, if slot < changing { (n + 1) * 1_000_003 } else { 1_000_000 });
            if n == 0 {
                assert!(encoder.wants_new_block(stamp));
                encoder.key_row(stamp, slots, reading, &mut out);
            } else if encoder.wants_new_block(stamp) {
                break;
            } else {
                encoder.delta_row(stamp, 0..slots, reading, &mut out);
            }
        }
        encoder.rows_open()
    }

    #[test]
    fn a_block_ends_by_rows_bytes_or_time_whichever_the_rate_makes_first() {
        let hz = |hz: u64| Nanos(1_000_000_000 / hz);
        assert_eq!(rows_of_a_block(hz(1_000), 300, 5), 128);
        assert_eq!(rows_of_a_block(hz(100), 300, 5), 128);
        assert_eq!(rows_of_a_block(hz(1), 300, 5), 60);
        // Everything changes: 16 KiB, or eight key rows if those are more.
        assert_eq!(rows_of_a_block(hz(100), 300, 300), 14);
        assert_eq!(rows_of_a_block(hz(100), 3_000, 300), 71);
        // Never fewer than ten rows, and never less than a tenth of a second.
        assert_eq!(rows_of_a_block(hz(1), 10_000, 10_000), 10);
        assert_eq!(rows_of_a_block(hz(1_000), 3_000, 3_000), 100);
        assert_eq!(rows_of_a_block(Nanos::from_secs(3_600), 300, 5), 10);
    }

    #[test]
    fn a_wall_clock_that_was_set_begins_a_new_block_and_one_that_drifts_does_not() {
        let mut encoder = Encoder::new(0, 1, Nanos::SECOND);
        encoder.key_row(Stamp { boot: Nanos(1), real_offset: 0 }, 1, |_| (0, 1), &mut Vec::new());
        let wants = |offset| encoder.wants_new_block(Stamp { boot: Nanos(2), real_offset: offset });
        assert!(!wants(900_000) && !wants(-900_000));
        assert!(wants(3_600_000_000_000) && wants(-3_600_000_000_000) && wants(i64::MIN));
        let copied =
            |offset| encoder.wants_new_block_of_copies(Stamp { boot: Nanos(2), real_offset: offset });
        assert!(!copied(0) && copied(44) && copied(-44), "a row that is copied keeps its time");
    }

    #[test]
    fn a_row_that_is_older_than_the_last_begins_a_new_block() {
        let mut encoder = Encoder::new(0, 1, Nanos::SECOND);
        let at = |second| Stamp { boot: Nanos::from_secs(second), real_offset: 0 };
        encoder.key_row(at(7), 1, |_| (0, 1), &mut Vec::new());
        encoder.delta_row(at(9), std::iter::empty(), |_| (0, 1), &mut Vec::new());
        assert!(encoder.wants_new_block(at(8)));
        assert!(!encoder.wants_new_block(at(9)) && !encoder.wants_new_block(at(10)));
    }

    #[test]
    fn another_period_holds_from_the_next_block_on() {
        let mut encoder = Encoder::new(0, 1, Nanos::SECOND);
        let mut periods = Vec::new();
        for second in 0..2 {
            encoder.key_row(
                Stamp { boot: Nanos::from_secs(second), real_offset: 0 },
                1,
                |_| (0, 1),
                &mut Vec::new(),
            );
            encoder.set_period(Nanos::from_millis(10));
            periods.push(encoder.close().unwrap().period);
        }
        assert_eq!(periods, [Nanos::SECOND, Nanos::from_millis(10)]);
    }

    #[test]
    fn a_lane_that_is_taken_up_goes_on_numbering() {
        let mut encoder = Encoder::new(0, 1, Nanos::SECOND);
        encoder.resume(1_000_000_007, 3);
        encoder.key_row(Stamp::default(), 1, |_| (0, 1), &mut Vec::new());
        let header = encoder.close().unwrap();
        assert_eq!((header.first_row, header.generation), (1_000_000_007, 3));
        assert_eq!(encoder.rows(), 1_000_000_008);
    }
}
