//! Single calls, each timed: medians and tails, which a mean would hide. Subtracts the clock's own cost.

use std::time::{Duration, Instant};

use crate::error::BenchError;
use crate::spread::{Spread, quantile};

/// Microseconds of single calls, sorted.
pub struct Times(Vec<f64>);

impl Times {
    /// Makes and times this many calls, with a pause between two if one is given.
    pub fn of(
        calls: usize,
        pause: Option<Duration>,
        mut call: impl FnMut() -> Result<(), BenchError>,
    ) -> Result<Self, BenchError> {
        let clock = clock_micros();
        let mut times = Vec::with_capacity(calls);
        for _ in 0..calls {
            if let Some(pause) = pause {
                std::thread::sleep(pause);
            }
            let start = Instant::now();
            call()?;
            times.push((start.elapsed().as_nanos() as f64 / 1e3 - clock).max(0.0));
        }
        Ok(Times::from(times))
    }

    /// A quantile in microseconds; NaN without calls.
    pub fn at(&self, q: f64) -> f64 {
        if self.0.is_empty() { f64::NAN } else { quantile(&self.0, q) }
    }

    /// Standard deviation in microseconds.
    pub fn deviation(&self) -> f64 {
        let count = self.0.len() as f64;
        let mean = self.0.iter().sum::<f64>() / count;
        (self.0.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / count).sqrt()
    }

    /// All of them, sorted.
    pub fn micros(&self) -> &[f64] {
        &self.0
    }

    /// The number of calls.
    pub fn count(&self) -> usize {
        self.0.len()
    }
}

impl From<Vec<f64>> for Times {
    fn from(mut times: Vec<f64>) -> Self {
        times.sort_by(f64::total_cmp);
        Times(times)
    }
}

/// The cost of reading the clock twice.
fn clock_micros() -> f64 {
    let costs = (0..10_001).map(|_| Instant::now().elapsed().as_nanos() as f64 / 1e3);
    Spread::of(costs).map_or(0.0, |spread| spread.median)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_and_deviation_of_known_times() {
        let times = Times::from(vec![4.0, 2.0, 2.0, 4.0]);
        assert_eq!((times.at(0.0), times.at(0.5), times.at(1.0)), (2.0, 3.0, 4.0));
        assert_eq!((times.deviation(), times.count()), (1.0, 4));
    }
}
