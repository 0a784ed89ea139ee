//! Pages in lists, the newest first: links between numbers of pages in flat arrays. Allocates only at the start; knows
//! neither ages nor files.

/// `N` lists over the pages `0..pages`; a page is in one list at most, and the caller knows in which.
#[derive(Debug)]
pub struct Lists<const N: usize> {
    pages: u32,
    /// After the pages' links come those of each list's end: its first and its last page.
    next: Vec<u32>,
    previous: Vec<u32>,
    lengths: [u32; N],
}

impl<const N: usize> Lists<N> {
    /// Empty lists for pages below `pages`.
    pub fn new(pages: u32) -> Self {
        let mut links: Vec<u32> = vec![0; pages as usize + N];
        for list in 0..N {
            links[pages as usize + list] = pages + list as u32;
        }
        Self { pages, next: links.clone(), previous: links, lengths: [0; N] }
    }

    /// How many pages `list` has.
    pub fn len(&self, list: usize) -> u32 {
        self.lengths[list]
    }

    /// Whether `list` has none.
    pub fn is_empty(&self, list: usize) -> bool {
        self.lengths[list] == 0
    }

    /// Pages of all lists.
    pub fn total(&self) -> u32 {
        self.lengths.iter().sum()
    }

    /// The oldest page of `list`.
    pub fn oldest(&self, list: usize) -> Option<u32> {
        (self.lengths[list] > 0).then(|| self.previous[self.pages as usize + list])
    }

    /// Puts `page` into `list` as its newest.
    pub fn insert_newest(&mut self, list: usize, page: u32) {
        let end = self.pages + list as u32;
        self.insert_between(list, page, end, self.next[end as usize]);
    }

    /// Puts `page` into `list` as its oldest.
    pub fn insert_oldest(&mut self, list: usize, page: u32) {
        let end = self.pages + list as u32;
        self.insert_between(list, page, self.previous[end as usize], end);
    }

    fn insert_between(&mut self, list: usize, page: u32, newer: u32, older: u32) {
        self.next[page as usize] = older;
        self.previous[page as usize] = newer;
        self.next[newer as usize] = page;
        self.previous[older as usize] = page;
        self.lengths[list] += 1;
    }

    /// Takes `page` out of `list`, in which it is.
    pub fn remove(&mut self, list: usize, page: u32) {
        let (newer, older) = (self.previous[page as usize], self.next[page as usize]);
        self.next[newer as usize] = older;
        self.previous[older as usize] = newer;
        self.lengths[list] -= 1;
    }

    /// The pages of `list`, the newest first.
    #[cfg(test)]
    pub fn pages_of(&self, list: usize) -> Vec<u32> {
        let end = self.pages + list as u32;
        let mut page = self.next[end as usize];
        std::iter::from_fn(|| {
            let here = (page != end).then_some(page)?;
            page = self.next[here as usize];
            Some(here)
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_move_between_lists_and_keep_their_order() {
        let mut lists: Lists<2> = Lists::new(5);
        for page in 0..4 {
            lists.insert_newest(0, page);
        }
        lists.remove(0, 1);
        lists.insert_newest(1, 1);
        lists.insert_oldest(1, 4);
        assert_eq!((lists.pages_of(0), lists.pages_of(1)), (vec![3, 2, 0], vec![1, 4]));
        assert_eq!((lists.oldest(0), lists.oldest(1), lists.total()), (Some(0), Some(4), 5));
        for page in [0, 2, 3] {
            lists.remove(0, page);
        }
        assert!(lists.is_empty(0) && lists.oldest(0).is_none() && lists.pages_of(0).is_empty());
    }
}
