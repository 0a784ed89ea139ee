//! A body of server-sent events. On every tick, and whenever its source rings, it asks the source for the events that
//! are due, and sends heartbeats while there are none. It buffers nothing: while the socket takes no bytes, it does not
//! ask the source.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http_body::Frame;
use khz_door::Caller;
use khz_model::http_names::HEARTBEAT_HEADER;
use khz_model::{Bell, Nanos, Rate, Share};
use tokio::sync::watch;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

use crate::clock;
use crate::counters::{Counters, Held, count};
use crate::limits::STREAM_BYTES;
use crate::pages;
use crate::places::ReaderPlace;
use crate::prometheus::line::Client;
use crate::refusal::Refusal;
use crate::routes::App;
use crate::stream_bell::StreamBell;

/// Sixty times a second: a screen shows no more.
const POLL_PERIOD_MIN: Duration = Duration::from_nanos(16_666_667);
/// Polls slow rows four times a second, so that a late row is still shown soon. A source that rings for rows is polled as
/// often for everything else.
const POLL_PERIOD_MAX: Duration = Duration::from_millis(250);
/// Rows are gathered at multiples of their period; polling shortly afterwards finds them fresh.
const POLL_AFTER_TICK: Duration = Duration::from_millis(2);
/// A reader that gets nothing for three of these knows that the door is gone, as fast as a hub knows it of a
/// node. The stream is awake that often anyway, and proxies consider a silent connection dead only after 30
/// seconds.
const HEARTBEAT_PERIOD: Duration = Duration::from_secs(1);
/// Tells the client how long to wait before it reconnects, in the syntax of server-sent events.
pub(crate) const OPENING: &str = "retry: 1000\n\n";
pub(crate) const HEARTBEAT: &str = ": heartbeat\n\n";
/// The last event of a stream that would exceed the budget.
const OVER_BUDGET: &str = "event: dropped\ndata: {\"error\":\"the answers that others have not yet taken leave no room for this stream; try again in a few seconds\"}\n\n";

/// A source of events.
pub(crate) trait Source: Send + Unpin + 'static {
    /// Returns the events that are due.
    fn due(&mut self) -> Due;

    /// Roughly how many bytes it holds between two calls.
    fn held(&self) -> u64;

    /// Rings this bell from now on when events are due. `false`: it does not, and is to be polled at its rate.
    fn ring(&mut self, bell: Bell) -> bool {
        let _ = bell;
        false
    }
}

/// The text of some events.
pub(crate) enum Due {
    /// All events that are due; may be empty.
    Events(String),
    /// Some of the events that are due; ask for the rest when these are taken.
    More(String),
    /// All events; the stream ends after them.
    Last(String),
}

/// The body of a stream; dropping it releases what it holds.
pub(crate) struct EventStream<S> {
    source: S,
    tick: Interval,
    /// `None`: the source does not ring.
    bell: Option<Arc<StreamBell>>,
    /// When a ring is answered at the earliest.
    answers_at: Instant,
    /// The next tick is that time.
    is_hurried: bool,
    heartbeat_at: Instant,
    closing: watch::Receiver<bool>,
    phase: Phase,
    place: Place,
}

/// One of the places for streams, and a share of the budget for answers.
pub(crate) struct Place {
    counters: Counters,
    share: Arc<Share>,
    _open: Held,
    _of_reader: Option<ReaderPlace>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Opening,
    Running,
    /// More is due at once.
    Hurrying,
    Ended,
}

/// A place for one more stream; a refusal when all places are taken that this caller may have, or the budget is used up.
pub(crate) fn place(app: &App, caller: &Caller, client: Client) -> Result<Place, Refusal> {
    let limit = app.limits.streams;
    let open = Held::below(&app.counters.streams_open, limit).ok_or_else(|| {
        let error = format!("the limit of {limit} streams is reached; try again when others have gone");
        Refusal::new(StatusCode::TOO_MANY_REQUESTS, error)
    })?;
    let of_reader = app.places.take(caller, client, &app.limits)?;
    let share = app.answers.take(STREAM_BYTES).ok_or_else(Refusal::busy)?;
    Ok(Place { counters: app.counters.clone(), share: Arc::new(share), _open: open, _of_reader: of_reader })
}

