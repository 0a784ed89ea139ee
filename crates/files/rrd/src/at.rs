//! rrdtool's at-style times (`now-1h`, `noon yesterday`, `end-2w`): text to a moment; reads no clock.
//!
//! Where rrdtool 1.7 falls short of its own manual, the manual wins: `10.30` is a time of day, and
//! `10:00 Oct 12` lies in this year.

mod parser;
mod token;

use crate::local_time::{self, Fields};
use parser::Parser;

/// Words of one time; a longer text is not a time.
const TEXT_MAX: usize = 1000;

/// The moment from which a time is counted.
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
        Parser::new(text, now).time()
    }

    /// One day before the end: the default start of a range.
    pub fn day_before_end() -> Self {
        Self { base: Base::End, shift: Shift { seconds: -86_400, ..Shift::default() } }
    }

    /// This very second.
    pub fn at(seconds: i64) -> Self {
        Self { base: Base::Seconds(seconds), shift: Shift::default() }
    }

    /// The clock's time.
    pub fn now() -> Self {
        Self { base: Base::Now, shift: Shift::default() }
    }

    /// Whether it depends on the start or end of a range.
    pub fn is_relative(&self) -> bool {
        matches!(self.base, Base::Start | Base::End)
    }

    /// The moment, for a time that depends on no other. `None` where the calendar has no such moment.
    pub fn resolve(&self, now: i64) -> Option<i64> {
        match self.base {
            Base::Now => self.shift.apply_now(now),
            Base::Seconds(seconds) => self.shift.apply(seconds),
            Base::Calendar(fields) => self.shift.apply_fields(fields),
            Base::Start | Base::End => None,
        }
    }

    /// Start and end of a range, each of which may depend on the other. `Err` is rrdtool's message.
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
    /// Twice a year an hour has two moments: without years, months and days the calendar is not asked.
    fn is_of_seconds(&self) -> bool {
        self.years == 0 && self.months == 0 && self.days == 0
    }

    /// From a moment.
    fn apply(&self, from: i64) -> Option<i64> {
        let moved = match self.is_of_seconds() {
            true => from,
            false => local_time::moved(from, self.years, self.months, self.days)?,
        };
        moved.checked_add(self.seconds)
    }

    /// From the clock's time.
    fn apply_now(&self, now: i64) -> Option<i64> {
        match self.is_of_seconds() {
            true => self.apply(now),
            false => self.apply_fields(local_time::local(now)?.0),
        }
    }

    fn apply_fields(&self, mut fields: Fields) -> Option<i64> {
        fields.year = fields.year.checked_add(self.years)?;
        fields.month = fields.month.checked_add(self.months)?;
        fields.day = fields.day.checked_add(self.days)?;
        local_time::seconds(&fields)?.checked_add(self.seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-21 02:23:32 UTC, a Saturday. The tests run in any time zone and check only results that do not
    /// depend on it.
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
