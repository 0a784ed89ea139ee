//! Base lanes of former epochs: a reader of every row gets the rows of each former lane, one lane after the other, and then the present
//! lane. So it lacks no epoch of a node that restarted several times while the reader was away. This file hands out no row.

use khz_model::Nanos;

use super::{Cursor, Numbers, ServedLane};
use crate::clock;
use crate::lane::Lane;
use crate::limits::GAP_WAIT;
use crate::node::{BASE, Lanes, Node};

/// What a reader of every row has of a node's former base lanes.
#[derive(Debug, Default)]
pub(super) struct Former {
    /// Lanes that it was given, each with how many rows were settled in it then. If more have come since, it gets the lane again.
    given: Vec<(u64, u64)>,
    /// How many rows the reader had of its lane when rows that it lacked were here. If it still has as many at the next look, these
    /// cannot be handed out.
    had: Option<u64>,
    /// When the reader was offered its lane.
    since: Nanos,
    /// The number after the newest row of its lane.
    end: u64,
    /// Its reader wanted the present lane, and gets others first: whatever becomes of that lane, it is offered again.
    goes_back: bool,
}

/// The base lanes of former epochs, oldest first.
fn former_bases(lanes: &Lanes) -> impl Iterator<Item = &Lane> {
    lanes.former().iter().filter(|lane| lane.name == BASE)
}

impl Former {
    /// The reader was given a lane.
    fn give(&mut self, lane: &Lane) {
        self.given.retain(|&(id, _)| id != lane.id);
        self.given.push((lane.id, lane.settled()));
        self.had = None;
    }

    fn lacks(&self, lane: &Lane) -> bool {
        lane.has_blocks() && !self.given.contains(&(lane.id, lane.settled()))
    }
}

impl Cursor {
    /// Its reader gets the rows of every epoch that is here. The reader is a hub, which says for each lane
    /// which rows it has.
    pub fn takes_every_epoch(&mut self) {
        if self.numbers == Numbers::Nodes && !self.is_of_channel() {
            self.former = Some(Box::default());
        }
    }

    /// The reader wants late rows, as far back as `span`. It does not want rows of former epochs, unless its lane was replaced and
    /// a former lane has rows of that time. `true`: such a lane comes first, and the present lane is offered again after it.
    pub(super) fn goes_back(&mut self, node: &Node, span: Nanos) -> bool {
        if self.numbers != Numbers::Nodes || self.is_of_channel() {
            return false;
        }
        if self.former.is_none() {
            // The present lane may have no row so far.
            let bases = former_bases(node.lanes()).chain(node.lanes().base());
            let newest = bases.filter_map(Lane::times).map(|(_, last)| last).max();
            let since = newest.map_or(Nanos(u64::MAX), |newest| newest.since(span));
            let is_old =
                |lane: &&Lane| span == Nanos(u64::MAX) || lane.times().is_none_or(|(_, last)| last < since);
            let mut former = Box::<Former>::default();
            former_bases(node.lanes()).filter(is_old).for_each(|lane| former.give(lane));
            self.former = Some(former);
        }
        let present = self.lane.map(|served| served.id);
        let goes_back = self.former_due(node).is_some_and(|due| Some(due) != present);
        self.former.iter_mut().for_each(|former| former.goes_back = goes_back);
        goes_back
    }

    /// The node, or the hub that speaks for it, refuses its subscription.
    fn is_refused_by(&self, node: &Node) -> bool {
        let subscription = self.subscribed.and_then(|number| node.subscriptions().get(number));
        subscription.is_some_and(|subscription| subscription.is_refused())
    }

