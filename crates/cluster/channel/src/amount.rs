//! A number with a unit, as people write it: `1GiB`, `10ms`, `5%`. Gives it in the unit of a metric.

use khz_model::Unit;

/// A way to write an amount.
struct Suffix {
    written: &'static str,
    unit: Unit,
    factor: f64,
}

const fn suffix(written: &'static str, unit: Unit, factor: f64) -> Suffix {
    Suffix { written, unit, factor }
}

const SUFFIXES: &[Suffix] = &[
    suffix("B", Unit::Bytes, 1.0),
    suffix("KiB", Unit::Bytes, 1_024.0),
    suffix("MiB", Unit::Bytes, 1_048_576.0),
    suffix("GiB", Unit::Bytes, 1_073_741_824.0),
    suffix("TiB", Unit::Bytes, 1_099_511_627_776.0),
    suffix("kB", Unit::Bytes, 1e3),
    suffix("MB", Unit::Bytes, 1e6),
    suffix("GB", Unit::Bytes, 1e9),
    suffix("TB", Unit::Bytes, 1e12),
    suffix("ns", Unit::Seconds, 1e-9),
    suffix("us", Unit::Seconds, 1e-6),
    suffix("µs", Unit::Seconds, 1e-6),
    suffix("ms", Unit::Seconds, 1e-3),
    suffix("s", Unit::Seconds, 1.0),
    suffix("min", Unit::Seconds, 60.0),
    suffix("m", Unit::Seconds, 60.0),
    suffix("h", Unit::Seconds, 3_600.0),
    suffix("d", Unit::Seconds, 86_400.0),
    suffix("%", Unit::Percent, 1.0),
    suffix("Hz", Unit::Hertz, 1.0),
    suffix("kHz", Unit::Hertz, 1e3),
    suffix("MHz", Unit::Hertz, 1e6),
    suffix("GHz", Unit::Hertz, 1e9),
    suffix("°C", Unit::Celsius, 1.0),
    suffix("mV", Unit::Volts, 1e-3),
    suffix("V", Unit::Volts, 1.0),
    suffix("mA", Unit::Amperes, 1e-3),
    suffix("A", Unit::Amperes, 1.0),
    suffix("W", Unit::Watts, 1.0),
    suffix("kW", Unit::Watts, 1e3),
    suffix("J", Unit::Joules, 1.0),
    suffix("kJ", Unit::Joules, 1e3),
];

/// The number in `text`, in `unit`. Without a unit, any suffix may be there: sizes are in bytes then, times in seconds, shares in
/// percent.
///
/// # Errors
/// Returns what to write instead.
pub fn amount(text: &str, unit: Option<Unit>) -> Result<f64, String> {
    let text = text.trim();
    let (number, written) = number_and_rest(text)
        .ok_or_else(|| format!("'{text}' is no number with a unit: write it as 1GiB, 10ms, 5% or 17"))?;
    if written.is_empty() {
        return Ok(number);
    }
    let found = SUFFIXES.iter().find(|suffix| suffix.written == written);
    match (found, unit) {
        (Some(suffix), None) => Ok(number * suffix.factor),
        (Some(suffix), Some(unit)) if suffix.unit == unit => Ok(number * suffix.factor),
        (_, Some(unit)) => Err(format!("'{text}' does not fit: {}", examples(unit))),
        (None, None) => Err(format!("'{written}' is no unit: write 1GiB, 10ms, 5%, 2GHz or a number")),
    }
}

/// The unit in which an amount is written; `None`: it is a plain number, or none.
pub(crate) fn unit_of(text: &str) -> Option<Unit> {
    let (_, written) = number_and_rest(text.trim())?;
    SUFFIXES.iter().find(|suffix| suffix.written == written).map(|suffix| suffix.unit)
}

/// How amounts of a unit are written.
fn examples(unit: Unit) -> &'static str {
    match unit {
        Unit::Bytes => "the number is in bytes; write 512MiB, 1GiB or 2GB",
        Unit::Seconds => "the number is in seconds; write 10ms, 5s or 2h",
        Unit::Percent => "the number is in percent; write 5%",
        Unit::Hertz => "the number is in hertz; write 2.4GHz",
        Unit::Celsius => "the number is in degrees Celsius; write 80°C",
        Unit::Volts => "the number is in volts; write 1.2V or 900mV",
        Unit::Amperes => "the number is in amperes; write 2A or 500mA",
        Unit::Watts => "the number is in watts; write 400W or 2kW",
        Unit::Joules => "the number is in joules; write 300J or 5kJ",
        Unit::Count | Unit::Pages | Unit::Packets => "the number is a count; write it without a unit",
    }
}

/// Splits `-1.5e3ms` into its number and `ms`.
fn number_and_rest(text: &str) -> Option<(f64, &str)> {
    let is_digit = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
    let bytes = text.as_bytes();
    let sign = usize::from(matches!(bytes.first(), Some(b'+' | b'-')));
    let mut end = sign + bytes[sign..].iter().take_while(|byte| is_digit(byte)).count();
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let digits = bytes[end + 1 + sign..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits > 0 {
            end += 1 + sign + digits;
        }
    }
    let number: f64 = text[..end].parse().ok()?;
    number.is_finite().then(|| (number, text[end..].trim_start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_in_the_unit_of_the_metric() {
        for (text, unit, expected) in [
            ("1GiB", Some(Unit::Bytes), 1_073_741_824.0),
            ("2 MB", Some(Unit::Bytes), 2e6),
            ("10ms", Some(Unit::Seconds), 0.01),
            ("5%", Some(Unit::Percent), 5.0),
            ("17", Some(Unit::Pages), 17.0),
            ("-1.5e3", Some(Unit::Count), -1_500.0),
            ("2.4GHz", Some(Unit::Hertz), 2.4e9),
            ("80°C", Some(Unit::Celsius), 80.0),
            ("900mV", Some(Unit::Volts), 0.9),
            ("2kW", Some(Unit::Watts), 2_000.0),
            ("1e3ms", None, 1.0),
        ] {
            assert_eq!(amount(text, unit), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_does_not_fit_says_what_to_write() {
        for (text, unit, problem) in [
            ("10ms", Some(Unit::Bytes), "in bytes; write 512MiB"),
            ("1GiB", Some(Unit::Count), "without a unit"),
            ("5", None, ""),
            ("5 bananas", None, "'bananas' is no unit"),
            ("", None, "is no number"),
            ("GiB", Some(Unit::Bytes), "is no number"),
            ("1e999", None, "is no number"),
            ("1..2", None, "is no number"),
        ] {
            match amount(text, unit) {
                Ok(_) => assert_eq!(problem, ""),
                Err(found) => assert!(found.contains(problem) && !problem.is_empty(), "{text}: {found}"),
            }
        }
    }
}
