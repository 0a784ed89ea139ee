//! What a door logs when it cannot accept connections: one line at once, then one line a minute with the
//! count. A door that cannot accept fails repeatedly, since the connection keeps waiting. Time is an
//! argument. This file writes no log itself.

use std::io;

use crate::{Nanos, Repeats};

/// Linux' error number for "this process has no file descriptor left".
const EMFILE: i32 = 24;
/// Linux' error number for "this machine has no file descriptor left".
const ENFILE: i32 = 23;

/// The accept failures of one door.
#[derive(Clone, Debug)]
pub struct AcceptFailures {
    door: &'static str,
    repeats: Repeats,
}

impl AcceptFailures {
    /// Counts for the door with this name, such as `HTTP`.
    pub fn of(door: &'static str) -> Self {
        AcceptFailures { door, repeats: Repeats::default() }
    }

    /// Counts one more failure. Returns the line to log, if one is due.
    pub fn happened(&mut self, now: Nanos, error: &io::Error) -> Option<String> {
        let times = self.repeats.happened(now)?;
        let advice = match error.raw_os_error() {
            Some(EMFILE) => "; allow this process more open files (ulimit -n; LimitNOFILE= in its unit)",
            Some(ENFILE) => "; allow this machine more open files (sysctl fs.file-max)",
            _ => "",
        };
        Some(format!("the {} door cannot accept connections: {error}{times}{advice}", self.door))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_logged_at_once_and_then_once_a_minute_with_their_count() {
        let mut failures = AcceptFailures::of("HTTP");
        let error = io::Error::from_raw_os_error(EMFILE);
        // Ten times a second for three minutes.
        let at = |tenth: u64| Nanos::from_millis(100 * tenth + 5_000);
        let lines: Vec<String> =
            (0..1_800).filter_map(|tenth| failures.happened(at(tenth), &error)).collect();
        let [first, second, third] = lines.as_slice() else { panic!("{lines:?}") };
        assert_eq!(
            first,
            "the HTTP door cannot accept connections: Too many open files (os error 24); allow this process more open \
             files (ulimit -n; LimitNOFILE= in its unit)"
        );
        assert!(second.contains(" (600 times in the last 60 s);"), "{second}");
        assert_eq!(second, third);
        let other = io::Error::from(io::ErrorKind::ConnectionAborted);
        let later = failures.happened(Nanos::from_secs(10_000), &other).unwrap();
        assert!(later.contains("(600 times in the last 98"), "the failures since the last line: {later}");
    }
}
