//! Kernel files as programs meet them: opened, read from the start to the end of one text, closed.

use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};

use super::freshness::Verdict;
use super::{Around, KernelFiles};
use crate::answer::Answer;
use crate::effects::Command;
use crate::file::{Attributes, Caller, Read};
use crate::inode::Inode;
use crate::limits::ATTRIBUTES_TTL;

/// A reader of a kernel file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader {
    pub inode: Inode,
    pub user: u32,
}

/// How a kernel file was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpenedText {
    /// The page cache serves its readers.
    Cached {
        /// What the page cache has already is good.
        keep: bool,
    },
    /// Its reader has a text of this length to read.
    Begun(usize),
    /// There is nothing to read yet.
    Nothing,
}

impl KernelFiles {
    /// Length and time of a file, as far as they are known.
    pub fn attributes(&self, seen: &mut Attributes) {
        seen.ttl = Duration::ZERO;
        if let Some(target) = self.link_target(seen.inode) {
            seen.size = target.len() as u64;
        }
        let Some(known) = self.texts.get(seen.inode) else { return };
        if let Some((text, stamp)) = known.last() {
            seen.size = text.len() as u64;
            seen.modified = UNIX_EPOCH + Duration::from(stamp.real());
        }
        if known.cached {
            // Another text drops these too.
            seen.ttl = ATTRIBUTES_TTL;
        }
    }

    /// True for a file that has a text: an open of it waits only for a fresher one.
    pub fn has_text(&self, inode: Inode) -> bool {
        self.texts.get(inode).is_some_and(|known| known.last().is_some())
    }

    /// Whether a file may be opened now: it may when a fresh text is there, or nothing fresher will come. If node or hub is away,
    /// a reader gets the last text; with `-o strict` it gets EIO.
    pub fn may_open(
        &mut self,
        inode: Inode,
        caller: Caller,
        is_late: bool,
        around: &mut Around<'_>,
    ) -> Answer<()> {
        if around.is_unreachable(inode.node) {
            return Answer::Fail(libc::EIO);
        }
        if let Err(errno) = self.want(inode, caller.user, around) {
            return Answer::Fail(errno);
        }
        let answer = self.is_ready(inode, caller, is_late, around);
        match answer {
            Answer::Ready(()) => {}
            // A read follows the open: the node is asked now, so that the text is there for the read.
            Answer::Wait => self.ask(inode, around),
            Answer::Fail(_) => self.rest(inode, around),
        }
        answer
    }

    fn is_ready(
        &mut self,
        inode: Inode,
        caller: Caller,
        is_late: bool,
        around: &mut Around<'_>,
    ) -> Answer<()> {
        let Some(text) = self.texts.get(inode) else { return Answer::missing(is_late) };
        if let Some((errno, _)) = text.problem {
            return Answer::Fail(errno);
        }
        match (text.last().is_some(), text.has_answered()) {
            (true, true) => {
                // `stat` asks for its length next, and then somebody reads it.
                let began = caller.since.unwrap_or(around.now);
                let is_fresh = self.may_be_cached(inode) || self.is_fresh(inode, began, is_late, around);
                if is_fresh { Answer::Ready(()) } else { Answer::Wait }
            }
            // A node that is away keeps its last text.
            (true, false) if around.cluster.has_nothing_newer(inode.node, around.now, around.effects) => {
                Answer::Ready(())
            }
            // Nobody has followed the file for a while, and the node stands still.
            (true, false) if self.gives_up(inode, is_late) => Answer::Ready(()),
            _ => Answer::missing(is_late),
        }
    }

    /// A user opens a file.
    pub fn open(&mut self, handle: u64, inode: Inode, user: u32, is_cached: bool) -> OpenedText {
        let opened = match is_cached {
            true => match self.texts.get_mut(inode) {
                // The page in the cache is good only if new texts have dropped it until now.
                Some(known) => OpenedText::Cached { keep: std::mem::replace(&mut known.cached, true) },
                None => OpenedText::Nothing,
            },
            false => {
                let text = self.begin(handle, inode, user);
                text.map_or(OpenedText::Nothing, |text| OpenedText::Begun(text.len()))
            }
        };
        if let Some(text) = self.texts.get_mut(inode) {
            text.handles += 1;
        }
        opened
    }

