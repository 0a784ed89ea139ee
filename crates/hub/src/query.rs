//! The hub's answer to [`khz_model::Query`]: many nodes behind the interface that every door reads through.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use khz_block::{Decoder, Step};
use khz_model::pattern::named_nodes;
use khz_model::{
    Absence, Delivery, Forgotten, HISTORY_READINGS_MAX, Instance, Interest, Look, Metric, Nanos, NodeName,
    NodeStatus, Notice, Pattern, Presence, Query, QueryError, Rate, Reading, Sample, Series, Share, Snapshot,
    Stamp, Subscription, WaitFor, Wanted,
};

use crate::clock;
use crate::cluster::Cluster;
use crate::demand::Files;
use crate::follow::{Columns, Follower, Numbers, deliveries};
use crate::interest::Wish;
use crate::lane::{Block, Lane};
use crate::look::{self, HubLook};
use crate::node::{BASE, SharedNode};
use crate::own;

/// Questions to a cluster.
#[derive(Debug)]
pub struct HubQuery {
    pub(crate) cluster: Arc<Cluster>,
    /// What other parts of the program count, to be told with the hub's own numbers.
    tallies: Vec<(Arc<Metric>, Arc<AtomicU64>)>,
}

impl HubQuery {
    /// Questions to this cluster.
    pub fn new(cluster: Arc<Cluster>) -> Self {
        HubQuery { cluster, tallies: Vec::new() }
    }

    /// Tells these counts of other parts of the program with its own.
    pub fn telling(mut self, counts: Vec<(Metric, Arc<AtomicU64>)>) -> Self {
        self.tallies.extend(counts.into_iter().map(|(metric, count)| (Arc::new(metric), count)));
        self
    }

    /// The nodes that a pattern speaks of, and the names that it names and nobody has.
    fn chosen(&self, patterns: &[Pattern]) -> (Vec<Arc<SharedNode>>, Vec<String>) {
        let nodes = self.cluster.nodes();
        let known: HashSet<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
        let named = named_nodes(patterns);
        let missing: Vec<String> = named.into_iter().filter(|name| !known.contains(name.as_str())).collect();
        let spoken_of =
            |node: &Arc<SharedNode>| patterns.iter().any(|pattern| pattern.matches_node(node.name.as_str()));
        (nodes.iter().filter(|node| spoken_of(node)).cloned().collect(), missing)
    }

    /// True where no metric that is known is selected. What nodes have that are not there, and were not since this hub's
    /// start, nobody knows.
    fn selects_nothing(&self, patterns: &[Pattern], nodes: &[Arc<SharedNode>]) -> bool {
        let is_selected = |metric: &Arc<Metric>| patterns.iter().any(|p| p.matches_metric(&metric.name));
        nodes.iter().any(|node| node.lock().schema().is_some())
            && !self.cluster.metrics().iter().any(is_selected)
    }

    /// The kernel files that patterns speak of; all of a node where they speak of every metric.
    fn files_of(&self, patterns: &[Pattern]) -> Files {
        let all = self.cluster.metrics();
        let mut metrics = all.clone();
        metrics.retain(|metric| patterns.iter().any(|pattern| pattern.matches_metric(&metric.name)));
        if metrics.len() == all.len() { look::everything() } else { look::files(&metrics) }
    }

    /// The same, or why nobody need be asked.
    fn found(&self, patterns: &[Pattern]) -> Result<(Vec<Arc<SharedNode>>, Vec<String>), QueryError> {
        if patterns.is_empty() {
            return Ok((Vec::new(), Vec::new()));
        }
        let (nodes, missing) = self.chosen(patterns);
        if missing.is_empty() && self.selects_nothing(patterns, &nodes) {
            return Err(nothing_matches(patterns));
        }
        Ok((nodes, missing))
    }

    fn ask_latest(&self, patterns: &[Pattern]) -> Result<Snapshot, QueryError> {
        let (nodes, mut missing) = self.found(patterns)?;
        let mut snapshot = Snapshot::default();
        for node in nodes {
            match latest_of(&node, patterns) {
                Some(samples) => snapshot.nodes.push((node.name.clone(), samples)),
                None => missing.push(node.name.as_str().to_owned()),
            }
        }
        missing.sort();
        missing.dedup();
        snapshot.missing = missing;
        Ok(snapshot)
    }

