//! `/khz/v1/tiles?steps=1`: the number of every node at every row, placed on one grid of time for all: step `k`
//! is the time `k` periods after 1970, which is when nodes gather. A late row is told with its own step, so
//! that nothing waits for the slowest node. Refuses more numbers a second than a page can draw.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use khz_model::{Delivery, Nanos, NodeName, NodeStatus, Pattern, Presence, Query, Rate, Stamp, Subscription};
use tokio::time::Instant;

use crate::clock;
use crate::counters::{Counters, count};
use crate::encoder::notices;
use crate::event_stream::{Due, Source};
use crate::json;
use crate::limits::{BACKLOG_READINGS_MAX, EVENT_BYTES};
use crate::measure::{Measure, Meter};
use crate::refusal::Refusal;
use crate::roster::Roster;
use crate::routes::App;
use crate::tiles::{Head, away, rounded};

/// Numbers a second of one stream: 655 nodes at 100 Hz, or 4,096 at 16 Hz. They take 300 kB, and a tenth of a
/// core here and in the page.
const NUMBERS_A_SECOND_MAX: u64 = 65_536;
/// A node's clock that differs by less from ours is believed: a hub measures the difference no better than
/// half a round trip.
const CLOCK_OFF_MIN: u64 = 100_000_000;
/// The time is told this often when no row comes, so that a picture goes on.
const SILENT_MAX: Duration = Duration::from_secs(1);
/// Numbers of the past that a stream begins with: two minutes of 512 nodes; those of all nodes take a fraction of a second.
const PAST_NUMBERS_MAX: usize = 65_536;
/// Roughly what the number of one node takes, with its columns.
const METER_BYTES: usize = 1_024;

/// The nodes that the patterns select.
pub(crate) fn of<'a>(
    patterns: &'a [Pattern],
    roster: &'a [NodeStatus],
) -> impl Iterator<Item = &'a NodeStatus> + Clone + 'a {
    roster.iter().filter(|status| patterns.iter().any(|pattern| pattern.matches_node(status.node.as_str())))
}

/// Refuses more numbers than [`NUMBERS_A_SECOND_MAX`].
pub(crate) fn check(rate: Rate, nodes: usize) -> Result<(), Refusal> {
    let wanted = nodes as u64 * Nanos::SECOND.0 / rate.period().0;
    if wanted <= NUMBERS_A_SECOND_MAX {
        return Ok(());
    }
    Err(Refusal::bad_request(format!(
        "{nodes} nodes at {rate} are {wanted} numbers a second, the limit is {NUMBERS_A_SECOND_MAX}: ask for a lower rate, or for fewer nodes, as match=node[1-64]:load.1m"
    )))
}

/// The numbers of a node in the past, with the times of its clock.
pub(crate) type Past = Vec<(NodeName, Vec<(Stamp, Option<f64>)>)>;

/// What is in memory of this time before now, or of as much of it as [`PAST_NUMBERS_MAX`] allows. Runs beside the streams, as histories do.
pub(crate) async fn look_back(
    app: &Arc<App>,
    measure: &Measure,
    rate: Rate,
    span: Nanos,
) -> Result<Past, Refusal> {
    let patterns = measure.patterns();
    let names: Vec<NodeName> = app
        .query
        .nodes()
        .into_iter()
        .filter(|node| patterns.iter().any(|p| p.matches_node(node.as_str())))
        .collect();
    let period = rate.period();
    let rows = (span.0 / period.0).min((PAST_NUMBERS_MAX / names.len().max(1)) as u64);
    if rows == 0 {
        return Ok(Past::new());
    }
    let stopped = || Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "the door is closing");
    let turn = Arc::clone(&app.histories).acquire_owned().await.map_err(|_| stopped())?;
    let (query, measure) = (Arc::clone(&app.query), measure.clone());
    let work = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        let of = |node: NodeName| {
            // A node without a past begins with its first row.
            // Twice the rows: one too many would leave every other one out.
            let (span, rows_max) = (Nanos(rows * period.0), 2 * rows as usize);
            let found = query.history_of(&node, &patterns, span, rows_max).ok().flatten()?;
            let mut numbers = Vec::with_capacity(found.rows.len());
            Meter::default().each(&measure, &found, |stamp, value| numbers.push((stamp, value)));
            Some((node, numbers))
        };
        names.into_iter().filter_map(of).collect::<Past>()
    });
    work.await.map_err(|_| stopped())
}

