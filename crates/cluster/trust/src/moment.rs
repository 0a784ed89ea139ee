//! A moment in whole seconds, as certificates hold it and people read it: `2026-11-18 12:00:00 UTC`. Never
//! local time.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

const DAY: i64 = 86_400;

/// Seconds since 1970, without leap seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub i64);

impl Moment {
    /// Now, by this machine's clock.
    pub fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Moment(i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
    }

    /// Whole days from `earlier` to this moment; negative where this one is earlier.
    pub fn days_since(self, earlier: Moment) -> i64 {
        (self.0 - earlier.0).div_euclid(DAY)
    }
}

/// The date this many days after 1970-01-01 (H. Hinnant, "chrono-compatible low-level date algorithms").
fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day_of_year - (153 * shifted + 2) / 5 + 1)
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = date_of(self.0.div_euclid(DAY));
        let second = self.0.rem_euclid(DAY);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(f, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Right-hand sides by `date -u -d @SECONDS`.
    #[test]
    fn moments_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_399, "2000-02-28 23:59:59 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (1_795_219_200, "2026-11-21 00:00:00 UTC"),
            (4_107_542_399, "2100-02-28 23:59:59 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
        ] {
            assert_eq!(Moment(seconds).to_string(), text);
        }
    }

    /// Counts days by the rules of the Gregorian calendar, for three of its 400 years.
    #[test]
    fn each_day_follows_the_one_before_it() {
        let is_leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let length = |year, month| match month {
            2 => 28 + i64::from(is_leap(year)),
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        let (mut year, mut month, mut day) = (1970, 1, 1);
        for days in 0..3 * 146_097 {
            assert_eq!(date_of(days), (year, month, day), "{days} days after 1970");
            (year, month, day) = match (month, day == length(year, month)) {
                (_, false) => (year, month, day + 1),
                (12, true) => (year + 1, 1, 1),
                (_, true) => (year, month + 1, 1),
            };
        }
        assert_eq!((date_of(-1), date_of(-719_468)), ((1969, 12, 31), (0, 3, 1)));
        assert_eq!(Moment(-1).to_string(), "1969-12-31 23:59:59 UTC");
        assert_eq!(Moment(86_399 + 3_661).to_string(), "1970-01-02 01:01:00 UTC");
    }

    #[test]
    fn days_between_two_moments_are_whole_and_negative_backwards() {
        let since = |later: i64, earlier: i64| Moment(later).days_since(Moment(earlier));
        assert_eq!(
            [since(DAY, 0), since(DAY - 1, 0), since(10 * DAY, 3 * DAY), since(0, 1), since(0, DAY)],
            [1, 0, 7, -1, -1]
        );
        let real = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64;
        // The clock may be set meanwhile, but not by years.
        assert!(Moment::now().days_since(Moment(real)).abs() <= 1);
    }
}
