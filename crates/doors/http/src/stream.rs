//! `/khz/v1/stream`: one subscription as server-sent events. A timer empties it at most sixty times a second
//! at any rate; no work is done for a single row, unless the subscription rings for it. A reader for whom too many readings wait is dropped.

use std::collections::VecDeque;
use std::sync::Arc;

use axum::Extension;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use khz_door::{Caller, Connection};
use khz_model::{Bell, Delivery, Interest, NodeName, Rate, Reading, Row, RowNumber, Subscription};

use crate::channel_rows;
use crate::counters::{Counters, count, count_n};
use crate::encoder::{Encoder, Pushed, notices};
use crate::event_stream::{Due, EventStream, Source, place};
use crate::limits::EVENT_BYTES;
use crate::misses;
use crate::params::Params;
use crate::prometheus::line::Client;
use crate::refusal::Refusal;
use crate::routes::App;
use crate::tallies;
use crate::turns::Queue;

/// Parameters of `/khz/v1/stream`.
pub(crate) const STREAM_PARAMS: &[&str] = &[
    "match", "rate", "exact", "changes", "nodes", "expr", "each", "when", "for", "unless", "at_least", "of",
    "once", "quiet", "every", "deadband", "slower", "before", "after",
];

/// `GET /khz/v1/stream`
pub(crate) async fn stream(
    State(app): State<Arc<App>>,
    Extension(connection): Extension<Arc<Connection>>,
    Extension(caller): Extension<Caller>,
    Extension(client): Extension<Client>,
    request: Request,
) -> Result<Response, Refusal> {
    let params = Params::parse(request.uri().query(), STREAM_PARAMS)?;
    let interest = interest(&params, &app)?;
    caller.check_rate(interest.rate)?;
    let changes = params.switch("changes")?;
    let open = place(&app, &caller, client)?;
    let patterns = interest.patterns.clone();
    app.turns.next(Queue::Answers).await;
    let subscription = app.query.subscribe(interest);
    let subscription = subscription.map_err(|error| misses::refusal(&*app.query, &patterns, error))?;
    connection.set_streaming();
    let rate = subscription.rate();
    let rows = Rows::new(subscription, changes, app.limits.backlog_readings, app.counters.clone());
    let rows = rows.beginning_with(misses::event(&misses::of(&*app.query, &patterns)));
    Ok(EventStream::new(rows, rate, app.closing.clone(), open).into_response())
}

fn interest(params: &Params, app: &App) -> Result<Interest, Refusal> {
    if let Some(interest) = channel_rows::nameless(params, app)? {
        return Ok(interest);
    }
    let once_a_second = Rate::from_hz(1).ok_or_else(|| Refusal::bad_request("a rate is missing"))?;
    Ok(Interest::new(params.patterns()?, params.rate("rate", once_a_second)?, params.switch("exact")?))
}

/// The rows of a subscription.
pub(crate) struct Rows {
    /// Text to send before the rows.
    first: String,
    subscription: Box<dyn Subscription>,
    encoder: Encoder,
    /// Fetched deliveries that are not encoded yet, and how many rows of the first one are already encoded.
    waiting: VecDeque<Delivery>,
    encoded: usize,
    backlog_readings: usize,
    counters: Counters,
    /// Counts what was sent of a channel.
    tally: Option<tallies::Reader>,
}

impl Rows {
    /// The rows of `subscription`. With `changes`, only the first row after each `columns` is sent whole.
    pub fn new(
        subscription: Box<dyn Subscription>,
        changes: bool,
        backlog_readings: usize,
        counters: Counters,
    ) -> Self {
        let encoder = Encoder::new(subscription.rate(), changes);
        let waiting = VecDeque::new();
        let first = String::new();
        Rows { first, subscription, encoder, waiting, encoded: 0, backlog_readings, counters, tally: None }
    }

    /// The same, after this text.
    pub fn beginning_with(self, first: String) -> Self {
        Rows { first: first + &self.first, ..self }
    }

    /// The same, counted.
    pub fn tallied_by(self, reader: tallies::Reader) -> Self {
        Rows { tally: Some(reader), ..self }
    }

