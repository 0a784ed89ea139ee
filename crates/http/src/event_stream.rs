//! A body of server-sent events: on every tick it asks its source what is due, and keeps the connection alive
//! while nothing is. It refuses to buffer: while the socket takes nothing, the source is not asked.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http_body::Frame;
use khz_model::{Nanos, Rate};
use tokio::sync::watch;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

use crate::counters::Held;
use crate::refusal::Refusal;
use crate::routes::App;

/// Sixty times a second: a screen shows no more.
const POLL_PERIOD_MIN: Duration = Duration::from_nanos(16_666_667);
/// Slow rows are looked for four times a second, so that one that came late is shown soon all the same.
const POLL_PERIOD_MAX: Duration = Duration::from_millis(250);
/// Rows are gathered at multiples of their period; looking a little after that finds them fresh.
const POLL_AFTER_TICK: Duration = Duration::from_millis(2);
/// Proxies and clients take a silent connection for dead after 30 to 60 seconds.
const HEARTBEAT_PERIOD: Duration = Duration::from_secs(15);
/// What a client waits before it connects again, in the words of server-sent events.
pub(crate) const OPENING: &str = "retry: 1000\n\n";
pub(crate) const HEARTBEAT: &str = ": heartbeat\n\n";

/// Where the events come from.
pub(crate) trait Source: Send + Unpin + 'static {
    /// What is due now.
    fn due(&mut self) -> Due;
}

/// The text of some events.
pub(crate) enum Due {
    /// All that is due; empty when nothing is.
    Events(String),
    /// The same, and nothing after it.
    Last(String),
}

/// The body of a stream; what it holds is given back when the connection drops it.
pub(crate) struct EventStream<S> {
    source: S,
    tick: Interval,
    heartbeat_at: Instant,
    closing: watch::Receiver<bool>,
    phase: Phase,
    _open: Held,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Opening,
    Running,
    Ended,
}

/// A place among the streams, or the refusal when all are taken.
pub(crate) fn place(app: &App) -> Result<Held, Refusal> {
    let limit = app.limits.streams;
    Held::below(&app.counters.streams_open, limit).ok_or_else(|| {
        let error = format!("the limit of {limit} streams is reached; try again when others have gone");
        Refusal::new(StatusCode::TOO_MANY_REQUESTS, error)
    })
}

impl<S: Source> EventStream<S> {
    /// Events of `source`, which has something new about `rate` times a second.
    pub(crate) fn new(source: S, rate: Rate, closing: watch::Receiver<bool>, open: Held) -> Self {
        EventStream {
            source,
            tick: poll_timer(rate),
            heartbeat_at: Instant::now() + HEARTBEAT_PERIOD,
            closing,
            phase: Phase::Opening,
            _open: open,
        }
    }

    fn due(&mut self) -> String {
        let mut events = match self.source.due() {
            Due::Events(events) => events,
            Due::Last(events) => {
                self.phase = Phase::Ended;
                events
            }
        };
        let now = Instant::now();
        if !events.is_empty() {
            self.heartbeat_at = now + HEARTBEAT_PERIOD;
        } else if now >= self.heartbeat_at {
            self.heartbeat_at = now + HEARTBEAT_PERIOD;
            events.push_str(HEARTBEAT);
        }
        events
    }
}

impl<S: Source> IntoResponse for EventStream<S> {
    fn into_response(self) -> Response {
        let kind = HeaderValue::from_static("text/event-stream");
        let keep = HeaderValue::from_static("no-store");
        ([(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, keep)], Body::new(self)).into_response()
    }
}

impl<S: Source> http_body::Body for EventStream<S> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        loop {
            let text = match self.phase {
                Phase::Ended => return Poll::Ready(None),
                Phase::Opening => {
                    self.phase = Phase::Running;
                    OPENING.to_owned()
                }
                Phase::Running => {
                    ready!(self.tick.poll_tick(cx));
                    if *self.closing.borrow() {
                        return Poll::Ready(None);
                    }
                    self.due()
                }
            };
            if !text.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(Bytes::from(text)))));
            }
        }
    }
}

/// Ticks shortly after each multiple of the period, so that all streams of a rate wake together.
fn poll_timer(rate: Rate) -> Interval {
    let period = Duration::from(rate.period()).clamp(POLL_PERIOD_MIN, POLL_PERIOD_MAX);
    let real = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let into = Nanos((real.as_nanos() % period.as_nanos()) as u64);
    let start = Instant::now() + (period - Duration::from(into)) + POLL_AFTER_TICK;
    let mut timer = interval_at(start, period);
    timer.set_missed_tick_behavior(MissedTickBehavior::Skip);
    timer
}
