//! rrdtool's at-style times (`now-1h`, `noon yesterday`, `end-2w`): text to a moment; reads no clock.
//!
//! Where rrdtool 1.7 falls short of its own manual, the manual wins: `10.30` is a time of day, and
//! `10:00 Oct 12` lies in this year.

use crate::local_time::{self, Fields};

/// Words one time may have; longer ones are no times.
const TEXT_MAX: usize = 1000;
/// Numbers above this are seconds since 1970.
const SECONDS_FROM: i64 = 315_360_000;

/// What a time is counted from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Base {
    Now,
    Start,
    End,
    Seconds(i64),
    Calendar(Fields),
}

/// Calendar shifts and a fixed one in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Shift {
    years: i64,
    months: i64,
    days: i64,
    seconds: i64,
}

/// A parsed time, not yet tied to a clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct When {
    base: Base,
    shift: Shift,
}

impl When {
    /// Parses `text`; `now` decides what day it is. `Err` is rrdtool's message.
    pub fn parse(text: &str, now: i64) -> Result<Self, String> {
        if text.len() > TEXT_MAX {
            return Err(format!("a time of more than {TEXT_MAX} characters"));
        }
        Parser { text, at: 0, now }.time()
    }

    /// One day before the end: the default start of a range.
    pub fn day_before_end() -> Self {
        Self { base: Base::End, shift: Shift { seconds: -86_400, ..Shift::default() } }
    }

    /// The clock's time.
    pub fn now() -> Self {
        Self { base: Base::Now, shift: Shift::default() }
    }

    /// Whether it hangs on the start or end of a range.
    pub fn is_relative(&self) -> bool {
        matches!(self.base, Base::Start | Base::End)
    }

    /// The moment, for times that stand alone. `None` where it fits no calendar.
    pub fn resolve(&self, now: i64) -> Option<i64> {
        match self.base {
            Base::Now => self.shift.apply(now),
            Base::Seconds(seconds) => self.shift.apply(seconds),
            Base::Calendar(fields) => self.shift.apply_fields(fields),
            Base::Start | Base::End => None,
        }
    }

    /// Start and end of a range, each of which may hang on the other. `Err` is rrdtool's message.
    pub fn range(start: &Self, end: &Self, now: i64) -> Result<(i64, i64), String> {
        let lost = || "specified time is out of range".to_string();
        match (start.base, end.base) {
            (Base::Start, _) => Err("the start time cannot be specified relative to itself".into()),
            (_, Base::End) => Err("the end time cannot be specified relative to itself".into()),
            (Base::End, Base::Start) => {
                Err("the start and end times cannot be specified relative to each other".into())
            }
            (Base::End, _) => {
                let end = end.resolve(now).ok_or_else(lost)?;
                Ok((start.shift.apply(end).ok_or_else(lost)?, end))
            }
            (_, Base::Start) => {
                let start = start.resolve(now).ok_or_else(lost)?;
                Ok((start, end.shift.apply(start).ok_or_else(lost)?))
            }
            _ => Ok((start.resolve(now).ok_or_else(lost)?, end.resolve(now).ok_or_else(lost)?)),
        }
    }
}

impl Shift {
    fn apply(&self, seconds: i64) -> Option<i64> {
        if self.years == 0 && self.months == 0 && self.days == 0 {
            return seconds.checked_add(self.seconds);
        }
        self.apply_fields(local_time::local(seconds)?.0)
    }

