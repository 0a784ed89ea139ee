//! The analytical model of Plonka, Gupta and Carder (LISA'07), as its prose describes it, and the numbers that they give.
//!
//! The paper counts whole pages and whole archives: one page for the header, one for each archive. A file has `p` pages of
//! cache, of which the archives have `p - 1`. LRU keeps the archives that are written most often. The first archives that
//! do not all fit are those of the class `s`; a part of them is read again each time, and so are all the rarer ones.

use super::shape::Shape;

/// A layout in the words of the paper.
#[derive(Debug, Clone, PartialEq)]
pub struct Paper {
    /// `T`: seconds between two updates.
    pub step: f64,
    /// `u`: updates until an archive of one point a row goes on to its next page.
    pub updates_a_page: f64,
    /// `x` and `c`: primary points of a row, in rising order, and how many archives have them.
    pub classes: Vec<(u64, u64)>,
}

/// What a file's cache of some pages leads to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Faults {
    /// `s`, counted from 1.
    pub class: usize,
    /// `m`: faults in a time `t`.
    pub number: f64,
    /// `t`: seconds.
    pub time: f64,
}

impl Paper {
    /// The layout of a file, with pages of `page` bytes.
    pub fn of(shape: &Shape, page: u64) -> Self {
        let mut classes: Vec<(u64, u64)> = vec![];
        let mut points: Vec<u64> = shape.archives.iter().map(|rows| rows.points).collect();
        points.sort_unstable();
        for points in points {
            match classes.last_mut() {
                Some((known, number)) if *known == points => *number += 1,
                _ => classes.push((points, 1)),
            }
        }
        Self { step: shape.step as f64, updates_a_page: page as f64 / shape.row() as f64, classes }
    }

    /// The faults with `pages` of cache a file, at least one; `None` if all archives fit.
    pub fn faults(&self, pages: u64) -> Option<Faults> {
        let room = pages.saturating_sub(1);
        let mut sum = 0;
        for (index, (points, number)) in self.classes.iter().enumerate() {
            sum += number;
            if sum > room {
                let rarer = &self.classes[index + 1..];
                let of_rarer: f64 = rarer.iter().map(|(x, c)| *c as f64 * *points as f64 / *x as f64).sum();
                return Some(Faults {
                    class: index + 1,
                    number: (sum - room) as f64 + of_rarer,
                    time: self.updates_a_page.min(*points as f64) * self.step,
                });
            }
        }
        None
    }

    /// `r`: page-ins a second of one file with `pages` of cache.
    pub fn rate(&self, pages: u64) -> f64 {
        self.faults(pages).map_or(0.0, |faults| faults.number / faults.time)
    }
}

/// A number of the paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// What it is of.
    pub what: &'static str,
    /// The number.
    pub paper: &'static str,
}

/// Pages that an update touches, and pages read for it with the readahead of that time (16 + 8 + 4).
pub const READ: Claim = Claim { what: "pages read where 3 are touched, without advice", paper: "28" };
/// Cache that a file takes.
pub const CACHE: Claim = Claim { what: "pages of cache a file, without and with advice", paper: "27, 8" };
/// Where page-ins fall without advice: 16 pages of readahead, the inode and the indirect block.
pub const FALL: Claim = Claim { what: "page-ins fall, without advice, from so many pages", paper: "18" };
/// Above how many pages there are nearly none with advice.
pub const NONE: Claim = Claim { what: "page-ins near zero, with advice, above", paper: "7 pages" };
/// The paper's arithmetic of capacity.
pub const WHOLE: Claim = Claim { what: "300,000 files × 24 pages", paper: "30 GB" };
/// The same, for what an update touches.
pub const TOUCHED: Claim = Claim { what: "300,000 files × 3 pages", paper: "3.6 GB" };
/// The same, for hot pages.
pub const HOT: Claim = Claim { what: "480,000 files × 8 pages", paper: "14.6 GB" };
/// What the authors' machine held.
pub const MACHINE: Claim = Claim { what: "files on a machine of 16 GB, with advice", paper: "320,000" };
/// The size of a file.
pub const SIZE: Claim = Claim { what: "bytes of a file", paper: "103 KB" };

#[cfg(test)]
mod tests {
    use super::super::named;
    use super::*;

    fn classic() -> Paper {
        Paper::of(&named::shape("mrtg").unwrap(), 4096)
    }

    fn near(one: f64, other: f64) -> bool {
        (one - other).abs() < 1e-9
    }

    #[test]
    fn the_classic_layout_is_the_papers() {
        let paper = classic();
        assert_eq!((paper.step, paper.updates_a_page), (300.0, 256.0));
        assert_eq!(paper.classes, [(1, 2), (6, 2), (24, 2), (288, 2)]);
    }

    /// Computed by hand: m = (c1 + ... + cs - (p - 1)) + sum of ci xs / xi, t = min(256, xs) × 300 s.
    #[test]
    fn faults_are_those_computed_by_hand() {
        let by_hand = [
            (1, 1, 2.0 + 2.0 / 6.0 + 2.0 / 24.0 + 2.0 / 288.0, 300.0),
            (2, 1, 1.0 + 2.0 / 6.0 + 2.0 / 24.0 + 2.0 / 288.0, 300.0),
            (3, 2, 2.0 + 12.0 / 24.0 + 12.0 / 288.0, 1_800.0),
            (4, 2, 1.0 + 12.0 / 24.0 + 12.0 / 288.0, 1_800.0),
            (5, 3, 2.0 + 48.0 / 288.0, 7_200.0),
            (6, 3, 1.0 + 48.0 / 288.0, 7_200.0),
            // A day has 288 steps, but a page only 256 rows: the time to a fault is u T.
            (7, 4, 2.0, 76_800.0),
            (8, 4, 1.0, 76_800.0),
        ];
        for (pages, class, number, time) in by_hand {
            let found = classic().faults(pages).unwrap();
            assert_eq!((found.class, found.time), (class, time), "{pages} pages");
            assert!(near(found.number, number), "{pages} pages: {}", found.number);
        }
        assert_eq!(classic().faults(9), None);
    }

    #[test]
    fn page_ins_are_near_zero_above_seven_pages() {
        let rates: Vec<f64> = (1..=9).map(|pages| classic().rate(pages)).collect();
        assert!(rates.windows(2).all(|two| two[1] < two[0]), "{rates:?}");
        // Of 300,000 files: 2,424 a second with one page, 8 with seven, 4 with eight.
        let all: Vec<f64> = rates.iter().map(|rate| (rate * 300_000.0).round()).collect();
        assert_eq!(all, [2424.0, 1424.0, 424.0, 257.0, 90.0, 49.0, 8.0, 4.0, 0.0]);
    }

    #[test]
    fn a_file_has_at_least_the_page_of_its_header() {
        assert_eq!(classic().faults(0), classic().faults(1));
    }
}
