//! The bodies of requests: which paths take one, how long it may be, reading it whole, and reading the rest of one that nobody wants.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use axum::body::Body;
use axum::extract::Request;
use axum::http::{Method, StatusCode};
use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;
use khz_channel::limits::DEFINITION_BYTES;
use khz_job::limits::REQUEST_BYTES_MAX;
use tokio::time::timeout;

use crate::limits::{DISCARD_TIMEOUT, DISCARDED_BYTES_MAX, HEAD_TIMEOUT};
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

/// The body of a request, lent to who answers it. What is left unread is read when there is an answer: otherwise the connection would
/// end with bytes on their way, and a peer that is still writing would get an error of its system in place of the answer.
#[derive(Clone)]
pub(crate) struct Lent {
    body: Arc<Mutex<Incoming>>,
    /// The peer waits before it sends the body: an answer spares it that.
    waits: bool,
}

impl Lent {
    /// The body of this request, and the request with it.
    pub fn of(request: Request<Incoming>, is_wanted: bool) -> (Self, Request<Body>) {
        let (head, body) = request.into_parts();
        let waits = head.headers.contains_key(axum::http::header::EXPECT);
        let lent = Lent { body: Arc::new(Mutex::new(body)), waits };
        let body = if is_wanted { Body::new(lent.clone()) } else { Body::empty() };
        (lent, Request::from_parts(head, body))
    }

    fn body(&self) -> MutexGuard<'_, Incoming> {
        self.body.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads what is left of it, up to a limit. True if something was left: the connection is of no use then.
    pub async fn discard(self) -> bool {
        if self.body().is_end_stream() {
            return false;
        }
        if self.waits {
            return true;
        }
        let rest = async {
            let mut left = DISCARDED_BYTES_MAX;
            while left > 0 && !self.body().is_end_stream() {
                let frame = poll_fn(|cx| Pin::new(&mut *self.body()).poll_frame(cx));
                let Ok(Some(Ok(frame))) = timeout(DISCARD_TIMEOUT, frame).await else { return };
                left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len).max(1));
            }
        };
        // What does not come in time is left.
        let _ = timeout(HEAD_TIMEOUT, rest).await;
        true
    }
}

impl http_body::Body for Lent {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        Pin::new(&mut *self.body()).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body().is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body().size_hint()
    }
}
