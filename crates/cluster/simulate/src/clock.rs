//! The clocks: one that never jumps, the distance of the wall clock from it, and the CPU time of this
//! process.

use khz_model::Nanos;
use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec, clock_gettime};

fn read(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// CLOCK_BOOTTIME.
pub fn boot() -> Nanos {
    Nanos(read(ClockId::Boottime))
}

/// CLOCK_REALTIME minus CLOCK_BOOTTIME, ns.
pub fn real_offset() -> i64 {
    read(ClockId::Realtime).wrapping_sub(boot().0) as i64
}

/// CPU time of all threads.
pub fn cpu() -> Nanos {
    Nanos(read(ClockId::ProcessCPUTime))
}

/// Sleeps until this moment.
pub fn sleep_until(moment: Nanos) {
    let time =
        Timespec { tv_sec: (moment.0 / 1_000_000_000) as i64, tv_nsec: (moment.0 % 1_000_000_000) as i64 };
    // A signal may wake it early; the loop then checks the clock and sleeps again.
    let _ = clock_nanosleep_absolute(rustix::thread::ClockId::Boottime, &time);
}
