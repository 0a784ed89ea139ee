//! Kernel files of up to a page out of the page cache (`-o cache_texts`): a program that keeps one open reads memory, until
//! another text drops the page. The kernel makes the page out of one answer of ours. So one read of the whole file gets
//! one text; a program that reads in pieces may get pieces of two.

use super::{Around, KernelFiles};
use crate::answer::Answer;
use crate::effects::Effects;
use crate::file::Read;
use crate::inode::{Inode, NodeId};
use crate::limits::CACHED_TEXT_MAX;

impl KernelFiles {
    /// Whether the page cache serves an open of this file now.
    pub fn may_be_cached(&self, inode: Inode) -> bool {
        let text = self.texts.get(inode).and_then(|known| known.last());
        self.cache_texts && text.is_some_and(|(text, _)| text.len() <= CACHED_TEXT_MAX)
    }

    /// A read of the kernel, which makes a page of the newest text.
    pub fn read_cached(&self, read: &Read, inode: Inode, around: &Around<'_>) -> Answer<Vec<u8>> {
        if around.is_unreachable(inode.node) {
            return Answer::Fail(libc::EIO);
        }
        match self.newest(inode) {
            Ok(text) => Answer::Ready(read.part(&text)),
            Err(errno) => Answer::Fail(errno),
        }
    }

    /// The text has changed or is gone: the page cache drops it.
    pub(super) fn drop_cached(&self, inode: Inode, effects: &mut Effects) {
        if self.texts.get(inode).is_some_and(|known| known.cached) {
            effects.invalidate(inode);
        }
    }

    /// The same for all files of a node, or of all nodes: a strict mount gives other answers from now on.
    pub fn drop_all_cached(&self, node: Option<NodeId>, effects: &mut Effects) {
        let is_of = |inode: Inode| node.is_none_or(|node| inode.node == node);
        let cached = self.texts.iter().filter(|&(inode, known)| known.cached && is_of(inode));
        cached.for_each(|(inode, _)| effects.invalidate(inode));
    }

    /// New texts do not drop the page any more.
    pub(super) fn end_caching(&mut self, inode: Inode, effects: &mut Effects) {
        let Some(known) = self.texts.get_mut(inode) else { return };
        if std::mem::take(&mut known.cached) {
            effects.forget(inode);
        }
    }
}
