//! The samples of a window: a ring of fixed size. A sample keeps its slot until it is removed.

/// Times and values, oldest first. The data of a sample lies together, so that a row touches few cache lines of each
/// window.
#[derive(Debug)]
pub(crate) struct Samples {
    ring: Box<[Sample]>,
    first: usize,
    count: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    time: i64,
    value: f64,
    /// The bits of the reading, of which whole numbers are added up exactly.
    bits: u64,
}

impl Samples {
    /// Bytes of one sample.
    pub const BYTES_EACH: usize = size_of::<Sample>();

    pub fn new(rows: usize) -> Self {
        Samples { ring: vec![Sample::default(); rows.max(1)].into(), first: 0, count: 0 }
    }

    pub fn len(&self) -> usize {
        self.count
    }

    pub fn is_full(&self) -> bool {
        self.count == self.ring.len()
    }

    /// Adds a sample; returns its slot. There must be room.
    pub fn add(&mut self, time: i64, value: f64, bits: u64) -> u32 {
        let slot = self.slot(self.count);
        self.ring[slot] = Sample { time, value, bits };
        self.count += 1;
        slot as u32
    }

    /// Removes the oldest one.
    pub fn remove(&mut self) {
        self.first = self.slot(1);
        self.count -= 1;
    }

    pub fn oldest(&self) -> Option<(i64, f64)> {
        (self.count > 0).then(|| self.ring[self.first].point())
    }

    pub fn oldest_slot(&self) -> u32 {
        self.first as u32
    }

    pub fn newest(&self) -> Option<(i64, f64)> {
        let slot = self.slot(self.count.checked_sub(1)?);
        Some(self.ring[slot].point())
    }

    /// The value in a slot.
    #[inline]
    pub fn of_slot(&self, slot: u32) -> f64 {
        self.ring[slot as usize].value
    }

    /// The bits of the newest one.
    pub fn newest_bits(&self) -> Option<u64> {
        Some(self.ring[self.slot(self.count.checked_sub(1)?)].bits)
    }

    /// The bits of the oldest one.
    pub fn oldest_bits(&self) -> u64 {
        self.ring[self.first].bits
    }

    /// Oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (i64, f64)> {
        (0..self.count).map(|number| self.ring[self.slot(number)].point())
    }

    /// Bits, oldest first.
    pub fn iter_bits(&self) -> impl Iterator<Item = u64> {
        (0..self.count).map(|number| self.ring[self.slot(number)].bits)
    }

    /// The slot of a sample, counted from the oldest.
    fn slot(&self, number: usize) -> usize {
        let slot = self.first + number;
        if slot >= self.ring.len() { slot - self.ring.len() } else { slot }
    }
}

impl Sample {
    #[inline]
    fn point(&self) -> (i64, f64) {
        (self.time, self.value)
    }
}
