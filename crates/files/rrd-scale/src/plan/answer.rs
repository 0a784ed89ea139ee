//! What the model answers: whether the files fit, what they cost, where it breaks.

use super::model::{Load, Model, Round};
use super::question::Question;
use super::words;
use khz_rrd::error::{Result, refused};

/// More files than any file system has.
pub const FILES_MAX: u64 = 1 << 40;

/// The memory of a machine, shared by files.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Room {
    /// Bytes.
    pub memory: f64,
    /// Bytes that a file takes besides its pages.
    pub aside: f64,
    /// Bytes that a page takes.
    pub page: f64,
}

impl Room {
    /// Pages that each of `files` files has; below 0 if not even the rest has room.
    pub fn pages(&self, files: f64) -> f64 {
        (self.memory / files - self.aside) / self.page
    }

    /// Files that have `pages` pages each.
    pub fn files(&self, pages: f64) -> f64 {
        (self.memory / (self.aside + pages * self.page)).floor()
    }

    /// Bytes for `files` files with `pages` pages each.
    pub fn bytes(&self, files: f64, pages: f64) -> f64 {
        files * (self.aside + pages * self.page)
    }
}

/// Whether the files fit into memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// Every hot page stays in memory.
    Fits,
    /// Ordinary updates read nothing; archives from this class on are read again.
    Partly(usize),
    /// Ordinary updates read pages again.
    Not,
}

/// From how many files on something is read again.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limit {
    /// So many files still keep these pages.
    pub files: f64,
    /// The pages of how many classes, with the header.
    pub classes: usize,
}

/// An answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The model of a file.
    pub model: Model,
    /// The machine's memory.
    pub room: Room,
    /// Pages that a file has.
    pub pages: f64,
    /// Whether that is enough.
    pub fit: Fit,
    /// Page-ins of one file.
    pub load: Load,
    /// Mean page-ins a second, of all files.
    pub mean: f64,
    /// The round with most page-ins.
    pub worst: Round,
    /// The round in the middle.
    pub median: f64,
    /// What is still in memory at how many files, the most files first.
    pub limits: Vec<Limit>,
    /// Files up to which each round ends before the next, if the disk's speed is known.
    pub in_time: Option<f64>,
    /// Bytes in which all hot pages fit.
    pub wanted: f64,
}

impl Answer {
    /// Answers a question.
    ///
    /// # Errors
    /// No files, or memory that has no room for the inodes.
    pub fn to(question: &Question) -> Result<Self> {
        let files = question.files as f64;
        if question.files == 0 || question.files > FILES_MAX {
            return refused(format!(
                "--files {}: give the number of .rrd files, from 1 on: --files 100000",
                question.files
            ));
        }
        let model = question.model();
        let hot = model.hot();
        let room = room(question, hot);
        let pages = room.pages(files);
        if pages < 0.0 {
            return refused(too_small(question, &room));
        }
        let load = model.load(pages);
        let worst = worst(question, &model, &load);
        Ok(Self {
            fit: fit(&model, pages),
            mean: files * model.rate(&load),
            median: median(&model, &load, files),
            limits: limits(&model, &room),
            in_time: question.reads.map(|reads| in_time(question, &model, &room, reads)),
            wanted: room.bytes(files, hot),
            model,
            room,
            pages,
            load,
            worst,
        })
    }

    /// Files that fit with all their hot pages.
    pub fn capacity(&self) -> f64 {
        self.room.files(self.model.hot())
    }

    /// Whether each round ends before the next; unknown without the disk's speed.
    pub fn is_in_time(&self, files: u64) -> Option<bool> {
        self.in_time.map(|most| files as f64 <= most)
    }
}

fn room(question: &Question, hot: f64) -> Room {
    Room {
        memory: question.memory as f64,
        aside: question.system.a_file(question.shape.length, hot, question.page),
        page: question.system.a_page(question.page),
    }
}

