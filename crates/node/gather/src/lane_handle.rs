//! A lane, for other threads of the agent's process: its ring, the meaning of its slots, and a bell for every
//! row. A link sends rows through it. It does not touch the gather thread's own data.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use khz_model::{ChannelTerms, Nanos, Pattern, QueryError, Rate, Series};
use khz_ring::Reader;
use rustix::fd::OwnedFd;

use crate::clock;
use crate::handled::WantedBy;
use crate::inbox::{Inbox, Request};
use crate::lane::{Bell, Call, LaneView};
use crate::query::NodeQuery;

/// The agent's lanes. Cheap to clone, usable in any thread; it does not keep the agent running.
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
            LaneHandle { ring: LaneRing { view: view.clone() }, inbox: self.query.inbox().clone() }
        };
        self.query.lanes().iter().map(take).collect()
    }

    /// A lane with the sources of these patterns at this rate. It is either an existing lane that fits, or a
    /// new one that closes after its last handle or subscription has gone. [`LaneHandle::period`] is the
    /// granted period: under its CPU ceiling, the agent runs slower than asked.
    ///
    /// # Errors
    /// Nothing matches, the rate is above the agent's ceiling, there are too many lanes, or the agent has ended.
    pub fn follow(&self, patterns: &[Pattern], rate: Rate, exact: bool) -> Result<LaneHandle, QueryError> {
        let (view, _) = self.query.follow(patterns, Some(rate), exact, None)?;
        Ok(LaneHandle { ring: LaneRing { view }, inbox: self.query.inbox().clone() })
    }

    /// The lane of a channel: its handler takes the readings at this rate, and computes the lane's rows from them. Its memory counts
    /// for the side that wants it.
    ///
    /// # Errors
    /// The same as of [`Lanes::follow`], and if this node refuses the handler.
    pub fn follow_channel(
        &self,
        patterns: &[Pattern],
        rate: Rate,
        exact: bool,
        channel: &Arc<ChannelTerms>,
        wanted_by: WantedBy,
    ) -> Result<LaneHandle, QueryError> {
        let (view, _) = self.query.follow(patterns, Some(rate), exact, Some((channel, wanted_by)))?;
        Ok(LaneHandle { ring: LaneRing { view }, inbox: self.query.inbox().clone() })
    }

    /// Changes when a channel that was refused for now may be possible ([`QueryError::is_for_now`]).
    pub fn channel_room(&self) -> u64 {
        self.query.inbox().channel_room()
    }

    /// A lane without ticks, with the sources of these patterns; [`LaneHandle::now`] writes its rows.
    ///
    /// # Errors
    /// Nothing matches, there are too many lanes, or the agent has ended.
    pub fn on_demand(&self, patterns: &[Pattern]) -> Result<LaneHandle, QueryError> {
        let (view, _) = self.query.follow(patterns, None, true, None)?;
        Ok(LaneHandle { ring: LaneRing { view }, inbox: self.query.inbox().clone() })
    }
}

/// The ring of a lane, which may be over: this does not keep the lane open. Its rows can be read as long as this lives.
#[derive(Clone)]
pub struct LaneRing {
    pub(crate) view: Arc<LaneView>,
}

impl LaneRing {
    /// The lane's name: `base`, `local`, `fixed-100Hz`, `boost1`, `channel.hot`. A new lane may get the name of a closed one; its
    /// epoch differs.
    pub fn name(&self) -> &str {
        self.view.name.name()
    }

    /// A random number from the ring's creation; row numbers run within it.
    pub fn epoch(&self) -> u64 {
        self.view.ring.label().epoch
    }

    /// The generation of the present schema, or of the last one. It changes when the agent gives slots back, before the first block
    /// of the new generation; the ring goes on holding blocks of older ones, with their schemas.
    pub fn generation(&self) -> u32 {
        self.view.generation()
    }

    /// The time between two rows.
    pub fn period(&self) -> Nanos {
        self.view.period()
    }

    /// Whether it has the rows of a channel, which come when the channel's handler says so.
    pub fn is_channel(&self) -> bool {
        self.view.is_channel
    }

    /// The newest demand that a row in the ring answers; 0: none.
    pub fn answered(&self) -> u32 {
        self.view.answered()
    }

    /// The notice for readers about series that it leaves out; empty: it has all.
    pub fn lacks(&self) -> Arc<str> {
        self.view.lacks()
    }

