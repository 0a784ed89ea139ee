//! Reverse Polish expressions: text, on-disk nodes and evaluation; knows nothing of files or sources.
//!
//! The operator numbers are part of the file format. Two of rrdtool's faults are not repeated: a negative
//! element count reads outside its stack (here: an underflow error), and ROLL is only right there for one
//! step (here: as documented).

use crate::layout::RPN_NODES;
use crate::number::{self, UNKNOWN};

/// Nodes an expression may have in all; the format allows 19, xport expressions get room for honest use.
pub const NODES_MAX: usize = 4096;
/// Values on the evaluation stack; COPY can double it at each step, so it needs a bound.
const STACK_MAX: usize = 65_536;

macro_rules! operators {
    ($($variant:ident $code:literal $name:literal),* $(,)?) => {
        /// An operator; the number is its code on disk.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[allow(missing_docs, reason = "each is its own name in rrdtool's documentation")]
        pub enum Op { $($variant = $code),* }
        impl Op {
            const ALL: &'static [(Op, &'static str)] = &[$((Op::$variant, $name)),*];
            fn from_code(code: u8) -> Option<Op> {
                match code { $($code => Some(Op::$variant),)* _ => None }
            }
        }
    };
}

operators! {
    Number 0 "", Variable 1 "", Inf 2 "INF", Prev 3 "PREV", NegInf 4 "NEGINF", Unkn 5 "UNKN", Now 6 "NOW",
    Time 7 "TIME", Add 8 "+", Mod 9 "%", Sub 10 "-", Mul 11 "*", Div 12 "/", Sin 13 "SIN", Dup 14 "DUP",
    Exc 15 "EXC", Pop 16 "POP", Cos 17 "COS", Log 18 "LOG", Exp 19 "EXP", Lt 20 "LT", Le 21 "LE", Gt 22 "GT",
    Ge 23 "GE", Eq 24 "EQ", If 25 "IF", Min 26 "MIN", Max 27 "MAX", Limit 28 "LIMIT", Floor 29 "FLOOR",
    Ceil 30 "CEIL", Un 31 "UN", Ltime 33 "LTIME", Ne 34 "NE", IsInf 35 "ISINF", PrevOther 36 "",
    Count 37 "COUNT", Atan 38 "ATAN", Sqrt 39 "SQRT", Sort 40 "SORT", Rev 41 "REV", Atan2 44 "ATAN2",
    Rad2Deg 45 "RAD2DEG", Deg2Rad 46 "DEG2RAD", Avg 49 "AVG", Abs 50 "ABS", AddNan 51 "ADDNAN",
    MinNan 52 "MINNAN", MaxNan 53 "MAXNAN", Median 54 "MEDIAN", Depth 56 "DEPTH", Copy 57 "COPY",
    Roll 58 "ROLL", Index 59 "INDEX", Smin 65 "SMIN", Smax 66 "SMAX", Stdev 67 "STDEV",
    Percent 68 "PERCENT", Pow 69 "POW",
    // Codes of the graph-only operators never reach a file; these numbers are ours.
    StepWidth 200 "STEPWIDTH", NewDay 201 "NEWDAY", NewWeek 202 "NEWWEEK", NewMonth 203 "NEWMONTH",
    NewYear 204 "NEWYEAR", Trend 205 "TREND", TrendNan 206 "TRENDNAN", Predict 207 "PREDICT",
    PredictSigma 208 "PREDICTSIGMA", PredictPerc 209 "PREDICTPERC",
}

const END: u8 = 32;

impl Op {
    /// Operators that need a series and its time, which a COMPUTE source does not have.
    fn needs_series(self) -> bool {
        matches!(self, Op::Prev | Op::Time | Op::Ltime | Op::Count) || self as u8 >= 200
    }
}

/// One element of an expression.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Node {
    /// What it does.
    pub op: Op,
    /// The constant of a [`Op::Number`].
    pub number: f64,
    /// The variable of a [`Op::Variable`] or [`Op::PrevOther`].
    pub variable: usize,
}

/// A parsed expression.
#[derive(Debug, Clone, PartialEq)]
pub struct Program {
    nodes: Vec<Node>,
}

