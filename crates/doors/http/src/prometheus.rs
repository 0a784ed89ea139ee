//! Prometheus' own HTTP interface, under `/api/v1/`: queries in PromQL, series and labels, and what else data sources ask for.
//! Answers and errors have Prometheus' form to the byte, so that Grafana, promtool and other clients work.

mod answer;
mod brackets;
mod data;
pub(crate) mod evaluate;
mod failure;
pub(crate) mod form;
mod handed;
pub(crate) mod line;
mod names;
mod numbers;
mod query;
mod read;
mod rules;
mod series;
mod times;
mod wanted_rules;

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::handler::Handler;
use axum::http::Method;
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::limits::{FORM_BYTES_MAX, READ_BYTES_MAX};
use crate::prometheus::failure::Failure;
use crate::refusal::Refusal;
use crate::routes::{App, Route};

/// Paths that take a form as a body, too: a query may be too long for a URL.
const FORMS: &[&str] = &[
    "/api/v1/query",
    "/api/v1/query_range",
    "/api/v1/query_exemplars",
    "/api/v1/format_query",
    "/api/v1/series",
    "/api/v1/labels",
];

/// Takes a packed message as a body.
const READ: &str = "/api/v1/read";

/// Bytes that the body of a request may have; `None`: this request has none.
pub(crate) fn body_max(method: &Method, path: &str) -> Option<usize> {
    if *method == Method::POST && path == READ {
        return Some(READ_BYTES_MAX);
    }
    (*method == Method::POST && FORMS.contains(&path)).then_some(FORM_BYTES_MAX)
}

/// The answer to a request that no route saw: below `/api/v1/` in Prometheus' form.
pub(crate) fn refused(refusal: Refusal, path: &str) -> Response {
    if !path.starts_with("/api/v1/") {
        return refusal.into_response();
    }
    let mut response = Failure::from(refusal.clone()).into_response();
    for (name, value) in refusal.into_response().headers() {
        if !response.headers().contains_key(name) {
            response.headers_mut().insert(name, value.clone());
        }
    }
    response
}

/// The routes.
pub(crate) fn table() -> Vec<Route> {
    vec![
        asked("/api/v1/query", query::QUERY_PARAMS, query::query),
        asked("/api/v1/query_range", query::RANGE_PARAMS, query::query_range),
        asked("/api/v1/series", series::SERIES_PARAMS, series::series),
        asked("/api/v1/labels", series::SERIES_PARAMS, series::labels),
        asked("/api/v1/label/{name}/values", series::VALUES_PARAMS, series::values),
        asked("/api/v1/metadata", data::METADATA_PARAMS, data::metadata),
        asked("/api/v1/query_exemplars", data::EXEMPLARS_PARAMS, data::exemplars),
        ("/api/v1/format_query", query::FORMAT_PARAMS, get(query::format_query).post(query::format_query)),
        ("/api/v1/rules", wanted_rules::RULES_PARAMS, get(rules::rules)),
        ("/api/v1/alerts", &[], get(rules::alerts)),
        (READ, &[], get(read::read_remotely).post(read::read_remotely)),
        ("/api/v1/status/buildinfo", &[], get(data::build)),
    ]
}

/// A route that reads samples or lists what there is: where another engine is configured, that one answers.
fn asked<H, T>(path: &'static str, params: &'static [&'static str], ours: H) -> Route
where
    H: Handler<T, Arc<App>>,
    T: 'static,
{
    let answer = move |State(app): State<Arc<App>>, request: Request| {
        let ours = ours.clone();
        async move {
            match app.engine.clone() {
                Some(engine) => handed::answer(&app, engine, params, request).await.into_response(),
                None => ours.call(request, app).await,
            }
        }
    };
    let router = get(answer.clone());
    (path, params, if FORMS.contains(&path) { router.post(answer) } else { router })
}
