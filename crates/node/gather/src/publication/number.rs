//! A published value: its text, and its bits in the type of its name. It rounds only on request: it refuses a
//! number that does not fit, and the error says what to write instead.

use khz_model::{Kind, Nanos, ValueFormat, ValueType};

use super::shown;

/// The most decimal places: nanoseconds.
pub const PLACES_MAX: u8 = 9;

/// A number in the job's spelling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number<'a> {
    text: &'a str,
    /// `None` for what only a double can hold: exponents, NaN, infinities.
    digits: Option<Digits<'a>>,
}

/// The digits before and after the point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Digits<'a> {
    is_negative: bool,
    whole: &'a str,
    rest: &'a str,
}

/// Why a value cannot be taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NumberError {
    /// It is not a number in any type.
    #[error("'{0}' is not a number, such as 17, -3 or 0.25")]
    NotANumber(String),
    /// It has an exponent, or is NaN or infinite, and its name has whole steps.
    #[error(
        "'{0}' needs type=float when its name is first published; otherwise write digits, as 17, -3 or 0.25"
    )]
    NeedsFloat(String),
    /// A counter below zero.
    #[error("'{0}' is below zero, and a counter only grows: leave out kind=counter, then it is a gauge")]
    CounterBelowZero(String),
    /// It has too many digits for its type.
    #[error(
        "'{text}' with {places} decimal places does not fit into {bits} bits: write {}type=float, which rounds it",
        if *places == 0 { "" } else { "a smaller places=, or " }
    )]
    TooLarge {
        /// The value.
        text: String,
        /// The decimal places of its name.
        places: u8,
        /// 63 with a sign, 64 without.
        bits: u8,
    },
    /// Not infinite, but no double is as large.
    #[error("'{0}' is beyond the largest double, 1.8e308; infinity is written +Inf or -Inf")]
    BeyondDouble(String),
}

impl<'a> Number<'a> {
    pub(super) fn read(text: &'a str) -> Result<Self, NumberError> {
        let digits = Digits::read(text);
        match digits.is_some() || text.parse::<f64>().is_ok() {
            true => Ok(Number { text, digits }),
            false => Err(NumberError::NotANumber(shown(text))),
        }
    }

    /// Its own decimal places, but at most [`PLACES_MAX`].
    pub fn places(&self) -> u8 {
        self.digits.map_or(0, |digits| digits.rest.len().min(usize::from(PLACES_MAX)) as u8)
    }

    /// The bits of the reading. A number with more decimal places than `format` is rounded to the nearest.
    ///
    /// # Errors
    /// The type cannot hold the number.
    pub fn bits(&self, format: ValueFormat, kind: Kind) -> Result<u64, NumberError> {
        match (format.value_type, self.digits) {
            (ValueType::Float, _) => self.double(kind),
            (ValueType::Unsigned, Some(digits)) => self.unsigned(digits, format.places),
            (ValueType::Signed, Some(digits)) => self.signed(digits, format.places),
            (ValueType::Unsigned | ValueType::Signed, None) => Err(NumberError::NeedsFloat(shown(self.text))),
            // No published name has such a type.
            (ValueType::Labels | ValueType::Unknown, _) => Err(NumberError::NotANumber(shown(self.text))),
        }
    }

    /// The number as a time in seconds, if it is not below zero. A number that is too large becomes the
    /// latest time.
    pub(super) fn seconds(&self) -> Option<Nanos> {
        let digits = self.digits.filter(|digits| !digits.is_negative)?;
        Some(Nanos(digits.steps(9).unwrap_or(u64::MAX)))
    }

    fn unsigned(&self, digits: Digits<'_>, places: u8) -> Result<u64, NumberError> {
        if digits.is_negative && !digits.is_zero() {
            return Err(NumberError::CounterBelowZero(shown(self.text)));
        }
        digits.steps(places).ok_or_else(|| self.too_large(places, 64))
    }

    fn signed(&self, digits: Digits<'_>, places: u8) -> Result<u64, NumberError> {
        let size = digits.steps(places).map(i128::from);
        let steps = size.map(|size| if digits.is_negative { -size } else { size });
        let fits = steps.and_then(|steps| i64::try_from(steps).ok());
        fits.map(i64::cast_unsigned).ok_or_else(|| self.too_large(places, 63))
    }

