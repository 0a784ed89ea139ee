//! What one node costs the hub: its share of the nodes' memory, the work that its schemas may still cause, and when its
//! memory is freed. It measures nothing itself: the lanes do ([`super::lanes::Lanes::held`]).

use khz_model::{Nanos, Share};

use crate::cluster::Cluster;
use crate::limits::{GONE_KEPT, NODE_BYTES_MAX, NODE_BYTES_UNCOUNTED, SCHEMA_WORK_A_SECOND, SCHEMA_WORK_MAX};

/// Why the hub has no room for the data of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoRoom {
    /// This node holds more than one node may.
    OfOne,
    /// All nodes together hold as much as they may.
    OfAll,
}

impl NoRoom {
    /// The reason that the node gets.
    pub fn text(self) -> &'static str {
        match self {
            NoRoom::OfOne => "this node holds more memory of the hub than one node may (NODE_BYTES_MAX)",
            NoRoom::OfAll => {
                "all nodes together hold as much memory as a hub gives them: try again, or give it fewer nodes"
            }
        }
    }
}

/// What one node holds.
#[derive(Debug)]
pub(crate) struct Holding {
    /// Its share of the nodes' memory, as counted last; schemas are counted elsewhere.
    share: Option<Share>,
    /// Bytes that came since.
    uncounted: u64,
    /// Work that its schemas may still cost, and when that was computed.
    schema_work: (u64, Nanos),
    /// The node is down and has given back what is not needed.
    has_given_back: bool,
}

impl Holding {
    /// Nothing yet.
    pub fn new(now: Nanos) -> Self {
        Holding { share: None, uncounted: 0, schema_work: (SCHEMA_WORK_MAX, now), has_given_back: true }
    }

    /// A piece of a schema came that costs this much. `false`: such pieces have cost too much of late.
    pub fn may_grow(&mut self, cost: usize, now: Nanos) -> bool {
        let (left, at) = self.schema_work;
        let back = u128::from(now.since(at).0) * u128::from(SCHEMA_WORK_A_SECOND) / 1_000_000_000;
        let left = u64::try_from(back).unwrap_or(u64::MAX).saturating_add(left).min(SCHEMA_WORK_MAX);
        let rest = left.checked_sub(cost as u64);
        self.schema_work = (rest.unwrap_or(left), now);
        rest.is_some()
    }

    /// This number of bytes has come. `true`: it is time to count again.
    pub fn take_bytes(&mut self, bytes: usize) -> bool {
        self.uncounted = self.uncounted.saturating_add(bytes as u64);
        self.uncounted >= NODE_BYTES_UNCOUNTED
    }

    /// The node holds this number of bytes, and this number in schemas. An error says that it may not; it is counted even
    /// so.
    pub fn set(&mut self, held: u64, schemas: u64, cluster: &Cluster) -> Result<(), NoRoom> {
        self.uncounted = 0;
        let more = held.saturating_sub(self.share.as_ref().map_or(0, Share::bytes));
        let has_room = more == 0 || cluster.may_hold(more);
        match &self.share {
            Some(share) => _ = share.set(held),
            None => self.share = cluster.node_bytes.take(held),
        }
        if held + schemas > NODE_BYTES_MAX {
            return Err(NoRoom::OfOne);
        }
        if !has_room {
            return Err(NoRoom::OfAll);
        }
        Ok(())
    }

    /// The node has connected: when it goes, it will have something to give back.
    pub fn connected(&mut self) {
        self.has_given_back = false;
    }

    /// A node that has been down since `changed` gives memory back at this time; `None`: it has done so.
    pub fn gives_back_at(&self, changed: Nanos) -> Option<Nanos> {
        (!self.has_given_back).then_some(Nanos(changed.0 + GONE_KEPT.0))
    }

    /// The node has freed what is not needed; `all`: nothing is left to free later.
    pub fn gave_back(&mut self, all: bool) {
        self.has_given_back = all;
    }
}
