//! Values as people read them: bytes in KiB, rates with their unit, long counts in groups. For screens only:
//! programs get the exact decimal.

use std::time::Duration;

use khz_model::{Labels, Nanos, RateUnit, Reading, Unit, Value, ValueFormat};
use serde_json::json;

/// The sign after a value in a unit ("bytes"). Unknown units are printed as they are.
pub fn sign(unit: &str) -> &str {
    Unit::named(unit).map_or(unit, |known| known.sign())
}

/// A value of a gauge or a total: `15.3 GiB`, `0.52`, `86,400 s`.
pub fn of_value(decimal: &str, unit: &str) -> String {
    if unit == Unit::Bytes.as_str()
        && let Ok(bytes) = decimal.parse::<f64>()
    {
        return of_bytes(bytes, "");
    }
    with_sign(&grouped(decimal), sign(unit), "")
}

/// A rate of a counter: `12.3 KiB/s`, `1,234 /s`; of a time `1.53 CPUs` or `37.5 %`.
pub fn of_rate(per_second: f64, unit: &RateUnit) -> String {
    match unit {
        RateUnit::Cpus => format!("{per_second:.2} CPUs"),
        RateUnit::ShareOfTime => format!("{:.1} %", per_second * 100.0),
        RateUnit::AtATime => format!("{per_second:.2} at a time"),
        RateUnit::PerSecond(unit) if unit == "bytes" => of_bytes(per_second, "/s"),
        RateUnit::PerSecond(unit) if per_second == 0.0 => with_sign("0", sign(unit), "/s"),
        RateUnit::PerSecond(unit) if per_second < 10.0 => {
            with_sign(&format!("{per_second:.2}"), sign(unit), "/s")
        }
        RateUnit::PerSecond(unit) => with_sign(&grouped(&format!("{per_second:.0}")), sign(unit), "/s"),
    }
}

/// A count in at most five characters: `86.4k`, `12.3M`.
pub fn of_count(count: u64) -> String {
    const STEPS: [(f64, &str); 4] = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    // 9,999 is as short as 10.0k and more exact.
    if count < 10_000 {
        return count.to_string();
    }
    let count = count as f64;
    let (step, sign) = STEPS.into_iter().find(|(step, _)| count >= *step).unwrap_or((1.0, ""));
    let places = if count / step < 99.95 { 1 } else { 0 };
    format!("{:.places$}{sign}", count / step)
}

