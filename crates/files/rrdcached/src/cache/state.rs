//! The daemon's memory behind one lock: its parts, and the operations on several of them. It takes no lock and does no I/O; it
//! returns the follow-up actions.

use super::backlog::{Backlog, FileFacts, FileId, Flags};
use super::counters::Counters;
use super::effects::{Effects, Wake};
use super::job::{Job, Written};
use super::queue::Queue;
use super::replay::Replay;
use super::schedule::Limits;
use super::torn::TornHeaders;
use super::writes::{End, Writes};
use khz_rrd::error::Error;

/// The parts.
#[derive(Default)]
pub struct State {
    pub backlog: Backlog,
    pub queue: Queue,
    pub writes: Writes,
    pub torn: TornHeaders,
    pub replay: Replay,
    pub counters: Counters,
    /// When silent files were last swept, in the daemon's seconds.
    pub swept: u32,
    /// Log records of updates taken and not staged yet; empty whenever the lock is free.
    pub unstaged: Vec<u8>,
}

/// Files.
impl State {
    /// Bytes of memory for files and samples.
    pub fn memory(&self) -> u64 {
        self.backlog.bytes() + self.torn.bytes() + self.replay.bytes()
    }

    /// How many samples wait.
    pub fn waiting(&self) -> u64 {
        self.backlog.waiting() + self.replay.waiting()
    }

    /// Remembers what the disk says of the file called `name`; `None` where no more files fit.
    pub fn learn(&mut self, name: &str, facts: &FileFacts) -> Option<FileId> {
        let id = self.backlog.learn(name, facts)?;
        match self.replay.is_running() {
            true => self.replay.note_newest(id, facts.newest),
            false => self.backlog.raise_newest(id, facts.newest),
        }
        Some(id)
    }

    /// The stamp that the next sample of a file must exceed.
    pub fn newest(&self, id: FileId) -> i64 {
        let newest = self.backlog.file(id).newest();
        self.replay.newest(id).map_or(newest, |deferred| deferred.max(newest))
    }

    /// Drops what waits for a file and what is known of it.
    pub fn forget(&mut self, id: FileId, now: u32) {
        self.backlog.forget(id, now);
        self.queue.succeeded(id);
    }

    /// Removes every file that nobody has updated for `limits.sweep` seconds, and queues those that have waited too long.
    pub fn sweep(&mut self, limits: &Limits, now: u32) -> Effects {
        let mut effects = Effects::default();
        for id in self.backlog.ids().collect::<Vec<_>>() {
            let file = self.backlog.file(id);
            let waited = now.saturating_sub(file.since());
            if file.is(Flags::QUEUED) || file.is(Flags::CLAIMED) || file.is(Flags::SUSPENDED) {
                continue;
            }
            if file.count() > 0 && waited >= limits.longest() {
                effects.wake(self.enqueue(id));
            } else if file.count() > 0 {
                // Not earlier than an update would queue it, or the sweep would queue all files at once.
                effects.wake(self.enqueue_if_due(limits, id, now));
            } else if waited >= limits.sweep {
                self.backlog.remove(id);
                effects.close.push(id);
            }
        }
        effects
    }
}

/// The queue.
impl State {
    /// Queues a file.
    pub fn enqueue(&mut self, id: FileId) -> Wake {
        self.backlog.set(id, Flags::QUEUED, true);
        self.queue.push(id)
    }

    /// Queues a file whose samples have waited long enough.
    pub fn enqueue_if_due(&mut self, limits: &Limits, id: FileId, now: u32) -> Wake {
        let file = self.backlog.file(id);
        if file.is(Flags::QUEUED) || file.is(Flags::SUSPENDED) || file.count() == 0 {
            return Wake::Nobody;
        }
        match limits.is_due(id, file, self.backlog.shape(id), now) {
            true => self.enqueue(id),
            false => Wake::Nobody,
        }
    }

