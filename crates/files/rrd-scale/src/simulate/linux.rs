//! The page cache as Linux keeps it (classic lists, not the multi-generational ones): an inactive and an active list of file
//! pages, and for each evicted page when it went.
//!
//! The rules, in the words of the kernel's documentation and as measured on Linux 6.18 (docs/rrd-scale.md):
//!
//! - A new page goes to the inactive list. Its first noted use marks it as referenced, its second one moves it to the
//!   active list.
//! - Reclaim takes the oldest inactive pages; a page that is only marked as referenced goes all the same. One that is not
//!   written back yet is put aside on the active list, and goes as soon as it is written.
//! - An age counts evictions and activations. A page that comes back for reading while its age has grown by no more than the
//!   active list is long (its *refault distance*) would have stayed had the list been shorter: it becomes active at once. A
//!   page that comes back because a part of it is written does not.
//! - The oldest active pages become inactive while the inactive list is too short (compared with the active one, by a ratio
//!   that grows with the memory), and when pages came back and became active since the last reclaim.
//!
//! Not modelled: anonymous pages and other processes, several nodes and zones, large folios, the limits of the memory for
//! ages.

use super::cache::{Bring, Cache, Counts, Use};
use super::dirty::{Dirty, Policy};
use super::list::Lists;

/// The lists.
const INACTIVE: usize = 0;
const ACTIVE: usize = 1;

/// Flags of a page: in memory.
const RESIDENT: u8 = 1;
/// In the active list; without it a resident page is in the inactive one.
const IS_ACTIVE: u8 = 2;
/// Used once since it came, or since it became active.
const REFERENCED: u8 = 4;
/// To be evicted as soon as it is written.
const RECLAIM: u8 = 8;
/// Was evicted; its age is known.
const EVICTED: u8 = 16;

/// Pages that reclaim takes from a list in one go (`SWAP_CLUSTER_MAX` of the kernel). After as many changed pages in a row it
/// has all changed pages written.
const SCAN: u32 = 32;
/// Reclaim frees this part of the memory at a time: the distance of two watermarks, `vm.watermark_scale_factor`.
const RECLAIM_PART: u32 = 1_000;
/// Pages of a GiB.
const GIB_PAGES: u64 = 1 << 18;

/// How many active pages there may be for each inactive one, on a machine with `pages` file pages.
pub fn ratio(pages: u64) -> u32 {
    match pages / GIB_PAGES {
        0 => 1,
        gib => (10 * gib).isqrt() as u32,
    }
}

/// The two lists.
#[derive(Debug)]
pub struct Linux {
    lists: Lists<2>,
    flags: Vec<u8>,
    /// The age at which each page was evicted.
    evicted_at: Vec<u32>,
    /// Evictions and activations so far.
    age: u32,
    dirty: Dirty,
    capacity: u32,
    ratio: u32,
    counts: Counts,
    /// Refaults that activated a page, up to the last reclaim.
    refaults_seen: u64,
}

impl Linux {
    /// An empty cache for `capacity` of the pages below `pages`, with [`ratio`].
    pub fn new(pages: u32, capacity: u32, ratio: u32, policy: Policy) -> Self {
        Self {
            lists: Lists::new(pages),
            flags: vec![0; pages as usize],
            evicted_at: vec![0; pages as usize],
            age: 0,
            dirty: Dirty::new(pages, policy),
            capacity: capacity.max(1),
            ratio,
            counts: Counts::default(),
            refaults_seen: 0,
        }
    }

    fn is_inactive_short(&self) -> bool {
        u64::from(self.lists.len(INACTIVE)) * u64::from(self.ratio) < u64::from(self.lists.len(ACTIVE))
    }

    fn list_of(&self, page: u32) -> usize {
        usize::from(self.flags[page as usize] & IS_ACTIVE != 0)
    }

