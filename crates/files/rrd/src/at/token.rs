//! The words of at-style times: text to tokens, names to what they mean.

use super::Base;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token<'a> {
    Number(&'a str),
    Word(&'a str),
    Sign(i64),
    Mark(char),
    End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Year,
    MonthOrMinute,
}

const UNITS: [(&str, Unit); 26] = [
    ("s", Unit::Second),
    ("sec", Unit::Second),
    ("second", Unit::Second),
    ("seconds", Unit::Second),
    ("m", Unit::MonthOrMinute),
    ("min", Unit::Minute),
    ("minute", Unit::Minute),
    ("minutes", Unit::Minute),
    ("h", Unit::Hour),
    ("hr", Unit::Hour),
    ("hour", Unit::Hour),
    ("hours", Unit::Hour),
    ("d", Unit::Day),
    ("day", Unit::Day),
    ("days", Unit::Day),
    ("w", Unit::Week),
    ("wk", Unit::Week),
    ("week", Unit::Week),
    ("weeks", Unit::Week),
    ("mon", Unit::Month),
    ("month", Unit::Month),
    ("months", Unit::Month),
    ("y", Unit::Year),
    ("year", Unit::Year),
    ("yr", Unit::Year),
    ("years", Unit::Year),
];
const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
pub(super) const DAYS: [&str; 7] =
    ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"];

/// A text with the place reached in it.
#[derive(Clone, Copy)]
pub(super) struct Lexer<'a> {
    pub text: &'a str,
    pub at: usize,
}

impl<'a> Lexer<'a> {
    pub fn skip_space(&mut self) {
        let rest = &self.text.as_bytes()[self.at..];
        self.at +=
            rest.iter().take_while(|byte| byte.is_ascii_whitespace() || matches!(byte, b'_' | b',')).count();
    }

    pub fn peek(&self) -> Token<'a> {
        { *self }.next()
    }

    pub fn next(&mut self) -> Token<'a> {
        self.skip_space();
        let text = self.text;
        let rest = &text[self.at..];
        let Some(first) = rest.chars().next() else { return Token::End };
        let run = |test: fn(&u8) -> bool| rest.bytes().take_while(test).count();
        let (token, len) = if first.is_ascii_digit() {
            let len = run(u8::is_ascii_digit);
            (Token::Number(&rest[..len]), len)
        } else if first.is_ascii_alphabetic() {
            let len = run(u8::is_ascii_alphabetic);
            (Token::Word(&rest[..len]), len)
        } else if first == '-' || first == '+' {
            (Token::Sign(if first == '-' { -1 } else { 1 }), 1)
        } else {
            (Token::Mark(first), first.len_utf8())
        };
        self.at += len;
        token
    }
}

/// The unit called `word`.
pub(super) fn unit(word: &str) -> Option<Unit> {
    UNITS.iter().find(|(name, _)| word.eq_ignore_ascii_case(name)).map(|(_, unit)| *unit)
}

pub(super) fn keyword(word: &str) -> Option<Base> {
    match word.to_ascii_lowercase().as_str() {
        "now" | "n" => Some(Base::Now),
        "start" | "s" => Some(Base::Start),
        "end" | "e" => Some(Base::End),
        "epoch" => Some(Base::Seconds(0)),
        _ => None,
    }
}

pub(super) fn is_hour_word(word: &str) -> bool {
    ["noon", "midnight", "teatime"].iter().any(|known| word.eq_ignore_ascii_case(known))
}

pub(super) fn month(word: &str) -> Option<i64> {
    named(&MONTHS, word)
}

/// The index of a name given whole or by its first three letters.
pub(super) fn named(names: &[&str], word: &str) -> Option<i64> {
    let word = word.to_ascii_lowercase();
    names.iter().position(|name| *name == word || name[..3] == word).map(|index| index as i64)
}
