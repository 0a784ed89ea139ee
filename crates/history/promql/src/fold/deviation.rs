//! How far values are from their mean (Welford's method; over a range with compensated sums, as in Prometheus).

use khz_plan::arithmetic::Compensated;

use super::{Fold, Window};

/// The variance of samples in a range.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stdvar {
    count: f64,
    mean: Compensated,
    squares: Compensated,
}

impl Fold for Stdvar {
    fn begin(_: &Window) -> Self {
        Stdvar::default()
    }

    fn push(&mut self, _: &[i64], values: &[f64]) {
        for &value in values {
            self.count += 1.0;
            let distance = value - (self.mean.sum + self.mean.lost);
            self.mean.add(distance / self.count);
            self.squares.add(distance * (value - (self.mean.sum + self.mean.lost)));
        }
    }

    fn end(&mut self, _: &Window) -> Option<f64> {
        (self.count > 0.0).then(|| (self.squares.sum + self.squares.lost) / self.count)
    }
}

/// The square root of it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stddev(Stdvar);

impl Fold for Stddev {
    fn begin(window: &Window) -> Self {
        Stddev(Stdvar::begin(window))
    }

    fn push(&mut self, times: &[i64], values: &[f64]) {
        self.0.push(times, values);
    }

    fn end(&mut self, window: &Window) -> Option<f64> {
        self.0.end(window).map(f64::sqrt)
    }
}

/// The variance of a group, without compensation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spread {
    count: f64,
    mean: f64,
    squares: f64,
}

impl Fold for Spread {
    fn begin(_: &Window) -> Self {
        Spread::default()
    }

    fn push(&mut self, _: &[i64], values: &[f64]) {
        for &value in values {
            self.count += 1.0;
            if self.count == 1.0 {
                self.mean = value;
                self.squares = if value.is_finite() { 0.0 } else { f64::NAN };
                continue;
            }
            let distance = value - self.mean;
            self.mean += distance / self.count;
            self.squares += distance * (value - self.mean);
        }
    }

    fn end(&mut self, _: &Window) -> Option<f64> {
        (self.count > 0.0).then(|| self.squares / self.count)
    }
}
