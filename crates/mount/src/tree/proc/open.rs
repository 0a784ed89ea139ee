//! Kernel files as programs meet them: found, opened, read from the begin to the end of one text, closed.

use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};

use super::super::files::{Asker, Attributes, Handle, Kind, Opened, Read, What, piece};
use super::super::{Answer, Entry, Tree};
use super::KernelText;
use crate::inode::{Inode, NodeId, PathId};
use crate::limits::ATTRIBUTES_TTL;

impl Tree {
    /// What stands at a path of a node's `proc`; `None`: nothing that is known.
    pub(in crate::tree) fn proc_kind(&self, node: NodeId, path: PathId) -> Option<Kind> {
        if path == self.proc.top {
            return Some(Kind::Directory);
        }
        self.proc.lists.get(&node)?.kind(path)
    }

    /// The list of a node, if it came; a reason to wait or to give up, if not.
    fn proc_list(&mut self, node: NodeId, now: Instant, late: bool) -> Answer<()> {
        if self.is_cut_off(node) {
            return Answer::Fail(libc::EIO);
        }
        self.want_list(node, now);
        if self.proc.lists.contains_key(&node) {
            return Answer::Ready(());
        }
        let inode = self.list_inode(node);
        match self.proc.texts.get(&inode).and_then(|text| text.problem) {
            Some((errno, _)) => Answer::Fail(errno),
            None if late => Answer::Fail(libc::ETIMEDOUT),
            None => Answer::Wait,
        }
    }

    /// A name in a directory of `proc`.
    pub(in crate::tree) fn lookup_proc(
        &mut self,
        parent: Inode,
        name: &str,
        now: Instant,
        late: bool,
    ) -> Answer<Inode> {
        match self.proc_list(parent.node, now, late) {
            Answer::Ready(()) => {}
            Answer::Wait => return Answer::Wait,
            Answer::Fail(errno) => return Answer::Fail(errno),
        }
        let path = self.names.find(parent.path, name);
        let path = path.filter(|&path| self.proc_kind(parent.node, path).is_some());
        path.map_or(Answer::Fail(libc::ENOENT), |path| Answer::Ready(Inode { path, ..parent }))
    }

    /// What is in a directory of `proc`. A node that shows no files, or is down and has never said which, has an empty one: who
    /// walks the tree goes on.
    pub(in crate::tree) fn list_proc(
        &mut self,
        inode: Inode,
        now: Instant,
        late: bool,
    ) -> Answer<Vec<Entry>> {
        match self.proc_list(inode.node, now, late) {
            Answer::Ready(()) => {}
            Answer::Wait => return Answer::Wait,
            Answer::Fail(libc::EOPNOTSUPP) => return Answer::Ready(Vec::new()),
            Answer::Fail(_) if self.is_down(inode.node) => return Answer::Ready(Vec::new()),
            Answer::Fail(errno) => return Answer::Fail(errno),
        }
        let entries = self.proc.lists.get(&inode.node).and_then(|list| list.entries(inode.path));
        let Some(entries) = entries.map(<[PathId]>::to_vec) else { return Answer::Fail(libc::ENOENT) };
        Answer::Ready(entries.into_iter().map(|path| self.plain_entry(inode.node, path)).collect())
    }

    /// What a link means.
    pub fn link_target(&self, inode: Inode) -> Option<&str> {
        self.proc.lists.get(&inode.node)?.target(inode.path)
    }

    /// Length and time of a file, as far as they are known.
    pub(in crate::tree) fn proc_attributes(&self, seen: &mut Attributes) {
        seen.ttl = Duration::ZERO;
        if let Some(target) = self.link_target(seen.inode) {
            seen.size = target.len() as u64;
        }
        let Some(known) = self.proc.texts.get(&seen.inode) else { return };
        if let Some((text, stamp)) = &known.text {
            seen.size = text.len() as u64;
            seen.modified = UNIX_EPOCH + Duration::from(stamp.real());
        }
        if known.cached {
            // Another text drops these too.
            seen.ttl = ATTRIBUTES_TTL;
        }
    }

