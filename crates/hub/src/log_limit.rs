//! A log that a port scan cannot fill: so many lines a second, and how many were left out.

use khz_model::Nanos;

/// Lines a second.
const LINES: u32 = 20;

/// How many lines this second has had.
#[derive(Debug, Default)]
pub(crate) struct LogLimit {
    second: u64,
    lines: u32,
    left_out: u64,
}

impl LogLimit {
    /// Warns, unless this second has had its lines.
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
}