    /// Queues every file that has samples.
    pub fn enqueue_all(&mut self) -> Wake {
        let waits = |id: &FileId| {
            let file = self.backlog.file(*id);
            file.count() > 0 && !file.is(Flags::QUEUED) && !file.is(Flags::SUSPENDED)
        };
        for id in self.backlog.ids().filter(waits).collect::<Vec<_>>() {
            let _ = self.enqueue(id);
        }
        Wake::All
    }
}

/// Writes.
impl State {
    /// Begins the write of a claimed file: takes its samples out.
    pub fn begin_write(&mut self, id: FileId) -> Job {
        self.writes.begin();
        Job::new(self, id)
    }

    /// Begins the next writes of one writer; none while the log is replayed or writes are paused.
    pub fn begin_writes(&mut self, now: u32) -> Vec<Job> {
        if self.replay.is_running() || self.writes.is_paused() {
            return vec![];
        }
        let is_ending = self.writes.ending().is_some();
        let chunk = self.queue.take_chunk(&mut self.backlog, now, is_ending);
        chunk.into_iter().map(|id| self.begin_write(id)).collect()
    }

    /// Accounts for a write. Samples that could not be written are put back, and their file is tried again.
    pub fn finish_write(&mut self, job: &mut Job, limits: &Limits, now: u32) -> Effects {
        let mut effects = Effects::default();
        self.writes.finish();
        job.settle(self);
        match &job.outcome {
            Ok(written) => self.account_written(job, written, now),
            Err(error) => effects.errors.extend(self.account_failed(job, error, now)),
        }
        if job.ends_claim {
            self.backlog.set(job.id, Flags::CLAIMED, false);
        }
        // At the daemon's end a file that failed is not tried again, or the end would never come.
        if job.outcome.is_ok() || self.writes.ending().is_none() {
            effects.wake(self.enqueue_if_due(limits, job.id, now));
        }
        effects
    }

    /// Whether the writers are to end.
    pub fn is_over(&self) -> bool {
        match self.writes.ending() {
            Some(End::Now) => true,
            Some(End::Written) => {
                !self.replay.is_running() && self.queue.len() == 0 && !self.writes.is_any_in_progress()
            }
            None => false,
        }
    }
}

impl State {
    fn account_written(&mut self, job: &Job, written: &Written, now: u32) {
        let refused = u64::from(written.refused);
        self.counters.refused += refused;
        self.counters.writes += 1;
        self.counters.samples_written += u64::from(job.taken.count()).saturating_sub(refused);
        self.queue.succeeded(job.id);
        self.backlog.written(job.id, &job.taken, written.newest, now);
    }

    /// Returns the message for the administrator.
    fn account_failed(&mut self, job: &Job, error: &Error, now: u32) -> Option<String> {
        self.counters.failures += 1;
        self.backlog.put_back(job.id, &job.taken);
        self.backlog.set(job.id, Flags::FAILED, true);
        if job.has_other_sources {
            // The file is inspected again before more is taken for it.
            self.backlog.set(job.id, Flags::KNOWN, false);
        }
        let is_news = self.queue.failed(job.id, error);
        if !self.backlog.file(job.id).is(Flags::QUEUED) && self.writes.ending().is_none() {
            self.backlog.set(job.id, Flags::QUEUED, true);
            self.queue.rest(job.id, now);
        }
        let count = job.taken.count();
        is_news.then(|| format!("{}: {count} updates are kept and tried again: {error}", job.name))
    }
}

#[cfg(test)]
mod tests {
    use khz_rrd::error::refused;

    use super::super::backlog::Shape;
    use super::*;
    use crate::log::Segment;

    const NOW: u32 = 1000;

    /// A state with one sample for one file, which is due.
    fn due(limits: &Limits) -> (State, FileId) {
        let mut state = State::default();
        let shape = Shape { readings: 1, step: 300, coarse: 0 };
        let facts = FileFacts { newest: 0, shape, place: 0, device: 0 };
        let id = state.learn("a.rrd", &facts).unwrap();
        state.backlog.append(id, "300:1", Segment::new(1), NOW);
        assert_eq!(state.enqueue_if_due(limits, id, NOW), Wake::One);
        (state, id)
    }

