//! The two clocks of a row: CLOCK_BOOTTIME, which never jumps, and the offset of real time from it.

use khz_model::{Nanos, Stamp};
use rustix::time::{ClockId, clock_gettime};

/// Reads one clock, normally without a system call (vDSO).
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

/// If two readings of CLOCK_BOOTTIME are further apart than this, something interrupted the thread between
/// them.
const UNDISTURBED: Nanos = Nanos::from_micros(2);

/// Both clocks at one instant. An interruption between the two readings would falsify the offset, and with it
/// the grid of all ticks; so the clocks are read again.
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
