//! Turns for writing pages. A page takes a millisecond of the one thread that serves all connections; between
//! two pages, shorter requests are served. Knows nothing of the pages' contents.

use tokio::sync::Semaphore;

/// A queue for turns. Each queue has one turn between two checks of the sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queue {
    /// Answers about nodes, of any length.
    Answers,
    /// Scrapes of one node each: they do not wait for long answers.
    Scrapes,
    /// The program's own numbers and health: they do not wait for readers of nodes.
    Own,
}

/// The queues of a door.
#[derive(Debug)]
pub(crate) struct Turns {
    answers: Semaphore,
    scrapes: Semaphore,
    own: Semaphore,
}

impl Default for Turns {
    fn default() -> Self {
        let one = || Semaphore::new(1);
        Turns { answers: one(), scrapes: one(), own: one() }
    }
}

impl Turns {
    /// Ready when the caller's turn begins. The turn ends when the caller waits for something; the next
    /// caller's turn begins after the sockets were checked again.
    pub async fn next(&self, queue: Queue) {
        let queue = match queue {
            Queue::Answers => &self.answers,
            Queue::Scrapes => &self.scrapes,
            Queue::Own => &self.own,
        };
        // It is never closed.
        let Ok(_turn) = queue.acquire().await else { return };
        // The runtime checks its sockets first, and then wakes tasks that have yielded.
        tokio::task::yield_now().await;
    }
}
