//! A lane as other threads of the agent's process see it: its ring, what its slots mean, and a bell at every row. It
//! is what a link sends from; it never touches what the gather thread works with.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use khz_model::{Nanos, Pattern, QueryError, Rate, Series};
use khz_ring::Reader;
use rustix::fd::OwnedFd;

use crate::inbox::{Inbox, Request};
use crate::lane::{Bell, Call, LaneView};
use crate::query::NodeQuery;

/// The agent's lanes. Cheap to clone, for any thread; it does not keep the agent running.
#[derive(Clone)]
pub struct Lanes {
    query: Arc<NodeQuery>,
}

impl Lanes {
    pub(crate) fn new(query: Arc<NodeQuery>) -> Self {
        Lanes { query }
    }

    /// The plan's lanes, the base lane first. They live as long as the agent.
    pub fn all(&self) -> Vec<LaneHandle> {
        let take = |view: &Arc<LaneView>| {
            view.readers.fetch_add(1, Ordering::Relaxed);
            LaneHandle { view: view.clone(), inbox: self.query.inbox().clone() }
        };
        self.query.lanes().iter().map(take).collect()
    }

    /// A lane with the sources of these patterns at this rate: one that is there and serves, or one that is opened
    /// now and closes when its last handle or subscription goes. [`LaneHandle::period`] says what is granted at
    /// present: under its CPU ceiling the agent runs slower than asked.
    ///
    /// # Errors
    /// Nothing matches, the rate is above the agent's ceiling, there are too many lanes, or the agent has ended.
    pub fn follow(&self, patterns: &[Pattern], rate: Rate, exact: bool) -> Result<LaneHandle, QueryError> {
        let (view, _) = self.query.follow(patterns, Some(rate), exact)?;
        Ok(LaneHandle { view, inbox: self.query.inbox().clone() })
    }

    /// A lane with the sources of these patterns that has no ticks: [`LaneHandle::now`] writes its rows.
    ///
    /// # Errors
    /// Nothing matches, there are too many lanes, or the agent has ended.
    pub fn on_demand(&self, patterns: &[Pattern]) -> Result<LaneHandle, QueryError> {
        let (view, _) = self.query.follow(patterns, None, true)?;
        Ok(LaneHandle { view, inbox: self.query.inbox().clone() })
    }
}

/// One lane. It stays open as long as the handle lives.
pub struct LaneHandle {
    view: Arc<LaneView>,
    inbox: Arc<Inbox>,
}

impl LaneHandle {
    /// Asks for a row of an on-demand lane, gathered from now on; [`LaneHandle::answered`] says when it is there.
    ///
    /// # Errors
    /// The agent has ended, or too many requests wait.
    pub fn now(&self, ask: u32) -> Result<(), QueryError> {
        self.inbox.put(Request::Now { lane: self.view.clone(), ask })
    }

    /// The newest demand that the rows in the ring answer; 0: none.
    pub fn answered(&self) -> u32 {
        self.view.answered()
    }

    /// Its number in block headers; a lane that readers opened may get the number of one that was closed long ago.
    pub fn number(&self) -> u16 {
        self.view.ring.label().number
    }

    /// Its name: `base`, `local`, `fixed-100Hz`, `boost1`. The same name comes again when a lane was closed: the
    /// epoch is another one then.
    pub fn name(&self) -> &str {
        self.view.name.as_str()
    }

    /// Given at random when its ring was made: row numbers run within it.
    pub fn epoch(&self) -> u64 {
        self.view.ring.label().epoch
    }

    /// Generation of the present schema. The ring may also hold blocks of older ones, from before a restart.
    pub fn generation(&self) -> u32 {
        self.view.generation
    }

    /// Present time between two rows.
    pub fn period(&self) -> Nanos {
        self.view.period()
    }

    /// The rate that was asked for when the lane was opened.
    pub fn asked(&self) -> Nanos {
        self.view.asked
    }

    /// Its ring; clone it to keep it. A reader of a closed lane finds nothing new, ever.
    pub fn reader(&self) -> &Reader {
        &self.view.ring
    }

    /// Bytes of the present generation's schema (docs/block.md, "The schema"). They only grow, and always before a
    /// block with new slots begins.
    pub fn schema_bytes(&self) -> u64 {
        self.view.ring.schema_bytes(self.view.generation).unwrap_or(0)
    }

    /// Appends bytes of the present generation's schema from `from` on, `most` at most, to `out`, and tells how many.
    pub fn schema(&self, from: u64, most: usize, out: &mut Vec<u8>) -> usize {
        self.view.ring.schema(self.view.generation, from, most, out).unwrap_or(0)
    }

    /// What the slots mean, for this process; the same `Arc` until it grows.
    pub fn series(&self) -> Arc<Vec<Series>> {
        self.view.series()
    }

    /// Rings an eventfd (adds 1 to it) after every row, until the prompt is dropped. The descriptor should be
    /// non-blocking. Lanes that nobody has prompted pay nothing.
    ///
    /// # Errors
    /// The agent has ended, or its box is full.
    pub fn prompt(&self, bell: OwnedFd) -> Result<Prompt, QueryError> {
        self.ring(Bell::Fd(bell))
    }

    /// Calls this after every row, on the gather thread and when the rows of all its lanes of that moment are in their rings,
    /// until the prompt is dropped: once for all lanes with the same call. What it does delays the next tick, so it neither
    /// waits nor asks the agent for anything, and allocates nothing as a rule.
    ///
    /// # Errors
    /// As there.
    pub fn prompt_by(&self, call: Arc<Call>) -> Result<Prompt, QueryError> {
        self.ring(Bell::Call(call))
    }

    fn ring(&self, bell: Bell) -> Result<Prompt, QueryError> {
        let bell = Arc::new(bell);
        self.inbox.put(Request::Prompt { lane: self.view.clone(), bell: Arc::downgrade(&bell) })?;
        Ok(Prompt { _bell: bell })
    }
}

impl Drop for LaneHandle {
    fn drop(&mut self) {
        self.view.readers.fetch_sub(1, Ordering::Relaxed);
        // If the gatherer has ended there is nothing left to close.
        let _ = self.inbox.put(Request::Gone);
    }
}

/// A bell that is rung at every row of a lane, as long as this lives.
pub struct Prompt {
    _bell: Arc<Bell>,
}
