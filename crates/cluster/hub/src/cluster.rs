//! The cluster: every node that was ever heard, the schemas that nodes share, and the counters. The link door and
//! readers share it; each node has its own lock.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, RwLock, RwLockReadGuard, Weak};

use khz_model::{
    Bells, Budget, ByteSize, Choice, Forgotten, Metric, Nanos, NodeName, NodeStatus, Pattern, Rate,
};
use khz_store::log::Intake;

use crate::channels::{Channels, KnownChannels};
use crate::counts::Counts;
use crate::followed::FollowedChannels;
use crate::freezes::Freezes;
use crate::kept_losses::KeptLosses;
use crate::known::Known;
use crate::limits::{
    FOLLOW_BYTES_A_NODE, FOLLOW_BYTES_MAX, NODES_AT_ONCE, NODES_BYTES_EACH, NODES_BYTES_MAX, NODES_DROPPED,
    NODES_MAX, OUT_BYTES_MAX, OUT_BYTES_MIN, READERS_OUT_BYTES_MAX,
};
use crate::mailbox::Mailbox;
use crate::memory::{Changes, Entry};
use crate::node::SharedNode;
use crate::recorded::Recorded;
use crate::rule_rows::Heard;
use crate::schemas::{Schema, Schemas};
use crate::texts::TextBytes;

mod metrics;
mod sources;
mod stored;

use metrics::Metrics;
pub(crate) use sources::Sources;

/// Memory that nodes and readers give back: from this much on it is worth searching everything that is free.
const MUCH: u64 = 4 << 20;

/// The settings of a hub.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Its name, as its peers see it.
    pub name: String,
    /// Memory for blocks that have ended, of all nodes together; 0: only what readers follow.
    pub history: ByteSize,
    /// Fastest rate that a reader may ask for; the agents have ceilings of their own.
    pub rate_max: Rate,
}

/// Everything that the hub knows.
#[derive(Debug)]
pub struct Cluster {
    pub(crate) settings: Settings,
    /// Random at every start, so that nodes notice a restarted hub.
    pub(crate) identity: [u8; 16],
    nodes: RwLock<Known>,
    pub(crate) schemas: Schemas,
    metrics: Metrics,
    pub(crate) counts: Counts,
    /// The hubs that nodes come from.
    pub(crate) sources: Sources,
    /// The turn of the node that appeared last, and how many nodes were forgotten: readers compare them to find new
    /// nodes.
    appeared: AtomicU64,
    forgotten: AtomicU64,
    /// Kernel texts of all nodes.
    pub(crate) text_bytes: TextBytes,
    /// Readers on links. They share the bytes that may wait for all of them.
    pub(crate) readers: AtomicU64,
    /// Memory that the readers' cursors hold.
    pub(crate) follow_bytes: Budget,
    /// Memory that nodes hold beside schemas and history.
    pub(crate) node_bytes: Budget,
    /// A node was refused because the others use too much memory: nodes that are down must free theirs.
    pub(crate) is_short_of_memory: AtomicBool,
    /// Called when nodes or readers have given back much memory.
    gave_back: OnceLock<fn()>,
    /// Where the rows of base lanes go beside this.
    intake: OnceLock<Intake>,
    /// The results of rules.
    pub(crate) recorded: Recorded,
    /// Channels that readers may name.
    pub(crate) channels: Channels,
    /// Channels that readers follow.
    pub(crate) followed: FollowedChannels,
    /// Rows of channels that the store lacks.
    pub(crate) kept_losses: KeptLosses,
    /// Rows that nodes keep for this hub.
    pub(crate) freezes: Freezes,
    /// Rows of rules that nodes judge.
    pub(crate) heard: Heard,
    /// Lanes of all nodes, which share the history's memory.
    pub(crate) lanes: AtomicU64,
    /// Rung when a node comes, goes or is forgotten.
    pub(crate) changes: Arc<Changes>,
    /// Bells of readers that sleep until there is another node.
    pub(crate) newcomers: Bells,
    /// The mailbox of the link door's thread, if that runs, and whether a reader is connected there.
    door: Mutex<Weak<Mailbox>>,
    is_read: AtomicBool,
}

impl Cluster {
    /// A node's status; it names this hub if the node is connected here.
    pub(crate) fn status_of(&self, node: &SharedNode, now: Nanos) -> NodeStatus {
        let node = node.lock();
        NodeStatus { hub: node.link().is_direct().then(|| self.settings.name.clone()), ..node.status(now) }
    }

