//! A round: one reader that waits for answers of several nodes at once. It knows neither nodes nor requests.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

/// One reader that waits.
#[derive(Debug, Default)]
pub(crate) struct Round {
    left: AtomicUsize,
    waker: Mutex<Option<Waker>>,
}

impl Round {
    /// The reader waits for one more node.
    pub fn expect(&self) {
        self.left.fetch_add(1, Ordering::AcqRel);
    }

    /// One of the nodes has answered, or will not.
    pub fn done(&self) {
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1
            && let Some(waker) = self.waker().take()
        {
            waker.wake();
        }
    }

    /// Ready when the reader waits for no node.
    pub fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        *self.waker() = Some(cx.waker().clone());
        if self.left.load(Ordering::Acquire) == 0 { Poll::Ready(()) } else { Poll::Pending }
    }

    fn waker(&self) -> MutexGuard<'_, Option<Waker>> {
        self.waker.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Nodes that the reader waits for.
    #[cfg(test)]
    pub fn left(&self) -> usize {
        self.left.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// Counts how often it was woken.
    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl std::task::Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_reader_that_waits_for_several_nodes_is_woken_once_by_the_last_of_them() {
        let (round, woken) = (Round::default(), Arc::<Woken>::default());
        let waker = Waker::from(woken.clone());
        let poll = || round.poll(&mut Context::from_waker(&waker));
        assert_eq!(poll(), Poll::Ready(()), "it waits for no node");
        (0..3).for_each(|_| round.expect());
        assert_eq!(poll(), Poll::Pending);
        for (left, expected) in [(2, 0), (1, 0), (0, 1)] {
            round.done();
            assert_eq!((round.left(), woken.0.load(Ordering::Relaxed)), (left, expected));
        }
        assert_eq!(poll(), Poll::Ready(()));
    }
}
