//! Reverse Polish expressions as text and as nodes on disk; knows nothing of files or sources.
//!
//! The operator numbers are part of the file format. Two faults of rrdtool are corrected:
//!
//! - a negative element count reads outside its stack; here it is an underflow error,
//! - ROLL is right for one step only; here it does what the manual says.

mod evaluate;
pub(crate) mod order;
mod series;

pub use evaluate::Moment;
pub use series::{Column, Series};

use crate::layout::RPN_NODES;
use crate::number;

/// Nodes of an expression. The file format allows 19; an expression of xport may need more.
pub const NODES_MAX: usize = 4096;

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
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Program {
    nodes: Vec<Node>,
}

impl Program {
    /// Parses `text`; `variable` resolves a name to its index. `None` when a token is neither a number (which
    /// counts only when a comma follows) nor an operator, `PREV(name)` or a variable.
    pub fn parse(text: &str, variable: impl Fn(&str) -> Option<usize>) -> Option<Self> {
        Self::parse_or_rest(text, variable).ok()
    }

    /// Like [`Program::parse`]; `Err` is the text from the unknown token on.
    pub fn parse_or_rest(
        text: &str,
        variable: impl Fn(&str) -> Option<usize>,
    ) -> std::result::Result<Self, &str> {
        let mut nodes = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let (token, after) = match rest.split_once(',') {
                Some((token, after)) => (token, Some(after)),
                None => (rest, None),
            };
            nodes.push(Self::token(token, after.is_some(), &variable).ok_or(rest)?);
            if nodes.len() > NODES_MAX {
                return Err(rest);
            }
            rest = after.unwrap_or("");
        }
        Ok(Self { nodes })
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

    /// Writes the expression into the 80 parameter bytes of a definition. [`Program::storable`] has refused
    /// an expression that a file cannot hold.
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

    /// Removes a variable by renumbering those after it; `false` if it is used.
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

    /// The same with numbers in the place of the variables that `number` knows.
    #[must_use]
    pub fn with_numbers(&self, number: impl Fn(usize) -> Option<f64>) -> Self {
        let node = |node: &Node| match node.op {
            Op::Variable | Op::PrevOther => {
                number(node.variable).map_or(*node, |number| Node { op: Op::Number, number, variable: 0 })
            }
            _ => *node,
        };
        Self { nodes: self.nodes.iter().map(node).collect() }
    }

    /// The nodes, in order.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }
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
        // Infinity counts as its opposite on one side, so the order of the values matters; as in rrdtool.
        assert_eq!(value("INF,UNKN,INF,1,4,MEDIAN"), Ok(1.0));
        assert_eq!(value("UNKN,1,INF,7,4,MEDIAN"), Ok(1.0));
        assert_eq!(value("UNKN,1,7,INF,4,MEDIAN"), Ok(7.0));
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
