//! What other threads want from the gather thread. It sleeps in one `ppoll`; a request puts itself here and
//! rings the bell. Nothing here is touched on a tick when nobody asked.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, Weak};

use futures_channel::oneshot;
use khz_model::{Nanos, Pattern, QueryError, Rate};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;

use crate::lane::{Bell, LaneView};
use crate::source::Published;

/// So many requests may wait at once. They wait for microseconds; who finds the box full asks again.
pub const REQUESTS_MAX: usize = 4_096;

/// One request.
pub(crate) enum Request {
    /// The latest readings of these sources (one bit each), which are no files, no older than `age_max` at `asked`.
    Latest { sources: u64, asked: Nanos, age_max: Nanos, reply: oneshot::Sender<Vec<Arc<Published>>> },
    /// A lane for these patterns at this rate; the asker waits for the answer, microseconds as a rule.
    /// Without a rate its rows are written on demand.
    Follow { patterns: Vec<Pattern>, rate: Option<Rate>, exact: bool, reply: SyncSender<LaneAnswer> },
    /// A row of an on-demand lane, gathered from now on.
    Now { lane: Arc<LaneView>, ask: u32 },
    /// Somebody wants to know of every row of a lane, for as long as the bell lives.
    Prompt { lane: Arc<LaneView>, bell: Weak<Bell> },
    /// A reader of some lane has gone.
    Gone,
    /// The end.
    Stop,
}

/// The lane that a reader was granted; it counts as one of its readers already.
pub(crate) type LaneAnswer = Result<Arc<LaneView>, QueryError>;

/// The box and its bell.
#[derive(Debug)]
pub(crate) struct Inbox {
    bell: OwnedFd,
    requests: Mutex<Vec<Request>>,
    closed: AtomicBool,
}

impl std::fmt::Debug for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Request")
    }
}

impl Inbox {
    pub fn new() -> Result<Self, rustix::io::Errno> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Inbox { bell, requests: Mutex::default(), closed: AtomicBool::new(false) })
    }

    /// Puts a request in and rings.
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
        // It can only fail when the counter is full, and then the bell is ringing already.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    /// True when the gather thread has ended.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// What `ppoll` waits on.
    pub fn bell(&self) -> &OwnedFd {
        &self.bell
    }

    /// Takes everything out, for the gather thread; `taken` is kept for its memory.
    pub fn take(&self, taken: &mut Vec<Request>) {
        let _ = rustix::io::read(&self.bell, &mut [0u8; 8]);
        let mut requests = self.requests.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        std::mem::swap(taken, &mut requests);
    }

    /// Nothing goes in any more; what is inside is dropped, which its askers notice.
    pub fn close(&self) {
        let mut requests = self.requests.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        self.closed.store(true, Ordering::Release);
        requests.clear();
    }
}
