//! The model of the page cache behind the plan: the paper's, with pages as they really lie, and with the time of day.
//!
//! It differs from the paper in five places. Each is stated where it is computed.
//!
//! 1. A class takes as many pages as its rows really lie on ([`super::pages`]), not one for each archive: so the same model
//!    serves with advice and with readahead.
//! 2. Faults are laid to the rounds in which the archives are written, and so the full hours and 00:00 UTC stand out.
//! 3. An archive that goes on to its next page reads that page, even if everything hot is in memory: 1/u of the updates.
//!    The paper's `min(uT, xT)` counts these only for the rarest class.
//! 4. The header may have more than one page. A cache of less than that reads the header again, too.
//! 5. Writes may be rarer than updates, as with a caching daemon: then one write brings several rows.

use super::pages::{self, Reading};
use super::shape::{Rows, Shape};

/// Seconds of the day that is laid out.
pub const DAY: u64 = 86_400;

/// How often files are updated and written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rhythm {
    /// Seconds between two updates of a file: a round.
    pub interval: u64,
    /// Seconds between two writes of a file; at least the interval. With a caching daemon the files have their writes at
    /// different times, spread evenly.
    pub write: u64,
}

/// Archives that are written at the same times.
#[derive(Debug, Clone, PartialEq)]
pub struct Class {
    /// Seconds between two writes.
    pub seconds: u64,
    /// How many archives.
    pub archives: usize,
    /// Pages that they add to those of the header and of the classes before.
    pub pages: f64,
    /// Pages of one write that were not touched by the write before.
    pub new: f64,
    /// Seconds until the first of its archives comes to its next page; `None` if each is within one page.
    pub next: Option<u64>,
}

/// A file in the page cache.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// Pages of the header.
    pub header: f64,
    /// The classes, the most often written first.
    pub classes: Vec<Class>,
    /// Pages of the file.
    pub whole: f64,
    /// How often it is written.
    pub rhythm: Rhythm,
}

/// Page-ins of one file with some pages of cache.
#[derive(Debug, Clone, PartialEq)]
pub struct Load {
    /// Of its header, in each write.
    pub header: f64,
    /// Of each class, in each write of that class.
    pub classes: Vec<f64>,
}

/// A round.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Round {
    /// Its time: seconds since 00:00 UTC.
    pub time: u64,
    /// Page-ins.
    pub page_ins: f64,
}

/// An hour of the day.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Hour {
    /// Mean page-ins a second.
    pub mean: f64,
    /// The round with most page-ins; none where no round begins in this hour.
    pub worst: Option<Round>,
}

impl Model {
    /// The model of a layout.
    pub fn new(shape: &Shape, page: u64, reading: Reading, rhythm: Rhythm) -> Self {
        let header = shape.header_pages(page) as f64;
        let period = |seconds: u64| seconds.max(rhythm.write);
        let mut periods: Vec<u64> = shape.archives.iter().map(|rows| period(shape.seconds(rows))).collect();
        periods.sort_unstable();
        periods.dedup();
        let mut before = header;
        let classes = periods.into_iter().map(|seconds| {
            let up_to = pages::pages(shape, page, reading, |rows| period(shape.seconds(rows)) <= seconds);
            let of_class = || shape.archives.iter().filter(|rows| period(shape.seconds(rows)) == seconds);
            let added = (up_to - before).max(0.0);
            before = before.max(up_to);
            let new: f64 = of_class().map(|rows| new_pages(shape, page, rows, seconds)).sum();
            let next = of_class().filter_map(|rows| next_page(shape, page, rows)).min();
            Class { seconds, archives: of_class().count(), pages: added, new: new.min(added), next }
        });
        let classes = classes.collect();
        Self { header, classes, whole: shape.pages(page) as f64, rhythm }
    }

    /// Pages that are hot: of the header, and of each archive.
    pub fn hot(&self) -> f64 {
        self.up_to(self.classes.len())
    }

    /// Pages of the header and of the first `classes` classes: what a write touches in which these are due.
    pub fn up_to(&self, classes: usize) -> f64 {
        self.header + self.classes.iter().take(classes).map(|class| class.pages).sum::<f64>()
    }

    /// Pages of an ordinary write.
    pub fn ordinary(&self) -> f64 {
        self.up_to(self.ordinary_classes())
    }

    /// How many classes are written in each write: one, or none where rows are longer than the interval.
    pub fn ordinary_classes(&self) -> usize {
        self.classes.iter().take_while(|class| class.seconds == self.rhythm.write).count()
    }

