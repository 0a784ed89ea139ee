//! Answers queries: the way in. It holds no samples and no state between queries.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::Instant;

use crate::answer::{Answer, MatrixSeries, Value, VectorSample};
use crate::budget::Budget;
use crate::error::QueryError;
use crate::eval::{Evaluator, Operand};
use crate::grid::{Grid, is_absent};
use crate::limits::Limits;
use crate::plan::{Build, Gives, Kind, Node, plan};
use crate::source::Source;
use crate::steps::Steps;
use crate::text;

/// Evaluates queries within limits. It is cheap to make and to copy, so each request may have its own limits.
#[derive(Clone, Debug, Default)]
pub struct Engine {
    limits: Limits,
    cancelled: Option<Arc<AtomicBool>>,
    /// When all its queries must be done.
    deadline: Option<Instant>,
    names_histograms: bool,
    /// Where the most bytes are written that a query has held.
    held: Option<Arc<AtomicUsize>>,
}

impl Engine {
    /// An engine whose queries may take this much.
    pub fn new(limits: Limits) -> Self {
        Engine { limits, ..Engine::default() }
    }

    /// The same engine; its queries fail with [`QueryError::Cancelled`] soon after the flag becomes true.
    #[must_use]
    pub fn cancelled_by(self, flag: Arc<AtomicBool>) -> Self {
        Engine { cancelled: Some(flag), ..self }
    }

    /// The same engine; when a query ends, with an answer or without one, the most bytes that it has held at one time are written
    /// there, unless there are more already.
    #[must_use]
    pub fn counting_in(self, held: Arc<AtomicUsize>) -> Self {
        Engine { held: Some(held), ..self }
    }

    /// The same engine; from now on all its queries together may take as long as one may.
    #[must_use]
    pub fn together(self) -> Self {
        let deadline = Instant::now().checked_add(self.limits.time);
        Engine { deadline, ..self }
    }

    /// Fails if its queries are cancelled, or if the time that they have together is over.
    ///
    /// # Errors
    ///
    /// [`QueryError::Cancelled`] or [`QueryError::Timeout`].
    pub fn check(&self) -> Result<(), QueryError> {
        self.budget().check()
    }

    /// The same engine; its sentences about histograms name the metric. Prometheus does so only where it drops the names of
    /// metrics late (`promql-delayed-name-removal`), as in its own tests.
    #[must_use]
    pub fn naming_histograms(self) -> Self {
        Engine { names_histograms: true, ..self }
    }

    /// The limits of its queries.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Evaluates a query at one time (ms since 1970).
    ///
    /// # Errors
    ///
    /// See [`QueryError`].
    pub fn query(&self, source: &dyn Source, query: &str, time: i64) -> Result<Answer, QueryError> {
        let steps = Steps::instant(time);
        let tree = text::parse(query)?;
        let node = plan(&tree, query, &Build { whole: steps, limits: self.limits })?;
        let evaluator = self.evaluator(source);
        let value = match &node.kind {
            Kind::Range(..) | Kind::Subquery(_) => Value::Matrix(evaluator.matrix(&node, time)?),
            _ => match evaluator.evaluate(&node, steps)? {
                Operand::Scalar(column) => Value::Scalar(time, column.get(0)),
                Operand::Text(text) => Value::Text(time, text),
                Operand::Vector(grid) => Value::Vector(vector(&grid, time)),
            },
        };
        Ok(self.answer(value, evaluator, query))
    }

    /// Evaluates a query at many times: from one to another (ms since 1970, both included) at this distance (ms).
    ///
    /// # Errors
    ///
    /// See [`QueryError`].
    pub fn query_range(
        &self,
        source: &dyn Source,
        query: &str,
        start: i64,
        end: i64,
        step: i64,
    ) -> Result<Answer, QueryError> {
        let bad = |problem: String| Err(QueryError::Bad(problem));
        if end < start {
            return bad(String::from(
                "invalid parameter \"end\": end timestamp must not be before start time",
            ));
        }
        if step <= 0 {
            return bad(String::from(
                "invalid parameter \"step\": zero or negative query resolution step widths are not accepted. Try a \
                 positive integer",
            ));
        }
        let steps = Steps::between(start, end, step);
        if steps.count as u64 > self.limits.steps.saturating_add(1) {
            return bad(format!(
                "exceeded maximum resolution of {} points per timeseries. Try decreasing the query resolution \
                 (?step=XX)",
                thousands(self.limits.steps)
            ));
        }
        let tree = text::parse(query)?;
        let node = plan(&tree, query, &Build { whole: steps, limits: self.limits })?;
        if !matches!(node.gives, Gives::Scalar | Gives::Vector) {
            let kind = if node.gives == Gives::Text { "string" } else { "range vector" };
            return bad(format!(
                "invalid expression type {kind:?} for range query, must be Scalar or \
                 instant Vector"
            ));
        }
        let evaluator = self.evaluator(source);
        let value = self.series(&evaluator, &node, steps)?;
        Ok(self.answer(value, evaluator, query))
    }

    fn series(&self, evaluator: &Evaluator<'_>, node: &Node, steps: Steps) -> Result<Value, QueryError> {
        Ok(Value::Matrix(match evaluator.evaluate(node, steps)? {
            Operand::Scalar(column) => {
                let samples =
                    steps.times().enumerate().map(|(step, time)| (time, column.get(step))).collect();
                vec![MatrixSeries { labels: crate::LabelSet::default(), samples }]
            }
            Operand::Vector(grid) => {
                let _held = evaluator.budget.hold(16 * grid.cells.len())?;
                matrix(&grid, steps)
            }
            Operand::Text(_) => Vec::new(),
        }))
    }

    fn evaluator<'a>(&self, source: &'a dyn Source) -> Evaluator<'a> {
        let budget = self.budget();
        Evaluator { names_histograms: self.names_histograms, ..Evaluator::new(source, budget) }
    }

    fn budget(&self) -> Rc<Budget> {
        Budget::new(self.limits, self.cancelled.clone(), self.deadline, self.held.clone())
    }

    fn answer(&self, value: Value, evaluator: Evaluator<'_>, query: &str) -> Answer {
        let (warnings, infos) = evaluator.notes.into_inner().sentences(query);
        Answer { value, warnings, infos }
    }
}

/// The samples of one step.
fn vector(grid: &Grid, time: i64) -> Vec<VectorSample> {
    grid.rows()
        .filter(|(_, cells)| !is_absent(cells[0]))
        .map(|(labels, cells)| VectorSample { labels: labels.clone(), time, value: cells[0] })
        .collect()
}

/// The series of all steps, sorted by labels.
fn matrix(grid: &Grid, steps: Steps) -> Vec<MatrixSeries> {
    let present = |cells: &[f64]| {
        // They may be held while a client reads: no room is left over.
        let mut samples = Vec::with_capacity(cells.iter().filter(|value| !is_absent(**value)).count());
        let all = steps.times().zip(cells).filter(|(_, value)| !is_absent(**value));
        samples.extend(all.map(|(time, &value)| (time, value)));
        samples
    };
    let mut all: Vec<MatrixSeries> = grid
        .rows()
        .map(|(labels, cells)| MatrixSeries { labels: labels.clone(), samples: present(cells) })
        .collect();
    all.retain(|series| !series.samples.is_empty());
    all.sort_by(|one, two| one.labels.cmp(&two.labels));
    all
}

/// 11000 as 11,000.
fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
