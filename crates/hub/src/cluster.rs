//! The cluster: every node that was ever heard, the schemas they share, the metrics they have, and what is
//! counted. Server and readers meet here; each node has a lock of its own.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock, RwLockWriteGuard, Weak};

use khz_link::HubName;
use khz_model::{Budget, ByteSize, Forgotten, Metric, Nanos, NodeName, NodeStatus, Pattern, Rate};

use crate::counts::Counts;
use crate::limits::{
    FOLLOW_BYTES_A_NODE, FOLLOW_BYTES_MAX, NODES_AT_ONCE, NODES_MAX, OUT_BYTES_MAX, OUT_BYTES_MIN,
    READERS_OUT_BYTES_MAX,
};
use crate::mailbox::Mailbox;
use crate::memory::{Changes, Entry};
use crate::node::{SharedNode, THROUGH_HUB};
use crate::schemas::{Schema, Schemas};
use crate::texts::TextBytes;

/// Metrics of different names that the cluster may have.
const METRICS_MAX: usize = 16_384;

/// What a hub is told.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Its name, for those who connect.
    pub name: String,
    /// Memory for blocks that have ended, of all nodes together; 0: only what readers follow.
    pub history: ByteSize,
    /// Fastest rate that a reader may ask for; the agents have ceilings of their own.
    pub rate_max: Rate,
}

/// Everything that is known.
#[derive(Debug)]
pub struct Cluster {
    pub(crate) settings: Settings,
    /// Random at every start: nodes see that they talk to another hub.
    pub(crate) identity: [u8; 16],
    nodes: RwLock<BTreeMap<NodeName, Arc<SharedNode>>>,
    pub(crate) schemas: Schemas,
    metrics: RwLock<Metrics>,
    pub(crate) counts: Counts,
    /// The hubs that nodes come from: by the source's number, the hub and all behind it.
    sources: Mutex<BTreeMap<usize, Vec<[u8; 16]>>>,
    /// Counts changes of them.
    pub(crate) sources_changed: AtomicU64,
    /// Counts nodes as they appear, so that readers look for new ones.
    appeared: AtomicU64,
    /// Kernel texts of all nodes.
    pub(crate) text_bytes: TextBytes,
    /// Readers on links: they share what may wait for all of them.
    pub(crate) readers: AtomicU64,
    /// What the places of readers at nodes hold.
    pub(crate) follow_bytes: Budget,
    /// Lanes of all nodes: they share the history's memory.
    pub(crate) lanes: AtomicU64,
    /// Rung when a node comes, goes or is forgotten.
    pub(crate) changes: Arc<Changes>,
    /// The link door's thread, while there is one, and whether somebody reads there.
    door: Mutex<Weak<Mailbox>>,
    is_read: AtomicBool,
}

#[derive(Debug, Default)]
struct Metrics {
    names: HashSet<String>,
    all: Vec<Arc<Metric>>,
}

impl Cluster {
    /// How a node is, and that it is at this hub where it is.
    pub(crate) fn status_of(&self, node: &SharedNode, now: Nanos) -> NodeStatus {
        let node = node.lock();
        let is_here = node.link.as_ref().is_some_and(|link| link.connection < THROUGH_HUB);
        NodeStatus { hub: is_here.then(|| self.settings.name.clone()), ..node.status(now) }
    }

    /// A cluster without nodes.
    pub fn new(settings: Settings, identity: [u8; 16]) -> Arc<Self> {
        Arc::new(Cluster {
            settings,
            identity,
            nodes: RwLock::default(),
            schemas: Schemas::default(),
            metrics: RwLock::default(),
            counts: Counts::default(),
            sources: Mutex::default(),
            sources_changed: AtomicU64::new(0),
            appeared: AtomicU64::new(0),
            text_bytes: TextBytes::default(),
            readers: AtomicU64::new(0),
            // Its limit follows the number of nodes: see `may_follow`.
            follow_bytes: Budget::new(ByteSize(u64::MAX), Arc::default()),
            lanes: AtomicU64::new(0),
            changes: Arc::default(),
            door: Mutex::default(),
            is_read: AtomicBool::new(false),
        })
    }