/// What an evaluation may look at besides its variables.
#[derive(Debug, Clone, Copy)]
pub struct Moment<'a> {
    /// The values of the variables.
    pub variables: &'a [f64],
    /// Seconds since 1970, for NOW.
    pub now: i64,
    /// The end of the row computed, its width and its number from 1, and the row before (own result, then
    /// the variables'); `None` outside a series.
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
    /// 1 for the first row.
    pub count: u64,
    /// This expression's result one row before.
    pub previous: f64,
    /// The variables one row before; empty on the first row.
    pub previous_variables: &'a [f64],
}

impl Program {
    /// Parses `text`; `variable` resolves a name to its index. `None` when a token is none of number (which
    /// only counts when a comma follows), operator, `PREV(name)` or variable.
    pub fn parse(text: &str, variable: impl Fn(&str) -> Option<usize>) -> Option<Self> {
        let mut nodes = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let (token, after) = match rest.split_once(',') {
                Some((token, after)) => (token, Some(after)),
                None => (rest, None),
            };
            nodes.push(Self::token(token, after.is_some(), &variable)?);
            if nodes.len() > NODES_MAX {
                return None;
            }
            rest = after.unwrap_or("");
        }
        Some(Self { nodes })
    }

    fn token(token: &str, comma_follows: bool, variable: &impl Fn(&str) -> Option<usize>) -> Option<Node> {
        let node = |op| Node { op, number: 0.0, variable: 0 };
        if comma_follows
            && token.bytes().next().is_some_and(|byte| !byte.is_ascii_whitespace())
            && let Some((number, used)) = number::decimal(token.as_bytes())
            && used == token.len()
        {
            return Some(Node { op: Op::Number, number, variable: 0 });
        }
        if let Some((op, _)) = Op::ALL.iter().find(|(_, name)| !name.is_empty() && *name == token) {
            return Some(node(*op));
        }
        if let Some(name) = token.strip_prefix("PREV(").and_then(|rest| rest.strip_suffix(')')) {
            return variable(name).map(|index| Node { op: Op::PrevOther, number: 0.0, variable: index });
        }
        variable(token).map(|index| Node { op: Op::Variable, number: 0.0, variable: index })
    }

    /// Decodes the 80 parameter bytes of a COMPUTE definition.
    pub fn decode(bytes: &[u8]) -> Result<Self, String> {
        let mut nodes = Vec::new();
        for chunk in bytes.chunks_exact(4).take(RPN_NODES) {
            if chunk[0] == END {
                break;
            }
            let op = Op::from_code(chunk[0])
                .filter(|op| (*op as u8) < 200)
                .ok_or_else(|| format!("unknown RPN operator {}", chunk[0]))?;
            let value = i16::from_le_bytes([chunk[2], chunk[3]]);
            let variable = match op {
                Op::Variable | Op::PrevOther => {
                    usize::try_from(value).map_err(|_| format!("RPN variable {value}"))?
                }
                _ => 0,
            };
            nodes.push(Node { op, number: f64::from(value), variable });
        }
        Ok(Self { nodes })
    }

    /// Writes the expression into the 80 parameter bytes of a definition. What a file cannot hold has been
    /// refused by [`Program::storable`] before.
    pub fn encode(&self, bytes: &mut [u8]) {
        for (chunk, node) in bytes.chunks_exact_mut(4).zip(&self.nodes) {
            let value = match node.op {
                Op::Number => node.number as i16,
                Op::Variable | Op::PrevOther => node.variable as i16,
                _ => 0,
            };
            chunk[0] = node.op as u8;
            chunk[2..4].copy_from_slice(&value.to_le_bytes());
        }
        if let Some(chunk) = bytes.chunks_exact_mut(4).nth(self.nodes.len()) {
            chunk[0] = END;
        }
    }

    /// Whether a COMPUTE definition can hold this expression; `Err` is rrdtool's message.
    pub fn storable(&self) -> Result<(), String> {
        for node in &self.nodes {
            if node.op.needs_series() {
                return Err(
                    "operators TIME LTIME STEPWIDTH PREV NEW* COUNT TREND TRENDNAN PREDICT PREDICTSIGMA \
                            PREDICTPERC are not supported with DS COMPUTE"
                        .into(),
                );
            }
            let in_range = node.number.trunc() == node.number && (-32768.0..=32767.0).contains(&node.number);
            if node.op == Op::Number && !in_range {
                return Err("constants must be integers in the interval (-32768, 32767)".into());
            }
        }
        if self.nodes.len() >= RPN_NODES {
            // rrdtool counts its end mark.
            return Err(format!(
                "Maximum {} RPN nodes permitted. Got {} RPN nodes at present.",
                RPN_NODES - 1,
                self.nodes.len()
            ));
        }
        Ok(())
    }

    /// The highest variable index used, plus one.
    pub fn variables(&self) -> usize {
        let of = |node: &Node| match node.op {
            Op::Variable | Op::PrevOther => node.variable + 1,
            _ => 0,
        };
        self.nodes.iter().map(of).max().unwrap_or(0)
    }

    /// Drops the reference to a removed variable by renumbering those behind it; `false` if it is used.
    pub fn remove_variable(&mut self, removed: usize) -> bool {
        let refers = |node: &Node| matches!(node.op, Op::Variable | Op::PrevOther);
        if self.nodes.iter().any(|node| refers(node) && node.variable == removed) {
            return false;
        }
        for node in self.nodes.iter_mut().filter(|node| refers(node)) {
            if node.variable > removed {
                node.variable -= 1;
            }
        }
        true
    }

    /// The expression as text, with `name` giving the variables' names.
    pub fn text(&self, name: impl Fn(usize) -> String) -> String {
        let words: Vec<String> = self
            .nodes
            .iter()
            .map(|node| match node.op {
                Op::Number => format!("{}", node.number as i64),
                Op::Variable => name(node.variable),
                Op::PrevOther => format!("PREV({})", name(node.variable)),
                op => Op::ALL.iter().find(|(known, _)| *known == op).map_or("", |(_, text)| text).to_string(),
            })
            .collect();
        words.join(",")
    }

    /// The nodes, in order.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Evaluates the expression. `Err` is rrdtool's message, without the file name.
    pub fn evaluate(&self, moment: &Moment<'_>) -> Result<f64, String> {
        let mut stack = Stack { values: Vec::with_capacity(16) };
        for node in &self.nodes {
            stack.step(node, moment)?;
            if stack.values.len() > STACK_MAX {
                return Err(format!("RPN stack exceeds {STACK_MAX} values"));
            }
        }
        match stack.values.as_slice() {
            [result] => Ok(*result),
            _ => Err("RPN final stack size != 1".into()),
        }
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
            Op::Add => self.binary(|a, b| a + b)?,
            Op::Sub => self.binary(|a, b| a - b)?,
            Op::Mul => self.binary(|a, b| a * b)?,
            Op::Div => self.binary(|a, b| a / b)?,
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
                let known: Vec<f64> = values.iter().rev().copied().collect();
                let sorted = merge_sort(&known);
                match sorted.len() {
                    0 => UNKNOWN,
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
            // rrdtool's words for PREV(x) in a COMPUTE source, which its parser lets through.
            return Err("VDEF made it into rpn_calc... aborting".into());
        };
        match node.op {
            Op::Time => self.push(series.time as f64),
            Op::Ltime => self.push((series.time + series.offset) as f64),
            Op::StepWidth => self.push(series.step as f64),
            Op::Count => self.push(series.count as f64),
            Op::Prev => self.push(series.previous),
            Op::PrevOther => {
                self.push(series.previous_variables.get(node.variable).copied().unwrap_or(UNKNOWN));
            }
            op => {
                let name = Op::ALL.iter().find(|(known, _)| *known == op).map_or("", |(_, name)| name);
                return Err(format!("operator {name} is not supported here"));
            }
        }
        Ok(())
    }
}

