//! Rows of one step and where they lie in time; reads nothing and computes nothing.

use super::Plan;
use crate::number::UNKNOWN;

/// The longest step that divides both steps.
pub(super) fn common(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common(b, a % b) }
}

/// Where the rows of one step lie.
#[derive(Clone, Copy)]
pub(super) struct Grid {
    /// Where the first row begins.
    pub start: i64,
    pub step: u64,
    /// Rows. As in rrdtool, the row in which the time asked for ends is among them. Where that time ends with a row, it is
    /// the row after that one; it is not shown, but counts in values of a whole series and in predictions.
    pub held: usize,
}

impl Grid {
    pub fn new(step: u64, plan: &Plan) -> Self {
        let step = step.max(1);
        let signed = step as i64;
        let start = plan.start - plan.start.rem_euclid(signed);
        let reach = plan.end - plan.end.rem_euclid(signed) + signed;
        Self { start, step, held: usize::try_from((reach - start) / signed).unwrap_or(0).max(1) }
    }

    /// Where a row ends.
    pub fn end(&self, row: usize) -> i64 {
        self.start + (row as i64 + 1) * self.step as i64
    }
}

/// The rows of one definition.
pub(super) struct Rows {
    pub start: i64,
    pub step: u64,
    pub values: Vec<f64>,
}

impl Rows {
    /// The row in which the moment `end` lies; a row contains its end, and not its begin.
    pub fn at(&self, end: i64) -> f64 {
        let row = (end - self.start - 1).div_euclid(self.step as i64);
        usize::try_from(row).ok().and_then(|row| self.values.get(row)).copied().unwrap_or(UNKNOWN)
    }
}
