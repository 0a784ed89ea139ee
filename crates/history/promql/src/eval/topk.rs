//! `topk` and `bottomk`: the series of each group with the highest or lowest values, at each step.

use std::cmp::Ordering;

use super::{Column, Evaluator};
use crate::error::QueryError;
use crate::functions::sort::compare;
use crate::grid::{Grid, is_absent};
use crate::plan::Grouping;

/// The best values of a group at a step, as a heap: the worst of them is first.
struct Best {
    limit: usize,
    rows: Vec<(f64, usize)>,
}

/// Larger than any number of series that Prometheus counts.
const BEYOND: f64 = 9_223_372_036_854_775_807.0;

impl Best {
    /// Which of two entries is better. Of equal values, the earlier one wins.
    fn order(one: &(f64, usize), two: &(f64, usize), highest: bool) -> Ordering {
        compare(one.0, two.0, highest).then(one.1.cmp(&two.1))
    }

    fn offer(&mut self, value: f64, row: usize, highest: bool) {
        if self.limit == 0 {
            return;
        }
        if self.rows.len() == self.limit {
            if compare(value, self.rows[0].0, highest) != Ordering::Less {
                return;
            }
            self.rows[0] = (value, row);
            self.sink(highest);
            return;
        }
        self.rows.push((value, row));
        let mut at = self.rows.len() - 1;
        while at > 0 {
            let above = (at - 1) / 2;
            if Self::order(&self.rows[at], &self.rows[above], highest) != Ordering::Greater {
                break;
            }
            self.rows.swap(at, above);
            at = above;
        }
    }

    /// Moves the first entry down to its place.
    fn sink(&mut self, highest: bool) {
        let mut at = 0;
        loop {
            let mut worst = at;
            for below in [2 * at + 1, 2 * at + 2] {
                if below < self.rows.len()
                    && Self::order(&self.rows[below], &self.rows[worst], highest) == Ordering::Greater
                {
                    worst = below;
                }
            }
            if worst == at {
                return;
            }
            self.rows.swap(at, worst);
            at = worst;
        }
    }
}

/// How many are wanted at each step, at most as many as there are.
fn limits(k: &Column, steps: usize, series: usize) -> Result<Option<Vec<usize>>, QueryError> {
    let all = || (0..steps).map(|step| k.get(step));
    // As in Prometheus: if no step wants anything, nothing is wrong.
    let wrong = |problem: String| Err(QueryError::Execution(problem));
    if all().any(f64::is_nan) {
        return wrong(String::from("Parameter value is NaN"));
    }
    if all().all(|k| k < 1.0) {
        return Ok(None);
    }
    if let Some(low) = all().find(|&k| k <= -BEYOND) {
        return wrong(format!("Scalar value {} underflows int64", crate::print::shortest(low)));
    }
    if let Some(high) = all().find(|&k| k >= BEYOND) {
        return wrong(format!("Scalar value {} overflows int64", crate::print::shortest(high)));
    }
    Ok(Some(all().map(|k| (k.max(0.0) as usize).min(series)).collect()))
}

impl Evaluator<'_> {
    pub(super) fn extremes(
        &self,
        grouping: &Grouping,
        grid: &Grid,
        k: &Column,
        highest: bool,
    ) -> Result<Grid, QueryError> {
        let mut result = Grid::new(&self.budget, grid.steps)?;
        let Some(limits) = limits(k, grid.steps, grid.len())? else { return Ok(result) };
        let groups = grouping.groups(grid);
        let mut sizes = vec![0_usize; groups.labels.len()];
        for &group in &groups.of {
            sizes[group] += 1;
        }
        let kept: usize =
            sizes.iter().map(|&size| limits.iter().map(|&limit| limit.min(size)).sum::<usize>()).sum();
        let _held = self.budget.hold(kept * 32 + sizes.len() * grid.steps * size_of::<Best>())?;
        let mut best: Vec<Best> = sizes
            .iter()
            .flat_map(|&size| {
                limits.iter().map(move |&limit| Best { limit: limit.min(size), rows: Vec::new() })
            })
            .collect();
        for (row, group) in groups.of.iter().enumerate() {
            self.budget.check()?;
            let best = &mut best[group * grid.steps..(group + 1) * grid.steps];
            for (best, &value) in best.iter_mut().zip(grid.row(row)) {
                if !is_absent(value) {
                    best.offer(value, row, highest);
                }
            }
        }
        // A row of the result for each series that was among the best at any step; at one step, the best first.
        let mut rows: Vec<Option<usize>> = vec![None; grid.len()];
        for (at, best) in best.iter_mut().enumerate() {
            let step = at % grid.steps;
            best.rows.sort_by(|one, two| Best::order(one, two, highest));
            for &(value, row) in &best.rows {
                let to = match rows[row] {
                    Some(to) => to,
                    None => *rows[row].insert(result.add(grid.labels[row].clone())?),
                };
                result.row_mut(to)[step] = value;
            }
        }
        result.sorted = true;
        Ok(result)
    }
}
