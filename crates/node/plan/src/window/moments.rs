//! Data for `stddev` and `stdvar` of whole numbers: the sums of a window's values and of their squares. They are exact, so removed
//! values leave no error. It does not handle doubles.

use khz_model::ValueType;

use super::samples::Samples;

/// Values are kept as distances from one of them. If distances are larger than this, the square of a sum of a million distances
/// might not fit into 128 bits.
const FAR: i128 = 1 << 40;

/// The sums, in units of the metric's decimal places.
#[derive(Debug)]
pub(super) struct Moments {
    is_signed: bool,
    /// The value from which distances count; `None`: there is no sample.
    zero: Option<i128>,
    sum: i128,
    squares: i128,
    /// Some sample is too far from the others: samples that come until the next attempt.
    far: Option<usize>,
}

impl Moments {
    /// Of an empty window.
    pub fn new(value_type: ValueType) -> Self {
        Moments { is_signed: value_type == ValueType::Signed, zero: None, sum: 0, squares: 0, far: None }
    }

    fn steps(&self, bits: u64) -> i128 {
        if self.is_signed { i128::from(bits.cast_signed()) } else { i128::from(bits) }
    }

    /// The distance of a sample; `None`: it is too far.
    fn distance(&self, bits: u64) -> Option<i128> {
        let distance = self.steps(bits) - self.zero?;
        (distance.abs() < FAR).then_some(distance)
    }

    fn count(&mut self, distance: i128, sign: i128) {
        self.sum += sign * distance;
        self.squares += sign * distance * distance;
    }

    /// Takes a sample, which is the newest of these.
    pub fn add(&mut self, bits: u64, samples: &Samples) {
        match &mut self.far {
            Some(left) if *left > 0 => {
                *left -= 1;
                return;
            }
            Some(_) => return self.begin(samples),
            None => {}
        }
        if self.zero.is_none() {
            self.zero = Some(self.steps(bits));
        }
        match self.distance(bits) {
            Some(distance) => self.count(distance, 1),
            None => self.begin(samples),
        }
    }

    /// Counts all samples from another one on.
    #[cold]
    fn begin(&mut self, samples: &Samples) {
        self.zero = samples.iter_bits().next().map(|bits| self.steps(bits));
        (self.sum, self.squares, self.far) = (0, 0, None);
        for bits in samples.iter_bits() {
            match self.distance(bits) {
                Some(distance) => self.count(distance, 1),
                None => {
                    // So that a sample costs no more than a step on average.
                    self.far = Some(samples.len());
                    return;
                }
            }
        }
    }

    /// The oldest sample goes.
    pub fn remove(&mut self, bits: u64) {
        if self.far.is_none()
            && let Some(distance) = self.distance(bits)
        {
            self.count(distance, -1);
        }
    }

    /// The variance of this many samples, in squares of units; `None`: compute it from the samples.
    pub fn variance(&self, count: usize) -> Option<f64> {
        let n = count as i128;
        let exact = || (n * self.squares - self.sum * self.sum) as f64 / (count as f64 * count as f64);
        (self.far.is_none() && count > 0).then(exact)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::window::line;

    /// Compares the moments of a window of this many samples with a computation over all samples. Returns in how many rows the
    /// moments were not known.
    fn judge(room: usize, all: impl Iterator<Item = u64>, value_type: ValueType) -> usize {
        let (mut samples, mut moments) = (Samples::new(room), Moments::new(value_type));
        let mut far = 0;
        for (time, bits) in (0..).zip(all) {
            if samples.is_full() {
                moments.remove(samples.oldest_bits());
                samples.remove();
            }
            let value = if value_type == ValueType::Signed { bits.cast_signed() as f64 } else { bits as f64 };
            samples.add(time, value, bits);
            moments.add(bits, &samples);
            let expected = line::variance(&samples);
            match moments.variance(samples.len()) {
                Some(variance) => {
                    let error = (variance - expected).abs();
                    assert!(error <= 1e-12 * expected.max(1e-9), "{variance}, not {expected}");
                }
                None => far += 1,
            }
        }
        far
    }

    #[test]
    fn moments_are_those_of_the_samples_however_long_the_window_slides() {
        let gauge = (0..5_000u64).map(|n| 4_000_000 + n.wrapping_mul(0x9E37_79B9) % 977);
        assert_eq!(judge(60, gauge, ValueType::Unsigned), 0);
        let below = (0..500).map(|n| ((n % 17) as i64 - 9).cast_unsigned());
        assert_eq!(judge(20, below, ValueType::Signed), 0);
        assert_eq!(judge(20, (0..100).map(|_| 7), ValueType::Unsigned), 0, "a constant");
    }

    #[test]
    fn a_sample_that_is_far_from_the_others_is_left_to_those_who_go_through_all_until_it_has_gone() {
        let reset = |n: u64| if n < 300 { (1 << 50) + n } else { n };
        let far = judge(50, (0..1_000).map(reset), ValueType::Unsigned);
        assert!((49..=150).contains(&far), "{far} of 1,000 rows");
    }
}
