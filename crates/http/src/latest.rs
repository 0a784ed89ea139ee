//! `/metrics`, `/khz/v1/query` and `/healthz`: what is there now. It refuses to gather; it asks for rows no
//! older than the window, and of a hub for what was sent last, unless somebody says how old that may be.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use khz_model::{Misses, Nanos, NodeName, Pattern, Presence, QueryError, Sample, Snapshot};
use tokio::time::timeout;

use crate::accept::negotiate;
use crate::exposition::{render, render_own};
use crate::json;
use crate::misses;
use crate::params::Params;
use crate::refusal::Refusal;
use crate::roster::Roster;
use crate::routes::App;

/// Nodes that are asked anew have so long to answer, as at the text door.
const RENEW_DEADLINE: Duration = Duration::from_millis(50);

/// Parameters of `/metrics`.
pub(crate) const METRICS_PARAMS: &[&str] = &["node"];

/// `GET /metrics`: of one node, where it is named; else what whoever answers says of itself; else of all nodes.
pub(crate) async fn metrics(
    State(app): State<Arc<App>>,
    Extension(roster): Extension<Arc<Roster>>,
    request: Request,
) -> Result<Response, Refusal> {
    let params = Params::parse(request.uri().query(), METRICS_PARAMS)?;
    let format = negotiate(request.headers());
    let body = match (params.get("node"), app.query.own()) {
        // No label says the node: the scraper's target does, and two that say it would be at odds.
        (Some(node), _) => render(&one_node(&app, &roster, node).await?, format, false),
        (None, Some(own)) => render_own(&own, format),
        (None, None) => {
            let snapshot = app.query.latest(&[Pattern::everything()], app.window).await?;
            render(&snapshot, format, app.node_label)
        }
    };
    let kind = HeaderValue::from_static(format.content_type());
    let vary = HeaderValue::from_static("accept");
    Ok(([(header::CONTENT_TYPE, kind), (header::VARY, vary)], body).into_response())
}

/// The samples of one node. A node that is down fails the scrape, so that Prometheus sets `up` to 0 and marks
/// its series stale: old numbers must not pass for new ones.
async fn one_node(app: &App, roster: &Roster, name: &str) -> Result<Snapshot, Refusal> {
    let node = NodeName::new(name)?;
    let nodes = roster.nodes(&*app.query);
    let status = nodes.iter().find(|status| status.node == node).ok_or_else(|| {
        let error = format!("there is no node '{node}'; /khz/v1/nodes lists them");
        Refusal::new(StatusCode::NOT_FOUND, error)
    })?;
    let unavailable = |error: String| Refusal::new(StatusCode::SERVICE_UNAVAILABLE, error);
    if !status.up {
        let heard = status
            .heard
            .map_or_else(String::new, |age| format!("; it was last heard {:.1} s ago", age.as_secs_f64()));
        let how = match status.presence() {
            Presence::Missing => "is expected, and was never heard",
            Presence::Left => "has left",
            Presence::Up | Presence::Down => "is down",
        };
        return Err(unavailable(format!("node '{node}' {how}{heard}")));
    }
    let snapshot = app.query.latest(&[Pattern::new(&format!("{node}:*"))?], app.window).await?;
    if snapshot.nodes.is_empty() {
        return Err(unavailable(format!("node '{node}' does not answer")));
    }
    Ok(snapshot)
}

/// `GET /khz/v1/query`
pub(crate) async fn query(State(app): State<Arc<App>>, request: Request) -> Result<Response, Refusal> {
    let params = Params::parse(request.uri().query(), QUERY_PARAMS)?;
    let patterns = params.patterns()?;
    let age_max = params.duration("age", app.window)?;
    if params.get("age").is_some() {
        // Who has not answered by then shows what it has sent last, with its time.
        let _ = timeout(RENEW_DEADLINE, app.query.renew(&patterns, age_max)).await;
    }
    let snapshot = app.query.latest(&patterns, age_max).await;
    let mut snapshot = snapshot.map_err(|error| misses::refusal(&*app.query, &patterns, error))?;
    misses::keep_known(&*app.query, &mut snapshot.missing);
    let misses = misses::beside(&*app.query, &patterns, &snapshot);
    Ok(json::response(snapshot_json(&snapshot, &misses)))
}

/// Parameters of `/khz/v1/query`.
pub(crate) const QUERY_PARAMS: &[&str] = &["match", "age"];

/// `GET /healthz`: whether questions are still answered, without gathering for it.
pub(crate) async fn health(State(app): State<Arc<App>>) -> Result<Response, Refusal> {
    match app.query.latest(&[], Nanos(u64::MAX)).await {
        Err(stopped @ QueryError::Stopped) => Err(stopped.into()),
        _ => Ok(json::response("{\"status\":\"ok\"}\n".to_owned())),
    }
}

fn snapshot_json(snapshot: &Snapshot, misses: &Misses) -> String {
    let mut out = String::from("{\"nodes\":");
    json::list(&mut out, &snapshot.nodes, |out, (node, samples)| {
        out.push_str("{\"node\":");
        json::text(out, node.as_str());
        out.push_str(",\"series\":");
        json::list(out, samples, sample_json);
        out.push('}');
    });
    out.push_str(",\"missing\":");
    json::list(&mut out, &snapshot.missing, |out, node| json::text(out, node));
    out.push_str(",\"misses\":");
    misses::put(&mut out, misses);
    out.push_str("}\n");
    out
}

fn sample_json(out: &mut String, sample: &Sample) {
    out.push('{');
    json::series(out, &sample.series);
    out.push_str(",\"stamp\":");
    json::text(out, &sample.stamp.real_text());
    out.push(',');
    json::member(out, sample.reading, sample.series.metric.places);
    out.push('}');
}