    /// The oldest former lane of which the reader lacks rows. Its own lane comes to its end first.
    pub(super) fn former_due(&self, node: &Node) -> Option<u64> {
        let former = self.former.as_ref()?;
        let present = self.lane.map(|served| served.id);
        let rate = self.selection.terms.as_ref().and_then(|terms| terms.rate);
        // Where the base lane was too slow, the reader had a lane of its own.
        let is_refused = self.is_refused_by(node);
        let served = |lane: &&Lane| is_refused || rate.is_none_or(|rate| rate.period() >= lane.fastest());
        let due = |lane: &&Lane| former.lacks(lane) && (present == Some(lane.id) || served(lane));
        let is_own = |lane: &&Lane| Some(lane.id) == present && !former.goes_back;
        let own = former_bases(node.lanes()).find(|lane| is_own(lane) && due(lane));
        own.or_else(|| former_bases(node.lanes()).find(due)).map(|lane| lane.id)
    }

    /// True while rows of a former lane wait to be handed out. Late rows come after all rows in order.
    pub(super) fn has_rest_of_former(&mut self, node: &Node) -> bool {
        let Some(served) = self.lane else { return false };
        let Some(lane) = former_bases(node.lanes()).find(|lane| lane.id == served.id) else { return false };
        if self.former.as_ref().is_none_or(|former| former.goes_back) {
            return false;
        }
        let is_final = self.is_final(node, served);
        let end = served.newest(lane).map_or(0, |newest| newest + 1);
        if self.begun {
            if self.has_more(node) {
                return true;
            }
            self.expected = self.expected.max(end);
        }
        let had = self.missing.as_ref().map_or(0, super::Missing::settled);
        let is_here = self.begun && !self.missing_here(node, is_final).is_empty();
        let Some(former) = &mut self.former else { return false };
        former.end = end;
        let is_offered = !self.begun && clock::boot().since(former.since) < GAP_WAIT;
        if is_offered {
            return false;
        }
        if is_here && former.had != Some(had) {
            former.had = Some(had);
            self.missing.iter_mut().for_each(super::Missing::retry);
            return true;
        }
        former.give(lane);
        former.given.retain(|&(id, _)| former_bases(node.lanes()).any(|lane| lane.id == id));
        false
    }

    /// The cursor goes to another lane.
    pub(super) fn offers_lane(&mut self) {
        if let Some(former) = &mut self.former {
            (former.since, former.had, former.end, former.goes_back) = (clock::boot(), None, 0, false);
        }
    }

    /// True if no other base lane has the same rows for this reader.
    pub(super) fn is_final(&self, node: &Node, served: ServedLane) -> bool {
        let has_them = |lane: &Lane| {
            lane.name == BASE
                && lane.id != served.id
                && ServedLane::of(lane, self.period).epoch() == served.epoch()
        };
        !node.lanes().all().any(has_them)
    }

    /// True if rows that are missing in a lane which the cursor leaves may come in another one, or when it is back.
    pub(super) fn goes_on_elsewhere(
        &self,
        node: &Node,
        served: &ServedLane,
        wanted: Option<ServedLane>,
    ) -> bool {
        if self.numbers != Numbers::Nodes {
            return false;
        }
        let is_same = wanted.is_some_and(|wanted| wanted.epoch() == served.epoch());
        let is_base = || node.lanes().base().is_some_and(|base| base.id == served.id);
        is_same || self.former.is_some() && (is_base() || !self.is_final(node, *served))
    }

    /// The rows of a former lane that will not come: all that are not here. Rows that a hub below has may come later, in the same
    /// epoch.
    pub(super) fn never_come(&self, node: &Node, served: &ServedLane) -> Vec<(u64, u64)> {
        let end = self.former.as_ref().map_or(0, |former| former.end);
        match node.lanes().get_or_former(served.id).filter(|lane| lane.is_fed() && lane.name == BASE) {
            Some(lane) => {
                let lost = lane.late.lost(0, u64::MAX);
                let numbers = |(from, to): (u64, u64)| (from.div_ceil(served.every), to / served.every);
                lost.into_iter().map(numbers).map(|(from, to)| (from, to.min(self.expected))).collect()
            }
            None => vec![(0, self.expected.max(end))],
        }
    }
}
