//! The grammar of at-style times, as in rrdtool's manual: tokens to a moment.

use super::token::{self, DAYS, Lexer, Token, Unit, is_hour_word, keyword, month, named};
use super::{Base, Shift, When};
use crate::local_time::{self, Fields};

/// Numbers above this are seconds since 1970.
const SECONDS_FROM: i64 = 315_360_000;

/// Reads one time.
pub(super) struct Parser<'a> {
    lexer: Lexer<'a>,
    now: i64,
}

impl<'a> Parser<'a> {
    pub fn new(text: &'a str, now: i64) -> Self {
        Self { lexer: Lexer { text, at: 0 }, now }
    }

    pub fn time(&mut self) -> Result<When, String> {
        let unparsable = format!("unparsable time: {}", self.lexer.text);
        let base = match self.lexer.peek() {
            Token::Sign(_) => Base::Now,
            Token::Word(word) if keyword(word).is_some() => {
                self.lexer.next();
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
                    self.lexer.next();
                    Base::Seconds(seconds)
                }
                _ => Base::Calendar(self.calendar()?),
            },
            _ => return Err(unparsable),
        };
        let named = matches!(self.peek_before(), Token::Word(word) if keyword(word).is_some());
        match self.lexer.peek() {
            Token::Sign(_) => {}
            Token::End if base == Base::Now || !named => {}
            Token::End => return Err("'start' or 'end' MUST be followed by +|- offset".into()),
            _ if named => return Err("if 'now' is followed by a token it must be +|- offset".into()),
            _ => {}
        }
        let shift = self.shift()?;
        self.lexer.skip_space();
        if self.lexer.at < self.lexer.text.len() {
            return Err(format!("unparsable trailing text: '...{}'", &self.lexer.text[self.lexer.at..]));
        }
        Ok(When { base, shift })
    }

    /// The first token, to see what the base was.
    fn peek_before(&self) -> Token<'a> {
        Lexer { text: self.lexer.text, at: 0 }.next()
    }

    /// Time of day and day, in either order.
    fn calendar(&mut self) -> Result<Fields, String> {
        let (mut fields, _, _) = local_time::local(self.now).ok_or("the clock is out of range")?;
        let starts_with_time = match self.lexer.peek() {
            Token::Word(word) => is_hour_word(word),
            _ => self.is_time_of_day(),
        };
        if starts_with_time {
            self.time_of_day(&mut fields)?;
            self.day(&mut fields, true)?;
        } else {
            self.day(&mut fields, false)?;
            let time_follows = match self.lexer.peek() {
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
        let mut ahead = self.lexer;
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
        match self.lexer.next() {
            Token::Word(word) => {
                fields.hour = match word.to_ascii_lowercase().as_str() {
                    "noon" => 12,
                    "teatime" => 16,
                    _ => 0,
                };
                return Ok(());
            }
            Token::Number(digits) => fields.hour = digits.parse().unwrap_or(99),
            _ => return Err(format!("unparsable time: {}", self.lexer.text)),
        }
        if matches!(self.lexer.peek(), Token::Mark(':' | '.')) {
            self.lexer.next();
            let Token::Number(digits) = self.lexer.next() else {
                return Err("Parsing HH:MM syntax, expecting MM as number, got none".into());
            };
            fields.minute = digits.parse().unwrap_or(i64::MAX);
            if fields.minute > 59 {
                return Err(format!("parsing HH:MM syntax, got MM = {} (>59!)", fields.minute));
            }
        }
        if let Token::Word(word) = self.lexer.peek() {
            let afternoon = word.eq_ignore_ascii_case("pm");
            if afternoon || word.eq_ignore_ascii_case("am") {
                self.lexer.next();
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

    /// A day; `after_time` allows for none at all and for words that only make sense after a time of day.
    fn day(&mut self, fields: &mut Fields, after_time: bool) -> Result<(), String> {
        match self.lexer.peek() {
            Token::Word(word) => {
                let word = word.to_ascii_lowercase();
                let relative = match word.as_str() {
                    "yesterday" => Some(-1),
                    "today" => Some(0),
                    "tomorrow" => Some(1),
                    _ => named(&DAYS, &word).map(|day| day - fields.weekday),
                };
                if let Some(days) = relative {
                    self.lexer.next();
                    fields.day += days;
                    return Ok(());
                }
                let Some(month) = month(&word) else { return Ok(()) };
                self.lexer.next();
                self.month_name(fields, month)
            }
            Token::Number(digits) => {
                self.lexer.next();
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
        let Token::Number(day) = self.lexer.next() else {
            return Err("the day of the month should follow month name".into());
        };
        let mut year = fields.year;
        // A number before a colon or am/pm is a time of day, not a year.
        if let Token::Number(digits) = self.lexer.peek() {
            let mut ahead = self.lexer;
            ahead.next();
            let time = match ahead.peek() {
                Token::Mark(':') => true,
                Token::Word(word) => ["am", "pm"].iter().any(|half| word.eq_ignore_ascii_case(half)),
                _ => false,
            };
            if !time {
                self.lexer.next();
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
        let Token::Mark(separator @ ('/' | '.')) = self.lexer.peek() else {
            return Err(format!("did you really mean month {first}?"));
        };
        self.lexer.next();
        let Token::Number(second) = self.lexer.next() else {
            let part = if separator == '.' { "month" } else { "day" };
            return Err(format!("there should be {part} number after {separator}"));
        };
        let second: i64 = second.parse().unwrap_or(i64::MAX);
        let (month, day) = if separator == '.' { (second, first) } else { (first, second) };
        let mut year = fields.year;
        if self.lexer.peek() == Token::Mark(separator) {
            self.lexer.next();
            let Token::Number(digits) = self.lexer.next() else {
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
            match self.lexer.peek() {
                Token::Sign(new) => {
                    self.lexer.next();
                    (sign, context, started) = (new, None, true);
                    let mark = if sign < 0 { '-' } else { '+' };
                    if !matches!(self.lexer.peek(), Token::Number(_)) {
                        return Err(format!("There should be number after '{mark}'"));
                    }
                }
                Token::Number(digits) if started => {
                    self.lexer.next();
                    let count = digits.parse::<i64>().map_err(|_| format!("{digits} is too large"))?;
                    let unit = self.unit(count, context);
                    context = Some(unit);
                    shift.add(unit, sign * count).ok_or_else(|| format!("{digits} is too large"))?;
                }
                _ => return Ok(shift),
            }
        }
    }

    /// The unit ahead; `m` is a month after longer units and for counts below 6, else a minute.
    fn unit(&mut self, count: i64, context: Option<Unit>) -> Unit {
        let Token::Word(word) = self.lexer.peek() else { return Unit::Second };
        let Some(unit) = token::unit(word) else { return Unit::Second };
        self.lexer.next();
        if unit != Unit::MonthOrMinute {
            return unit;
        }
        match context {
            Some(Unit::Second | Unit::Minute | Unit::Hour) => Unit::Minute,
            Some(_) => Unit::Month,
            None if count < 6 => Unit::Month,
            None => Unit::Minute,
        }
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
