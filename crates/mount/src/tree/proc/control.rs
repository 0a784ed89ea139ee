//! `.control/proc`: how often kernel files are looked at. They have a rate and nothing else.

use std::time::Instant;

use super::super::{Answer, Entry, Tree};
use crate::inode::{Class, Inode, PathId};

impl Tree {
    /// A name in a directory of settings of `proc`.
    pub(in crate::tree) fn lookup_proc_control(
        &mut self,
        parent: Inode,
        name: &str,
        now: Instant,
        late: bool,
    ) -> Answer<Inode> {
        if name == "rate" {
            return Answer::Ready(Inode { class: Class::Rate, ..parent });
        }
        let plain = Inode { class: Class::Plain, ..parent };
        match self.lookup_proc(plain, name, now, late) {
            Answer::Ready(inode) if self.has_settings(inode.node, inode.path) => {
                Answer::Ready(Inode { class: Class::Control, ..inode })
            }
            Answer::Ready(_) => Answer::Fail(libc::ENOENT),
            other => other,
        }
    }

    /// What is in one: its rate, and a directory for each file and directory beside it.
    pub(in crate::tree) fn list_proc_control(
        &mut self,
        inode: Inode,
        now: Instant,
        late: bool,
    ) -> Answer<Vec<Entry>> {
        let mut entries = self.control_entries(inode);
        let is_directory = inode.path == self.proc.top
            || self.proc.lists.get(&inode.node).is_some_and(|list| list.entries(inode.path).is_some());
        if !is_directory {
            return Answer::Ready(entries);
        }
        match self.list_proc(Inode { class: Class::Plain, ..inode }, now, late) {
            Answer::Ready(listed) => {
                let paths = listed.into_iter().map(|entry| entry.inode.path);
                let paths: Vec<PathId> = paths.filter(|&path| self.has_settings(inode.node, path)).collect();
                entries.extend(paths.into_iter().map(|path| self.control_entry(Inode { path, ..inode })));
                Answer::Ready(entries)
            }
            other => other,
        }
    }
}
