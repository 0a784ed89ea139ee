//! `.channels`: what programs do with its files, and what comes for them. Each goes to [`crate::channels::Channels`].

use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};

use khz_follow::Defined;
use khz_model::{NodeName, Series};

use super::Tree;
use crate::answer::Answer;
use crate::channels::Changed;
use crate::controls::settings::Filter;
use crate::file::{Attributes, Caller, Entry, Kind, Opened, Read, Readiness, line};
use crate::inode::{ChannelId, Class, Inode, NodeId, PathId};
use crate::open_files::handles::Content;
use crate::open_files::polls::First;
use crate::upstream::ChannelRow;

impl Tree {
    /// The hub's list of channels has come; `None`: the hub is older than such lists.
    pub fn channels(&mut self, channels: Option<Vec<Defined>>, now: Instant) {
        if channels.is_none() {
            self.controls.note_error("the hub is older than lists of channels: update it");
        }
        let changed = self.channels.update(channels, now, &mut self.effects);
        self.channel_values_changed(changed);
    }

    /// A lane that serves the subscription to a channel has these columns from here on.
    pub fn channel_columns(
        &mut self,
        lane: u64,
        subscription: u32,
        node: &NodeName,
        columns: &Arc<Vec<Series>>,
    ) {
        let Some(id) = self.cluster.node(node) else { return };
        let Tree { channels, names, effects, .. } = self;
        channels.columns(lane, subscription, (id, node), columns, names, effects);
    }

    /// A row of such a lane.
    pub fn channel_row(&mut self, row: &ChannelRow<'_>) {
        let changed = self.channels.row(row, &mut self.effects);
        self.channel_values_changed(changed);
    }

    fn channel_values_changed(&mut self, changed: Vec<Changed>) {
        for (inode, reading, format) in changed {
            self.polls.change(inode, reading, format, &mut self.effects);
        }
    }

    /// The subscription to a channel was refused, or nodes say something about it.
    pub fn channel_notice(&mut self, subscription: u32, granted: bool, text: &str) {
        if let Some(problem) = self.channels.notice(subscription, granted, text, &mut self.effects) {
            self.controls.note_error(&problem);
        }
    }

    /// A name in `.channels`: a channel.
    pub(super) fn lookup_channel(&mut self, name: &str, now: Instant, is_late: bool) -> Answer<Inode> {
        let is_settled = self.settle_channels(now);
        let top = self.paths.channels;
        match self.channels.find(name) {
            _ if !is_settled && !is_late => Answer::Wait,
            Some(channel) => Answer::Ready(Inode::of_channel(channel, NodeId::TREE, top)),
            None if !is_settled => Answer::missing(is_late),
            None if self.channels.is_unserved() => Answer::Fail(libc::EOPNOTSUPP),
            None => Answer::Fail(libc::ENOENT),
        }
    }

    /// Somebody uses the list of channels. True when it is as good as it can be now.
    fn settle_channels(&mut self, now: Instant) -> bool {
        self.channels.want_list(now, &mut self.effects);
        self.channels.is_settled(self.cluster.roster().is_hub_up())
    }

    /// The definition of a channel, as the hub has it now.
    pub(super) fn definition(&mut self, inode: Inode, now: Instant, is_late: bool) -> Answer<Vec<u8>> {
        match self.settle_channels(now) || is_late {
            true => Answer::or_fail(self.channels.definition(inode), libc::ENOENT),
            false => Answer::Wait,
        }
    }

    /// A name in a channel: one of its own files, a node, or a value of a node.
    pub(super) fn lookup_in_channel(
        &mut self,
        parent: Inode,
        name: &str,
        now: Instant,
        is_late: bool,
    ) -> Answer<Inode> {
        let (channel, node) = ChannelId::of(parent.node);
        if node != NodeId::TREE {
            return self.lookup_channel_value(parent, name, now, is_late);
        }
        let top = self.paths.channels;
        let own = self
            .names
            .find(top, name)
            .filter(|&path| path == self.paths.definition || path == self.paths.rows);
        if let Some(path) = own {
            return Answer::Ready(Inode::of_channel(channel, node, path));
        }
        self.lookup_node(Inode::ROOT, name, now, is_late).then(|found| {
            match found.class == Class::Plain && found.node != NodeId::TREE {
                true => Answer::Ready(Inode::of_channel(channel, found.node, top)),
                false => Answer::Fail(libc::ENOENT),
            }
        })
    }

