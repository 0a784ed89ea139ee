//! A function that is called for each event of a subscription, in a thread of its own. It ends with its handle, and leaves no
//! subscription behind.

use std::io;
use std::thread::JoinHandle;

use crate::client::Subscription;
use crate::event::Event;
use crate::queue::Queue;

/// A function that is called for each event. Dropping this ends it: a call that is under way is waited for, and no other follows.
/// Events that wait are forgotten.
#[must_use = "dropping it ends the calls"]
pub struct Callback {
    queue: Queue,
    thread: Option<JoinHandle<()>>,
}

impl Subscription {
    /// Calls a function for each event as it comes, in a thread of its own, until the handle is dropped. While the function runs,
    /// events wait; of more than [`crate::EVENTS_MAX`] the oldest are dropped, and it gets [`Event::Dropped`]. A panic of the
    /// function ends the subscription.
    ///
    /// ```no_run
    /// use khz_client::{Client, Event, Selection};
    ///
    /// let client = Client::local()?;
    /// let calls = client.subscribe(Selection::channel("hot")?)?.call_for_each(|event| {
    ///     if let Event::Value(value) = event {
    ///         println!("{value}");
    ///     }
    /// })?;
    /// // The program does something else meanwhile.
    /// drop(calls);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub fn call_for_each(self, call: impl FnMut(Event) + Send + 'static) -> io::Result<Callback> {
        Callback::start(self.queue().clone(), self, call)
    }
}

impl Callback {
    /// Calls for each event of the queue. `held` is dropped when the calls have ended.
    fn start(
        queue: Queue,
        held: impl Send + 'static,
        mut call: impl FnMut(Event) + Send + 'static,
    ) -> io::Result<Self> {
        let events = queue.clone();
        let calls = move || {
            let _held = held;
            while let Some(event) = events.next_until_closed() {
                call(event);
            }
        };
        let thread = std::thread::Builder::new().name("khz-callback".into()).spawn(calls)?;
        Ok(Callback { queue, thread: Some(thread) })
    }

    /// True when no call will follow: the function has panicked.
    pub fn is_over(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for Callback {
    fn drop(&mut self) {
        self.queue.close();
        if let Some(thread) = self.thread.take()
            // The function may drop its own handle.
            && thread.thread().id() != std::thread::current().id()
        {
            // A panic of the function was printed when it happened.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Notes when it is dropped.
    struct Held(std::sync::mpsc::Sender<&'static str>);

    impl Drop for Held {
        fn drop(&mut self) {
            let _ = self.0.send("ended");
        }
    }

    fn push(queue: &Queue) {
        queue.push(Event::Up);
        queue.wake();
    }

    fn started(call: impl FnMut(Event) + Send + 'static) -> (Queue, Callback, Receiver<&'static str>) {
        let (queue, (held, ended)) = (Queue::default(), channel());
        let calls = Callback::start(queue.clone(), Held(held), call).unwrap();
        (queue, calls, ended)
    }

    #[test]
    fn each_event_is_a_call_until_the_handle_is_dropped() {
        let (sender, events) = channel();
        let (queue, calls, ended) = started(move |event| sender.send(event).unwrap());
        for _ in 0..3 {
            push(&queue);
            assert_eq!(events.recv().unwrap(), Event::Up);
        }
        assert!(!calls.is_over());
        drop(calls);
        assert_eq!(ended.try_recv(), Ok("ended"), "the subscription has ended, too");
        push(&queue);
        assert!(events.recv().is_err(), "nobody calls any more");
    }

    #[test]
    fn a_function_may_drop_its_own_handle_and_a_panic_ends_the_calls() {
        let place = Arc::<Mutex<Option<Callback>>>::default();
        let own = place.clone();
        let (queue, calls, ended) = started(move |_| drop(own.lock().unwrap().take()));
        *place.lock().unwrap() = Some(calls);
        push(&queue);
        assert_eq!(ended.recv(), Ok("ended"));
        let (queue, calls, ended) = started(|_| panic!("of the test"));
        push(&queue);
        assert_eq!(ended.recv(), Ok("ended"));
        drop(calls);
    }
}
