//! `print`, `println` and `printf`, as Go prints.

use std::fmt::Write as _;

use super::escape::is_hidden;
use crate::limits::EXPANSION_BYTES_MAX;
use crate::template::value::{Value, float, significant, with_exponent};

/// All values; a space between two that are no texts.
pub(super) fn print(arguments: &[Value]) -> String {
    let mut all = String::new();
    let mut before_is_text = true;
    for (at, value) in arguments.iter().enumerate() {
        let is_text = matches!(value, Value::Text(_) | Value::Html(_));
        if at > 0 && !is_text && !before_is_text {
            all.push(' ');
        }
        before_is_text = is_text;
        all.push_str(&printed(value));
    }
    all
}

pub(super) fn println(arguments: &[Value]) -> String {
    let all: Vec<String> = arguments.iter().map(printed).collect();
    format!("{}\n", all.join(" "))
}

fn printed(value: &Value) -> String {
    match value {
        Value::Nil => String::from("<nil>"),
        // A pointer, for Go.
        Value::Sample(_) => format!("&{}", value.print()),
        value => value.print(),
    }
}

/// What stands between `%` and the verb.
#[derive(Clone, Copy, Default)]
struct Verb {
    minus: bool,
    plus: bool,
    sharp: bool,
    space: bool,
    zero: bool,
    width: Option<usize>,
    precision: Option<usize>,
    /// It names its argument.
    is_chosen: bool,
}

/// A width or a precision that is larger is refused: Go's limit is a million.
const WIDTH_MAX: usize = EXPANSION_BYTES_MAX;

pub(super) fn printf(arguments: &[Value]) -> Result<String, String> {
    let Some((Value::Text(format), arguments)) = arguments.split_first() else {
        return Err(match arguments.first() {
            None => String::from("wrong number of args for printf: want at least 1 got 0"),
            Some(other) => format!("wrong type for value; expected string; got {}", other.kind()),
        });
    };
    let mut all = String::new();
    let mut rest = &**format;
    let (mut next, mut any_chosen) = (0, false);
    while let Some(at) = rest.find('%') {
        all.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let (verb, after) = verb(rest, arguments, &mut next)?;
        any_chosen |= verb.is_chosen;
        let Some(c) = after.chars().next() else {
            all.push_str("%!(NOVERB)");
            rest = "";
            break;
        };
        rest = &after[c.len_utf8()..];
        match (c, arguments.get(next)) {
            ('%', _) => all.push('%'),
            (c, None) => {
                let what = if verb.is_chosen { "BADINDEX" } else { "MISSING" };
                let _ = write!(all, "%!{c}({what})");
            }
            (c, Some(value)) => {
                next += 1;
                all.push_str(&one(&verb, c, value));
            }
        }
        if all.len() > EXPANSION_BYTES_MAX {
            return Err(format!("the text is longer than {EXPANSION_BYTES_MAX} bytes"));
        }
    }
    all.push_str(rest);
    if next < arguments.len() && !any_chosen {
        let extra: Vec<String> =
            arguments[next..].iter().map(|value| typed(&Verb::default(), value)).collect();
        let _ = write!(all, "%!(EXTRA {})", extra.join(", "));
    }
    Ok(all)
}

/// A value with its type, where it does not fit.
fn typed(verb: &Verb, value: &Value) -> String {
    match value {
        Value::Nil => String::from("<nil>"),
        value => format!("{}={}", value.kind(), one(verb, 'v', value)),
    }
}

