//! Evaluates a plan: each expression at all steps at once. Selectors are read as streams; what expressions give each
//! other are rows with a cell for each step.

mod aggregate;
mod binary;
mod call;
mod instants;
mod join;
mod merge;
mod quantiles;
mod ranges;
mod sets;
mod subquery;
mod topk;

use std::cell::RefCell;
use std::rc::Rc;

use crate::annotations::Annotations;
use crate::answer::MatrixSeries;
use crate::budget::{Budget, Held};
use crate::error::QueryError;
use crate::grid::Grid;
use crate::plan::{Kind, Node};
use crate::source::Source;
use crate::steps::Steps;

/// Evaluates one query.
pub(crate) struct Evaluator<'a> {
    pub(crate) source: &'a dyn Source,
    pub(crate) budget: Rc<Budget>,
    pub(crate) notes: RefCell<Annotations>,
    /// Sentences about histograms name the metric.
    pub(crate) names_histograms: bool,
}

/// A number for each step.
#[derive(Debug)]
pub(crate) enum Column {
    /// The same at all steps.
    Constant(f64),
    Cells(Vec<f64>, #[allow(dead_code, reason = "counts the bytes until it is dropped")] Held),
}

/// The result of an expression.
#[derive(Debug)]
pub(crate) enum Operand {
    Scalar(Column),
    Vector(Grid),
    Text(String),
}

impl Column {
    /// The number of a step.
    pub(crate) fn get(&self, step: usize) -> f64 {
        match self {
            Column::Constant(value) => *value,
            Column::Cells(cells, _) => cells.get(step).copied().unwrap_or(f64::NAN),
        }
    }

    /// The same, computed from each number.
    fn map(self, with: impl Fn(f64) -> f64) -> Self {
        match self {
            Column::Constant(value) => Column::Constant(with(value)),
            Column::Cells(mut cells, held) => {
                cells.iter_mut().for_each(|cell| *cell = with(*cell));
                Column::Cells(cells, held)
            }
        }
    }
}

/// The error for a query that should have been refused when the plan was made.
fn broken(what: &str) -> QueryError {
    QueryError::Internal(format!("BUG: {what} was not refused when the query was planned"))
}

impl<'a> Evaluator<'a> {
    pub(crate) fn new(source: &'a dyn Source, budget: Rc<Budget>) -> Self {
        Evaluator { source, budget, notes: RefCell::default(), names_histograms: false }
    }

    /// The result of an expression at these steps.
    pub(crate) fn evaluate(&self, node: &Node, steps: Steps) -> Result<Operand, QueryError> {
        self.budget.check()?;
        if !node.invariant || steps.count == 1 {
            return self.compute(node, steps);
        }
        Ok(match self.compute(node, steps.first())? {
            Operand::Vector(grid) => Operand::Vector(grid.repeated(&self.budget, steps.count)?),
            Operand::Scalar(column) => Operand::Scalar(Column::Constant(column.get(0))),
            Operand::Text(text) => Operand::Text(text),
        })
    }

    /// The same, for an expression that gives series.
    pub(crate) fn vector(&self, node: &Node, steps: Steps) -> Result<Grid, QueryError> {
        match self.evaluate(node, steps)? {
            Operand::Vector(grid) => Ok(grid),
            _ => Err(broken("an argument that is no vector")),
        }
    }

    /// The same, for an expression that gives numbers.
    pub(crate) fn scalar(&self, node: &Node, steps: Steps) -> Result<Column, QueryError> {
        match self.evaluate(node, steps)? {
            Operand::Scalar(column) => Ok(column),
            _ => Err(broken("an argument that is no scalar")),
        }
    }

    /// A column of computed numbers.
    pub(crate) fn column(&self, steps: Steps, number: impl Fn(usize) -> f64) -> Result<Column, QueryError> {
        let held = self.budget.hold(steps.count.saturating_mul(8))?;
        Ok(Column::Cells((0..steps.count).map(number).collect(), held))
    }

    fn compute(&self, node: &Node, steps: Steps) -> Result<Operand, QueryError> {
        match &node.kind {
            Kind::Number(value) => Ok(Operand::Scalar(Column::Constant(*value))),
            Kind::Text(text) => Ok(Operand::Text(text.clone())),
            Kind::Selector(selector) => Ok(Operand::Vector(self.instants(selector, steps, false)?)),
            Kind::Range(..) | Kind::Subquery(_) => Err(broken("a range in the place of a vector")),
            Kind::Negate(operand) => self.negate(operand, steps),
            Kind::Call(function, arguments) => self.call(node, *function, arguments, steps),
            Kind::Aggregate(aggregate) => Ok(Operand::Vector(self.aggregate(aggregate, steps)?)),
            Kind::Binary(binary) => self.binary(binary, steps),
        }
    }

    fn negate(&self, operand: &Node, steps: Steps) -> Result<Operand, QueryError> {
        Ok(match self.evaluate(operand, steps)? {
            Operand::Scalar(column) => Operand::Scalar(column.map(|value| -value)),
            Operand::Vector(grid) => {
                Operand::Vector(self.without_names(self.mapped(grid, |_, value| -value)?)?)
            }
            Operand::Text(_) => return Err(broken("a negative text")),
        })
    }

    /// The samples of a range, for a query of one instant that asks for nothing else.
    pub(crate) fn matrix(&self, node: &Node, time: i64) -> Result<Vec<MatrixSeries>, QueryError> {
        let mut all = match &node.kind {
            Kind::Range(selector, range) => self.samples(selector, *range, time)?,
            Kind::Subquery(subquery) => self.subquery_samples(subquery, time)?,
            _ => return Err(broken("a range that is none")),
        };
        all.retain(|series| !series.samples.is_empty());
        all.sort_by(|one, two| one.labels.cmp(&two.labels));
        // They may be held while a client reads: no room is left over.
        all.iter_mut().for_each(|series| series.samples.shrink_to_fit());
        Ok(all)
    }
}
