//! Sums that lose no digits (Kahan's, in Neumaier's form, as Prometheus has it).

use khz_plan::arithmetic::Compensated;

use super::{Fold, Window};
use crate::summary::Summary;

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
