//! A query in the form for evaluation: the parser's tree with resolved types and names, and with all parts computed that do not
//! depend on samples. It refuses queries that the parser accepts, but that Prometheus accepts not at all or only with experimental
//! switches.

mod build;
mod selector;

pub(crate) use build::{Build, plan};
pub(crate) use khz_plan::{Many, Operator};
pub(crate) use selector::matchers;

use crate::functions::Function;
use crate::matcher::Matcher;
use crate::text::{Places, Position};

/// The type of an expression's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gives {
    Scalar,
    Text,
    Vector,
    Matrix,
}

/// An expression.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) kind: Kind,
    pub(crate) gives: Gives,
    /// Where it begins, for annotations; with its parentheses.
    pub(crate) at: Position,
    /// The same without them.
    pub(crate) own: Position,
    /// The result is the same at every step, so one evaluation is enough.
    pub(crate) invariant: bool,
    /// It stands in parentheses.
    pub(crate) wrapped: bool,
}

/// What an expression is.
#[derive(Debug)]
pub(crate) enum Kind {
    Number(f64),
    Text(String),
    Selector(Selector),
    /// A selector and how far it reaches back (ms).
    Range(Selector, i64),
    Subquery(Box<Subquery>),
    Negate(Box<Node>),
    Call(Function, Vec<Node>),
    Aggregate(Box<Aggregate>),
    Binary(Box<Binary>),
}

/// To what time a selector is moved.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Moved {
    /// `@`: the time (ms) that counts instead of that of the step.
    pub(crate) fixed: Option<i64>,
    /// `offset` (ms): back from there.
    pub(crate) offset: i64,
}

/// Which series, and when.
#[derive(Debug)]
pub(crate) struct Selector {
    pub(crate) matchers: Vec<Matcher>,
    pub(crate) moved: Moved,
    /// Where its parts begin, for errors.
    pub(crate) places: Places,
}

/// An expression at many instants before each step.
#[derive(Debug)]
pub(crate) struct Subquery {
    pub(crate) inner: Node,
    /// How far it reaches back (ms).
    pub(crate) range: i64,
    /// The distance of its instants (ms).
    pub(crate) step: i64,
    pub(crate) moved: Moved,
}

/// Which series form a group.
#[derive(Debug)]
pub(crate) struct Grouping {
    /// `without` these labels, rather than `by` them.
    pub(crate) without: bool,
    /// Sorted.
    pub(crate) labels: Vec<String>,
}

/// The operation of an aggregation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aggregator {
    Sum,
    Avg,
    Min,
    Max,
    Count,
    Group,
    Stddev,
    Stdvar,
    Quantile,
    Topk,
    Bottomk,
    CountValues,
}

/// An aggregation.
#[derive(Debug)]
pub(crate) struct Aggregate {
    pub(crate) aggregator: Aggregator,
    pub(crate) grouping: Grouping,
    pub(crate) parameter: Option<Node>,
    pub(crate) operand: Node,
}

/// Which series of both sides belong together.
#[derive(Debug)]
pub(crate) struct Matching {
    /// `on` these labels, rather than `ignoring` them.
    pub(crate) on: bool,
    /// Sorted.
    pub(crate) labels: Vec<String>,
    pub(crate) many: Many,
    /// Labels that the result takes from the side with one series.
    pub(crate) include: Vec<String>,
}

/// An operator with its operands.
#[derive(Debug)]
pub(crate) struct Binary {
    pub(crate) operator: Operator,
    /// A comparison gives 0 or 1 rather than leaving out.
    pub(crate) bool: bool,
    pub(crate) matching: Matching,
    pub(crate) left: Node,
    pub(crate) right: Node,
}

/// The operator that is written like this.
pub(crate) fn operator(text: &str) -> Option<Operator> {
    Some(match text {
        "+" => Operator::Add,
        "-" => Operator::Subtract,
        "*" => Operator::Multiply,
        "/" => Operator::Divide,
        "%" => Operator::Modulo,
        "^" => Operator::Power,
        "atan2" => Operator::Atan2,
        "==" => Operator::Equal,
        "!=" => Operator::NotEqual,
        "<" => Operator::Less,
        "<=" => Operator::LessEqual,
        ">" => Operator::Greater,
        ">=" => Operator::GreaterEqual,
        "and" => Operator::And,
        "or" => Operator::Or,
        "unless" => Operator::Unless,
        _ => return None,
    })
}

impl Aggregator {
    /// The aggregation of this name; `None` for those that are experimental in Prometheus.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "sum" => Self::Sum,
            "avg" => Self::Avg,
            "min" => Self::Min,
            "max" => Self::Max,
            "count" => Self::Count,
            "group" => Self::Group,
            "stddev" => Self::Stddev,
            "stdvar" => Self::Stdvar,
            "quantile" => Self::Quantile,
            "topk" => Self::Topk,
            "bottomk" => Self::Bottomk,
            "count_values" => Self::CountValues,
            _ => return None,
        })
    }
}

impl Node {
    /// This expression, or the one in its parentheses, is a selector of instants.
    pub(crate) fn selector(&self) -> Option<&Selector> {
        match &self.kind {
            Kind::Selector(selector) => Some(selector),
            _ => None,
        }
    }
}
