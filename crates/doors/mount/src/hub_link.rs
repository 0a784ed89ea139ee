//! Values from a hub at the other end of a link: it subscribes there for the tree, and hands the rows that come to the tree
//! on the link's thread. It keeps no values.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use khz_block::{Decoder, MetricPool, SchemaDecoder};
use khz_link::driver::{ConnectionSink, Following, FollowingSettings};
use khz_link::texts::{NoText, ReadFrame, TextGiven, Why};
use khz_link::{Accept, HubName, LaneKey, LaneOffer, LaneSink, Told};
use khz_model::{Absence, Interest, Nanos, NodeName, NodeStatus, Pattern, Rate, Reading, Series, Stamp};

use crate::upstream::{Sink, Subscription, TextSubscription, Upstream};

/// The period of subscriptions that the base lane serves.
const BASE: Nanos = Nanos::SECOND;

/// Different metrics that lanes share. Beyond, those that no lane has any more are forgotten.
const POOL_MAX: usize = 4_096;

/// Our subscriptions, by the link's numbers.
type Numbers = Arc<Mutex<HashMap<u32, u32>>>;

fn lock(numbers: &Numbers) -> MutexGuard<'_, HashMap<u32, u32>> {
    numbers.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// A connection to one of the hubs.
pub struct HubLink {
    following: Following,
    numbers: Numbers,
    sink: Arc<dyn Sink>,
}

impl HubLink {
    /// Connects to one of the hubs, and connects again whenever the connection ends.
    ///
    /// # Errors
    /// The system has no thread or no descriptor for it.
    pub fn start(settings: FollowingSettings, sink: Arc<dyn Sink>) -> std::io::Result<Self> {
        let numbers = Numbers::default();
        let receiver = Receiver {
            sink: sink.clone(),
            numbers: numbers.clone(),
            lanes: HashMap::new(),
            made: 0,
            pool: MetricPool::new(),
            nodes: Vec::new(),
            is_down: false,
        };
        Ok(HubLink { following: Following::start(settings, receiver)?, numbers, sink })
    }

    fn interest(subscription: &Subscription) -> Result<Interest, String> {
        let patterns: Result<Vec<Pattern>, _> =
            subscription.patterns.iter().map(|text| Pattern::new(text)).collect();
        let patterns = patterns.map_err(|error| error.problem)?;
        let rate = subscription.rate.or(Rate::from_period(BASE)).ok_or("there is no such rate")?;
        // A reader who sets a rate gets it even where the kernel updates its numbers more slowly.
        Ok(Interest { patterns, rate, exact: subscription.rate.is_some() })
    }
}

impl Upstream for HubLink {
    fn subscribe(&self, subscription: Subscription) {
        let asked = HubLink::interest(&subscription).and_then(|interest| {
            // The link's thread may have the answer before its number is noted here: it waits for the lock.
            let mut numbers = lock(&self.numbers);
            let prompt = subscription.rate.is_some();
            let number = self.following.ask(&interest, prompt).map_err(|error| error.to_string())?;
            numbers.insert(number, subscription.number);
            Ok(())
        });
        if let Err(problem) = asked {
            self.sink.notice(subscription.number, &problem);
        }
    }

    fn unsubscribe(&self, number: u32) {
        let mut numbers = lock(&self.numbers);
        let theirs = numbers.iter().find(|&(_, &ours)| ours == number).map(|(&theirs, _)| theirs);
        if let Some(theirs) = theirs {
            numbers.remove(&theirs);
            self.following.dismiss(theirs);
        }
    }

    fn list_nodes(&self, wanted: bool) {
        self.following.roster(wanted);
    }

    fn subscribe_text(&self, subscription: TextSubscription) {
        let TextSubscription { number, node, path, period } = &subscription;
        self.following.read(&ReadFrame { number: *number, node: node.as_str(), period: *period, path });
    }

    fn read_text_now(&self, number: u32, request: u32) {
        self.following.text_now(number, request);
    }

    fn unsubscribe_text(&self, number: u32) {
        self.following.unread(number);
    }
}

/// What a program gets that opens a kernel file that has no text.
fn errno(why: Why) -> i32 {
    match why {
        Why::NotAllowed => libc::EACCES,
        Why::Missing => libc::ENOENT,
        Why::TooLong => libc::EFBIG,
        Why::Stuck => libc::ETIMEDOUT,
        Why::TooMany => libc::EAGAIN,
        Why::NotServed => libc::EOPNOTSUPP,
        Why::Failed | Why::Other(_) => libc::EIO,
    }
}

/// Receives what comes, on the link's thread.
struct Receiver {
    sink: Arc<dyn Sink>,
    numbers: Numbers,
    lanes: HashMap<LaneKey, Lane>,
    made: u64,
    pool: MetricPool,
    /// Nodes of the list that is coming in.
    nodes: Vec<NodeStatus>,
    is_down: bool,
}

