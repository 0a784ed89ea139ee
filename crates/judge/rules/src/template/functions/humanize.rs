//! Numbers for people: with prefixes, as durations, as percentages, as dates.

use crate::template::value::{Value, date, significant};

const LARGE: [&str; 8] = ["k", "M", "G", "T", "P", "E", "Z", "Y"];
const SMALL: [&str; 8] = ["m", "u", "n", "p", "f", "a", "z", "y"];
const BINARY: [&str; 8] = ["ki", "Mi", "Gi", "Ti", "Pi", "Ei", "Zi", "Yi"];

/// A number, a text that is one, or the seconds of a duration.
pub(super) fn number(value: &Value) -> Result<f64, String> {
    match value {
        Value::Float(number) => Ok(*number),
        Value::Int(number) => Ok(*number as f64),
        Value::Text(text) => {
            parse(text).ok_or_else(|| format!("strconv.ParseFloat: parsing {text:?}: invalid syntax"))
        }
        other => Err(format!("can't convert {} to float", other.kind())),
    }
}

fn parse(text: &str) -> Option<f64> {
    let plain = text.strip_prefix(['+', '-']).unwrap_or(text).to_ascii_lowercase();
    let sign = if text.starts_with('-') { -1.0 } else { 1.0 };
    match &*plain {
        "inf" | "infinity" => return Some(sign * f64::INFINITY),
        "nan" => return (plain.len() == text.len()).then_some(f64::NAN),
        _ => {}
    }
    let begins = plain.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    // Beyond the largest double Go fails.
    let number = plain.parse::<f64>().ok().filter(|number| begins && number.is_finite())?;
    Some(sign * number)
}

/// Divides by `by` while it is at least that large.
fn scaled(mut value: f64, by: f64, prefixes: [&str; 8]) -> String {
    let mut prefix = "";
    for next in prefixes {
        if value.abs() < by {
            break;
        }
        prefix = next;
        value /= by;
    }
    format!("{}{prefix}", significant(value, 4))
}

fn shrunk(mut value: f64) -> (f64, &'static str) {
    let mut prefix = "";
    for next in SMALL {
        if value.abs() >= 1.0 {
            break;
        }
        prefix = next;
        value *= 1_000.0;
    }
    (value, prefix)
}

pub(super) fn humanize(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return significant(value, 4);
    }
    if value.abs() >= 1.0 {
        return scaled(value, 1_000.0, LARGE);
    }
    let (value, prefix) = shrunk(value);
    format!("{}{prefix}", significant(value, 4))
}

pub(super) fn humanize1024(value: f64) -> String {
    match value.abs() <= 1.0 || !value.is_finite() {
        true => significant(value, 4),
        false => scaled(value, 1_024.0, BINARY),
    }
}

pub(super) fn percentage(value: f64) -> String {
    format!("{}%", significant(value * 100.0, 4))
}

pub(super) fn duration(value: f64) -> String {
    if !value.is_finite() {
        return significant(value, 4);
    }
    if value == 0.0 {
        return format!("{}s", significant(value, 4));
    }
    if value.abs() < 1.0 {
        let (value, prefix) = shrunk(value);
        return format!("{}{prefix}s", significant(value, 4));
    }
    let sign = if value < 0.0 { "-" } else { "" };
    let value = value.abs();
    // As Go converts: what does not fit becomes the lowest number.
    let whole = if value >= 9_223_372_036_854_775_808.0 { i64::MIN } else { value as i64 };
    let (seconds, minutes) = (whole % 60, whole / 60 % 60);
    let (hours, days) = (whole / 3_600 % 24, whole / 86_400);
    if days != 0 {
        format!("{sign}{days}d {hours}h {minutes}m {seconds}s")
    } else if hours != 0 {
        format!("{sign}{hours}h {minutes}m {seconds}s")
    } else if minutes != 0 {
        format!("{sign}{minutes}m {seconds}s")
    } else {
        format!("{sign}{}s", significant(value, 4))
    }
}

/// A time of seconds since 1970, in ms.
pub(super) fn time(seconds: f64) -> Result<i64, String> {
    if !seconds.is_finite() {
        return Err(String::from("value is NaN or Inf"));
    }
    let ns = seconds * 1e9;
    if !(-9_223_372_036_854_775_808.0..=9_223_372_036_854_775_807.0).contains(&ns) {
        let number = crate::template::value::float(seconds);
        return Err(format!(
            "{number} cannot be represented as a nanoseconds timestamp since it overflows int64"
        ));
    }
    // Go divides towards zero.
    Ok((ns as i64) / 1_000_000)
}

pub(super) fn timestamp(seconds: f64) -> Result<String, String> {
    match seconds.is_finite() {
        true => time(seconds).map(date),
        false => Ok(significant(seconds, 4)),
    }
}