impl<S: Source> EventStream<S> {
    /// Sends the events of `source`, which has news about `rate` times a second, or rings when it has.
    pub(crate) fn new(mut source: S, rate: Rate, closing: watch::Receiver<bool>, place: Place) -> Self {
        let bell = Arc::new(StreamBell::default());
        let bell = source.ring(bell.rope()).then_some(bell);
        // What is here already rings no more.
        bell.iter().for_each(|bell| bell.ring());
        let period = if bell.is_some() { POLL_PERIOD_MAX } else { Duration::from(rate.period()) };
        let now = Instant::now();
        EventStream {
            source,
            tick: poll_timer(period),
            bell,
            answers_at: now,
            is_hurried: false,
            heartbeat_at: now + HEARTBEAT_PERIOD,
            closing,
            phase: Phase::Opening,
            place,
        }
    }

    /// Ready at a tick, and at a ring: at once, or a moment after the last time, so that no more events come than a screen
    /// shows.
    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.tick.poll_tick(cx).is_ready() {
            return Poll::Ready(());
        }
        let Some(bell) = &self.bell else { return Poll::Pending };
        ready!(bell.poll_rung(cx));
        if Instant::now() >= self.answers_at {
            return Poll::Ready(());
        }
        if !std::mem::replace(&mut self.is_hurried, true) {
            self.tick.reset_at(self.answers_at);
        }
        self.tick.poll_tick(cx).map(drop)
    }

    fn due(&mut self) -> String {
        self.phase = Phase::Running;
        self.is_hurried = false;
        if let Some(bell) = &self.bell {
            self.answers_at = Instant::now() + POLL_PERIOD_MIN;
            bell.answer();
        }
        let mut events = match self.source.due() {
            Due::Events(events) => events,
            Due::More(events) => {
                self.phase = Phase::Hurrying;
                events
            }
            Due::Last(events) => {
                self.phase = Phase::Ended;
                events
            }
        };
        if !self.place.share.set(self.source.held() + (events.capacity() as u64).max(STREAM_BYTES)) {
            count(&self.place.counters.answers_cut);
            self.phase = Phase::Ended;
            return OVER_BUDGET.to_owned();
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
}

impl<S: Source> IntoResponse for EventStream<S> {
    fn into_response(self) -> Response {
        let kind = HeaderValue::from_static("text/event-stream");
        let keep = HeaderValue::from_static("no-store");
        let held = Extension(pages::Held(Arc::clone(&self.place.share)));
        let beat = (HeaderName::from_static(HEARTBEAT_HEADER), HeaderValue::from(HEARTBEAT_PERIOD.as_secs()));
        let headers = [(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, keep), beat];
        (held, headers, Body::new(self)).into_response()
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
                Phase::Running | Phase::Hurrying => {
                    if self.phase == Phase::Running {
                        ready!(self.poll_turn(cx));
                    }
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

/// Ticks shortly after each multiple of the period, so that all streams of one rate wake together.
fn poll_timer(period: Duration) -> Interval {
    let period = period.clamp(POLL_PERIOD_MIN, POLL_PERIOD_MAX);
    let into = Nanos(clock::wall().0 % period.as_nanos() as u64);
    let start = Instant::now() + (period - Duration::from(into)) + POLL_AFTER_TICK;
    let mut timer = interval_at(start, period);
    timer.set_missed_tick_behavior(MissedTickBehavior::Skip);
    timer
}

#[cfg(test)]
impl Place {
    /// A place that belongs to no door, for tests.
    pub fn of_a_test() -> Self {
        let gauge = || Arc::new(std::sync::atomic::AtomicU64::new(0));
        let budget = khz_model::Budget::new(crate::limits::ANSWERS_BYTES, gauge());
        let share = budget.take(STREAM_BYTES).expect("there is room");
        let open = Held::new(&gauge());
        Place { counters: Counters::default(), share: Arc::new(share), _open: open, _of_reader: None }
    }
}
