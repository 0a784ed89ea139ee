//! The mean. As in Prometheus: a compensated sum through the count, and the mean itself once the sum would overflow.

use khz_plan::arithmetic::Compensated;

use super::{Fold, Window};
use crate::summary::Summary;

/// `avg_over_time`, `avg`
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mean {
    /// The sum, or the mean if `incremental`.
    state: Compensated,
    count: f64,
    incremental: bool,
}

impl Mean {
    #[inline]
    fn add(&mut self, value: f64) {
        self.add_sum(value, 1.0);
    }

    /// Adds values of which the sum and the count are known.
    #[inline]
    fn add_sum(&mut self, value: f64, count: f64) {
        let before = self.count;
        self.count += count;
        if !self.incremental {
            let mut sum = self.state;
            sum.add(value);
            if before == 0.0 || !sum.sum.is_infinite() {
                self.state = sum;
                return;
            }
            self.incremental = true;
            self.state = Compensated { sum: self.state.sum / before, lost: self.state.lost / before };
        }
        let share = before / self.count;
        self.state = Compensated { sum: share * self.state.sum, lost: share * self.state.lost };
        self.state.add(value / self.count);
    }
}

impl Fold for Mean {
    const SUMS: bool = true;

    fn begin(_: &Window) -> Self {
        Mean::default()
    }

    fn push(&mut self, _: &[i64], values: &[f64]) {
        for &value in values {
            self.add(value);
        }
    }

    fn join(&mut self, summary: &Summary) {
        self.add_sum(summary.sum, summary.count as f64);
    }

    fn end(&mut self, _: &Window) -> Option<f64> {
        if self.count == 0.0 {
            return None;
        }
        Some(if self.incremental {
            self.state.sum + self.state.lost
        } else {
            self.state.sum / self.count + self.state.lost / self.count
        })
    }
}