    fn count(&self, pushed: Pushed) {
        count(&self.counters.stream_events);
        count_n(&self.counters.stream_rows, pushed.rows as u64);
        count_n(&self.counters.stream_rows_lost, pushed.lost);
    }

    /// The last row of each node that was fetched.
    pub fn places(&self) -> Vec<(NodeName, RowNumber)> {
        self.subscription.places()
    }

    /// The events of all rows that were fetched, for a reader that goes on with another subscription.
    pub fn rest(&mut self) -> String {
        let mut events = std::mem::take(&mut self.first);
        self.encode(&mut events, usize::MAX);
        events
    }

    /// Encodes waiting rows until there are this many bytes; `true`: there are more.
    fn encode(&mut self, events: &mut String, bytes: usize) -> bool {
        while let Some(delivery) = self.waiting.front() {
            if events.len() >= bytes {
                return true;
            }
            let before = events.len();
            let pushed = self.encoder.push(delivery, self.encoded, events);
            self.encoded += pushed.rows;
            if let Some(reader) = &self.tally {
                reader.took(delivery, pushed, events.len() - before);
            }
            if self.encoded == delivery.rows.len() {
                self.waiting.pop_front();
                self.encoded = 0;
            }
            if pushed.rows > 0 || pushed.lost > 0 {
                self.count(pushed);
            }
        }
        false
    }

    /// The last event of a reader that did not keep up.
    fn drop_slow(&self, waiting: usize) -> Due {
        count(&self.counters.streams_dropped_slow);
        Due::Last(format!(
            "event: dropped\ndata: {{\"error\":\"this reader fell behind: {waiting} readings were waiting, the limit is {}; ask for fewer series or a lower rate\"}}\n\n",
            self.backlog_readings
        ))
    }
}

impl Source for Rows {
    fn due(&mut self) -> Due {
        let mut events = std::mem::take(&mut self.first);
        if self.waiting.is_empty() {
            // More need not be fetched: this is already too much.
            let deliveries = self.subscription.poll_some(self.backlog_readings);
            let waiting: usize = deliveries.iter().flat_map(|d| &d.rows).map(|row| row.readings.len()).sum();
            if waiting > self.backlog_readings {
                return self.drop_slow(waiting);
            }
            let news = self.subscription.notices();
            if let Some(reader) = &self.tally {
                reader.noted(&news);
            }
            notices(&news, &mut events);
            self.waiting = deliveries.into();
        }
        if self.encode(&mut events, EVENT_BYTES) { Due::More(events) } else { Due::Events(events) }
    }

    fn held(&self) -> u64 {
        let rows = |delivery: &Delivery| {
            let readings = delivery.rows.iter().map(|row| row.readings.capacity() * size_of::<Reading>());
            readings.sum::<usize>() + delivery.rows.capacity() * size_of::<Row>() + size_of::<Delivery>()
        };
        self.encoder.held() + self.waiting.iter().map(rows).sum::<usize>() as u64
    }

