//! The cluster: every node that was ever heard, the schemas they share, the metrics they have, and what is
//! counted. Server and readers meet here; each node has a lock of its own.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, RwLock, RwLockReadGuard, Weak};

use khz_link::HubName;
use khz_model::{Budget, ByteSize, Choice, Forgotten, Metric, Nanos, NodeName, NodeStatus, Pattern, Rate};

use crate::counts::Counts;
use crate::known::Known;
use crate::limits::{
    FOLLOW_BYTES_A_NODE, FOLLOW_BYTES_MAX, NODES_AT_ONCE, NODES_BYTES_EACH, NODES_BYTES_MAX, NODES_DROPPED,
    NODES_MAX, OUT_BYTES_MAX, OUT_BYTES_MIN, READERS_OUT_BYTES_MAX,
};
use crate::mailbox::Mailbox;
use crate::memory::{Changes, Entry};
use crate::node::SharedNode;
use crate::schemas::{Schema, Schemas};
use crate::texts::TextBytes;

/// Metrics of different names that the cluster may have.
const METRICS_MAX: usize = 16_384;

/// Given back at once, it is worth going through all that is free.
const MUCH: u64 = 4 << 20;

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
    nodes: RwLock<Known>,
    pub(crate) schemas: Schemas,
    metrics: RwLock<Metrics>,
    pub(crate) counts: Counts,
    /// The hubs that nodes come from: by the source's number, the hub and all behind it.
    sources: Mutex<BTreeMap<usize, Vec<[u8; 16]>>>,
    /// Counts changes of them.
    pub(crate) sources_changed: AtomicU64,
    /// The turn of the node that appeared last, so that readers look for new ones, and how many were forgotten.
    appeared: AtomicU64,
    forgotten: AtomicU64,
    /// Kernel texts of all nodes.
    pub(crate) text_bytes: TextBytes,
    /// Readers on links: they share what may wait for all of them.
    pub(crate) readers: AtomicU64,
    /// What the places of readers at nodes hold.
    pub(crate) follow_bytes: Budget,
    /// What nodes hold beside schemas and history.
    pub(crate) node_bytes: Budget,
    /// A node was refused because others hold too much: those that have gone give back what they hold.
    pub(crate) is_short_of_memory: AtomicBool,
    /// Does something when much was given back.
    gave_back: OnceLock<fn()>,
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
        NodeStatus { hub: node.link().is_direct().then(|| self.settings.name.clone()), ..node.status(now) }
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
            forgotten: AtomicU64::new(0),
            text_bytes: TextBytes::default(),
            readers: AtomicU64::new(0),
            // Its limit follows the number of nodes: see `may_follow`.
            follow_bytes: Budget::new(ByteSize(u64::MAX), Arc::default()),
            // The same.
            node_bytes: Budget::new(ByteSize(u64::MAX), Arc::default()),
            is_short_of_memory: AtomicBool::new(false),
            gave_back: OnceLock::new(),
            lanes: AtomicU64::new(0),
            changes: Arc::default(),
            door: Mutex::default(),
            is_read: AtomicBool::new(false),
        })
    }

    fn read(&self) -> RwLockReadGuard<'_, Known> {
        self.nodes.read().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Every node, in name order.
    pub(crate) fn nodes(&self) -> Vec<Arc<SharedNode>> {
        self.read().all().cloned().collect()
    }

    /// At most this number of the nodes that appeared after this turn, each with its own.
    pub(crate) fn appeared_after(&self, turn: u64, most: usize) -> Vec<(u64, Arc<SharedNode>)> {
        self.read().after(turn, most)
    }

    /// The nodes that some patterns speak of: looked up where they write out their names.
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

    /// Changes the list, and tells readers.
    fn change<T>(&self, change: impl FnOnce(&mut Known) -> T) -> T {
        let mut known = self.nodes.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        let done = change(&mut known);
        let (appeared, forgotten) = known.changes();
        self.appeared.store(appeared, Ordering::Release);
        self.forgotten.store(forgotten, Ordering::Release);
        done
    }

    /// How many nodes are known.
    fn known(&self) -> usize {
        self.read().len()
    }

    /// So few nodes that they need not take turns in sending.
    pub(crate) fn is_small(&self) -> bool {
        self.known() <= NODES_AT_ONCE
    }

    /// The node of that name, if it was ever heard.
    pub(crate) fn node(&self, name: &NodeName) -> Option<Arc<SharedNode>> {
        self.read().get(name).cloned()
    }

    /// The node of that name, new when it must be. `None`: there are too many, and all of them are up or expected.
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

    /// Forgets the nodes that were down the longest. `None`: there are none.
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

    /// These nodes should be there: they are known, whether they ever come or not.
    pub fn expect(&self, names: &[NodeName]) {
        let now = crate::clock::boot();
        for name in names {
            if let Some(node) = self.node_or_new(name, now) {
                node.lock().link_mut().expect();
            }
        }
    }

    /// Nodes of former starts.
    pub(crate) fn remember(&self, entries: Vec<Entry>) {
        let now = crate::clock::boot();
        for entry in entries {
            if let Some(node) = self.node_or_new(&entry.node, now) {
                node.lock().link_mut().remember(&entry);
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
        self.change(|known| known.insert(node.clone()));
    }

    /// Where the epochs of a connection's lanes begin: a lane of another connection, or of a hub that was restarted, is
    /// another lane.
    pub(crate) fn epochs(&self, connection: u64) -> u64 {
        let random = self.identity.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        // An odd factor and the count of connections keep them apart.
        random.wrapping_add(connection.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// The turn of the node that appeared last.
    pub(crate) fn appeared(&self) -> u64 {
        self.appeared.load(Ordering::Acquire)
    }

    /// Changes when a node is forgotten.
    pub(crate) fn forgotten(&self) -> u64 {
        self.forgotten.load(Ordering::Acquire)
    }

    /// Takes in the metrics of a schema whose slots from this one on are new.
    pub(crate) fn note_metrics(&self, schema: &Schema, from: usize) {
        let new = schema.series().get(from..).unwrap_or_default();
        let is_known = |metrics: &Metrics| {
            let mut last: Option<&Arc<Metric>> = None;
            new.iter().all(|series| {
                let same = last.is_some_and(|metric| Arc::ptr_eq(metric, &series.metric));
                last = Some(&series.metric);
                same || metrics.names.contains(&*series.metric.name)
            })
        };
        if is_known(&self.metrics.read().unwrap_or_else(|poisoned| poisoned.into_inner())) {
            return;
        }
        let mut metrics = self.metrics.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        for series in new {
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

    /// `act` is called when nodes that have gone have given back much memory.
    pub fn when_given_back(&self, act: fn()) {
        // The first one counts.
        let _ = self.gave_back.set(act);
    }

    /// About once a second while anything comes, and once after it: how many lanes share the history's memory, and nobody
    /// keeps more than his share, be he down. Tells when the next node gives back what it holds.
    pub(crate) fn keep_house(&self, now: Nanos) -> Option<Nanos> {
        let nodes = self.nodes();
        let lanes: usize = nodes.iter().map(|node| node.lock().lanes().history_lanes()).sum();
        self.lanes.store(lanes as u64, Ordering::Relaxed);
        let share = self.history_share();
        let is_short = self.is_short_of_memory.swap(false, Ordering::Relaxed);
        let before = self.node_bytes.held() + self.schemas.held();
        let (mut next, mut gives_back) = (None, false);
        for node in nodes {
            let mut node = node.lock();
            gives_back |= node.keep_house(self, share, now, is_short);
            next = next.into_iter().chain(node.next_give_back(now)).min();
        }
        if gives_back || is_short || self.schemas.has_changed() {
            self.tidy(before);
        }
        next
    }

    /// Lets go of what nodes had in common and none has any more.
    fn tidy(&self, before: u64) {
        {
            // Those that only this list and the schemas' have are no node's.
            let mut metrics = self.metrics.write().unwrap_or_else(|poisoned| poisoned.into_inner());
            let Metrics { names, all } = &mut *metrics;
            all.retain(|metric| {
                let is_used = Arc::strong_count(metric) > 2;
                if !is_used {
                    names.remove(&*metric.name);
                }
                is_used
            });
        }
        self.schemas.tidy();
        self.has_given_back(before.saturating_sub(self.node_bytes.held() + self.schemas.held()));
    }

    /// This number of bytes was given back.
    pub(crate) fn has_given_back(&self, bytes: u64) {
        if bytes >= MUCH
            && let Some(act) = self.gave_back.get()
        {
            act();
        }
    }

    /// Whether nodes may hold this number of bytes more.
    pub(crate) fn may_hold(&self, bytes: u64) -> bool {
        let most = NODES_BYTES_MAX + self.connections() * NODES_BYTES_EACH;
        self.node_bytes.held().saturating_add(bytes) <= most
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
        FOLLOW_BYTES_MAX + self.known() as u64 * FOLLOW_BYTES_A_NODE
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

/// The nodes that were down the longest, of those that nobody expects, the first of them first.
fn oldest(nodes: &[Arc<SharedNode>]) -> Vec<Arc<SharedNode>> {
    let now = crate::clock::boot();
    let gone = nodes.iter().filter(|node| !node.up.load(Ordering::Relaxed)).filter_map(|node| {
        let state = node.lock();
        // One that was never heard came before all others.
        let heard = state.entry(now).map_or(i64::MIN, |entry| entry.heard);
        (!state.link().is_expected()).then(|| (heard, node.clone()))
    });
    let mut gone: Vec<(i64, Arc<SharedNode>)> = gone.collect();
    gone.sort_by(|(a, one), (b, two)| a.cmp(b).then_with(|| one.name.cmp(&two.name)));
    gone.truncate(NODES_DROPPED);
    gone.into_iter().map(|(_, node)| node).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::follow::Numbers;
    use crate::subscription::{ClusterSubscription, Pace};
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

    fn name(text: &str) -> NodeName {
        NodeName::new(text).unwrap()
    }

    fn told(names: &[&str]) -> Vec<NodeName> {
        names.iter().map(|text| name(text)).collect()
    }

    #[test]
    fn who_makes_room_was_down_the_longest_and_is_neither_up_nor_expected() {
        let cluster = cluster();
        let entry = |text: &str, heard| Entry {
            node: name(text),
            state: crate::memory::State::Down,
            heard,
            since: heard,
            address: String::new(),
            version: String::new(),
        };
        cluster.remember(vec![entry("late", 70), entry("early", 50), entry("alike", 50), entry("up", 10)]);
        cluster.expect(&told(&["expected"]));
        cluster.node(&name("up")).unwrap().set_up(true);
        let names = || oldest(&cluster.nodes()).iter().map(|node| node.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(), told(&["alike", "early", "late"]));
        // One that was never heard, and that nobody expects, goes before all others.
        cluster.node_or_new(&name("never"), Nanos(0)).unwrap();
        assert_eq!(names(), told(&["never", "alike", "early", "late"]));
    }

    #[test]
    fn what_is_forgotten_is_gone_but_for_what_is_expected_and_what_must_stay_is_told() {
        let cluster = cluster();
        let before = (cluster.appeared(), cluster.changes.seen().count, cluster.forgotten());
        cluster.expect(&told(&["n1", "n2"]));
        let mailbox = Arc::new(Mailbox::new().unwrap());
        for text in ["n3", "n4", "other"] {
            let node = cluster.node_or_new(&name(text), Nanos(0)).unwrap();
            let link = crate::node::Link::new(mailbox.clone(), 1);
            node.lock().connect(&crate::node::Arrival::default(), link, Nanos(0));
            if text != "n4" {
                node.lock().disconnect(1, None, Nanos(0));
            }
        }
        assert_eq!(cluster.appeared(), before.0 + 5, "readers look for each");
        let forgotten = cluster.forget(&Pattern::new("n*:*").unwrap());
        assert_eq!(forgotten.nodes, told(&["n3"]));
        let refused: Vec<&str> = forgotten.refused.iter().map(|(node, _)| node.as_str()).collect();
        assert_eq!((refused, forgotten.expected), (vec!["n1", "n2", "n4"], vec![]));
        assert!(cluster.forgotten() > before.2 && cluster.changes.seen().count > before.1);
        assert_eq!(cluster.nodes().len(), 4);
        // An expected one that was here stays known: it should be there.
        let one = cluster.node(&name("n1")).unwrap();
        let link = crate::node::Link::new(mailbox, 2);
        one.lock().connect(&crate::node::Arrival::default(), link, Nanos(0));
        one.lock().disconnect(2, None, Nanos(0));
        let forgotten = cluster.forget(&Pattern::new("n1:*").unwrap());
        assert_eq!((forgotten.nodes, forgotten.expected), (told(&["n1"]), told(&["n1"])));
        let again = cluster.node(&name("n1")).unwrap();
        assert!(again.lock().link().is_expected() && !Arc::ptr_eq(&again, &one));
        // It connects in the moment in which it was forgotten: it is the one of its name.
        cluster.keep(&one);
        assert!(Arc::ptr_eq(&cluster.node(&name("n1")).unwrap(), &one));
        let appeared = cluster.appeared();
        cluster.keep(&one);
        assert_eq!(cluster.appeared(), appeared, "it is known already");
    }

    #[test]
    fn lanes_with_a_past_share_the_history_alike() {
        let rate_max = Rate::from_hz(1_000).unwrap();
        let settings = Settings { name: "hub".into(), history: ByteSize(3_000), rate_max };
        let cluster = Cluster::new(settings, [7; 16]);
        assert!(cluster.keeps_history() && !self::cluster().keeps_history());
        assert_eq!(cluster.history_share(), 3_000, "nobody is there");
        let mut nodes = Vec::new();
        for text in ["a", "b", "c"] {
            let node = cluster.node_or_new(&name(text), Nanos(0)).unwrap();
            let mut state = node.lock();
            let id = state.lanes_mut().offered(1, "base", 7, Nanos::SECOND).unwrap();
            for row in 0..30 {
                crate::lane::tests::gets_rows(state.lanes_mut().get_mut(id).unwrap(), row, 1);
            }
            assert!(state.lanes().get(id).unwrap().recent_bytes > 1_000);
            drop(state);
            nodes.push((node, id));
        }
        cluster.keep_house(Nanos(0));
        assert_eq!(cluster.history_share(), 1_000);
        for (node, id) in &nodes {
            let bytes = node.lock().lanes().get(*id).unwrap().recent_bytes;
            assert!((900..=1_000).contains(&bytes), "{bytes} bytes of the history");
        }
    }

    #[test]
    fn places_at_nodes_may_hold_so_much_for_all_and_so_much_more_for_each_node() {
        let cluster = cluster();
        assert_eq!(cluster.follow_bytes_max(), FOLLOW_BYTES_MAX);
        cluster.expect(&told(&["n1", "n2"]));
        let most = FOLLOW_BYTES_MAX + 2 * FOLLOW_BYTES_A_NODE;
        let _taken = cluster.follow_bytes.take(most - 10).unwrap();
        assert!(cluster.may_follow(10) && !cluster.may_follow(11) && !cluster.may_follow(u64::MAX));
    }

    #[test]
    fn so_few_nodes_as_may_send_at_once_are_a_small_cluster() {
        let cluster = cluster();
        for n in 0..NODES_AT_ONCE {
            cluster.expect(&told(&[&format!("n{n}")]));
        }
        assert!(cluster.is_small());
        cluster.expect(&told(&["one-more"]));
        assert!(!cluster.is_small());
    }

    #[test]
    fn hubs_that_nodes_come_from_are_known_once_each_and_a_loop_is_refused() {
        let cluster = cluster();
        let hub = |identity: u8, behind: &[u8]| HubName {
            identity: [identity; 16],
            sources: behind.iter().map(|&identity| [identity; 16]).collect(),
            ..HubName::default()
        };
        let changes = || cluster.sources_changed.load(Ordering::Relaxed);
        assert!(cluster.set_source(0, &hub(1, &[2])) && cluster.set_source(1, &hub(3, &[2])));
        assert_eq!((cluster.all_sources(), changes()), (vec![[1; 16], [2; 16], [3; 16]], 2));
        assert!(cluster.set_source(1, &hub(3, &[2])));
        assert_eq!(changes(), 2, "that is no news");
        assert!(
            !cluster.set_source(2, &hub(7, &[])) && !cluster.set_source(2, &hub(4, &[5, 7])),
            "that is us"
        );
        assert_eq!(cluster.origins(), [[7; 16], [1; 16], [2; 16], [3; 16]]);
        cluster.forget_source(0);
        assert_eq!(cluster.all_sources(), [[2; 16], [3; 16]]);
    }
}
