//! How the nodes are, told to a reader who shows the cluster: all of them at first, then again and again while he
//! wants to know. It holds nothing but its place.

use khz_link::node_status;
use khz_model::{Nanos, NodeName};

use crate::clock;
use crate::cluster::Cluster;

/// Nodes are told anew so often, where there are not more than one can be told of in that time.
const PERIOD: Nanos = Nanos::SECOND;

/// Nodes that one reader is told of in that time: some 150 KB.
const NODES_A_PERIOD: u64 = 1_024;

/// One reader's place in the list.
#[derive(Debug)]
pub(crate) struct Roster {
    next: Nanos,
    /// The last node that was told, while a list is under way.
    at: Option<NodeName>,
}

impl Roster {
    /// Begins with the next look.
    pub fn new() -> Self {
        Roster { next: Nanos(0), at: None }
    }

    /// When the next is due.
    pub fn next(&self) -> Nanos {
        self.next
    }

    /// Tells what is due; nothing while `out` is full.
    pub fn pump(&mut self, cluster: &Cluster, out: &mut Vec<u8>) {
        let now = clock::boot();
        if now < self.next {
            return;
        }
        let nodes = cluster.nodes();
        let from = self.at.as_ref().map_or(0, |at| nodes.partition_point(|node| node.name <= *at));
        for node in nodes.iter().skip(from) {
            if out.len() > cluster.out_bytes_max() {
                return;
            }
            let status = cluster.status_of(node, now);
            node_status::put(&status, out);
            self.at = Some(status.node);
        }
        node_status::put_end(nodes.len(), out);
        self.at = None;
        let periods = (nodes.len() as u64).div_ceil(NODES_A_PERIOD).max(1);
        self.next = Nanos(now.0 + periods * PERIOD.0);
    }
}
