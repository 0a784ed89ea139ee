//! The hub's clocks: one that never jumps, for silence and ages, the wall clock, for people and offsets, and that of
//! its own work.

use khz_model::Nanos;
use rustix::time::{ClockId, clock_gettime};

/// CLOCK_BOOTTIME.
pub(crate) fn boot() -> Nanos {
    #[cfg(test)]
    if let Some(now) = played::NOW.get() {
        return now;
    }
    let time = clock_gettime(ClockId::Boottime);
    Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// CLOCK_REALTIME, ns since 1970.
pub(crate) fn wall() -> i64 {
    let time = clock_gettime(ClockId::Realtime);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// How long ago an instant since 1970 was; a clock that was set back makes it no less than nothing.
pub(crate) fn ago(at: i64) -> Nanos {
    Nanos(u64::try_from(wall().saturating_sub(at)).unwrap_or(0))
}

/// An instant of the boot clock as one since 1970.
pub(crate) fn at(boot: Nanos, now: Nanos) -> i64 {
    wall().saturating_sub(i64::try_from(now.since(boot).0).unwrap_or(i64::MAX))
}

/// CPU time of the whole process, ns.
pub(crate) fn process_cpu() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The time of a simulation, in its thread.
#[cfg(test)]
pub(crate) mod played {
    use std::cell::Cell;

    thread_local! {
        pub static NOW: Cell<Option<khz_model::Nanos>> = const { Cell::new(None) };
    }
}
