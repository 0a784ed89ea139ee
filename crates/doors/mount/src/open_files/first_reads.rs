//! The first read of a text. A program opens a file, asks `stat` for its length, and reads: for a moment both see the text
//! as it was at the open. Archivers take a text of another length for a broken one.

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

    /// A reader begins. True when it reads the text that was there at its open: only once, only for [`OPENED_TEXT_MAX`], and
    /// only while nobody else has opened the file. Another program may have seen a newer text by then, and no reader gets an
    /// older text than a reader before it.
    pub fn is_first(&mut self, handle: u64, inode: Inode, now: Instant) -> bool {
        let opened = self.unread.remove(&handle);
        let is_last = self.last.get(&inode).is_some_and(|&(last, _)| last == handle);
        let is_new = opened.is_some_and(|at| now.saturating_duration_since(at) <= OPENED_TEXT_MAX);
        if !(is_last && is_new) {
            self.forget(handle, inode);
        }
        is_last && is_new
    }

    /// The length that `stat` shows of a file, until its last opener closes it or begins again.
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
    fn the_first_read_of_the_last_opener_gets_the_text_of_the_open() {
        let (mut reads, now) = (FirstReads::default(), Instant::now());
        reads.open(1, Inode::ROOT, 10, now);
        reads.open(2, Inode::ROOT, 20, now);
        assert!(!reads.is_first(1, Inode::ROOT, now), "handle 2 may have shown a newer text");
        assert_eq!(reads.length(Inode::ROOT), Some(20));
        assert!(reads.is_first(2, Inode::ROOT, now));
        assert!(!reads.is_first(2, Inode::ROOT, now), "from the start again: a new text");
        assert_eq!(reads.length(Inode::ROOT), None);
    }

    #[test]
    fn a_reader_who_begins_late_gets_a_new_text() {
        let (mut reads, now) = (FirstReads::default(), Instant::now());
        reads.open(1, Inode::ROOT, 10, now);
        assert!(!reads.is_first(1, Inode::ROOT, now + OPENED_TEXT_MAX * 2));
    }
}
