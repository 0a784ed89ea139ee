//! Nodes that move from one hub to another, with their alerts and the record of messages about them. While a node's previous hub
//! may still send messages about it, this hub sends none.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use khz_rules::{Handover, NODE_LABEL, SavedAlert};

use super::super::custody::is_alive;
use super::super::groups::Groups;
use super::super::outside::Outside;
use super::super::passed::Passed;
use super::super::peers::PeerWord;
use super::{Moment, Sharing, is_of, is_over, release, told};

/// How long a hub reports its messages about nodes that it has left.
pub(super) const HANDED_KEPT: Duration = Duration::from_secs(30);
/// The most such messages that are kept. Beyond it, people may get the oldest again.
const HANDED_MAX: usize = 65_536;

/// A node left its previous hub at most this long before it was seen here (ms). What the node has said here since is newer than
/// that hub's word.
const LEFT_BEFORE: i64 = 3_000;

impl Sharing {
    /// Keeps the messages about nodes that this hub has left, and reports them for a while, since the new hub may not have heard of
    /// them.
    pub(super) fn hand_over(&mut self, nodes: &BTreeSet<Arc<str>>, outside: &dyn Outside, at: Instant) {
        let lines = outside.told().into_iter().filter(|line| is_of(nodes, &line.labels));
        self.handed.extend(lines.map(|line| (at, line)));
        self.handed.drain(..self.handed.len().saturating_sub(HANDED_MAX));
    }

    /// Follows nodes that still come from another hub, or have just come for good. Alerts that fire there fire here, too, and those
    /// that ended there are over. Returns the changed alerts.
    pub(super) fn follow(
        &mut self,
        arrived: &[(Arc<str>, usize)],
        words: &[Option<Arc<PeerWord>>],
        groups: &mut Groups,
        moment: Moment,
    ) -> Vec<Passed> {
        let mut adopted = Vec::new();
        let coming: Vec<(Arc<str>, usize)> =
            self.custody.coming().map(|(node, number)| (node.clone(), number)).collect();
        for (number, word) in words.iter().enumerate() {
            let nodes = from_hub(number, coming.iter().chain(arrived));
            let Some(word) = word.as_ref().filter(|_| !nodes.is_empty()) else { continue };
            self.fired_there.extend(word.firing_of(&nodes).cloned());
            let came_at = nodes.iter().filter_map(|node| self.came_from.get(node)).map(|(_, at)| *at).min();
            let left_at = came_at.map(|at| at.saturating_sub(LEFT_BEFORE));
            let handover = Handover { left_at, ..self.handover(number, moment) };
            let is_wanted = |alert: &SavedAlert| alert.state == "firing" && is_of(&nodes, &alert.labels);
            adopted.extend(groups.adopt(word, handover, false, &is_wanted));
            adopted.extend(groups.end_with(word, moment.now, &|alert| is_of(&nodes, &alert.labels)));
        }
        adopted
    }

    /// Handles nodes that have come for good, each with the number of its previous hub. Messages and actions of that hub so far
    /// count here, and this hub sends the rest.
    pub(super) fn arrive(
        &mut self,
        arrived: &[(Arc<str>, usize)],
        words: &[Option<Arc<PeerWord>>],
        groups: &mut Groups,
        outside: &dyn Outside,
        at: Instant,
    ) {
        for (number, word) in words.iter().enumerate() {
            let nodes = from_hub(number, arrived.iter());
            let Some(word) = word.as_ref().filter(|_| !nodes.is_empty()) else { continue };
            if is_alive(self.heard[number].answered, at) {
                // Since the nodes came, that hub may have sent further messages, also about ends. This hub has sent none. If that
                // hub was restarted meanwhile, it has forgotten its messages about them.
                let is_same =
                    |node: &Arc<str>| self.came_from.get(node).is_some_and(|(of, _)| of == word.identity());
                release(outside, &nodes.iter().filter(|node| is_same(node)).cloned().collect());
                told(outside, word, &|line| is_of(&nodes, &line.labels));
            }
            let alerts = groups.alerts_of(&nodes);
            let of_there = alerts.iter().filter(|alert| self.fired_there.contains(&alert.labels));
            outside.acted(&of_there.cloned().collect::<Vec<_>>());
            self.decide(alerts, at).hand(outside, false);
        }
        self.came_from.retain(|node, _| self.custody.is_coming(node));
        let is_coming = |node: &String| self.custody.is_coming(node);
        self.fired_there.retain(|labels| labels.get(NODE_LABEL).is_some_and(is_coming));
    }

    /// Takes over the alerts of nodes that have come from another hub. The state of these nodes here is older.
    pub(super) fn take_nodes(
        &mut self,
        (number, word): (usize, &PeerWord),
        nodes: &BTreeSet<Arc<str>>,
        groups: &mut Groups,
        outside: &dyn Outside,
        moment: Moment,
    ) -> Vec<Passed> {
        if nodes.is_empty() {
            return Vec::new();
        }
        tracing::info!("{} nodes are judged here from now on: hub {} had them before", nodes.len(), word.hub);
        let ends = groups.last_ends();
        groups.release(nodes, false);
        release(outside, nodes);
        told(outside, word, &|line| is_of(nodes, &line.labels) && !is_over(&ends, line));
        let is_wanted = |alert: &SavedAlert| is_of(nodes, &alert.labels);
        let came = (word.identity().to_owned(), moment.now);
        self.came_from.extend(nodes.iter().map(|node| (node.clone(), came.clone())));
        groups.end_without_rule(word, moment.now, &|labels| is_of(nodes, labels));
        groups.adopt(word, self.handover(number, moment), false, &is_wanted)
    }
}

/// The nodes among these that come from the hub of this number.
fn from_hub<'a>(number: usize, nodes: impl Iterator<Item = &'a (Arc<str>, usize)>) -> BTreeSet<Arc<str>> {
    nodes.filter(|(_, from)| *from == number).map(|(node, _)| node.clone()).collect()
}
