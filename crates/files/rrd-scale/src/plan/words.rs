//! Numbers as people read them: counts, bytes, times.

/// Units of a thousand each, for counts that are too long for a column.
const LARGE: [(f64, &str); 4] = [(1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M")];
/// From here on a count is short of digits and has a unit.
const LONG: f64 = 1e7;
/// Units of bytes.
const BYTES: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
/// Units of time.
const TIMES: [(u64, &str); 4] = [(86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")];

/// A count, at most nine characters: `0`, `2.6e-5`, `0.42`, `8.31`, `12.4`, `1,234,567`, `12.3 M`.
pub(super) fn count(value: f64) -> String {
    match value {
        0.0 => "0".into(),
        value if value < 0.005 => format!("{value:.1e}"),
        value if value < 9.995 => format!("{value:.2}"),
        value if value < 99.95 => format!("{value:.1}"),
        value if value < LONG => grouped(value.round() as u64),
        value => {
            let unit = LARGE.iter().find(|(least, _)| value >= *least);
            let (least, name) = unit.copied().unwrap_or((1.0, ""));
            match value / least {
                share if share < 1e6 => format!("{share:.1} {name}"),
                _ => format!("{value:.1e}"),
            }
        }
    }
}

/// A whole number with a comma after each three digits.
pub(super) fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of things.
pub(super) fn number(value: u64, thing: &str) -> String {
    format!("{} {thing}{}", grouped(value), if value == 1 { "" } else { "s" })
}

/// Bytes in units of 1,024.
pub(super) fn bytes(value: f64) -> String {
    let mut left = value;
    let mut unit = 0;
    while left >= 1023.95 && unit + 1 < BYTES.len() {
        left /= 1024.0;
        unit += 1;
    }
    let name = BYTES[unit];
    match unit {
        0 => format!("{left:.0} {name}"),
        _ if left < 1e6 => format!("{left:.1} {name}"),
        _ => format!("{left:.1e} {name}"),
    }
}

/// A time in its two largest units: `5 min`, `21 h 20 min`, `256 d`.
pub(super) fn time(seconds: u64) -> String {
    let first = TIMES.iter().position(|(unit, _)| seconds >= *unit).unwrap_or(TIMES.len() - 1);
    let (unit, name) = TIMES[first];
    let whole = format!("{} {name}", seconds / unit);
    match TIMES.get(first + 1).filter(|(next, _)| seconds % unit >= *next) {
        Some((next, name)) => format!("{whole} {} {name}", seconds % unit / next),
        None => whole,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_short() {
        let cases = [
            (0.0, "0"),
            (2.604e-5, "2.6e-5"),
            (0.42, "0.42"),
            (8.314, "8.31"),
            (9.996, "10.0"),
            (99.96, "100"),
            (1_234_567.4, "1,234,567"),
            (12_345_678.0, "12.3 M"),
            (3.2e9, "3.2 G"),
            (1e30, "1.0e30"),
        ];
        for (value, text) in cases {
            assert_eq!(count(value), text);
            assert!(count(value).len() <= 9);
        }
    }

    #[test]
    fn one_thing_is_not_several() {
        assert_eq!([number(1, "archive"), number(8, "archive")], ["1 archive", "8 archives"]);
    }

    #[test]
    fn bytes_have_the_largest_unit_below_them() {
        assert_eq!([bytes(512.0), bytes(37_786.0), bytes(4_294_967_296.0)], ["512 B", "36.9 KiB", "4.0 GiB"]);
        assert_eq!(bytes(1023.99), "1.0 KiB");
        assert_eq!(bytes(1e30), "8.7e11 EiB");
    }

    #[test]
    fn times_have_two_units() {
        let cases =
            [(0, "0 s"), (300, "5 min"), (76_800, "21 h 20 min"), (22_118_400, "256 d"), (86_460, "1 d")];
        for (seconds, text) in cases {
            assert_eq!(time(seconds), text);
        }
    }
}
