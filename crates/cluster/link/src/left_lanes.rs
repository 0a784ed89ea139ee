//! Which times a reader has of one node's lanes of one name, after it has left them: for each epoch, the time from its first to its
//! last row. Rows of these times are not taken in another lane; rows of the times between are. This file has no rows, and knows no
//! hub.

use khz_model::{Nanos, Stamp};

use crate::epoch::have_same_rows;
use crate::intake::Intake;
use crate::span::{NodeClock, Span, are_of_one_boot};

/// Epochs that are remembered. A hub has the lanes of a node's present epoch and of eight earlier ones. Each may be here twice: with all
/// rows, and with one row in place of several.
const EPOCHS_MAX: usize = 18;

/// Rows that are further apart than this, by our clock, have a gap between them: nodes flush once a second, and hubs pass rows on.
pub(crate) const OVERLAP: Nanos = Nanos::from_secs(2);

/// Lanes of one node and name that were left.
#[derive(Debug)]
pub(crate) struct LeftLanes {
    /// The lane that was left last is at the end.
    lanes: Vec<LeftLane>,
    /// The node's clock, in the boot from which the last rows came.
    clock: Option<NodeClock>,
    /// The time of the newest row of the lanes that are no longer remembered.
    forgotten: Option<Stamp>,
    /// The time of the newest of all rows, by our clock. Since then a hub may have been away, while another lane began.
    end: Nanos,
}

#[derive(Clone, Copy, Debug)]
struct LeftLane {
    epoch: u64,
    /// When the rows that came were gathered, by the node's clock.
    span: Option<Span>,
    /// The same times by our clock. They are unknown if all rows came late and nobody knows the
    /// node's clock.
    here: Option<(Nanos, Nanos)>,
}

impl LeftLanes {
    /// No lane was left yet. The first lane began at `begun`.
    pub fn new(begun: Nanos) -> Self {
        LeftLanes { lanes: Vec::new(), clock: None, forgotten: None, end: begun }
    }

    /// A lane is left.
    pub fn leave(&mut self, epoch: u64, intake: &Intake) {
        self.clock = intake.clock().or(self.clock);
        let known = self.lanes.iter().find(|lane| lane.epoch == epoch).and_then(|lane| lane.span);
        let span = known.into_iter().chain(intake.span()).reduce(Span::with);
        let here = |span: Span| {
            let clock = self.clock?;
            Some((clock.here(span.first)?, clock.here(span.last)?))
        };
        let here = span.and_then(here);
        self.end = here.map_or(self.end, |(_, last)| last.max(self.end));
        self.lanes.retain(|lane| lane.epoch != epoch);
        self.lanes.push(LeftLane { epoch, span, here });
        if self.lanes.len() > EPOCHS_MAX {
            self.forget_oldest();
        }
    }

    /// Forgets the lane whose rows are oldest. After that, no row that is as old as the forgotten rows is
    /// taken.
    fn forget_oldest(&mut self) {
        let newest_of = |lane: &LeftLane| lane.here.map(|(_, last)| last);
        let oldest = (0..self.lanes.len()).min_by_key(|&at| newest_of(&self.lanes[at]));
        let Some(lane) = oldest.map(|at| self.lanes.remove(at)) else { return };
        let last = lane.span.map(|span| span.last);
        self.forgotten = self.forgotten.into_iter().chain(last).max_by_key(|stamp| stamp.real());
    }

    /// When the newest of all rows was gathered, by our clock.
    pub fn end(&self) -> Nanos {
        self.end
    }

    /// The node's clock, as far as it is known.
    pub fn clock(&self) -> Option<NodeClock> {
        self.clock
    }

    /// The epochs of the lanes; the epoch that was left last comes last.
    pub fn epochs(&self) -> impl Iterator<Item = u64> {
        self.lanes.iter().map(|lane| lane.epoch)
    }

    /// True if one of the lanes has other rows than those of this epoch.
    pub fn have_others(&self, epoch: u64) -> bool {
        self.forgotten.is_some() || self.others(epoch).next().is_some()
    }

    fn others(&self, epoch: u64) -> impl Iterator<Item = &LeftLane> {
        self.lanes.iter().filter(move |lane| !have_same_rows(lane.epoch, epoch))
    }

    /// The times whose rows a lane does not need: the other lanes have them, or they are from before `begun`, by our clock. If the
    /// reader no longer knows which rows of this lane it has, the times of this lane are included.
    pub fn times_elsewhere(&self, epoch: u64, is_known: bool, begun: Nanos) -> Vec<Span> {
        let until = |last: Stamp| Span { first: Stamp { boot: Nanos(0), ..last }, last };
        let has_them = |lane: &&LeftLane| !(is_known && have_same_rows(lane.epoch, epoch));
        let lanes = self.lanes.iter().filter(has_them).filter_map(|lane| lane.span);
        lanes.chain(self.forgotten.map(until)).chain(self.before(begun).into_iter().map(until)).collect()
    }

    /// For each boot of the node that has rows: the last moment before `begun`. If rows here began before that, the
    /// moment is before those rows.
    fn before(&self, begun: Nanos) -> Vec<Stamp> {
        let mut known: Vec<Stamp> = Vec::new();
        for (span, (first, last)) in self.lanes.iter().filter_map(|lane| lane.span.zip(lane.here)) {
            let ago = last.since(begun.min(first)).0;
            let Some(boot) = span.last.boot.0.checked_sub(ago).and_then(|boot| boot.checked_sub(1)) else {
                continue;
            };
            let stamp = Stamp { boot: Nanos(boot), ..span.last };
            match known.iter_mut().find(|one| are_of_one_boot(**one, stamp)) {
                Some(one) => one.boot = one.boot.min(stamp.boot),
                None => known.push(stamp),
            }
        }
        known
    }

    /// Returns the time, by our clock, since which rows may exist that no lane has.
    pub fn lacks_since(&self, begun: Nanos) -> Nanos {
        until(self.lanes.iter(), begun)
    }

    /// Like [`LeftLanes::lacks_since`], but for the time after the newest row of an epoch; `None`:
    /// there are no rows of that epoch.
    pub fn lacks_after(&self, epoch: u64) -> Option<Nanos> {
        let (_, last) = self.own(epoch)?;
        Some(until(self.others(epoch), last))
    }

    /// When the oldest row of an epoch was gathered, by our clock.
    pub fn first(&self, epoch: u64) -> Option<Nanos> {
        self.own(epoch).map(|(first, _)| first)
    }

    /// The time from the first to the last row of an epoch, by our clock.
    fn own(&self, epoch: u64) -> Option<(Nanos, Nanos)> {
        let own = self.lanes.iter().filter(|lane| have_same_rows(lane.epoch, epoch));
        own.filter_map(|lane| lane.here).reduce(|one, two| (one.0.min(two.0), one.1.max(two.1)))
    }
}

/// The time until which lanes have rows without a gap, starting at `from`.
fn until<'a>(lanes: impl Iterator<Item = &'a LeftLane>, from: Nanos) -> Nanos {
    let mut here: Vec<(Nanos, Nanos)> = lanes.filter_map(|lane| lane.here).collect();
    here.sort_unstable();
    let follows = |until: Nanos, first: Nanos| first.0 <= until.0.saturating_add(OVERLAP.0);
    here.into_iter().fold(
        from,
        |until, (first, last)| {
            if follows(until, first) { until.max(last) } else { until }
        },
    )
}
