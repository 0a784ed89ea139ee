//! Wakes a reader's thread although no bytes have come. It takes no lock, so a caller may use it while it holds
//! any lock.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::driver::Shared;

/// Makes a reader's thread call [`crate::driver::ConnectionSink::rest`]. Clones wake the same thread.
#[derive(Clone)]
pub struct Waker {
    was_used: Arc<AtomicBool>,
    shared: Arc<Shared>,
}

impl Waker {
    pub(super) fn of(shared: &Arc<Shared>) -> Self {
        Waker { was_used: Arc::default(), shared: shared.clone() }
    }

    /// Wakes the thread. While it has no connection, nothing happens.
    pub fn wake(&self) {
        self.was_used.store(true, Ordering::Release);
        self.shared.bell.ring();
    }

    /// Whether it was used since the last call of this.
    pub(super) fn was_used(&self) -> bool {
        self.was_used.swap(false, Ordering::AcqRel)
    }
}

impl fmt::Debug for Waker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Waker")
    }
}
