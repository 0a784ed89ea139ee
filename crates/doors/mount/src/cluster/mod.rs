//! The cluster as the mount sees it: its nodes, which of them are in use, their values, and what the mount subscribes to
//! because of that. It knows no open file.

pub(crate) mod layout;
pub(crate) mod leases;
pub(crate) mod roster;
pub(crate) mod subscriptions;
mod table;
pub(crate) mod tables;
pub(crate) mod values;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use khz_model::{NodeName, NodeStatus, Reading, Series, Stamp};

use crate::answer::Answer;
use crate::cluster::leases::Leases;
use crate::cluster::roster::Roster;
use crate::cluster::subscriptions::{Demand, Rates, Subscriptions};
use crate::cluster::tables::Tables;
use crate::cluster::values::{Columns, Values};
use crate::effects::Effects;
use crate::inode::{Inode, NodeId, PathId};
use crate::names::Names;

/// What is known and wanted of the nodes.
pub(crate) struct Cluster {
    /// How long the nodes may take to answer.
    wait: Duration,
    roster: Roster,
    leases: Leases,
    values: Values,
    tables: Tables,
    subscriptions: Subscriptions,
    /// Rows that came.
    rows: u64,
}

/// A lane of the upstream, and the subscription that it serves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaneOf {
    pub lane: u64,
    pub subscription: u32,
}

impl Cluster {
    /// No node is known; series stand below `top` in every one.
    pub fn new(wait: Duration, strict: bool, top: PathId) -> Self {
        Cluster {
            wait,
            roster: Roster::new(strict),
            leases: Leases::default(),
            values: Values::new(top),
            tables: Tables::default(),
            subscriptions: Subscriptions::default(),
            rows: 0,
        }
    }

    /// The nodes.
    pub fn roster(&self) -> &Roster {
        &self.roster
    }

    /// The number of a node; `None`: there are too many.
    pub fn node(&mut self, name: &NodeName) -> Option<NodeId> {
        self.roster.id_or_new(name)
    }

    /// The latest readings.
    pub fn values(&self) -> &Values {
        &self.values
    }

    /// The tables below `.by`.
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// The path of a table; see [`Tables::path`].
    pub fn table_path(&mut self, by: PathId, name: &str, names: &mut Names) -> Answer<PathId> {
        self.tables.path(by, name, names)
    }

    /// What the mount subscribes to.
    pub fn subscriptions(&self) -> &Subscriptions {
        &self.subscriptions
    }

    /// A hub has accepted us, or is gone.
    pub fn connected(&mut self, up: bool, text: &str, now: Instant, effects: &mut Effects) {
        if !up {
            self.values.disconnected();
            self.tables.disconnected();
        }
        self.roster.connected(up, text);
        // Nobody could answer meanwhile.
        self.tables.restart_waits(now);
        effects.retry_all();
    }

    /// A part of the list of nodes; see [`Roster::update`].
    pub fn nodes(
        &mut self,
        statuses: &[NodeStatus],
        is_last: bool,
        now: Instant,
        effects: &mut Effects,
    ) -> Vec<NodeId> {
        self.roster.update(statuses, is_last, now, effects)
    }

    /// A lane that serves a subscription has these columns from here on.
    pub fn columns(
        &mut self,
        LaneOf { lane, subscription }: LaneOf,
        node: &NodeName,
        series: &Arc<Vec<Series>>,
        names: &mut Names,
        effects: &mut Effects,
    ) {
        let Some(node) = self.roster.id_or_new(node) else { return };
        match self.subscriptions.metric_of(subscription) {
            Some(metric) => self.tables.columns(lane, metric, subscription, node, series),
            None => {
                let has_all = self.subscriptions.has_all_series(subscription);
                self.values.columns(&Columns { lane, subscription, has_all, node, series }, names);
            }
        }
        effects.retry(node);
    }

    /// A row of a lane. Returns the open files whose reading has changed.
    pub fn row(
        &mut self,
        lane: u64,
        stamp: Stamp,
        cells: &mut dyn Iterator<Item = (usize, Reading)>,
        effects: &mut Effects,
    ) -> Vec<Inode> {
        self.rows += 1;
        let came = match self.tables.row(lane, cells) {
            Some(node) => Some((node, Vec::new())),
            None => self.values.row(lane, stamp, cells),
        };
        let Some((node, changed)) = came else { return Vec::new() };
        effects.retry(node);
        changed
    }

    /// Rows that came.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Nothing more comes in a lane.
    pub fn close_lane(&mut self, lane: u64) {
        self.values.close(lane);
        self.tables.close_lane(lane);
    }

    /// Somebody uses a node's values: the mount subscribes to its rows for a while.
    pub fn want(&mut self, node: NodeId, now: Instant, effects: &mut Effects) {
        self.leases.renew(node, now, effects);
    }

