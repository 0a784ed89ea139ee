//! The events of a subscription on their way to its reader: a bounded queue on which a thread or a task can
//! wait.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use crate::event::Event;

/// Most events that wait for a reader; beyond it the oldest are dropped, and the reader learns how many.
pub const EVENTS_MAX: usize = 65_536;

#[derive(Debug, Default)]
struct State {
    events: VecDeque<Event>,
    dropped: u64,
    waker: Option<Waker>,
    is_closed: bool,
}

/// The queue; clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queue(Arc<(Mutex<State>, Condvar)>);

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Adds an event; wakes no reader before [`Queue::wake`].
    pub fn push(&self, event: Event) {
        self.push_all([event]);
    }

    /// Adds the events of one row together: a reader finds all of them or none. Only a full queue drops events one by one, so of
    /// the oldest row it may keep a part.
    pub fn push_all(&self, events: impl IntoIterator<Item = Event>) {
        let mut state = self.lock();
        for event in events {
            if state.events.len() >= EVENTS_MAX {
                state.events.pop_front();
                state.dropped += 1;
            }
            state.events.push_back(event);
        }
    }

    /// Wakes the waiting readers, if there is an event.
    pub fn wake(&self) {
        let mut state = self.lock();
        if state.events.is_empty() {
            return;
        }
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
        self.0.1.notify_all();
    }

    /// True when no event waits.
    pub fn is_empty(&self) -> bool {
        self.lock().events.is_empty()
    }

    fn take(state: &mut State) -> Option<Event> {
        match std::mem::take(&mut state.dropped) {
            0 => state.events.pop_front(),
            events => Some(Event::Dropped { events }),
        }
    }

    /// The next event; never waits.
    pub fn try_next(&self) -> Option<Event> {
        Queue::take(&mut self.lock())
    }

    /// The next event; waits for it at most this long, or for ever. `None`: none came.
    pub fn next(&self, within: Option<Duration>) -> Option<Event> {
        let until = within.map(|within| Instant::now() + within);
        let mut state = self.lock();
        loop {
            if let Some(event) = Queue::take(&mut state) {
                return Some(event);
            }
            let left = match until {
                None => Duration::from_secs(3_600),
                Some(until) => until.checked_duration_since(Instant::now())?,
            };
            let woken = self.0.1.wait_timeout(state, left);
            state = woken.unwrap_or_else(|poisoned| poisoned.into_inner()).0;
        }
    }

    /// The next event; waits for it until the queue is closed. Events that wait then are not returned.
    pub fn next_until_closed(&self) -> Option<Event> {
        let idle = |state: &mut State| state.events.is_empty() && state.dropped == 0 && !state.is_closed;
        let waited = self.0.1.wait_while(self.lock(), idle);
        let mut state = waited.unwrap_or_else(|poisoned| poisoned.into_inner());
        if state.is_closed { None } else { Queue::take(&mut state) }
    }

    /// Nobody wants the events any more.
    pub fn close(&self) {
        self.lock().is_closed = true;
        self.0.1.notify_all();
    }

    /// The same as [`Queue::next`] for a task.
    pub fn poll_next(&self, context: &mut Context<'_>) -> Poll<Option<Event>> {
        let mut state = self.lock();
        if let Some(event) = Queue::take(&mut state) {
            return Poll::Ready(Some(event));
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_reader_learns_how_many_events_it_has_missed() {
        let queue = Queue::default();
        for _ in 0..EVENTS_MAX + 7 {
            queue.push(Event::Up);
        }
        assert_eq!(queue.try_next(), Some(Event::Dropped { events: 7 }));
        assert_eq!(queue.try_next(), Some(Event::Up));
    }

    #[test]
    fn a_waiting_reader_is_woken() {
        let queue = Queue::default();
        let writer = queue.clone();
        let thread = std::thread::spawn(move || {
            writer.push(Event::Up);
            writer.wake();
        });
        assert_eq!(queue.next(None), Some(Event::Up));
        assert_eq!(queue.next(Some(Duration::ZERO)), None);
        thread.join().expect("it ends");
    }

    #[test]
    fn a_task_is_woken_once_there_is_something() {
        struct Count(std::sync::atomic::AtomicU32);
        impl std::task::Wake for Count {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }
        }
        let (queue, count) = (Queue::default(), Arc::new(Count(0.into())));
        let waker = Waker::from(count.clone());
        let mut context = Context::from_waker(&waker);
        assert_eq!(queue.poll_next(&mut context), Poll::Pending);
        queue.wake();
        assert_eq!(count.0.load(std::sync::atomic::Ordering::Relaxed), 0, "there is no event");
        queue.push(Event::Up);
        queue.wake();
        assert_eq!(count.0.load(std::sync::atomic::Ordering::Relaxed), 1);
        assert_eq!(queue.poll_next(&mut context), Poll::Ready(Some(Event::Up)));
    }
}
