//! The hub's answer to [`khz_model::Query`]: many nodes behind the interface that every door reads through.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use khz_block::{Decoder, Step};
use khz_link::limits::HANDLER_BYTES_MAX;
use khz_model::pattern::named_nodes;
use khz_model::{
    Absence, Choice, Delivery, Forgotten, HISTORY_READINGS_MAX, Instance, Interest, Look, Metric, Nanos,
    NodeName, NodeStatus, Pattern, Presence, Query, QueryError, RangeAnswer, RangeRequest, Ranges, Rate,
    Reach, Reading, Recent, RecentAnswer, Row, RowNumber, Sample, Series, Snapshot, Stamp, Subscription,
    WaitFor, Wanted,
};

use crate::clock;
use crate::cluster::Cluster;
use crate::cursor::{Columns, Numbers, Selection};
use crate::lane::{Block, Lane};
use crate::look::{self, HubLook};
use crate::node::{BASE, Files, SharedNode};
use crate::own;
use crate::subscription::{ClusterSubscription, Pace};

/// The list of nodes is on the disk within this time, or the hub says that it cannot write it.
const FORGOTTEN_LATE: Duration = Duration::from_secs(10);

/// Answers questions about a cluster.
pub struct HubQuery {
    pub(crate) cluster: Arc<Cluster>,
    /// The store that answers queries about the past, if there is one.
    past: Option<Arc<dyn Ranges>>,
    /// Counts of other parts of the program, shown with the hub's own.
    tallies: Vec<(Series, Arc<AtomicU64>)>,
}

impl std::fmt::Debug for HubQuery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HubQuery").field("cluster", &self.cluster).finish_non_exhaustive()
    }
}

impl HubQuery {
    /// Answers questions about this cluster.
    pub fn new(cluster: Arc<Cluster>) -> Self {
        HubQuery { cluster, past: None, tallies: Vec::new() }
    }

    /// Answers questions about the past with this.
    pub fn remembering(self, past: Arc<dyn Ranges>) -> Self {
        HubQuery { past: Some(past), ..self }
    }

    /// Shows these counts of other parts of the program with the hub's own.
    pub fn telling(self, counts: Vec<(Metric, Arc<AtomicU64>)>) -> Self {
        let series = |(metric, count)| (Series { metric: Arc::new(metric), instance: None }, count);
        self.telling_each(counts.into_iter().map(series).collect())
    }

    /// The same for counts that have several instances.
    pub fn telling_each(mut self, counts: Vec<(Series, Arc<AtomicU64>)>) -> Self {
        self.tallies.extend(counts);
        self
    }

    /// The nodes that patterns mean, and the names in the patterns that no node has.
    fn chosen(&self, patterns: &[Pattern]) -> (Vec<Arc<SharedNode>>, Vec<String>) {
        let nodes = self.cluster.chosen(&Choice::new(patterns.into()));
        let known: HashSet<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
        let named = named_nodes(patterns);
        let missing = named.into_iter().filter(|name| !known.contains(name.as_str())).collect();
        drop(known);
        (nodes, missing)
    }

    /// True if the patterns select no metric that is known. Metrics of nodes that have not connected since this hub's
    /// start are not known.
    fn selects_nothing(&self, patterns: &[Pattern], nodes: &[Arc<SharedNode>]) -> bool {
        let is_selected = |metric: &Arc<Metric>| patterns.iter().any(|p| p.matches_metric(&metric.name));
        nodes.iter().any(|node| node.lock().schema().is_some())
            && !self.cluster.metrics().iter().any(is_selected)
    }

    /// The kernel files that the patterns' metrics come from; all files if the patterns select every metric.
    fn files_of(&self, patterns: &[Pattern]) -> Files {
        let all = self.cluster.metrics();
        let mut metrics = all.clone();
        metrics.retain(|metric| patterns.iter().any(|pattern| pattern.matches_metric(&metric.name)));
        if metrics.len() == all.len() { look::everything() } else { look::files(&metrics) }
    }

