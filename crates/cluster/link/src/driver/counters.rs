//! What the link counts of itself, each number beside its catalogue entry.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use khz_model::{Kind, Metric, Unit};

use crate::beats::Pair;

/// A gauge with this value is not known.
pub const UNKNOWN: u64 = u64::MAX;

macro_rules! counters {
    ($($field:ident: $kind:ident $unit:ident, $help:literal;)*) => {
        /// Numbers of one link; clones share them. A gauge that is not known is [`UNKNOWN`]. Times are nanoseconds.
        #[derive(Clone, Debug)]
        pub struct Counters {
            $(#[doc = $help] pub $field: Arc<AtomicU64>,)*
        }

        impl Default for Counters {
            fn default() -> Self {
                Counters { $($field: Arc::new(AtomicU64::new(first(Kind::$kind))),)* }
            }
        }

        impl Counters {
            /// The catalogue entry of every number beside the number: `khz.link.<field>`.
            pub fn metrics(&self) -> Vec<(Metric, Arc<AtomicU64>)> {
                vec![$((
                    entry(stringify!($field), Kind::$kind, Unit::$unit, $help),
                    Arc::clone(&self.$field),
                ),)*]
            }
        }
    };
}

counters! {
    rows: Counter Count, "Rows of complete blocks that were sent to hubs.";
    rows_lost: Counter Count, "Rows that the rings had given up before a hub had them.";
    rows_backlog: Gauge Count, "Rows of complete blocks that the hub does not have yet.";
    bytes_sent: Counter Bytes, "Bytes sent to hubs, before encryption.";
    bytes_received: Counter Bytes, "Bytes received from hubs, after decryption.";
    sends: Counter Count, "Writes to the hub's connection.";
    connects: Counter Count, "Hubs that have welcomed this node.";
    failures: Counter Count, "Connections to hubs that failed or ended.";
    refusals: Counter Count, "Hubs that have refused this node.";
    hub: Gauge Count, "Which hub of the list is in use, from 1.";
    round_trip: Gauge Seconds, "Shortest recent way to the hub and back.";
    clock_behind: Gauge Seconds, "How far the hub's clock is ahead of this node's; 0 when it is not.";
    clock_ahead: Gauge Seconds, "How far this node's clock is ahead of the hub's; 0 when it is not.";
    retransmits: Gauge Count, "TCP segments sent again on the present connection.";
}

const fn first(kind: Kind) -> u64 {
    match kind {
        Kind::Counter => 0,
        Kind::Gauge => UNKNOWN,
    }
}

/// Adds.
pub(crate) fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}

/// Sets a gauge.
pub(crate) fn set(gauge: &AtomicU64, value: Option<u64>) {
    gauge.store(value.unwrap_or(UNKNOWN), Ordering::Relaxed);
}

impl Counters {
    /// There is no connection: the numbers that only a connection has are not known.
    pub(crate) fn forget(&self) {
        let gauges = [&self.hub, &self.round_trip, &self.clock_behind, &self.clock_ahead, &self.retransmits];
        gauges.iter().for_each(|gauge| set(gauge, None));
        set(&self.rows_backlog, None);
    }

    /// The shortest recent round trip, and the clock offset from it.
    pub(crate) fn set_pair(&self, pair: Option<Pair>) {
        set(&self.round_trip, pair.map(|pair| pair.round_trip.0));
        set(&self.clock_behind, pair.map(|pair| pair.offset.max(0) as u64));
        set(&self.clock_ahead, pair.map(|pair| pair.offset.min(0).unsigned_abs()));
    }
}

fn entry(field: &str, kind: Kind, unit: Unit, help: &'static str) -> Metric {
    let seconds = matches!(unit, Unit::Seconds);
    let total = if kind == Kind::Counter { "_total" } else { "" };
    let word = if seconds { "_seconds" } else { "" };
    let places = if seconds { 9 } else { 0 };
    let (name, exposed) = (format!("khz.link.{field}"), format!("khz_link_{field}{word}{total}"));
    Metric { places, help: Cow::Borrowed(help), ..Metric::plain(name, exposed, kind, unit) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_measured_is_unknown_and_what_was_counted_is_not() {
        let counters = Counters::default();
        for (metric, value) in counters.metrics() {
            assert!(khz_model::name::is_metric_name(&metric.name), "{}", metric.name);
            let value = value.load(Ordering::Relaxed);
            assert_eq!(value, if metric.kind == Kind::Counter { 0 } else { UNKNOWN }, "{}", metric.name);
        }
        set(&counters.hub, Some(1));
        counters.forget();
        assert_eq!(counters.hub.load(Ordering::Relaxed), UNKNOWN);
    }
}
