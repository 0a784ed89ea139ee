//! Formats of numbers as C's printf has them, with rrdtool's `%s` and `%S` for the SI prefix.

use khz_rrd::error::{Error, Result};

/// Width and precision at most; rrdtool's texts end after 200 bytes anyway.
const WIDTH_MAX: usize = 200;
/// Bytes of a formatted text, as in rrdtool.
const TEXT_MAX: usize = 199;
const SYMBOLS: [&str; 17] =
    ["y", "z", "a", "f", "p", "n", "u", "m", " ", "k", "M", "G", "T", "P", "E", "Z", "Y"];
/// Where the symbol for 1 stands.
const ONE: i32 = 8;

/// A parsed format.
#[derive(Debug, Clone, PartialEq)]
pub struct Format {
    before: String,
    flag: Option<char>,
    width: usize,
    precision: Option<usize>,
    kind: char,
    between: String,
    /// `s` or `S`.
    prefix: Option<char>,
    after: String,
}

impl Format {
    /// # Errors
    /// rrdtool's message.
    pub fn parse(text: &str) -> Result<Self> {
        Self::parsed(text).ok_or_else(|| {
            Error::Refused(format!(
                "invalid format string '{text}' (should match '^(?:[^%]+|%%)*%[-+ 0#]?[0-9]*(?:[.][0-9]+)?l[eEfFgG](?:[^%]+|%%)*(?:%[sS])?(?:[^%]+|%%)*$')"
            ))
        })
    }

    /// The format of an axis, which has no place for an SI prefix.
    ///
    /// # Errors
    /// rrdtool's message.
    pub fn parse_axis(text: &str) -> Result<Self> {
        Self::parsed(text).filter(|format| format.prefix.is_none()).ok_or_else(|| {
            Error::Refused(format!(
                "invalid format string '{text}' (should match '^(?:[^%]+|%%)*%[-+ 0#]?[0-9]*(?:[.][0-9]+)?l[eEfFgG](?:[^%]+|%%)*$')"
            ))
        })
    }

    fn parsed(text: &str) -> Option<Self> {
        let (before, rest) = literal(text);
        let mut rest = rest.strip_prefix('%')?;
        let flag = rest.chars().next().filter(|letter| "-+ 0#".contains(*letter));
        if flag.is_some() {
            rest = &rest[1..];
        }
        let (width, mut rest) = digits(rest);
        let mut precision = None;
        if let Some(after) = rest.strip_prefix('.') {
            let (value, left) = digits(after);
            precision = Some(value?);
            rest = left;
        }
        rest = rest.strip_prefix('l')?;
        let kind = rest.chars().next().filter(|letter| "eEfFgG".contains(*letter))?;
        let (between, mut rest) = literal(&rest[1..]);
        let mut prefix = None;
        if let Some(after) = rest.strip_prefix('%') {
            prefix = Some(after.chars().next().filter(|letter| "sS".contains(*letter))?);
            rest = &after[1..];
        }
        let (after, rest) = literal(rest);
        let width = width.unwrap_or(0);
        rest.is_empty().then_some(Self { before, flag, width, precision, kind, between, prefix, after })
    }

