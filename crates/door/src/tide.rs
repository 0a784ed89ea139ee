//! When a burst of readers is over, so that what it took can be given back: once, a moment after the last of many has
//! gone. It refuses to do anything while nobody comes and goes: an idle door is never woken.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::runtime::Handle;

use crate::heap;

/// Fewer connections than this are no burst.
const OPEN_MIN: u64 = 32;
/// So many bytes of answers are one, however few have asked for them.
const BYTES_MIN: u64 = 4 << 20;
/// A burst is over when less than this part of it is left.
const REST: u64 = 4;
/// Those who go together are waited for, and giving back takes milliseconds: not more often than this.
const PAUSE: Duration = Duration::from_secs(1);

/// What comes and goes at a door.
#[derive(Debug)]
pub struct Tide {
    /// Connections that are open, and bytes that answers hold.
    open: Arc<AtomicU64>,
    bytes: Arc<AtomicU64>,
    /// The most of each since memory was given back.
    open_most: AtomicU64,
    bytes_most: AtomicU64,
    /// Giving back is due.
    due: AtomicBool,
}

impl Tide {
    /// A door's, by what it counts.
    pub fn new(open: &Arc<AtomicU64>, bytes: &Arc<AtomicU64>) -> Arc<Self> {
        Arc::new(Tide {
            open: Arc::clone(open),
            bytes: Arc::clone(bytes),
            open_most: AtomicU64::new(0),
            bytes_most: AtomicU64::new(0),
            due: AtomicBool::new(false),
        })
    }

    /// Somebody came, or an answer has grown.
    pub fn rises(&self) {
        self.open_most.fetch_max(self.open.load(Ordering::Relaxed), Ordering::Relaxed);
        self.bytes_most.fetch_max(self.bytes.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Somebody went: if with him a burst is over, memory is given back in a moment. Outside a tokio runtime with time,
    /// where the process is ending, nothing is.
    pub fn falls(self: &Arc<Self>) {
        let Ok(runtime) = Handle::try_current() else { return };
        if self.is_out() && !self.due.swap(true, Ordering::Relaxed) {
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

    /// What is there now is no burst any more.
    fn settle(&self) {
        self.open_most.store(self.open.load(Ordering::Relaxed), Ordering::Relaxed);
        self.bytes_most.store(self.bytes.load(Ordering::Relaxed), Ordering::Relaxed);
        self.due.store(false, Ordering::Relaxed);
    }
}

/// The door may be closed meanwhile.
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
    async fn memory_is_given_back_once_when_most_of_many_have_gone() {
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
        assert!(!tide.due.load(Ordering::Relaxed), "and not again for nobody");
    }

    #[tokio::test(start_paused = true)]
    async fn a_few_readers_of_much_are_a_burst_and_of_little_are_none() {
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
