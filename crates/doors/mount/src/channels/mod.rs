//! `.channels`: the channels of the hub, each with its definition, its rows as they come, and the newest value of each node. The
//! mount subscribes to a channel while one of these files is open, and a while longer. It judges nothing: the nodes decide which
//! rows there are.
//!
//! | file | owns |
//! |---|---|
//! | `list.rs` | which channels there are, and their numbers |
//! | `followed.rs` | which channels the upstream sends, and which users have them open |
//! | `lanes.rs` | the lanes of one channel, and which of its rows are missing |
//! | `rows.rs` | the lines that wait for readers of `rows` |
//! | `line.rs` | a row, or an event, as a line |

mod followed;
mod lanes;
mod line;
mod list;
mod rows;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use khz_follow::Defined;
use khz_model::{NodeName, Reading, Series, ValueFormat};

use crate::cluster::roster::Roster;
use crate::cluster::values::{Columns, Values};
use crate::effects::Effects;
use crate::file::{Kind, Readiness};
use crate::inode::{ChannelId, Inode, NodeId, PathId};
use crate::names::Names;
use crate::paths::Paths;
use crate::upstream::ChannelRow;
use followed::Followed;
use lanes::ChannelLane;
use list::List;

/// The channels.
pub(crate) struct Channels {
    paths: Paths,
    list: List,
    followed: Followed,
    /// The newest readings; a node in a channel counts as a node ([`ChannelId::with`]).
    values: Values,
    /// Open files of values: how often each is open.
    watched: HashMap<Inode, usize>,
    counts: Counts,
}

/// Counted since the start.
#[derive(Debug, Default)]
struct Counts {
    rows: u64,
    lost: u64,
    notices: u64,
    notice_last: String,
}

/// A file whose reading has changed, and what it has now.
pub(crate) type Changed = (Inode, Reading, ValueFormat);

/// The reading of a file that does not exist any more.
const GONE: Reading = Reading::Absent(khz_model::Absence::InstanceGone);

impl Channels {
    /// No channel is known; this user may follow as many as there is room for.
    pub fn new(paths: Paths, owner: u32) -> Self {
        Channels {
            list: List::default(),
            followed: Followed::new(owner),
            values: Values::new(paths.channels),
            watched: HashMap::new(),
            counts: Counts::default(),
            paths,
        }
    }

    /// Somebody uses the list.
    pub fn want_list(&mut self, now: Instant, effects: &mut Effects) {
        self.list.want(now, effects);
    }

    /// True when the list is as good as it can be now.
    pub fn is_settled(&self, is_hub_up: bool) -> bool {
        self.list.is_settled(is_hub_up)
    }

    /// True when the hub lists no channels: it is older than that.
    pub fn is_unserved(&self) -> bool {
        self.list.is_unserved()
    }

    /// The channel of this name, if there is one now.
    pub fn find(&self, name: &str) -> Option<ChannelId> {
        self.list.find(name)
    }

    /// The names of all channels.
    pub fn names(&self) -> impl Iterator<Item = (ChannelId, &str)> {
        self.list.names()
    }

    /// The definition of a channel and a newline.
    pub fn definition(&self, inode: Inode) -> Option<Vec<u8>> {
        let json = self.list.definition(ChannelId::of(inode.node).0)?;
        Some(format!("{json}\n").into_bytes())
    }

    /// What stands at an inode; `None`: nothing any more.
    pub fn kind(&self, inode: Inode, roster: &Roster) -> Option<Kind> {
        let (channel, node) = ChannelId::of(inode.node);
        self.list.definition(channel)?;
        let path = inode.path;
        if node == NodeId::TREE {
            return match path {
                path if path == self.paths.channels => Some(Kind::Directory),
                path if path == self.paths.definition || path == self.paths.rows => Some(Kind::Text),
                _ => None,
            };
        }
        roster.name(node)?;
        if path == self.paths.channels {
            return Some(Kind::Directory);
        }
        let layout = self.values.layout(inode.node)?;
        match layout.slot(path) {
            Some(_) => Some(Kind::Value),
            None => layout.entries(path).map(|_| Kind::Directory),
        }
    }

