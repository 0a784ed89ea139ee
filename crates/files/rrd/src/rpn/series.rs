//! The place of an expression in a series, and the operators that use its time or other rows.

use std::cell::Cell;

use super::evaluate::{Moment, STACK_MAX, Stack, underflow};
use super::order::{deviation, mean, merge_sort};
use super::{Node, Op};
use crate::local_time;
use crate::number::{self, UNKNOWN};

/// Rows that the windows of one expression read, all of them together; rrdtool has no limit. They take some 20 s.
const LOOKED_MAX: u64 = 10_000_000_000;

/// The rows of a variable. They may be longer than those of the expression.
#[derive(Debug, Clone, Copy)]
pub struct Column<'a> {
    /// All of its rows.
    pub values: &'a [f64],
    /// Seconds of a row.
    pub step: u64,
    /// The row in which the moment lies; it may lie before the first or after the last.
    pub row: i64,
    /// Where that row ends.
    pub end: i64,
    /// Whether that is at the moment.
    pub has_ended: bool,
}

impl Column<'_> {
    const NONE: Self = Column { values: &[], step: 1, row: 0, end: 0, has_ended: false };

    /// A column whose first row begins at `start`, before any moment.
    pub fn new(values: &[f64], start: i64, step: u64) -> Column<'_> {
        Column { values, step: step.clamp(1, i64::MAX as u64), row: -1, end: start, has_ended: false }
    }

    /// Moves on to a moment, which may not lie before the last one.
    pub fn advance(&mut self, moment: i64) {
        if moment > self.end {
            let step = self.step as i64;
            // Mostly the next row, which needs no division.
            let rows = if moment - self.end <= step { 1 } else { (moment - self.end - 1) / step + 1 };
            (self.row, self.end) = (self.row + rows, self.end.saturating_add(rows.saturating_mul(step)));
        }
        self.has_ended = moment == self.end;
    }

    fn at(&self, row: i64) -> Option<f64> {
        usize::try_from(row).ok().and_then(|row| self.values.get(row)).copied()
    }

    /// The value at the moment.
    pub fn value(&self) -> f64 {
        self.at(self.row).unwrap_or(UNKNOWN)
    }

    /// The row after the last one that has ended.
    fn next(&self) -> i64 {
        self.row + i64::from(self.has_ended)
    }
}

/// The place in a series where an expression is evaluated.
#[derive(Debug, Clone, Copy)]
pub struct Series<'a> {
    /// End of the row, seconds since 1970.
    pub time: i64,
    /// Local seconds minus UTC at that time, if the expression asks for it.
    pub offset: i64,
    /// Seconds a row.
    pub step: u64,
    /// The row, from 0.
    pub row: usize,
    /// This expression's result one row before.
    pub previous: f64,
    /// The rows of each variable.
    pub columns: &'a [Column<'a>],
    /// Rows that windows have read so far.
    pub looked: &'a Cell<u64>,
}

impl Series<'_> {
    fn column(&self, variable: usize) -> Column<'_> {
        self.columns.get(variable).copied().unwrap_or(Column::NONE)
    }

    /// The row of `variable` before this one; as in rrdtool, there is none before the expression's first row.
    fn before(&self, variable: usize) -> f64 {
        let column = self.column(variable);
        if self.row == 0 { UNKNOWN } else { column.at(column.row - 1).unwrap_or(UNKNOWN) }
    }

    /// Counts rows that a window reads.
    fn look(&self, rows: u64) -> Result<(), String> {
        self.looked.set(self.looked.get().saturating_add(rows));
        if self.looked.get() > LOOKED_MAX {
            return Err(format!(
                "windows of more than {LOOKED_MAX} rows in all: give a longer --step, a shorter time or a shorter window"
            ));
        }
        Ok(())
    }

    /// The rows for rrdtool's prediction: `count` of them up to `back` rows before the next one, and (contrary to its manual) the
    /// row after them. At least two rows of the expression must lie before them.
    fn past<'a>(&self, column: Column<'a>, back: u64, count: u64) -> Result<&'a [f64], String> {
        let first = i64::try_from(back).unwrap_or(i64::MAX);
        let last = i64::try_from(back.saturating_add(count)).unwrap_or(i64::MAX).min(self.row as i64 - 1);
        // Rows that there are not cost nothing.
        let newest = column.next().saturating_sub(first).min(column.values.len() as i64 - 1);
        let oldest = column.next().saturating_sub(last).max(0);
        let rows = match (usize::try_from(oldest), usize::try_from(newest.saturating_add(1))) {
            (Ok(oldest), Ok(end)) if oldest < end => oldest..end,
            _ => 0..0,
        };
        self.look(rows.len() as u64)?;
        Ok(column.values.get(rows).unwrap_or(&[]))
    }
}

impl Stack {
    pub(super) fn in_series(&mut self, node: &Node, moment: &Moment<'_>) -> Result<(), String> {
        let Some(series) = moment.series else {
            return Err(outside());
        };
        match node.op {
            Op::Time => self.push(series.time as f64),
            Op::Ltime => self.push((series.time + series.offset) as f64),
            Op::StepWidth => self.push(series.step as f64),
            Op::Count => self.push(series.row as f64 + 1.0),
            Op::Prev => self.push(series.previous),
            Op::PrevOther => self.push(series.before(node.variable)),
            Op::NewDay | Op::NewWeek | Op::NewMonth | Op::NewYear => {
                self.push(f64::from(u8::from(begins(node.op, series.time, series.step))));
            }
            op => {
                let name = Op::ALL.iter().find(|(known, _)| *known == op).map_or("", |(_, name)| name);
                return Err(format!("operator {name} is not supported here"));
            }
        }
        Ok(())
    }

