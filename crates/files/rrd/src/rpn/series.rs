//! The place of an expression in a series, and the operators that use its time or other rows.

use super::evaluate::{Moment, STACK_MAX, Stack, underflow};
use super::order::{deviation, mean, merge_sort};
use super::{Node, Op};
use crate::local_time;
use crate::number::{self, UNKNOWN};

/// Rows at the start of a series from which nothing is predicted.
const UNUSED_ROWS: usize = 2;

/// The place in a series where an expression is evaluated.
#[derive(Debug, Clone, Copy)]
pub struct Series<'a> {
    /// End of the row, seconds since 1970.
    pub time: i64,
    /// Local seconds minus UTC at that time.
    pub offset: i64,
    /// Seconds a row.
    pub step: u64,
    /// The row, from 0.
    pub row: usize,
    /// This expression's result one row before.
    pub previous: f64,
    /// All rows of each variable.
    pub columns: &'a [Vec<f64>],
}

impl Series<'_> {
    /// Variable `variable` in row `row`; rows before the first are unknown.
    fn at(&self, variable: usize, row: Option<usize>) -> f64 {
        let column = self.columns.get(variable);
        column.zip(row).and_then(|(column, row)| column.get(row)).copied().unwrap_or(UNKNOWN)
    }

    /// The last `count` rows of `variable` up to this one, the newest first; `None` for each that lies before the
    /// series.
    fn window(&self, variable: usize, count: usize) -> impl Iterator<Item = Option<f64>> {
        // There are no more rows than this, whatever the count is.
        let count = count.min(self.row + 2);
        (0..count).map(move |back| self.row.checked_sub(back).map(|row| self.at(variable, Some(row))))
    }

    /// The rows that rrdtool predicts from: `count` of them up to `back` rows before this one and (unlike its manual
    /// says) the row after them; never the first two of the series.
    fn past(&self, variable: usize, back: usize, count: usize) -> &[f64] {
        let column = self.columns.get(variable).map_or(&[][..], Vec::as_slice);
        let end = (self.row + 2).saturating_sub(back).min(column.len());
        let begin = (self.row + 1).saturating_sub(back.saturating_add(count)).max(UNUSED_ROWS);
        column.get(begin..end).unwrap_or(&[])
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
            Op::PrevOther => self.push(series.at(node.variable, series.row.checked_sub(1))),
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
        let rows = match number::as_long(seconds) {
            // Not a number, or one too large to count to: rrdtool dies.
            i64::MIN => 0,
            seconds => u64::try_from(seconds).unwrap_or(0).div_ceil(series.step).max(1),
        };
        let rows = usize::try_from(rows).unwrap_or(usize::MAX);
        let (mut sum, mut known) = (0.0, 0u32);
        for value in series.window(variable, rows) {
            match value {
                Some(value) if value.is_nan() && op == Op::TrendNan => {}
                // Before the series nothing is known, and an unknown value makes the sum unknown.
                value => (sum, known) = (sum + value.unwrap_or(UNKNOWN), known + 1),
            }
        }
        self.push(if known > 0 { sum / f64::from(known) } else { UNKNOWN });
        Ok(())
    }

    /// Mean, deviation or percentile of a variable's rows in windows that lie some shifts back.
    pub(super) fn predict(&mut self, op: Op, variable: usize, moment: &Moment<'_>) -> Result<(), String> {
        self.pop()?;
        let percent = if op == Op::PredictPerc { self.pop()? } else { 0.0 };
        let (window, shifts) = (self.pop()?, self.shifts()?);
        let series = moment.series.ok_or_else(outside)?;
        // A window of negative length has no rows, not even the one after it.
        let rows =
            usize::try_from(whole_seconds(window)).map(|window| window.div_ceil(series.step as usize)).ok();
        let mut known: Vec<f64> = vec![];
        for shift in shifts {
            let shift = whole_seconds(shift);
            let Ok(back) = usize::try_from(shift) else {
                return Err(format!("negative shift step not allowed: {shift}"));
            };
            let past = rows.map(|rows| series.past(variable, back.div_ceil(series.step as usize), rows));
            known.extend(past.unwrap_or(&[]).iter().filter(|value| !value.is_nan()));
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
