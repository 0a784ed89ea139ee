//! The straight line through the samples of a range (least squares).

use khz_plan::arithmetic::Compensated;

use super::{Fold, Window};

/// The sums that give the line. Times are seconds from `zero`.
struct Line {
    zero: Option<i64>,
    first: f64,
    constant: bool,
    count: f64,
    x: Compensated,
    y: Compensated,
    xy: Compensated,
    xx: Compensated,
}

impl Line {
    /// A line whose times count from this one, or else from the first sample.
    fn from(zero: Option<i64>) -> Self {
        let none = Compensated::default();
        Line { zero, first: f64::NAN, constant: true, count: 0.0, x: none, y: none, xy: none, xx: none }
    }

    fn push(&mut self, times: &[i64], values: &[f64]) {
        let zero = *self.zero.get_or_insert(times[0]);
        if self.count == 0.0 {
            self.first = values[0];
        }
        for (&time, &value) in times.iter().zip(values) {
            self.constant &= value == self.first || self.count == 0.0;
            self.count += 1.0;
            let x = time.wrapping_sub(zero) as f64 / 1000.0;
            self.x.add(x);
            self.y.add(value);
            self.xy.add(x * value);
            self.xx.add(x * x);
        }
    }

    /// Slope, and the value at the time from which times count; `None` without two samples.
    fn slope_and_start(&self) -> Option<(f64, f64)> {
        if self.count < 2.0 {
            return None;
        }
        if self.constant {
            return Some(if self.first.is_infinite() { (f64::NAN, f64::NAN) } else { (0.0, self.first) });
        }
        let total = |sum: &Compensated| sum.sum + sum.lost;
        let (x, y) = (total(&self.x), total(&self.y));
        let covariance = total(&self.xy) - x * y / self.count;
        let variance = total(&self.xx) - x * x / self.count;
        let slope = covariance / variance;
        Some((slope, y / self.count - slope * x / self.count))
    }
}

/// `deriv`
pub(crate) struct Deriv(Line);

impl Fold for Deriv {
    fn begin(_: &Window) -> Self {
        Deriv(Line::from(None))
    }

    fn push(&mut self, times: &[i64], values: &[f64]) {
        self.0.push(times, values);
    }

    fn end(&mut self, _: &Window) -> Option<f64> {
        Some(self.0.slope_and_start()?.0)
    }
}

/// `predict_linear`
pub(crate) struct PredictLinear(Line);

impl Fold for PredictLinear {
    fn begin(window: &Window) -> Self {
        PredictLinear(Line::from(Some(window.time)))
    }

    fn push(&mut self, times: &[i64], values: &[f64]) {
        self.0.push(times, values);
    }

    fn end(&mut self, window: &Window) -> Option<f64> {
        let (slope, start) = self.0.slope_and_start()?;
        Some(slope * window.parameter + start)
    }
}
