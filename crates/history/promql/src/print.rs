//! Numbers, texts and times as Prometheus prints them in labels, annotations and answers.

use std::fmt::Write as _;

use crate::calendar::Moment;
use crate::labels::LabelSet;
use crate::text::byte_of;

/// A number as a label has it, and Prometheus' HTTP API a scalar: all digits, no exponent.
pub fn plain(number: f64) -> String {
    if number.is_infinite() {
        return String::from(if number > 0.0 { "+Inf" } else { "-Inf" });
    }
    format!("{number}")
}

/// A value as Prometheus' HTTP API has it, which is how Go prints it, without its quotes: the fewest digits that are read back as the same double.
pub fn put_value(out: &mut String, value: f64) {
    if value.is_nan() {
        return out.push_str("NaN");
    }
    if value.is_infinite() {
        return out.push_str(if value > 0.0 { "+Inf" } else { "-Inf" });
    }
    let size = value.abs();
    if size == 0.0 || (1e-6..1e21).contains(&size) {
        let _ = write!(out, "{value}");
        return;
    }
    // Go writes the sign of an exponent, and two digits of it at least.
    let text = format!("{value:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => ('-', exponent),
        None => ('+', exponent),
    };
    let _ = write!(out, "{digits}e{sign}{exponent:0>2}");
}

/// A number with as many digits as it needs, with an exponent where that is shorter (C's `%g`, without its precision).
pub(crate) fn shortest(number: f64) -> String {
    if !number.is_finite() {
        return plain(number);
    }
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !(-4..6).contains(&exponent) {
        return with_exponent(digits, exponent);
    }
    format!("{number}")
}

/// A number with two digits (C's `%.2g`).
pub(crate) fn two_digits(number: f64) -> String {
    if !number.is_finite() {
        return plain(number);
    }
    let scientific = format!("{number:.1e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trimmed = digits.trim_end_matches('0').trim_end_matches('.');
    if !(-4..2).contains(&exponent) {
        return with_exponent(trimmed, exponent);
    }
    let rounded: f64 = scientific.parse().unwrap_or(number);
    format!("{rounded}")
}

fn with_exponent(digits: &str, exponent: i32) -> String {
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// A text in double quotes, with everything escaped that does not print.
pub(crate) fn quoted(text: &str) -> String {
    let mut all = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => all.push_str("\\\""),
            '\\' => all.push_str("\\\\"),
            '\n' => all.push_str("\\n"),
            '\t' => all.push_str("\\t"),
            '\r' => all.push_str("\\r"),
            c => match byte_of(c) {
                Some(byte) => all.push_str(&format!("\\x{byte:02x}")),
                None if c < ' ' || c == '\x7f' => all.push_str(&format!("\\x{:02x}", c as u32)),
                None => all.push(c),
            },
        }
    }
    all.push('"');
    all
}

/// The name of a label: in quotes if it has other characters than letters, digits and `_`.
pub(crate) fn label_name(name: &str) -> String {
    let is_plain =
        |(at, c): (usize, char)| c == '_' || c.is_ascii_alphabetic() || (at > 0 && c.is_ascii_digit());
    if name.chars().enumerate().all(is_plain) { name.to_owned() } else { quoted(name) }
}

/// A time (ms since 1970) as a date, in whole seconds.
pub(crate) fn rfc3339(time: i64) -> String {
    let moment = Moment::of(time.div_euclid(1000));
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z",
        moment.year, moment.month, moment.day, moment.hour, moment.minute, moment.second
    )
}

/// Labels in braces as Prometheus prints them, the name of the metric among them: `{__name__="up", job="node"}`.
pub fn label_text(labels: &LabelSet) -> String {
    let mut all = String::from("{");
    for (at, (name, value)) in labels.iter().enumerate() {
        if at > 0 {
            all.push_str(", ");
        }
        all.push_str(&label_name(name));
        all.push('=');
        all.push_str(&quoted(value));
    }
    all.push('}');
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_as_go_prints_them() {
        for (number, expected) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (0.1, "0.1"),
            (1e-6, "0.000001"),
            (9.9e-7, "9.9e-07"),
            (1.5e-300, "1.5e-300"),
            (1e20, "100000000000000000000"),
            (1e21, "1e+21"),
            (-2.5e21, "-2.5e+21"),
            (f64::MAX, "1.7976931348623157e+308"),
            (5e-324, "5e-324"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "+Inf"),
            (f64::NEG_INFINITY, "-Inf"),
        ] {
            let mut out = String::new();
            put_value(&mut out, number);
            assert_eq!(out, expected);
        }
    }

    #[test]
    fn numbers_are_printed_as_prometheus_does() {
        for (number, text) in [
            (0.0, "0"),
            (-1.0, "-1"),
            (1.5, "1.5"),
            (100_000.0, "100000"),
            (1e6, "1e+06"),
            (123_456_789.0, "1.23456789e+08"),
            (1_234_567.5, "1.2345675e+06"),
            (1e21, "1e+21"),
            (0.0001, "0.0001"),
            (0.000_012, "1.2e-05"),
            (f64::INFINITY, "+Inf"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(shortest(number), text);
        }
        assert_eq!([two_digits(0.123), two_digits(123.0), two_digits(1.0)], ["0.12", "1.2e+02", "1"]);
        assert_eq!(
            [plain(1e21), plain(f64::NEG_INFINITY), plain(-0.0)],
            ["1000000000000000000000", "-Inf", "-0"]
        );
        assert_eq!(quoted("a\"\\\n\u{1}ü"), "\"a\\\"\\\\\\n\\x01ü\"");
        assert_eq!(rfc3339(951_782_400_000), "2000-02-29T00:00:00Z");
    }
}
