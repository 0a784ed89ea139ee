//! A budget: how many bytes all readers together may make the process hold. A reader takes at most the rest
//! of the budget, and its share returns when it is dropped. This file does not know what the bytes are for,
//! and never waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::quantity::ByteSize;

/// A number of bytes that several holders share; clones are the same budget.
#[derive(Clone, Debug)]
pub struct Budget {
    limit: u64,
    held: Arc<AtomicU64>,
}

/// What one reader has taken from a [`Budget`]; dropping it gives the bytes back.
#[derive(Debug)]
pub struct Share {
    budget: Budget,
    bytes: AtomicU64,
}

impl Budget {
    /// A budget of `limit` bytes. `held` always shows how many of them are taken.
    pub fn new(limit: ByteSize, held: Arc<AtomicU64>) -> Self {
        Budget { limit: limit.0, held }
    }

    /// Takes this many bytes, all or none.
    pub fn take(&self, bytes: u64) -> Option<Share> {
        self.grow(bytes).then(|| Share { budget: self.clone(), bytes: AtomicU64::new(bytes) })
    }

    /// Bytes that are not taken.
    pub fn left(&self) -> u64 {
        self.limit.saturating_sub(self.held.load(Ordering::Relaxed))
    }

    /// Bytes that are taken.
    pub fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// The size of the whole budget.
    pub fn limit(&self) -> ByteSize {
        ByteSize(self.limit)
    }

    fn grow(&self, more: u64) -> bool {
        let raise = |held: u64| held.checked_add(more).filter(|&sum| more == 0 || sum <= self.limit);
        self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, raise).is_ok()
    }

    fn shrink(&self, less: u64) {
        self.held.fetch_sub(less, Ordering::Relaxed);
    }
}

impl Share {
    /// Changes the share to this many bytes. `false`: too few are left, and the share keeps its old size.
    pub fn set(&self, bytes: u64) -> bool {
        // One holder at a time changes a share; others only see it.
        let had = self.bytes.load(Ordering::Relaxed);
        if bytes > had && !self.budget.grow(bytes - had) {
            return false;
        }
        self.bytes.store(bytes, Ordering::Relaxed);
        if bytes < had {
            self.budget.shrink(had - bytes);
        }
        true
    }

    /// Grows the share to at least this many bytes; `false` as in [`Share::set`].
    pub fn reach(&self, bytes: u64) -> bool {
        bytes <= self.bytes() || self.set(bytes)
    }

    /// The budget that it is of.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// The size of the share.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.shrink(self.bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(limit: u64) -> (Budget, Arc<AtomicU64>) {
        let held = Arc::new(AtomicU64::new(0));
        (Budget::new(ByteSize(limit), held.clone()), held)
    }

    #[test]
    fn no_share_exceeds_what_is_left_and_all_bytes_return() {
        let (budget, held) = budget(100);
        let (first, second) = (budget.take(60).unwrap(), budget.take(40).unwrap());
        assert!(budget.take(1).is_none() && budget.left() == 0);
        assert!(budget.take(0).is_some(), "nothing is always left");
        drop(second);
        assert!(!first.set(101), "more than there is");
        assert_eq!((first.bytes(), held.load(Ordering::Relaxed)), (60, 60), "a refusal changes nothing");
        assert!(first.set(100) && first.reach(10));
        assert_eq!(budget.left(), 0);
        assert!(first.set(10));
        assert_eq!(budget.left(), 90);
        drop(first);
        assert_eq!(held.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn no_number_of_bytes_wraps_around() {
        let (budget, held) = budget(u64::MAX);
        let all = budget.take(u64::MAX).unwrap();
        assert!(budget.take(u64::MAX).is_none() && budget.take(1).is_none());
        drop(all);
        assert_eq!(held.load(Ordering::Relaxed), 0);
    }
}
