//! `khz hub --rrd DIR`: a thread that records the base lane of every node into .rrd files. It reads through the query
//! interface, like any reader. Rows that it cannot write stay in its log, and a warning says so.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use khz_model::{Delivery, Interest, Kind, Query, Row, Series, Subscription, ValueType};
use khz_rrdcached::recorder::{self, Reading, Recorder, Value};

use crate::config::rrd::Recording;
use crate::show::outcome::{Failure, sentence};

/// The time between two polls for rows.
const POLL_PERIOD: Duration = Duration::from_secs(1);

/// The running thread. When this is dropped, the recording ends, and all rows that came are on disk.
pub struct HubRecorder {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl HubRecorder {
    /// Opens the directory and starts.
    pub fn start(directory: &Path, recording: Recording, query: Arc<dyn Query>) -> Result<Self, Failure> {
        let mut settings =
            recorder::Settings { layout: recording.layout, ..recorder::Settings::new(directory) };
        // Readings wait for at most one step. While they wait they are in the log, which the next start reads.
        settings.limits.timeout = u32::try_from(settings.layout.step).unwrap_or(u32::MAX).clamp(10, 300);
        let files = Recorder::open(&settings)
            .map_err(|error| Failure::usage(format!("--rrd: {}", sentence(&error))))?;
        let interest = Interest { patterns: recording.patterns, rate: recording.every, exact: false };
        let stop = Arc::new(AtomicBool::new(false));
        let work = Work { files, query, interest, subscription: None, warned: String::new() };
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
    interest: Interest,
    subscription: Option<Box<dyn Subscription>>,
    /// The last warning: a disk that is full for an hour makes one line.
    warned: String,
}

impl Work {
    fn run(mut self, is_over: &AtomicBool) {
        while !is_over.load(Ordering::Relaxed) {
            // Before the first node reports, the patterns select nothing.
            if self.subscription.is_none() {
                self.subscription = self.query.subscribe(self.interest.clone()).ok();
            }
            let deliveries =
                self.subscription.as_mut().map(|subscription| subscription.poll()).unwrap_or_default();
            for delivery in deliveries {
                self.record(&delivery);
            }
            std::thread::park_timeout(POLL_PERIOD);
        }
    }

    fn record(&mut self, delivery: &Delivery) {
        let names: Vec<String> = delivery.columns.iter().map(ToString::to_string).collect();
        let node = delivery.node.as_str();
        for row in &delivery.rows {
            // A file of numbers has no place for labels.
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
            // After an outage rows come again that are older than the recorded ones. That is no problem.
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
    // A counter of another type is kept as a number that goes up and down: .rrd files count in whole steps.
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
