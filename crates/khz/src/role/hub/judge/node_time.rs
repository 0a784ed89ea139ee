//! When a node gathered its rows, on the clock by which rules are judged. It uses the node's clock that nobody sets, so a wrong
//! wall clock at the node changes no alert. It knows no rules.

use khz_model::Nanos;

use super::clock::Now;

/// If all rows of this time (ms), and at least [`WINDOW_ROWS`] of them...
const WINDOW: i64 = 120_000;
const WINDOW_ROWS: u32 = 3;
/// ...came later than expected by more than this (ms), then the clocks of the two machines have drifted apart, or one machine was
/// halted.
const DRIFT_MAX: i64 = 250;
/// If a row was gathered this much earlier (ms) than a previous row, the node's machine was rebooted in between.
const REBOOT: i64 = 60_000;

/// The difference of the two machines' clocks, according to the row that came fastest.
#[derive(Debug, Default)]
pub(super) struct NodeTime {
    /// How much the hub's steady clock is ahead of the node's, and the smallest difference since the window began.
    ahead: Option<i64>,
    least: i64,
    began: i64,
    rows: u32,
    /// When the newest row was gathered, on the node's clock.
    newest: Option<i64>,
}

impl NodeTime {
    /// Notes that the newest of the received rows was gathered at `boot`.
    pub fn hear(&mut self, boot: Nanos, now: Now) {
        let boot = millis(boot);
        if self.newest.is_some_and(|newest| boot.saturating_add(REBOOT) < newest) {
            *self = NodeTime::default();
        }
        let seen = now.steady.saturating_sub(boot);
        let Some(ahead) = self.ahead.filter(|ahead| seen >= *ahead) else {
            self.ahead = Some(seen);
            return self.begin_window(now);
        };
        self.least = self.least.min(seen);
        self.rows += 1;
        if self.rows >= WINDOW_ROWS && now.steady.saturating_sub(self.began) >= WINDOW {
            if self.least.saturating_sub(ahead) > DRIFT_MAX {
                self.ahead = Some(self.least);
            }
            self.begin_window(now);
        }
    }

    fn begin_window(&mut self, now: Now) {
        (self.least, self.began, self.rows) = (i64::MAX, now.steady, 0);
    }

    /// Whether a row that was gathered at `boot` is newer than all earlier ones.
    pub fn is_new(&mut self, boot: Nanos) -> bool {
        let boot = millis(boot);
        let is_new = self.newest.is_none_or(|newest| boot > newest || boot.saturating_add(REBOOT) < newest);
        if is_new {
            self.newest = Some(boot);
        }
        is_new
    }

    /// Earlier rows may come again.
    pub fn begin_again(&mut self) {
        self.newest = None;
    }

    /// When a received row was gathered (ms since 1970).
    pub fn of(&self, boot: Nanos, now: Now) -> i64 {
        let expected = millis(boot).saturating_add(self.ahead.unwrap_or(0));
        let age = now.steady.saturating_sub(expected).max(0);
        now.judged.saturating_sub(age)
    }
}

fn millis(time: Nanos) -> i64 {
    (time.0 / 1_000_000).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hub whose steady clock reads 1,000 s and whose rules are judged at noon when the test begins, and a node that was booted 600 s
    /// before the hub.
    fn at(ms: i64) -> Now {
        Now { steady: 1_000_000 + ms, judged: 43_200_000 + ms }
    }

    fn boot(ms: i64) -> Nanos {
        Nanos((1_600_000 + ms) as u64 * 1_000_000)
    }

    /// The times of rows, in ms after the test's begin: when each was gathered and when it came.
    fn times(node: &mut NodeTime, rows: &[(i64, i64)]) -> Vec<i64> {
        let time = |(gathered, came): &(i64, i64)| {
            node.hear(boot(*gathered), at(*came));
            node.of(boot(*gathered), at(*came)) - 43_200_000
        };
        rows.iter().map(time).collect()
    }

    #[test]
    fn a_row_was_gathered_when_it_was_however_late_it_comes() {
        let mut node = NodeTime::default();
        // The first one takes 30 ms, the fastest 2 ms, and one waits for five seconds.
        let rows = [(0, 30), (1_000, 1_002), (2_000, 2_007), (3_000, 8_000), (9_000, 9_004)];
        assert_eq!(times(&mut node, &rows), [30, 1_002, 2_002, 3_002, 9_002]);
    }

    #[test]
    fn the_clock_of_judging_moves_them_all_together() {
        let mut node = NodeTime::default();
        times(&mut node, &[(0, 1)]);
        let set = Now { judged: at(10_000).judged - 3_600_000, ..at(10_000) };
        assert_eq!(node.of(boot(9_000), set) - (43_200_000 - 3_600_000), 9_001);
    }

    #[test]
    fn a_machine_that_was_booted_again_has_another_clock_and_its_rows_are_new() {
        let mut node = NodeTime::default();
        assert!(node.is_new(boot(0)) && node.is_new(boot(1_000)) && !node.is_new(boot(1_000)));
        times(&mut node, &[(0, 1), (1_000, 1_001)]);
        let after = Nanos(5_000_000_000);
        node.hear(after, at(100_000));
        assert!(node.is_new(after) && !node.is_new(after));
        assert_eq!(node.of(after, at(100_000)), at(100_000).judged);
    }

    #[test]
    fn clocks_that_drift_apart_are_followed_and_late_rows_are_not() {
        let mut node = NodeTime::default();
        // The machine stood still for ten seconds, and its clock with it: after two minutes that is known.
        let rows: Vec<(i64, i64)> =
            (1..200).map(|second| (second * 1_000, second * 1_000 + 10_001)).collect();
        times(&mut node, &[(0, 1)]);
        let times = times(&mut node, &rows);
        assert_eq!((times[0], times[100]), (1_001, 101_001));
        assert_eq!(times.last(), Some(&(199_000 + 10_001)));
        assert!(times.is_sorted());
    }

    #[test]
    fn two_late_rows_in_two_minutes_are_late_rows() {
        let mut node = NodeTime::default();
        let rows = [(0, 1), (60_000, 110_000), (120_000, 170_000), (180_000, 180_001)];
        assert_eq!(times(&mut node, &rows), [1, 60_001, 120_001, 180_001]);
    }
}