    /// The patterns, if they select some metric of some node.
    fn checked(&self, patterns: &[Pattern]) -> Result<Vec<Arc<SharedNode>>, QueryError> {
        let (nodes, missing) = self.chosen(patterns);
        if nodes.is_empty() && missing.is_empty() || self.selects_nothing(patterns, &nodes) {
            return Err(nothing_matches(patterns));
        }
        Ok(nodes)
    }
}

fn nothing_matches(patterns: &[Pattern]) -> QueryError {
    let patterns: Vec<String> = patterns.iter().map(ToString::to_string).collect();
    QueryError::NothingMatches { patterns: patterns.join(", ") }
}

/// The patterns that speak of a node.
fn for_node(patterns: &[Pattern], node: &NodeName) -> Vec<Pattern> {
    patterns.iter().filter(|pattern| pattern.matches_node(node.as_str())).cloned().collect()
}

/// The latest samples of a node that is up and has sent rows.
fn latest_of(node: &SharedNode, patterns: &[Pattern]) -> Option<Vec<Sample>> {
    let patterns = for_node(patterns, &node.name);
    let mut state = node.lock();
    state.link.as_ref()?;
    let mut samples: Vec<Sample> = Vec::new();
    // The base lane has everything; another lane counts where its row is newer.
    let mut order: Vec<usize> = (0..state.lanes.len()).filter(|&at| state.lanes[at].alive).collect();
    order.sort_by_key(|&at| state.lanes[at].name != BASE);
    let base = order.first().is_some_and(|&at| state.lanes[at].name == BASE);
    for (number, at) in order.into_iter().enumerate() {
        let lane = &mut state.lanes[at];
        if number == 0 {
            samples = lane_samples(lane, &patterns)?;
        } else if base {
            take_newer(&mut samples, &lane_samples(lane, &patterns).unwrap_or_default());
        }
    }
    base.then_some(samples)
}

/// Puts newer samples of the same series in place of older ones.
fn take_newer(samples: &mut [Sample], newer: &[Sample]) {
    fn name(series: &Series) -> (&str, Option<&str>) {
        (&series.metric.name, series.instance.as_ref().map(Instance::as_str))
    }
    // The node is locked meanwhile: thousands of slots must not be compared with each other.
    let newer: HashMap<_, _> = newer.iter().map(|sample| (name(&sample.series), sample)).collect();
    for known in samples {
        let found = newer.get(&name(&known.series)).copied();
        if let Some(newer) = found.filter(|newer| known.stamp.boot < newer.stamp.boot) {
            *known = newer.clone();
        }
    }
}

fn lane_samples(lane: &mut Lane, patterns: &[Pattern]) -> Option<Vec<Sample>> {
    lane.latest()?;
    // Until its first row comes, a lane that was offered with other slots has only a row of the former ones.
    let (schema, decoder) = lane.decoded()?;
    let stamp = decoder.stamp();
    let selected = schema.series().iter().enumerate().filter(|(_, series)| series.is_selected(patterns));
    let sample = |(slot, series): (usize, &Series)| {
        let reading = decoder.reading(slot).unwrap_or(Reading::Absent(Absence::NotYet));
        Sample { series: series.clone(), reading, stamp }
    };
    Some(selected.map(sample).collect())
}

impl Query for HubQuery {
    fn nodes(&self) -> Vec<NodeName> {
        self.cluster.nodes().iter().map(|node| node.name.clone()).collect()
    }

    fn metrics(&self) -> Vec<Arc<Metric>> {
        self.cluster.metrics()
    }

    fn series(&self, node: &NodeName) -> Option<Arc<dyn khz_model::Columns>> {
        let schema = self.cluster.node(node)?.lock().schema()?;
        Some(schema)
    }

    fn is_described(&self, node: &NodeName) -> bool {
        self.cluster.node(node).is_some_and(|node| node.lock().schema().is_some())
    }

    fn forget(&self, nodes: &Pattern) -> Result<Forgotten, QueryError> {
        Ok(self.cluster.forget(nodes))
    }

    fn rate_max(&self) -> Rate {
        self.cluster.settings.rate_max
    }

