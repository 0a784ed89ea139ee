//! Sums that lose no digits (Kahan's, in Neumaier's form, as Prometheus has it).

use super::{Fold, Window};
use crate::summary::Summary;

/// A sum and what was lost by rounding.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Compensated {
    pub(crate) sum: f64,
    pub(crate) lost: f64,
}

impl Compensated {
    /// Adds a value.
    #[inline]
    pub(crate) fn add(&mut self, value: f64) {
        let sum = self.sum + value;
        if sum.is_infinite() {
            self.lost = 0.0;
        } else if self.sum.abs() >= value.abs() {
            self.lost += (self.sum - sum) + value;
        } else {
            self.lost += (value - sum) + self.sum;
        }
        self.sum = sum;
    }

    /// The sum with what was lost.
    pub(crate) fn total(&self) -> f64 {
        if self.sum.is_infinite() { self.sum } else { self.sum + self.lost }
    }
}

/// `sum_over_time`, `sum`
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sum {
    sum: Compensated,
    any: bool,
}

impl Fold for Sum {
    const SUMS: bool = true;

    fn begin(_: &Window) -> Self {
        Sum::default()
    }

    fn push(&mut self, _: &[i64], values: &[f64]) {
        self.any = true;
        for &value in values {
            self.sum.add(value);
        }
    }

    fn join(&mut self, summary: &Summary) {
        self.any = true;
        self.sum.add(summary.sum);
    }

    fn end(&mut self, _: &Window) -> Option<f64> {
        self.any.then(|| self.sum.total())
    }
}