    /// Opens a file: its text of now is awaited, where nobody has it open already.
    pub(in crate::tree) fn open_kernel_text(
        &mut self,
        inode: Inode,
        asker: Asker,
        now: Instant,
        late: bool,
    ) -> Answer<Opened> {
        if self.is_cut_off(inode.node) {
            return Answer::Fail(libc::EIO);
        }
        if let Err(errno) = self.want_text(inode, asker.user, now) {
            return Answer::Fail(errno);
        }
        let is_old = |text: &KernelText| text.text.is_some() && !text.wish.is_some_and(|wish| wish.answered);
        let is_old = self.proc.texts.get(&inode).is_some_and(is_old);
        let is_away = is_old && self.is_away(inode.node, now);
        let is_cached = self.may_be_cached(inode);
        let answer = match self.proc.texts.get(&inode) {
            Some(KernelText { problem: Some((errno, _)), .. }) => Answer::Fail(*errno),
            Some(KernelText { text: Some(_), wish: Some(wish), .. }) if wish.answered => {
                // `stat` tells its length next, and then it is read.
                let began = asker.since.unwrap_or(now);
                if is_cached || self.is_fresh(inode, began, now, late) {
                    Answer::Ready(())
                } else {
                    Answer::Wait
                }
            }
            // Of a node that is away there is what there was.
            Some(KernelText { text: Some(_), .. }) if is_away => Answer::Ready(()),
            _ if late => Answer::Fail(libc::ETIMEDOUT),
            _ => Answer::Wait,
        };
        match answer {
            Answer::Ready(()) => {
                let what = if is_cached { What::CachedText } else { What::KernelText(None) };
                let mut opened = self.opened(inode, asker, what);
                if is_cached {
                    opened = self.begin_caching(opened, inode);
                } else if let Ok(text) = self.begin_to_read(opened.handle, inode, asker.user) {
                    self.begin_text(&opened, inode, text.len(), now);
                }
                if let Some(text) = self.proc.texts.get_mut(&inode) {
                    text.handles += 1;
                }
                self.charge_text(opened.handle, inode);
                self.renew_text_pace(inode);
                Answer::Ready(opened)
            }
            Answer::Wait => {
                // Who opens it reads it next: asked for along with it, the text of now is there when he does.
                self.ask_text(inode, now);
                Answer::Wait
            }
            Answer::Fail(errno) => {
                self.rest_text(inode, now);
                Answer::Fail(errno)
            }
        }
    }

    /// There is a text of this file: who opens it waits for a newer one alone.
    pub fn has_text(&self, inode: Inode) -> bool {
        self.proc.texts.get(&inode).is_some_and(|known| known.text.is_some())
    }

    /// Who opens a file at a place with a faster rate pays for it, as for a value.
    fn charge_text(&mut self, handle: u64, inode: Inode) {
        let places = self.places(inode);
        let Some((place, _)) = self.settings.rate(&places) else { return };
        let may = self.charge_place(handle, inode, place);
        if let Some(text) = self.proc.texts.get_mut(&inode) {
            // Another reader who pays makes it fast for all.
            text.over_budget = !may && (text.handles == 1 || text.over_budget);
        }
    }

    /// What a file holds from `offset` on: from the begin the text of now, and from there on the same.
    pub(in crate::tree) fn read_kernel_text(
        &mut self,
        read: Read,
        is_first: bool,
        now: Instant,
        late: bool,
    ) -> Answer<Vec<u8>> {
        let Read { handle, offset, size, began } = read;
        let Some(&Handle { inode, user, what: What::KernelText(ref reading), .. }) =
            self.handles.get(&handle)
        else {
            return self.read_cached_text(handle, offset, size);
        };
        if self.is_cut_off(inode.node) {
            return Answer::Fail(libc::EIO);
        }
        let text = match reading.clone().filter(|_| offset > 0 || is_first) {
            Some(text) => text,
            None if !self.is_fresh(inode, began, now, late) => return Answer::Wait,
            None => match self.begin_to_read(handle, inode, user) {
                Ok(text) => text,
                Err(errno) => return Answer::Fail(errno),
            },
        };
        Answer::Ready(piece(&text, offset, size))
    }

    /// What stands in a file now, or the errno that says why nothing does.
    pub(super) fn newest_text(&self, inode: Inode) -> Result<Arc<[u8]>, i32> {
        let known = self.proc.texts.get(&inode).ok_or(libc::EIO)?;
        if let Some((errno, _)) = known.problem {
            return Err(errno);
        }
        known.text.as_ref().map(|(text, _)| text.clone()).ok_or(libc::EIO)
    }

    /// A reader is at the begin: the newest text is his until he begins again.
    fn begin_to_read(&mut self, handle: u64, inode: Inode, user: u32) -> Result<Arc<[u8]>, i32> {
        let text = self.newest_text(inode)?;
        let Some(Handle { what: What::KernelText(reading), .. }) = self.handles.get_mut(&handle) else {
            return Err(libc::EBADF);
        };
        if let Some(before) = reading.take() {
            self.proc.pins.unpin(user, &before);
        }
        if !self.proc.pins.pin(user, &text) {
            self.proc.counts.refused += 1;
            return Err(libc::ENOMEM);
        }
        *reading = Some(text.clone());
        Ok(text)
    }

    /// A handle is closed.
    pub(in crate::tree) fn close_kernel_text(
        &mut self,
        inode: Inode,
        user: u32,
        reading: Option<Arc<[u8]>>,
        now: Instant,
    ) {
        if let Some(text) = reading {
            self.proc.pins.unpin(user, &text);
        }
        if let Some(text) = self.proc.texts.get_mut(&inode) {
            text.handles -= 1;
            text.over_budget &= text.handles > 0;
        }
        self.rest_text(inode, now);
    }
}
