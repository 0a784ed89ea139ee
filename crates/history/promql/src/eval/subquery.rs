//! Subqueries: an expression is evaluated at its own steps, and its rows are then read like samples.

use super::Evaluator;
use super::ranges::{Windows, present_cells};
use crate::answer::MatrixSeries;
use crate::error::QueryError;
use crate::plan::Subquery;
use crate::source::Sink;
use crate::steps::Steps;

impl Subquery {
    /// The instants for ranges from one time to another: multiples of the subquery's step, independent of the query's steps.
    fn steps(&self, after: i64, end: i64) -> Option<Steps> {
        // As Prometheus: a division that rounds towards zero, then the first instant after the bound.
        let mut start = self.step.saturating_mul(after / self.step);
        if start <= after {
            start = start.saturating_add(self.step);
        }
        (start <= end).then(|| Steps::between(start, end, self.step))
    }
}

impl Evaluator<'_> {
    /// The rows of the inner expression in the range of one instant.
    pub(super) fn subquery_samples(
        &self,
        subquery: &Subquery,
        time: i64,
    ) -> Result<Vec<MatrixSeries>, QueryError> {
        let end = subquery.moved.fixed.unwrap_or(time).saturating_sub(subquery.moved.offset);
        let Some(steps) = subquery.steps(end.saturating_sub(subquery.range), end) else {
            return Ok(Vec::new());
        };
        let grid = self.vector(&subquery.inner, steps)?;
        let _held = self.budget.hold(16 * grid.cells.len())?;
        let (mut times, mut values) = (Vec::new(), Vec::new());
        let mut all = Vec::with_capacity(grid.len());
        for (labels, cells) in grid.rows() {
            present_cells(steps, cells, &mut times, &mut values);
            let samples = times.iter().copied().zip(values.iter().copied()).collect();
            all.push(MatrixSeries { labels: labels.clone(), samples });
        }
        Ok(all)
    }

    /// Gives the rows of the inner expression in the ranges of all steps to a sink.
    pub(super) fn feed_subquery(
        &self,
        subquery: &Subquery,
        windows: &Windows,
        sink: &mut dyn Sink,
    ) -> Result<(), QueryError> {
        let (after, end) = windows.bounds();
        let Some(steps) = subquery.steps(after, end) else { return Ok(()) };
        let grid = self.vector(&subquery.inner, steps)?;
        let _held = self.budget.hold(steps.count.saturating_mul(16))?;
        let (mut times, mut values) = (Vec::new(), Vec::new());
        for (labels, cells) in grid.rows() {
            let series = sink.series(labels.clone())?;
            present_cells(steps, cells, &mut times, &mut values);
            if !times.is_empty() {
                sink.samples(series, &times, &values)?;
            }
        }
        Ok(())
    }
}
