//! `rate`, `increase`, `delta`: how much a range has grown, extrapolated to its bounds as Prometheus does it.

use super::{Fold, Window};
use crate::summary::Summary;

/// The state of a range: its first and last sample, their number, and the sum lost by resets.
#[derive(Clone, Copy, Debug, Default)]
struct Growth {
    count: usize,
    first_time: i64,
    first: f64,
    last_time: i64,
    last: f64,
    /// The sum of a counter's values before its resets.
    reset: f64,
}

impl Growth {
    fn push(&mut self, times: &[i64], values: &[f64], counter: bool) {
        if self.count == 0 {
            (self.first_time, self.first, self.last) = (times[0], values[0], values[0]);
        }
        if counter {
            let joint = values[0] < self.last;
            // Resets are rare: first find out whether there is one, in a loop without branches.
            if joint || values.windows(2).fold(false, |any, two| any | (two[1] < two[0])) {
                let mut before = self.last;
                for &value in values {
                    if value < before {
                        self.reset += before;
                    }
                    before = value;
                }
            }
        }
        self.count += values.len();
        self.last_time = times[times.len() - 1];
        self.last = values[values.len() - 1];
    }

    fn join(&mut self, summary: &Summary, counter: bool) {
        let (first_time, first) = summary.first;
        if self.count == 0 {
            (self.first_time, self.first, self.last) = (first_time, first, first);
        }
        if counter {
            self.reset += summary.correction + if first < self.last { self.last } else { 0.0 };
        }
        self.count += summary.count as usize;
        (self.last_time, self.last) = summary.last;
    }

    /// The growth in the whole range, or in each of `parts` equal parts; `None` without two samples.
    fn extrapolated(&self, window: &Window, counter: bool, parts: f64) -> Option<f64> {
        if self.count < 2 {
            return None;
        }
        let seconds = |from: i64, to: i64| to.wrapping_sub(from) as f64 / 1000.0;
        let grown = if counter { self.last - self.first + self.reset } else { self.last - self.first };
        let covered = seconds(self.first_time, self.last_time);
        let between = covered / (self.count - 1) as f64;
        // Samples that are this close to a bound of the range are taken to go on up to it.
        let near = between * 1.1;
        let mut to_start = seconds(window.after, self.first_time);
        let mut to_end = seconds(self.last_time, window.end);
        if to_start >= near {
            to_start = between / 2.0;
        }
        if counter && grown > 0.0 && self.first >= 0.0 {
            // A counter was never below zero.
            to_start = to_start.min(covered * (self.first / grown));
        }
        if to_end >= near {
            to_end = between / 2.0;
        }
        Some(grown * ((covered + to_start + to_end) / covered / parts))
    }
}

/// `increase`
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Increase(Growth);

impl Fold for Increase {
    const SUMS: bool = true;
    const ENDS: bool = true;

    fn begin(_: &Window) -> Self {
        Increase::default()
    }

    fn push(&mut self, times: &[i64], values: &[f64]) {
        self.0.push(times, values, true);
    }

    fn join(&mut self, summary: &Summary) {
        self.0.join(summary, true);
    }

    fn end(&mut self, window: &Window) -> Option<f64> {
        self.0.extrapolated(window, true, 1.0)
    }
}

/// `rate`
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rate(Growth);

impl Fold for Rate {
    const SUMS: bool = true;
    const ENDS: bool = true;

    fn begin(_: &Window) -> Self {
        Rate::default()
    }

    fn push(&mut self, times: &[i64], values: &[f64]) {
        self.0.push(times, values, true);
    }

    fn join(&mut self, summary: &Summary) {
        self.0.join(summary, true);
    }

    fn end(&mut self, window: &Window) -> Option<f64> {
        let seconds = window.end.wrapping_sub(window.after) as f64 / 1000.0;
        self.0.extrapolated(window, true, seconds)
    }
}

/// `delta`
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Delta(Growth);

impl Fold for Delta {
    const SUMS: bool = true;
    const ENDS: bool = true;

    fn begin(_: &Window) -> Self {
        Delta::default()
    }

    fn push(&mut self, times: &[i64], values: &[f64]) {
        self.0.push(times, values, false);
    }

    fn join(&mut self, summary: &Summary) {
        self.0.join(summary, false);
    }

    fn end(&mut self, window: &Window) -> Option<f64> {
        self.0.extrapolated(window, false, 1.0)
    }
}
