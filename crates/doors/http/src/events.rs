//! `/khz/v1/events`: what happened to one node in some time, for the event lane of the page. It is derived from the samples of the
//! past (`khz_past::events`) when somebody asks, in the same turns as queries in PromQL. It keeps no log.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use khz_model::{NodeName, NodeStatus, Query};
use khz_past::{Event, EventKind, Events};

use crate::clock::{self, milliseconds};
use crate::json;
use crate::limits::QUERY_TIMEOUT;
use crate::pages::{self, Writer};
use crate::params::Params;
use crate::prometheus::evaluate::{Asked, evaluate};
use crate::prometheus::form::client;
use crate::refusal::Refusal;
use crate::routes::App;

/// Where they are.
pub(crate) const EVENTS_PATH: &str = "/khz/v1/events";
/// Parameters of it.
pub(crate) const EVENTS_PARAMS: &[&str] = &["node", "from", "to"];

const FROM_DEFAULT: &str = "-10m";
const TO_DEFAULT: &str = "now";

/// `GET /khz/v1/events`
pub(crate) async fn events(State(app): State<Arc<App>>, request: Request) -> Result<Response, Refusal> {
    let params = Params::parse(request.uri().query(), EVENTS_PARAMS)?;
    let now = clock::wall();
    let from = milliseconds(params.moment("from", now, FROM_DEFAULT)?);
    let to = milliseconds(params.moment("to", now, TO_DEFAULT)?);
    if from > to {
        return Err(Refusal::bad_request("'from' is later than 'to'"));
    }
    let node = node(&*app.query, params.get("node"))?;
    // No event is of a job.
    let caller = None;
    let asked = Asked { client: client(&request), caller, now: milliseconds(now), time: QUERY_TIMEOUT };
    let name = node.clone();
    let work = evaluate(&app, asked, move |source, _| khz_past::events(source, name.as_str(), (from, to)));
    let mut found = work.await?;
    if let Some(status) = app.query.status_of(std::slice::from_ref(&node)).first() {
        explain(&mut found, status);
    }
    pages::json(&app, async move |writer| write(writer, &node, (from, to), found).await).await
}

/// The node of this name; without a name, the only one there is.
fn node(query: &dyn Query, name: Option<&str>) -> Result<NodeName, Refusal> {
    let mut nodes = query.nodes();
    match name {
        Some(name) => nodes
            .into_iter()
            .find(|node| node.as_str() == name)
            .ok_or_else(|| Refusal::new(StatusCode::NOT_FOUND, format!("there is no node '{name}'"))),
        None if nodes.len() == 1 => Ok(nodes.remove(0)),
        None => Err(Refusal::bad_request("parameter 'node' is missing: the name of one node")),
    }
}

/// Why the node is not there now is known here alone.
fn explain(found: &mut Events, status: &NodeStatus) {
    let is_open = |event: &&mut Event| event.kind == EventKind::Down && event.end.is_none();
    let Some(event) = found.events.iter_mut().rev().find(is_open).filter(|_| !status.up) else { return };
    event.text = match &status.problem {
        Some(problem) => format!("{}: {problem}", status.presence().as_str()),
        None => status.presence().as_str().to_owned(),
    };
}

async fn write(
    mut writer: Writer,
    node: &NodeName,
    (from, to): (i64, i64),
    found: Events,
) -> Result<Writer, Refusal> {
    writer
        .hold(found.events.iter().map(|event| size_of::<Event>() + event.text.len()).sum::<usize>() as u64)?;
    let page = writer.page();
    page.push_str("{\"node\":");
    json::text(page, node.as_str());
    page.push_str(",\"from\":");
    json::text(page, &seconds(from));
    page.push_str(",\"to\":");
    json::text(page, &seconds(to));
    page.push_str(",\"left_out\":");
    json::number(page, found.left_out);
    page.push_str(",\"damage\":");
    json::list(page, &found.damage, |out, sentence| json::text(out, sentence));
    page.push_str(",\"events\":[");
    for (number, event) in found.events.iter().enumerate() {
        json::next(writer.page(), number);
        event_json(writer.page(), event);
        writer.turn().await?;
    }
    writer.page().push_str("]}\n");
    Ok(writer)
}

fn event_json(out: &mut String, event: &Event) {
    out.push_str("{\"kind\":");
    json::text(out, event.kind.as_str());
    out.push_str(",\"t\":");
    json::text(out, &seconds(event.begin));
    out.push_str(",\"until\":");
    json::text_or_null(out, event.end.map(seconds).as_deref());
    out.push_str(if event.is_earlier { ",\"earlier\":true" } else { ",\"earlier\":false" });
    out.push_str(",\"text\":");
    json::text(out, &event.text);
    out.push('}');
}

/// Milliseconds as seconds.
fn seconds(time: i64) -> String {
    format!("{}.{:03}", time / 1_000, time % 1_000)
}
