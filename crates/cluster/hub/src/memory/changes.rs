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

/// The changes that were already seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// How many changes there were.
    pub count: u64,
    /// It is time to end.
    pub stop: bool,
    /// These changes must be written at once: somebody waits for them.
    urgent: u64,
    /// These changes are written, or their write has failed.
    tried: u64,
    /// The last write has failed.
    has_failed: bool,
    /// There is a thread that writes.
    is_kept: bool,
}

impl Seen {
    fn is_urgent(&self) -> bool {
        self.urgent > self.tried
    }
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

    /// Something has changed that must be written at once. `false`: it could not be written, or not within this time. Without a
    /// thread that writes, the call does not wait.
    pub fn ring_and_wait(&self, longest: Duration) -> bool {
        let mut state = self.state();
        state.count += 1;
        let own = state.count;
        if !state.is_kept {
            return true;
        }
        state.urgent = own;
        self.bell.notify_all();
        let waits = |seen: &mut Seen| seen.tried < own && !seen.stop;
        let waited = self.bell.wait_timeout_while(state, longest, waits);
        let (state, _) = waited.unwrap_or_else(|poisoned| poisoned.into_inner());
        state.tried >= own && !state.has_failed
    }

    /// There is a thread that writes from now on.
    pub fn kept(&self) {
        self.state().is_kept = true;
    }

    /// The changes until this one are written, or could not be.
    pub fn tried(&self, count: u64, has_failed: bool) {
        let mut state = self.state();
        (state.tried, state.has_failed) = (count, has_failed);
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

    /// Waits this long, until the end, or until somebody waits for a change; other changes do not cut it short.
    pub fn pause(&self, span: Duration) {
        let until = Instant::now() + span;
        let mut state = self.state();
        while !state.stop && !state.is_urgent() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = self.bell.wait_timeout(state, left).unwrap_or_else(|poisoned| poisoned.into_inner()).0;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    /// A writer that pauses before each write, as the roster's does; it writes well or not.
    fn writer(changes: &Arc<Changes>, has_failed: bool) -> std::thread::JoinHandle<()> {
        changes.kept();
        let changes = changes.clone();
        std::thread::spawn(move || {
            let mut known = 0;
            while !changes.wait(known, LONG).stop {
                changes.pause(LONG);
                known = changes.seen().count;
                changes.tried(known, has_failed);
            }
        })
    }

    #[test]
    fn who_waits_for_a_change_does_not_wait_for_the_writers_pause_and_learns_of_a_failure() {
        for has_failed in [false, true] {
            let changes = Arc::new(Changes::default());
            assert!(changes.ring_and_wait(Duration::ZERO), "nobody writes");
            let writer = writer(&changes, has_failed);
            changes.ring();
            for _ in 0..3 {
                assert_eq!(changes.ring_and_wait(LONG), !has_failed);
            }
            changes.stop();
            writer.join().expect("the writer ends");
            assert!(!changes.ring_and_wait(LONG), "it is over");
        }
    }
}