    /// The nodes of a channel that have values now.
    pub fn nodes(&self, channel: ChannelId) -> Vec<NodeId> {
        let of_channel = |both| Some(ChannelId::of(both)).filter(|(of, _)| *of == channel);
        let listed = |&node: &NodeId| self.values.is_listed(channel.with(node), self.paths.channels);
        let mut nodes: Vec<NodeId> =
            self.values.nodes().filter_map(of_channel).map(|(_, node)| node).filter(listed).collect();
        nodes.sort();
        nodes
    }

    /// What is listed in a directory of a node in a channel.
    pub fn entries(&self, inode: Inode) -> Vec<PathId> {
        let entries = self.values.layout(inode.node).and_then(|layout| layout.entries(inode.path));
        let listed = |&path: &PathId| self.values.is_listed(inode.node, path);
        entries.unwrap_or_default().iter().copied().filter(listed).collect()
    }

    /// True when the names of a node's values in a channel are known.
    pub fn has_columns(&self, inode: Inode) -> bool {
        self.values.layout(inode.node).is_some()
    }

    /// The newest values.
    pub fn values(&self) -> &Values {
        &self.values
    }

    /// The text with which the hub has refused a channel, if it has.
    pub fn refusal(&self, inode: Inode) -> Option<&str> {
        self.followed.refusal(ChannelId::of(inode.node).0)
    }

    /// Somebody uses a channel: the mount subscribes to it for a while. An errno says that there is no room.
    pub fn want(&mut self, inode: Inode, now: Instant, effects: &mut Effects) -> Result<(), i32> {
        let channel = ChannelId::of(inode.node).0;
        self.list.want(now, effects);
        let name = self.list.name(channel).ok_or(libc::ENOENT)?;
        if let Some(ended) = self.followed.want(channel, name, now, effects)? {
            self.forget(ended);
        }
        Ok(())
    }

    /// True when a user may have this channel open, besides those that the user has.
    pub fn may_open(&mut self, inode: Inode, user: u32) -> bool {
        self.followed.may_open(ChannelId::of(inode.node).0, user)
    }

    /// A file of values or of rows is opened; before, [`Channels::want`] was called.
    pub fn open(&mut self, inode: Inode, handle: u64, user: u32) {
        let channel = ChannelId::of(inode.node).0;
        self.list.open();
        self.followed.open(channel, user);
        if inode.path == self.paths.rows && ChannelId::of(inode.node).1 == NodeId::TREE {
            self.followed.rows(channel).into_iter().for_each(|rows| rows.open(handle));
        } else {
            *self.watched.entry(inode).or_default() += 1;
            self.values.watch(inode, true);
        }
    }

    /// It is closed.
    pub fn close(&mut self, inode: Inode, handle: u64, user: u32, now: Instant) {
        let channel = ChannelId::of(inode.node).0;
        self.list.close(now);
        self.followed.rows(channel).into_iter().for_each(|rows| rows.close(handle));
        self.followed.close(channel, user, now);
        if let Some(times) = self.watched.get_mut(&inode) {
            *times -= 1;
            if *times == 0 {
                self.watched.remove(&inode);
                self.values.watch(inode, false);
            }
        }
    }

    /// Takes lines that wait for a reader of rows: at most this many bytes.
    pub fn read_rows(&mut self, inode: Inode, handle: u64, size: usize) -> Vec<u8> {
        let rows = self.followed.rows(ChannelId::of(inode.node).0);
        rows.map(|rows| rows.read(handle, size)).unwrap_or_default()
    }

    /// Whether lines wait for a reader of rows; else the next one wakes `sleeper`.
    pub fn poll_rows(&mut self, inode: Inode, handle: u64, sleeper: Option<u64>) -> Readiness {
        let rows = self.followed.rows(ChannelId::of(inode.node).0);
        rows.map_or(Readiness::End, |rows| rows.poll(handle, sleeper))
    }

    /// True for something of a channel that was removed: nothing more will come of it.
    pub fn is_over(&self, inode: Inode) -> bool {
        self.list.definition(ChannelId::of(inode.node).0).is_none()
    }

    /// The hub's list has come. Returns the open files whose reading has changed.
    pub fn update(
        &mut self,
        channels: Option<Vec<Defined>>,
        now: Instant,
        effects: &mut Effects,
    ) -> Vec<Changed> {
        let news = self.list.update(channels, |channel| self.followed.is_open(channel), now);
        let mut changed = Vec::new();
        for &channel in &news.changed {
            if let Some(name) = self.list.name(channel)
                && self.followed.renew(channel, name, effects)
            {
                changed.extend(self.end_values(channel));
            }
        }
        for &channel in &news.gone {
            if self.followed.end(channel, effects) {
                changed.extend(self.end_values(channel));
            }
        }
        effects.retry_all();
        changed
    }

