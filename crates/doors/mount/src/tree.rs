//! The tree: it routes what the kernel asks and what the upstream sends to its parts, and takes the results of one part to
//! the others. It does no I/O and never waits; time is an argument.
//!
//! | part | owns |
//! |---|---|
//! | [`Cluster`] | the nodes, their values, the subscriptions |
//! | [`KernelFiles`] | `NODE/proc` |
//! | [`Channels`] | `.channels` |
//! | [`Controls`] | settings and control files |
//! | [`Handles`] | what is open, by which user, and each user's budget |
//! | [`FirstReads`] | texts that were opened and not read yet |
//! | [`ToldValues`] | values whose length a program knows |
//! | [`ValueFiles`] | open files of values, and their pages in the page cache |
//! | [`Polls`] | programs that sleep until a value comes |
//! | [`Effects`] | what has to be done outside |

mod channels;
mod listing;
mod lookup;
mod open;
mod stats;
mod status;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, Instant};

use khz_model::{NodeName, NodeStatus, Reading, Series, Stamp};

use crate::channels::Channels;
use crate::cluster::subscriptions::{RatedSeries, Rates};
use crate::cluster::{Cluster, LaneOf};
use crate::controls::{Controls, Rights};
use crate::effects::{Effects, Errands, Push, Pushes};
use crate::file::Kind;
use crate::inode::{Class, Inode, NodeId, PathId};
use crate::kernel_files::{Around, KernelFiles};
use crate::names::Names;
use crate::open_files::first_reads::FirstReads;
use crate::open_files::handles::Handles;
use crate::open_files::polls::Polls;
use crate::open_files::told_values::ToldValues;
use crate::open_files::value_files::{self, ValueFiles};
use crate::options::Options;
use crate::paths::{Area, Paths};

/// How often leases are checked while there are any.
const EXPIRY_PERIOD: Duration = Duration::from_secs(1);

/// The tree and its parts.
pub struct Tree {
    options: Options,
    names: Names,
    paths: Paths,
    cluster: Cluster,
    kernel_files: KernelFiles,
    channels: Channels,
    controls: Controls,
    handles: Handles,
    first_reads: FirstReads,
    told_values: ToldValues,
    value_files: ValueFiles,
    polls: Polls,
    effects: Effects,
    next_expiry: Option<Instant>,
    counts: Counts,
}

/// Counted since the start, for `.mount/stats`.
#[derive(Debug, Default)]
struct Counts {
    timed_out: u64,
    /// Subscriptions that the upstream refused, or serves more slowly than asked.
    notices: u64,
    notice_last: String,
}

impl Tree {
    /// An empty tree, mounted by this user.
    pub fn new(options: Options, owner: u32) -> Self {
        let mut names = Names::new();
        let paths = Paths::new(&mut names);
        let rights = Rights { owner, ceiling: options.ceiling.clone(), others: options.others };
        Tree {
            names,
            paths,
            cluster: Cluster::new(options.wait, options.strict, paths.metrics),
            kernel_files: KernelFiles::new(paths.proc, options.budget, options.cache_texts),
            channels: Channels::new(paths, owner),
            controls: Controls::new(rights),
            handles: Handles::new(options.budget),
            first_reads: FirstReads::default(),
            told_values: ToldValues::default(),
            value_files: ValueFiles::default(),
            polls: Polls::default(),
            effects: Effects::default(),
            next_expiry: None,
            counts: Counts::default(),
            options,
        }
    }

    /// How it behaves.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// A hub has accepted us, or is gone.
    pub fn connected(&mut self, up: bool, text: &str, now: Instant) {
        self.cluster.connected(up, text, now, &mut self.effects);
        self.channels.connected(up, text, &mut self.effects);
        if !up {
            self.kernel_files.disconnected();
            if self.options.strict {
                self.mark_all_dirty(None);
            }
        }
    }

    /// A part of the list of nodes; `is_last`: there are no others.
    pub fn nodes(&mut self, nodes: &[NodeStatus], is_last: bool, now: Instant) {
        let turned = self.cluster.nodes(nodes, is_last, now, &mut self.effects);
        turned.into_iter().for_each(|node| self.mark_all_dirty(Some(node)));
    }

    /// The files of a node, or of all, give other answers from now on: the mount is strict.
    fn mark_all_dirty(&mut self, node: Option<NodeId>) {
        self.value_files.mark_all_dirty(node);
        self.kernel_files.drop_all_cached(node, &mut self.effects);
    }

