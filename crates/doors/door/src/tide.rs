//! Detects the end of a burst of readers, so that its memory is returned: once, shortly after most of the
//! readers have left. An idle door is never woken.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::runtime::Handle;

use crate::heap;

/// Fewer open connections than this are no burst.
const OPEN_MIN: u64 = 32;
/// This many bytes of answers are a burst, even for few readers.
const BYTES_MIN: u64 = 4 << 20;
/// A burst is over when at most one part in `REST` of it is left.
const REST: u64 = 4;
/// Waits for readers that leave together. Returning memory takes milliseconds: at most once in this time.
const PAUSE: Duration = Duration::from_secs(1);

/// Connections and answers of a door, rising and falling.
#[derive(Debug)]
pub struct Tide {
    /// Open connections, and bytes that answers hold.
    open: Arc<AtomicU64>,
    bytes: Arc<AtomicU64>,
    /// The highest values since memory was last returned.
    open_most: AtomicU64,
    bytes_most: AtomicU64,
    /// Memory will be returned soon.
    due: AtomicBool,
}

impl Tide {
    /// Watches these two counts of a door.
    pub fn new(open: &Arc<AtomicU64>, bytes: &Arc<AtomicU64>) -> Arc<Self> {
        Arc::new(Tide {
            open: Arc::clone(open),
            bytes: Arc::clone(bytes),
            open_most: AtomicU64::new(0),
            bytes_most: AtomicU64::new(0),
            due: AtomicBool::new(false),
        })
    }

    /// A reader came, or an answer has grown.
    pub fn rises(&self) {
        self.open_most.fetch_max(self.open.load(Ordering::Relaxed), Ordering::Relaxed);
        self.bytes_most.fetch_max(self.bytes.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// A reader left. If this ends a burst, memory is returned shortly after. Does nothing outside a tokio
    /// runtime with time, where the process is ending.
    pub fn falls(self: &Arc<Self>) {
        self.give_back_if(|| self.is_out());
    }

    /// Something else than answers has held this many bytes, such as a query that was refused, and holds them no more. If they are a
    /// burst, memory is returned shortly after.
    pub fn ebbs(self: &Arc<Self>, bytes: u64) {
        self.give_back_if(|| bytes >= BYTES_MIN);
    }

    fn give_back_if(self: &Arc<Self>, is_due: impl FnOnce() -> bool) {
        let Ok(runtime) = Handle::try_current() else { return };
        if is_due() && !self.due.swap(true, Ordering::Relaxed) {
            runtime.spawn(give_back(Arc::downgrade(self)));
        }
    }

    fn is_out(&self) -> bool {
        let is_over = |now: &AtomicU64, most: &AtomicU64, least: u64| {
            let most = most.load(Ordering::Relaxed);
            most >= least && now.load(Ordering::Relaxed) <= most / REST
        };
        is_over(&self.open, &self.open_most, OPEN_MIN) || is_over(&self.bytes, &self.bytes_most, BYTES_MIN)
    }

    /// Takes the present values as the new baseline.
    fn settle(&self) {
        self.open_most.store(self.open.load(Ordering::Relaxed), Ordering::Relaxed);
        self.bytes_most.store(self.bytes.load(Ordering::Relaxed), Ordering::Relaxed);
        self.due.store(false, Ordering::Relaxed);
    }
}

/// Holds a weak reference, since the door may close meanwhile.
async fn give_back(tide: Weak<Tide>) {
    tokio::time::sleep(PAUSE).await;
    if let Some(tide) = tide.upgrade() {
        heap::give_back();
        tide.settle();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tide() -> (Arc<Tide>, Arc<AtomicU64>, Arc<AtomicU64>) {
        let (open, bytes) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        (Tide::new(&open, &bytes), open, bytes)
    }

    #[tokio::test(start_paused = true)]
    async fn memory_is_returned_once_when_most_of_many_readers_have_left() {
        let (tide, open, _) = tide();
        open.store(500, Ordering::Relaxed);
        tide.rises();
        for left in (0..500).rev() {
            open.store(left, Ordering::Relaxed);
            tide.falls();
            assert_eq!(tide.due.load(Ordering::Relaxed), left <= 125, "{left} left");
        }
        tokio::time::sleep(2 * PAUSE).await;
        assert!(!tide.due.load(Ordering::Relaxed), "done");
        tide.falls();
        assert!(!tide.due.load(Ordering::Relaxed), "and nothing more without readers");
    }

    #[tokio::test(start_paused = true)]
    async fn memory_is_returned_when_what_is_no_answer_has_held_much() {
        let (tide, _, _) = tide();
        tide.ebbs(BYTES_MIN - 1);
        assert!(!tide.due.load(Ordering::Relaxed));
        tide.ebbs(BYTES_MIN);
        assert!(tide.due.load(Ordering::Relaxed));
        tokio::time::sleep(2 * PAUSE).await;
        assert!(!tide.due.load(Ordering::Relaxed), "done");
    }

    #[tokio::test(start_paused = true)]
    async fn a_few_readers_of_large_answers_are_a_burst_and_of_small_ones_are_not() {
        let (tide, open, bytes) = tide();
        let come_and_go = |held: u64| {
            open.store(3, Ordering::Relaxed);
            bytes.store(held, Ordering::Relaxed);
            tide.rises();
            open.store(0, Ordering::Relaxed);
            bytes.store(0, Ordering::Relaxed);
            tide.falls();
            tide.due.load(Ordering::Relaxed)
        };
        assert!(!come_and_go(BYTES_MIN - 1));
        assert!(come_and_go(BYTES_MIN));
    }
}