/// The numbers of all nodes, row by row.
pub(crate) struct Steps {
    query: Arc<dyn Query>,
    roster: Arc<Roster>,
    subscription: Box<dyn Subscription>,
    measure: Measure,
    patterns: Vec<Pattern>,
    head: Head,
    counters: Counters,
    /// What the roster was at the last call.
    seen: Option<Arc<Vec<NodeStatus>>>,
    /// The list of nodes that the client has.
    told: Vec<NodeName>,
    presence: Vec<Presence>,
    /// At most as many as the roster has.
    nodes: HashMap<NodeName, Node>,
    spoke: Instant,
    /// What is sent first.
    past: Past,
}

/// A node of the list: its position in it, and its clock minus ours where that is to be taken off.
#[derive(Default)]
struct Node {
    at: usize,
    clock_off: i64,
    meter: Meter,
}

impl Node {
    /// The step that a row of it is in.
    fn step(&self, stamp: Stamp, period: Nanos) -> u64 {
        step(Nanos(stamp.real().0.saturating_add_signed(self.clock_off.saturating_neg())), period)
    }
}

/// The numbers of one step: positions of nodes, and `None` where the number is unknown.
type Step = Vec<(usize, Option<f64>)>;

impl Steps {
    pub fn new(
        query: Arc<dyn Query>,
        roster: Arc<Roster>,
        subscription: Box<dyn Subscription>,
        measure: Measure,
        head: Head,
        counters: Counters,
    ) -> Self {
        Steps {
            query,
            roster,
            subscription,
            patterns: measure.patterns(),
            measure,
            head,
            counters,
            seen: None,
            told: Vec::new(),
            presence: Vec::new(),
            nodes: HashMap::new(),
            spoke: Instant::now(),
            past: Past::new(),
        }
    }

    /// The same, after these numbers.
    pub fn beginning_with(self, past: Past) -> Self {
        Steps { past, ..self }
    }

    /// Sends the list of nodes if it has changed, and who is away if that has.
    fn roster_events(&mut self, events: &mut String) -> Result<(), Refusal> {
        let roster = self.roster.nodes(&*self.query);
        if self.seen.as_ref().is_some_and(|seen| Arc::ptr_eq(seen, &roster)) {
            return Ok(());
        }
        let nodes = of(&self.patterns, &roster);
        let is_first = self.seen.is_none();
        let is_other = is_first || !nodes.clone().map(|status| &status.node).eq(&self.told);
        if is_other {
            check(self.head.rate, nodes.clone().count())?;
            self.told = nodes.clone().map(|status| status.node.clone()).collect();
            self.head.event(&self.told, events);
            self.nodes.retain(|node, _| self.told.binary_search(node).is_ok());
        }
        for (at, status) in nodes.clone().enumerate() {
            let node = self.nodes.entry(status.node.clone()).or_default();
            node.at = at;
            let off = status.clock_offset.unwrap_or(0);
            node.clock_off = if off.unsigned_abs() < CLOCK_OFF_MIN { 0 } else { off };
        }
        if is_other || !nodes.clone().map(NodeStatus::presence).eq(self.presence.iter().copied()) {
            self.presence = nodes.clone().map(NodeStatus::presence).collect();
            events.push_str("event: away\ndata: {");
            away(nodes, events);
            events.push_str("}\n\n");
        }
        self.seen = Some(Arc::clone(&roster));
        Ok(())
    }

    /// The numbers of the rows that have come, step by step.
    fn take_rows(&mut self) -> BTreeMap<u64, Step> {
        let period = self.head.rate.period();
        let mut steps: BTreeMap<u64, Step> = BTreeMap::new();
        for (name, numbers) in std::mem::take(&mut self.past) {
            let Some(node) = self.nodes.get(&name) else { continue };
            for (stamp, value) in numbers {
                steps.entry(node.step(stamp, period)).or_default().push((node.at, value));
            }
        }
        // The next call takes the rest.
        for delivery in self.subscription.poll_some(BACKLOG_READINGS_MAX) {
            self.take(&delivery, period, &mut steps);
        }
        steps
    }

