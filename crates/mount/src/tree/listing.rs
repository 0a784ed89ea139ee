//! Directories: what is listed in them, as it was when their reader opened them.

use std::time::Instant;

use super::files::{Asker, Kind, Opened, What};
use super::{Answer, Tree};
use crate::inode::{Class, Inode, NodeId, PathId};
use crate::names::Names;

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What it names.
    pub inode: Inode,
    /// What that is.
    pub kind: Kind,
    /// The name.
    pub name: String,
}

impl Tree {
    /// Opens a directory: what is in it now. `late`: what is missing has not come in time.
    pub fn open_directory(&mut self, inode: Inode, asker: Asker, now: Instant, late: bool) -> Answer<Opened> {
        match self.kind(inode) {
            None => return Answer::Fail(libc::ENOENT),
            Some(Kind::Directory) => {}
            Some(_) => return Answer::Fail(libc::ENOTDIR),
        }
        if self.users.get(&asker.user).is_some_and(|user| user.handles >= crate::limits::HANDLES_PER_USER_MAX)
        {
            self.counts.too_many_handles += 1;
            return Answer::Fail(libc::ENFILE);
        }
        match self.list(inode, now, late) {
            Answer::Ready(entries) => Answer::Ready(self.opened(inode, asker, What::Directory(entries))),
            Answer::Wait => Answer::Wait,
            Answer::Fail(errno) => Answer::Fail(errno),
        }
    }

    /// The names of an open directory, from the one of that number on, each with its number's successor.
    pub fn entries(&self, handle: u64, from: u64) -> Option<impl Iterator<Item = (u64, &Entry)>> {
        let What::Directory(entries) = &self.handles.get(&handle)?.what else { return None };
        let from = usize::try_from(from).unwrap_or(usize::MAX);
        Some(entries.iter().enumerate().skip(from).map(|(at, entry)| (at as u64 + 1, entry)))
    }

    /// The directory that a directory stands in.
    pub fn parent(&self, inode: Inode) -> Inode {
        let Inode { node, class, path } = inode;
        match (class, path) {
            (_, Names::TOP) if node == NodeId::TREE => Inode::ROOT,
            (Class::Plain, Names::TOP) => Inode::ROOT,
            (_, Names::TOP) => Inode::plain(node, Names::TOP),
            _ => Inode { path: self.names.parent(path), ..inode },
        }
    }

    fn list(&mut self, inode: Inode, now: Instant, late: bool) -> Answer<Vec<Entry>> {
        let Inode { node, class, path } = inode;
        if node == NodeId::TREE {
            return match (class, path) {
                (Class::Control, _) => Answer::Ready(self.control_entries(inode)),
                (_, Names::TOP) => self.list_root(now, late),
                (_, path) if path == self.fixed.by => self.list_metrics(now, late),
                _ => Answer::Ready(vec![self.plain_entry(node, self.fixed.stats)]),
            };
        }
        if class == Class::Plain && path == Names::TOP {
            let paths = [self.fixed.status, self.fixed.metrics, self.proc.top];
            let mut entries = paths.map(|path| self.plain_entry(node, path)).to_vec();
            entries.push(directory(self.fixed_control(node), ".control"));
            return Answer::Ready(entries);
        }
        if self.is_in_proc(inode) {
            return match class {
                Class::Plain => self.list_proc(inode, now, late),
                _ => self.list_proc_control(inode, now, late),
            };
        }
        if class == Class::Control && path == Names::TOP {
            return Answer::Ready(self.control_entries(inode));
        }
        self.want_node(node, now);
        let is_current = late || self.is_current(node, now);
        let layout = self.node(node).and_then(|node| node.layout.as_ref()).filter(|_| is_current);
        let Some(layout) = layout else {
            return match late {
                true if self.is_down(node) => Answer::Ready(Vec::new()),
                true => Answer::Fail(libc::ETIMEDOUT),
                false => Answer::Wait,
            };
        };
        let Some(entries) = layout.entries(path).map(<[PathId]>::to_vec) else {
            return match class {
                Class::Control => Answer::Ready(self.control_entries(inode)),
                _ => Answer::Fail(libc::ENOENT),
            };
        };
        let mut listed: Vec<Entry> = match class {
            Class::Control => self.control_entries(inode),
            _ => Vec::new(),
        };
        for path in entries.into_iter().filter(|&path| self.has_value(node, path)) {
            match class {
                Class::Control => {
                    let entry = self.control_entry(Inode { node, class, path });
                    // A metric that is called as a control file hides it.
                    listed.retain(|known| known.name != entry.name);
                    listed.push(entry);
                }
                _ => listed.push(self.plain_entry(node, path)),
            }
        }
        Answer::Ready(listed)
    }