    fn double(&self, kind: Kind) -> Result<u64, NumberError> {
        let text = || shown(self.text);
        let double: f64 = self.text.parse().map_err(|_| NumberError::NotANumber(text()))?;
        // Only words spell infinity; digits that become infinite are too large.
        if double.is_infinite() && self.text.contains(|c: char| c.is_ascii_digit()) {
            return Err(NumberError::BeyondDouble(text()));
        }
        if kind == Kind::Counter && double < 0.0 {
            return Err(NumberError::CounterBelowZero(text()));
        }
        // There are many NaNs; if a value stays NaN, this must not look like a change.
        Ok(if double.is_nan() { f64::NAN.to_bits() } else { double.to_bits() })
    }

    fn too_large(&self, places: u8, bits: u8) -> NumberError {
        NumberError::TooLarge { text: shown(self.text), places, bits }
    }
}

impl<'a> Digits<'a> {
    fn read(text: &'a str) -> Option<Self> {
        let size = text.strip_prefix('-').unwrap_or(text);
        let (whole, rest) = size.split_once('.').unwrap_or((size, ""));
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let has_any = !(whole.is_empty() && rest.is_empty());
        let is_whole = digits(whole) && digits(rest) && !size.ends_with('.');
        (has_any && is_whole).then_some(Digits { is_negative: size.len() < text.len(), whole, rest })
    }

    fn is_zero(&self) -> bool {
        self.whole.bytes().chain(self.rest.bytes()).all(|digit| digit == b'0')
    }