    /// The same, or why no node need be asked.
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

    /// The nodes that the patterns mean, if they select some metric.
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

/// The patterns that mean this node.
fn for_node(patterns: &[Pattern], node: &NodeName) -> Vec<Pattern> {
    patterns.iter().filter(|pattern| pattern.matches_node(node.as_str())).cloned().collect()
}

/// The latest samples of a node that is up and has sent rows.
fn latest_of(node: &SharedNode, patterns: &[Pattern]) -> Option<Vec<Sample>> {
    let patterns = for_node(patterns, &node.name);
    let mut state = node.lock();
    if !state.link().is_up() {
        return None;
    }
    let lanes = state.lanes_mut().present_mut();
    let mut samples: Vec<Sample> = Vec::new();
    // The base lane has everything; a value of another lane counts if it is newer.
    let mut order: Vec<usize> = (0..lanes.len()).filter(|&at| lanes[at].alive).collect();
    order.sort_by_key(|&at| lanes[at].name != BASE);
    let base = order.first().is_some_and(|&at| lanes[at].name == BASE);
    for (number, at) in order.into_iter().enumerate() {
        let lane = &mut lanes[at];
        if number == 0 {
            samples = lane_samples(lane, &patterns)?;
        } else if base {
            take_newer(&mut samples, &lane_samples(lane, &patterns).unwrap_or_default());
        }
    }
    base.then_some(samples)
}

/// Replaces samples by newer ones of the same series.
fn take_newer(samples: &mut [Sample], newer: &[Sample]) {
    fn name(series: &Series) -> (&str, Option<&Instance>) {
        (&series.metric.name, series.instance.as_ref())
    }
    // The node is locked meanwhile, so thousands of slots must not be compared with one another.
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
    // A lane that was just offered with other slots has only a row of the former ones until its first row comes.
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
        let forgotten = self.cluster.forget(nodes);
        // Once the answer says that a node is forgotten, the node must not reappear, even after a kill -9.
        match forgotten.nodes.is_empty() || self.cluster.changes.ring_and_wait(FORGOTTEN_LATE) {
            true => Ok(forgotten),
            false => Err(QueryError::Unwritten),
        }
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
            // It refuses nothing.
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
        self.subscribe_after(interest, &[])
    }

