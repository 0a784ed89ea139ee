//! The nodes that the cluster knows: by name, and in the order in which they appeared. A reader that knows the nodes
//! up to one node searches only the later nodes. This file does not know the state of a node.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use khz_model::NodeName;

use crate::node::SharedNode;

/// All nodes.
#[derive(Debug, Default)]
pub(crate) struct Known {
    by_name: BTreeMap<NodeName, (u64, Arc<SharedNode>)>,
    by_appearance: BTreeMap<u64, Arc<SharedNode>>,
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
        node.appearance.store(self.appeared, Ordering::Release);
        self.by_appearance.insert(self.appeared, node.clone());
        self.by_name.insert(node.name.clone(), (self.appeared, node));
    }

    /// A node is forgotten.
    pub fn remove(&mut self, name: &NodeName) {
        let Some((appearance, node)) = self.by_name.remove(name) else { return };
        self.by_appearance.remove(&appearance);
        node.appearance.store(0, Ordering::Release);
        self.forgotten += 1;
    }

    /// How many nodes have appeared, and how many were forgotten.
    pub fn changes(&self) -> (u64, u64) {
        (self.appeared, self.forgotten)
    }

    /// At most this many of the nodes that appeared after this one, in that order, each with its number.
    pub fn after(&self, appeared: u64, most: usize) -> Vec<(u64, Arc<SharedNode>)> {
        let later = self.by_appearance.range(appeared.saturating_add(1)..).take(most);
        later.map(|(&number, node)| (number, node.clone())).collect()
    }
}
