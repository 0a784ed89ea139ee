//! A name in a directory: what it names. Names from the file system are any bytes.

use std::time::Instant;

use khz_model::NodeName;

use super::files::Kind;
use super::{Answer, Tree};
use crate::inode::{Class, Inode, NodeId};
use crate::limits::{BY_NAMES_MAX, NAME_BYTES_MAX};
use crate::names::Names;

impl Tree {
    /// What a name in a directory names. `late`: what is needed to tell has not come in time.
    pub fn lookup(&mut self, parent: Inode, name: &[u8], now: Instant, late: bool) -> Answer<Inode> {
        if name.len() > NAME_BYTES_MAX {
            return Answer::Fail(libc::ENAMETOOLONG);
        }
        match self.kind(parent) {
            None => return Answer::Fail(libc::ENOENT),
            Some(Kind::Directory) => {}
            Some(_) => return Answer::Fail(libc::ENOTDIR),
        }
        // Names of ours are text.
        let Ok(name) = std::str::from_utf8(name) else { return Answer::Fail(libc::ENOENT) };
        match (parent.node, parent.class) {
            (_, Class::Control) => self.lookup_control(parent, name, now, late),
            (NodeId::TREE, _) => self.lookup_tree(parent, name, now, late),
            _ => self.lookup_node(parent, name, now, late),
        }
    }

    fn lookup_tree(&mut self, parent: Inode, name: &str, now: Instant, late: bool) -> Answer<Inode> {
        if parent.path == self.fixed.by {
            return self.lookup_metric(name);
        }
        if parent.path != Names::TOP {
            return self.fixed_name(parent, name);
        }
        if name == ".control" {
            return Answer::Ready(Inode { class: Class::Control, ..parent });
        }
        // Node names do not begin with a dot: nobody waits for `.git`.
        let Ok(node) = NodeName::new(name) else { return self.fixed_name(parent, name) };
        self.want_roster(now);
        match self.by_name.get(&node) {
            Some(&id) => Answer::Ready(Inode::plain(id, Names::TOP)),
            None if self.roster.is_whole() => Answer::Fail(libc::ENOENT),
            None if late => Answer::Fail(libc::ETIMEDOUT),
            None => Answer::Wait,
        }
    }

    fn fixed_name(&self, parent: Inode, name: &str) -> Answer<Inode> {
        let inode = self.names.find(parent.path, name).map(|path| Inode { path, ..parent });
        let inode = inode.filter(|&inode| self.kind(inode).is_some());
        inode.map_or(Answer::Fail(libc::ENOENT), Answer::Ready)
    }

    /// Every name that can be a metric's: which there are, the nodes tell whoever opens it.
    fn lookup_metric(&mut self, name: &str) -> Answer<Inode> {
        let ready = |path| Answer::Ready(Inode::plain(NodeId::TREE, path));
        if let Some(path) = self.names.find(self.fixed.by, name) {
            return ready(path);
        }
        if !self.may_be_metric(name) {
            return Answer::Fail(libc::ENOENT);
        }
        let room = (self.by.names < BY_NAMES_MAX).then(|| self.names.intern(self.fixed.by, name)).flatten();
        let Some(path) = room else {
            self.counts.by_names_left_out += 1;
            return Answer::Fail(libc::ENOSPC);
        };
        self.by.names += 1;
        ready(path)
    }

    fn lookup_node(&mut self, parent: Inode, name: &str, now: Instant, late: bool) -> Answer<Inode> {
        if parent.path == Names::TOP {
            let control = Inode { class: Class::Control, ..parent };
            return if name == ".control" { Answer::Ready(control) } else { self.fixed_name(parent, name) };
        }
        if self.is_in_proc(parent) {
            return self.lookup_proc(parent, name, now, late);
        }
        self.want_node(parent.node, now);
        match self.fixed_name(parent, name) {
            Answer::Fail(_) => self.unknown(parent.node, now, late),
            known => known,
        }
    }

    /// A name that is not there: for good, or not yet. What a node had when somebody last looked says nothing.
    fn unknown(&mut self, node: NodeId, now: Instant, late: bool) -> Answer<Inode> {
        let is_current = self.is_current(node, now);
        let is_known = is_current && self.node(node).is_some_and(|node| node.layout.is_some());
        match is_known {
            true => Answer::Fail(libc::ENOENT),
            false if late => Answer::Fail(libc::ETIMEDOUT),
            false => Answer::Wait,
        }
    }

    fn lookup_control(&mut self, parent: Inode, name: &str, now: Instant, late: bool) -> Answer<Inode> {
        let Inode { node, path, .. } = parent;
        if self.is_in_proc(parent) {
            return self.lookup_proc_control(parent, name, now, late);
        }
        if node != NodeId::TREE && path != Names::TOP {
            self.want_node(node, now);
            let below = self.names.find(path, name).filter(|&below| self.has_settings(node, below));
            if let Some(path) = below {
                return Answer::Ready(Inode { path, ..parent });
            }
        }
        let own = self.control_entries(parent).into_iter().find(|entry| entry.name == name);
        match own {
            Some(entry) => Answer::Ready(entry.inode),
            None if node == NodeId::TREE || path == Names::TOP => Answer::Fail(libc::ENOENT),
            None => self.unknown(node, now, late),
        }
    }
}
