//! `print`, `println` and `printf`, as Go prints, even if a format does not fit its values. Formats are read here; one value by one
//! verb is in `printf/verb.rs`, its numbers in `printf/number.rs` and its texts in `printf/text.rs`.

mod number;
mod text;
mod verb;

use std::fmt::Write as _;

use self::verb::{Flags, one, typed};
use crate::limits::EXPANSION_BYTES_MAX;
use crate::template::value::Value;

/// Prints all values, with a space between two that are not texts.
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

/// Go stops reading digits at a larger number, and does not accept a larger argument as a width.
const NUMBER_MAX: i64 = 1_000_000;

pub(super) fn printf(arguments: &[Value]) -> Result<String, String> {
    let Some((Value::Text(format), arguments)) = arguments.split_first() else {
        return Err(match arguments.first() {
            None => String::from("wrong number of args for printf: want at least 1 got 0"),
            Some(other) => format!("wrong type for value; expected string; got {}", other.kind()),
        });
    };
    let mut reader = Reader {
        rest: format,
        arguments,
        next: 0,
        has_chosen: false,
        is_too_long: false,
        all: String::new(),
    };
    while let Some(at) = reader.rest.find('%') {
        reader.all.push_str(&reader.rest[..at]);
        reader.rest = &reader.rest[at + 1..];
        reader.verb();
        if reader.is_too_long || reader.all.len() > EXPANSION_BYTES_MAX {
            return Err(format!("the text is longer than {EXPANSION_BYTES_MAX} bytes"));
        }
    }
    let Reader { rest, next, has_chosen, mut all, .. } = reader;
    all.push_str(rest);
    if let Some(extra) = arguments.get(next..).filter(|extra| !extra.is_empty() && !has_chosen) {
        let extra: Vec<String> = extra.iter().map(|value| typed(&Flags::default(), value)).collect();
        let _ = write!(all, "%!(EXTRA {})", extra.join(", "));
    }
    Ok(all)
}

/// A format on its way.
struct Reader<'a> {
    rest: &'a str,
    arguments: &'a [Value],
    /// The index of the next argument.
    next: usize,
    /// A verb has named its argument. Then unused arguments are not reported.
    has_chosen: bool,
    /// A width or a precision is larger than any text may be.
    is_too_long: bool,
    all: String,
}

/// A number of a format; `None`: it is too large for Go.
fn number_of(digits: &str) -> Option<usize> {
    let before_last = digits[..digits.len() - 1].parse::<i64>().unwrap_or(0);
    let is_large = digits.len() > 18 || before_last > NUMBER_MAX;
    digits.parse().ok().filter(|_| !is_large)
}