/// Units of time, in seconds.
const TIME_STEPS: [(f64, &str); 7] =
    [(86_400.0, "d"), (3_600.0, "h"), (60.0, "m"), (1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")];

/// A span of seconds in its largest unit: `850ns`, `-12us`, `1.2ms`, `12s`, `3h`, `5d`.
pub fn of_span(seconds: f64) -> String {
    let size = seconds.abs();
    let Some((step, unit)) = TIME_STEPS.into_iter().find(|(step, _)| size >= *step) else {
        return "0s".to_owned();
    };
    let places = if step <= 1.0 && size / step < 9.95 && unit != "ns" { 1 } else { 0 };
    // Spans are rounded down: 23 hours and 59 minutes are not a day.
    let number = if step > 1.0 { (size / step).floor() } else { size / step };
    format!("{}{number:.places$}{unit}", if seconds < 0.0 { "-" } else { "" })
}

/// The same with the next smaller unit: `3m 5s`, `2h 7m`; for spans of which the rest matters.
pub fn of_whole_span(seconds: f64) -> String {
    const STEPS: [(f64, f64, &str); 3] = [(86_400.0, 3_600.0, "h"), (3_600.0, 60.0, "m"), (60.0, 1.0, "s")];
    match STEPS.into_iter().find(|(step, ..)| seconds >= *step) {
        Some((step, next, unit)) if seconds % step >= next => {
            format!("{} {:.0}{unit}", of_span(seconds), (seconds % step / next).floor())
        }
        _ => of_span(seconds),
    }
}

/// A difference of two clocks in its largest unit, rounded: `-12us`, `1.5h`, and `2h` for a second less than that.
pub fn of_difference(seconds: f64) -> String {
    let size = seconds.abs();
    let rounded = |step: f64| match size / step {
        small if small < 9.95 => (10.0 * small).round() / 10.0,
        large => large.round(),
    };
    let Some((step, unit)) = TIME_STEPS.into_iter().find(|(step, _)| rounded(*step) >= 1.0) else {
        return "0s".to_owned();
    };
    let number = match rounded(step) {
        small if step <= 1.0 && small < 10.0 && unit != "ns" => format!("{small:.1}"),
        other => other.to_string(),
    };
    format!("{}{number}{unit}", if seconds < 0.0 { "-" } else { "" })
}

/// Seconds from a time until now. The time is in seconds since 1970, as text; one that cannot be read is long ago.
pub fn seconds_since(time: &str, now: Nanos) -> f64 {
    time.parse().map_or(f64::INFINITY, |time: f64| (now.0 as f64 / 1e9 - time).max(0.0))
}

/// A time in its largest unit, as [`of_span`].
pub fn of_time(time: Duration) -> String {
    of_span(time.as_secs_f64())
}

/// Bytes in their largest unit: `12.3 KiB`, then `per`.
pub fn of_bytes(bytes: f64, per: &str) -> String {
    const STEPS: [(f64, &str); 4] =
        [(1_099_511_627_776.0, "TiB"), (1_073_741_824.0, "GiB"), (1_048_576.0, "MiB"), (1024.0, "KiB")];
    match STEPS.iter().find(|(step, _)| bytes.abs() >= *step) {
        Some((step, unit)) => format!("{:.1} {unit}{per}", bytes / step),
        None => format!("{bytes:.0} B{per}"),
    }
}

/// A reading in a file for programs: the value, exact where it is a decimal; empty where it is absent, `failed` where reading
/// failed.
pub fn cell(format: ValueFormat, reading: Reading) -> String {
    match format.value_or_why(reading) {
        Ok(value) => value.to_string(),
        Err(fault) if fault.is_failure() => "failed".to_owned(),
        Err(_) => String::new(),
    }
}

/// A cell of CSV, in quotes where it has commas: labels do, and names of series with labels. Quotes themselves and line
/// breaks are written `%XX` in both.
pub fn csv(cell: String) -> String {
    if cell.contains(',') { format!("\"{cell}\"") } else { cell }
}

/// Labels as an object.
pub fn labels_json(labels: &Labels) -> serde_json::Value {
    labels
        .iter()
        .map(|(name, value)| (name.to_owned(), json!(value)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

/// The same in JSON: the value as a string, or an object that says why there is none.
pub fn cell_json(format: ValueFormat, reading: Reading) -> serde_json::Value {
    match format.value_or_why(reading) {
        Ok(Value::Labels(labels)) => {
            json!({ "info": labels_json(&labels) })
        }
        Ok(value) => json!(value.to_string()),
        Err(fault) if fault.is_failure() => json!({ "failed": fault.to_string() }),
        Err(why) => json!({ "absent": why.to_string() }),
    }
}

fn with_sign(number: &str, sign: &str, per: &str) -> String {
    if sign.is_empty() && per.is_empty() { number.to_owned() } else { format!("{number} {sign}{per}") }
}

/// `1234567.89` as `1,234,567.89`; other text stays as it is.
fn grouped(decimal: &str) -> String {
    let (whole, rest) = decimal.split_at(decimal.find('.').unwrap_or(decimal.len()));
    if whole.is_empty() || !whole.bytes().all(|b| b.is_ascii_digit()) {
        return decimal.to_owned();
    }
    let mut text = String::with_capacity(decimal.len() + whole.len() / 3);
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_span_has_its_rest() {
        for (seconds, text) in [
            (5.0, "5.0s"),
            (60.0, "1m"),
            (185.4, "3m 5s"),
            (7_260.0, "2h 1m"),
            (90_000.0, "1d 1h"),
            (86_410.0, "1d"),
        ] {
            assert_eq!(of_whole_span(seconds), text);
        }
    }

    #[test]
    fn values_for_people() {
        for (decimal, unit, expected) in [
            ("16479993856", "bytes", "15.3 GiB"),
            ("1023", "bytes", "1023 B"),
            ("0.52", "count", "0.52"),
            ("18446744073709551615", "count", "18,446,744,073,709,551,615"),
            ("1234567.89", "seconds", "1,234,567.89 s"),
            ("999", "pages", "999 pages"),
            ("1.5", "furlongs", "1.5 furlongs"),
            ("odd", "count", "odd"),
        ] {
            assert_eq!(of_value(decimal, unit), expected);
        }
    }

    #[test]
    fn counts_and_spans_are_short() {
        for (count, expected) in [
            (0, "0"),
            (9_999, "9999"),
            (86_400, "86.4k"),
            (266_400, "266k"),
            (12_345_678, "12.3M"),
            (u64::MAX, "18446744T"),
        ] {
            assert_eq!(of_count(count), expected);
        }
        for (seconds, expected) in [
            (0.0, "0s"),
            (-12.345e-6, "-12us"),
            (1.8e-3, "1.8ms"),
            (12.3, "12s"),
            (3_599.0, "59m"),
            (7_204.0, "2h"),
            (266_400.0, "3d"),
            (850e-9, "850ns"),
        ] {
            assert_eq!(of_span(seconds), expected);
        }
        for (seconds, expected) in [
            (0.0, "0s"),
            (-12.345e-6, "-12us"),
            (-1.84e-3, "-1.8ms"),
            (12.6, "13s"),
            (5_400.0, "1.5h"),
            (7_199.999_8, "2h"),
            (-3_598.0, "-1h"),
            (-7_200.4, "-2h"),
            (59.97, "1m"),
            (85_000.0, "1d"),
            (82_000.0, "23h"),
            (266_400.0, "3.1d"),
            (850e-9, "850ns"),
        ] {
            assert_eq!(of_difference(seconds), expected);
        }
    }

    #[test]
    fn rates_for_people() {
        for (rate, name, unit, expected) in [
            (12_595.2, "net.rx_bytes", "bytes", "12.3 KiB/s"),
            (1.53, "cpu.all.user", "seconds", "1.53 CPUs"),
            (0.375, "disk.io_time", "seconds", "37.5 %"),
            (2.5, "disk.io_time_weighted", "seconds", "2.50 at a time"),
            (0.375, "job.waited", "seconds", "0.38 s/s"),
            (1234.4, "kernel.forks", "count", "1,234 /s"),
            (0.0, "net.rx_packets", "packets", "0 pkt/s"),
            (2.5, "net.rx_packets", "packets", "2.50 pkt/s"),
        ] {
            assert_eq!(of_rate(rate, &RateUnit::of(name, unit)), expected);
        }
    }
}
