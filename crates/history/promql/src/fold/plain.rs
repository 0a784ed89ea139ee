//! Counting and comparing.

use super::{Fold, Window};
use crate::summary::Summary;

/// `count_over_time`, `count`
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Count(usize);

impl Fold for Count {
    const SUMS: bool = true;
    const ENDS: bool = true;

    fn begin(_: &Window) -> Self {
        Count(0)
    }

    fn push(&mut self, _: &[i64], values: &[f64]) {
        self.0 += values.len();
    }

    fn join(&mut self, summary: &Summary) {
        self.0 += summary.count as usize;
    }

    fn end(&mut self, _: &Window) -> Option<f64> {
        (self.0 > 0).then_some(self.0 as f64)
    }
}

/// `present_over_time`, `group`
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Present(bool);

impl Fold for Present {
    const SUMS: bool = true;
    const ENDS: bool = true;

    fn begin(_: &Window) -> Self {
        Present(false)
    }

    fn push(&mut self, _: &[i64], _: &[f64]) {
        self.0 = true;
    }

    fn join(&mut self, _: &Summary) {
        self.0 = true;
    }

    fn end(&mut self, _: &Window) -> Option<f64> {
        self.0.then_some(1.0)
    }
}

/// `max_over_time`, `max`: NaN only if all are.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Highest(Option<f64>);

impl Fold for Highest {
    const SUMS: bool = true;
    const ENDS: bool = true;

    fn begin(_: &Window) -> Self {
        Highest(None)
    }

    fn push(&mut self, _: &[i64], values: &[f64]) {
        let before = self.0.unwrap_or(f64::NAN);
        self.0 = Some(values.iter().fold(before, |highest, &value| highest.max(value)));
    }

    fn join(&mut self, summary: &Summary) {
        self.0 = Some(self.0.unwrap_or(f64::NAN).max(summary.highest));
    }

    fn end(&mut self, _: &Window) -> Option<f64> {
        self.0
    }
}

/// `min_over_time`, `min`: NaN only if all are.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lowest(Option<f64>);

impl Fold for Lowest {
    const SUMS: bool = true;
    const ENDS: bool = true;

    fn begin(_: &Window) -> Self {
        Lowest(None)
    }

    fn push(&mut self, _: &[i64], values: &[f64]) {
        let before = self.0.unwrap_or(f64::NAN);
        self.0 = Some(values.iter().fold(before, |lowest, &value| lowest.min(value)));
    }

    fn join(&mut self, summary: &Summary) {
        self.0 = Some(self.0.unwrap_or(f64::NAN).min(summary.lowest));
    }

    fn end(&mut self, _: &Window) -> Option<f64> {
        self.0
    }
}

/// How often something is true of two values that follow each other.
struct Pairs {
    last: Option<f64>,
    count: usize,
}

impl Pairs {
    fn push(&mut self, values: &[f64], is: impl Fn(f64, f64) -> bool) {
        if let (Some(last), Some(&first)) = (self.last, values.first()) {
            self.count += usize::from(is(last, first));
        }
        self.count += values.windows(2).filter(|two| is(two[0], two[1])).count();
        self.last = values.last().copied();
    }

    fn join(&mut self, summary: &Summary, count: u64, is: impl Fn(f64, f64) -> bool) {
        let joint = self.last.is_some_and(|last| is(last, summary.first.1));
        self.count += usize::from(joint) + count as usize;
        self.last = Some(summary.last.1);
    }

    fn end(&self) -> Option<f64> {
        self.last.map(|_| self.count as f64)
    }
}

fn differ(before: f64, after: f64) -> bool {
    before != after && !(before.is_nan() && after.is_nan())
}

fn falls(before: f64, after: f64) -> bool {
    after < before
}

/// `changes`
pub(crate) struct Changes(Pairs);

impl Fold for Changes {
    const SUMS: bool = true;

    fn begin(_: &Window) -> Self {
        Changes(Pairs { last: None, count: 0 })
    }

    fn push(&mut self, _: &[i64], values: &[f64]) {
        self.0.push(values, differ);
    }

    fn join(&mut self, summary: &Summary) {
        self.0.join(summary, summary.changes, differ);
    }

    fn end(&mut self, _: &Window) -> Option<f64> {
        self.0.end()
    }
}

/// `resets`
pub(crate) struct Resets(Pairs);

impl Fold for Resets {
    const SUMS: bool = true;
    const ENDS: bool = true;

    fn begin(_: &Window) -> Self {
        Resets(Pairs { last: None, count: 0 })
    }

    fn push(&mut self, _: &[i64], values: &[f64]) {
        self.0.push(values, falls);
    }

    fn join(&mut self, summary: &Summary) {
        self.0.join(summary, summary.resets, falls);
    }

    fn end(&mut self, _: &Window) -> Option<f64> {
        self.0.end()
    }
}