    fn latest<'a>(
        &'a self,
        patterns: &'a [Pattern],
        _age_max: Nanos,
    ) -> WaitFor<'a, Result<Snapshot, QueryError>> {
        Box::pin(async move { self.ask_latest(patterns) })
    }

    fn renew<'a>(&'a self, patterns: &'a [Pattern], age_max: Nanos) -> WaitFor<'a, ()> {
        Box::pin(async move {
            let files = self.files_of(patterns);
            let mut look = HubLook::of(&self.cluster, self.chosen(patterns).0, files, age_max);
            // It is ready when it is, and refuses nothing.
            let _ = look.ready().await;
        })
    }

    fn look<'a>(&'a self, wanted: &Wanted, age_max: Nanos) -> Box<dyn Look + 'a> {
        Box::new(HubLook::new(&self.cluster, wanted, age_max))
    }

    fn look_at<'a>(&'a self, patterns: &[Pattern], _age_max: Nanos) -> Box<dyn Look + 'a> {
        Box::new(match self.found(patterns) {
            Ok((nodes, missing)) => HubLook::as_sent(&self.cluster, nodes, missing),
            Err(refusal) => HubLook::refused(&self.cluster, refusal),
        })
    }

    fn subscribe(&self, interest: Interest) -> Result<Box<dyn Subscription>, QueryError> {
        let ceiling = self.cluster.settings.rate_max;
        if interest.rate.period() < ceiling.period() {
            return Err(QueryError::AboveCeiling { asked: interest.rate, ceiling });
        }
        self.checked(&interest.patterns)?;
        let cluster = self.cluster.clone();
        Ok(Box::new(ClusterSubscription::new(cluster, interest, Pace::Flushed, Numbers::Doors)?))
    }

    fn history_of(
        &self,
        node: &NodeName,
        patterns: &[Pattern],
        span: Nanos,
        rows_max: usize,
    ) -> Result<Option<Delivery>, QueryError> {
        self.checked(patterns)?;
        let node = self.cluster.node(node);
        node.and_then(|node| history_of(&node, patterns, span, rows_max).transpose()).transpose()
    }

    fn history(
        &self,
        patterns: &[Pattern],
        span: Nanos,
        rows_max: usize,
    ) -> Result<Vec<Delivery>, QueryError> {
        let nodes = self.checked(patterns)?;
        let past = nodes.iter().map(|node| history_of(node, patterns, span, rows_max));
        past.filter_map(Result::transpose).collect()
    }

    fn status(&self) -> Vec<NodeStatus> {
        let now = clock::boot();
        self.cluster.nodes().iter().map(|node| self.cluster.status_of(node, now)).collect()
    }

    fn own(&self) -> Option<Vec<Sample>> {
        Some(own::samples(&self.cluster, &self.tallies))
    }
}

/// The rows of a node's base lane in the last `span`, thinned evenly to about `rows_max`.
fn history_of(
    node: &SharedNode,
    patterns: &[Pattern],
    span: Nanos,
    rows_max: usize,
) -> Result<Option<Delivery>, QueryError> {
    let patterns = for_node(patterns, &node.name);
    let (newest, former, present) = {
        let state = node.lock();
        let Some(base) = state.base().and_then(|id| state.lane(id)) else { return Ok(None) };
        let Some(newest) = base.newest() else { return Ok(None) };
        let since = Nanos(newest.boot.0.saturating_sub(span.0));
        // Their boot clock may have been that of another boot.
        let real = newest.real().0.saturating_sub(span.0);
        let recent = |lane: &Lane| {
            let mut blocks = lane.blocks_since(Nanos(0));
            let first = blocks.partition_point(|block| block.header.stamp.real().0 <= real);
            blocks.split_off(first.saturating_sub(1))
        };
        let former = state.former.iter().filter(|lane| lane.name == BASE);
        let former: Vec<Block> = former.flat_map(recent).collect();
        (newest, former, base.blocks_since(since))
    };
    let is_recent = |stamp: Stamp, is_former: bool| {
        let (newest, stamp) =
            if is_former { (newest.real(), stamp.real()) } else { (newest.boot, stamp.boot) };
        stamp.0 >= newest.0.saturating_sub(span.0)
    };
    let blocks =
        || former.iter().map(|block| (block, true)).chain(present.iter().map(|block| (block, false)));
    let each_row = |block: &Block, is_former: bool, row: &mut dyn FnMut(&Decoder)| {
        let (mut decoder, mut bytes) = (Decoder::new(), &block.bytes[..]);
        while let Ok(Step::Header(length) | Step::Row(length)) = decoder.step(bytes) {
            bytes = &bytes[length..];
            if decoder.next_row() > block.header.first_row && is_recent(decoder.stamp(), is_former) {
                row(&decoder);
            }
        }
    };
    // Counted first: rows that nobody sees are not kept for a moment.
    let mut left: usize = 0;
    blocks().for_each(|(block, is_former)| each_row(block, is_former, &mut |_| left += 1));
    let step = left.div_ceil(rows_max.max(1)).max(1);
    let mut columns = Columns::default();
    let mut wide: Vec<Series> = Vec::new();
    let (mut rows, mut readings) = (Vec::new(), 0);
    for (block, is_former) in blocks() {
        if columns.choose(&block.schema, &patterns) && columns.series.len() >= wide.len() {
            wide = columns.series.to_vec();
        }
        each_row(block, is_former, &mut |decoder| {
            left -= 1;
            // Counted from the end, so that the newest row is always there.
            if left.is_multiple_of(step) && readings <= HISTORY_READINGS_MAX {
                readings += columns.series.len().max(1);
                rows.push(columns.row(decoder));
            }
        });
    }
    if readings > HISTORY_READINGS_MAX {
        return Err(QueryError::TooMuch { node: node.name.clone() });
    }
    Ok(Some(Delivery { node: node.name.clone(), columns: Arc::new(wide), rows, lost: 0, rate: None }))
}

