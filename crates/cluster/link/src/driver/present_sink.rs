//! What comes on a reader's present connection, before the reader's own sink gets it. It removes lanes of subscriptions that have
//! ended, and lists of nodes that the reader has not requested.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use khz_block::Decoder;
use khz_model::{NodeStatus, Stamp};

use crate::definition::DefinitionFrame;
use crate::driver::following::{Requests, lock};
use crate::lane_sink::{Accept, LaneKey, LaneSink};
use crate::message::{LaneOffer, Told};
use crate::texts::{NoText, TextGiven};
use crate::whereabouts::Up;

/// The list of nodes that a hub sends: for the reader's sink, and to find the hub where the nodes are.
#[derive(Debug, Default)]
pub(super) struct NodeList {
    /// The hub sends it.
    is_sent: bool,
    shown: Shown,
    /// We note its nodes.
    looks: bool,
    up: Up,
    lacks: bool,
    complete: Option<(Up, bool)>,
}

/// Whether the sink gets the list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Shown {
    #[default]
    No,
    /// From the beginning of the next list.
    Next,
    Yes,
}

impl NodeList {
    /// The sink wants the list, or the nodes are to be noted. Returns the request for the hub, if it has
    /// changed.
    pub fn want(&mut self, is_shown: bool, looks: bool) -> Option<bool> {
        let is_new = !self.is_sent;
        self.shown = match (is_shown, self.shown) {
            (false, _) => Shown::No,
            (true, Shown::No) if is_new => Shown::Yes,
            (true, Shown::No) => Shown::Next,
            (true, shown) => shown,
        };
        if looks && !self.looks {
            // Until the list ends, nodes that come may be the rest of an earlier list.
            (self.up, self.lacks, self.complete) = (Up::new(), false, None);
        }
        self.looks = looks;
        let is_wanted = is_shown || looks;
        (std::mem::replace(&mut self.is_sent, is_wanted) != is_wanted).then_some(is_wanted)
    }

    /// A node that the reader follows, and whether it gets its rows here.
    fn take(&mut self, status: &NodeStatus, is_served: bool) {
        match is_served {
            true => drop(self.up.insert(status.node.as_str().to_owned())),
            false => self.lacks = true,
        }
    }

    /// The list is complete; `true` if the sink gets that.
    fn end(&mut self) -> bool {
        if self.looks {
            self.complete = Some((std::mem::take(&mut self.up), std::mem::take(&mut self.lacks)));
        }
        match self.shown {
            Shown::Yes => true,
            Shown::Next => {
                self.shown = Shown::Yes;
                false
            }
            Shown::No => false,
        }
    }

    /// The nodes that are up and that the reader follows, and whether some followed nodes are not up; each list is
    /// returned once.
    pub fn take_complete(&mut self) -> Option<(Up, bool)> {
        self.complete.take()
    }
}

/// The sink, without lanes of subscriptions that ended while the offer was under way.
pub(super) struct PresentSink<'a, S> {
    pub sent: &'a HashSet<u32>,
    pub nodes: &'a mut NodeList,
    pub requests: &'a Mutex<Requests>,
    pub sink: &'a mut S,
}

impl<S: LaneSink> LaneSink for PresentSink<'_, S> {
    fn wants_missed(&self) -> bool {
        self.sink.wants_missed()
    }
    fn offered(&mut self, lane: &LaneKey, offer: &LaneOffer<'_>) -> Option<Accept> {
        if offer.interest != 0 && !self.sent.contains(&offer.interest) {
            return None;
        }
        self.sink.offered(lane, offer)
    }
    fn changed(&mut self, lane: &LaneKey, offer: &LaneOffer<'_>) {
        self.sink.changed(lane, offer);
    }
    fn declined(&mut self, lane: &LaneKey) {
        self.sink.declined(lane);
    }
    fn schema(&mut self, lane: &LaneKey, generation: u32, offset: u64, bytes: &[u8]) {
        self.sink.schema(lane, generation, offset, bytes);
    }
    fn row(&mut self, lane: &LaneKey, number: u64, row: &Decoder) {
        self.sink.row(lane, number, row);
    }
    fn block(&mut self, lane: &LaneKey, bytes: &[u8]) {
        self.sink.block(lane, bytes);
    }
    fn past(&mut self, lane: &LaneKey, bytes: &[u8]) {
        self.sink.past(lane, bytes);
    }
    fn lost(&mut self, lane: &LaneKey, from: u64, to: u64) {
        self.sink.lost(lane, from, to);
    }
    fn answered(&mut self, told: &Told<'_>) {
        self.sink.answered(told);
    }
    fn closed(&mut self, lane: &LaneKey) {
        self.sink.closed(lane);
    }
    fn node(&mut self, status: &NodeStatus) {
        if self.nodes.looks {
            let requests = lock(self.requests);
            if requests.follows(status.node.as_str()) {
                self.nodes.take(status, requests.are_served(status));
            }
        }
        if self.nodes.shown == Shown::Yes {
            self.sink.node(status);
        }
    }
    fn clock(&mut self, ahead: Option<i64>) {
        self.sink.clock(ahead);
    }
    fn nodes_end(&mut self) {
        if self.nodes.end() {
            self.sink.nodes_end();
        }
    }
    fn definition(&mut self, definition: &DefinitionFrame<'_>) {
        self.sink.definition(definition);
    }
    fn definitions_end(&mut self) {
        self.sink.definitions_end();
    }
    fn no_definitions(&mut self) {
        self.sink.no_definitions();
    }
    fn text(&mut self, number: u32, text: &Arc<[u8]>, stamp: Stamp) {
        self.sink.text(number, text, stamp);
    }
    fn no_text(&mut self, none: &NoText<'_>) {
        self.sink.no_text(none);
    }
    fn text_given(&mut self, given: TextGiven) {
        self.sink.text_given(given);
    }
}
