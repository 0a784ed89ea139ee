//! A moment on two clocks: waits are computed from the one that nobody sets.

use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Now {
    /// Milliseconds of a clock that only goes forward.
    pub steady: u64,
    /// Milliseconds since 1970, as the machine believes.
    pub wall: i64,
}

impl Now {
    /// This moment.
    pub fn read() -> Self {
        static BEGIN: OnceLock<Instant> = OnceLock::new();
        let steady = millis(BEGIN.get_or_init(Instant::now).elapsed());
        // A clock before 1970 is a clock that is not set.
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Now { steady, wall: i64::try_from(wall.as_millis()).unwrap_or(i64::MAX) }
    }
}

/// Whole milliseconds.
pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
