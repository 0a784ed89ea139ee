//! The slope of the straight line through the samples of a window (least squares), and how far they are from their mean (Welford's
//! method): as Prometheus computes them.

use super::samples::Samples;
use crate::arithmetic::Compensated;
use crate::number::ABSENT;

/// A second.
pub(super) fn slope(samples: &Samples) -> f64 {
    let (Some((zero, first)), count) = (samples.oldest(), samples.len() as f64) else { return ABSENT };
    if count < 2.0 {
        return ABSENT;
    }
    let [mut x_sum, mut y_sum, mut xy_sum, mut xx_sum] = [Compensated::default(); 4];
    let mut is_constant = true;
    for (time, value) in samples.iter() {
        is_constant &= value == first;
        let x = time.wrapping_sub(zero) as f64 / 1e9;
        x_sum.add(x);
        y_sum.add(value);
        xy_sum.add(x * value);
        xx_sum.add(x * x);
    }
    if is_constant {
        return if first.is_infinite() { f64::NAN } else { 0.0 };
    }
    let (x, y) = (x_sum.total(), y_sum.total());
    let covariance = xy_sum.total() - x * y / count;
    let variance = xx_sum.total() - x * x / count;
    covariance / variance
}

pub(super) fn variance(samples: &Samples) -> f64 {
    let (mut mean, mut squares, mut count) = (Compensated::default(), Compensated::default(), 0.0);
    for (_, value) in samples.iter() {
        count += 1.0;
        let distance = value - mean.total();
        mean.add(distance / count);
        squares.add(distance * (value - mean.total()));
    }
    if count == 0.0 { ABSENT } else { squares.total() / count }
}
