//! The counters of an action, as plain numbers that others may read at any time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::record::Outcome;

/// The counts of one action.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Runs that succeeded, including those that only say what they would do.
    pub done: Arc<AtomicU64>,
    /// Attempts that failed.
    pub failed: Arc<AtomicU64>,
    /// Runs that found nothing to do: the node was already drained.
    pub nothing: Arc<AtomicU64>,
    /// Alerts for which the action did not run: too often, too soon, over before their turn, or too large.
    pub held: Arc<AtomicU64>,
    /// Alerts that found no room. A later pass retries them.
    pub dropped: Arc<AtomicU64>,
    /// Alerts that wait for it, and the one that it works on.
    pub waiting: Arc<AtomicU64>,
}

impl Counts {
    pub(crate) fn ended(&self, outcome: Outcome) {
        let count = match outcome {
            Outcome::Done | Outcome::DryRun => &self.done,
            Outcome::Nothing => &self.nothing,
            Outcome::Failed | Outcome::Interrupted => &self.failed,
            Outcome::Held => &self.held,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }
}
