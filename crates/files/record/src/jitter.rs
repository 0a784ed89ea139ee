//! Jitter: how far the time between two rows is from the period. A histogram in powers of two, so that a day at 1,000 Hz
//! needs no more memory than a second.

/// Deviations of 2^0 to 2^63 ns.
#[derive(Clone, Debug)]
pub struct Jitter {
    buckets: [u64; 64],
    most: u64,
}

impl Default for Jitter {
    fn default() -> Self {
        Jitter { buckets: [0; 64], most: 0 }
    }
}

impl Jitter {
    /// Two rows are `passed` ns apart, and should be `periods` times `period` ns apart.
    pub fn add(&mut self, passed: u64, periods: u64, period: u64) {
        let deviation = passed.abs_diff(period.saturating_mul(periods));
        self.buckets[63 - (deviation | 1).leading_zeros() as usize] += 1;
        self.most = self.most.max(deviation);
    }

    /// The deviation in ns that this share of the rows stays below, to a factor of two; `None` without rows.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let all: u64 = self.buckets.iter().sum();
        let wanted = (all as f64 * share).ceil() as u64;
        let mut seen = 0;
        let bucket = self.buckets.iter().position(|count| {
            seen += count;
            seen >= wanted.max(1)
        })?;
        Some((2u64 << bucket).saturating_sub(1).min(self.most))
    }

    /// The largest deviation, ns.
    pub fn most(&self) -> u64 {
        self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_upper_bounds_within_a_factor_of_two() {
        let mut jitter = Jitter::default();
        assert_eq!(jitter.quantile(0.5), None);
        for deviation in 1..=100u64 {
            jitter.add(1_000_000 + deviation * 1_000, 1, 1_000_000);
        }
        let half = jitter.quantile(0.5).unwrap();
        assert!((50_000..=100_000).contains(&half), "{half}");
        assert_eq!((jitter.quantile(1.0), jitter.most()), (Some(100_000), 100_000));
    }

    #[test]
    fn a_row_after_a_gap_is_measured_against_all_periods_of_the_gap() {
        let mut jitter = Jitter::default();
        jitter.add(5_000_010, 5, 1_000_000);
        assert_eq!(jitter.most(), 10);
    }
}
