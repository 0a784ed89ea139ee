//! The page cache of textbooks, and of the LISA'07 paper's model: the page whose last use is longest ago goes first.

use super::cache::{Bring, Cache, Counts, Use};
use super::dirty::{Dirty, Policy};
use super::list::Lists;

/// One list, by time of use.
#[derive(Debug)]
pub struct Lru {
    list: Lists<1>,
    resident: Vec<bool>,
    dirty: Dirty,
    capacity: u32,
    evicted: u64,
}

impl Lru {
    /// An empty cache for `capacity` of the pages below `pages`.
    pub fn new(pages: u32, capacity: u32, policy: Policy) -> Self {
        let (list, dirty) = (Lists::new(pages), Dirty::new(pages, policy));
        Self { list, resident: vec![false; pages as usize], dirty, capacity: capacity.max(1), evicted: 0 }
    }

    fn evict(&mut self) {
        let Some(page) = self.list.oldest(0) else { return };
        self.list.remove(0, page);
        self.resident[page as usize] = false;
        self.dirty.write(page);
        self.evicted += 1;
    }
}

impl Cache for Lru {
    fn has(&self, page: u32) -> bool {
        self.resident[page as usize]
    }

    fn bring(&mut self, page: u32, _: Bring) {
        if self.list.total() >= self.capacity {
            self.evict();
        }
        self.resident[page as usize] = true;
        self.list.insert_newest(0, page);
    }

    fn touch(&mut self, page: u32, how: Use) {
        if how != Use::Around {
            self.list.remove(0, page);
            self.list.insert_newest(0, page);
        }
    }

    fn change(&mut self, page: u32, now: u32) {
        self.dirty.change(page, now);
    }

    fn write_back(&mut self, now: u32) {
        while self.dirty.write_due(now).is_some() {}
    }

    fn counts(&self) -> Counts {
        Counts { page_outs: self.dirty.written(), evicted: self.evicted, refaults_activated: 0 }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NEVER: Policy = Policy { expire: u32::MAX, most: u32::MAX };

    /// Uses `page`; whether it had to be brought in.
    fn access(cache: &mut Lru, page: u32) -> bool {
        let is_miss = !cache.has(page);
        match is_miss {
            true => cache.bring(page, Bring::ToRead),
            false => cache.touch(page, Use::Noted),
        }
        is_miss
    }

    /// The same by searching a vector, the newest page last.
    fn naive(order: &mut Vec<u32>, capacity: usize, page: u32) -> bool {
        let place = order.iter().position(|known| *known == page);
        match place {
            Some(place) => {
                order.remove(place);
            }
            None if order.len() == capacity => {
                order.remove(0);
            }
            None => {}
        }
        order.push(page);
        place.is_none()
    }

    proptest! {
        #[test]
        fn it_evicts_what_a_naive_model_evicts(
            accesses in prop::collection::vec(0u32..12, 0..200),
            capacity in 1u32..10,
        ) {
            let (mut cache, mut order) = (Lru::new(12, capacity, NEVER), vec![]);
            for page in accesses {
                prop_assert_eq!(access(&mut cache, page), naive(&mut order, capacity as usize, page));
                let newest_first: Vec<u32> = order.iter().rev().copied().collect();
                prop_assert_eq!(cache.list.pages_of(0), newest_first);
                prop_assert!((0..12).all(|page| cache.has(page) == order.contains(&page)));
            }
        }

        #[test]
        fn a_larger_one_has_every_page_of_a_smaller_one(
            accesses in prop::collection::vec(0u32..12, 0..200),
            capacity in 1u32..10,
        ) {
            let (mut small, mut large) = (Lru::new(12, capacity, NEVER), Lru::new(12, capacity + 1, NEVER));
            for page in accesses {
                let (missed, missed_too) = (access(&mut small, page), access(&mut large, page));
                prop_assert!(missed || !missed_too);
                prop_assert!((0..12).all(|page| !small.has(page) || large.has(page)));
            }
        }
    }

    #[test]
    fn a_changed_page_that_is_evicted_is_written() {
        let mut cache = Lru::new(3, 1, NEVER);
        access(&mut cache, 0);
        cache.change(0, 5);
        access(&mut cache, 1);
        access(&mut cache, 2);
        assert_eq!(cache.counts(), Counts { page_outs: 1, evicted: 2, refaults_activated: 0 });
    }
}
