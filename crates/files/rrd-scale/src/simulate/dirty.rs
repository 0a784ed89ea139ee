//! Pages that were changed and are not yet on the disk: when each is written back. Knows no lists.

use std::collections::VecDeque;

/// No time: the page is clean.
const CLEAN: u32 = u32::MAX;

/// When changed pages are written.
#[derive(Debug, Clone, Copy)]
pub struct Policy {
    /// Seconds after which a changed page is written (`vm.dirty_expire_centisecs`).
    pub expire: u32,
    /// Changed pages beyond which the oldest are written at once (`vm.dirty_background_ratio`).
    pub most: u32,
}

/// The changed pages.
#[derive(Debug)]
pub struct Dirty {
    policy: Policy,
    /// Since when each page is changed.
    since: Vec<u32>,
    /// Changed pages, the oldest first, each with the time at which it was changed. An entry with another time than the
    /// page's own counts for nothing.
    queue: VecDeque<(u32, u32)>,
    count: u32,
    written: u64,
}

impl Dirty {
    /// No changed pages among `pages`.
    pub fn new(pages: u32, policy: Policy) -> Self {
        Self { policy, since: vec![CLEAN; pages as usize], queue: VecDeque::new(), count: 0, written: 0 }
    }

    /// `page` is changed at the time `now`, in seconds.
    pub fn change(&mut self, page: u32, now: u32) {
        let since = &mut self.since[page as usize];
        if *since == CLEAN {
            *since = now;
            self.queue.push_back((page, now));
            self.count += 1;
        }
    }

    /// Whether `page` is changed.
    pub fn has(&self, page: u32) -> bool {
        self.since[page as usize] != CLEAN
    }

    /// Writes `page` now, if it is changed.
    pub fn write(&mut self, page: u32) {
        let since = &mut self.since[page as usize];
        if *since != CLEAN {
            *since = CLEAN;
            self.count -= 1;
            self.written += 1;
        }
    }

    /// Writes the next page whose time has come at `now`, and returns it.
    pub fn write_due(&mut self, now: u32) -> Option<u32> {
        let expire = self.policy.expire;
        self.write_if(|since, too_many| too_many || now.saturating_sub(since) >= expire)
    }

    /// Writes the oldest changed page, and returns it.
    pub fn write_oldest(&mut self) -> Option<u32> {
        self.write_if(|_, _| true)
    }

    /// How many pages were written.
    pub fn written(&self) -> u64 {
        self.written
    }

    fn write_if(&mut self, is_due: impl Fn(u32, bool) -> bool) -> Option<u32> {
        while let Some(&(page, since)) = self.queue.front() {
            let is_current = self.since[page as usize] == since;
            if is_current && !is_due(since, self.count > self.policy.most) {
                return None;
            }
            self.queue.pop_front();
            if is_current {
                self.write(page);
                return Some(page);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(dirty: &mut Dirty, now: u32) -> Vec<u32> {
        std::iter::from_fn(|| dirty.write_due(now)).collect()
    }

    #[test]
    fn a_page_is_written_when_it_has_been_changed_for_long_enough() {
        let mut dirty = Dirty::new(4, Policy { expire: 30, most: 4 });
        dirty.change(0, 100);
        dirty.change(1, 110);
        // Changed again: the first change counts.
        dirty.change(0, 120);
        assert!(due(&mut dirty, 129).is_empty());
        assert_eq!(due(&mut dirty, 130), [0]);
        // Written by somebody else, and changed again: it waits for its own time.
        dirty.write(1);
        dirty.change(1, 135);
        assert!(due(&mut dirty, 150).is_empty());
        assert_eq!(due(&mut dirty, 165), [1]);
        assert_eq!((dirty.written(), dirty.has(1)), (3, false));
    }

    #[test]
    fn beyond_the_threshold_the_oldest_are_written_at_once() {
        let mut dirty = Dirty::new(4, Policy { expire: 30, most: 2 });
        (0..4).for_each(|page| dirty.change(page, page));
        assert_eq!(due(&mut dirty, 4), [0, 1]);
        assert_eq!(dirty.write_oldest(), Some(2));
    }
}
