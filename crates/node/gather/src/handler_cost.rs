//! What the handler of a channel costs this node: rows in and out, bytes, and time. Lanes of one channel count together, so that
//! the numbers of a channel never fall while one of its lanes lives. Only the gather thread counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use khz_model::{ChannelName, Instance, Nanos};

/// The counts of one channel.
#[derive(Debug)]
pub(crate) struct HandlerCost {
    /// The channel, as an instance of the agent's own numbers.
    pub channel: Instance,
    rows_in: AtomicU64,
    rows_out: AtomicU64,
    bytes_out: AtomicU64,
    time: AtomicU64,
}

impl HandlerCost {
    fn of(channel: &ChannelName) -> Self {
        HandlerCost {
            channel: Instance::from_kernel(channel.as_str().as_bytes()),
            rows_in: AtomicU64::new(0),
            rows_out: AtomicU64::new(0),
            bytes_out: AtomicU64::new(0),
            time: AtomicU64::new(0),
        }
    }

    /// The counts of this channel: shared with another lane of the channel, if there is one.
    pub fn shared<'a>(
        channel: &ChannelName,
        mut others: impl Iterator<Item = &'a Arc<HandlerCost>>,
    ) -> Arc<HandlerCost> {
        let known = others.find(|other| other.channel.name() == channel.as_str());
        known.cloned().unwrap_or_else(|| Arc::new(HandlerCost::of(channel)))
    }

    /// The handler has taken a row of readings, which took this long, with the rows that it sent because of it.
    #[inline]
    pub fn took_row(&self, time: Nanos) {
        add(&self.rows_in, 1);
        add(&self.time, time.0);
    }

    /// A row of the channel has this many bytes.
    #[inline]
    pub fn sent_row(&self, bytes: usize) {
        add(&self.rows_out, 1);
        add(&self.bytes_out, bytes as u64);
    }

    /// Rows in, rows out, bytes out, and time in ns.
    pub fn counts(&self) -> [u64; 4] {
        [&self.rows_in, &self.rows_out, &self.bytes_out, &self.time]
            .map(|count| count.load(Ordering::Relaxed))
    }
}

/// Adds without an atomic addition: only one thread counts.
#[inline]
fn add(count: &AtomicU64, n: u64) {
    count.store(count.load(Ordering::Relaxed) + n, Ordering::Relaxed);
}
