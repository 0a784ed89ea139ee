//! `VDEF`: one value of a series.

use super::Rows;
use crate::error::{Error, Result, refused};
use crate::number::{self, Reading, UNKNOWN};
use crate::rpn::order;

/// A function of a whole series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Aggregate {
    Maximum,
    Minimum,
    Average,
    Stdev,
    Last,
    First,
    Total,
    Slope,
    Intercept,
    Correlation,
    /// A percentage; whether unknown values are left out.
    Percent(f64, bool),
}

/// The functions without a parameter.
const PLAIN: [(&str, Aggregate); 10] = [
    ("MAXIMUM", Aggregate::Maximum),
    ("MINIMUM", Aggregate::Minimum),
    ("AVERAGE", Aggregate::Average),
    ("STDEV", Aggregate::Stdev),
    ("LAST", Aggregate::Last),
    ("FIRST", Aggregate::First),
    ("TOTAL", Aggregate::Total),
    ("LSLSLOPE", Aggregate::Slope),
    ("LSLINT", Aggregate::Intercept),
    ("LSLCORREL", Aggregate::Correlation),
];

impl Aggregate {
    /// Parses what follows the series' name: a function, perhaps after a number. `name` is the definition's.
    pub fn parse(text: &str, name: &str) -> Result<Self> {
        let (number, function) = match text.split_once(',') {
            Some((number, function)) => match number::read(number) {
                Reading::Whole(number) => (Some(number), function),
                _ => return refused(format!("Unknown function string '{text}' in VDEF '{name}'")),
            },
            None => (None, text),
        };
        let plain = PLAIN.iter().find(|(known, _)| *known == function).map(|(_, aggregate)| *aggregate);
        match (function, number, plain) {
            ("PERCENT" | "PERCENTNAN", Some(percent), _) if !(0.0..=100.0).contains(&percent) => {
                refused(format!("Parameter '{percent:.6}' out of range in VDEF '{name}'\n"))
            }
            ("PERCENT" | "PERCENTNAN", Some(percent), _) => {
                Ok(Self::Percent(percent, function == "PERCENTNAN"))
            }
            ("PERCENT" | "PERCENTNAN", None, _) => {
                refused(format!("Function '{function}' needs parameter in VDEF '{name}'\n"))
            }
            (_, None, Some(aggregate)) => Ok(aggregate),
            (_, Some(_), Some(_)) => {
                refused(format!("Function '{function}' needs no parameter in VDEF '{name}'\n"))
            }
            (_, _, None) => Err(Error::Refused(format!("Unknown function '{function}' in VDEF '{name}'\n"))),
        }
    }

    /// When its value occurred, if the first row began at `start`: the row's end, except that of the first value, where rrdtool
    /// tells the row's begin.
    pub fn moment(self, start: i64, rows: &Rows) -> Option<i64> {
        let values = &rows.values;
        let (row, ends) = match self {
            Self::Maximum | Self::Minimum => (self.extreme(values)?, 1),
            Self::First => (values.iter().position(|value| !value.is_nan())?, 0),
            Self::Last => (values.iter().rposition(|value| !value.is_nan())?, 1),
            _ => return None,
        };
        Some(start.saturating_add((row as i64 + ends) * rows.step as i64))
    }

    /// The row with the largest or the smallest value. As in rrdtool, an infinite one counts only if it is the first.
    fn extreme(self, values: &[f64]) -> Option<usize> {
        let first = values.iter().position(|value| !value.is_nan())?;
        let better = |best: usize, row: usize| match self {
            Self::Maximum => values[row] > values[best],
            _ => values[row] < values[best],
        };
        let finite = (first + 1..values.len()).filter(|row| values[*row].is_finite());
        Some(finite.fold(first, |best, row| if better(best, row) { row } else { best }))
    }

    /// Its value for rows of `step` seconds.
    pub fn of(self, rows: &[f64], step: u64) -> f64 {
        let known = || rows.iter().copied().filter(|value| !value.is_nan());
        let finite = || rows.iter().copied().filter(|value| value.is_finite());
        let count = finite().count() as f64;
        match self {
            Self::Maximum | Self::Minimum => self.extreme(rows).map_or(UNKNOWN, |row| rows[row]),
            Self::First => known().next().unwrap_or(UNKNOWN),
            Self::Last => known().next_back().unwrap_or(UNKNOWN),
            Self::Percent(percent, leaves_out) => {
                let values: Vec<f64> = rows.iter().copied().filter(|v| !(leaves_out && v.is_nan())).collect();
                // Ranks are counted from 0. Without any value rrdtool prints what its memory holds there.
                let rank = (percent * (values.len() as f64 - 1.0) / 100.0).round() as usize;
                order::ranked(&values).get(rank).copied().unwrap_or(UNKNOWN)
            }
            _ if count == 0.0 => UNKNOWN,
            Self::Total => finite().sum::<f64>() * step as f64,
            Self::Average => finite().sum::<f64>() / count,
            Self::Stdev => {
                let mean = finite().sum::<f64>() / count;
                (finite().map(|value| (value - mean).powi(2)).sum::<f64>() / count).sqrt()
            }
            Self::Slope | Self::Intercept | Self::Correlation => self.line(rows, count),
        }
    }

    /// The least squares line through the finite rows, numbered from 0.
    fn line(self, rows: &[f64], count: f64) -> f64 {
        let points = || rows.iter().enumerate().filter(|(_, value)| value.is_finite());
        let sum = |of: fn(f64, f64) -> f64| points().map(|(row, value)| of(row as f64, *value)).sum::<f64>();
        let (x, y, xy) = (sum(|x, _| x), sum(|_, y| y), sum(|x, y| x * y));
        let (xx, yy) = (sum(|x, _| x * x), sum(|_, y| y * y));
        let slope = (x * y - count * xy) / (x * x - count * xx);
        match self {
            Self::Slope => slope,
            Self::Intercept => (y - slope * x) / count,
            _ => (xy - x * y / count) / ((xx - x * x / count) * (yy - y * y / count)).sqrt(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_through_gaps() {
        let rows = [1.0, f64::NAN, 5.0, 7.0];
        let of = |text| Aggregate::parse(text, "v").unwrap().of(&rows, 60);
        assert_eq!((of("LSLSLOPE"), of("LSLINT"), of("LSLCORREL")), (2.0, 1.0, 1.0));
        assert_eq!((of("TOTAL"), of("FIRST"), of("LAST"), of("MAXIMUM")), (780.0, 1.0, 7.0, 7.0));
        // The unknown counts as the lowest, or not at all.
        assert!(of("10,PERCENT").is_nan());
        assert_eq!((of("40,PERCENT"), of("40,PERCENTNAN")), (1.0, 5.0));
        assert_eq!((of("100,PERCENT"), of("100,PERCENTNAN")), (7.0, 7.0));
    }

    #[test]
    fn a_series_without_values_has_none() {
        for text in ["AVERAGE", "MAXIMUM", "TOTAL", "LSLINT", "50,PERCENTNAN", "LAST"] {
            assert!(Aggregate::parse(text, "v").unwrap().of(&[f64::NAN], 1).is_nan(), "{text}");
        }
    }
}
