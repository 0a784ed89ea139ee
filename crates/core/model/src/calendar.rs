//! The calendar of UTC: seconds since 1970 as a date and a time of day, and back. It knows no clock and no other time zone.

use std::fmt;

use crate::quantity::Nanos;

const DAY: i64 = 86_400;
/// Days from the 1st of March of year 0 to 1970-01-01.
const DAYS_BEFORE_1970: i64 = 719_468;
/// Days of 400 years, after which the calendar repeats.
const ERA: i64 = 146_097;

/// A date and a time of day without a zone. The fields are in the order in which they are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Civil {
    /// The year.
    pub year: i64,
    /// 1 to 12.
    pub month: u32,
    /// 1 to 31.
    pub day: u32,
    /// 0 to 23.
    pub hour: u32,
    /// 0 to 59.
    pub minute: u32,
    /// 0 to 59.
    pub second: u32,
}

impl Civil {
    /// This many seconds after the beginning of 1970, in UTC.
    pub fn of_utc(seconds: i64) -> Self {
        // Years begin on the 1st of March here, so that the 29th of February is the last day of one.
        let days = seconds.div_euclid(DAY) + DAYS_BEFORE_1970;
        let (era, day_of_era) = (days.div_euclid(ERA), days.rem_euclid(ERA));
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        let year = era * 400 + year_of_era + i64::from(month <= 2);
        let second = seconds.rem_euclid(DAY) as u32;
        Civil {
            year,
            month: month as u32,
            day: day as u32,
            hour: second / 3_600,
            minute: second / 60 % 60,
            second: second % 60,
        }
    }

    /// A time since 1970, in UTC.
    pub fn of(time: Nanos) -> Self {
        Civil::of_utc((time.0 / 1_000_000_000) as i64)
    }

    /// Seconds since 1970, if this is UTC; `None`: there is no such date or time, or its year has more than four digits.
    pub fn as_utc(self) -> Option<i64> {
        let Civil { year, month, day, hour, minute, second } = self;
        let is_time = hour < 24 && minute < 60 && second < 60;
        if !is_time || !(0..=9_999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day)
        {
            return None;
        }
        let years = if month <= 2 { year - 1 } else { year };
        let month_from_march = i64::from((month + 9) % 12);
        let day_of_year = (153 * month_from_march + 2) / 5 + i64::from(day) - 1;
        let (era, year_of_era) = (years.div_euclid(400), years.rem_euclid(400));
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        let days = era * ERA + day_of_era - DAYS_BEFORE_1970;
        let seconds = days * DAY + i64::from(hour * 3_600 + minute * 60 + second);
        // The 31st of a shorter month would be a day of the next one.
        (Civil::of_utc(seconds) == self).then_some(seconds)
    }
}

/// `2026-11-21 13:05:07`.
impl fmt::Display for Civil {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Civil { year, month, day, hour, minute, second } = self;
        write!(f, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
    }
}

/// A time as people read it: `2026-11-21 13:05:07 UTC`.
pub fn utc(time: Nanos) -> String {
    format!("{} UTC", Civil::of(time))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn midnight(year: i64, month: u32, day: u32) -> Civil {
        Civil { year, month, day, hour: 0, minute: 0, second: 0 }
    }

    #[test]
    fn moments_are_those_of_the_calendar() {
        // date -u -d @SECONDS
        for (seconds, text) in [
            (-1, "1969-12-31 23:59:59"),
            (0, "1970-01-01 00:00:00"),
            (90_061, "1970-01-02 01:01:01"),
            (951_782_399, "2000-02-28 23:59:59"),
            (951_782_400, "2000-02-29 00:00:00"),
            (951_868_800, "2000-03-01 00:00:00"),
            (1_795_257_001, "2026-11-21 10:30:01"),
            (4_107_542_399, "2100-02-28 23:59:59"),
            (4_107_542_400, "2100-03-01 00:00:00"),
        ] {
            assert_eq!(Civil::of_utc(seconds).to_string(), text);
            assert_eq!(Civil::of_utc(seconds).as_utc(), Some(seconds));
        }
        assert_eq!(utc(Nanos(1_795_257_001_999_999_999)), "2026-11-21 10:30:01 UTC");
    }

    /// Counts days by the rules of the Gregorian calendar, for three times 400 years.
    #[test]
    fn each_day_follows_the_one_before_it() {
        let is_leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let length = |year, month| match month {
            2 => 28 + u32::from(is_leap(year)),
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        let mut expected = midnight(1970, 1, 1);
        for days in 0..3 * ERA {
            assert_eq!(Civil::of_utc(days * DAY), expected, "{days} days after 1970");
            assert_eq!(expected.as_utc(), Some(days * DAY));
            let Civil { year, month, day, .. } = expected;
            expected = match (month, day == length(year, month)) {
                (_, false) => midnight(year, month, day + 1),
                (12, true) => midnight(year + 1, 1, 1),
                (_, true) => midnight(year, month + 1, 1),
            };
        }
        assert_eq!(Civil::of_utc(-719_468 * DAY), midnight(0, 3, 1));
    }

    #[test]
    fn dates_and_times_that_do_not_exist_are_refused() {
        let noon = Civil { hour: 12, ..midnight(2026, 11, 23) };
        assert_eq!(noon.as_utc(), Some(1_795_435_200));
        for wrong in [
            midnight(2026, 2, 29),
            midnight(2026, 13, 1),
            midnight(2026, 0, 1),
            midnight(2026, 1, 0),
            midnight(2026, 4, 31),
            midnight(10_000, 1, 1),
            Civil { hour: 24, ..noon },
            Civil { minute: 60, ..noon },
            Civil { second: 60, ..noon },
        ] {
            assert_eq!(wrong.as_utc(), None, "{wrong}");
        }
    }
}