    fn subscribe_after(
        &self,
        interest: Interest,
        places: &[(NodeName, RowNumber)],
    ) -> Result<Box<dyn Subscription>, QueryError> {
        let ceiling = self.cluster.settings.rate_max;
        if interest.rate.is_above(ceiling) {
            return Err(QueryError::AboveCeiling { asked: interest.rate, ceiling });
        }
        match &interest.channel {
            None => drop(self.checked(&interest.patterns)?),
            // It waits for series that no node has yet.
            Some(channel) if channel.handler.len() <= HANDLER_BYTES_MAX => {}
            Some(channel) => {
                let bytes = channel.handler.len();
                let problem = format!("the handler has {bytes} bytes, and may have {HANDLER_BYTES_MAX}");
                let (channel, for_now) = (channel.name.clone(), false);
                return Err(QueryError::Channel { channel, problem, for_now });
            }
        }
        let cluster = self.cluster.clone();
        // Rows of a channel are worth knowing at once.
        let pace = if interest.channel.is_some() { Pace::Prompt } else { Pace::Flushed };
        let mut subscription = ClusterSubscription::new(cluster, interest, pace, Numbers::Doors)?;
        subscription.go_on_after(places);
        Ok(Box::new(subscription))
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

    fn past_metrics(&self) -> Vec<Arc<Metric>> {
        self.past.as_ref().map_or_else(Vec::new, |past| past.metrics())
    }

    fn owners(&self) -> Vec<NodeName> {
        let mut owners = self.cluster.recorded.owners();
        owners.extend(self.past.as_ref().map_or_else(Vec::new, |past| past.owners()));
        owners.sort();
        owners.dedup();
        owners
    }

    fn reach(&self) -> Reach {
        self.past.as_ref().map_or_else(Reach::default, |past| past.reach())
    }

    fn range(&self, request: RangeRequest) -> Result<Box<dyn RangeAnswer>, QueryError> {
        match &self.past {
            Some(past) => past.range(request),
            None => {
                let recent = RecentBlocks { cluster: self.cluster.clone() };
                Ok(Box::new(RecentAnswer::new(Arc::new(recent), request)?))
            }
        }
    }

    fn status(&self) -> Vec<NodeStatus> {
        let now = clock::boot();
        self.cluster.nodes().iter().map(|node| self.cluster.status_of(node, now)).collect()
    }

    fn status_of(&self, nodes: &[NodeName]) -> Vec<NodeStatus> {
        let now = clock::boot();
        let known = nodes.iter().filter_map(|name| self.cluster.node(name));
        known.map(|node| self.cluster.status_of(&node, now)).collect()
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
        let Some(base) = state.lanes().base() else { return Ok(None) };
        let Some(newest) = base.newest() else { return Ok(None) };
        let since = Nanos(newest.boot.0.saturating_sub(span.0));
        // Their boot clock may be of another boot.
        let real = newest.real().0.saturating_sub(span.0);
        let recent = |lane: &Lane| {
            let mut blocks = lane.blocks_since(Nanos(0));
            let first = blocks.partition_point(|block| block.header.stamp.real().0 <= real);
            blocks.split_off(first.saturating_sub(1))
        };
        let former = state.lanes().former().iter().filter(|lane| lane.name == BASE);
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
    // Rows are counted first, so that rows which are thinned out are never held.
    let mut left: usize = 0;
    blocks().for_each(|(block, is_former)| each_row(block, is_former, &mut |_| left += 1));
    let step = left.div_ceil(rows_max.max(1)).max(1);
    let selection = Selection::all(&patterns);
    let wide = Wide::of(blocks().map(|(block, _)| block), &selection);
    let (mut rows, mut readings) = (Vec::new(), 0);
    let (mut columns, mut places) = (Columns::default(), Vec::new());
    for (block, is_former) in blocks() {
        if columns.choose(&block.schema, &selection) {
            places = wide.places(&columns);
        }
        each_row(block, is_former, &mut |decoder| {
            left -= 1;
            // Counted from the end, so that the newest row is always included.
            if left.is_multiple_of(step) && readings <= HISTORY_READINGS_MAX {
                readings += wide.series.len().max(1);
                rows.push(wide.row(&columns, &places, decoder));
            }
        });
    }
    if readings > HISTORY_READINGS_MAX {
        return Err(QueryError::TooMuch { node: node.name.clone() });
    }
    let columns = Arc::new(wide.series);
    Ok(Some(Delivery { node: node.name.clone(), columns, rows, lost: 0, rate: None, last: None }))
}

/// The blocks that the hub holds, for range queries without a store.
struct RecentBlocks {
    cluster: Arc<Cluster>,
}

impl Recent for RecentBlocks {
    fn nodes(&self) -> Vec<NodeName> {
        let nodes = self.cluster.nodes();
        nodes.iter().map(|node| node.name.clone()).chain(self.cluster.recorded.owners()).collect()
    }

    fn span(&self) -> Option<(Nanos, Nanos)> {
        let spans = self.cluster.nodes().into_iter().filter_map(|node| {
            let blocks = base_blocks(&node);
            let first = blocks.iter().map(|block| block.header.stamp.real()).min()?;
            let newest = node.lock().lanes().base().and_then(Lane::newest)?;
            Some((first, newest.real().max(first)))
        });
        let mut recorded = Vec::new();
        self.cluster.recorded.each_lane(|lane| recorded.extend(lane.span()));
        spans.chain(recorded).reduce(|one, two| (one.0.min(two.0), one.1.max(two.1)))
    }

    fn rows(
        &self,
        node: &NodeName,
        patterns: &[Pattern],
        from: Nanos,
        to: Nanos,
    ) -> Result<Option<Delivery>, QueryError> {
        let blocks = match node.is_owner() {
            true => self.cluster.recorded.blocks(node),
            false => self.cluster.node(node).map(|node| base_blocks(&node)),
        };
        let Some(mut blocks) = blocks else { return Ok(None) };
        blocks.sort_by_key(|block| block.header.stamp.real());
        // Those that begin in this time, and the one before, which reaches into it.
        let first = blocks.partition_point(|block| block.header.stamp.real() <= from).saturating_sub(1);
        blocks.retain(|block| block.header.stamp.real() < to);
        let blocks = blocks.split_off(first.min(blocks.len()));
        let selection = Selection::all(patterns);
        let wide = Wide::of(blocks.iter(), &selection);
        if wide.series.is_empty() {
            return Ok(None);
        }
        let (mut rows, mut readings) = (Vec::new(), 0);
        let (mut columns, mut places) = (Columns::default(), Vec::new());
        for block in &blocks {
            if columns.choose(&block.schema, &selection) {
                places = wide.places(&columns);
            }
            let (mut decoder, mut bytes) = (Decoder::new(), &block.bytes[..]);
            while let Ok(Step::Header(length) | Step::Row(length)) = decoder.step(bytes) {
                bytes = &bytes[length..];
                if decoder.next_row() <= block.header.first_row
                    || !(from..to).contains(&decoder.stamp().real())
                {
                    continue;
                }
                readings += wide.series.len();
                if readings > HISTORY_READINGS_MAX {
                    return Err(QueryError::TooMuch { node: node.clone() });
                }
                rows.push(wide.row(&columns, &places, &decoder));
            }
        }
        Ok(Some(Delivery {
            node: node.clone(),
            columns: Arc::new(wide.series),
            rows,
            lost: 0,
            rate: None,
            last: None,
        }))
    }
}

/// All blocks of a node's base lane, those of its former epochs too.
fn base_blocks(node: &SharedNode) -> Vec<Block> {
    let state = node.lock();
    let former = state.lanes().former().iter().filter(|lane| lane.name == BASE);
    former.chain(state.lanes().base()).flat_map(|lane| lane.blocks_since(Nanos(0))).collect()
}

/// The columns of blocks whose slots have different meanings: a node may have given slots back in between.
#[derive(Default)]
struct Wide {
    /// The series of the newest block first, then the series that only older blocks have.
    series: Vec<Series>,
    places: HashMap<(String, Option<Instance>), usize>,
}

impl Wide {
    fn of<'a>(blocks: impl DoubleEndedIterator<Item = &'a Block>, selection: &Selection) -> Self {
        let (mut wide, mut columns) = (Wide::default(), Columns::default());
        for block in blocks.rev() {
            if !columns.choose(&block.schema, selection) {
                continue;
            }
            for series in columns.series.iter() {
                if let Entry::Vacant(place) = wide.places.entry(name(series)) {
                    place.insert(wide.series.len());
                    wide.series.push(series.clone());
                }
            }
        }
        wide
    }

    /// Where each of these columns stands.
    fn places(&self, columns: &Columns) -> Vec<usize> {
        columns.series.iter().filter_map(|series| self.places.get(&name(series)).copied()).collect()
    }

    fn row(&self, columns: &Columns, places: &[usize], decoder: &Decoder) -> Row {
        let mut readings = vec![Reading::Absent(Absence::NotYet); self.series.len()];
        for (column, &place) in places.iter().enumerate() {
            readings[place] = columns.reading(decoder, column);
        }
        Row { stamp: decoder.stamp(), readings }
    }
}

/// The key that distinguishes a series from every other one of its node.
fn name(series: &Series) -> (String, Option<Instance>) {
    (series.metric.name.to_string(), series.instance.clone())
}

impl Cluster {
    /// How many nodes are up, how many are known, and how many of the known nodes are expected and were
    /// never heard.
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
