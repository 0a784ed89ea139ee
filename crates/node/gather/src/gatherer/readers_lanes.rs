//! The lanes that readers open: a reader that wants to follow shares a lane or gets a new one, all lanes together fit into their
//! memory, and a lane without readers ends after a while.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;

use khz_model::{ChannelName, Nanos, Pattern, QueryError, Rate, Stamp};
use khz_ring::{Ring, RingError};

use super::{Gatherer, SLOW_ENOUGH, expected_share, refresh};
use crate::clock;
use crate::handled::{self, Channel, Handled, WantedBy};
use crate::handler_cost::HandlerCost;
use crate::inbox::{LaneAnswer, LaneWish};
use crate::lane::Lane;
use crate::lane_memory::Needs;
use crate::lane_set::Places;
use crate::source::Source;

/// The most lanes of readings at once, both the plan's and those that readers opened.
pub const LANES_MAX: usize = 24;

/// A lane of readings that readers opened lives on for this long after its last reader has gone. A hub or reader that was
/// away for a moment then finds the same rows under the same numbers. A channel's lane has [`CHANNEL_LINGER`].
pub const LINGER: Nanos = Nanos::from_secs(10);

/// The most lanes of channels at once: 56 that readers ask a hub for, and 48 of the hub itself.
pub const CHANNELS_MAX: usize = 104;

/// The lane of a channel lives on for this long after its last reader has gone. A hub that was restarted takes it over, with the
/// memory of its handler and the rows in its ring.
pub const CHANNEL_LINGER: Nanos = Nanos::from_secs(60);

/// At most this many lanes of readings live on without a reader: each costs as much as a lane with a reader. Lanes of channels
/// do not count here; [`CHANNELS_MAX`] limits them.
pub const LINGERING_MAX: usize = 8;

/// Each lane is a bit of a tick.
const _: () = assert!(LANES_MAX + CHANNELS_MAX <= Places::BITS as usize);

impl Gatherer {
    /// Answers a reader that wants to follow. The reader counts from here on, so that the lane cannot close
    /// before the reader takes its place. If the reader has stopped waiting, it does not count.
    pub(super) fn grant(&mut self, wish: &LaneWish, reply: &SyncSender<LaneAnswer>) {
        let answer = self.follow(wish).map(|at| {
            self.lanes[at].read_again();
            self.lanes[at].view.clone()
        });
        let lane = answer.as_ref().ok().cloned();
        if let (Err(_), Some(lane)) = (reply.try_send(answer), lane) {
            lane.readers.fetch_sub(1, Ordering::Relaxed);
            self.close_unread_lanes();
        }
    }

    /// Finds or opens a lane for a reader, and returns its index.
    fn follow(&mut self, wish: &LaneWish) -> Result<usize, QueryError> {
        let LaneWish { patterns, rate, exact, channel } = wish;
        let refresh = |source: &Source| match channel {
            Some(channel) => handled::refresh(source, channel, patterns, *exact),
            None => refresh(source, patterns, *exact),
        };
        let members: Vec<_> = self.sources.iter().map(refresh).collect();
        let serves = |lane: &&Lane| {
            lane.asked == rate.map_or(Nanos(0), Rate::period)
                && lane.is_of(channel.as_deref(), patterns)
                && members.iter().enumerate().all(|(i, wanted)| match (wanted, lane.refresh_of(i)) {
                    (None, _) => true,
                    (Some(wanted), Some(has)) => has <= *wanted,
                    (Some(_), None) => false,
                })
        };
        if let Some(at) = self.lanes.iter().position(|lane| serves(&lane)) {
            let at = self.widen(at, patterns)?;
            if channel.as_ref().is_some_and(|channel| channel.wanted_by == WantedBy::Hub) {
                self.lanes[at].is_wanted_by_hub(&self.channel_memory);
            }
            return Ok(at);
        }
        self.make_room(channel.is_some())?;
        let now = clock::stamp();
        let lane = match channel {
            Some(channel) => {
                // Memory of lanes without a reader is available for lanes with one.
                loop {
                    match self.open_channel(wish, channel, members.clone(), now) {
                        Err(error) | Ok((_, Some(error)))
                            if error.is_for_now() && self.close_unread_channel(channel.wanted_by) => {}
                        opened => break opened?.0.sharing(0, 0),
                    }
                }
            }
            None => {
                let ring = self.rings.of_readers(self.lanes_opened, &self.free_boost());
                let ring_most = self.rings.boost_bytes();
                Lane::new(*rate, members, self.ring(ring)?, now).only(patterns).sharing(ring_most, 0)
            }
        };
        let lane = self.with_room(lane)?;
        self.lanes_opened = self.lanes_opened.wrapping_add(1);
        self.lanes.push(lane);
        self.fill_new_lane();
        self.share_memory();
        Ok(self.lanes.len() - 1)
    }

