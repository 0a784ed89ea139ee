//! How the nodes are: the list that the hub tells again and again while somebody looks. Between two looks nothing is
//! told, and what was told before says only how it was then.

use std::time::Instant;

use khz_model::{NodeName, NodeStatus};

use super::wishes::Order;
use super::{Node, Tree};
use crate::inode::NodeId;
use crate::limits::{LEASE, NODES_MAX};

/// What is known of the list.
#[derive(Debug)]
pub(super) struct Roster {
    until: Option<Instant>,
    /// Whether the source was told to tell it.
    wanted: bool,
    /// Open files whose text is made of it: it stays wanted for them.
    pub handles: usize,
    /// Number of the list that is under way.
    pub list: u64,
    /// Number of the last one that was told to its end since it was wanted.
    whole: Option<u64>,
}

impl Roster {
    pub fn new() -> Self {
        Roster { until: None, wanted: false, handles: 0, list: 1, whole: None }
    }

    /// Nobody is told anything.
    pub fn is_asleep(&self) -> bool {
        !self.wanted
    }

    /// All nodes were told since it was wanted.
    pub fn is_whole(&self) -> bool {
        self.whole.is_some()
    }

    /// It is wanted until then; `true`: the source must be told.
    fn want(&mut self, until: Instant) -> bool {
        self.until = Some(until);
        if !self.wanted {
            // The end of a list that was under way when it was not wanted any more.
            self.whole = None;
        }
        !std::mem::replace(&mut self.wanted, true)
    }
}

impl Tree {
    /// Somebody looks at how the nodes are.
    pub(super) fn want_roster(&mut self, now: Instant) {
        if self.roster.want(now + LEASE) {
            self.work.orders.push(Order::Roster(true));
        }
    }

    /// Nobody has looked for a while.
    pub(super) fn rest_roster(&mut self, now: Instant) {
        let Roster { until, wanted, handles, .. } = self.roster;
        let is_over = wanted && handles == 0 && until.is_none_or(|until| now >= until);
        if is_over && !self.options.strict {
            (self.roster.wanted, self.roster.whole) = (false, None);
            self.work.orders.push(Order::Roster(false));
        }
    }

    /// How nodes are; `complete`: there are no others.
    pub fn nodes(&mut self, nodes: &[NodeStatus], complete: bool, now: Instant) {
        for status in nodes {
            let Some(id) = self.node_or_new(&status.node) else { continue };
            let (strict, list) = (self.options.strict, self.roster.list);
            let Some(node) = self.node_mut(id) else { continue };
            let was_up = node.status.as_ref().is_none_or(|(status, _)| status.up);
            node.status = Some((status.clone(), now));
            node.told_in = list;
            if strict && was_up != status.up {
                self.soil_node(id);
            }
            self.stir(id);
        }
        if complete {
            self.end_list();
        }
        self.stir(NodeId::TREE);
    }

    /// A list was told to its end: nodes that are not in it are unknown to the hub.
    fn end_list(&mut self) {
        self.roster.whole = Some(self.roster.list);
        self.roster.list += 1;
        if self.options.strict {
            let lost = (1..).map(NodeId).zip(&self.nodes).filter(|(_, node)| !self.is_listed(node));
            let lost: Vec<NodeId> = lost.map(|(id, _)| id).collect();
            lost.into_iter().for_each(|id| self.soil_node(id));
        }
        if self.waiting > 0 {
            self.stir_all();
        }
    }

    /// The hub is gone: the next one has a list of its own.
    pub(super) fn lose_list(&mut self) {
        self.roster.whole = None;
        self.roster.list += 1;
        for node in &mut self.nodes {
            node.asked_in = self.roster.list;
        }
    }

    /// The node of a name, new when it must be.
    pub(super) fn node_or_new(&mut self, name: &NodeName) -> Option<NodeId> {
        if let Some(&id) = self.by_name.get(name) {
            return Some(id);
        }
        if self.nodes.len() >= NODES_MAX {
            self.counts.nodes_left_out += 1;
            return None;
        }
        self.nodes.push(Node::new(name.clone()));
        let id = NodeId(self.nodes.len() as u32);
        self.by_name.insert(name.clone(), id);
        Some(id)
    }

    /// True unless the list of now has no such node.
    pub(super) fn is_listed(&self, node: &Node) -> bool {
        self.roster.whole.is_none_or(|whole| node.told_in >= whole)
    }

    /// True for a node that is up, as far as is known.
    pub(super) fn is_up(&self, node: &Node) -> bool {
        node.status.as_ref().is_some_and(|(status, _)| status.up) && self.is_listed(node)
    }

    /// True for a node that is known not to be up: nothing of it will come. With `strict` that is an error.
    pub(super) fn is_down(&self, id: NodeId) -> bool {
        let is_down = |node: &Node| node.status.is_some() && !self.is_up(node);
        self.hub.up && !self.options.strict && self.node(id).is_some_and(is_down)
    }

    /// The nodes that are up, by name.
    pub(super) fn up_nodes(&self) -> impl Iterator<Item = (&NodeName, NodeId)> {
        let is_up = |id: NodeId| self.node(id).is_some_and(|node| self.is_up(node));
        self.by_name.iter().map(|(name, &id)| (name, id)).filter(move |&(_, id)| is_up(id))
    }

    /// False while the hub is away, once there was one: what is known is all there is, and nobody waits for better.
    pub(super) fn is_worth_waiting(&self) -> bool {
        self.hub.up || self.by_name.is_empty()
    }

    /// True when nothing newer of a node can come. Of one that is down the hub may know more than we do: that is
    /// believed lost only when a list has begun and ended since the node was wanted.
    pub(super) fn is_away(&mut self, id: NodeId, now: Instant) -> bool {
        self.want_roster(now);
        let Some(node) = self.node(id) else { return false };
        let is_told = |whole: u64| !self.is_up(node) && whole > node.asked_in;
        !self.hub.up || self.roster.whole.is_some_and(is_told)
    }

    /// True when what is known of a node's values is of now: rows of all of them come, or nothing newer can.
    pub(super) fn is_current(&mut self, id: NodeId, now: Instant) -> bool {
        self.node(id).is_some_and(|node| node.answered.is_some()) || self.is_away(id, now)
    }
}
