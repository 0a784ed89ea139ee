//! Turns what a link delivers into calls of a reader. It owns the lanes of the present connection, their schemas, and the part
//! of the list of nodes that has arrived.

use std::sync::Arc;

use khz_block::{Decoder, MetricPool};
use khz_link::driver::ConnectionSink;
use khz_link::limits::DEFINITIONS_MAX;
use khz_link::texts::{NoText, TextGiven};
use khz_link::{Accept, DefinitionFrame, HubName, LaneKey, LaneOffer, LaneSink, Told};
use khz_model::{ChannelName, Nanos, NodeName, NodeStatus, Stamp};

use crate::lane::{Lane, Lanes};
use crate::reader::{Defined, Reader};
use crate::row::Row;
use crate::subscriptions::Subscriptions;

/// Different metrics that lanes share: ten times the catalogue. Beyond, those that no lane has any more are forgotten.
const POOL_MAX: usize = 4_096;

/// Nodes of the list that are handed on together, so that a long list shows while it arrives.
const NODES_AT_ONCE: usize = 256;

/// Follows lanes for one reader.
pub struct Follower<R: Reader> {
    reader: R,
    subscriptions: Subscriptions<R::Subscription>,
    lanes: Lanes<R>,
    /// Lanes of all connections until now.
    lanes_made: u64,
    pool: MetricPool,
    /// The part of the list of nodes that was not handed on.
    nodes: Vec<NodeStatus>,
    /// The part of the list of channels that has arrived.
    channels: Vec<Defined>,
    is_down: bool,
}

impl<R: Reader> Follower<R> {
    /// One that has no connection yet. Lanes for other subscriptions than these are refused.
    pub fn new(reader: R, subscriptions: Subscriptions<R::Subscription>) -> Self {
        Follower {
            reader,
            subscriptions,
            lanes: Lanes::default(),
            lanes_made: 0,
            pool: MetricPool::new(),
            nodes: Vec::new(),
            channels: Vec::new(),
            is_down: false,
        }
    }

    /// Its reader.
    pub fn reader(&self) -> &R {
        &self.reader
    }

    /// Its reader.
    pub fn reader_mut(&mut self) -> &mut R {
        &mut self.reader
    }

    /// The subscriptions whose lanes it accepts.
    pub fn subscriptions(&self) -> &Subscriptions<R::Subscription> {
        &self.subscriptions
    }

    /// The lanes of the present connection.
    pub fn lanes(&self) -> &Lanes<R> {
        &self.lanes
    }

    /// A hub has accepted us.
    pub fn up(&mut self, hub: &HubName) {
        self.is_down = false;
        self.reader.up(hub);
    }

    /// The connection has ended, or an attempt to connect has failed.
    pub fn down(&mut self, problem: &str) {
        for lane in self.lanes.take_all() {
            self.reader.closed(lane, Some(problem));
        }
        self.nodes.clear();
        self.channels.clear();
        if !std::mem::replace(&mut self.is_down, true) {
            self.reader.down(problem);
        }
    }

    /// Everything that has arrived was handed over.
    pub fn rest(&mut self) {
        self.reader.rest(&mut self.lanes);
    }

    /// Why this connection must end, if it must.
    pub fn refusal(&mut self) -> Option<String> {
        self.reader.refusal()
    }

    fn close(&mut self, key: &LaneKey) {
        if let Some(lane) = self.lanes.remove(key) {
            self.reader.closed(lane, None);
        }
    }

    /// A lane that is offered with an empty schema gets no schema and no rows: the reader learns at once that the node has
    /// nothing of what it subscribed to.
    fn if_empty(&mut self, key: &LaneKey, offer: &LaneOffer<'_>) {
        if let Some(lane) = self.lanes.get_mut(key).filter(|_| offer.schema_bytes == 0) {
            lane.begin_schema();
            self.reader.columns(lane, 0);
        }
    }
}

// `schema`, `row`, `lost` and `closed` never lock the subscriptions: the link calls them while it holds a lock that
// `Subscriber::subscribe` takes second.
impl<R: Reader> LaneSink for Follower<R> {
    fn offered(&mut self, key: &LaneKey, offer: &LaneOffer<'_>) -> Option<Accept> {
        let subscription = self.subscriptions.get(offer.interest)?;
        let node = NodeName::new(offer.node).ok()?;
        // A hub may offer a lane under another number before it closes the first.
        self.close(key);
        let data = self.reader.offered(&node, offer, &subscription)?;
        let (from, held) = (self.reader.wants_from(&data), self.reader.held(&data));
        self.lanes_made += 1;
        self.lanes.insert(key.clone(), Lane::new(self.lanes_made, node, offer, subscription, data));
        self.if_empty(key, offer);
        Some(Accept { span: Nanos(0), prompt: false, from, held })
    }

