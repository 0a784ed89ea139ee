//! A plan: the steps of an expression, each of which uses only steps before it. The last one is the result.

use khz_model::Nanos;

/// A compiled expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// In the order in which they are executed.
    pub(crate) steps: Vec<Step>,
}

/// The number of a step, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepId(pub u16);

/// One step.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// A number that never changes.
    Number(f64),
    /// The time of the row, in seconds since 1970.
    Time,
    /// The values of series in the row.
    Series(Selector),
    /// A function of what series were in the rows of a window, up to and with this row.
    Window {
        /// Which series.
        selector: Selector,
        /// How far it reaches back: a multiple of a millisecond.
        length: Nanos,
        /// The function.
        over: Over,
    },
    /// A function of each value.
    Math(Math, StepId),
    /// An operator.
    Combine(Combine),
    /// Groups of series become one each, or keep their best.
    Aggregate(Aggregate),
}

/// Which series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    /// By which names.
    pub form: Form,
    /// All of them hold.
    pub conditions: Vec<Condition>,
}

/// By which names and in which units series are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Those of `/metrics`.
    Exposed,
    /// khz's own.
    Own,
}

/// A condition on a label; a label that is not there is an empty text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The label; `__name__` is the name.
    pub label: String,
    /// What it must be.
    pub test: Test,
}

/// A condition for a label. In a glob, `*` stands for any text and `?` for one character; no other character
/// is special.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Test {
    /// This text.
    Is(String),
    /// Not this text.
    IsNot(String),
    /// One of these globs fits.
    Fits(Vec<String>),
    /// None of these globs fits.
    FitsNot(Vec<String>),
}

/// A function of the samples in a window, as PromQL has it under the same name.
#[allow(missing_docs, reason = "the names are PromQL's")]
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Over {
    Rate,
    Increase,
    Delta,
    Irate,
    Idelta,
    Deriv,
    Changes,
    Resets,
    Sum,
    Avg,
    Min,
    Max,
    Count,
    First,
    Last,
    Present,
    Stddev,
    Stdvar,
    /// With its φ.
    Quantile(f64),
}

/// A function of one value, as PromQL has it under the same name.
#[allow(missing_docs, reason = "the names are PromQL's")]
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Math {
    Negate,
    Abs,
    Ceil,
    Floor,
    /// To a multiple of this.
    Round(f64),
    /// Not below the one and not above the other.
    Clamp(f64, f64),
    /// `clamp_min`
    AtLeast(f64),
    /// `clamp_max`
    AtMost(f64),
    Sqrt,
    Ln,
    Exp,
    Log2,
    Log10,
    Sgn,
}

/// A binary operator.
#[allow(missing_docs, reason = "the names are PromQL's")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Power,
    Atan2,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    And,
    Or,
    Unless,
}

/// An operator with its operands.
#[allow(missing_docs, reason = "the names are PromQL's")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Combine {
    pub operator: Operator,
    /// A comparison gives 0 or 1 instead of leaving out.
    pub is_bool: bool,
    pub matching: Matching,
    pub left: StepId,
    pub right: StepId,
}

/// Which series of both sides belong together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matching {
    /// By these labels, or by all but these and the name.
    pub grouping: Grouping,
    /// The side that may have many series.
    pub many: Many,
    /// Labels that the result takes from the side with one series.
    pub include: Vec<String>,
}

/// How many series of each side may match one of the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Many {
    /// One of each.
    #[default]
    Neither,
    /// `group_left`
    Left,
    /// `group_right`
    Right,
}

/// Some labels, or all but some.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grouping {
    /// All labels but these and the name.
    pub is_without: bool,
    /// Sorted.
    pub labels: Vec<String>,
}

impl Default for Grouping {
    fn default() -> Self {
        Grouping { is_without: true, labels: Vec::new() }
    }
}

/// What becomes of a group.
#[allow(missing_docs, reason = "the names are PromQL's")]
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Aggregator {
    Sum,
    Avg,
    Min,
    Max,
    Count,
    Group,
    Stddev,
    Stdvar,
    /// With its φ.
    Quantile(f64),
    /// This many of the highest.
    Topk(u32),
    /// This many of the lowest.
    Bottomk(u32),
}

/// An aggregation.
#[allow(missing_docs, reason = "the names are PromQL's")]
#[derive(Clone, Debug, PartialEq)]
pub struct Aggregate {
    pub aggregator: Aggregator,
    pub grouping: Grouping,
    pub of: StepId,
}

impl Operator {
    /// A comparison.
    pub fn compares(self) -> bool {
        use Operator as O;
        matches!(self, O::Equal | O::NotEqual | O::Less | O::LessEqual | O::Greater | O::GreaterEqual)
    }

    /// An operator of sets.
    pub fn is_of_sets(self) -> bool {
        matches!(self, Operator::And | Operator::Or | Operator::Unless)
    }

    /// What the operator gives for two values; `None`: the comparison does not hold.
    #[inline]
    pub fn apply(self, left: f64, right: f64) -> Option<f64> {
        let holds = match self {
            Operator::Add => return Some(left + right),
            Operator::Subtract => return Some(left - right),
            Operator::Multiply => return Some(left * right),
            Operator::Divide => return Some(left / right),
            Operator::Modulo => return Some(left % right),
            Operator::Power => return Some(left.powf(right)),
            Operator::Atan2 => return Some(left.atan2(right)),
            Operator::Equal => left == right,
            Operator::NotEqual => left != right,
            Operator::Less => left < right,
            Operator::LessEqual => left <= right,
            Operator::Greater => left > right,
            Operator::GreaterEqual => left >= right,
            Operator::And | Operator::Or | Operator::Unless => return None,
        };
        holds.then_some(left)
    }
}

impl Plan {
    /// A plan of these steps.
    ///
    /// # Errors
    /// Returns why a node would refuse it, whatever series it has.
    pub fn new(steps: Vec<Step>) -> Result<Self, crate::PlanError> {
        let plan = Plan { steps };
        plan.check()?;
        Ok(plan)
    }

    /// The selectors of its steps.
    pub(crate) fn selectors(&self) -> impl Iterator<Item = &Selector> {
        self.steps.iter().filter_map(|step| match step {
            Step::Series(selector) | Step::Window { selector, .. } => Some(selector),
            _ => None,
        })
    }

    /// Its steps.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }
}
