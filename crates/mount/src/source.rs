//! Where a tree's values come from, and where they go: the seam between the mount and the cluster. Behind a
//! [`Source`] stands a hub at the other end of a link, a query in this process, or a test.

use std::sync::Arc;

use khz_model::{Nanos, NodeName, NodeStatus, Rate, Reading, Series, Stamp};

/// What the tree wants now, all nodes and readers together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// Its number, from 1; one that was taken back is not used again for another.
    pub number: u32,
    /// Patterns with their nodes, at most [`crate::limits::PATTERNS_MAX`].
    pub patterns: Vec<String>,
    /// How often; `None`: as the base lane has it.
    pub rate: Option<Rate>,
}

/// A kernel file that the tree wants, whoever reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextWish {
    /// Its number, from 1, apart from those of [`Wish`]; one that was taken back is not used again for another.
    pub number: u32,
    /// The node.
    pub node: NodeName,
    /// Below `/proc`; empty: the list of what the node shows.
    pub path: String,
    /// How often it is looked at.
    pub period: Nanos,
}

/// Where values come from. None of the calls waits.
pub trait Source: Send + Sync {
    /// Wants rows, or the same number anew.
    fn ask(&self, wish: Wish);
    /// Takes a wish back.
    fn dismiss(&self, number: u32);
    /// Whether somebody wants to know how the nodes are.
    fn roster(&self, wanted: bool);
    /// Wants a kernel file, or the same at another pace.
    fn read(&self, wish: TextWish);
    /// Wants one that it wants already to be read at once; [`Sink::text_given`] says when that was done.
    fn read_now(&self, number: u32, ask: u32);
    /// Takes that back.
    fn unread(&self, number: u32);
}

/// Who takes what comes: the tree. Calls may come from any thread and never wait for a reader.
pub trait Sink: Send + Sync {
    /// A hub has taken us in, or is gone; `text` says which, or why.
    fn connected(&self, up: bool, text: &str);
    /// How nodes are; `complete`: there are no others.
    fn nodes(&self, nodes: &[NodeStatus], complete: bool);
    /// The columns of a lane, which serves a wish, are these from now on; none: the node has nothing of what is wanted.
    /// `lane` tells it from every other lane of this source.
    fn columns(&self, lane: u64, wish: u32, node: &NodeName, columns: &Arc<Vec<Series>>);
    /// A row of it: the columns that may have changed.
    fn row(&self, lane: u64, stamp: Stamp, cells: &mut dyn Iterator<Item = (usize, Reading)>);
    /// Nothing more comes in the lane.
    fn closed(&self, lane: u64);
    /// A wish was refused or is served more slowly.
    fn told(&self, wish: u32, text: &str);
    /// The kernel file of a wish has this text from here on.
    fn text(&self, wish: u32, text: &Arc<[u8]>, stamp: Stamp);
    /// The file of a wish was read after this was asked for, and what it had then was told; or it cannot be asked for now.
    fn text_given(&self, wish: u32, ask: u32, is_read: bool);
    /// It cannot be had: an errno, and why.
    fn no_text(&self, wish: u32, errno: i32, why: &str);
}
