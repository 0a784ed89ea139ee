//! A sample as text, `time:reading:reading...`: its stamp, its readings, and what it must be to be taken.

use khz_rrd::error::{Result, refused};
use khz_rrd::number::{self, Reading};

/// Digits of whole seconds up to which a stamp is exact.
pub const DIGITS: usize = 12;

/// The samples of an update, which have blanks between them.
pub fn each(samples: &str) -> impl Iterator<Item = &str> {
    samples.split(' ').filter(|sample| !sample.is_empty())
}

/// A sample's stamp in microseconds.
pub fn stamp(sample: &str) -> Option<i64> {
    let (time, _) = sample.split_once(':')?;
    if time.len() <= DIGITS && !time.is_empty() && time.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(time.bytes().fold(0, |sum, byte| sum * 10 + i64::from(byte - b'0')) * 1_000_000);
    }
    match number::read(time) {
        Reading::Whole(seconds) if seconds.abs() < SECONDS_MAX => {
            Some(number::as_long((seconds * 1e6).round()))
        }
        _ => None,
    }
}

/// Times further away have no number of microseconds.
const SECONDS_MAX: f64 = 9.2e12;

/// How many readings a sample has.
pub fn readings(sample: &str) -> usize {
    sample.bytes().filter(|byte| *byte == b':').count()
}

/// The stamp of `sample`, which must be newer than `last` and have `readings` readings.
///
/// # Errors
/// rrdcached's messages, and one of ours for the number of readings, which rrdcached does not check.
pub fn checked(sample: &str, last: i64, readings: usize) -> Result<i64> {
    let Some(stamp) = stamp(sample) else {
        let time = sample.split_once(':').map_or("", |(time, _)| time);
        if matches!(number::read(time), Reading::Whole(seconds) if seconds.is_finite()) {
            return refused(format!("'{sample}': the time is more than {SECONDS_MAX:e} seconds from 1970"));
        }
        return refused(format!("Cannot find timestamp in '{sample}'!"));
    };
    if stamp <= last {
        let seconds = |micros: i64| micros as f64 / 1e6;
        return refused(format!(
            "illegal attempt to update using time {:.6} when last update time is {:.6} (minimum one second step)",
            seconds(stamp),
            seconds(last)
        ));
    }
    let got = self::readings(sample);
    if got != readings {
        return refused(format!("expected {readings} data source readings (got {got}) from {sample}"));
    }
    Ok(stamp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_microseconds() {
        assert_eq!(stamp("1000000300:5"), Some(1_000_000_300_000_000));
        assert_eq!(stamp("1000000300.25:5"), Some(1_000_000_300_250_000));
        assert_eq!(stamp("-5:1"), Some(-5_000_000));
        for none in ["1000000300", "N:1", "x:1", ":1", ""] {
            assert_eq!(stamp(none), None, "{none}");
        }
    }

    #[test]
    fn a_sample_is_refused_in_rrdcacheds_words() {
        let check = |sample| checked(sample, 10_000_000, 1).map_err(|error| error.to_string());
        assert_eq!(check("11:1"), Ok(11_000_000));
        assert_eq!(check("N:1").unwrap_err(), "Cannot find timestamp in 'N:1'!");
        assert!(
            check("10:1")
                .unwrap_err()
                .starts_with("illegal attempt to update using time 10.000000 when last")
        );
        assert_eq!(
            check("179000720162960:1").unwrap_err(),
            "'179000720162960:1': the time is more than 9.2e12 seconds from 1970"
        );
        assert_eq!(check("11:1:2").unwrap_err(), "expected 1 data source readings (got 2) from 11:1:2");
    }
}
