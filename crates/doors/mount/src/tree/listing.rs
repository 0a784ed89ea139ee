//! Directories: what is listed in them. A reader sees what was there when it opened the directory.

use std::time::Instant;

use super::Tree;
use crate::answer::Answer;
use crate::file::{Caller, Entry, Kind, Opened};
use crate::inode::{Class, Inode, NodeId, PathId};
use crate::names::Names;
use crate::open_files::handles::Content;
use crate::paths::Area;

impl Tree {
    /// Opens a directory: what is in it now. `is_late`: what is missing has not come in time.
    pub fn open_directory(
        &mut self,
        inode: Inode,
        caller: Caller,
        now: Instant,
        is_late: bool,
    ) -> Answer<Opened> {
        match self.kind(inode) {
            None => return Answer::Fail(libc::ENOENT),
            Some(Kind::Directory) => {}
            Some(_) => return Answer::Fail(libc::ENOTDIR),
        }
        if let Err(errno) = self.handles.admit(caller.user) {
            return Answer::Fail(errno);
        }
        let entries = self.list(inode, now, is_late);
        entries.map(|entries| {
            Opened::uncached(self.open_handle(inode, caller.user, Content::Directory(entries)))
        })
    }

    /// The names of an open directory from a number on, each with the number of the next one.
    pub fn entries(&self, handle: u64, from: u64) -> Option<impl Iterator<Item = (u64, &Entry)>> {
        let Content::Directory(entries) = &self.handles.get(handle)?.content else { return None };
        let from = usize::try_from(from).unwrap_or(usize::MAX);
        Some(entries.iter().enumerate().skip(from).map(|(at, entry)| (at as u64 + 1, entry)))
    }

    /// The directory that a directory stands in.
    pub fn parent(&self, inode: Inode) -> Inode {
        let Inode { node, class, path } = inode;
        if class == Class::Channel {
            return self.parent_in_channel(inode);
        }
        match (class, path) {
            (_, Names::TOP) if node == NodeId::TREE => Inode::ROOT,
            (Class::Plain, Names::TOP) => Inode::ROOT,
            (_, Names::TOP) => Inode::plain(node, Names::TOP),
            _ => Inode { path: self.names.parent(path), ..inode },
        }
    }

    fn list(&mut self, inode: Inode, now: Instant, is_late: bool) -> Answer<Vec<Entry>> {
        let Inode { node, class, .. } = inode;
        match (self.area(inode), class) {
            (Some(Area::Root), Class::Plain) => self.list_root(now, is_late),
            (Some(Area::Tables), _) => self.list_tables(now, is_late),
            (Some(Area::Channels), _) => self.list_channels(now, is_late),
            (Some(Area::Channel), _) => Answer::Ready(self.list_in_channel(inode)),
            (Some(Area::Mount), _) => Answer::Ready(vec![self.plain_entry(node, self.paths.stats)]),
            (Some(Area::Node), Class::Plain) => Answer::Ready(self.list_node(node)),
            (Some(Area::Proc), Class::Plain) => self.list_proc(inode, now, is_late),
            (Some(Area::Proc), _) => self.list_proc_control(inode, now, is_late),
            (Some(Area::Series), _) => self.list_series(inode, now, is_late),
            _ => Answer::Ready(self.control_entries(inode)),
        }
    }

    fn list_root(&mut self, now: Instant, is_late: bool) -> Answer<Vec<Entry>> {
        self.cluster.want_roster(now, &mut self.effects);
        let roster = self.cluster.roster();
        if !roster.is_settled() {
            return Answer::missing(is_late);
        }
        let mut entries = vec![
            self.plain_entry(NodeId::TREE, self.paths.by),
            self.plain_entry(NodeId::TREE, self.paths.channels),
            settings_directory(NodeId::TREE),
            self.plain_entry(NodeId::TREE, self.paths.mount),
        ];
        let nodes = roster.nodes();
        entries.extend(nodes.map(|(name, id)| Entry::directory(Inode::plain(id, Names::TOP), name.as_str())));
        Answer::Ready(entries)
    }

    fn list_tables(&mut self, now: Instant, is_late: bool) -> Answer<Vec<Entry>> {
        self.cluster.metrics(now, is_late, &mut self.effects).map(|metrics| {
            let by = self.paths.by;
            let paths: Vec<PathId> =
                metrics.iter().filter_map(|metric| self.names.intern(by, metric)).collect();
            paths.into_iter().map(|path| self.plain_entry(NodeId::TREE, path)).collect()
        })
    }

