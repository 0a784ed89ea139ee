//! The ways to people as a daemon has them: opened as the plan says, and what they count, as series.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use khz_model::metric::{Kind, Unit};
use khz_model::{Instance, Metric, Series};
use khz_notify::{Counts, Notifier};

use crate::config::Plan;
use crate::role::state_dir;
use crate::show::outcome::{Failure, sentence};

/// Opens the ways of the plan; `None`: it has none. What people were told is kept in the state directory.
pub fn open(plan: &Plan) -> Result<Option<Notifier>, Failure> {
    if plan.notify.ways() == 0 {
        return Ok(None);
    }
    let state = state_dir::find(plan, "after a restart, people will be told again what they know");
    let notifier = Notifier::new(&plan.notify, state.as_deref());
    notifier.map(Some).map_err(|error| Failure::usage(sentence(&error)))
}

/// What each way counts.
pub fn counts(notifier: &Notifier) -> Vec<(Series, Arc<AtomicU64>)> {
    notifier.ways().iter().flat_map(|way| of(&way.name, &way.counts)).collect()
}

/// What ways count, for the page of metrics.
#[cfg(test)]
pub fn example() -> Vec<(Series, Arc<AtomicU64>)> {
    of("alertmanager-9093", &Counts::default())
}

/// The counts of the way with this name.
fn of(way: &str, counts: &Counts) -> Vec<(Series, Arc<AtomicU64>)> {
    let instance = Some(Instance::from_kernel(way.as_bytes()));
    let all = [
        counter(
            ("khz.notify.sent", "khz_notify_sent_total"),
            "Alerts that a way to people has taken; one that is resent counts each time.",
            &counts.sent,
        ),
        counter(
            ("khz.notify.requests", "khz_notify_requests_total"),
            "Requests or messages that a way to people has taken.",
            &counts.requests,
        ),
        counter(
            ("khz.notify.failed", "khz_notify_failed_total"),
            "Requests or messages that failed and are sent again.",
            &counts.failed,
        ),
        counter(
            ("khz.notify.refused", "khz_notify_refused_total"),
            "Requests or messages that a way to people has refused for good, and addresses without a message that others got.",
            &counts.refused,
        ),
        counter(
            ("khz.notify.dropped", "khz_notify_dropped_total"),
            "Alerts that were dropped because a way holds too many, or because one is too large.",
            &counts.dropped,
        ),
        gauge(
            ("khz.notify.waiting", "khz_notify_waiting", Unit::Count),
            "Alerts whose state the other side does not know yet.",
            &counts.waiting,
        ),
        latency(&counts.latency),
    ];
    let series = |(metric, count): (Metric, &Arc<AtomicU64>)| {
        let metric = Arc::new(metric.of_instances("way"));
        (Series { metric, instance: instance.clone() }, count.clone())
    };
    all.into_iter().map(series).collect()
}

fn counter<'a>(
    (name, exposition): (&'static str, &'static str),
    help: &'static str,
    count: &'a Arc<AtomicU64>,
) -> (Metric, &'a Arc<AtomicU64>) {
    let plain = Metric::plain(name, exposition, Kind::Counter, Unit::Count);
    (Metric { help: help.into(), ..plain }, count)
}

fn gauge<'a>(
    (name, exposition, unit): (&'static str, &'static str, Unit),
    help: &'static str,
    count: &'a Arc<AtomicU64>,
) -> (Metric, &'a Arc<AtomicU64>) {
    (Metric { help: help.into(), ..Metric::plain(name, exposition, Kind::Gauge, unit) }, count)
}

fn latency(count: &Arc<AtomicU64>) -> (Metric, &Arc<AtomicU64>) {
    let names = ("khz.notify.latency", "khz_notify_latency_seconds", Unit::Seconds);
    let (metric, count) = gauge(names, "How long the last request or message took.", count);
    // It is counted in nanoseconds.
    (Metric { places: 9, ..metric }, count)
}
