//! The result of `absent` and `absent_over_time`: one series if the argument has none.

use crate::error::QueryError;
use crate::grid::{Grid, absent, is_absent};
use crate::labels::{LabelSet, METADATA};
use crate::matcher::Operator;
use crate::plan::{Kind, Node};

/// The labels of that series: those for which a plain selector requires one value.
pub(crate) fn labels(argument: &Node) -> LabelSet {
    let matchers = match &argument.kind {
        _ if argument.wrapped => return LabelSet::default(),
        Kind::Selector(selector) | Kind::Range(selector, _) => &selector.matchers,
        _ => return LabelSet::default(),
    };
    let named = |name: &str| matchers.iter().filter(|matcher| matcher.name == name).count();
    LabelSet::new(
        matchers
            .iter()
            .filter(|matcher| matches!(matcher.operator, Operator::Equal))
            .filter(|matcher| !METADATA.contains(&matcher.name.as_str()) && named(&matcher.name) == 1)
            .map(|matcher| (matcher.name.as_str(), matcher.value.as_str())),
    )
}

/// One row: 1 at each step where no series has a value. `to` is empty.
pub(crate) fn absences(argument: &Grid, labels: LabelSet, mut to: Grid) -> Result<Grid, QueryError> {
    let series = to.add(labels)?;
    let row = to.row_mut(series);
    row.fill(1.0);
    for (_, cells) in argument.rows() {
        for (cell, value) in row.iter_mut().zip(cells) {
            if !is_absent(*value) {
                *cell = absent();
            }
        }
    }
    to.drop_empty()?;
    Ok(to)
}
