//! What an update does to the pages of its file, one after the other, and where updates come from.

#[cfg(test)]
use super::trace::Used;

/// A way to use pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// pread(2).
    Read,
    /// pwrite(2) of a part of them.
    Write,
    /// A mapping is read.
    MappedRead,
    /// A mapping is written.
    MappedWrite {
        /// Where the kernel is advised, it is advised here too (not for the header, which rrdtool wants to have).
        is_random: bool,
    },
}

/// Pages of one file that one call uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Touch {
    /// The first page.
    pub first: u32,
    /// How many.
    pub count: u32,
    /// How.
    pub way: Way,
}

/// Updates of many files: at each step, each file is updated once.
pub trait Updates {
    /// Goes on to the step that ends at `tick` steps since 1970.
    fn go_to(&mut self, tick: u64);
    /// Pages of `file`.
    fn pages(&self, file: u32) -> u32;
    /// Appends what the update of `file` does at this step.
    fn of(&self, file: u32, touches: &mut Vec<Touch>);
}

/// The pages that `touches` use, as a trace has them: in rising order, and whether they change each.
#[cfg(test)]
pub fn used(touches: &[Touch]) -> Vec<Used> {
    let mut used: Vec<Used> = vec![];
    for touch in touches {
        let is_changed = matches!(touch.way, Way::Write | Way::MappedWrite { .. });
        let pages = touch.first..touch.first + touch.count;
        used.extend(pages.map(|page| Used { page, is_changed }));
    }
    used.sort_by_key(|used| (used.page, !used.is_changed));
    used.dedup_by_key(|used| used.page);
    used
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_is_read_and_written_is_changed() {
        let touch = |first, count, way| Touch { first, count, way };
        let touches = [touch(0, 2, Way::Read), touch(7, 1, Way::Write), touch(0, 1, Way::Write)];
        let used = |page, is_changed| Used { page, is_changed };
        assert_eq!(super::used(&touches), [used(0, true), used(1, false), used(7, true)]);
    }
}
