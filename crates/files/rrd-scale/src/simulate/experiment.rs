//! Runs: the same updates with several sizes of memory, both caches, with and without advice; two runs at a time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use khz_rrd::Result;

use super::cache::{Cache, Counts};
use super::dirty::Policy;
use super::fleet::Fleet;
use super::linux::{self, Linux};
use super::lru::Lru;
use super::machine::{Machine, Reads};
use super::progress::Progress;
use super::touch::Updates;

/// Runs at a time.
const THREADS: usize = 2;
/// Seconds of a day.
const DAY: u64 = 86_400;
/// Parts of a day that are counted apart, in seconds.
pub const PART: u64 = 300;
/// Parts of a day.
pub const PARTS: usize = (DAY / PART) as usize;

/// How pages are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Model {
    /// By time of use.
    Lru,
    /// As Linux does.
    Linux,
}

impl Model {
    /// The name of each.
    pub const ALL: [(Self, &'static str); 2] = [(Self::Lru, "LRU"), (Self::Linux, "Linux")];
}

/// One run.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// Pages of memory for each file, with those of inodes and maps.
    pub pages: f64,
    /// How they are kept.
    pub model: Model,
    /// Whether the kernel is advised to read nothing ahead.
    pub advice: bool,
}

/// What all runs have in common.
#[derive(Debug, Clone, Copy)]
pub struct Frame {
    /// The simulated files.
    pub fleet: Fleet,
    /// Files of the machine, of which these are a sample.
    pub files: u64,
    /// Pages that the device reads ahead at most.
    pub readahead: u32,
    /// Seconds of a step.
    pub step: u64,
    /// The first step, since 1970.
    pub first: u64,
    /// Steps before counting begins.
    pub warm: u64,
    /// Steps that are counted.
    pub counted: u64,
    /// Seconds after which a changed page is written.
    pub expire: u32,
    /// Percent of the memory beyond which changed pages are written at once.
    pub background: u32,
}

/// What a run counted, of the sample.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Its setting.
    pub setting: Setting,
    /// What was read.
    pub reads: Reads,
    /// What the cache counted.
    pub counts: Counts,
    /// Updates.
    pub updates: u64,
    /// Pages read in each part of a day, and the seconds of that part that were counted.
    pub day: Vec<(u64, u64)>,
}

impl Outcome {
    /// Pages read for each update.
    pub fn pages_an_update(&self) -> f64 {
        self.reads.pages as f64 / self.updates.max(1) as f64
    }

    /// Changed pages written back for each update.
    pub fn page_outs_an_update(&self) -> f64 {
        self.counts.page_outs as f64 / self.updates.max(1) as f64
    }
}

