//! One look at the cluster: the newest rows of each node as they lie in its lanes, shown where they are.

use std::sync::Arc;

use khz_model::look::Show;
use khz_model::{Columns, Look, Part, QueryError, Series, WaitFor};

use crate::lane::Lane;
use crate::node::{BASE, SharedNode};
use crate::schemas::Schema;

impl Columns for Schema {
    fn series(&self) -> &[Series] {
        Schema::series(self)
    }
}

/// A look at these nodes.
pub(crate) struct HubLook {
    nodes: std::vec::IntoIter<Arc<SharedNode>>,
}

impl HubLook {
    pub fn new(nodes: Vec<Arc<SharedNode>>) -> Self {
        HubLook { nodes: nodes.into_iter() }
    }
}

impl Look for HubLook {
    fn ready(&mut self) -> WaitFor<'_, Result<(), QueryError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn next(&mut self, show: &mut Show<'_>) -> bool {
        self.nodes.by_ref().any(|node| show_node(&node, show))
    }
}

/// Shows a node that is up and has sent rows; the newest lane first, which counts where two have the same series.
fn show_node(node: &SharedNode, show: &mut Show<'_>) -> bool {
    let mut state = node.lock();
    let has_base = state.lanes.iter().any(|lane| lane.name == BASE && lane.alive && lane.has_rows());
    if state.link.is_none() || !has_base {
        return false;
    }
    state.lanes.iter_mut().filter(|lane| lane.alive).for_each(|lane| {
        lane.latest();
    });
    let mut parts: Vec<Part<'_>> = state.lanes.iter().filter(|lane| lane.alive).filter_map(part).collect();
    parts.sort_by_key(|part| std::cmp::Reverse(part.stamp.boot));
    show(&node.name, &parts);
    true
}

fn part(lane: &Lane) -> Option<Part<'_>> {
    let (schema, decoder) = lane.decoded()?;
    let (values, states) = (decoder.values(), decoder.states());
    Some(Part { columns: schema, stamp: decoder.stamp(), values, states })
}
