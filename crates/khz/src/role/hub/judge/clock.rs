//! The wall clock in milliseconds, as rules have it.

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970; 0 if the clock stands before.
pub fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
