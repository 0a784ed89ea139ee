//! The rows of channels: what `/khz/v1/stream` asks of nodes besides plain series, and `/khz/v1/channels/NAME/stream`, which goes on
//! when its channel is changed.

use std::str::FromStr;
use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Response};
use khz_channel::{Definition, Kept};
use khz_door::{Caller, Connection};
use khz_model::{Bell, Interest, NodeName, RowNumber};

use crate::event_stream::{Due, EventStream, Source, place};
use crate::json;
use crate::misses;
use crate::params::Params;
use crate::prometheus::line::Client;
use crate::refusal::Refusal;
use crate::routes::App;
use crate::stream::Rows;
use crate::turns::Queue;

/// The name of a channel that somebody follows without defining it.
const NAMELESS: &str = "adhoc";

/// Parameters of `/khz/v1/channels/NAME/stream`.
pub(crate) const CHANNEL_STREAM_PARAMS: &[&str] = &["name", "changes"];

/// What the parameters of a stream ask of nodes; `None`: plain series.
pub(crate) fn nameless(params: &Params, app: &App) -> Result<Option<Interest>, Refusal> {
    let text = |name: &str| params.get(name).map(str::to_owned);
    let mut definition = Definition {
        name: NAMELESS.to_owned(),
        nodes: text("nodes"),
        series: params.texts("match").map(str::to_owned).collect(),
        each: text("each"),
        expr: text("expr"),
        rate: text("rate"),
        exact: params.switch("exact")?,
        every: text("every"),
        when: text("when"),
        holds: text("for"),
        unless: text("unless"),
        at_least: number(params, "at_least")?,
        of: number(params, "of")?,
        once: params.switch("once")?,
        quiet: text("quiet"),
        deadband: text("deadband"),
        slower: number(params, "slower")?,
        before: text("before"),
        after: text("after"),
        ..Definition::default()
    };
    let (has_handler, channels) = (definition.has_handler(), &app.channels);
    if definition.series.is_empty() && definition.expr.is_none() {
        definition.series.push("*".to_owned());
    }
    definition.check_units(|| app.query.metrics())?;
    match (has_handler, &definition.nodes) {
        (true, _) => Ok(Some(definition.interest_among(&|name| channels.expression(name))?)),
        (false, Some(_)) => {
            Ok(Some(Interest::new(definition.patterns()?, definition.rate()?, definition.exact)))
        }
        (false, None) => Ok(None),
    }
}

/// A small number, if it is there.
fn number<T: FromStr>(params: &Params, name: &str) -> Result<Option<T>, Refusal> {
    let read = params.get(name).map(str::parse).transpose();
    read.map_err(|_| Refusal::bad_request(format!("{name} is a number, as docs/channels.md says")))
}

/// `GET /khz/v1/channels/NAME/stream`
pub(crate) async fn channel_stream(
    State(app): State<Arc<App>>,
    Extension(connection): Extension<Arc<Connection>>,
    Extension(caller): Extension<Caller>,
    Extension(client): Extension<Client>,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response, Refusal> {
    let changes = Params::parse(request.uri().query(), &["changes"])?.switch("changes")?;
    let revision = app.channels.revision();
    let kept = app.channels.get(&name)?;
    caller.check_rate(kept.interest.rate)?;
    let open = place(&app, &caller, client)?;
    app.turns.next(Queue::Answers).await;
    let rows = rows(&app, &kept, changes, &[])?;
    connection.set_streaming();
    let (rate, closing) = (kept.interest.rate, app.closing.clone());
    let rows = ChannelRows { rows, kept, revision, changes, caller, app, bell: None };
    Ok(EventStream::new(rows, rate, closing, open).into_response())
}

/// The event of a channel that was changed, or that uses one that was.
fn changed(kept: &Kept) -> String {
    let mut event = String::from("event: channel\ndata: {\"name\":");
    json::text(&mut event, &kept.definition.name);
    event.push_str(",\"definition\":");
    event.push_str(&kept.definition.to_json());
    event.push_str("}\n\n");
    event
}

/// A subscription to a channel, for a reader that has the rows up to these places.
fn rows(app: &App, kept: &Kept, changes: bool, places: &[(NodeName, RowNumber)]) -> Result<Rows, Refusal> {
    let interest = kept.interest.clone();
    let patterns = interest.patterns.clone();
    let subscription = app.query.subscribe_after(interest, places);
    let subscription = subscription.map_err(|error| misses::refusal(&*app.query, &patterns, error))?;
    let rows = Rows::new(subscription, changes, app.limits.backlog_readings, app.counters.clone());
    let first = misses::event(&misses::of(&*app.query, &patterns));
    Ok(rows.beginning_with(first).tallied_by(app.tallies.reader(&kept.definition.name)))
}

/// The rows of a channel that may be changed or removed meanwhile.
struct ChannelRows {
    rows: Rows,
    kept: Arc<Kept>,
    /// The registry's revision in which the channel was found as it is.
    revision: u64,
    changes: bool,
    caller: Caller,
    app: Arc<App>,
    /// What each subscription in turn rings.
    bell: Option<Arc<Bell>>,
}

impl ChannelRows {
    /// Follows the channel as it is now; an error ends the stream.
    fn renew(&mut self) -> Result<(), Refusal> {
        let revision = self.app.channels.revision();
        if revision == self.revision {
            return Ok(());
        }
        let kept = self.app.channels.get(&self.kept.definition.name)?;
        // The definition may be the same, and a channel that it uses is not. And what becomes of rows elsewhere is of no matter here.
        if kept.interest != self.kept.interest {
            self.caller.check_rate(kept.interest.rate)?;
            let rows = rows(&self.app, &kept, self.changes, &self.rows.places())?;
            // What it has fetched already comes first.
            let first = self.rows.rest() + &changed(&kept);
            self.rows = rows.beginning_with(first);
            self.bell.iter().for_each(|bell| _ = self.rows.ring(Bell::clone(bell)));
        }
        (self.kept, self.revision) = (kept, revision);
        Ok(())
    }
}

impl Source for ChannelRows {
    fn due(&mut self) -> Due {
        match self.renew() {
            Ok(()) => self.rows.due(),
            Err(refusal) => {
                let name = &self.kept.definition.name;
                let mut event = String::from("event: dropped\ndata: {\"error\":");
                json::text(
                    &mut event,
                    &format!("channel '{name}' was changed or removed: {}", refusal.error),
                );
                event.push_str("}\n\n");
                Due::Last(event)
            }
        }
    }

    fn held(&self) -> u64 {
        self.rows.held()
    }

    fn ring(&mut self, bell: Bell) -> bool {
        // Changes of the channel ring as long as the stream has it.
        self.app.channels.hear(self.bell.insert(Arc::new(bell.clone())));
        self.rows.ring(bell)
    }
}
