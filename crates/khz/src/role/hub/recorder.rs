//! `khz hub --rrd DIR`, and the sinks of channels: a thread that records the base lane of every node, or channels, into .rrd files.
//! It reads through the query interface, like any reader. Rows that it cannot write stay in its log, and a warning says so. If it
//! is slower than the rows come, the hub drops some of them. It counts these rows, and those that the hub itself never got. Once a
//! minute the log says how many of each.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use khz_channel::Registry;
use khz_model::metric::Unit;
use khz_model::{
    Delivery, Interest, Kind, Metric, Nanos, NodeName, Notice, Pattern, Query, Rate, Repeats, Row, RowNumber,
    Series, Subscription, ValueType,
};
use khz_rrdcached::recorder::{self, Layout, Reading, Recorder, Value};

use crate::show::outcome::{Failure, sentence};

/// The time between two polls for rows.
const POLL_PERIOD: Duration = Duration::from_secs(1);
/// After a longer round, missing rows may be lost because recording was slow. The hub's memory has room for many times as much.
const SLOW_ROUND: Duration = Duration::from_secs(3);

/// The running thread. When this is dropped, the recording ends, and all rows that came are on disk.
pub struct HubRecorder {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Rows that are not in .rrd files: the recorder did not fetch them in time, or the hub did not get them.
#[derive(Clone, Debug, Default)]
pub struct LostRows(Arc<AtomicU64>);

impl LostRows {
    /// The count, with its metric.
    pub fn metrics(&self) -> Vec<(Metric, Arc<AtomicU64>)> {
        let help = "Rows that are not in .rrd files (--rrd, sinks): recording was slower than they came, or the hub did not get them.";
        let metric =
            Metric::plain("khz.rrd.rows_lost", "khz_rrd_rows_lost_total", Kind::Counter, Unit::Count);
        vec![(Metric { help: help.into(), ..metric }, self.0.clone())]
    }
}

/// What a recorder records.
pub enum Wanted {
    /// These series, once in each such time.
    Series(Vec<Pattern>, Rate),
    /// The channels of this list that name this sink.
    Channels(Arc<Registry>, String),
}

impl Wanted {
    /// What the recorder subscribes to, and the revision of this list.
    fn interests(&self) -> (u64, Vec<Interest>) {
        match self {
            Wanted::Series(patterns, every) => (0, vec![Interest::new(patterns.clone(), *every, false)]),
            Wanted::Channels(channels, sink) => {
                // Read the revision first: a change in between is then seen the next time.
                let revision = channels.revision();
                let all = channels.list();
                let named = all.iter().filter(|kept| kept.definition.to.contains(sink));
                (revision, named.map(|kept| kept.interest.clone()).collect())
            }
        }
    }

    /// A node has said something of a channel.
    fn note(&self, channel: &str, notice: &Notice) {
        if let Wanted::Channels(channels, _) = self {
            channels.note(channel, notice);
        }
    }

    /// Grows when that changes.
    fn revision(&self) -> u64 {
        match self {
            Wanted::Series(..) => 0,
            Wanted::Channels(channels, _) => channels.revision(),
        }
    }
}

impl HubRecorder {
    /// Opens the directory and starts.
    pub fn start(
        directory: &Path,
        layout: Layout,
        wanted: Wanted,
        query: Arc<dyn Query>,
        lost: LostRows,
    ) -> Result<Self, Failure> {
        let mut settings = recorder::Settings { layout, ..recorder::Settings::new(directory) };
        // Readings wait for at most one step. While they wait they are in the log, which the next start reads.
        settings.limits.timeout = u32::try_from(settings.layout.step).unwrap_or(u32::MAX).clamp(10, 300);
        let files = Recorder::open(&settings)
            .map_err(|error| Failure::usage(format!("{}: {}", directory.display(), sentence(&error))))?;
        let stop = Arc::new(AtomicBool::new(false));
        let losses = Losses::new(lost);
        let feeds = Feeds { wanted, revision: None, all: Vec::new() };
        let work = Work { files, query, feeds, warned: String::new(), losses };
        let is_over = stop.clone();
        let thread = std::thread::Builder::new().name("record".into()).spawn(move || work.run(&is_over));
        let thread = thread.map_err(|error| Failure::work(format!("cannot start recording: {error}")))?;
        Ok(HubRecorder { stop, thread: Some(thread) })
    }
}

impl Drop for HubRecorder {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // If it panicked, the message was printed then.
            let _ = thread.join();
        }
    }
}

struct Work {
    files: Recorder,
    query: Arc<dyn Query>,
    feeds: Feeds,
    /// The last warning. A disk that is full for an hour causes one line.
    warned: String,
    losses: Losses,
}

