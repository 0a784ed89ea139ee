//! Quantiles: the only fold that keeps its samples.

use super::{Fold, Window};

/// The φ-quantile of these values, which are then sorted. Between two values it is interpolated; NaN counts as lowest.
pub(crate) fn quantile(phi: f64, values: &mut [f64]) -> f64 {
    if values.is_empty() || phi.is_nan() {
        return f64::NAN;
    }
    if phi < 0.0 {
        return f64::NEG_INFINITY;
    }
    if phi > 1.0 {
        return f64::INFINITY;
    }
    let order =
        |one: &f64, two: &f64| one.partial_cmp(two).unwrap_or_else(|| two.is_nan().cmp(&one.is_nan()));
    let rank = phi * (values.len() - 1) as f64;
    let lower = (rank.floor() as usize).min(values.len() - 1);
    let upper = (lower + 1).min(values.len() - 1);
    let weight = rank - rank.floor();
    // Without weight the upper value does not count: infinity times nothing would be NaN.
    let (_, &mut low, rest) = values.select_nth_unstable_by(lower, order);
    let high = if upper == lower || weight == 0.0 {
        return low;
    } else {
        rest.iter().copied().min_by(order).unwrap_or(low)
    };
    low * (1.0 - weight) + high * weight
}

/// `quantile_over_time`
pub(crate) struct Quantile(Vec<f64>);

impl Fold for Quantile {
    const KEEPS: bool = true;

    fn begin(_: &Window) -> Self {
        Quantile(Vec::new())
    }

    fn push(&mut self, _: &[i64], values: &[f64]) {
        self.0.extend_from_slice(values);
    }

    fn end(&mut self, window: &Window) -> Option<f64> {
        (!self.0.is_empty()).then(|| quantile(window.parameter, &mut self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn infinity_counts_with_its_weight_only_as_in_prometheus_3() {
        // Prometheus 2 multiplied it by nothing, which gave NaN.
        let of = |phi, values: &[f64]| quantile(phi, &mut values.to_vec());
        assert_eq!(of(0.5, &[f64::INFINITY]), f64::INFINITY);
        assert_eq!(of(0.0, &[1.0, f64::INFINITY]), 1.0);
        assert_eq!(of(0.5, &[1.0, 2.0, f64::INFINITY]), 2.0);
        assert_eq!(of(0.5, &[1.0, f64::INFINITY]), f64::INFINITY);
        assert!(of(0.5, &[f64::NEG_INFINITY, f64::INFINITY]).is_nan());
    }
}
