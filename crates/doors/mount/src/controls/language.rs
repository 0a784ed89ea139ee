//! The language of control files: one line with a rate, a range or a deadband. Numbers stay exact, and become raw steps of
//! a metric when a value is compared. It knows no file and no node.

use khz_model::Rate;

/// Digits after the decimal point. A number with more is refused, not rounded.
const PLACES_MAX: u32 = 9;

/// A number with its suffix multiplied in: `units / 10^places`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amount {
    units: i128,
    places: u32,
}

/// Values are delivered while they are inside, and once when they leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    low: Amount,
    high: Amount,
    text: String,
}

/// Values are delivered when they differ enough from the last one that was delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    by: By,
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Percent(Amount),
    Steps(Amount),
}

/// A line for `rate`: `100Hz`, `100`, `5s`; `None`: back to the default.
pub fn rate(line: &[u8]) -> Result<Option<Rate>, String> {
    let Some(text) = argument(line, "rate")? else { return Ok(None) };
    text.parse().map(Some).map_err(|error: khz_model::QuantityError| error.to_string())
}

/// A line for `range`: `0 1GiB`; `None`: no range.
pub fn range(line: &[u8]) -> Result<Option<Range>, String> {
    let Some(text) = argument(line, "range")? else { return Ok(None) };
    let mut words = text.split_ascii_whitespace();
    let (Some(low), Some(high), None) = (words.next(), words.next(), words.next()) else {
        return Err(format!("'{text}' is not a range: write two numbers, as 0 1GiB"));
    };
    let (low, high) = (amount(low)?, amount(high)?);
    if low.compare(high).is_gt() {
        return Err(format!("'{text}' is not a range: the first number is above the second"));
    }
    Ok(Some(Range { low, high, text: text.to_owned() }))
}

/// A line for `change`: `5%` or `10MiB`; `None`: every change.
pub fn change(line: &[u8]) -> Result<Option<Change>, String> {
    let Some(text) = argument(line, "change")? else { return Ok(None) };
    if text.starts_with('-') {
        return Err(format!("'{text}' is no distance: write it without '-', as 5% or 10MiB"));
    }
    let by = match text.strip_suffix('%') {
        Some(percent) => By::Percent(amount(percent.trim_end())?),
        None => By::Steps(amount(text)?),
    };
    Ok(Some(Change { by, text: text.to_owned() }))
}

/// The line without its newline and without the file's own word, which may come first; `None`: `default`, `off` or nothing,
/// which remove a setting.
fn argument<'a>(line: &'a [u8], word: &str) -> Result<Option<&'a str>, String> {
    let text = std::str::from_utf8(line).map_err(|_| "the line is not UTF-8 text".to_owned())?;
    let text = text.trim_matches(|c: char| c.is_ascii_whitespace());
    if let Some(c) = text.chars().find(|c| c.is_control() && *c != '\t') {
        return Err(format!("write one line of plain text; this one contains {:?}", c));
    }
    let rest = text.strip_prefix(word).filter(|rest| rest.is_empty() || rest.starts_with(' '));
    let text = rest.unwrap_or(text).trim_ascii();
    Ok((!matches!(text, "" | "default" | "off")).then_some(text))
}

/// A number with one of the suffixes of sizes and counts.
fn amount(text: &str) -> Result<Amount, String> {
    let wrong = || format!("'{text}' is not a number: write it as 7, 0.5, 1GiB, 10MiB or 2k");
    let (sign, size) = text.strip_prefix('-').map_or((1, text), |size| (-1, size));
    let end = size.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(size.len());
    let (number, suffix) = size.split_at(end);
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let digits = whole.len() + part.len();
    if digits == 0 || digits > 20 || part.contains('.') || part.len() > PLACES_MAX as usize {
        return Err(wrong());
    }
    let units: i128 = format!("{whole}{part}").parse().map_err(|_| wrong())?;
    let factor: i128 = match suffix {
        "" | "B" | "s" | "Hz" => 1,
        "KiB" | "Ki" | "K" => 1 << 10,
        "MiB" | "Mi" | "M" => 1 << 20,
        "GiB" | "Gi" | "G" => 1 << 30,
        "TiB" | "Ti" | "T" => 1 << 40,
        "kB" | "k" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        _ => return Err(wrong()),
    };
    let (mut units, mut places) = (sign * units * factor, part.len() as u32);
    while places > 0 && units % 10 == 0 {
        (units, places) = (units / 10, places - 1);
    }
    Ok(Amount { units, places })
}

impl Amount {
    fn compare(self, other: Amount) -> std::cmp::Ordering {
        let (here, there) = (10i128.pow(other.places), 10i128.pow(self.places));
        self.units.saturating_mul(here).cmp(&other.units.saturating_mul(there))
    }