/// How the rows of a subscription come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// In flushes.
    Flushed,
    /// Each at once.
    Prompt,
    /// Those of the base lane that there are, whatever the rate.
    Past,
}

/// Rows of all nodes that the patterns speak of, also of those that appear later.
pub(crate) struct ClusterSubscription {
    cluster: Arc<Cluster>,
    /// What its followers hold.
    share: Share,
    interest: Interest,
    /// How its rows come.
    pace: Pace,
    /// How they are counted.
    numbers: Numbers,
    followers: Vec<Follower>,
    /// Whose turn is first when not all come to theirs.
    next: usize,
    seen: u64,
    /// The nodes that are followed. One that was forgotten and came back is another.
    known: HashMap<NodeName, Weak<SharedNode>>,
    /// Some followers are of nodes that were forgotten.
    has_ending: bool,
    notices: Vec<Notice>,
}

impl ClusterSubscription {
    /// Refused where readers hold as much as they may.
    pub fn new(
        cluster: Arc<Cluster>,
        interest: Interest,
        pace: Pace,
        numbers: Numbers,
    ) -> Result<Self, QueryError> {
        let needed = needed(&cluster, &interest.patterns);
        let share = cluster.may_follow(needed).then(|| cluster.follow_bytes.take(needed)).flatten();
        let Some(share) = share else {
            let limit = cluster.follow_bytes_max() as usize;
            return Err(QueryError::Full { what: "bytes that readers' places at nodes may hold", limit });
        };
        let mut subscription = ClusterSubscription {
            share,
            cluster,
            interest,
            pace,
            numbers,
            followers: Vec::new(),
            next: 0,
            seen: u64::MAX,
            known: HashMap::new(),
            has_ending: false,
            notices: Vec::new(),
        };
        subscription.look_for_nodes();
        Ok(subscription)
    }

    /// What it holds now, as it is counted.
    fn count(&self) {
        // Who has been taken in is not thrown out: it is newcomers who are refused.
        self.share.set(self.followers.iter().map(Follower::held).sum());
    }

    /// One follower for each node.
    pub fn followers(&mut self) -> &mut [Follower] {
        self.look_for_nodes();
        self.count();
        &mut self.followers
    }

    fn look_for_nodes(&mut self) {
        let appeared = self.cluster.appeared();
        if appeared == self.seen {
            return;
        }
        self.seen = appeared;
        let nodes = self.cluster.nodes();
        let weak = |node: &Arc<SharedNode>| (node.name.clone(), Arc::downgrade(node));
        let before = std::mem::replace(&mut self.known, nodes.iter().map(weak).collect());
        let ending = self.end_forgotten();
        for node in nodes {
            if ending.contains(&node.name) {
                // The reader hears first that the lanes of the forgotten one are over: these may be the same.
                self.known.remove(&node.name);
                self.seen = u64::MAX;
                continue;
            }
            let patterns = for_node(&self.interest.patterns, &node.name);
            let is_followed = before.get(&node.name).is_some_and(|known| is_same(known, &node));
            if !patterns.is_empty() && !is_followed {
                self.follow(node, patterns);
            }
        }
    }

    /// Of nodes that the cluster has forgotten nothing more comes than what is here; their names.
    fn end_forgotten(&mut self) -> HashSet<NodeName> {
        let mut names = HashSet::new();
        for follower in &mut self.followers {
            let known = self.known.get(&follower.node.name);
            if follower.is_ending() || known.is_none_or(|known| !is_same(known, &follower.node)) {
                follower.end();
                names.insert(follower.node.name.clone());
            }
        }
        self.has_ending = !names.is_empty();
        names
    }

