//! `NODE/proc`: kernel files of the nodes, as their kernels printed them. Each node lists the files that it shows. The mount
//! subscribes to a file while it is open and a while longer. A reader sees one text from its start to its end.
//!
//! | file | owns |
//! |---|---|
//! | `list.rs`, `directories.rs` | which files a node shows |
//! | `subscriptions.rs`, `demand.rs` | which files the upstream sends |
//! | `texts.rs`, `receive.rs` | the texts that came |
//! | `freshness.rs` | how old a text is, and what the node was asked |
//! | `pins.rs` | the texts that readers are in the middle of |
//! | `open.rs`, `cached.rs` | opening, reading, closing |

mod cached;
mod demand;
mod directories;
mod freshness;
mod list;
mod open;
mod pins;
mod receive;
mod subscriptions;
mod texts;

use std::time::Instant;

use crate::cluster::Cluster;
use crate::controls::Controls;
use crate::effects::Effects;
use crate::inode::{Inode, NodeId, PathId};
use crate::names::Names;
use list::Lists;
pub(crate) use open::{OpenedText, Reader};
use pins::Pins;
use subscriptions::TextSubscriptions;
use texts::Texts;

/// The kernel files of all nodes.
pub(crate) struct KernelFiles {
    /// The directory of kernel files, in every node.
    top: PathId,
    /// Small texts are read out of the page cache.
    cache_texts: bool,
    lists: Lists,
    texts: Texts,
    subscriptions: TextSubscriptions,
    pins: Pins,
    counts: Counts,
}

/// The rest of the tree, as far as kernel files need it.
pub(crate) struct Around<'a> {
    pub names: &'a mut Names,
    pub cluster: &'a mut Cluster,
    pub controls: &'a mut Controls,
    pub effects: &'a mut Effects,
    pub now: Instant,
}

impl Around<'_> {
    fn is_unreachable(&self, node: NodeId) -> bool {
        self.cluster.roster().is_unreachable(node)
    }
}

#[derive(Debug, Default)]
struct Counts {
    texts: u64,
    bytes: u64,
    failed: u64,
    /// Opens and reads that a limit refused.
    refused: u64,
    /// Questions for a fresh text.
    asked: u64,
    not_in_time: u64,
    /// Texts that were older than one that came before.
    older: u64,
}

/// The user of subscriptions that everybody shares: the lists.
const EVERYBODY: u32 = u32::MAX;

impl KernelFiles {
    /// Nothing is known; kernel files stand below `top` in every node. `budget`: files that one user may follow.
    pub fn new(top: PathId, budget: usize, cache_texts: bool) -> Self {
        KernelFiles {
            top,
            cache_texts,
            lists: Lists::default(),
            texts: Texts::default(),
            subscriptions: TextSubscriptions::new(budget),
            pins: Pins::default(),
            counts: Counts::default(),
        }
    }

    /// True when nothing will expire.
    pub fn is_idle(&self) -> bool {
        self.subscriptions.count() == 0
    }

    /// For `.mount/stats`.
    pub fn stats(&self) -> [(&'static str, u64); 12] {
        [
            ("texts_followed", self.subscriptions.count() as u64),
            ("texts_kept_bytes", self.texts.bytes() as u64),
            ("texts_pinned_bytes", self.pins.bytes() as u64),
            ("texts", self.counts.texts),
            ("texts_bytes", self.counts.bytes),
            ("texts_asked", self.counts.asked),
            ("texts_not_in_time", self.counts.not_in_time),
            ("texts_older", self.counts.older),
            ("texts_failed", self.counts.failed),
            ("texts_refused", self.counts.refused),
            ("texts_dropped", self.texts.dropped()),
            ("texts_names_left_out", self.lists.left_out()),
        ]
    }

    /// The inode of a node's list.
    fn list_inode(&self, node: NodeId) -> Inode {
        Inode::plain(node, self.top)
    }

    /// A path as the node knows it, below its `/proc`.
    fn path_at_node(names: &Names, path: PathId) -> String {
        names.text(path).strip_prefix("proc/").unwrap_or_default().to_owned()
    }
}