    /// The columns of a lane.
    pub fn columns(
        &mut self,
        lane: u64,
        subscription: u32,
        node: (NodeId, &NodeName),
        series: &Arc<Vec<Series>>,
        names: &mut Names,
        effects: &mut Effects,
    ) {
        // It was under way when the subscription ended.
        let Some(channel) = self.followed.channel_of(subscription) else { return };
        let of_lane = ChannelLane { node: node.0, name: node.1.clone(), series: series.clone() };
        self.followed.columns(channel, lane, of_lane);
        let node = channel.with(node.0);
        self.values.columns(&Columns { lane, subscription, has_all: true, node, series }, names);
        for &inode in self.watched.keys().filter(|inode| inode.node == node) {
            self.values.watch(inode, true);
        }
        effects.retry(node);
    }

    /// A row. Returns the open files whose reading has changed.
    pub fn row(&mut self, row: &ChannelRow<'_>, effects: &mut Effects) -> Vec<Changed> {
        let Some(lost) = self.followed.row(row, effects) else { return Vec::new() };
        self.counts.rows += 1;
        self.counts.lost += lost;
        let mut cells = row.readings.iter().copied().enumerate();
        let Some((node, changed)) = self.values.row(row.lane, row.stamp, &mut cells) else {
            return Vec::new();
        };
        effects.retry(node);
        let inodes = changed.into_iter().map(|inode| Inode { class: crate::inode::Class::Channel, ..inode });
        inodes
            .filter_map(|inode| self.values.reading(inode).map(|(reading, format)| (inode, reading, format)))
            .collect()
    }

    /// Nothing more comes in a lane.
    pub fn close_lane(&mut self, lane: u64) {
        self.values.close(lane);
        self.followed.close_lane(lane);
    }

    /// The hub refuses a channel, or nodes say something about it. Returns what to show as an error.
    pub fn notice(
        &mut self,
        subscription: u32,
        granted: bool,
        text: &str,
        effects: &mut Effects,
    ) -> Option<String> {
        let channel = self.followed.channel_of(subscription)?;
        self.counts.notices += 1;
        text.clone_into(&mut self.counts.notice_last);
        self.followed.notice(channel, granted, text, effects);
        effects.retry_all();
        Some(format!("channel {}: {text}", self.list.name(channel).map_or("", |name| name.as_str())))
    }

    /// A hub has accepted us, or is gone.
    pub fn connected(&mut self, up: bool, text: &str, effects: &mut Effects) {
        self.list.connected();
        self.followed.connected(up, text, effects);
        effects.retry_all();
    }

    /// Ends what nobody uses any more.
    pub fn expire(&mut self, now: Instant, effects: &mut Effects) {
        for channel in self.followed.expire(now, effects) {
            self.forget(channel);
        }
        self.list.expire(now, effects);
    }

    /// True when nothing will expire.
    pub fn is_idle(&self) -> bool {
        self.followed.is_empty() && self.list.is_idle()
    }

    /// For `.mount/stats`.
    pub fn stats(&self) -> [(&'static str, u64); 8] {
        [
            ("channels", self.list.names().count() as u64),
            ("channels_left_out", self.list.left_out()),
            ("channels_followed", self.followed.count()),
            ("channels_refused", self.followed.refused()),
            ("channel_rows", self.counts.rows),
            ("channel_rows_lost", self.counts.lost),
            ("channel_lines_dropped", self.followed.dropped()),
            ("channel_notices", self.counts.notices),
        ]
    }

    /// The last of these notices.
    pub fn notice_last(&self) -> &str {
        &self.counts.notice_last
    }

    /// The values of a channel are unknown from now on. Returns the open files among them.
    fn end_values(&mut self, channel: ChannelId) -> Vec<Changed> {
        let open = self.watched.keys().filter(|inode| ChannelId::of(inode.node).0 == channel);
        let changed = open.map(|&inode| (inode, GONE, ValueFormat::WHOLE)).collect();
        self.forget(channel);
        changed
    }

    /// What a channel has sent is forgotten: nobody would notice that it is old.
    fn forget(&mut self, channel: ChannelId) {
        self.values.forget(|both| ChannelId::of(both).0 == channel);
    }
}
