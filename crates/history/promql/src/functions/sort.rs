//! The order of an answer.

use std::cmp::Ordering;

use crate::error::QueryError;
use crate::grid::{Grid, is_absent};

/// The order of values, NaN last; descending too.
pub(crate) fn compare(one: f64, two: f64, descending: bool) -> Ordering {
    match (one.is_nan(), two.is_nan()) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Greater,
        (false, true) => Ordering::Less,
        _ => {
            let order = one.partial_cmp(&two).unwrap_or(Ordering::Equal);
            if descending { order.reverse() } else { order }
        }
    }
}

/// The rows by their value. Over a range there is no such order, and the grid is the same.
pub(crate) fn sorted(mut grid: Grid, descending: bool) -> Result<Grid, QueryError> {
    if grid.steps > 1 {
        return Ok(grid);
    }
    let key = |grid: &Grid, series: usize| grid.row(series)[0];
    let mut order: Vec<usize> = (0..grid.len()).filter(|&series| !is_absent(key(&grid, series))).collect();
    order.sort_by(|&one, &two| compare(key(&grid, one), key(&grid, two), descending));
    let labels = order.iter().map(|&series| grid.labels[series].clone()).collect();
    let cells = order.iter().flat_map(|&series| grid.row(series).iter().copied()).collect();
    grid.labels = labels;
    grid.cells = cells;
    grid.sorted = true;
    Ok(grid)
}