    /// What stands in a directory has a value now, or something below it has: what is absent or failed is not listed, so that
    /// who walks the tree can read all that he finds. By its name it can be opened, and says why there is nothing. What has
    /// just gone is listed for a while, so that what comes and goes does not blink, and reads as empty.
    fn has_value(&self, node: NodeId, path: PathId) -> bool {
        let inode = Inode::plain(node, path);
        if let Some((value, _)) = self.kept(inode) {
            return value.reading.value().is_some() || self.has_just_gone(inode);
        }
        let layout = self.node(node).and_then(|node| node.layout.as_ref());
        let entries = layout.and_then(|layout| layout.entries(path)).unwrap_or_default();
        entries.iter().any(|&path| self.has_value(node, path))
    }

    fn list_root(&mut self, now: Instant, late: bool) -> Answer<Vec<Entry>> {
        self.want_roster(now);
        let is_known = self.roster.is_whole() || !self.is_worth_waiting();
        match (is_known, late) {
            (true, _) => {}
            (false, true) => return Answer::Fail(libc::ETIMEDOUT),
            (false, false) => return Answer::Wait,
        }
        let mut entries = vec![
            self.plain_entry(NodeId::TREE, self.fixed.by),
            directory(self.fixed_control(NodeId::TREE), ".control"),
            self.plain_entry(NodeId::TREE, self.fixed.mount),
        ];
        let node = |(name, &id): (&khz_model::NodeName, &NodeId)| {
            directory(Inode::plain(id, Names::TOP), name.as_str())
        };
        entries.extend(self.by_name.iter().map(node));
        Answer::Ready(entries)
    }

    /// The metrics that nodes are known to have; one node that is up is asked, so that there are some.
    fn list_metrics(&mut self, now: Instant, late: bool) -> Answer<Vec<Entry>> {
        self.want_roster(now);
        let first = self.up_nodes().next().map(|(_, id)| id);
        let is_answered = first.is_none_or(|id| {
            self.want_node(id, now);
            self.is_current(id, now)
        });
        if !late && self.is_worth_waiting() && !(self.roster.is_whole() && is_answered) {
            return Answer::Wait;
        }
        let names = self.known_metrics();
        let by = self.fixed.by;
        let paths: Vec<PathId> = names.iter().filter_map(|name| self.names.intern(by, name)).collect();
        Answer::Ready(paths.into_iter().map(|path| self.plain_entry(NodeId::TREE, path)).collect())
    }

    /// The directory with the settings of a place.
    pub(super) fn control_entry(&self, inode: Inode) -> Entry {
        directory(inode, self.names.name(inode.path))
    }

    fn fixed_control(&self, node: NodeId) -> Inode {
        Inode { node, class: Class::Control, path: Names::TOP }
    }

    pub(super) fn plain_entry(&self, node: NodeId, path: PathId) -> Entry {
        let inode = Inode::plain(node, path);
        let kind = self.kind(inode).unwrap_or(Kind::Text);
        Entry { inode, kind, name: self.names.name(path).to_owned() }
    }

    /// The files that a control directory has of its own.
    pub(super) fn control_entries(&self, inode: Inode) -> Vec<Entry> {
        let Inode { node, path, .. } = inode;
        let file = |class, name: &str| Entry {
            inode: Inode { node, class, path },
            kind: Kind::Control,
            name: name.to_owned(),
        };
        let mut entries = vec![file(Class::Rate, "rate")];
        if path == Names::TOP {
            entries.push(file(Class::Error, "error"));
            if node != NodeId::TREE {
                let metrics = Inode { path: self.fixed.metrics, ..inode };
                let proc = Inode { path: self.proc.top, ..inode };
                entries.extend([directory(metrics, "metrics"), directory(proc, "proc")]);
            }
        } else if self.has_filter(node, path) {
            entries.extend([file(Class::Range, "range"), file(Class::Change, "change")]);
        }
        entries
    }
}

fn directory(inode: Inode, name: &str) -> Entry {
    Entry { inode, kind: Kind::Directory, name: name.to_owned() }
}