    /// A value of a node in a channel. Its name is known from the node's first row on.
    fn lookup_channel_value(
        &mut self,
        parent: Inode,
        name: &str,
        now: Instant,
        is_late: bool,
    ) -> Answer<Inode> {
        if let Err(errno) = self.channels.want(parent, now, &mut self.effects) {
            return Answer::Fail(errno);
        }
        let known = self.names.find(parent.path, name).map(|path| Inode { path, ..parent });
        if let Some(inode) = known.filter(|&inode| self.kind(inode).is_some()) {
            return Answer::Ready(inode);
        }
        if self.channels.refusal(parent).is_some() {
            return Answer::Fail(libc::EACCES);
        }
        match self.channels.has_columns(parent) {
            true => Answer::Fail(libc::ENOENT),
            // Of a condition the first row may come in days.
            false if is_late => Answer::Fail(libc::ENODATA),
            false => Answer::Wait,
        }
    }

    /// The channels.
    pub(super) fn list_channels(&mut self, now: Instant, is_late: bool) -> Answer<Vec<Entry>> {
        if !self.settle_channels(now) && !is_late {
            return Answer::Wait;
        }
        let top = self.paths.channels;
        let entry = |(channel, name)| Entry::directory(Inode::of_channel(channel, NodeId::TREE, top), name);
        Answer::Ready(self.channels.names().map(entry).collect())
    }

    /// What is in a directory of a channel: its own files and the nodes that have values, or the values of a node. It causes no
    /// subscription, so a program that walks the tree makes no node work.
    pub(super) fn list_in_channel(&self, inode: Inode) -> Vec<Entry> {
        let (channel, node) = ChannelId::of(inode.node);
        if node != NodeId::TREE {
            let path = |path: PathId| self.channel_entry(Inode { path, ..inode });
            return self.channels.entries(inode).into_iter().filter_map(path).collect();
        }
        let own = [self.paths.definition, self.paths.rows];
        let own = own.into_iter().filter_map(|path| self.channel_entry(Inode { path, ..inode }));
        let nodes = self.channels.nodes(channel).into_iter().filter_map(|node| {
            let name = self.cluster.roster().name(node)?.as_str();
            // The file of this name is found instead.
            let is_hidden = self.names.find(inode.path, name) == Some(self.paths.rows)
                || self.names.find(inode.path, name) == Some(self.paths.definition);
            let inode = Inode::of_channel(channel, node, inode.path);
            (!is_hidden).then(|| Entry::directory(inode, name))
        });
        own.chain(nodes).collect()
    }

    fn channel_entry(&self, inode: Inode) -> Option<Entry> {
        Some(Entry { inode, kind: self.kind(inode)?, name: self.names.name(inode.path).to_owned() })
    }

    /// The directory in which a directory of a channel stands.
    pub(super) fn parent_in_channel(&self, inode: Inode) -> Inode {
        let (channel, node) = ChannelId::of(inode.node);
        let top = self.paths.channels;
        match (inode.path == top, node == NodeId::TREE) {
            (true, true) => Inode::plain(NodeId::TREE, top),
            (true, false) => Inode::of_channel(channel, NodeId::TREE, top),
            (false, _) => Inode { path: self.names.parent(inode.path), ..inode },
        }
    }

    /// What `stat` sees of a value of a channel.
    pub(super) fn channel_value_attributes(&self, seen: &mut Attributes) {
        let values = self.channels.values();
        let length = |(reading, format)| line(reading, format).map_or(1, |text| text.len() as u64);
        // As of any value: of an empty file the kernel would not ask why there is no number.
        seen.size = values.reading(seen.inode).map_or(1, length);
        let gathered = values.gathered(seen.inode);
        seen.modified = gathered.map_or(UNIX_EPOCH, |stamp| UNIX_EPOCH + Duration::from(stamp.real()));
        seen.ttl = Duration::ZERO;
    }

