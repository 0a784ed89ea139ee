//! `/metrics`, `/khz/v1/query` and `/healthz`: what is there now. It refuses to gather; it asks for rows no
//! older than the window.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use khz_model::{Nanos, Pattern, QueryError, Sample, Snapshot};

use crate::accept::negotiate;
use crate::exposition::render;
use crate::json;
use crate::params::Params;
use crate::refusal::Refusal;
use crate::routes::App;

/// `GET /metrics`
pub(crate) async fn metrics(State(app): State<Arc<App>>, request: Request) -> Result<Response, Refusal> {
    Params::parse(request.uri().query(), METRICS_PARAMS)?;
    let format = negotiate(request.headers());
    let snapshot = app.query.latest(&[Pattern::everything()], app.window).await?;
    let kind = HeaderValue::from_static(format.content_type());
    let vary = HeaderValue::from_static("accept");
    let body = render(&snapshot, format, app.node_label);
    Ok(([(header::CONTENT_TYPE, kind), (header::VARY, vary)], body).into_response())
}

/// Parameters of `/metrics`: none.
pub(crate) const METRICS_PARAMS: &[&str] = &[];

/// `GET /khz/v1/query`
pub(crate) async fn query(State(app): State<Arc<App>>, request: Request) -> Result<Response, Refusal> {
    let params = Params::parse(request.uri().query(), QUERY_PARAMS)?;
    let patterns = params.patterns()?;
    let age_max = params.duration("age", app.window)?;
    let snapshot = app.query.latest(&patterns, age_max).await?;
    Ok(json::response(snapshot_json(&snapshot)))
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

fn snapshot_json(snapshot: &Snapshot) -> String {
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
