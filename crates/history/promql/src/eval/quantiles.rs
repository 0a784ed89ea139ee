//! Functions of classic histograms: series with the label `le` are the buckets of one histogram.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::{Column, Evaluator};
use crate::annotations::Forced;
use crate::error::QueryError;
use crate::functions::histogram::{Bucket, fraction, quantile};
use crate::grid::{Grid, is_absent};
use crate::labels::{LabelSet, METRIC_NAME};
use crate::plan::Node;
use crate::print;
use crate::steps::Steps;

/// The label with the upper bound of a bucket.
const BOUND: &str = "le";

/// A histogram: its rows in the grid, with their bounds.
struct Histogram {
    labels: LabelSet,
    rows: Vec<(usize, f64)>,
}

/// The bound of a bucket, as it is written.
fn bound(text: &str) -> Option<f64> {
    let bound: f64 = match text {
        "+Inf" => f64::INFINITY,
        _ => text.parse().ok()?,
    };
    (!bound.is_nan()).then_some(bound)
}

impl Evaluator<'_> {
    /// The end of a sentence about a histogram.
    fn metric(&self, labels: &LabelSet) -> String {
        match labels.get(METRIC_NAME) {
            name if self.names_histograms && !name.is_empty() => {
                format!(" for metric name {}", print::quoted(name))
            }
            _ => String::new(),
        }
    }

    fn histograms(&self, grid: &Grid, node: &Node) -> Vec<Histogram> {
        let mut all: Vec<Histogram> = Vec::new();
        let mut known: HashMap<LabelSet, usize> = HashMap::new();
        for (row, labels) in grid.labels.iter().enumerate() {
            let written = labels.get(BOUND);
            let Some(upper) = bound(written) else {
                let of = self.metric(labels);
                let sentence = format!(
                    "bucket label \"le\" is missing or has a malformed value of {}{of}",
                    print::quoted(written)
                );
                self.notes.borrow_mut().warn(sentence, node.at);
                continue;
            };
            let at = match known.entry(labels.without(&[BOUND])) {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(free) => {
                    all.push(Histogram { labels: free.key().clone(), rows: Vec::new() });
                    *free.insert(all.len() - 1)
                }
            };
            all[at].rows.push((row, upper));
        }
        all
    }

    /// One row for each histogram, computed from its buckets at each step.
    fn of_histograms(
        &self,
        vector: &Node,
        steps: Steps,
        with: impl Fn(usize, &mut Vec<Bucket>, &Histogram) -> f64,
    ) -> Result<Grid, QueryError> {
        let grid = self.vector(vector, steps)?;
        let mut result = Grid::new(&self.budget, steps.count)?;
        let mut buckets = Vec::new();
        for histogram in self.histograms(&grid, vector) {
            self.budget.check()?;
            let to = result.add(histogram.labels.clone())?;
            for step in 0..steps.count {
                buckets.clear();
                for &(row, upper) in &histogram.rows {
                    let count = grid.row(row)[step];
                    if !is_absent(count) {
                        buckets.push(Bucket { upper, count });
                    }
                }
                if !buckets.is_empty() {
                    result.row_mut(to)[step] = with(step, &mut buckets, &histogram);
                }
            }
        }
        self.without_names(result)
    }

    pub(super) fn histogram_quantile(
        &self,
        phi: &Node,
        vector: &Node,
        steps: Steps,
    ) -> Result<Grid, QueryError> {
        let phis = self.scalar(phi, steps)?;
        let grid = self.of_histograms(vector, steps, |step, buckets, histogram| {
            let (value, changed) = quantile(phis.get(step), buckets);
            if let Some(changed) = changed {
                let time = steps.time(step);
                let forced = Forced {
                    at: vector.at,
                    times: (time, time),
                    buckets: (changed.lowest, changed.highest),
                    difference: changed.difference,
                    count: 1,
                };
                self.notes.borrow_mut().forced(&self.metric(&histogram.labels), forced);
            }
            value
        })?;
        self.doubt_quantile(&phis, phi, steps, |_| true);
        Ok(grid)
    }

    pub(super) fn histogram_fraction(
        &self,
        lower: &Node,
        upper: &Node,
        vector: &Node,
        steps: Steps,
    ) -> Result<Grid, QueryError> {
        let (lower, upper): (Column, Column) = (self.scalar(lower, steps)?, self.scalar(upper, steps)?);
        self.of_histograms(vector, steps, |step, buckets, _| {
            fraction(lower.get(step), upper.get(step), buckets)
        })
    }
}
