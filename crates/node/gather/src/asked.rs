//! Gathering in the requesting thread, for values that a reader wants now; the merge window (`--window`). It has its own copy
//! of the plan's kernel files; each is opened when it is first requested, and read by the requesting thread. So a request wakes
//! no other thread: two thread switches cost more than reading the files. All requesters share one gather. A request starts no
//! survey (`survey.rs`), since file systems could block it: the requester gets the latest survey. The gather thread is not
//! involved.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use khz_model::Nanos;

use crate::clock;
use crate::plan::{Plan, SourcePlan};
use crate::source::{Counts, Published, Source};
use crate::source_set::SourceSet;
use crate::survey::Survey;

/// At most this much of what the ceilings allow may be used at once.
const BURST: Nanos = Nanos::from_millis(100);

/// The files and their counts.
pub(crate) struct Asked {
    root: PathBuf,
    plans: Vec<SourcePlan>,
    gone_for: Nanos,
    survey: Arc<Survey>,
    desk: Mutex<Desk>,
    /// The number of requests, including those that gathered nothing.
    pub questions: AtomicU64,
    /// The cost of each file.
    pub tolls: Vec<Toll>,
}

/// The counts of one file, for the agent's own numbers.
#[derive(Debug, Default)]
pub(crate) struct Toll {
    was_there: AtomicBool,
    gathers: AtomicU64,
    failures: AtomicU64,
    full_parses: AtomicU64,
    gather_time: AtomicU64,
}

/// The state that the requesting threads use, one thread at a time.
struct Desk {
    sources: Vec<Option<Source>>,
    room: Vec<u8>,
    allowance: Allowance,
}

impl Asked {
    pub fn new(plan: &Plan, gone_for: Nanos, survey: Arc<Survey>) -> Self {
        let desk = Desk {
            sources: plan.sources.iter().map(|_| None).collect(),
            room: Vec::new(),
            allowance: Allowance::new(plan.rate_max.period(), plan.cpu_max),
        };
        Asked {
            root: plan.root.clone(),
            plans: plan.sources.clone(),
            gone_for,
            survey,
            desk: Mutex::new(desk),
            questions: AtomicU64::new(0),
            tolls: plan.sources.iter().map(|_| Toll::default()).collect(),
        }
    }

    /// The places of all files.
    pub fn files(&self) -> SourceSet {
        SourceSet::first(self.plans.len())
    }

    /// The readings of some files, no older than `age_max` at the time `asked`. If the ceilings
    /// do not allow another gather yet, they may be older.
    pub fn latest(&self, files: SourceSet, asked: Nanos, age_max: Nanos) -> Vec<Arc<Published>> {
        // A poisoned lock is harmless: the next gather repairs a source.
        let mut desk = self.desk.lock().unwrap_or_else(PoisonError::into_inner);
        let Desk { sources, room, allowance } = &mut *desk;
        let start = clock::boot();
        let may = allowance.may(start);
        let mut has_gathered = false;
        let mut answer = Vec::with_capacity(files.len());
        for (index, place) in sources.iter_mut().enumerate().filter(|(index, _)| files.has(*index)) {
            let source = place.get_or_insert_with(|| self.plans[index].open(&self.root, &self.survey));
            let is_young = |at: Nanos| at.0.saturating_add(age_max.0) >= asked.0;
            if source.gathered.is_none_or(|stamp| may && !is_young(stamp.boot)) {
                let now = clock::stamp();
                source.gather(now, room);
                source.renew_alone(now.boot, self.gone_for);
                self.tolls[index].set(&source.counts);
                has_gathered = true;
            }
            answer.extend(source.publish());
        }
        if has_gathered {
            allowance.spend(clock::boot().since(start));
        }
        answer
    }

    /// The number of gathers of all files.
    pub fn gathers(&self) -> u64 {
        self.tolls.iter().map(|toll| toll.counts().gathers).sum()
    }
}

impl Toll {
    fn set(&self, counts: &Counts) {
        self.was_there.store(counts.was_there, Ordering::Relaxed);
        self.gathers.store(counts.gathers, Ordering::Relaxed);
        self.failures.store(counts.failures, Ordering::Relaxed);
        self.full_parses.store(counts.full_parses, Ordering::Relaxed);
        self.gather_time.store(counts.gather_time.0, Ordering::Relaxed);
    }

    /// The same counts as the gather thread's; a count that this does not have is 0.
    pub fn counts(&self) -> Counts {
        Counts {
            was_there: self.was_there.load(Ordering::Relaxed),
            gathers: self.gathers.load(Ordering::Relaxed),
            failures: self.failures.load(Ordering::Relaxed),
            full_parses: self.full_parses.load(Ordering::Relaxed),
            gather_time: Nanos(self.gather_time.load(Ordering::Relaxed)),
            ..Counts::default()
        }
    }
}

/// The time that may be used for gathering. It fills as time passes. A request takes out the period of the
/// fastest rate. If that is too short for the gathers' share of a core, it takes out the time that they
/// must be apart.
#[derive(Debug)]
struct Allowance {
    period: Nanos,
    cpu_max: f64,
    left: i64,
    filled: Nanos,
}

impl Allowance {
    fn new(period: Nanos, cpu_max: f64) -> Self {
        Allowance { period, cpu_max, left: 0, filled: Nanos(0) }
    }

    /// True when a gather is allowed now.
    fn may(&mut self, now: Nanos) -> bool {
        let passed = now.since(self.filled).0.min(BURST.0) as i64;
        self.left = (self.left + passed).min(BURST.0 as i64);
        self.filled = now;
        self.left >= 0
    }

    /// Takes out the time for a gather that took `took`. At most a burst is taken, so that one interrupted
    /// gather delays nobody for longer.
    fn spend(&mut self, took: Nanos) {
        let apart = (took.0 as f64 / self.cpu_max) as u64;
        self.left -= apart.clamp(self.period.0, BURST.0) as i64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of gathers in ten seconds, each of which takes `took`, with a request every 50 µs.
    fn gathers(took: Nanos) -> u64 {
        let mut allowance = Allowance::new(Nanos::from_millis(1), 0.1);
        let mut count = 0;
        for moment in (0..10_000_000_000).step_by(50_000) {
            if allowance.may(Nanos(1_000_000_000 + moment)) {
                allowance.spend(took);
                count += 1;
            }
        }
        count
    }

    #[test]
    fn no_more_is_gathered_than_the_ceilings_allow() {
        // 1,000 a second, and one burst.
        assert!((10_000..=10_110).contains(&gathers(Nanos::from_micros(50))));
        // A tenth of a core: 200 a second of half a millisecond each.
        assert!((2_000..=2_030).contains(&gathers(Nanos::from_micros(500))));
    }

    #[test]
    fn one_long_gather_holds_up_nobody_for_long() {
        let mut allowance = Allowance::new(Nanos::from_millis(1), 0.1);
        assert!(allowance.may(Nanos::SECOND));
        (0..3).for_each(|_| allowance.spend(Nanos::SECOND));
        assert!(!allowance.may(Nanos::from_millis(1_100)) && allowance.may(Nanos::from_millis(1_300)));
    }
}
