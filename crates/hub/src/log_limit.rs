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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_its_lines_and_the_next_one_has_as_many_again() {
        let mut limit = LogLimit::default();
        // Lines that this second has had, and those of them that were left out.
        let mut said = |second: u64, lines: u64| {
            // At the end of a second as at its beginning.
            (0..lines).for_each(|n| limit.warn(Nanos(second * Nanos::SECOND.0 + n * 1_000_000), String::new));
            (u64::from(limit.lines), limit.left_out)
        };
        assert_eq!(said(7, 15), (15, 0));
        assert_eq!(said(7, 15), (30, 10));
        assert_eq!(said(8, 20), (20, 0), "what was left out is told once");
        assert_eq!(said(9, 21), (21, 1));
    }
}