    /// Returns the lane, if there is memory for it.
    fn with_room(&mut self, mut lane: Lane) -> Result<Lane, QueryError> {
        let needs = lane.needs_foreseen(&self.sources);
        self.find_room(needs)?;
        // All memory in use belongs to its lane until it is shared out.
        lane.set_share(needs.ring_min, self.memory.room(), &self.sources);
        Ok(lane)
    }

    /// Adds these series to a lane, if there is memory for them. The place of the lane may change.
    fn widen(&mut self, at: usize, patterns: &[Pattern]) -> Result<usize, QueryError> {
        let more = match at < self.fixed_lanes {
            true => Needs::default(),
            false => self.lanes[at].needs_to_widen(patterns, &self.sources),
        };
        if more == Needs::default() {
            self.lanes[at].widen(patterns, &self.sources);
            return Ok(at);
        }
        // It must not be closed to make room for itself.
        let view = self.lanes[at].view.clone();
        view.readers.fetch_add(1, Ordering::Relaxed);
        let found = self.find_room(more);
        view.readers.fetch_sub(1, Ordering::Relaxed);
        found?;
        let at =
            self.lanes.iter().position(|lane| Arc::ptr_eq(&lane.view, &view)).ok_or(QueryError::Stopped)?;
        let room = self.memory.room();
        self.lanes[at].give_room(room);
        self.lanes[at].widen(patterns, &self.sources);
        self.share_memory();
        Ok(at)
    }

    /// Makes room for this much more memory. Lanes without a reader close for it, and the rings of the other lanes become
    /// shorter.
    fn find_room(&mut self, more: Needs) -> Result<(), QueryError> {
        self.share_memory();
        while !self.memory.has_room(more) {
            let is_closed = self.close_longest_unread(false)
                || self.close_unread_channel(WantedBy::Readers)
                || self.close_unread_channel(WantedBy::Hub);
            if !is_closed {
                let refusal = self.memory.refusal();
                self.inbox.refused.fetch_add(1, Ordering::Relaxed);
                // Readers may ask again and again.
                if !std::mem::replace(&mut self.is_lane_refused, true) {
                    tracing::warn!(
                        "a lane of {} KiB is refused: {refusal}",
                        (more.beside + more.ring_min) >> 10
                    );
                }
                return Err(refusal);
            }
            self.share_memory();
        }
        self.is_lane_refused = false;
        Ok(())
    }

    /// Shares the memory of the lanes that readers opened, if they or their needs have changed.
    pub(super) fn share_memory(&mut self) {
        let opened = &mut self.lanes[self.fixed_lanes..];
        if self.memory.is_shared(opened.iter().map(|lane| (&lane.view, lane.needs()))) {
            return;
        }
        let mut rings = self.memory.share(opened.iter().map(|lane| (&lane.view, lane.needs())));
        if self.memory.is_over() {
            // Rows of older generations are worth less than those of a further lane.
            opened.iter_mut().for_each(Lane::forget_older);
            rings = self.memory.share(opened.iter().map(|lane| (&lane.view, lane.needs())));
        }
        let room = self.memory.room_each();
        for (lane, ring) in opened.iter_mut().zip(rings) {
            lane.set_share(ring, room, &self.sources);
        }
    }

