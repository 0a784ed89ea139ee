//! What comes on the link, brought to the subscriptions that asked for it: it decodes rows on the link's thread, and
//! lets through what each one's condition does.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use khz_block::{Decoder, SchemaDecoder};
use khz_link::driver::FollowingSink;
use khz_link::{FollowSink, HubName, LaneKey, LaneOffer, Told, Wish};
use khz_model::Nanos;

use crate::condition::{Condition, Gate};
use crate::event::{Event, Value};
use crate::queue::Queue;

/// Where the rows of an interest go.
#[derive(Clone)]
pub(crate) struct Route {
    pub condition: Condition,
    pub queue: Queue,
}

/// Routes by the number of their interest. Held while an interest is said, so that its lanes find it.
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
}

/// The link's sink.
pub(crate) struct Router {
    routes: Routes,
    lanes: HashMap<LaneKey, Lane>,
    is_down: bool,
}

impl Router {
    pub fn new(routes: Routes) -> Self {
        Router { routes, lanes: HashMap::new(), is_down: false }
    }
}

impl FollowSink for Router {
    fn wish(&mut self, lane: &LaneKey, offer: &LaneOffer<'_>) -> Option<Wish> {
        let route = self.routes.lock().get(&offer.interest)?.clone();
        let new =
            Lane { node: lane.node.as_str().into(), route, schema: SchemaDecoder::new(), gates: Vec::new() };
        self.lanes.insert(lane.clone(), new);
        Some(Wish { span: Nanos(0), prompt: false })
    }

    fn schema(&mut self, lane: &LaneKey, _: u32, offset: u64, bytes: &[u8]) {
        let Some(lane) = self.lanes.get_mut(lane) else { return };
        if offset == 0 {
            // Another generation: its slots are others, and so are the values that stood in them.
            (lane.schema, lane.gates) = (SchemaDecoder::new(), Vec::new());
        }
        if lane.schema.feed(bytes).is_err() {
            lane.route.queue.push(Event::Told { granted: true, text: "a schema that cannot be read".into() });
        }
    }

    fn row(&mut self, lane: &LaneKey, _: u64, row: &Decoder) {
        let Some(Lane { node, route, schema, gates }) = self.lanes.get_mut(lane) else { return };
        let stamp = row.stamp();
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

    fn told(&mut self, told: &Told<'_>) {
        let routes = self.routes.lock();
        let Some(route) = routes.get(&told.interest) else { return };
        if !told.granted || !told.text.is_empty() {
            route.queue.push(Event::Told { granted: told.granted, text: told.text.to_owned() });
            route.queue.wake();
        }
    }

    fn closed(&mut self, lane: &LaneKey) {
        self.lanes.remove(lane);
    }
}

impl FollowingSink for Router {
    fn up(&mut self, _: &HubName) {
        self.is_down = false;
        self.routes.tell_all(&Event::Up);
    }

    fn down(&mut self, problem: &str) {
        self.lanes.clear();
        if !std::mem::replace(&mut self.is_down, true) {
            self.routes.tell_all(&Event::Down { problem: problem.to_owned() });
        }
    }

    fn rest(&mut self) {
        self.lanes.values().for_each(|lane| lane.route.queue.wake());
    }
}
