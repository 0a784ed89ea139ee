//! One machine: applies what updates do to its page cache, and counts what has to be read from the disk.

use super::cache::{Bring, Cache, Counts, Use};
use super::fleet::Fleet;
use super::readahead::{Readahead, Window};
use super::touch::{Touch, Way};

/// Pages that the kernel maps around one that is read through a mapping, if they are in memory (`fault_around_bytes`).
const FAULT_AROUND: u32 = 16;

/// What was read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reads {
    /// Pages.
    pub pages: u64,
    /// Requests: pages next to each other that are read at once are one.
    pub requests: u64,
}

/// A machine with a page cache.
#[derive(Debug)]
pub struct Machine<C> {
    cache: C,
    fleet: Fleet,
    /// Pages of the largest window of readahead; 0 with advice.
    readahead: u32,
    reads: Reads,
    /// Pages that begin a part of a window that was read ahead, a bit each.
    marks: Vec<u64>,
    /// Pages of the file that are mapped and were used, until its mapping ends.
    mapped: Vec<(u32, Use)>,
    /// Pages of the file that is updated.
    end: u32,
    now: u32,
}

impl<C: Cache> Machine<C> {
    /// A machine with the files of `fleet`, of `pages` in all.
    pub fn new(cache: C, fleet: Fleet, pages: u32, readahead: u32) -> Self {
        let marks = vec![0; pages as usize / 64 + 1];
        Self { cache, fleet, readahead, reads: Reads::default(), marks, mapped: vec![], end: 0, now: 0 }
    }

    /// It is `now`, in seconds since the beginning.
    pub fn pass(&mut self, now: u32) {
        self.now = now;
        self.cache.write_back(now);
    }

    /// What was read so far.
    pub fn reads(&self) -> Reads {
        self.reads
    }

    /// What the cache has counted so far.
    pub fn counts(&self) -> Counts {
        self.cache.counts()
    }

    /// An update of `file`, which has `pages`.
    pub fn update(&mut self, file: u32, pages: u32, touches: &[Touch]) {
        self.end = pages.min(self.fleet.pages);
        let mut ahead = Readahead::new(self.readahead);
        for touch in touches {
            let end = touch.first + touch.count;
            for page in touch.first..end {
                match touch.way {
                    Way::Read => self.read(file, page, end - page, &mut ahead),
                    Way::Write => self.write(file, page),
                    Way::MappedRead => self.read_mapped(file, page, &mut ahead),
                    Way::MappedWrite { is_random } => self.write_mapped(file, page, is_random, &mut ahead),
                }
            }
        }
        self.unmap(file);
        self.stamp(file);
    }

    fn read(&mut self, file: u32, page: u32, wanted: u32, ahead: &mut Readahead) {
        if !self.has(file, page) {
            let before = |most: u32| (1..=most.min(page)).take_while(|n| self.has(file, page - n)).count();
            let window = ahead.missed(page, wanted, |most| before(most) as u32);
            self.bring(file, window, Bring::ToRead);
        } else if self.take_mark(file, page) {
            let hole = |most: u32| (page + 1..=page + most).find(|page| !self.has(file, *page));
            if let Some(window) = ahead.reached_mark(page, wanted, hole) {
                self.bring(file, window, Bring::ToRead);
            }
        }
        ahead.has_read(page);
        self.touch(file, page, Use::Noted);
    }

    /// The rest of the page has to be read.
    fn write(&mut self, file: u32, page: u32) {
        if !self.has(file, page) {
            self.bring(file, Window::alone(page), Bring::ToOverwrite);
        }
        self.touch(file, page, Use::Unnoted);
        self.cache.change(self.fleet.data(file, page), self.now);
    }

    fn read_mapped(&mut self, file: u32, page: u32, ahead: &mut Readahead) {
        self.fault(file, page, ahead);
        self.map(page, Use::Noted);
        if self.readahead == 0 {
            return;
        }
        let first = page - page % FAULT_AROUND;
        for near in first..(first + FAULT_AROUND).min(self.end) {
            if self.has(file, near) {
                self.map(near, Use::Around);
            }
        }
    }