    /// Somebody reads a text that depends on the roster.
    pub fn want_roster(&mut self, now: Instant, effects: &mut Effects) {
        self.roster.want(now, effects);
    }

    /// Something of a node was opened.
    pub fn open(&mut self, node: NodeId, effects: &mut Effects) {
        self.leases.open(node, effects);
    }

    /// It was closed.
    pub fn close(&mut self, node: NodeId, now: Instant) {
        self.leases.close(node, now);
    }

    /// The file of a table was opened.
    pub fn open_table(&mut self, metric: &str) {
        self.tables.open(metric);
        self.roster.open();
    }

    /// It was closed.
    pub fn close_table(&mut self, metric: &str, now: Instant, effects: &mut Effects) {
        self.tables.close_file(metric, now);
        self.roster.close(now, effects);
    }

    /// A node's status was opened.
    pub fn open_status(&mut self) {
        self.roster.open();
    }

    /// It was closed.
    pub fn close_status(&mut self, now: Instant, effects: &mut Effects) {
        self.roster.close(now, effects);
    }

    /// Sets whether [`Cluster::row`] reports changes of a file.
    pub fn watch(&mut self, inode: Inode, watched: bool) {
        self.values.watch(inode, watched);
    }

    /// True when nothing newer of a node can come.
    pub fn has_nothing_newer(&mut self, node: NodeId, now: Instant, effects: &mut Effects) -> bool {
        self.roster.has_nothing_newer(node, now, effects)
    }

    /// True when a node's values are current: rows of all of them come, or nothing newer can.
    pub fn is_current(&mut self, node: NodeId, now: Instant, effects: &mut Effects) -> bool {
        self.values.is_current(node) || self.roster.has_nothing_newer(node, now, effects)
    }

    /// The table of a metric; waits for the nodes' answers, once, until time is up.
    pub fn table(
        &mut self,
        metric: &str,
        now: Instant,
        is_late: bool,
        effects: &mut Effects,
    ) -> Answer<Vec<u8>> {
        if self.roster.is_unreachable(NodeId::TREE) {
            return Answer::Fail(libc::EIO);
        }
        self.roster.want(now, effects);
        let Some(since) = self.tables.want(metric, now, effects) else {
            return self.table_of_values(metric, now, is_late, effects);
        };
        let is_late = is_late || now.saturating_duration_since(since) >= self.wait;
        match self.tables.text(metric, &self.roster, is_late) {
            Some(answer) => answer,
            None => self.table_of_values(metric, now, true, effects),
        }
    }

    /// The same table, made of the values of all nodes: the mount subscribes to every node for it.
    fn table_of_values(
        &mut self,
        metric: &str,
        now: Instant,
        is_late: bool,
        effects: &mut Effects,
    ) -> Answer<Vec<u8>> {
        self.roster.nodes().for_each(|(_, id)| self.leases.renew(id, now, effects));
        table::of_values(metric, &self.values, &self.roster, is_late)
    }

    /// The metrics that nodes are known to have; one node that is up is asked, so that there are some.
    pub fn metrics(&mut self, now: Instant, is_late: bool, effects: &mut Effects) -> Answer<Vec<String>> {
        self.roster.want(now, effects);
        let first = self.roster.up().next().map(|(_, id)| id);
        let is_answered = first.is_none_or(|id| {
            self.leases.renew(id, now, effects);
            self.is_current(id, now, effects)
        });
        if !is_late && self.roster.may_improve() && !(self.roster.is_complete() && is_answered) {
            return Answer::Wait;
        }
        let known = self.values.plain_metrics().chain(self.tables.plain_metrics());
        Answer::Ready(known.map(str::to_owned).collect::<BTreeSet<_>>().into_iter().collect())
    }

    /// Subscribes to what is needed now.
    pub fn subscribe(&mut self, rates: Rates, effects: &mut Effects) {
        let metrics = self.tables.wanted().map(str::to_owned).collect();
        let demand = Demand { nodes: self.leases.nodes(), metrics, rates };
        let gone = self.subscriptions.update(demand, &mut self.roster, effects);
        if !gone.is_empty() {
            self.values.unsubscribed(&gone);
            self.tables.unsubscribed(&gone);
        }
    }

    /// Ends the leases of what nobody has used for a while.
    pub fn expire(&mut self, now: Instant, effects: &mut Effects) {
        self.leases.expire(now, effects);
        self.tables.expire(now, effects);
        self.roster.expire(now, effects);
    }

    /// True when nothing will expire.
    pub fn is_idle(&self) -> bool {
        self.roster.is_idle() && self.subscriptions.count() == 0 && !self.leases.has_ends()
    }
}
