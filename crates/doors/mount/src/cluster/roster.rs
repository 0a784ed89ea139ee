//! The roster: which nodes there are, and how each is. The hub sends the list of nodes again and again while somebody
//! reads something that depends on it. While nobody does, the hub sends nothing, and what is known grows stale.

use std::collections::BTreeMap;
use std::time::Instant;

use khz_model::{NodeName, NodeStatus};

use crate::effects::{Command, Effects};
use crate::inode::NodeId;
use crate::limits::{LEASE, NODES_MAX};

/// The nodes, and the hub that knows them.
pub(crate) struct Roster {
    /// A node that is down is unreachable, instead of keeping its last values.
    strict: bool,
    hub: Hub,
    nodes: Vec<Node>,
    by_name: BTreeMap<NodeName, NodeId>,
    left_out: u64,
    /// Until when it is needed.
    wanted_until: Option<Instant>,
    /// The upstream sends lists.
    is_subscribed: bool,
    /// Open files whose text depends on it.
    readers: usize,
    /// Number of the list that is under way.
    list: u64,
    /// Number of the last list that was complete since the upstream sends them.
    complete: Option<u64>,
}

#[derive(Debug)]
struct Hub {
    up: bool,
    /// Which hub, or why there is none.
    text: String,
    connects: u64,
}

/// One node.
struct Node {
    name: NodeName,
    /// What the hub said last, and when it did.
    status: Option<(NodeStatus, Instant)>,
    /// Number of the last list that had it.
    listed_in: u64,
    /// Number of the list that was under way when its values were asked for.
    asked_in: u64,
}

/// How a node is, as far as is known.
pub(crate) struct Known<'a> {
    /// What the hub said.
    pub status: &'a NodeStatus,
    /// When it did.
    pub heard: Instant,
    /// `false`: the hub's present list does not have the node.
    pub is_listed: bool,
}

impl Roster {
    pub fn new(strict: bool) -> Self {
        Roster {
            strict,
            hub: Hub { up: false, text: "not connected yet".to_owned(), connects: 0 },
            nodes: Vec::new(),
            by_name: BTreeMap::new(),
            left_out: 0,
            wanted_until: None,
            is_subscribed: false,
            readers: 0,
            list: 1,
            complete: None,
        }
    }

    /// A hub has accepted us, or is gone: the next one has a list of its own.
    pub fn connected(&mut self, up: bool, text: &str) {
        self.hub.up = up;
        self.hub.connects += u64::from(up);
        text.clone_into(&mut self.hub.text);
        if !up {
            self.complete = None;
            self.list += 1;
            self.asked_for_all();
        }
    }

    /// Somebody reads a text that depends on the roster: the hub lists the nodes for a while.
    pub fn want(&mut self, now: Instant, effects: &mut Effects) {
        self.wanted_until = Some(now + LEASE);
        if !self.is_subscribed {
            // A list may still come that was under way when the last subscription ended.
            self.complete = None;
            self.is_subscribed = true;
            effects.command(Command::ListNodes(true));
        }
    }

    /// A file whose text depends on the roster was opened: lists come as long as it is open.
    pub fn open(&mut self) {
        self.readers += 1;
    }

    /// It was closed.
    pub fn close(&mut self, now: Instant, effects: &mut Effects) {
        self.readers -= 1;
        self.want(now, effects);
    }

    /// Ends the subscription when nobody has needed it for a while. A strict mount always needs it.
    pub fn expire(&mut self, now: Instant, effects: &mut Effects) {
        let is_over = self.readers == 0 && self.wanted_until.is_none_or(|until| now >= until);
        if self.is_subscribed && is_over && !self.strict {
            (self.is_subscribed, self.complete) = (false, None);
            effects.command(Command::ListNodes(false));
        }
    }

    /// True while the upstream sends no lists.
    pub fn is_idle(&self) -> bool {
        !self.is_subscribed
    }

