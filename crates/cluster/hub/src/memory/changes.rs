//! A bell for the thread that writes the roster: it rings when a node comes, goes or is forgotten. Ringing never waits
//! for a disk.

use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// The bell.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    state: Mutex<Seen>,
    bell: Condvar,
}

/// What was seen of the changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// How many changes there were.
    pub count: u64,
    /// It is time to end.
    pub stop: bool,
}

impl Changes {
    fn state(&self) -> MutexGuard<'_, Seen> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Something has changed.
    pub fn ring(&self) {
        self.state().count += 1;
        self.bell.notify_all();
    }

    /// It is time to end.
    pub fn stop(&self) {
        self.state().stop = true;
        self.bell.notify_all();
    }

    /// The changes until now.
    pub fn seen(&self) -> Seen {
        *self.state()
    }

    /// Waits until there is a change beyond `known`, until the end, or at most this long.
    pub fn wait(&self, known: u64, longest: Duration) -> Seen {
        let waits = |seen: &mut Seen| seen.count == known && !seen.stop;
        let waited = self.bell.wait_timeout_while(self.state(), longest, waits);
        *waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0
    }

    /// Waits this long, or until the end; changes do not cut it short.
    pub fn pause(&self, span: Duration) {
        let until = Instant::now() + span;
        let mut state = self.state();
        while !state.stop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = self.bell.wait_timeout(state, left).unwrap_or_else(|poisoned| poisoned.into_inner()).0;
        }
    }
}
