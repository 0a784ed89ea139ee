//! Detects whether this process stood still, alone or with its machine. Rows that nodes sent meanwhile are then still on their way,
//! and rules must wait for them. A thread that works for long, or waits for a CPU, did not stand still.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use super::clock::wall;

/// After a pause of at least this, the hub waits for rows: series end after 5 s without a row, and the last one may be a second
/// older than the pause.
const HALT: Duration = Duration::from_secs(3);

/// The thread that judges, as it sleeps and works.
pub(super) struct Pulse {
    last: Beat,
    /// How long the thread has slept since then, as intended.
    slept: Duration,
}

/// A moment by three clocks.
#[derive(Clone, Copy, Debug)]
struct Beat {
    at: Instant,
    /// The wall clock (ms since 1970), the only one that runs while the machine sleeps.
    wall: i64,
    /// The CPU time that this thread has used.
    worked: Duration,
}

impl Pulse {
    /// This thread judges.
    pub fn new() -> Self {
        Pulse { last: Beat::now(), slept: Duration::ZERO }
    }

    /// Sleeps until somebody wakes it, or for a time.
    pub fn sleep(&mut self, at_most: Duration) {
        let begun = Instant::now();
        std::thread::park_timeout(at_most);
        self.slept += begun.elapsed().min(at_most);
    }

    /// For how long the process stood still since the last call; `None`: it did not.
    pub fn halt(&mut self) -> Option<Duration> {
        self.halt_by(Beat::now())
    }

    fn halt_by(&mut self, beat: Beat) -> Option<Duration> {
        let (last, slept) =
            (std::mem::replace(&mut self.last, beat), std::mem::replace(&mut self.slept, Duration::ZERO));
        let by_wall = u64::try_from(beat.wall.saturating_sub(last.wall)).unwrap_or(0);
        let passed = beat.at.saturating_duration_since(last.at).max(Duration::from_millis(by_wall));
        let halt = passed.saturating_sub(slept + beat.worked.saturating_sub(last.worked));
        (halt >= HALT).then_some(halt)
    }
}

impl Beat {
    fn now() -> Self {
        let worked = clock_gettime(ClockId::ThreadCPUTime);
        let worked = Duration::new(worked.tv_sec.unsigned_abs(), worked.tv_nsec.unsigned_abs() as u32);
        Beat { at: Instant::now(), wall: wall(), worked }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn beat(first: Beat, passed: Duration, wall: Duration, worked: Duration) -> Beat {
        let wall = first.wall + i64::try_from(wall.as_millis()).unwrap();
        Beat { at: first.at + passed, wall, worked: first.worked + worked }
    }

    #[test]
    fn what_it_slept_and_worked_is_no_halt_and_all_else_is() {
        let none = Duration::ZERO;
        for (passed, wall, slept, worked, halt) in [
            (SECOND, SECOND, none, none, None),
            (30 * SECOND, 30 * SECOND, 30 * SECOND, none, None),
            (30 * SECOND, 30 * SECOND, none, 28 * SECOND, None),
            (7 * SECOND, 7 * SECOND, SECOND, none, Some(6 * SECOND)),
            // The machine slept: only the wall clock went on.
            (SECOND, 3_600 * SECOND, SECOND, none, Some(3_599 * SECOND)),
            // The clock was set back.
            (SECOND, none, SECOND, none, None),
        ] {
            let mut pulse = Pulse::new();
            let first = pulse.last;
            pulse.slept = slept;
            assert_eq!(pulse.halt_by(beat(first, passed, wall, worked)), halt, "{passed:?} {wall:?}");
            assert_eq!(pulse.halt_by(pulse.last), None, "it is noticed once");
        }
    }
}
