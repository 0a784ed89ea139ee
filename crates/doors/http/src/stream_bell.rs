//! What wakes the task of a stream when a row has come: rung from any thread, seen once. It waits for nobody and knows no rows.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use khz_model::Bell;

/// A bell with one listener. However often it rings until the listener answers, it wakes the listener once.
#[derive(Default)]
pub(crate) struct StreamBell {
    is_rung: AtomicBool,
    listener: Mutex<Option<Waker>>,
}

impl StreamBell {
    /// As a function for those who ring.
    pub fn rope(self: &Arc<Self>) -> Bell {
        let bell = self.clone();
        Arc::new(move || bell.ring())
    }

    /// Wakes the listener, unless it has not yet answered an earlier ring.
    pub fn ring(&self) {
        if !self.is_rung.swap(true, Ordering::AcqRel)
            && let Some(listener) = self.listener().take()
        {
            listener.wake();
        }
    }

    /// Ready while it has rung and nobody has answered.
    pub fn poll_rung(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.is_rung.load(Ordering::Acquire) {
            return Poll::Ready(());
        }
        *self.listener() = Some(cx.waker().clone());
        // It may have rung before it knew whom to wake.
        if self.is_rung.load(Ordering::Acquire) { Poll::Ready(()) } else { Poll::Pending }
    }

    /// The listener is about to look: what comes from now on rings again.
    pub fn answer(&self) {
        // Not a mere store: what was done before a ring that this answers must be seen after it.
        self.is_rung.swap(false, Ordering::AcqRel);
    }

    fn listener(&self) -> MutexGuard<'_, Option<Waker>> {
        self.listener.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_bell_wakes_its_listener_once_until_it_answers() {
        let (bell, woken) = (Arc::new(StreamBell::default()), Arc::new(Woken::default()));
        let waker = woken.clone().into();
        let mut cx = Context::from_waker(&waker);
        let times = || woken.0.load(Ordering::Relaxed);
        assert!(bell.poll_rung(&mut cx).is_pending());
        let rope = bell.rope();
        (0..3).for_each(|_| rope());
        assert!(bell.poll_rung(&mut cx).is_ready() && bell.poll_rung(&mut cx).is_ready());
        assert_eq!(times(), 1);
        bell.answer();
        assert!(bell.poll_rung(&mut cx).is_pending());
        rope();
        assert_eq!(times(), 2);
    }

    #[test]
    fn a_ring_before_anybody_listens_is_heard() {
        let bell = StreamBell::default();
        bell.ring();
        let waker = Waker::noop();
        assert!(bell.poll_rung(&mut Context::from_waker(waker)).is_ready());
    }

    #[test]
    fn no_ring_is_missed_by_a_listener_in_another_thread() {
        const RINGS: usize = 10_000;
        let (bell, seen) = (Arc::new(StreamBell::default()), Arc::new(AtomicUsize::new(0)));
        let last = Arc::new(AtomicUsize::new(0));
        let (ringer, number) = (bell.rope(), last.clone());
        let ringing = std::thread::spawn(move || {
            for ring in 1..=RINGS {
                number.store(ring, Ordering::Release);
                ringer();
            }
        });
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            while seen.load(Ordering::Relaxed) < RINGS {
                std::future::poll_fn(|cx| bell.poll_rung(cx)).await;
                bell.answer();
                seen.store(last.load(Ordering::Acquire), Ordering::Relaxed);
            }
        });
        ringing.join().expect("the ringing thread ends");
    }
}
