//! Evaluation of an expression on a stack, at a moment or at a place of a series.

use super::order::{deviation, known, mean, merge_sort, pick, without_unknown};
use super::{Node, Op, Program};
use crate::number::{self, UNKNOWN};

/// Values on the evaluation stack; COPY can double it at each step, so it needs a bound.
const STACK_MAX: usize = 65_536;

/// Rows at the begin of a series from which nothing is predicted.
const UNUSED_ROWS: usize = 2;

/// What an evaluation may look at besides its variables.
#[derive(Debug, Clone, Copy)]
pub struct Moment<'a> {
    /// The values of the variables.
    pub variables: &'a [f64],
    /// Seconds since 1970, for NOW.
    pub now: i64,
    /// The row computed and the rows before it; `None` outside a series.
    pub series: Option<Series<'a>>,
}

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
        // Whatever the count, there are no more rows than this.
        let count = count.min(self.row + 2);
        (0..count).map(move |back| self.row.checked_sub(back).map(|row| self.at(variable, Some(row))))
    }

    /// The rows that rrdtool predicts from: `count` of them up to `back` rows before this one and, other than its
    /// manual has it, the one behind them; never the first two of the series.
    fn past(&self, variable: usize, back: usize, count: usize) -> &[f64] {
        let column = self.columns.get(variable).map_or(&[][..], Vec::as_slice);
        let end = (self.row + 2).saturating_sub(back).min(column.len());
        let begin = (self.row + 1).saturating_sub(back.saturating_add(count)).max(UNUSED_ROWS);
        column.get(begin..end).unwrap_or(&[])
    }
}

impl Program {
    /// Evaluates the expression. `Err` is rrdtool's message, without the file name.
    pub fn evaluate(&self, moment: &Moment<'_>) -> Result<f64, String> {
        let mut stack = Stack { values: Vec::with_capacity(16) };
        for (at, node) in self.nodes.iter().enumerate() {
            match node.op {
                Op::Trend | Op::TrendNan => stack.trend(node.op, self.variable_at(at, 2)?, moment)?,
                Op::Predict | Op::PredictSigma | Op::PredictPerc => {
                    stack.predict(node.op, self.variable_at(at, 1)?, moment)?;
                }
                _ => stack.step(node, moment)?,
            }
            if stack.values.len() > STACK_MAX {
                return Err(format!("RPN stack exceeds {STACK_MAX} values"));
            }
        }
        match stack.values.as_slice() {
            [result] => Ok(*result),
            _ => Err("RPN final stack size != 1".into()),
        }
    }

    /// The variable named `back` places before the operator at `at`, whose window is to be looked through.
    fn variable_at(&self, at: usize, back: usize) -> Result<usize, String> {
        let node = at.checked_sub(back).map(|at| self.nodes[at]).filter(|node| node.op == Op::Variable);
        node.map(|node| node.variable).ok_or_else(|| "malformed trend arguments".to_string())
    }
}

struct Stack {
    values: Vec<f64>,
}

/// Radians per degree and degrees per radian, with the digits rrdtool uses.
const RADIANS: f64 = 0.017_453_295_2;
const DEGREES: f64 = 57.295_779_51;

impl Stack {
    fn pop(&mut self) -> Result<f64, String> {
        self.values.pop().ok_or_else(underflow)
    }

    fn push(&mut self, value: f64) {
        self.values.push(value);
    }

    fn unary(&mut self, apply: impl Fn(f64) -> f64) -> Result<(), String> {
        let value = self.pop()?;
        self.push(apply(value));
        Ok(())
    }

    fn binary(&mut self, apply: impl Fn(f64, f64) -> f64) -> Result<(), String> {
        let (right, left) = (self.pop()?, self.pop()?);
        self.push(apply(left, right));
        Ok(())
    }

    /// Arithmetic: the first unknown is handed on, sign and all, as the processor does it in rrdtool's order.
    fn arithmetic(&mut self, apply: impl Fn(f64, f64) -> f64) -> Result<(), String> {
        self.binary(|left, right| match [left, right].into_iter().find(|side| side.is_nan()) {
            Some(unknown) => unknown,
            None => apply(left, right),
        })
    }

    /// Comparison: unknown when either side is.
    fn compare(&mut self, holds: impl Fn(f64, f64) -> bool) -> Result<(), String> {
        self.binary(|left, right| {
            if left.is_nan() {
                left
            } else if right.is_nan() {
                right
            } else {
                f64::from(u8::from(holds(left, right)))
            }
        })
    }

    /// Pops an element count; `Err` when the stack holds fewer.
    fn count(&mut self) -> Result<usize, String> {
        let wanted = self.pop()?;
        // Truncated as C does; NaN, infinities and negative counts have no elements to name.
        let count = number::as_long(wanted);
        match usize::try_from(count) {
            Ok(count) if count <= self.values.len() => Ok(count),
            _ => Err(underflow()),
        }
    }

