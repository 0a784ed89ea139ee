//! `/khz/v1/stream`: one subscription as server-sent events. A timer empties it at most sixty times a second,
//! whatever its rate; nothing is done per row. It refuses to buffer: while the socket takes nothing the
//! subscription is not emptied, and who falls too far behind is dropped.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Extension;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http_body::Frame;
use khz_model::{Delivery, Interest, Nanos, Rate, Subscription};
use tokio::sync::watch;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

use crate::connections::Connection;
use crate::counters::{Counters, Held, count, count_n};
use crate::encoder::Encoder;
use crate::params::Params;
use crate::refusal::Refusal;
use crate::routes::App;

/// Parameters of `/khz/v1/stream`.
pub(crate) const STREAM_PARAMS: &[&str] = &["match", "rate", "exact", "changes"];

/// Sixty times a second: a screen shows no more.
const POLL_PERIOD_MIN: Duration = Duration::from_nanos(16_666_667);
/// Slow rows are looked for four times a second, so that one that came late is shown soon all the same.
const POLL_PERIOD_MAX: Duration = Duration::from_millis(250);
/// Rows are gathered at multiples of their period; looking a little after that finds them fresh.
const POLL_AFTER_TICK: Duration = Duration::from_millis(2);
/// Proxies and clients take a silent connection for dead after 30 to 60 seconds.
const HEARTBEAT_PERIOD: Duration = Duration::from_secs(15);
/// What a client waits before it connects again, in the words of server-sent events.
const OPENING: &str = "retry: 1000\n\n";
const HEARTBEAT: &str = ": heartbeat\n\n";

/// `GET /khz/v1/stream`
pub(crate) async fn stream(
    State(app): State<Arc<App>>,
    Extension(connection): Extension<Arc<Connection>>,
    request: Request,
) -> Result<Response, Refusal> {
    let params = Params::parse(request.uri().query(), STREAM_PARAMS)?;
    let interest = interest(&params)?;
    let changes = params.switch("changes")?;
    let limit = app.limits.streams;
    let open = Held::below(&app.counters.streams_open, limit).ok_or_else(|| {
        let error = format!("the limit of {limit} streams is reached; try again when others have gone");
        Refusal::new(StatusCode::TOO_MANY_REQUESTS, error)
    })?;
    let subscription = app.query.subscribe(interest)?;
    connection.set_streaming();
    let rows = Rows::new(subscription, changes, &app, open);
    let kind = HeaderValue::from_static("text/event-stream");
    let keep = HeaderValue::from_static("no-store");
    Ok(([(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, keep)], Body::new(rows)).into_response())
}

fn interest(params: &Params) -> Result<Interest, Refusal> {
    let once_a_second = Rate::from_hz(1).ok_or_else(|| Refusal::bad_request("a rate is missing"))?;
    Ok(Interest {
        patterns: params.patterns()?,
        rate: params.rate("rate", once_a_second)?,
        exact: params.switch("exact")?,
    })
}

/// The body of a stream; what it holds is given back when the connection drops it.
struct Rows {
    subscription: Box<dyn Subscription>,
    encoder: Encoder,
    tick: Interval,
    heartbeat_at: Instant,
    backlog_readings: usize,
    counters: Counters,
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

impl Rows {
    fn new(subscription: Box<dyn Subscription>, changes: bool, app: &App, open: Held) -> Self {
        let rate = subscription.rate();
        Rows {
            encoder: Encoder::new(rate, changes),
            subscription,
            tick: poll_timer(rate),
            heartbeat_at: Instant::now() + HEARTBEAT_PERIOD,
            backlog_readings: app.limits.backlog_readings,
            counters: app.counters.clone(),
            closing: app.closing.clone(),
            phase: Phase::Opening,
            _open: open,
        }
    }

    /// The events that are due; empty when there are none.
    fn due(&mut self) -> String {
        let deliveries = self.subscription.poll();
        let waiting: usize = deliveries.iter().flat_map(|d| &d.rows).map(|row| row.readings.len()).sum();
        if waiting > self.backlog_readings {
            return self.drop_slow(waiting);
        }
        let mut events = String::new();
        for delivery in &deliveries {
            if self.encoder.push(delivery, &mut events) {
                self.count(delivery);
            }
        }
        let now = Instant::now();
        if !events.is_empty() {
            self.heartbeat_at = now + HEARTBEAT_PERIOD;
        } else if now >= self.heartbeat_at {
            self.heartbeat_at = now + HEARTBEAT_PERIOD;
            events.push_str(HEARTBEAT);
        }
        events
    }

    fn count(&self, delivery: &Delivery) {
        count(&self.counters.stream_events);
        count_n(&self.counters.stream_rows, delivery.rows.len() as u64);
        count_n(&self.counters.stream_rows_lost, delivery.lost);
    }

    /// The last event of a reader who did not keep up.
    fn drop_slow(&mut self, waiting: usize) -> String {
        count(&self.counters.streams_dropped_slow);
        self.phase = Phase::Ended;
        format!(
            "event: dropped\ndata: {{\"error\":\"this reader fell behind: {waiting} readings were waiting, the limit is {}; ask for fewer series or a lower rate\"}}\n\n",
            self.backlog_readings
        )
    }
}

impl http_body::Body for Rows {
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