    /// A part of a list; `is_last`: there are no other nodes. Returns the nodes that a strict mount has lost or found: their
    /// files give other answers from now on.
    pub fn update(
        &mut self,
        statuses: &[NodeStatus],
        is_last: bool,
        now: Instant,
        effects: &mut Effects,
    ) -> Vec<NodeId> {
        let mut turned = Vec::new();
        for status in statuses {
            let Some(id) = self.id_or_new(&status.node) else { continue };
            let list = self.list;
            let Some(node) = self.node_mut(id) else { continue };
            let was_up = node.status.as_ref().is_none_or(|(status, _)| status.up);
            node.status = Some((status.clone(), now));
            node.listed_in = list;
            if was_up != status.up {
                turned.push(id);
            }
            effects.retry(id);
        }
        if is_last {
            self.complete = Some(self.list);
            self.list += 1;
            turned.extend(
                (1..).map(NodeId).zip(&self.nodes).filter(|(_, node)| !self.has(node)).map(|(id, _)| id),
            );
            effects.retry_all();
        }
        effects.retry(NodeId::TREE);
        if self.strict { turned } else { Vec::new() }
    }

    /// Somebody asks for the values of a node: the list that is under way may be older than this request.
    pub fn asked_for(&mut self, id: NodeId) {
        let list = self.list;
        if let Some(node) = self.node_mut(id) {
            node.asked_in = list;
        }
    }

    /// The same for all nodes.
    pub fn asked_for_all(&mut self) {
        let list = self.list;
        self.nodes.iter_mut().for_each(|node| node.asked_in = list);
    }

    /// The number of a node's name, if it is known.
    pub fn id(&self, name: &NodeName) -> Option<NodeId> {
        self.by_name.get(name).copied()
    }

    /// The number of a node's name, a new one for a new node; `None`: there are too many.
    pub fn id_or_new(&mut self, name: &NodeName) -> Option<NodeId> {
        if let Some(known) = self.id(name) {
            return Some(known);
        }
        if self.nodes.len() >= NODES_MAX {
            self.left_out += 1;
            return None;
        }
        self.nodes.push(Node { name: name.clone(), status: None, listed_in: 0, asked_in: 0 });
        let id = NodeId(self.nodes.len() as u32);
        self.by_name.insert(name.clone(), id);
        Some(id)
    }

    /// The name of a node.
    pub fn name(&self, id: NodeId) -> Option<&NodeName> {
        self.node(id).map(|node| &node.name)
    }

    /// Every node, by name.
    pub fn nodes(&self) -> impl Iterator<Item = (&NodeName, NodeId)> {
        self.by_name.iter().map(|(name, &id)| (name, id))
    }

    /// The nodes that are up, by name.
    pub fn up(&self) -> impl Iterator<Item = (&NodeName, NodeId)> {
        self.nodes().filter(|&(_, id)| self.is_up(id))
    }

    /// How many nodes are known.
    pub fn count(&self) -> usize {
        self.nodes.len()
    }