    fn changed(&mut self, key: &LaneKey, offer: &LaneOffer<'_>) {
        let Some(lane) = self.lanes.get_mut(key) else { return };
        lane.offered_again(offer);
        self.reader.changed(lane);
        self.if_empty(key, offer);
    }

    fn schema(&mut self, key: &LaneKey, generation: u32, offset: u64, bytes: &[u8]) {
        let Some(lane) = self.lanes.get_mut(key) else { return };
        if self.reader.schema(lane, generation, offset, bytes) {
            return;
        }
        if offset == 0 {
            lane.begin_schema();
        }
        if self.pool.len() > POOL_MAX {
            self.pool.forget_unused();
        }
        if let Some(error) = lane.feed(bytes, &mut self.pool) {
            self.reader.damaged(lane, &error);
        }
    }

    fn row(&mut self, key: &LaneKey, number: u64, row: &Decoder) {
        let Some(lane) = self.lanes.get_mut(key) else { return };
        if let Some(known) = lane.take_news() {
            self.reader.columns(lane, known);
        }
        self.reader.row(lane, &Row::new(number, row));
    }

    // Its rows were handed over as they came.
    fn block(&mut self, _: &LaneKey, _: &[u8]) {}

    fn past(&mut self, key: &LaneKey, bytes: &[u8]) {
        if let Some(lane) = self.lanes.get_mut(key) {
            self.reader.past(lane, bytes);
        }
    }

    fn lost(&mut self, key: &LaneKey, from: u64, to: u64) {
        if let Some(lane) = self.lanes.get_mut(key) {
            self.reader.lost(lane, from, to);
        }
    }

    fn answered(&mut self, told: &Told<'_>) {
        if told.granted && told.text.is_empty() {
            return;
        }
        let Some(subscription) = self.subscriptions.get(told.interest) else { return };
        match NodeName::new(told.refused_by) {
            Ok(node) if told.granted => {
                let after_name = told.text.strip_prefix(told.refused_by);
                let text = after_name.and_then(|text| text.strip_prefix(": ")).unwrap_or(told.text);
                self.reader.refused(&subscription, &node, text);
            }
            _ => self.reader.notice(&subscription, told.granted, told.text),
        }
    }

    fn closed(&mut self, key: &LaneKey) {
        self.close(key);
    }

    fn node(&mut self, status: &NodeStatus) {
        self.nodes.push(status.clone());
        if self.nodes.len() >= NODES_AT_ONCE {
            self.reader.nodes(std::mem::take(&mut self.nodes), false);
        }
    }

    fn clock(&mut self, ahead: Option<i64>) {
        self.reader.clock(ahead);
    }

    fn nodes_end(&mut self) {
        self.reader.nodes(std::mem::take(&mut self.nodes), true);
    }

    fn definition(&mut self, definition: &DefinitionFrame<'_>) {
        if let Ok(name) = ChannelName::new(definition.name)
            && self.channels.len() < DEFINITIONS_MAX
        {
            self.channels.push(Defined { name, json: definition.json.to_owned() });
        }
    }

    fn definitions_end(&mut self) {
        self.reader.channels(Some(std::mem::take(&mut self.channels)));
    }

    fn no_definitions(&mut self) {
        self.reader.channels(None);
    }

    fn text(&mut self, number: u32, text: &Arc<[u8]>, stamp: Stamp) {
        self.reader.text(number, text, stamp);
    }

    fn no_text(&mut self, none: &NoText<'_>) {
        self.reader.no_text(none);
    }

    fn text_given(&mut self, given: TextGiven) {
        self.reader.text_answered(given);
    }
}

impl<R> ConnectionSink for Follower<R>
where
    R: Reader<Subscription: Send, Lane: Send> + Send + 'static,
{
    fn up(&mut self, hub: &HubName) {
        Follower::up(self, hub);
    }

    fn down(&mut self, problem: &str) {
        Follower::down(self, problem);
    }

    fn rest(&mut self) {
        Follower::rest(self);
    }

    fn refusal(&mut self) -> Option<String> {
        Follower::refusal(self)
    }
}
