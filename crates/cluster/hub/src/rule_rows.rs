//! The results of rules that nodes evaluate themselves: the hub follows a channel for each part of the rules on all nodes, and
//! each row wakes the thread that evaluates rules. It reads no other channels, and does not know the meaning of the rows.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;

use khz_model::query::Subscription;
use khz_model::{ChannelName, Interest, Nanos, NodeName, Notice, Row, Series, Stamp};

use crate::clock;
use crate::cluster::Cluster;
use crate::cursor::{Cursor, Event, Numbers};
use crate::node::SharedNode;
use crate::subscription::{ClusterSubscription, Pace};

/// How many pairs of node and channel are read in turn about once a second, beside pairs that rang: enough for all pairs of a small
/// cluster. With 4,096 nodes and 26 channels, each pair has its turn every 26 seconds.
const TENDED_AT_ONCE: usize = 4_096;

/// Nodes whose newest rows are asked for at a time.
const NEWEST_MAX: usize = 64;

/// A hub that ends says so at most this long before its nodes are gone.
const GONE_BEFORE: Nanos = Nanos::from_secs(3);

/// The prefix of the names of these channels. No other channel may have it.
pub const RULES_PREFIX: &str = "khz_rules_";

/// True for a lane whose rows are of rules.
pub(crate) fn is_of_rules(lane: &str) -> bool {
    lane.strip_prefix(ChannelName::PREFIX).is_some_and(is_name_of_rules)
}

/// True for a channel of rules.
pub(crate) fn is_name_of_rules(channel: &str) -> bool {
    channel.starts_with(RULES_PREFIX)
}

/// The nodes of which rows of rules have come, for the thread that judges.
#[derive(Default)]
pub(crate) struct Heard(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    thread: Option<Thread>,
    /// Each node once: as many as there are, at most.
    nodes: Vec<Arc<SharedNode>>,
}

impl Heard {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Rows of rules have come from this node.
    pub fn ring(&self, node: &Arc<SharedNode>) {
        if node.is_heard.swap(true, Ordering::AcqRel) {
            return;
        }
        let mut waiting = self.lock();
        let Some(thread) = waiting.thread.clone() else {
            node.is_heard.store(false, Ordering::Release);
            return;
        };
        waiting.nodes.push(node.clone());
        thread.unpark();
    }

    fn take(&self) -> Vec<Arc<SharedNode>> {
        let nodes = std::mem::take(&mut self.lock().nodes);
        // Before the read: rows that come from now on ring again.
        nodes.iter().for_each(|node| node.is_heard.store(false, Ordering::Release));
        nodes
    }
}

impl fmt::Debug for Heard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.lock().nodes.iter().map(|node| &node.name)).finish()
    }
}

/// What has come from a node on a channel.
#[derive(Debug)]
pub struct RuleNews {
    /// The channel.
    pub channel: ChannelName,
    /// The node.
    pub node: NodeName,
    /// Rows in their order, each with its columns.
    pub rows: Vec<(Arc<Vec<Series>>, Row)>,
    /// Earlier results of the node no longer count: its lane is over, or rows are lost. The rows above came after
    /// that.
    pub is_broken: bool,
    /// It will send no rows, or judges without some series, for this reason.
    pub refusal: Option<String>,
    /// It judges without some series from now on, or (`Some(false)`) with all of them again.
    pub leaves_out: Option<bool>,
}

/// The channels of rules. When this is dropped, nodes judge no longer.
pub struct RuleRows {
    cluster: Arc<Cluster>,
    followed: Vec<Followed>,
    /// Whose turn it is to be read whole.
    turn: usize,
}

struct Followed {
    name: ChannelName,
    interest: Interest,
    /// `None`: there was no room for it. It is tried again.
    subscription: Option<ClusterSubscription>,
    /// The places of nodes among its cursors.
    places: HashMap<NodeName, usize>,
}

impl RuleRows {
    /// Follows no channels at first. New rows wake `thread`.
    pub fn new(cluster: Arc<Cluster>, thread: Thread) -> Self {
        cluster.heard.lock().thread = Some(thread);
        RuleRows { cluster, followed: Vec::new(), turn: 0 }
    }

    /// From now on, follows exactly these channels. Channels that stay are not interrupted.
    pub fn follow(&mut self, wanted: Vec<Interest>) {
        self.followed.retain(|one| wanted.contains(&one.interest));
        for interest in wanted {
            let Some(channel) = &interest.channel else { continue };
            if !self.followed.iter().any(|one| one.interest == interest) {
                let (name, places) = (channel.name.clone(), HashMap::new());
                self.followed.push(Followed { name, interest, subscription: None, places });
            }
        }
    }

    /// What has come since the last call from nodes that have woken this thread.
    pub fn heard(&mut self) -> Vec<RuleNews> {
        let mut all = Vec::new();
        for node in self.cluster.heard.take() {
            for one in &mut self.followed {
                let Some(place) = one.places.get(&node.name) else { continue };
                let cursors = one.subscription.as_mut().map(ClusterSubscription::cursors);
                if let Some(cursor) = cursors.and_then(|cursors| cursors.get_mut(*place)) {
                    all.extend(read(&one.name, cursor));
                }
            }
        }
        all
    }

