//! The requests of other threads to the gather thread, which sleeps in one `ppoll`. A thread puts its request
//! in and rings the bell. A tick without requests does not touch the inbox.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, Weak};

use futures_channel::oneshot;
use khz_model::{Budget, Nanos, Pattern, QueryError, Rate};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;

use crate::handled::Channel;
use crate::lane::{Bell, LaneView};
use crate::source::Published;
use crate::source_set::SourceSet;
use crate::subscription::READERS_BYTES;

/// At most this many requests may wait at once. They wait for microseconds; a thread that finds the inbox
/// full tries again.
pub const REQUESTS_MAX: usize = 4_096;

/// One request.
pub(crate) enum Request {
    /// The latest readings of these sources (not files), no older than `age_max` at the time
    /// `asked`.
    Latest { sources: SourceSet, asked: Nanos, age_max: Nanos, reply: oneshot::Sender<Vec<Arc<Published>>> },
    /// A lane for these patterns at this rate. The requester waits for the answer, usually some microseconds.
    /// Without a rate, rows are written on demand.
    Follow { wish: LaneWish, reply: SyncSender<LaneAnswer> },
    /// A row of an on-demand lane, gathered from now on.
    Now { lane: Arc<LaneView>, ask: u32 },
    /// Rings the bell at every row of a lane, as long as the bell lives.
    Prompt { lane: Arc<LaneView>, bell: Weak<Bell> },
    /// A reader of some lane has gone.
    Gone,
    /// The thread must end.
    Stop,
}

/// The lane that a reader wants.
#[derive(Clone)]
pub(crate) struct LaneWish {
    pub patterns: Vec<Pattern>,
    /// `None`: rows are written on demand.
    pub rate: Option<Rate>,
    pub exact: bool,
    /// What makes rows of the readings.
    pub channel: Option<Arc<Channel>>,
}

/// The lane that a reader was granted; it counts the reader already.
pub(crate) type LaneAnswer = Result<Arc<LaneView>, QueryError>;

/// The requests and the bell.
#[derive(Debug)]
pub(crate) struct Inbox {
    bell: OwnedFd,
    requests: Mutex<Vec<Request>>,
    closed: AtomicBool,
    /// How often there may have been room again for channels that were refused.
    channel_room: AtomicU64,
    /// The memory of the readers of this process.
    pub readers: Budget,
    /// Readers that were refused for want of memory.
    pub refused: AtomicU64,
}

impl std::fmt::Debug for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Request")
    }
}

impl Inbox {
    pub fn new() -> Result<Self, rustix::io::Errno> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Inbox {
            bell,
            requests: Mutex::default(),
            closed: AtomicBool::new(false),
            channel_room: AtomicU64::new(0),
            readers: Budget::new(READERS_BYTES, Arc::default()),
            refused: AtomicU64::new(0),
        })
    }

    /// Puts a request in and rings the bell.
    pub fn put(&self, request: Request) -> Result<(), QueryError> {
        let mut requests = self.requests.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if self.is_closed() {
            return Err(QueryError::Stopped);
        }
        if requests.len() >= REQUESTS_MAX {
            return Err(QueryError::Full { what: "requests waiting for the gatherer", limit: REQUESTS_MAX });
        }
        let first = requests.is_empty();
        requests.push(request);
        drop(requests);
        if first {
            self.ring();
        }
        Ok(())
    }

    fn ring(&self) {
        // The write can only fail when the counter is full, and then the bell is ringing already.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    /// There may be room for channels that were refused.
    pub fn channels_may_have_room(&self) {
        self.channel_room.fetch_add(1, Ordering::Release);
    }

    /// How often that was so.
    pub fn channel_room(&self) -> u64 {
        self.channel_room.load(Ordering::Acquire)
    }

    /// True when the gather thread has ended.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// The bell on which `ppoll` waits.
    pub fn bell(&self) -> &OwnedFd {
        &self.bell
    }

    /// Takes all requests, for the gather thread; `taken` is reused for its memory.
    pub fn take(&self, taken: &mut Vec<Request>) {
        let _ = rustix::io::read(&self.bell, &mut [0u8; 8]);
        let mut requests = self.requests.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        std::mem::swap(taken, &mut requests);
    }

    /// Refuses further requests and drops the waiting ones, which their senders notice.
    pub fn close(&self) {
        let mut requests = self.requests.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        self.closed.store(true, Ordering::Release);
        requests.clear();
    }
}
