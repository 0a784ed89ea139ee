//! The spread of some samples: median, quartiles, extremes, trimmed mean. On a shared machine a single number
//! without its spread means nothing.

/// The part that is left out at each end. It keeps interruptions by other processes out of the mean, and yet
/// does not hide a slow tail as a median would.
const TRIM: f64 = 0.1;

/// The spread of a set of samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The smallest sample.
    pub min: f64,
    /// A quarter of the samples are below it.
    pub lower: f64,
    /// Half of the samples are below it.
    pub median: f64,
    /// Three quarters of the samples are below it.
    pub upper: f64,
    /// The largest sample.
    pub max: f64,
    /// The mean without the lowest and the highest tenth.
    pub trimmed: f64,
    /// How many samples there are.
    pub count: usize,
}

impl Spread {
    /// The spread of `samples`; `None` without samples. Samples that are not numbers are left out.
    pub fn of(samples: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let mut sorted: Vec<f64> = samples.into_iter().filter(|s| s.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        Some(Spread {
            min,
            lower: quantile(&sorted, 0.25),
            median: quantile(&sorted, 0.5),
            upper: quantile(&sorted, 0.75),
            max,
            trimmed: trimmed_mean(&sorted),
            count: sorted.len(),
        })
    }
}

/// The `q`-quantile of sorted samples, interpolated between neighbours.
pub fn quantile(sorted: &[f64], q: f64) -> f64 {
    let at = q * (sorted.len() - 1) as f64;
    let below = sorted[at.floor() as usize];
    let above = sorted[at.ceil() as usize];
    below + (above - below) * at.fract()
}

fn trimmed_mean(sorted: &[f64]) -> f64 {
    let aside = (sorted.len() as f64 * TRIM) as usize;
    let kept = &sorted[aside..sorted.len() - aside];
    kept.iter().sum::<f64>() / kept.len() as f64
}

/// The ratios `a / b`, neighbour by neighbour, so that drift over the run cancels out.
pub fn ratios(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a / b).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_and_quartiles_of_known_samples() {
        let spread = Spread::of([5.0, 1.0, 4.0, 2.0, 3.0]).unwrap();
        assert_eq!((spread.min, spread.lower, spread.median), (1.0, 2.0, 3.0));
        assert_eq!((spread.upper, spread.max, spread.count), (4.0, 5.0, 5));
        assert_eq!(Spread::of([1.0, 2.0]).unwrap().median, 1.5);
        assert_eq!(Spread::of([7.0]).unwrap().trimmed, 7.0);
    }

    #[test]
    fn no_samples_have_no_spread() {
        assert_eq!(Spread::of([]), None);
        assert_eq!(Spread::of([f64::NAN, f64::INFINITY]), None);
    }

    #[test]
    fn one_interruption_does_not_move_the_trimmed_mean() {
        let mut samples = vec![2.0; 19];
        samples.push(1e9);
        assert_eq!(Spread::of(samples).unwrap().trimmed, 2.0);
    }

    #[test]
    fn ratios_pair_neighbours_so_that_drift_cancels() {
        // Both become slower and slower, but one always takes twice the other's time.
        let a = [2.0, 20.0, 200.0];
        let b = [1.0, 10.0, 100.0];
        assert_eq!(Spread::of(ratios(&a, &b)).unwrap().max, 2.0);
    }
}