    /// Searches for new nodes, and reads the channels whose turn it is, on all nodes, whether they rang or not: refusals of nodes
    /// and the ends of lanes ring nothing. Call it about once a second.
    pub fn tend(&mut self) -> Vec<RuleNews> {
        let RuleRows { cluster, followed, turn } = self;
        followed.iter_mut().for_each(|one| one.find(cluster));
        let (mut all, mut places) = (Vec::new(), 0);
        for _ in 0..followed.len() {
            let at = *turn % followed.len();
            let one = &mut followed[at];
            places += one.places.len();
            if places > TENDED_AT_ONCE && places > one.places.len() {
                break;
            }
            *turn = turn.wrapping_add(1);
            all.extend(one.read());
        }
        all
    }

    /// When the newest rows of some nodes that are up were gathered.
    pub fn newest(&self) -> Vec<Stamp> {
        let nodes = self.cluster.nodes();
        let up = nodes.iter().filter(|node| node.up.load(Ordering::Relaxed)).take(NEWEST_MAX);
        up.filter_map(|node| node.lock().lanes().base()?.newest()).collect()
    }

    /// Every node, and whether it is up.
    pub fn nodes(&self) -> Vec<(NodeName, bool)> {
        let nodes = self.cluster.nodes();
        nodes.iter().map(|node| (node.name.clone(), node.up.load(Ordering::Relaxed))).collect()
    }

    /// Whether a node is up here by a connection of its own.
    pub fn is_direct(&self, node: &str) -> bool {
        let node = NodeName::new(node).ok().and_then(|name| self.cluster.node(&name));
        node.is_some_and(|node| node.lock().link().is_direct())
    }

    /// The nodes that are gone because the connection to their hub below has ended within this time. They may be well: perhaps only
    /// that hub was restarted.
    pub fn gone_with_their_hub(&self, within: Nanos) -> Vec<NodeName> {
        let now = clock::boot();
        let Some(lost) = self.cluster.sources.lost_within(within, now) else { return Vec::new() };
        let nodes = self.cluster.nodes();
        let has_gone = |node: &Arc<SharedNode>| {
            let node = node.lock();
            let link = node.link();
            link.gone_through().and_then(|source| lost.get(&source)).is_some_and(|lost| {
                let since = link.changed().0.saturating_add(GONE_BEFORE.0);
                now.since(*lost) < within && since >= lost.0
            })
        };
        let down = nodes.iter().filter(|node| !node.up.load(Ordering::Relaxed));
        down.filter(|node| has_gone(node)).map(|node| node.name.clone()).collect()
    }
}

impl Drop for RuleRows {
    fn drop(&mut self) {
        self.cluster.heard.lock().thread = None;
    }
}

impl Followed {
    /// Follows the nodes that have come.
    fn find(&mut self, cluster: &Arc<Cluster>) {
        if self.subscription.is_none() {
            let (pace, numbers) = (Pace::Prompt, Numbers::Doors);
            let begun = ClusterSubscription::begin(cluster.clone(), self.interest.clone(), pace, numbers);
            self.subscription = begun.ok();
        }
        let Some(subscription) = &mut self.subscription else { return };
        let has_moved = subscription.find_new();
        let cursors = subscription.cursors();
        if has_moved || cursors.len() != self.places.len() {
            let places = cursors.iter().enumerate().map(|(place, cursor)| (cursor.node.name.clone(), place));
            self.places = places.collect();
        }
    }

    /// Reads all nodes.
    fn read(&mut self) -> Vec<RuleNews> {
        let Some(subscription) = &mut self.subscription else { return Vec::new() };
        let notices = Subscription::notices(subscription);
        subscription.count();
        let mut all: Vec<RuleNews> =
            subscription.cursors().iter_mut().filter_map(|cursor| read(&self.name, cursor)).collect();
        let is_about_rules = |notice: &Notice| notice.is_refusal || notice.leaves_out.is_some();
        all.extend(notices.into_iter().filter(is_about_rules).map(|notice| {
            let does_not_judge = notice.leaves_out != Some(false);
            RuleNews {
                channel: self.name.clone(),
                node: notice.node,
                rows: Vec::new(),
                is_broken: does_not_judge,
                refusal: does_not_judge.then_some(notice.text),
                leaves_out: notice.leaves_out,
            }
        }));
        all
    }
}

/// The unread rows of a cursor; `None`: there are none.
fn read(channel: &ChannelName, cursor: &mut Cursor) -> Option<RuleNews> {
    let (mut rows, mut is_broken) = (Vec::new(), false);
    cursor.read(|event| match event {
        Event::Over | Event::Lost(..) => {
            rows.clear();
            is_broken = true;
        }
        Event::Row(columns, decoder, ..) => rows.push((columns.series.clone(), columns.row(decoder))),
        Event::Columns(..) | Event::Late(..) => {}
    });
    let (channel, node) = (channel.clone(), cursor.node.name.clone());
    (is_broken || !rows.is_empty()).then_some(RuleNews {
        channel,
        node,
        rows,
        is_broken,
        refusal: None,
        leaves_out: None,
    })
}
