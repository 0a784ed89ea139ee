//! The nodes that are known: by name, and in the order in which they appeared, so that a reader who knows those up to one
//! of them looks only at those after it. It refuses to know how a node is.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use khz_model::NodeName;

use crate::node::SharedNode;

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Known {
    by_name: BTreeMap<NodeName, (u64, Arc<SharedNode>)>,
    by_turn: BTreeMap<u64, Arc<SharedNode>>,
    /// Nodes that ever appeared.
    appeared: u64,
    /// Nodes that were forgotten, or whose place another one took.
    forgotten: u64,
}

impl Known {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// The one of that name.
    pub fn get(&self, name: &NodeName) -> Option<&Arc<SharedNode>> {
        self.by_name.get(name).map(|(_, node)| node)
    }

    /// All, in name order.
    pub fn all(&self) -> impl Iterator<Item = &Arc<SharedNode>> {
        self.by_name.values().map(|(_, node)| node)
    }

    /// It appears; another one of its name is forgotten.
    pub fn insert(&mut self, node: Arc<SharedNode>) {
        self.remove(&node.name);
        self.appeared += 1;
        node.turn.store(self.appeared, Ordering::Release);
        self.by_turn.insert(self.appeared, node.clone());
        self.by_name.insert(node.name.clone(), (self.appeared, node));
    }

    /// It is forgotten.
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

    /// At most this number of those that appeared after this turn, in that order, each with its own.
    pub fn after(&self, turn: u64, most: usize) -> Vec<(u64, Arc<SharedNode>)> {
        let later = self.by_turn.range(turn.saturating_add(1)..).take(most);
        later.map(|(&turn, node)| (turn, node.clone())).collect()
    }
}
