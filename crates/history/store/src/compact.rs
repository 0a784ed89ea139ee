//! Compaction changes the files of a store, one step at a time. A sealed segment of the log becomes pieces. A finished hour is
//! rolled up, and its pieces are merged. Roll-ups are merged. Data beyond the limits is removed. It may stop after any operation on
//! a file: nothing is lost, and an unfinished step is repeated.
//!
//! An hour is rolled up before it is merged. So an hour whose only piece is piece 0 is in the roll-ups, and any other is
//! rolled up, perhaps a second time.

mod census;
mod left_alone;
mod merging;
mod removal;
mod runs;
mod segment;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use khz_model::Nanos;

use crate::StoreError;
use crate::compact::census::Census;
use crate::compact::left_alone::LeftAlone;
pub use crate::compact::removal::Removed;
use crate::compact::segment::{Taken, Target};
use crate::disk::Disk;
use crate::keep::{self, Keep};
use crate::limits::{
    BUNDLE_BYTES, BUNDLES_SHARE, FILES_MERGED, FUTURE_MAX, LATE_WAIT, PIECE_SHARE, PIECES_MAX,
    PIECES_MAX_BEFORE_END, RETRY_WAIT, SETTLE_WAIT,
};
use crate::log::{Bundler, Log, LogView};
use crate::room::Room;
use crate::shelf::listing::{Listing, Piece};
use crate::shelf::{Shelf, Tier, Unit};

/// The result of a step of compaction.
#[derive(Debug, Default)]
pub struct Tick {
    /// What was done.
    pub step: Step,
    /// Units and files that were removed, because they were too old or there was no room.
    pub removed: Vec<Removed>,
    /// The parts of the source files that could not be read, and so are missing in the new files.
    pub damage: Vec<StoreError>,
}

/// The work of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Step {
    /// Nothing was to be done.
    #[default]
    Nothing,
    /// A segment of the log has become pieces.
    Segment {
        /// Its number.
        number: u64,
        /// Rows of it that are in pieces now.
        rows: u64,
    },
    /// Blocks of the log were turned into columns that stand beside it, so that questions about the last minutes read less.
    Bundled {
        /// How many were looked at.
        blocks: usize,
    },
    /// The pieces of a unit were merged into one. The pieces of an hour were also rolled up.
    Merged {
        /// The unit.
        unit: Unit,
        /// How many pieces it had.
        pieces: usize,
    },
    /// There was too little room for the step. The next step makes twice as much.
    NoRoom,
    /// The oldest segment of the log was dropped, because it was not possible to make columns of it.
    Dropped {
        /// The rows that it had.
        rows: u64,
    },
}

impl Tick {
    /// True if there is nothing to do for now.
    pub fn is_idle(&self) -> bool {
        self.step == Step::Nothing && self.removed.is_empty()
    }
}

/// The counters of compaction since the start.
#[derive(Debug, Default)]
pub struct StoreCounts {
    /// Rows that became columns.
    pub rows: AtomicU64,
    /// Rows that were dropped because they are older than what is kept.
    pub rows_too_old: AtomicU64,
    /// Rows that were dropped because they are more than an hour later than now.
    pub rows_too_new: AtomicU64,
    /// Units and parts of units that were removed.
    pub removed: AtomicU64,
    /// Steps that failed.
    pub failures: AtomicU64,
    /// The last failure, as text.
    pub last_failure: Mutex<Option<String>>,
}

impl StoreCounts {
    fn add(count: &AtomicU64, more: u64) {
        count.fetch_add(more, Ordering::Relaxed);
    }

    fn failed(&self, error: &StoreError) {
        Self::add(&self.failures, 1);
        let mut last = self.last_failure.lock().unwrap_or_else(PoisonError::into_inner);
        *last = Some(error.to_string());
    }
}

/// The log, for compaction: it is locked only for a moment.
#[derive(Debug)]
pub(crate) struct SharedLog {
    pub log: Mutex<Log>,
    pub view: LogView,
}