    /// `value` in this format. `scale` is the last factor of a `%s`, which a `%S` takes again.
    pub fn apply(&self, value: f64, base: f64, scale: &mut Option<(f64, &'static str)>) -> String {
        let mut value = value;
        let mut symbol = "";
        if let Some(prefix) = self.prefix {
            let (factor, text) = match *scale {
                Some(kept) if prefix == 'S' => kept,
                _ => {
                    let found = si(value, base);
                    // A 0 has no size that a later %S could take.
                    if prefix == 's' || value != 0.0 {
                        *scale = Some(found);
                    }
                    found
                }
            };
            (value, symbol) = (value / factor, text);
        }
        let mut text = self.before.clone();
        text.push_str(&self.number(value));
        text.push_str(&self.between);
        text.push_str(symbol);
        text.push_str(&self.after);
        cut(text)
    }

    fn number(&self, value: f64) -> String {
        let body = c_number(
            value.abs(),
            self.kind,
            self.precision.unwrap_or(6).min(WIDTH_MAX),
            self.flag == Some('#'),
        );
        let body = if self.kind.is_ascii_uppercase() { body.to_uppercase() } else { body };
        let sign = match (value.is_sign_negative(), self.flag) {
            (true, _) => "-",
            (false, Some('+')) => "+",
            (false, Some(' ')) => " ",
            _ => "",
        };
        let missing = self.width.min(WIDTH_MAX).saturating_sub(sign.len() + body.len());
        match self.flag {
            Some('-') => format!("{sign}{body}{:missing$}", ""),
            Some('0') if value.is_finite() => format!("{sign}{}{body}", "0".repeat(missing)),
            _ => format!("{:missing$}{sign}{body}", ""),
        }
    }
}

/// `text` with at most the bytes that rrdtool keeps.
pub fn cut(mut text: String) -> String {
    let mut end = text.len().min(TEXT_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text
}

/// A value that is not finite, with its sign, as C's printf prints it.
pub fn c_signed(value: f64) -> String {
    format!("{}{}", if value.is_sign_negative() { "-" } else { "" }, c_number(value.abs(), 'f', 6, false))
}

/// `value` without a sign as C's printf prints it.
pub fn c_number(value: f64, kind: char, precision: usize, keeps_point: bool) -> String {
    if value.is_nan() {
        return "nan".into();
    }
    if value.is_infinite() {
        return "inf".into();
    }
    let text = match kind.to_ascii_lowercase() {
        'f' => format!("{value:.precision$}"),
        'e' => khz_rrd::number::scientific(value, precision),
        _ => {
            let precision = precision.max(1);
            let scientific = khz_rrd::number::scientific(value, precision - 1);
            let exponent: i32 = scientific.split_once('e').and_then(|(_, e)| e.parse().ok()).unwrap_or(0);
            let shown = match exponent < -4 || exponent >= precision as i32 {
                true => scientific,
                false => format!("{value:.*}", (precision as i32 - 1 - exponent).max(0) as usize),
            };
            return if keeps_point { shown } else { without_zeros(&shown) };
        }
    };
    if keeps_point && precision == 0 && kind.eq_ignore_ascii_case(&'f') { text + "." } else { text }
}

/// Without zeros at the end of the fraction.
fn without_zeros(text: &str) -> String {
    let (mantissa, exponent) = text.split_once('e').map_or((text, None), |(a, b)| (a, Some(b)));
    let mantissa = match mantissa.contains('.') {
        true => mantissa.trim_end_matches('0').trim_end_matches('.'),
        false => mantissa,
    };
    exponent.map_or(mantissa.to_string(), |exponent| format!("{mantissa}e{exponent}"))
}

/// The factor and the symbol of the SI prefix for `value`.
pub fn si(value: f64, base: f64) -> (f64, &'static str) {
    if value == 0.0 || value.is_nan() {
        return (1.0, SYMBOLS[ONE as usize]);
    }
    if value.is_infinite() {
        // As in rrdtool; so an infinite value stays infinite.
        return (0.0, "?");
    }
    let power = (value.abs().ln() / base.ln()).floor();
    let symbol = usize::try_from(power as i32 + ONE).ok().and_then(|at| SYMBOLS.get(at));
    (base.powf(power), symbol.copied().unwrap_or("?"))
}

/// The symbol for a power of the base.
pub fn symbol(power: i32) -> &'static str {
    usize::try_from(power.saturating_add(ONE)).ok().and_then(|at| SYMBOLS.get(at)).copied().unwrap_or("?")
}

/// The text up to a single percent sign, and the rest.
fn literal(text: &str) -> (String, &str) {
    let mut out = String::new();
    let mut rest = text;
    loop {
        let at = rest.find('%').unwrap_or(rest.len());
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        match rest.strip_prefix("%%") {
            Some(after) => (out.push('%'), rest = after).0,
            None => return (out, rest),
        }
    }
}

/// The digits at the start as a number, and the rest.
fn digits(text: &str) -> (Option<usize>, &str) {
    let length = text.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, rest) = text.split_at(length);
    let number = if digits.is_empty() { None } else { Some(digits.parse().unwrap_or(WIDTH_MAX)) };
    (number, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(format: &str, value: f64) -> String {
        Format::parse(format).unwrap().apply(value, 1000.0, &mut None)
    }

    #[test]
    fn numbers_are_printed_as_c_prints_them() {
        assert_eq!(shown("%6.2lf%s|", 2_000_000.0), "  2.00M|");
        assert_eq!(shown("%-8.1lf|%%", 3.0), "3.0     |%");
        assert_eq!(shown("%08.3le", -1.5e-7), "-1.500e-07");
        assert_eq!((shown("%lG", 1e-9), shown("%lg", 54.755268)), ("1E-09".into(), "54.7553".into()));
        assert_eq!(shown("%8lf", khz_rrd::number::UNKNOWN), "    -nan");
    }

    #[test]
    fn other_formats_are_refused() {
        for text in ["foo", "%d", "%lf%lf", "%%", "%5.lf", "%--5lf", "%lf%x", "%"] {
            assert!(Format::parse(text).is_err(), "{text}");
        }
    }
}
