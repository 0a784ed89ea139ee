//! Operators between numbers, and between numbers and series. [`super::join`] and [`super::sets`] have those between
//! series.

use super::{Column, Evaluator, Operand, broken};
use crate::error::QueryError;
use crate::grid::{Grid, absent, is_absent};
use crate::plan::{Binary, Gives};
use crate::steps::Steps;

fn number(holds: Option<f64>) -> f64 {
    f64::from(u8::from(holds.is_some()))
}

impl Evaluator<'_> {
    pub(super) fn binary(&self, binary: &Binary, steps: Steps) -> Result<Operand, QueryError> {
        match (binary.left.gives, binary.right.gives) {
            (Gives::Scalar, Gives::Scalar) => self.of_scalars(binary, steps),
            (Gives::Vector, Gives::Scalar) => {
                let grid = self.vector(&binary.left, steps)?;
                let column = self.scalar(&binary.right, steps)?;
                Ok(Operand::Vector(self.with_scalar(binary, grid, &column, false)?))
            }
            (Gives::Scalar, Gives::Vector) => {
                let column = self.scalar(&binary.left, steps)?;
                let grid = self.vector(&binary.right, steps)?;
                Ok(Operand::Vector(self.with_scalar(binary, grid, &column, true)?))
            }
            (Gives::Vector, Gives::Vector) => {
                let left = self.vector(&binary.left, steps)?;
                let right = self.vector(&binary.right, steps)?;
                Ok(Operand::Vector(if binary.operator.is_of_sets() {
                    self.of_sets(binary, &left, &right)?
                } else {
                    self.joined(binary, &left, &right)?
                }))
            }
            _ => Err(broken("an operator between ranges or texts")),
        }
    }

    fn of_scalars(&self, binary: &Binary, steps: Steps) -> Result<Operand, QueryError> {
        let (left, right) = (self.scalar(&binary.left, steps)?, self.scalar(&binary.right, steps)?);
        let result = |step: usize| {
            let value = binary.operator.apply(left.get(step), right.get(step));
            if binary.operator.compares() { number(value) } else { value.unwrap_or(f64::NAN) }
        };
        Ok(Operand::Scalar(match (&left, &right) {
            (Column::Constant(_), Column::Constant(_)) => Column::Constant(result(0)),
            _ => self.column(steps, result)?,
        }))
    }

    /// Each value with a number; `first`: the number is the left operand.
    fn with_scalar(
        &self,
        binary: &Binary,
        mut grid: Grid,
        column: &Column,
        first: bool,
    ) -> Result<Grid, QueryError> {
        for series in 0..grid.len() {
            self.budget.check()?;
            for (step, cell) in grid.row_mut(series).iter_mut().enumerate() {
                if is_absent(*cell) {
                    continue;
                }
                let (value, other) = (*cell, column.get(step));
                let (left, right) = if first { (other, value) } else { (value, other) };
                let result = binary.operator.apply(left, right);
                *cell = if !binary.operator.compares() {
                    result.unwrap_or(f64::NAN)
                } else if binary.bool {
                    number(result)
                } else if result.is_some() {
                    // A comparison keeps the value of the series, whatever side it is on.
                    value
                } else {
                    absent()
                };
            }
        }
        grid.drop_empty()?;
        if binary.operator.compares() && !binary.bool {
            return Ok(grid);
        }
        self.without_names(grid)
    }
}