    /// The lane of a channel, and why it does not have all of its series.
    fn open_channel(
        &self,
        wish: &LaneWish,
        channel: &Arc<Channel>,
        members: Vec<Option<Nanos>>,
        now: Stamp,
    ) -> Result<(Lane, Option<QueryError>), QueryError> {
        let LaneWish { patterns, rate, .. } = wish;
        let period = rate.map_or(Nanos(0), Rate::period);
        let budget = self.channel_memory.of(channel.wanted_by);
        let mut handled = Handled::new(channel.clone(), patterns, &self.plan.node, period, budget)?;
        let known = self.sources.iter().zip(&members).filter(|(_, member)| member.is_some());
        let series = known.flat_map(|(source, _)| source.series()).filter(|series| handled.wants(series));
        // A plan that this node cannot execute is refused here, with the reason.
        let series: Vec<_> = series.cloned().collect();
        let (_, problem) = handled.bind_most(&series, period)?;
        let name = self.free_channel(&channel.terms.name);
        let ring = self.rings.of_channel(self.lanes_opened, &name);
        let cost = HandlerCost::shared(&channel.terms.name, self.lanes.iter().filter_map(Lane::cost));
        Ok((Lane::of_channel(*rate, members, self.ring(ring)?, now, handled, cost), problem))
    }

    /// The ring of a new lane, if there is memory for it.
    fn ring(&self, ring: Result<Ring, RingError>) -> Result<Ring, QueryError> {
        ring.map_err(|error| {
            tracing::warn!("{error}");
            QueryError::Full { what: "lanes that memory allows", limit: self.lanes.len() }
        })
    }

    /// Closes a lane without readers if the number of lanes of its kind is at the limit.
    fn make_room(&mut self, is_channel: bool) -> Result<(), QueryError> {
        let limit = if is_channel { CHANNELS_MAX } else { LANES_MAX };
        let is_full =
            |lanes: &[Lane]| lanes.iter().filter(|lane| lane.is_channel() == is_channel).count() >= limit;
        if is_full(&self.lanes) {
            self.close_longest_unread(is_channel);
        }
        match is_full(&self.lanes) {
            false => Ok(()),
            true if is_channel => Err(QueryError::Full { what: "channels at one node", limit }),
            true => Err(QueryError::Full { what: "lanes of different rates", limit }),
        }
    }

    /// The lowest free name of `boost1`, `boost2` and so on. Names are used again, so that the agent's numbers about lanes
    /// need no new slots each time.
    fn free_boost(&self) -> String {
        let mut names = (1..).map(|n| format!("boost{n}"));
        names.find(|name| !self.is_taken(name)).unwrap_or_default()
    }

    /// The name of another lane of a channel: `channel.hot`, then `channel.hot.2` for readers with another request.
    fn free_channel(&self, channel: &ChannelName) -> String {
        let first = channel.metric();
        let others = (2..).map(|n| format!("{first}.{n}"));
        let mut names = std::iter::once(first.clone()).chain(others);
        names.find(|name| !self.is_taken(name)).unwrap_or_default()
    }

    fn is_taken(&self, name: &str) -> bool {
        self.lanes.iter().any(|lane| lane.view.name.name() == name)
    }

