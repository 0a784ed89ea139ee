//! Where a reader learns which of its texts have news. It holds numbers, no texts.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

/// One reader's inbox.
#[derive(Debug, Default)]
pub(crate) struct TextInbox {
    numbers: Mutex<BTreeSet<u32>>,
    has_news: AtomicBool,
}

impl TextInbox {
    fn numbers(&self) -> MutexGuard<'_, BTreeSet<u32>> {
        self.numbers.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The text with this number has news.
    pub fn put(&self, number: u32) {
        self.numbers().insert(number);
        self.has_news.store(true, Ordering::Release);
    }

    /// Whether any text has news, without the lock.
    pub fn has_news(&self) -> bool {
        self.has_news.load(Ordering::Acquire)
    }

    /// Takes out the next number after this one, or the first: each has its turn.
    pub fn take(&self, after: u32) -> Option<u32> {
        let mut numbers = self.numbers();
        let next = numbers.range(after.saturating_add(1)..).next().or_else(|| numbers.first()).copied();
        if let Some(number) = next {
            numbers.remove(&number);
        }
        self.has_news.store(!numbers.is_empty(), Ordering::Release);
        next
    }
}
