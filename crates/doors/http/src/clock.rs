//! The time on this machine's wall clock, as requests and answers need it. It measures no durations: the clock may be set.

use std::time::{SystemTime, UNIX_EPOCH};

use khz_model::Nanos;

/// Nanoseconds since 1970.
pub(crate) fn wall() -> Nanos {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Nanos(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX))
}

/// Milliseconds since 1970, as Prometheus' interface has times.
pub(crate) fn wall_milliseconds() -> i64 {
    milliseconds(wall())
}

/// A time in whole milliseconds.
pub(crate) fn milliseconds(time: Nanos) -> i64 {
    i64::try_from(time.0 / 1_000_000).unwrap_or(i64::MAX)
}