    /// Page-ins with `pages` of cache a file. The header comes first, then the classes in their order: what the cache has
    /// room for is not read again.
    pub fn load(&self, pages: f64) -> Load {
        let mut room = pages.max(0.0);
        let mut missed = |wanted: f64| {
            let kept = room.min(wanted);
            room -= kept;
            wanted - kept
        };
        let header = missed(self.header);
        // A page that an archive comes to is one that it left a whole turn ago, unless the whole file is in memory.
        let turns = pages < self.whole;
        let classes = self.classes.iter().map(|class| {
            let missed = missed(class.pages);
            let kept = if class.pages > 0.0 { 1.0 - missed / class.pages } else { 0.0 };
            missed + if turns { kept * class.new } else { 0.0 }
        });
        Load { header, classes: classes.collect() }
    }

    /// Mean page-ins a second of one file.
    pub fn rate(&self, load: &Load) -> f64 {
        let classes = self.classes.iter().zip(&load.classes);
        load.header / self.rhythm.write as f64
            + classes.map(|(class, page_ins)| page_ins / class.seconds as f64).sum::<f64>()
    }

    /// Page-ins of one file in the round that begins `time` seconds after 00:00 UTC of a day on which all archives are due
    /// at 00:00. If writes are rarer than rounds, it is the mean over files that have their writes at different times.
    pub fn round(&self, load: &Load, time: u64) -> f64 {
        let Rhythm { interval, write } = self.rhythm;
        let is_due = |seconds: u64| {
            // Whether the end of a row is after the write before, and not after this round.
            let ends = |time: i64| time.div_euclid(i64::try_from(seconds).unwrap_or(i64::MAX));
            let before = time as i64 - i64::try_from(write).unwrap_or(i64::MAX);
            ends(time as i64) > ends(before)
        };
        let classes = self.classes.iter().zip(&load.classes).filter(|(class, _)| is_due(class.seconds));
        let page_ins = load.header + classes.map(|(_, page_ins)| page_ins).sum::<f64>();
        page_ins * interval as f64 / write as f64
    }

    /// The rounds of the day, with the page-ins of `files` files.
    pub fn rounds(&self, load: &Load, files: f64) -> impl Iterator<Item = Round> {
        let interval = usize::try_from(self.rhythm.interval).unwrap_or(usize::MAX);
        let times = (0..DAY).step_by(interval.max(1));
        times.map(move |time| Round { time, page_ins: files * self.round(load, time) })
    }

    /// The hours of the day, for `files` files.
    pub fn hours(&self, load: &Load, files: f64) -> Vec<Hour> {
        let mut hours = vec![Hour::default(); 24];
        for round in self.rounds(load, files) {
            let hour = &mut hours[(round.time / 3600) as usize];
            hour.mean += round.page_ins / 3600.0;
            if hour.worst.is_none_or(|worst| round.page_ins > worst.page_ins) {
                hour.worst = Some(round);
            }
        }
        hours
    }

    /// The round of the day with most page-ins.
    pub fn worst(&self, load: &Load, files: f64) -> Round {
        let more = |one: Round, other: Round| if other.page_ins > one.page_ins { other } else { one };
        self.rounds(load, files).reduce(more).unwrap_or_default()
    }

    /// The page-ins of that round if the archives of all files come to their next page in it, as those of files that began
    /// at the same row.
    pub fn worst_in_step(&self, load: &Load, files: f64) -> f64 {
        let classes = self.classes.iter().zip(&load.classes).map(|(class, page_ins)| {
            let comes_to_a_page = *page_ins > 0.0 && class.new > 0.0;
            if comes_to_a_page { class.pages.max(*page_ins) } else { *page_ins }
        });
        let all = load.header + classes.sum::<f64>();
        files * all * self.rhythm.interval as f64 / self.rhythm.write as f64
    }
}

/// Seconds until an archive comes to its next page: a page for each u rows.
fn next_page(shape: &Shape, page: u64, rows: &Rows) -> Option<u64> {
    let bytes = rows.rows.saturating_mul(shape.row());
    let seconds = shape.seconds(rows) as f64 * page as f64 / shape.row() as f64;
    (bytes > page).then_some(seconds as u64)
}

