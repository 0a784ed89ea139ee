//! Delivers the link's rows to their subscriptions: decodes rows on the link's thread, and passes on the
//! values that each subscription's condition lets through.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use khz_block::{Decoder, SchemaDecoder};
use khz_link::driver::ConnectionSink;
use khz_link::limits::FOLLOWED_MAX;
use khz_link::{Accept, HubName, LaneKey, LaneOffer, LaneSink, Told};
use khz_model::{Nanos, Stamp};

use crate::condition::{Condition, Gate};
use crate::event::{Event, Value};
use crate::queue::Queue;

/// Where the rows of an interest go.
#[derive(Clone)]
pub(crate) struct Route {
    pub condition: Condition,
    pub queue: Queue,
}

/// Routes by interest number. Locked while an interest is sent, so that its lanes find their route.
#[derive(Clone, Default)]
pub(crate) struct Routes(Arc<Mutex<HashMap<u32, Route>>>);

impl Routes {
    pub fn lock(&self) -> MutexGuard<'_, HashMap<u32, Route>> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn tell_all(&self, event: &Event) {
        for route in self.lock().values() {
            route.queue.push(event.clone());
            route.queue.wake();
        }
    }
}

struct Lane {
    node: Arc<str>,
    route: Route,
    schema: SchemaDecoder,
    gates: Vec<Gate>,
    period: Nanos,
    /// The last row of this lane, or of the lane before it.
    last: Option<Last>,
}

/// A row's epoch and time.
#[derive(Clone, Copy)]
struct Last {
    epoch: u64,
    stamp: Stamp,
}

impl Lane {
    /// How many rows could have been made since the last one, if its lane had another epoch; within an epoch
    /// the hub reports losses.
    fn ticks_missed(&self, epoch: u64, stamp: Stamp) -> u64 {
        let Some(last) = self.last.filter(|last| last.epoch != epoch) else { return 0 };
        let passed = stamp.real().since(last.stamp.real()).0.saturating_add(self.period.0 / 2);
        passed.checked_div(self.period.0).unwrap_or(0).saturating_sub(1)
    }
}

/// Receives the rows of the link.
pub(crate) struct Router {
    routes: Routes,
    lanes: HashMap<LaneKey, Lane>,
    /// The last row of lanes that have ended, by node and interest.
    last: HashMap<(String, String), Last>,
    is_down: bool,
}

impl Router {
    pub fn new(routes: Routes) -> Self {
        Router { routes, lanes: HashMap::new(), last: HashMap::new(), is_down: false }
    }

    fn leave(&mut self, key: &LaneKey) {
        let Some(last) = self.lanes.remove(key).and_then(|lane| lane.last) else { return };
        if self.last.len() < FOLLOWED_MAX {
            self.last.insert((key.node.clone(), key.name.clone()), last);
        }
    }
}

impl LaneSink for Router {
    fn offered(&mut self, lane: &LaneKey, offer: &LaneOffer<'_>) -> Option<Accept> {
        let route = self.routes.lock().get(&offer.interest)?.clone();
        let new = Lane {
            node: lane.node.as_str().into(),
            route,
            schema: SchemaDecoder::new(),
            gates: Vec::new(),
            period: offer.period,
            last: self.last.remove(&(lane.node.clone(), lane.name.clone())),
        };
        self.lanes.insert(lane.clone(), new);
        Some(Accept { span: Nanos(0), prompt: false })
    }

    fn changed(&mut self, lane: &LaneKey, offer: &LaneOffer<'_>) {
        if let Some(lane) = self.lanes.get_mut(lane) {
            lane.period = offer.period;
        }
    }

    fn schema(&mut self, lane: &LaneKey, _: u32, offset: u64, bytes: &[u8]) {
        let Some(lane) = self.lanes.get_mut(lane) else { return };
        if offset == 0 {
            // A new generation: the slots have other meanings, so their old values do not count.
            (lane.schema, lane.gates) = (SchemaDecoder::new(), Vec::new());
        }
        if lane.schema.feed(bytes).is_err() {
            lane.route.queue.push(Event::Told { granted: true, text: "a schema that cannot be read".into() });
        }
    }

    fn row(&mut self, key: &LaneKey, _: u64, row: &Decoder) {
        let Some(lane) = self.lanes.get_mut(key) else { return };
        let stamp = row.stamp();
        let missed = lane.ticks_missed(key.epoch, stamp);
        lane.last = Some(Last { epoch: key.epoch, stamp });
        let Lane { node, route, schema, gates, .. } = lane;
        if missed > 0 {
            route.queue.push(Event::Lost { node: node.clone(), rows: missed });
        }
        gates.resize_with(schema.series().len(), || Gate::new(route.condition.clone()));
        let mut events = Vec::new();
        for (slot, (series, gate)) in schema.series().iter().zip(gates).enumerate() {
            let Some(reading) = row.reading(slot) else { break };
            if gate.passes(reading, series.metric.places) {
                let (node, series) = (node.clone(), series.clone());
                events.push(Event::Value(Value { node, series, reading, stamp }));
            }
        }
        route.queue.push_all(events);
    }

    fn block(&mut self, _: &LaneKey, _: &[u8]) {}

    fn lost(&mut self, lane: &LaneKey, from: u64, to: u64) {
        if let Some(lane) = self.lanes.get(lane) {
            lane.route.queue.push(Event::Lost { node: lane.node.clone(), rows: to.saturating_sub(from) });
        }
    }

    fn answered(&mut self, told: &Told<'_>) {
        let routes = self.routes.lock();
        let Some(route) = routes.get(&told.interest) else { return };
        if !told.granted || !told.text.is_empty() {
            route.queue.push(Event::Told { granted: told.granted, text: told.text.to_owned() });
            route.queue.wake();
        }
    }

    fn closed(&mut self, lane: &LaneKey) {
        self.leave(lane);
    }
}

impl ConnectionSink for Router {
    fn up(&mut self, _: &HubName) {
        self.is_down = false;
        self.routes.tell_all(&Event::Up);
    }

    fn down(&mut self, problem: &str) {
        self.lanes.keys().cloned().collect::<Vec<_>>().iter().for_each(|lane| self.leave(lane));
        if !std::mem::replace(&mut self.is_down, true) {
            self.routes.tell_all(&Event::Down { problem: problem.to_owned() });
        }
    }

    fn rest(&mut self) {
        self.lanes.values().for_each(|lane| lane.route.queue.wake());
    }
}