    /// Pops the top `count` values, lowest first.
    fn take(&mut self, count: usize) -> Vec<f64> {
        self.values.split_off(self.values.len() - count)
    }

    fn step(&mut self, node: &Node, moment: &Moment<'_>) -> Result<(), String> {
        match node.op {
            Op::Number => self.push(node.number),
            Op::Variable => self.push(moment.variables.get(node.variable).copied().unwrap_or(UNKNOWN)),
            Op::Inf => self.push(f64::INFINITY),
            Op::NegInf => self.push(f64::NEG_INFINITY),
            Op::Unkn => self.push(UNKNOWN),
            Op::Now => self.push(moment.now as f64),
            Op::Depth => self.push(self.values.len() as f64),
            Op::Add => self.arithmetic(|a, b| a + b)?,
            Op::Sub => self.arithmetic(|a, b| a - b)?,
            Op::Mul => self.arithmetic(|a, b| a * b)?,
            Op::Div => self.arithmetic(|a, b| a / b)?,
            Op::Mod => self.binary(|a, b| a % b)?,
            Op::Pow => self.binary(f64::powf)?,
            Op::Atan2 => self.binary(f64::atan2)?,
            Op::Sin => self.unary(f64::sin)?,
            Op::Cos => self.unary(f64::cos)?,
            Op::Log => self.unary(f64::ln)?,
            Op::Exp => self.unary(f64::exp)?,
            Op::Atan => self.unary(f64::atan)?,
            Op::Sqrt => self.unary(f64::sqrt)?,
            Op::Floor => self.unary(f64::floor)?,
            Op::Ceil => self.unary(f64::ceil)?,
            Op::Abs => self.unary(f64::abs)?,
            Op::Deg2Rad => self.unary(|a| a * RADIANS)?,
            Op::Rad2Deg => self.unary(|a| a * DEGREES)?,
            Op::Un => self.unary(|a| f64::from(u8::from(a.is_nan())))?,
            Op::IsInf => self.unary(|a| f64::from(u8::from(a.is_infinite())))?,
            Op::Lt => self.compare(|a, b| a < b)?,
            Op::Le => self.compare(|a, b| a <= b)?,
            Op::Gt => self.compare(|a, b| a > b)?,
            Op::Ge => self.compare(|a, b| a >= b)?,
            Op::Eq => self.compare(|a, b| a == b)?,
            Op::Ne => self.compare(|a, b| a != b)?,
            Op::Min => self.binary(|a, b| pick(a, b, a > b))?,
            Op::Max => self.binary(|a, b| pick(a, b, a < b))?,
            Op::MinNan => self.binary(|a, b| known(a, b).unwrap_or(if a > b { b } else { a }))?,
            Op::MaxNan => self.binary(|a, b| known(a, b).unwrap_or(if a < b { b } else { a }))?,
            Op::AddNan => self.binary(|a, b| known(a, b).unwrap_or(a + b))?,
            Op::If => self.choose()?,
            Op::Limit => self.limit()?,
            Op::Dup => {
                let top = *self.values.last().ok_or_else(underflow)?;
                self.push(top);
            }
            Op::Pop => drop(self.pop()?),
            Op::Exc => {
                let (top, next) = (self.pop()?, self.pop()?);
                self.push(top);
                self.push(next);
            }
            Op::Copy | Op::Index | Op::Roll | Op::Sort | Op::Rev => self.rearrange(node.op)?,
            Op::Avg | Op::Median | Op::Smin | Op::Smax | Op::Stdev | Op::Percent => {
                self.summarise(node.op)?
            }
            _ => self.in_series(node, moment)?,
        }
        Ok(())
    }

    fn choose(&mut self) -> Result<(), String> {
        let (no, yes, condition) = (self.pop()?, self.pop()?, self.pop()?);
        self.push(if condition.is_nan() || condition == 0.0 { no } else { yes });
        Ok(())
    }

    fn limit(&mut self) -> Result<(), String> {
        let (high, low, value) = (self.pop()?, self.pop()?, self.pop()?);
        // The first unknown is handed on as it is, sign and all.
        let unknown = [value, low, high].into_iter().find(|of| of.is_nan());
        self.push(match unknown {
            Some(unknown) => unknown,
            None if value < low || value > high => UNKNOWN,
            None => value,
        });
        Ok(())
    }

    fn rearrange(&mut self, op: Op) -> Result<(), String> {
        match op {
            Op::Copy => {
                let count = self.count()?;
                let start = self.values.len() - count;
                self.values.extend_from_within(start..);
            }
            Op::Index => {
                let count = self.count()?;
                // Index 0 is the count itself, which is 0.
                self.push(if count == 0 { 0.0 } else { self.values[self.values.len() - count] });
            }
            Op::Roll => {
                let turn = number::as_long(self.pop()?);
                let count = self.count()?;
                let start = self.values.len() - count;
                if count > 0 {
                    self.values[start..].rotate_right(turn.rem_euclid(count as i64) as usize);
                }
            }
            Op::Rev => {
                let count = self.count()?;
                let start = self.values.len() - count;
                self.values[start..].reverse();
            }
            _ => {
                let count = self.count()?;
                let sorted = merge_sort(&self.take(count));
                self.values.extend(sorted);
            }
        }
        Ok(())
    }

