//! Which nodes are in use: those with open files, and those that somebody has used within the last [`LEASE`]. The mount
//! subscribes to their rows.

use std::collections::BTreeMap;
use std::time::Instant;

use crate::effects::Effects;
use crate::inode::NodeId;
use crate::limits::LEASE;

/// The nodes in use.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    nodes: BTreeMap<NodeId, Lease>,
}

#[derive(Debug, Default)]
struct Lease {
    until: Option<Instant>,
    /// Open files and directories of it.
    handles: usize,
}

impl Lease {
    fn is_held(&self) -> bool {
        self.until.is_some() || self.handles > 0
    }
}

impl Leases {
    /// Somebody uses a node.
    pub fn renew(&mut self, node: NodeId, now: Instant, effects: &mut Effects) {
        let lease = self.lease(node, effects);
        lease.until = Some(now + LEASE);
    }

    /// Something of it is opened; the tree's own files need no node.
    pub fn open(&mut self, node: NodeId, effects: &mut Effects) {
        if node != NodeId::TREE {
            self.lease(node, effects).handles += 1;
        }
    }

    /// It is closed. The node stays in use for a while, so that the next open finds it up to date.
    pub fn close(&mut self, node: NodeId, now: Instant) {
        if let Some(lease) = self.nodes.get_mut(&node) {
            lease.handles -= 1;
            lease.until = Some(now + LEASE);
        }
    }

    /// Ends leases that nobody has renewed.
    pub fn expire(&mut self, now: Instant, effects: &mut Effects) {
        for lease in self.nodes.values_mut() {
            lease.until = lease.until.filter(|&until| now < until);
        }
        let before = self.nodes.len();
        self.nodes.retain(|_, lease| lease.is_held());
        if self.nodes.len() < before {
            effects.change_demand();
        }
    }

    /// The nodes in use, by number.
    pub fn nodes(&self) -> Vec<NodeId> {
        self.nodes.keys().copied().collect()
    }

    /// True while a lease will end by itself.
    pub fn has_ends(&self) -> bool {
        self.nodes.values().any(|lease| lease.until.is_some())
    }

    fn lease(&mut self, node: NodeId, effects: &mut Effects) -> &mut Lease {
        self.nodes.entry(node).or_insert_with(|| {
            effects.change_demand();
            Lease::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_in_use_while_a_file_is_open_and_a_lease_longer() {
        let (mut leases, mut effects, now) = (Leases::default(), Effects::default(), Instant::now());
        leases.renew(NodeId(1), now, &mut effects);
        leases.open(NodeId(1), &mut effects);
        assert!(effects.take_new_demand());
        leases.expire(now + LEASE, &mut effects);
        assert!(!leases.has_ends() && !effects.take_new_demand());
        leases.close(NodeId(1), now + LEASE);
        leases.expire(now + LEASE * 2 - LEASE / 2, &mut effects);
        assert_eq!(leases.nodes(), [NodeId(1)]);
        leases.expire(now + LEASE * 2, &mut effects);
        assert!(leases.nodes().is_empty() && effects.take_new_demand());
    }
}
