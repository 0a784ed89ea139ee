//! A moment as people write it, in UTC.

use khz_model::Nanos;

/// `2026-11-21 13:05:07 UTC`.
pub fn utc(moment: Nanos) -> String {
    let seconds = moment.0 / 1_000_000_000;
    let (year, month, day) = date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

/// Year, month and day of a day counted from 1970-01-01.
pub fn date(mut day: u64) -> (u64, u64, u64) {
    let mut year = 1970;
    while day >= days_of_year(year) {
        day -= days_of_year(year);
        year += 1;
    }
    let february = if days_of_year(year) == 366 { 29 } else { 28 };
    let months = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while day >= months[month] {
        day -= months[month];
        month += 1;
    }
    (year, month as u64 + 1, day + 1)
}

fn days_of_year(year: u64) -> u64 {
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    if is_leap { 366 } else { 365 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_date_says() {
        // date -u -d @SECONDS
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_399, "2000-02-28 23:59:59 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (951_868_800, "2000-03-01 00:00:00 UTC"),
            (1_795_257_001, "2026-11-21 10:30:01 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
        ] {
            assert_eq!(utc(Nanos(seconds * 1_000_000_000)), text);
        }
    }
}
