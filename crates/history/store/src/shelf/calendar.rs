//! The calendar of file names: hours, days and months of UTC. It has only what the store needs of it.

use khz_model::Nanos;

const HOUR: u64 = 3_600_000_000_000;
const DAY: u64 = 24 * HOUR;
/// Names have years of four digits, and times fit into 64 bits until 2554.
const YEARS: std::ops::RangeInclusive<u32> = 1970..=2500;

/// Parts of a date and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Date {
    pub year: u32,
    pub month: u32,
    pub day: u32,
    pub hour: u32,
}

impl Date {
    /// The date of a time.
    pub fn of(time: Nanos) -> Self {
        let (days, hour) = (time.0 / DAY, (time.0 % DAY / HOUR) as u32);
        // Years begin on the 1st of March here, so that the 29th of February is the last day of one. 400 years have 146,097
        // days; 1970 began 719,468 days after the 1st of March of year 0.
        let days = days + 719_468;
        let (era, day_of_era) = (days / 146_097, days % 146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        let year = era * 400 + year_of_era + u64::from(month <= 2);
        Date { year: year as u32, month: month as u32, day: day as u32, hour }
    }

    /// When it begins; `None`: there is no such date, or no file can be of it.
    pub fn begin(self) -> Option<Nanos> {
        let Date { year, month, day, hour } = self;
        if !YEARS.contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 23 {
            return None;
        }
        let years = u64::from(if month <= 2 { year - 1 } else { year });
        let month_from_march = u64::from((month + 9) % 12);
        let day_of_year = (153 * month_from_march + 2) / 5 + u64::from(day) - 1;
        let (era, year_of_era) = (years / 400, years % 400);
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        let days = era * 146_097 + day_of_era - 719_468;
        let begin = Nanos(days * DAY + u64::from(hour) * HOUR);
        // The 31st of a shorter month is a day of the next one.
        (Date::of(begin) == self).then_some(begin)
    }

    /// The first hour of the next month.
    pub fn next_month(self) -> Self {
        let (year, month) = if self.month == 12 { (self.year + 1, 1) } else { (self.year, self.month + 1) };
        Date { year, month, day: 1, hour: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_of_four_centuries_follows_the_one_before() {
        let mut expected = Date { year: 1970, month: 1, day: 1, hour: 0 };
        for day in 0..193_000 {
            let begin = Nanos(day * DAY);
            assert_eq!(Date::of(begin), expected);
            assert_eq!(expected.begin(), Some(begin));
            let Date { year, month, day, .. } = expected;
            let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let days = match month {
                2 => 28 + u32::from(is_leap),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            expected = if day == days { expected.next_month() } else { Date { day: day + 1, ..expected } };
        }
    }

    #[test]
    fn days_that_no_month_has_are_refused() {
        let date = |year, month, day, hour| Date { year, month, day, hour }.begin();
        assert_eq!(date(2026, 11, 23, 14), Some(Nanos(1_795_442_400_000_000_000)));
        for (year, month, day, hour) in [
            (2026, 2, 29, 0),
            (2026, 13, 1, 0),
            (2026, 0, 1, 0),
            (2026, 4, 31, 0),
            (1969, 1, 1, 0),
            (2026, 1, 1, 24),
        ] {
            assert_eq!(date(year, month, day, hour), None, "{year} {month} {day} {hour}");
        }
    }
}
