//! The course of one number, for charts: a fixed number of time columns, each the mean of its values. A column without a value is a
//! gap. It draws nothing.

use std::collections::VecDeque;

/// The most columns that are kept: two for each character of a chart in a terminal of 500 columns, and some more.
pub const COLUMNS_MAX: usize = 1_024;

/// Columns of one number, oldest first.
#[derive(Clone, Debug, Default)]
pub struct Curve {
    /// NaN is a gap, so a value of NaN counts as unknown, too.
    columns: VecDeque<f32>,
    /// The number of the newest column: its time divided by the width of a column.
    newest: u64,
    /// Values in the newest column.
    count: u32,
    most: usize,
}

impl Curve {
    /// A curve without columns, which keeps this many.
    pub fn new(most: usize) -> Self {
        Curve { most: most.clamp(1, COLUMNS_MAX), ..Curve::default() }
    }

    /// Adds a value to this column, or notes that it has none. Columns between the last one and this one are gaps.
    pub fn push(&mut self, column: u64, value: Option<f64>) {
        let is_new = self.columns.is_empty() || column > self.newest;
        // A clock that was set back starts a new curve. A slightly late row is left out.
        if !is_new && column + (self.most as u64) < self.newest {
            self.columns.clear();
            return self.push(column, value);
        }
        if is_new {
            let gaps = if self.columns.is_empty() { 1 } else { column - self.newest };
            for _ in 0..gaps.min(self.most as u64) {
                if self.columns.len() == self.most {
                    self.columns.pop_front();
                }
                self.columns.push_back(f32::NAN);
            }
            (self.newest, self.count) = (column, 0);
        }
        let (Some(value), true) = (value.filter(|value| value.is_finite()), column == self.newest) else {
            return;
        };
        if let Some(mean) = self.columns.back_mut() {
            let before = if self.count == 0 { 0.0 } else { f64::from(*mean) * f64::from(self.count) };
            self.count += 1;
            *mean = ((before + value) / f64::from(self.count)) as f32;
        }
    }

    /// The last `count` columns up to this one, oldest first; `None` is a gap.
    pub fn last(&self, count: usize, until: u64) -> Vec<Option<f64>> {
        let at = |back: u64| {
            let column = until.checked_sub(back)?;
            let from_end = self.newest.checked_sub(column)?;
            let index = self.columns.len().checked_sub(1)?.checked_sub(usize::try_from(from_end).ok()?)?;
            self.columns.get(index).filter(|value| !value.is_nan()).map(|value| f64::from(*value))
        };
        (0..count.min(COLUMNS_MAX) as u64).rev().map(at).collect()
    }

    /// The newest column.
    pub fn newest(&self) -> u64 {
        self.newest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_is_the_mean_of_its_values_and_missing_ones_are_gaps() {
        let mut curve = Curve::new(4);
        curve.push(10, Some(1.0));
        curve.push(10, Some(3.0));
        curve.push(12, Some(5.0));
        curve.push(13, None);
        assert_eq!(curve.last(5, 13), [None, Some(2.0), None, Some(5.0), None]);
        assert_eq!(curve.last(2, 11), [Some(2.0), None], "up to a moment of the past");
        assert_eq!(curve.last(1, 99), [None], "nothing is known of the future");
    }

    #[test]
    fn it_keeps_a_fixed_number_of_columns() {
        let mut curve = Curve::new(3);
        (0..100).for_each(|column| curve.push(column, Some(column as f64)));
        curve.push(1 << 40, Some(7.0));
        assert_eq!(curve.last(4, 1 << 40), [None, None, None, Some(7.0)]);
        assert_eq!(curve.columns.len(), 3);
    }

    #[test]
    fn late_rows_change_nothing_and_a_clock_that_was_set_back_begins_again() {
        let mut curve = Curve::new(3);
        curve.push(100, Some(1.0));
        curve.push(99, Some(9.0));
        assert_eq!(curve.last(2, 100), [None, Some(1.0)]);
        curve.push(5, Some(2.0));
        assert_eq!(curve.last(2, 5), [None, Some(2.0)]);
    }
}
