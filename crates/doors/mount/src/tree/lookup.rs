//! A name in a directory: what it names. Names from the file system are any bytes.

use std::time::Instant;

use khz_model::NodeName;

use super::Tree;
use crate::answer::Answer;
use crate::file::Kind;
use crate::inode::{Class, Inode, NodeId};
use crate::limits::NAME_BYTES_MAX;
use crate::names::Names;
use crate::paths::Area;

impl Tree {
    /// What a name in a directory names. `is_late`: what has to be known for it has not come in time.
    pub fn lookup(&mut self, parent: Inode, name: &[u8], now: Instant, is_late: bool) -> Answer<Inode> {
        if name.len() > NAME_BYTES_MAX {
            return Answer::Fail(libc::ENAMETOOLONG);
        }
        match self.kind(parent) {
            None => return Answer::Fail(libc::ENOENT),
            Some(Kind::Directory) => {}
            Some(_) => return Answer::Fail(libc::ENOTDIR),
        }
        // Our names are UTF-8.
        let Ok(name) = std::str::from_utf8(name) else { return Answer::Fail(libc::ENOENT) };
        if parent.class == Class::Control {
            return self.lookup_control(parent, name, now, is_late);
        }
        if parent.class == Class::Channel {
            return self.lookup_in_channel(parent, name, now, is_late);
        }
        let control = Inode { class: Class::Control, ..parent };
        match self.area(parent) {
            Some(Area::Root | Area::Node) if name == ".control" => Answer::Ready(control),
            Some(Area::Root) => self.lookup_node(parent, name, now, is_late),
            Some(Area::Tables) => {
                let path = self.cluster.table_path(self.paths.by, name, &mut self.names);
                path.map(|path| Inode::plain(NodeId::TREE, path))
            }
            Some(Area::Channels) => self.lookup_channel(name, now, is_late),
            Some(Area::Proc) => {
                let (files, mut around) = self.kernel_files(now);
                files.lookup(parent, name, is_late, &mut around)
            }
            Some(Area::Series) => self.lookup_series(parent, name, now, is_late),
            _ => self.lookup_fixed(parent, name),
        }
    }

    /// A name that stands in the directory whatever the nodes say.
    fn lookup_fixed(&self, parent: Inode, name: &str) -> Answer<Inode> {
        let inode = self.names.find(parent.path, name).map(|path| Inode { path, ..parent });
        Answer::or_fail(inode.filter(|&inode| self.kind(inode).is_some()), libc::ENOENT)
    }

    pub(super) fn lookup_node(
        &mut self,
        parent: Inode,
        name: &str,
        now: Instant,
        is_late: bool,
    ) -> Answer<Inode> {
        // Node names do not begin with a dot: nobody waits for `.git`.
        let Ok(node) = NodeName::new(name) else { return self.lookup_fixed(parent, name) };
        self.cluster.want_roster(now, &mut self.effects);
        match self.cluster.roster().id(&node) {
            Some(id) => Answer::Ready(Inode::plain(id, Names::TOP)),
            None if self.cluster.roster().is_complete() => Answer::Fail(libc::ENOENT),
            None => Answer::missing(is_late),
        }
    }

    fn lookup_series(&mut self, parent: Inode, name: &str, now: Instant, is_late: bool) -> Answer<Inode> {
        self.cluster.want(parent.node, now, &mut self.effects);
        match self.lookup_fixed(parent, name) {
            Answer::Fail(_) => self.no_series(parent.node, now, is_late),
            known => known,
        }
    }

    /// A name that the node's series do not have: that is final only while they are current.
    fn no_series(&mut self, node: NodeId, now: Instant, is_late: bool) -> Answer<Inode> {
        let is_current = self.cluster.is_current(node, now, &mut self.effects);
        match is_current && self.cluster.values().layout(node).is_some() {
            true => Answer::Fail(libc::ENOENT),
            false => Answer::missing(is_late),
        }
    }

    fn lookup_control(&mut self, parent: Inode, name: &str, now: Instant, is_late: bool) -> Answer<Inode> {
        let Inode { node, path, .. } = parent;
        let area = self.area(parent);
        if area == Some(Area::Proc) {
            return self.lookup_proc_control(parent, name, now, is_late);
        }
        if area == Some(Area::Series) {
            self.cluster.want(node, now, &mut self.effects);
            let below = self.names.find(path, name).filter(|&below| self.has_settings(node, below));
            if let Some(path) = below {
                return Answer::Ready(Inode { path, ..parent });
            }
        }
        let own = self.control_entries(parent).into_iter().find(|entry| entry.name == name);
        match own {
            Some(entry) => Answer::Ready(entry.inode),
            None if area == Some(Area::Series) => self.no_series(node, now, is_late),
            None => Answer::Fail(libc::ENOENT),
        }
    }

    /// Kernel files have a rate and no other setting.
    fn lookup_proc_control(
        &mut self,
        parent: Inode,
        name: &str,
        now: Instant,
        is_late: bool,
    ) -> Answer<Inode> {
        if name == "rate" {
            return Answer::Ready(Inode { class: Class::Rate, ..parent });
        }
        let plain = Inode { class: Class::Plain, ..parent };
        let (files, mut around) = self.kernel_files(now);
        files.lookup(plain, name, is_late, &mut around).then(|inode| {
            let has_settings = self.has_settings(inode.node, inode.path);
            let control = Inode { class: Class::Control, ..inode };
            Answer::or_fail(has_settings.then_some(control), libc::ENOENT)
        })
    }
}
