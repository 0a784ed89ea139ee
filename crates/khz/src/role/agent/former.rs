//! The lanes of channels that a hub wanted itself, as for its store, and that ended while the hub was away: a node runs such a
//! channel only for a while. Their rings stay, so that the hub gets the missed rows, and learns how long the node made none.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use khz_gather::LaneRing;
use khz_hub::RULES_PREFIX;
use khz_link::former;
use khz_model::Nanos;
use khz_model::calendar::utc;

use crate::role::agent::lanes::{AgentLane, ChannelWish};

/// The most rings that are kept: as many as channels that a hub keeps. Each has the rows of a minute at most.
const FORMER_MAX: usize = khz_channel::limits::KEPT_MAX;

/// A returning hub asks for its channels at once, and fetches the rows of former lanes within this time.
const FETCHED_WITHIN: Duration = Duration::from_secs(60);

/// How long a lane waits for its hub. Meanwhile the node may be at other hubs, which want other channels.
const WAITS: Duration = Duration::from_secs(3_600);

/// The lanes that a hub may still want rows of.
#[derive(Default)]
pub struct FormerLanes(Vec<FormerLane>);

struct FormerLane {
    ring: LaneRing,
    wish: ChannelWish,
    /// Its name on the link, once a hub has asked for the channel.
    offered: Option<Arc<str>>,
    /// When it goes.
    until: Instant,
}

/// A time in which a node did not execute a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    pub time: Nanos,
    /// Since 1970.
    pub end: Nanos,
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (begin, end) = (utc(self.end.since(self.time)), utc(self.end));
        let time = Nanos(self.time.0.next_multiple_of(Nanos::SECOND.0));
        write!(f, "no hub that keeps it was there: it has no rows of {time}, from {begin} to {end}")
    }
}

impl FormerLanes {
    /// The hub has gone, or has left the lane of a channel that it wanted itself. The lane goes on for a while, and then ends.
    pub fn left(&mut self, ring: LaneRing, wish: ChannelWish) {
        let is_known = |one: &FormerLane| one.ring.epoch() == ring.epoch();
        // The results of rules are of no use later.
        if wish.terms.name.as_str().starts_with(RULES_PREFIX) || self.0.iter().any(is_known) {
            return;
        }
        if self.0.len() == FORMER_MAX {
            self.0.remove(0);
        }
        self.0.push(FormerLane { ring, wish, offered: None, until: Instant::now() + FETCHED_WITHIN });
    }

    /// The connection has ended: these lanes wait for a hub that wants them.
    pub fn hang_up(&mut self) {
        for one in &mut self.0 {
            (one.offered, one.until) = (None, Instant::now() + WAITS);
        }
    }

    /// The hub wants a channel itself, which now runs in the lane with this epoch. Its former lanes are offered from now on.
    /// Returns how long the node did not execute the channel before now.
    pub fn came_back(&mut self, wish: &ChannelWish, epoch: u64) -> Option<Gap> {
        self.0.retain(|one| one.ring.epoch() != epoch);
        let mut time = None;
        for (at, one) in self.0.iter_mut().rev().filter(|one| one.wish == *wish).enumerate() {
            time = time.or_else(|| one.ring.ended_ago());
            one.offered = Some(former::name(&wish.terms.name, at + 1).into());
            one.until = Instant::now() + FETCHED_WITHIN;
        }
        let end = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        time.map(|time| Gap { time, end: Nanos(end.as_nanos() as u64) })
    }

    /// The lanes that are offered.
    pub fn offered(&self) -> impl Iterator<Item = AgentLane> {
        let lane = |one: &FormerLane| Some(AgentLane::former(one.ring.clone(), one.offered.clone()?));
        self.0.iter().filter_map(lane)
    }

    /// True if a hub has had its time for one of them.
    pub fn are_over(&self) -> bool {
        let now = Instant::now();
        self.0.iter().any(|one| one.until <= now)
    }

    /// Drops the lanes whose time is over. The link finishes what it sends.
    pub fn drop_over(&mut self) {
        let now = Instant::now();
        self.0.retain(|one| one.until > now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_said_with_its_span_and_its_ends() {
        let gap = Gap { time: Nanos::from_millis(73_400), end: Nanos::from_secs(1_795_435_200) };
        assert_eq!(
            gap.to_string(),
            "no hub that keeps it was there: it has no rows of 74s, from 2026-11-23 11:58:46 UTC to 2026-11-23 12:00:00 UTC"
        );
    }
}
