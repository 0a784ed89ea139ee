//! The hub's clocks: the boot clock, which never jumps, for silence and ages; the wall clock for people and offsets;
//! the CPU clock for the hub's own work.

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
    #[cfg(test)]
    if let Some(now) = played::NOW.get() {
        return now.0 as i64;
    }
    let time = clock_gettime(ClockId::Realtime);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// How long ago an instant since 1970 was; 0 if it is in the future, because the clock was set back.
pub(crate) fn ago(at: i64) -> Nanos {
    Nanos(u64::try_from(wall().saturating_sub(at)).unwrap_or(0))
}

/// The time at which something of this age happened, in ns since 1970.
pub(crate) fn before(age: Nanos) -> i64 {
    wall().saturating_sub(i64::try_from(age.0).unwrap_or(i64::MAX))
}

/// An instant of the boot clock, in ns since 1970.
pub(crate) fn at(boot: Nanos, now: Nanos) -> i64 {
    before(now.since(boot))
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

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    use super::*;

    /// What the kernel's clock says, in nanoseconds.
    fn kernel(clock: ClockId) -> u128 {
        let time = clock_gettime(clock);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32).as_nanos()
    }

    #[test]
    fn each_clock_is_the_kernels_in_nanoseconds() {
        let clocks: [(ClockId, fn() -> u128); 2] =
            [(ClockId::Boottime, || boot().0.into()), (ClockId::ProcessCPUTime, || process_cpu().into())];
        for (clock, ours) in clocks {
            let (before, now, after) = (kernel(clock), ours(), kernel(clock));
            assert!((before..=after).contains(&now), "{now} is not in {before}..={after}");
        }
        // The wall clock may be set meanwhile, but not by years.
        let real = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970").as_nanos() as i64;
        assert!(wall().abs_diff(real) < 3_600 * 1_000_000_000);
    }

    #[test]
    fn an_instant_is_as_long_ago_on_both_clocks_and_the_future_is_now() {
        let hour = 3_600 * 1_000_000_000;
        let (now, then) = (Nanos(10 * hour), Nanos(7 * hour));
        let ago = ago(at(then, now)).0;
        assert!(ago.abs_diff(3 * hour) < hour, "{ago} ns ago");
        assert!(at(now, then).abs_diff(wall()) < hour, "what is later than now is now");
        assert_eq!(super::ago(i64::MAX), Nanos(0));
    }
}
