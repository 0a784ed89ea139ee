//! Decides which problems of a way are logged: a new one at once, the same one at most once a minute, and only a few lines a minute
//! in all. It does not log itself.

use khz_model::{Nanos, Repeats};

use crate::limits::LINES_A_MINUTE_MAX;

/// The problems that have a line of the last minute.
#[derive(Debug, Default)]
pub(crate) struct Lines(Vec<(String, Repeats)>);

impl Lines {
    /// Notes a problem. Returns an addition to its line, if it must be logged now.
    pub fn happened(&mut self, problem: &str, now: Nanos) -> Option<String> {
        self.0.retain(|(known, repeats)| known == problem || !repeats.is_over(now));
        if let Some((_, repeats)) = self.0.iter_mut().find(|(known, _)| known == problem) {
            return repeats.happened(now);
        }
        // A server that reports a new problem each time must not fill the log.
        if self.0.len() >= LINES_A_MINUTE_MAX {
            return None;
        }
        let mut repeats = Repeats::default();
        let added = repeats.happened(now);
        self.0.push((problem.to_owned(), repeats));
        added
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_problem_is_logged_at_once_the_same_one_each_minute_and_a_flood_of_new_ones_is_not() {
        let at = Nanos::from_secs;
        let mut lines = Lines::default();
        assert_eq!(lines.happened("no answer", at(100)).as_deref(), Some(""));
        assert_eq!(lines.happened("no answer", at(110)), None);
        assert_eq!(lines.happened("refused", at(111)).as_deref(), Some(""), "another problem");
        assert_eq!(lines.happened("no answer", at(170)).as_deref(), Some(" (2 times in the last 70 s)"));
        let logged = (0..1_000).filter(|number| lines.happened(&number.to_string(), at(171)).is_some());
        assert_eq!(logged.count(), LINES_A_MINUTE_MAX - 1);
        assert_eq!(lines.happened("another", at(240)).as_deref(), Some(""), "a minute later there is room");
    }
}
