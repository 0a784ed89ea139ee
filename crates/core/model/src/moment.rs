//! A moment as people write it: a date and a time, seconds since 1970, or how long ago. One reader of such texts for all
//! commands and doors. It knows no clock and no time zone: both are passed in.

use crate::calendar::Civil;
use crate::quantity::Nanos;

/// Seconds since 1970 of a date and a time in the time zone of the person who wrote them; `None`: there is no such time there.
pub type Zone<'a> = &'a dyn Fn(Civil) -> Option<i64>;

/// A text that is no moment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is no time: {problem}")]
pub struct MomentError {
    text: String,
    problem: &'static str,
}

const HELP: &str = "write 2026-11-21T14:03:20Z, the same with a space or an offset such as +01:00, 'yesterday 14:00', \
                    seconds since 1970, now, or -1h for an hour ago";
/// Seconds of a day of UTC.
const DAY: i64 = 86_400;
const NO_ZONE: &str = "it does not say its zone: end it with Z (UTC) or with an offset such as +01:00";
const NO_DATE: &str = "there is no such date or time";
const TOO_FAR: &str = "it is before 1970, or too far in the future";

/// Milliseconds as seconds with three places.
pub fn seconds_text(ms: i64) -> String {
    format!("{}.{:03}", ms.div_euclid(1_000), ms.rem_euclid(1_000))
}

/// Reads a moment. A date without a zone is in this zone; without `zone`, it is refused.
///
/// # Errors
/// The text is none of the forms that the error names.
pub fn read(text: &str, now: Nanos, zone: Option<Zone<'_>>) -> Result<Nanos, MomentError> {
    let wrong = |problem| MomentError { text: text.to_owned(), problem };
    let written = text.trim();
    if written == "now" {
        return Ok(now);
    }
    if let Some(span) = written.strip_prefix('-') {
        let span: Nanos = span.parse().map_err(|_| wrong(HELP))?;
        return now.0.checked_sub(span.0).map(Nanos).ok_or_else(|| wrong(TOO_FAR));
    }
    if let Some(nanos) = seconds(written) {
        return nanos.ok_or_else(|| wrong(TOO_FAR));
    }
    let (date, fraction, rest) = date_and_time(written).ok_or_else(|| wrong(HELP))?;
    let utc_less: Option<i64> = match rest {
        "Z" | "z" | " UTC" | "UTC" => Some(0),
        "" if zone.is_some() => None,
        "" => return Err(wrong(NO_ZONE)),
        offset => Some(offset_seconds(offset).ok_or_else(|| wrong(HELP))?),
    };
    let since_1970 = |civil: Civil| {
        let at_utc = civil.as_utc()?;
        utc_less.map_or_else(|| zone?(civil), |offset| Some(at_utc - offset))
    };
    let seconds = date.of(now, &since_1970).and_then(since_1970).ok_or_else(|| wrong(NO_DATE))?;
    let nanos = seconds.checked_mul(1_000_000_000).and_then(|nanos| u64::try_from(nanos).ok());
    nanos.map(|nanos| Nanos(nanos + fraction)).ok_or_else(|| wrong(TOO_FAR))
}

/// Milliseconds since 1970 of a date and a time with their zone, as in RFC 3339, also for dates before 1970.
pub fn milliseconds(text: &str) -> Option<i64> {
    let (Date::Written(date), fraction, rest) = date_and_time(text)? else { return None };
    let offset = match rest {
        "Z" | "z" => 0,
        offset => offset_seconds(offset)?,
    };
    Some((date.as_utc()? - offset) * 1_000 + (fraction / 1_000_000).cast_signed())
}

/// Seconds since 1970, with at most nine decimal places; `Some(None)`: too many.
fn seconds(text: &str) -> Option<Option<Nanos>> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_number = !whole.is_empty() && whole.bytes().chain(fraction.bytes()).all(|b| b.is_ascii_digit());
    if !is_number || (text.contains('.') && fraction.is_empty()) {
        return None;
    }
    let nanos = whole.parse::<u64>().ok().and_then(|whole| whole.checked_mul(1_000_000_000));
    Some(nanos.filter(|nanos| *nanos < 1 << 63).map(|nanos| Nanos(nanos + nanoseconds(fraction))))
}

/// Digits after the point as nanoseconds; further digits do not count.
fn nanoseconds(digits: &str) -> u64 {
    let nine = digits.bytes().chain(std::iter::repeat(b'0')).take(9);
    nine.fold(0, |nanos, digit| nanos * 10 + u64::from(digit - b'0'))
}

