//! Arithmetic on doubles as PromQL has it: for plans, and for the evaluator, which must give the same.

/// A sum and what was lost by rounding (Neumaier's form of Kahan's sum).
#[derive(Clone, Copy, Debug, Default)]
pub struct Compensated {
    /// The sum as doubles add up.
    pub sum: f64,
    /// The part that rounding lost.
    pub lost: f64,
}

impl Compensated {
    /// Adds a value.
    #[inline]
    pub fn add(&mut self, value: f64) {
        let sum = self.sum + value;
        if sum.is_infinite() {
            self.lost = 0.0;
        } else if self.sum.abs() >= value.abs() {
            self.lost += (self.sum - sum) + value;
        } else {
            self.lost += (value - sum) + self.sum;
        }
        self.sum = sum;
    }

    /// The sum with what was lost.
    pub fn total(&self) -> f64 {
        if self.sum.is_infinite() { self.sum } else { self.sum + self.lost }
    }

    /// Both sums.
    pub(crate) fn join(mut self, other: Compensated) -> Compensated {
        self.add(other.sum);
        self.lost += other.lost;
        self
    }
}

/// A mean: a sum through the count, and the mean itself once the sum would overflow.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mean {
    /// The sum, or the mean if `is_incremental`.
    state: Compensated,
    count: f64,
    is_incremental: bool,
}

impl Mean {
    /// Of these values.
    pub fn of(values: impl Iterator<Item = f64>) -> Self {
        let mut mean = Mean::default();
        values.for_each(|value| mean.add(value));
        mean
    }

    /// Adds a value.
    #[inline]
    pub fn add(&mut self, value: f64) {
        self.add_sum(value, 1.0);
    }

    /// Adds values of which the sum and the count are known.
    #[inline]
    pub fn add_sum(&mut self, value: f64, count: f64) {
        let before = self.count;
        self.count += count;
        if !self.is_incremental {
            let mut sum = self.state;
            sum.add(value);
            if before == 0.0 || !sum.sum.is_infinite() {
                self.state = sum;
                return;
            }
            self.is_incremental = true;
            self.state = Compensated { sum: self.state.sum / before, lost: self.state.lost / before };
        }
        let share = before / self.count;
        self.state = Compensated { sum: share * self.state.sum, lost: share * self.state.lost };
        self.state.add(value / self.count);
    }

    /// The mean; `None` without a value.
    pub fn value(&self) -> Option<f64> {
        let Compensated { sum, lost } = self.state;
        match self.is_incremental {
            _ if self.count == 0.0 => None,
            true => Some(sum + lost),
            false => Some(sum / self.count + lost / self.count),
        }
    }
}

/// To the nearest multiple; halves go up. As in Prometheus, the inverse is used: 0.1 has no exact double, 10 has.
pub fn round(value: f64, to: f64) -> f64 {
    let inverse = 1.0 / to;
    (value * inverse + 0.5).floor() / inverse
}

/// At least `low` and at most `high`.
pub fn clamp(value: f64, low: f64, high: f64) -> f64 {
    at_least(at_most(value, high), low)
}

/// The larger; NaN if one of them is, and the other is not infinite anyway.
pub fn at_least(value: f64, low: f64) -> f64 {
    let unknown = (value.is_nan() || low.is_nan()) && value != f64::INFINITY && low != f64::INFINITY;
    if unknown { f64::NAN } else { value.max(low) }
}

/// The smaller; NaN if one of them is, and the other is not infinite anyway.
pub fn at_most(value: f64, high: f64) -> f64 {
    let unknown =
        (value.is_nan() || high.is_nan()) && value != f64::NEG_INFINITY && high != f64::NEG_INFINITY;
    if unknown { f64::NAN } else { value.min(high) }
}
