//! Text to `f64` exactly as in rrdtool. Correct rounding would differ in the last bit.
//!
//! rrdtool multiplies digit by digit and then scales by powers of ten, and each step rounds. Its files have the bits
//! that result, so this takes the same steps.

/// rrdtool's unknown on x86-64: the quiet NaN that the FPU produces, with the sign bit set.
pub const UNKNOWN: f64 = f64::from_bits(0xfff8_0000_0000_0000);

/// How far a text could be read as a number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Reading<'a> {
    /// The whole text is this number.
    Whole(f64),
    /// A number, then this unreadable rest.
    Partly(f64, &'a str),
    /// No number at its beginning, or one outside the representable range.
    Nothing,
}

/// Reads `text` as rrdtool reads every floating number: `nan`, `-nan`, `inf`, `-inf` (any case, rest
/// ignored), else a decimal number.
pub fn read(text: &str) -> Reading<'_> {
    // Few texts are one of the words.
    if text.as_bytes().first().is_some_and(u8::is_ascii_digit) {
        return number(text);
    }
    let lower = |prefix: &str| text.get(..prefix.len()).is_some_and(|head| head.eq_ignore_ascii_case(prefix));
    if lower("-nan") {
        return Reading::Whole(UNKNOWN);
    }
    if lower("nan") {
        // A trap: rrdtool negates its unknown once for the word without a minus.
        return Reading::Whole(f64::from_bits(0x7ff8_0000_0000_0000));
    }
    if lower("inf") {
        return Reading::Whole(f64::INFINITY);
    }
    if lower("-inf") {
        return Reading::Whole(f64::NEG_INFINITY);
    }
    number(text)
}

fn number(text: &str) -> Reading<'_> {
    match decimal(text.as_bytes()) {
        None => Reading::Nothing,
        Some((value, used)) if used == text.len() => Reading::Whole(value),
        Some((value, used)) => Reading::Partly(value, text.get(used..).unwrap_or("")),
    }
}

/// Reads a decimal number at the start of `bytes`: its value and the bytes used. `None` without a digit or
/// when the decimal exponent leaves -1021..=1024.
pub fn decimal(bytes: &[u8]) -> Option<(f64, usize)> {
    let at = |index: usize| bytes.get(index).copied().unwrap_or(0);
    let mut index = 0;
    while at(index).is_ascii_whitespace() || at(index) == 0x0b {
        index += 1;
    }
    let negative = at(index) == b'-';
    if matches!(at(index), b'-' | b'+') {
        index += 1;
    }
    let (mut digits, mut exponent) = (Digits::default(), 0i64);
    while at(index).is_ascii_digit() {
        digits.push(at(index) - b'0');
        index += 1;
    }
    if at(index) == b'.' {
        index += 1;
        while at(index).is_ascii_digit() {
            digits.push(at(index) - b'0');
            exponent -= 1;
            index += 1;
        }
    }
    if digits.count == 0 {
        return None;
    }
    let mut value = digits.value();
    if negative {
        value = -value;
    }
    if matches!(at(index), b'e' | b'E') {
        index += 1;
        let minus = at(index) == b'-';
        if matches!(at(index), b'-' | b'+') {
            index += 1;
        }
        let mut written = 0i64;
        while at(index).is_ascii_digit() {
            // Saturating: a thousand digits of exponent are out of range, not a wrap-around.
            written = written.saturating_mul(10).saturating_add(i64::from(at(index) - b'0'));
            index += 1;
        }
        exponent = if minus { exponent.saturating_sub(written) } else { exponent.saturating_add(written) };
    }
    if !(i64::from(f64::MIN_EXP)..=i64::from(f64::MAX_EXP)).contains(&exponent) {
        return None;
    }
    Some((scaled(value, exponent), index))
}

/// Digits this many make an integer that a double holds exactly, so adding them up as integers changes nothing.
const EXACT: u32 = 15;

/// A number growing digit by digit, rounded at each step as a double would be.
#[derive(Default)]
struct Digits {
    count: u32,
    exact: u64,
    rounded: f64,
}

impl Digits {
    fn push(&mut self, digit: u8) {
        if self.count < EXACT {
            self.exact = self.exact * 10 + u64::from(digit);
            self.rounded = self.exact as f64;
        } else {
            self.rounded = self.rounded * 10.0 + f64::from(digit);
        }
        self.count = self.count.saturating_add(1);
    }

    fn value(&self) -> f64 {
        if self.count <= EXACT { self.exact as f64 } else { self.rounded }
    }
}

/// `value` times ten to the `exponent`, by repeated squaring, one rounding a step.
fn scaled(mut value: f64, exponent: i64) -> f64 {
    let (mut power, mut left) = (10.0f64, exponent.unsigned_abs());
    while left > 0 {
        if left & 1 == 1 {
            if exponent < 0 { value /= power } else { value *= power }
        }
        left >>= 1;
        power *= power;
    }
    value
}

/// A double cast to a C `long` on x86-64: truncated, and the smallest `i64` for a value that does not fit.
pub fn as_long(value: f64) -> i64 {
    if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&value) {
        value as i64
    } else {
        i64::MIN
    }
}

/// A double cast to a C `unsigned long` on x86-64, as the usual compilers do it.
pub fn as_unsigned_long(value: f64) -> u64 {
    if value < 9_223_372_036_854_775_808.0 {
        as_long(value) as u64
    } else {
        (as_long(value - 9_223_372_036_854_775_808.0) as u64) ^ (1 << 63)
    }
}

