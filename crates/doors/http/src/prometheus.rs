//! Prometheus' own HTTP interface, under `/api/v1/`: queries in PromQL, series and labels, and what else data sources ask for.
//! Answers and errors have Prometheus' form to the byte, so that Grafana, promtool and other clients work.

mod answer;
mod data;
mod evaluate;
mod failure;
mod form;
pub(crate) mod line;
mod names;
mod numbers;
mod query;
mod read;
mod series;
mod times;

use axum::http::Method;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};

use crate::limits::{FORM_BYTES_MAX, READ_BYTES_MAX};
use crate::prometheus::failure::Failure;
use crate::refusal::Refusal;
use crate::routes::Route;

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
    fn both<H, T>(handler: H) -> MethodRouter<std::sync::Arc<crate::routes::App>>
    where
        H: axum::handler::Handler<T, std::sync::Arc<crate::routes::App>>,
        T: 'static,
    {
        get(handler.clone()).post(handler)
    }
    vec![
        ("/api/v1/query", query::QUERY_PARAMS, both(query::query)),
        ("/api/v1/query_range", query::RANGE_PARAMS, both(query::query_range)),
        ("/api/v1/format_query", query::FORMAT_PARAMS, both(query::format_query)),
        ("/api/v1/series", series::SERIES_PARAMS, both(series::series)),
        ("/api/v1/labels", series::SERIES_PARAMS, both(series::labels)),
        ("/api/v1/label/{name}/values", series::VALUES_PARAMS, get(series::values)),
        ("/api/v1/metadata", data::METADATA_PARAMS, get(data::metadata)),
        ("/api/v1/query_exemplars", data::EXEMPLARS_PARAMS, both(data::exemplars)),
        ("/api/v1/rules", data::RULES_PARAMS, get(data::rules)),
        ("/api/v1/alerts", &[], get(data::alerts)),
        (READ, &[], both(read::read_remotely)),
        ("/api/v1/status/buildinfo", &[], get(data::build)),
    ]
}