    /// Every node, in name order.
    pub(crate) fn nodes(&self) -> Vec<Arc<SharedNode>> {
        self.nodes.read().unwrap_or_else(|poisoned| poisoned.into_inner()).values().cloned().collect()
    }

    fn nodes_mut(&self) -> RwLockWriteGuard<'_, BTreeMap<NodeName, Arc<SharedNode>>> {
        self.nodes.write().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// How many nodes are known.
    fn known(&self) -> usize {
        self.nodes.read().unwrap_or_else(|poisoned| poisoned.into_inner()).len()
    }

    /// So few nodes that they need not take turns in sending.
    pub(crate) fn is_small(&self) -> bool {
        self.known() <= NODES_AT_ONCE
    }

    /// The node of that name, if it was ever heard.
    pub(crate) fn node(&self, name: &NodeName) -> Option<Arc<SharedNode>> {
        self.nodes.read().unwrap_or_else(|poisoned| poisoned.into_inner()).get(name).cloned()
    }

    /// The node of that name, new when it must be. `None`: there are too many, and all of them are up or expected.
    pub(crate) fn node_or_new(&self, name: &NodeName, now: Nanos) -> Option<Arc<SharedNode>> {
        if let Some(node) = self.node(name) {
            return Some(node);
        }
        let mut pushed_out = None;
        if self.known() >= NODES_MAX {
            let oldest = oldest(&self.nodes())?;
            tracing::warn!("{} was down the longest: it is forgotten to make room for {name}", oldest.name);
            self.nodes_mut().remove(&oldest.name);
            Counts::add(&self.counts.nodes_dropped, 1);
            pushed_out = Some(oldest);
        }
        let new = || Arc::new(SharedNode::new(name.clone(), now, self.changes.clone()));
        let node = self.nodes_mut().entry(name.clone()).or_insert_with(new).clone();
        self.appeared.fetch_add(1, Ordering::Release);
        if let Some(node) = pushed_out {
            node.lock().texts.forgotten();
        }
        Some(node)
    }

    /// These nodes should be there: they are known, whether they ever come or not.
    pub fn expect(&self, names: &[NodeName]) {
        let now = crate::clock::boot();
        for name in names {
            if let Some(node) = self.node_or_new(name, now) {
                node.lock().is_expected = true;
            }
        }
    }

    /// Nodes of former starts.
    pub(crate) fn remember(&self, entries: Vec<Entry>) {
        let now = crate::clock::boot();
        for entry in entries {
            if let Some(node) = self.node_or_new(&entry.node, now) {
                node.lock().remember(&entry);
            }
        }
    }