impl Reader<'_> {
    /// Reads what follows a `%`, and prints that.
    fn verb(&mut self) {
        let mut flags = self.flags();
        let (mut fits, mut is_chosen) = (true, false);
        self.choose(&mut fits, &mut is_chosen);
        if self.take('*') {
            match self.number_of_argument() {
                Some(width) => {
                    flags.minus |= width < 0;
                    flags.width = self.bounded(usize::try_from(width.unsigned_abs()).unwrap_or(usize::MAX));
                }
                None => self.all.push_str("%!(BADWIDTH)"),
            }
            is_chosen = false;
        } else {
            flags.width = self.number();
            // `%[3]2d`: the number of an argument stands before its verb.
            fits &= !(is_chosen && flags.width.is_some());
        }
        if self.take('.') {
            fits &= !is_chosen;
            self.choose(&mut fits, &mut is_chosen);
            if self.take('*') {
                let precision = self.number_of_argument();
                flags.precision = precision.and_then(|precision| usize::try_from(precision).ok());
                flags.precision = flags.precision.and_then(|precision| self.bounded(precision));
                if flags.precision.is_none() {
                    self.all.push_str("%!(BADPREC)");
                }
                is_chosen = false;
            } else {
                flags.precision = Some(self.number().unwrap_or(0));
            }
        }
        if !is_chosen {
            self.choose(&mut fits, &mut is_chosen);
        }
        let Some(c) = self.rest.chars().next() else { return self.all.push_str("%!(NOVERB)") };
        self.rest = &self.rest[c.len_utf8()..];
        let problem = match self.arguments.get(self.next) {
            _ if c == '%' => return self.all.push('%'),
            _ if !fits => "BADINDEX",
            None => "MISSING",
            Some(value) => {
                self.next += 1;
                return self.all.push_str(&one(&flags.of(c), c, value));
            }
        };
        let _ = write!(self.all, "%!{c}({problem})");
    }

    fn flags(&mut self) -> Flags {
        let mut flags = Flags::default();
        while let Some(c) = self.rest.chars().next() {
            match c {
                '-' => flags.minus = true,
                '+' => flags.plus = true,
                '#' => flags.sharp = true,
                ' ' => flags.space = true,
                '0' => flags.zero = true,
                _ => break,
            }
            self.rest = &self.rest[1..];
        }
        flags
    }

    /// Reads `[N]`, the number of the argument that comes next, if it is there.
    fn choose(&mut self, fits: &mut bool, is_chosen: &mut bool) {
        *is_chosen = false;
        let Some(inner) = self.rest.strip_prefix('[') else { return };
        self.has_chosen = true;
        let Some((text, after)) = inner.split_once(']') else {
            (*fits, self.rest) = (false, inner);
            return;
        };
        self.rest = after;
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = if is_number { number_of(text) } else { None };
        let at = number.and_then(|number| number.checked_sub(1));
        match at.filter(|at| *at < self.arguments.len()) {
            Some(at) => (self.next, *is_chosen) = (at, true),
            None => (*fits, *is_chosen) = (false, number.is_some()),
        }
    }

    fn take(&mut self, c: char) -> bool {
        let after = self.rest.strip_prefix(c);
        self.rest = after.unwrap_or(self.rest);
        after.is_some()
    }

    /// Reads a number. After one that is too large, nothing is read.
    fn number(&mut self) -> Option<usize> {
        let digits = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        let (text, after) = self.rest.split_at(digits);
        self.rest = after;
        if text.is_empty() {
            return None;
        }
        let number = number_of(text);
        if number.is_none() {
            self.rest = "";
        }
        self.bounded(number?)
    }

    /// A width or a precision, if a text may be that long.
    fn bounded(&mut self, number: usize) -> Option<usize> {
        let is_too_long = number > EXPANSION_BYTES_MAX;
        self.is_too_long |= is_too_long;
        (!is_too_long).then_some(number)
    }

    /// The next argument as a width or a precision.
    fn number_of_argument(&mut self) -> Option<i64> {
        let value = self.arguments.get(self.next)?;
        self.next += 1;
        match value {
            Value::Int(number) if number.abs_diff(0) <= NUMBER_MAX.unsigned_abs() => Some(*number),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_width_and_no_precision_is_too_large_for_a_number_and_texts_are_bounded() {
        let values = [Value::Float(1.5), Value::Int(-7), Value::text("ä"), Value::Float(5e-324)];
        for verb in "vdfgGeExXqstbocUTO".chars() {
            for size in [65_000, 65_536, 70_000, 999_999, 9_999_999, 99_999_999] {
                for format in
                    [format!("%{size}{verb}"), format!("%.{size}{verb}"), format!("%#0{size}.{size}{verb}")]
                {
                    for value in &values {
                        let text = printf(&[Value::text(format.as_str()), value.clone()]);
                        assert!(text.map_or(0, |text| text.len()) <= EXPANSION_BYTES_MAX, "{format}");
                    }
                }
            }
        }
        let long = printf(&[Value::text("%.65000f"), Value::Float(1.5)]).unwrap();
        assert!(long.starts_with("1.500") && long.len() == 65_002);
    }
}
