//! A lane: a set of sources sampled at one rate, and the ring that its rows go into. It gathers nothing itself;
//! it knows when it is due, which slots changed since its last row, and how to write that row.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, RwLock};

use khz_block::Encoder;
use khz_model::{Instance, Nanos, Rate, Series, Stamp};
use khz_ring::{Reader, RingError, Writer};

use crate::source::Source;
use crate::ticks::Ticks;

/// A block is closed after so many rows, or after the time below, whichever comes later: short enough for a
/// reader that joins, long enough that the key row costs little.
const BLOCK_ROWS: u32 = 10;
const BLOCK_SPAN: Nanos = Nanos::from_millis(100);
/// The wall clock was set when it moved by more than this against the boot clock.
const CLOCK_STEP: Nanos = Nanos::from_millis(1);
/// However slow the lane, a block is closed after this long.
const BLOCK_SPAN_MAX: Nanos = Nanos::from_secs(60);

/// What readers of a lane share with the gather thread.
#[derive(Debug)]
pub(crate) struct LaneView {
    pub name: Instance,
    pub ring: Reader,
    /// What the lane's slots mean. Grows; locked by the gather thread only when it does.
    pub schema: RwLock<Arc<Vec<Series>>>,
    /// Subscriptions that follow the lane.
    pub readers: AtomicUsize,
    /// Present period, ns.
    period: AtomicU64,
}

impl LaneView {
    /// Time between two rows.
    pub fn period(&self) -> Nanos {
        Nanos(self.period.load(Ordering::Relaxed))
    }
}

/// One lane, as the gather thread has it.
pub(crate) struct Lane {
    pub view: Arc<LaneView>,
    pub ticks: Ticks,
    /// The period that was asked for; `ticks` may run slower under the CPU ceiling.
    pub asked: Nanos,
    /// For each source of the agent the shortest time between two gathers for this lane; `None`: not its source.
    members: Vec<Option<Nanos>>,
    /// The lane's slots: source and slot in the source.
    slots: Vec<(u16, u32)>,
    /// For each source the lane's slot of each of its slots.
    by_source: Vec<Vec<u32>>,
    dirty: Vec<u64>,
    encoder: Encoder,
    ring: Writer,
    block_rows: u32,
    /// How far the wall clock stood from the boot clock when the open block began.
    block_offset: i64,
    /// The row under construction, kept for its memory.
    bytes: Vec<u8>,
    /// Rows that did not fit into the ring at all.
    pub refused: u64,
}

impl Lane {
    /// A lane of the sources for which `members` has a refresh; its first tick is the next multiple of the period.
    pub fn new(
        number: u16,
        name: &str,
        rate: Rate,
        members: Vec<Option<Nanos>>,
        ring_bytes: usize,
        now: Stamp,
    ) -> Result<Self, RingError> {
        let (ring, reader) = khz_ring::ring(ring_bytes)?;
        let period = rate.period();
        let view = LaneView {
            name: Instance::from_kernel(name.as_bytes()),
            ring: reader,
            schema: RwLock::default(),
            readers: AtomicUsize::new(0),
            period: AtomicU64::new(period.0),
        };
        Ok(Lane {
            view: Arc::new(view),
            ticks: Ticks::new(period, now),
            asked: period,
            by_source: vec![Vec::new(); members.len()],
            members,
            slots: Vec::new(),
            dirty: Vec::new(),
            encoder: Encoder::new(number, 1, period),
            ring,
            block_rows: block_rows(period),
            block_offset: 0,
            bytes: Vec::new(),
            refused: 0,
        })
    }

    /// How long the lane lets a gather of that source stand; `None`: the source is not its.
    #[inline]
    pub fn refresh_of(&self, source: usize) -> Option<Nanos> {
        self.members.get(source).copied().flatten()
    }

    /// Runs `factor` times slower than asked.
    pub fn slow_down(&mut self, factor: u64, now: Stamp) {
        let period = Nanos(self.asked.0 * factor);
        if period != self.ticks.period() {
            self.ticks.set_period(period, now);
            self.encoder.set_period(period);
            self.view.period.store(period.0, Ordering::Relaxed);
            self.block_rows = block_rows(period);
        }
    }

    /// Remembers that a source has new readings. Called for every gather, whether this lane is due or not.
    #[inline]
    pub fn note(&mut self, index: usize, source: &Source) {
        if self.members[index].is_none() {
            return;
        }
        if source.slots() > self.by_source[index].len() {
            self.grow(index, source);
        }
        let slots = &self.by_source[index];
        for &slot in source.changed() {
            let slot = slots[slot as usize] as usize;
            self.dirty[slot / 64] |= 1 << (slot % 64);
        }
    }