/// A date as people write it, and a time of that day.
enum Date {
    Written(Civil),
    /// This many days before today; the date in it does not count.
    DaysAgo(i64, Civil),
}

impl Date {
    fn with_time(self, hour: u32, minute: u32, second: u32) -> Self {
        match self {
            Date::Written(date) => Date::Written(Civil { hour, minute, second, ..date }),
            Date::DaysAgo(days, date) => Date::DaysAgo(days, Civil { hour, minute, second, ..date }),
        }
    }

    /// The date and time, as somebody writes it now in this zone.
    fn of(self, now: Nanos, zone: Zone<'_>) -> Option<Civil> {
        let (days, time) = match self {
            Date::Written(civil) => return Some(civil),
            Date::DaysAgo(days, time) => (days, time),
        };
        let now = i64::try_from(now.0 / 1_000_000_000).ok()?;
        // The clocks of some zones skip midnight when summer begins.
        let begin = |day: Civil| zone(day).or_else(|| zone(Civil { hour: 1, ..day }));
        let day = |back: i64| Civil { hour: 0, minute: 0, second: 0, ..Civil::of_utc(now - back * DAY) };
        let today = (-1..=1).find(|back| begin(day(*back)).is_some_and(|begin| begin <= now))?;
        let Civil { year, month, day, .. } = day(today + days);
        Some(Civil { year, month, day, ..time })
    }
}

/// The beginning of a text: `2026-11-21`, `today` or `yesterday`, at midnight; and what comes after it.
fn date(text: &str) -> Option<(Date, &str)> {
    let midnight = Civil::of_utc(0);
    for (word, days) in [("today", 0), ("yesterday", 1)] {
        if let Some(rest) = text.strip_prefix(word) {
            return Some((Date::DaysAgo(days, midnight), rest));
        }
    }
    let (year, rest) = number(text, 4)?;
    let (month, rest) = number(rest.strip_prefix('-')?, 2)?;
    let (day, rest) = number(rest.strip_prefix('-')?, 2)?;
    Some((Date::Written(Civil { year: year.into(), month, day, ..midnight }), rest))
}

/// `2026-11-21`, `2026-11-21 14:03`, `2026-11-21T14:03:20.5`, and what comes after it; nanoseconds apart.
fn date_and_time(text: &str) -> Option<(Date, u64, &str)> {
    let (date, rest) = date(text)?;
    let Some(time) =
        rest.strip_prefix(['T', 't', ' ']).filter(|time| time.starts_with(|c: char| c.is_ascii_digit()))
    else {
        return Some((date, 0, rest));
    };
    let (hour, rest) = number(time, 2)?;
    let (minute, rest) = number(rest.strip_prefix(':')?, 2)?;
    let Some(after) = rest.strip_prefix(':') else {
        return Some((date.with_time(hour, minute, 0), 0, rest));
    };
    let (second, rest) = number(after, 2)?;
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(after) => {
            let end = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
            (Some(&after[..end]).filter(|digits| !digits.is_empty())?, &after[end..])
        }
        None => ("", rest),
    };
    Some((date.with_time(hour, minute, second), nanoseconds(fraction), rest))
}

/// `+01:00`, `-0530`. In a URL a plus sign is a space.
fn offset_seconds(text: &str) -> Option<i64> {
    let (sign, rest) = match text.split_at_checked(1)? {
        ("+" | " ", rest) => (1, rest),
        ("-", rest) => (-1, rest),
        _ => return None,
    };
    let (hours, rest) = number(rest, 2)?;
    let (minutes, rest) = number(rest.strip_prefix(':').unwrap_or(rest), 2)?;
    let is_offset = rest.is_empty() && hours < 24 && minutes < 60;
    is_offset.then(|| sign * i64::from(hours * 3_600 + minutes * 60))
}

