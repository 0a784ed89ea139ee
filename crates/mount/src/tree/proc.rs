//! `NODE/proc`: kernel files of the nodes as their kernels printed them. Which there are each node tells in a list; a text
//! is wanted while its file is open and a while longer, and one reader sees one text from its begin to its end.

mod cached;
mod control;
mod fresh;
mod list;
mod open;
mod pins;
mod take;
#[cfg(test)]
mod tests;
mod wishes;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Instant;

use khz_model::{Nanos, Stamp};

use super::Tree;
use crate::inode::{Class, Inode, NodeId, PathId};
use crate::names::Names;
use fresh::Fresh;
use list::ProcList;
use pins::Pins;

/// The kernel files of all nodes.
pub(super) struct Proc {
    /// The directory, in every node.
    pub top: PathId,
    lists: HashMap<NodeId, Arc<ProcList>>,
    /// Lists that nodes share, with the texts that they were made of.
    lists_shared: Vec<(Arc<[u8]>, Arc<ProcList>)>,
    texts: HashMap<Inode, KernelText>,
    /// The files of the wishes that stand.
    by_wish: HashMap<u32, Inode>,
    wishes_made: u32,
    /// Wishes of each user that stand though nobody has the file open, the oldest first.
    idle: BTreeMap<(u32, u64), Inode>,
    closes: u64,
    /// Wishes that each user has caused.
    standing: HashMap<u32, usize>,
    /// Bytes of all texts that are kept.
    bytes: usize,
    pins: Pins,
    counts: Counts,
}

/// A kernel file that was looked at.
#[derive(Debug)]
struct KernelText {
    wish: Option<Wish>,
    /// The newest text.
    text: Option<(Arc<[u8]>, Stamp)>,
    /// How new that is.
    fresh: Fresh,
    /// Why there is none now, and since when that is known.
    problem: Option<(i32, Instant)>,
    handles: usize,
    /// Whoever has it open has used up his budget: it is looked at as if nobody had said how often.
    over_budget: bool,
    /// The page cache has it, and is told when there is another.
    cached: bool,
    used: Instant,
}

/// What stands at the source for a file.
#[derive(Clone, Copy, Debug)]
struct Wish {
    number: u32,
    user: u32,
    period: Nanos,
    /// It was answered, on the present connection.
    answered: bool,
    /// Its place among those that are idle.
    idle: Option<u64>,
}

#[derive(Debug, Default)]
struct Counts {
    texts: u64,
    bytes: u64,
    failed: u64,
    names_left_out: u64,
    refused: u64,
    dropped: u64,
    asked: u64,
    not_in_time: u64,
    older: u64,
}

/// Whom the lists are wanted for: everybody.
const EVERYBODY: u32 = u32::MAX;

impl Proc {
    pub fn new(top: PathId) -> Self {
        Proc {
            top,
            lists: HashMap::new(),
            lists_shared: Vec::new(),
            texts: HashMap::new(),
            by_wish: HashMap::new(),
            wishes_made: 0,
            idle: BTreeMap::new(),
            closes: 0,
            standing: HashMap::new(),
            bytes: 0,
            pins: Pins::default(),
            counts: Counts::default(),
        }
    }

    /// Nothing is wanted.
    pub fn is_asleep(&self) -> bool {
        self.by_wish.is_empty()
    }

    /// For `.mount/stats`.
    pub fn stats(&self) -> [(&'static str, u64); 12] {
        [
            ("texts_followed", self.by_wish.len() as u64),
            ("texts_kept_bytes", self.bytes as u64),
            ("texts_pinned_bytes", self.pins.bytes() as u64),
            ("texts", self.counts.texts),
            ("texts_bytes", self.counts.bytes),
            ("texts_asked", self.counts.asked),
            ("texts_not_in_time", self.counts.not_in_time),
            ("texts_older", self.counts.older),
            ("texts_failed", self.counts.failed),
            ("texts_refused", self.counts.refused),
            ("texts_dropped", self.counts.dropped),
            ("texts_names_left_out", self.counts.names_left_out),
        ]
    }
}

impl Tree {
    /// True for the directory `proc` of a node and all below it, their settings included.
    pub(super) fn is_in_proc(&self, inode: Inode) -> bool {
        let mut path = inode.path;
        while inode.node != NodeId::TREE && path != Names::TOP {
            if path == self.proc.top {
                return true;
            }
            path = self.names.parent(path);
        }
        false
    }

    /// The inode of a node's list.
    fn list_inode(&self, node: NodeId) -> Inode {
        Inode { node, class: Class::Plain, path: self.proc.top }
    }

    /// The name below `/proc`.
    fn proc_name(&self, path: PathId) -> String {
        let text = self.names.text(path);
        text.strip_prefix("proc/").unwrap_or_default().to_owned()
    }
}