    /// True for the file `rows` of a channel.
    pub(super) fn is_rows(&self, inode: Inode) -> bool {
        inode.path == self.paths.rows && is_channels_own(inode)
    }

    /// True for the file `definition` of a channel.
    pub(super) fn is_definition(&self, inode: Inode) -> bool {
        inode.path == self.paths.definition && is_channels_own(inode)
    }

    /// Opens the rows of a channel, or a value: the mount subscribes to the channel. Nothing waits for a row, which may come in
    /// days.
    pub(super) fn open_in_channel(&mut self, inode: Inode, caller: Caller, now: Instant) -> Answer<Opened> {
        let node = ChannelId::of(inode.node).1;
        if self.cluster.roster().is_unreachable(node) {
            return Answer::Fail(libc::EIO);
        }
        if self.channels.refusal(inode).is_some() {
            return Answer::Fail(libc::EACCES);
        }
        if !self.channels.may_open(inode, caller.user) {
            return Answer::Fail(libc::ENFILE);
        }
        if let Err(errno) = self.channels.want(inode, now, &mut self.effects) {
            return Answer::Fail(errno);
        }
        let is_rows = self.is_rows(inode);
        let content = if is_rows { Content::ChannelRows } else { Content::ChannelValue };
        let handle = self.open_handle(inode, caller.user, content);
        self.channels.open(inode, handle, caller.user);
        Answer::Ready(if is_rows { Opened::stream(handle) } else { Opened::uncached(handle) })
    }

    /// The lines of a channel that wait for this reader; nothing if none waits.
    pub(super) fn read_channel_rows(&mut self, read: &Read, inode: Inode) -> Answer<Vec<u8>> {
        Answer::Ready(self.channels.read_rows(inode, read.handle, read.size))
    }

    /// The newest value of a node that a channel has sent.
    pub(super) fn read_channel_value(&self, read: &Read, inode: Inode) -> Answer<Vec<u8>> {
        if self.cluster.roster().is_unreachable(ChannelId::of(inode.node).1) {
            return Answer::Fail(libc::EIO);
        }
        let reading = self.channels.values().reading(inode);
        match reading.map_or(Err(libc::ENODATA), |(reading, format)| line(reading, format)) {
            Ok(text) => Answer::Ready(read.part(&text)),
            Err(errno) => Answer::Fail(errno),
        }
    }

    /// Whether a program that polls a file of a channel has something to read.
    pub(super) fn poll_in_channel(
        &mut self,
        handle: u64,
        inode: Inode,
        process: u32,
        sleeper: Option<u64>,
    ) -> Readiness {
        if self.is_rows(inode) {
            return self.channels.poll_rows(inode, handle, sleeper);
        }
        let has_news = match self.polls.poll(handle, sleeper) {
            Some(has_news) => has_news,
            None => self.begin_to_poll(handle, inode, process, sleeper),
        };
        match has_news {
            true => Readiness::News,
            false if self.channels.is_over(inode) => Readiness::End,
            false => Readiness::Nothing,
        }
    }

    /// The first poll of a value of a channel. That nothing has come yet is no news.
    fn begin_to_poll(&mut self, handle: u64, inode: Inode, process: u32, sleeper: Option<u64>) -> bool {
        let reading = self.channels.values().reading(inode);
        // No page holds such a value: each read comes to us.
        let (filter, is_coming) = (Filter::default(), false);
        self.polls.begin(First { handle, inode, process, filter, reading, is_coming }, &mut self.effects);
        if reading.is_none() {
            self.polls.poll(handle, None);
        }
        self.polls.poll(handle, sleeper).unwrap_or(false)
    }

    /// A file of a channel is closed.
    pub(super) fn close_in_channel(&mut self, handle: u64, inode: Inode, user: u32, now: Instant) {
        self.polls.close(handle, inode);
        self.channels.close(inode, handle, user, now);
    }

    /// What stands at an inode of a channel.
    pub(super) fn channel_kind(&self, inode: Inode) -> Option<Kind> {
        self.channels.kind(inode, self.cluster.roster())
    }
}

/// True for what stands in the directory of a channel itself, not in that of a node.
fn is_channels_own(inode: Inode) -> bool {
    inode.class == Class::Channel && ChannelId::of(inode.node).1 == NodeId::TREE
}
