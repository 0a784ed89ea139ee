//! Rows of a file made as long as they are wanted. Reads a piece at a time and keeps only what it makes.

use super::rows::{Grid, Rows};
use crate::error::Result;
use crate::fetch::Range;
use crate::file::Rrd;
use crate::number::UNKNOWN;
use crate::rra::Function;

/// Several rows made one.
#[derive(Default)]
struct Sum {
    value: f64,
    known: u64,
}

impl Sum {
    fn add(&mut self, value: f64, reduce: Function) {
        if value.is_nan() {
            return;
        }
        self.value = match (self.known, reduce) {
            (0, _) | (_, Function::Last) => value,
            (_, Function::Max | Function::Failures) => self.value.max(value),
            (_, Function::Min) => self.value.min(value),
            _ => self.value + value,
        };
        self.known += 1;
    }

    fn value(&self, reduce: Function) -> f64 {
        match (self.known, reduce) {
            (0, _) => UNKNOWN,
            (1, _) | (_, Function::Max | Function::Failures | Function::Min | Function::Last) => self.value,
            (known, _) => self.value / known as f64,
        }
    }
}

/// The rows of `source` in `range` of a file, converted to the rows of `grid`. Each of these is as long as one or several of the
/// file's rows.
pub(super) fn reduced(rrd: &Rrd, range: &Range, source: usize, grid: Grid, by: Function) -> Result<Rows> {
    let mut values = vec![UNKNOWN; grid.held];
    let is_longer = grid.step > range.step;
    let mut put = |row: Option<usize>, sum: &Sum| {
        let Some(row) = row else { return };
        let end = grid.end(row);
        // As in rrdtool: of a longer row, no part may lie outside of the time asked for.
        let is_part = end.saturating_sub_unsigned(grid.step) < range.start || end > range.end;
        if !(is_longer && is_part) {
            values[row] = sum.value(by);
        }
    };
    let (mut row, mut sum) = (None, Sum::default());
    range.each(rrd, source, |end, value| {
        let own = grid.row_at(end);
        if own != row {
            put(row, &sum);
            (row, sum) = (own, Sum::default());
        }
        sum.add(value, by);
    })?;
    put(row, &sum);
    Ok(Rows { start: grid.start, step: grid.step, values })
}