    /// A cluster without nodes.
    pub fn new(settings: Settings, identity: [u8; 16]) -> Arc<Self> {
        Arc::new(Cluster {
            settings,
            identity,
            nodes: RwLock::default(),
            schemas: Schemas::default(),
            metrics: Metrics::default(),
            counts: Counts::default(),
            sources: Sources::new(identity),
            appeared: AtomicU64::new(0),
            forgotten: AtomicU64::new(0),
            text_bytes: TextBytes::default(),
            readers: AtomicU64::new(0),
            // Its limit grows with the number of nodes: see `may_follow`.
            follow_bytes: Budget::new(ByteSize(u64::MAX), Arc::default()),
            // The same.
            node_bytes: Budget::new(ByteSize(u64::MAX), Arc::default()),
            is_short_of_memory: AtomicBool::new(false),
            gave_back: OnceLock::new(),
            intake: OnceLock::new(),
            recorded: Recorded::default(),
            channels: Channels::default(),
            followed: FollowedChannels::default(),
            kept_losses: KeptLosses::default(),
            freezes: Freezes::default(),
            heard: Heard::default(),
            lanes: AtomicU64::new(0),
            changes: Arc::default(),
            newcomers: Bells::default(),
            door: Mutex::default(),
            is_read: AtomicBool::new(false),
        })
    }

    /// Readers may name these channels. Only the first call counts.
    pub fn know_channels(&self, kept: Arc<dyn KnownChannels>) {
        self.channels.set(kept);
    }

    fn read(&self) -> RwLockReadGuard<'_, Known> {
        self.nodes.read().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Every node, in name order.
    pub(crate) fn nodes(&self) -> Vec<Arc<SharedNode>> {
        self.read().all().cloned().collect()
    }

    /// At most this many of the nodes that appeared after this one, each with its number.
    pub(crate) fn appeared_after(&self, appeared: u64, most: usize) -> Vec<(u64, Arc<SharedNode>)> {
        self.read().after(appeared, most)
    }

    /// The nodes that a choice selects. A choice that names its nodes is looked up by name.
    pub(crate) fn chosen(&self, choice: &Choice) -> Vec<Arc<SharedNode>> {
        let known = self.read();
        match choice.names() {
            Some(names) => {
                let names = names.filter_map(|name| NodeName::new(name).ok());
                let mut nodes: Vec<Arc<SharedNode>> =
                    names.filter_map(|name| known.get(&name).cloned()).collect();
                nodes.sort_by(|one, two| one.name.cmp(&two.name));
                nodes
            }
            None => {
                let is_meant = |node: &&Arc<SharedNode>| !choice.speaking(node.name.as_str()).is_empty();
                known.all().filter(is_meant).cloned().collect()
            }
        }
    }

    /// Changes the list of nodes, and shows readers that it has changed.
    fn change<T>(&self, change: impl FnOnce(&mut Known) -> T) -> T {
        let mut known = self.nodes.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        let done = change(&mut known);
        let (appeared, forgotten) = known.changes();
        self.appeared.store(appeared, Ordering::Release);
        self.forgotten.store(forgotten, Ordering::Release);
        drop(known);
        self.newcomers.ring();
        done
    }

    /// How many nodes are known.
    fn known(&self) -> usize {
        self.read().len()
    }

    /// True if there are so few nodes that they need not spread their sending over the second.
    pub(crate) fn is_small(&self) -> bool {
        self.known() <= NODES_AT_ONCE
    }

    /// The node with this name, if it was ever heard.
    pub(crate) fn node(&self, name: &NodeName) -> Option<Arc<SharedNode>> {
        self.read().get(name).cloned()
    }

    /// The node with this name; it is created if it is not known. `None`: there are too many nodes, and all of them
    /// are up or expected.
    pub(crate) fn node_or_new(&self, name: &NodeName, now: Nanos) -> Option<Arc<SharedNode>> {
        if let Some(node) = self.node(name) {
            return Some(node);
        }
        if self.known() >= NODES_MAX {
            self.make_room(name)?;
        }
        Some(self.change(|known| match known.get(name) {
            Some(node) => node.clone(),
            None => {
                let node = Arc::new(SharedNode::new(name.clone(), now, self.changes.clone()));
                known.insert(node.clone());
                node
            }
        }))
    }

    /// Forgets the nodes that were down the longest. `None`: no node may be forgotten.
    fn make_room(&self, name: &NodeName) -> Option<()> {
        let oldest = oldest(&self.nodes());
        let first = oldest.first()?;
        tracing::warn!(
            "{} nodes that were down the longest, {} first, are forgotten to make room for {name} and others",
            oldest.len(),
            first.name
        );
        self.change(|known| oldest.iter().for_each(|node| known.remove(&node.name)));
        oldest.iter().for_each(|node| node.lock().texts().0.forgotten());
        Counts::add(&self.counts.nodes_dropped, oldest.len() as u64);
        Some(())
    }

