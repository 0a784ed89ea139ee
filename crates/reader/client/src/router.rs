//! Delivers rows to the queues of their subscriptions, on the link's thread: the values that each subscription's condition
//! lets through.

use std::collections::HashMap;
use std::sync::Arc;

use khz_block::BlockError;
use khz_follow::{Lane, Lanes, Reader, Row, Subscriptions};
use khz_link::limits::FOLLOWED_MAX;
use khz_link::{HubName, LaneOffer};
use khz_model::{NodeName, Stamp};

use crate::condition::{Condition, Gate};
use crate::event::{Event, Value};
use crate::queue::Queue;

/// Where the rows of a subscription go.
#[derive(Clone)]
pub(crate) struct Route {
    pub condition: Condition,
    /// Rows come at any time, so time does not tell how many are missing.
    pub is_of_channel: bool,
    pub queue: Queue,
}

/// What is kept of a lane.
pub(crate) struct Rows {
    node: Arc<str>,
    /// One for each column.
    gates: Vec<Gate>,
    /// The last row of this lane, or of the lane before it.
    last: Option<Last>,
}

/// A row's epoch and time.
#[derive(Clone, Copy)]
struct Last {
    epoch: u64,
    stamp: Stamp,
}

/// Receives the rows of the link.
pub(crate) struct Router {
    routes: Subscriptions<Route>,
    /// The last row of lanes that have ended, by node and name of the lane.
    last: HashMap<(String, String), Last>,
}

impl Router {
    pub fn new(routes: Subscriptions<Route>) -> Self {
        Router { routes, last: HashMap::new() }
    }

    fn to_all(&self, event: &Event) {
        self.routes.for_each(|route| {
            route.queue.push(event.clone());
            route.queue.wake();
        });
    }
}

/// How many rows could have been made since the last one, if its lane had another epoch; within an epoch the hub reports
/// losses.
fn ticks_missed(lane: &Lane<Router>, stamp: Stamp) -> u64 {
    let is_other = |last: &Last| last.epoch != lane.epoch() && !lane.subscription().is_of_channel;
    let Some(last) = lane.data.last.filter(is_other) else { return 0 };
    let period = lane.period().0;
    let passed = stamp.real().since(last.stamp.real()).0.saturating_add(period / 2);
    passed.checked_div(period).unwrap_or(0).saturating_sub(1)
}

impl Reader for Router {
    type Subscription = Route;
    type Lane = Rows;

    fn offered(&mut self, node: &NodeName, offer: &LaneOffer<'_>, _: &Route) -> Option<Rows> {
        let last = self.last.remove(&(node.to_string(), offer.name.to_owned()));
        Some(Rows { node: node.as_str().into(), gates: Vec::new(), last })
    }

    fn damaged(&mut self, lane: &mut Lane<Self>, _: &BlockError) {
        let text = "a schema that cannot be read".into();
        lane.subscription().queue.push(Event::Notice { granted: true, text });
    }

    fn columns(&mut self, lane: &mut Lane<Self>, known: usize) {
        let (series, gate) = (lane.series().len(), Gate::new(lane.subscription().condition.clone()));
        // New columns have other meanings: values of the old ones do not count for them.
        lane.data.gates.truncate(known);
        lane.data.gates.resize(series, gate);
    }

    fn row(&mut self, lane: &mut Lane<Self>, row: &Row<'_>) {
        let (stamp, missed) = (row.stamp(), ticks_missed(lane, row.stamp()));
        lane.data.last = Some(Last { epoch: lane.epoch(), stamp });
        let queue = lane.subscription().queue.clone();
        if missed > 0 {
            queue.push(Event::Lost { node: lane.data.node.clone(), rows: missed });
        }
        let mut events = Vec::new();
        let (series, Rows { node, gates, .. }) = lane.parts();
        for ((series, gate), reading) in series.iter().zip(gates).zip(row.all()) {
            if gate.passes(reading, series.metric.format()) {
                let (node, series) = (node.clone(), series.clone());
                events.push(Event::Value(Value { node, series, reading, stamp }));
            }
        }
        queue.push_all(events);
    }

    fn lost(&mut self, lane: &mut Lane<Self>, from: u64, to: u64) {
        let (node, rows) = (lane.data.node.clone(), to.saturating_sub(from));
        lane.subscription().queue.push(Event::Lost { node, rows });
    }

    fn closed(&mut self, lane: Lane<Self>, _: Option<&str>) {
        if let Some(last) = lane.data.last.filter(|_| self.last.len() < FOLLOWED_MAX) {
            self.last.insert((lane.node().to_string(), lane.name().to_owned()), last);
        }
    }

    fn notice(&mut self, route: &Route, granted: bool, text: &str) {
        route.queue.push(Event::Notice { granted, text: text.to_owned() });
        route.queue.wake();
    }

    fn up(&mut self, _: &HubName) {
        self.to_all(&Event::Up);
    }

    fn down(&mut self, problem: &str) {
        self.to_all(&Event::Down { problem: problem.to_owned() });
    }

    fn rest(&mut self, lanes: &mut Lanes<Self>) {
        lanes.iter().for_each(|lane| lane.subscription().queue.wake());
    }
}
