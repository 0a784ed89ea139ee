//! The hub's clocks: one that never jumps, for silence and ages, the wall clock, for people and offsets, and that of
//! its own work.

use khz_model::Nanos;
use rustix::time::{ClockId, clock_gettime};

/// CLOCK_BOOTTIME.
pub(crate) fn boot() -> Nanos {
    let time = clock_gettime(ClockId::Boottime);
    Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// CLOCK_REALTIME, ns since 1970.
pub(crate) fn wall() -> i64 {
    let time = clock_gettime(ClockId::Realtime);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// CPU time of the whole process, ns.
pub(crate) fn process_cpu() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