    /// How often that has changed.
    pub fn lacks_changed(&self) -> u64 {
        self.view.lacks_changed()
    }

    /// How long ago the lane ended; `None`: it has not.
    pub fn ended_ago(&self) -> Option<Nanos> {
        self.view.ended().map(|ended| clock::boot().since(ended))
    }

    /// The ring; clone it to keep it. The reader of a closed lane finds no new rows.
    pub fn reader(&self) -> &Reader {
        &self.view.ring
    }
}

/// A lane. It stays open as long as the handle lives.
pub struct LaneHandle {
    pub(crate) ring: LaneRing,
    pub(crate) inbox: Arc<Inbox>,
}

/// The parts that can be read as long as its ring lives.
impl Deref for LaneHandle {
    type Target = LaneRing;

    fn deref(&self) -> &LaneRing {
        &self.ring
    }
}

impl LaneHandle {
    /// Its ring, without what keeps it open.
    pub fn ring_of(&self) -> LaneRing {
        self.ring.clone()
    }

    /// Requests a row of an on-demand lane, gathered from now on; [`LaneRing::answered`] shows when it is
    /// in the ring.
    ///
    /// # Errors
    /// The agent has ended, or too many requests wait.
    pub fn now(&self, ask: u32) -> Result<(), QueryError> {
        self.inbox.put(Request::Now { lane: self.ring.view.clone(), ask })
    }

    /// Its number in block headers. A new lane may get the number of a lane that closed long ago.
    pub fn number(&self) -> u16 {
        self.ring.view.ring.label().number
    }

    /// The rate that was requested when the lane was opened, as a period.
    pub fn asked(&self) -> Nanos {
        self.ring.view.asked
    }

    /// The bytes of the present generation's schema (docs/block.md, "The schema"). Within a generation they only
    /// grow, and always before a block with new slots begins.
    pub fn schema_bytes(&self) -> u64 {
        self.ring.view.ring.schema_bytes(self.generation()).unwrap_or(0)
    }

    /// Appends bytes of the present generation's schema from `from` on, at most `most`, to `out`; returns how
    /// many. A caller that needs several pieces of one generation asks the ring for them
    /// ([`LaneRing::reader`]), since the present generation may change in between.
    pub fn schema(&self, from: u64, most: usize, out: &mut Vec<u8>) -> usize {
        self.ring.view.ring.schema(self.generation(), from, most, out).unwrap_or(0)
    }

    /// The meaning of the slots, for this process; the same `Arc` until they change.
    pub fn series(&self) -> Arc<Vec<Series>> {
        self.ring.view.series()
    }

    /// Adds 1 to an eventfd after every row, until the prompt is dropped. The descriptor should be
    /// non-blocking. A lane without prompts has no cost for this.
    ///
    /// # Errors
    /// The agent has ended, or its inbox is full.
    pub fn prompt(&self, bell: OwnedFd) -> Result<Prompt, QueryError> {
        self.ring(Bell::Fd(bell))
    }

    /// Calls `call` after every row, until the prompt is dropped. The gather thread calls it after the rows
    /// of all lanes of that tick are in their rings, and once for all lanes with the same call. The call
    /// delays the next tick, so it must not wait, must not send the agent a request, and should not allocate.
    ///
    /// # Errors
    /// The same as of [`LaneHandle::prompt`].
    pub fn prompt_by(&self, call: Arc<Call>) -> Result<Prompt, QueryError> {
        self.ring(Bell::Call(call))
    }

    fn ring(&self, bell: Bell) -> Result<Prompt, QueryError> {
        Prompt::new(self.ring.view.clone(), &self.inbox, bell)
    }
}

impl Drop for LaneHandle {
    fn drop(&mut self) {
        self.ring.view.leave(clock::boot());
        // If the gather thread has ended, there is nothing to close.
        let _ = self.inbox.put(Request::Gone);
    }
}

/// A bell that rings at every row of a lane, until this is dropped.
pub struct Prompt {
    _bell: Arc<Bell>,
}

impl Prompt {
    /// Rings this bell at every row of the lane.
    pub(crate) fn new(lane: Arc<LaneView>, inbox: &Inbox, bell: Bell) -> Result<Self, QueryError> {
        let bell = Arc::new(bell);
        if !lane.hear(&Arc::downgrade(&bell)) {
            inbox.put(Request::Prompt { lane, bell: Arc::downgrade(&bell) })?;
        }
        Ok(Prompt { _bell: bell })
    }
}
