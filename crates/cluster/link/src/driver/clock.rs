//! The two clocks of the link: CLOCK_BOOTTIME for waiting and for rows, the wall clock for Beats.

use khz_model::Nanos;
use rustix::time::{ClockId, clock_gettime};

fn read(clock: ClockId) -> i64 {
    let time = clock_gettime(clock);
    time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec)
}

/// CLOCK_BOOTTIME.
pub(crate) fn now() -> Nanos {
    Nanos(read(ClockId::Boottime) as u64)
}

/// CLOCK_REALTIME, ns since 1970.
pub(crate) fn wall() -> i64 {
    read(ClockId::Realtime)
}
