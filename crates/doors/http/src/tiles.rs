//! `/khz/v1/tiles`: one number of every node, repeatedly, as server-sent events: `nodes` when the list of
//! nodes changes, `tiles` once a period with a number for each. Four thousand nodes take about 20 kB. The
//! numbers are rounded for display; to compute with them, use the stream. With `steps=1` every row has its
//! number: see `steps.rs`.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use khz_door::{Caller, Connection};
use khz_model::{Interest, Nanos, NodeName, NodeStatus, Presence, Query, Rate, Stamp, Subscription};
use tokio::time::Instant;

use crate::clock;
use crate::counters::{Counters, count};
use crate::encoder::notices;
use crate::event_stream::{Due, EventStream, Source, place};
use crate::json;
use crate::limits::BACKLOG_READINGS_MAX;
use crate::measure::{Fold, Measure, Meter};
use crate::params::Params;
use crate::prometheus::line::Client;
use crate::refusal::Refusal;
use crate::roster::Roster;
use crate::routes::App;
use crate::steps::{self, Steps};
use crate::turns::Queue;

/// Parameters of `/khz/v1/tiles`.
pub(crate) const TILES_PARAMS: &[&str] = &["match", "of", "except", "fold", "rest", "rate", "steps", "past"];

/// At higher rates CPU time shows the kernel's 10 ms steps, and no eye follows thousands of tiles.
const RATE_MAX_HZ: u64 = 10;
/// The same with every row: the kernel counts CPU time a hundred times a second.
const STEPS_RATE_MAX_HZ: u64 = 100;
/// A number is out of date when this many periods have passed without a row...
const STALE_PERIODS: u32 = 3;
/// ...or this long, whichever is later.
const STALE_MIN: Duration = Duration::from_secs(3);
/// Roughly what the number of one node takes, with its columns.
const TILE_BYTES: usize = 1_024;
/// Usual length of a node's name.
const NAME_BYTES: usize = 32;
/// Digits of a number: an eye cannot tell more apart.
const DIGITS: i32 = 4;

/// `GET /khz/v1/tiles`
pub(crate) async fn tiles(
    State(app): State<Arc<App>>,
    Extension(connection): Extension<Arc<Connection>>,
    Extension(roster): Extension<Arc<Roster>>,
    Extension(caller): Extension<Caller>,
    Extension(client): Extension<Client>,
    request: Request,
) -> Result<Response, Refusal> {
    let params = Params::parse(request.uri().query(), TILES_PARAMS)?;
    let measure = measure(&params)?;
    let unit = measure.unit(&app.query.metrics()).map_err(Refusal::bad_request)?;
    let steps = params.switch("steps")?;
    let rate = rate(&params, if steps { STEPS_RATE_MAX_HZ } else { RATE_MAX_HZ })?;
    caller.check_rate(rate)?;
    let patterns = measure.patterns();
    if steps {
        steps::check(rate, steps::of(&patterns, &roster.nodes(&*app.query)).count())?;
    }
    let open = place(&app, &caller, client)?;
    app.turns.next(Queue::Answers).await;
    let subscription = app.query.subscribe(Interest::new(patterns, rate, false))?;
    connection.set_streaming();
    let rate = subscription.rate();
    if steps {
        let past = steps::look_back(&app, &measure, rate, params.duration("past", Nanos(0))?).await?;
        let head = Head { unit, rate };
        let steps =
            Steps::new(Arc::clone(&app.query), roster, subscription, measure, head, app.counters.clone());
        let steps = steps.beginning_with(past);
        return Ok(EventStream::new(steps, rate, app.closing.clone(), open).into_response());
    }
    let tiles = Tiles {
        query: Arc::clone(&app.query),
        roster,
        subscription,
        measure,
        head: Head { unit, rate },
        rate,
        counters: app.counters.clone(),
        nodes: HashMap::new(),
        told: Vec::new(),
        known: 0,
        next_at: Instant::now(),
    };
    Ok(EventStream::new(tiles, rate, app.closing.clone(), open).into_response())
}

fn measure(params: &Params) -> Result<Measure, Refusal> {
    let upper = params.all("match")?;
    if upper.is_empty() {
        return Err(Refusal::bad_request("'match' is missing: tiles show one quantity, as match=load.1m"));
    }
    let lower = params.all("of")?;
    let rest = params.switch("rest")?;
    if rest && lower.is_empty() {
        return Err(Refusal::bad_request("rest=1 needs 'of': what the whole is"));
    }
    let fold = match params.get("fold") {
        None | Some("sum") => Fold::Sum,
        Some("max") => Fold::Max,
        Some(other) => return Err(Refusal::bad_request(format!("fold is sum or max, not '{other}'"))),
    };
    Ok(Measure { upper, lower, except: params.all("except")?, fold, rest })
}

fn rate(params: &Params, max_hz: u64) -> Result<Rate, Refusal> {
    let missing = || Refusal::bad_request("a rate is missing");
    let (usual, max) = (Rate::from_hz(1).ok_or_else(missing)?, Rate::from_hz(max_hz).ok_or_else(missing)?);
    let rate = params.rate("rate", usual)?;
    if rate.is_above(max) {
        return Err(Refusal::bad_request(format!("tiles come at most at {max}, not {rate}")));
    }
    Ok(rate)
}

/// What the event `nodes` says beside their names.
pub(crate) struct Head {
    pub unit: String,
    pub rate: Rate,
}

impl Head {
    /// The list of nodes.
    pub fn event(&self, nodes: &[NodeName], events: &mut String) {
        events.push_str("event: nodes\ndata: {\"unit\":");
        json::text(events, &self.unit);
        events.push_str(",\"rate\":");
        json::text(events, &self.rate.to_string());
        events.push_str(",\"period_ns\":");
        json::number(events, self.rate.period().0);
        events.push_str(",\"nodes\":");
        json::list(events, nodes, |out, node| json::text(out, node.as_str()));
        events.push_str("}\n\n");
    }
}

