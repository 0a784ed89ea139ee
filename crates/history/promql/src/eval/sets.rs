//! `and`, `or`, `unless`: which series are there, whatever their values.

use super::Evaluator;
use super::merge::{Merge, same_labels};
use crate::error::QueryError;
use crate::grid::{Grid, absent, is_absent};
use crate::plan::{Binary, Operator};

/// Copies the cells with a value for which the mask is `wanted`.
fn masked(cells: &[f64], mask: &[bool], wanted: bool, to: &mut [f64]) -> bool {
    let mut any = false;
    for ((to, &value), &there) in to.iter_mut().zip(cells).zip(mask) {
        *to = if there == wanted { value } else { absent() };
        any |= !is_absent(*to);
    }
    any
}

/// The steps at which one of these rows has a value.
fn presence(grid: &Grid, rows: &[usize], mask: &mut [bool]) {
    mask.fill(false);
    for &row in rows {
        for (there, value) in mask.iter_mut().zip(grid.row(row)) {
            *there |= !is_absent(*value);
        }
    }
}

impl Evaluator<'_> {
    pub(super) fn of_sets(&self, binary: &Binary, left: &Grid, right: &Grid) -> Result<Grid, QueryError> {
        let mut result = Merge::new(Grid::new(&self.budget, left.steps)?);
        let mut mask = vec![false; left.steps];
        let mut cells = vec![absent(); left.steps];
        for (_, group) in binary.matching.matches(left, right) {
            self.budget.check()?;
            presence(right, &group.one, &mut mask);
            for &row in &group.many {
                let any = match binary.operator {
                    Operator::And => masked(left.row(row), &mask, true, &mut cells),
                    Operator::Unless => masked(left.row(row), &mask, false, &mut cells),
                    _ => {
                        cells.copy_from_slice(left.row(row));
                        true
                    }
                };
                if any && result.put(left.labels[row].clone(), &cells)? {
                    return Err(same_labels());
                }
            }
            if binary.operator != Operator::Or {
                continue;
            }
            presence(left, &group.many, &mut mask);
            for &row in &group.one {
                if masked(right.row(row), &mask, false, &mut cells)
                    && result.put(right.labels[row].clone(), &cells)?
                {
                    return Err(same_labels());
                }
            }
        }
        Ok(result.grid)
    }
}