    /// Moves `page`, which is resident, to the newest end of the active list.
    fn put_on_active(&mut self, page: u32) {
        self.lists.remove(self.list_of(page), page);
        self.flags[page as usize] |= IS_ACTIVE;
        self.lists.insert_newest(ACTIVE, page);
    }

    /// Moves the oldest active page to the inactive list. Whether it was referenced does not matter.
    fn deactivate_oldest(&mut self) {
        let Some(page) = self.lists.oldest(ACTIVE) else { return };
        self.lists.remove(ACTIVE, page);
        self.flags[page as usize] &= !IS_ACTIVE;
        self.lists.insert_newest(INACTIVE, page);
    }

    /// Frees a part of the memory.
    fn reclaim(&mut self) {
        let wanted = (self.capacity / RECLAIM_PART).max(1);
        let refaulting = self.counts.refaults_activated != self.refaults_seen;
        // Active pages that are to be looked at, times the inactive ones: both lists are taken in proportion.
        let mut credit = 0;
        let (mut freed, mut changed_in_a_row) = (0, 0);
        while freed < wanted && self.lists.total() > 0 {
            credit = self.balance(refaulting, credit);
            let Some(page) = self.lists.oldest(INACTIVE) else {
                self.deactivate_oldest();
                continue;
            };
            self.flags[page as usize] &= !REFERENCED;
            if !self.dirty.has(page) {
                self.evict(page);
                (freed, changed_in_a_row) = (freed + 1, 0);
                continue;
            }
            self.put_on_active(page);
            self.flags[page as usize] |= RECLAIM;
            changed_in_a_row += 1;
            if changed_in_a_row >= SCAN || self.lists.is_empty(INACTIVE) {
                while let Some(page) = self.dirty.write_oldest() {
                    self.rotate(page);
                }
            }
        }
        self.refaults_seen = self.counts.refaults_activated;
    }

    /// Makes active pages inactive, as many for an inactive page as there are active ones for each; returns what is left of
    /// the credit.
    fn balance(&mut self, refaulting: bool, credit: u64) -> u64 {
        let (inactive, active) = (self.lists.len(INACTIVE).max(1), self.lists.len(ACTIVE));
        if !refaulting && !self.is_inactive_short() {
            return credit;
        }
        let credit = credit + u64::from(active);
        for _ in 0..(credit / u64::from(inactive)).min(u64::from(SCAN)) {
            if refaulting || self.is_inactive_short() {
                self.deactivate_oldest();
            }
        }
        credit % u64::from(inactive)
    }

    fn evict(&mut self, page: u32) {
        self.lists.remove(INACTIVE, page);
        self.flags[page as usize] = EVICTED;
        self.evicted_at[page as usize] = self.age;
        self.age = self.age.wrapping_add(1);
        self.counts.evicted += 1;
    }

    /// `page` is written: if reclaim waits for it, it is the next to go.
    fn rotate(&mut self, page: u32) {
        if self.flags[page as usize] & RECLAIM == 0 {
            return;
        }
        self.lists.remove(self.list_of(page), page);
        self.flags[page as usize] &= !(RECLAIM | IS_ACTIVE);
        self.lists.insert_oldest(INACTIVE, page);
    }

    /// Whether `page`, which was evicted, comes back soon enough to become active.
    fn is_refault_near(&self, page: u32) -> bool {
        let distance = self.age.wrapping_sub(self.evicted_at[page as usize]);
        self.flags[page as usize] & EVICTED != 0 && distance <= self.lists.len(ACTIVE)
    }
}

impl Cache for Linux {
    fn has(&self, page: u32) -> bool {
        self.flags[page as usize] & RESIDENT != 0
    }

    fn bring(&mut self, page: u32, why: Bring) {
        if self.lists.total() >= self.capacity {
            self.reclaim();
        }
        if why == Bring::ToRead && self.is_refault_near(page) {
            self.flags[page as usize] = RESIDENT | IS_ACTIVE;
            self.lists.insert_newest(ACTIVE, page);
            self.age = self.age.wrapping_add(1);
            self.counts.refaults_activated += 1;
        } else {
            self.flags[page as usize] = RESIDENT;
            self.lists.insert_newest(INACTIVE, page);
        }
    }

