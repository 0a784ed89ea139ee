//! A log that does not fill up because of a port scan, or an agent that is refused repeatedly. It writes a limited
//! number of lines a second and says how many it left out. A line that repeats is written at once, and then once a
//! minute with its count.

use std::collections::HashMap;

use khz_model::{Nanos, Repeats};

/// Lines a second.
const LINES: u32 = 20;
/// Lines that are remembered, so that they are not repeated at once: one for each agent of a large cluster that has a
/// wrong token. If there are more, every line counts as new.
const REPEATS_MAX: usize = 4_096;

/// How many lines there were in this second.
#[derive(Debug, Default)]
pub(crate) struct LogLimit {
    second: u64,
    lines: u32,
    left_out: u64,
    repeats: HashMap<String, Repeats>,
}

impl LogLimit {
    /// Warns, unless this second is full.
    pub fn warn(&mut self, now: Nanos, line: impl FnOnce() -> String) {
        let second = now.0 / Nanos::SECOND.0;
        if second != self.second {
            if self.left_out > 0 {
                tracing::warn!("{} more lines like these were left out", self.left_out);
            }
            (self.second, self.lines, self.left_out) = (second, 0, 0);
        }
        self.lines += 1;
        if self.lines > LINES {
            self.left_out += 1;
        } else {
            tracing::warn!("{}", line());
        }
    }

    /// The same for a peer that connects repeatedly: lines with equal `same` are repetitions.
    pub fn warn_of(&mut self, now: Nanos, same: String, line: impl FnOnce() -> String) {
        if let Some(times) = self.happened(now, same) {
            self.warn(now, || line() + &times);
        }
    }

    /// What to append to the line, if it is time for a line.
    fn happened(&mut self, now: Nanos, same: String) -> Option<String> {
        if let Some(known) = self.repeats.get_mut(&same) {
            return known.happened(now);
        }
        if self.repeats.len() >= REPEATS_MAX {
            self.repeats.retain(|_, known| !known.is_over(now));
        }
        let mut new = Repeats::default();
        let times = new.happened(now);
        if self.repeats.len() < REPEATS_MAX {
            self.repeats.insert(same, new);
        }
        times
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_refusal_is_logged_at_once_and_then_once_a_minute_with_its_count() {
        let mut log = LogLimit::default();
        // Every ten seconds for three minutes, two callers.
        let told = |log: &mut LogLimit, who: &str| -> Vec<String> {
            (0..18).filter_map(|ten| log.happened(Nanos::from_secs(100 + 10 * ten), who.to_owned())).collect()
        };
        let expected = ["", " (6 times in the last 60 s)", " (6 times in the last 60 s)"];
        assert_eq!(told(&mut log, "n1: a wrong token"), expected);
        assert_eq!(told(&mut log, "n1: another reason"), expected, "this is news");
    }

    #[test]
    fn however_many_callers_there_are_no_more_are_remembered_than_the_limit_says() {
        let mut log = LogLimit::default();
        for caller in 0..REPEATS_MAX + 10 {
            assert!(log.happened(Nanos::from_secs(1), caller.to_string()).is_some());
        }
        assert_eq!(log.repeats.len(), REPEATS_MAX);
        // Old entries make room.
        assert!(log.happened(Nanos::from_secs(1_000), "later".to_owned()).is_some());
        assert_eq!(log.repeats.len(), 1);
    }

    #[test]
    fn a_second_has_its_lines_and_the_next_one_has_as_many_again() {
        let mut limit = LogLimit::default();
        // The lines of this second, and the number of lines that were left out.
        let mut said = |second: u64, lines: u64| {
            // The end of a second is like its beginning.
            (0..lines).for_each(|n| limit.warn(Nanos(second * Nanos::SECOND.0 + n * 1_000_000), String::new));
            (u64::from(limit.lines), limit.left_out)
        };
        assert_eq!(said(7, 15), (15, 0));
        assert_eq!(said(7, 15), (30, 10));
        assert_eq!(said(8, 20), (20, 0), "what was left out is logged once");
        assert_eq!(said(9, 21), (21, 1));
    }
}