    /// These nodes should exist: they are known from now on, even if they never connect.
    pub fn expect(&self, names: &[NodeName]) {
        let now = crate::clock::boot();
        for name in names {
            if let Some(node) = self.node_or_new(name, now) {
                node.lock().link_mut().expect();
            }
        }
    }

    /// Takes in the nodes of earlier starts.
    pub(crate) fn remember(&self, entries: Vec<Entry>) {
        let now = crate::clock::boot();
        for entry in entries {
            if let Some(node) = self.node_or_new(&entry.node, now) {
                node.lock().link_mut().remember(&entry);
            }
        }
    }

    /// The entries of the roster, in name order.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        let now = crate::clock::boot();
        self.nodes().iter().filter_map(|node| node.lock().entry(now)).collect()
    }

    /// Forgets the nodes that a hostlist selects, except those that must stay.
    pub(crate) fn forget(&self, pattern: &Pattern) -> Forgotten {
        let (mut forgotten, mut gone) = (Forgotten::default(), Vec::new());
        for node in self.nodes() {
            if !pattern.matches_node(node.name.as_str()) {
                continue;
            }
            // A node's lock is never taken while the list is locked: a thread that holds a node may need the list.
            let (stays, is_expected) = {
                let state = node.lock();
                (state.link().must_stay(), state.link().is_expected())
            };
            if let Some(why) = stays {
                forgotten.refused.push((node.name.clone(), why));
                continue;
            }
            self.change(|known| known.remove(&node.name));
            if is_expected {
                self.expect(std::slice::from_ref(&node.name));
                forgotten.expected.push(node.name.clone());
            }
            forgotten.nodes.push(node.name.clone());
            if node.lock().link().is_up() {
                self.keep(&node);
            }
            gone.push(node);
        }
        gone.iter().for_each(|node| node.lock().texts().0.forgotten());
        // Readers learn that the nodes' lanes are over.
        self.stir();
        forgotten
    }

    /// Forgets a node that no hub knows any more.
    pub(crate) fn forget_node(&self, node: &Arc<SharedNode>) {
        self.change(|known| known.remove(&node.name));
        if node.lock().link().is_up() {
            return self.keep(node);
        }
        node.lock().texts().0.forgotten();
        self.stir();
    }

    /// A node has connected: its name belongs to it, even if the cluster forgot the name a moment ago.
    pub(crate) fn keep(&self, node: &Arc<SharedNode>) {
        if self.node(&node.name).is_some_and(|known| Arc::ptr_eq(&known, node)) {
            return;
        }
        self.change(|known| known.insert(node.clone()));
    }

    /// The first epoch of a connection's lanes. A lane of another connection, or of a restarted hub, has another epoch.
    pub(crate) fn epochs(&self, connection: u64) -> u64 {
        let random = self.identity.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        // The odd factor gives every connection another epoch.
        random.wrapping_add(connection.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// The turn of the node that appeared last.
    pub(crate) fn appeared(&self) -> u64 {
        self.appeared.load(Ordering::Acquire)
    }

    /// How many nodes were forgotten.
    pub(crate) fn forgotten(&self) -> u64 {
        self.forgotten.load(Ordering::Acquire)
    }

    /// The link door's thread has this mailbox.
    pub(crate) fn served_by(&self, mailbox: &Arc<Mailbox>) {
        *self.door.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Arc::downgrade(mailbox);
    }

    /// Connections that are open at the link door, nodes' and readers'.
    pub fn connections(&self) -> u64 {
        self.counts.connections.load(Ordering::Relaxed)
    }

    /// Whether a reader is connected at the link door.
    pub(crate) fn is_read_here(&self, is_read: bool) {
        self.is_read.store(is_read, Ordering::Release);
    }

    /// Wakes the link door's thread if it has readers: something came another way than through the link door.
    pub(crate) fn stir(&self) {
        if !self.is_read.load(Ordering::Acquire) {
            return;
        }
        self.ring_door();
    }

    /// Wakes the link door's thread, which has something to do later.
    pub(crate) fn ring_door(&self) {
        let door = self.door.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).upgrade();
        if let Some(door) = door {
            door.ring();
        }
    }

    /// `act` is called when nodes that are down, or readers that have gone, have given back much memory: at most once in a
    /// round of housekeeping each.
    pub fn when_given_back(&self, act: fn()) {
        // The first call counts.
        let _ = self.gave_back.set(act);
    }

    /// Housekeeping, about once a second while anything comes, and once afterwards: counts the lanes that share the
    /// history's memory, and frees what a node holds beyond its share or does not need. Readers stop waiting for rows
    /// that a node does not send. Returns when to call it again even if nothing comes.
    pub(crate) fn keep_house(&self, now: Nanos) -> Option<Nanos> {
        let nodes = self.nodes();
        let lanes: usize = nodes.iter().map(|node| node.lock().lanes().history_lanes()).sum();
        let lanes = lanes + self.recorded.len();
        self.lanes.store(lanes as u64, Ordering::Relaxed);
        let share = self.history_share();
        self.recorded.each_lane(|lane| lane.trim(share));
        let is_short = self.is_short_of_memory.swap(false, Ordering::Relaxed);
        let before = self.node_bytes.held() + self.schemas.held();
        let (mut next, mut gives_back, mut is_news) = (None, false, false);
        for shared in nodes {
            let mut node = shared.lock();
            gives_back |= node.keep_house(self, share, now, is_short);
            if node.has_waited(now) {
                shared.news(&mut node);
                is_news = true;
            }
            next = next.into_iter().chain(node.next_due(now)).min();
        }
        if gives_back || is_short || self.schemas.has_changed() {
            self.tidy(before);
        }
        if is_news {
            // The link's readers are served by a thread that sleeps otherwise.
            self.ring_door();
        }
        next
    }

    /// Drops the metrics and schemas that no node has any more.
    fn tidy(&self, before: u64) {
        self.metrics.tidy();
        self.schemas.tidy();
        self.has_given_back(before.saturating_sub(self.node_bytes.held() + self.schemas.held()));
    }

    /// Nodes or readers have freed this many bytes. `true`: this is much, so free memory was returned to the
    /// system.
    pub(crate) fn has_given_back(&self, bytes: u64) -> bool {
        let is_much = bytes >= MUCH;
        if is_much && let Some(act) = self.gave_back.get() {
            act();
        }
        is_much
    }

    /// Whether nodes may hold this many more bytes.
    pub(crate) fn may_hold(&self, bytes: u64) -> bool {
        let most = NODES_BYTES_MAX + self.connections() * NODES_BYTES_EACH;
        self.node_bytes.held().saturating_add(bytes) <= most
    }

    /// Bytes that may wait for one reader on a link.
    pub(crate) fn out_bytes_max(&self) -> usize {
        let readers = self.readers.load(Ordering::Relaxed).max(1) as usize;
        (READERS_OUT_BYTES_MAX / readers).clamp(OUT_BYTES_MIN, OUT_BYTES_MAX)
    }

    /// Whether readers may hold this many more bytes.
    pub(crate) fn may_follow(&self, bytes: u64) -> bool {
        self.follow_bytes.held().saturating_add(bytes) <= self.follow_bytes_max()
    }

    /// Memory that all readers' cursors may hold.
    pub(crate) fn follow_bytes_max(&self) -> u64 {
        FOLLOW_BYTES_MAX + self.known() as u64 * FOLLOW_BYTES_A_NODE
    }

    /// One lane's share of the history's memory.
    pub(crate) fn history_share(&self) -> u64 {
        self.settings.history.0 / self.lanes.load(Ordering::Relaxed).max(1)
    }

    /// Random at every start.
    pub fn identity(&self) -> [u8; 16] {
        self.identity
    }

    /// This hub, and those that its nodes come from.
    pub fn origins(&self) -> Vec<[u8; 16]> {
        [self.identity].into_iter().chain(self.sources.all()).collect()
    }

    /// Takes in the metrics of a schema whose slots from this one on are new.
    pub(crate) fn note_metrics(&self, schema: &Schema, from: usize) {
        self.metrics.note(schema.series().get(from..).unwrap_or_default());
    }

    /// Every metric that some node has.
    pub(crate) fn metrics(&self) -> Vec<Arc<Metric>> {
        self.metrics.all()
    }

    /// Whether blocks that have ended are kept.
    pub(crate) fn keeps_history(&self) -> bool {
        self.settings.history.0 > 0
    }
}

/// The nodes that were down the longest, oldest first, without those that are expected.
fn oldest(nodes: &[Arc<SharedNode>]) -> Vec<Arc<SharedNode>> {
    let now = crate::clock::boot();
    let gone = nodes.iter().filter(|node| !node.up.load(Ordering::Relaxed)).filter_map(|node| {
        let state = node.lock();
        // A node that was never heard counts as the oldest.
        let heard = state.entry(now).map_or(i64::MIN, |entry| entry.heard);
        (!state.link().is_expected()).then(|| (heard, node.clone()))
    });
    let mut gone: Vec<(i64, Arc<SharedNode>)> = gone.collect();
    gone.sort_by(|(a, one), (b, two)| a.cmp(b).then_with(|| one.name.cmp(&two.name)));
    gone.truncate(NODES_DROPPED);
    gone.into_iter().map(|(_, node)| node).collect()
}

#[cfg(test)]
mod tests;
