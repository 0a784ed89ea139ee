//! The directories below `NODE/proc` and `NODE/.control/proc`: names, links, and what is listed. A kernel file's place has
//! a rate and no other setting.

use super::{Around, KernelFiles};
use crate::answer::Answer;
use crate::file::Kind;
use crate::inode::{Inode, NodeId, PathId};

impl KernelFiles {
    /// What stands at a path of a node's `proc`; `None`: nothing that is known.
    pub fn kind(&self, node: NodeId, path: PathId) -> Option<Kind> {
        if path == self.top {
            return Some(Kind::Directory);
        }
        self.lists.of(node)?.kind(path)
    }

    /// True for paths that have a rate.
    pub fn has_rate(&self, node: NodeId, path: PathId) -> bool {
        matches!(self.kind(node, path), Some(Kind::Directory | Kind::KernelText))
    }

    /// True for directories.
    pub fn is_directory(&self, node: NodeId, path: PathId) -> bool {
        self.kind(node, path) == Some(Kind::Directory)
    }

    /// What a link means.
    pub fn link_target(&self, inode: Inode) -> Option<&str> {
        self.lists.of(inode.node)?.target(inode.path)
    }

    /// Ready when the list of a node is here.
    fn list(&mut self, node: NodeId, is_late: bool, around: &mut Around<'_>) -> Answer<()> {
        if around.is_unreachable(node) {
            return Answer::Fail(libc::EIO);
        }
        self.want_list(node, around);
        if self.lists.of(node).is_some() {
            return Answer::Ready(());
        }
        match self.texts.get(self.list_inode(node)).and_then(|text| text.problem) {
            Some((errno, _)) => Answer::Fail(errno),
            None => Answer::missing(is_late),
        }
    }

    /// A name in a directory of `proc`.
    pub fn lookup(
        &mut self,
        parent: Inode,
        name: &str,
        is_late: bool,
        around: &mut Around<'_>,
    ) -> Answer<Inode> {
        self.list(parent.node, is_late, around).then(|()| {
            let path = around.names.find(parent.path, name);
            let path = path.filter(|&path| self.kind(parent.node, path).is_some());
            Answer::or_fail(path.map(|path| Inode { path, ..parent }), libc::ENOENT)
        })
    }

    /// What is in a directory of `proc`. It is empty for a node that shows no files, or that is down and has never said
    /// which it shows: a program that walks the tree goes on.
    pub fn entries(&mut self, inode: Inode, is_late: bool, around: &mut Around<'_>) -> Answer<Vec<PathId>> {
        match self.list(inode.node, is_late, around) {
            Answer::Ready(()) => {
                let entries = self.lists.of(inode.node).and_then(|list| list.entries(inode.path));
                Answer::or_fail(entries.map(<[PathId]>::to_vec), libc::ENOENT)
            }
            Answer::Wait => Answer::Wait,
            Answer::Fail(libc::EOPNOTSUPP) => Answer::Ready(Vec::new()),
            Answer::Fail(_) if around.cluster.roster().is_down(inode.node) => Answer::Ready(Vec::new()),
            Answer::Fail(errno) => Answer::Fail(errno),
        }
    }
}