/// A lane of the present connection.
struct Lane {
    number: u64,
    subscription: u32,
    node: NodeName,
    schema: SchemaDecoder,
    /// Columns that the sink knows.
    columns: Arc<Vec<Series>>,
}

impl Receiver {
    /// A lane without series has no schema and no rows: the tree learns at once that the node has nothing of what is wanted.
    fn begin(&mut self, key: &LaneKey, offer: &LaneOffer<'_>) {
        let Some(lane) = self.lanes.get_mut(key).filter(|_| offer.schema_bytes == 0) else { return };
        (lane.schema, lane.columns) = (SchemaDecoder::new(), Arc::default());
        self.sink.columns(lane.number, lane.subscription, &lane.node, &lane.columns);
    }
}

impl LaneSink for Receiver {
    fn offered(&mut self, key: &LaneKey, offer: &LaneOffer<'_>) -> Option<Accept> {
        let subscription = lock(&self.numbers).get(&offer.interest).copied()?;
        let node = NodeName::new(offer.node).ok()?;
        self.made += 1;
        let lane = Lane {
            number: self.made,
            subscription,
            node,
            schema: SchemaDecoder::new(),
            columns: Arc::default(),
        };
        self.lanes.insert(key.clone(), lane);
        self.begin(key, offer);
        Some(Accept { span: Nanos(0), prompt: false })
    }

    fn changed(&mut self, key: &LaneKey, offer: &LaneOffer<'_>) {
        self.begin(key, offer);
    }

    fn schema(&mut self, key: &LaneKey, _generation: u32, offset: u64, bytes: &[u8]) {
        let Some(lane) = self.lanes.get_mut(key) else { return };
        if offset == 0 {
            lane.schema = SchemaDecoder::new();
            lane.columns = Arc::default();
        }
        if self.pool.len() > POOL_MAX {
            self.pool.forget_unused();
        }
        // The hub has checked the schema. If it is damaged all the same, rows have no columns, and are dropped.
        if let Err(error) = lane.schema.feed_sharing(bytes, &mut self.pool) {
            tracing::warn!("the series of {}: {error}", key.node);
        }
    }

    fn row(&mut self, key: &LaneKey, _number: u64, row: &Decoder) {
        let Some(lane) = self.lanes.get_mut(key) else { return };
        if lane.columns.len() != lane.schema.series().len() {
            lane.columns = Arc::new(lane.schema.series().to_vec());
            self.sink.columns(lane.number, lane.subscription, &lane.node, &lane.columns);
        }
        let reading = |slot: usize| row.reading(slot).unwrap_or(Reading::Absent(Absence::NotYet));
        let mut cells = row.changed().iter().map(|&slot| (slot as usize, reading(slot as usize)));
        self.sink.row(lane.number, row.stamp(), &mut cells);
    }

    fn block(&mut self, _key: &LaneKey, _bytes: &[u8]) {}

    fn lost(&mut self, _key: &LaneKey, _from: u64, _to: u64) {}

    fn answered(&mut self, told: &Told<'_>) {
        let subscription = lock(&self.numbers).get(&told.interest).copied();
        if let Some(number) = subscription.filter(|_| !told.granted || !told.text.is_empty()) {
            self.sink.notice(number, told.text);
        }
    }

    fn closed(&mut self, key: &LaneKey) {
        if let Some(lane) = self.lanes.remove(key) {
            self.sink.closed(lane.number);
        }
    }

    fn node(&mut self, status: &NodeStatus) {
        self.nodes.push(status.clone());
        // A long list is shown as it comes.
        if self.nodes.len() >= 256 {
            self.sink.nodes(&std::mem::take(&mut self.nodes), false);
        }
    }

    fn nodes_end(&mut self) {
        self.sink.nodes(&std::mem::take(&mut self.nodes), true);
    }

    fn text(&mut self, number: u32, text: &Arc<[u8]>, stamp: Stamp) {
        self.sink.text(number, text, stamp);
    }

    fn text_given(&mut self, given: TextGiven) {
        self.sink.text_answered(given.number, given.ask, given.is_read);
    }

    fn no_text(&mut self, none: &NoText<'_>) {
        self.sink.no_text(none.number, errno(none.why), none.text);
    }
}

impl ConnectionSink for Receiver {
    fn up(&mut self, hub: &HubName) {
        self.is_down = false;
        self.sink.connected(true, &hub.name);
    }

    fn down(&mut self, problem: &str) {
        for (_, lane) in self.lanes.drain() {
            self.sink.closed(lane.number);
        }
        self.nodes.clear();
        // Every failed attempt comes here: only the first goes on to the tree.
        if !std::mem::replace(&mut self.is_down, true) {
            self.sink.connected(false, problem);
        }
    }
}
