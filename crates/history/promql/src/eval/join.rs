//! Operators between series: series with the same matching labels belong together. The pairs are found once, and not at each step.

use std::collections::HashMap;

use super::Evaluator;
use super::merge::{Merge, same_labels};
use crate::error::QueryError;
use crate::grid::{Grid, absent, is_absent};
use crate::labels::LabelSet;
use crate::plan::{Binary, Many, Matching};
use crate::print;

/// The rows of both sides with the same matching labels.
#[derive(Default)]
pub(super) struct Match {
    /// Rows of the side that may have many.
    pub(super) many: Vec<usize>,
    /// Rows of the other side.
    pub(super) one: Vec<usize>,
}

impl Matching {
    /// The labels of a series that must be the same on both sides.
    pub(super) fn signature(&self, labels: &LabelSet) -> LabelSet {
        if self.on { labels.only(&self.labels) } else { labels.unnamed().without(&self.labels) }
    }

    /// All matches, in the order of the rows of `many`.
    pub(super) fn matches(&self, many: &Grid, one: &Grid) -> Vec<(LabelSet, Match)> {
        let mut all: Vec<(LabelSet, Match)> = Vec::new();
        let mut known: HashMap<LabelSet, usize> = HashMap::new();
        let mut place = |labels: &LabelSet, all: &mut Vec<(LabelSet, Match)>| {
            let signature = self.signature(labels);
            *known.entry(signature).or_insert_with_key(|signature| {
                all.push((signature.clone(), Match::default()));
                all.len() - 1
            })
        };
        for (row, labels) in many.labels.iter().enumerate() {
            let at = place(labels, &mut all);
            all[at].1.many.push(row);
        }
        for (row, labels) in one.labels.iter().enumerate() {
            let at = place(labels, &mut all);
            all[at].1.one.push(row);
        }
        all
    }
}

/// Steps at which any row has a value.
fn occupied(grid: &Grid) -> Vec<bool> {
    let mut steps = vec![false; grid.steps];
    for (_, cells) in grid.rows() {
        for (step, value) in steps.iter_mut().zip(cells) {
            *step |= !is_absent(*value);
        }
    }
    steps
}

impl Evaluator<'_> {
    pub(super) fn joined(&self, binary: &Binary, left: &Grid, right: &Grid) -> Result<Grid, QueryError> {
        let matching = &binary.matching;
        let swapped = matching.many == Many::Right;
        let (many, one) = if swapped { (right, left) } else { (left, right) };
        let matches = matching.matches(many, one);
        self.refuse_many_to_many(&matches, many, one, swapped)?;
        let mut result = Merge::new(Grid::new(&self.budget, left.steps)?);
        let mut cells = vec![absent(); left.steps];
        for (_, group) in &matches {
            let mut met = Met::new(matching, group);
            for &row in &group.many {
                for &partner in &group.one {
                    self.budget.check()?;
                    let labels = result_labels(binary, &many.labels[row], &one.labels[partner]);
                    met.note(&labels, many.row(row), one.row(partner))?;
                    if combine(binary, many.row(row), one.row(partner), swapped, &mut cells)
                        && result.put(labels, &cells)?
                    {
                        return Err(same_labels());
                    }
                }
            }
        }
        Ok(result.grid)
    }

    /// Fails if, at a step, the side with at most one series has two with the same matching labels.
    fn refuse_many_to_many(
        &self,
        matches: &[(LabelSet, Match)],
        many: &Grid,
        one: &Grid,
        swapped: bool,
    ) -> Result<(), QueryError> {
        if matches.iter().all(|(_, group)| group.one.len() < 2) {
            return Ok(());
        }
        // As in Prometheus: without any series on the other side nothing is joined, and nothing is wrong.
        let joins = occupied(many);
        let mut first: Vec<Option<usize>> = vec![None; one.steps];
        for (signature, group) in matches.iter().filter(|(_, group)| group.one.len() > 1) {
            first.fill(None);
            for &row in &group.one {
                self.budget.check()?;
                for (step, value) in one.row(row).iter().enumerate() {
                    if is_absent(*value) || !joins[step] {
                        continue;
                    }
                    let Some(before) = first[step].replace(row) else { continue };
                    let mut both =
                        [print::label_text(&one.labels[before]), print::label_text(&one.labels[row])];
                    both.sort();
                    return Err(QueryError::Execution(format!(
                        "found duplicate series for the match group {} on the {} hand-side of the operation: [{}, \
                         {}];many-to-many matching not allowed: matching labels must be unique on one side",
                        print::label_text(signature),
                        if swapped { "left" } else { "right" },
                        both[0],
                        both[1],
                    )));
                }
            }
        }
        Ok(())
    }
}

/// Writes what the operator gives for two rows; false if it gives nothing.
fn combine(binary: &Binary, many: &[f64], one: &[f64], swapped: bool, cells: &mut [f64]) -> bool {
    let mut any = false;
    for ((cell, &many), &one) in cells.iter_mut().zip(many).zip(one) {
        *cell = absent();
        if is_absent(many) || is_absent(one) {
            continue;
        }
        let (left, right) = if swapped { (one, many) } else { (many, one) };
        let value = binary.operator.apply(left, right);
        if binary.bool {
            *cell = f64::from(u8::from(value.is_some()));
        } else if let Some(value) = value {
            *cell = value;
        }
        any |= !is_absent(*cell);
    }
    any
}

/// At which steps series have met, where several of the same matching labels could have met the same one. Whether a
/// comparison then holds does not matter, as in Prometheus.
struct Met {
    /// Nothing can go wrong in this group.
    safe: bool,
    /// Each series may meet only one, rather than one for each result.
    one_to_one: bool,
    steps: HashMap<LabelSet, Vec<bool>>,
}

impl Met {
    fn new(matching: &Matching, group: &Match) -> Self {
        Met { safe: group.many.len() < 2, one_to_one: matching.many == Many::Neither, steps: HashMap::new() }
    }

    /// Two series, which give a result of these labels.
    fn note(&mut self, labels: &LabelSet, many: &[f64], one: &[f64]) -> Result<(), QueryError> {
        if self.safe {
            return Ok(());
        }
        let key = if self.one_to_one { LabelSet::default() } else { labels.clone() };
        let steps = self.steps.entry(key).or_insert_with(|| vec![false; many.len()]);
        for ((met, &many), &one) in steps.iter_mut().zip(many).zip(one) {
            if !is_absent(many) && !is_absent(one) && std::mem::replace(met, true) {
                return Err(QueryError::Execution(String::from(if self.one_to_one {
                    "multiple matches for labels: many-to-one matching must be explicit (group_left/group_right)"
                } else {
                    "multiple matches for labels: grouping labels must ensure unique matches"
                })));
            }
        }
        Ok(())
    }
}

/// The labels of the result of two series.
fn result_labels(binary: &Binary, many: &LabelSet, one: &LabelSet) -> LabelSet {
    let matching = &binary.matching;
    let mut labels = many.clone();
    if !binary.operator.compares() || binary.bool {
        labels = labels.unnamed();
    }
    if matching.many == Many::Neither {
        let names = &matching.labels;
        labels = if matching.on { labels.only(names) } else { labels.without(names) };
    }
    for name in &matching.include {
        labels = labels.with(name, one.get(name));
    }
    labels
}
