//! When nodes had their last row before a selection. It asks for a few nodes one by one while rows are read, and for all at once
//! where there are more, so that a selection asks some times at most.

use std::collections::HashMap;

use khz_model::{Nanos, NodeName, RangeShape};
use khz_promql::QueryError;

use crate::chosen::Chosen;
use crate::clock::milliseconds;
use crate::limits::EARLIER_ASKED_MAX;
use crate::source::PastSource;

/// The last rows before a selection.
pub(crate) struct Earlier<'a> {
    source: &'a PastSource,
    chosen: &'a Chosen,
    /// The end of the time before the selection.
    end: Nanos,
    asked: usize,
    /// Those of all nodes, once they were asked for.
    all: Option<HashMap<NodeName, i64>>,
}

impl<'a> Earlier<'a> {
    /// Those before this time.
    pub fn before(source: &'a PastSource, chosen: &'a Chosen, end: Nanos) -> Self {
        Earlier { source, chosen, end, asked: 0, all: None }
    }

    /// The end of the time before the selection.
    pub fn end(&self) -> Nanos {
        self.end
    }

    /// The time (ms) of a node's last row; `None`: none is remembered.
    pub fn of(&mut self, node: &NodeName) -> Result<Option<i64>, QueryError> {
        if self.all.is_none() && self.asked < EARLIER_ASKED_MAX {
            self.asked += 1;
            return Ok(self.of_these(std::slice::from_ref(node))?.remove(node));
        }
        if self.all.is_none() {
            self.all = Some(self.read(self.chosen)?);
        }
        Ok(self.all.as_ref().and_then(|all| all.get(node).copied()))
    }

    /// The same of these nodes; the others are not in it.
    pub fn of_these(&self, nodes: &[NodeName]) -> Result<HashMap<NodeName, i64>, QueryError> {
        if nodes.is_empty() {
            return Ok(HashMap::new());
        }
        self.read(&self.chosen.of_nodes(nodes))
    }

    fn read(&self, chosen: &Chosen) -> Result<HashMap<NodeName, i64>, QueryError> {
        let mut found: HashMap<NodeName, i64> = HashMap::new();
        let span = (Nanos(0), self.end);
        self.source.read(chosen.clock.clone(), span, RangeShape::Newest, |group| {
            if let (Some(node), Some(last)) = (group.node(), group.times().last()) {
                found.insert(node.clone(), milliseconds(*last));
            }
            Ok(())
        })?;
        Ok(found)
    }
}
