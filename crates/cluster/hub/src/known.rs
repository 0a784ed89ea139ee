//! The nodes that the cluster knows: by name, and in the order in which they appeared. A reader that knows them up to
//! one node searches only those after it. It does not know how a node is.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use khz_model::NodeName;

use crate::node::SharedNode;

/// All nodes.
#[derive(Debug, Default)]
pub(crate) struct Known {
    by_name: BTreeMap<NodeName, (u64, Arc<SharedNode>)>,
    by_turn: BTreeMap<u64, Arc<SharedNode>>,
    /// Nodes that ever appeared.
    appeared: u64,
    /// Nodes that were forgotten, or replaced by another of the same name.
    forgotten: u64,
}

impl Known {
    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// The node with this name.
    pub fn get(&self, name: &NodeName) -> Option<&Arc<SharedNode>> {
        self.by_name.get(name).map(|(_, node)| node)
    }

    /// All nodes, in name order.
    pub fn all(&self) -> impl Iterator<Item = &Arc<SharedNode>> {
        self.by_name.values().map(|(_, node)| node)
    }

    /// A node appears; another node of its name is forgotten.
    pub fn insert(&mut self, node: Arc<SharedNode>) {
        self.remove(&node.name);
        self.appeared += 1;
        node.turn.store(self.appeared, Ordering::Release);
        self.by_turn.insert(self.appeared, node.clone());
        self.by_name.insert(node.name.clone(), (self.appeared, node));
    }

    /// A node is forgotten.
    pub fn remove(&mut self, name: &NodeName) {
        let Some((turn, node)) = self.by_name.remove(name) else { return };
        self.by_turn.remove(&turn);
        node.turn.store(0, Ordering::Release);
        self.forgotten += 1;
    }

    /// The turn of the node that appeared last, and how many were forgotten.
    pub fn changes(&self) -> (u64, u64) {
        (self.appeared, self.forgotten)
    }

    /// At most this many of the nodes that appeared after this turn, in that order, each with its turn.
    pub fn after(&self, turn: u64, most: usize) -> Vec<(u64, Arc<SharedNode>)> {
        let later = self.by_turn.range(turn.saturating_add(1)..).take(most);
        later.map(|(&turn, node)| (turn, node.clone())).collect()
    }
}
