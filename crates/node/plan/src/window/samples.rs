//! The samples of a window: a ring of fixed size. A sample keeps its slot until it is removed.

/// Times and values, oldest first.
#[derive(Debug)]
pub(crate) struct Samples {
    times: Box<[i64]>,
    values: Box<[f64]>,
    /// The bits of the readings, of which whole numbers are added up exactly.
    bits: Box<[u64]>,
    first: usize,
    count: usize,
}

impl Samples {
    /// Bytes of one sample.
    pub const BYTES_EACH: usize = size_of::<i64>() + size_of::<f64>() + size_of::<u64>();

    pub fn new(rows: usize) -> Self {
        let rows = rows.max(1);
        let (times, values, bits) = (vec![0; rows].into(), vec![0.0; rows].into(), vec![0; rows].into());
        Samples { times, values, bits, first: 0, count: 0 }
    }

    pub fn len(&self) -> usize {
        self.count
    }

    pub fn is_full(&self) -> bool {
        self.count == self.times.len()
    }

    /// Adds a sample; returns its slot. There must be room.
    pub fn add(&mut self, time: i64, value: f64, bits: u64) -> u32 {
        let slot = self.slot(self.count);
        (self.times[slot], self.values[slot], self.bits[slot]) = (time, value, bits);
        self.count += 1;
        slot as u32
    }

    /// Removes the oldest one.
    pub fn remove(&mut self) {
        self.first = self.slot(1);
        self.count -= 1;
    }

    pub fn oldest(&self) -> Option<(i64, f64)> {
        (self.count > 0).then(|| (self.times[self.first], self.values[self.first]))
    }

    pub fn oldest_slot(&self) -> u32 {
        self.first as u32
    }

    pub fn newest(&self) -> Option<(i64, f64)> {
        let slot = self.slot(self.count.checked_sub(1)?);
        Some((self.times[slot], self.values[slot]))
    }

    /// The value in a slot.
    #[inline]
    pub fn of_slot(&self, slot: u32) -> f64 {
        self.values[slot as usize]
    }

    /// The bits of the newest one.
    pub fn newest_bits(&self) -> Option<u64> {
        Some(self.bits[self.slot(self.count.checked_sub(1)?)])
    }

    /// The bits of the oldest one.
    pub fn oldest_bits(&self) -> u64 {
        self.bits[self.first]
    }

    /// Oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (i64, f64)> {
        (0..self.count).map(|number| {
            let slot = self.slot(number);
            (self.times[slot], self.values[slot])
        })
    }

    /// Bits, oldest first.
    pub fn iter_bits(&self) -> impl Iterator<Item = u64> {
        (0..self.count).map(|number| self.bits[self.slot(number)])
    }

    /// The slot of a sample, counted from the oldest.
    fn slot(&self, number: usize) -> usize {
        let slot = self.first + number;
        if slot >= self.times.len() { slot - self.times.len() } else { slot }
    }
}
