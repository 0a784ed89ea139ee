//! Moments and durations as Prometheus reads them: seconds or RFC 3339, seconds or `1h30m`. Times are ms since 1970.

use khz_model::moment;

/// The first and last moments that a query may name (ms): Prometheus' are as far away.
const FARTHEST: f64 = 9_000_000_000_000_000.0;

/// How clients of Prometheus write "from the beginning" and "to the end".
const FIRST: &str = "-292273086-05-16T16:47:06Z";
const LAST: &str = "292277025-08-18T07:12:54.999999999Z";

/// A moment.
pub(crate) fn moment(text: &str) -> Result<i64, String> {
    if let Ok(seconds) = text.parse::<f64>() {
        return match (seconds * 1_000.0).abs() <= FARTHEST {
            true => Ok(milliseconds(seconds)),
            false => Err(format!("cannot parse {text:?} to a valid timestamp")),
        };
    }
    match text {
        FIRST => return Ok(-(FARTHEST as i64)),
        LAST => return Ok(FARTHEST as i64),
        _ => {}
    }
    let is_date = text.len() > 10 && text.as_bytes()[4] == b'-' && matches!(text.as_bytes()[10], b'T' | b't');
    let read = is_date.then(|| moment::milliseconds(text)).flatten();
    read.ok_or_else(|| format!("cannot parse {text:?} to a valid timestamp"))
}

/// A moment in ms, as Prometheus rounds it: what is behind the point, by itself, so that its digits are those that were written.
fn milliseconds(seconds: f64) -> i64 {
    let behind = (seconds.fract() * 1_000.0).round() as i64;
    (seconds.trunc() as i64).saturating_mul(1_000).saturating_add(behind)
}

/// A duration in ms: seconds, or numbers with units, the largest first.
pub(crate) fn duration(text: &str) -> Result<i64, String> {
    let wrong = || format!("cannot parse {text:?} to a valid duration");
    if let Ok(seconds) = text.parse::<f64>() {
        let nanos = seconds * 1e9;
        return match nanos.abs() < i64::MAX as f64 {
            // Parts of a millisecond are cut off.
            true => Ok(nanos as i64 / 1_000_000),
            false => Err(format!("cannot parse {text:?} to a valid duration. It overflows int64")),
        };
    }
    let mut units = UNITS.iter();
    let (mut rest, mut sum) = (text, 0i64);
    if rest.is_empty() {
        return Err(wrong());
    }
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number: i64 = rest[..digits].parse().map_err(|_| wrong())?;
        rest = &rest[digits..];
        let length = rest.bytes().take_while(u8::is_ascii_lowercase).count();
        let unit = &rest[..length];
        rest = &rest[length..];
        // Each unit once, in their order.
        let (_, ms) = units.find(|(name, _)| *name == unit).ok_or_else(wrong)?;
        sum = number.checked_mul(*ms).and_then(|ms| sum.checked_add(ms)).ok_or_else(wrong)?;
    }
    match sum <= i64::MAX / 1_000_000 {
        true => Ok(sum),
        false => Err(wrong()),
    }
}

/// Units and their ms, the largest first.
const UNITS: [(&str, i64); 7] = [
    ("y", 365 * 86_400_000),
    ("w", 7 * 86_400_000),
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_seconds_or_dates() {
        for (text, ms) in [
            ("0", 0),
            ("1763690000", 1_763_690_000_000),
            ("1763690000.0075", 1_763_690_000_007),
            ("1763690000.0005", 1_763_690_000_000),
            ("0.0005", 1),
            ("1763690000.999", 1_763_690_000_999),
            ("-1.5", -1_500),
            ("1.5e3", 1_500_000),
            ("2025-11-21T01:53:20Z", 1_763_690_000_000),
            ("2025-11-21T01:53:20.123456789Z", 1_763_690_000_123),
            ("2025-11-21T03:53:20+02:00", 1_763_690_000_000),
            ("1969-12-31T23:59:59Z", -1_000),
            ("1970-01-01T01:00:00+02:00", -3_600_000),
            ("1900-03-01T00:00:00Z", -2_203_891_200_000),
            ("0001-01-01T00:00:00Z", -62_135_596_800_000),
            ("1996-02-29T12:00:00Z", 825_595_200_000),
            (FIRST, -9_000_000_000_000_000),
            (LAST, 9_000_000_000_000_000),
        ] {
            assert_eq!(moment(text), Ok(ms), "{text}");
        }
        for text in ["", "now", "-1h", "NaN", "Inf", "1e300", "2025-11-21", "2025-11-21T01", "é2345678901"] {
            assert!(moment(text).is_err(), "{text}");
        }
        assert_eq!(moment("x").unwrap_err(), "cannot parse \"x\" to a valid timestamp");
    }

    #[test]
    fn durations_are_seconds_or_numbers_with_units() {
        for (text, ms) in [
            ("15", 15_000),
            ("0.25", 250),
            ("1h30m", 5_400_000),
            ("1d", 86_400_000),
            ("250ms", 250),
            ("2w", 1_209_600_000),
            ("1m1ms", 60_001),
            ("3.0015", 3_001),
            ("0.0009", 0),
            ("292y", 292 * 365 * 86_400_000),
        ] {
            assert_eq!(duration(text), Ok(ms), "{text}");
        }
        for text in [
            "",
            "5x",
            "h",
            "30m1h",
            "1m1m",
            "1.5h",
            "-5m",
            "NaN",
            "1e300",
            "9999999999999y",
            "293y",
            "9223372037",
            "5 s",
        ] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
