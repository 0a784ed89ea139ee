//! The lowest or highest sample of a window: the slots of the samples that may still become it, the best first. A new
//! sample removes all samples that it beats, so each sample comes and goes once.

use std::collections::VecDeque;

use super::samples::Samples;

/// The candidates.
#[derive(Debug)]
pub(super) struct Extremes {
    is_highest: bool,
    /// Slots, in the order of time. NaN is never among numbers: it counts only if there are no numbers.
    slots: VecDeque<u32>,
}

impl Extremes {
    pub fn new(is_highest: bool, rows: usize) -> Self {
        Extremes { is_highest, slots: VecDeque::with_capacity(rows.max(1)) }
    }

    pub fn add(&mut self, slot: u32, samples: &Samples) {
        let value = samples.of_slot(slot);
        if value.is_nan() {
            return;
        }
        while let Some(&last) = self.slots.back() {
            let known = samples.of_slot(last);
            let is_beaten = if self.is_highest { known <= value } else { known >= value };
            if !is_beaten {
                break;
            }
            self.slots.pop_back();
        }
        self.slots.push_back(slot);
    }

    pub fn remove(&mut self, slot: u32) {
        if self.slots.front() == Some(&slot) {
            self.slots.pop_front();
        }
    }

    pub fn value(&self, samples: &Samples) -> f64 {
        self.slots.front().map_or(f64::NAN, |slot| samples.of_slot(*slot))
    }
}