/// Reads flags, width and precision.
fn verb<'a>(mut rest: &'a str, arguments: &[Value], next: &mut usize) -> Result<(Verb, &'a str), String> {
    let mut verb = Verb::default();
    while let Some(c) = rest.chars().next() {
        match c {
            '-' => (verb.minus, verb.zero) = (true, false),
            '+' => verb.plus = true,
            '#' => verb.sharp = true,
            ' ' => verb.space = true,
            '0' => verb.zero = !verb.minus,
            _ => break,
        }
        rest = &rest[1..];
    }
    let mut number = |rest: &mut &'a str| -> Result<Option<i64>, String> {
        if let Some(after) = rest.strip_prefix('*') {
            *rest = after;
            *next += 1;
            return match arguments.get(*next - 1) {
                Some(Value::Int(number)) if number.unsigned_abs() <= WIDTH_MAX as u64 => Ok(Some(*number)),
                _ => Err(String::from("the width after * is no whole number, or too large")),
            };
        }
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let text = &rest[..digits];
        *rest = &rest[digits..];
        match text.parse::<i64>() {
            _ if text.is_empty() => Ok(None),
            Ok(number) if number <= WIDTH_MAX as i64 => Ok(Some(number)),
            _ => Err(format!("a width is at most {WIDTH_MAX}")),
        }
    };
    if let Some(width) = number(&mut rest)? {
        if width < 0 {
            (verb.minus, verb.zero) = (true, false);
        }
        verb.width = usize::try_from(width.unsigned_abs()).ok();
    }
    if let Some(after) = rest.strip_prefix('.') {
        rest = after;
        verb.precision =
            Some(number(&mut rest)?.map_or(0, |precision| usize::try_from(precision).unwrap_or(0)));
    }
    if let Some((index, after)) = rest.strip_prefix('[').and_then(|inner| inner.split_once(']')) {
        // The number of the argument that comes next.
        let at = index.parse::<usize>().ok().filter(|at| (1..=arguments.len()).contains(at));
        *next = at.map_or(usize::MAX, |at| at - 1);
        (verb.is_chosen, rest) = (true, after);
    }
    Ok((verb, rest))
}

/// One value by one verb.
fn one(verb: &Verb, c: char, value: &Value) -> String {
    // By %v a plus is about fields, not about signs.
    let verb = &Verb { plus: verb.plus && c != 'v', ..*verb };
    let wrong = || format!("%!{c}({})", typed(verb, value));
    if c == 'T' {
        return padded(verb, value.kind().to_owned());
    }
    match (value, c) {
        (Value::Float(number), 'v' | 'g' | 'G' | 'e' | 'E' | 'f' | 'F' | 'x' | 'X') => {
            double(verb, c, *number)
        }
        (Value::Int(number), 'v' | 'd' | 'x' | 'X' | 'o' | 'b' | 'c' | 'q' | 'U') => whole(verb, c, *number),
        (Value::Bool(is_true), 'v' | 't') => padded(verb, is_true.to_string()),
        (Value::Text(text) | Value::Html(text), 'v' | 's' | 'q' | 'x' | 'X') => self::text(verb, c, text),
        (Value::Nil, 'v') => padded(verb, String::from("<nil>")),
        (Value::Nil, c) => format!("%!{c}(<nil>)"),
        (Value::Time(_) | Value::Duration(_), 'v' | 's' | 'q') => self::text(verb, c, &value.print()),
        (
            Value::Labels(_) | Value::Map(_) | Value::Sample(_) | Value::Samples(_) | Value::Data(_),
            'v' | 's',
        ) => padded(verb, printed(value)),
        _ => wrong(),
    }
}

fn padded(verb: &Verb, text: String) -> String {
    let missing = verb.width.unwrap_or(0).saturating_sub(text.chars().count());
    if missing == 0 {
        return text;
    }
    match (verb.minus, verb.zero) {
        (true, _) => text + &" ".repeat(missing),
        (false, true) => "0".repeat(missing) + &text,
        (false, false) => " ".repeat(missing) + &text,
    }
}

/// A number with its sign, and zeros after the sign.
fn signed(verb: &Verb, is_negative: bool, digits: &str) -> String {
    let sign = if is_negative {
        "-"
    } else if verb.plus {
        "+"
    } else if verb.space {
        " "
    } else {
        ""
    };
    let missing = verb.width.unwrap_or(0).saturating_sub(sign.len() + digits.chars().count());
    match (verb.minus, verb.zero) {
        (false, true) => format!("{sign}{}{digits}", "0".repeat(missing)),
        (false, false) => format!("{}{sign}{digits}", " ".repeat(missing)),
        (true, _) => format!("{sign}{digits}{}", " ".repeat(missing)),
    }
}

fn double(verb: &Verb, c: char, number: f64) -> String {
    if !number.is_finite() {
        let plain = Verb {
            zero: false,
            width: verb.width,
            minus: verb.minus,
            plus: verb.plus,
            space: verb.space,
            ..Verb::default()
        };
        let digits = if number.is_nan() { "NaN" } else { "Inf" };
        // Infinity has its sign always.
        let plain = Verb { plus: verb.plus || (number == f64::INFINITY && !verb.space), ..plain };
        return signed(&plain, number == f64::NEG_INFINITY, digits);
    }
    let size = number.abs();
    let digits = match c {
        'f' | 'F' => format!("{size:.*}", verb.precision.unwrap_or(6)),
        'e' | 'E' => exponential(size, verb.precision.unwrap_or(6)),
        'x' | 'X' => hexadecimal(size),
        _ => match verb.precision {
            Some(precision) => significant(size, precision),
            None => float(size),
        },
    };
    let digits = if matches!(c, 'E' | 'G' | 'X') { digits.to_uppercase() } else { digits };
    signed(verb, number.is_sign_negative(), &digits)
}

