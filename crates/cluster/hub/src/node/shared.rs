//! A node as readers and the link door share it: the node inside its lock, and what can be seen without the lock.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use khz_model::{Nanos, NodeName};

use super::Node;
use crate::memory::Changes;

/// A node, shared.
#[derive(Debug)]
pub(crate) struct SharedNode {
    pub name: NodeName,
    /// Changes whenever something comes from the node: a reader sees whether there is anything new.
    pub touched: AtomicU64,
    /// Whether the node is up, without the lock.
    pub up: AtomicBool,
    /// Its number, in the order in which nodes appeared; 0: the cluster has forgotten it, and its followers let go.
    pub appearance: AtomicU64,
    /// Rows of rules have come from it, and nobody has read them yet.
    pub is_heard: AtomicBool,
    state: Mutex<Node>,
    /// Rung when the node comes or goes.
    changes: Arc<Changes>,
}

impl SharedNode {
    /// A node that was never heard.
    pub fn new(name: NodeName, now: Nanos, changes: Arc<Changes>) -> Self {
        let state = Mutex::new(Node::new(name.clone(), now));
        let (touched, appearance) = (AtomicU64::new(0), AtomicU64::new(0));
        let (up, is_heard) = (AtomicBool::new(false), AtomicBool::new(false));
        SharedNode { name, touched, up, appearance, is_heard, state, changes }
    }

    /// The node itself.
    pub fn lock(&self) -> MutexGuard<'_, Node> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Something came from the node.
    pub fn touch(&self) {
        self.touched.fetch_add(1, Ordering::Release);
    }

    /// The node sent something, or came or went: wakes the readers that wait for it. The bells ring after the touch, so that a reader
    /// that wakes up finds the news.
    pub fn news(&self, node: &mut Node) {
        self.touch();
        if node.subscriptions.have_bells() {
            node.subscriptions.ring();
        }
    }

    /// Shows whether the node is up, for threads that do not lock it, and rings for the roster.
    pub fn set_up(&self, up: bool) {
        self.up.store(up, Ordering::Relaxed);
        self.changes.ring();
    }

    /// The node is up now, which its readers hear of.
    pub fn connected(&self) {
        self.set_up(true);
        self.news(&mut self.lock());
    }

    /// The connection has ended. `false`: it did not speak for the node any more.
    pub fn disconnect(&self, connection: u64, problem: Option<String>, now: Nanos) -> bool {
        let mut node = self.lock();
        let was_linked = node.disconnect(connection, problem, now);
        if was_linked {
            self.set_up(false);
            self.news(&mut node);
        }
        was_linked
    }

    /// True when the cluster does not know the node any more.
    pub fn is_forgotten(&self) -> bool {
        self.appearance.load(Ordering::Acquire) == 0
    }
}
