//! Limits the log lines about a repeated event: one line at once, then one a minute with the count. Time is
//! an argument. This file writes no log itself.

use crate::Nanos;

/// Time between two lines: short enough for somebody who watches, and at most 1,440 lines a day.
const TOLD_EVERY: Nanos = Nanos::from_secs(60);

/// An event that repeats.
#[derive(Clone, Copy, Debug, Default)]
pub struct Repeats {
    /// When the last line was due.
    told: Option<Nanos>,
    untold: u64,
}

impl Repeats {
    /// Counts the event once more. Returns the text to add to a log line, if one is due, such as ` (600 times
    /// in the last 60 s)`.
    pub fn happened(&mut self, now: Nanos) -> Option<String> {
        self.untold += 1;
        let since = self.told.map(|told| now.since(told));
        if since.is_some_and(|since| since < TOLD_EVERY) {
            return None;
        }
        self.told = Some(now);
        Some(match (std::mem::take(&mut self.untold), since) {
            (times @ 2.., Some(since)) => {
                format!(" ({times} times in the last {} s)", since.0 / Nanos::SECOND.0)
            }
            _ => String::new(),
        })
    }

    /// True when the event has not happened for long, or all of it is logged: the next one is news.
    pub fn is_over(&self, now: Nanos) -> bool {
        self.told.is_none_or(|told| now.since(told) >= TOLD_EVERY)
    }
}
