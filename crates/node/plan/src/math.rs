//! Functions of one value.

use crate::plan::Math;

impl Math {
    #[inline]
    pub(crate) fn of(self, value: f64) -> f64 {
        match self {
            Math::Negate => -value,
            Math::Abs => value.abs(),
            Math::Ceil => value.ceil(),
            Math::Floor => value.floor(),
            Math::Round(to) => round(value, to),
            Math::Clamp(low, high) => at_least(at_most(value, high), low),
            Math::AtLeast(low) => at_least(value, low),
            Math::AtMost(high) => at_most(value, high),
            Math::Sqrt => value.sqrt(),
            Math::Ln => value.ln(),
            Math::Exp => value.exp(),
            Math::Log2 => value.log2(),
            Math::Log10 => value.log10(),
            Math::Sgn => match value {
                value if value < 0.0 => -1.0,
                value if value > 0.0 => 1.0,
                value => value,
            },
        }
    }
}

/// To the nearest multiple; of two, to the higher one.
fn round(value: f64, to: f64) -> f64 {
    let inverse = 1.0 / to;
    (value * inverse + 0.5).floor() / inverse
}

/// The larger; NaN if one of them is, and the other is not infinite anyway.
fn at_least(value: f64, low: f64) -> f64 {
    let unknown = (value.is_nan() || low.is_nan()) && value != f64::INFINITY && low != f64::INFINITY;
    if unknown { f64::NAN } else { value.max(low) }
}

/// The smaller, likewise.
fn at_most(value: f64, high: f64) -> f64 {
    let unknown =
        (value.is_nan() || high.is_nan()) && value != f64::NEG_INFINITY && high != f64::NEG_INFINITY;
    if unknown { f64::NAN } else { value.min(high) }
}
