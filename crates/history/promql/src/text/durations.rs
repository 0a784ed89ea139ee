//! Durations in a query's text (`1h30m`): their lengths, including those that the parser's crate cannot read or drops. Where a
//! number may stand (`x > 5m`, in Prometheus 3), the crate makes numbers of them. It refuses `0s` there and as an offset, and drops
//! parts that do not fit into 32 bits (`5000000000ms`).

use std::collections::VecDeque;
use std::time::Duration;

use promql_parser::parser::Expr;
use promql_parser::util::display_duration;

use super::each;
use super::tokens::{Kind, Token, rewritten, tokens};

/// The units of a duration, in ns, in the order in which they must stand; `ms` before `m`, since both begin alike.
const UNITS: [(&str, u128); 7] = [
    ("y", 365 * 86_400_000_000_000),
    ("w", 7 * 86_400_000_000_000),
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("ms", 1_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
];

/// The nanoseconds of a duration with units, and its largest part; `None`: it is none.
fn read(text: &str) -> Option<(u128, u64)> {
    let (mut rest, mut nanos, mut largest, mut last) = (text, 0u128, 0, u128::MAX);
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let after = &rest[digits..];
        let (unit, length) = UNITS.iter().find(|(unit, _)| after.starts_with(unit)).filter(|_| digits > 0)?;
        if *length >= last {
            return None;
        }
        // A number that does not fit is as large as any.
        let number = rest[..digits].parse::<u64>().unwrap_or(u64::MAX);
        nanos = nanos.saturating_add(u128::from(number).saturating_mul(*length));
        (rest, last, largest) = (&after[unit.len()..], *length, largest.max(number));
    }
    (last < u128::MAX).then_some((nanos, largest))
}

/// True for a duration that has more nanoseconds than a signed number of 64 bits: Prometheus has no longer ones.
pub(super) fn is_beyond(text: &str) -> bool {
    read(text).is_some_and(|(nanos, _)| nanos > i64::MAX as u128)
}

fn of_nanos(nanos: u128) -> Option<Duration> {
    u64::try_from(nanos).ok().map(Duration::from_nanos)
}

fn duration(text: &str) -> Option<Duration> {
    read(text).and_then(|(nanos, _)| of_nanos(nanos))
}

/// The text with those durations that the parser cannot read in another form.
pub(super) fn readable(text: &str) -> String {
    rewritten(text, |tokens, at| {
        let (nanos, largest) = read(tokens[at].text)?;
        let (duration, is_large) = (of_nanos(nanos)?, largest > u64::from(u32::MAX));
        match (is_number(tokens, at), is_offset(tokens, at)) {
            (true, _) if is_large || duration.is_zero() => Some(duration.as_secs_f64().to_string()),
            (_, true) if duration.is_zero() => Some(String::from("0")),
            (false, _) if is_large => Some(display_duration(&duration)),
            _ => None,
        }
    })
}

/// True for a number, or a duration that stands for one: not in brackets, nor after `offset` or `@`.
fn is_number(tokens: &[Token<'_>], at: usize) -> bool {
    let token = tokens[at];
    let is_word = |word: &str| token.kind == Kind::Word && token.text.eq_ignore_ascii_case(word);
    if !(token.kind == Kind::Number || is_word("inf") || is_word("nan")) {
        return false;
    }
    !(matches!(before(tokens, at), "[" | ":" | "@")
        || before_sign(tokens, at) == "@"
        || is_offset(tokens, at))
}

/// True for what stands after `offset`, with or without a sign.
pub(super) fn is_offset(tokens: &[Token<'_>], at: usize) -> bool {
    before(tokens, at).eq_ignore_ascii_case("offset")
        || before_sign(tokens, at).eq_ignore_ascii_case("offset")
}

fn before<'a>(tokens: &[Token<'a>], at: usize) -> &'a str {
    at.checked_sub(1).map_or("", |before| tokens[before].text)
}

/// The text before the sign that is before a token.
fn before_sign<'a>(tokens: &[Token<'a>], at: usize) -> &'a str {
    if matches!(before(tokens, at), "+" | "-") { before(tokens, at - 1) } else { "" }
}

/// The numbers of a text in their order; of those that are durations, which.
pub(super) struct Numbers(VecDeque<Option<Duration>>);

impl Numbers {
    pub(super) fn of(text: &str) -> Self {
        let tokens = tokens(text);
        let numbers = (0..tokens.len()).filter(|&at| is_number(&tokens, at));
        Numbers(numbers.map(|at| duration(tokens[at].text)).collect())
    }

    /// For each number of the expression, in its order, the duration that it was written as.
    pub(super) fn of_expression(self, expression: &Expr) -> VecDeque<Option<Duration>> {
        let mut count = 0;
        // It never fails.
        let _ = each(expression, |part| {
            count += usize::from(matches!(part, Expr::NumberLiteral(_)));
            Ok::<(), ()>(())
        });
        // A word such as `inf` may be the name of a label: then nothing is known.
        if count == self.0.len() { self.0 } else { VecDeque::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_with_all_their_units_in_order() {
        for (text, seconds) in [
            ("1h30m", Some(5_400.0)),
            ("250ms", Some(0.25)),
            ("0s", Some(0.0)),
            ("1y2w3d", Some(33_004_800.0)),
        ] {
            assert_eq!(duration(text).map(|duration| duration.as_secs_f64()), seconds, "{text}");
        }
        for text in ["", "5", "m", "1m1h", "1m1m", "0x1d", "1e3s", "5min", "99999999999999999999y"] {
            assert_eq!(duration(text), None, "{text}");
        }
        assert!(is_beyond("293y") && !is_beyond("292y") && is_beyond("99999999999999999999s"));
    }

    #[test]
    fn what_the_parser_cannot_read_has_another_form() {
        for (text, form) in [
            ("x > 0s", "x > 0"),
            (
                "x[5000000000ms:6000000000ms] offset 5000000000ms",
                "x[57d20h53m20s:69d10h40m] offset 57d20h53m20s",
            ),
            ("-5000000000ms", "-5000000"),
            ("x[0s] offset -0s + 5m{a=\"0s\"}", "x[0s] offset -0 + 5m{a=\"0s\"}"),
        ] {
            assert_eq!(readable(text), form, "{text}");
        }
    }
}
