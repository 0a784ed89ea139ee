//! A hub that stood still, alone or with its machine. Another hub may have taken over meanwhile. It sends no messages before it has
//! begun again, as after a restart.

use std::time::{Duration, Instant};

use khz_rules::SavedOwn;

use super::super::clock::{now, wall};
use super::super::custody::Custody;
use super::super::firings::Firings;
use super::Sharing;

/// A hub whose last look is older than this stood still, and others are about to take over.
const STOOD_STILL: Duration = Duration::from_secs(8);

/// A moment by both clocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub at: Instant,
    /// The time by which rules are judged, in ms since 1970.
    pub now: i64,
    /// The wall clock, in ms since 1970.
    pub wall: i64,
}

impl Moment {
    pub fn now() -> Self {
        Moment { at: Instant::now(), now: now(), wall: wall() }
    }

    /// The time until a later moment, by the clock that shows more. After a pause of a virtual machine, only the wall clock may
    /// show it.
    fn until(self, later: Moment) -> Duration {
        let by_wall = Duration::from_millis(u64::try_from(later.wall.saturating_sub(self.wall)).unwrap_or(0));
        later.at.saturating_duration_since(self.at).max(by_wall)
    }
}

impl Sharing {
    /// Checks by both clocks whether this hub stood still, since one clock may have stopped, too. If so, it sends no messages
    /// before it has begun again.
    pub fn notice(&mut self) -> bool {
        self.notice_at(Moment::now())
    }

    pub(super) fn notice_at(&mut self, moment: Moment) -> bool {
        let pause = self.looked.map(|looked| looked.until(moment)).unwrap_or_default();
        if pause >= STOOD_STILL {
            let seconds = pause.as_secs();
            tracing::warn!(
                "this hub stood still for {seconds} s, or its clock was set: it first asks the others what has become of its alerts"
            );
            let by_steady = |looked: Moment| moment.at.saturating_duration_since(looked.at) >= STOOD_STILL;
            self.has_paused |= self.looked.is_some_and(by_steady);
            (self.stood_still, self.looked) = (true, Some(moment));
        }
        self.stood_still
    }

    /// Whether time has passed during the standstill. If not, only the clock was set, as far as this machine knows.
    pub fn has_paused(&self) -> bool {
        self.has_paused
    }

    /// Begins again after it stood still, as after a restart: the other hubs may have taken over.
    pub fn begin_again(&mut self) {
        self.begin_again_at(Instant::now());
    }

    pub(super) fn begin_again_at(&mut self, at: Instant) {
        self.custody = Custody::new(&self.custody.names(), at);
        (self.begun, self.looked, self.stood_still) = (at, None, false);
        self.has_paused = false;
        let own: Vec<SavedOwn> = self.firings.own().cloned().collect();
        self.firings = Firings::restore(&own);
        (self.fired_there, self.came_from) = Default::default();
        self.undecided.clear();
        self.of_others.clear();
    }
}