/// What the recorder follows.
struct Feeds {
    wanted: Wanted,
    /// The revision of the list that it follows.
    revision: Option<u64>,
    all: Vec<Feed>,
}

/// One interest; `None`: nothing matches it so far, and it is tried again.
struct Feed {
    interest: Interest,
    subscription: Option<Box<dyn Subscription>>,
    /// The last rows by the definition before, if the channel was changed.
    places: Vec<(NodeName, RowNumber)>,
}

impl Feed {
    /// True if this is the channel of the interest, perhaps by another definition.
    fn is_of_same_channel(&self, interest: &Interest) -> bool {
        let name = |interest: &Interest| interest.channel.as_ref().map(|terms| terms.name.clone());
        name(&self.interest).is_some() && name(&self.interest) == name(interest)
    }

    /// The last row of each node.
    fn places(&self) -> Vec<(NodeName, RowNumber)> {
        self.subscription.as_ref().map_or_else(|| self.places.clone(), |subscription| subscription.places())
    }
}

impl Feeds {
    /// Follows the current list. Subscriptions that are no longer in it end.
    fn renew(&mut self) {
        if self.revision == Some(self.wanted.revision()) {
            return;
        }
        let (revision, interests) = self.wanted.interests();
        let mut before = std::mem::take(&mut self.all);
        for interest in interests {
            let known = before.iter().position(|feed| feed.interest == interest);
            let subscription = known.and_then(|at| before.swap_remove(at).subscription);
            let changed = before.iter().find(|feed| feed.is_of_same_channel(&interest));
            let places = changed.map(Feed::places).unwrap_or_default();
            self.all.push(Feed { interest, subscription, places });
        }
        self.revision = Some(revision);
    }

    /// Everything that has come.
    fn poll(&mut self, query: &dyn Query) -> Vec<Delivery> {
        let mut deliveries = Vec::new();
        for Feed { interest, subscription, places } in &mut self.all {
            // Before the first node reports, patterns select nothing.
            if subscription.is_none() {
                *subscription = query.subscribe_after(interest.clone(), places).ok();
            }
            let Some(subscription) = subscription else { continue };
            deliveries.extend(subscription.poll());
            if let Some(terms) = &interest.channel {
                let notices = subscription.notices();
                notices.iter().for_each(|notice| self.wanted.note(terms.name.as_str(), notice));
            }
        }
        deliveries
    }
}

/// Counts lost rows, and says once a minute how many there are.
struct Losses {
    lost: LostRows,
    /// Lost rows that were not logged yet: after slow rounds, and the others.
    slow: u64,
    elsewhere: u64,
    lines: Repeats,
}

impl Losses {
    fn new(lost: LostRows) -> Self {
        Losses { lost, slow: 0, elsewhere: 0, lines: Repeats::default() }
    }

    /// Counts lost rows; `round` is the time since the previous fetch. Returns what the log should say, if a line is due.
    fn add(&mut self, lost: u64, round: Duration, now: Nanos) -> Option<String> {
        self.lost.0.fetch_add(lost, Ordering::Relaxed);
        *(if round > SLOW_ROUND { &mut self.slow } else { &mut self.elsewhere }) += lost;
        if self.slow + self.elsewhere == 0 || self.lines.happened(now).is_none() {
            return None;
        }
        let (slow, elsewhere) = (std::mem::take(&mut self.slow), std::mem::take(&mut self.elsewhere));
        let sentences = [
            (
                slow,
                "recording is slower than they come; fewer series (--rrd-match, or the channels of sinks) or a faster disk help",
            ),
            (elsewhere, "this hub or their nodes were away, and the nodes had them no more"),
        ];
        let said = sentences.iter().filter(|(rows, _)| *rows > 0);
        let said = said.map(|(rows, why)| match rows {
            1 => format!("1 row is not in .rrd files: {why}"),
            rows => format!("{rows} rows are not in .rrd files: {why}"),
        });
        Some(said.collect::<Vec<_>>().join("; "))
    }
}

impl Work {
    fn run(mut self, is_over: &AtomicBool) {
        let start = Instant::now();
        let mut fetched = start;
        while !is_over.load(Ordering::Relaxed) {
            self.feeds.renew();
            let round = std::mem::replace(&mut fetched, Instant::now()).elapsed();
            let deliveries = self.feeds.poll(&*self.query);
            let lost = deliveries.iter().map(|delivery| delivery.lost).sum();
            for delivery in deliveries {
                self.record(&delivery);
            }
            if let Some(line) = self.losses.add(lost, round, Nanos(start.elapsed().as_nanos() as u64)) {
                tracing::warn!("{line}");
            }
            std::thread::park_timeout(POLL_PERIOD);
        }
    }

