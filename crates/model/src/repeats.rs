//! What happens again and again is told at once, and then once a minute with how often. Time comes in as an argument; it
//! refuses to write the log itself.

use crate::Nanos;

/// Between two lines: often enough for somebody who watches, and 1,440 lines a day.
const TOLD_EVERY: Nanos = Nanos::from_secs(60);

/// One thing that happens again and again.
#[derive(Clone, Copy, Debug, Default)]
pub struct Repeats {
    /// When it was told last.
    told: Option<Nanos>,
    untold: u64,
}

impl Repeats {
    /// It has happened once more: where it is time for a line, what to put into it, as ` (600 times in the last 60 s)`.
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

    /// It has not happened for long, or all of it was told: what comes next is news.
    pub fn is_over(&self, now: Nanos) -> bool {
        self.told.is_none_or(|told| now.since(told) >= TOLD_EVERY)
    }
}
