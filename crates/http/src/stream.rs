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
    let (counters, closing) = (app.counters.clone(), app.closing.clone());
    let rows = Rows::new(subscription, changes, app.limits.backlog_readings, counters, closing, open);
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
    fn new(
        subscription: Box<dyn Subscription>,
        changes: bool,
        backlog_readings: usize,
        counters: Counters,
        closing: watch::Receiver<bool>,
        open: Held,
    ) -> Self {
        let rate = subscription.rate();
        Rows {
            encoder: Encoder::new(rate, changes),
            subscription,
            tick: poll_timer(rate),
            heartbeat_at: Instant::now() + HEARTBEAT_PERIOD,
            backlog_readings,
            counters,
            closing,
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

#[cfg(test)]
mod tests {
    use super::*;
    use http_body::Body as _;
    use khz_model::{NodeName, Row, Stamp};
    use std::future::poll_fn;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Rows at their rate, on tokio's own clock, which the test holds still and moves.
    struct Paced {
        rate: Rate,
        from: Instant,
        next: u64,
    }

    impl Subscription for Paced {
        fn poll(&mut self) -> Vec<Delivery> {
            let until = (self.from.elapsed().as_nanos() / u128::from(self.rate.period().0)) as u64;
            let rows = (self.next..until)
                .map(|n| Row { stamp: Stamp { boot: Nanos(n), real_offset: 0 }, readings: vec![] });
            let rows: Vec<Row> = rows.collect();
            self.next = until;
            let node = NodeName::new("n1").unwrap();
            if rows.is_empty() {
                vec![]
            } else {
                vec![Delivery { node, columns: Arc::default(), rows, lost: 0 }]
            }
        }

        fn rate(&self) -> Rate {
            self.rate
        }
    }

    /// The frames of `seconds` of a stream at `hz`, with the counters.
    async fn frames(hz: u64, seconds: u64) -> (Vec<String>, Counters) {
        let counters = Counters::default();
        let rate = Rate::from_hz(hz).unwrap();
        let subscription = Box::new(Paced { rate, from: Instant::now(), next: 0 });
        let (_close, closing) = watch::channel(false);
        let open = Held::new(&Arc::new(AtomicU64::new(0)));
        let mut rows = Rows::new(subscription, false, 1 << 20, counters.clone(), closing, open);
        let end = Instant::now() + Duration::from_secs(seconds);
        let mut frames = Vec::new();
        while let Ok(frame) =
            tokio::time::timeout_at(end, poll_fn(|cx| Pin::new(&mut rows).poll_frame(cx))).await
        {
            let data = frame.unwrap().unwrap().into_data().unwrap();
            frames.push(String::from_utf8(data.to_vec()).unwrap());
        }
        (frames, counters)
    }

    #[tokio::test(start_paused = true)]
    async fn a_thousand_rows_a_second_come_in_sixty_events_and_none_is_missing() {
        let (frames, counters) = frames(1_000, 10).await;
        let events = counters.stream_events.load(Ordering::Relaxed);
        let rows = counters.stream_rows.load(Ordering::Relaxed);
        assert!((590..=600).contains(&events), "{events} events in 10 s");
        assert!((9_980..=10_000).contains(&rows), "{rows} rows in 10 s");
        let text = frames.concat();
        let stamps: Vec<&str> =
            text.split("\"t\":\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        let expected = (0..rows).map(|n| Stamp { boot: Nanos(n), real_offset: 0 }.real_text());
        assert_eq!(stamps, expected.collect::<Vec<_>>());
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_stream_sends_one_event_a_row() {
        let (_, counters) = frames(1, 10).await;
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        assert_eq!(count(&counters.stream_events), count(&counters.stream_rows));
        assert!((9..=10).contains(&count(&counters.stream_rows)));
    }

    #[tokio::test(start_paused = true)]
    async fn silence_is_broken_by_a_comment_every_fifteen_seconds() {
        let counters = Counters::default();
        let rate = Rate::from_period(Nanos::from_secs(86_400)).unwrap();
        let subscription = Box::new(Paced { rate, from: Instant::now(), next: 0 });
        let (_close, closing) = watch::channel(false);
        let open = Held::new(&Arc::new(AtomicU64::new(0)));
        let mut rows = Rows::new(subscription, false, 1 << 20, counters, closing, open);
        let mut next = async || poll_fn(|cx| Pin::new(&mut rows).poll_frame(cx)).await.unwrap().unwrap();
        assert_eq!(next().await.into_data().unwrap(), OPENING);
        let opened = Instant::now();
        for n in 1..=4 {
            assert_eq!(next().await.into_data().unwrap(), HEARTBEAT);
            let after = opened.elapsed().as_secs_f64() / f64::from(n);
            assert!((15.0..15.6).contains(&after), "{after}");
        }
    }
}
