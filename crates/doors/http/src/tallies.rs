//! What this door has sent of each channel: rows, bytes, readers, and why nodes send none. Decides nothing.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use khz_channel::NodeNotices;
use khz_model::{Delivery, Notice};

use crate::encoder::Pushed;

/// The tallies of all channels that somebody has followed since the start.
#[derive(Debug, Default)]
pub(crate) struct Tallies(Mutex<HashMap<String, Arc<Tally>>>);

/// What was sent of one channel.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    readers: AtomicUsize,
    rows: AtomicU64,
    lost: AtomicU64,
    bytes: AtomicU64,
    /// The last sentence about each node that has sent no row since, while there is a reader.
    notices: Mutex<NodeNotices>,
}

/// The same as numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tallied {
    pub readers: usize,
    pub rows: u64,
    pub lost: u64,
    pub bytes: u64,
}

/// One reader of a channel, as long as it reads.
#[derive(Debug)]
pub(crate) struct Reader(Arc<Tally>);

impl Tallies {
    /// One more reader of a channel.
    pub fn reader(&self, channel: &str) -> Reader {
        let tally = self.all().entry(channel.to_owned()).or_default().clone();
        tally.readers.fetch_add(1, Ordering::Relaxed);
        Reader(tally)
    }

    /// The tally of a channel, if somebody has followed it.
    pub fn of(&self, channel: &str) -> Option<Arc<Tally>> {
        self.all().get(channel).cloned()
    }

    /// Forgets a channel that is removed.
    pub fn forget(&self, channel: &str) {
        self.all().remove(channel);
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, Arc<Tally>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tally {
    /// The numbers until now.
    pub fn numbers(&self) -> Tallied {
        Tallied {
            readers: self.readers.load(Ordering::Relaxed),
            rows: self.rows.load(Ordering::Relaxed),
            lost: self.lost.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }

    /// What nodes have said.
    pub fn notices(&self) -> NodeNotices {
        self.noted().clone()
    }

    fn noted(&self) -> MutexGuard<'_, NodeNotices> {
        self.notices.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reader {
    /// Rows were written for this reader, as this many bytes.
    pub fn took(&self, delivery: &Delivery, pushed: Pushed, bytes: usize) {
        self.0.rows.fetch_add(pushed.rows as u64, Ordering::Relaxed);
        self.0.lost.fetch_add(pushed.lost, Ordering::Relaxed);
        self.0.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        if pushed.rows > 0 {
            self.0.noted().forget(&delivery.node);
        }
    }

    /// Nodes have said something.
    pub fn noted(&self, notices: &[Notice]) {
        let mut noted = self.0.noted();
        notices.iter().for_each(|notice| noted.take(notice));
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // What nodes said was said to readers, and holds for the next one only if they say it again.
        if self.0.readers.fetch_sub(1, Ordering::Relaxed) == 1 {
            *self.0.noted() = NodeNotices::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use khz_model::NodeName;

    use super::*;

    fn node(text: &str) -> NodeName {
        NodeName::new(text).unwrap()
    }

    #[test]
    fn a_tally_counts_readers_and_rows_and_remembers_why_nodes_send_none() {
        let tallies = Tallies::default();
        assert!(tallies.of("hot").is_none());
        let (one, other) = (tallies.reader("hot"), tallies.reader("hot"));
        let why = "channel hot: this node takes no handlers";
        one.noted(&[
            Notice::of(node("n1"), why),
            Notice::of(node("n2"), why),
            Notice::of(node("n3"), "slower"),
        ]);
        let rows = Delivery {
            node: node("n3"),
            columns: Arc::default(),
            rows: Vec::new(),
            lost: 0,
            rate: None,
            last: None,
        };
        other.took(&rows, Pushed { rows: 2, lost: 1 }, 100);
        let tally = tallies.of("hot").unwrap();
        assert_eq!(tally.notices().sentences(), [(why.to_owned(), vec![node("n1"), node("n2")])]);
        assert_eq!(tally.numbers(), Tallied { readers: 2, rows: 2, lost: 1, bytes: 100 });
        drop(one);
        assert_eq!(tally.notices().sentences().len(), 1, "another reader is there");
        drop(other);
        assert_eq!((tally.numbers().readers, tally.notices().sentences().len()), (0, 0));
    }
}
