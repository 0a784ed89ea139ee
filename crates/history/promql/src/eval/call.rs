//! Calls of functions.

use khz_plan::arithmetic;

use super::ranges::windows;
use super::{Column, Evaluator, Operand, broken};
use crate::error::QueryError;
use crate::fold::Over;
use crate::functions::{Function, absent, labels, sort, text};
use crate::grid::{Grid, absent as no_value, is_absent};
use crate::labels::LabelSet;
use crate::plan::Node;
use crate::print;
use crate::steps::Steps;

impl Evaluator<'_> {
    pub(super) fn call(
        &self,
        node: &Node,
        function: Function,
        arguments: &[Node],
        steps: Steps,
    ) -> Result<Operand, QueryError> {
        Ok(Operand::Vector(match (function, arguments) {
            (Function::Time, _) => {
                return Ok(Operand::Scalar(self.column(steps, |step| steps.time(step) as f64 / 1000.0)?));
            }
            (Function::Pi, _) => return Ok(Operand::Scalar(Column::Constant(std::f64::consts::PI))),
            (Function::Scalar, [vector]) => return self.scalar_of(vector, steps),
            (Function::Vector, [scalar]) => {
                let column = self.scalar(scalar, steps)?;
                self.one_series(LabelSet::default(), &column, steps)?
            }
            (Function::Over(over), _) => self.range_call(over, arguments, steps)?,
            (Function::AbsentOverTime, [range]) => {
                let present = self.present(range, &windows(range, steps, Column::Constant(0.0))?)?;
                absent::absences(&present, absent::labels(range), Grid::new(&self.budget, steps.count)?)?
            }
            (Function::Absent, [vector]) => {
                let present = self.vector(vector, steps)?;
                absent::absences(&present, absent::labels(vector), Grid::new(&self.budget, steps.count)?)?
            }
            (Function::Math(function), [vector]) => {
                let grid = self.vector(vector, steps)?;
                self.without_names(self.mapped(grid, |_, value| (function.compute)(value))?)?
            }
            (Function::Date(part), []) => {
                let column = self.column(steps, |step| part.of(steps.time(step) as f64 / 1000.0))?;
                self.one_series(LabelSet::default(), &column, steps)?
            }
            (Function::Date(part), [vector]) => {
                let grid = self.vector(vector, steps)?;
                self.without_names(self.mapped(grid, |_, value| part.of(value))?)?
            }
            (
                Function::Round | Function::Clamp | Function::ClampMin | Function::ClampMax,
                [vector, bounds @ ..],
            ) => self.bounded(function, vector, bounds, steps)?,
            (Function::Timestamp, [vector]) => self.timestamp(vector, steps)?,
            (Function::Sort { descending }, [vector]) => {
                let grid = self.vector(vector, steps)?;
                if steps.count > 1 {
                    self.notes.borrow_mut().warn(
                        "sort is ineffective for range queries since results are always ordered by labels",
                        node.own,
                    );
                }
                sort::sorted(grid, descending)?
            }
            (Function::LabelReplace, [vector, ..]) => {
                let replace = labels::Replace::new(arguments)?;
                self.relabelled(self.vector(vector, steps)?, |labels| replace.apply(labels))?
            }
            (Function::LabelJoin, [vector, ..]) => {
                let (to, separator) = (text(arguments, 1), text(arguments, 2));
                let from: Vec<&str> = (3..arguments.len()).map(|at| text(arguments, at)).collect();
                labels::check_join(to, &from)?;
                self.relabelled(self.vector(vector, steps)?, |labels| {
                    labels::joined(labels, to, separator, &from)
                })?
            }
            (Function::HistogramQuantile, [phi, vector]) => self.histogram_quantile(phi, vector, steps)?,
            (Function::HistogramFraction, [lower, upper, vector]) => {
                self.histogram_fraction(lower, upper, vector, steps)?
            }
            // Plain samples are no native histograms, so that nothing is left.
            (Function::OfNativeHistograms, [vector]) => {
                self.vector(vector, steps)?;
                Grid::new(&self.budget, steps.count)?
            }
            _ => return Err(broken("a call with the wrong number of arguments")),
        }))
    }

    fn one_series(&self, labels: LabelSet, column: &Column, steps: Steps) -> Result<Grid, QueryError> {
        let mut grid = Grid::new(&self.budget, steps.count)?;
        let series = grid.add(labels)?;
        for (step, cell) in grid.row_mut(series).iter_mut().enumerate() {
            *cell = column.get(step);
        }
        Ok(grid)
    }

    /// The value of the only series of a step, NaN if there is not exactly one.
    fn scalar_of(&self, vector: &Node, steps: Steps) -> Result<Operand, QueryError> {
        let grid = self.vector(vector, steps)?;
        let held = self.budget.hold(steps.count.saturating_mul(8))?;
        let mut cells = vec![no_value(); steps.count];
        for (_, row) in grid.rows() {
            for (cell, &value) in cells.iter_mut().zip(row) {
                if !is_absent(value) {
                    *cell = if is_absent(*cell) { value } else { f64::NAN };
                }
            }
        }
        for cell in &mut cells {
            if is_absent(*cell) {
                *cell = f64::NAN;
            }
        }
        Ok(Operand::Scalar(Column::Cells(cells, held)))
    }

    fn range_call(&self, over: Over, arguments: &[Node], steps: Steps) -> Result<Grid, QueryError> {
        let (range, parameter) = match (over, arguments) {
            (Over::Quantile, [parameter, range]) | (Over::PredictLinear, [range, parameter]) => {
                (range, self.scalar(parameter, steps)?)
            }
            (_, [range]) => (range, Column::Constant(0.0)),
            _ => return Err(broken("a function of a range with the wrong number of arguments")),
        };
        let windows = windows(range, steps, parameter)?;
        let grid = self.over(over, range, &windows)?;
        if over == Over::Quantile {
            let any = |step: usize| grid.rows().any(|(_, cells)| !is_absent(cells[step]));
            self.doubt_quantile(&windows.parameter, &arguments[0], steps, any);
        }
        Ok(grid)
    }

    /// Warns of invalid quantiles, at the steps where this is true.
    pub(super) fn doubt_quantile(
        &self,
        phi: &Column,
        node: &Node,
        steps: Steps,
        counts: impl Fn(usize) -> bool,
    ) {
        let mut known = Vec::new();
        for step in 0..steps.count {
            let value = phi.get(step);
            if (0.0..=1.0).contains(&value)
                || known.contains(&value.to_bits())
                || known.len() > 10
                || !counts(step)
            {
                continue;
            }
            known.push(value.to_bits());
            let sentence =
                format!("quantile value should be between 0 and 1, got {}", print::shortest(value));
            self.notes.borrow_mut().warn(sentence, node.at);
        }
    }

    fn bounded(
        &self,
        function: Function,
        vector: &Node,
        bounds: &[Node],
        steps: Steps,
    ) -> Result<Grid, QueryError> {
        let grid = self.vector(vector, steps)?;
        let mut columns = Vec::new();
        for bound in bounds {
            columns.push(self.scalar(bound, steps)?);
        }
        let bound = |at: usize, step: usize| columns.get(at).map_or(1.0, |column| column.get(step));
        let mut grid = self.mapped(grid, |step, value| match function {
            Function::Round => arithmetic::round(value, bound(0, step)),
            Function::ClampMin => arithmetic::at_least(value, bound(0, step)),
            Function::ClampMax => arithmetic::at_most(value, bound(0, step)),
            _ => arithmetic::clamp(value, bound(0, step), bound(1, step)),
        })?;
        if matches!(function, Function::Clamp) {
            // Where the bounds are in the wrong order, nothing is between them.
            for step in (0..steps.count).filter(|&step| bound(0, step) > bound(1, step)) {
                for series in 0..grid.len() {
                    grid.row_mut(series)[step] = no_value();
                }
            }
            grid.drop_empty()?;
        }
        self.without_names(grid)
    }

    /// When the samples were taken; of what was computed, the time of the step.
    fn timestamp(&self, vector: &Node, steps: Steps) -> Result<Grid, QueryError> {
        let grid = match vector.selector() {
            Some(selector) => self.instants(selector, steps, true)?,
            None => {
                let grid = self.vector(vector, steps)?;
                self.mapped(grid, |step, _| steps.time(step) as f64 / 1000.0)?
            }
        };
        self.without_names(grid)
    }
}
