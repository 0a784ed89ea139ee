//! Updates that wait in memory: takes them, logs them, shows them; [`crate::queue`] decides when they are written.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::base::Base;
use crate::log::{Log, Ticket};
use crate::look::other_sources;
use crate::messages::Messages;
use crate::nodes::{Flags, Id};
use crate::open_files::OpenFiles;
use crate::record::{self, Entry};
use crate::stamp;
use crate::state::State;
use khz_rrd::error::{Error, Result, refused};
use khz_rrd::text;

/// When to write, and how much may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Seconds that updates wait before they are written.
    pub timeout: u32,
    /// Seconds added at random to the timeout, below this.
    pub delay: u32,
    /// Seconds between looks for files whose updates stopped.
    pub sweep: u32,
    /// Seconds over which files that finish a coarse row are spread; 0 for none.
    pub spread: u32,
    /// Bytes of updates in memory; beyond it nothing is taken.
    pub memory_max: u64,
    /// Files kept open.
    pub open_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { timeout: 300, delay: 0, sweep: 3600, spread: 1200, memory_max: 1 << 30, open_max: 10_000 }
    }
}

/// What STATS tells.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Stats {
    /// Files waiting to be written.
    pub queue: u64,
    /// UPDATE commands.
    pub received: u64,
    /// FLUSH commands.
    pub flushes: u64,
    /// Write calls.
    pub updates_written: u64,
    /// Samples written.
    pub sets_written: u64,
    /// Files known.
    pub nodes: u64,
    /// Samples waiting.
    pub waiting: u64,
    /// Seconds the oldest of them has waited.
    pub age: u64,
    /// Bytes of memory they and their files take.
    pub memory: u64,
    /// Writes that failed and were or are tried again.
    pub failures: u64,
    /// Files whose last write failed.
    pub failed_now: u64,
    /// Samples a file refused for good.
    pub refused: u64,
    /// Bytes of log not yet in files.
    pub log: u64,
    /// Whether the log of an earlier run is still being read.
    pub replaying: u64,
}

/// The waiting updates of all files.
pub struct Pending {
    pub(super) state: Mutex<State>,
    /// A claim ended, or replay did.
    pub(super) changed: Condvar,
    /// There is something to write.
    pub(super) work: Condvar,
    pub(super) log: Option<Log>,
    pub(super) limits: Limits,
    pub(super) base: Base,
    pub(super) open: OpenFiles,
    pub(super) messages: Messages,
    /// Taken while the log is renewed; whether the administrator was told that it is gone.
    pub(super) renewing: Mutex<bool>,
    started: Instant,
}

/// One UPDATE: a whole name and samples with blanks between them.
#[derive(Debug, Clone, Copy)]
pub struct Update<'a> {
    /// The file, as [`Base::name`] gives it.
    pub file: &'a str,
    /// The samples.
    pub samples: &'a str,
}

/// What is kept while updates that came together are taken.
pub(super) struct Intake {
    now: u32,
    /// The last of them in the log.
    ticket: Option<Ticket>,
    /// The file before.
    pub(super) before: Option<Id>,
}