    /// Whether the faster rate of a file's place is within the budget of the user who opened the file. One reader for whom it
    /// is makes it fast for all.
    pub fn charged(&mut self, inode: Inode, is_paid: bool) {
        if let Some(text) = self.texts.get_mut(inode) {
            text.over_budget = !is_paid && (text.handles == 1 || text.over_budget);
        }
    }

    /// What a file holds from an offset on. A read at offset 0 begins with a fresh text, later reads continue it. `is_first`:
    /// the reader begins with the text that was there at the open.
    pub fn read(
        &mut self,
        read: &Read,
        Reader { inode, user }: Reader,
        is_first: bool,
        is_late: bool,
        around: &mut Around<'_>,
    ) -> Answer<Vec<u8>> {
        if around.is_unreachable(inode.node) {
            return Answer::Fail(libc::EIO);
        }
        if let Some(text) = self.pins.text(read.handle).filter(|_| read.offset > 0 || is_first) {
            return Answer::Ready(read.part(text));
        }
        if !self.is_fresh(inode, read.began, is_late, around) {
            return Answer::Wait;
        }
        match self.begin(read.handle, inode, user) {
            Ok(text) => Answer::Ready(read.part(&text)),
            Err(errno) => Answer::Fail(errno),
        }
    }

    /// What is in a file now, or the errno that says why nothing is.
    pub(super) fn newest(&self, inode: Inode) -> Result<Arc<[u8]>, i32> {
        self.texts.get(inode).ok_or(libc::EIO)?.newest()
    }

    /// A reader begins: it keeps the newest text until it begins again.
    fn begin(&mut self, handle: u64, inode: Inode, user: u32) -> Result<Arc<[u8]>, i32> {
        let text = self.newest(inode)?;
        if !self.pins.pin(handle, user, &text) {
            self.counts.refused += 1;
            return Err(libc::ENOMEM);
        }
        Ok(text)
    }

    /// A handle is closed.
    pub fn close(&mut self, handle: u64, inode: Inode, around: &mut Around<'_>) {
        self.pins.unpin(handle);
        if let Some(text) = self.texts.get_mut(inode) {
            text.handles -= 1;
            text.over_budget &= text.handles > 0;
        }
        self.rest(inode, around);
    }

    /// True when a reader that has waited since `began` may begin with the text that is here. Else the node is asked.
    fn is_fresh(&mut self, inode: Inode, began: Instant, is_late: bool, around: &mut Around<'_>) -> bool {
        let Some(known) = self.texts.get_mut(inode) else { return true };
        let is_hub_up = around.cluster.roster().is_hub_up();
        let can_ask = known.subscription.is_some() && known.problem.is_none() && is_hub_up;
        match known.freshness.judge(began, around.now, is_late, can_ask) {
            Verdict::Read => true,
            Verdict::GiveUp => {
                self.counts.not_in_time += 1;
                true
            }
            Verdict::Ask => {
                self.ask(inode, around);
                false
            }
        }
    }

    /// True when a reader that waits for the first answer to a subscription gets the text that is here.
    fn gives_up(&mut self, inode: Inode, is_late: bool) -> bool {
        let Some(known) = self.texts.get_mut(inode) else { return false };
        self.counts.not_in_time += u64::from(is_late);
        known.freshness.gives_up(is_late)
    }

    /// Asks the node to read a file now, unless it is asked already.
    fn ask(&mut self, inode: Inode, around: &mut Around<'_>) {
        let Some(known) = self.texts.get_mut(inode) else { return };
        let Some(subscribed) = known.subscription else { return };
        if let Some(request) = known.freshness.ask(around.now) {
            self.counts.asked += 1;
            around.effects.command(Command::ReadTextNow(subscribed.held.number, request));
        }
    }
}