fn too_small(question: &Question, room: &Room) -> String {
    let files = question.files as f64;
    format!(
        "{} of memory are less than the {} that inodes, names and page trees of {} files take ({} a file): give the files \
         more memory, or plan at most {} files",
        words::bytes(room.memory),
        words::bytes(room.bytes(files, 0.0)),
        words::grouped(question.files),
        words::bytes(room.aside),
        words::count(room.files(0.0)),
    )
}

fn fit(model: &Model, pages: f64) -> Fit {
    // Rounding must not make a file miss a page that it has.
    let kept = (0..=model.classes.len()).rev().find(|classes| model.up_to(*classes) <= pages + 1e-9);
    match kept {
        Some(classes) if classes == model.classes.len() => Fit::Fits,
        Some(classes) if classes >= model.ordinary_classes() => Fit::Partly(classes),
        _ => Fit::Not,
    }
}

fn worst(question: &Question, model: &Model, load: &Load) -> Round {
    let files = question.files as f64;
    let worst = model.worst(load, files);
    match question.is_in_step {
        true => Round { page_ins: model.worst_in_step(load, files), ..worst },
        false => worst,
    }
}

fn median(model: &Model, load: &Load, files: f64) -> f64 {
    let mut rounds: Vec<f64> = model.rounds(load, files).map(|round| round.page_ins).collect();
    rounds.sort_unstable_by(f64::total_cmp);
    rounds.get(rounds.len() / 2).copied().unwrap_or(0.0)
}

fn limits(model: &Model, room: &Room) -> Vec<Limit> {
    let classes = 0..=model.classes.len();
    classes.map(|classes| Limit { files: room.files(model.up_to(classes)), classes }).collect()
}

