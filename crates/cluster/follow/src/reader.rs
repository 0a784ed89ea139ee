//! What a reader of rows implements. All calls come on the link's thread and must be short: while one of them runs, no rows
//! are received, and the hub may drop some for this reader.

use std::sync::Arc;

use khz_block::BlockError;
use khz_link::texts::{NoText, TextGiven};
use khz_link::{Held, HubName, LaneOffer};
use khz_model::{ChannelName, NodeName, NodeStatus, Stamp};

use crate::lane::{Lane, Lanes};
use crate::row::Row;

/// A channel that a hub keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defined {
    /// Its name.
    pub name: ChannelName,
    /// Its definition: a JSON object, as docs/channels.md describes it. Not checked.
    pub json: String,
}

/// Reads rows of many nodes.
///
/// The order of calls for a lane: [`Reader::offered`], then [`Reader::columns`], [`Reader::row`], [`Reader::past`], [`Reader::lost`]
/// and [`Reader::changed`] in any number, then [`Reader::closed`] once.
pub trait Reader: Sized {
    /// How this reader names its subscriptions.
    type Subscription: Clone;
    /// What this reader keeps of each lane, in [`Lane::data`].
    type Lane;

    /// A hub offers a lane of a node for a subscription. `None`: the reader does not want it.
    fn offered(
        &mut self,
        node: &NodeName,
        offer: &LaneOffer<'_>,
        subscription: &Self::Subscription,
    ) -> Option<Self::Lane>;

    /// The first row of a lane that this reader wants, if it wants rows from before the offer: those since an earlier start of its
    /// program. `None`: it takes rows from now on.
    fn wants_from(&self, lane: &Self::Lane) -> Option<u64> {
        let _ = lane;
        None
    }

    /// The rows of a lane that this reader has, if it wants all others, however old; those that come late come to [`Reader::past`].
    /// `None`: it takes no late rows.
    fn held(&self, lane: &Self::Lane) -> Option<Held> {
        let _ = lane;
        None
    }

    /// A lane has another period, or will have other series.
    fn changed(&mut self, lane: &mut Lane<Self>) {
        let _ = lane;
    }

    /// The next bytes of a generation's schema; `offset` 0 begins it. `true`: the reader decodes schemas itself, so its lanes
    /// have no series.
    fn schema(&mut self, lane: &mut Lane<Self>, generation: u32, offset: u64, bytes: &[u8]) -> bool {
        let _ = (lane, generation, offset, bytes);
        false
    }

    /// A schema contradicts itself. Called once for each generation; slots without a series stay without one.
    fn damaged(&mut self, lane: &mut Lane<Self>, error: &BlockError) {
        tracing::warn!("the series of {}: {error}", lane.node());
    }

    /// The columns of a lane have changed: they are [`Lane::series`] from now on. The first `known` are those of the call
    /// before; 0: all are new. No series at all: the node has nothing of what the subscription selects.
    fn columns(&mut self, lane: &mut Lane<Self>, known: usize) {
        let _ = (lane, known);
    }

    /// The next row of a lane.
    fn row(&mut self, lane: &mut Lane<Self>, row: &Row<'_>);

    /// A closed block of rows that came late, header and rows: [`Reader::row`] did not show them.
    fn past(&mut self, lane: &mut Lane<Self>, block: &[u8]) {
        let _ = (lane, block);
    }

    /// Rows of a lane, the last not included, that will not come.
    fn lost(&mut self, lane: &mut Lane<Self>, from: u64, to: u64) {
        let _ = (lane, from, to);
    }

    /// Nothing more comes in a lane: the hub has closed it, or the connection has ended for this reason.
    fn closed(&mut self, lane: Lane<Self>, ended: Option<&str>) {
        let _ = (lane, ended);
    }

    /// The hub refuses a subscription (`granted` is false), or says how it serves it. A subscription that is granted without
    /// a text needs no notice.
    fn notice(&mut self, subscription: &Self::Subscription, granted: bool, text: &str);

    /// A node refuses a channel that the hub grants of other nodes, for this reason.
    fn refused(&mut self, subscription: &Self::Subscription, node: &NodeName, text: &str) {
        self.notice(subscription, true, &format!("{node}: {text}"));
    }

    /// A part of the list of nodes; `is_last` ends the list.
    fn nodes(&mut self, nodes: Vec<NodeStatus>, is_last: bool) {
        let _ = (nodes, is_last);
    }

    /// The hub's clock is this much ahead of this machine's (ns), which is measured each second. `None`: one of the two was set, and is
    /// not measured again so far.
    fn clock(&mut self, ahead: Option<i64>) {
        let _ = ahead;
    }

    /// All channels of the hub, by name. `None`: this hub is older than such lists.
    fn channels(&mut self, channels: Option<Vec<Defined>>) {
        let _ = channels;
    }

    /// The kernel text with this number has changed.
    fn text(&mut self, number: u32, text: &Arc<[u8]>, stamp: Stamp) {
        let _ = (number, text, stamp);
    }

    /// A request to read a kernel text now was answered.
    fn text_answered(&mut self, answer: TextGiven) {
        let _ = answer;
    }

    /// A kernel text does not come.
    fn no_text(&mut self, none: &NoText<'_>) {
        let _ = none;
    }

    /// A hub has accepted us.
    fn up(&mut self, hub: &HubName) {
        let _ = hub;
    }

    /// There is no connection. All lanes were closed before. Called once, however many attempts to connect fail.
    fn down(&mut self, problem: &str) {
        let _ = problem;
    }

    /// Everything that has arrived was handed over.
    fn rest(&mut self, lanes: &mut Lanes<Self>) {
        let _ = lanes;
    }

    /// Why this connection must end, if it must.
    fn refusal(&mut self) -> Option<String> {
        None
    }
}