    fn record(&mut self, delivery: &Delivery) {
        let names: Vec<String> = delivery.columns.iter().map(ToString::to_string).collect();
        let node = delivery.node.as_str();
        for row in &delivery.rows {
            // An .rrd file has no place for labels.
            let is_number = |series: &Series| series.metric.value_type != ValueType::Labels;
            let readings: Vec<Reading<'_>> = (delivery.columns.iter().zip(&names).zip(&row.readings))
                .filter(|((series, _), _)| is_number(series))
                .map(|((series, name), reading)| Reading {
                    node,
                    series: name,
                    time: micros(row),
                    value: value(series, *reading),
                })
                .collect();
            let refused = self.files.record(&readings).into_iter().filter_map(Result::err);
            // After an outage, rows that are older than the recorded ones may come again. That is no problem.
            let problem = refused
                .map(|error| sentence(&error))
                .find(|text| !text.contains("illegal attempt to update"));
            if let Some(text) = problem.filter(|text| *text != self.warned) {
                tracing::warn!("recording {node}: {text}");
                self.warned = text;
            }
        }
    }
}

/// The node's wall clock at a row, in microseconds since 1970.
fn micros(row: &Row) -> i64 {
    let nanos = i128::from(row.stamp.boot.0) + i128::from(row.stamp.real_offset);
    i64::try_from(nanos / 1_000).unwrap_or(i64::MAX)
}

/// A counter in its smallest steps; a gauge in its unit.
fn value(series: &Series, reading: khz_model::Reading) -> Value {
    let format = series.metric.format();
    // A counter of another type is recorded as a gauge, since .rrd files count in whole steps.
    let is_counter = series.metric.kind == Kind::Counter && format.value_type == ValueType::Unsigned;
    match (is_counter, reading.value()) {
        (true, Some(count)) => Value::Counter(count),
        (true, None) => Value::Unknown(recorder::Kind::Counter),
        (false, value) => match value.and_then(|bits| format.number(bits)) {
            Some(number) => Value::Gauge(number.to_f64()),
            None => Value::Unknown(recorder::Kind::Gauge),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_the_recorder_did_not_get_are_counted_and_said_once_a_minute() {
        let lost = LostRows::default();
        let mut losses = Losses::new(lost.clone());
        let mut said = |rows, round, seconds| {
            losses.add(rows, Duration::from_secs(round), Nanos::from_secs(seconds)).unwrap_or_default()
        };
        assert_eq!(said(0, 1, 1), "");
        assert!(said(3, 20, 2).starts_with("3 rows are not in .rrd files: recording is slower"));
        assert_eq!((said(4, 20, 3), said(0, 1, 4)), (String::new(), String::new()));
        // Those that never came to the hub are no fault of the disk.
        let text = said(1, 1, 62);
        assert!(
            text.starts_with("4 rows are not in .rrd files: recording is slower"),
            "what came since: {text}"
        );
        assert!(text.contains("; 1 row is not in .rrd files: this hub or their nodes were away"), "{text}");
        assert_eq!(said(0, 1, 200), "");
        let text = said(5, 1, 201);
        assert!(
            text.starts_with("5 rows are not in .rrd files: this hub or their nodes were away"),
            "{text}"
        );
        let [(metric, count)] = &lost.metrics()[..] else { panic!("one number") };
        assert_eq!((&*metric.name, count.load(Ordering::Relaxed)), ("khz.rrd.rows_lost", 13));
    }

    #[test]
    fn a_gauge_is_recorded_in_its_unit_a_counter_in_its_steps_and_unknown_as_unknown() {
        let series = |name: &str| {
            let metrics = khz_parse::files().iter().flat_map(|file| file.metrics());
            let metric =
                metrics.into_iter().find(|metric| metric.name == name).expect("a metric of the catalogue");
            Series { metric, instance: None }
        };
        let recorded = |name: &str, reading| value(&series(name), reading);
        let present = khz_model::Reading::Present;
        assert_eq!(series("load.1m").metric.places, 2);
        assert_eq!(recorded("load.1m", present(52)), Value::Gauge(0.52));
        assert_eq!(recorded("mem.free", present(4_096)), Value::Gauge(4_096.0));
        assert_eq!(recorded("kernel.context_switches", present(u64::MAX)), Value::Counter(u64::MAX));
        let absent = khz_model::Reading::Absent(khz_model::Absence::NotYet);
        assert_eq!(recorded("load.1m", absent), Value::Unknown(recorder::Kind::Gauge));
        assert_eq!(recorded("kernel.context_switches", absent), Value::Unknown(recorder::Kind::Counter));
    }
}
