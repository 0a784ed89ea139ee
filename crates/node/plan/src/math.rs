//! Functions of one value.

use crate::arithmetic::{at_least, at_most, clamp, round};
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
            Math::Clamp(low, high) => clamp(value, low, high),
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
