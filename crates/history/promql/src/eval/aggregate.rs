//! Aggregations: the series of a group become one. Groups are formed once, not at each step.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::merge::Merge;
use super::{Column, Evaluator};
use crate::error::QueryError;
use crate::fold::{Count, Fold, Highest, Lowest, Mean, Present, Spread, Sum, Window, quantile};
use crate::grid::{Grid, is_absent};
use crate::labels::LabelSet;
use crate::plan::{Aggregate, Aggregator, Grouping, Kind, Node};
use crate::print;
use crate::steps::Steps;
use crate::text::is_label_name;

/// The groups of the rows of a grid.
pub(super) struct Groups {
    /// The labels of each group.
    pub(super) labels: Vec<LabelSet>,
    /// The group of each row.
    pub(super) of: Vec<usize>,
}

impl Grouping {
    /// The labels of the group of a series.
    fn group(&self, labels: &LabelSet) -> LabelSet {
        if self.without { labels.unnamed().without(&self.labels) } else { labels.only(&self.labels) }
    }

    pub(super) fn groups(&self, grid: &Grid) -> Groups {
        let mut all = Groups { labels: Vec::new(), of: Vec::with_capacity(grid.len()) };
        let mut known: HashMap<LabelSet, usize> = HashMap::new();
        for labels in &grid.labels {
            let group = match known.entry(self.group(labels)) {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(free) => {
                    all.labels.push(free.key().clone());
                    *free.insert(all.labels.len() - 1)
                }
            };
            all.of.push(group);
        }
        all
    }
}

/// Aggregations have no range.
const NO_WINDOW: Window = Window { time: 0, after: 0, end: 0, parameter: 0.0 };

impl Evaluator<'_> {
    pub(super) fn aggregate(&self, aggregate: &Aggregate, steps: Steps) -> Result<Grid, QueryError> {
        let grouping = &aggregate.grouping;
        let parameter = match &aggregate.parameter {
            Some(node) if aggregate.aggregator != Aggregator::CountValues => {
                Some((self.scalar(node, steps)?, node))
            }
            _ => None,
        };
        let grid = self.vector(&aggregate.operand, steps)?;
        match (aggregate.aggregator, parameter) {
            (Aggregator::Sum, _) => self.grouped::<Sum>(grouping, &grid),
            (Aggregator::Avg, _) => self.grouped::<Mean>(grouping, &grid),
            (Aggregator::Min, _) => self.grouped::<Lowest>(grouping, &grid),
            (Aggregator::Max, _) => self.grouped::<Highest>(grouping, &grid),
            (Aggregator::Count, _) => self.grouped::<Count>(grouping, &grid),
            (Aggregator::Group, _) => self.grouped::<Present>(grouping, &grid),
            (Aggregator::Stdvar, _) => self.grouped::<Spread>(grouping, &grid),
            (Aggregator::Stddev, _) => {
                let variances = self.grouped::<Spread>(grouping, &grid)?;
                self.mapped(variances, |_, value| value.sqrt())
            }
            (Aggregator::Quantile, Some((phi, node))) => {
                self.group_quantile(grouping, &grid, &phi, node, steps)
            }
            (Aggregator::Topk, Some((k, _))) => self.extremes(grouping, &grid, &k, true),
            (Aggregator::Bottomk, Some((k, _))) => self.extremes(grouping, &grid, &k, false),
            _ => self.count_values(aggregate, &grid),
        }
    }

    /// One row for each group, folded from the values of its series at each step.
    fn grouped<F: Fold>(&self, grouping: &Grouping, grid: &Grid) -> Result<Grid, QueryError> {
        let groups = grouping.groups(grid);
        let _held = self.budget.hold(groups.labels.len() * grid.steps * size_of::<F>())?;
        let mut states: Vec<F> =
            (0..groups.labels.len() * grid.steps).map(|_| F::begin(&NO_WINDOW)).collect();
        for (row, group) in groups.of.iter().enumerate() {
            self.budget.check()?;
            let states = &mut states[group * grid.steps..(group + 1) * grid.steps];
            for (state, value) in states.iter_mut().zip(grid.row(row)) {
                if !is_absent(*value) {
                    state.push(&[0], std::slice::from_ref(value));
                }
            }
        }
        let mut result = Grid::new(&self.budget, grid.steps)?;
        for (labels, states) in groups.labels.into_iter().zip(states.chunks_exact_mut(grid.steps)) {
            let row = result.add(labels)?;
            for (cell, state) in result.row_mut(row).iter_mut().zip(states) {
                if let Some(value) = state.end(&NO_WINDOW) {
                    *cell = value;
                }
            }
        }
        Ok(result)
    }

    fn group_quantile(
        &self,
        grouping: &Grouping,
        grid: &Grid,
        phi: &Column,
        node: &Node,
        steps: Steps,
    ) -> Result<Grid, QueryError> {
        self.doubt_quantile(phi, node, steps, |_| true);
        let groups = grouping.groups(grid);
        let mut members: Vec<Vec<usize>> = vec![Vec::new(); groups.labels.len()];
        for (row, &group) in groups.of.iter().enumerate() {
            members[group].push(row);
        }
        let mut result = Grid::new(&self.budget, grid.steps)?;
        let mut values = Vec::new();
        for (labels, members) in groups.labels.into_iter().zip(members) {
            let row = result.add(labels)?;
            for step in 0..grid.steps {
                self.budget.check()?;
                values.clear();
                values.extend(
                    members.iter().map(|&row| grid.row(row)[step]).filter(|&value| !is_absent(value)),
                );
                if !values.is_empty() {
                    result.row_mut(row)[step] = quantile(phi.get(step), &mut values);
                }
            }
        }
        Ok(result)
    }

    /// How many series of each group have each value.
    fn count_values(&self, aggregate: &Aggregate, grid: &Grid) -> Result<Grid, QueryError> {
        let label = match aggregate.parameter.as_ref().map(|node| &node.kind) {
            Some(Kind::Text(label)) if is_label_name(label) => label,
            other => {
                let label = if let Some(Kind::Text(label)) = other { label } else { "" };
                return Err(QueryError::Execution(format!("invalid label name {}", print::quoted(label))));
            }
        };
        let groups = aggregate.grouping.groups(grid);
        let mut merge = Merge::new(Grid::new(&self.budget, grid.steps)?);
        let mut rows: HashMap<(usize, u64), usize> = HashMap::new();
        for (series, &group) in groups.of.iter().enumerate() {
            self.budget.check()?;
            for (step, &value) in grid.row(series).iter().enumerate() {
                if is_absent(value) {
                    continue;
                }
                // All NaNs are one value.
                let bits = if value.is_nan() { f64::NAN.to_bits() } else { value.to_bits() };
                let row = match rows.entry((group, bits)) {
                    Entry::Occupied(known) => *known.get(),
                    Entry::Vacant(free) => {
                        *free.insert(merge.row(groups.labels[group].with(label, &print::plain(value)))?)
                    }
                };
                let cell = &mut merge.grid.row_mut(row)[step];
                *cell = if is_absent(*cell) { 1.0 } else { *cell + 1.0 };
            }
        }
        Ok(merge.grid)
    }
}