impl Pending {
    /// Nothing waits yet; with a log, `replaying` says that its older segments are going to be replayed.
    pub fn new(base: Base, limits: Limits, log: Option<Log>, replaying: bool, messages: Messages) -> Self {
        let mut state = State { replaying, ..State::default() };
        // 0 stands for never.
        state.queue.epoch = 1;
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
            work: Condvar::new(),
            log,
            open: OpenFiles::new(limits.open_max),
            limits,
            base,
            messages,
            renewing: Mutex::default(),
            started: Instant::now(),
        }
    }

    /// What names mean here.
    pub fn base(&self) -> &Base {
        &self.base
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // Each change leaves the maps whole, so a thread that died holding the lock spoilt nothing.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until something changed.
    pub(super) fn wait<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.waiters += 1;
        let mut state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        state.waiters -= 1;
        state
    }

    pub(super) fn tell(&self, state: &State) {
        if state.waiters > 0 {
            self.changed.notify_all();
        }
    }

    /// The daemon's seconds; never 0, which stands for never.
    pub(super) fn now(&self) -> u32 {
        1 + self.started.elapsed().as_secs() as u32
    }

    /// Takes `updates` in their order. When this returns, what it counts survives the process. For each: how many of
    /// its samples were taken, or why the first one that was not.
    pub fn update(&self, updates: &[Update<'_>]) -> Vec<Result<usize>> {
        let bytes: usize = updates.iter().map(|update| update.file.len() + update.samples.len()).sum();
        let mut intake = Intake { now: self.now(), ticket: None, before: None };
        let mut state = self.lock();
        state.stats.received += updates.len() as u64;
        if let Err(error) = self.admit(&mut state, bytes as u64) {
            let text = error.to_string();
            return updates.iter().map(|_| refused(text.clone())).collect();
        }
        let mut outcomes = Vec::with_capacity(updates.len());
        for update in updates {
            let outcome;
            (state, outcome) = self.take(state, update, &mut intake);
            outcomes.push(outcome);
        }
        self.stage(&mut state, &mut intake);
        drop(state);
        if let (Some(log), Some(ticket)) = (&self.log, intake.ticket)
            && let Err(error) = self.commit_or_renew(log, ticket)
        {
            // They stay in memory and may reach their files, but nothing is promised.
            let text = error.to_string();
            self.messages.error(&text);
            return updates.iter().map(|_| refused(text.clone())).collect();
        }
        outcomes
    }

    fn admit(&self, state: &mut State, bytes: u64) -> Result<()> {
        let held = state.memory();
        if held + bytes > self.limits.memory_max {
            let (age, most) = (state.age(self.now()), self.limits.memory_max);
            return refused(format!(
                "{held} bytes of updates wait to be written, the oldest for {age} seconds; at most {most} are held"
            ));
        }
        let Some(log) = &self.log else { return Ok(()) };
        log.admit(bytes).map_err(|error| {
            Error::Refused(format!("{error}; the oldest waits for {} seconds", state.age(self.now())))
        })
    }

    /// Takes one update; gives the lock up while it looks at a new file.
    fn take<'a>(
        &'a self,
        state: MutexGuard<'a, State>,
        update: &Update<'_>,
        intake: &mut Intake,
    ) -> (MutexGuard<'a, State>, Result<usize>) {
        let (mut guard, id) = match self.know(state, update.file, intake) {
            (state, Ok(id)) => (state, id),
            (state, Err(error)) => return (state, Err(error)),
        };
        let state = &mut *guard;
        let readings = state.readings(id);
        let mut last = state.nodes[id].last;
        if state.replaying {
            last = last.max(state.later_last.get(&id).copied().unwrap_or(i64::MIN));
        }
        // What is taken, up to the first sample that cannot be.
        let (mut taken, mut end, mut wrong) = (0, 0, None);
        let start = update.samples.as_ptr() as usize;
        for sample in update.samples.split(' ').filter(|sample| !sample.is_empty()) {
            match stamp::checked(sample, last, readings) {
                Ok(stamp) => {
                    (last, taken) = (stamp, taken + 1);
                    end = sample.as_ptr() as usize + sample.len() - start;
                }
                Err(error) => {
                    wrong = Some(error);
                    break;
                }
            }
        }
        let samples = &update.samples[..end];
        let mut segment = 0;
        if let Some(log) = self.log.as_ref().filter(|_| taken > 0) {
            segment = log.current();
            if let Err(error) =
                record::encode(&Entry::Update { file: update.file, samples }, &mut state.records)
            {
                return (guard, Err(error));
            }
        }
        if state.replaying && taken > 0 {
            state.later.push((id, samples.into(), segment));
            state.later_last.insert(id, last);
            state.stats.waiting += taken as u64;
        } else if taken > 0 {
            state.append(id, samples, segment, intake.now);
            self.queue_if_due(state, id, intake.now);
        }
        let outcome = match wrong {
            Some(error) => Err(error),
            None if taken == 0 => refused("No values updated."),
            None => Ok(taken),
        };
        if outcome.is_err() && other_sources(state, id, update) {
            return self.take_anew(guard, update, intake, outcome);
        }
        (guard, outcome)
    }

    /// Somebody may have tuned or replaced the file: it is looked at anew before its update is refused for its number of
    /// readings.
    #[cold]
    fn take_anew<'a>(
        &'a self,
        state: MutexGuard<'a, State>,
        update: &Update<'_>,
        intake: &mut Intake,
        outcome: Result<usize>,
    ) -> (MutexGuard<'a, State>, Result<usize>) {
        match self.look_at(state, update.file, intake) {
            (state, Ok(id)) if !other_sources(&state, id, update) => self.take(state, update, intake),
            (state, _) => (state, outcome),
        }
    }

    /// Fixes the place in the log of what was taken. The lock must not be given up before: whoever has it then could
    /// stage newer samples of the same file.
    pub(super) fn stage(&self, state: &mut State, intake: &mut Intake) {
        if let Some(log) = self.log.as_ref().filter(|_| !state.records.is_empty()) {
            intake.ticket = Some(log.stage_all(&mut state.records));
        }
    }

    /// Holds back (or lets go) the writing of a file; whether that was new. `None` where nothing is known of it.
    pub fn suspend(&self, name: &str, suspended: bool) -> Option<bool> {
        let claim = self.claim(name);
        let id = claim.id?;
        let mut state = self.lock();
        if !state.nodes[id].is(Flags::KNOWN) {
            return None;
        }
        let new = state.nodes[id].is(Flags::SUSPENDED) != suspended;
        state.nodes[id].set(Flags::SUSPENDED, suspended);
        Some(new)
    }

    /// Holds back (or lets go) the writing of every file known; how many that changed.
    pub fn suspend_all(&self, suspended: bool) -> usize {
        let mut state = self.lock();
        let ids: Vec<Id> = state.nodes.ids().filter(|id| state.nodes[*id].is(Flags::KNOWN)).collect();
        let mut changed = 0;
        for id in ids {
            changed += usize::from(state.nodes[id].is(Flags::SUSPENDED) != suspended);
            state.nodes[id].set(Flags::SUSPENDED, suspended);
        }
        changed
    }

    /// The numbers of STATS, and the log's bytes and segments.
    pub fn stats(&self) -> (Stats, (u64, u64)) {
        let mut state = self.lock();
        let (queue, nodes) = (state.queue.len() as u64, state.nodes.len() as u64);
        let stats = Stats {
            queue,
            nodes,
            age: u64::from(state.age(self.now())),
            memory: state.memory(),
            failed_now: state.queue.retries.failed() as u64,
            log: self.log.as_ref().map_or(0, Log::bytes),
            replaying: u64::from(state.replaying),
            ..state.stats
        };
        (stats, self.log.as_ref().map_or((0, 0), Log::counts))
    }

    /// Files whose last write failed because they are not there; each is named once a failure.
    pub fn missing(&self) -> Vec<String> {
        let mut state = self.lock();
        let missing = state.queue.retries.missing();
        missing.into_iter().map(|id| state.nodes.name(id).to_string()).collect()
    }

    /// The stamp of the first sample that waits for the file called `name`, in microseconds.
    pub fn oldest(&self, name: &str) -> Option<i64> {
        let mut state = self.lock();
        loop {
            let id = state.nodes.find(name)?;
            if !state.nodes[id].is(Flags::CLAIMED) {
                return self.samples(&state, id).first().and_then(|sample| stamp::stamp(sample));
            }
            state = self.wait(state);
        }
    }

    /// Tells the administrator of `error`.
    pub fn report(&self, error: &Error) {
        self.messages.error(&error.to_string());
    }

    /// Ends the log's work: what is in files is synced and forgotten, the rest is synced where it is.
    ///
    /// # Errors
    /// The log failed.
    pub fn close(&self) -> Result<()> {
        let Some(log) = &self.log else { return Ok(()) };
        if !self.lock().replaying {
            self.checkpoint();
        }
        log.harden_all()
    }

    /// Why the log takes nothing at present.
    pub fn trouble(&self) -> Option<String> {
        self.log.as_ref().and_then(Log::trouble)
    }
}

/// An error with the place of the damage, where there is one.
pub(super) fn told(error: Error) -> Error {
    match error.place() {
        Some((path, offset)) => Error::Refused(format!("{error} ('{}' at byte {offset})", text::name(path))),
        None => error,
    }
}
