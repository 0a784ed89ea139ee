//! Durations as Prometheus writes them: `5m`, `1h30m`. They are whole milliseconds, never negative.

/// The units, from the largest, with their milliseconds.
const UNITS: [(&str, u64); 7] = [
    ("y", 31_536_000_000),
    ("w", 604_800_000),
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

/// The longest that Prometheus can count, in ms: 292 years.
const MS_MAX: u64 = i64::MAX as u64 / 1_000_000;

/// Reads a duration, in ms.
///
/// # Errors
///
/// Says what is wrong with the text.
pub fn parse_duration(text: &str) -> Result<i64, String> {
    let advice = "write it as 30s, 5m or 1h30m";
    let bad = || format!("\"{text}\" is no duration: {advice}");
    match text {
        "0" => return Ok(0),
        "" => return Err(format!("an empty text is no duration: {advice}")),
        _ => {}
    }
    let (mut rest, mut next_unit, mut sum) = (text, 0, 0_u64);
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number: u64 = rest[..digits].parse().map_err(|_| bad())?;
        rest = &rest[digits..];
        let unit_bytes = rest.bytes().take_while(|byte| !byte.is_ascii_digit()).count();
        let (unit, after) = rest.split_at(unit_bytes);
        if unit.is_empty() {
            return Err(format!("\"{text}\" has no unit: {advice}"));
        }
        let at = UNITS.iter().position(|(name, _)| *name == unit);
        let at = at.ok_or_else(|| {
            format!("\"{text}\" has the unknown unit \"{unit}\": the units are y, w, d, h, m, s, ms")
        })?;
        if at < next_unit {
            return Err(format!(
                "\"{text}\" is no duration: its units go from the largest to the smallest, each once"
            ));
        }
        let part = number.checked_mul(UNITS[at].1);
        sum = part
            .and_then(|part| sum.checked_add(part))
            .filter(|sum| *sum <= MS_MAX)
            .ok_or_else(|| format!("\"{text}\" is too long: a duration is at most 292 years"))?;
        (rest, next_unit) = (after, at + 1);
    }
    i64::try_from(sum).map_err(|_| bad())
}

/// A duration (ms) as Prometheus prints it.
pub fn duration_text(ms: i64) -> String {
    if ms == 0 {
        return String::from("0s");
    }
    let mut text = String::from(if ms < 0 { "-" } else { "" });
    let mut rest = ms.unsigned_abs();
    for (unit, length) in UNITS {
        // Years and weeks only if nothing is left: 90d is easier to read than 12w6d.
        let is_exact = matches!(unit, "y" | "w");
        if rest >= length && (!is_exact || rest.is_multiple_of(length)) {
            text.push_str(&format!("{}{unit}", rest / length));
            rest %= length;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_printed_as_prometheus_does() {
        for (text, ms, printed) in [
            ("0", 0, "0s"),
            ("0s", 0, "0s"),
            ("5m", 300_000, "5m"),
            ("1h30m", 5_400_000, "1h30m"),
            ("90d", 7_776_000_000, "90d"),
            ("14d", 1_209_600_000, "2w"),
            ("1y1ms", 31_536_000_001, "365d1ms"),
            ("1500ms", 1_500, "1s500ms"),
            ("292y", 9_208_512_000_000, "292y"),
        ] {
            assert_eq!(parse_duration(text), Ok(ms), "{text}");
            assert_eq!(duration_text(ms), printed);
        }
        for (text, problem) in [
            ("", "an empty text"),
            ("5", "has no unit"),
            ("m", "is no duration"),
            ("1m1h", "largest to the smallest"),
            ("1m1m", "largest to the smallest"),
            ("1.5h", "unknown unit \".\""),
            ("-5m", "is no duration"),
            ("5 m", "unknown unit \" m\""),
            ("300y", "too long"),
            ("99999999999999999999s", "is no duration"),
            ("18446744073709551615y", "too long"),
            ("1mü", "unknown unit \"mü\""),
        ] {
            let error = parse_duration(text).unwrap_err();
            assert!(error.contains(problem), "{text}: {error}");
        }
    }
}
