//! The rows of a series before those of a selection. A selection may begin with a node's last row, which does not show how often the
//! node sends; the rows before it do. So where a series ends does not depend on how far a query looks back.

use std::collections::HashMap;

use khz_model::metric::Text;
use khz_model::{Instance, NodeName, Pattern, RANGE_STEP_READINGS, RangeShape};
use khz_promql::QueryError;

use crate::chosen::Chosen;
use crate::clock::milliseconds;
use crate::limits::{HISTORY_ASKED_MAX, HISTORY_ENOUGH, HISTORY_KEPT, HISTORY_SPANS, HISTORY_SPANS_OF_ALL};
use crate::rows::Group;
use crate::source::{PastSource, span};

/// A series of a node; without a name, the node's rows.
type Key = (NodeName, Text, Option<Instance>);
/// Times of rows (ms), in order.
type Times = HashMap<Key, Vec<i64>>;

/// The nodes whose rows are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// Those of each series.
    Series,
    /// Those of each node.
    Nodes,
}

/// The rows before a selection. A few series are asked for one by one, the shortest time first; where there are more, all that the
/// selection can mean are asked for at once.
pub(crate) struct History<'a> {
    source: &'a PastSource,
    chosen: &'a Chosen,
    whose: Whose,
    /// The selection begins after this time (ms).
    after: i64,
    asked: usize,
    /// The rows of all nodes for each span, once they were asked for.
    all: [Option<Times>; HISTORY_SPANS_OF_ALL.len()],
}

impl<'a> History<'a> {
    /// That before a selection of these.
    pub fn new(source: &'a PastSource, chosen: &'a Chosen, whose: Whose, after: i64) -> Self {
        History { source, chosen, whose, after, asked: 0, all: Default::default() }
    }

    /// The last rows (ms) of a series before its first one in the selection.
    pub fn of_series(
        &mut self,
        (node, metric, instance): (&NodeName, &Text, Option<&Instance>),
        first: i64,
    ) -> Result<Vec<i64>, QueryError> {
        let key = (node.clone(), metric.clone(), instance.cloned());
        let patterns = self.chosen.of_series(std::slice::from_ref(node), metric, instance);
        self.rows(&key, &patterns, first)
    }

    /// The last rows (ms) of a node before its first one in the selection.
    pub fn of_node(&mut self, node: &NodeName, first: i64) -> Result<Vec<i64>, QueryError> {
        let patterns = self.chosen.of_nodes(std::slice::from_ref(node)).clock;
        self.rows(&key_of(node), &patterns, first)
    }

    fn rows(&mut self, key: &Key, patterns: &[Pattern], first: i64) -> Result<Vec<i64>, QueryError> {
        let mut best: Vec<i64> = Vec::new();
        let mut is_enough = |rows: &[i64]| {
            if rows.len() > best.len() {
                best = rows.to_vec();
            }
            best.len() >= HISTORY_ENOUGH
        };
        if self.asked < HISTORY_ASKED_MAX {
            self.asked += 1;
            for back in HISTORY_SPANS {
                let found = self.read(patterns, (first - back, first - 1))?;
                if found.get(key).is_some_and(|rows| is_enough(rows)) {
                    break;
                }
            }
            return Ok(best);
        }
        for (place, back) in HISTORY_SPANS_OF_ALL.into_iter().enumerate() {
            if self.all[place].is_none() {
                let patterns = match self.whose {
                    Whose::Series => &self.chosen.patterns,
                    Whose::Nodes => &self.chosen.clock,
                };
                self.all[place] = Some(self.read(patterns, (self.after - back, self.after))?);
            }
            let rows = self.all[place].as_ref().and_then(|all| all.get(key));
            if rows.is_some_and(|rows| is_enough(rows)) {
                break;
            }
        }
        Ok(best)
    }

    fn read(&self, patterns: &[Pattern], (after, to): (i64, i64)) -> Result<Times, QueryError> {
        let (from, to) = span(after, to);
        let from = from.max(self.source.reach().rows);
        let mut found = Times::new();
        let whose = self.whose;
        let shape = RangeShape::Columns(RANGE_STEP_READINGS);
        self.source.read(patterns.to_vec(), (from, to), shape, |group| {
            note(group, whose, &mut found);
            Ok(())
        })?;
        found.values_mut().for_each(keep_last);
        Ok(found)
    }
}

/// Adds the times of rows.
fn note(group: &Group, whose: Whose, found: &mut Times) {
    let Some(node) = group.node() else { return };
    let mut add = |key: Key, times: Vec<u64>| {
        let all = found.entry(key).or_default();
        // Rows are there once, whatever the time within their millisecond is.
        let times = times.into_iter().map(milliseconds);
        times.for_each(|time| {
            if all.last().is_none_or(|last| *last < time) {
                all.push(time);
            }
        });
        if all.len() > HISTORY_KEPT * HISTORY_KEPT {
            keep_last(all);
        }
    };
    match whose {
        Whose::Nodes => add(key_of(node), group.times()),
        Whose::Series => group.series().filter(|rows| !rows.are_buckets()).for_each(|rows| {
            let series = rows.series();
            add((node.clone(), series.metric.name.clone(), series.instance.clone()), rows.times());
        }),
    }
}

fn keep_last(times: &mut Vec<i64>) {
    times.drain(..times.len().saturating_sub(HISTORY_KEPT));
}

fn key_of(node: &NodeName) -> Key {
    (node.clone(), Text::default(), None)
}