    fn summarise(&mut self, op: Op) -> Result<(), String> {
        let count = self.count()?;
        if op == Op::Percent {
            let percent = self.pop()?;
            if count > self.values.len() {
                return Err(underflow());
            }
            if !(0.0..=100.0).contains(&percent) {
                return Err("percentile argument must be between 0 and 100".into());
            }
            let sorted = merge_sort(&self.take(count));
            let rank = (percent * count as f64 / 100.0).round() as usize;
            self.push(sorted.get(rank.saturating_sub(1)).copied().unwrap_or(UNKNOWN));
            return Ok(());
        }
        let all = self.take(count);
        let lowest = all.first().copied().unwrap_or(UNKNOWN);
        // From the top down, as the values are popped: the order of a sum decides its last bit.
        let values: Vec<f64> = all.iter().rev().copied().filter(|value| !value.is_nan()).collect();
        let result = match op {
            Op::Avg => mean(&values),
            Op::Median => {
                // Which of the unknown ones it is shows in its sign.
                let unknown = all.get(1).copied().unwrap_or(lowest);
                let sorted = merge_sort(&without_unknown(all));
                match sorted.len() {
                    0 => unknown,
                    len if len % 2 == 1 => sorted[len / 2],
                    len => 0.5 * (sorted[len / 2] + sorted[len / 2 - 1]),
                }
            }
            Op::Smin => values.iter().copied().reduce(|a, b| if b < a { b } else { a }).unwrap_or(lowest),
            Op::Smax => values.iter().copied().reduce(|a, b| if b > a { b } else { a }).unwrap_or(lowest),
            _ => deviation(&values),
        };
        self.push(result);
        Ok(())
    }

    fn in_series(&mut self, node: &Node, moment: &Moment<'_>) -> Result<(), String> {
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
            op => {
                let name = Op::ALL.iter().find(|(known, _)| *known == op).map_or("", |(_, name)| name);
                return Err(format!("operator {name} is not supported here"));
            }
        }
        Ok(())
    }

    /// The mean of a variable's last rows; unknown until there are enough.
    fn trend(&mut self, op: Op, variable: usize, moment: &Moment<'_>) -> Result<(), String> {
        let (seconds, _) = (self.pop()?, self.pop()?);
        let series = moment.series.ok_or_else(outside)?;
        let rows = rows(seconds, series.step).max(1);
        let (mut sum, mut known) = (0.0, 0u32);
        for value in series.window(variable, rows) {
            match value {
                Some(value) if value.is_nan() && op == Op::TrendNan => {}
                // Before the series nothing is known; an unknown makes the sum so.
                value => (sum, known) = (sum + value.unwrap_or(UNKNOWN), known + 1),
            }
        }
        self.push(if known > 0 { sum / f64::from(known) } else { UNKNOWN });
        Ok(())
    }

    /// Mean, deviation or percentile of a variable's rows in windows that lie some shifts back.
    fn predict(&mut self, op: Op, variable: usize, moment: &Moment<'_>) -> Result<(), String> {
        self.pop()?;
        let percent = if op == Op::PredictPerc { self.pop()? } else { 0.0 };
        let (window, count) = (self.pop()?, number::as_long(self.pop()?));
        let series = moment.series.ok_or_else(outside)?;
        let shifts: Vec<f64> = match usize::try_from(count) {
            Ok(count) if count <= self.values.len() => self.take(count),
            Ok(_) => return Err(underflow()),
            // One shift and how often it is taken; as rrdtool has it, the first time not at all.
            Err(_) => {
                let (base, times) = (self.pop()?, count.unsigned_abs().min(STACK_MAX as u64));
                (0..times).map(|times| base * times as f64).collect()
            }
        };
        let rows = rows(window, series.step).max(1);
        let in_window = |shift: &f64| {
            let back = usize::try_from(number::as_long((shift / series.step as f64).ceil()));
            series.past(variable, back.unwrap_or(usize::MAX), rows)
        };
        let known: Vec<f64> = shifts.iter().flat_map(in_window).copied().filter(|v| !v.is_nan()).collect();
        self.push(match op {
            Op::Predict => mean(&known),
            Op::PredictSigma => deviation(&known),
            _ => percentile(&merge_sort(&known), percent)?,
        });
        Ok(())
    }
}

/// How many rows reach over `seconds`.
fn rows(seconds: f64, step: u64) -> usize {
    usize::try_from(number::as_long((seconds / step as f64).ceil())).unwrap_or(0)
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

/// rrdtool's words for what only a series has in a COMPUTE source; its parser lets `PREV(x)` through.
fn outside() -> String {
    "VDEF made it into rpn_calc... aborting".into()
}

fn underflow() -> String {
    "RPN stack underflow".into()
}