    fn list_node(&self, node: NodeId) -> Vec<Entry> {
        let paths = [self.paths.status, self.paths.metrics, self.paths.proc];
        let mut entries = paths.map(|path| self.plain_entry(node, path)).to_vec();
        entries.push(settings_directory(node));
        entries
    }

    fn list_proc(&mut self, inode: Inode, now: Instant, is_late: bool) -> Answer<Vec<Entry>> {
        let (files, mut around) = self.kernel_files(now);
        let paths = files.entries(inode, is_late, &mut around);
        paths.map(|paths| paths.into_iter().map(|path| self.plain_entry(inode.node, path)).collect())
    }

    /// The rate of a place of kernel files, and a directory for each file and directory beside it.
    fn list_proc_control(&mut self, inode: Inode, now: Instant, is_late: bool) -> Answer<Vec<Entry>> {
        let mut entries = self.control_entries(inode);
        if !self.kernel_files.is_directory(inode.node, inode.path) {
            return Answer::Ready(entries);
        }
        let (files, mut around) = self.kernel_files(now);
        files.entries(inode, is_late, &mut around).map(|paths| {
            let paths = paths.into_iter().filter(|&path| self.has_settings(inode.node, path));
            entries.extend(paths.map(|path| self.settings_entry(Inode { path, ..inode })));
            entries
        })
    }

    /// A directory of series, or of their settings.
    fn list_series(&mut self, inode: Inode, now: Instant, is_late: bool) -> Answer<Vec<Entry>> {
        let Inode { node, class, path } = inode;
        self.cluster.want(node, now, &mut self.effects);
        let is_current = is_late || self.cluster.is_current(node, now, &mut self.effects);
        let Some(layout) = self.cluster.values().layout(node).filter(|_| is_current) else {
            return match is_late && self.cluster.roster().is_down(node) {
                true => Answer::Ready(Vec::new()),
                false => Answer::missing(is_late),
            };
        };
        let below = layout.entries(path);
        if class == Class::Plain {
            let Some(below) = below else { return Answer::Fail(libc::ENOENT) };
            let below = below.iter().filter(|&&path| self.cluster.values().is_listed(node, path));
            return Answer::Ready(below.map(|&path| self.plain_entry(node, path)).collect());
        }
        let mut listed = self.control_entries(inode);
        for &path in below.unwrap_or_default() {
            if self.cluster.values().is_listed(node, path) {
                let entry = self.settings_entry(Inode { path, ..inode });
                // A metric that has the name of a control file hides it.
                listed.retain(|known| known.name != entry.name);
                listed.push(entry);
            }
        }
        Answer::Ready(listed)
    }

    /// The directory with the settings of a place below a node's.
    fn settings_entry(&self, inode: Inode) -> Entry {
        Entry::directory(inode, self.names.name(inode.path))
    }

    fn plain_entry(&self, node: NodeId, path: PathId) -> Entry {
        let inode = Inode::plain(node, path);
        let kind = self.kind(inode).unwrap_or(Kind::Text);
        Entry { inode, kind, name: self.names.name(path).to_owned() }
    }

    /// The files that a directory of settings has of its own.
    pub(super) fn control_entries(&self, inode: Inode) -> Vec<Entry> {
        let Inode { node, path, .. } = inode;
        let file = |class, name: &str| Entry {
            inode: Inode { node, class, path },
            kind: Kind::Control,
            name: name.to_owned(),
        };
        let mut entries = vec![file(Class::Rate, "rate")];
        match self.area(inode) {
            Some(Area::Root) => entries.push(file(Class::Error, "error")),
            Some(Area::Node) => {
                entries.push(file(Class::Error, "error"));
                let areas = [(self.paths.metrics, "metrics"), (self.paths.proc, "proc")];
                entries.extend(areas.map(|(path, name)| Entry::directory(Inode { path, ..inode }, name)));
            }
            // Range and change are settings of a value's own file.
            Some(Area::Series) if self.series_kind(node, path) == Some(Kind::Value) => {
                entries.extend([file(Class::Range, "range"), file(Class::Change, "change")]);
            }
            _ => {}
        }
        entries
    }
}

fn settings_directory(node: NodeId) -> Entry {
    Entry::directory(Inode { node, class: Class::Control, path: Names::TOP }, ".control")
}
