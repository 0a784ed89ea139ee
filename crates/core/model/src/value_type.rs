//! What a metric's readings hold: whole numbers, numbers that may be below zero, doubles, or labels. The
//! kernel's numbers are whole and keep their decimal places; only what is derived from them is a double.

use std::cmp::Ordering;
use std::fmt;

use crate::decimal::Decimal;

/// What a metric's readings hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ValueType {
    /// A whole number of steps of the metric's decimal places, 0 or more.
    #[default]
    Unsigned,
    /// The same in two's complement: it may be below zero.
    Signed,
    /// An IEEE 754 double. Derived values only: what the kernel prints stays exact.
    Float,
    /// No number but labels, which a reading has beside its bits: what a node *is*, such as its kernel's
    /// release. They may change from row to row, and the slot stays the same.
    Labels,
    /// A type of a newer version: there is a value, and this version cannot read it.
    Unknown,
}

impl ValueType {
    /// The number that the bits stand for; `None` for labels and for a type that is not known.
    pub fn number(self, bits: u64, places: u8) -> Option<Number> {
        match self {
            ValueType::Unsigned => Some(Number::Exact(Decimal::new(bits, places))),
            ValueType::Signed => Some(Number::Exact(Decimal::signed(bits.cast_signed(), places))),
            ValueType::Float => Some(Number::Double(f64::from_bits(bits))),
            ValueType::Labels | ValueType::Unknown => None,
        }
    }
}

/// A number as its readers need it: exact where the kernel printed it, a double where it was derived.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// Digit for digit what was gathered.
    Exact(Decimal),
    /// Derived.
    Double(f64),
}

/// Doubles of this size and more are written with an exponent, as are those below [`EXPONENT_BELOW`].
const EXPONENT_FROM: f64 = 1e21;
/// See [`EXPONENT_FROM`].
const EXPONENT_BELOW: f64 = 1e-6;

impl Number {
    /// The number as the nearest double.
    pub fn to_f64(self) -> f64 {
        match self {
            Number::Exact(decimal) => decimal.to_f64(),
            Number::Double(double) => double,
        }
    }

    /// The same number divided by a whole number that is not 0.
    pub fn divided_by(self, divisor: u64) -> Self {
        match self {
            Number::Exact(decimal) => Number::Exact(decimal.divided_by(divisor)),
            Number::Double(double) if divisor > 1 => Number::Double(double / divisor as f64),
            Number::Double(_) => self,
        }
    }

    /// Compares for sorting: exactly where both are exact; NaN is larger than any number.
    pub fn by_size(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Number::Exact(one), Number::Exact(two)) => one.by_size(two),
            _ => {
                let (one, two) = (self.to_f64(), other.to_f64());
                one.partial_cmp(&two).unwrap_or_else(|| one.is_nan().cmp(&two.is_nan()))
            }
        }
    }
}

/// Decimals print all their digits. A double prints the fewest digits that are read back as the same double;
/// `NaN`, `+Inf` and `-Inf` are Prometheus' words.
impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Number::Exact(decimal) => decimal.fmt(f),
            Number::Double(double) if double.is_nan() => f.write_str("NaN"),
            Number::Double(f64::INFINITY) => f.write_str("+Inf"),
            Number::Double(f64::NEG_INFINITY) => f.write_str("-Inf"),
            Number::Double(double) => {
                let size = double.abs();
                let is_plain = size == 0.0 || (EXPONENT_BELOW..EXPONENT_FROM).contains(&size);
                if is_plain { write!(f, "{double}") } else { write!(f, "{double:e}") }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_same_bits_are_another_number_in_each_type() {
        let text = |value_type: ValueType, bits, places| {
            value_type.number(bits, places).map(|number| number.to_string())
        };
        let minus_one = u64::MAX;
        assert_eq!(text(ValueType::Unsigned, minus_one, 0).as_deref(), Some("18446744073709551615"));
        assert_eq!(text(ValueType::Signed, minus_one, 0).as_deref(), Some("-1"));
        assert_eq!(text(ValueType::Signed, minus_one, 3).as_deref(), Some("-0.001"));
        assert_eq!(text(ValueType::Float, minus_one, 3).as_deref(), Some("NaN"));
        assert_eq!(text(ValueType::Float, 0.25f64.to_bits(), 3).as_deref(), Some("0.25"));
        assert_eq!(text(ValueType::Labels, 7, 0), None);
        assert_eq!(text(ValueType::Unknown, 7, 0), None);
    }

    #[test]
    fn doubles_have_one_text_each() {
        for (double, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (0.1 + 0.2, "0.30000000000000004"),
            (1e20, "100000000000000000000"),
            (1e21, "1e21"),
            (-2.5e-7, "-2.5e-7"),
            (1e-6, "0.000001"),
            (f64::MIN_POSITIVE, "2.2250738585072014e-308"),
            (f64::INFINITY, "+Inf"),
            (f64::NEG_INFINITY, "-Inf"),
            (f64::NAN, "NaN"),
            (-f64::NAN, "NaN"),
        ] {
            assert_eq!(Number::Double(double).to_string(), text);
        }
    }

    #[test]
    fn exact_numbers_beyond_a_doubles_digits_are_still_told_apart() {
        let [one, two] = [u64::MAX, u64::MAX - 1].map(|bits| ValueType::Unsigned.number(bits, 0).unwrap());
        assert_eq!((one.by_size(&two), one.to_f64() == two.to_f64()), (Ordering::Greater, true));
        let [nan, infinite] = [f64::NAN, f64::INFINITY].map(Number::Double);
        assert_eq!((nan.by_size(&infinite), infinite.by_size(&one)), (Ordering::Greater, Ordering::Greater));
        assert_eq!(nan.by_size(&nan), Ordering::Equal);
        assert_eq!(Number::Double(3.0).divided_by(2), Number::Double(1.5));
        assert_eq!(Number::Double(3.0).divided_by(0), Number::Double(3.0), "as a decimal is: not divided");
    }

    proptest! {
        #[test]
        fn a_double_is_read_back_from_its_text(bits in any::<u64>()) {
            let double = f64::from_bits(bits);
            let read: f64 = Number::Double(double).to_string().parse().unwrap();
            prop_assert!(read.to_bits() == bits || (read.is_nan() && double.is_nan()));
        }
    }
}