    fn write(state: &mut State, limits: &Limits, now: u32, outcome: khz_rrd::Result<Written>) -> Effects {
        let mut jobs = state.begin_writes(now);
        jobs[0].outcome = outcome;
        state.finish_write(&mut jobs[0], limits, now)
    }

    #[test]
    fn a_write_that_fails_is_reported_once_and_tried_again_when_its_file_has_rested() {
        let limits = Limits { timeout: 0, ..Limits::default() };
        let (mut state, id) = due(&limits);
        let effects = write(&mut state, &limits, NOW, refused("locked"));
        assert_eq!(effects.errors, ["a.rrd: 1 updates are kept and tried again: locked"]);
        assert_eq!((state.backlog.samples(id), state.queue.len()), (vec!["300:1".into()], 1));
        assert!(state.begin_writes(NOW + 9).is_empty());
        let effects = write(&mut state, &limits, NOW + 10, refused("locked"));
        assert!(effects.errors.is_empty() && state.begin_writes(NOW + 29).is_empty());
        let written = Written { refused: 0, why_refused: None, newest: 300_000_000 };
        let _ = write(&mut state, &limits, NOW + 30, Ok(written));
        assert_eq!((state.waiting(), state.queue.len()), (0, 0));
    }

    #[test]
    fn a_segment_is_needed_until_the_checkpoint_after_the_write() {
        let limits = Limits { timeout: 0, ..Limits::default() };
        let (mut state, _) = due(&limits);
        assert!(!state.backlog.is_all_written());
        let _ = write(
            &mut state,
            &limits,
            NOW,
            Ok(Written { refused: 0, why_refused: None, newest: 300_000_000 }),
        );
        assert!(state.backlog.is_all_written());
        assert_eq!(state.backlog.oldest_segment(), Segment::new(1));
        let pins = state.backlog.begin_checkpoint();
        state.backlog.end_checkpoint(pins, true);
        assert_eq!(state.backlog.oldest_segment(), None);
    }

    #[test]
    fn what_comes_during_replay_counts_and_is_not_written() {
        let limits = Limits { timeout: 0, ..Limits::default() };
        let (mut state, id) = due(&limits);
        state.replay = Replay::new(true);
        state.replay.defer(id, "600:1 900:2", Segment::new(1), 900_000_000);
        assert_eq!((state.waiting(), state.newest(id)), (3, 900_000_000));
        assert!(state.begin_writes(NOW).is_empty());
    }

    #[test]
    fn a_file_that_nobody_updates_goes_with_a_sweep_unless_somebody_needs_it() {
        let limits = Limits { timeout: 300, spread: 0, sweep: 3600, ..Limits::default() };
        let mut state = State::default();
        let facts = FileFacts { newest: 0, shape: Shape::default(), place: 0, device: 0 };
        let ids = ["silent", "claimed", "suspended", "queued"].map(|name| state.learn(name, &facts).unwrap());
        for id in ids {
            state.backlog.forget(id, NOW);
            state.backlog.set(id, Flags::KNOWN, true);
        }
        state.backlog.set(ids[1], Flags::CLAIMED, true);
        state.backlog.set(ids[2], Flags::SUSPENDED, true);
        state.backlog.set(ids[3], Flags::QUEUED, true);
        assert_eq!(state.sweep(&limits, NOW + 3599).close, []);
        let effects = state.sweep(&limits, NOW + 3600);
        assert_eq!((effects.close, effects.wake), (vec![ids[0]], Wake::Nobody));
        assert_eq!((state.backlog.find("silent"), state.backlog.len()), (None, 3));
    }

