//! Series as rows of equal length, one cell per step: the values that expressions exchange.

use std::rc::Rc;

use crate::budget::{Budget, Held};
use crate::error::QueryError;
use crate::labels::LabelSet;
use crate::source::{is_stale, stale};

/// The memory of a series beside its cells: its labels, and its places in tables.
pub(crate) const SERIES_BYTES: usize = 128;

/// The memory of a row of cells, with its series.
fn row_bytes(steps: usize) -> usize {
    steps.saturating_mul(size_of::<f64>()).saturating_add(SERIES_BYTES)
}

/// A cell without a value. No value of a sample and no result of arithmetic has these bits: stale samples end a series
/// before anything is computed, and arithmetic gives quiet NaNs.
pub(crate) fn absent() -> f64 {
    stale()
}

/// True for such a cell.
pub(crate) fn is_absent(value: f64) -> bool {
    is_stale(value)
}

/// Rows of cells.
#[derive(Debug)]
pub(crate) struct Grid {
    pub(crate) labels: Vec<LabelSet>,
    /// Row after row.
    pub(crate) cells: Vec<f64>,
    pub(crate) steps: usize,
    /// The order of the rows is that of the answer.
    pub(crate) sorted: bool,
    held: Held,
}

impl Grid {
    /// No series yet.
    pub(crate) fn new(budget: &Rc<Budget>, steps: usize) -> Result<Self, QueryError> {
        Ok(Grid { labels: Vec::new(), cells: Vec::new(), steps, sorted: false, held: budget.hold(0)? })
    }

    /// Adds a series without values; returns its number.
    pub(crate) fn add(&mut self, labels: LabelSet) -> Result<usize, QueryError> {
        self.held.grow(row_bytes(self.steps))?;
        self.labels.push(labels);
        self.cells.resize(self.cells.len() + self.steps, absent());
        Ok(self.labels.len() - 1)
    }

    /// Holds further bytes as long as the grid is there.
    pub(crate) fn hold(&mut self, further: Held) -> Result<(), QueryError> {
        let bytes = further.bytes();
        drop(further);
        self.held.grow(bytes)
    }

    /// How many series there are.
    pub(crate) fn len(&self) -> usize {
        self.labels.len()
    }

    pub(crate) fn row(&self, series: usize) -> &[f64] {
        &self.cells[series * self.steps..(series + 1) * self.steps]
    }

    pub(crate) fn row_mut(&mut self, series: usize) -> &mut [f64] {
        &mut self.cells[series * self.steps..(series + 1) * self.steps]
    }

    /// Labels and cells, series by series.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (&LabelSet, &[f64])> {
        self.labels.iter().zip(self.cells.chunks_exact(self.steps))
    }

    /// Removes series that have no value at any step.
    pub(crate) fn drop_empty(&mut self) -> Result<(), QueryError> {
        let steps = self.steps;
        let mut kept = 0;
        for series in 0..self.labels.len() {
            if self.row(series).iter().all(|&value| is_absent(value)) {
                continue;
            }
            if kept != series {
                self.labels.swap(kept, series);
                self.cells.copy_within(series * steps..(series + 1) * steps, kept * steps);
            }
            kept += 1;
        }
        let removed = self.labels.len() - kept;
        self.labels.truncate(kept);
        self.cells.truncate(kept * steps);
        self.held.shrink(removed * row_bytes(steps));
        Ok(())
    }

    /// One row for every step, where there was one step.
    pub(crate) fn repeated(self, budget: &Rc<Budget>, steps: usize) -> Result<Self, QueryError> {
        if steps == self.steps {
            return Ok(self);
        }
        let mut wide = Grid::new(budget, steps)?;
        wide.sorted = self.sorted;
        for (labels, cells) in self.rows() {
            let series = wide.add(labels.clone())?;
            wide.row_mut(series).fill(cells[0]);
        }
        Ok(wide)
    }
}