    /// What is to be remembered, in name order.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        let now = crate::clock::boot();
        self.nodes().iter().filter_map(|node| node.lock().entry(now)).collect()
    }

    /// Forgets the nodes that a hostlist selects and that need not stay.
    pub(crate) fn forget(&self, pattern: &Pattern) -> Forgotten {
        let (mut forgotten, mut gone) = (Forgotten::default(), Vec::new());
        for node in self.nodes() {
            if !pattern.matches_node(node.name.as_str()) {
                continue;
            }
            // A node's lock is never taken while the list is locked: who holds a node may ask for the list.
            let (stays, is_expected) = {
                let state = node.lock();
                (state.must_stay(), state.is_expected)
            };
            if let Some(why) = stays {
                forgotten.refused.push((node.name.clone(), why));
                continue;
            }
            self.nodes_mut().remove(&node.name);
            if is_expected {
                self.expect(std::slice::from_ref(&node.name));
                forgotten.expected.push(node.name.clone());
            }
            forgotten.nodes.push(node.name.clone());
            if node.lock().link.is_some() {
                self.keep(&node);
            }
            gone.push(node);
        }
        self.appeared.fetch_add(1, Ordering::Release);
        gone.iter().for_each(|node| node.lock().texts.forgotten());
        self.changes.ring();
        // Readers hear that its lanes are over.
        self.stir();
        forgotten
    }

    /// A node has connected: it is the one of its name, also where that was forgotten a moment before.
    pub(crate) fn keep(&self, node: &Arc<SharedNode>) {
        if self.node(&node.name).is_some_and(|known| Arc::ptr_eq(&known, node)) {
            return;
        }
        self.nodes_mut().insert(node.name.clone(), node.clone());
        self.appeared.fetch_add(1, Ordering::Release);
    }

    /// Where the epochs of a connection's lanes begin: a lane of another connection, or of a hub that was restarted, is
    /// another lane.
    pub(crate) fn epochs(&self, connection: u64) -> u64 {
        let random = self.identity.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        // An odd factor and the count of connections keep them apart.
        random.wrapping_add(connection.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// Changes when a node appears.
    pub(crate) fn appeared(&self) -> u64 {
        self.appeared.load(Ordering::Acquire)
    }

    /// Takes in the metrics of a schema that is new.
    pub(crate) fn note_metrics(&self, schema: &Schema) {
        let is_known = |metrics: &Metrics| {
            let mut last: Option<&Arc<Metric>> = None;
            schema.series().iter().all(|series| {
                let same = last.is_some_and(|metric| Arc::ptr_eq(metric, &series.metric));
                last = Some(&series.metric);
                same || metrics.names.contains(&*series.metric.name)
            })
        };
        if is_known(&self.metrics.read().unwrap_or_else(|poisoned| poisoned.into_inner())) {
            return;
        }
        let mut metrics = self.metrics.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        for series in schema.series() {
            if metrics.all.len() < METRICS_MAX && !metrics.names.contains(&*series.metric.name) {
                metrics.names.insert(series.metric.name.to_string());
                metrics.all.push(series.metric.clone());
            }
        }
    }

    /// Every metric that some node has.
    pub(crate) fn metrics(&self) -> Vec<Arc<Metric>> {
        self.metrics.read().unwrap_or_else(|poisoned| poisoned.into_inner()).all.clone()
    }

    /// The link door's thread, which has its bell here.
    pub(crate) fn served_by(&self, mailbox: &Arc<Mailbox>) {
        *self.door.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Arc::downgrade(mailbox);
    }

    /// Connections that are open at the link door, those of its nodes included.
    pub fn connections(&self) -> u64 {
        self.counts.connections.load(Ordering::Relaxed)
    }

    /// Whether somebody reads at the link door.
    pub(crate) fn is_read_here(&self, is_read: bool) {
        self.is_read.store(is_read, Ordering::Release);
    }

    /// Something has come by another way than the link door, whose thread sleeps until it has something to say.
    pub(crate) fn stir(&self) {
        if !self.is_read.load(Ordering::Acquire) {
            return;
        }
        let door = self.door.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).upgrade();
        if let Some(door) = door {
            door.ring();
        }
    }

    /// About once a second while anything comes, and once after it: how many lanes share the history's memory, and nobody keeps more than his share, be he down.
    pub(crate) fn keep_house(&self) {
        let nodes = self.nodes();
        let lanes: usize = nodes.iter().map(|node| node.lock().history_lanes()).sum();
        self.lanes.store(lanes as u64, Ordering::Relaxed);
        let share = self.history_share();
        let now = crate::clock::boot();
        for node in nodes {
            let mut node = node.lock();
            node.trim(share);
            node.forget_late(now);
            node.forget_demand(now);
        }
    }

    /// Bytes that may wait for one reader on a link.
    pub(crate) fn out_bytes_max(&self) -> usize {
        let readers = self.readers.load(Ordering::Relaxed).max(1) as usize;
        (READERS_OUT_BYTES_MAX / readers).clamp(OUT_BYTES_MIN, OUT_BYTES_MAX)
    }

    /// Whether readers may hold this number of bytes more.
    pub(crate) fn may_follow(&self, bytes: u64) -> bool {
        self.follow_bytes.held().saturating_add(bytes) <= self.follow_bytes_max()
    }

    /// What the places of all readers may hold.
    pub(crate) fn follow_bytes_max(&self) -> u64 {
        let nodes = self.nodes.read().unwrap_or_else(|poisoned| poisoned.into_inner()).len() as u64;
        FOLLOW_BYTES_MAX + nodes * FOLLOW_BYTES_A_NODE
    }

    /// A lane's share of the history.
    pub(crate) fn history_share(&self) -> u64 {
        self.settings.history.0 / self.lanes.load(Ordering::Relaxed).max(1)
    }

    /// Random at every start.
    pub fn identity(&self) -> [u8; 16] {
        self.identity
    }

    fn sources(&self) -> MutexGuard<'_, BTreeMap<usize, Vec<[u8; 16]>>> {
        self.sources.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The hubs that nodes come from, and those behind them, each once.
    pub(crate) fn all_sources(&self) -> Vec<[u8; 16]> {
        let all: BTreeSet<[u8; 16]> = self.sources().values().flatten().copied().collect();
        all.into_iter().collect()
    }

    /// This hub, and those that its nodes come from.
    pub fn origins(&self) -> Vec<[u8; 16]> {
        [self.identity].into_iter().chain(self.all_sources()).collect()
    }

    /// Nodes come from this hub now; `false`: it is this one, or gets nodes from it.
    pub(crate) fn set_source(&self, number: usize, hub: &HubName) -> bool {
        let behind: Vec<[u8; 16]> = hub.sources.iter().copied().chain([hub.identity]).collect();
        if behind.contains(&self.identity) {
            return false;
        }
        if self.sources().insert(number, behind.clone()) != Some(behind) {
            self.sources_changed.fetch_add(1, Ordering::Release);
        }
        true
    }

    /// No nodes come from it.
    pub(crate) fn forget_source(&self, number: usize) {
        // Who reads here may keep what he knows of it: fewer sources make no loop.
        self.sources().remove(&number);
    }

    /// Whether blocks that have ended are kept.
    pub(crate) fn keeps_history(&self) -> bool {
        self.settings.history.0 > 0
    }
}

