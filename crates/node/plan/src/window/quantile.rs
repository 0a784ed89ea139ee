//! A quantile of a window: two heaps of slots, one with the values up to the quantile, one with those above it. A sample
//! comes and goes in logarithmic time.

use std::cmp::Ordering;

use super::samples::Samples;

/// The heaps.
#[derive(Debug)]
pub(super) struct Quantile {
    phi: f64,
    /// The highest of them is first.
    lower: Vec<u32>,
    /// The lowest of them is first.
    upper: Vec<u32>,
    /// For each slot its heap and its place there.
    places: Box<[Place]>,
    /// Where the slot is whose sample has gone, until another one takes its place or it is taken out.
    vacant: Option<Place>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Place {
    is_upper: bool,
    at: u32,
}

/// NaN is the lowest.
fn order(one: f64, two: f64) -> Ordering {
    one.partial_cmp(&two).unwrap_or_else(|| two.is_nan().cmp(&one.is_nan()))
}

impl Quantile {
    pub fn new(phi: f64, rows: usize) -> Self {
        let rows = rows.max(1);
        let heap = || Vec::with_capacity(rows);
        Quantile {
            phi,
            lower: heap(),
            upper: heap(),
            places: vec![Place::default(); rows].into(),
            vacant: None,
        }
    }

    /// Adds a sample, after [`Quantile::remove`] of all that go in the same row.
    pub fn add(&mut self, slot: u32, samples: &Samples) {
        if let Some(Place { is_upper, at }) = self.vacant.take() {
            // In most rows one goes and one comes: the heaps keep their sizes.
            self.heap(is_upper)[at as usize] = slot;
            self.rise(is_upper, at as usize, samples);
            let at = self.places[slot as usize].at;
            self.sink(is_upper, at as usize, samples);
            return self.exchange(samples);
        }
        let value = samples.of_slot(slot);
        let is_upper = self.lower.first().is_some_and(|top| order(value, samples.of_slot(*top)).is_gt());
        self.put(is_upper, slot, samples);
        self.balance(samples);
    }

    /// Removes the sample of this slot. Its value stays readable until another sample is added.
    pub fn remove(&mut self, slot: u32, samples: &Samples) {
        self.settle(samples);
        self.vacant = Some(self.places[slot as usize]);
    }

    /// Takes out the sample that has gone, if none took its place.
    pub fn settle(&mut self, samples: &Samples) {
        if let Some(Place { is_upper, at }) = self.vacant.take() {
            self.take(is_upper, at as usize, samples);
            self.balance(samples);
        }
    }

    /// Moves the one sample that may be in the wrong heap.
    fn exchange(&mut self, samples: &Samples) {
        let (Some(&low), Some(&high)) = (self.lower.first(), self.upper.first()) else { return };
        if order(samples.of_slot(low), samples.of_slot(high)).is_gt() {
            (self.lower[0], self.upper[0]) = (high, low);
            self.sink(false, 0, samples);
            self.sink(true, 0, samples);
        }
    }

    pub fn value(&self, samples: &Samples) -> f64 {
        let count = self.lower.len() + self.upper.len();
        match self.phi {
            phi if phi.is_nan() || count == 0 => f64::NAN,
            phi if phi < 0.0 => f64::NEG_INFINITY,
            phi if phi > 1.0 => f64::INFINITY,
            phi => {
                let rank = phi * (count - 1) as f64;
                let weight = rank - rank.floor();
                let Some(low) = self.lower.first().map(|slot| samples.of_slot(*slot)) else {
                    return f64::NAN;
                };
                match self.upper.first() {
                    // Without weight the upper value does not count: infinity times nothing would be NaN.
                    Some(high) if weight > 0.0 => low * (1.0 - weight) + samples.of_slot(*high) * weight,
                    _ => low,
                }
            }
        }
    }

    /// Moves values between the heaps until the lower one ends with the quantile's rank.
    fn balance(&mut self, samples: &Samples) {
        let count = self.lower.len() + self.upper.len();
        let rank = self.phi.clamp(0.0, 1.0) * count.saturating_sub(1) as f64;
        let wanted = if rank.is_nan() { 1 } else { rank.floor() as usize + 1 }.min(count);
        while self.lower.len() != wanted {
            let is_upper = self.lower.len() < wanted;
            let slot = self.take(is_upper, 0, samples);
            self.put(!is_upper, slot, samples);
        }
    }

    fn heap(&mut self, is_upper: bool) -> &mut Vec<u32> {
        if is_upper { &mut self.upper } else { &mut self.lower }
    }

    fn put(&mut self, is_upper: bool, slot: u32, samples: &Samples) {
        let heap = self.heap(is_upper);
        heap.push(slot);
        let at = heap.len() - 1;
        self.rise(is_upper, at, samples);
    }

    /// Takes the slot at a place out of a heap.
    fn take(&mut self, is_upper: bool, at: usize, samples: &Samples) -> u32 {
        let heap = self.heap(is_upper);
        let slot = heap.swap_remove(at);
        if at < heap.len() {
            self.rise(is_upper, at, samples);
            self.sink(is_upper, at, samples);
        }
        slot
    }

    /// True if of two places of a heap the first belongs above the second.
    fn is_above(&self, is_upper: bool, one: usize, two: usize, samples: &Samples) -> bool {
        let heap = if is_upper { &self.upper } else { &self.lower };
        let order = order(samples.of_slot(heap[one]), samples.of_slot(heap[two]));
        if is_upper { order.is_lt() } else { order.is_gt() }
    }

    fn rise(&mut self, is_upper: bool, mut at: usize, samples: &Samples) {
        while at > 0 && self.is_above(is_upper, at, (at - 1) / 2, samples) {
            self.swap(is_upper, at, (at - 1) / 2);
            at = (at - 1) / 2;
        }
        self.note(is_upper, at);
    }

    fn sink(&mut self, is_upper: bool, mut at: usize, samples: &Samples) {
        loop {
            let count = self.heap(is_upper).len();
            let below = (2 * at + 1..(2 * at + 3).min(count))
                .reduce(|best, next| if self.is_above(is_upper, next, best, samples) { next } else { best });
            match below.filter(|below| self.is_above(is_upper, *below, at, samples)) {
                Some(below) => {
                    self.swap(is_upper, at, below);
                    at = below;
                }
                None => return self.note(is_upper, at),
            }
        }
    }

    fn swap(&mut self, is_upper: bool, one: usize, two: usize) {
        self.heap(is_upper).swap(one, two);
        self.note(is_upper, one);
        self.note(is_upper, two);
    }

    fn note(&mut self, is_upper: bool, at: usize) {
        let slot = self.heap(is_upper)[at];
        self.places[slot as usize] = Place { is_upper, at: at as u32 };
    }
}
