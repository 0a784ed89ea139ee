//! This machine's node from shared memory: values on request, and a thread that reads them at a
//! subscription's rate. It sends no requests, so the agent gathers no faster for it.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use khz_model::{Metric, Nanos, Origin, Pattern, Series, SeriesName, Stamp, Unit, ValueType};
use khz_ring::{RingError, SlotName};
use rustix::time::{ClockId, clock_gettime};

use crate::condition::Gate;
use crate::event::{Event, Value};
use crate::page::Page;
use crate::queue::Queue;
use crate::router::Route;

/// If nothing was written into a page for this long, its writer is dead: it writes ten times a second.
const STALE: Nanos = Nanos::from_secs(10);
/// How often to try again after a writer has ended.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The own node's page, with its series.
#[derive(Clone)]
pub(crate) struct OwnNode(Arc<Mutex<Known>>);

struct Known {
    page: Page,
    /// The series in each slot; `None`: it is labels, or this version cannot read the name.
    series: Vec<Option<Series>>,
}

impl OwnNode {
    pub fn new(page: Page) -> Self {
        OwnNode(Arc::new(Mutex::new(Known { page, series: Vec::new() })))
    }

    /// The node with this machine's own name, if its agent runs.
    pub fn of_host() -> Option<Self> {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Page::local().ok().filter(|page| **page.node() == *host).map(OwnNode::new)
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The node's name.
    pub fn name(&self) -> Arc<str> {
        self.lock().page.node().clone()
    }

    /// True for patterns that name this node and no other.
    pub fn is_meant(&self, patterns: &[Pattern]) -> bool {
        let name = self.name();
        let only = |pattern: &Pattern| {
            let names = pattern.nodes().and_then(|nodes| nodes.expand());
            names.is_some_and(|names| names.len() == 1 && *names[0] == *name)
        };
        patterns.iter().all(only)
    }

    /// The latest values; `None`: its agent does not run.
    pub fn values(&self, patterns: &[Pattern]) -> Option<Vec<Value>> {
        self.lock().values(patterns)
    }

    /// Starts a thread that reads the values every `period` and puts those that pass the route's condition
    /// into its queue.
    pub fn follow(
        &self,
        patterns: Vec<Pattern>,
        period: Nanos,
        route: Route,
    ) -> std::io::Result<OwnFollower> {
        let ends = Arc::new(AtomicBool::new(false));
        let watch = Watch { own: self.clone(), patterns, route, gates: HashMap::new(), is_down: false };
        let (period, is_over) = (Duration::from(period), ends.clone());
        let thread =
            std::thread::Builder::new().name("khz-own".into()).spawn(move || watch.run(period, &is_over))?;
        Ok(OwnFollower { ends, thread: Some(thread) })
    }
}

impl Known {
    /// Opens the present writer's page and reads which series its slots hold.
    fn renew(&mut self) -> Result<(), RingError> {
        if self.page.has_ended() || self.page.problem().is_some() {
            self.page.reopen()?;
            self.series.clear();
        }
        let from = self.series.len();
        self.series.extend(self.page.names().get(from..).unwrap_or_default().iter().map(series));
        Ok(())
    }