    fn ring(&mut self, bell: Bell) -> bool {
        self.subscription.ring(&bell)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event_stream::{HEARTBEAT, OPENING, Place};
    use http_body::Body as _;
    use khz_model::{Nanos, NodeName, Stamp};
    use std::future::poll_fn;
    use std::pin::Pin;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;
    use tokio::sync::watch;
    use tokio::time::Instant;

    /// Rows at their rate, on tokio's own clock, which the test stops and moves.
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
                vec![Delivery { node, columns: Arc::default(), rows, lost: 0, rate: None, last: None }]
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
        let rows = Rows::new(subscription, false, 1 << 20, counters.clone());
        let mut rows = EventStream::new(rows, rate, closing, Place::of_a_test());
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

    /// Rows that ring: the test puts them in.
    #[derive(Clone, Default)]
    struct Belled(Arc<Mutex<Puts>>);

    #[derive(Default)]
    struct Puts {
        rows: u64,
        taken: u64,
        polls: u64,
        bell: Option<Bell>,
    }

    impl Belled {
        fn put(&self) {
            let mut puts = self.0.lock().unwrap();
            puts.rows += 1;
            puts.bell.as_ref().unwrap()();
        }

        fn stream(&self, hz: u64) -> (EventStream<Rows>, watch::Sender<bool>) {
            let (close, closing) = watch::channel(false);
            let rows = Rows::new(Box::new(self.clone()), false, 1 << 20, Counters::default());
            (EventStream::new(rows, Rate::from_hz(hz).unwrap(), closing, Place::of_a_test()), close)
        }
    }

    impl Subscription for Belled {
        fn poll(&mut self) -> Vec<Delivery> {
            let mut puts = self.0.lock().unwrap();
            puts.polls += 1;
            let new = puts.taken..puts.rows;
            puts.taken = puts.rows;
            let row = |n| Row { stamp: Stamp { boot: Nanos(n), real_offset: 0 }, readings: vec![] };
            let rows: Vec<Row> = new.map(row).collect();
            let node = NodeName::new("n1").unwrap();
            let delivery = Delivery { node, columns: Arc::default(), rows, lost: 0, rate: None, last: None };
            Some(delivery).filter(|delivery| !delivery.rows.is_empty()).into_iter().collect()
        }

        fn rate(&self) -> Rate {
            Rate::from_hz(1).unwrap()
        }

        fn ring(&mut self, bell: &Bell) -> bool {
            self.0.lock().unwrap().bell = Some(bell.clone());
            true
        }
    }

    /// The next frame with rows: how many.
    async fn rows_of(stream: &mut EventStream<Rows>) -> usize {
        loop {
            let frame = poll_fn(|cx| Pin::new(&mut *stream).poll_frame(cx)).await.unwrap().unwrap();
            let text = String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap();
            if let rows @ 1.. = text.matches("\"t\":").count() {
                return rows;
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_row_that_rings_comes_at_once_and_those_of_one_moment_together() {
        let source = Belled::default();
        let (mut stream, _open) = source.stream(1);
        for n in 0..40 {
            // Anywhere between the ticks.
            let (begun, wait) = (Instant::now(), Duration::from_millis(100 + 37 * n));
            let put = async {
                tokio::time::sleep(wait).await;
                source.put();
            };
            let ((), rows) = tokio::join!(put, rows_of(&mut stream));
            assert_eq!(rows, 1);
            let late = begun.elapsed() - wait;
            assert!(late < Duration::from_millis(20), "row {n} came {late:?} later");
        }
        (0..3).for_each(|_| source.put());
        assert_eq!(rows_of(&mut stream).await, 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_thousand_rings_a_second_make_sixty_events_and_silence_at_any_rate_four_polls() {
        let source = Belled::default();
        let (mut stream, _open) = source.stream(1_000);
        let polls = || source.0.lock().unwrap().polls;
        let puts = async {
            for _ in 0..10_000 {
                tokio::time::sleep(Duration::from_millis(1)).await;
                source.put();
            }
        };
        let takes = async {
            let mut rows = 0;
            while rows < 10_000 {
                rows += rows_of(&mut stream).await;
            }
            polls()
        };
        let ((), looked) = tokio::join!(puts, takes);
        assert!((300..=620).contains(&looked), "{looked} polls for 10,000 rows in 10 s");
        let ten_seconds = tokio::time::timeout(Duration::from_secs(10), rows_of(&mut stream)).await;
        assert!(ten_seconds.is_err(), "no row comes");
        assert!((38..=43).contains(&(polls() - looked)), "{} polls in 10 s of silence", polls() - looked);
    }

    #[tokio::test(start_paused = true)]
    async fn silence_is_broken_by_a_comment_every_second() {
        let counters = Counters::default();
        let rate = Rate::from_period(Nanos::from_secs(86_400)).unwrap();
        let subscription = Box::new(Paced { rate, from: Instant::now(), next: 0 });
        let (_close, closing) = watch::channel(false);
        let rows = Rows::new(subscription, false, 1 << 20, counters);
        let mut rows = EventStream::new(rows, rate, closing, Place::of_a_test());
        let mut next = async || poll_fn(|cx| Pin::new(&mut rows).poll_frame(cx)).await.unwrap().unwrap();
        assert_eq!(next().await.into_data().unwrap(), OPENING);
        let opened = Instant::now();
        for n in 1..=4 {
            assert_eq!(next().await.into_data().unwrap(), HEARTBEAT);
            let after = opened.elapsed().as_secs_f64() / f64::from(n);
            assert!((1.0..1.3).contains(&after), "{after}");
        }
    }
}