    fn write_mapped(&mut self, file: u32, page: u32, is_random: bool, ahead: &mut Readahead) {
        self.fault(file, page, ahead);
        if self.readahead == 0 && is_random {
            self.touch(file, page, Use::Unnoted);
        } else {
            self.map(page, Use::Noted);
        }
        if self.has(file, page) {
            self.cache.change(self.fleet.data(file, page), self.now);
        }
    }

    fn fault(&mut self, file: u32, page: u32, ahead: &mut Readahead) {
        if !self.has(file, page) {
            let window = ahead.faulted(page);
            self.bring(file, window, Bring::ToRead);
        } else if self.take_mark(file, page) {
            let hole = |most: u32| (page + 1..=page + most).find(|page| !self.has(file, *page));
            if let Some(window) = ahead.reached_mark(page, 1, hole) {
                self.bring(file, window, Bring::ToRead);
            }
        }
    }

    fn map(&mut self, page: u32, how: Use) {
        match self.mapped.iter_mut().find(|(known, _)| *known == page) {
            Some((_, known)) if how == Use::Noted => *known = how,
            Some(_) => {}
            None => self.mapped.push((page, how)),
        }
    }

    /// The mapping of `file` ends: now the kernel notes which of its pages were used.
    fn unmap(&mut self, file: u32) {
        while let Some((page, how)) = self.mapped.pop() {
            if self.has(file, page) {
                self.touch(file, page, how);
            }
        }
    }

    /// The file's times change, and so does its inode.
    fn stamp(&mut self, file: u32) {
        let page = self.fleet.inode(file);
        if !self.cache.has(page) {
            self.reads.requests += 1;
            for page in self.fleet.inodes_around(page) {
                self.bring_page(page, Bring::ToRead);
            }
        }
        if self.cache.has(page) {
            self.cache.touch(page, Use::Noted);
            self.cache.change(page, self.now);
        }
    }

    /// Beyond the file's end nothing is there, and nothing can be brought.
    fn has(&self, file: u32, page: u32) -> bool {
        page < self.end && self.cache.has(self.fleet.data(file, page))
    }

    /// A page may have gone while a window came in, where the memory is smaller than the window.
    fn touch(&mut self, file: u32, page: u32, how: Use) {
        let number = self.fleet.data(file, page);
        if !self.cache.has(number) {
            self.bring(file, Window::alone(page), Bring::ToRead);
        }
        self.cache.touch(number, how);
    }

    /// Reads those pages of `window` that are not there.
    fn bring(&mut self, file: u32, window: Window, why: Bring) {
        let end = (window.first + window.count).min(self.end);
        if window.first >= end {
            return;
        }
        for page in [window.first, end - 1] {
            self.look_up(file, page);
        }
        let mark = (window.ahead > 0).then(|| end.saturating_sub(window.ahead));
        let mut follows = false;
        for page in window.first..end {
            let number = self.fleet.data(file, page);
            let is_new = self.bring_page(number, why);
            self.reads.requests += u64::from(is_new && !follows);
            follows = is_new;
            if is_new {
                self.set_mark(number, mark == Some(page));
            }
        }
    }

    /// Where page `page` is on the disk, the file system has to know before it can read it.
    fn look_up(&mut self, file: u32, page: u32) {
        for block in self.fleet.map_of(file, page).into_iter().flatten() {
            self.reads.requests += u64::from(self.bring_page(block, Bring::ToRead));
            self.cache.touch(block, Use::Noted);
        }
    }

    /// Reads a page that is not there; whether it was not.
    fn bring_page(&mut self, number: u32, why: Bring) -> bool {
        let is_new = !self.cache.has(number);
        if is_new {
            self.cache.bring(number, why);
            self.reads.pages += 1;
        }
        is_new
    }

    fn set_mark(&mut self, number: u32, is_set: bool) {
        let (word, bit) = (number as usize / 64, 1 << (number % 64));
        match is_set {
            true => self.marks[word] |= bit,
            false => self.marks[word] &= !bit,
        }
    }

    fn take_mark(&mut self, file: u32, page: u32) -> bool {
        let number = self.fleet.data(file, page);
        let is_set = self.marks[number as usize / 64] >> (number % 64) & 1 == 1;
        if is_set {
            self.set_mark(number, false);
        }
        is_set
    }
}

