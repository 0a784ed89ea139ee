//! The counters of a way, as plain numbers that others may read at any time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The counts of one way.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Alerts that the other side has accepted, including resent ones.
    pub sent: Arc<AtomicU64>,
    /// Requests or messages that the other side has accepted.
    pub requests: Arc<AtomicU64>,
    /// Requests or messages that failed and are sent again.
    pub failed: Arc<AtomicU64>,
    /// Requests or messages that were refused for good.
    pub refused: Arc<AtomicU64>,
    /// Alerts that were dropped because there were too many, or because one was too large.
    pub dropped: Arc<AtomicU64>,
    /// Alerts that wait to be sent.
    pub waiting: Arc<AtomicU64>,
    /// How long the last request or message took, in ns.
    pub latency: Arc<AtomicU64>,
    /// How long all of them took together, in ns.
    pub busy: Arc<AtomicU64>,
}

impl Counts {
    pub(crate) fn add(count: &AtomicU64, number: u64) {
        count.fetch_add(number, Ordering::Relaxed);
    }

    pub(crate) fn set(count: &AtomicU64, number: u64) {
        count.store(number, Ordering::Relaxed);
    }
}
