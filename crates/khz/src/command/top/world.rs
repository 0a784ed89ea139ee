//! All nodes that a screen knows, out of the pieces of its subscriptions. It draws nothing and asks nobody.

use std::collections::BTreeMap;

use khz_ask::{Piece, Row};
use khz_model::{Nanos, Presence};

use super::node::{Keep, Node};

/// The most nodes that are kept. A larger cluster must be viewed in parts: `khz top 'gpu*'`.
pub const NODES_MAX: usize = 4_096;

/// The nodes.
pub struct World {
    nodes: BTreeMap<String, Node>,
    keep: Keep,
    /// Nodes beyond those that are kept have come.
    pub is_cut: bool,
}

impl World {
    /// Without nodes.
    pub fn new(keep: Keep) -> Self {
        World { nodes: BTreeMap::new(), keep, is_cut: false }
    }

    /// A node.
    pub fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.get(name)
    }

    /// The nodes, by their names.
    pub fn nodes(&self) -> impl Iterator<Item = (&str, &Node)> {
        self.nodes.iter().map(|(name, node)| (name.as_str(), node))
    }

    /// The nodes, to change them.
    pub fn nodes_mut(&mut self) -> impl Iterator<Item = (&str, &mut Node)> {
        self.nodes.iter_mut().map(|(name, node)| (name.as_str(), node))
    }

    /// Leaves all others out.
    pub fn retain(&mut self, is_kept: impl Fn(&str, &Node) -> bool) {
        self.nodes.retain(|name, node| is_kept(name, node));
    }

    /// When the newest row was gathered.
    pub fn time(&self) -> Option<Nanos> {
        self.nodes.values().filter_map(Node::time).max()
    }

    /// The node of this name, made if there is room.
    fn entry(&mut self, name: &str) -> Option<&mut Node> {
        if !self.nodes.contains_key(name) {
            if self.nodes.len() >= NODES_MAX {
                self.is_cut = true;
                return None;
            }
            self.nodes.insert(name.to_owned(), Node::new(self.keep));
        }
        self.nodes.get_mut(name)
    }

    /// The server says what state a node has.
    pub fn state(&mut self, name: &str, state: &str, since: Option<Nanos>) {
        if let Some(node) = self.entry(name) {
            (node.state, node.since) = (Some(state.to_owned()), since);
        }
    }

    /// Takes a piece of a subscription. Messages for people are handled elsewhere: see [`super::app`].
    pub fn take(&mut self, feed: usize, piece: &Piece) {
        match piece {
            Piece::Columns { node, rate, columns } => {
                if let Some(node) = self.entry(node) {
                    node.columns(feed, columns.clone(), rate.clone());
                }
            }
            Piece::Rows { node, lost, rows, .. } => {
                if let Some(known) = self.nodes.get_mut(node) {
                    known.lost += lost;
                }
                rows.iter().for_each(|row| self.row(feed, node, row));
            }
            Piece::Change { nodes, state, since, .. } => {
                let since: Option<f64> = since.parse().ok();
                let since = since.map(|seconds| Nanos((seconds * 1e9) as u64));
                nodes.iter().for_each(|node| self.state(node, state, since));
            }
            _ => {}
        }
    }

    /// Takes a row.
    pub fn row(&mut self, feed: usize, node: &str, row: &Row) {
        if let Some(node) = self.nodes.get_mut(node) {
            node.row(feed, row);
            node.state.get_or_insert_with(|| Presence::Up.as_str().to_owned());
        }
    }
}