    /// The amount in raw steps of a metric with this many decimal places, rounded up or down between two steps.
    fn steps(self, places: u8, up: bool) -> i128 {
        let units = self.units.saturating_mul(10i128.pow(u32::from(places)));
        let divisor = 10i128.pow(self.places);
        let down = units.div_euclid(divisor);
        if up && units.rem_euclid(divisor) > 0 { down + 1 } else { down }
    }
}

impl Range {
    /// True when the value, in steps of a metric with this many decimal places, lies inside.
    pub fn holds(&self, (value, places): (i128, u8)) -> bool {
        value >= self.low.steps(places, true) && value <= self.high.steps(places, false)
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl Change {
    /// True when `value` lies far enough from `last`; both are steps of a metric with this many decimal places.
    pub fn is_passed(&self, last: i128, value: i128, places: u8) -> bool {
        let difference = value.saturating_sub(last).saturating_abs();
        match self.by {
            By::Steps(steps) => difference > 0 && difference >= steps.steps(places, true),
            By::Percent(Amount { units, places }) => {
                let wanted = last.saturating_abs().saturating_mul(units);
                difference > 0 && difference.saturating_mul(100 * 10i128.pow(places)) >= wanted
            }
        }
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_people_write_them() {
        assert_eq!(rate(b"100\n"), Ok(Rate::from_hz(100)));
        assert_eq!(rate(b"rate 100Hz"), Ok(Rate::from_hz(100)));
        assert_eq!(rate(b"default\n"), Ok(None));
        for line in ["0 1GiB\n", "range 0 1GiB", "  range   0\t1GiB "] {
            let range = range(line.as_bytes()).unwrap().unwrap();
            assert!(
                range.holds((0, 0)) && range.holds((1 << 30, 0)) && !range.holds(((1 << 30) + 1, 0)),
                "{line}"
            );
        }
        assert_eq!(change(b"change 5%").unwrap().unwrap().text(), "5%");
    }

    #[test]
    fn limits_meet_values_in_the_metrics_own_steps() {
        let range = range(b"0.5 2.25").unwrap().unwrap();
        assert!(
            range.holds((50, 2)) && range.holds((225, 2)) && !range.holds((49, 2)) && !range.holds((226, 2))
        );
        assert!(range.holds((1, 0)) && range.holds((2, 0)) && !range.holds((0, 0)) && !range.holds((3, 0)));
    }

    #[test]
    fn numbers_below_zero_have_ranges_and_deadbands_too() {
        let range = range(b"-10.5 -0.5").unwrap().unwrap();
        assert!(
            range.holds((-10, 0)) && range.holds((-1, 0)) && !range.holds((-11, 0)) && !range.holds((0, 0))
        );
        assert!(
            range.holds((-105, 1))
                && !range.holds((-106, 1))
                && range.holds((-5, 1))
                && !range.holds((-4, 1))
        );
        let five = change(b"5%").unwrap().unwrap();
        assert!(
            five.is_passed(-100, -95, 0) && five.is_passed(-100, 100, 0) && !five.is_passed(-100, -96, 0)
        );
    }

    #[test]
    fn a_deadband_is_relative_or_absolute_and_never_passes_the_same_value() {
        let five = change(b"5%").unwrap().unwrap();
        assert!(five.is_passed(100, 105, 0) && five.is_passed(100, 95, 0) && !five.is_passed(100, 104, 0));
        assert!(!five.is_passed(0, 0, 0) && five.is_passed(0, 1, 0) && five.is_passed(u64::MAX.into(), 0, 0));
        let ten = change(b"10MiB").unwrap().unwrap();
        assert!(ten.is_passed(0, 10 << 20, 0) && !ten.is_passed(0, (10 << 20) - 1, 0));
        let half = change(b"0.5").unwrap().unwrap();
        assert!(half.is_passed(100, 150, 2) && !half.is_passed(100, 149, 2));
        assert!(!change(b"0").unwrap().unwrap().is_passed(7, 7, 0));
    }

    #[test]
    fn bad_lines_say_what_is_wrong() {
        for (line, part) in [
            (&b"fast"[..], "is not a rate"),
            (b"\xff\xfe", "not UTF-8"),
            (b"100\n200", "one line"),
            (b"0Hz", "out of range"),
            (b"1\0", "one line"),
        ] {
            let error = rate(line).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
        for line in
            ["0", "0 1 2", "1 0", "a b", "1 -5", "--1 5", "- 5", "1..2 3", ". 1", "1e9 2e9", "0 1.0000000001"]
        {
            assert!(range(line.as_bytes()).is_err(), "{line}");
        }
        for line in ["%", "five", "-5%", "-1MiB", "99999999999999999999999"] {
            assert!(change(line.as_bytes()).is_err(), "{line}");
        }
    }

    #[test]
    fn any_bytes_give_an_answer() {
        for first in 0..=255u8 {
            for second in 0..=255u8 {
                let line = [first, second, b'%'];
                let _ = (rate(&line), range(&line), change(&line));
            }
        }
    }
}
