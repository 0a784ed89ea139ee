//! What the door counts about itself, and the catalogue entries of these numbers, so that whoever gathers the
//! agent's own numbers can publish them like every metric. It refuses to publish anything itself.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use khz_model::metric::Text;
use khz_model::{Exposition, Kind, Metric, Origin, Refresh, Unit};

macro_rules! counters {
    ($($field:ident: $kind:ident, $help:literal;)*) => {
        /// Counts of one door; clones share the same numbers. All are plain counts of things.
        #[derive(Clone, Debug, Default)]
        pub struct Counters {
            $(#[doc = $help] pub $field: Arc<AtomicU64>,)*
        }

        impl Counters {
            /// The catalogue entry of every count beside the count: `khz.http.<field>`, exposed as
            /// `khz_http_<field>` (with `_total` for counters).
            pub fn metrics(&self) -> Vec<(Metric, Arc<AtomicU64>)> {
                vec![$((entry(stringify!($field), Kind::$kind, $help), Arc::clone(&self.$field)),)*]
            }
        }
    };
}

counters! {
    connections: Counter, "Connections that the HTTP door accepted.";
    connections_open: Gauge, "Connections that are open at the HTTP door now.";
    connections_refused: Counter, "Connections closed at once because the limit was reached and none was idle.";
    connections_evicted: Counter, "Idle connections closed to make place for a new one.";
    connections_expired: Counter, "Connections closed because a request head or a reader was too slow.";
    handshakes_failed: Counter, "Connections that did not come in: TLS failed, or plain text where TLS is spoken.";
    requests: Counter, "Requests that the HTTP door answered, refused ones included.";
    requests_refused: Counter, "Requests refused for Host, Origin, method, size or form.";
    streams_open: Gauge, "Streams that are open at the HTTP door now.";
    stream_rows: Counter, "Rows sent on streams.";
    stream_rows_lost: Counter, "Rows that were overwritten before a stream fetched them.";
    stream_events: Counter, "Events with rows sent on streams.";
    streams_dropped_slow: Counter, "Streams dropped because their reader did not keep up.";
}

/// Adds one.
pub(crate) fn count(counter: &AtomicU64) {
    count_n(counter, 1);
}

/// Adds `n`.
pub(crate) fn count_n(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}

/// A gauge that is one higher for as long as this lives.
#[derive(Debug)]
pub(crate) struct Held(Arc<AtomicU64>);

impl Held {
    pub(crate) fn new(gauge: &Arc<AtomicU64>) -> Self {
        count(gauge);
        Held(Arc::clone(gauge))
    }

    /// The same, unless the gauge already stands at `limit`.
    pub(crate) fn below(gauge: &Arc<AtomicU64>, limit: usize) -> Option<Self> {
        let raise = |n: u64| (n < limit as u64).then_some(n + 1);
        gauge.fetch_update(Ordering::Relaxed, Ordering::Relaxed, raise).ok()?;
        Some(Held(Arc::clone(gauge)))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn entry(field: &str, kind: Kind, help: &'static str) -> Metric {
    let total = if kind == Kind::Counter { "_total" } else { "" };
    Metric {
        name: Text::from(format!("khz.http.{field}")),
        kind,
        unit: Unit::Count,
        places: 0,
        max: None,
        refresh: Refresh::Event,
        help: Cow::Borrowed(help),
        origin: Origin { file: Cow::Borrowed("khz"), field: Text::from(format!("http {field}")) },
        instances: None,
        exposition: Exposition {
            help: None,
            name: Text::from(format!("khz_http_{field}{total}")),
            labels: Cow::Borrowed(&[]),
            instance_label: None,
            divisor: 1,
            untyped: false,
        },
        flat: Text::from(format!("khzhttp{}", field.replace('_', ""))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_seen_through_its_catalogue_entry() {
        let counters = Counters::default();
        count_n(&counters.stream_rows, 7);
        let metrics = counters.metrics();
        let (metric, value) = metrics.iter().find(|(m, _)| m.name == "khz.http.stream_rows").unwrap();
        assert_eq!(metric.exposition.name, "khz_http_stream_rows_total");
        assert_eq!(value.load(Ordering::Relaxed), 7);
        for (metric, _) in &metrics {
            assert!(khz_model::name::is_metric_name(&metric.name), "{}", metric.name);
        }
    }

    #[test]
    fn a_held_gauge_falls_when_its_holder_goes_and_never_passes_its_limit() {
        let gauge = Arc::new(AtomicU64::new(0));
        let first = Held::below(&gauge, 1);
        assert!(first.is_some() && Held::below(&gauge, 1).is_none());
        drop(first);
        assert_eq!(gauge.load(Ordering::Relaxed), 0);
    }
}
