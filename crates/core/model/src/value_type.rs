//! What a metric's readings hold: whole numbers, numbers that may be below zero, doubles, or labels. The
//! kernel's numbers are whole and keep their decimal places; only derived values are doubles.

use std::cmp::Ordering;
use std::fmt;

use crate::decimal::Decimal;
use crate::labels::Labels;
use crate::reading::{Absence, Fault, Reading};

/// What a metric's readings hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ValueType {
    /// A whole number of steps of the metric's decimal places, 0 or more.
    #[default]
    Unsigned,
    /// The same in two's complement: it may be below zero.
    Signed,
    /// An IEEE 754 double. For derived values only: numbers that the kernel prints stay exact.
    Float,
    /// Labels instead of a number; a reading has them beside its bits. They say what a node *is*, such
    /// as its kernel's release. They may change from row to row, and the slot stays the same.
    Labels,
    /// A type of a newer version: there is a value, and this version cannot read it.
    Unknown,
}

impl ValueType {
    /// "unsigned", "signed", "float", "labels" or "unknown".
    pub const fn as_str(self) -> &'static str {
        match self {
            ValueType::Unsigned => "unsigned",
            ValueType::Signed => "signed",
            ValueType::Float => "float",
            ValueType::Labels => "labels",
            ValueType::Unknown => "unknown",
        }
    }

    /// The type of this name; `None` also for "unknown", which names no type.
    pub fn named(name: &str) -> Option<Self> {
        use ValueType::{Float, Labels, Signed, Unsigned};
        [Unsigned, Signed, Float, Labels].into_iter().find(|known| known.as_str() == name)
    }
}

/// Type and decimal places: all that it takes to read a metric's readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ValueFormat {
    /// What the readings hold.
    pub value_type: ValueType,
    /// How many of a whole number's digits come after the point.
    pub places: u8,
}

/// What a reading says, for people and programs.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A number.
    Number(Number),
    /// Labels.
    Labels(Labels),
}

/// Why a reading has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoValue {
    /// There is nothing to read.
    Absent(Absence),
    /// Reading it went wrong.
    Failed(Fault),
    /// It is of a type of a newer version, or labels that its node has replaced long ago.
    Unreadable,
}

impl NoValue {
    /// True when there should be a value. Otherwise a missing value is normal.
    pub const fn is_failure(self) -> bool {
        matches!(self, NoValue::Failed(_))
    }
}

impl ValueFormat {
    /// Whole numbers, 0 or more.
    pub const WHOLE: ValueFormat = ValueFormat { value_type: ValueType::Unsigned, places: 0 };

    /// The content of the reading, or the reason why there is none.
    ///
    /// # Errors
    /// It has no value that this version can read.
    pub fn value_or_why(self, reading: Reading) -> Result<Value, NoValue> {
        match reading {
            Reading::Present(bits) => self.number(bits).map(Value::Number).ok_or(NoValue::Unreadable),
            Reading::Labels(_) => reading.labels().map(Value::Labels).ok_or(NoValue::Unreadable),
            Reading::Absent(why) => Err(NoValue::Absent(why)),
            Reading::Failed(fault) => Err(NoValue::Failed(fault)),
        }
    }

    /// The same without the reason.
    pub fn value(self, reading: Reading) -> Option<Value> {
        self.value_or_why(reading).ok()
    }

    /// The number that the bits of a present reading stand for; `None` for a type that has none.
    pub fn number(self, bits: u64) -> Option<Number> {
        let ValueFormat { value_type, places } = self;
        match value_type {
            ValueType::Unsigned => Some(Number::Exact(Decimal::new(bits, places))),
            ValueType::Signed => Some(Number::Exact(Decimal::signed(bits.cast_signed(), places))),
            ValueType::Float => Some(Number::Double(f64::from_bits(bits))),
            ValueType::Labels | ValueType::Unknown => None,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Number(number) => number.fmt(f),
            Value::Labels(labels) => labels.fmt(f),
        }
    }
}

/// The reason, in a few words.
impl fmt::Display for NoValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoValue::Absent(why) => why.fmt(f),
            NoValue::Failed(fault) => fault.fmt(f),
            NoValue::Unreadable => f.write_str("not readable"),
        }
    }
}

impl ValueFormat {
    /// By how much a counter has grown, for rates; `None` if it fell, which a reset does, or has no number.
    pub fn growth(self, from: u64, to: u64) -> Option<Number> {
        match (self.number(from)?, self.number(to)?) {
            // The difference of whole steps is exact where that of doubles is not.
            (Number::Exact(_), Number::Exact(_)) => {
                let grown = u64::try_from(self.steps(to)?.0 - self.steps(from)?.0).ok()?;
                Some(Number::Exact(Decimal::new(grown, self.places)))
            }
            (from, to) => Some(to.to_f64() - from.to_f64()).filter(|grown| *grown >= 0.0).map(Number::Double),
        }
    }
}

/// Steps of a double: a billionth.
const DOUBLE_PLACES: u8 = 9;