/// Members of an object: the positions of nodes that are not up, and of those that left and are missing.
pub(crate) fn away<'a>(
    roster: impl IntoIterator<Item = &'a NodeStatus, IntoIter: Clone>,
    events: &mut String,
) {
    let all = roster.into_iter().enumerate();
    events.push_str("\"down\":");
    let down = all.clone().filter(|(_, status)| !status.up);
    json::list(events, down, |out, (at, _)| json::number(out, at as u64));
    for (key, presence) in [(",\"left\":", Presence::Left), (",\"missing\":", Presence::Missing)] {
        events.push_str(key);
        let alike = all.clone().filter(|(_, status)| status.presence() == presence);
        json::list(events, alike, |out, (at, _)| json::number(out, at as u64));
    }
}

/// The numbers of all nodes.
struct Tiles {
    query: Arc<dyn Query>,
    roster: Arc<Roster>,
    subscription: Box<dyn Subscription>,
    measure: Measure,
    head: Head,
    rate: Rate,
    counters: Counters,
    /// At most as many as the roster has.
    nodes: HashMap<NodeName, Tile>,
    /// The list of nodes that the client has.
    told: Vec<NodeName>,
    /// How many of them had a number in the last event.
    known: usize,
    next_at: Instant,
}

/// The number of one node, and when its last row came.
struct Tile {
    meter: Meter,
    heard: Instant,
}

impl Tiles {
    fn take_rows(&mut self, now: Instant) {
        // The next event takes the rest.
        for delivery in self.subscription.poll_some(BACKLOG_READINGS_MAX) {
            let tile = self.nodes.entry(delivery.node.clone());
            let tile = tile.or_insert_with(|| Tile { meter: Meter::default(), heard: now });
            tile.meter.take(&self.measure, &delivery);
            tile.heard = now;
        }
    }

    /// The newest number of a node that is up.
    fn value(&self, node: &NodeStatus, now: Instant) -> Option<f64> {
        let tile = self.nodes.get(&node.node).filter(|_| node.up)?;
        let patience = (Duration::from(self.rate.period()) * STALE_PERIODS).max(STALE_MIN);
        tile.meter.value.filter(|_| now.duration_since(tile.heard) <= patience)
    }

    /// Sends the list of nodes if it has changed.
    fn nodes_event(&mut self, roster: &[NodeStatus], events: &mut String) {
        if !self.told.is_empty() && roster.iter().map(|status| &status.node).eq(&self.told) {
            return;
        }
        self.told = roster.iter().map(|status| status.node.clone()).collect();
        self.nodes.retain(|node, _| self.told.binary_search(node).is_ok());
        self.head.event(&self.told, events);
    }

    fn tiles_event(&self, roster: &[NodeStatus], values: &[Option<f64>], events: &mut String) {
        let stamp = Stamp { boot: clock::wall(), real_offset: 0 };
        events.push_str("event: tiles\ndata: {\"t\":");
        json::text(events, &stamp.real_text());
        events.push_str(",\"v\":");
        json::list(events, values, |out, value| match value {
            Some(value) => rounded(out, *value),
            None => out.push_str("null"),
        });
        events.push(',');
        away(roster, events);
        events.push_str("}\n\n");
        count(&self.counters.stream_events);
    }
}

impl Source for Tiles {
    fn due(&mut self) -> Due {
        let now = Instant::now();
        self.take_rows(now);
        let roster = self.roster.nodes(&*self.query);
        let values: Vec<Option<f64>> = roster.iter().map(|node| self.value(node, now)).collect();
        let known = values.iter().flatten().count();
        // Sends numbers at once when they first become known: the first ones should not take a period.
        let mut events = String::new();
        // Every event already lists the nodes that are up.
        let told = self.subscription.notices();
        notices(told.iter().filter(|notice| notice.change.is_none()), &mut events);
        if now < self.next_at && known <= self.known {
            return Due::Events(events);
        }
        self.known = known;
        self.next_at = (self.next_at + Duration::from(self.rate.period())).max(now);
        self.nodes_event(&roster, &mut events);
        self.tiles_event(&roster, &values, &mut events);
        Due::Events(events)
    }

    fn held(&self) -> u64 {
        (self.nodes.len() * TILE_BYTES + self.told.capacity() * (size_of::<NodeName>() + NAME_BYTES)) as u64
    }
}

/// A number with [`DIGITS`] significant digits: `0.003142`, `31.42`, `31416`.
pub(crate) fn rounded(out: &mut String, value: f64) {
    if value == 0.0 {
        return out.push('0');
    }
    let places = (DIGITS - 1 - value.abs().log10().floor() as i32).clamp(0, 9) as usize;
    let start = out.len();
    let _ = write!(out, "{value:.places$}");
    if places > 0 {
        let kept = out[start..].trim_end_matches('0').trim_end_matches('.').len();
        out.truncate(start + kept);
    }
}

#[cfg(test)]
mod tests {
    use super::rounded;

    #[test]
    fn numbers_are_as_short_as_the_eye_allows() {
        for (value, text) in [
            (0.0, "0"),
            (1.0, "1"),
            (0.003_141_59, "0.003142"),
            (31.415_9, "31.42"),
            (31_415.9, "31416"),
            (1e-12, "0"),
            (100.0, "100"),
            (99.999_99, "100"),
            (1.5e19, "15000000000000000000"),
        ] {
            let mut out = String::from("[");
            rounded(&mut out, value);
            assert_eq!(out, format!("[{text}"));
        }
    }
}