    /// The last status of a node.
    pub fn status(&self, id: NodeId) -> Option<Known<'_>> {
        let node = self.node(id)?;
        let (status, heard) = node.status.as_ref()?;
        Some(Known { status, heard: *heard, is_listed: self.has(node) })
    }

    /// True while a hub is connected.
    pub fn is_hub_up(&self) -> bool {
        self.hub.up
    }

    /// Which hub is connected, or why none is; and how often one was.
    pub fn hub(&self) -> (&str, u64) {
        (&self.hub.text, self.hub.connects)
    }

    /// Nodes for which there was no room.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// True when all nodes were listed since somebody has needed the list.
    pub fn is_complete(&self) -> bool {
        self.complete.is_some()
    }

    /// True while something better than what is known may come. While the hub is away nobody waits, unless no node is
    /// known yet.
    pub fn may_improve(&self) -> bool {
        self.hub.up || self.by_name.is_empty()
    }

    /// True when the roster is complete, or nothing better will come.
    pub fn is_settled(&self) -> bool {
        self.is_complete() || !self.may_improve()
    }

    /// True when nothing of this node is believed: the mount is strict (`-o strict`), and the hub or the node is away. Without
    /// that option this is never true, and readers get the last values.
    pub fn is_unreachable(&self, id: NodeId) -> bool {
        self.strict && (!self.hub.up || self.is_known_down(id))
    }

    /// True for a node that is known to be down and keeps its last values: nothing of it will come.
    pub fn is_down(&self, id: NodeId) -> bool {
        self.hub.up && !self.strict && self.is_known_down(id)
    }

    /// True when nothing newer of a node can come. The hub may know more of a node that is down than we do: only a list
    /// that began and ended after the node's values were asked for says that it does not.
    pub fn has_nothing_newer(&mut self, id: NodeId, now: Instant, effects: &mut Effects) -> bool {
        self.want(now, effects);
        let Some(node) = self.node(id) else { return false };
        let is_said = |complete: u64| !self.is_up(id) && complete > node.asked_in;
        !self.hub.up || self.complete.is_some_and(is_said)
    }

    fn is_up(&self, id: NodeId) -> bool {
        self.node(id)
            .is_some_and(|node| node.status.as_ref().is_some_and(|(status, _)| status.up) && self.has(node))
    }

    fn is_known_down(&self, id: NodeId) -> bool {
        self.node(id).is_some_and(|node| node.status.is_some()) && !self.is_up(id)
    }

    /// True unless the last complete list does not have the node.
    fn has(&self, node: &Node) -> bool {
        self.complete.is_none_or(|complete| node.listed_in >= complete)
    }

    fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get((id.0 as usize).checked_sub(1)?)
    }

    fn node_mut(&mut self, id: NodeId) -> Option<&mut Node> {
        self.nodes.get_mut((id.0 as usize).checked_sub(1)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(name: &str, up: bool) -> NodeStatus {
        NodeStatus { up, ..NodeStatus::here(NodeName::new(name).unwrap()) }
    }

    fn roster(strict: bool) -> (Roster, Effects, Instant) {
        let (mut roster, mut effects, now) = (Roster::new(strict), Effects::default(), Instant::now());
        roster.connected(true, "test");
        roster.want(now, &mut effects);
        roster.update(&[status("n1", true), status("n2", true)], true, now, &mut effects);
        (roster, effects, now)
    }

    #[test]
    fn a_node_that_the_last_list_does_not_have_is_not_up() {
        let (mut roster, mut effects, now) = roster(false);
        roster.update(&[status("n2", true)], true, now, &mut effects);
        let up: Vec<NodeId> = roster.up().map(|(_, id)| id).collect();
        assert_eq!(up, [NodeId(2)]);
        assert!(!roster.status(NodeId(1)).unwrap().is_listed && roster.is_down(NodeId(1)));
    }

    #[test]
    fn only_a_list_that_began_after_the_request_says_that_nothing_newer_comes() {
        let (mut roster, mut effects, now) = roster(false);
        roster.asked_for(NodeId(1));
        for may_come in [true, false] {
            roster.update(&[status("n1", false), status("n2", true)], true, now, &mut effects);
            assert_eq!(!roster.has_nothing_newer(NodeId(1), now, &mut effects), may_come);
        }
        assert!(!roster.has_nothing_newer(NodeId(2), now, &mut effects), "it is up");
    }

    #[test]
    fn a_strict_mount_says_which_nodes_it_reaches_no_more() {
        let (mut roster, mut effects, now) = roster(true);
        assert_eq!(roster.update(&[status("n1", false)], false, now, &mut effects), [NodeId(1)]);
        assert!(roster.is_unreachable(NodeId(1)) && !roster.is_unreachable(NodeId(2)));
        assert_eq!(roster.update(&[], true, now, &mut effects), [NodeId(2)], "the list ended without it");
        roster.expire(now + LEASE, &mut effects);
        assert!(!roster.is_idle(), "it has to know who is up");
    }

    #[test]
    fn the_list_is_subscribed_to_while_a_reader_is_there_and_a_lease_longer() {
        let (mut roster, mut effects, now) = roster(false);
        roster.open();
        roster.expire(now + LEASE, &mut effects);
        assert!(!roster.is_idle());
        roster.close(now + LEASE, &mut effects);
        roster.expire(now + LEASE, &mut effects);
        assert!(!roster.is_idle());
        roster.expire(now + LEASE * 2, &mut effects);
        assert!(roster.is_idle() && !roster.is_complete());
        let commands = effects.take_errands().commands;
        assert_eq!(commands, [Command::ListNodes(true), Command::ListNodes(false)]);
    }
}
