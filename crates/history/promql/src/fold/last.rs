//! The first and the last samples of a range.

use super::{Fold, Window};
use crate::summary::Summary;

/// `last_over_time`
pub(crate) struct Last(Option<f64>);

impl Fold for Last {
    const SUMS: bool = true;
    const ENDS: bool = true;

    fn begin(_: &Window) -> Self {
        Last(None)
    }

    fn push(&mut self, _: &[i64], values: &[f64]) {
        self.0 = values.last().copied();
    }

    fn join(&mut self, summary: &Summary) {
        self.0 = Some(summary.last.1);
    }

    fn end(&mut self, _: &Window) -> Option<f64> {
        self.0
    }
}

/// `first_over_time`
pub(crate) struct First(Option<f64>);

impl Fold for First {
    const SUMS: bool = true;
    const ENDS: bool = true;

    fn begin(_: &Window) -> Self {
        First(None)
    }

    fn push(&mut self, _: &[i64], values: &[f64]) {
        self.0 = self.0.or_else(|| values.first().copied());
    }

    fn join(&mut self, summary: &Summary) {
        self.0 = self.0.or(Some(summary.first.1));
    }

    fn end(&mut self, _: &Window) -> Option<f64> {
        self.0
    }
}

/// The last two samples.
#[derive(Default)]
struct LastTwo {
    before: Option<(i64, f64)>,
    last: Option<(i64, f64)>,
}

impl LastTwo {
    fn push(&mut self, times: &[i64], values: &[f64]) {
        for at in values.len().saturating_sub(2)..values.len() {
            self.before = self.last.replace((times[at], values[at]));
        }
    }
}

/// `irate`
#[derive(Default)]
pub(crate) struct Irate(LastTwo);

impl Fold for Irate {
    fn begin(_: &Window) -> Self {
        Irate::default()
    }

    fn push(&mut self, times: &[i64], values: &[f64]) {
        self.0.push(times, values);
    }

    fn end(&mut self, _: &Window) -> Option<f64> {
        let ((earlier, before), (later, last)) = (self.0.before?, self.0.last?);
        // After a reset of the counter, all that it shows came since.
        let grown = if last < before { last } else { last - before };
        let elapsed = later - earlier;
        (elapsed != 0).then(|| grown / (elapsed as f64 / 1000.0))
    }
}

/// `idelta`
#[derive(Default)]
pub(crate) struct Idelta(LastTwo);

impl Fold for Idelta {
    fn begin(_: &Window) -> Self {
        Idelta::default()
    }

    fn push(&mut self, times: &[i64], values: &[f64]) {
        self.0.push(times, values);
    }

    fn end(&mut self, _: &Window) -> Option<f64> {
        Some(self.0.last?.1 - self.0.before?.1)
    }
}
