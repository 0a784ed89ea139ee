//! The first read of a text. Who opens a file asks `stat` for its length next and then reads: for a moment both see the
//! text as it was when the file was opened. Archivers take a text of another length for a broken one.

use std::collections::HashMap;
use std::time::Instant;

use crate::inode::Inode;
use crate::limits::OPENED_TEXT_MAX;

/// Texts that were opened and not read yet.
#[derive(Debug, Default)]
pub(crate) struct FirstReads {
    /// For each file the handle that opened it last, and the length of its text.
    last: HashMap<Inode, (u64, u64)>,
    /// When each handle was opened.
    unread: HashMap<u64, Instant>,
}

impl FirstReads {
    /// A text of this length was opened.
    pub fn open(&mut self, handle: u64, inode: Inode, length: usize, now: Instant) {
        self.unread.insert(handle, now);
        self.last.insert(inode, (handle, length as u64));
    }

    /// A reader is at the start of a text. True when he reads the text that he opened. It is his only once, only for
    /// [`OPENED_TEXT_MAX`], and only while nobody has opened a newer one: that one may have been seen, and nobody sees an
    /// older text than somebody before him.
    pub fn is_first(&mut self, handle: u64, inode: Inode, now: Instant) -> bool {
        let opened = self.unread.remove(&handle);
        let is_last = self.last.get(&inode).is_some_and(|&(last, _)| last == handle);
        let is_new = opened.is_some_and(|at| now.saturating_duration_since(at) <= OPENED_TEXT_MAX);
        if !(is_last && is_new) {
            self.forget(handle, inode);
        }
        is_last && is_new
    }

    /// The length that `stat` tells of a file, until who opened it last closes it or begins again.
    pub fn length(&self, inode: Inode) -> Option<u64> {
        self.last.get(&inode).map(|&(_, length)| length)
    }

    /// A handle is closed.
    pub fn close(&mut self, handle: u64, inode: Inode) {
        self.unread.remove(&handle);
        self.forget(handle, inode);
    }

    fn forget(&mut self, handle: u64, inode: Inode) {
        if self.last.get(&inode).is_some_and(|&(last, _)| last == handle) {
            self.last.remove(&inode);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_as_it_was_opened_for_the_first_read_of_who_opened_it_last() {
        let (mut reads, now) = (FirstReads::default(), Instant::now());
        reads.open(1, Inode::ROOT, 10, now);
        reads.open(2, Inode::ROOT, 20, now);
        assert!(!reads.is_first(1, Inode::ROOT, now), "handle 2 may have shown a newer text");
        assert_eq!(reads.length(Inode::ROOT), Some(20));
        assert!(reads.is_first(2, Inode::ROOT, now));
        assert!(!reads.is_first(2, Inode::ROOT, now), "from the start again: a text of now");
        assert_eq!(reads.length(Inode::ROOT), None);
    }

    #[test]
    fn a_reader_who_comes_late_gets_the_text_of_then() {
        let (mut reads, now) = (FirstReads::default(), Instant::now());
        reads.open(1, Inode::ROOT, 10, now);
        assert!(!reads.is_first(1, Inode::ROOT, now + OPENED_TEXT_MAX * 2));
    }
}