    /// A lane that serves a subscription has these columns from here on.
    pub fn columns(&mut self, lane: u64, subscription: u32, node: &NodeName, columns: &Arc<Vec<Series>>) {
        self.cluster.columns(
            LaneOf { lane, subscription },
            node,
            columns,
            &mut self.names,
            &mut self.effects,
        );
    }

    /// A row of a lane: the columns that may have changed.
    pub fn row(&mut self, lane: u64, stamp: Stamp, cells: &mut dyn Iterator<Item = (usize, Reading)>) {
        let changed = self.cluster.row(lane, stamp, cells, &mut self.effects);
        changed.into_iter().for_each(|inode| self.change(inode));
    }

    /// The reading of an open file has changed.
    fn change(&mut self, inode: Inode) {
        let Some((reading, places)) = self.cluster.values().reading(inode) else { return };
        if self.value_files.change(inode, reading, places) {
            self.polls.change(inode, reading, places, &mut self.effects);
        }
    }

    /// Nothing more comes in a lane.
    pub fn close_lane(&mut self, lane: u64) {
        self.cluster.close_lane(lane);
        self.channels.close_lane(lane);
    }

    /// A subscription was refused or is served more slowly.
    pub fn notice(&mut self, text: &str) {
        self.counts.notices += 1;
        text.clone_into(&mut self.counts.notice_last);
        self.controls.note_error(text);
    }

    /// The kernel file of a subscription has this text.
    pub fn kernel_text(&mut self, subscription: u32, text: &Arc<[u8]>, stamp: Stamp, now: Instant) {
        let (files, mut around) = self.kernel_files(now);
        files.text(subscription, text, stamp, &mut around);
    }

    /// A node has answered a request for a fresh text, or cannot be asked.
    pub fn kernel_text_answered(&mut self, subscription: u32, request: u32, is_read: bool, now: Instant) {
        let (files, mut around) = self.kernel_files(now);
        files.answered(subscription, request, is_read, &mut around);
    }

    /// There is no text for a subscription: an errno, and why.
    pub fn no_kernel_text(&mut self, subscription: u32, errno: i32, why: &str, now: Instant) {
        let (files, mut around) = self.kernel_files(now);
        files.no_text(subscription, errno, why, &mut around);
    }

    /// The wait of a request timed out.
    pub fn timed_out(&mut self) {
        self.counts.timed_out += 1;
    }

    /// How many requests wait for something.
    pub fn set_waiting(&mut self, requests: usize) {
        self.effects.set_waiting(requests);
    }

    /// True when [`Tree::errands`] would have something to do at once.
    pub fn has_errands(&self) -> bool {
        self.effects.has_errands() || self.controls.has_changed()
    }

    /// True when [`Tree::pushes`] would have something to do at once.
    pub fn has_pushes(&self) -> bool {
        self.effects.has_pushes() || self.value_files.is_dirty()
    }

    /// Takes out what has to be done now without the kernel. There may be more to push afterwards.
    pub fn errands(&mut self, now: Instant) -> Errands {
        self.apply_settings(now);
        if self.next_expiry.is_none_or(|at| now >= at) {
            self.next_expiry = Some(now + EXPIRY_PERIOD);
            self.expire(now);
        }
        if self.effects.take_new_demand() {
            let rates = self.rates();
            self.cluster.subscribe(rates, &mut self.effects);
        }
        self.effects.take_errands()
    }

    /// Takes out what has to be pushed now.
    pub fn pushes(&mut self, now: Instant) -> Pushes {
        let Tree { names, cluster, polls, value_files, .. } = self;
        let pages = value_files.pushes(&value_files::Around { names, roster: cluster.roster(), polls }, now);
        self.effects.take_pushes(pages)
    }

    /// These pushes were done. Returns whom to wake in `poll`: who sleeps at a file whose page has news now.
    pub fn pushed(&mut self, pushes: &[Push]) -> Vec<u64> {
        self.value_files.pushed(pushes);
        let handle = |push: &Push| match push {
            Push::News(handle) => Some(*handle),
            _ => None,
        };
        pushes.iter().filter_map(handle).filter_map(|handle| self.polls.arrive(handle)).collect()
    }

    /// When [`Tree::errands`] has to be called next if nothing happens; `None`: nothing is open or wanted.
    pub fn next_errands(&self) -> Option<Instant> {
        let is_idle = self.value_files.is_empty()
            && self.cluster.is_idle()
            && self.kernel_files.is_idle()
            && self.channels.is_idle();
        self.next_expiry.filter(|_| !is_idle)
    }