    #[test]
    fn a_sweep_queues_what_is_due_and_after_the_longest_time_what_is_spread_out_as_well() {
        let limits = Limits { timeout: 300, delay: 0, spread: 1200, ..Limits::default() };
        let mut state = State::default();
        let shape = Shape { readings: 1, step: 300, coarse: 3600 };
        let facts = FileFacts { newest: 3_300_000_000, shape, place: 0, device: 0 };
        // The second finishes a coarse row with its sample.
        for (name, sample) in [("plain", "3599:1"), ("coarse", "3600:1")] {
            let id = state.learn(name, &facts).unwrap();
            state.backlog.append(id, sample, None, NOW);
        }
        let queued = |state: &State| {
            state.queue.ids().map(|id| state.backlog.name(id).to_string()).collect::<Vec<_>>()
        };
        assert_eq!(state.sweep(&limits, NOW + 299).wake, Wake::Nobody);
        assert_eq!(state.sweep(&limits, NOW + 300).wake, Wake::One);
        assert_eq!(queued(&state), ["plain"]);
        let _ = state.sweep(&limits, NOW + 1499);
        assert_eq!(queued(&state), ["plain"]);
        let _ = state.sweep(&limits, NOW + 1500);
        assert_eq!(queued(&state), ["plain", "coarse"]);
    }

    #[test]
    fn a_queued_file_is_not_written_while_it_is_claimed_or_suspended() {
        let limits = Limits { timeout: 0, ..Limits::default() };
        let (mut state, id) = due(&limits);
        state.backlog.set(id, Flags::CLAIMED, true);
        assert!(state.begin_writes(NOW).is_empty());
        assert_eq!(state.queue.len(), 1);
        state.backlog.set(id, Flags::CLAIMED, false);
        // It is tried again a moment later.
        assert!(state.begin_writes(NOW).is_empty());
        state.backlog.set(id, Flags::SUSPENDED, true);
        assert!(state.begin_writes(NOW + 1).is_empty());
        assert_eq!((state.queue.len(), state.enqueue_if_due(&limits, id, NOW + 1)), (0, Wake::Nobody));
        let _ = state.enqueue_all();
        assert_eq!(state.queue.len(), 0);
        state.backlog.set(id, Flags::SUSPENDED, false);
        assert_eq!(state.enqueue_if_due(&limits, id, NOW + 1), Wake::One);
        assert_eq!(state.begin_writes(NOW + 1).iter().map(|job| job.id).collect::<Vec<_>>(), [id]);
    }

    #[test]
    fn at_the_end_all_that_waits_is_tried_once_and_what_fails_is_left_to_the_log() {
        let limits = Limits { timeout: 0, ..Limits::default() };
        let (mut state, id) = due(&limits);
        assert!(!state.is_over());
        state.writes.end(End::Written);
        assert!(!state.is_over(), "a file is queued");
        let mut jobs = state.begin_writes(NOW);
        assert!(!state.is_over(), "it is being written");
        jobs[0].outcome = refused("locked");
        let _ = state.finish_write(&mut jobs[0], &limits, NOW);
        // What is due is queued, and nothing queues it again after its failure.
        let left: Vec<_> = state.begin_writes(NOW).iter().map(|job| job.id).collect();
        assert_eq!((left, state.waiting()), (vec![], 1));
        assert_eq!(state.backlog.samples(id), ["300:1"]);
        assert!(state.is_over());
        state.replay = Replay::new(true);
        assert!(!state.is_over(), "the log is still read");
        state.writes.end(End::Now);
        assert!(state.is_over());
    }

    #[test]
    fn samples_that_a_file_refused_are_counted_apart_from_those_written() {
        let limits = Limits { timeout: 0, ..Limits::default() };
        let (mut state, id) = due(&limits);
        state.backlog.append(id, "600:x 900:1", Segment::new(1), NOW);
        let why_refused = Some("not a number".into());
        let written = Written { refused: 1, why_refused, newest: 900_000_000 };
        let _ = write(&mut state, &limits, NOW, Ok(written));
        let counters = state.counters;
        assert_eq!((counters.writes, counters.samples_written, counters.refused), (1, 2, 1));
    }
}