/// Runs each of `settings`.
///
/// # Errors
/// More pages than a simulation has.
pub fn run<U: Updates + Clone + Sync>(
    frame: &Frame,
    updates: &U,
    settings: &[Setting],
) -> Result<Vec<Outcome>> {
    let pages = frame.fleet.total()?;
    let progress = Progress::start("simulating", settings.len() as u64 * (frame.warm + frame.counted));
    let (next, done) = (AtomicUsize::new(0), Mutex::new(vec![]));
    std::thread::scope(|scope| {
        for _ in 0..THREADS.min(settings.len()) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(setting) = settings.get(number) else { return };
                    let outcome = one(frame, updates.clone(), *setting, pages, &progress);
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((number, outcome));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(number, _)| *number);
    Ok(done.into_iter().map(|(_, outcome)| outcome).collect())
}

fn one(frame: &Frame, updates: impl Updates, setting: Setting, pages: u32, progress: &Progress) -> Outcome {
    let of_sample = setting.pages * f64::from(frame.fleet.files);
    let capacity = (of_sample.round() as u32).clamp(1, u32::MAX / 2);
    let most = (u64::from(capacity) * u64::from(frame.background) / 100) as u32;
    let policy = Policy { expire: frame.expire, most };
    let readahead = if setting.advice { 0 } else { frame.readahead };
    match setting.model {
        Model::Lru => {
            let cache = Lru::new(pages, capacity, policy);
            counted(frame, updates, setting, Machine::new(cache, frame.fleet, pages, readahead), progress)
        }
        Model::Linux => {
            let ratio = linux::ratio((setting.pages * frame.files as f64) as u64);
            let cache = Linux::new(pages, capacity, ratio, policy);
            counted(frame, updates, setting, Machine::new(cache, frame.fleet, pages, readahead), progress)
        }
    }
}

/// A run with one machine. Within a step the files are updated one after the other, evenly.
fn counted<C: Cache>(
    frame: &Frame,
    mut updates: impl Updates,
    setting: Setting,
    mut machine: Machine<C>,
    progress: &Progress,
) -> Outcome {
    let mut day = vec![(0, 0); PARTS];
    let mut touches = vec![];
    let (mut reads, mut counts) = (Reads::default(), Counts::default());
    for number in 0..frame.warm + frame.counted {
        if number == frame.warm {
            (reads, counts) = (machine.reads(), machine.counts());
        }
        let (tick, is_counted) = (frame.first + number, number >= frame.warm);
        updates.go_to(tick);
        if is_counted {
            add_seconds(&mut day, tick * frame.step, frame.step);
        }
        let mut second = u64::MAX;
        for file in 0..frame.fleet.files {
            let at = u64::from(file) * frame.step / u64::from(frame.fleet.files);
            if at != second {
                second = at;
                machine.pass((number * frame.step + at) as u32);
            }
            let before = machine.reads().pages;
            touches.clear();
            updates.of(file, &mut touches);
            machine.update(file, updates.pages(file), &touches);
            if is_counted {
                day[part(tick * frame.step + at)].0 += machine.reads().pages - before;
            }
        }
        progress.add(1);
    }
    let (now, all) = (machine.reads(), machine.counts());
    Outcome {
        setting,
        reads: Reads { pages: now.pages - reads.pages, requests: now.requests - reads.requests },
        counts: Counts {
            page_outs: all.page_outs - counts.page_outs,
            evicted: all.evicted - counts.evicted,
            refaults_activated: all.refaults_activated - counts.refaults_activated,
        },
        updates: frame.counted * u64::from(frame.fleet.files),
        day,
    }
}

/// The part of the day at `time`.
fn part(time: u64) -> usize {
    (time % DAY / PART) as usize
}

/// Counts `seconds` from `time` on to the parts of the day in which they are.
fn add_seconds(day: &mut [(u64, u64)], time: u64, seconds: u64) {
    let (mut from, end) = (time, time + seconds);
    while from < end {
        let until = ((from / PART + 1) * PART).min(end);
        day[part(from)].1 += until - from;
        from = until;
    }
}

#[cfg(test)]
mod tests {
    use super::super::fleet::Map;
    use super::super::made::{Begin, Engine, Made};
    use super::super::shape::{MRTG, Shape};
    use super::*;

    fn frame(files: u32, shape: &Shape) -> Frame {
        let fleet =
            Fleet { files, pages: shape.pages(), map: Map::Inline, inodes_per_page: 16, inode_ahead: 32 };
        Frame {
            fleet,
            files: u64::from(files),
            readahead: 16,
            step: 300,
            first: 288,
            warm: 288,
            counted: 288,
            expire: 30,
            background: 10,
        }
    }

    fn mrtg() -> Shape {
        Shape::from_words(&MRTG.map(str::to_owned), 300, 4_096).unwrap()
    }

    /// Page-ins an update for each number of pages a file.
    fn curve(model: Model, advice: bool, engine: Engine, map: Map) -> Vec<f64> {
        let (shape, files) = (mrtg(), 100);
        let mut frame = frame(files, &shape);
        frame.fleet.map = map;
        let updates = Made::new(shape, engine, files, Begin::Random(1));
        let settings: Vec<Setting> =
            (1..=28).map(|pages| Setting { pages: f64::from(pages), model, advice }).collect();
        run(&frame, &updates, &settings).unwrap().iter().map(Outcome::pages_an_update).collect()
    }

    #[test]
    fn more_memory_never_means_more_page_ins_where_the_oldest_page_goes() {
        for engine in [Engine::Khz, Engine::Rrdtool] {
            let curve = curve(Model::Lru, true, engine, Map::Inline);
            assert!(curve.windows(2).all(|pair| pair[0] >= pair[1]), "{curve:?}");
        }
    }

    #[test]
    fn with_enough_memory_only_new_pages_are_read_whatever_keeps_them() {
        for model in [Model::Lru, Model::Linux] {
            for advice in [true, false] {
                let curve = curve(model, advice, Engine::Khz, Map::Inline);
                assert!(curve[0] > 1.0 && curve[27] < 0.02, "{model:?} {advice}: {curve:?}");
            }
        }
    }

    #[test]
    fn seconds_are_counted_to_their_parts_of_the_day() {
        let mut day = vec![(0, 0); PARTS];
        add_seconds(&mut day, DAY - 100, 500);
        assert_eq!((day[287].1, day[0].1, day[1].1), (100, 300, 100));
    }

    #[test]
    fn at_full_hours_more_pages_come_in_and_most_at_midnight() {
        let (shape, files) = (mrtg(), 200);
        let frame = frame(files, &shape);
        let updates = Made::new(shape, Engine::Khz, files, Begin::Random(1));
        let setting = Setting { pages: 5.0, model: Model::Lru, advice: true };
        let day = &run(&frame, &updates, &[setting]).unwrap()[0].day;
        assert!(day.iter().all(|(_, seconds)| *seconds == PART), "{day:?}");
        let pages = |part: usize| day[part].0;
        assert!(pages(0) > pages(24) && pages(24) > pages(6) && pages(6) > pages(7), "{day:?}");
    }
}