/// `value` as C's `%0.<digits>e` prints it, unknown as C's `nan` or `-nan`.
pub fn scientific(value: f64, digits: usize) -> String {
    if value.is_nan() {
        return if value.is_sign_negative() { "-nan".into() } else { "nan".into() };
    }
    if value.is_infinite() {
        return if value < 0.0 { "-inf".into() } else { "inf".into() };
    }
    let text = format!("{value:.digits$e}");
    // Rust writes `1.5e7`, C `1.5e+07`.
    match text.split_once('e') {
        Some((mantissa, exponent)) => {
            let (sign, size) = match exponent.strip_prefix('-') {
                Some(size) => ('-', size),
                None => ('+', exponent),
            };
            format!("{mantissa}e{sign}{size:0>2}")
        }
        None => text,
    }
}

/// The exponents rrdtool's own printing scales by.
const EXPONENT_MAX: i32 = 308;

/// `value` with ten digits as `dump` and `xport` print it: scaled by rounded powers of ten first, so that the
/// last digit may be one off. Unknown is `NaN`.
pub fn scaled_text(value: f64) -> String {
    if value.is_nan() {
        return "NaN".into();
    }
    if value.is_infinite() {
        return scientific(value, 10);
    }
    let size = value.abs();
    let (mut exponent, mut left) = (0, size);
    while left < 1.0 && left > 0.0 && exponent > -EXPONENT_MAX {
        left *= 10.0;
        exponent -= 1;
    }
    while left >= 10.0 && exponent < EXPONENT_MAX {
        left /= 10.0;
        exponent += 1;
    }
    const DIGITS: f64 = 1e10;
    let mantissa = size / power_of_ten(exponent);
    let mut whole = mantissa.trunc();
    let fraction = DIGITS * (mantissa - whole);
    let mut digits = fraction.trunc();
    if fraction - digits >= 0.5 {
        digits += 1.0;
    }
    if digits >= DIGITS {
        (whole, digits) = (whole + 1.0, 0.0);
    }
    if whole >= 10.0 {
        (whole, exponent) = (1.0, exponent + 1);
    }
    let minus = if value < 0.0 { "-" } else { "" };
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{minus}{}.{:010}e{sign}{:02}", whole as u64, digits as u64, exponent.abs())
}

fn power_of_ten(exponent: i32) -> f64 {
    let mut power = 1.0;
    for _ in 0..exponent.abs() {
        if exponent > 0 { power *= 10.0 } else { power /= 10.0 }
    }
    power
}

/// A whole number as C's `strtol` reads it in any base: the part that is a number, or 0.
pub fn c_long(text: &str) -> i64 {
    let text = text.trim_start();
    let (negative, text) = match text.strip_prefix(['-', '+']) {
        Some(rest) => (text.starts_with('-'), rest),
        None => (false, text),
    };
    let hexadecimal = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let (base, digits) =
        match hexadecimal.filter(|rest| rest.starts_with(|digit: char| digit.is_ascii_hexdigit())) {
            Some(rest) => (16, rest),
            None if text.starts_with('0') => (8, text),
            None => (10, text),
        };
    let digits = digits.chars().map_while(|digit| digit.to_digit(base));
    let value = digits.fold(0i64, |sum, digit| sum.saturating_mul(base.into()).saturating_add(digit.into()));
    if negative { -value } else { value }
}

/// A whole number in base ten as C's `atol` reads it: the part that is a number; `None` without a digit.
pub fn c_decimal(text: &str) -> Option<i64> {
    let text = text.trim_start_matches(|letter: char| letter.is_ascii_whitespace() || letter == '\x0b');
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let length = digits.bytes().take_while(u8::is_ascii_digit).count();
    let digits = digits[..length].bytes().map(|digit| i64::from(digit - b'0'));
    let value = digits.fold(0i64, |sum, digit| sum.saturating_mul(10).saturating_add(digit));
    (length > 0).then(|| if text.starts_with('-') { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_accumulated_step_by_step_not_rounded_once() {
        assert_eq!(read("1e308"), Reading::Whole(f64::from_bits(0x7fe1_ccf3_85eb_c8a3)));
        assert_eq!(
            read("123456789012345678901234567890"),
            Reading::Whole(f64::from_bits(0x45f8_ee90_ff6c_373d))
        );
    }

    #[test]
    fn the_rest_after_a_number_is_handed_back() {
        assert_eq!(read("1.2.3"), Reading::Partly(1.2, ".3"));
        assert_eq!(read("0x10"), Reading::Partly(0.0, "x10"));
        assert_eq!(read("5e"), Reading::Whole(5.0));
        assert_eq!(read("--5"), Reading::Nothing);
        assert_eq!(read("1e1025"), Reading::Nothing);
    }

    #[test]
    fn dumps_round_as_rrdtool_rounds() {
        assert_eq!(scaled_text(62252636.2315), "6.2252636232e+07");
        assert_eq!(scaled_text(0.000556063792165), "5.5606379216e-04");
        assert_eq!(scaled_text(9.99999999999e99), "1.0000000000e+100");
        assert_eq!(scaled_text(-0.0), "0.0000000000e+00");
    }

    #[test]
    fn scientific_is_written_as_c_writes_it() {
        assert_eq!(scientific(0.0, 10), "0.0000000000e+00");
        assert_eq!(scientific(-1.5e-7, 10), "-1.5000000000e-07");
        assert_eq!(scientific(1e300, 3), "1.000e+300");
        assert_eq!(scientific(UNKNOWN, 3), "-nan");
    }
}
