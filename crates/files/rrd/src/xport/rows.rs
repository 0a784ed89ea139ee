//! Rows of one step and where they lie in time; reads nothing and computes nothing.

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
    /// The rows from a time to another.
    pub fn new(step: u64, (from, to): (i64, i64)) -> Self {
        let step = step.max(1);
        let signed = step as i64;
        let start = from - from.rem_euclid(signed);
        let reach = to - to.rem_euclid(signed) + signed;
        Self { start, step, held: usize::try_from((reach - start) / signed).unwrap_or(0).max(1) }
    }

    /// The same, if it has not too many rows.
    pub fn checked(step: u64, span: (i64, i64)) -> Result<Self> {
        Self::new(step, span).bounded()
    }

    /// Rows over the time that all of these series have; there may be none.
    pub fn common(series: &[&Rows]) -> Result<Self> {
        let step = series.iter().map(|rows| rows.step).reduce(common).unwrap_or(1).max(1);
        let start = series.iter().map(|rows| rows.start).max().unwrap_or(0);
        let end = series.iter().map(|rows| rows.reach()).min().unwrap_or(start);
        let held = usize::try_from(end.saturating_sub(start) / step as i64).unwrap_or(0);
        Self { start, step, held }.bounded()
    }

    fn bounded(self) -> Result<Self> {
        check_rows(i64::try_from(self.held).unwrap_or(i64::MAX))?;
        Ok(self)
    }

    /// The row in which the moment `end` lies; a row contains its end, and not its begin.
    pub fn row_at(&self, end: i64) -> Option<usize> {
        let row = end.saturating_sub(self.start).saturating_sub(1).div_euclid(self.step as i64);
        usize::try_from(row).ok().filter(|row| *row < self.held)
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
    /// Where the last row ends.
    fn reach(&self) -> i64 {
        self.start.saturating_add_unsigned(self.step.saturating_mul(self.values.len() as u64))
    }

    /// The row in which the moment `end` lies; a row contains its end, and not its begin.
    pub fn at(&self, end: i64) -> f64 {
        let row = end.saturating_sub(self.start).saturating_sub(1).div_euclid(self.step as i64);
        usize::try_from(row).ok().and_then(|row| self.values.get(row)).copied().unwrap_or(UNKNOWN)
    }
}
