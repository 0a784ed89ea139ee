//! The last values of a series as a row of small bars, one character each. The lowest value is the lowest bar: a row shows
//! the form, and the number beside it the size. Keeps no time: the caller that adds values decides how often.

use std::collections::VecDeque;

/// Bars in a row, and values that are kept for it: as much as has room beside a name and a number in 80 columns.
pub const BARS_MAX: usize = 20;

const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Each takes more ink than the one before.
const ASCII: [char; 8] = ['_', '.', ':', '-', '=', '+', '*', '#'];
/// An unknown value is a hole, not a low bar.
const UNKNOWN: char = ' ';

/// The last values of a series.
#[derive(Clone, Debug, Default)]
pub struct Spark(VecDeque<Option<f64>>);

impl Spark {
    /// Adds the newest value; `None`: it is unknown.
    pub fn push(&mut self, value: Option<f64>) {
        if self.0.len() >= BARS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(value.filter(|value| value.is_finite()));
    }

    /// Replaces the newest value.
    pub fn replace(&mut self, value: Option<f64>) {
        self.0.pop_back();
        self.push(value);
    }

    /// A row of at most this many bars, the newest value at its right end.
    pub fn bars(&self, most: usize, has_unicode: bool) -> String {
        let shown = || self.0.iter().skip(self.0.len().saturating_sub(most));
        let known = || shown().copied().flatten();
        let (low, high) = (known().fold(f64::INFINITY, f64::min), known().fold(f64::NEG_INFINITY, f64::max));
        let levels = if has_unicode { BLOCKS } else { ASCII };
        // Halves: the difference of two numbers may be more than the largest one.
        let span = high / 2.0 - low / 2.0;
        let bar = |value: f64| {
            let share = if span > 0.0 { (value / 2.0 - low / 2.0) / span } else { 0.0 };
            levels[((share * 7.0).round() as usize).min(7)]
        };
        shown().map(|value| value.map_or(UNKNOWN, bar)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bars(values: &[Option<f64>], has_unicode: bool) -> String {
        let mut spark = Spark::default();
        values.iter().for_each(|value| spark.push(*value));
        spark.bars(BARS_MAX, has_unicode)
    }

    #[test]
    fn the_lowest_value_is_the_lowest_bar_and_unknown_is_a_hole() {
        let values = [Some(10.0), Some(17.0), None, Some(14.0)];
        assert_eq!(bars(&values, true), "▁█ ▅");
        assert_eq!(bars(&values, false), "_# =");
    }

    #[test]
    fn a_series_that_does_not_change_is_flat_and_no_value_breaks_it() {
        assert_eq!(bars(&[Some(5.0), Some(5.0)], true), "▁▁");
        assert_eq!(bars(&[], true), "");
        assert_eq!(bars(&[Some(f64::MIN), Some(f64::MAX), Some(f64::NAN)], true), "▁█ ");
    }

    #[test]
    fn only_the_last_values_are_kept() {
        let many: Vec<Option<f64>> = (0..1_000).map(|n| Some(f64::from(n))).collect();
        let row = bars(&many, true);
        assert_eq!(row.chars().count(), BARS_MAX);
        assert!(row.starts_with('▁') && row.ends_with('█'), "{row}");
        let mut spark = Spark::default();
        many.iter().for_each(|value| spark.push(*value));
        assert_eq!(spark.bars(2, true), "▁█");
    }
}
