//! The sequence lock: a counter that is odd while the writer writes. A reader that saw it odd or changed
//! reads again; the writer knows no readers. All guarded data are words, so that no read is a data race.

use std::sync::atomic::{Ordering, fence};

use crate::memory::Memory;

/// Words that several threads access; a test replaces them.
pub(crate) trait Words {
    fn load(&self, at: u64, order: Ordering) -> u64;
    fn store(&self, at: u64, value: u64, order: Ordering);
    fn fence(&self, order: Ordering);
}

impl Words for Memory {
    #[inline]
    fn load(&self, at: u64, order: Ordering) -> u64 {
        Memory::load(self, at, order)
    }
    #[inline]
    fn store(&self, at: u64, value: u64, order: Ordering) {
        Memory::store(self, at, value, order);
    }
    #[inline]
    fn fence(&self, order: Ordering) {
        fence(order);
    }
}

/// Writes the words that the sequence at this offset guards. Only for the one writer.
#[inline]
pub(crate) fn write<W: Words>(words: &W, sequence: u64, store: impl FnOnce(&W)) {
    let before = words.load(sequence, Ordering::Relaxed);
    words.store(sequence, before.wrapping_add(1), Ordering::Relaxed);
    // No reader sees the following stores before the odd number.
    words.fence(Ordering::Release);
    store(words);
    words.store(sequence, before.wrapping_add(2), Ordering::Release);
}

/// Tries to read once; `None` if the writer was writing.
#[inline]
pub(crate) fn try_read<W: Words, T>(words: &W, sequence: u64, load: impl FnOnce(&W) -> T) -> Option<T> {
    let before = words.load(sequence, Ordering::Acquire);
    if before % 2 == 1 {
        return None;
    }
    let found = load(words);
    // The second load of the sequence must come after the loads of the data.
    words.fence(Ordering::Acquire);
    (words.load(sequence, Ordering::Relaxed) == before).then_some(found)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use loom::sync::atomic::AtomicU64;

    use super::*;

    struct Played([AtomicU64; 3]);

    impl Words for Played {
        fn load(&self, at: u64, order: Ordering) -> u64 {
            self.0[at as usize / 8].load(order)
        }
        fn store(&self, at: u64, value: u64, order: Ordering) {
            self.0[at as usize / 8].store(value, order);
        }
        fn fence(&self, order: Ordering) {
            loom::sync::atomic::fence(order);
        }
    }

    /// In every order of two writes and a read, a consistent read returns a row that was written.
    #[test]
    fn no_order_of_events_shows_half_a_row() {
        loom::model(|| {
            let words = Arc::new(Played([AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0)]));
            let writer = {
                let words = words.clone();
                loom::thread::spawn(move || {
                    for row in 1..=2 {
                        write(&*words, 0, |words| {
                            words.store(8, row, Ordering::Relaxed);
                            words.store(16, 10 * row, Ordering::Relaxed);
                        });
                    }
                })
            };
            let load = |words: &Played| (words.load(8, Ordering::Relaxed), words.load(16, Ordering::Relaxed));
            if let Some((one, ten)) = try_read(&*words, 0, load) {
                assert_eq!(ten, 10 * one);
            }
            writer.join().expect("the writer ends");
            assert_eq!(try_read(&*words, 0, load), Some((2, 20)));
        });
    }
}
