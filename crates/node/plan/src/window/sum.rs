//! Sums of windows. Whole numbers are added up exactly, so removed numbers leave no error. A sum of doubles has two parts: one
//! part only grows, and the other is known for each sample that may become the oldest. So nothing is ever subtracted.

use khz_model::ValueType;

use super::samples::Samples;
use crate::arithmetic::Compensated;
use crate::number::Scale;

/// The sum of whole numbers, in units of the metric's decimal places.
#[derive(Debug)]
pub(super) struct ExactSum {
    is_signed: bool,
    sum: i128,
}

impl ExactSum {
    pub fn new(value_type: ValueType) -> Self {
        ExactSum { is_signed: value_type == ValueType::Signed, sum: 0 }
    }

    fn steps(&self, bits: u64) -> i128 {
        if self.is_signed { i128::from(bits.cast_signed()) } else { i128::from(bits) }
    }

    pub fn add(&mut self, bits: u64) {
        // A window has less than 2^32 samples, so the sum has less than 97 bits.
        self.sum += self.steps(bits);
    }

    pub fn remove(&mut self, bits: u64) {
        self.sum -= self.steps(bits);
    }

    pub fn total(&self, scale: &Scale) -> f64 {
        scale.total(self.sum)
    }
}

/// The sum of doubles.
#[derive(Debug)]
pub(super) struct FloatSum {
    /// The sum of the samples that came since the other sums were computed.
    newer: Compensated,
    /// For each older sample, the last one being the oldest, the sum of it and of all older samples that are newer than it.
    older: Vec<Compensated>,
}

impl FloatSum {
    pub fn new(rows: usize) -> Self {
        FloatSum { newer: Compensated::default(), older: Vec::with_capacity(rows.max(1)) }
    }

    pub fn add(&mut self, value: f64) {
        self.newer.add(value);
    }

    /// Removes the oldest of these samples.
    pub fn remove(&mut self, samples: &Samples) {
        if self.older.is_empty() {
            let mut sum = Compensated::default();
            for (_, value) in samples.iter().rev() {
                sum.add(value);
                self.older.push(sum);
            }
            self.newer = Compensated::default();
        }
        self.older.pop();
    }

    pub fn total(&self) -> f64 {
        self.older.last().map_or(self.newer, |older| older.join(self.newer)).total()
    }
}
