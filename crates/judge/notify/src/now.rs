//! A moment on two clocks. Waits use the steady one.

use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The clock (ms since 1970) by which alerts are judged, if it is not the machine's.
static WALL: OnceLock<fn() -> i64> = OnceLock::new();

/// From now on, messages use this clock (ms since 1970), so that their times agree with those of the alerts. Only the first call
/// counts.
pub fn go_by(wall: fn() -> i64) {
    let _ = WALL.set(wall);
}

/// A moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Now {
    /// Milliseconds of a clock that only goes forward.
    pub steady: u64,
    /// Milliseconds since 1970, by the clock of the alerts.
    pub wall: i64,
}

impl Now {
    /// This moment.
    pub fn read() -> Self {
        static BEGIN: OnceLock<Instant> = OnceLock::new();
        let steady = millis(BEGIN.get_or_init(Instant::now).elapsed());
        Now { steady, wall: WALL.get().map_or_else(of_machine, |wall| wall()) }
    }
}

fn of_machine() -> i64 {
    // A clock before 1970 was never set.
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(wall.as_millis()).unwrap_or(i64::MAX)
}

/// Whole milliseconds.
pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
