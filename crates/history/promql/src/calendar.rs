//! Dates of the proleptic Gregorian calendar, in UTC.

/// A second as a date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The year; 0 is 1 BC.
    pub year: i64,
    /// From 1.
    pub month: i64,
    /// Of the month, from 1.
    pub day: i64,
    /// From 0.
    pub hour: i64,
    /// From 0.
    pub minute: i64,
    /// From 0.
    pub second: i64,
    /// From 0, a Sunday.
    pub weekday: i64,
    /// From 1.
    pub day_of_year: i64,
}

const SECONDS_OF_A_DAY: i64 = 86_400;
/// The calendar repeats after 400 years.
const DAYS_OF_AN_ERA: i64 = 146_097;
/// From 1 March of the year 0 to 1 January 1970.
const DAYS_BEFORE_1970: i64 = 719_468;

impl Moment {
    /// The date of a second since 1970.
    pub fn of(seconds: i64) -> Self {
        let (days, of_day) = (seconds.div_euclid(SECONDS_OF_A_DAY), seconds.rem_euclid(SECONDS_OF_A_DAY));
        // Years begin with March here: the leap day is then the last day of a year.
        let since = days + DAYS_BEFORE_1970;
        let (era, of_era) = (since.div_euclid(DAYS_OF_AN_ERA), since.rem_euclid(DAYS_OF_AN_ERA));
        let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * of_year + 2) / 153;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        let before = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334][(month - 1) as usize];
        let day = of_year - (153 * month_from_march + 2) / 5 + 1;
        Moment {
            year,
            month,
            day,
            hour: of_day / 3_600,
            minute: of_day / 60 % 60,
            second: of_day % 60,
            weekday: (days + 4).rem_euclid(7),
            day_of_year: before + day + i64::from(month > 2 && is_leap(year)),
        }
    }

    /// How many days its month has.
    pub(crate) fn days_in_month(&self) -> i64 {
        match self.month {
            2 => 28 + i64::from(is_leap(self.year)),
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        }
    }
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_follow_each_other_through_four_hundred_years() {
        let (mut year, mut month, mut day, mut of_year, mut weekday) = (1900, 1, 1, 1, 1);
        let first = -25_567;
        for days in first..first + DAYS_OF_AN_ERA {
            let moment = Moment::of(days * SECONDS_OF_A_DAY + 3_661);
            assert_eq!((moment.year, moment.month, moment.day), (year, month, day), "{days}");
            assert_eq!((moment.day_of_year, moment.weekday), (of_year, weekday), "{days}");
            assert_eq!((moment.hour, moment.minute, moment.second), (1, 1, 1));
            (day, of_year, weekday) = (day + 1, of_year + 1, (weekday + 1) % 7);
            if day > moment.days_in_month() {
                (month, day) = (month + 1, 1);
            }
            if month > 12 {
                (year, month, of_year) = (year + 1, 1, 1);
            }
        }
        assert_eq!(year, 2300);
        let _ = Moment::of(i64::MAX / 1000);
        let _ = Moment::of(i64::MIN / 1000);
    }
}