/// Pages of one write of an archive that its write before did not touch: a page for each u rows.
fn new_pages(shape: &Shape, page: u64, rows: &Rows, seconds: u64) -> f64 {
    let bytes = (rows.rows * shape.row()) as f64;
    let page = page as f64;
    if bytes <= page {
        // It stays on its page.
        return 0.0;
    }
    let written = (seconds as f64 / shape.seconds(rows) as f64).max(1.0);
    (written * shape.row() as f64 / page).min(bytes / page)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::named;
    use super::super::paper::Paper;
    use super::*;

    const PAGE: u64 = 4096;
    const ORDINARY: Rhythm = Rhythm { interval: 300, write: 300 };

    /// MRTG's archives with a page each, as the paper counts them: a header of a page, each archive some whole pages.
    fn as_the_paper_counts() -> Shape {
        let mut shape = named::shape("mrtg").unwrap();
        shape.header = PAGE;
        let mut end = PAGE;
        for rows in &mut shape.archives {
            (rows.start, rows.rows) = (end, 3 * 256);
            end += 3 * PAGE;
        }
        shape.length = end;
        shape
    }

    fn advised(shape: &Shape, rhythm: Rhythm) -> Model {
        Model::new(shape, PAGE, Reading::Advised, rhythm)
    }

    fn near(one: f64, other: f64) -> bool {
        (one - other).abs() < 1e-9
    }

    #[test]
    fn with_whole_pages_the_faults_are_the_papers() {
        let shape = as_the_paper_counts();
        let (model, paper) = (advised(&shape, ORDINARY), Paper::of(&shape, PAGE));
        assert!(near(model.hot(), 9.0) && near(model.ordinary(), 3.0), "{model:?}");
        for pages in 1..=6 {
            let load = model.load(pages as f64);
            // Without the pages that archives come to, which the paper leaves out here.
            let turns: f64 = model
                .classes
                .iter()
                .map(|class| {
                    let missed = load.classes.iter().zip(&model.classes).find(|(_, other)| *other == class);
                    let missed = (missed.unwrap().0 - class.new) / (class.pages - class.new);
                    (1.0 - missed) * class.new / class.seconds as f64
                })
                .sum();
            let rate = model.rate(&load) - turns;
            assert!(near(rate, paper.rate(pages)), "{pages} pages: {rate} {}", paper.rate(pages));
        }
    }

    #[test]
    fn with_all_hot_pages_only_new_pages_are_read() {
        let model = advised(&as_the_paper_counts(), ORDINARY);
        // 2 archives of each class come to a page each 256 rows: 2 (1 + 1/6 + 1/24 + 1/288) / (256 × 300).
        let by_hand = 2.0 * (1.0 + 1.0 / 6.0 + 1.0 / 24.0 + 1.0 / 288.0) / 76_800.0;
        assert!(near(model.rate(&model.load(9.0)), by_hand));
        assert_eq!(model.rate(&model.load(25.0)), 0.0);
    }

    #[test]
    fn full_hours_and_midnight_stand_out() {
        let model = advised(&as_the_paper_counts(), ORDINARY);
        // Room for the header and the archives of 5 minutes.
        let load = model.load(3.0);
        let new = 2.0 / 256.0;
        let at = |hour: u64, minute: u64| model.round(&load, hour * 3600 + minute * 60);
        assert!(near(at(1, 5), new));
        assert!(near(at(1, 30), 2.0 + new));
        assert!(near(at(2, 0), 4.0 + new));
        assert!(near(at(0, 0), 6.0 + new));
        let hours = model.hours(&load, 1000.0);
        assert_eq!(hours[0].worst.map(|round| round.time), Some(0));
        assert_eq!(hours[13].worst.map(|round| round.time), Some(13 * 3600));
        assert!(hours[0].mean > hours[2].mean && hours[2].mean > hours[1].mean);
        assert_eq!(model.worst(&load, 1000.0).time, 0);
    }

    #[test]
    fn the_hours_of_a_day_have_the_mean_rate() {
        for write in [300, 900, 3600, 7200] {
            let model = advised(&named::shape("mrtg").unwrap(), Rhythm { interval: 300, write });
            for pages in 0..10 {
                let load = model.load(f64::from(pages));
                let mean = model.hours(&load, 1.0).iter().map(|hour| hour.mean).sum::<f64>() / 24.0;
                assert!(near(mean, model.rate(&load)), "{write} {pages}: {mean} {}", model.rate(&load));
            }
        }
    }

    #[test]
    fn readahead_makes_the_whole_file_hot() {
        let model = Model::new(&named::shape("mrtg").unwrap(), PAGE, Reading::Ahead(32), ORDINARY);
        assert_eq!((model.hot(), model.ordinary()), (24.0, 24.0));
        // 4 pages have no room; of the 19 others of the archives, those that an archive comes to are read.
        assert!(near(model.rate(&model.load(20.0)), (4.0 + 19.0 / 23.0 * 2.0 / 256.0) / 300.0));
        assert_eq!(model.rate(&model.load(24.0)), 0.0);
    }

    /// The paper: files of 103 KB, or of 1.7 and 8.2 MB with an archive of one or five years of 5 minutes.
    #[test]
    fn years_of_rows_cost_no_more_pages() {
        let hot = |years: u64| {
            let mut definition = named::definition("mrtg").unwrap();
            definition.archives[0].rows = definition.archives[0].rows.max(years * 105_120);
            let shape = Shape::of(&definition).unwrap();
            (shape.length / 100_000, advised(&shape, ORDINARY).hot())
        };
        let (classic, one, five) = (hot(0), hot(1), hot(5));
        assert_eq!([classic.0, one.0, five.0], [0, 17, 84]);
        // A little more, because fewer of its rows are on the header's page.
        assert!(one.1 < classic.1 + 0.25 && five.1 < classic.1 + 0.25, "{classic:?} {one:?} {five:?}");
    }

    #[test]
    fn gathered_updates_are_written_with_all_that_is_due() {
        let model = advised(&as_the_paper_counts(), Rhythm { interval: 300, write: 1800 });
        // The archives of 5 and 30 minutes are one class now.
        let seconds: Vec<u64> = model.classes.iter().map(|class| class.seconds).collect();
        assert_eq!(seconds, [1800, 7200, 86_400]);
        assert!(near(model.ordinary(), 5.0) && near(model.hot(), 9.0));
        // Six rows of 16 bytes in two archives, one row in two more.
        assert!(near(model.classes[0].new, 2.0 * 6.0 / 256.0 + 2.0 / 256.0));
        // With one page a write reads its 4 pages, once in six rounds.
        let load = model.load(1.0);
        assert!(near(model.round(&load, 3600), 4.0 / 6.0));
    }

    #[test]
    fn updates_more_often_than_rows_touch_the_header_only() {
        let model = advised(&as_the_paper_counts(), Rhythm { interval: 60, write: 60 });
        assert!(near(model.ordinary(), 1.0));
        let load = model.load(1.0);
        assert_eq!(model.round(&load, 3660), 0.0);
        assert!(near(model.round(&load, 3900), 2.0));
    }

    #[test]
    fn an_archive_within_a_page_never_comes_to_another() {
        let mut shape = as_the_paper_counts();
        for rows in &mut shape.archives {
            rows.rows = 256;
        }
        let stays = |class: &Class| class.new == 0.0 && class.next.is_none();
        assert!(advised(&shape, ORDINARY).classes.iter().all(stays));
        let next = advised(&as_the_paper_counts(), ORDINARY).classes[0].next;
        assert_eq!(next, Some(76_800));
    }

    fn shapes() -> impl Strategy<Value = Shape> {
        let archive = (1u64..400, 1u64..3000);
        (1u64..40, prop::collection::vec(archive, 1..12), 1u64..900).prop_map(|(sources, archives, step)| {
            let header = 128 + 120 * sources + 300 * archives.len() as u64;
            let mut end = header;
            let archives = archives.into_iter().map(|(points, rows)| {
                let start = end;
                end += rows * 8 * sources;
                Rows { function: khz_rrd::rra::Function::Average, points, rows, start }
            });
            let archives = archives.collect();
            Shape { step, sources, header, archives, length: end }
        })
    }

    proptest! {
        #[test]
        fn more_pages_never_give_more_page_ins(
            shape in shapes(), window in 0u64..64, writes in 1u64..20, pages in 0.0f64..80.0, more in 0.0f64..80.0,
        ) {
            let rhythm = Rhythm { interval: shape.step, write: shape.step * writes };
            for reading in [Reading::Advised, Reading::Ahead(window)] {
                let model = Model::new(&shape, PAGE, reading, rhythm);
                let (few, many) = (model.load(pages), model.load(pages + more));
                prop_assert!(model.rate(&many) <= model.rate(&few) + 1e-12);
                prop_assert!(model.worst(&many, 1.0).page_ins <= model.worst(&few, 1.0).page_ins + 1e-9);
                prop_assert!(few.header >= 0.0 && few.classes.iter().all(|page_ins| *page_ins >= 0.0));
            }
        }

        #[test]
        fn pages_are_between_the_headers_and_the_files(shape in shapes(), window in 0u64..64) {
            for reading in [Reading::Advised, Reading::Ahead(window)] {
                let rhythm = Rhythm { interval: shape.step, write: shape.step };
                let model = Model::new(&shape, PAGE, reading, rhythm);
                prop_assert!(model.hot() >= model.header - 1e-9 && model.hot() <= model.whole + 1e-9, "{model:?}");
            }
        }
    }
}
