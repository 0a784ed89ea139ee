//! What the page cache has of one file, and how it gets a new value.
//!
//! Bytes are never stored over other bytes: a program that reads a page holds no lock, and would see digits of two values.
//!
//! 1. The page is dropped. This waits for reads that are under way, and leaves their page whole.
//! 2. The new bytes are stored.
//!
//! From before the drop until the store is over, every read that comes to us gets the bytes that are being stored. A page
//! that a reader makes meanwhile has the same bytes, and storing over it changes nothing.

use std::time::Instant;

use khz_model::Reading;

use crate::limits::READ_LEASE;

/// The page of a file that is followed.
#[derive(Debug)]
pub(crate) struct Page {
    /// What it has, or will have next.
    served: Reading,
    is_being_stored: bool,
    /// It was dropped, and nobody has asked for it since: there is nothing to drop.
    is_dropped: bool,
    /// Somebody has read lately.
    read_until: Option<Instant>,
}

/// How the page cache gets a new value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Renewal {
    /// It has nothing of the file.
    Nothing,
    /// The page is dropped; the next read fetches it.
    Drop,
    /// The page is dropped and stored before somebody reads.
    Store,
}

impl Page {
    /// The page of a file that shows this.
    pub fn new(reading: Reading) -> Self {
        Page { served: reading, is_being_stored: false, is_dropped: false, read_until: None }
    }

    /// It is followed from now on. `false`: another value is still being stored, and this one has to come after it.
    pub fn follow(&mut self, reading: Reading) -> bool {
        if !self.is_being_stored {
            self.served = reading;
        }
        self.served == reading
    }

    /// What every reader gets.
    pub fn served(&self) -> Reading {
        self.served
    }

    /// The kernel has asked for its length or its bytes.
    pub fn touch(&mut self) {
        self.is_dropped = false;
    }

    /// The kernel has asked for its bytes.
    pub fn read(&mut self, now: Instant) {
        self.touch();
        self.read_until = Some(now + READ_LEASE);
    }

    /// The page gets another value. Storing it ahead is worth its cost only while somebody reads.
    pub fn renew(&mut self, reading: Reading, now: Instant) -> Renewal {
        self.served = reading;
        if std::mem::replace(&mut self.is_dropped, true) {
            return Renewal::Nothing;
        }
        if self.read_until.is_some_and(|until| now < until) { Renewal::Store } else { Renewal::Drop }
    }

    /// Its value is on the way into the page cache.
    pub fn begin_store(&mut self) {
        (self.is_dropped, self.is_being_stored) = (false, true);
    }

    /// Its value has arrived there.
    pub fn end_store(&mut self) {
        self.is_being_stored = false;
    }

    /// True while its value is on the way.
    pub fn is_being_stored(&self) -> bool {
        self.is_being_stored
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(number: u64) -> Reading {
        Reading::Present(number)
    }

    #[test]
    fn a_page_that_nobody_reads_is_dropped_once_and_costs_nothing_more() {
        let (mut page, now) = (Page::new(value(1)), Instant::now());
        assert_eq!(page.renew(value(2), now), Renewal::Drop);
        assert_eq!(page.renew(value(3), now), Renewal::Nothing);
        page.read(now);
        assert_eq!(page.renew(value(4), now), Renewal::Store);
        page.touch();
        assert_eq!(page.renew(value(5), now + READ_LEASE), Renewal::Drop);
    }

    #[test]
    fn while_a_value_is_stored_nobody_gets_another_one() {
        let mut page = Page::new(value(1));
        page.begin_store();
        assert!(!page.follow(value(2)));
        assert_eq!(page.served(), value(1));
        page.end_store();
        assert!(page.follow(value(2)));
    }
}