fn underflow() -> String {
    "RPN stack underflow".into()
}

/// MIN and MAX: unknown wins; `second` says that `b` is the one wanted.
fn pick(a: f64, b: f64, second: bool) -> f64 {
    if a.is_nan() {
        a
    } else if b.is_nan() || second {
        b
    } else {
        a
    }
}

/// The other side where one is unknown.
fn known(a: f64, b: f64) -> Option<f64> {
    if a.is_nan() {
        Some(b)
    } else if b.is_nan() {
        Some(a)
    } else {
        None
    }
}

fn mean(values: &[f64]) -> f64 {
    if values.is_empty() {
        return UNKNOWN;
    }
    values.iter().fold(0.0, |sum, value| sum + value) / values.len() as f64
}

/// Sample deviation by running mean. The last bit may differ from rrdtool's in one case of fifteen.
fn deviation(values: &[f64]) -> f64 {
    if values.len() < 2 {
        return UNKNOWN;
    }
    let (mut average, mut squares) = (0.0, 0.0);
    for (index, value) in values.iter().enumerate() {
        let ahead = value - average;
        average += ahead / (index as f64 + 1.0);
        squares += ahead * (value - average);
    }
    (squares / (values.len() as f64 - 1.0)).sqrt()
}

/// Whether `a` may stay before `b`: unknown first, then by size, except that an infinite `b` counts as its
/// opposite. That is no consistent order, so the sort below must be the merge sort of rrdtool's C library.
fn stays_before(a: f64, b: f64) -> bool {
    if a.is_nan() {
        true
    } else if b.is_nan() {
        false
    } else if a.is_infinite() {
        a < 0.0
    } else if b.is_infinite() {
        b < 0.0
    } else {
        a <= b
    }
}

