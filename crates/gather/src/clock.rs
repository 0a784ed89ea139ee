//! The two clocks of a row: CLOCK_BOOTTIME, which never jumps, and how far real time stands from it.

use khz_model::{Nanos, Stamp};
use rustix::time::{ClockId, clock_gettime};

/// Reads one clock; the kernel gives both without a system call.
#[inline]
fn nanos(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// CLOCK_BOOTTIME.
#[inline]
pub(crate) fn boot() -> Nanos {
    Nanos(nanos(ClockId::Boottime))
}

/// Two readings of CLOCK_BOOTTIME further apart than this had an interruption between them.
const UNDISTURBED: Nanos = Nanos::from_micros(2);

/// Both clocks at one instant. When something came between the two readings their difference would be wrong,
/// and with it the grid of all ticks: then they are read again.
#[inline]
pub(crate) fn stamp() -> Stamp {
    let mut boot = nanos(ClockId::Boottime);
    let mut offset = 0;
    for _ in 0..4 {
        let real = nanos(ClockId::Realtime);
        let after = nanos(ClockId::Boottime);
        offset = real.wrapping_sub(boot) as i64;
        if after - boot <= UNDISTURBED.0 {
            break;
        }
        boot = after;
    }
    Stamp { boot: Nanos(boot), real_offset: offset }
}

/// CPU time of the calling thread.
pub(crate) fn thread_cpu() -> Nanos {
    Nanos(nanos(ClockId::ThreadCPUTime))
}

/// CPU time of the whole process.
pub(crate) fn process_cpu() -> Nanos {
    Nanos(nanos(ClockId::ProcessCPUTime))
}
