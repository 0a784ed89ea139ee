//! How often a node sends, out of the seconds that were sent, and so after how long it is silent: three of its periods, as in PromQL.

/// A node is not silent before this time, in s: its rows come to the hub late, and in batches.
const SILENT_SECONDS: u64 = 10;
/// The same for a node whose period nobody knows, in s: receivers forget a series after five minutes by themselves.
const SILENT_UNKNOWN_SECONDS: u64 = 300;
/// A node is silent when it has sent no row for this many of its periods: two rows may be late or lost.
const PERIODS_MISSED: u64 = 3;

/// The pace of a node's rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pace {
    /// The last second.
    last: Option<u64>,
    /// The last two distances that were not silence.
    distances: [Option<u64>; 2],
    /// The last distance, if it was silence.
    silence: Option<u64>,
}

impl Pace {
    /// The last second.
    pub fn last(&self) -> Option<u64> {
        self.last
    }

    /// Two distances are known: a lost row doubles one, not both.
    pub fn is_known(&self) -> bool {
        self.distances[1].is_some()
    }

    /// True if the node has been silent when this second comes. `every` is the time between two seconds that are sent.
    pub fn is_silent_at(&self, second: u64, every: u64) -> bool {
        self.last.is_some_and(|last| second > last.saturating_add(self.silent_seconds(every)))
    }

    /// Notes a second. Returns whether the node was silent before it.
    pub fn note(&mut self, second: u64, every: u64) -> bool {
        let is_silent = self.is_silent_at(second, every);
        let distance = self.last.replace(second).and_then(|last| second.checked_sub(last));
        let Some(distance) = distance.filter(|distance| *distance > 0) else { return is_silent };
        if !is_silent {
            self.distances = [Some(distance), self.distances[0]];
            self.silence = None;
            return false;
        }
        // Two silences that are alike are a node that has become slower.
        let before = self.silence.replace(distance);
        if before.is_some_and(|before| before.max(distance) * 2 <= before.min(distance) * 3) {
            self.distances = [Some(distance), before];
        }
        true
    }

    /// Notes the first second of another epoch: the agent may have begun with another rate.
    pub fn begin(&mut self, second: u64) {
        *self = Pace { last: Some(second), ..Pace::default() };
    }

    fn silent_seconds(&self, every: u64) -> u64 {
        let period = self.distances.iter().flatten().min();
        let silent = period.map_or(SILENT_UNKNOWN_SECONDS, |period| period.saturating_mul(PERIODS_MISSED));
        silent.max(SILENT_SECONDS).max(every.saturating_mul(PERIODS_MISSED))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The seconds before which the node was silent.
    fn silences(seconds: &[u64], every: u64) -> Vec<u64> {
        let mut pace = Pace::default();
        seconds.iter().copied().filter(|second| pace.note(*second, every)).collect()
    }

    #[test]
    fn a_node_is_silent_when_three_of_its_periods_are_missing_whatever_they_are() {
        for period in [1, 2, 7, 10, 15, 30, 60, 100] {
            let rows: Vec<u64> = (0..20).map(|row| row * period).collect();
            assert_eq!(silences(&rows, 1), [0; 0], "{period}");
            let (last, silent) = (19 * period, (3 * period).max(10));
            for (gap, expected) in [(silent, None), (silent + 1, Some(last + silent + 1))] {
                let rows: Vec<u64> = rows.iter().copied().chain([last + gap]).collect();
                assert_eq!(silences(&rows, 1), expected.into_iter().collect::<Vec<_>>(), "{period}");
            }
        }
    }

    #[test]
    fn a_lost_row_is_no_period_and_neither_is_silence_unless_it_repeats() {
        assert_eq!(silences(&[0, 1, 2, 4, 15], 1), [15]);
        assert_eq!(silences(&[0, 1, 2, 700, 701, 702], 1), [700]);
        assert_eq!(silences(&[0, 1, 2, 17, 32, 47, 62], 1), [17, 32], "its agent has begun again, slower");
        assert_eq!(silences(&[0, 30, 60, 105], 15), [0; 0], "samples are fewer than rows");
        assert_eq!(silences(&[0, 300], 1), [0; 0], "its period is not known");
        assert_eq!(silences(&[0, 301], 1), [301]);
    }
}
