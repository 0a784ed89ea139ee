//! Where a tree's values come from, and where they go: the seam between the mount and the cluster. An [`Upstream`] is a
//! hub at the other end of a link, or a test.

use std::sync::Arc;

use khz_follow::Defined;
use khz_model::{ChannelName, Nanos, NodeName, NodeStatus, Rate, Reading, Series, Stamp};

/// Rows that the tree needs, for all its readers together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription {
    /// Its number, from 1; each is used once.
    pub number: u32,
    /// Patterns with their nodes, at most [`crate::limits::PATTERNS_MAX`].
    pub patterns: Vec<String>,
    /// How often; `None`: as the base lane has it.
    pub rate: Option<Rate>,
}

/// A kernel file that the tree needs, for all its readers together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextSubscription {
    /// Its number, from 1; each is used once. [`Subscription`] has numbers of its own.
    pub number: u32,
    /// The node.
    pub node: NodeName,
    /// Below `/proc`; empty: the list of what the node shows.
    pub path: String,
    /// How often the node reads it.
    pub period: Nanos,
}

/// A channel that the tree follows, for all its readers together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelSubscription {
    /// Its number, from 1; each is used once. [`Subscription`] and [`TextSubscription`] have numbers of their own.
    pub number: u32,
    /// The channel's name, as the hub keeps it.
    pub name: ChannelName,
}

/// A row of a channel.
#[derive(Clone, Copy, Debug)]
pub struct ChannelRow<'a> {
    /// Its lane.
    pub lane: u64,
    /// The epoch within which rows have numbers without gaps.
    pub epoch: u64,
    /// Its number in the epoch.
    pub number: u64,
    /// When it was gathered.
    pub stamp: Stamp,
    /// One reading for each column; fewer where the last columns did not exist yet.
    pub readings: &'a [Reading],
}

/// Where values come from. No call waits.
pub trait Upstream: Send + Sync {
    /// Sends rows.
    fn subscribe(&self, subscription: Subscription);
    /// Stops sending them.
    fn unsubscribe(&self, number: u32);
    /// Sends the list of nodes again and again, or stops.
    fn list_nodes(&self, wanted: bool);
    /// Sends a kernel file whenever it has changed; a number that is known already gets another period.
    fn subscribe_text(&self, subscription: TextSubscription);
    /// Has the node read the file of a subscription now; [`Sink::text_answered`] says when that was done.
    fn read_text_now(&self, number: u32, request: u32);
    /// Stops sending it.
    fn unsubscribe_text(&self, number: u32);
    /// Sends the list of channels, again after every change, or stops.
    fn list_channels(&self, wanted: bool);
    /// Sends the rows of a channel as they come.
    fn subscribe_channel(&self, subscription: ChannelSubscription);
    /// Stops sending them.
    fn unsubscribe_channel(&self, number: u32);
}

/// The tree, as the upstream sees it. Calls may come from any thread and never wait for a reader.
pub trait Sink: Send + Sync {
    /// A hub has accepted us, or is gone; `text` says which, or why.
    fn connected(&self, up: bool, text: &str);
    /// How nodes are; `is_last`: there are no others.
    fn nodes(&self, nodes: &[NodeStatus], is_last: bool);
    /// The columns of a lane, which serves a subscription, are these from now on; none: the node has nothing of what is
    /// wanted. `lane` tells it from every other lane of this upstream.
    fn columns(&self, lane: u64, subscription: u32, node: &NodeName, columns: &Arc<Vec<Series>>);
    /// A row of a lane: the columns that may have changed.
    fn row(&self, lane: u64, stamp: Stamp, cells: &mut dyn Iterator<Item = (usize, Reading)>);
    /// Nothing more comes in a lane.
    fn closed(&self, lane: u64);
    /// A subscription was refused or is served more slowly.
    fn notice(&self, subscription: u32, text: &str);
    /// The kernel file of a subscription has this text from now on.
    fn text(&self, subscription: u32, text: &Arc<[u8]>, stamp: Stamp);
    /// `is_read`: the node has read the file of a subscription after this request, and what it had then was sent. Else the
    /// node cannot be asked now.
    fn text_answered(&self, subscription: u32, request: u32, is_read: bool);
    /// There is no text: an errno, and why.
    fn no_text(&self, subscription: u32, errno: i32, why: &str);
    /// All channels of the hub; `None`: the hub is older than such lists.
    fn channels(&self, channels: Option<Vec<Defined>>);
    /// The columns of a lane, which serves the subscription to a channel, are these from now on.
    fn channel_columns(&self, lane: u64, subscription: u32, node: &NodeName, columns: &Arc<Vec<Series>>);
    /// A row of such a lane.
    fn channel_row(&self, row: &ChannelRow<'_>);
    /// The subscription to a channel was refused (`granted` is false), or nodes say something about it.
    fn channel_notice(&self, subscription: u32, granted: bool, text: &str);
}
