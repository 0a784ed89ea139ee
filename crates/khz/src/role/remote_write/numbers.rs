//! What a sender counts, as series: each has the label `receiver`.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use khz_model::metric::{Kind, Unit};
use khz_model::{Instance, Metric, Series};
use khz_remote::write::Counts;

/// The counts of the receiver with this name.
pub fn of(receiver: &str, counts: &Counts) -> Vec<(Series, Arc<AtomicU64>)> {
    let instance = Some(Instance::from_kernel(receiver.as_bytes()));
    let all = [
        (
            Metric {
                help: "Samples that a receiver of remote write has accepted.".into(),
                ..counter("khz.remote_write.samples", "khz_remote_write_samples_total")
            },
            &counts.sent,
        ),
        (
            Metric {
                help: "Samples that a receiver of remote write has refused for good.".into(),
                ..counter("khz.remote_write.refused", "khz_remote_write_refused_total")
            },
            &counts.refused,
        ),
        (
            Metric {
                help: "Rows that came after later rows of their node were sent, and so were not sent.".into(),
                ..counter("khz.remote_write.rows_late", "khz_remote_write_rows_late_total")
            },
            &counts.late,
        ),
        (
            Metric {
                help: "Rows that the store has removed before they were sent, at most.".into(),
                ..counter("khz.remote_write.rows_removed", "khz_remote_write_rows_removed_total")
            },
            &counts.removed,
        ),
        (
            Metric {
                help: "Requests of remote write that had to be sent again.".into(),
                ..counter("khz.remote_write.retries", "khz_remote_write_retries_total")
            },
            &counts.retries,
        ),
        (
            Metric {
                help: "Samples of requests that a receiver has not answered yet.".into(),
                ..gauge("khz.remote_write.waiting", "khz_remote_write_waiting", Unit::Count)
            },
            &counts.waiting,
        ),
        (
            Metric {
                help: "Age of the oldest rows that wait to be sent.".into(),
                ..gauge("khz.remote_write.behind", "khz_remote_write_behind_seconds", Unit::Seconds)
            },
            &counts.behind,
        ),
    ];
    let series = |(metric, count): (Metric, &Arc<AtomicU64>)| {
        let metric = Arc::new(metric.of_instances("receiver"));
        (Series { metric, instance: instance.clone() }, count.clone())
    };
    all.into_iter().map(series).collect()
}

fn counter(name: &'static str, exposition: &'static str) -> Metric {
    Metric::plain(name, exposition, Kind::Counter, Unit::Count)
}

fn gauge(name: &'static str, exposition: &'static str, unit: Unit) -> Metric {
    Metric::plain(name, exposition, Kind::Gauge, unit)
}