    fn take(&mut self, delivery: &Delivery, period: Nanos, steps: &mut BTreeMap<u64, Step>) {
        // A node that has just come is told with the next roster; its rows until then are not missed.
        let Some(node) = self.nodes.get_mut(&delivery.node) else { return };
        let mut meter = std::mem::take(&mut node.meter);
        meter.each(&self.measure, delivery, |stamp, value| {
            steps.entry(node.step(stamp, period)).or_default().push((node.at, value));
        });
        node.meter = meter;
    }

    /// As many events as their size makes of these steps; one at least.
    fn steps_events(&self, now: u64, steps: BTreeMap<u64, Step>, events: &mut String) {
        let mut left = steps.into_iter().peekable();
        loop {
            let start = events.len();
            events.push_str("event: steps\ndata: {\"now\":");
            json::number(events, now);
            events.push_str(",\"steps\":[");
            let mut written = 0;
            while let Some((step, numbers)) = left.next_if(|_| events.len() - start < EVENT_BYTES) {
                json::next(events, written);
                written += 1;
                events.push_str("{\"step\":");
                json::number(events, step);
                events.push_str(",\"runs\":");
                runs(numbers, events);
                events.push('}');
            }
            events.push_str("]}\n\n");
            count(&self.counters.stream_events);
            if left.peek().is_none() {
                return;
            }
        }
    }
}

impl Source for Steps {
    fn due(&mut self) -> Due {
        let mut events = String::new();
        if let Err(refusal) = self.roster_events(&mut events) {
            events.push_str("event: dropped\ndata: {\"error\":");
            json::text(&mut events, &refusal.error);
            events.push_str("}\n\n");
            return Due::Last(events);
        }
        // The event `away` already says which nodes are up.
        let told = self.subscription.notices();
        notices(told.iter().filter(|notice| notice.change.is_none()), &mut events);
        let steps = self.take_rows();
        let now = Instant::now();
        if !steps.is_empty() || !events.is_empty() || now.duration_since(self.spoke) >= SILENT_MAX {
            self.spoke = now;
            let now = step(clock::wall(), self.head.rate.period());
            self.steps_events(now, steps, &mut events);
        }
        Due::Events(events)
    }

    fn held(&self) -> u64 {
        let past =
            self.past.iter().map(|(_, numbers)| numbers.capacity() * size_of::<(Stamp, Option<f64>)>());
        (past.sum::<usize>()
            + self.nodes.len() * (METER_BYTES + size_of::<Node>() + 2 * size_of::<NodeName>())) as u64
    }
}

/// The step that a time is in. Nodes gather at the step's time or shortly after; a clock that is set by NTP is
/// sometimes a little before it.
fn step(real: Nanos, period: Nanos) -> u64 {
    (real.0 + period.0 / 2) / period.0
}

/// The numbers of neighbouring nodes together, each run after the position of its first: `[[0,1,2.5],[7,null]]`. Of
/// two numbers of a node the later one counts.
fn runs(mut numbers: Step, out: &mut String) {
    numbers.sort_by_key(|(at, _)| *at);
    out.push('[');
    let mut next_at = None;
    for (number, (at, value)) in numbers.iter().enumerate() {
        if numbers.get(number + 1).is_some_and(|(later, _)| later == at) {
            continue;
        }
        if next_at != Some(*at) {
            out.push_str(if next_at.is_some() { "],[" } else { "[" });
            json::number(out, *at as u64);
        }
        next_at = Some(at + 1);
        out.push(',');
        match value {
            Some(value) => rounded(out, *value),
            None => out.push_str("null"),
        }
    }
    out.push_str(if next_at.is_some() { "]]" } else { "]" });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_share_a_run_and_of_two_numbers_the_later_one_counts() {
        for (numbers, text) in [
            (vec![], "[]"),
            (vec![(2, Some(0.5))], "[[2,0.5]]"),
            (vec![(7, None), (0, Some(1.0)), (1, Some(2.5))], "[[0,1,2.5],[7,null]]"),
            (vec![(1, Some(1.0)), (0, Some(3.0)), (1, None)], "[[0,3,null]]"),
        ] {
            let mut out = String::new();
            runs(numbers, &mut out);
            assert_eq!(out, text);
        }
    }

    #[test]
    fn a_time_is_in_the_step_next_to_it() {
        let period = Nanos::from_millis(10);
        for (millis, expected) in [(0, 0), (4, 0), (5, 1), (14, 1), (1_000, 100)] {
            assert_eq!(step(Nanos::from_millis(millis), period), expected, "{millis} ms");
        }
    }
}
