//! Rows of one step and where they lie in time; reads nothing and computes nothing.

use super::Plan;
use crate::error::{Result, refused};
use crate::number::UNKNOWN;

/// Rows of one definition or table at most; rrdtool has no limit.
pub const ROWS_MAX: i64 = 20_000_000;

/// Whether this number of rows may be computed.
///
/// # Errors
/// They are more than [`ROWS_MAX`].
pub fn check_rows(rows: i64) -> Result<()> {
    if rows <= ROWS_MAX {
        return Ok(());
    }
    refused(format!("{rows} rows to compute; at most {ROWS_MAX}: give a longer --step or a shorter time"))
}

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

    /// The same, if it has not too many rows.
    pub fn checked(step: u64, plan: &Plan) -> Result<Self> {
        let grid = Self::new(step, plan);
        check_rows(i64::try_from(grid.held).unwrap_or(i64::MAX))?;
        Ok(grid)
    }

    /// Where a row ends.
    pub fn end(&self, row: usize) -> i64 {
        self.start + (row as i64 + 1) * self.step as i64
    }
}

/// The rows of one definition.
pub struct Rows {
    /// Where the first row begins.
    pub start: i64,
    /// Seconds of a row.
    pub step: u64,
    /// A value per row.
    pub values: Vec<f64>,
}

impl Rows {
    /// The row in which the moment `end` lies; a row contains its end, and not its begin.
    pub fn at(&self, end: i64) -> f64 {
        let row = end.saturating_sub(self.start).saturating_sub(1).div_euclid(self.step as i64);
        usize::try_from(row).ok().and_then(|row| self.values.get(row)).copied().unwrap_or(UNKNOWN)
    }
}