    /// The size as a whole number with `places` decimal places, rounded to the nearest; `None` beyond 64 bits.
    fn steps(&self, places: u8) -> Option<u64> {
        let places = usize::from(places);
        let digit = |byte: u8| u64::from(byte - b'0');
        let kept = self.rest.bytes().chain(std::iter::repeat(b'0')).take(places);
        let steps = self
            .whole
            .bytes()
            .chain(kept)
            .try_fold(0u64, |steps, byte| steps.checked_mul(10)?.checked_add(digit(byte)))?;
        let rounds_up = self.rest.as_bytes().get(places).is_some_and(|&byte| byte >= b'5');
        steps.checked_add(u64::from(rounds_up))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_model::Reading;
    use proptest::prelude::*;

    fn format(value_type: ValueType, places: u8) -> ValueFormat {
        ValueFormat { value_type, places }
    }

    /// The number as doors print it.
    fn taken(text: &str, value_type: ValueType, places: u8, kind: Kind) -> Result<String, NumberError> {
        let bits = Number::read(text)?.bits(format(value_type, places), kind)?;
        Ok(format(value_type, places).value(Reading::Present(bits)).unwrap().to_string())
    }

    #[test]
    fn numbers_are_exact_or_rounded_to_the_nearest() {
        let counter = |text, places| taken(text, ValueType::Unsigned, places, Kind::Counter);
        let gauge = |text, places| taken(text, ValueType::Signed, places, Kind::Gauge);
        for (number, expected) in [
            (counter("18446744073709551615", 0), "18446744073709551615"),
            (counter("-0.0", 0), "0"),
            (gauge("9223372036854775807", 0), "9223372036854775807"),
            (gauge("-9223372036854775808", 0), "-9223372036854775808"),
            (gauge("-92233720368.54775808", 8), "-92233720368.54775808"),
            (gauge("0.0125", 6), "0.012500"),
            (gauge("-0.0125", 3), "-0.013"),
            (gauge("0.49", 0), "0"),
            (gauge("0.5", 0), "1"),
            (gauge("-0.5", 0), "-1"),
            (gauge("-0.4", 0), "0"),
            (gauge(".5", 1), "0.5"),
            (gauge("-.5", 1), "-0.5"),
        ] {
            assert_eq!(number.as_deref(), Ok(expected));
        }
        assert_eq!(Number::read("0.123456789012").unwrap().places(), 9);
        assert_eq!(Number::read("1e3").unwrap().places(), 0);
    }

    #[test]
    fn a_double_is_read_as_c_python_java_and_go_print_it() {
        let double = |text| taken(text, ValueType::Float, 0, Kind::Gauge);
        for (text, expected) in [
            ("17", "17"),
            ("-2.5e-07", "-2.5e-7"),
            ("1E10", "10000000000"),
            ("+1.5", "1.5"),
            ("nan", "NaN"),
            ("-nan", "NaN"),
            ("NaN", "NaN"),
            ("inf", "+Inf"),
            ("-inf", "-Inf"),
            ("+Inf", "+Inf"),
            ("Infinity", "+Inf"),
            ("1e-999", "0"),
        ] {
            assert_eq!(double(text).as_deref(), Ok(expected), "{text}");
        }
        let [one, two] = ["nan", "-nan"]
            .map(|text| Number::read(text).unwrap().bits(format(ValueType::Float, 0), Kind::Gauge).unwrap());
        assert_eq!(one, two, "a NaN that stays is no change");
    }

    #[test]
    fn a_number_that_does_not_fit_is_refused_with_what_to_write() {
        let problem = |text, value_type, places, kind| match taken(text, value_type, places, kind) {
            Err(problem) => problem.to_string(),
            Ok(number) => panic!("{number}"),
        };
        let counter = |text, places| problem(text, ValueType::Unsigned, places, Kind::Counter);
        let gauge = |text, places| problem(text, ValueType::Signed, places, Kind::Gauge);
        assert_eq!(
            counter("-1", 0),
            "'-1' is below zero, and a counter only grows: leave out kind=counter, then it is a gauge"
        );
        assert_eq!(counter("-0.4", 0), counter("-1", 0).replace("-1", "-0.4"), "rounding does not save it");
        assert!(problem("-1e3", ValueType::Float, 0, Kind::Counter).contains("a counter only grows"));
        for (said, bits) in [
            (counter("18446744073709551616", 0), 64),
            (counter("18446744073709551615.5", 0), 64),
            (gauge("9223372036854775808", 0), 63),
            (gauge("-9223372036854775809", 0), 63),
            (gauge("9223372036854775807.5", 0), 63),
        ] {
            assert!(said.contains(&format!("does not fit into {bits} bits")), "{said}");
            assert!(said.ends_with(": write type=float, which rounds it"), "{said}");
        }
        let said = gauge("9223372037", 9);
        assert!(
            said.contains("with 9 decimal places") && said.contains("smaller places=, or type=float"),
            "{said}"
        );
        for text in ["1e3", "NaN", "-inf", "+1"] {
            assert!(gauge(text, 0).starts_with(&format!("'{text}' needs type=float")), "{text}");
        }
        assert!(problem("1e999", ValueType::Float, 0, Kind::Gauge).contains("largest double"));
        for text in ["", "-", ".", "-.", "--1", "0x1", "1,5", "1_000", "e5", "١"] {
            let expected = format!("'{text}' is not a number, such as 17, -3 or 0.25");
            assert_eq!(problem(text, ValueType::Float, 0, Kind::Gauge), expected);
        }
    }

    proptest! {
        #[test]
        fn what_a_door_prints_is_published_as_the_same_number(bits in any::<u64>(), places in 0..=PLACES_MAX) {
            for (value_type, places, kind) in [
                (ValueType::Unsigned, places, Kind::Counter),
                (ValueType::Signed, places, Kind::Gauge),
                (ValueType::Float, 0, Kind::Gauge),
            ] {
                let format = format(value_type, places);
                let text = format.value(Reading::Present(bits)).unwrap().to_string();
                let number = Number::read(&text).unwrap();
                let read = number.bits(format, kind).unwrap();
                let is_nan = value_type == ValueType::Float && f64::from_bits(bits).is_nan();
                prop_assert!(read == bits || is_nan, "{text}");
                prop_assert!(value_type == ValueType::Float || number.places() == places);
            }
        }

        #[test]
        fn any_text_is_a_number_or_is_not(text in "(\\PC{0,12}|-?[0-9]{0,25}\\.?[0-9]{0,25}(e-?[0-9]{0,4})?)", places in 0..=PLACES_MAX) {
            let Ok(number) = Number::read(&text) else { return Ok(()) };
            for value_type in [ValueType::Unsigned, ValueType::Signed, ValueType::Float, ValueType::Labels] {
                let _ = (number.bits(format(value_type, places), Kind::Counter), number.seconds());
            }
        }
    }
}
