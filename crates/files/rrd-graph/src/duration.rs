//! Durations as rrdtool prints them (`valstrfduration`; the manual rrdgraph_graph, "Formatting values as duration").

use khz_rrd::error::{Result, refused};

use crate::format::cut;

/// A conversion: its letter, its milliseconds, and how many make the next larger one; 0: it counts on.
const PARTS: [(char, f64, f64); 10] = [
    ('W', 604_800_000.0, 0.0),
    ('d', 86_400_000.0, 7.0),
    ('D', 86_400_000.0, 0.0),
    ('h', 3_600_000.0, 24.0),
    ('H', 3_600_000.0, 0.0),
    ('m', 60_000.0, 60.0),
    ('M', 60_000.0, 0.0),
    ('s', 1_000.0, 60.0),
    ('S', 1_000.0, 0.0),
    ('f', 1.0, 1_000.0),
];

/// Decimal places beyond which a double has nothing to say; the others are 0.
const PLACES_MAX: usize = 15;

/// Characters of a number; a longer text is cut anyway.
const WIDTH_MAX: usize = 1_000;

/// Milliseconds in a format.
///
/// # Errors
/// A conversion that there is not.
pub fn text(milliseconds: f64, format: &str) -> Result<String> {
    let mut out = String::from(if milliseconds < 0.0 { "-" } else { "" });
    let mut rest = format;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        let Some((conversion, after)) = conversion(&rest[at + 1..]) else {
            return refused("Wrong duration format");
        };
        conversion.put(&mut out, milliseconds.abs());
        rest = after;
    }
    out.push_str(rest);
    Ok(cut(out))
}

/// Whether a format has only conversions that there are.
///
/// # Errors
/// It has another.
pub fn check(format: &str) -> Result<()> {
    text(0.0, format).map(drop)
}

/// `[0]WIDTH[.PLACES]LETTER`.
struct Conversion {
    has_zeros: bool,
    width: usize,
    places: usize,
    letter: char,
}

/// The conversion at the beginning of a text, and what comes after it.
fn conversion(text: &str) -> Option<(Conversion, &str)> {
    let (has_zeros, rest) = match text.strip_prefix('0') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (width, rest) = number(rest);
    let (places, rest) = match rest.strip_prefix('.') {
        Some(rest) => number(rest),
        None => (0, rest),
    };
    let letter = rest.chars().next().filter(|letter| *letter == '%' || part(*letter).is_some())?;
    Some((Conversion { has_zeros, width, places, letter }, &rest[letter.len_utf8()..]))
}

/// The digits at the beginning of a text, as a number up to [`WIDTH_MAX`].
fn number(text: &str) -> (usize, &str) {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let value = if digits == 0 { 0 } else { text[..digits].parse().unwrap_or(WIDTH_MAX) };
    (value.min(WIDTH_MAX), &text[digits..])
}

fn part(letter: char) -> Option<(f64, f64)> {
    let (_, size, within) = PARTS.iter().find(|(known, ..)| *known == letter)?;
    Some((*size, *within))
}

impl Conversion {
    fn put(&self, out: &mut String, milliseconds: f64) {
        let value = match part(self.letter) {
            Some((size, 0.0)) => milliseconds / size,
            Some((size, within)) => milliseconds / size % within,
            None => return out.push('%'),
        };
        let mut number = format!("{}", value.trunc());
        if self.places > 0 {
            // Cut, not rounded.
            let known = self.places.min(PLACES_MAX);
            let digits = (value.fract() * 10f64.powi(known as i32)).floor();
            number.push_str(&format!(".{digits:0>known$}"));
            number.push_str(&"0".repeat(self.places - known));
        }
        let fill = if self.has_zeros { "0" } else { " " };
        out.push_str(&fill.repeat(self.width.saturating_sub(number.len())));
        out.push_str(&number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_the_conversions_of_the_manual() {
        let day = f64::from(86_400_000 + 3_600_000 + 61_001);
        for (value, format, shown) in [
            (day, "%H_%02m_%02s_%03f", "25_01_01_001"),
            (day, "%W %d %D %h:%M:%S", "0 1 1 1:1501:90061"),
            (day, "%05.2m|%5d|%.s", "01.01|    1|1"),
            (-5_000.0, "%s s, 5 %%", "-5 s, 5 %"),
            (0.0, "%08.3s", "0000.000"),
        ] {
            assert_eq!(text(value, format).unwrap(), shown, "{format}");
        }
        for format in ["%x", "%", "%5", "%.", "%-3d", "%w", "a%"] {
            assert!(check(format).is_err(), "{format}");
        }
    }
}
