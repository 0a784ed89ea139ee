//! The interface to a reader: the calls that the reader's end makes when frames arrive, and how a lane is named and accepted. It
//! keeps nothing.

use std::sync::Arc;

use khz_block::Decoder;
use khz_model::{Nanos, NodeStatus, Stamp};

use crate::definition::DefinitionFrame;
use crate::intake::RowSink;
use crate::message::{LaneOffer, Told};
use crate::texts::{NoText, TextGiven};

/// The key of a lane, on every connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LaneKey {
    /// The node whose lane it is.
    pub node: String,
    /// The lane's name.
    pub name: String,
    /// Its epoch.
    pub epoch: u64,
}

/// The rows of a lane that a sink already has, from any connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// It wants no rows before this one.
    pub from: u64,
    /// Ranges of later rows that it already has, in order, at most [`crate::limits::HAVE_MAX`].
    pub ranges: Vec<(u64, u64)>,
}

/// How a reader accepts a lane that is offered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accept {
    /// How far back it wants rows; 0: only rows from now on, and missed rows if
    /// [`LaneSink::wants_missed`].
    pub span: Nanos,
    /// Every row at once, instead of flushed.
    pub prompt: bool,
    /// The first row that it wants of a lane that is new here. It may be older than the offer: then the reader wants the rows since an
    /// earlier start of its program. `None`: rows from now on.
    pub from: Option<u64>,
    /// The sink itself knows which rows it has of this lane. It gets all other rows, also late ones, whatever their age. `None`: the
    /// rows that came over this end count.
    pub held: Option<Held>,
}

/// Takes what arrives at a reader's end. `khz_follow::Follower` is the one for readings.
pub trait LaneSink {
    /// True if it takes late rows: rows that it missed while there was no connection, and rows that the hub received after
    /// newer ones. If false, such rows are lost.
    fn wants_missed(&self) -> bool {
        false
    }
    /// The hub offers a lane. `None`: refused.
    fn offered(&mut self, lane: &LaneKey, offer: &LaneOffer<'_>) -> Option<Accept>;
    /// An accepted lane has other slots or another period from now on.
    fn changed(&mut self, lane: &LaneKey, offer: &LaneOffer<'_>) {
        let _ = (lane, offer);
    }
    /// The next bytes of a generation's schema; `offset` 0 begins the schema.
    fn schema(&mut self, lane: &LaneKey, generation: u32, offset: u64, bytes: &[u8]);
    /// A lane was not accepted, because it stands in for a faster one. The reader has other hubs, which may have
    /// the faster lane.
    fn declined(&mut self, lane: &LaneKey) {
        let _ = lane;
    }
    /// As in [`RowSink::row`].
    fn row(&mut self, lane: &LaneKey, number: u64, row: &Decoder);
    /// As in [`RowSink::block`]. At the end of a connection or a subscription it also gets the rows of the open block.
    fn block(&mut self, lane: &LaneKey, bytes: &[u8]);
    /// As in [`RowSink::past`].
    fn past(&mut self, lane: &LaneKey, bytes: &[u8]) {
        self.block(lane, bytes);
    }
    /// As in [`RowSink::lost`].
    fn lost(&mut self, lane: &LaneKey, from: u64, to: u64);
    /// The hub answers a subscription.
    fn answered(&mut self, told: &Told<'_>);
    /// Nothing more comes in the lane.
    fn closed(&mut self, lane: &LaneKey);
    /// The state of a node, in a list of all nodes.
    fn node(&mut self, status: &NodeStatus) {
        let _ = status;
    }
    /// The list of nodes is complete.
    fn nodes_end(&mut self) {}
    /// The hub's clock is this much ahead of this machine's (ns). `None`: one of the clocks was set, and the difference was not
    /// measured again yet.
    fn clock(&mut self, ahead: Option<i64>) {
        let _ = ahead;
    }
    /// A channel of the hub, in a list of all of them.
    fn definition(&mut self, definition: &DefinitionFrame<'_>) {
        let _ = definition;
    }
    /// The list of channels is complete.
    fn definitions_end(&mut self) {}
    /// This hub is too old to list its channels.
    fn no_definitions(&mut self) {}
    /// The kernel file of a subscription has this text from now on.
    fn text(&mut self, number: u32, text: &Arc<[u8]>, stamp: Stamp) {
        let _ = (number, text, stamp);
    }
    /// A kernel file has no text.
    fn no_text(&mut self, none: &NoText<'_>) {
        let _ = none;
    }
    /// A request to read a kernel file now was answered: the file was read after the request, or its node cannot be
    /// asked.
    fn text_given(&mut self, given: TextGiven) {
        let _ = given;
    }
}

/// Binds a lane's key to the sink.
pub(crate) struct Named<'a, S>(pub &'a LaneKey, pub &'a mut S);

impl<S: LaneSink> RowSink for Named<'_, S> {
    fn row(&mut self, number: u64, row: &Decoder) {
        self.1.row(self.0, number, row);
    }
    fn block(&mut self, bytes: &[u8]) {
        self.1.block(self.0, bytes);
    }
    fn past(&mut self, bytes: &[u8]) {
        self.1.past(self.0, bytes);
    }
    fn lost(&mut self, from: u64, to: u64) {
        self.1.lost(self.0, from, to);
    }
}