/// The most files whose worst round the disk reads within an interval: more files never read less.
fn in_time(question: &Question, model: &Model, room: &Room, reads: f64) -> f64 {
    let enough = reads * question.rhythm.interval as f64;
    let is_in_time = |files: u64| {
        let question = question.with(|other| other.files = files);
        let load = model.load(room.pages(files as f64));
        room.pages(files as f64) >= 0.0 && worst(&question, model, &load).page_ins <= enough
    };
    let (mut some, mut many) = (0, FILES_MAX);
    while many - some > 1 {
        let middle = some + (many - some) / 2;
        if is_in_time(middle) { some = middle } else { many = middle }
    }
    some as f64
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::super::model::Rhythm;
    use super::super::{named, system};
    use super::*;

    /// The paper's layout, without a daemon, on ext4.
    pub(in super::super) fn question(files: u64, memory: u64) -> Question {
        Question {
            shape: Arc::new(named::shape("mrtg").unwrap()),
            files,
            rhythm: Rhythm { interval: 300, write: 300 },
            memory,
            page: 4096,
            readahead: 128 << 10,
            is_advised: true,
            is_in_step: false,
            system: system::usual("ext4", "").unwrap(),
            reads: None,
        }
    }

    fn answer(question: &Question) -> Answer {
        Answer::to(question).unwrap()
    }

    #[test]
    fn the_papers_files_fit_its_machine_with_advice_and_not_without() {
        // 320,000 files on 16 GB.
        let advised = question(320_000, 16 << 30);
        assert_eq!(answer(&advised).fit, Fit::Fits);
        let plain = advised.with(|other| other.is_advised = false);
        assert_eq!(answer(&plain).fit, Fit::Not);
        let gain = answer(&advised).capacity() / answer(&plain).capacity();
        assert!((2.5..3.5).contains(&gain), "{gain}");
    }

    #[test]
    fn memory_for_ordinary_updates_only_fits_partly() {
        let shape = question(1000, 0);
        let (model, room) = (shape.model(), room(&shape, shape.model().hot()));
        let memory = |classes| room.bytes(1000.0, model.up_to(classes)).ceil() as u64;
        let fits = |memory| answer(&question(1000, memory)).fit;
        assert_eq!(fits(memory(4)), Fit::Fits);
        assert_eq!(fits(memory(4) - 10_000), Fit::Partly(3));
        assert_eq!(fits(memory(1)), Fit::Partly(1));
        assert_eq!(fits(memory(1) - 10_000), Fit::Not);
    }

    #[test]
    fn the_capacity_is_the_last_number_of_files_that_fits() {
        let answered = answer(&question(1, 1 << 30));
        let most = answered.capacity() as u64;
        assert_eq!(answer(&question(most, 1 << 30)).fit, Fit::Fits);
        assert_ne!(answer(&question(most + 1, 1 << 30)).fit, Fit::Fits);
        let wanted = answer(&question(most + 1, 1 << 30)).wanted.ceil() as u64;
        assert_eq!(answer(&question(most + 1, wanted)).fit, Fit::Fits);
    }

    #[test]
    fn memory_smaller_than_the_inodes_is_refused_with_what_to_do() {
        let error = Answer::to(&question(1_000_000, 1 << 30)).unwrap_err().to_string();
        assert!(error.starts_with("1.0 GiB of memory are less than the 2.1 GiB that inodes"), "{error}");
        assert!(error.contains("give the files more memory, or plan at most 486,737 files"), "{error}");
    }

    #[test]
    fn no_files_are_refused() {
        for files in [0, FILES_MAX + 1] {
            let error = Answer::to(&question(files, 1 << 40)).unwrap_err().to_string();
            assert!(error.contains("--files 100000"), "{error}");
        }
    }

    #[test]
    fn a_known_disk_says_up_to_how_many_files_rounds_end_in_time() {
        let slow = question(100_000, 1 << 30).with(|other| other.reads = Some(100.0));
        let most = answer(&slow).in_time.unwrap() as u64;
        assert!(most > 0 && most < 100_000, "{most}");
        let at = |files| answer(&slow.with(|other| other.files = files));
        assert!(at(most).worst.page_ins <= 30_000.0 && at(most + 1).worst.page_ins > 30_000.0);
        assert_eq!((at(most).is_in_time(most), at(most).is_in_time(most + 1)), (Some(true), Some(false)));
        let fast = slow.with(|other| other.reads = Some(1e6));
        assert!(answer(&fast).in_time.unwrap() > most as f64);
    }

    #[test]
    fn files_in_step_have_a_worse_round() {
        let spread = question(10_000, 1 << 29);
        let in_step = spread.with(|other| other.is_in_step = true);
        let (spread, in_step) = (answer(&spread), answer(&in_step));
        assert_eq!(spread.mean, in_step.mean);
        // All archives of all files come to a page at once, instead of each 256th.
        let factor = in_step.worst.page_ins / spread.worst.page_ins;
        assert!((240.0..260.0).contains(&factor), "{factor}");
    }

    proptest! {
        #[test]
        fn more_files_or_less_memory_never_read_less(
            files in 1u64..3_000_000, more in 0u64..3_000_000, memory in 1u64 << 24..1 << 36, less in 0.01f64..1.0,
            is_advised: bool, is_in_step: bool, write in 1u64..24,
        ) {
            let asked = question(files, memory).with(|other| {
                (other.is_advised, other.is_in_step) = (is_advised, is_in_step);
                other.rhythm.write = 300 * write;
            });
            let others = [
                asked.with(|other| other.files += more),
                asked.with(|other| other.memory = (memory as f64 * less) as u64),
            ];
            let Ok(one) = Answer::to(&asked) else { return Ok(()) };
            for other in others {
                // What is refused has no room for its inodes.
                let Ok(other) = Answer::to(&other) else { continue };
                prop_assert!(other.mean >= one.mean * (1.0 - 1e-9));
                prop_assert!(other.worst.page_ins >= one.worst.page_ins * (1.0 - 1e-9));
                prop_assert!(other.pages <= one.pages);
            }
        }
    }
}