    #[cold]
    fn grow(&mut self, index: usize, source: &Source) {
        for slot in self.by_source[index].len()..source.slots() {
            self.by_source[index].push(self.slots.len() as u32);
            self.slots.push((index as u16, slot as u32));
        }
        self.dirty.resize(self.slots.len().div_ceil(64), 0);
    }

    /// Tells readers what new slots mean. The schema is complete before a block with these slots begins.
    #[cold]
    fn publish_schema(&mut self, sources: &mut [Source]) {
        let mut series = Vec::with_capacity(self.slots.len());
        for &(source, slot) in &self.slots {
            match sources[source as usize].schema().get(slot as usize) {
                Some(known) => series.push(known.clone()),
                None => return,
            }
        }
        *self.view.schema.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = Arc::new(series);
    }

    /// Appends a row with the sources' present readings.
    pub fn record(&mut self, stamp: Stamp, sources: &mut [Source]) {
        let grown = self.slots.len() != self.encoder.slots();
        if (grown || self.is_full() || self.clock_was_set(stamp))
            && let Some(header) = self.encoder.close()
        {
            self.ring.close(&header);
        }
        if grown {
            self.publish_schema(sources);
        }
        let sources = &*sources;
        let slots = &self.slots;
        let reading = |slot: usize| {
            let (source, slot) = slots[slot];
            let source = &sources[source as usize];
            (source.states()[slot as usize], source.values()[slot as usize])
        };
        self.bytes.clear();
        let written = if self.encoder.rows_open() == 0 {
            self.block_offset = stamp.real_offset;
            self.encoder.key_row(stamp, slots.len(), reading, &mut self.bytes);
            self.ring.begin(&self.bytes)
        } else {
            self.encoder.delta_row(stamp, set_bits(&self.dirty), reading, &mut self.bytes);
            self.ring.append(&self.bytes)
        };
        self.dirty.fill(0);
        if !written {
            self.refuse();
        }
    }

    /// True when the open block has its rows, or when another row might not fit into half the ring with it.
    fn is_full(&self) -> bool {
        let room = self.encoder.bytes_open() as usize + Encoder::row_bytes_max(self.slots.len());
        self.encoder.rows_open() >= self.block_rows || room as u64 > self.ring.size() / 2
    }

    /// True when the wall clock was set since the open block began: a header has one offset for all its rows.
    fn clock_was_set(&self, stamp: Stamp) -> bool {
        stamp.real_offset.abs_diff(self.block_offset) > CLOCK_STEP.0
    }

    /// Not even a key row fits into the ring: nothing was written, and the next row tries again.
    #[cold]
    fn refuse(&mut self) {
        if self.refused == 0 {
            let (name, size, bytes) = (&self.view.name, self.ring.size(), self.bytes.len());
            tracing::warn!(
                "lane {name}: a row of {bytes} bytes does not fit into its ring of {size}: give it more (--ring)"
            );
        }
        self.refused += 1;
        self.encoder.close();
    }

    /// Rows recorded.
    pub fn rows(&self) -> u64 {
        self.encoder.rows() - self.refused
    }

    /// Bytes of the ring in use.
    pub fn ring_used(&self) -> u64 {
        self.ring.used()
    }

    /// Subscriptions that follow it.
    pub fn readers(&self) -> usize {
        self.view.readers.load(Ordering::Relaxed)
    }
}

fn block_rows(period: Nanos) -> u32 {
    let span = BLOCK_SPAN.0.div_ceil(period.0).max(u64::from(BLOCK_ROWS));
    span.min((BLOCK_SPAN_MAX.0 / period.0).max(1)) as u32
}

/// The positions of the bits that are set, in order.
fn set_bits(words: &[u64]) -> impl Iterator<Item = usize> + '_ {
    words.iter().enumerate().flat_map(|(word, &bits)| {
        let mut rest = bits;
        std::iter::from_fn(move || {
            let bit = rest.trailing_zeros() as usize;
            (rest != 0).then(|| {
                rest &= rest - 1;
                word * 64 + bit
            })
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_come_in_order() {
        assert_eq!(set_bits(&[0b1001, 0, 1 << 63]).collect::<Vec<_>>(), [0, 3, 191]);
    }

    #[test]
    fn blocks_are_ten_rows_or_a_tenth_of_a_second_and_never_over_a_minute() {
        let rows = |hz| block_rows(Rate::from_hz(hz).unwrap().period());
        assert_eq!((rows(1), rows(10), rows(100), rows(1_000)), (10, 10, 10, 100));
        assert_eq!(block_rows(Nanos::from_secs(30)), 2);
        assert_eq!(block_rows(Nanos::from_secs(3_600)), 1);
    }
}