#[cfg(test)]
mod tests {
    use super::super::dirty::Policy;
    use super::super::fleet::Map;
    use super::super::lru::Lru;
    use super::*;

    const POLICY: Policy = Policy { expire: 30, most: 1_000 };

    /// One file of 24 pages with much memory.
    fn machine(readahead: u32, map: Map) -> Machine<Lru> {
        let fleet = Fleet { files: 1, pages: 24, map, inodes_per_page: 16, inode_ahead: 32 };
        let pages = fleet.total().unwrap();
        Machine::new(Lru::new(pages, 1_000, POLICY), fleet, pages, readahead)
    }

    fn touch(first: u32, way: Way) -> Touch {
        Touch { first, count: 1, way }
    }

    fn resident(machine: &Machine<Lru>) -> Vec<u32> {
        (0..24).filter(|page| machine.has(0, *page)).collect()
    }

    const RANDOM: Way = Way::MappedWrite { is_random: true };
    const HEADER: Way = Way::MappedWrite { is_random: false };

    #[test]
    fn with_advice_each_page_is_read_alone() {
        let mut machine = machine(0, Map::Inline);
        machine.update(
            0,
            24,
            &[touch(0, Way::Read), touch(7, Way::Write), touch(18, Way::Write), touch(0, Way::Write)],
        );
        assert_eq!(resident(&machine), [0, 7, 18]);
        // And the page with the inode.
        assert_eq!(machine.reads(), Reads { pages: 4, requests: 4 });
        machine.update(0, 24, &[touch(0, Way::Read), touch(7, Way::Write)]);
        assert_eq!(machine.reads().pages, 4);
        machine.pass(30);
        assert_eq!(machine.counts().page_outs, 4);
    }

    #[test]
    fn without_advice_pread_gets_the_first_window_and_pwrite_nothing_more() {
        // As measured on Linux 6.18.
        let mut machine = machine(2_048, Map::Inline);
        machine.update(
            0,
            24,
            &[touch(0, Way::Read), touch(7, Way::Write), touch(18, Way::Write), touch(0, Way::Write)],
        );
        assert_eq!(resident(&machine), [0, 1, 2, 3, 7, 18]);
        assert_eq!(machine.reads(), Reads { pages: 7, requests: 4 });
    }

    #[test]
    fn without_advice_a_mapping_gets_all_that_is_around() {
        let mut machine = machine(16, Map::Inline);
        machine.update(0, 24, &[touch(0, Way::MappedRead), touch(2, RANDOM), touch(0, HEADER)]);
        assert_eq!(resident(&machine), (0..16).collect::<Vec<u32>>());
        machine.update(0, 24, &[touch(0, Way::MappedRead), touch(18, RANDOM)]);
        assert_eq!(resident(&machine).len(), 24);
    }

    #[test]
    fn a_header_of_two_pages_has_the_next_window_read() {
        let mut machine = machine(32, Map::Inline);
        machine.update(0, 24, &[touch(0, Way::Read), touch(1, Way::Read)]);
        assert_eq!(resident(&machine), (0..12).collect::<Vec<u32>>());
    }

    #[test]
    fn blocks_of_places_are_read_before_the_pages_that_they_have() {
        let mut machine = machine(0, Map::Indirect);
        machine.update(0, 24, &[touch(0, Way::Read)]);
        assert_eq!(machine.reads().pages, 2);
        machine.update(0, 24, &[touch(12, Way::Write), touch(13, Way::Write)]);
        assert_eq!(machine.reads().pages, 5);
    }

    #[test]
    fn memory_smaller_than_a_window_still_holds_the_page_in_use() {
        let fleet = Fleet { files: 1, pages: 24, map: Map::Block, inodes_per_page: 16, inode_ahead: 32 };
        let pages = fleet.total().unwrap();
        let mut machine = Machine::new(Lru::new(pages, 1, POLICY), fleet, pages, 16);
        for way in [Way::Read, Way::Write, Way::MappedRead, RANDOM, HEADER] {
            machine.update(0, 24, &[touch(0, way), touch(20, way)]);
        }
        assert!(machine.reads().pages > 0);
    }
}
