//! Parts of the date of a value, which is a number of seconds since 1970.

use crate::calendar::Moment;

/// A part of a date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Minute,
    Hour,
    DayOfWeek,
    DayOfMonth,
    DayOfYear,
    DaysInMonth,
    Month,
    Year,
}

impl Part {
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "minute" => Part::Minute,
            "hour" => Part::Hour,
            "day_of_week" => Part::DayOfWeek,
            "day_of_month" => Part::DayOfMonth,
            "day_of_year" => Part::DayOfYear,
            "days_in_month" => Part::DaysInMonth,
            "month" => Part::Month,
            "year" => Part::Year,
            _ => return None,
        })
    }

    /// This part of the date of these seconds since 1970.
    pub(crate) fn of(self, seconds: f64) -> f64 {
        // A larger number becomes the nearest allowed one: dates that far away are meaningless anyway.
        let moment = Moment::of((seconds as i64).clamp(i64::MIN / 2, i64::MAX / 2));
        (match self {
            Part::Minute => moment.minute,
            Part::Hour => moment.hour,
            Part::DayOfWeek => moment.weekday,
            Part::DayOfMonth => moment.day,
            Part::DayOfYear => moment.day_of_year,
            Part::DaysInMonth => moment.days_in_month(),
            Part::Month => moment.month,
            Part::Year => moment.year,
        }) as f64
    }
}
