//! The state behind its lock, and the threads that wait for it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::effects::{Effects, Wake};
use super::state::State;

/// How often a writer that has nothing to do sees whether a file is to be tried again.
const RETRY_EVERY: Duration = Duration::from_secs(1);

/// The lock.
pub struct Shared {
    state: Mutex<State>,
    /// A claim, a write, a checkpoint or replay ended.
    changed: Condvar,
    /// How many threads wait for a change. Without any, nobody must be woken: a claim ends with every answer.
    waiters: AtomicUsize,
    /// A file is to be written.
    work: Condvar,
}

impl Shared {
    /// A lock over `state`.
    pub fn new(state: State) -> Self {
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
            waiters: AtomicUsize::new(0),
            work: Condvar::new(),
        }
    }

    /// Takes the lock.
    pub fn lock(&self) -> MutexGuard<'_, State> {
        // Each change leaves the maps whole, so a thread that died holding the lock spoilt nothing.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits, without the lock, until the state has changed.
    pub fn wait<'a>(&'a self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        // Counted under the lock: a thread that changes the state from now on sees it.
        self.waiters.fetch_add(1, Ordering::Relaxed);
        let state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        self.waiters.fetch_sub(1, Ordering::Relaxed);
        state
    }

    /// Waits, without the lock, until a file is to be written, or a second has passed.
    pub fn wait_for_work<'a>(&'a self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.work.wait_timeout(state, RETRY_EVERY).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Waits until no write is in progress; none begins meanwhile.
    pub fn wait_for_writes<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.writes.pause();
        while state.writes.is_any_in_progress() {
            state = self.wait(state);
        }
        state.writes.resume();
        state
    }

    /// Wakes the threads that `effects` name.
    pub fn wake(&self, effects: &Effects) {
        match effects.wake {
            Wake::Nobody => {}
            Wake::One => self.work.notify_one(),
            Wake::All => self.work.notify_all(),
        }
        if effects.changed && self.waiters.load(Ordering::Relaxed) > 0 {
            self.changed.notify_all();
        }
    }
}
