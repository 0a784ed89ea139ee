//! The bodies of requests: which paths take one, how long it may be, and reading it whole.

use axum::extract::Request;
use axum::http::{Method, StatusCode};
use bytes::Bytes;
use khz_channel::limits::DEFINITION_BYTES;
use khz_job::limits::REQUEST_BYTES_MAX;
use tokio::time::timeout;

use crate::limits::HEAD_TIMEOUT;
use crate::refusal::Refusal;
use crate::{channels, jobs, prometheus};

/// Bytes that the body of a request may have; `None`: this request has none.
pub(crate) fn body_max(method: &Method, path: &str) -> Option<usize> {
    let put = |max| (*method == Method::PUT).then_some(max);
    match (channels::name_in(path), jobs::job_in(path)) {
        (Some(_), _) => put(DEFINITION_BYTES),
        (_, Some(_)) => put(REQUEST_BYTES_MAX),
        _ => prometheus::body_max(method, path),
    }
}

/// The body of a request, all of it; `what` it is, for refusals.
pub(crate) async fn whole(request: Request, max: usize, what: &str) -> Result<Bytes, Refusal> {
    let read = timeout(HEAD_TIMEOUT, axum::body::to_bytes(request.into_body(), max)).await;
    let late = || Refusal::new(StatusCode::REQUEST_TIMEOUT, "the body of the request did not come in time");
    read.map_err(|_| late())?.map_err(|_| {
        let problem = format!("{what} has at most {max} bytes, and comes whole");
        Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, problem)
    })
}