fn merge_sort(values: &[f64]) -> Vec<f64> {
    if values.len() < 2 {
        return values.to_vec();
    }
    let (left, right) = values.split_at(values.len() / 2);
    let (left, right) = (merge_sort(left), merge_sort(right));
    let mut merged = Vec::with_capacity(values.len());
    let (mut i, mut j) = (0, 0);
    while i < left.len() && j < right.len() {
        if stays_before(left[i], right[j]) {
            merged.push(left[i]);
            i += 1;
        } else {
            merged.push(right[j]);
            j += 1;
        }
    }
    merged.extend_from_slice(&left[i..]);
    merged.extend_from_slice(&right[j..]);
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Result<f64, String> {
        let program = Program::parse(text, |name| match name {
            "x" => Some(0),
            "y" => Some(1),
            _ => None,
        })
        .ok_or("unparsable")?;
        program.evaluate(&Moment { variables: &[3.0, 4.0], now: 1000, series: None })
    }

    #[test]
    fn expressions_give_what_the_manual_says() {
        assert_eq!(value("x,y,+,2,*"), Ok(14.0));
        assert_eq!(value("x,y,LT,5,6,IF"), Ok(5.0));
        assert_eq!(value("x,y,8,9,50,4,PERCENT"), Ok(4.0));
        assert_eq!(value("x,y,7,3,MEDIAN"), Ok(4.0));
        assert_eq!(value("x,y,7,8,4,-1,ROLL,POP,POP,POP"), Ok(4.0));
    }

    #[test]
    fn a_negative_count_is_an_error_not_a_wild_read() {
        for text in ["x,y,-1,SORT", "x,y,-1,COPY", "x,y,-2,MEDIAN", "x,50,-1,PERCENT", "x,UNKN,AVG"] {
            assert_eq!(value(text), Err("RPN stack underflow".into()), "{text}");
        }
    }

    #[test]
    fn a_constant_counts_only_before_a_comma() {
        assert_eq!(value("x,5"), Err("unparsable".into()));
        assert_eq!(value("x,5,+,"), Ok(8.0));
    }

    #[test]
    fn nodes_survive_the_file() {
        let program = Program::parse("x,-7,+,y,UN,EXC,POP", |name| Some(usize::from(name == "y"))).unwrap();
        let mut bytes = [0; 80];
        program.encode(&mut bytes);
        let back = Program::decode(&bytes).unwrap();
        assert_eq!(back.text(|index| ["x", "y"][index].into()), "x,-7,+,y,UN,EXC,POP");
    }
}