fn number(text: &str, digits: usize) -> Option<(u32, &str)> {
    let (number, rest) = text.split_at_checked(digits)?;
    let is_number = number.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| number.parse().ok()).flatten().map(|number| (number, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW: Nanos = Nanos(1_795_257_001_500_000_000);

    fn of(text: &str) -> Result<Nanos, String> {
        // A zone two hours east of Greenwich.
        let zone: Zone<'_> = &|civil| Some(civil.as_utc()? - 7_200);
        read(text, NOW, Some(zone)).map_err(|error| error.to_string())
    }

    #[test]
    fn every_form_is_read() {
        let second = 1_000_000_000;
        // date -u -d TEXT +%s
        for (text, expected) in [
            ("now", NOW.0),
            ("-1h", NOW.0 - 3_600 * second),
            ("-1.5s", NOW.0 - 1_500_000_000),
            ("1795257001", 1_795_257_001 * second),
            ("1795257001.25", 1_795_257_001 * second + 250_000_000),
            ("2026-11-21T10:30:01Z", 1_795_257_001 * second),
            ("2026-11-21 10:30:01 UTC", 1_795_257_001 * second),
            ("2026-11-21 12:30:01", 1_795_257_001 * second),
            ("2026-11-21T12:30:01.000000007", 1_795_257_001 * second + 7),
            ("2026-11-21T11:30:01+01:00", 1_795_257_001 * second),
            ("2026-11-21T11:30:01 01:00", 1_795_257_001 * second),
            ("2026-11-21T05:00:01-0530", 1_795_257_001 * second),
            ("2026-11-21 12:30", 1_795_257_000 * second),
            ("2026-11-21", 1_795_212_000 * second),
            ("2000-02-29Z", 951_782_400 * second),
            ("2100-03-01Z", 4_107_542_400 * second),
            ("1970-01-01Z", 0),
            ("today", 1_795_212_000 * second),
            ("today 12:30:01", 1_795_257_001 * second),
            ("yesterday 12:30", (1_795_257_000 - 86_400) * second),
            ("yesterday", (1_795_212_000 - 86_400) * second),
            ("yesterdayT10:30:01Z", (1_795_257_001 - 86_400) * second),
            ("yesterday 11:30:01+01:00", (1_795_257_001 - 86_400) * second),
        ] {
            assert_eq!(of(text), Ok(Nanos(expected)), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_refused_with_advice() {
        for (text, problem) in [
            ("", HELP),
            ("tomorrow", HELP),
            ("yesterday14", HELP),
            ("today 24:00", NO_DATE),
            ("-1", HELP),
            ("-x", HELP),
            ("1.", HELP),
            ("2026-11-21T10:30:01+1", HELP),
            ("2026-11-21T10", HELP),
            ("2026-11-21x", HELP),
            ("2026-02-29", NO_DATE),
            ("2026-13-01", NO_DATE),
            ("2026-11-21 24:00", NO_DATE),
            ("1969-12-31Z", TOO_FAR),
            ("-400d9", HELP),
            ("99999999999", TOO_FAR),
            ("2262-05-01Z", TOO_FAR),
            ("-292y", TOO_FAR),
            ("1970-01-01", TOO_FAR),
            ("-100000d", TOO_FAR),
        ] {
            assert_eq!(of(text), Err(format!("'{text}' is no time: {problem}")));
        }
        let error = read("2026-11-21 10:30", NOW, None).unwrap_err().to_string();
        assert!(error.ends_with(NO_ZONE), "{error}");
    }

    #[test]
    fn today_is_the_day_of_the_zone_in_which_it_is_written() {
        // 23:59:59 of the 21st in UTC; one second later it is midnight there.
        for (now, hours, expected) in [
            (1_795_305_599, 0, "2026-11-21"),
            (1_795_305_600, 0, "2026-11-22"),
            (1_795_305_599, 14, "2026-11-22"),
            (1_795_305_600, -12, "2026-11-21"),
            (1_795_262_400, 12, "2026-11-22"),
            (1_795_262_399, 12, "2026-11-21"),
        ] {
            let zone: Zone<'_> = &|civil| Some(civil.as_utc()? - hours * 3_600);
            let read = |text| read(text, Nanos(now * 1_000_000_000), Some(zone));
            assert_eq!(read("today"), read(expected), "{now} {hours}");
        }
        // A zone whose clocks go from midnight to one o'clock on the 22nd.
        let skips: Zone<'_> = &|civil| {
            let is_skipped = (civil.month, civil.day, civil.hour) == (11, 22, 0);
            let at_utc = civil.as_utc().filter(|_| !is_skipped)?;
            Some(if at_utc < 1_795_305_600 { at_utc } else { at_utc - 3_600 })
        };
        let read = |text, now: u64| read(text, Nanos(now * 1_000_000_000), Some(skips));
        assert_eq!(read("today 01:00", 1_795_305_600), Ok(Nanos(1_795_305_600 * 1_000_000_000)));
        assert_eq!(read("yesterday", 1_795_305_600), read("2026-11-21", 0));
        assert!(read("today", 1_795_305_600).is_err(), "there is no midnight on that day");
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(today|yesterday)?[-0-9:.TZ +é]{0,24}|\\PC{0,12}") {
            let _ = of(&text);
        }
    }
}
