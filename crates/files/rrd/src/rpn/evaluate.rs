//! Evaluation of an expression on a stack, at a moment; the operators on a series are in `series`.

use super::order::{deviation, known, mean, merge_sort, pick, without_unknown};
use super::series::Series;
use super::{Node, Op, Program};
use crate::number::{self, UNKNOWN};

/// Values on the evaluation stack, which COPY can double at each step.
pub(super) const STACK_MAX: usize = 65_536;

/// The inputs of an evaluation.
#[derive(Debug, Clone, Copy)]
pub struct Moment<'a> {
    /// The values of the variables.
    pub variables: &'a [f64],
    /// Seconds since 1970, for NOW.
    pub now: i64,
    /// The row computed and the rows before it; `None` outside a series.
    pub series: Option<Series<'a>>,
}

impl Program {
    /// Evaluates the expression. `Err` is rrdtool's message, without the file name.
    pub fn evaluate(&self, moment: &Moment<'_>) -> Result<f64, String> {
        self.evaluate_on(&mut Vec::with_capacity(16), moment)
    }

    /// The same; `values` only lends its memory, so that a series of evaluations needs no new one.
    ///
    /// # Errors
    /// As [`Program::evaluate`].
    pub fn evaluate_on(&self, values: &mut Vec<f64>, moment: &Moment<'_>) -> Result<f64, String> {
        values.clear();
        let mut stack = Stack { values: std::mem::take(values) };
        let result = self.run(&mut stack, moment);
        *values = stack.values;
        result
    }

    fn run(&self, stack: &mut Stack, moment: &Moment<'_>) -> Result<f64, String> {
        for (at, node) in self.nodes.iter().enumerate() {
            match node.op {
                Op::Trend | Op::TrendNan => {
                    stack.has(2)?;
                    stack.trend(node.op, self.variable_at(at, 2)?, moment)?;
                }
                Op::Predict | Op::PredictSigma | Op::PredictPerc => {
                    stack.has(3)?;
                    // As in rrdtool, anything but a variable has no rows to predict from.
                    stack.predict(node.op, self.variable_at(at, 1).ok(), moment)?;
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

    /// The variable named `back` places before the operator at `at`, which reads a window of it.
    fn variable_at(&self, at: usize, back: usize) -> Result<usize, String> {
        let node = at.checked_sub(back).map(|at| self.nodes[at]).filter(|node| node.op == Op::Variable);
        node.map(|node| node.variable).ok_or_else(|| "malformed trend arguments".to_string())
    }
}

pub(super) struct Stack {
    pub(super) values: Vec<f64>,
}

/// Radians per degree and degrees per radian, with the digits rrdtool uses.
const RADIANS: f64 = 0.017_453_295_2;
const DEGREES: f64 = 57.295_779_51;

impl Stack {
    /// Whether it holds this many values.
    fn has(&self, count: usize) -> Result<(), String> {
        if self.values.len() < count { Err(underflow()) } else { Ok(()) }
    }

    pub(super) fn pop(&mut self) -> Result<f64, String> {
        self.values.pop().ok_or_else(underflow)
    }

    pub(super) fn push(&mut self, value: f64) {
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

    /// Arithmetic: the first unknown is the result, with its sign, as the processor does it in rrdtool's order.
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
        // Truncated as in C; NaN, infinities and negative counts name no elements.
        let count = number::as_long(wanted);
        match usize::try_from(count) {
            Ok(count) if count <= self.values.len() => Ok(count),
            _ => Err(underflow()),
        }
    }

    /// Pops the top `count` values, lowest first.
    pub(super) fn take(&mut self, count: usize) -> Vec<f64> {
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
        // The first unknown is the result, with its sign.
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
                // The sign shows which of the unknown ones it is.
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
}

pub(super) fn underflow() -> String {
    "RPN stack underflow".into()
}
