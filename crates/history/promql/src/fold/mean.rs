//! The mean, as a fold.

pub(crate) use khz_plan::arithmetic::Mean;

use super::{Fold, Window};
use crate::summary::Summary;

/// `avg_over_time`, `avg`
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
        self.value()
    }
}