impl ValueFormat {
    /// The number that the bits stand for as whole steps, and the decimal places of a step: for thresholds and
    /// differences, which must not round. A double is rounded to a billionth. `None`: there is no number.
    pub fn steps(self, bits: u64) -> Option<(i128, u8)> {
        match self.number(bits)? {
            Number::Exact(decimal) => Some(decimal.steps_and_places()),
            Number::Double(double) if double.is_nan() => None,
            // A double that is too large becomes the largest that fits.
            Number::Double(double) => Some(((double * 1e9).round() as i128, DOUBLE_PLACES)),
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

/// Doubles of this size and larger are written with an exponent, as are doubles below
/// [`EXPONENT_BELOW`].
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

    /// The number times a power of ten, exact where the number is and has that many decimal places.
    pub fn shifted(self, digits: u8) -> Self {
        match self {
            Number::Exact(decimal) => Number::Exact(decimal.shifted(digits)),
            Number::Double(double) => Number::Double(double * 10f64.powi(i32::from(digits))),
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
            ValueFormat { value_type, places }.value(Reading::Present(bits)).map(|value| value.to_string())
        };
        let minus_one = u64::MAX;
        assert_eq!(text(ValueType::Unsigned, minus_one, 0).as_deref(), Some("18446744073709551615"));
        assert_eq!(text(ValueType::Signed, minus_one, 0).as_deref(), Some("-1"));
        assert_eq!(text(ValueType::Signed, minus_one, 3).as_deref(), Some("-0.001"));
        assert_eq!(text(ValueType::Float, minus_one, 3).as_deref(), Some("NaN"));
        assert_eq!(text(ValueType::Float, 0.25f64.to_bits(), 3).as_deref(), Some("0.25"));
        assert_eq!(text(ValueType::Labels, 7, 0), None);
        assert_eq!(text(ValueType::Unknown, 7, 0), None);
        let labels = Labels::new([("release", "6.18 #1"), ("machine", "x86_64")]).unwrap();
        let format = ValueFormat { value_type: ValueType::Labels, places: 0 };
        let value = format.value(Reading::Labels(labels.number())).unwrap();
        assert_eq!(value.to_string(), "machine=x86_64,release=6.18%20%231".replace("%23", "#"));
        assert_eq!(format.value(Reading::Absent(crate::Absence::NotYet)), None);
    }

    #[test]
    fn where_there_is_no_value_the_reason_is_told_apart() {
        let why = |value_type, reading| {
            let why = ValueFormat { value_type, places: 0 }.value_or_why(reading).unwrap_err();
            (why.to_string(), why.is_failure())
        };
        let absent = Reading::Absent(Absence::NoSource);
        assert_eq!(
            why(ValueType::Unsigned, absent),
            ("this host does not have the source".to_owned(), false)
        );
        let failed = Reading::Failed(Fault::Malformed);
        assert_eq!(why(ValueType::Unsigned, failed), ("malformed text".to_owned(), true));
        for (value_type, reading) in [
            (ValueType::Unknown, Reading::Present(7)),
            (ValueType::Labels, Reading::Present(7)),
            (ValueType::Labels, Reading::Labels(0)),
        ] {
            assert_eq!(why(value_type, reading), ("not readable".to_owned(), false));
        }
    }

    #[test]
    fn steps_are_exact_and_signed() {
        let steps = |value_type, bits| ValueFormat { value_type, places: 2 }.steps(bits);
        assert_eq!(steps(ValueType::Unsigned, u64::MAX), Some((i128::from(u64::MAX), 2)));
        assert_eq!(steps(ValueType::Signed, u64::MAX), Some((-1, 2)));
        assert_eq!(steps(ValueType::Float, (-0.5f64).to_bits()), Some((-500_000_000, 9)));
        assert_eq!(steps(ValueType::Float, f64::INFINITY.to_bits()), Some((i128::MAX, 9)));
        assert_eq!((steps(ValueType::Float, f64::NAN.to_bits()), steps(ValueType::Labels, 1)), (None, None));
    }

    #[test]
    fn a_counters_growth_is_exact_and_a_fall_is_none() {
        let growth =
            |value_type, from, to| ValueFormat { value_type, places: 1 }.growth(from, to).map(Number::to_f64);
        let large = 1 << 60;
        assert_eq!(growth(ValueType::Unsigned, large, large + 1), Some(0.1));
        assert_eq!(growth(ValueType::Unsigned, 2, 1), None);
        assert_eq!(growth(ValueType::Signed, (-3i64).cast_unsigned(), 2), Some(0.5));
        let [low, high] = [0.5f64, 2.0].map(f64::to_bits);
        assert_eq!(
            (growth(ValueType::Float, low, high), growth(ValueType::Float, high, low)),
            (Some(1.5), None)
        );
        assert_eq!(
            (growth(ValueType::Labels, 1, 2), growth(ValueType::Float, low, f64::NAN.to_bits())),
            (None, None)
        );
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
        let [one, two] = [u64::MAX, u64::MAX - 1].map(|bits| ValueFormat::default().number(bits).unwrap());
        assert_eq!((one.by_size(&two), one.to_f64() == two.to_f64()), (Ordering::Greater, true));
        let [nan, infinite] = [f64::NAN, f64::INFINITY].map(Number::Double);
        assert_eq!((nan.by_size(&infinite), infinite.by_size(&one)), (Ordering::Greater, Ordering::Greater));
        assert_eq!(nan.by_size(&nan), Ordering::Equal);
        let shifted = |number: Number, digits| number.shifted(digits).to_string();
        assert_eq!(shifted(Number::Exact(Decimal::new(29, 2)), 2), "29");
        assert_eq!(shifted(Number::Exact(Decimal::new(29, 2)), 3), "29", "it has no more places");
        assert_eq!(shifted(Number::Double(0.5), 1), "5");
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