    fn touch(&mut self, page: u32, how: Use) {
        let flags = self.flags[page as usize];
        if how == Use::Unnoted {
            return;
        }
        if flags & REFERENCED == 0 {
            self.flags[page as usize] |= REFERENCED;
        } else if flags & IS_ACTIVE == 0 {
            self.put_on_active(page);
            self.flags[page as usize] &= !REFERENCED;
            self.age = self.age.wrapping_add(1);
        }
    }

    fn change(&mut self, page: u32, now: u32) {
        self.dirty.change(page, now);
    }

    fn write_back(&mut self, now: u32) {
        while let Some(page) = self.dirty.write_due(now) {
            self.rotate(page);
        }
    }

    fn counts(&self) -> Counts {
        Counts { page_outs: self.dirty.written(), ..self.counts }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NEVER: Policy = Policy { expire: u32::MAX, most: u32::MAX };

    fn cache(capacity: u32) -> Linux {
        Linux::new(16, capacity, 1, NEVER)
    }

    /// Reads `page`; whether it had to be brought in.
    fn read(cache: &mut Linux, page: u32) -> bool {
        let is_miss = !cache.has(page);
        if is_miss {
            cache.bring(page, Bring::ToRead);
        }
        cache.touch(page, Use::Noted);
        is_miss
    }

    /// Overwrites a part of `page`.
    fn overwrite(cache: &mut Linux, page: u32) -> bool {
        let is_miss = !cache.has(page);
        if is_miss {
            cache.bring(page, Bring::ToOverwrite);
        }
        cache.touch(page, Use::Unnoted);
        is_miss
    }

    fn lists(cache: &Linux) -> (Vec<u32>, Vec<u32>) {
        (cache.lists.pages_of(INACTIVE), cache.lists.pages_of(ACTIVE))
    }

    #[test]
    fn the_second_read_makes_a_page_active_and_a_write_never_does() {
        let mut cache = cache(4);
        read(&mut cache, 0);
        assert_eq!(lists(&cache), (vec![0], vec![]));
        read(&mut cache, 0);
        assert_eq!(lists(&cache), (vec![], vec![0]));
        for _ in 0..5 {
            overwrite(&mut cache, 1);
        }
        assert_eq!(lists(&cache), (vec![1], vec![0]));
    }

    #[test]
    fn pages_that_are_only_written_leave_in_the_order_in_which_they_came() {
        let mut cache = cache(3);
        (0..3).for_each(|page| assert!(overwrite(&mut cache, page)));
        // The oldest one is used again, which counts for nothing.
        overwrite(&mut cache, 0);
        overwrite(&mut cache, 3);
        assert_eq!(lists(&cache), (vec![3, 2, 1], vec![]));
    }

    #[test]
    fn a_scan_of_pages_read_once_leaves_the_active_ones_alone() {
        let mut cache = cache(4);
        for page in [0, 1, 0, 1] {
            read(&mut cache, page);
        }
        assert_eq!(lists(&cache), (vec![], vec![1, 0]));
        (2..10).for_each(|page| assert!(read(&mut cache, page)));
        assert_eq!(lists(&cache), (vec![9, 8], vec![1, 0]));
    }

    #[test]
    fn a_page_that_returns_within_the_length_of_the_active_list_is_active_at_once() {
        let mut cache = cache(4);
        for page in [0, 1, 0, 1, 2, 3] {
            read(&mut cache, page);
        }
        // Page 2 goes for page 4: the age counts two activations and this eviction.
        read(&mut cache, 4);
        assert_eq!((cache.age, lists(&cache)), (3, (vec![4, 3], vec![1, 0])));
        // It returns at a distance of 1 (and the eviction of page 3 for it makes it 2), and two pages are active.
        read(&mut cache, 2);
        assert_eq!((cache.counts.refaults_activated, lists(&cache)), (1, (vec![4], vec![2, 1, 0])));
        // Page 3 returns because it is written: not active. Because page 2 came back, an active page lost its place.
        overwrite(&mut cache, 3);
        assert_eq!(cache.counts.refaults_activated, 1);
        assert!(lists(&cache).0.contains(&3));
    }

    #[test]
    fn a_page_that_returns_late_is_a_new_one() {
        let mut cache = cache(4);
        for page in [0, 0, 1, 2, 3, 4, 5, 6] {
            read(&mut cache, page);
        }
        // One page is active; page 1 has been away for three evictions.
        read(&mut cache, 1);
        assert_eq!((cache.counts.refaults_activated, lists(&cache)), (0, (vec![1, 6, 5], vec![0])));
    }

    #[test]
    fn active_pages_become_inactive_when_there_are_more_than_the_ratio_allows() {
        let mut cache = cache(4);
        for page in [0, 0, 1, 1, 2, 2, 3, 3] {
            read(&mut cache, page);
        }
        assert_eq!(lists(&cache), (vec![], vec![3, 2, 1, 0]));
        // Nothing is inactive: the oldest active pages become so, and the first of them goes.
        read(&mut cache, 4);
        assert_eq!(lists(&cache), (vec![4, 1], vec![3, 2]));
        assert!(!cache.has(0));
    }

    #[test]
    fn the_ratio_grows_with_the_square_root_of_the_memory() {
        assert_eq!([1, GIB_PAGES, 10 * GIB_PAGES, 100 * GIB_PAGES].map(ratio), [1, 3, 10, 31]);
    }

    #[test]
    fn a_changed_page_is_put_aside_until_it_is_written() {
        let mut cache = Linux::new(16, 4, 1, Policy { expire: 30, most: u32::MAX });
        for page in 0..4 {
            overwrite(&mut cache, page);
        }
        cache.change(0, 0);
        overwrite(&mut cache, 4);
        // Page 0 was the oldest, but is changed; page 1 went for it.
        assert!(cache.has(0) && !cache.has(1));
        assert_eq!(lists(&cache), (vec![4, 3, 2], vec![0]));
        cache.write_back(30);
        // Now it is the next to go.
        assert_eq!(lists(&cache), (vec![4, 3, 2, 0], vec![]));
        overwrite(&mut cache, 5);
        assert!(!cache.has(0));
    }

    #[test]
    fn where_everything_is_changed_everything_is_written() {
        let mut cache = cache(4);
        for page in 0..4 {
            overwrite(&mut cache, page);
            cache.change(page, 0);
        }
        overwrite(&mut cache, 4);
        assert_eq!((cache.counts().page_outs, cache.lists.total()), (4, 4));
    }

    proptest! {
        #[test]
        fn the_lists_hold_each_resident_page_once_and_no_more_than_the_capacity(
            accesses in prop::collection::vec((0u32..16, 0u8..3), 0..300),
            capacity in 1u32..12,
        ) {
            let mut cache = Linux::new(16, capacity, 1, Policy { expire: 20, most: 5 });
            for (now, (page, kind)) in (0u32..).zip(accesses) {
                match kind {
                    0 => { read(&mut cache, page); }
                    1 => { overwrite(&mut cache, page); }
                    _ => {
                        overwrite(&mut cache, page);
                        cache.change(page, now);
                    }
                }
                cache.write_back(now);
                let (inactive, active) = lists(&cache);
                prop_assert!(cache.has(page) && cache.lists.total() <= capacity);
                prop_assert_eq!(cache.lists.total() as usize, inactive.len() + active.len());
                for page in 0..16 {
                    let places = inactive.iter().chain(&active).filter(|known| **known == page).count();
                    prop_assert_eq!(places, usize::from(cache.has(page)));
                    prop_assert_eq!(active.contains(&page), cache.has(page) && cache.list_of(page) == ACTIVE);
                }
            }
        }
    }
}
