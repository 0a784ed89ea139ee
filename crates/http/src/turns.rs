//! Whose turn it is to write a page. Writing one takes a millisecond of the thread that answers everybody: between two of
//! them requests are served that need less. It refuses to know what is written.

use tokio::sync::Semaphore;

/// Where one waits for his turn. Each has one turn between two looks at the sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queue {
    /// Answers about nodes, however long they are.
    Answers,
    /// What the server says of itself: a client that wants to know how it is does not wait for the readers of nodes.
    Own,
}

/// The queues of a door.
#[derive(Debug)]
pub(crate) struct Turns {
    answers: Semaphore,
    own: Semaphore,
}

impl Default for Turns {
    fn default() -> Self {
        Turns { answers: Semaphore::new(1), own: Semaphore::new(1) }
    }
}

impl Turns {
    /// Ready when it is one's turn, which lasts until one waits for something: those who come after have theirs when the
    /// sockets were looked at once more.
    pub async fn next(&self, queue: Queue) {
        let queue = match queue {
            Queue::Answers => &self.answers,
            Queue::Own => &self.own,
        };
        // It is never closed.
        let Ok(_turn) = queue.acquire().await else { return };
        // The runtime looks at its sockets and serves them before it wakes a task that has yielded.
        tokio::task::yield_now().await;
    }
}
