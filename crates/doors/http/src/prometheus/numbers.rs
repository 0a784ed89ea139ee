//! Numbers and times as Prometheus writes them in JSON, which is how Go prints them.

use std::fmt::Write as _;

/// A value, without its quotes: the fewest digits that are read back as the same double.
pub(crate) fn value(out: &mut String, value: f64) {
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

/// A time in ms since 1970, as seconds with three places, or none.
pub(crate) fn time(out: &mut String, ms: i64) {
    let sign = if ms < 0 { "-" } else { "" };
    let (seconds, rest) = (ms.unsigned_abs() / 1_000, ms.unsigned_abs() % 1_000);
    let _ = write!(out, "{sign}{seconds}");
    if rest > 0 {
        let _ = write!(out, ".{rest:03}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(put: impl Fn(&mut String)) -> String {
        let mut out = String::new();
        put(&mut out);
        out
    }

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
            assert_eq!(shown(|out| value(out, number)), expected);
        }
    }

    #[test]
    fn times_have_three_places_or_none() {
        for (ms, expected) in [
            (0, "0"),
            (1_000, "1"),
            (1_500, "1.500"),
            (1_763_690_000_007, "1763690000.007"),
            (-1_001, "-1.001"),
        ] {
            assert_eq!(shown(|out| time(out, ms)), expected);
        }
    }
}
