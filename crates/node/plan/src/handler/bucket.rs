//! A bucket of a histogram: a range of values. The ranges are the same everywhere, so counts of equal buckets may be added up, over
//! nodes and over windows that do not overlap.

use std::fmt;

/// How many of the lowest bits of a double do not count. The other bits give the sign, the power of two, and the quarter of the
/// way to the next power.
const BITS_IGNORED: u32 = f64::MANTISSA_DIGITS - 1 - 2;

/// The sign bit among the remaining bits.
const SIGN: u16 = 1 << 13;

/// A range of values: a quarter of the way from one power of two to the next, as `8..10`. Whole numbers below 8 have one each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bucket(u16);

impl Bucket {
    /// Samples without their own bucket: samples that are no number or infinite, and samples that came when
    /// all buckets were used.
    pub const OTHER: Bucket = Bucket(u16::MAX);

    /// The bucket of a value.
    #[inline]
    pub fn of(value: f64) -> Self {
        if !value.is_finite() {
            return Bucket::OTHER;
        }
        // A value that is too near to 0 for a normal double has no exact bounds.
        if value.abs() < f64::MIN_POSITIVE {
            return Bucket(0);
        }
        Bucket((value.to_bits() >> BITS_IGNORED) as u16)
    }

    /// Its lowest and its highest value. The one that is nearer to 0 belongs to the bucket, the other one does not; 0 has a bucket
    /// for itself.
    pub fn bounds(self) -> Option<(f64, f64)> {
        let bound = |magnitude: u16| f64::from_bits(u64::from(magnitude) << BITS_IGNORED);
        let magnitude = self.0 & !SIGN;
        match self {
            Bucket::OTHER => None,
            Bucket(0) => Some((0.0, 0.0)),
            Bucket(key) if key & SIGN == 0 => Some((bound(magnitude), bound(magnitude + 1))),
            _ => Some((-bound(magnitude + 1), -bound(magnitude))),
        }
    }
}

impl fmt::Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bounds() {
            None => f.write_str("other"),
            Some((low, high)) if low == high => number(low, f),
            Some((low, high)) => {
                number(low, f)?;
                f.write_str("..")?;
                number(high, f)
            }
        }
    }
}

/// The shortest text that is this number, without hundreds of zeros.
fn number(number: f64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match number.abs() {
        0.0 | 1e-5..1e16 | f64::INFINITY => write!(f, "{number}"),
        _ => write!(f, "{number:e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn buckets_are_named_after_their_bounds() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "0"),
            (1e-310, "0"),
            (1.0, "1..1.25"),
            (5.0, "5..6"),
            (7.999, "7..8"),
            (8.0, "8..10"),
            (1_100.0, "1024..1280"),
            (-5.5, "-6..-5"),
            (-5.0, "-6..-5"),
            (0.93, "0.875..1"),
            (1e20, "9.223372036854776e19..1.1068046444225731e20"),
            (f64::NAN, "other"),
            (f64::NEG_INFINITY, "other"),
        ] {
            assert_eq!(Bucket::of(value).to_string(), text, "{value}");
        }
        assert!(Bucket::of(f64::MAX).to_string().ends_with("..inf"));
    }

    proptest! {
        #[test]
        fn a_value_lies_within_the_bounds_of_its_bucket_which_are_a_quarter_apart(bits: u64) {
            let value = f64::from_bits(bits);
            match Bucket::of(value).bounds() {
                None => prop_assert!(!value.is_finite()),
                Some((low, high)) if low == high => prop_assert!(value.abs() < f64::MIN_POSITIVE),
                Some((low, high)) => {
                    prop_assert!(low <= value && value <= high, "{low} {value} {high}");
                    let (near, far) = if value > 0.0 { (low, high) } else { (-high, -low) };
                    prop_assert!(value.abs() < far && (far.is_infinite() || far <= near * 1.25));
                }
            }
        }
    }
}