    fn apply_fields(&self, mut fields: Fields) -> Option<i64> {
        fields.year = fields.year.checked_add(self.years)?;
        fields.month = fields.month.checked_add(self.months)?;
        fields.day = fields.day.checked_add(self.days)?;
        local_time::seconds(&fields)?.checked_add(self.seconds)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'a> {
    Number(&'a str),
    Word(&'a str),
    Sign(i64),
    Mark(char),
    End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Year,
    MonthOrMinute,
}

const UNITS: [(&str, Unit); 24] = [
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
];
const MORE_UNITS: [(&str, Unit); 2] = [("yr", Unit::Year), ("years", Unit::Year)];
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
const DAYS: [&str; 7] = ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"];

struct Parser<'a> {
    text: &'a str,
    at: usize,
    now: i64,
}

impl<'a> Parser<'a> {
    fn time(&mut self) -> Result<When, String> {
        let unparsable = format!("unparsable time: {}", self.text);
        let base = match self.peek() {
            Token::Sign(_) => Base::Now,
            Token::Word(word) if keyword(word).is_some() => {
                self.next();
                keyword(word).unwrap_or(Base::Now)
            }
            Token::Word(word) => {
                if !is_hour_word(word) && month(word).is_none() {
                    return Err(unparsable);
                }
                Base::Calendar(self.calendar()?)
            }
            Token::Number(digits) => match digits.parse::<i64>() {
                Ok(seconds) if seconds > SECONDS_FROM => {
                    self.next();
                    Base::Seconds(seconds)
                }
                _ => Base::Calendar(self.calendar()?),
            },
            _ => return Err(unparsable),
        };
        let named = matches!(self.peek_before(), Token::Word(word) if keyword(word).is_some());
        match self.peek() {
            Token::Sign(_) => {}
            Token::End if base == Base::Now || !named => {}
            Token::End => return Err("'start' or 'end' MUST be followed by +|- offset".into()),
            _ if named => return Err("if 'now' is followed by a token it must be +|- offset".into()),
            _ => {}
        }
        let shift = self.shift()?;
        self.skip_space();
        if self.at < self.text.len() {
            return Err(format!("unparsable trailing text: '...{}'", &self.text[self.at..]));
        }
        Ok(When { base, shift })
    }

    /// The first token, to see what the base was.
    fn peek_before(&self) -> Token<'a> {
        Parser { text: self.text, at: 0, now: self.now }.next()
    }

    /// Time of day and day, in either order.
    fn calendar(&mut self) -> Result<Fields, String> {
        let (mut fields, _, _) = local_time::local(self.now).ok_or("the clock is out of range")?;
        let starts_with_time = match self.peek() {
            Token::Word(word) => is_hour_word(word),
            _ => self.is_time_of_day(),
        };
        if starts_with_time {
            self.time_of_day(&mut fields)?;
            self.day(&mut fields, true)?;
        } else {
            self.day(&mut fields, false)?;
            let time_follows = match self.peek() {
                Token::Word(word) => is_hour_word(word),
                Token::Number(_) => true,
                _ => false,
            };
            if time_follows {
                self.time_of_day(&mut fields)?;
            }
        }
        Ok(fields)
    }

    /// Whether the number ahead is an hour: small, and not the start of a date.
    fn is_time_of_day(&self) -> bool {
        let mut ahead = Parser { text: self.text, at: self.at, now: self.now };
        let Token::Number(digits) = ahead.next() else { return false };
        if digits.parse::<i64>().is_ok_and(|hour| hour > 23) {
            return false;
        }
        match ahead.next() {
            Token::Mark('/') => false,
            // `31.12.` is a date, `10.30` a time.
            Token::Mark('.') => {
                !(matches!(ahead.next(), Token::Number(_)) && ahead.next() == Token::Mark('.'))
            }
            _ => true,
        }
    }

    fn time_of_day(&mut self, fields: &mut Fields) -> Result<(), String> {
        (fields.minute, fields.second) = (0, 0);
        match self.next() {
            Token::Word(word) => {
                fields.hour = match word.to_ascii_lowercase().as_str() {
                    "noon" => 12,
                    "teatime" => 16,
                    _ => 0,
                };
                return Ok(());
            }
            Token::Number(digits) => fields.hour = digits.parse().unwrap_or(99),
            _ => return Err(format!("unparsable time: {}", self.text)),
        }
        if matches!(self.peek(), Token::Mark(':' | '.')) {
            self.next();
            let Token::Number(digits) = self.next() else {
                return Err("Parsing HH:MM syntax, expecting MM as number, got none".into());
            };
            fields.minute = digits.parse().unwrap_or(i64::MAX);
            if fields.minute > 59 {
                return Err(format!("parsing HH:MM syntax, got MM = {} (>59!)", fields.minute));
            }
        }
        if let Token::Word(word) = self.peek() {
            let afternoon = word.eq_ignore_ascii_case("pm");
            if afternoon || word.eq_ignore_ascii_case("am") {
                self.next();
                if fields.hour > 12 {
                    return Err("there cannot be more than 12 AM or PM hours".into());
                }
                fields.hour = fields.hour % 12 + if afternoon { 12 } else { 0 };
            }
        }
        if fields.hour > 23 {
            return Err(format!("there is no hour {}", fields.hour));
        }
        Ok(())
    }

    /// A day; `after_time` allows for none at all and for words that only make sense behind a time of day.
    fn day(&mut self, fields: &mut Fields, after_time: bool) -> Result<(), String> {
        match self.peek() {
            Token::Word(word) => {
                let word = word.to_ascii_lowercase();
                let relative = match word.as_str() {
                    "yesterday" => Some(-1),
                    "today" => Some(0),
                    "tomorrow" => Some(1),
                    _ => named(&DAYS, &word).map(|day| day - fields.weekday),
                };
                if let Some(days) = relative {
                    self.next();
                    fields.day += days;
                    return Ok(());
                }
                let Some(month) = month(&word) else { return Ok(()) };
                self.next();
                self.month_name(fields, month)
            }
            Token::Number(digits) => {
                self.next();
                self.numeric_day(fields, digits)?;
                if !after_time {
                    (fields.hour, fields.minute, fields.second) = (0, 0, 0);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn month_name(&mut self, fields: &mut Fields, month: i64) -> Result<(), String> {
        let Token::Number(day) = self.next() else {
            return Err("the day of the month should follow month name".into());
        };
        let mut year = fields.year;
        // A number before a colon or am/pm is a time of day, not a year.
        if let Token::Number(digits) = self.peek() {
            let mut ahead = Parser { text: self.text, at: self.at, now: self.now };
            ahead.next();
            let time = match ahead.peek() {
                Token::Mark(':') => true,
                Token::Word(word) => ["am", "pm"].iter().any(|half| word.eq_ignore_ascii_case(half)),
                _ => false,
            };
            if !time {
                self.next();
                year = digits.parse().unwrap_or(i64::MAX);
            }
        }
        set_date(fields, year, month + 1, day.parse().unwrap_or(0))
    }

    fn numeric_day(&mut self, fields: &mut Fields, digits: &str) -> Result<(), String> {
        let first: i64 = digits.parse().unwrap_or(i64::MAX);
        if digits.len() == 8 && (19_700_101..24_000_101).contains(&first) {
            return set_date(fields, first / 10_000, first / 100 % 100, first % 100);
        }
        let Token::Mark(separator @ ('/' | '.')) = self.peek() else {
            return Err(format!("did you really mean month {first}?"));
        };
        self.next();
        let Token::Number(second) = self.next() else {
            let part = if separator == '.' { "month" } else { "day" };
            return Err(format!("there should be {part} number after {separator}"));
        };
        let second: i64 = second.parse().unwrap_or(i64::MAX);
        let (month, day) = if separator == '.' { (second, first) } else { (first, second) };
        let mut year = fields.year;
        if self.peek() == Token::Mark(separator) {
            self.next();
            let Token::Number(digits) = self.next() else {
                return Err(format!("there should be year number after {separator}"));
            };
            year = digits.parse().unwrap_or(i64::MAX);
        }
        set_date(fields, year, month, day)
    }

    fn shift(&mut self) -> Result<Shift, String> {
        let mut shift = Shift::default();
        let mut sign = 1;
        let mut context = None;
        let mut started = false;
        loop {
            match self.peek() {
                Token::Sign(new) => {
                    self.next();
                    (sign, context, started) = (new, None, true);
                    let mark = if sign < 0 { '-' } else { '+' };
                    if !matches!(self.peek(), Token::Number(_)) {
                        return Err(format!("There should be number after '{mark}'"));
                    }
                }
                Token::Number(digits) if started => {
                    self.next();
                    let count = digits.parse::<i64>().map_err(|_| format!("{digits} is too large"))?;
                    let unit = self.unit(count, context);
                    context = Some(unit);
                    shift.add(unit, sign * count).ok_or_else(|| format!("{digits} is too large"))?;
                }
                _ => return Ok(shift),
            }
        }
    }

    /// The unit ahead; `m` is a month behind longer units and for counts below 6, else a minute.
    fn unit(&mut self, count: i64, context: Option<Unit>) -> Unit {
        let Token::Word(word) = self.peek() else { return Unit::Second };
        let known = UNITS.iter().chain(&MORE_UNITS).find(|(name, _)| word.eq_ignore_ascii_case(name));
        let Some((_, unit)) = known else { return Unit::Second };
        self.next();
        if *unit != Unit::MonthOrMinute {
            return *unit;
        }
        match context {
            Some(Unit::Second | Unit::Minute | Unit::Hour) => Unit::Minute,
            Some(_) => Unit::Month,
            None if count < 6 => Unit::Month,
            None => Unit::Minute,
        }
    }

    fn skip_space(&mut self) {
        let rest = &self.text.as_bytes()[self.at..];
        self.at +=
            rest.iter().take_while(|byte| byte.is_ascii_whitespace() || matches!(byte, b'_' | b',')).count();
    }

    fn peek(&self) -> Token<'a> {
        Parser { text: self.text, at: self.at, now: self.now }.next()
    }

    fn next(&mut self) -> Token<'a> {
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

impl Shift {
    fn add(&mut self, unit: Unit, count: i64) -> Option<()> {
        let (field, size) = match unit {
            Unit::Second => (&mut self.seconds, 1),
            Unit::Minute | Unit::MonthOrMinute => (&mut self.seconds, 60),
            Unit::Hour => (&mut self.seconds, 3600),
            Unit::Day => (&mut self.days, 1),
            Unit::Week => (&mut self.days, 7),
            Unit::Month => (&mut self.months, 1),
            Unit::Year => (&mut self.years, 1),
        };
        *field = field.checked_add(count.checked_mul(size)?)?;
        Some(())
    }
}

fn keyword(word: &str) -> Option<Base> {
    match word.to_ascii_lowercase().as_str() {
        "now" | "n" => Some(Base::Now),
        "start" | "s" => Some(Base::Start),
        "end" | "e" => Some(Base::End),
        "epoch" => Some(Base::Seconds(0)),
        _ => None,
    }
}

fn is_hour_word(word: &str) -> bool {
    ["noon", "midnight", "teatime"].iter().any(|known| word.eq_ignore_ascii_case(known))
}

fn month(word: &str) -> Option<i64> {
    named(&MONTHS, word)
}

/// The index of a name given whole or by its first three letters.
fn named(names: &[&str], word: &str) -> Option<i64> {
    let word = word.to_ascii_lowercase();
    names.iter().position(|name| *name == word || name[..3] == word).map(|index| index as i64)
}

fn set_date(fields: &mut Fields, year: i64, month: i64, day: i64) -> Result<(), String> {
    if !(1..=12).contains(&month) {
        return Err(format!("did you really mean month {month}?"));
    }
    // rrdtool lets one day more through, and the calendar carries it over.
    if !(1..=32).contains(&day) {
        return Err(format!("I'm afraid that {day} is not a valid day of the month"));
    }
    let year = match year {
        0..38 => year + 2000,
        38..100 => year + 1900,
        _ => year,
    };
    if year < 1970 {
        return Err("won't handle dates before epoch (01/01/1970), sorry".into());
    }
    (fields.year, fields.month, fields.day) = (year, month - 1, day);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-21 02:23:32 UTC, a Saturday; the tests run in whatever zone and only look at seconds-based
    /// results.
    const NOW: i64 = 1_795_227_812;

    fn resolved(text: &str) -> Result<i64, String> {
        When::parse(text, NOW)?.resolve(NOW).ok_or_else(|| "relative".into())
    }

    #[test]
    fn plain_offsets_are_seconds_and_units_combine() {
        assert_eq!(resolved("now-1h30m"), Ok(NOW - 5400));
        assert_eq!(resolved("-5h-45min"), Ok(NOW - 20_700));
        assert_eq!(resolved("-60"), Ok(NOW - 60));
        assert_eq!(resolved("epoch+1000000000"), Ok(1_000_000_000));
        assert_eq!(resolved("1000000000 - 1h"), Ok(999_996_400));
    }

    #[test]
    fn errors_are_rrdtools() {
        assert_eq!(resolved("10:60"), Err("parsing HH:MM syntax, got MM = 60 (>59!)".into()));
        assert_eq!(resolved("foo"), Err("unparsable time: foo".into()));
        assert_eq!(resolved("e"), Err("'start' or 'end' MUST be followed by +|- offset".into()));
        assert_eq!(resolved("2 days"), Err("unparsable trailing text: '...days'".into()));
        assert_eq!(resolved("100"), Err("did you really mean month 100?".into()));
    }

    #[test]
    fn a_range_may_hang_on_either_side() {
        let parse = |text| When::parse(text, NOW).unwrap();
        assert_eq!(When::range(&parse("e-1h"), &parse("1000000000"), NOW), Ok((999_996_400, 1_000_000_000)));
        assert_eq!(
            When::range(&parse("1000000000"), &parse("s+1h"), NOW),
            Ok((1_000_000_000, 1_000_003_600))
        );
        assert!(When::range(&parse("e-1h"), &parse("s+1h"), NOW).is_err());
    }
}