impl SharedLog {
    pub fn lock(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Compacts the files of a store. There is one.
#[derive(Debug)]
pub(crate) struct Compactor {
    disk: Disk,
    shelf: Arc<Shelf>,
    /// The rows of its files.
    census: Census,
    counts: Arc<StoreCounts>,
    keep: Keep,
    /// Hours that end before it have been removed.
    begin: Nanos,
    /// The unit whose removal is not yet written to its file.
    unwritten: Option<Unit>,
    /// Since when merged hours have further pieces.
    late: HashMap<Unit, Nanos>,
    /// Units that cannot be merged.
    left_alone: LeftAlone<Unit>,
    /// The oldest segment, and since when it waits for blocks that began in it.
    settling: Option<(u64, Nanos)>,
    /// Segments that cannot be made into pieces.
    bad_segments: LeftAlone<u64>,
    /// Nothing is written before this time.
    rest_until: Nanos,
    /// The room for the files of a step.
    room: Arc<Room>,
    /// Makes bundles of the log's blocks.
    bundler: Bundler,
    /// It makes none before this time.
    unbundled_until: Nanos,
    /// How often the room for the next step was too small. Each time, twice as much is made.
    tries: u32,
}

/// What comes next.
enum Task {
    Segment(u64),
    /// Blocks of the log become a bundle.
    Bundle,
    /// An hour is rolled up, and its pieces become one.
    Hour(Unit, Vec<Piece>),
    /// These pieces of a roll-up, which follow each other, become one.
    Merge(Unit, Vec<Piece>),
}

impl Compactor {
    pub fn new(
        shelf: Arc<Shelf>,
        disk: Disk,
        keep: Keep,
        counts: Arc<StoreCounts>,
        bundler: Bundler,
    ) -> Result<Self, StoreError> {
        let begin = keep::begin(&shelf.tier_folder(Tier::Raw))?;
        let room = disk.room();
        Ok(Compactor {
            disk,
            shelf,
            census: Census::default(),
            counts,
            keep,
            begin,
            unwritten: None,
            late: HashMap::new(),
            settling: None,
            left_alone: LeftAlone::default(),
            bad_segments: LeftAlone::default(),
            rest_until: Nanos(0),
            room,
            bundler,
            unbundled_until: Nanos(0),
            tries: 0,
        })
    }

    /// Does one step, if there is something to do.
    pub fn tick(&mut self, log: &SharedLog, now: Nanos) -> Result<Tick, StoreError> {
        let mut tick = Tick::default();
        let done = self.step(log, now, &mut tick);
        if let Err(error) = done {
            self.counts.failed(&error);
            return Err(error);
        }
        Ok(tick)
    }

    fn step(&mut self, log: &SharedLog, now: Nanos, tick: &mut Tick) -> Result<(), StoreError> {
        self.shelf.renew()?;
        log.view.count_lost(self.census.look(&self.shelf, &self.disk));
        let expired = self.keep.expired(&self.shelf.listing(), now);
        for unit in expired {
            self.remove_unit(unit, tick)?;
        }
        self.make_room(log, 0, now, tick)?;
        self.write_begin()?;
        if !tick.removed.is_empty() {
            return Ok(());
        }
        let is_resting = !is_over(self.rest_until, now);
        if (is_resting || !self.bad_segments.is_empty(now)) && self.drop_segment(log, tick)? {
            return Ok(());
        }
        let Some(task) = self.task(log, now).filter(|_| !is_resting) else { return Ok(()) };
        let needed = self.room_for(&task, log);
        self.make_room(log, needed, now, tick)?;
        if !tick.removed.is_empty() {
            // The task may be about what was removed.
            return Ok(());
        }
        self.set_room(log, needed);
        let done = self.carry_out(&task, log, now, tick);
        if done.is_err() && self.room.was_too_small() {
            self.tries += 1;
            tick.step = Step::NoRoom;
            return self.shelf.renew().map(drop);
        }
        self.tries = 0;
        if let Err(error) = &done {
            self.after_failure(&task, error, now);
        }
        // Also after a failure: some files may be new.
        self.shelf.renew()?;
        self.make_room(log, 0, now, tick)?;
        done
    }

    /// If the disk cannot be written, no other step makes sense now. Sources that cannot be read or understood are left alone.
    fn after_failure(&mut self, task: &Task, error: &StoreError, now: Nanos) {
        if error.is_of_disk() && !error.is_of_reading() {
            self.rest_until = Nanos(now.0.saturating_add(RETRY_WAIT.0));
            return;
        }
        match task {
            Task::Segment(number) => self.bad_segments.add(*number, error, now),
            // Its failures are its own.
            Task::Bundle => {}
            Task::Hour(unit, _) | Task::Merge(unit, _) => self.left_alone.add(*unit, error, now),
        }
    }

    /// If the log has taken half of the room and cannot be made columns of, its oldest segment goes.
    fn drop_segment(&mut self, log: &SharedLog, tick: &mut Tick) -> Result<bool, StoreError> {
        let mut log = log.lock();
        let Some(&oldest) = log.sealed().first() else { return Ok(false) };
        if log.bytes() <= self.keep.size.0 / 2 {
            return Ok(false);
        }
        tick.step = Step::Dropped { rows: log.drop_oldest()? };
        self.bad_segments.remove(&oldest);
        Ok(true)
    }

    /// The next task: the log first, so that it stays short.
    fn task(&mut self, log: &SharedLog, now: Nanos) -> Option<Task> {
        let sealed = log.lock().sealed();
        if let Some(&segment) = sealed.iter().find(|number| !self.bad_segments.has(number, now))
            && self.is_settled(segment, log, now)
        {
            return Some(Task::Segment(segment));
        }
        let may_bundle =
            is_over(self.unbundled_until, now) && self.keep.size.0 / BUNDLES_SHARE >= BUNDLE_BYTES as u64;
        if may_bundle && self.bundler.has_work() {
            return Some(Task::Bundle);
        }
        let listing = self.shelf.listing();
        if let Some(hour) = self.next_hour(&listing, now) {
            return Some(hour);
        }
        let most = self.keep.size.0 / PIECE_SHARE;
        let run = |(unit, pieces): (Unit, &[Piece])| {
            let is_alone = self.left_alone.has(&unit, now);
            let run = runs::next(pieces, most, keep::is_over(unit, now)).filter(|_| !is_alone)?;
            Some(Task::Merge(unit, run.to_vec()))
        };
        [Tier::Minute, Tier::Hour].into_iter().find_map(|tier| listing.whole(tier).find_map(run))
    }

    /// Whether the segment need not wait for blocks that began in it. A silent node's block may never end.
    fn is_settled(&mut self, segment: u64, log: &SharedLog, now: Nanos) -> bool {
        let since = match self.settling {
            Some((number, since)) if number == segment && since <= now => since,
            _ => now,
        };
        self.settling = Some((segment, since));
        now.0 - since.0 >= SETTLE_WAIT.0 || log.lock().is_settled(segment)
    }

    /// The first hour that must be rolled up and merged.
    fn next_hour(&mut self, listing: &Listing, now: Nanos) -> Option<Task> {
        self.late.retain(|unit, since| *since <= now && further(listing.of(*unit)) > 0);
        for (unit, pieces) in listing.whole(Tier::Raw) {
            let (further, is_merged) = (further(pieces), pieces[0].number == 0);
            let is_due = match (keep::is_over(unit, now), is_merged) {
                (false, _) => further > PIECES_MAX_BEFORE_END,
                (true, false) => true,
                (true, true) if further == 0 => false,
                (true, true) => {
                    let since = *self.late.entry(unit).or_insert(now);
                    further > PIECES_MAX || now.0 - since.0 >= LATE_WAIT.0
                }
            };
            if is_due && !self.left_alone.has(&unit, now) {
                self.late.remove(&unit);
                return Some(Task::Hour(unit, first(pieces)));
            }
        }
        None
    }

    /// Bytes that a task will write, as a rule. If they are more, the step ends, and the next one has twice the room.
    fn room_for(&self, task: &Task, log: &SharedLog) -> u64 {
        let bytes = |pieces: &[Piece]| pieces.iter().map(|piece| piece.bytes).sum::<u64>();
        let needed = match task {
            // The log has most rows twice, and less packed.
            Task::Segment(number) => log.lock().segment_bytes(*number) / 2,
            Task::Bundle => BUNDLE_BYTES as u64,
            Task::Merge(_, pieces) => bytes(pieces),
            // The merged file and its roll-ups.
            Task::Hour(_, pieces) => bytes(pieces) * 3 / 2,
        };
        needed.saturating_mul(1 << self.tries.min(32))
    }

    fn carry_out(
        &mut self,
        task: &Task,
        log: &SharedLog,
        now: Nanos,
        tick: &mut Tick,
    ) -> Result<(), StoreError> {
        match task {
            Task::Segment(number) => self.segment(*number, log, now, tick),
            Task::Bundle => {
                self.bundle(now, tick);
                Ok(())
            }
            Task::Hour(unit, pieces) => self.hour(*unit, pieces, tick),
            Task::Merge(unit, pieces) => self.merge(*unit, pieces, tick),
        }
    }

    /// So few blocks make a bundle.
    pub fn bundle_from(&mut self, least: usize) {
        self.bundler.least(least);
    }

    /// Makes a bundle. If that fails, nothing else waits for it: questions read the blocks.
    fn bundle(&mut self, now: Nanos, tick: &mut Tick) {
        match self.bundler.make() {
            Ok(0) => {}
            Ok(blocks) => tick.step = Step::Bundled { blocks },
            Err(error) => {
                self.unbundled_until = Nanos(now.0.saturating_add(RETRY_WAIT.0));
                self.counts.failed(&error);
            }
        }
    }

    fn segment(
        &mut self,
        number: u64,
        log: &SharedLog,
        now: Nanos,
        tick: &mut Tick,
    ) -> Result<(), StoreError> {
        let kept = self.keep.since(Tier::Raw, now).0;
        let since = self.begin.0.max(Tier::Raw.unit(Nanos(kept)).map_or(kept, |unit| unit.begin.0));
        let listing = self.shelf.listing();
        let window = since..now.0.saturating_add(FUTURE_MAX.0);
        let target = Target { disk: &self.disk, shelf: &self.shelf, listing: &listing, window };
        let taken = segment::compact(&target, &log.view, number, &mut tick.damage)?;
        // Readers must find the pieces before the log loses the rows.
        self.shelf.renew()?;
        tick.damage.append(&mut log.lock().remove(number)?);
        let Taken { rows, too_old, too_new } = taken;
        StoreCounts::add(&self.counts.rows, rows);
        StoreCounts::add(&self.counts.rows_too_old, too_old);
        StoreCounts::add(&self.counts.rows_too_new, too_new);
        tick.step = Step::Segment { number, rows };
        Ok(())
    }
}

/// Whether a rest is over. After a step back of the clock, its end may be far away.
fn is_over(rest_until: Nanos, now: Nanos) -> bool {
    now >= rest_until || rest_until.0 - now.0 > RETRY_WAIT.0
}

/// Pieces beyond the merged one.
fn further(pieces: &[Piece]) -> usize {
    pieces.iter().filter(|piece| piece.number > 0 && !piece.is_set_aside).count()
}

/// The pieces of an hour that are merged at a time: the lowest, so that all others still win over the result.
fn first(pieces: &[Piece]) -> Vec<Piece> {
    pieces.iter().take(FILES_MERGED).copied().collect()
}
