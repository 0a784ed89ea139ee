//! The counters of a sender.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use khz_model::Nanos;

/// The counters of a sender since the start, and its progress.
#[derive(Debug, Default)]
pub struct Counts {
    /// Samples that the receiver has accepted, stale markers included.
    pub sent: Arc<AtomicU64>,
    /// Samples that the receiver has refused.
    pub refused: Arc<AtomicU64>,
    /// Rows that came after later rows of their node were sent, and so were not.
    pub late: Arc<AtomicU64>,
    /// Rows that the store has removed before they were sent, if there was one in each period.
    pub removed: Arc<AtomicU64>,
    /// Requests that had to be sent again.
    pub retries: Arc<AtomicU64>,
    /// Samples that wait for the receiver.
    pub waiting: Arc<AtomicU64>,
    /// How many seconds ago the oldest rows came that wait to be sent.
    pub behind: Arc<AtomicU64>,
    /// Everything that came before this time was sent, in ns.
    pub(crate) front: AtomicU64,
}

impl Counts {
    pub(crate) fn add(count: &AtomicU64, more: u64) {
        count.fetch_add(more, Ordering::Relaxed);
    }

    pub(crate) fn subtract(count: &AtomicU64, less: u64) {
        count.fetch_sub(less, Ordering::Relaxed);
    }

    /// Nothing can be sent, and nothing was since this time at least.
    pub fn waits_since(&self, since: Nanos, now: Nanos) {
        Self::set(&self.front, since.0);
        self.measure(now.0);
    }

    /// Computes how far the sender is behind.
    pub(crate) fn measure(&self, now: u64) {
        Self::set(&self.behind, now.saturating_sub(self.front.load(Ordering::Relaxed)) / 1_000_000_000);
    }

    pub(crate) fn set(count: &AtomicU64, value: u64) {
        count.store(value, Ordering::Relaxed);
    }
}
