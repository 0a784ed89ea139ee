//! Counting and comparing.

use super::{Fold, Window};

/// `count_over_time`, `count`
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Count(usize);

impl Fold for Count {
    fn begin(_: &Window) -> Self {
        Count(0)
    }

    fn push(&mut self, _: &[i64], values: &[f64]) {
        self.0 += values.len();
    }

    fn end(&mut self, _: &Window) -> Option<f64> {
        (self.0 > 0).then_some(self.0 as f64)
    }
}

/// `present_over_time`, `group`
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Present(bool);

impl Fold for Present {
    fn begin(_: &Window) -> Self {
        Present(false)
    }

    fn push(&mut self, _: &[i64], _: &[f64]) {
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
    fn begin(_: &Window) -> Self {
        Highest(None)
    }

    fn push(&mut self, _: &[i64], values: &[f64]) {
        let before = self.0.unwrap_or(f64::NAN);
        self.0 = Some(values.iter().fold(before, |highest, &value| highest.max(value)));
    }

    fn end(&mut self, _: &Window) -> Option<f64> {
        self.0
    }
}

/// `min_over_time`, `min`: NaN only if all are.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lowest(Option<f64>);

impl Fold for Lowest {
    fn begin(_: &Window) -> Self {
        Lowest(None)
    }

    fn push(&mut self, _: &[i64], values: &[f64]) {
        let before = self.0.unwrap_or(f64::NAN);
        self.0 = Some(values.iter().fold(before, |lowest, &value| lowest.min(value)));
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

    fn end(&self) -> Option<f64> {
        self.last.map(|_| self.count as f64)
    }
}

/// `changes`
pub(crate) struct Changes(Pairs);

impl Fold for Changes {
    fn begin(_: &Window) -> Self {
        Changes(Pairs { last: None, count: 0 })
    }

    fn push(&mut self, _: &[i64], values: &[f64]) {
        self.0.push(values, |before, after| before != after && !(before.is_nan() && after.is_nan()));
    }

    fn end(&mut self, _: &Window) -> Option<f64> {
        self.0.end()
    }
}

/// `resets`
pub(crate) struct Resets(Pairs);

impl Fold for Resets {
    fn begin(_: &Window) -> Self {
        Resets(Pairs { last: None, count: 0 })
    }

    fn push(&mut self, _: &[i64], values: &[f64]) {
        self.0.push(values, |before, after| after < before);
    }

    fn end(&mut self, _: &Window) -> Option<f64> {
        self.0.end()
    }
}