/// All digits to the base of 16, with the exponent of 2.
fn hexadecimal(size: f64) -> String {
    let bits = size.to_bits();
    let (mut exponent, mut fraction) = ((bits >> 52) as i32 - 1_023, bits & ((1 << 52) - 1));
    if bits == 0 {
        exponent = 0;
    } else if bits >> 52 == 0 {
        // A number below the normal ones: its first digit is 1, too.
        let zeros = fraction.leading_zeros() - 11;
        (exponent, fraction) = (-1_022 - zeros.cast_signed(), (fraction << zeros) & ((1 << 52) - 1));
    }
    let digits = format!("{fraction:013x}");
    let digits = digits.trim_end_matches('0');
    let point = if digits.is_empty() { "" } else { "." };
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("0x{}{point}{digits}p{sign}{:02}", u8::from(bits != 0), exponent.abs())
}

fn exponential(size: f64, places: usize) -> String {
    let text = format!("{size:.places$e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    with_exponent(digits, exponent.parse().unwrap_or(0))
}

fn whole(verb: &Verb, c: char, number: i64) -> String {
    let size = number.unsigned_abs();
    let character = || u32::try_from(number).ok().and_then(char::from_u32).unwrap_or('\u{fffd}');
    let digits = match c {
        'x' => format!("{}{size:x}", if verb.sharp { "0x" } else { "" }),
        'X' => format!("{}{size:X}", if verb.sharp { "0X" } else { "" }),
        'o' => format!("{}{size:o}", if verb.sharp { "0" } else { "" }),
        'b' => format!("{}{size:b}", if verb.sharp { "0b" } else { "" }),
        'c' => return padded(verb, character().to_string()),
        'q' => return padded(verb, format!("'{}'", escaped(&character().to_string(), '\''))),
        'U' => return padded(verb, format!("U+{size:04X}")),
        _ => size.to_string(),
    };
    match verb.precision {
        Some(0) if number == 0 => padded(
            &Verb { zero: false, width: verb.width, minus: verb.minus, ..Verb::default() },
            String::new(),
        ),
        Some(precision) => {
            let zeros = "0".repeat(precision.saturating_sub(digits.len()));
            let plain = Verb {
                width: verb.width,
                minus: verb.minus,
                plus: verb.plus,
                space: verb.space,
                ..Verb::default()
            };
            signed(&plain, number < 0, &format!("{zeros}{digits}"))
        }
        None => signed(verb, number < 0, &digits),
    }
}

fn text(verb: &Verb, c: char, text: &str) -> String {
    let end =
        verb.precision.and_then(|count| text.char_indices().nth(count)).map_or(text.len(), |(at, _)| at);
    let shown = &text[..end];
    match c {
        'q' if verb.sharp && !shown.contains(|c: char| c == '`' || (c.is_control() && c != '\t')) => {
            padded(verb, format!("`{shown}`"))
        }
        'q' => padded(verb, format!("\"{}\"", escaped(shown, '"'))),
        'x' | 'X' => {
            let bytes = &text.as_bytes()[..verb.precision.unwrap_or(text.len()).min(text.len())];
            let hex: String = bytes
                .iter()
                .map(|byte| if c == 'x' { format!("{byte:02x}") } else { format!("{byte:02X}") })
                .collect();
            padded(verb, hex)
        }
        _ => padded(verb, shown.to_owned()),
    }
}

/// A text as Go quotes it.
fn escaped(text: &str, quote: char) -> String {
    let mut all = String::new();
    for c in text.chars() {
        match c {
            '\x07' => all.push_str("\\a"),
            '\x08' => all.push_str("\\b"),
            '\x0c' => all.push_str("\\f"),
            '\n' => all.push_str("\\n"),
            '\r' => all.push_str("\\r"),
            '\t' => all.push_str("\\t"),
            '\x0b' => all.push_str("\\v"),
            '\\' => all.push_str("\\\\"),
            c if c == quote => all.extend(['\\', c]),
            c if (c as u32) < 0x80 && c.is_control() => drop(write!(all, "\\x{:02x}", c as u32)),
            c if is_hidden(c) => drop(write!(all, "\\u{:04x}", c as u32)),
            c => all.push(c),
        }
    }
    all
}
