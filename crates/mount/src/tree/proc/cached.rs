//! Kernel files out of the page cache (`-o cache_texts`), those of up to a page: whoever keeps one open reads memory, until
//! there is another text and its page is dropped. The kernel makes the page anew out of one answer of ours, so that who
//! reads all of it at once gets one text; who reads it in pieces may get pieces of two.

use super::super::files::{Opened, What, piece};
use super::super::{Answer, Tree};
use crate::inode::{Inode, NodeId};
use crate::limits::CACHED_TEXT_MAX;

impl Tree {
    /// Whether who opens this file now is served by the page cache.
    pub(super) fn may_be_cached(&self, inode: Inode) -> bool {
        let text = self.proc.texts.get(&inode).and_then(|known| known.text.as_ref());
        self.options.cache_texts && text.is_some_and(|(text, _)| text.len() <= CACHED_TEXT_MAX)
    }

    /// A handle of it was made: the page cache is followed from now on. What it has already is good only if it was before.
    pub(super) fn begin_caching(&mut self, opened: Opened, inode: Inode) -> Opened {
        let Some(known) = self.proc.texts.get_mut(&inode) else { return opened };
        let keep = std::mem::replace(&mut known.cached, true);
        Opened { cached: true, keep, ..opened }
    }

    /// What the kernel makes a page of: the newest text.
    pub(super) fn read_cached_text(&self, handle: u64, offset: u64, size: usize) -> Answer<Vec<u8>> {
        let inode = match self.handles.get(&handle) {
            Some(open) if matches!(open.what, What::CachedText) => open.inode,
            _ => return Answer::Fail(libc::EBADF),
        };
        if self.is_cut_off(inode.node) {
            return Answer::Fail(libc::EIO);
        }
        match self.newest_text(inode) {
            Ok(text) => Answer::Ready(piece(&text, offset, size)),
            Err(errno) => Answer::Fail(errno),
        }
    }

    /// There is another text, or none: the page cache has the wrong one.
    pub(super) fn drop_cached(&mut self, inode: Inode) {
        if self.proc.texts.get(&inode).is_some_and(|known| known.cached) {
            self.work.drops.push(inode);
        }
    }

    /// The same for all files of a node, or of all nodes: what may be read of it is another thing now.
    pub(in crate::tree) fn drop_all_cached(&mut self, node: Option<NodeId>) {
        let is_of = |inode: &Inode| node.is_none_or(|node| inode.node == node);
        let cached = self.proc.texts.iter().filter(|(inode, known)| known.cached && is_of(inode));
        self.work.drops.extend(cached.map(|(&inode, _)| inode));
    }

    /// It is not followed any more.
    pub(super) fn end_caching(&mut self, inode: Inode) {
        let Some(known) = self.proc.texts.get_mut(&inode) else { return };
        if std::mem::take(&mut known.cached) {
            self.work.forget.push(inode);
        }
    }
}