    /// True while lanes of forgotten nodes are to be closed.
    pub fn has_ending(&self) -> bool {
        self.has_ending
    }

    /// Drops the followers of forgotten nodes of which everything was handed out; tells at which places they were.
    pub fn drop_over(&mut self) -> Vec<usize> {
        let (mut places, mut at) = (Vec::new(), 0);
        if self.has_ending {
            self.followers.retain(|follower| {
                let is_over = follower.is_over();
                places.extend(is_over.then_some(at));
                at += 1;
                !is_over
            });
            self.has_ending = self.followers.iter().any(Follower::is_ending);
        }
        places
    }

    fn follow(&mut self, node: Arc<SharedNode>, patterns: Vec<Pattern>) {
        let (rate, exact) = (self.interest.rate, self.interest.exact);
        let is_base = {
            let state = node.lock();
            let base = state.base().and_then(|id| state.lane(id)).map_or(Nanos::SECOND, |lane| lane.period);
            self.pace == Pace::Past || rate.period() >= base && self.pace == Pace::Flushed
        };
        let period = if self.pace == Pace::Past { Nanos(0) } else { rate.period() };
        let prompt = self.pace == Pace::Prompt;
        let wish = Wish { patterns: patterns.clone(), rate: Some(rate), exact, prompt };
        let wish = (!is_base).then_some(&wish);
        let (name, patterns) = (node.name.clone(), Arc::new(patterns));
        let mut follower = Follower::new(node.clone(), patterns.clone(), wish, period, self.numbers);
        if follower.is_none() {
            let text = "is asked for too many different things; showing the base lane: try again when others have gone";
            self.notices.push(Notice { node: name, text: text.into() });
            follower = Follower::new(node, patterns, None, period, self.numbers);
        }
        self.followers.extend(follower);
    }
}

fn is_same(known: &Weak<SharedNode>, node: &Arc<SharedNode>) -> bool {
    std::ptr::eq(known.as_ptr(), Arc::as_ptr(node))
}

/// What following these nodes will hold at the least.
fn needed(cluster: &Cluster, patterns: &[Pattern]) -> u64 {
    let nodes = cluster.nodes();
    let meant =
        nodes.iter().filter(|node| patterns.iter().any(|pattern| pattern.matches_node(node.name.as_str())));
    let slots = |node: &Arc<SharedNode>| {
        let node = node.lock();
        node.base().and_then(|id| node.lane(id)).map_or(0, Lane::slots)
    };
    meant.map(|node| Follower::held_at_least(slots(node))).sum()
}

impl Subscription for ClusterSubscription {
    fn poll(&mut self) -> Vec<Delivery> {
        self.look_for_nodes();
        self.count();
        let all = self.followers.iter_mut().flat_map(|follower| deliveries(follower, usize::MAX)).collect();
        self.drop_over();
        all
    }

    fn poll_some(&mut self, readings_max: usize) -> Vec<Delivery> {
        self.look_for_nodes();
        self.count();
        let (all, mut some, mut left) = (self.followers.len(), Vec::new(), readings_max);
        for at in (0..all).map(|n| (self.next + n) % all) {
            if left == 0 {
                self.next = at;
                break;
            }
            for delivery in deliveries(&mut self.followers[at], left) {
                left = left.saturating_sub(delivery.rows.iter().map(|row| row.readings.len()).sum());
                some.push(delivery);
            }
        }
        self.drop_over();
        some
    }

    fn rate(&self) -> Rate {
        self.interest.rate
    }

    fn notices(&mut self) -> Vec<Notice> {
        let mut notices = std::mem::take(&mut self.notices);
        notices.extend(self.followers.iter_mut().filter_map(Follower::take_notice));
        notices
    }
}

impl Cluster {
    /// Nodes that are up, all that are known, and those of them that are expected and were never heard.
    pub(crate) fn up(&self) -> (u64, u64, u64) {
        let nodes = self.nodes();
        let is_up = |node: &&Arc<SharedNode>| node.up.load(Ordering::Relaxed);
        let now = clock::boot();
        let is_missing =
            |node: &&Arc<SharedNode>| !is_up(node) && node.lock().status(now).presence() == Presence::Missing;
        let missing = nodes.iter().filter(is_missing).count();
        (nodes.iter().filter(is_up).count() as u64, nodes.len() as u64, missing as u64)
    }
}
