//! Series that have become equal in their labels: their rows are merged, if no step has a value in two of them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::Evaluator;
use crate::error::QueryError;
use crate::grid::{Grid, is_absent};
use crate::labels::LabelSet;

/// Series between two looks at the clock.
const CHECKED_SERIES: usize = 256;

/// Collects rows by their labels.
pub(super) struct Merge {
    pub(super) grid: Grid,
    rows: HashMap<LabelSet, usize>,
}

/// Prometheus' error for a vector with two samples of the same labels.
pub(super) fn same_labels() -> QueryError {
    QueryError::Execution(String::from("vector cannot contain metrics with the same labelset"))
}

impl Merge {
    pub(super) fn new(grid: Grid) -> Self {
        Merge { grid, rows: HashMap::new() }
    }

    /// The row of these labels.
    pub(super) fn row(&mut self, labels: LabelSet) -> Result<usize, QueryError> {
        Ok(match self.rows.entry(labels) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(free) => {
                let row = self.grid.add(free.key().clone())?;
                *free.insert(row)
            }
        })
    }

    /// Adds a row; true if a step has a value already.
    pub(super) fn put(&mut self, labels: LabelSet, cells: &[f64]) -> Result<bool, QueryError> {
        let row = self.row(labels)?;
        let mut twice = false;
        for (cell, &value) in self.grid.row_mut(row).iter_mut().zip(cells) {
            if !is_absent(value) {
                twice |= !is_absent(*cell);
                *cell = value;
            }
        }
        Ok(twice)
    }
}

impl Evaluator<'_> {
    /// The same with other values; what is absent stays absent.
    pub(super) fn mapped(
        &self,
        mut grid: Grid,
        with: impl Fn(usize, f64) -> f64,
    ) -> Result<Grid, QueryError> {
        for series in 0..grid.len() {
            self.budget.check()?;
            for (step, cell) in grid.row_mut(series).iter_mut().enumerate() {
                if !is_absent(*cell) {
                    *cell = with(step, *cell);
                }
            }
        }
        Ok(grid)
    }

    /// The series under other labels. Fails if two of them then have a value at the same step.
    pub(super) fn relabelled(
        &self,
        mut grid: Grid,
        labels: impl Fn(&LabelSet) -> Result<LabelSet, QueryError>,
    ) -> Result<Grid, QueryError> {
        let mut known: HashMap<LabelSet, usize> = HashMap::with_capacity(grid.len());
        let mut twice = false;
        // Labels that grow are memory, too.
        let (mut made, mut held) = (0, self.budget.hold(0)?);
        for series in 0..grid.len() {
            let new = labels(&grid.labels[series])?;
            if series % CHECKED_SERIES == 0 {
                self.budget.check()?;
            }
            made += new.bytes().saturating_sub(grid.labels[series].bytes());
            held.set(made)?;
            twice |= known.insert(new.clone(), series).is_some();
            grid.labels[series] = new;
        }
        if !twice {
            grid.hold(held)?;
            return Ok(grid);
        }
        let mut merge = Merge::new(Grid::new(&self.budget, grid.steps)?);
        merge.grid.sorted = grid.sorted;
        for (labels, cells) in grid.rows() {
            if merge.put(labels.clone(), cells)? {
                return Err(same_labels());
            }
        }
        merge.grid.hold(held)?;
        Ok(merge.grid)
    }

    /// The series without their names.
    pub(super) fn without_names(&self, grid: Grid) -> Result<Grid, QueryError> {
        self.relabelled(grid, |labels| Ok(labels.unnamed()))
    }
}
