//! A hub that stood still, with its machine or alone: another hub may have taken over meanwhile. It tells nobody anything before it has
//! begun again, as after a restart.

use std::time::{Duration, Instant};

use khz_rules::SavedOwn;

use super::super::clock::{now, wall};
use super::super::custody::Custody;
use super::super::firings::Firings;
use super::Sharing;

/// A hub that has not looked for longer stood still: others are about to take over.
const STOOD_STILL: Duration = Duration::from_secs(8);

/// A moment by both clocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub at: Instant,
    /// By which rules are judged, in ms since 1970.
    pub now: i64,
    /// The wall clock, in ms since 1970.
    pub wall: i64,
}

impl Moment {
    pub fn now() -> Self {
        Moment { at: Instant::now(), now: now(), wall: wall() }
    }

    /// How long it is until a later moment, by the clock that says more: of a virtual machine that was paused, only the wall clock may
    /// know.
    fn until(self, later: Moment) -> Duration {
        let by_wall = Duration::from_millis(u64::try_from(later.wall.saturating_sub(self.wall)).unwrap_or(0));
        later.at.saturating_duration_since(self.at).max(by_wall)
    }
}

impl Sharing {
    /// Notices that this hub stood still, by either clock: one of them may have stood still, too. Then nothing is told before it has
    /// begun again.
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
            (self.stood_still, self.looked) = (true, Some(moment));
        }
        self.stood_still
    }

    /// Begins again after it stood still, as after a restart: the other hubs may have taken over.
    pub fn begin_again(&mut self) {
        self.begin_again_at(Instant::now());
    }

    pub(super) fn begin_again_at(&mut self, at: Instant) {
        self.custody = Custody::new(&self.custody.names(), at);
        (self.begun, self.looked, self.stood_still) = (at, None, false);
        let own: Vec<SavedOwn> = self.firings.own().cloned().collect();
        self.firings = Firings::restore(&own);
        (self.fired_there, self.came_from) = Default::default();
        self.undecided.clear();
    }
}