    /// Gathers the sources of a new lane once: its slots exist from its first row on.
    fn fill_new_lane(&mut self) {
        let now = clock::stamp();
        let Some(lane) = self.lanes.len().checked_sub(1) else { return };
        for source in 0..self.sources.len() {
            if self.lanes[lane].refresh_of(source).is_some() && self.sources[source].gathered.is_none() {
                self.gather(source, now);
            }
            self.lanes[lane].know(source, &self.sources[source]);
        }
        self.lanes[lane].publish_opened(&self.sources);
        let expected = |slowdown| expected_share(&self.sources, &self.lanes, slowdown);
        let foreseen = self.cost.foresee(expected, self.plan.cpu_max);
        if let Some(pace) = foreseen {
            self.slow_down("gathering would take", pace, now);
        } else if self.cost.slowdown > 1 && self.lanes[lane].asked < SLOW_ENOUGH {
            self.lanes[lane].slow_down(self.cost.slowdown, now);
        }
    }

    /// Closes lanes without a reader: lanes of readings after [`LINGER`], and lanes of channels after [`CHANNEL_LINGER`]. If
    /// there are too many lanes of readings, the lane that was unread for the longest time closes. A lane that lives on obeys
    /// the CPU ceiling like any other: it runs slower, and a reader that comes back still finds it.
    pub(super) fn close_unread_lanes(&mut self) {
        let now = clock::boot();
        let mut index = 0;
        let (read, lanes) = (self.channels_read(), self.lanes.len());
        self.lanes.retain_mut(|lane| {
            index += 1;
            let linger = if lane.is_channel() { CHANNEL_LINGER } else { LINGER };
            index <= self.fixed_lanes || !lane.is_unread_for(linger, now)
        });
        let lingers = |lane: &&Lane| lane.unread_since.is_some() && !lane.is_channel();
        while self.lanes.iter().filter(lingers).count() > LINGERING_MAX {
            self.close_longest_unread(false);
        }
        // A channel may have been refused for want of the memory of any lane.
        if self.channels_read() < read || self.lanes.len() < lanes {
            self.channel_memory.was_left();
        }
    }

    /// Lanes of channels that were not found without a reader.
    fn channels_read(&self) -> usize {
        self.lanes.iter().filter(|lane| lane.is_channel() && lane.unread_since.is_none()).count()
    }

    /// Closes the lane of a channel that `by` wants and that has been without a reader for the longest time. `true`: there was one. A lane
    /// that was left just now goes last: its readers may be moving here from another hub.
    fn close_unread_channel(&mut self, by: WantedBy) -> bool {
        let is_unread = |lane: &&(usize, &Lane)| lane.1.readers() == 0 && lane.1.wanted_by() == Some(by);
        let since = |lane: &Lane| (lane.unread_since.is_none(), lane.unread_since);
        let unread = self.lanes.iter().enumerate();
        let first = unread.filter(|lane| is_unread(&lane)).min_by_key(|(_, lane)| since(lane));
        let Some((at, _)) = first else { return false };
        self.lanes.remove(at);
        true
    }

    /// Gives memory of lanes without a reader to lanes whose handler lacks memory for new series. If there may be room again, binds
    /// their handlers again, and tells readers whose channel was refused.
    pub(super) fn use_room_of_channels(&mut self) {
        for by in [WantedBy::Readers, WantedBy::Hub] {
            let lacks = |lane: &Lane| lane.wanted_by() == Some(by) && lane.lacks_memory();
            if self.lanes.iter().any(lacks) && self.close_unread_channel(by) {
                self.channel_memory.was_left();
            }
        }
        if self.channel_memory.take_room() {
            self.lanes.iter_mut().for_each(Lane::bind_again);
            self.inbox.channels_may_have_room();
        }
    }

    /// Closes the lane of channels, or of others, that has been without a reader for the longest time. `true`: there was one.
    fn close_longest_unread(&mut self, is_channel: bool) -> bool {
        let unread = |lane: &Lane| {
            lane.unread_since.filter(|_| lane.readers() == 0 && lane.is_channel() == is_channel)
        };
        let lanes = self.lanes.iter().enumerate();
        let first = lanes.filter_map(|(at, lane)| Some((unread(lane)?, at))).min();
        first.map(|(_, at)| self.lanes.remove(at)).is_some()
    }
}
