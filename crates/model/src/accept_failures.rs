//! What a door says of connections that it could not accept: at once, then once a minute with how often. Who waits at a door
//! makes it fail again and again. Time comes in as an argument; it refuses to write the log itself.

use std::io;

use crate::{Nanos, Repeats};

/// Linux' number for: this process has no file descriptor left.
const EMFILE: i32 = 24;
/// Linux' number for: this machine has none left.
const ENFILE: i32 = 23;

/// The failures of one door.
#[derive(Clone, Debug)]
pub struct AcceptFailures {
    door: &'static str,
    repeats: Repeats,
}

impl AcceptFailures {
    /// Those of the door with this name, as `HTTP`.
    pub fn of(door: &'static str) -> Self {
        AcceptFailures { door, repeats: Repeats::default() }
    }

    /// It failed once more: the line for the log, where it is time for one.
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
    fn failures_are_told_at_once_and_then_once_a_minute_with_their_number() {
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
        assert!(later.contains("(600 times in the last 98"), "what was not told yet: {later}");
    }
}