/// The node that was down the longest, of those that nobody expects.
fn oldest(nodes: &[Arc<SharedNode>]) -> Option<Arc<SharedNode>> {
    let now = crate::clock::boot();
    let gone = nodes.iter().filter(|node| !node.up.load(Ordering::Relaxed)).filter_map(|node| {
        let state = node.lock();
        // One that was never heard came before all others.
        let heard = state.entry(now).map_or(i64::MIN, |entry| entry.heard);
        (!state.is_expected).then_some((heard, node))
    });
    gone.min_by(|(a, one), (b, two)| a.cmp(b).then_with(|| one.name.cmp(&two.name)))
        .map(|(_, node)| node.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::follow::Numbers;
    use crate::query::{ClusterSubscription, Pace};
    use khz_model::{Interest, Pattern, QueryError};

    fn cluster() -> Arc<Cluster> {
        let rate_max = Rate::from_hz(1_000).unwrap();
        Cluster::new(Settings { name: "hub".into(), history: ByteSize(0), rate_max }, [7; 16])
    }

    #[test]
    fn readers_share_what_may_wait_for_all_of_them() {
        let cluster = cluster();
        for (readers, each) in [
            (0, OUT_BYTES_MAX),
            (64, OUT_BYTES_MAX),
            (100, READERS_OUT_BYTES_MAX / 100),
            (1_024, OUT_BYTES_MIN),
        ] {
            cluster.readers.store(readers, Ordering::Relaxed);
            assert_eq!(cluster.out_bytes_max(), each, "{readers}");
            assert!(readers as usize * each <= READERS_OUT_BYTES_MAX);
        }
    }

    #[test]
    fn nobody_new_follows_nodes_when_readers_hold_as_much_as_they_may() {
        let cluster = cluster();
        let interest = || {
            let patterns = vec![Pattern::everything()];
            Interest { patterns, rate: Rate::from_hz(1).unwrap(), exact: false }
        };
        let follow = || ClusterSubscription::new(cluster.clone(), interest(), Pace::Flushed, Numbers::Doors);
        let all = cluster.follow_bytes.take(cluster.follow_bytes_max() + 1).unwrap();
        let refused = follow().err().unwrap();
        assert!(matches!(refused, QueryError::Full { .. }), "{refused}");
        assert!(refused.to_string().ends_with("is reached; try again when others have gone"), "{refused}");
        drop(all);
        assert!(follow().is_ok());
        assert_eq!(cluster.follow_bytes.held(), 0, "what nobody holds any more is given back");
    }
}
