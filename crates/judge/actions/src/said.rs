//! Limits the log lines about a held-back action: some in a minute, and then one line with the number of the others. Time is an
//! argument.

use std::time::{Duration, Instant};

use crate::limits::HELD_LINES_A_MINUTE_MAX;

const MINUTE: Duration = Duration::from_secs(60);

/// What the log has already said about one action.
#[derive(Debug, Default)]
pub(crate) struct Said {
    /// When the minute began.
    begun: Option<Instant>,
    lines: usize,
    left_out: u64,
}

/// What to log now.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Say {
    /// The number of alerts in the last minute without a line.
    pub left_out: u64,
    /// This one has a line.
    pub this: bool,
}

impl Said {
    /// Another alert is held back.
    pub fn held(&mut self, now: Instant) -> Say {
        let is_over = self.begun.is_none_or(|begun| now.saturating_duration_since(begun) >= MINUTE);
        let left_out = if is_over { std::mem::take(&mut self.left_out) } else { 0 };
        if is_over {
            (self.begun, self.lines) = (Some(now), 0);
        }
        let this = self.lines < HELD_LINES_A_MINUTE_MAX;
        match this {
            true => self.lines += 1,
            false => self.left_out += 1,
        }
        Say { left_out, this }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_alerts_some_have_a_line_and_the_others_are_counted_in_the_next_minute() {
        let (mut said, begin) = (Said::default(), Instant::now());
        let all: Vec<Say> = (0..400).map(|_| said.held(begin)).collect();
        assert_eq!(all.iter().filter(|say| say.this).count(), HELD_LINES_A_MINUTE_MAX);
        assert!(all.iter().all(|say| say.left_out == 0));
        let left_out = 400 - HELD_LINES_A_MINUTE_MAX as u64;
        assert_eq!(said.held(begin + MINUTE), Say { left_out, this: true });
        assert_eq!(said.held(begin + MINUTE), Say { left_out: 0, this: true });
    }
}
