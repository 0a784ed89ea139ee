//! Which lane of the node serves a cursor, and how the cursor goes from one lane to the next.

use khz_block::Decoder;

use super::missing::Missing;
use super::{ANY, Columns, Cursor, Event, Numbers, ServedLane};
use crate::node::{Link, Node};

impl Cursor {
    /// The lane that serves the subscription; the base lane without one, and after a refusal. A channel has no other lane.
    fn lane_of(&self, node: &Node) -> Option<ServedLane> {
        let present = self.lane.map(|served| served.id);
        let base = || node.lanes().base().map(|lane| lane.id);
        // Until another answer comes.
        let mut stands_in = self.lane.is_some_and(|served| served.stands_in);
        let id = match self.subscribed.map(|number| node.subscriptions().get(number)) {
            None if self.is_of_channel() => None,
            None => self.former_due(node).or_else(base),
            Some(Some(subscription)) if subscription.is_refused() && self.is_of_channel() => None,
            Some(Some(subscription)) if subscription.is_refused() => {
                stands_in = node.link().link().is_some_and(Link::is_through_hub);
                self.former_due(node).or_else(base)
            }
            // The present lane continues until the node has answered, and while the node is down. If the reader returns
            // to a lane that it left, it continues with the next row: older rows of that lane are not delivered, and rows
            // in between do not count as lost.
            Some(Some(subscription)) => {
                let has_rows =
                    |id| present == Some(id) || node.lanes().get(id).is_some_and(|lane| !lane.late.begins());
                let own = || subscription.lane().filter(|&id| has_rows(id)).or(present);
                if self.is_of_channel() { own() } else { self.former_due(node).or_else(own) }
            }
            Some(None) => None,
        };
        let lane = node.lanes().get_or_former(id?)?;
        let mut served = ServedLane::of(lane, self.period);
        served.stands_in = stands_in && lane.period > self.period;
        Some(served)
    }

    /// Moves to the lane that serves now, once all rows of the previous lane are handed out. `true`: they are not, so
    /// there is more to read.
    pub(super) fn change_lane_when_over(&mut self, take: &mut impl FnMut(Event<'_>)) -> bool {
        let shared = self.node.clone();
        let mut node = shared.lock();
        self.subscribe_as_needed(&mut node);
        if self.has_rest_of_former(&node) {
            return true;
        }
        let wanted = self.lane_of(&node);
        match (&mut self.lane, wanted) {
            (Some(present), Some(wanted)) if present.is(&wanted) => {
                *present = wanted;
                return false;
            }
            (None, None) => return false,
            _ => {}
        }
        if self.begun && self.has_more(&node) {
            return true;
        }
        let before = self.lane;
        let (rest, lost) = match before.filter(|served| !self.goes_on_elsewhere(&node, served, wanted)) {
            Some(served) => (self.rest_of(&node), self.never_come(&node, &served)),
            None => (Vec::new(), Vec::new()),
        };
        let missing = self.leave_lane(&mut node);
        self.lane = wanted;
        self.offers_lane();
        let mut gap = 0;
        let first = wanted.and_then(|served| self.first_of_channel(&node, served.id));
        if let Some((served, lane)) = wanted.and_then(|f| Some((f, node.lanes_mut().get_mut(f.id)?))) {
            lane.readers += 1;
            if let Some(first) = first {
                // The rows of a channel come at any time, so time does not tell how many the epoch before had.
                (self.first, self.expected, self.place) = (first, first, lane.join_at(first));
            } else {
                self.place = lane.join();
                // Readers of the first version know no epochs. All others see another one, and no row of it is lost.
                gap = self.last.map_or(0, |last| lane.ticks_since(last, served.period()));
                self.expected = served.newest(lane).unwrap_or(ANY);
            }
        }
        drop(node);
        let was_bare = std::mem::take(&mut self.is_bare);
        (self.decoder, self.skipped, self.is_past) = (Decoder::new(), true, false);
        self.columns = Columns::default();
        self.begun &= self.numbers != Numbers::Nodes;
        if let Some((served, mut missing)) = before.zip(missing) {
            for (block, rows) in rest {
                self.late_rows(served, &mut missing, &block, rows, take);
            }
            let lost = lost.into_iter().flat_map(|(from, to)| missing.holes(from, to));
            lost.for_each(|(from, to)| take(Event::Lost(from, to)));
        }
        if before.is_some() {
            match self.numbers {
                Numbers::Nodes => take(Event::Over),
                Numbers::Hubs if gap > 0 && !was_bare => take(Event::Lost(0, gap)),
                Numbers::Doors | Numbers::Hubs => {}
            }
        }
        false
    }

    /// The first row that it gets out of a channel's lane: the first since its reader came.
    fn first_of_channel(&self, node: &Node, lane: u64) -> Option<u64> {
        if !self.is_of_channel() {
            return None;
        }
        let lane = node.lanes().get(lane)?;
        let served = || node.subscriptions().get(self.subscribed?)?.start();
        let start = self.start.into_iter().chain(served()).find(|start| start.epoch == lane.epoch);
        Some(start.map_or_else(|| lane.next_row().max(lane.next_offered), |start| start.row))
    }

    /// True if rows of the present lane wait to be handed out.
    pub(super) fn has_more(&self, node: &Node) -> bool {
        let lane = self.lane.and_then(|served| node.lanes().get_or_former(served.id));
        lane.is_some_and(|lane| !lane.is_read(&self.place))
    }

    /// The reader does not follow its lane any more. Returns which of its rows were missing.
    pub(super) fn leave_lane(&mut self, node: &mut Node) -> Option<Missing> {
        let missing = self.missing.take();
        if let Some(lane) = self.lane.take().and_then(|served| node.lanes_mut().get_mut(served.id)) {
            lane.readers = lane.readers.saturating_sub(1);
            self.leave_gap(lane);
            if let Some(missing) = &missing {
                missing.leave(lane);
            }
        }
        missing
    }
}