    /// The mean of a variable's last rows; unknown until there are enough.
    pub(super) fn trend(&mut self, op: Op, variable: usize, moment: &Moment<'_>) -> Result<(), String> {
        let (seconds, _) = (self.pop()?, self.pop()?);
        let series = moment.series.ok_or_else(outside)?;
        let column = series.column(variable);
        let rows = match number::as_long(seconds) {
            // Not a number, or one too large to count to: rrdtool dies.
            i64::MIN => 0,
            seconds => u64::try_from(seconds).unwrap_or(0).div_ceil(column.step.max(1)).max(1),
        };
        // As in rrdtool, the variable's rows are compared with those of the expression.
        if rows > series.row as u64 + 1 {
            self.push(UNKNOWN);
            return Ok(());
        }
        series.look(rows)?;
        let (mut sum, mut known) = (0.0, 0u64);
        for back in 1..=rows as i64 {
            let value = column.at(column.next() - back).unwrap_or(UNKNOWN);
            if op == Op::Trend || !value.is_nan() {
                (sum, known) = (sum + value, known + 1);
            }
        }
        self.push(if known > 0 { sum / known as f64 } else { UNKNOWN });
        Ok(())
    }

    /// Mean, deviation or percentile of a variable's rows in windows that lie some shifts back.
    pub(super) fn predict(
        &mut self,
        op: Op,
        variable: Option<usize>,
        moment: &Moment<'_>,
    ) -> Result<(), String> {
        self.pop()?;
        let percent = if op == Op::PredictPerc { self.pop()? } else { 0.0 };
        let (window, shifts) = (self.pop()?, self.shifts()?);
        let series = moment.series.ok_or_else(outside)?;
        let column = variable.map_or(Column::NONE, |variable| series.column(variable));
        // A window of negative length has no rows, not even the one after it.
        let rows =
            u64::try_from(whole_seconds(window)).map(|window| window.div_ceil(column.step.max(1))).ok();
        let mut known: Vec<f64> = vec![];
        for shift in shifts {
            let shift = whole_seconds(shift);
            let Ok(back) = u64::try_from(shift) else {
                return Err(format!("negative shift step not allowed: {shift}"));
            };
            if let Some(rows) = rows {
                let past = series.past(column, back.div_ceil(column.step.max(1)), rows)?;
                known.extend(past.iter().rev().filter(|value| !value.is_nan()));
            }
        }
        self.push(match op {
            Op::Predict => mean(&known),
            Op::PredictSigma => deviation(&known),
            _ => percentile(&merge_sort(&known), percent)?,
        });
        Ok(())
    }

    /// Pops the shifts of a prediction: their number and the shifts or, with a negative number, one shift to be repeated.
    fn shifts(&mut self) -> Result<Vec<f64>, String> {
        let count = whole_seconds(self.pop()?);
        match usize::try_from(count) {
            Ok(count) if count <= self.values.len() => Ok(self.take(count)),
            Ok(_) => Err(underflow()),
            Err(_) if count.unsigned_abs() as usize > STACK_MAX => {
                Err(format!("more than {STACK_MAX} shifts in a prediction"))
            }
            // As in rrdtool, not for the first time.
            Err(_) => {
                let base = self.pop()?;
                Ok((0..count.unsigned_abs()).map(|times| base * f64::from(times)).collect())
            }
        }
    }
}

/// Whether the row that ends at `time` is the first of a local day, week, month or year. Weeks begin on Sunday.
fn begins(period: Op, time: i64, step: u64) -> bool {
    let fields = |time| local_time::local(time).map(|(fields, _, _)| fields);
    let (Some(now), Some(before)) = (fields(time), fields(time.saturating_sub_unsigned(step))) else {
        return false;
    };
    match period {
        Op::NewDay => (now.year, now.month, now.day) != (before.year, before.month, before.day),
        Op::NewWeek => now.weekday == 0 && before.weekday != 0,
        Op::NewMonth => (now.year, now.month) != (before.year, before.month),
        _ => now.year != before.year,
    }
}

/// A number as C's int, as rrdtool takes the numbers of a prediction; the least int where it does not fit.
fn whole_seconds(value: f64) -> i32 {
    i32::try_from(number::as_long(value)).unwrap_or(i32::MIN)
}

/// Between the neighbours for a positive percentage, the nearer of them for a negative one.
fn percentile(sorted: &[f64], percent: f64) -> Result<f64, String> {
    if !(-100.0..=100.0).contains(&percent) {
        return Err("unsupported percentile: must be between -100 and 100".into());
    }
    if sorted.is_empty() {
        return Ok(UNKNOWN);
    }
    let place = percent.abs() / 100.0 * (sorted.len() - 1) as f64;
    if percent < 0.0 {
        return Ok(sorted[place.round() as usize]);
    }
    let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    Ok(below + (above - below) * place.fract())
}

/// rrdtool's message for an operator on a series in a COMPUTE source; its parser lets `PREV(x)` through.
fn outside() -> String {
    "VDEF made it into rpn_calc... aborting".into()
}