    fn values(&mut self, patterns: &[Pattern]) -> Option<Vec<Value>> {
        self.renew().ok()?;
        let node = self.page.node().clone();
        let (mut found, mut newest) = (Vec::new(), Nanos(0));
        for (slot, series) in self.series.iter().enumerate() {
            let latest = self.page.read(slot as u32).ok()??;
            newest = newest.max(latest.stamp.boot);
            if let Some(series) = series.as_ref().filter(|series| series.is_selected(patterns)) {
                let (node, series) = (node.clone(), series.clone());
                found.push(Value { node, series, reading: latest.reading, stamp: latest.stamp });
            }
        }
        (boot_clock().since(newest) < STALE).then_some(found)
    }
}

fn boot_clock() -> Nanos {
    let now = clock_gettime(ClockId::Boottime);
    Nanos(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}

/// What the snapshot has of a series: everything but help and what only the catalogue has.
fn series(slot: &SlotName) -> Option<Series> {
    if slot.format.value_type == ValueType::Labels {
        // They are not in shared memory, and "not gathered yet" would be wrong.
        return None;
    }
    let SeriesName { metric, instance, .. } = SeriesName::parse(&slot.name).ok()?;
    let exposed = format!("khz_{}", metric.replace('.', "_"));
    let plain = Metric::plain(metric.into_string(), exposed, slot.kind, Unit::named(&slot.unit)?);
    let metric = Metric {
        value_type: slot.format.value_type,
        places: slot.format.places,
        origin: Origin { file: Cow::Borrowed("snapshot"), field: slot.name.clone().into() },
        ..plain
    };
    let metric = if instance.is_some() { metric.of_instances("instance") } else { metric };
    Some(Series { metric: Arc::new(metric), instance })
}

/// The thread of a subscription. Dropping it ends the thread.
pub(crate) struct OwnFollower {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for OwnFollower {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // If the thread panicked, the panic is already printed.
            let _ = thread.join();
        }
    }
}

/// How many more conditions than series are kept: a series that is gone may come back.
const GATES_MORE: usize = 64;

struct Watch {
    own: OwnNode,
    patterns: Vec<Pattern>,
    route: Route,
    /// By name: after a restart of the writer, slots may have other numbers.
    gates: HashMap<String, (Stamp, Gate)>,
    is_down: bool,
}

impl Watch {
    fn run(mut self, period: Duration, is_over: &AtomicBool) {
        let mut next = Instant::now();
        while !is_over.load(Ordering::Acquire) {
            let now = Instant::now();
            if now < next {
                std::thread::park_timeout(next - now);
                continue;
            }
            self.read();
            // Skips reads that are already overdue.
            next = (next + period).max(Instant::now().checked_sub(period).unwrap_or(next));
            if self.is_down {
                next = next.max(now + RETRY_AFTER);
            }
        }
    }

    fn read(&mut self) {
        let queue: Queue = self.route.queue.clone();
        let Some(values) = self.own.values(&self.patterns) else {
            if !std::mem::replace(&mut self.is_down, true) {
                let problem = format!("the agent of {} does not run", self.own.name());
                queue.push(Event::Down { problem });
                queue.wake();
            }
            return;
        };
        if std::mem::take(&mut self.is_down) {
            queue.push(Event::Up);
        }
        if self.gates.len() > 2 * values.len() + GATES_MORE {
            // Most are of series that are gone, whose slots the agent has given back.
            let names: HashSet<String> = values.iter().map(|value| value.series.to_string()).collect();
            self.gates.retain(|name, _| names.contains(name));
        }
        let mut events = Vec::new();
        for value in values {
            let fresh = || (Stamp::default(), Gate::new(self.route.condition.clone()));
            let (seen, gate) = self.gates.entry(value.series.to_string()).or_insert_with(fresh);
            let is_new = std::mem::replace(seen, value.stamp) != value.stamp;
            if is_new && gate.passes(value.reading, value.series.metric.format()) {
                events.push(Event::Value(value));
            }
        }
        queue.push_all(events);
        queue.wake();
    }
}

#[cfg(test)]
mod tests {
    use khz_model::{Kind, ValueFormat};

    use super::*;

    #[test]
    fn numbers_are_known_and_labels_left_out() {
        let slot = |value_type| SlotName {
            group: 0,
            kind: Kind::Gauge,
            format: ValueFormat { value_type, places: 0 },
            unit: "count".to_owned(),
            name: "host.uname".to_owned(),
        };
        assert!(series(&slot(ValueType::Unsigned)).is_some() && series(&slot(ValueType::Float)).is_some());
        assert!(series(&slot(ValueType::Labels)).is_none());
    }
}