    /// The same for [`Tree::pushes`].
    pub fn next_pushes(&self) -> Option<Instant> {
        self.value_files.next_push()
    }

    /// Ends what nobody uses any more.
    fn expire(&mut self, now: Instant) {
        self.value_files.begin_second();
        self.cluster.expire(now, &mut self.effects);
        self.channels.expire(now, &mut self.effects);
        for inode in self.value_files.expire(now, &mut self.effects) {
            self.cluster.watch(inode, false);
        }
        let (files, mut around) = self.kernel_files(now);
        files.expire(&mut around);
    }

    /// Gives open files the present settings.
    fn apply_settings(&mut self, now: Instant) {
        if !self.controls.take_change() {
            return;
        }
        for inode in self.value_files.inodes() {
            let places = self.names.places(inode);
            let (filter, rate) = (self.controls.filter(&places, None), self.controls.rate(&places));
            if self.value_files.set(inode, filter, rate, &mut self.effects) {
                self.change(inode);
            }
            let reading = self.cluster.values().reading(inode);
            let filter_of = |process| self.controls.filter(&places, Some(process));
            self.polls.set(inode, reading, filter_of, &mut self.effects);
        }
        let (files, mut around) = self.kernel_files(now);
        files.renew_periods(&mut around);
    }

    /// The series that open files need at a rate of their own. A rate for a whole node is a rate for everything.
    fn rates(&self) -> Rates {
        let mut rates = Rates::new();
        for (inode, (_, path), rate) in self.value_files.rates() {
            let Some(node) = self.cluster.roster().name(inode.node) else { continue };
            let series = match path == Names::TOP || path == self.paths.metrics {
                true => Some("*".to_owned()),
                false => self.cluster.values().series(inode).map(ToString::to_string),
            };
            if let Some(series) = series {
                let rated = RatedSeries { period: rate.period(), series };
                rates.entry(rated).or_default().insert(node.to_string());
            }
        }
        rates
    }

    /// Kernel files, and the rest of the tree as far as they need it.
    fn kernel_files(&mut self, now: Instant) -> (&mut KernelFiles, Around<'_>) {
        let Tree { kernel_files, names, cluster, controls, effects, .. } = self;
        (kernel_files, Around { names, cluster, controls, effects, now })
    }

    /// What an inode's path is about.
    fn area(&self, inode: Inode) -> Option<Area> {
        if inode.class == Class::Channel {
            return Some(Area::Channel);
        }
        self.paths.area(&self.names, inode.node, inode.path)
    }

    /// What stands at an inode; `None`: nothing any more.
    fn kind(&self, inode: Inode) -> Option<Kind> {
        if inode.class == Class::Channel {
            return self.channel_kind(inode);
        }
        let Inode { node, class, path } = inode;
        let is_known = node == NodeId::TREE || self.cluster.roster().name(node).is_some();
        if !is_known || !self.names.has(path) {
            return None;
        }
        match class {
            Class::Control => self.has_settings(node, path).then_some(Kind::Directory),
            Class::Rate | Class::Range | Class::Change => {
                self.has_settings(node, path).then_some(Kind::Control)
            }
            Class::Error => Some(Kind::Text),
            Class::Channel => None,
            Class::Plain => match self.area(inode)? {
                Area::Root | Area::Tables | Area::Channels | Area::Mount | Area::Node => {
                    Some(Kind::Directory)
                }
                Area::Channel => None,
                Area::Table | Area::Stats | Area::Status => Some(Kind::Text),
                Area::Proc => self.kernel_files.kind(node, path),
                Area::Series => self.series_kind(node, path),
            },
        }
    }

    fn series_kind(&self, node: NodeId, path: PathId) -> Option<Kind> {
        if path == self.paths.metrics {
            return Some(Kind::Directory);
        }
        let layout = self.cluster.values().layout(node)?;
        match layout.slot(path) {
            Some(_) => Some(Kind::Value),
            None => layout.entries(path).map(|_| Kind::Directory),
        }
    }

    /// True for places that may have settings: the mount, a node, a metric, a kernel file, and their directories.
    fn has_settings(&self, node: NodeId, path: PathId) -> bool {
        match self.paths.area(&self.names, node, path) {
            Some(Area::Root | Area::Node) => true,
            Some(Area::Proc) => self.kernel_files.has_rate(node, path),
            Some(Area::Series) => self.series_kind(node, path).is_some(),
            _ => false,
        }
    }
}
