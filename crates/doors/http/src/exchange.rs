//! One request and its answer: counted, checked, routed, and sent with the headers that every answer has.
//! Passes on a body only where a path takes one, and protects its connection from eviction until the answer is sent.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::BoxError;
use axum::body::Body;
use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use axum::http::{Method, Request, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;
use khz_door::{Busy, Caller, Connection, Origin, Tide, Way};
use khz_model::Share;
use tower_service::Service;

use crate::bearer::bearer;
use crate::bodies::{Lent, body_max};
use crate::counters::count;
use crate::gzip;
use crate::limits::CHANGED_BYTES;
use crate::pages;
use crate::prometheus;
use crate::prometheus::line::Client;
use crate::refusal::{OverBudget, Refusal};
use crate::routes::HEALTH_PATH;
use crate::talk::Shared;

/// Scripts and styles come only from this door; nothing is embedded, framed or sent elsewhere.
const CONTENT_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
     connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Bytes passed to the connection at once. Small, so that an answer counts as sent only when nearly all of it
/// is sent.
const FRAME_BYTES_MAX: usize = 64 * 1024;

/// What the requests of one connection need for their answers.
#[derive(Clone)]
pub(crate) struct Exchange {
    pub connection: Arc<Connection>,
    pub shared: Arc<Shared>,
    pub way: Way,
    pub origin: Origin,
    pub client: Client,
}

impl Exchange {
    /// Answers one request.
    pub(crate) async fn answer(self, request: Request<Incoming>) -> Response {
        count(&self.shared.counters.requests);
        let Some(busy) = self.connection.busy() else {
            return Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "this connection gives way to a new one")
                .into_response();
        };
        let packs =
            matches!(*request.method(), Method::GET | Method::POST) && gzip::is_accepted(request.headers());
        let path = request.uri().path().to_owned();
        let room = self.shared.room(request.method());
        let checked = self.check(&request);
        let takes_body = body_max(request.method(), request.uri().path()).is_some();
        let (lent, request) = Lent::of(request, takes_body);
        let response = match (checked, &room) {
            (Ok(caller), Ok(_)) => self.clone().route(request, caller).await,
            (Ok(_), Err(busy)) => busy.clone().into_response(),
            (Err(refusal), _) => {
                count(&self.shared.counters.requests_refused);
                prometheus::refused(refusal, &path)
            }
        };
        let is_last = lent.discard().await;
        let (share, response) = self.shared.counted(response, room.ok().flatten());
        let response = gzip::of(response, packs, &self.shared.answers);
        self.shared.tide.rises();
        let (mut head, body) = response.into_parts();
        add_headers(&mut head.headers);
        if is_last {
            head.headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        let held = Arc::new(Held { _share: share, _ebb: Ebb(Arc::clone(&self.shared.tide)) });
        Response::from_parts(head, Body::new(Sending { body, rest: Bytes::new(), held, _busy: busy }))
    }

    /// Checks the request, and then who sends it. Returns the caller; `None` for the path of health checks, which anybody may
    /// ask.
    fn check(&self, request: &Request<Incoming>) -> Result<Option<Caller>, Refusal> {
        self.shared.guard.check(request, self.way)?;
        // The answer says only that the door answers.
        if request.uri().path() == HEALTH_PATH {
            return Ok(None);
        }
        let token = bearer(request.headers())?;
        Ok(Some(self.shared.access.caller(&self.origin, token)?))
    }

    async fn route(self, mut request: Request<Body>, caller: Option<Caller>) -> Response {
        request.extensions_mut().insert(self.connection);
        request.extensions_mut().insert(self.client);
        if let Some(caller) = caller {
            request.extensions_mut().insert(caller);
        }
        match self.shared.router.clone().call(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }
}

impl Shared {
    /// What a request that changes something takes of the budget before the change: then nothing is refused that is done.
    fn room(&self, method: &Method) -> Result<Option<Share>, Refusal> {
        match *method {
            Method::PUT | Method::DELETE => {
                self.answers.take(CHANGED_BYTES).map(Some).ok_or_else(Refusal::busy)
            }
            _ => Ok(None),
        }
    }

    /// What an answer holds of the budget: the share it carries, or its length. An answer that would exceed
    /// the budget becomes a refusal, but if there is `room` for it already. Refusals are short, and always sent.
    fn counted(&self, mut response: Response, room: Option<Share>) -> (Option<Arc<Share>>, Response) {
        if response.extensions().get::<OverBudget>().is_some() {
            count(&self.counters.answers_refused);
        }
        if let Some(pages::Held(share)) = response.extensions_mut().remove::<pages::Held>() {
            return (Some(share), response);
        }
        let is_refusal = !response.status().is_success();
        let is_free = is_refusal || response.extensions().get::<Embedded>().is_some();
        let bytes = if is_free { 0 } else { response.body().size_hint().lower() };
        if let Some(room) = room {
            // What is done must be told, even where it takes a little more.
            room.set(bytes);
            return (Some(Arc::new(room)), response);
        }
        match self.answers.take(bytes) {
            Some(share) => (Some(Arc::new(share)), response),
            None => {
                count(&self.counters.answers_refused);
                (None, Refusal::busy().into_response())
            }
        }
    }
}

/// Marks a response whose bytes are part of the program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Embedded;

fn add_headers(headers: &mut HeaderMap) {
    // The policy of a page holds for its scripts and styles, too; beside each of them it would only take its time on slow lines.
    let is_part = headers.get(header::CONTENT_TYPE).is_some_and(|kind| {
        kind.as_bytes().starts_with(b"text/javascript") || kind.as_bytes().starts_with(b"text/css")
    });
    if !is_part {
        headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(CONTENT_POLICY));
    }
    let fixed = [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

/// A body in pieces of at most [`FRAME_BYTES_MAX`]. Its connection stays busy until it is dropped; its share
/// of the budget is held until the last piece is sent.
struct Sending {
    body: Body,
    rest: Bytes,
    held: Arc<Held>,
    _busy: Busy,
}

/// A share of the budget, and what happens after it has been given back.
struct Held {
    _share: Option<Arc<Share>>,
    _ebb: Ebb,
}

/// The end of an answer: its connection may stay open for hours.
struct Ebb(Arc<Tide>);

impl Drop for Ebb {
    fn drop(&mut self) {
        self.0.falls();
    }
}

/// A piece that the connection holds, and its share of the budget.
struct Piece(Bytes, #[allow(dead_code, reason = "it is held, not read")] Arc<Held>);

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl http_body::Body for Sending {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.rest.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(other) => return Poll::Ready(Some(Ok(other))),
                },
                Some(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
                None => return Poll::Ready(None),
            }
        }
        let size = self.rest.len().min(FRAME_BYTES_MAX);
        let piece = Piece(self.rest.split_to(size), Arc::clone(&self.held));
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_owner(piece)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        // hyper asks before the first frame, when nothing has been taken out yet: then this is the answer's
        // length.
        if self.rest.is_empty() { self.body.size_hint() } else { SizeHint::default() }
    }
}
