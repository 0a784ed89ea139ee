//! Whether a series of a condition is on. It becomes on after it was true for long enough, in enough of the last rows. It
//! becomes off when its `unless` condition is true, or, without one, when it is no longer true.

use khz_model::Nanos;

use super::When;

/// The time that has passed between two rows, as spans are compared with it: rows come some microseconds early or late, so half a
/// period is added. At 1 Hz, two seconds have passed with the second row after.
#[inline]
pub(crate) fn passed(since: Nanos, now: Nanos, half_period: Nanos) -> Nanos {
    match now.since(since) {
        // The same row: no time has passed.
        Nanos(0) => Nanos(0),
        passed => Nanos(passed.0.saturating_add(half_period.0)),
    }
}

/// The state of one series.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Truth {
    /// A bit for each of the last rows, the newest lowest: whether it was true.
    rows: u64,
    /// Since when it has counted as true.
    since: Option<Nanos>,
    is_on: bool,
    /// It went on, and has not caused a row yet.
    is_news: bool,
    /// When it caused a row.
    told: Option<Nanos>,
}

impl Truth {
    /// Takes the next row; `now` is its time on the boot clock. `is_back`: the `unless` condition is true. Returns whether
    /// the series is on.
    #[inline]
    pub fn row(&mut self, when: &When, now: Nanos, half_period: Nanos, is_true: bool, is_back: bool) -> bool {
        self.rows = self.rows << 1 | u64::from(is_true);
        let mask = u64::MAX >> (64 - u32::from(when.of.clamp(1, 64)));
        let counts = (self.rows & mask).count_ones() >= u32::from(when.at_least);
        if !counts {
            self.since = None;
        }
        if self.is_on {
            let is_over = if when.unless.is_some() { is_back } else { !counts };
            if is_over {
                (self.is_on, self.is_news, self.since) = (false, false, None);
            }
        } else if counts && !is_back {
            let since = *self.since.get_or_insert(now);
            self.is_on = passed(since, now, half_period) >= when.holds;
            self.is_news = self.is_on;
        }
        self.is_on
    }

    /// Whether it is on.
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// True if it causes a row now, because it became on. After that it causes none for the quiet time. If it became on
    /// within that time, it causes its row afterwards, if it is still on.
    #[inline]
    pub fn take_news(&mut self, when: &When, now: Nanos, half_period: Nanos) -> bool {
        let is_quiet = self.told.is_some_and(|told| passed(told, now, half_period) < when.quiet);
        if !self.is_news || is_quiet {
            return false;
        }
        (self.is_news, self.told) = (false, Some(now));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Plan, Step};
    use proptest::prelude::*;

    const HALF: Nanos = Nanos::from_millis(500);

    /// The rows, a second apart, in which the series is on (`#`), and in which it causes a row (`!`); `+`: true, `x`: taken back.
    fn shown(when: &When, rows: &str) -> String {
        shown_with_jitter(when, rows, &[])
    }

    /// The same, with rows that come this much (ns) late.
    fn shown_with_jitter(when: &When, rows: &str, late: &[u64]) -> String {
        let mut truth = Truth::default();
        let row = |(second, row): (usize, char)| {
            let late = late.get(second).copied().unwrap_or(0);
            let now = Nanos(Nanos::from_secs(1_000 + second as u64).0 + late);
            let is_on = truth.row(when, now, HALF, row == '+', row == 'x');
            match (is_on, truth.take_news(when, now, HALF)) {
                (_, true) => '!',
                (true, false) => '#',
                (false, false) => '.',
            }
        };
        rows.chars().enumerate().map(row).collect()
    }

    #[test]
    fn a_series_is_on_as_long_as_it_is_true() {
        assert_eq!(shown(&When::default(), "-++-+"), ".!#.!");
    }

    #[test]
    fn it_goes_on_after_it_was_true_for_a_while() {
        let when = When { holds: Nanos::from_secs(2), ..When::default() };
        assert_eq!(shown(&when, "+++-++-++++"), "..!......!#");
        assert_eq!(shown(&when, "++-++-"), "......");
    }

    #[test]
    fn it_stays_on_until_it_is_taken_back() {
        let unless = Some(Plan::new(vec![Step::Time]).unwrap());
        let when = When { unless, ..When::default() };
        assert_eq!(shown(&when, "-+--x-+x+"), ".!##..!.!");
        // Taken back and true at once is off.
        assert_eq!(shown(&when, "x"), ".");
    }

    #[test]
    fn it_counts_the_last_rows() {
        let when = When { at_least: 2, of: 3, ..When::default() };
        assert_eq!(shown(&when, "+-+--++-"), "..!...!#");
        let all = When { at_least: 64, of: 64, ..When::default() };
        assert_eq!(shown(&all, &"+".repeat(65)), format!("{}!#", ".".repeat(63)));
    }

    #[test]
    fn what_goes_on_within_the_quiet_time_is_told_after_it_if_it_is_on_still() {
        let when = When { once: true, quiet: Nanos::from_secs(4), ..When::default() };
        assert_eq!(shown(&when, "+-+++++-+"), "!.##!##.!");
        assert_eq!(shown(&when, "+-+----+"), "!.#....!");
    }

    #[test]
    fn what_must_hold_for_less_than_a_period_must_hold_in_two_rows() {
        let when = When { holds: Nanos::from_millis(200), ..When::default() };
        assert_eq!(shown(&when, "+-++-"), "...!.");
    }

    proptest! {
        /// Delays of up to 0.4 s make no difference: the same rows are on as without jitter.
        #[test]
        fn jitter_decides_nothing(
            rows in "[+\\-x]{1,60}",
            late in prop::collection::vec(0u64..400_000_000, 60),
            (holds, quiet) in (0u64..5, 0u64..5),
            at_least in 1u8..3,
        ) {
            let (holds, quiet) = (Nanos::from_secs(holds), Nanos::from_secs(quiet));
            let when = When { holds, quiet, once: true, at_least, of: 3, ..When::default() };
            prop_assert_eq!(shown_with_jitter(&when, &rows, &late), shown(&when, &rows));
        }
    }
}
