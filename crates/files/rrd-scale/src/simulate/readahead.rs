//! Which pages Linux reads with the one that is wanted: its windows, as an open file remembers them. Brings nothing in.

/// Pages that one request reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// The first one.
    pub first: u32,
    /// How many; may reach beyond the end of the file.
    pub count: u32,
    /// Of these, how many at the end are read ahead: a read of the first of them has the next window read. 0: none.
    pub ahead: u32,
}

impl Window {
    /// One page and no more.
    pub fn alone(page: u32) -> Self {
        Self { first: page, count: 1, ahead: 0 }
    }
}

/// What an open file remembers of its last window.
#[derive(Debug, Clone)]
pub struct Readahead {
    /// Pages of the largest window: `read_ahead_kb` of the device.
    most: u32,
    last: Window,
    /// The page read last.
    previous: Option<u32>,
}

impl Readahead {
    /// For a file that has just been opened; `most` is 0 where the kernel was advised to read nothing ahead.
    pub fn new(most: u32) -> Self {
        Self { most, last: Window { first: 0, count: 0, ahead: 0 }, previous: None }
    }

    /// read(2) has had `page`.
    pub fn has_read(&mut self, page: u32) {
        self.previous = Some(page);
    }

    /// read(2) wants `wanted` pages from `page` on, which is not there. `before` is how many pages right before it are.
    pub fn missed(&mut self, page: u32, wanted: u32, before: impl FnOnce(u32) -> u32) -> Window {
        if self.most == 0 {
            return Window { first: page, count: wanted, ahead: 0 };
        }
        let follows = self.previous.is_some_and(|previous| page.wrapping_sub(previous) <= 1);
        if page == 0 || wanted > self.most || follows {
            let count = self.first_size(wanted);
            let ahead = if count > wanted { count - wanted } else { count / 2 };
            return self.remember(Window { first: page, count, ahead });
        }
        // Pages before this one may come from somebody who reads the file from its start to its end.
        match before(self.most) {
            few if few <= wanted => Window { first: page, count: wanted, ahead: 0 },
            all => {
                let known = if all == page { all.saturating_mul(2) } else { all };
                let count = (known + wanted).min(self.most);
                self.remember(Window { first: page, count, ahead: 1 })
            }
        }
    }

    /// `page` is there, and begins the part of a window that was read ahead; `wanted` pages are read from it on. `hole` is
    /// the first page after it that is not there, within these `wanted` pages.
    pub fn reached_mark(
        &mut self,
        page: u32,
        wanted: u32,
        hole: impl FnOnce(u32) -> Option<u32>,
    ) -> Option<Window> {
        if self.most == 0 {
            return None;
        }
        let Window { first, count, ahead } = self.last;
        if count > 0 && page == first + count - ahead {
            let next = self.next_size(count);
            return Some(self.remember(Window { first: first + count, count: next, ahead: next }));
        }
        // The mark is that of another opener of the file: go on where its window ends.
        let first = hole(self.most)?;
        let count = self.next_size(first - page + wanted);
        Some(self.remember(Window { first, count, ahead: count }))
    }

    /// A mapping is read or written at `page`, which is not there.
    pub fn faulted(&mut self, page: u32) -> Window {
        match self.most {
            0 => Window::alone(page),
            most => {
                let first = page.saturating_sub(most / 2);
                self.remember(Window { first, count: most, ahead: most / 4 })
            }
        }
    }

    fn remember(&mut self, window: Window) -> Window {
        self.last = window;
        window
    }

    /// The first window of a file that is read from its start.
    fn first_size(&self, wanted: u32) -> u32 {
        let size = wanted.next_power_of_two();
        if size <= self.most / 32 {
            size * 4
        } else if size <= self.most / 4 {
            size * 2
        } else {
            self.most
        }
    }

    /// The window after one of `size`.
    fn next_size(&self, size: u32) -> u32 {
        if size < self.most / 16 {
            4 * size
        } else if size <= self.most / 2 {
            2 * size
        } else {
            self.most
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(first: u32, count: u32, ahead: u32) -> Window {
        Window { first, count, ahead }
    }

    #[test]
    fn a_file_read_from_its_start_gets_windows_that_double() {
        let mut file = Readahead::new(32);
        assert_eq!(file.missed(0, 1, |_| 0), window(0, 4, 3));
        file.has_read(0);
        assert_eq!(file.reached_mark(1, 1, |_| None), Some(window(4, 8, 8)));
        assert_eq!(file.reached_mark(4, 1, |_| None), Some(window(12, 16, 16)));
        assert_eq!(file.reached_mark(12, 1, |_| None), Some(window(28, 32, 32)));
        assert_eq!(file.reached_mark(28, 1, |_| None), Some(window(60, 32, 32)));
    }

    #[test]
    fn first_windows_grow_with_the_setting_of_the_device() {
        let first = |most| Readahead::new(most).missed(0, 1, |_| 0).count;
        assert_eq!([0, 1, 4, 16, 32, 2048].map(first), [1, 1, 2, 2, 4, 4]);
    }

    #[test]
    fn a_read_in_the_middle_brings_one_page_unless_those_before_it_are_there() {
        let mut file = Readahead::new(32);
        assert_eq!(file.missed(9, 1, |_| 0), window(9, 1, 0));
        assert_eq!(file.missed(9, 1, |_| 4), window(9, 5, 1));
        assert_eq!(file.missed(9, 1, |_| 9), window(9, 19, 1));
    }

    #[test]
    fn the_mark_of_another_opener_has_the_next_hole_read() {
        let mut file = Readahead::new(32);
        assert_eq!(file.reached_mark(1, 1, |_| Some(4)), Some(window(4, 8, 8)));
        assert_eq!(Readahead::new(32).reached_mark(1, 1, |_| None), None);
    }

    #[test]
    fn a_fault_reads_around_its_page() {
        assert_eq!(Readahead::new(16).faulted(3), window(0, 16, 4));
        assert_eq!(Readahead::new(16).faulted(18), window(10, 16, 4));
        assert_eq!(Readahead::new(0).faulted(18), Window::alone(18));
    }
}
