//! A moment in whole seconds, as certificates hold it and people read it: `2026-11-18 12:00:00 UTC`. Never
//! local time.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use khz_model::calendar::Civil;

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

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} UTC", Civil::of_utc(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
